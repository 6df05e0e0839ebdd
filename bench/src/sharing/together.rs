//! Processes that begin at the same time.

use crate::live::Live;
use anyhow::{Result, ensure};
use serde::Deserialize;
use std::process::Command;
use std::time::{Duration, Instant};

/// What a process prints once it is ready.
#[derive(Deserialize)]
struct Ready {
    ready: bool,
}

/// What a process prints at its end.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Ended {
    /// Rounds that it has made.
    pub rounds: u64,
    /// What they took.
    pub seconds: f64,
    /// Of what they computed.
    pub digest: String,
}

/// What processes took that began together.
#[derive(Clone, Debug)]
pub struct Run {
    /// Seconds until all were ready.
    pub start: f64,
    /// Seconds from when they began until the last one had ended.
    pub makespan: f64,
    /// What each of them said.
    pub ended: Vec<Ended>,
}

/// Processes that are ready, and how many seconds that took.
pub struct Together {
    processes: Vec<Live>,
    start: f64,
}

impl Together {
    /// Starts processes, and waits until all are ready.
    ///
    /// # Errors
    ///
    /// One of them fails, or takes longer than `patience`.
    pub fn start(commands: Vec<Command>, patience: Duration) -> Result<Together> {
        let start = Instant::now();
        let processes = commands
            .into_iter()
            .map(|mut command| Live::start(&mut command, patience))
            .collect::<Result<Vec<Live>>>()?;
        for process in &processes {
            let ready: Ready = process.line()?;
            ensure!(ready.ready, "a process is not ready");
        }
        Ok(Together {
            processes,
            start: start.elapsed().as_secs_f64(),
        })
    }

    /// Lets all begin, and waits for their ends.
    ///
    /// # Errors
    ///
    /// One of them fails.
    pub fn run(mut self) -> Result<Run> {
        let start = Instant::now();
        for process in &mut self.processes {
            process.ask()?;
        }
        let ended = self
            .processes
            .iter()
            .map(Live::line)
            .collect::<Result<Vec<Ended>>>()?;
        let makespan = start.elapsed().as_secs_f64();
        let start = self.start;
        self.finish()?;
        Ok(Run {
            start,
            makespan,
            ended,
        })
    }

    /// Ends the processes.
    ///
    /// # Errors
    ///
    /// One of them fails.
    pub fn finish(self) -> Result<()> {
        self.processes.into_iter().try_for_each(Live::finish)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_makespan_is_that_of_the_slowest() {
        let program = |seconds: &str| {
            shell(&format!(
                "echo '{{\"ready\":true}}'; read -r line; sleep {seconds}; \
                 echo '{{\"rounds\":3,\"seconds\":{seconds},\"digest\":\"{seconds}\"}}'"
            ))
        };
        let patience = Duration::from_secs(20);
        let together = Together::start(vec![program("0.5"), program("0.1")], patience).unwrap();
        let run = together.run().unwrap();
        assert!((0.5..5.0).contains(&run.makespan), "{run:?}");
        assert_eq!(run.ended[0].digest, "0.5");
        assert_eq!(run.ended[1].rounds, 3);
        let fails = shell("exit 3");
        assert!(Together::start(vec![fails], patience).is_err());
    }
}
