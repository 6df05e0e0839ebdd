//! The table of attacks on tenants, from `isolation-cpu.json` and
//! `isolation-gpu.json`.

use crate::readme::{number, rows};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fmt::Write as _;

/// A sentence with the numbers, and the table, in Markdown.
///
/// # Errors
///
/// The results lack a number.
pub(crate) fn isolation(results: &Value) -> Result<String> {
    let summary = &results["summary"];
    let whole = |key: &str| number(summary, key).map(|number| number as u64);
    let (attacks, contained) = (whole("attacks")?, whole("contained")?);
    let mut out = format!(
        "Of {attacks} attacks in {} classes ({} attempts), {contained} were contained, {} of them by a refusal that \
         names what is refused; the neighbour was unharmed by {}. {} harmed the neighbour, or read its memory, when \
         they were made unfenced in its own context; {} that did nothing there do not count.",
        whole("classes")?,
        whole("attempts")?,
        whole("refused")?,
        whole("survived")?,
        whole("shown_unfenced")?,
        whole("not_shown")?,
    );
    if let Ok(least) = whole("fuzzed_of_each_type") {
        let _ = write!(
            out,
            " At least {least} mutated messages of each type were answered by its handler."
        );
    }
    out.push_str(
        "\n\n| class | attack | attempts | unfenced, in one context | neighbour | outcome |\n",
    );
    out.push_str("| --- | --- | ---: | --- | --- | --- |\n");
    for row in rows(results)? {
        let text = |key: &str| row[key].as_str().with_context(|| format!("no `{key}`"));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            text("class")?,
            text("attack")?,
            number(row, "attempts")?,
            text("control")?,
            text("neighbour")?,
            text("outcome")?,
        );
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::isolation;

    #[test]
    fn each_attack_has_a_row() {
        let mut results = serde_json::json!({
            "summary": {
                "attacks": 2, "contained": 1, "classes": 1, "attempts": 50, "refused": 0, "survived": 2,
                "shown_unfenced": 1, "not_shown": 3, "fuzzed_of_each_type": 1000,
            },
            "rows": [{
                "class": "out of bounds", "attack": "far (write)", "attempts": 48, "control": "ended",
                "neighbour": "unharmed", "outcome": "contained", "rounds": 20,
            }],
        });
        let table = isolation(&results).unwrap();
        assert!(
            table.starts_with("Of 2 attacks in 1 classes (50 attempts), 1 were contained"),
            "{table}"
        );
        let row = "| out of bounds | far (write) | 48 | ended | unharmed | contained |";
        assert!(table.contains(row), "{table}");
        results["rows"][0]["control"] = serde_json::Value::Null;
        assert!(isolation(&results).is_err());
    }
}
