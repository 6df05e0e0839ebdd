//! Times on a GPU: native, under Ringfence, under Ringfence with every launch
//! checked, and under compute-sanitizer, in turn.
//!
//! Each kernel is measured by all variants before the next kernel starts, so
//! that a clock that drifts or a device that warms up changes all alike. A
//! variant that fails or runs out of time is an error of the run, except
//! compute-sanitizer, which may be missing: then its columns are absent.

use crate::options::Places;
use crate::turns::{KernelLine, Rounds, Runner, Variant, in_turn, kernel_lines, numbers};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;
use suite::process;
use suite::results::{KERNELS, geometric_mean, round};

/// What to measure, and where.
#[derive(clap::Args)]
pub struct Gpu {
    #[command(flatten)]
    places: Places,
    /// The compute-sanitizer command; searched on PATH and in /usr/local/cuda/bin.
    #[arg(long)]
    compute_sanitizer: Option<PathBuf>,
    /// Leave compute-sanitizer out.
    #[arg(long)]
    no_compute_sanitizer: bool,
    /// Only kernels whose name contains this.
    #[arg(long)]
    filter: Option<String>,
}

/// Flat numbers of `gpu-bounds.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Summary {
    /// Geometric mean of kernel time under Ringfence over native.
    geomean: f64,
    /// Its largest.
    worst: f64,
    /// Kernel with the largest.
    worst_kernel: String,
    /// Geometric mean of kernel time over native where no launch is proved.
    checked_geomean: f64,
    /// Its largest.
    checked_worst: f64,
    /// Kernel with the largest.
    checked_worst_kernel: String,
    /// Geometric mean of kernel time under compute-sanitizer over native.
    compute_sanitizer_geomean: Option<f64>,
    /// How many times faster than compute-sanitizer, by geometric mean.
    faster_than_compute_sanitizer: Option<f64>,
    /// Geometric mean of kernel time under `--no-check` over native.
    identity_ratio: f64,
    /// Host time of one launch, native, in microseconds.
    native_launch_us: f64,
    /// From the least to the greatest of its rounds.
    native_launch_spread_us: f64,
    /// Host time that Ringfence adds to one launch, in microseconds.
    launch_us: f64,
    /// Host time that it adds where no launch is proved, in microseconds.
    checked_launch_us: f64,
    /// Host time that `--no-check` adds to one launch, in microseconds.
    identity_launch_us: f64,
    /// Kernels measured.
    kernels: usize,
}

/// One kernel; times in milliseconds.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    kernel: String,
    size: u64,
    native_ms: f64,
    ringfence_ms: f64,
    checked_ms: f64,
    no_check_ms: f64,
    compute_sanitizer_ms: Option<f64>,
    ratio: f64,
    checked_ratio: f64,
    identity_ratio: f64,
    compute_sanitizer_ratio: Option<f64>,
}

/// Measures everything and writes the results.
///
/// # Errors
///
/// A variant fails, runs out of time, or computes something else.
pub fn measure(gpu: &Gpu) -> Result<()> {
    let sanitizer = if gpu.no_compute_sanitizer {
        None
    } else {
        find_sanitizer(gpu.compute_sanitizer.as_deref())
    };
    let kernels = KERNELS
        .iter()
        .filter(|name| gpu.filter.as_ref().is_none_or(|part| name.contains(part)));
    let mut rows = Vec::new();
    for kernel in kernels {
        let row = measure_kernel(gpu, sanitizer.as_deref(), kernel)
            .with_context(|| format!("in the kernel {kernel}"))?;
        println!(
            "{:<14} native {:>9.4} ms  ringfence {:>6.3}  all checked {:>6.3}  no check {:>6.3}  \
             compute-sanitizer {}",
            row.kernel,
            row.native_ms,
            row.ratio,
            row.checked_ratio,
            row.identity_ratio,
            row.compute_sanitizer_ratio
                .map_or("-".into(), |ratio| format!("{ratio:.1}"))
        );
        rows.push(row);
    }
    let launches = launches(gpu)?;
    let launch = |variant| launches.added(variant, 0, |us| *us);
    let native = launches.median(0, |us| *us)?;
    let spread = launches.spread(0, |us| *us);
    let (ringfence, checked, no_check) = (launch(1)?, launch(2)?, launch(3)?);
    println!(
        "launch: native {native:.3} us, from round to round by up to {spread:.3}; ringfence adds \
         {ringfence:.3}, with all checked {checked:.3}, no check {no_check:.3}"
    );

    let mean = |value: fn(&Row) -> f64| {
        geometric_mean(rows.iter().map(value)).context("a kernel took no time at all")
    };
    let worst = |value: fn(&Row) -> f64| {
        rows.iter()
            .max_by(|a, b| value(a).total_cmp(&value(b)))
            .context("no kernel matches the filter")
    };
    let slowest = worst(|row| row.ratio)?;
    let slowest_checked = worst(|row| row.checked_ratio)?;
    let geomean = mean(|row| row.ratio)?;
    let sanitizer_ratios: Option<Vec<f64>> =
        rows.iter().map(|row| row.compute_sanitizer_ratio).collect();
    let compute_sanitizer_geomean = sanitizer_ratios.and_then(geometric_mean);
    let summary = Summary {
        geomean: round(geomean),
        worst: slowest.ratio,
        worst_kernel: slowest.kernel.clone(),
        checked_geomean: round(mean(|row| row.checked_ratio)?),
        checked_worst: slowest_checked.checked_ratio,
        checked_worst_kernel: slowest_checked.kernel.clone(),
        compute_sanitizer_geomean: compute_sanitizer_geomean.map(round),
        faster_than_compute_sanitizer: compute_sanitizer_geomean.map(|mean| round(mean / geomean)),
        identity_ratio: round(mean(|row| row.identity_ratio)?),
        native_launch_us: round(native),
        native_launch_spread_us: round(spread),
        launch_us: round(ringfence),
        checked_launch_us: round(checked),
        identity_launch_us: round(no_check),
        kernels: rows.len(),
    };
    gpu.places.write(summary, rows)
}

