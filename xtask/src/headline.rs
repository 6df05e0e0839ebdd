//! What README.md says about results in a few sentences: what is found, and
//! what it costs; and what papers say of other tools. Each is made of several
//! files, or of one that is no result.

use crate::readme::by_code;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// The results of one file, or nothing if it is not committed.
fn read(results: &Path, name: &str) -> Result<Option<Value>> {
    let path = results.join(name).with_extension("json");
    match std::fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text)
            .map(Some)
            .with_context(|| format!("{} is not JSON", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("failed to read {}", path.display())),
    }
}

fn number(results: &Value, key: &str) -> Result<f64> {
    results["summary"][key]
        .as_f64()
        .with_context(|| format!("no number `{key}`"))
}

pub(crate) fn text<'a>(results: &'a Value, key: &str) -> Result<&'a str> {
    results[key]
        .as_str()
        .with_context(|| format!("no text `{key}`"))
}

/// What is found: by Ringfence on a GPU and on the CPU device, and by
/// compute-sanitizer in those of the same programs that it was compared in.
///
/// # Errors
///
/// A file is not of its form.
pub fn found(results: &Path) -> Result<String> {
    let mut parts = Vec::new();
    if let Some(gpu) = read(results, "suite-gpu")? {
        parts.push(format!(
            "On an NVIDIA GPU, {} of {} programs with a bug get exactly the expected finding ({} once they declare \
             the parts of their allocations), with {} false alarms in {} programs without a bug",
            number(&gpu, "detected")?,
            number(&gpu, "cases")?,
            number(&gpu, "detected")? + number(&gpu, "detected_annotated")?,
            number(&gpu, "false_alarms")?,
            number(&gpu, "good")?,
        ));
    }
    if let Some(cpu) = read(results, "suite-cpu")? {
        parts.push(format!(
            "on the CPU device {} of {} ({}), with {} in {}",
            number(&cpu, "detected")?,
            number(&cpu, "cases")?,
            number(&cpu, "detected")? + number(&cpu, "detected_annotated")?,
            number(&cpu, "false_alarms")?,
            number(&cpu, "good")?,
        ));
    }
    let mut out = parts.join("; ") + ". ";
    if let (Some(gpu), Some(other)) = (
        read(results, "suite-gpu")?,
        read(results, "suite-compute-sanitizer")?,
    ) {
        let rows = |file: &Value| file["rows"].as_array().cloned().context("no rows");
        let detected: BTreeSet<String> = rows(&gpu)?
            .iter()
            .filter(|row| row["found"].as_bool() == Some(true))
            .filter_map(|row| Some(row["program"].as_str()?.strip_prefix("bad_")?.to_owned()))
            .collect();
        let compared = rows(&other)?;
        let both = compared
            .iter()
            .filter_map(|row| row["case"].as_str())
            .filter(|case| detected.contains(*case))
            .count();
        out += &format!(
            "Of the {} programs that were also run under compute-sanitizer, Ringfence finds the bug in {both} and \
             compute-sanitizer reports any error in {}.",
            compared.len(),
            number(&other, "detected")?,
        );
    }
    Ok(out.trim_end().to_owned() + "\n")
}

/// What it costs, in programs that Ringfence was not made for and in kernels
/// that compute-sanitizer was measured on, too.
///
/// # Errors
///
/// A file is not of its form.
pub fn cost(results: &Path) -> Result<String> {
    let mut out = String::new();
    if let Some(foreign) = read(results, "gpu-foreign")? {
        out += &format!(
            "In {} third-party programs, {} kernels take **{:.2}** times their native time by geometric mean; 90 % of \
             them take at most {:.2}, the slowest {:.2}. Those that do not run the program's own code in all their \
             launches take {:.2}. ",
            number(&foreign, "programs")?,
            number(&foreign, "kernels")?,
            number(&foreign, "geomean")?,
            number(&foreign, "p90")?,
            number(&foreign, "worst")?,
            by_code(&foreign)?.1,
        );
    }
    if let Some(bounds) = read(results, "gpu-bounds")? {
        out += &format!(
            "In {} benchmark kernels it is {:.2}, {:.2} with every launch checked",
            number(&bounds, "kernels")?,
            number(&bounds, "geomean")?,
            number(&bounds, "checked_geomean")?,
        );
        if let Ok(other) = number(&bounds, "compute_sanitizer_geomean") {
            out += &format!(", and {other:.1} under compute-sanitizer memcheck");
        }
        out += &format!(
            " ({}, driver {}).",
            text(&bounds, "device")?,
            text(&bounds, "driver")?
        );
    }
    Ok(out.trim_end().to_owned() + "\n")
}

/// What other tools' authors say of them.
///
/// # Errors
///
/// The file is not of its form.
pub fn tools(published: &Path) -> Result<String> {
    const COLUMNS: [&str; 6] = ["tool", "programs", "method", "limits", "overhead", "source"];
    let file = read(published, "tools")?.context("there is no bench/published/tools.json")?;
    let mut out = String::from(
        "| tool | programs | method | does not see | overhead, by its authors | source |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in file["rows"].as_array().context("no rows")? {
        let cells: Result<Vec<&str>> = COLUMNS.iter().map(|key| text(row, key)).collect();
        out += &format!("| {} |\n", cells?.join(" | "));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn results(files: &[(&str, Value)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, value) in files {
            let path = folder.path().join(name).with_extension("json");
            std::fs::write(path, value.to_string()).unwrap();
        }
        folder
    }

    #[test]
    fn tools_are_compared_in_the_same_programs() {
        let suite = json!({
            "summary": {"detected": 3, "cases": 4, "detected_annotated": 1, "false_alarms": 0, "good": 5},
            "rows": [
                {"program": "bad_a", "found": true},
                {"program": "bad_b", "found": true},
                {"program": "bad_c", "found": false},
                {"program": "bad_d", "found": true},
                {"program": "good_a", "found": null},
            ],
        });
        let other = json!({
            "summary": {"detected": 1},
            "rows": [{"case": "a"}, {"case": "b"}, {"case": "c"}],
        });
        let folder = results(&[("suite-gpu", suite), ("suite-compute-sanitizer", other)]);
        let text = found(folder.path()).unwrap();
        assert!(
            text.starts_with("On an NVIDIA GPU, 3 of 4 programs") && text.contains("(4 once"),
            "{text}"
        );
        assert!(!text.contains("CPU device"), "{text}");
        assert!(
            text.contains("Of the 3 programs that were also run under compute-sanitizer, Ringfence finds the bug in 2 and"),
            "{text}"
        );
        assert!(text.ends_with("any error in 1.\n"), "{text}");
    }

    #[test]
    fn every_tool_has_a_source() {
        let table = tools(&crate::workspace::root().join("bench/published")).unwrap();
        assert!(
            table.contains("| clARMOR | OpenCL, unmodified |"),
            "{table}"
        );
        let folder = results(&[("tools", json!({"rows": [{"tool": "x"}]}))]);
        assert!(tools(folder.path()).is_err());
    }

    #[test]
    fn costs_come_from_the_files_that_are_there() {
        let bounds = json!({
            "summary": {"kernels": 17, "geomean": 1.046, "checked_geomean": 1.39,
                        "compute_sanitizer_geomean": 56.63},
            "device": "a GPU", "driver": "580",
        });
        let folder = results(&[("gpu-bounds", bounds)]);
        assert_eq!(
            cost(folder.path()).unwrap(),
            "In 17 benchmark kernels it is 1.05, 1.39 with every launch checked, and 56.6 under compute-sanitizer \
             memcheck (a GPU, driver 580).\n"
        );
    }
}
