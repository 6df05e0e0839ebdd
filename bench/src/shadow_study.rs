//! What the checks of GASan's paper cost on hardware, part by part: its figures 7 to 13.
//!
//! Checks as in the paper: of global memory alone, every launch checked, no bounds that
//! decide in place of shadow memory, no check before a loop. Variants differ in one thing
//! each: bytes that a shadow byte stands for, whether it is loaded, which accesses are
//! checked. Which loads of shadow memory find it in the caches (figures 12 and 13) is what
//! hardware counters say of checks with that load and without it.

use crate::counters::{Loads, Profiler};
use crate::options::Options;
use crate::turns::{
    KernelLine, KernelRatios, Variant, in_turn_within, kernel_lines, mean_of, ratios_of,
};
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

/// What is counted: columns of loads that the first cache and the second one missed, and
/// the checks with loads of shadow memory and without them.
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
    /// Its program: `kernels`, or `memory`, whose kernels only load.
    of: &'static str,
    #[serde(flatten)]
    kernel: KernelRatios,
    /// Shares of the sectors that were loaded, by column.
    #[serde(flatten)]
    missed: Missed,
}

/// By column: of the sectors of 32 bytes that were loaded, the part that the first cache
/// missed, and the part that the second one missed, too. A column is missing where nothing
/// was loaded.
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
        let (runner, size) = (options.runner(), options.size());
        let rounds = in_turn_within(RUNNING, VARIANTS.len(), options.rounds(3), |variant| {
            kernel_lines(&runner.run(program, size, VARIANTS[variant].1)?)
        })?;
        let kernels = rounds.kernels(&VARIANTS)?;
        for (name, _) in &VARIANTS[1..] {
            let worst = ratios_of(&kernels, name)?.into_iter().fold(0.0, f64::max);
            summary.insert(format!("{of}_{name}"), mean_of(&kernels, name)?);
            summary.insert(format!("{of}_{name}_worst"), worst);
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
            let columns = COUNTED.iter().flat_map(|(columns, ..)| columns);
            for column in OWN.iter().chain(columns) {
                if let Some(mean) = mean_in(&missed, column) {
                    summary.insert(format!("{of}_{column}"), mean);
                }
            }
            for row in rows.iter_mut().filter(|row| row.of == of) {
                row.missed = missed.remove(&row.kernel.kernel).unwrap_or_default();
            }
        }
    }
    println!("{}", serde_json::to_string_pretty(&summary)?);
    options.write(summary, rows)
}

/// What loads of each kernel miss.
fn missed(
    profiler: &Profiler<'_>,
    program: &str,
    size: &[&str],
) -> Result<BTreeMap<String, Missed>> {
    let native = profiler.loads(program, size, Variant::Native)?;
    let mut all: BTreeMap<String, Missed> = BTreeMap::new();
    for (line, own) in &native {
        let columns = all.entry(line.kernel.clone()).or_default();
        add_shares(columns, OWN, *own);
    }
    for (columns, loaded, not_loaded) in COUNTED {
        let loaded = same_kernels(profiler.loads(program, size, loaded)?, &native)?;
        let not_loaded = same_kernels(profiler.loads(program, size, not_loaded)?, &native)?;
        for ((line, _), (loaded, not_loaded)) in native.iter().zip(loaded.iter().zip(not_loaded)) {
            let shadow = Loads {
                all: loaded.all - not_loaded.all,
                past_first: loaded.past_first - not_loaded.past_first,
                past_second: loaded.past_second - not_loaded.past_second,
            };
            add_shares(all.entry(line.kernel.clone()).or_default(), columns, shadow);
        }
    }
    for (kernel, missed) in &all {
        println!("{kernel:<18} {missed:?}");
    }
    Ok(all)
}

/// The loads of the native kernels, whose results these must be.
fn same_kernels(
    found: Vec<(KernelLine, Loads)>,
    native: &[(KernelLine, Loads)],
) -> Result<Vec<Loads>> {
    ensure!(found.len() == native.len(), "a kernel is missing");
    for ((line, _), (own, _)) in found.iter().zip(native) {
        ensure!(
            line.kernel == own.kernel && line.digest == own.digest,
            "the result of {} is {}, natively {}",
            line.kernel,
            line.digest,
            own.digest
        );
    }
    Ok(found.into_iter().map(|(_, loads)| loads).collect())
}

/// Adds what part of the loads the caches missed, if there are any. (That of shadow memory
/// is a difference between two runs, and can be a little less than nothing.)
fn add_shares(missed: &mut Missed, columns: [&'static str; 2], loads: Loads) {
    if loads.all > 0.0 {
        missed.insert(columns[0], round(loads.past_first / loads.all));
        missed.insert(columns[1], round(loads.past_second / loads.all));
    }
}

/// The mean over the kernels that have this column.
fn mean_in(missed: &BTreeMap<String, Missed>, column: &str) -> Option<f64> {
    let shares: Vec<f64> = missed
        .values()
        .filter_map(|row| row.get(column))
        .copied()
        .collect();
    let count = shares.len() as f64;
    (count > 0.0).then(|| round(shares.iter().sum::<f64>() / count))
}
