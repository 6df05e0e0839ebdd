//! What Ringfence adds to the host's time: launches, launches that differ in a
//! scalar, allocations, and steps of training in PyTorch.

use crate::live::{Length, Live, On, side_by_side};
use crate::options::Options;
use crate::training::{self, Training};
use crate::turns::{Rounds, Variant};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use suite::results::{median, round};

/// What to measure, and where.
#[derive(clap::Args)]
pub struct Host {
    #[command(flatten)]
    options: Options,
    /// How often all processes are started anew.
    #[arg(long, default_value_t = 3)]
    starts: usize,
    /// Processes of each variant that take turns. Two processes of one variant can
    /// differ more than two turns of a process.
    #[arg(long, default_value_t = 6)]
    processes: usize,
    /// Turns of each process.
    #[arg(long, default_value_t = 25)]
    turns: usize,
    /// Processes of each variant with PyTorch that take turns.
    #[arg(long, default_value_t = 12)]
    python_processes: usize,
    #[command(flatten)]
    training: Training,
}

/// Flat numbers of `gpu-host.json`. Microseconds are those that the defaults
/// add; ratios are to native. All are medians over turns, of what stands side by
/// side in time.
#[derive(Debug, Serialize)]
struct Summary {
    /// A repeated launch.
    launch_us: f64,
    /// A launch that differs from those before it in one scalar, with what it
    /// takes on the device.
    planes_us: f64,
    /// The same, to native.
    planes_ratio: f64,
    /// The worst of all rows to `--prove off`.
    worst_to_checked: f64,
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

/// One measurement: medians over turns.
#[derive(Clone, Debug, Serialize)]
struct Row {
    what: String,
    unit: &'static str,
    native: f64,
    default: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    checked: Option<f64>,
    /// What the defaults add.
    added: f64,
    /// The defaults to native, and between which ratios half of the turns lie.
    ratio: f64,
    ratio_low: f64,
    ratio_high: f64,
    /// The standard error of the ratio, from the differences between pairs of processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_error: Option<f64>,
    /// The defaults to `--prove off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    to_checked: Option<f64>,
}

impl Row {
    /// Of turns in which native comes first, then the defaults, then
    /// `--prove off`, if that is measured; each process had so many turns.
    fn of<T>(
        what: String,
        unit: &'static str,
        rounds: &Rounds<T>,
        (variants, turns): (usize, usize),
        time: impl Fn(&T) -> f64 + Copy,
    ) -> Result<Row> {
        let ratios = rounds.ratios(1, 0, time);
        let quantile = |part: f64| {
            let last = ratios.len().saturating_sub(1) as f64;
            let ratio = ratios.get((last * part).round() as usize).copied();
            ratio.map(round).context("nothing was measured")
        };
        let has_checked = variants > 2;
        let checked = has_checked.then(|| rounds.median(2, time)).transpose()?;
        let to_checked = has_checked.then(|| rounds.ratios(1, 2, time));
        Ok(Row {
            what,
            unit,
            native: round(rounds.median(0, time)?),
            default: round(rounds.median(1, time)?),
            checked: checked.map(round),
            added: round(rounds.added(1, 0, time)?),
            ratio: quantile(0.5)?,
            ratio_low: quantile(0.25)?,
            ratio_high: quantile(0.75)?,
            ratio_error: rounds.ratio_error(1, 0, turns, time).map(round),
            to_checked: to_checked
                .and_then(|mut ratios| median(&mut ratios))
                .map(round),
        })
    }
}

const DEFAULT: Variant<'static> = Variant::Ringfence(&[]);
const CHECKED: Variant<'static> = Variant::Ringfence(&["--prove", "off"]);

/// What the program `host` does.
const KINDS: [&str; 4] = ["launch", "planes", "allocate", "around"];

/// Measures, and writes `gpu-host.json`.
///
/// # Errors
///
/// A program fails, or the file cannot be written.
pub fn measure(host: &Host) -> Result<()> {
    let options = &host.options;
    let variants = [Variant::Native, DEFAULT, CHECKED];
    let mut rows = Vec::new();
    for what in KINDS {
        let rounds = side_by_side(
            variants.len() * options.rounds(host.processes),
            Length::of(options.rounds(host.starts), options.rounds(host.turns)),
            On::OneCoreATurn,
            |process| {
                let runner = options.runner();
                let mut command = runner.command("host", variants[process % variants.len()]);
                command.arg(what).arg("--turns").args(options.size());
                Live::start(&mut command, runner.timeout)
            },
            |processes| {
                processes.iter().try_for_each(|process| {
                    let line: serde_json::Value = process.line()?;
                    ensure!(line["ready"] == true, "host {what} printed {line}");
                    Ok(())
                })
            },
        )?
        .folded(variants.len());
        rows.push(Row::of(
            what.to_owned(),
            "us",
            &rounds,
            (variants.len(), options.rounds(host.turns)),
            |times| times[0],
        )?);
        show(rows.last());
    }
    // Written before PyTorch starts, too, which takes most of the time: a run that
    // is cut off there leaves what it has.
    options.write(Summary::of(&rows)?, rows.clone())?;
    torch(host, &mut rows)?;
    let summary = Summary::of(&rows)?;
    println!("{}", serde_json::to_string_pretty(&summary)?);
    options.write(summary, rows)
}

impl Summary {
    /// Of all rows; PyTorch's may be missing.
    ///
    /// # Errors
    ///
    /// Another row is missing.
    fn of(rows: &[Row]) -> Result<Summary> {
        let row = |what: &str| rows.iter().find(|row| row.what == what);
        let measured = |what: &str| row(what).with_context(|| format!("{what} was not measured"));
        let ratio = |what: &str| row(what).map(|row| row.ratio);
        let slower_than_checked = rows.iter().filter_map(|row| row.to_checked);
        Ok(Summary {
            launch_us: measured("launch")?.added,
            planes_us: measured("planes")?.added,
            planes_ratio: measured("planes")?.ratio,
            worst_to_checked: slower_than_checked.fold(0.0, f64::max),
            pair_us: measured("allocate")?.added,
            around_us: measured("around")?.added,
            torch_eager: ratio("torch_eager"),
            torch_compiled: ratio("torch_compiled"),
        })
    }
}

fn show(row: Option<&Row>) {
    if let Some(row) = row {
        println!(
            "{:<16} native {:>9.4} {unit}, default {:>9.4} {unit}, added {:>9.4}, ratio {:.4} ({:.4} to {:.4})",
            row.what,
            row.native,
            row.default,
            row.added,
            row.ratio,
            row.ratio_low,
            row.ratio_high,
            unit = row.unit,
        );
    }
}

/// Steps of training, natively and under Ringfence side by side.
fn torch(host: &Host, rows: &mut Vec<Row>) -> Result<()> {
    let options = &host.options;
    let variants = [Variant::Native, DEFAULT];
    let processes = options.rounds(host.python_processes);
    let Some(rounds) = host.training.measure(options, processes, &variants)? else {
        return Ok(());
    };
    for (index, kind) in training::KINDS.iter().enumerate() {
        rows.push(Row::of(
            format!("torch_{kind}"),
            "ms",
            &rounds,
            (variants.len(), host.training.turns(options)),
            |times| times.get(index).copied().unwrap_or(f64::NAN),
        )?);
        show(rows.last());
    }
    Ok(())
}
