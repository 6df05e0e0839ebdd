//! What the checks of GASan's paper cost on hardware, part by part: its figures 7 to 13.
//!
//! Checks as in the paper: of global memory alone, every launch checked, no bounds that
//! decide in place of shadow memory, no check before a loop. Variants differ in one thing
//! each: bytes that a shadow byte stands for, whether it is loaded, which accesses are
//! checked. Which loads of shadow memory find it in the caches (figures 12 and 13) is what
//! hardware counters say of checks with that load and without it.

use crate::counters::{Loads, Profiler};
use crate::options::Options;
use crate::turns::{KernelRatios, Variant, mean_of, worst_of};
use anyhow::{Result, ensure};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use suite::results::round;

/// What to measure, and where.
#[derive(clap::Args)]
pub struct Study {
    #[command(flatten)]
    options: Options,
    /// NVIDIA's profiler, `ncu`: what loads find in the caches is not counted without.
    #[arg(long)]
    ncu: Option<PathBuf>,
}

/// A variant: what all have in common, with this encoding, these loads of shadow memory, and
/// these accesses checked.
macro_rules! shadow {
    ($encoding:literal, $loads:literal, $checked:literal) => {
        Variant::Ringfence(&[
            "--protect",
            "shadow",
            "--prove",
            "off",
            "--shadow-encoding",
            $encoding,
            "--shadow-loads",
            $loads,
            "--check-only",
            $checked,
        ])
    };
}

/// Names of the columns, and what runs.
const VARIANTS: [(&str, Variant<'static>); 8] = [
    ("native", Variant::Native),
    ("blocks_8", shadow!("8", "always", "global")),
    ("blocks_128", shadow!("128", "always", "global")),
    ("blocks_256", shadow!("256", "always", "global")),
    ("not_loaded_128", shadow!("128", "never", "global")),
    ("not_loaded_256", shadow!("256", "never", "global")),
    ("reads_256", shadow!("256", "always", "global,no-writes")),
    ("writes_256", shadow!("256", "always", "global,no-reads")),
];

/// What is counted: columns of loads that missed L1, and L2, too, and the checks with loads
/// of shadow memory and without them.
const COUNTED: [([&str; 2], Variant<'static>, Variant<'static>); 3] = [
    (
        ["past_first_8", "past_second_8"],
        shadow!("8", "always", "global"),
        shadow!("8", "never", "global"),
    ),
    (
        ["past_first_128", "past_second_128"],
        shadow!("128", "always", "global"),
        shadow!("128", "never", "global"),
    ),
    (
        ["past_first_256", "past_second_256"],
        shadow!("256", "always", "global"),
        shadow!("256", "never", "global"),
    ),
];

/// The same of the program's own loads, natively.
const OWN: [&str; 2] = ["past_first_own", "past_second_own"];

/// Programs, and what the results call them. The kernels of the first are a sample of what
/// programs compute; those of the second only access memory.
const PROGRAMS: [(&str, &str); 2] = [("bench", "kernels"), ("memory", "memory")];

/// After this time no further round of a program begins.
const RUNNING: Duration = Duration::from_secs(70);

/// One kernel.
#[derive(Debug, Serialize)]
struct Row {
    /// Its program: `kernels`, or `memory`, whose kernels only access memory.
    of: &'static str,
    #[serde(flatten)]
    kernel: KernelRatios,
    /// Shares of the sectors that were loaded, by column.
    #[serde(flatten)]
    missed: Missed,
}

/// By column: of the sectors of 32 bytes that were loaded, the part that missed L1, and the
/// part that missed L2, too. A column is missing where nothing was loaded.
type Missed = BTreeMap<&'static str, f64>;

/// Measures, and writes the results: in the summary geometric means, by program and
/// variant.
///
/// # Errors
///
/// A program fails, runs out of time, or computes something else.
pub fn measure(study: &Study) -> Result<()> {
    let options = &study.options;
    let mut rows: Vec<Row> = Vec::new();
    let mut summary = BTreeMap::new();
    for (program, of) in PROGRAMS {
        let kernels = options.kernels(program, &VARIANTS, 3, RUNNING)?;
        for (name, _) in &VARIANTS[1..] {
            summary.insert(format!("{of}_{name}"), mean_of(&kernels, name)?);
            summary.insert(format!("{of}_{name}_worst"), worst_of(&kernels, name)?);
        }
        rows.extend(kernels.into_iter().map(|kernel| Row {
            of,
            kernel,
            missed: Missed::new(),
        }));
    }
    if let Some(ncu) = &study.ncu {
        // Written before, too: where counters cannot be read, the times are there.
        options.write(&summary, rows.iter().collect())?;
        let profiler = Profiler::new(ncu, options.runner())?;
        for (program, of) in PROGRAMS {
            let mut missed = missed(&profiler, program, options.size())?;
            for (column, mean) in means(missed.values()) {
                summary.insert(format!("{of}_{column}"), mean);
            }
            for row in rows.iter_mut().filter(|row| row.of == of) {
                row.missed = missed.remove(&row.kernel.kernel).unwrap_or_default();
            }
        }
    }
    println!("{}", serde_json::to_string_pretty(&summary)?);
    options.write(summary, rows)
}

/// What loads of each kernel miss, by the kernel's name.
fn missed(
    profiler: &Profiler<'_>,
    program: &str,
    size: &[&str],
) -> Result<BTreeMap<String, Missed>> {
    let native = profiler.loads(program, size, Variant::Native)?;
    let own = native.iter().map(|(_, loads)| shares(OWN, *loads));
    let mut all: Vec<Missed> = own.collect();
    for (columns, loaded, not_loaded) in COUNTED {
        let count = |variant| -> Result<Vec<Loads>> {
            let found = profiler.loads(program, size, variant)?;
            ensure!(found.len() == native.len(), "a kernel is missing");
            for ((line, _), (own, _)) in found.iter().zip(&native) {
                line.ensure_same(own)?;
            }
            Ok(found.into_iter().map(|(_, loads)| loads).collect())
        };
        let (loaded, not_loaded) = (count(loaded)?, count(not_loaded)?);
        for ((missed, loaded), not_loaded) in all.iter_mut().zip(loaded).zip(not_loaded) {
            missed.extend(shares(columns, loaded - not_loaded));
        }
    }
    let named = native.into_iter().zip(all);
    let named = named.map(|((line, _), missed)| (line.kernel, missed));
    Ok(named
        .inspect(|(kernel, missed)| println!("{kernel:<18} {missed:?}"))
        .collect())
}

/// What part of the loads missed the caches, by column, if there are any. (That of shadow
/// memory is a difference between two runs, and can be a little less than nothing.)
fn shares(columns: [&'static str; 2], loads: Loads) -> Missed {
    let parts = [loads.past_l1, loads.past_l2].map(|missed| round(missed / loads.all));
    let columns = columns.into_iter().zip(parts);
    columns.filter(|_| loads.all > 0.0).collect()
}

/// The means of all columns, over the kernels that have them.
fn means<'x>(kernels: impl Iterator<Item = &'x Missed>) -> BTreeMap<&'static str, f64> {
    let mut columns: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for (column, share) in kernels.flatten() {
        columns.entry(column).or_default().push(*share);
    }
    let mean = |shares: Vec<f64>| round(shares.iter().sum::<f64>() / shares.len() as f64);
    let columns = columns.into_iter();
    columns
        .map(|(column, shares)| (column, mean(shares)))
        .collect()
}
