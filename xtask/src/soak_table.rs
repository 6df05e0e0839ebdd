//! What a soak of tenants has shown, from `soak-cpu.json` and `soak-gpu.json`.

use crate::readme::number;
use anyhow::{Context, Result};
use serde_json::Value;

/// Sentences with the numbers, in Markdown.
///
/// # Errors
///
/// The results lack a number.
pub(crate) fn soak(results: &Value) -> Result<String> {
    let summary = &results["summary"];
    let of = |key: &str| number(summary, key);
    // Some attacks, such as that of as many tenants as there may be, fill what is kept
    // for the next ones; where they come late, that is no loss.
    let rows = results["rows"].as_array().context("no rows")?;
    let held = |row: &Value| number(row, "resident_kib");
    let (middle, last) = (rows.get(rows.len() / 2), rows.last());
    let (middle, last) = (middle.context("no shifts")?, last.context("no shifts")?);
    let grown = (held(last)? - held(middle)?) / 1024.0;
    Ok(format!(
        "{} tenants for {:.0} minutes: {} attacks of {} classes ({} attempts), while the neighbours made {} rounds. \
         {} times somebody was harmed, {} words of a neighbour's were read. After the last of {} shifts the manager \
         held {:+.1} MiB, {:+} descriptors and {:+} threads in comparison with the second, and {:+} MiB of the device's \
         memory; since the shift in the middle, {grown:+.1} MiB.\n",
        of("tenants")?,
        of("seconds")? / 60.0,
        of("attacks")?,
        of("classes")?,
        of("attempts")?,
        of("rounds")?,
        of("harmed")?,
        of("leaked")?,
        of("shifts")?,
        of("lost_resident_kib")? / 1024.0,
        of("lost_descriptors")?,
        of("lost_threads")?,
        of("lost_device_mib")?,
    ))
}

#[cfg(test)]
mod tests {
    use super::soak;

    #[test]
    fn each_number_is_told() {
        let mut results = serde_json::json!({"summary": {
            "seconds": 600, "tenants": 8, "shifts": 20, "rounds": 9000, "attacks": 240, "classes": 12,
            "attempts": 9999, "leaked": 0, "harmed": 0, "lost_resident_kib": 512, "lost_descriptors": 0,
            "lost_threads": -1, "lost_device_mib": 0,
        }, "rows": [{"resident_kib": 1024}, {"resident_kib": 3072}, {"resident_kib": 2048}]});
        let text = soak(&results).unwrap();
        assert!(
            text.starts_with("8 tenants for 10 minutes: 240 attacks of 12 classes"),
            "{text}"
        );
        assert!(
            text.contains("held +0.5 MiB, +0 descriptors and -1 threads"),
            "{text}"
        );
        assert!(
            text.ends_with("since the shift in the middle, -1.0 MiB.\n"),
            "{text}"
        );
        results["summary"]["harmed"] = serde_json::Value::Null;
        assert!(soak(&results).is_err());
    }
}
