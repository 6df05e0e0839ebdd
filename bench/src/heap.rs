//! Device-side malloc and free: CUDA's own against the device heap, under
//! bounds and under watch (GMOD's patterns, 1 K to 1 M threads).

use crate::options::Options;
use crate::turns::{Variant, in_turn, kernel_lines};
use anyhow::{Context, Result};
use serde::Serialize;
use suite::results::{geometric_mean, round};

/// What to measure, and where.
#[derive(clap::Args)]
pub struct Heap {
    #[command(flatten)]
    options: Options,
    /// Rounds that count.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
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
pub fn measure(heap: &Heap) -> Result<()> {
    let options = &heap.options;
    let runner = options.runner();
    let arguments = match options.size() {
        [] => &["--repetitions", "3", "--warmup", "1"],
        small => small,
    };
    let rounds = in_turn(VARIANTS.len(), options.rounds(heap.rounds), |variant| {
        kernel_lines(&runner.run("heap", arguments, VARIANTS[variant])?)
    })?;
    let rows = rounds.first().iter().enumerate().map(|(index, line)| {
        let time = |variant| rounds.time(variant, index);
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
    options.write(summary, rows)
}
