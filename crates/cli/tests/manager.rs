//! `ringfence manager`, and what `run --device tenant` refuses before a program
//! starts.

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use support::Scratch;

/// Ends a manager when the test ends.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A manager that is ready.
fn manager(scratch: &Scratch, socket: &str) -> Ending {
    let arguments = ["manager", "--device", "cpu", "--socket", socket];
    let mut command = scratch.command(arguments);
    let mut manager = Ending(command.stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(manager.0.stderr.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(line.contains("takes tenants at"), "{line}");
    // It writes more lines, which somebody has to read.
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    manager
}

#[test]
fn a_socket_has_one_manager() {
    let scratch = Scratch::new();
    let socket = scratch.path("manager.sock");
    let socket = socket.to_str().unwrap();
    let second = ["manager", "--device", "cpu", "--socket", socket];
    let first = manager(&scratch, socket);
    let outcome = scratch.ringfence(second);
    outcome.assert_error(&["another manager has the socket", socket]);
    // One that was killed leaves its socket, which the next one takes over.
    drop(first);
    assert!(scratch.path("manager.sock").exists());
    drop(manager(&scratch, socket));
}

#[test]
fn what_a_manager_cannot_do_is_one_error() {
    let scratch = Scratch::new();
    let file = scratch.write("file", "");
    let file = file.to_str().unwrap();
    let missing = scratch.path("no/manager.sock");
    let missing = missing.to_str().unwrap();
    let socket = scratch.path("manager.sock");
    let socket = socket.to_str().unwrap();
    let start = ["manager", "--device", "cpu", "--socket"];
    let with = |more: &[&str]| scratch.ringfence(start.iter().chain(more));
    with(&[file]).assert_error(&["is no socket", file]);
    with(&[missing]).assert_error(&["cannot be made", missing]);
    for memory in ["0", "18446744073709551615"] {
        let outcome = with(&[socket, "--memory-per-tenant", memory]);
        outcome.assert_error(&["cannot have", memory, "--memory-per-tenant"]);
    }
    let outcome = with(&[socket, "--memory-per-tenant", "much"]);
    assert_eq!(outcome.code, Some(96));
    assert!(
        outcome.stderr.contains("a number of bytes"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn what_is_not_done_for_a_tenant_is_refused() {
    let scratch = Scratch::new();
    let program = scratch.executable("program", "#!/bin/sh\nexit 3\n");
    let program = program.to_str().unwrap();
    for (option, value) in [
        ("--protect", "bounds"),
        ("--protect", "bounds,canary"),
        ("--leak-check", "full"),
        ("--json", "report.json"),
        ("--time-kernels", "times.json"),
    ] {
        let arguments = ["run", "--device", "tenant", option, value, "--", program];
        let outcome = scratch.ringfence(arguments);
        outcome.assert_error(&[option, "does not work with --device tenant"]);
    }
    // Without these it runs; that it calls nothing of CUDA is no error here.
    let outcome = scratch.ringfence(["run", "--device", "tenant", "--", program]);
    assert_eq!(outcome.code, Some(3), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("ran as a tenant"),
        "{}",
        outcome.stderr
    );
}
