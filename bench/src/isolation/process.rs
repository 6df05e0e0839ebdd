//! Processes that are ended with all that they have started, and whose lines are
//! read while they run.

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often is looked.
pub const LOOK: Duration = Duration::from_millis(5);

/// A line, and when it was read.
#[derive(Clone, Debug)]
pub struct Line {
    /// When.
    pub at: Instant,
    /// Without its end.
    pub text: String,
}

type Lines = Arc<Mutex<Vec<Line>>>;

/// A program in a process group of its own.
pub struct Program {
    child: Child,
    input: Option<ChildStdin>,
    out: Lines,
    errors: Lines,
    status: Option<ExitStatus>,
}

impl Program {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub fn start(command: &mut Command) -> Result<Program> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("failed to start {}", command.get_program().display()))?;
        let out = read(child.stdout.take().context("no pipe for its output")?);
        let errors = read(child.stderr.take().context("no pipe for its errors")?);
        Ok(Program {
            input: child.stdin.take(),
            child,
            out,
            errors,
            status: None,
        })
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to standard output so far.
    pub fn lines(&self) -> Vec<Line> {
        self.out
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// What it has written to standard error so far.
    pub fn errors(&self) -> Vec<String> {
        let lines = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(|line| line.text.clone()).collect()
    }

    /// The last line of its standard error that says something.
    pub fn error(&self) -> String {
        let lines = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let said = lines.iter().rev().find(|line| !line.text.trim().is_empty());
        said.map_or(String::new(), |line| line.text.clone())
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().unwrap_or_default();
        }
        self.status
    }

    /// Sends a line to its standard input.
    ///
    /// # Errors
    ///
    /// It does not take it.
    pub fn say(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().context("its input has ended")?;
        writeln!(input, "{line}").context("it takes no line")
    }

    /// Ends its standard input.
    pub fn end_input(&mut self) {
        self.input = None;
    }

    /// Waits until it says that something is so, at most so long; whether it is.
    pub fn wait_for(
        &mut self,
        limit: Duration,
        mut is_so: impl FnMut(&mut Program) -> bool,
    ) -> bool {
        let start = Instant::now();
        loop {
            if is_so(self) {
                return true;
            }
            if start.elapsed() > limit {
                return false;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Kills it, and all that it has started.
    pub fn kill(&mut self) {
        if self.ended().is_none() {
            // The group's id is the child's, which is not reaped yet, so no
            // other process has it.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            self.status = self.child.wait().ok();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

fn read(pipe: impl Read + Send + 'static) -> Lines {
    let lines = Lines::default();
    let kept = Arc::clone(&lines);
    std::thread::spawn(move || {
        for text in BufReader::new(pipe).lines() {
            let Ok(text) = text else { return };
            let at = Instant::now();
            let mut lines = kept.lock().unwrap_or_else(PoisonError::into_inner);
            lines.push(Line { at, text });
        }
    });
    lines
}
