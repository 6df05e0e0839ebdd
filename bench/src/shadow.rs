//! What shadow memory costs: kernels with every launch checked and with proofs,
//! in both encodings, beside bounds; memory, by size of buffers and redzones
//! (GASan, table 2); allocation.

use crate::options::Options;
use crate::turns::{
    KernelRatios, MemoryLine, Variant, in_turn_within, lines, mean_of, numbers, worst_of,
};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use suite::results::round;

/// Flat numbers of `gpu-shadow.json`.
#[derive(Debug, Serialize)]
struct Summary {
    /// Geometric mean of kernel time over native, with blocks of 256 bytes and
    /// proofs.
    geomean: f64,
    /// With every launch checked.
    checked_geomean: f64,
    /// The same with blocks of 128 bytes.
    checked_128_geomean: f64,
    /// Checked against exact bounds, for comparison.
    bounds_checked_geomean: f64,
    /// The largest ratio with every launch checked.
    worst: f64,
    /// Kernels of these means.
    kernels: usize,
    /// Shadow memory in percent of the buffers of the kernels' program.
    memory_percent: f64,
    /// Redzones, likewise.
    redzone_percent: f64,
    /// How many percent more memory the largest buffers of the rows take with redzones.
    large_memory_percent: f64,
    /// Of a pair of cudaMalloc and cudaFree of 4 KiB, native, in microseconds.
    native_allocate_us: f64,
    /// What shadow memory adds.
    allocate_us: f64,
    /// The same of 4 MiB.
    native_allocate_large_us: f64,
    allocate_large_us: f64,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Row {
    Kernel(KernelRatios),
    /// Buffers of one size: bytes of memory that each takes, natively and by the
    /// percentage of a redzone. (No kernel is launched meanwhile, before which shadow
    /// memory would be mapped.)
    Memory {
        buffer: u64,
        native_bytes: f64,
        #[serde(flatten)]
        bytes: BTreeMap<&'static str, f64>,
    },
}

/// Redzones of 10, 50 and 100 percent of the buffer.
const REDZONES: [(&str, Variant<'static>); 4] = [
    ("native", Variant::Native),
    (
        "bytes_10",
        Variant::Ringfence(&["--protect", "shadow", "--redzone-percent", "10"]),
    ),
    (
        "bytes_50",
        Variant::Ringfence(&["--protect", "shadow", "--redzone-percent", "50"]),
    ),
    (
        "bytes_100",
        Variant::Ringfence(&["--protect", "shadow", "--redzone-percent", "100"]),
    ),
];

const KERNELS: [(&str, Variant<'static>); 5] = [
    ("native", Variant::Native),
    ("proofs", Variant::Ringfence(&["--protect", "shadow"])),
    (
        "checked",
        Variant::Ringfence(&["--protect", "shadow", "--prove", "off"]),
    ),
    (
        "checked_128",
        Variant::Ringfence(&[
            "--protect",
            "shadow",
            "--prove",
            "off",
            "--shadow-encoding",
            "128",
        ]),
    ),
    (
        "bounds",
        Variant::Ringfence(&["--protect", "bounds", "--prove", "off"]),
    ),
];

/// After this time no further round of a program's kernels begins.
const RUNNING: Duration = Duration::from_secs(35);

/// The same, of allocations.
const ALLOCATING: Duration = Duration::from_secs(20);

const ALLOCATIONS: [Variant<'static>; 2] = [
    Variant::Native,
    Variant::Ringfence(&["--protect", "shadow"]),
];

/// Measures everything and writes the results.
///
/// # Errors
///
/// A program fails, runs out of time, or computes something else.
pub fn measure(options: &Options) -> Result<()> {
    let kernels = |program: &str| options.kernels(program, &KERNELS, 3, RUNNING);
    let mut rows = kernels("bench")?;
    rows.extend(kernels("spaces")?);
    let mean = |name: &str| mean_of(&rows, name);
    let allocations = in_turn_within(
        ALLOCATING,
        ALLOCATIONS.len(),
        options.rounds(5),
        |variant| {
            let found = numbers(&options.host("allocate", ALLOCATIONS[variant])?)?;
            for name in ["small_us", "large_us"] {
                ensure!(found.contains_key(name), "it printed no {name}");
            }
            Ok(found)
        },
    )?;
    let native = |size: &'static str| allocations.median(0, |numbers| numbers[size]);
    let added = |size: &'static str| allocations.added(1, 0, |numbers| numbers[size]);
    let memory = memory(options)?;
    let (footprint, large_memory_percent) = footprint(options)?;
    let summary = Summary {
        geomean: mean("proofs")?,
        checked_geomean: mean("checked")?,
        checked_128_geomean: mean("checked_128")?,
        bounds_checked_geomean: mean("bounds")?,
        worst: worst_of(&rows, "checked")?,
        kernels: rows.len(),
        memory_percent: memory.0,
        redzone_percent: memory.1,
        large_memory_percent,
        native_allocate_us: round(native("small_us")?),
        allocate_us: round(added("small_us")?),
        native_allocate_large_us: round(native("large_us")?),
        allocate_large_us: round(added("large_us")?),
    };
    println!("{}", serde_json::to_string_pretty(&summary)?);
    let mut rows: Vec<Row> = rows.into_iter().map(Row::Kernel).collect();
    rows.extend(footprint);
    options.write(summary, rows)
}

/// Memory that buffers of one size take, and what that of the largest is more than
/// natively, in percent, by default.
fn footprint(options: &Options) -> Result<(Vec<Row>, f64)> {
    let rounds = in_turn_within(
        ALLOCATING,
        REDZONES.len(),
        options.rounds(1),
        |variant| -> Result<Vec<MemoryLine>> {
            lines(
                &options.host("memory", REDZONES[variant].1)?,
                "\"allocate_us\"",
            )
        },
    )?;
    let each = |variant, index: usize| -> Result<f64> {
        let bytes = |lines: &Vec<MemoryLine>| lines.get(index).map(|line| line.bytes_each);
        rounds.median_of(variant, bytes).map(round)
    };
    let mut rows = Vec::new();
    let mut percent = 0.0;
    for (index, line) in rounds.of(0)[0].iter().enumerate() {
        let mut bytes = BTreeMap::new();
        for (variant, (name, _)) in REDZONES.iter().enumerate().skip(1) {
            bytes.insert(*name, each(variant, index)?);
        }
        let native_bytes = each(0, index)?;
        percent = round(100.0 * (bytes["bytes_50"] / native_bytes - 1.0));
        println!(
            "{:>12} bytes: native {native_bytes}, {bytes:?}",
            line.buffer
        );
        rows.push(Row::Memory {
            buffer: line.buffer,
            native_bytes,
            bytes,
        });
    }
    Ok((rows, percent))
}

/// Shadow memory and redzones of the kernels' program, in percent of its
/// buffers.
fn memory(options: &Options) -> Result<(f64, f64)> {
    let folder = tempfile::tempdir()?;
    let report = folder.path().join("report.json");
    let path = report.to_str().context("the temporary folder's name")?;
    let variant = Variant::Ringfence(&["--protect", "shadow", "--json", path]);
    options.runner().run("bench", options.size(), variant)?;
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&report)?)?;
    let bytes = |name: &str| {
        let value = report["coverage"]["shadow"][name].as_u64();
        value.with_context(|| format!("the report has no `{name}` of shadow memory"))
    };
    let memory = bytes("memory")? as f64;
    ensure!(memory > 0.0, "no buffer had redzones");
    let percent = |bytes: u64| round(100.0 * bytes as f64 / memory);
    Ok((percent(bytes("shadow")?), percent(bytes("bytes")?)))
}
