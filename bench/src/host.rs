//! What Ringfence adds to the host's time: launches, launches that differ in a
//! scalar, allocations, and steps of training in PyTorch.

use crate::options::Options;
use crate::turns::{Variant, in_turn, numbers};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use suite::process;
use suite::results::round;

/// What to measure, and where.
#[derive(clap::Args)]
pub struct Host {
    #[command(flatten)]
    options: Options,
    /// Rounds that count.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Python with PyTorch, for steps of training; none are measured without.
    #[arg(long)]
    python: Option<PathBuf>,
    /// The program for it (`bench/torch/steps.py`).
    #[arg(long, requires = "python")]
    steps: Option<PathBuf>,
    /// Rounds of PyTorch that count: each starts Python once for a variant.
    #[arg(long, default_value_t = 5)]
    python_rounds: usize,
}

/// Flat numbers of `gpu-host.json`. Microseconds are those that the defaults
/// add; ratios are to native.
#[derive(Debug, Serialize)]
struct Summary {
    /// A launch that was seen before.
    launch_us: f64,
    /// A launch that differs from those before it in one scalar, with what it
    /// takes on the device.
    planes_us: f64,
    /// The same, to native.
    planes_ratio: f64,
    /// The same, to `--prove off`.
    planes_to_checked: f64,
    /// A pair of cudaMalloc and cudaFree of 4 KiB, without launches between.
    pair_us: f64,
    /// The same, eight pairs around each launch.
    around_us: f64,
    /// A step of training, eager.
    #[serde(skip_serializing_if = "Option::is_none")]
    torch_eager: Option<f64>,
    /// A step of training, compiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    torch_compiled: Option<f64>,
}

/// One measurement: the median of rounds, and from the least to the greatest.
#[derive(Debug, Serialize)]
struct Row {
    what: String,
    unit: &'static str,
    native: f64,
    native_spread: f64,
    default: f64,
    default_spread: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    checked: Option<f64>,
}

const DEFAULT: Variant<'static> = Variant::Ringfence(&[]);
const CHECKED: Variant<'static> = Variant::Ringfence(&["--prove", "off"]);

/// What the program `host` does, and the number that it prints.
const KINDS: [(&str, &str); 4] = [
    ("launch", "launch_us"),
    ("planes", "planes_us"),
    ("allocate", "small_us"),
    ("around", "around_us"),
];

/// Measures, and writes `gpu-host.json`.
///
/// # Errors
///
/// A program fails, or the file cannot be written.
pub fn measure(host: &Host) -> Result<()> {
    let options = &host.options;
    let variants = [Variant::Native, DEFAULT, CHECKED];
    let mut rows = Vec::new();
    for (what, number) in KINDS {
        let rounds = in_turn(variants.len(), options.rounds(host.rounds), |variant| {
            let found = numbers(&options.host(what, variants[variant])?)?;
            let found = found.get(number).copied();
            found.with_context(|| format!("host {what} printed no {number}"))
        })?;
        let of = |variant| rounds.median(variant, |time| *time);
        rows.push(Row {
            what: what.to_owned(),
            unit: "us",
            native: round(of(0)?),
            native_spread: round(rounds.spread(0, |time| *time)),
            default: round(of(1)?),
            default_spread: round(rounds.spread(1, |time| *time)),
            checked: Some(round(of(2)?)),
        });
        show(rows.last());
    }
    if let (Some(python), Some(steps)) = (&host.python, &host.steps) {
        torch(host, python, steps, &mut rows)?;
    }
    let row = |what: &str| rows.iter().find(|row| row.what == what);
    let added = |what: &str| -> Result<f64> {
        let row = row(what).with_context(|| format!("{what} was not measured"))?;
        Ok(round(row.default - row.native))
    };
    let ratio = |what: &str| row(what).map(|row| round(row.default / row.native));
    let planes = row("planes").context("planes were not measured")?;
    let summary = Summary {
        launch_us: added("launch")?,
        planes_us: added("planes")?,
        planes_ratio: round(planes.default / planes.native),
        planes_to_checked: round(planes.default / planes.checked.unwrap_or(f64::NAN)),
        pair_us: added("allocate")?,
        around_us: added("around")?,
        torch_eager: ratio("torch_eager"),
        torch_compiled: ratio("torch_compiled"),
    };
    println!("{}", serde_json::to_string_pretty(&summary)?);
    options.write(summary, rows)
}

fn show(row: Option<&Row>) {
    if let Some(row) = row {
        println!(
            "{:<16} native {:>9.4} {} (spread {:.4}), default {:>9.4} (spread {:.4})",
            row.what, row.native, row.unit, row.native_spread, row.default, row.default_spread
        );
    }
}

/// What the program of PyTorch prints of one kind of step: milliseconds of each
/// batch of steps.
#[derive(Debug, Deserialize)]
struct Steps {
    kind: String,
    ms: Vec<f64>,
    loss: f64,
}

/// Steps of training, natively and under Ringfence in turn. Other programs on
/// the host disturb Python, always in one direction: a run counts with its
/// fastest batch.
fn torch(host: &Host, python: &Path, steps: &Path, rows: &mut Vec<Row>) -> Result<()> {
    let runner = host.options.runner();
    let variants = [Variant::Native, DEFAULT];
    let program = python.to_str().context("the path of Python is no text")?;
    let script = steps.to_str().context("the program's path is no text")?;
    let rounds = in_turn(
        variants.len(),
        host.options.rounds(host.python_rounds),
        |variant| {
            let mut command = runner.command(program, variants[variant]);
            command.arg(script).args(host.options.size());
            let outcome = process::run(&mut command, runner.timeout)?;
            ensure!(
                outcome.code() == Some(0),
                "PyTorch {}: {}",
                outcome.describe(),
                outcome.stderr.trim()
            );
            let lines = outcome.stdout.lines().filter(|line| line.starts_with('{'));
            let found = lines.map(|line| {
                serde_json::from_str::<Steps>(line).with_context(|| format!("in `{line}`"))
            });
            found.collect::<Result<Vec<_>>>()
        },
    )?;
    for (index, first) in rounds.of(0)[0].iter().enumerate() {
        for run in (0..variants.len()).flat_map(|variant| rounds.of(variant)) {
            let steps = run.get(index).context("a kind of step is missing")?;
            ensure!(
                steps.kind == first.kind && (steps.loss - first.loss).abs() <= 1e-3,
                "the loss of {} steps is {}, natively {}",
                steps.kind,
                steps.loss,
                first.loss
            );
        }
        let fastest =
            |run: &Vec<Steps>| run[index].ms.iter().copied().fold(f64::INFINITY, f64::min);
        rows.push(Row {
            what: format!("torch_{}", first.kind),
            unit: "ms",
            native: round(rounds.median(0, fastest)?),
            native_spread: round(rounds.spread(0, fastest)),
            default: round(rounds.median(1, fastest)?),
            default_spread: round(rounds.spread(1, fastest)),
            checked: None,
        });
        show(rows.last());
    }
    Ok(())
}
