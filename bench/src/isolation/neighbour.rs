//! The program beside which attacks are made, and what became of it.

use super::process::{Line, Program};
use anyhow::{Context, Result, ensure};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long it may take to start.
const START: Duration = Duration::from_secs(30);

/// Where its buffers are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Of words.
    pub integers: u64,
    /// Full of the secret.
    pub secret: u64,
    /// Of floats.
    pub floats: u64,
    /// Of each of them.
    pub bytes: u64,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// All that it wrote was what it writes alone.
    Unharmed,
    /// It wrote something else.
    Changed,
    /// It ended, or ended with an error; what it said.
    Ended(String),
    /// It did not finish a round for too long.
    Stalled,
}

impl Fate {
    /// In a table.
    pub fn name(&self) -> &'static str {
        match self {
            Fate::Unharmed => "unharmed",
            Fate::Changed => "output changed",
            Fate::Ended(_) => "ended",
            Fate::Stalled => "stalled",
        }
    }
}

/// A neighbour that runs.
pub struct Neighbour {
    program: Program,
    /// Where its buffers are.
    pub memory: Memory,
    /// How long a round may take.
    stall: Duration,
}

/// The digest of a line `round NUMBER DIGEST`.
fn digest(line: &Line) -> Option<&str> {
    line.text.strip_prefix("round ")?.split(' ').nth(1)
}

/// The digests of a run alone, of one period.
///
/// # Errors
///
/// It fails.
pub fn alone(command: &mut Command, rounds: usize) -> Result<Vec<String>> {
    let mut program = Program::start(command)?;
    let has_ended = program.wait_for(START, |program| program.ended().is_some());
    ensure!(has_ended, "the neighbour does not end, or does not begin");
    // (Its last lines may still be on their way.)
    program.wait_for(Duration::from_millis(500), |program| {
        program
            .lines()
            .last()
            .is_some_and(|line| line.text == "end")
    });
    let lines = program.lines();
    let digests: Vec<String> = lines.iter().filter_map(digest).map(Into::into).collect();
    ensure!(
        program.ended().is_some_and(|status| status.success()) && digests.len() == rounds,
        "the neighbour fails alone: {}",
        program.error()
    );
    Ok(digests)
}

impl Neighbour {
    /// Starts it, and waits for its first rounds.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub fn start(command: &mut Command, stall: Duration) -> Result<Neighbour> {
        let mut program = Program::start(command)?;
        let is_there = program.wait_for(START, |program| {
            program.lines().iter().any(|line| digest(line).is_some()) || program.ended().is_some()
        });
        ensure!(
            is_there && program.ended().is_none(),
            "the neighbour does not start: {}",
            program.error()
        );
        let memory = memory(&program.lines()).context("the neighbour has no memory")?;
        Ok(Neighbour {
            program,
            memory,
            stall,
        })
    }

    /// Rounds that it has finished.
    pub fn rounds(&self) -> usize {
        self.program.lines().iter().filter_map(digest).count()
    }

    /// Whether it finishes so many rounds more, each in time.
    pub fn goes_on(&mut self, rounds: usize) -> bool {
        (0..rounds).all(|_| {
            let before = self.rounds();
            let stall = self.stall;
            self.program.wait_for(stall, |program| {
                program.lines().iter().filter_map(digest).count() > before
                    || program.ended().is_some()
            }) && self.rounds() > before
        })
    }

    /// Its lines that say something else than its rounds.
    pub fn said(&self) -> Vec<String> {
        let lines = self.program.lines().into_iter();
        let other = lines.filter(|line| digest(line).is_none());
        other.map(|line| line.text).collect()
    }

    /// Waits until it ends by itself, as one in the same context as an attack
    /// does, or stalls, or the time is over; what became of it, and what it said
    /// beside its rounds.
    pub fn wait(mut self, expected: &[String], limit: Duration) -> (Fate, Vec<String>) {
        let start = Instant::now();
        let mut is_well = true;
        while is_well && self.program.ended().is_none() && start.elapsed() < limit {
            is_well = self.goes_on(1);
        }
        let fate = match self.fate(expected) {
            // It still runs.
            Fate::Stalled if is_well && self.longest() <= self.stall => Fate::Unharmed,
            fate => fate,
        };
        (fate, self.said())
    }

    /// The longest time between two rounds.
    fn longest(&self) -> Duration {
        let lines = self.program.lines();
        let rounds: Vec<&Line> = lines.iter().filter(|line| digest(line).is_some()).collect();
        let gaps = rounds.windows(2).map(|pair| pair[1].at - pair[0].at);
        gaps.max().unwrap_or_default()
    }

    /// Ends it where it does not go on; what became of it.
    pub fn stop(mut self, expected: &[String]) -> Fate {
        self.fate(expected)
    }

    /// Ends it in good order; what became of it.
    pub fn finish(mut self, expected: &[String]) -> Fate {
        self.program.end_input();
        let stall = self.stall;
        self.program
            .wait_for(stall, |program| program.ended().is_some());
        self.fate(expected)
    }

    fn fate(&mut self, expected: &[String]) -> Fate {
        let ended = self.program.ended();
        // (Its last lines may still be on their way.)
        self.program
            .wait_for(Duration::from_millis(500), |program| {
                ended.is_none()
                    || program
                        .lines()
                        .last()
                        .is_some_and(|line| line.text == "end")
            });
        let lines = self.program.lines();
        let rounds: Vec<&Line> = lines.iter().filter(|line| digest(line).is_some()).collect();
        let is_same = rounds.iter().enumerate().all(|(number, line)| {
            let text = format!("round {number} {}", expected[number % expected.len()]);
            line.text == text
        });
        if !is_same {
            return Fate::Changed;
        }
        if self.longest() > self.stall {
            return Fate::Stalled;
        }
        match ended {
            None => Fate::Stalled,
            Some(status) if !status.success() => {
                Fate::Ended(format!("{status}: {}", self.program.error()))
            }
            Some(_) if lines.last().is_none_or(|line| line.text != "end") => {
                Fate::Ended("it did not come to its end".into())
            }
            Some(_) => Fate::Unharmed,
        }
    }
}

fn memory(lines: &[Line]) -> Option<Memory> {
    let mut memory = Memory::default();
    for line in lines {
        let Some(rest) = line.text.strip_prefix("memory ") else {
            continue;
        };
        let words: Vec<&str> = rest.split(' ').collect();
        let [name, address, bytes] = words[..] else {
            return None;
        };
        let address = address.parse().ok()?;
        memory.bytes = bytes.parse().ok()?;
        match name {
            "integers" => memory.integers = address,
            "secret" => memory.secret = address,
            "floats" => memory.floats = address,
            _ => return None,
        }
    }
    (memory.bytes > 0).then_some(memory)
}
