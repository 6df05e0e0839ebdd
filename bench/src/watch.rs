//! What the guard costs (`--protect watch`), and how long it takes to see a
//! canary that a kernel overwrites: the attacks of GMOD's table 3.

use crate::options::Options;
use crate::turns::{Rounds, Variant, in_turn, kernel_lines, numbers};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
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
    /// What the guard adds to it while it is there.
    launch_us: f64,
    /// Of a launch and a cudaDeviceSynchronize, native.
    native_synchronize_us: f64,
    /// What pausing and restarting the guard adds to that.
    synchronize_us: f64,
    /// Runs of the attacks of the paper's table 3.
    attacks: usize,
    /// Those in which the finding came before the attacked kernel ended.
    in_time: usize,
    /// The largest median from the write to the finding, of the attacks.
    latency_ms: f64,
}

/// One attack; times in milliseconds, medians over runs.
#[derive(Debug, Serialize)]
struct Seen {
    attack: String,
    /// How long the attacked kernel ran.
    kernel_ms: f64,
    /// From the write to the guard's finding.
    latency_ms: f64,
    /// The largest of these.
    latency_worst_ms: f64,
    /// Runs in which it was found.
    found: usize,
    /// Those in which it was found before the attacked kernel ended.
    in_time: usize,
    /// All.
    runs: usize,
}

/// What was measured one by one.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Row {
    Kernel(Kernel),
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

const WATCH: Variant<'static> = Variant::Ringfence(&["--protect", "watch"]);
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
                measured.latency_ms,
                measured.latency_worst_ms,
                measured.in_time,
                measured.runs
            );
            Ok(measured)
        })
        .collect::<Result<Vec<_>>>()?;
    let ratios = kernels.iter().map(|kernel| kernel.ratio);
    let geomean = geometric_mean(ratios.clone()).context("a kernel took no time at all")?;
    let summary = Summary {
        geomean: round(geomean),
        worst: ratios.fold(0.0, f64::max),
        native_launch_us: round(native.median(0, |us| *us)?),
        launch_us: round(native.added(1, 0, |us| *us)?),
        native_synchronize_us: round(synchronize.median(0, |us| *us)?),
        synchronize_us: round(synchronize.added(1, 0, |us| *us)?),
        attacks: attacks.iter().map(|attack| attack.runs).sum(),
        in_time: attacks.iter().map(|attack| attack.in_time).sum(),
        latency_ms: attacks
            .iter()
            .map(|attack| attack.latency_ms)
            .fold(0.0, f64::max),
    };
    println!(
        "kernels {:.4}, a launch {:+.3} us, a launch and a synchronization {:+.3} us",
        summary.geomean, summary.launch_us, summary.synchronize_us
    );
    let rows = kernels.into_iter().map(Row::Kernel);
    let rows = rows.chain(attacks.into_iter().map(Row::Attack)).collect();
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

/// Host times of what a program asks of the driver, in microseconds.
fn host(options: &Options, rounds: usize, what: &str, name: &str) -> Result<Rounds<f64>> {
    in_turn(VARIANTS.len(), rounds, |variant| {
        let outcome = options.host(what, VARIANTS[variant])?;
        let found = numbers(&outcome)?;
        found.get(name).copied().context("it printed no time")
    })
}

/// What a program tells of one of its kernels, in nanoseconds of the device's
/// clock.
#[derive(Clone, Copy)]
struct Times {
    began: u64,
    wrote: u64,
    ended: u64,
}

fn times(output: &str, kernel: &str) -> Option<Times> {
    let line = output.lines().find(|line| {
        line.strip_prefix(kernel)
            .is_some_and(|rest| rest.starts_with(' '))
    })?;
    let mut numbers = line.split_whitespace().skip(1).map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some(Times {
        began: next()?,
        wrote: next()?,
        ended: next()?,
    })
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

fn found_at(path: &Path) -> Result<Option<u64>> {
    let text = std::fs::read_to_string(path).context("there is no report")?;
    let report: Report = serde_json::from_str(&text).context("in the report")?;
    let watched = report
        .findings
        .into_iter()
        .find_map(|finding| finding.subject.watched);
    Ok(watched.map(|watched| watched.device_time))
}

fn measure_attack(options: &Options, attack: &Attack) -> Result<Seen> {
    let runs = options.rounds(10);
    let scratch = tempfile::tempdir().context("there is no place for reports")?;
    let report = scratch.path().join("report.json");
    let text = report.display().to_string();
    let variant = [
        "--protect",
        "watch",
        "--error-exitcode",
        "0",
        "--json",
        &text,
    ];
    let duration = attack.microseconds.to_string();
    let (mut latencies, mut lengths) = (Vec::new(), Vec::new());
    let (mut found, mut in_time) = (0, 0);
    for _ in 0..runs {
        let arguments = ["bad", "times", &duration];
        let outcome =
            options
                .runner()
                .run(attack.case, &arguments, Variant::Ringfence(&variant))?;
        let attacking = times(&outcome.stdout, attack.writer).context("it printed no times")?;
        let attacked = times(&outcome.stdout, attack.victim).context("it printed no times")?;
        lengths.push((attacked.ended - attacked.began) as f64 / 1e6);
        let Some(at) = found_at(&report)? else {
            continue;
        };
        found += 1;
        in_time += usize::from(at < attacked.ended);
        // The write lies before the moment that the kernel takes down.
        latencies.push(at.saturating_sub(attacking.wrote) as f64 / 1e6);
    }
    ensure!(found > 0, "it was never found");
    let worst = latencies.iter().copied().fold(0.0, f64::max);
    Ok(Seen {
        attack: attack.name.to_owned(),
        kernel_ms: round(median(&mut lengths).context("nothing was measured")?),
        latency_ms: median(&mut latencies).context("nothing was measured")?,
        latency_worst_ms: worst,
        found,
        in_time,
        runs,
    })
}

#[cfg(test)]
mod tests {
    use super::times;

    #[test]
    fn times_of_the_kernel_that_is_asked_for() {
        let output = "attacker 5 7 8\nvictims 1 1 1\nvictim 4 0 90\n";
        let victim = times(output, "victim").unwrap();
        assert_eq!((victim.began, victim.wrote, victim.ended), (4, 0, 90));
        assert!(times(output, "overrun").is_none());
    }
}
