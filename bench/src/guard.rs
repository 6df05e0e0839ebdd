//! What the guard costs by how often a program waits for its kernels and by how
//! many buffers it has, and how the time until it detects a write grows with
//! them.

use crate::options::Options;
use crate::turns::{Variant, in_turn, lines};
use crate::watch::{Attacked, Attacks, Times, WATCH, seeing, seen_at, times};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use suite::results::round;

const PROGRAM: &str = "guard";
/// Natively, with the defaults, and with the guard.
const VARIANTS: [Variant<'static>; 3] = [Variant::Native, Variant::Ringfence(&[]), WATCH];
/// Attacks for each number of buffers, each on another buffer.
const ATTACKS: usize = 10;
/// How long an attacking kernel stays, in microseconds: several rounds of the
/// guard over the most buffers.
const STAYS: u64 = 20_000;
/// The same on the CPU device, where a round takes longer.
const STAYS_ON_CPU: u64 = 400_000;

/// A program that launches and waits; microseconds of a turn, in which a kernel
/// is launched so often and then waited for.
#[derive(Debug, Serialize)]
pub struct Waits {
    /// The function that waits.
    wait: String,
    launches: u64,
    native_us: f64,
    default_us: f64,
    watch_us: f64,
}

/// A program with this many buffers of 4 KiB, beside three large ones.
#[derive(Debug, Serialize)]
pub struct Buffers {
    buffers: u64,
    /// A kernel that uses the device's memory as much as it can.
    native_ms: f64,
    default_ms: f64,
    watch_ms: f64,
    /// One launch, in microseconds.
    native_launch_us: f64,
    default_launch_us: f64,
    watch_launch_us: f64,
    #[serde(flatten)]
    attacks: Attacks,
}

/// A line of the program.
#[derive(Debug, Deserialize)]
struct Turn {
    wait: String,
    launches: u64,
    turn_us: f64,
}

#[derive(Debug, Deserialize)]
struct Kernel {
    buffers: u64,
    kernel_ms: f64,
    launch_us: f64,
}

/// Measures both.
///
/// # Errors
///
/// The program fails, runs out of time, or none of the attacks is found.
pub fn measure(options: &Options) -> Result<(Vec<Waits>, Vec<Buffers>)> {
    let arguments = [&["times"], options.size()].concat();
    let rounds = in_turn(VARIANTS.len(), options.rounds(3), |variant| {
        let outcome = options
            .runner()
            .run(PROGRAM, &arguments, VARIANTS[variant])?;
        let turns: Vec<Turn> = lines(&outcome, "\"wait\"")?;
        let kernels: Vec<Kernel> = lines(&outcome, "\"buffers\"")?;
        Ok((turns, kernels))
    })?;
    let (turns, kernels) = rounds.of(0).first().context("nothing was measured")?;
    let waits = turns.iter().enumerate().map(|(at, turn)| {
        let time = |variant| rounds.median(variant, |(turns, _)| turns[at].turn_us);
        let row = Waits {
            wait: turn.wait.clone(),
            launches: turn.launches,
            native_us: round(time(0)?),
            default_us: round(time(1)?),
            watch_us: round(time(2)?),
        };
        println!(
            "{:<22} after {:>3} launches {:>9.2} us, by default {:>9.2}, with the guard {:>9.2}",
            row.wait, row.launches, row.native_us, row.default_us, row.watch_us
        );
        Ok(row)
    });
    let waits = waits.collect::<Result<_>>()?;
    let buffers = kernels.iter().enumerate().map(|(at, kernel)| {
        let time = |variant| rounds.median(variant, |(_, kernels)| kernels[at].kernel_ms);
        let launch = |variant| rounds.median(variant, |(_, kernels)| kernels[at].launch_us);
        let attacks = attacks(options, kernel.buffers)
            .with_context(|| format!("with {} buffers", kernel.buffers))?;
        let row = Buffers {
            buffers: kernel.buffers,
            native_ms: round(time(0)?),
            default_ms: round(time(1)?),
            watch_ms: round(time(2)?),
            native_launch_us: round(launch(0)?),
            default_launch_us: round(launch(1)?),
            watch_launch_us: round(launch(2)?),
            attacks,
        };
        println!(
            "{:>5} buffers: kernel {:.4} ms, with the guard {:.4}; a launch {:.2} us, {:.2}; \
             found after {:.4} ms, at most {:.4}, in time {}/{}",
            row.buffers,
            row.native_ms,
            row.watch_ms,
            row.native_launch_us,
            row.watch_launch_us,
            row.attacks.latency_ms,
            row.attacks.latency_worst_ms,
            row.attacks.in_time,
            row.attacks.runs
        );
        Ok(row)
    });
    Ok((waits, buffers.collect::<Result<_>>()?))
}

/// Kernels that write past the end of one of this many buffers.
fn attacks(options: &Options, buffers: u64) -> Result<Attacks> {
    let scratch = tempfile::tempdir().context("there is no place for reports")?;
    let report = scratch.path().join("report.json");
    let runs = options.rounds(ATTACKS);
    let stays = if options.on_gpu() {
        STAYS
    } else {
        STAYS_ON_CPU
    };
    let arguments = [
        "attack",
        &buffers.to_string(),
        &runs.to_string(),
        &stays.to_string(),
    ];
    let outcome =
        options
            .runner()
            .run(PROGRAM, &arguments, Variant::Ringfence(&seeing(&report)?))?;
    let found = attacked(&times(&outcome.stdout, "overrun"), &seen_at(&report)?);
    Attacks::of(&found)
}

/// Kernels that ran one after the other, each with the writes that were
/// detected from its beginning to that of the next.
fn attacked(kernels: &[Times], seen: &[u64]) -> Vec<Attacked> {
    let ends = kernels.iter().skip(1).map(|next| next.began);
    let spans = kernels.iter().zip(ends.chain([u64::MAX]));
    let attacked = spans.map(|(kernel, end)| Attacked {
        wrote: kernel.wrote,
        ended: kernel.ended,
        seen: seen
            .iter()
            .copied()
            .find(|at| (kernel.began..end).contains(at)),
    });
    attacked.collect()
}

/// What is written of all this in the summary.
pub fn summary(waits: &[Waits], buffers: &[Buffers]) -> BTreeMap<String, f64> {
    let mut numbers = BTreeMap::new();
    for row in waits {
        let name = format!("{}_{}", row.wait, row.launches);
        numbers.insert(format!("{name}_native_us"), row.native_us);
        numbers.insert(format!("{name}_default_us"), row.default_us);
        numbers.insert(format!("{name}_watch_us"), row.watch_us);
    }
    for row in buffers {
        let name = format!("buffers_{}", row.buffers);
        let ratio = row.watch_ms / row.native_ms;
        numbers.insert(format!("{name}_ratio"), round(ratio));
        let launch = row.watch_launch_us - row.native_launch_us;
        numbers.insert(format!("{name}_launch_us"), round(launch));
        numbers.insert(format!("{name}_latency_ms"), row.attacks.latency_ms);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::{Times, attacked};

    #[test]
    fn what_is_seen_belongs_to_the_kernel_that_had_begun_last() {
        let kernel = |began| Times {
            began,
            wrote: began + 1,
            ended: began + 5,
        };
        let found = attacked(&[kernel(10), kernel(20), kernel(30)], &[35, 12]);
        let seen = found.iter().map(|one| one.seen);
        assert_eq!(seen.collect::<Vec<_>>(), [Some(12), None, Some(35)]);
    }
}
