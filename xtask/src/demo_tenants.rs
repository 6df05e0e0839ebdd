//! The part of the demo with two tenants of one device: a program that computes,
//! and one that attacks it by all that it can.

use crate::build::Built;
use crate::bundle;
use crate::workspace::{root, target};
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use suite::compile::Toolchain;
use suite::process;

/// Rounds that the good tenant computes, of which each takes some milliseconds.
const ROUNDS: &str = "400";

/// Attacks, by group and name, as the program `attacker` has them.
const ATTACKS: [[&str; 2]; 5] = [
    ["accesses", "neighbour (write)"],
    ["accesses", "neighbour (read)"],
    ["accesses", "misaligned"],
    ["ends", "trap"],
    ["copies", "memset"],
];

/// For one program.
const LIMIT: Duration = Duration::from_secs(120);

/// A process group that is ended with this.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.0.wait();
    }
}

/// Runs it, and shows what both tenants say.
///
/// # Errors
///
/// Something cannot be built, or the good tenant computes something else than
/// alone.
pub fn run(built: &Built, toolchain: &Toolchain) -> Result<()> {
    let folder = target().join("demo");
    let jobs = bundle::isolation(&folder);
    for job in &jobs {
        toolchain.compile(job, &[root().join("suite/cases/include")])?;
    }
    let socket = folder.join("manager.sock");
    println!(
        "\n$ ringfence manager --device cpu --socket {} &",
        socket.display()
    );
    let mut manager = Command::new(&built.command);
    manager
        .args(["manager", "--device", "cpu", "--socket"])
        .arg(&socket);
    let mut manager = start(&mut manager, |command| command.stderr(Stdio::piped()))?;
    let errors = manager.0.stderr.take().context("no pipe")?;
    let (line, _rest) = first_lines(errors, "takes tenants at")?;
    println!("{}", line.last().map_or("", String::as_str));

    let neighbour = folder.join("neighbour");
    let alone = tenant(built, &socket, &neighbour, &["--rounds", ROUNDS]);
    let alone = output(alone)?;
    let rounds = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("round "));
        lines.map(Into::into).collect()
    };

    println!("$ ringfence run --device tenant -- neighbour &");
    let mut good = tenant(built, &socket, &neighbour, &["--rounds", ROUNDS]);
    let mut good = start(&mut good, |command| command.stdout(Stdio::piped()))?;
    let (first, rest) = first_lines(good.0.stdout.take().context("no pipe")?, "round 0 ")?;
    let beside = std::thread::spawn(move || rest.lines().map_while(Result::ok).collect::<Vec<_>>());
    let mut addresses = Vec::new();
    for line in &first {
        if let ["memory", name, address, bytes] = line.split(' ').collect::<Vec<_>>()[..] {
            addresses.extend([format!("--{name}"), address.into()]);
            if name == "secret" {
                addresses.extend(["--bytes".into(), bytes.into()]);
            }
        }
    }
    for [group, name] in ATTACKS {
        println!("$ ringfence run --device tenant -- attacker {group} '{name}' --secret ...");
        let mut arguments = vec![group, name, "--attempts", "8"];
        arguments.extend(addresses.iter().map(String::as_str));
        let said = output(tenant(built, &socket, &folder.join("attacker"), &arguments))?;
        ensure!(
            !said.contains("leaked"),
            "the attacker has read its neighbour's memory"
        );
        println!("{}", said.lines().last().unwrap_or_default());
    }
    let status = good.0.wait()?;
    let mut lines = first;
    lines.extend(beside.join().unwrap_or_default());
    let lines = rounds(&lines.join("\n"));
    ensure!(
        status.success() && lines == rounds(&alone),
        "the good tenant was harmed: it ended with {status}, and computed {} rounds",
        lines.len()
    );
    println!(
        "\nThe good tenant ended with {status}; each of its {} rounds gave what it gives alone.",
        lines.len()
    );
    Ok(())
}

/// A program as a tenant.
fn tenant(built: &Built, socket: &Path, program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(&built.command);
    command
        .args(["run", "--device", "tenant", "--socket"])
        .arg(socket)
        .arg("--")
        .arg(program)
        .args(arguments);
    command
}

/// Starts a process group.
fn start(command: &mut Command, set: impl Fn(&mut Command) -> &mut Command) -> Result<Ending> {
    let command = command.stdin(Stdio::null()).process_group(0);
    let child = set(command).spawn();
    let program = command.get_program().display();
    Ok(Ending(
        child.with_context(|| format!("failed to start {program}"))?,
    ))
}

/// What a program writes, which ends well.
fn output(mut command: Command) -> Result<String> {
    let outcome = process::run(&mut command, LIMIT)?;
    ensure!(
        outcome.code() == Some(0),
        "a tenant {}: {}",
        outcome.describe(),
        outcome.stderr.trim()
    );
    Ok(outcome.stdout)
}

/// Reads lines until one contains this; those, and what comes behind them.
fn first_lines<R: Read>(pipe: R, part: &str) -> Result<(Vec<String>, BufReader<R>)> {
    let mut reader = BufReader::new(pipe);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        let bytes = reader.read_line(&mut line)?;
        ensure!(bytes > 0, "a program ended early: {}", lines.join("\n"));
        lines.push(line.trim_end().to_owned());
        if line.contains(part) {
            return Ok((lines, reader));
        }
    }
}
