//! Device-side malloc and free: CUDA's own against the device heap, under
//! bounds and under watch (GMOD's patterns, 1 K to 1 M threads).

use crate::gpu::device;
use crate::protections::kernel_time;
use crate::turns::{KernelLine, Runner, Variant, in_turn, kernel_lines};
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use suite::results::{Provenance, Results, geometric_mean, round, today};

/// What to measure, and where.
#[derive(clap::Args)]
pub struct Heap {
    /// Folder with the program `heap`.
    #[arg(long)]
    programs: PathBuf,
    /// The `ringfence` command.
    #[arg(long)]
    ringfence: PathBuf,
    /// File for the results.
    #[arg(long)]
    json: PathBuf,
    /// Commit of the measured sources.
    #[arg(long, default_value = "")]
    commit: String,
    /// `gpu`, or `cpu` to try the bench itself.
    #[arg(long, default_value = "gpu")]
    device: String,
    /// Small problems, one round: the numbers mean nothing.
    #[arg(long)]
    quick: bool,
    /// Rounds that count.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds that one program may take.
    #[arg(long, default_value_t = 60)]
    timeout: u64,
}

/// Flat numbers of `gpu-heap.json`: kernel time over that with CUDA's own heap.
#[derive(Debug, Serialize)]
struct Summary {
    /// Kernels measured: patterns times numbers of threads.
    kernels: usize,
    /// Geometric mean with the heap under bounds.
    bounds_geomean: f64,
    /// The kernel that gains least.
    bounds_most: f64,
    /// Geometric mean with the heap under watch.
    watch_geomean: f64,
    /// The kernel that gains least.
    watch_most: f64,
}

/// One kernel; times in milliseconds.
#[derive(Debug, Serialize)]
struct Row {
    kernel: String,
    threads: u64,
    cuda_ms: f64,
    bounds_ms: f64,
    watch_ms: f64,
    bounds_ratio: f64,
    watch_ratio: f64,
}

const VARIANTS: [Variant<'static>; 3] = [
    Variant::Native,
    Variant::Ringfence(&["--protect", "bounds"]),
    Variant::Ringfence(&["--protect", "watch"]),
];

/// Measures everything and writes the results.
///
/// # Errors
///
/// A program fails, runs out of time, or computes something else.
pub fn measure(options: &Heap) -> Result<()> {
    let runner = Runner {
        programs: &options.programs,
        ringfence: &options.ringfence,
        device: &options.device,
        timeout: Duration::from_secs(options.timeout),
    };
    let arguments: &[&str] = if options.quick {
        &["--quick"]
    } else {
        &["--repetitions", "3", "--warmup", "1"]
    };
    let rounds = if options.quick { 1 } else { options.rounds };
    let rounds = in_turn(VARIANTS.len(), rounds, |variant| {
        kernel_lines(&runner.run("heap", arguments, VARIANTS[variant])?)
    })?;
    let first: &[KernelLine] = &rounds.of(0)[0];
    let rows = first.iter().enumerate().map(|(index, line)| {
        let time = |variant| kernel_time(&rounds, variant, index, line);
        let (cuda_ms, bounds_ms, watch_ms) = (time(0)?, time(1)?, time(2)?);
        let row = Row {
            kernel: line.kernel.clone(),
            threads: line.size,
            cuda_ms,
            bounds_ms,
            watch_ms,
            bounds_ratio: round(bounds_ms / cuda_ms),
            watch_ratio: round(watch_ms / cuda_ms),
        };
        println!(
            "{:<26} CUDA {cuda_ms:>10.4} ms, bounds {:>6.3}, watch {:>6.3}",
            row.kernel, row.bounds_ratio, row.watch_ratio
        );
        Ok(row)
    });
    let rows = rows.collect::<Result<Vec<_>>>()?;
    let of = |ratio: fn(&Row) -> f64| -> Result<(f64, f64)> {
        let ratios: Vec<f64> = rows.iter().map(ratio).collect();
        let most = ratios.iter().copied().fold(0.0, f64::max);
        let mean = geometric_mean(ratios).context("a kernel took no time at all")?;
        Ok((round(mean), most))
    };
    let (bounds_geomean, bounds_most) = of(|row| row.bounds_ratio)?;
    let (watch_geomean, watch_most) = of(|row| row.watch_ratio)?;
    let summary = Summary {
        kernels: rows.len(),
        bounds_geomean,
        bounds_most,
        watch_geomean,
        watch_most,
    };
    println!("{}", serde_json::to_string_pretty(&summary)?);
    let (device, driver) = device();
    Results {
        summary,
        provenance: Provenance {
            device,
            driver,
            date: today(),
            commit: options.commit.clone(),
        },
        rows,
    }
    .write(&options.json)
}
