//! What unmapped pages around the buffers of a CUDA program cost: the time of
//! its kernels, of allocations, of steps of training, and memory.

use crate::options::Options;
use crate::training::{self, Training};
use crate::turns::{MemoryLine, Variant, in_turn_within, kernel_lines, lines, numbers};
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use suite::results::{geometric_mean, median, round};

/// What to measure, and where.
#[derive(clap::Args)]
pub struct Pages {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    training: Training,
}

/// Flat numbers of `gpu-pages.json`.
#[derive(Debug, Serialize)]
struct Summary {
    /// Geometric mean of kernel time over native.
    geomean: f64,
    /// The worst of them.
    worst: f64,
    /// Kernels of the mean.
    kernels: usize,
    /// How many percent more memory the largest buffers of the rows take.
    memory_percent: f64,
    /// Bytes of memory that a buffer of 256 bytes takes, with pages of its own.
    small_bytes: f64,
    /// The same, where buffers share pages.
    small_shared_bytes: f64,
    /// Of a pair of cudaMalloc and cudaFree of 4 KiB, native, in microseconds.
    native_allocate_us: f64,
    /// What pages of its own add.
    allocate_us: f64,
    /// What shared pages add.
    shared_allocate_us: f64,
    /// The same three, of 4 MiB, which shares none.
    native_allocate_large_us: f64,
    allocate_large_us: f64,
    /// A step of training in PyTorch over native: eager, and compiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    torch_eager: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    torch_compiled: Option<f64>,
    /// How many percent more memory PyTorch's buffers take.
    #[serde(skip_serializing_if = "Option::is_none")]
    torch_memory_percent: Option<f64>,
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
    /// Buffers of one size: bytes of memory that each takes, and microseconds
    /// to allocate it.
    Memory {
        buffer: u64,
        native_bytes: f64,
        own_bytes: f64,
        shared_bytes: f64,
        native_us: f64,
        own_us: f64,
        shared_us: f64,
    },
    /// Steps of training of one kind, in milliseconds.
    Steps {
        steps: String,
        native_ms: f64,
        ratio: f64,
    },
}

const NATIVE: usize = 0;
const OWN: usize = 1;
const SHARED: usize = 2;
const VARIANTS: [Variant<'static>; 3] = [
    Variant::Native,
    Variant::Ringfence(&["--protect", "pages", "--pages-budget", "90%"]),
    Variant::Ringfence(&["--protect", "pages", "--pages-budget", "0"]),
];

/// After this time no further round of one part begins.
const BUDGET: Duration = Duration::from_secs(25);

/// Measures everything and writes the results.
///
/// # Errors
///
/// A program fails, runs out of time, or computes something else.
pub fn measure(pages: &Pages) -> Result<()> {
    let options = &pages.options;
    let mut rows = Vec::new();
    let mut ratios = Vec::new();
    for program in ["bench", "spaces"] {
        kernels(options, program, &mut rows, &mut ratios)?;
    }
    let pairs = in_turn_within(BUDGET, VARIANTS.len(), options.rounds(5), |variant| {
        numbers(&options.host("allocate", VARIANTS[variant])?)
    })?;
    let memory = memory(options, &mut rows)?;
    let trained = trained(pages, &mut rows)?;
    let of_kind = |index: usize| trained.as_ref().map(|trained| trained.ratios[index]);

    let small = |numbers: &BTreeMap<String, f64>| numbers["small_us"];
    let large = |numbers: &BTreeMap<String, f64>| numbers["large_us"];
    let mean = geometric_mean(ratios.iter().copied());
    let summary = Summary {
        geomean: round(mean.context("a kernel took no time at all")?),
        worst: round(ratios.iter().copied().fold(0.0, f64::max)),
        kernels: ratios.len(),
        memory_percent: round(memory.percent),
        small_bytes: round(memory.small),
        small_shared_bytes: round(memory.small_shared),
        native_allocate_us: round(pairs.median(NATIVE, small)?),
        allocate_us: round(pairs.added(OWN, NATIVE, small)?),
        shared_allocate_us: round(pairs.added(SHARED, NATIVE, small)?),
        native_allocate_large_us: round(pairs.median(NATIVE, large)?),
        allocate_large_us: round(pairs.added(OWN, NATIVE, large)?),
        torch_eager: of_kind(0),
        torch_compiled: of_kind(1),
        torch_memory_percent: trained.as_ref().map(|trained| trained.memory_percent),
    };
    println!("{}", serde_json::to_string_pretty(&summary)?);
    options.write(summary, rows)
}

