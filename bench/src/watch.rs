//! What the guard costs (`--protect watch`), and how long it takes to detect a
//! canary that a kernel overwrites: the attacks of GMOD's table 3.

use crate::guard::{self, Buffers, Waits};
use crate::options::Options;
use crate::turns::{Rounds, Variant, in_turn, kernel_lines, numbers};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use suite::attacks::{ATTACKS, Attack};
use suite::results::{geometric_mean, median, round};

/// Flat numbers of `gpu-watch.json`.
#[derive(Debug, Serialize)]
struct Summary {
    /// Geometric mean of kernel time beside the guard over native.
    geomean: f64,
    /// Its largest.
    worst: f64,
    /// Host time of one launch, native, in microseconds.
    native_launch_us: f64,
    /// What the guard adds to it while it runs.
    launch_us: f64,
    /// Of a launch and a cudaDeviceSynchronize, native.
    native_synchronize_us: f64,
    /// What pausing and restarting the guard adds to that.
    synchronize_us: f64,
    /// Runs of the attacks of the paper's table 3.
    attacks: usize,
    /// Those in which the finding was reported before the attacked kernel
    /// ended.
    in_time: usize,
    /// The largest median from the write to the finding, of the attacks.
    latency_ms: f64,
    /// By how a program waits, and by its number of buffers.
    #[serde(flatten)]
    scale: BTreeMap<String, f64>,
}

/// One attack of the paper's; times in milliseconds, medians over runs.
#[derive(Debug, Serialize)]
struct Seen {
    attack: String,
    /// How long the attacked kernel ran.
    kernel_ms: f64,
    #[serde(flatten)]
    attacks: Attacks,
}

/// What was measured one by one.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Row {
    Kernel(Kernel),
    Wait(Waits),
    Buffers(Buffers),
    Attack(Seen),
}

/// One kernel; times in milliseconds.
#[derive(Debug, Serialize)]
struct Kernel {
    kernel: String,
    native_ms: f64,
    watch_ms: f64,
    ratio: f64,
}

