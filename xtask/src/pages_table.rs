//! The table of `gpu-pages.json`: what unmapped pages around buffers cost.

use crate::readme::{kernel_ratios, number, rows};
use anyhow::Result;
use serde_json::Value;
use std::fmt::Write;

/// The table, and what the summary says.
///
/// # Errors
///
/// A number is missing.
pub fn gpu_pages(results: &Value) -> Result<String> {
    let summary = &results["summary"];
    let all = rows(results)?;
    let mut out = kernel_ratios(all, "at unmapped pages", number(summary, "geomean")?)?;
    out += "\n| buffer, bytes | memory, native | with its own pages | sharing pages | cudaMalloc, µs, native | with its own pages | sharing pages |\n";
    out += "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
    for row in all.iter().filter(|row| !row["buffer"].is_null()) {
        let _ = writeln!(
            out,
            "| {} | {:.0} | {:.0} | {:.0} | {:.1} | {:.1} | {:.1} |",
            row["buffer"],
            number(row, "native_bytes")?,
            number(row, "own_bytes")?,
            number(row, "shared_bytes")?,
            number(row, "native_us")?,
            number(row, "own_us")?,
            number(row, "shared_us")?
        );
    }
    let _ = writeln!(
        out,
        "\nKernel time over native, and memory that a buffer takes of what the device has free, medians, variants in \
         turn. The worst kernel takes {:.3} of its native time. A pair of cudaMalloc and cudaFree of 4 KiB takes \
         {:.1} µs natively and {:.1} µs more with pages of its own ({:.1} µs more where pages are shared); of 4 MiB, \
         {:.1} µs and {:.1} µs more.",
        number(summary, "worst")?,
        number(summary, "native_allocate_us")?,
        number(summary, "allocate_us")?,
        number(summary, "shared_allocate_us")?,
        number(summary, "native_allocate_large_us")?,
        number(summary, "allocate_large_us")?
    );
    let mut sentences = Vec::new();
    for row in all.iter().filter(|row| !row["steps"].is_null()) {
        sentences.push(format!(
            "A step of training in PyTorch ({}) takes {:.3} of its native time of {:.2} ms.",
            row["steps"].as_str().unwrap_or_default(),
            number(row, "ratio")?,
            number(row, "native_ms")?
        ));
    }
    if let Ok(percent) = number(summary, "torch_memory_percent") {
        sentences.push(format!("Its buffers take {percent:.1} % more memory."));
    }
    if !sentences.is_empty() {
        let _ = writeln!(out, "\n{}", sentences.join(" "));
    }
    Ok(out)
}
