//! What the checks of GASan's paper cost on hardware, part by part: its figures 7 to 11.
//!
//! Checks as in the paper: of global memory alone, every launch checked, no bounds that
//! decide in place of shadow memory, no check before a loop. Variants differ in one thing
//! each: bytes that a shadow byte stands for, whether it is loaded, which accesses are
//! checked. Its figures 12 and 13, hit rates of caches, need hardware counters.

use crate::options::Options;
use crate::turns::{Variant, in_turn_within, kernel_lines};
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use suite::results::{geometric_mean, round};

/// A variant with these options besides those of all.
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

/// Programs with kernels; what the first one's are is what the second one's are not: a
/// sample of what programs do.
const PROGRAMS: [(&str, &str); 2] = [("bench", "kernels"), ("memory", "memory")];

/// After this time no further round of a program begins.
const RUNNING: Duration = Duration::from_secs(70);

/// One kernel; times over native, by variant.
#[derive(Debug, Serialize)]
struct Row {
    kernel: String,
    /// Its program: `kernels`, or `memory`, whose kernels only load.
    of: &'static str,
    native_ms: f64,
    #[serde(flatten)]
    ratios: BTreeMap<&'static str, f64>,
}

/// Measures, and writes the results: in the summary geometric means, by program and
/// variant.
///
/// # Errors
///
/// A program fails, runs out of time, or computes something else.
pub fn measure(options: &Options) -> Result<()> {
    let mut rows = Vec::new();
    let mut summary = BTreeMap::new();
    for (program, of) in PROGRAMS {
        let its = kernels(options, (program, of))?;
        for (name, _) in &VARIANTS[1..] {
            let ratios: Option<Vec<f64>> = its
                .iter()
                .map(|row| row.ratios.get(name).copied())
                .collect();
            let ratios = ratios.context("a variant was not measured")?;
            let worst = ratios.iter().copied().fold(0.0, f64::max);
            let mean = geometric_mean(ratios).context("a kernel took no time at all")?;
            summary.insert(format!("{of}_{name}"), round(mean));
            summary.insert(format!("{of}_{name}_worst"), worst);
        }
        rows.extend(its);
    }
    println!("{}", serde_json::to_string_pretty(&summary)?);
    options.write(summary, rows)
}

/// All kernels of a program, under all variants.
fn kernels(options: &Options, (program, of): (&str, &'static str)) -> Result<Vec<Row>> {
    let (runner, size) = (options.runner(), options.size());
    let rounds = in_turn_within(RUNNING, VARIANTS.len(), options.rounds(3), |variant| {
        kernel_lines(&runner.run(program, size, VARIANTS[variant].1)?)
    })?;
    let rows = rounds.first().iter().enumerate().map(|(index, line)| {
        let native_ms = rounds.time(0, index)?;
        let mut ratios = BTreeMap::new();
        for (variant, (name, _)) in VARIANTS.iter().enumerate().skip(1) {
            ratios.insert(*name, round(rounds.time(variant, index)? / native_ms));
        }
        println!("{:<18} native {native_ms:>9.4} ms  {ratios:?}", line.kernel);
        Ok(Row {
            kernel: line.kernel.clone(),
            of,
            native_ms,
            ratios,
        })
    });
    rows.collect()
}
