//! Steps of training in PyTorch, natively and under Ringfence side by side.

use crate::live::{Length, Live, On, side_by_side};
use crate::options::Options;
use crate::turns::{Rounds, Variant};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// Where PyTorch is, and how long it is measured.
#[derive(clap::Args)]
pub struct Training {
    /// Python with PyTorch, for steps of training; none are measured without.
    #[arg(long)]
    python: Option<PathBuf>,
    /// The program for it (`bench/torch/steps.py`).
    #[arg(long, requires = "python")]
    steps: Option<PathBuf>,
    /// How often PyTorch is started anew.
    #[arg(long, default_value_t = 2)]
    python_starts: usize,
    /// Turns of each of these processes.
    #[arg(long, default_value_t = 40)]
    python_turns: usize,
    /// Seconds for measuring PyTorch: it is not started anew if that is expected to take
    /// longer.
    #[arg(long, default_value_t = 240)]
    python_seconds: u64,
}

/// Kinds of steps that the program makes, in the order of its times.
pub const KINDS: [&str; 2] = ["eager", "compiled"];

/// What PyTorch may take to start and to compile.
const COMPILING: Duration = Duration::from_secs(240);

/// What the program prints of one kind of step before it is measured.
#[derive(Debug, Deserialize)]
struct Trained {
    kind: String,
    loss: f64,
}

impl Training {
    /// Turns of each process.
    pub fn turns(&self, options: &Options) -> usize {
        options.rounds(self.python_turns)
    }

    /// Milliseconds of a step of each kind, of variants of which so many processes take
    /// turns; `None` if PyTorch is not to be measured.
    ///
    /// # Errors
    ///
    /// A process fails, or trains to another loss.
    pub fn measure(
        &self,
        options: &Options,
        processes: usize,
        variants: &[Variant<'_>],
    ) -> Result<Option<Rounds<Vec<f64>>>> {
        let (Some(python), Some(steps)) = (&self.python, &self.steps) else {
            return Ok(None);
        };
        let runner = options.runner();
        let program = python.to_str().context("the path of Python is no text")?;
        let rounds = side_by_side(
            variants.len() * processes,
            Length {
                starts: options.rounds(self.python_starts),
                turns: self.turns(options),
                within: Duration::from_secs(self.python_seconds),
            },
            On::OneCoreATurn,
            |process| {
                let mut command = runner.command(program, variants[process % variants.len()]);
                Live::start(command.arg(steps).args(options.size()), COMPILING)
            },
            same_losses,
        )?;
        Ok(Some(rounds.folded(variants.len())))
    }
}

/// Waits until all have trained, which must have given the same.
fn same_losses(processes: &[Live]) -> Result<()> {
    for kind in KINDS {
        let mut native = None;
        for process in processes {
            let trained: Trained = process.line()?;
            let loss = *native.get_or_insert(trained.loss);
            ensure!(
                trained.kind == kind && (trained.loss - loss).abs() <= 1e-3,
                "the loss of {} steps is {}, natively {loss}",
                trained.kind,
                trained.loss,
            );
        }
    }
    Ok(())
}