/// What steps of training take over native, by kind, and how much more memory.
struct Trained {
    ratios: Vec<f64>,
    memory_percent: f64,
}

/// Processes of each variant that train side by side.
const TRAINING: usize = 2;

fn trained(pages: &Pages, rows: &mut Vec<Row>) -> Result<Option<Trained>> {
    let options = &pages.options;
    let folder = tempfile::tempdir()?;
    let report = folder.path().join("report.json");
    let path = report.to_str().context("the temporary folder's name")?;
    let under = ["--protect", "pages", "--json", path];
    let variants = [Variant::Native, Variant::Ringfence(&under)];
    let processes = options.rounds(TRAINING);
    let Some(rounds) = pages.training.measure(options, processes, &variants)? else {
        return Ok(None);
    };
    let mut ratios = Vec::new();
    for (index, kind) in training::KINDS.iter().enumerate() {
        let time = |times: &Vec<f64>| times.get(index).copied().unwrap_or(f64::NAN);
        let mut all = rounds.ratios(1, NATIVE, time);
        let ratio = round(median(&mut all).context("nothing was measured")?);
        let native_ms = round(rounds.median(NATIVE, time)?);
        println!("training, {kind}: native {native_ms} ms, {ratio}");
        ratios.push(ratio);
        rows.push(Row::Steps {
            steps: (*kind).to_owned(),
            native_ms,
            ratio,
        });
    }
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&report)?)?;
    let bytes = |name: &str| {
        let value = report["coverage"]["pages"][name].as_f64();
        value.with_context(|| format!("the report has no `{name}` of pages"))
    };
    Ok(Some(Trained {
        ratios,
        memory_percent: round(100.0 * (bytes("memory")? / bytes("bytes")? - 1.0)),
    }))
}

fn kernels(
    options: &Options,
    program: &str,
    rows: &mut Vec<Row>,
    ratios: &mut Vec<f64>,
) -> Result<()> {
    let runner = options.runner();
    let times = in_turn_within(BUDGET, 2, options.rounds(3), |variant| {
        kernel_lines(&runner.run(program, options.size(), VARIANTS[variant])?)
    })?;
    for (index, first) in times.first().iter().enumerate() {
        let native_ms = times.time(NATIVE, index)?;
        let ratio = times.time(OWN, index)? / native_ms;
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
    Ok(())
}

/// What the summary says of memory.
struct Memory {
    percent: f64,
    small: f64,
    small_shared: f64,
}

fn memory(options: &Options, rows: &mut Vec<Row>) -> Result<Memory> {
    let memory = in_turn_within(
        BUDGET,
        VARIANTS.len(),
        options.rounds(3),
        |variant| -> Result<Vec<MemoryLine>> {
            lines(
                &options.host("memory", VARIANTS[variant])?,
                "\"allocate_us\"",
            )
        },
    )?;
    let each = |variant, index, number: fn(&MemoryLine) -> f64| -> Result<f64> {
        memory.median_of(variant, |lines| lines.get(index).map(number))
    };
    let (bytes, time) = (
        (|line| line.bytes_each) as fn(&MemoryLine) -> f64,
        (|line| line.allocate_us) as fn(&MemoryLine) -> f64,
    );
    let sizes = &memory.of(NATIVE)[0];
    for (index, line) in sizes.iter().enumerate() {
        rows.push(Row::Memory {
            buffer: line.buffer,
            native_bytes: round(each(NATIVE, index, bytes)?),
            own_bytes: round(each(OWN, index, bytes)?),
            shared_bytes: round(each(SHARED, index, bytes)?),
            native_us: round(each(NATIVE, index, time)?),
            own_us: round(each(OWN, index, time)?),
            shared_us: round(each(SHARED, index, time)?),
        });
    }
    let last = sizes.len().checked_sub(1).context("no sizes")?;
    Ok(Memory {
        percent: (each(OWN, last, bytes)? / each(NATIVE, last, bytes)? - 1.0) * 100.0,
        small: each(OWN, 0, bytes)?,
        small_shared: each(SHARED, 0, bytes)?,
    })
}