/// Proofs are off: all launches are checked.
const CHECKED: Variant<'static> = Variant::Ringfence(&["--prove", "off"]);
/// As users run it.
const RINGFENCE: Variant<'static> = Variant::Ringfence(&[]);
const NO_CHECK: Variant<'static> = Variant::Ringfence(&["--no-check"]);

impl Gpu {
    fn runner(&self) -> Runner<'_> {
        self.places.runner("gpu")
    }
}

/// Host times of one launch, in microseconds: native, under Ringfence, with
/// all launches checked, and without checks.
fn launches(gpu: &Gpu) -> Result<Rounds<f64>> {
    let variants = [Variant::Native, RINGFENCE, CHECKED, NO_CHECK];
    in_turn(variants.len(), 7, |variant| {
        let outcome = gpu.runner().run("host", &["launch"], variants[variant])?;
        let found = numbers(&outcome)?;
        found
            .get("launch_us")
            .copied()
            .context("it printed no time")
    })
}

fn measure_kernel(gpu: &Gpu, sanitizer: Option<&Path>, kernel: &str) -> Result<Row> {
    let time = |variant| one(&gpu.runner().run("bench", &["--kernel", kernel], variant)?);
    let native = time(Variant::Native)?;
    let ringfence = time(RINGFENCE)?;
    let checked = time(CHECKED)?;
    let no_check = time(NO_CHECK)?;
    let others = [
        ("ringfence", &ringfence),
        ("--prove off", &checked),
        ("--no-check", &no_check),
    ];
    for (name, other) in others {
        ensure!(
            other.digest == native.digest,
            "its result under {name} is {}, natively {}",
            other.digest,
            native.digest
        );
    }
    let sanitized = match sanitizer {
        None => None,
        Some(path) => match sanitized(gpu, path, kernel) {
            Ok(line) => Some(line.ms),
            Err(error) => {
                println!("{kernel}: no time under compute-sanitizer: {error:#}");
                None
            }
        },
    };
    Ok(Row {
        kernel: kernel.to_owned(),
        size: native.size,
        native_ms: native.ms,
        ringfence_ms: ringfence.ms,
        checked_ms: checked.ms,
        no_check_ms: no_check.ms,
        compute_sanitizer_ms: sanitized,
        ratio: round(ringfence.ms / native.ms),
        checked_ratio: round(checked.ms / native.ms),
        identity_ratio: round(no_check.ms / native.ms),
        compute_sanitizer_ratio: sanitized.map(|ms| round(ms / native.ms)),
    })
}

/// A kernel under compute-sanitizer, which is judged by whether a result was
/// printed. Forty times slower or more: fewer repetitions of the same problem.
fn sanitized(gpu: &Gpu, sanitizer: &Path, kernel: &str) -> Result<KernelLine> {
    let mut command = Command::new(sanitizer);
    command
        .args(["--tool", "memcheck"])
        .arg(gpu.places.programs.join("bench"))
        .args(["--kernel", kernel, "--repetitions", "1", "--warmup", "1"])
        .env_remove("RINGFENCE_OPTIONS");
    one(&process::run(&mut command, gpu.places.timeout())?)
}

fn one(outcome: &process::Outcome) -> Result<KernelLine> {
    let line = kernel_lines(outcome)?.into_iter().next();
    line.context("it printed no result")
}

fn find_sanitizer(given: Option<&Path>) -> Option<PathBuf> {
    let candidates: Vec<PathBuf> = match given {
        Some(path) => vec![path.to_owned()],
        None => std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .chain(["/usr/local/cuda/bin".into()])
            .map(|folder| folder.join("compute-sanitizer"))
            .collect(),
    };
    let found = candidates.into_iter().find(|path| path.is_file());
    if found.is_none() {
        println!("no compute-sanitizer found; its columns are left out");
    }
    found
}
