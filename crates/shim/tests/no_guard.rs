//! A guard kernel that cannot be: it is said once, and canaries of buffers and
//! of the device heap are looked at after launches instead.

mod support;

use model::layout::guard::{GUARD_CONTROL, GUARD_CONTROL_SIZE};
use std::path::PathBuf;
use std::sync::OnceLock;
use support::{build, rules, run_with};

const MESSAGE: &str = "the guard kernel cannot stay on the device";

fn run(twin: &str) -> (String, String) {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| build(&["-arch=sm_75", "-g"], "no_guard.cu"));
    let (place, bytes) = (GUARD_CONTROL.to_string(), GUARD_CONTROL_SIZE.to_string());
    let arguments = [twin, &place, &bytes];
    let (stdout, stderr, output) = run_with(program, &arguments, "protect=watch");
    assert!(output.status.success(), "{stdout}{stderr}");
    (stdout, stderr)
}

#[test]
fn a_right_program_gets_its_memory_back_and_no_finding() {
    let (stdout, stderr) = run("good");
    assert_eq!(stdout, "missing 0\n", "{stderr}");
    assert_eq!(rules(&stderr), [""; 0], "{stderr}");
    assert_eq!(stderr.matches(MESSAGE).count(), 1, "{stderr}");
}

#[test]
fn what_is_overwritten_is_found_after_the_launch() {
    let (stdout, stderr) = run("bad");
    assert_eq!(stdout, "missing 0\n", "{stderr}");
    assert_eq!(rules(&stderr), ["canary-overwritten"; 2], "{stderr}");
    assert_eq!(stderr.matches(MESSAGE).count(), 1, "{stderr}");
    let block = "by kernel keep(char**, unsigned long, int), launch 11";
    assert!(stderr.contains(block), "{stderr}");
    assert!(stderr.contains("of 65,000 bytes"), "{stderr}");
    assert!(stderr.contains("by kernel overrun(int*, int)"), "{stderr}");
    assert!(stderr.contains("of 400 bytes"), "{stderr}");
}
