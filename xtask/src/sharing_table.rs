//! The tables of sharing and of calls, from `gpu-sharing.json` and
//! `gpu-calls.json`.

use crate::readme::{number, rows};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fmt::Write as _;

/// A number of a row, or a dash where the row has none.
fn cell(row: &Value, key: &str) -> String {
    match row[key].as_f64() {
        Some(number) => format!("{number:.3}"),
        None => "–".to_owned(),
    }
}

/// A sentence with the means, and a table of workloads, in Markdown.
///
/// # Errors
///
/// The results lack a number.
pub(crate) fn gpu_sharing(results: &Value) -> Result<String> {
    let summary = &results["summary"];
    let mut out = String::new();
    for (other, name) in [("mps", "MPS"), ("time_slicing", "time slicing")] {
        let mean = number(summary, &format!("sharing_vs_{other}"))?;
        let worst = number(summary, &format!("sharing_vs_{other}_worst"))?;
        let workload = summary[&format!("sharing_vs_{other}_worst_workload")].as_str();
        let _ = writeln!(
            out,
            "Makespan of tenants over {name}: geometric mean {mean:.3}, worst {worst:.3} ({}).  ",
            workload.context("the worst has no workload")?
        );
    }
    out.push_str(
        "\n| workload | programs | one after the other, s | time slicing, s | MPS, s | tenants, s | over MPS | over time slicing |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for row in rows(results)?
        .iter()
        .filter(|row| row["workload"].is_string())
    {
        let text = |key: &str| row[key].as_str().with_context(|| format!("no `{key}`"));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            text("workload")?,
            text("programs")?,
            cell(row, "in_sequence_s"),
            cell(row, "time_slicing_s"),
            cell(row, "mps_s"),
            cell(row, "tenants_s"),
            cell(row, "vs_mps"),
            cell(row, "vs_time_slicing"),
        );
    }
    let mut contexts = rows(results)?
        .iter()
        .filter(|row| row["contexts"].is_u64())
        .peekable();
    if contexts.peek().is_some() {
        out.push_str(
            "\n| processes | time slicing, MiB | MPS, MiB | tenants, MiB |\n| ---: | ---: | ---: | ---: |\n",
        );
    }
    for row in contexts {
        let whole = |key: &str| row[key].as_u64().map_or("–".to_owned(), |n| n.to_string());
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} |",
            whole("contexts"),
            whole("time_slicing_mib"),
            whole("mps_mib"),
            whole("tenants_mib"),
        );
    }
    Ok(out)
}

/// A table of calls, in Markdown.
///
/// # Errors
///
/// The results lack a number.
pub(crate) fn gpu_calls(results: &Value) -> Result<String> {
    let mut out = String::from(
        "| call | unit | native | tenant | added |\n| --- | --- | ---: | ---: | ---: |\n",
    );
    for row in rows(results)? {
        let what = row["what"].as_str().context("a row without a name")?;
        let (name, unit) = match (what.strip_suffix("_us"), what.strip_suffix("_gbs")) {
            (Some(name), _) => (name, "µs"),
            (_, Some(name)) => (name, "GB/s"),
            _ => (what, "1/s"),
        };
        let _ = writeln!(
            out,
            "| {} | {unit} | {:.2} | {:.2} | {:.2} |",
            name.replace('_', " "),
            number(row, "native")?,
            number(row, "tenant")?,
            number(row, "added")?,
        );
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_that_was_not_measured_has_a_dash() {
        let mut results = serde_json::json!({
            "summary": {
                "sharing_vs_mps": 1.01, "sharing_vs_mps_worst": 1.05, "sharing_vs_mps_worst_workload": "B",
                "sharing_vs_time_slicing": 0.8, "sharing_vs_time_slicing_worst": 1.0,
                "sharing_vs_time_slicing_worst_workload": "C",
            },
            "rows": [
                {
                    "workload": "A", "programs": "2 train", "in_sequence_s": 3.0, "time_slicing_s": 2.9,
                    "tenants_s": 2.0, "vs_time_slicing": 0.69,
                },
                {"contexts": 4, "time_slicing_mib": 2000, "mps_mib": 900, "tenants_mib": 1000},
            ],
        });
        let table = gpu_sharing(&results).unwrap();
        let row = "| A | 2 train | 3.000 | 2.900 | – | 2.000 | – | 0.690 |";
        assert!(table.contains(row), "{table}");
        assert!(
            table.contains("over MPS: geometric mean 1.010, worst 1.050 (B)"),
            "{table}"
        );
        assert!(table.contains("| 4 | 2000 | 900 | 1000 |"), "{table}");
        results["summary"]["sharing_vs_mps"] = Value::Null;
        assert!(gpu_sharing(&results).is_err());
    }

    #[test]
    fn calls_have_their_units() {
        let results = serde_json::json!({"rows": [
            {"what": "launch_us", "native": 2.0, "tenant": 1.0, "added": -1.0},
            {"what": "pinned_to_host_gbs", "native": 53.0, "tenant": 50.0, "added": -3.0},
            {"what": "launches_per_second_4", "native": 400000.0, "tenant": 300000.0, "added": -100000.0},
        ]});
        let table = gpu_calls(&results).unwrap();
        for row in [
            "| launch | µs | 2.00 | 1.00 | -1.00 |",
            "| pinned to host | GB/s | 53.00 | 50.00 | -3.00 |",
            "| launches per second 4 | 1/s | 400000.00 |",
        ] {
            assert!(table.contains(row), "{table}");
        }
    }
}
