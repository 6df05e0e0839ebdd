//! Runs a program with a deadline and keeps what it wrote.
//!
//! The program gets a process group of its own and the whole group ends with
//! the deadline, so that what `ringfence run` started does not outlive it.

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What a program left.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended; `None`: the deadline passed and it was killed.
    pub status: Option<ExitStatus>,
    /// Standard output, lossily decoded.
    pub stdout: String,
    /// Standard error, lossily decoded.
    pub stderr: String,
    /// Wall time.
    pub elapsed: Duration,
}

impl Outcome {
    /// Exit code; `None` after a signal or the deadline.
    pub fn code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }

    /// How it ended, for people.
    pub fn describe(&self) -> String {
        match self.status {
            None => format!("ran past its {:.0} s", self.elapsed.as_secs_f64()),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exited with {code}"),
                (None, Some(signal)) => format!("was ended by signal {signal}"),
                (None, None) => "ended in an unknown way".into(),
            },
        }
    }
}

/// Runs `command`, at most for `limit`.
///
/// # Errors
///
/// It cannot be started, or its output cannot be read.
pub fn run(command: &mut Command, limit: Duration) -> Result<Outcome> {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("failed to start {}", command.get_program().display()))?;
    let readers = [
        drain(child.stdout.take().context("no pipe for its output")?),
        drain(child.stderr.take().context("no pipe for its errors")?),
    ];
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if start.elapsed() > limit {
            // The group's id is the child's, which is not reaped yet, so no
            // other process has it.
            kill_process_group(Pid::from_child(&child), Signal::KILL)?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let [stdout, stderr] = readers.map(|reader| reader.join().unwrap_or_default());
    Ok(Outcome {
        status,
        stdout,
        stderr,
        elapsed: start.elapsed(),
    })
}

fn drain(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A broken pipe ends the output; what was read before counts.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_code_are_kept() {
        let outcome = run(
            Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]),
            Duration::from_secs(10),
        )
        .unwrap();
        assert_eq!(outcome.code(), Some(3));
        assert_eq!(
            (outcome.stdout.as_str(), outcome.stderr.as_str()),
            ("out\n", "err\n")
        );
    }

    #[test]
    fn the_deadline_ends_grandchildren_too() {
        // Without the group kill, the sleeping grandchild would hold the pipe
        // open and reading it would take the full minute.
        let outcome = run(
            Command::new("sh").args(["-c", "sleep 60 & wait"]),
            Duration::from_millis(100),
        )
        .unwrap();
        assert!(outcome.status.is_none());
        assert!(
            outcome.elapsed < Duration::from_secs(30),
            "{:?}",
            outcome.elapsed
        );
    }
}
