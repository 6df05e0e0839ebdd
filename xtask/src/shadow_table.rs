//! The tables of `gpu-shadow.json`: what checks against shadow memory cost, and its memory;
//! and of `gpu-shadow-study.json`: what their parts cost.

use crate::readme::{number, rows};
use anyhow::Result;
use serde_json::Value;
use std::fmt::Write;

/// The table, and what the summary says.
///
/// # Errors
///
/// A number is missing.
pub fn gpu_shadow(results: &Value) -> Result<String> {
    let summary = &results["summary"];
    let mut out = String::from(
        "| kernel | native, ms | with proofs | every launch checked | the same, blocks of 128 bytes | bounds, every launch checked |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let is_kernel = |row: &&Value| !row["kernel"].is_null();
    for row in rows(results)?.iter().filter(is_kernel) {
        let _ = writeln!(
            out,
            "| {} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} |",
            row["kernel"].as_str().unwrap_or_default(),
            number(row, "native_ms")?,
            number(row, "proofs")?,
            number(row, "checked")?,
            number(row, "checked_128")?,
            number(row, "bounds")?
        );
    }
    let _ = writeln!(
        out,
        "| **geometric mean** | | **{:.3}** | **{:.3}** | **{:.3}** | **{:.3}** |",
        number(summary, "geomean")?,
        number(summary, "checked_geomean")?,
        number(summary, "checked_128_geomean")?,
        number(summary, "bounds_checked_geomean")?
    );
    let _ = writeln!(
        out,
        "\nKernel time over native, medians, variants in turn. With every launch checked, the worst kernel takes {:.3} of its \
         native time. Shadow memory takes {:.2} % of the buffers in use, redzones {:.2} %. A pair of cudaMalloc \
         and cudaFree of 4 KiB takes {:.1} µs natively and {:.1} µs under shadow memory; of 4 MiB, {:.1} µs and {:.1} µs.",
        number(summary, "worst")?,
        number(summary, "memory_percent")?,
        number(summary, "redzone_percent")?,
        number(summary, "native_allocate_us")?,
        number(summary, "native_allocate_us")? + number(summary, "allocate_us")?,
        number(summary, "native_allocate_large_us")?,
        number(summary, "native_allocate_large_us")? + number(summary, "allocate_large_us")?
    );
    out += "\n| buffer, bytes | memory, native | redzones of 10 % | of 50 % | of 100 % |\n";
    out += "| ---: | ---: | ---: | ---: | ---: |\n";
    for row in rows(results)?.iter().filter(|row| !row["buffer"].is_null()) {
        let _ = writeln!(
            out,
            "| {} | {:.0} | {:.0} | {:.0} | {:.0} |",
            row["buffer"],
            number(row, "native_bytes")?,
            number(row, "bytes_10")?,
            number(row, "bytes_50")?,
            number(row, "bytes_100")?
        );
    }
    let _ = writeln!(
        out,
        "\nBytes of the device's memory that a buffer takes with its redzones; the largest takes {:.2} % more \
         than natively. Shadow memory is mapped when a kernel is launched, and not counted here: 2 MiB for 512 MiB \
         of addresses, those of redzones among them.",
        number(summary, "large_memory_percent")?
    );
    Ok(out)
}

/// Columns of the study: their names in the results, and their heads.
const STUDIED: [(&str, &str); 7] = [
    ("blocks_8", "8 bytes"),
    ("blocks_128", "128"),
    ("blocks_256", "256"),
    ("not_loaded_128", "128, not loaded"),
    ("not_loaded_256", "256, not loaded"),
    ("reads_256", "256, reads"),
    ("writes_256", "256, writes"),
];

/// Columns of loads that the caches missed: their names in the results, and their heads.
const MISSED: [(&str, &str); 8] = [
    ("past_first_own", "L1, own loads"),
    ("past_first_8", "shadow, 8 bytes"),
    ("past_first_128", "128"),
    ("past_first_256", "256"),
    ("past_second_own", "L2, own loads"),
    ("past_second_8", "shadow, 8 bytes"),
    ("past_second_128", "128"),
    ("past_second_256", "256"),
];

/// The tables of what the parts of checks cost, and of what their loads miss.
///
/// # Errors
///
/// A number is missing.
pub fn gpu_shadow_study(results: &Value) -> Result<String> {
    let summary = &results["summary"];
    let heads: Vec<&str> = STUDIED.iter().map(|(_, head)| *head).collect();
    let mut out = format!(
        "| kernel | native, ms | {} |\n| --- | ---: |{}\n",
        heads.join(" | "),
        " ---: |".repeat(heads.len())
    );
    for of in ["kernels", "memory"] {
        for row in rows(results)?.iter().filter(|row| row["of"] == of) {
            let name = row["kernel"].as_str().unwrap_or_default();
            let _ = write!(out, "| {name} | {:.3} |", number(row, "native_ms")?);
            for (column, _) in STUDIED {
                let _ = write!(out, " {:.2} |", number(row, column)?);
            }
            out.push('\n');
        }
        let _ = write!(out, "| **geometric mean** | |");
        for (column, _) in STUDIED {
            let mean = number(summary, &format!("{of}_{column}"))?;
            let _ = write!(out, " **{mean:.3}** |");
        }
        out.push('\n');
    }
    missed(results, &mut out)?;
    Ok(out)
}

/// The table of what the caches missed, if it was counted.
fn missed(results: &Value, out: &mut String) -> Result<()> {
    let summary = &results["summary"];
    let is_counted = summary["kernels_past_first_own"].is_number();
    if !is_counted {
        *out += "\nWhat loads find in the caches was not counted.\n";
        return Ok(());
    }
    let heads: Vec<&str> = MISSED.iter().map(|(_, head)| *head).collect();
    let _ = writeln!(
        out,
        "\n| missed in percent of the sectors loaded: kernel | {} |\n| --- |{}",
        heads.join(" | "),
        " ---: |".repeat(heads.len())
    );
    let percent = |share: &Value| {
        let share = share.as_f64().map(|share| format!("{:.1}", 100.0 * share));
        share.unwrap_or_else(|| "–".to_owned())
    };
    for of in ["kernels", "memory"] {
        for row in rows(results)?.iter().filter(|row| row["of"] == of) {
            let _ = write!(out, "| {} |", row["kernel"].as_str().unwrap_or_default());
            for (column, _) in MISSED {
                let _ = write!(out, " {} |", percent(&row[column]));
            }
            out.push('\n');
        }
        let _ = write!(out, "| **mean** |");
        for (column, _) in MISSED {
            let mean = &summary[format!("{of}_{column}")];
            let _ = write!(out, " **{}** |", percent(mean));
        }
        out.push('\n');
    }
    *out += "\nOf the sectors of 32 bytes that are loaded, those that miss L1, and those that miss L2, too, by hardware \
             counters (`ncu`); caches are empty when a kernel begins. Misses of shadow memory are the difference between checks \
             with that load and without it. Checks also change how many of the program's own loads miss, so the difference \
             can be below zero, or above 100 %.\n";
    Ok(())
}
