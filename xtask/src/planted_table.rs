//! The table of `gpu-planted.json`: wrong sizes in calls of libraries.

use crate::readme::{number, rows};
use anyhow::Result;
use serde_json::Value;
use std::fmt::Write;

/// The table, and what the summary says.
///
/// # Errors
///
/// A number is missing.
pub fn gpu_planted(results: &Value) -> Result<String> {
    let summary = &results["summary"];
    let all = rows(results)?;
    let mut out = String::from(
        "| library | call | what is wrong | finding | names the buffer | with the caching allocator |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    let rule = |row: &Value| row["rule"].as_str().unwrap_or("none").to_owned();
    for row in all.iter().filter(|row| row["cached"] == false) {
        let cached = all
            .iter()
            .find(|other| other["cached"] == true && other["case"] == row["case"])
            .map_or_else(String::new, rule);
        let text = |name: &str| row[name].as_str().unwrap_or_default();
        let _ = writeln!(
            out,
            "| {} | `{}` | {} | {} | {} | {cached} |",
            text("library"),
            text("call"),
            text("wrong"),
            rule(row),
            if row["names_buffer"] == true {
                "yes"
            } else {
                "no"
            }
        );
    }
    let _ = writeln!(
        out,
        "\nOf {} calls with a wrong size, {} have a finding, and {} one that names the buffer; with PyTorch's caching allocator, {} of {} have a finding. \
         The same calls with the right size have {}.",
        number(summary, "cases")?,
        number(summary, "found")?,
        number(summary, "named")?,
        number(summary, "cached_found")?,
        number(summary, "cached_cases")?,
        match number(summary, "false_alarms")? {
            0.0 => "none".to_owned(),
            alarms => format!("one or failed in {alarms} cases"),
        }
    );
    Ok(out)
}