/// With the guard.
pub const WATCH: Variant<'static> = Variant::Ringfence(&["--protect", "watch"]);
const VARIANTS: [Variant<'static>; 2] = [Variant::Native, WATCH];

/// Measures everything and writes the results.
///
/// # Errors
///
/// A program fails, or an attack is not found.
pub fn measure(options: &Options) -> Result<()> {
    let rounds = options.rounds(5);
    let kernels = kernels(options, rounds)?;
    let native = host(options, rounds, "launch", "launch_us")?;
    let synchronize = host(options, rounds, "synchronize", "synchronize_us")?;
    let attacks = ATTACKS
        .iter()
        .map(|attack| {
            let measured = measure_attack(options, attack).with_context(|| attack.name)?;
            println!(
                "{:<28} kernel {:>8.3} ms  found after {:.4} ms (at most {:.4}), in time {}/{}",
                measured.attack,
                measured.kernel_ms,
                measured.attacks.latency_ms,
                measured.attacks.latency_worst_ms,
                measured.attacks.in_time,
                measured.attacks.runs
            );
            Ok(measured)
        })
        .collect::<Result<Vec<_>>>()?;
    let (waits, buffers) = guard::measure(options)?;
    let ratios = kernels.iter().map(|kernel| kernel.ratio);
    let geomean = geometric_mean(ratios.clone()).context("a kernel took no time at all")?;
    let summary = Summary {
        geomean: round(geomean),
        worst: ratios.fold(0.0, f64::max),
        native_launch_us: round(native.median(0, |us| *us)?),
        launch_us: round(native.added(1, 0, |us| *us)?),
        native_synchronize_us: round(synchronize.median(0, |us| *us)?),
        synchronize_us: round(synchronize.added(1, 0, |us| *us)?),
        attacks: attacks.iter().map(|attack| attack.attacks.runs).sum(),
        in_time: attacks.iter().map(|attack| attack.attacks.in_time).sum(),
        latency_ms: attacks
            .iter()
            .map(|attack| attack.attacks.latency_ms)
            .fold(0.0, f64::max),
        scale: guard::summary(&waits, &buffers),
    };
    println!(
        "kernels {:.4}, a launch {:+.3} us, a launch and a synchronization {:+.3} us",
        summary.geomean, summary.launch_us, summary.synchronize_us
    );
    let rows = kernels.into_iter().map(Row::Kernel);
    let rows = rows
        .chain(waits.into_iter().map(Row::Wait))
        .chain(buffers.into_iter().map(Row::Buffers))
        .chain(attacks.into_iter().map(Row::Attack))
        .collect();
    options.write(summary, rows)
}

/// Kernel times, native and beside the guard.
fn kernels(options: &Options, rounds: usize) -> Result<Vec<Kernel>> {
    let runner = options.runner();
    let measured = in_turn(VARIANTS.len(), rounds, |variant| {
        kernel_lines(&runner.run("bench", options.size(), VARIANTS[variant])?)
    })?;
    let mut rows = Vec::new();
    for (at, line) in measured.first().iter().enumerate() {
        let (native, watch) = (measured.time(0, at)?, measured.time(1, at)?);
        let row = Kernel {
            kernel: line.kernel.clone(),
            native_ms: native,
            watch_ms: watch,
            ratio: round(watch / native),
        };
        println!(
            "{:<14} native {:>9.4} ms  beside the guard {:>6.4}",
            row.kernel,
            row.native_ms,
            watch / native
        );
        rows.push(row);
    }
    Ok(rows)
}

/// Host times of a program's driver calls, in microseconds.
fn host(options: &Options, rounds: usize, what: &str, name: &str) -> Result<Rounds<f64>> {
    in_turn(VARIANTS.len(), rounds, |variant| {
        let outcome = options.host(what, VARIANTS[variant])?;
        let found = numbers(&outcome)?;
        found.get(name).copied().context("it printed no time")
    })
}

/// Times that a program prints for one of its kernels, in nanoseconds of the
/// device's clock.
#[derive(Clone, Copy)]
pub struct Times {
    /// When it began.
    pub began: u64,
    /// When it had written where it must not; 0 if it does not.
    pub wrote: u64,
    /// When it ended.
    pub ended: u64,
}

/// Every line of a kernel.
pub fn times(output: &str, kernel: &str) -> Vec<Times> {
    let lines = output.lines().filter_map(|line| {
        let mut numbers = line.strip_prefix(kernel)?.strip_prefix(' ')?.split(' ');
        let mut next = || numbers.next()?.parse().ok();
        Some(Times {
            began: next()?,
            wrote: next()?,
            ended: next()?,
        })
    });
    lines.collect()
}

/// As much of a report as is needed here.
#[derive(Deserialize)]
struct Report {
    findings: Vec<Finding>,
}

#[derive(Deserialize)]
struct Finding {
    subject: Subject,
}

#[derive(Deserialize)]
struct Subject {
    watched: Option<Watched>,
}

#[derive(Deserialize)]
struct Watched {
    device_time: u64,
}

/// The options for attacks, with a report to a file.
pub fn seeing(report: &Path) -> Result<[&str; 6]> {
    let report = report.to_str().context("a folder whose name is no text")?;
    Ok([
        "--protect",
        "watch",
        "--error-exitcode",
        "0",
        "--json",
        report,
    ])
}

/// When the guard detected the finding of a report, in nanoseconds of the
/// device's clock.
pub fn seen_at(path: &Path) -> Result<Vec<u64>> {
    let text = std::fs::read_to_string(path).context("there is no report")?;
    let report: Report = serde_json::from_str(&text).context("in the report")?;
    let watched = report
        .findings
        .into_iter()
        .filter_map(|finding| finding.subject.watched);
    Ok(watched.map(|watched| watched.device_time).collect())
}

/// Attacks of one kind; times in milliseconds.
#[derive(Debug, Serialize)]
pub struct Attacks {
    /// From the write to the guard's finding, the median.
    pub latency_ms: f64,
    /// The largest of these.
    pub latency_worst_ms: f64,
    /// Runs in which it was found.
    pub found: usize,
    /// Those in which it was found before the attacked kernel ended.
    pub in_time: usize,
    /// All.
    pub runs: usize,
}

/// One attack, and when it was detected, if it was.
pub struct Attacked {
    /// When it had been made.
    pub wrote: u64,
    /// When the attacked kernel ended.
    pub ended: u64,
    /// When it was detected.
    pub seen: Option<u64>,
}

impl Attacks {
    /// The results of all attacks of one kind.
    ///
    /// # Errors
    ///
    /// None was detected.
    pub fn of(attacks: &[Attacked]) -> Result<Attacks> {
        let seen = attacks
            .iter()
            .filter_map(|one| Some((one, one.seen?)))
            .collect::<Vec<_>>();
        // The write lies before the moment that the kernel takes down.
        let mut latencies: Vec<f64> = seen
            .iter()
            .map(|(one, at)| at.saturating_sub(one.wrote) as f64 / 1e6)
            .collect();
        Ok(Attacks {
            latency_ms: median(&mut latencies).context("it was never found")?,
            latency_worst_ms: latencies.iter().copied().fold(0.0, f64::max),
            found: seen.len(),
            in_time: seen.iter().filter(|(one, at)| *at < one.ended).count(),
            runs: attacks.len(),
        })
    }
}

fn measure_attack(options: &Options, attack: &Attack) -> Result<Seen> {
    let runs = options.rounds(10);
    let scratch = tempfile::tempdir().context("there is no place for reports")?;
    let report = scratch.path().join("report.json");
    let variant = seeing(&report)?;
    let duration = attack.microseconds.to_string();
    let (mut attacks, mut lengths) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let arguments = ["bad", "times", &duration];
        let outcome =
            options
                .runner()
                .run(attack.case, &arguments, Variant::Ringfence(&variant))?;
        let first = |kernel: &str| {
            let times = times(&outcome.stdout, kernel);
            times.first().copied().context("it printed no times")
        };
        let (attacking, attacked) = (first(attack.writer)?, first(attack.victim)?);
        lengths.push((attacked.ended - attacked.began) as f64 / 1e6);
        attacks.push(Attacked {
            wrote: attacking.wrote,
            ended: attacked.ended,
            seen: seen_at(&report)?.first().copied(),
        });
    }
    Ok(Seen {
        attack: attack.name.to_owned(),
        kernel_ms: round(median(&mut lengths).context("nothing was measured")?),
        attacks: Attacks::of(&attacks)?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Attacked, Attacks, times};

    #[test]
    fn all_times_of_the_kernel_that_is_asked_for() {
        let output = "attacker 5 7 8\nvictims 1 1 1\nvictim 4 0 90\nvictim 95 96 97\n";
        let victim = times(output, "victim");
        let numbers = victim.iter().map(|one| (one.began, one.wrote, one.ended));
        assert_eq!(numbers.collect::<Vec<_>>(), [(4, 0, 90), (95, 96, 97)]);
        assert!(times(output, "overrun").is_empty());
    }

    #[test]
    fn an_attack_that_was_not_seen_has_no_latency() {
        let attacked = |wrote, ended, seen| Attacked { wrote, ended, seen };
        let attacks = [
            attacked(1_000_000, 9_000_000, Some(3_000_000)),
            attacked(1_000_000, 2_000_000, Some(5_000_000)),
            attacked(1_000_000, 2_000_000, None),
        ];
        let attacks = Attacks::of(&attacks).unwrap();
        assert_eq!((attacks.latency_ms, attacks.latency_worst_ms), (3.0, 4.0));
        assert_eq!((attacks.found, attacks.in_time, attacks.runs), (2, 1, 3));
        assert!(Attacks::of(&[attacked(1, 2, None)]).is_err());
    }
}
