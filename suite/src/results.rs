//! The form of committed result files: flat numbers first, then the rows from
//! which they are computed, then where and when they were measured.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The bench kernels, in the order of every table.
pub const KERNELS: &[&str] = &[
    "triad",
    "saxpy",
    "gemm_naive",
    "gemm_tiled",
    "jacobi_2d",
    "stencil_3d",
    "matvec_row",
    "matvec_column",
    "reduction",
    "histogram",
    "csr_spmv",
    "gather",
    "bfs_step",
    "n_body",
    "copy_float4",
    "d2q9",
    "transpose",
];

/// Where and when something was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Device name.
    pub device: String,
    /// Driver, as it names itself.
    pub driver: String,
    /// Day, as YYYY-MM-DD (UTC).
    pub date: String,
    /// Commit of the measured sources; empty if unknown.
    pub commit: String,
}

impl Provenance {
    /// Of what was measured today and needs no driver.
    pub fn without_driver(device: String, commit: &str) -> Provenance {
        Provenance {
            device,
            driver: "none".into(),
            date: today(),
            commit: commit.to_owned(),
        }
    }
}

/// One result file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results<S, R> {
    /// Flat numbers.
    pub summary: S,
    /// Where and when.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// What the summary was computed from.
    pub rows: Vec<R>,
}

impl<S: Serialize, R: Serialize> Results<S, R> {
    /// Writes the file, making its folder when it is missing.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("failed to make {}", folder.display()))?;
        }
        std::fs::write(path, serde_json::to_string_pretty(self)? + "\n")
            .with_context(|| format!("failed to write {}", path.display()))
    }
}

/// Summary of a run of the suite.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuiteSummary {
    /// Bad twins.
    pub cases: usize,
    /// Bad twins that got exactly the finding they should, as they are.
    pub detected: usize,
    /// Bad twins that got it once the program said where its parts are.
    pub detected_annotated: usize,
    /// Good programs.
    pub good: usize,
    /// Good programs with any finding.
    pub false_alarms: usize,
    /// Programs judged right.
    pub passed: usize,
    /// Programs judged wrong.
    pub failed: usize,
    /// Programs that are listed as judged wrong, with their reason.
    pub expected_missing: usize,
    /// Bad twins that need what the platform lacks; the rows name it. Those and
    /// their good twins are only counted in `cases`.
    #[serde(default)]
    pub not_runnable: usize,
    /// `GROUP/CATEGORY/cases`, `.../detected` and `.../detected_annotated`.
    #[serde(flatten)]
    pub categories: BTreeMap<String, usize>,
}

/// Which program of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Twin {
    /// With the bug.
    Bad,
    /// With the bug, and with the program's annotations.
    Annotated,
    /// Without the bug.
    Good,
}

impl Twin {
    /// As names of programs begin.
    pub fn prefix(self) -> &'static str {
        match self {
            Twin::Bad => "bad",
            Twin::Annotated => "annotated",
            Twin::Good => "good",
        }
    }
}

/// One program of the suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuiteRow {
    /// Case and twin: `bad_NAME`, `annotated_NAME`, `good_NAME`.
    pub program: String,
    /// Which twin it is.
    pub twin: Twin,
    /// Folder of the case.
    pub group: String,
    /// Row of the tables that the case counts for.
    pub category: String,
    /// Whether exactly the expected findings were made; of twins with the bug.
    pub found: Option<bool>,
    /// Why it is listed as judged wrong.
    pub expected_missing: Option<String>,
    /// What the platform lacks that the program needs, by its own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_runnable: Option<String>,
    /// Whether the verdict was the expected one.
    pub pass: bool,
    /// The verdict in one line: rule, function, place, or what went wrong.
    pub verdict: String,
    /// Digest of a good program's standard output; the same on every device.
    pub output: Option<String>,
    /// Wall seconds under Ringfence.
    pub seconds: f64,
}

/// The day, YYYY-MM-DD in UTC.
pub fn today() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs());
    let (year, month, day) = civil(i64::try_from(seconds / 86_400).unwrap_or(0));
    format!("{year:04}-{month:02}-{day:02}")
}

/// Days since 1970-01-01 to a date of the Gregorian calendar. Years start in
/// March here, so that the leap day is a year's last.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

/// The commit checked out at `root`, with `+` when files differ from it;
/// empty where git cannot say.
pub fn commit(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .current_dir(root)
            .args(arguments)
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(hash) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return String::new();
    };
    let dirty = git(&["status", "--porcelain", "--untracked-files=no"])
        .is_some_and(|changes| !changes.is_empty());
    format!("{hash}{}", if dirty { "+" } else { "" })
}

/// The processor's name, as the kernel gives it; empty where it does not.
pub fn processor() -> String {
    std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            text.lines()
                .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
                .map(|(_, name)| name.trim().to_owned())
        })
        .unwrap_or_default()
}

/// Geometric mean; `None` of nothing, or of numbers that have no logarithm.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0u32);
    for value in values {
        if value.is_nan() || value <= 0.0 {
            return None;
        }
        sum += value.ln();
        count += 1;
    }
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

/// Median; `None` of nothing.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len() % 2 == 1 {
        upper
    } else {
        (values[middle - 1] + upper) / 2.0
    })
}

/// Rounds to four decimals, more than a repeated run confirms.
pub fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(59), (1970, 3, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_778), (2026, 11, 21));
    }

    #[test]
    fn means_and_medians() {
        let mean = geometric_mean([2.0, 8.0]).unwrap();
        assert!((mean - 4.0).abs() < 1e-12);
        assert_eq!(geometric_mean([]), None);
        assert_eq!(geometric_mean([1.0, 0.0]), None);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&mut []), None);
    }
}
