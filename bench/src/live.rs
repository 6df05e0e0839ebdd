//! Processes that measure when they are asked to.
//!
//! Variants that run one after the other are seconds apart, and a host that
//! other programs share has changed by then. Here a process of each variant is
//! started first; then they take turns of milliseconds, and what is compared is
//! what stands side by side in time.

use crate::cores::{self, Core};
use crate::turns::{Rounds, in_turn};
use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A process that prints a line of JSON for each line on its standard input.
pub struct Live {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    patience: Duration,
}

/// What it may take from the end of its output to its own.
const ENDING: Duration = Duration::from_secs(10);

/// What it prints for each.
#[derive(Debug, Deserialize)]
struct Turn {
    times: Vec<f64>,
}

impl Live {
    /// Starts it. Each of its answers may take `patience`.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub fn start(command: &mut Command, patience: Duration) -> Result<Live> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .process_group(0)
            .spawn()
            .with_context(|| format!("failed to start {}", command.get_program().display()))?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("no pipe for its output")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Other lines are those of libraries.
                if line.starts_with('{') && sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Live {
            child,
            input,
            lines,
            patience,
        })
    }

    /// The next line of JSON that it prints.
    ///
    /// # Errors
    ///
    /// It ends, takes too long, or prints something else.
    pub fn line<T: DeserializeOwned>(&self) -> Result<T> {
        let line = self
            .lines
            .recv_timeout(self.patience)
            .context("a process that is measured did not answer")?;
        serde_json::from_str(&line).with_context(|| format!("in `{line}`"))
    }

    /// Asks for its next line.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub fn ask(&mut self) -> Result<()> {
        let input = self.input.as_mut().context("its input is closed")?;
        input.write_all(b"\n").context("failed to ask a process")
    }

    /// Its turn: the times that it measures now.
    ///
    /// # Errors
    ///
    /// As [`Live::line`]; or a time is not positive.
    pub fn turn(&mut self) -> Result<Vec<f64>> {
        self.ask()?;
        let turn: Turn = self.line()?;
        ensure!(
            !turn.times.is_empty() && turn.times.iter().all(|time| *time > 0.0),
            "it measured {:?}",
            turn.times
        );
        Ok(turn.times)
    }

    /// It runs on this core from here on, with all that it has started.
    ///
    /// # Errors
    ///
    /// The system does not let it.
    pub fn stay_on(&self, core: Core) -> Result<()> {
        cores::stay(Pid::from_child(&self.child), core)
    }

    /// Lets it end.
    fn release(&mut self) {
        drop(self.input.take());
    }

    /// Lets it end, and waits for that.
    ///
    /// # Errors
    ///
    /// It fails.
    pub fn finish(mut self) -> Result<()> {
        self.release();
        // Its output ends with it.
        while self.lines.recv_timeout(self.patience).is_ok() {}
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            ensure!(start.elapsed() < ENDING, "a process did not end");
            std::thread::sleep(Duration::from_millis(2));
        };
        ensure!(status.success(), "a process that was measured: {status}");
        Ok(())
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // The group's id is the child's, which is not reaped while it runs.
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Where variants run while they are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// Where the system lets them.
    AnyCore,
    /// All of a turn on one core, those of the next turn on the next one. Cores of a
    /// machine that is shared differ, by what runs beside them, more than variants do
    /// (measured: quartiles of ratios at 0.2 to 0.07 of the median).
    OneCoreATurn,
}

/// How long variants that live side by side are measured.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// Sets of processes, one after the other.
    pub starts: usize,
    /// Turns of each process that count; one before these does not.
    pub turns: usize,
    /// Time for all sets: no further one is started that would end later, if it took as
    /// long as those before it.
    pub within: Duration,
}

impl Length {
    /// So many starts and turns, however long they take.
    pub fn of(starts: usize, turns: usize) -> Length {
        Length {
            starts,
            turns,
            within: Duration::MAX,
        }
    }
}

/// Times of variants that live side by side, from one set of processes after the other.
/// `start` starts a variant, `ready` waits until it has, and may check what all of them
/// say.
///
/// # Errors
///
/// A process fails.
pub fn side_by_side(
    variants: usize,
    length: Length,
    on: On,
    start: impl Fn(usize) -> Result<Live>,
    ready: impl Fn(&[Live]) -> Result<()>,
) -> Result<Rounds<Vec<f64>>> {
    let mut all = Rounds::default();
    let begin = Instant::now();
    for started in 0..length.starts {
        let next = u32::try_from(started + 1)?;
        if started > 0 && begin.elapsed() * next / (next - 1) > length.within {
            break;
        }
        let mut processes = (0..variants).map(&start).collect::<Result<Vec<Live>>>()?;
        ready(&processes)?;
        let cores = match on {
            On::AnyCore => Vec::new(),
            On::OneCoreATurn => cores::usable()?,
        };
        let mut made = 0;
        all.append(in_turn(variants, length.turns, |variant| {
            if !cores.is_empty() {
                processes[variant].stay_on(cores[made / variants % cores.len()])?;
            }
            made += 1;
            processes[variant].turn()
        })?);
        // All end at the same time: PyTorch takes a second to do so.
        processes.iter_mut().for_each(Live::release);
        processes.into_iter().try_for_each(Live::finish)?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Live> {
        Live::start(
            Command::new("sh").args(["-c", script]),
            Duration::from_secs(20),
        )
    }

    fn turns_within(within: Duration) -> Rounds<Vec<f64>> {
        side_by_side(
            2,
            Length {
                starts: 3,
                turns: 4,
                within,
            },
            On::OneCoreATurn,
            |variant| {
                let time = variant + 1;
                shell(&format!(
                    "echo '{{\"ready\":true}}'; while read -r line; do echo noise; echo '{{\"times\":[{time}]}}'; done"
                ))
            },
            |processes| {
                for process in processes {
                    process.line::<serde_json::Value>()?;
                }
                Ok(())
            },
        )
        .unwrap()
    }

    #[test]
    fn turns_of_all_starts_are_put_together() {
        let rounds = turns_within(Duration::MAX);
        assert_eq!(rounds.of(0), vec![vec![1.0]; 12]);
        assert_eq!(rounds.of(1), vec![vec![2.0]; 12]);
        assert_eq!(rounds.ratios(1, 0, |times| times[0]), vec![2.0; 12]);
    }

    #[test]
    fn no_start_begins_that_would_end_too_late() {
        assert_eq!(turns_within(Duration::ZERO).of(0).len(), 4);
    }

    #[test]
    fn a_process_that_ends_or_fails_is_an_error() {
        assert!(shell("exit 0").unwrap().turn().is_err());
        assert!(
            shell("read -r line; echo '{\"times\":[0]}'")
                .unwrap()
                .turn()
                .is_err()
        );
        assert!(shell("exit 3").unwrap().finish().is_err());
        shell("cat > /dev/null").unwrap().finish().unwrap();
    }
}
