//! What each protection costs: checks by the space that they are of, fields
//! of structs, freed memory that is kept, the order of streams, leaks.
//!
//! Proofs are off, so that every check is made; with them, what most kernels
//! of the table pay is nothing.

use crate::options::Options;
use crate::turns::{Variant, in_turn, mean_of, numbers};
use anyhow::{Result, ensure};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use suite::results::round;

/// Flat numbers of `gpu-protections.json`.
#[derive(Debug, Serialize)]
struct Summary {
    /// Geometric mean of kernel time over native: global memory is checked.
    global_geomean: f64,
    /// Shared memory, too.
    shared_geomean: f64,
    /// Local memory, too.
    local_geomean: f64,
    /// Constants and parameters, too.
    constant_geomean: f64,
    /// Kernels of these means.
    kernels: usize,
    /// Of the kernels with array fields, in a `-G` build: checked against the whole.
    whole_geomean: f64,
    /// Checked against the fields.
    fields_geomean: f64,
    /// Of a pair of cudaMalloc and cudaFree of 4 KiB, native, in microseconds.
    native_allocate_us: f64,
    /// What Ringfence adds where no freed memory is kept.
    allocate_us: f64,
    /// Where it is.
    quarantine_allocate_us: f64,
    /// The same with leak detection.
    leak_check_allocate_us: f64,
    /// The same four, of 4 MiB.
    native_allocate_large_us: f64,
    allocate_large_us: f64,
    quarantine_allocate_large_us: f64,
    leak_check_allocate_large_us: f64,
    /// Host time of one launch, native, in microseconds.
    native_launch_us: f64,
    /// From the least to the greatest of its rounds.
    native_launch_spread_us: f64,
    /// What Ringfence adds to it with all launches checked.
    checked_launch_us: f64,
    /// Of a launch with stream-ordered memory in use, native.
    native_ordered_launch_us: f64,
    /// What Ringfence adds to that.
    ordered_launch_us: f64,
}

/// All launches are checked: of what is named.
macro_rules! only {
    ($spaces:literal) => {
        Variant::Ringfence(&["--prove", "off", "--check-only", $spaces])
    };
}

/// What is checked, one more at a time.
const SPACES: [(&str, Variant<'static>); 5] = [
    ("native", Variant::Native),
    ("global", only!("global")),
    ("shared", only!("global,shared")),
    ("local", only!("global,shared,local")),
    ("constant", only!("global,shared,local,constant,parameter")),
];

const FIELDS: [(&str, Variant<'static>); 3] = [
    ("native", Variant::Native),
    ("whole", only!("global,shared,local,constant,parameter")),
    ("fields", only!("all")),
];

const ALLOCATIONS: [Variant<'static>; 4] = [
    Variant::Native,
    Variant::Ringfence(&["--quarantine-size", "0"]),
    Variant::Ringfence(&[]),
    Variant::Ringfence(&["--leak-check", "full"]),
];

const LAUNCHES: [(&str, Variant<'static>); 4] = [
    ("launch", Variant::Native),
    ("launch", Variant::Ringfence(&["--prove", "off"])),
    ("ordered", Variant::Native),
    ("ordered", Variant::Ringfence(&["--prove", "off"])),
];

/// Measures everything and writes the results.
///
/// # Errors
///
/// A program fails, runs out of time, or computes something else.
pub fn measure(options: &Options) -> Result<()> {
    let mut rows = options.kernels("bench", &SPACES, 2, Duration::MAX)?;
    rows.extend(options.kernels("spaces", &SPACES, 2, Duration::MAX)?);
    let kernels = rows.len();
    let fields = options.kernels("fields", &FIELDS, 2, Duration::MAX)?;
    let rounds = options.rounds(5);
    let allocations = in_turn(ALLOCATIONS.len(), rounds, |variant| {
        host(options, "allocate", ALLOCATIONS[variant])
    })?;
    let launches = in_turn(LAUNCHES.len(), rounds, |variant| {
        let (what, variant) = LAUNCHES[variant];
        host(options, what, variant)
    })?;
    let pair = |size: &'static str, variant| match variant {
        0 => allocations.median(0, |numbers| numbers[size]),
        _ => allocations.added(variant, 0, |numbers| numbers[size]),
    };
    let launch = |numbers: &BTreeMap<String, f64>| numbers["launch_us"];
    let summary = Summary {
        global_geomean: mean_of(&rows, "global")?,
        shared_geomean: mean_of(&rows, "shared")?,
        local_geomean: mean_of(&rows, "local")?,
        constant_geomean: mean_of(&rows, "constant")?,
        kernels,
        whole_geomean: mean_of(&fields, "whole")?,
        fields_geomean: mean_of(&fields, "fields")?,
        native_allocate_us: round(pair("small_us", 0)?),
        allocate_us: round(pair("small_us", 1)?),
        quarantine_allocate_us: round(pair("small_us", 2)?),
        leak_check_allocate_us: round(pair("small_us", 3)?),
        native_allocate_large_us: round(pair("large_us", 0)?),
        allocate_large_us: round(pair("large_us", 1)?),
        quarantine_allocate_large_us: round(pair("large_us", 2)?),
        leak_check_allocate_large_us: round(pair("large_us", 3)?),
        native_launch_us: round(launches.median(0, launch)?),
        native_launch_spread_us: round(launches.spread(0, launch)),
        checked_launch_us: round(launches.added(1, 0, launch)?),
        native_ordered_launch_us: round(launches.median(2, launch)?),
        ordered_launch_us: round(launches.added(3, 2, launch)?),
    };
    println!("{}", serde_json::to_string_pretty(&summary)?);
    rows.extend(fields);
    options.write(summary, rows)
}

/// Runs the program `host`, which must print the times that are wanted.
fn host(options: &Options, what: &str, variant: Variant<'_>) -> Result<BTreeMap<String, f64>> {
    let found = numbers(&options.host(what, variant)?)?;
    let wanted: &[&str] = match what {
        "allocate" => &["small_us", "large_us"],
        _ => &["launch_us"],
    };
    for name in wanted {
        ensure!(found.contains_key(*name), "it printed no {name}");
    }
    Ok(found)
}
