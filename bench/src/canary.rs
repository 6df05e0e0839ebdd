//! What canaries cost a CUDA program: the time of its kernels, of a loop of
//! many short launches, of allocations, and memory.

use crate::options::Options;
use crate::turns::{Variant, in_turn, kernel_lines, lines, numbers};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use suite::results::{geometric_mean, median, round};

/// Flat numbers of `gpu-canary.json`.
#[derive(Debug, Serialize)]
struct Summary {
    /// Geometric mean of kernel time over native.
    kernels_geomean: f64,
    /// The worst of them.
    kernels_worst: f64,
    /// Kernels of the mean.
    kernels: usize,
    /// Time of the loop of short launches over native.
    loop_ratio: f64,
    /// The same with a check after every launch.
    loop_every_ratio: f64,
    /// Of a loop of kernels that take less than their launches.
    tight_ratio: f64,
    /// Of one launch of that, native, in microseconds.
    native_tight_us: f64,
    /// Of one launch of that loop, native, in microseconds.
    native_loop_us: f64,
    /// From the least to the greatest of its rounds.
    native_loop_spread_us: f64,
    /// Host time of one launch, native, in microseconds.
    native_launch_us: f64,
    /// What canaries add to it.
    launch_us: f64,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Row {
    /// Times in milliseconds.
    Kernel {
        kernel: String,
        size: u64,
        native_ms: f64,
        ratio: f64,
    },
    /// Buffers of one size: bytes of memory and time that each takes.
    Memory {
        buffer: u64,
        native_bytes: f64,
        canary_bytes: f64,
        native_us: f64,
        canary_us: f64,
    },
}

/// A line that the program about memory prints.
#[derive(Debug, Deserialize)]
struct MemoryLine {
    buffer: u64,
    bytes_each: f64,
    allocate_us: f64,
}

const CANARY: Variant<'static> = Variant::Ringfence(&["--protect", "canary"]);
const EVERY: Variant<'static> =
    Variant::Ringfence(&["--protect", "canary", "--canary-budget", "100"]);

/// Measures everything and writes the results.
///
/// # Errors
///
/// A program fails, runs out of time, or computes something else.
pub fn measure(options: &Options) -> Result<()> {
    let runner = options.runner();
    let two = [Variant::Native, CANARY];
    let kernels = in_turn(2, options.rounds(3), |variant| {
        kernel_lines(&runner.run("bench", options.size(), two[variant])?)
    })?;
    let mut rows = Vec::new();
    let mut ratios = Vec::new();
    for (index, first) in kernels.first().iter().enumerate() {
        let native_ms = kernels.time(0, index)?;
        let ratio = kernels.time(1, index)? / native_ms;
        println!(
            "{:<16} native {native_ms:>9.4} ms, {ratio:.4}",
            first.kernel
        );
        ratios.push(ratio);
        rows.push(Row::Kernel {
            kernel: first.kernel.clone(),
            size: first.size,
            native_ms,
            ratio: round(ratio),
        });
    }

    let three = [Variant::Native, CANARY, EVERY];
    let loops = in_turn(3, options.rounds(5), |variant| {
        numbers(&options.host("loop", three[variant])?)
    })?;
    let tight = in_turn(2, options.rounds(5), |variant| {
        numbers(&options.host("tight", two[variant])?)
    })?;
    let launches = in_turn(2, options.rounds(5), |variant| {
        numbers(&options.host("launch", two[variant])?)
    })?;
    let memory = in_turn(2, options.rounds(3), |variant| -> Result<Vec<MemoryLine>> {
        lines(&options.host("memory", two[variant])?, "\"allocate_us\"")
    })?;
    for (index, line) in memory.of(0)[0].iter().enumerate() {
        let each = |variant: usize, number: fn(&MemoryLine) -> f64| -> Result<f64> {
            let of = memory
                .of(variant)
                .iter()
                .map(|lines| lines.get(index).map(number));
            let mut numbers: Vec<f64> = of.collect::<Option<_>>().context("a size is missing")?;
            median(&mut numbers).context("nothing was measured")
        };
        rows.push(Row::Memory {
            buffer: line.buffer,
            native_bytes: round(each(0, |line| line.bytes_each)?),
            canary_bytes: round(each(1, |line| line.bytes_each)?),
            native_us: round(each(0, |line| line.allocate_us)?),
            canary_us: round(each(1, |line| line.allocate_us)?),
        });
    }

    let mean = geometric_mean(ratios.iter().copied());
    let loop_us = |numbers: &std::collections::BTreeMap<String, f64>| numbers["loop_us"];
    let launch_us = |numbers: &std::collections::BTreeMap<String, f64>| numbers["launch_us"];
    let native_loop = loops.median(0, loop_us)?;
    let native_tight = tight.median(0, loop_us)?;
    let summary = Summary {
        kernels_geomean: round(mean.context("a kernel took no time at all")?),
        kernels_worst: round(ratios.iter().copied().fold(0.0, f64::max)),
        kernels: ratios.len(),
        loop_ratio: round(loops.median(1, loop_us)? / native_loop),
        loop_every_ratio: round(loops.median(2, loop_us)? / native_loop),
        tight_ratio: round(tight.median(1, loop_us)? / native_tight),
        native_tight_us: round(native_tight),
        native_loop_us: round(native_loop),
        native_loop_spread_us: round(loops.spread(0, loop_us)),
        native_launch_us: round(launches.median(0, launch_us)?),
        launch_us: round(launches.added(1, 0, launch_us)?),
    };
    println!("{}", serde_json::to_string_pretty(&summary)?);
    options.write(summary, rows)
}
