//! The table of what fences cost, from `gpu-fence.json`.

use crate::readme::{number, rows};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fmt::Write as _;

/// The table, in Markdown: a column for each form that was measured.
///
/// # Errors
///
/// The results lack a number.
pub(crate) fn gpu_fence(results: &Value) -> Result<String> {
    let summary = results["summary"].as_object().context("no summary")?;
    let forms: Vec<&str> = summary
        .keys()
        .filter_map(|key| key.strip_prefix("geomean_"))
        .collect();
    ensure!(!forms.is_empty(), "no form of fences was measured");
    let mut out = String::from("| kernel | native, ms | registers |");
    for form in &forms {
        let _ = write!(out, " {} | registers |", form.replace('_', " "));
    }
    let _ = writeln!(out, "\n| --- |{}", " ---: |".repeat(2 + 2 * forms.len()));
    for row in rows(results)? {
        let kernel = row["kernel"].as_str().context("a row without a kernel")?;
        let native = number(row, "native_ms")?;
        let registers = spilled(
            number(row, "native_registers")?,
            number(row, "native_local")?,
        );
        let _ = write!(out, "| {kernel} | {native:.3} | {registers} |");
        for form in &forms {
            let of = &row[*form];
            let registers = spilled(number(of, "registers")?, number(of, "local")?);
            let _ = write!(out, " {:.3} | {registers} |", number(of, "ratio")?);
        }
        out.push('\n');
    }
    out.push_str("| **geometric mean** | | |");
    for form in &forms {
        let mean = number(&results["summary"], &format!("geomean_{form}"))?;
        let _ = write!(out, " **{mean:.3}** | |");
    }
    out.push_str(
        "\n\nKernel time over native, medians over turns; registers of a thread, and bytes of local memory where \
         it has any. All variants are loaded by the driver from PTX in one process, and nothing is intercepted.\n",
    );
    Ok(out)
}

/// The table of accesses that were found and fenced, from `fenced.json`.
///
/// # Errors
///
/// The results lack a number.
pub(crate) fn fenced(results: &Value) -> Result<String> {
    const COLUMNS: [&str; 9] = [
        "kernels",
        "functions",
        "loads",
        "stores",
        "fixed",
        "global",
        "generic",
        "shared",
        "variable",
    ];
    let summary = &results["summary"];
    let whole = |value: &Value, key: &str| number(value, key).map(|number| number as u64);
    let mut out = format!(
        "{} loads and {} stores in {} files, of which {} are refused by name of what cannot be contained; in the others \
         {} loads and {} stores are made safe, and the verifier accepts all of it.\n\n| PTX |",
        whole(summary, "loads")?,
        whole(summary, "stores")?,
        whole(summary, "files")?,
        whole(summary, "refused")?,
        whole(summary, "fenced_loads")?,
        whole(summary, "fenced_stores")?,
    );
    for column in COLUMNS {
        let _ = write!(out, " {column} |");
    }
    let _ = writeln!(out, "\n| --- |{}", " ---: |".repeat(COLUMNS.len()));
    let mut line = |name: &str, of: &Value| -> Result<()> {
        let _ = write!(out, "| {name} |");
        for column in COLUMNS {
            let _ = write!(out, " {} |", whole(of, column)?);
        }
        out.push('\n');
        Ok(())
    };
    for row in rows(results)? {
        line(
            row["folder"].as_str().context("a row without a folder")?,
            row,
        )?;
    }
    line("**all**", summary)?;
    Ok(out)
}

/// The table of registers and spills, from `fence-resources.json`.
///
/// # Errors
///
/// The results lack a number.
pub(crate) fn resources(results: &Value) -> Result<String> {
    let mut out = String::from(
        "| PTX | level | kernels | registers, native | fenced | ratio | warps that fit, native | fenced | kernels with \
         fewer | that spill, native | fenced |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | \
         ---: |\n",
    );
    let mut line = |name: &str, level: &str, prefix: &str, of: &Value| -> Result<()> {
        let number = |key: &str| number(of, &format!("{prefix}{key}"));
        let _ = writeln!(
            out,
            "| {name} | {level} | {} | {:.1} | {:.1} | {:.3} | {:.1} | {:.1} | {} | {} | {} |",
            number("kernels")?,
            number("registers_native")?,
            number("registers_fenced")?,
            number("registers_ratio")?,
            number("warps_native")?,
            number("warps_fenced")?,
            number("fewer_warps")?,
            number("spill_native")?,
            number("spill_fenced")?,
        );
        Ok(())
    };
    for row in rows(results)? {
        let folder = row["folder"].as_str().context("a row without a folder")?;
        line(folder, &format!("-O{}", row["level"]), "", row)?;
    }
    for level in ["0", "3"] {
        let prefix = format!("o{level}_");
        line(
            "**all**",
            &format!("-O{level}"),
            &prefix,
            &results["summary"],
        )?;
    }
    Ok(out)
}

fn spilled(registers: f64, local: f64) -> String {
    if local > 0.0 {
        format!("{registers} + {local} bytes")
    } else {
        registers.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::{gpu_fence, resources};

    #[test]
    fn each_level_has_a_line() {
        let mut results = serde_json::json!({"summary": {}, "rows": []});
        let names = [
            "kernels",
            "registers_native",
            "registers_fenced",
            "registers_ratio",
            "warps_native",
            "warps_fenced",
            "fewer_warps",
            "spill_native",
            "spill_fenced",
        ];
        for (at, name) in names.iter().enumerate() {
            for level in [0, 3] {
                results["summary"][format!("o{level}_{name}")] = (at + level).into();
            }
        }
        let table = resources(&results).unwrap();
        assert!(
            table.contains("| **all** | -O3 | 3 | 4.0 | 5.0 | 6.000 | 7.0 | 8.0 | 9 | 10 | 11 |"),
            "{table}"
        );
        results["summary"]["o0_kernels"] = serde_json::Value::Null;
        assert!(resources(&results).is_err());
    }

    #[test]
    fn each_form_has_columns() {
        let form = |ratio: f64, local: u32| serde_json::json!({"ratio": ratio, "registers": 18, "local": local});
        let mut results = serde_json::json!({
            "summary": {"geomean_mask": 1.012, "geomean_modulo": 1.2, "worst_mask": 1.1, "kernels": 1},
            "rows": [{
                "kernel": "triad", "native_ms": 0.25, "native_registers": 16, "native_local": 0,
                "mask": form(1.012, 0), "modulo": form(1.2, 8),
            }],
        });
        let table = gpu_fence(&results).unwrap();
        let expected = "| triad | 0.250 | 16 | 1.012 | 18 | 1.200 | 18 + 8 bytes |";
        assert!(table.contains(expected), "{table}");
        assert!(
            table.contains("| **geometric mean** | | | **1.012** | | **1.200** | |"),
            "{table}"
        );
        results["rows"][0]["modulo"] = serde_json::Value::Null;
        assert!(gpu_fence(&results).is_err());
    }
}
