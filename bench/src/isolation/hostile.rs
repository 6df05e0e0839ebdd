//! The program `attacker`, as a tenant.

use super::neighbour::Neighbour;
use super::process::Program;
use super::{Bench, Made};
use anyhow::{Context, Result, ensure};
use std::process::Command;
use std::time::Duration;

/// How long one program may take to start, and to end.
const LONG: Duration = Duration::from_secs(30);

/// Processes that are started for one attack, where each ends with its first
/// failure.
const PROCESSES: usize = 4;
/// Attempts that are made at least, where they do not end the program.
const ATTEMPTS: u64 = 48;
/// Processes that are killed at one place.
const KILLED: u64 = 6;

/// The number behind a word, of all lines.
fn sum(program: &Program, word: &str) -> u64 {
    let lines = program.lines();
    let numbers = lines.iter().filter_map(|line| {
        let rest = line.text.strip_prefix(word)?;
        rest.trim().parse::<u64>().ok()
    });
    numbers.sum()
}

fn add(made: &mut Made, program: &Program) {
    made.attempts += sum(program, "attempts ");
    made.leaked += sum(program, "leaked ");
    let lines = program.lines();
    let refused = lines
        .iter()
        .filter(|line| line.text.starts_with("refused "));
    made.refused += refused.count() as u64;
}

fn command(bench: &Bench<'_>, neighbour: &Neighbour, group: &str, name: &str) -> Command {
    let memory = neighbour.memory;
    // (Partitions of at most 4 GiB begin at multiples of 4 GiB.)
    let partition = memory.secret & !0xffff_ffff;
    let mut command = bench.tenant("attacker");
    command.args([group, name]).args(bench.options.size());
    for (option, number) in [
        ("--secret", memory.secret),
        ("--integers", memory.integers),
        ("--floats", memory.floats),
        ("--bytes", memory.bytes),
        ("--partition", partition),
    ] {
        command.args([option, &number.to_string()]);
    }
    command
}

/// Makes an attack.
///
/// # Errors
///
/// The program does not start, or does not do what it should.
pub fn run(bench: &Bench<'_>, neighbour: &mut Neighbour, group: &str, name: &str) -> Result<Made> {
    let mut made = Made::default();
    if group == "residues" {
        // A neighbour that has come and gone.
        let mut gone = bench.tenant("neighbour");
        gone.args(["--rounds", "2"]).args(bench.options.size());
        super::neighbour::alone(&mut gone, 2)?;
    }
    for _ in 0..PROCESSES {
        let mut command = command(bench, neighbour, group, name);
        let left = ATTEMPTS.saturating_sub(made.attempts).max(1).to_string();
        command.args(["--first", &made.attempts.to_string()]).args([
            "--attempts",
            &left,
            "--milliseconds",
            "300",
        ]);
        let mut program = Program::start(&mut command)?;
        let has_ended = program.wait_for(LONG, |program| program.ended().is_some());
        ensure!(has_ended, "the attacker does not end");
        program.wait_for(Duration::from_millis(500), |program| {
            sum(program, "attempts ") > 0
        });
        ensure!(
            sum(&program, "attempts ") > 0,
            "the attacker made no attempt: {}",
            program.errors().join("; ")
        );
        add(&mut made, &program);
        if made.attempts >= ATTEMPTS {
            break;
        }
    }
    Ok(made)
}

/// Makes an attack that goes on until it is ended, by several tenants.
///
/// # Errors
///
/// A program does not start, or ends by itself.
pub fn endless(
    bench: &Bench<'_>,
    neighbour: &mut Neighbour,
    (group, name): (&str, &str),
    tenants: usize,
) -> Result<Made> {
    let mut made = Made::default();
    let mut programs = Vec::new();
    for _ in 0..tenants {
        let mut command = command(bench, neighbour, group, name);
        if tenants > 1 {
            command.arg("--at-a-word");
        }
        let mut program = Program::start(&mut command)?;
        if tenants > 1 {
            wait_for_line(&mut program, "loaded")?;
        }
        programs.push(program);
    }
    if tenants > 1 {
        programs
            .iter_mut()
            .try_for_each(|program| program.say("go"))?;
    }
    for program in &mut programs {
        wait_until_it_runs(program)?;
    }
    std::thread::sleep(bench.options.hold(tenants));
    neighbour.goes_on(3);
    for mut program in programs {
        ensure!(
            program.ended().is_none(),
            "the attacker has ended by itself: {}",
            program.error()
        );
        program.kill();
        add(&mut made, &program);
    }
    Ok(made)
}

fn wait_until_it_runs(program: &mut Program) -> Result<()> {
    wait_for_line(program, "running")
}

fn wait_for_line(program: &mut Program, text: &str) -> Result<()> {
    let is_there = program.wait_for(LONG, |program| {
        let lines = program.lines();
        lines.iter().any(|line| line.text == text) || program.ended().is_some()
    });
    ensure!(
        is_there && program.ended().is_none(),
        "the attacker does not run: {}",
        program.error()
    );
    Ok(())
}

/// Kills programs in the middle of something.
///
/// # Errors
///
/// A program does not start.
pub fn killed(bench: &Bench<'_>, neighbour: &mut Neighbour, what: &str) -> Result<Made> {
    let mut made = Made::default();
    for round in 0..KILLED {
        let mut program = Program::start(&mut command(bench, neighbour, "kill", what))?;
        wait_until_it_runs(&mut program)
            .with_context(|| format!("{what}, process {}", round + 1))?;
        std::thread::sleep(Duration::from_millis(3 + 11 * round));
        ensure!(
            program.ended().is_none(),
            "the attacker has ended by itself: {}",
            program.error()
        );
        program.kill();
        add(&mut made, &program);
        neighbour.goes_on(1);
    }
    Ok(made)
}
