//! A program ends with its launcher, and what it has started does not.

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::library;

/// A shell in the place of `ringfence run`: it starts a program with the library,
/// says what it said, and waits for it.
fn launcher(variable: &str, program: &str) -> (Child, Vec<u32>) {
    let script = format!(
        "RINGFENCE_LAUNCHER=\"{variable}\" LD_PRELOAD={} sh -c '{program}' & wait",
        library().display()
    );
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .env_remove("RINGFENCE_LAUNCHER")
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut line = String::new();
    let out = child.stdout.take().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let processes = line.split_whitespace();
    let processes = processes.map(|number| number.parse().expect("a number"));
    (child, processes.collect())
}

/// Whether a process runs. (Its parent may not ask how it ended for a while.)
fn runs(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

fn ends(process: u32) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        if !runs(process) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

fn kill(process: u32) {
    let _ = Command::new("kill")
        .args(["-KILL", &process.to_string()])
        .status();
}

const ITSELF: &str = "$$ $(cat /proc/$$/comm)";

#[test]
fn a_program_ends_with_its_launcher_and_its_children_do_not() {
    let (mut launcher, processes) = launcher(ITSELF, "sleep 300 & echo $$ $!; wait");
    let [program, child] = processes[..] else {
        panic!("{processes:?}");
    };
    assert!(runs(program) && runs(child));
    launcher.kill().expect("killed");
    assert!(ends(program));
    // What it has started would have to end with it by itself.
    std::thread::sleep(Duration::from_millis(200));
    assert!(runs(child));
    kill(child);
    launcher.wait().expect("ended");
}

#[test]
fn who_is_started_by_somebody_else_lives_on() {
    for variable in ["1 init", "$$ another", "$$", "", "x y"] {
        let (mut launcher, processes) = launcher(variable, "echo $$; exec sleep 300");
        launcher.kill().expect("killed");
        launcher.wait().expect("ended");
        std::thread::sleep(Duration::from_millis(300));
        assert!(runs(processes[0]), "{variable}");
        kill(processes[0]);
    }
}
