//! What the checks of GASan's paper cost on hardware, part by part: its figures 7 to 11.
//!
//! Checks as in the paper: of global memory alone, every launch checked, no bounds that
//! decide in place of shadow memory, no check before a loop. Variants differ in one thing
//! each: bytes that a shadow byte stands for, whether it is loaded, which accesses are
//! checked. Its figures 12 and 13, hit rates of caches, need hardware counters.

use crate::options::Options;
use crate::turns::{KernelRatios, Variant, in_turn_within, kernel_lines, mean_of, ratios_of};
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

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
        rows.extend(kernels.into_iter().map(|kernel| Row { of, kernel }));
    }
    println!("{}", serde_json::to_string_pretty(&summary)?);
    options.write(summary, rows)
}
