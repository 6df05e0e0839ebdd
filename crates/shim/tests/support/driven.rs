//! Tenants of a manager that do what the lines say that they are sent.
#![allow(dead_code, reason = "each test binary uses a part")]

use crate::support::library;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// A tenant, until this is dropped.
pub struct Tenant {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Tenant {
    /// Starts a program that says `ready`. Its code is loaded when this returns:
    /// nobody loads beside endless kernels.
    pub fn start(program: &Path, socket: &Path) -> Tenant {
        Tenant::start_with(program, &[], socket)
    }

    /// As [`Tenant::start`], with arguments.
    pub fn start_with(program: &Path, arguments: &[&str], socket: &Path) -> Tenant {
        let mut child = Command::new(program)
            .args(arguments)
            .env("LD_PRELOAD", library())
            .env(
                "RINGFENCE_OPTIONS",
                format!("device=tenant:socket={}", socket.display()),
            )
            .env_remove("RINGFENCE_SETTINGS")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut tenant = Tenant { child, out };
        assert_eq!(tenant.line(), "ready");
        tenant
    }

    /// The next line that it says.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// Whether it has not ended.
    pub fn is_there(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends it a line.
    pub fn send(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        writeln!(input, "{line}").expect("sent");
    }

    /// Sends it a line; what it says to that.
    pub fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.line()
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
