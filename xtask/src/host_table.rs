//! The table of what Ringfence adds to the host's time, from `gpu-host.json`.

use crate::readme::{number, rows};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fmt::Write as _;

/// What a row of the results measures, in words.
fn described(what: &str) -> Option<&'static str> {
    Some(match what {
        "launch" => "a launch that was seen before",
        "planes" => "a launch that differs in one scalar, with its kernel",
        "allocate" => "cudaMalloc and cudaFree of 4 KiB",
        "around" => "the same, eight pairs around each launch",
        "torch_eager" => "a step of training in PyTorch, eager",
        "torch_compiled" => "a step of training in PyTorch, `torch.compile`",
        _ => return None,
    })
}

/// The table, in Markdown.
///
/// # Errors
///
/// The results lack a number or hold a row that is not known here.
pub(crate) fn gpu_host(results: &Value) -> Result<String> {
    let mut out = String::from(
        "| what | natively | by default | default / native | half of all turns between |\n\
         | --- | ---: | ---: | ---: | ---: |\n",
    );
    for row in rows(results)? {
        let what = row["what"].as_str().context("a row without `what`")?;
        let words = described(what).with_context(|| format!("`{what}` is not known"))?;
        let unit = match row["unit"].as_str() {
            Some("us") => "µs",
            unit => unit.unwrap_or_default(),
        };
        let (native, default) = (number(row, "native")?, number(row, "default")?);
        // Results of before processes took turns have no quartiles.
        let (ratio, between) = match row["ratio"].as_f64() {
            Some(ratio) => {
                let (low, high) = (number(row, "ratio_low")?, number(row, "ratio_high")?);
                (ratio, format!("{low:.2} and {high:.2}"))
            }
            None => (default / native, "–".to_owned()),
        };
        let ratio = match row["ratio_error"].as_f64() {
            Some(error) => format!("{ratio:.3} ± {error:.3}"),
            None => format!("{ratio:.2}"),
        };
        let _ = writeln!(
            out,
            "| {words} | {native:.2} {unit} | {default:.2} {unit} | {ratio} | {between} |",
        );
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::gpu_host;

    #[test]
    fn each_row_is_described_with_its_unit_and_ratio() {
        let mut results = serde_json::json!({"rows": [{
            "what": "launch", "unit": "us", "native": 4.0, "default": 5.0,
            "ratio": 1.24, "ratio_low": 1.2, "ratio_high": 1.3,
        }]});
        let table = gpu_host(&results).unwrap();
        let expected =
            "| a launch that was seen before | 4.00 µs | 5.00 µs | 1.24 | 1.20 and 1.30 |";
        assert!(table.contains(expected), "{table}");
        results["rows"][0]["ratio_error"] = 0.0071.into();
        assert!(gpu_host(&results).unwrap().contains("| 1.240 ± 0.007 |"));
        results["rows"][0]["what"] = "something else".into();
        assert!(gpu_host(&results).is_err());
    }
}
