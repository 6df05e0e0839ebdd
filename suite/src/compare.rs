//! Runs every program alone and under compute-sanitizer, for the tables.
//!
//! Only whether an error was found is judged. The program alone has found one
//! if it ends in another way than its good twin, or prints an error that a CUDA
//! call returned; compute-sanitizer has if its `ERROR SUMMARY` counts one. That
//! is generous: any error counts, not only the right one at the right place.

use crate::case::{Case, Manifest, Program};
use crate::process::{self, Outcome};
use crate::results::{Provenance, Results, today};
use crate::run::{absolute, in_front, in_parallel};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How to compare.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder with the manifest and the programs.
    pub cases: PathBuf,
    /// The compute-sanitizer command.
    pub sanitizer: PathBuf,
    /// Only cases whose name contains this.
    pub filter: Option<String>,
    /// Programs at a time.
    pub jobs: usize,
    /// Deadline of one run of one program.
    pub limit: Duration,
}

/// Totals of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompareSummary {
    /// Cases with a bug.
    pub cases: usize,
    /// Of those, found by compute-sanitizer.
    pub detected: usize,
    /// Good twins in which compute-sanitizer reported an error.
    pub false_alarms: usize,
    /// Cases in which the program alone failed or got an error.
    pub baseline_detected: usize,
    /// Good twins that did the same.
    pub baseline_false_alarms: usize,
    /// `GROUP/CATEGORY/cases`, `.../detected` and `.../baseline_detected`.
    #[serde(flatten)]
    pub categories: BTreeMap<String, usize>,
}

/// One case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareRow {
    /// The case.
    pub case: String,
    /// Its folder.
    pub group: String,
    /// Row of the tables that it counts for.
    pub category: String,
    /// Whether compute-sanitizer reported an error in the bad twin.
    pub found: bool,
    /// Whether it reported one in the good twin.
    pub alarm: bool,
    /// Whether the bad twin alone failed or got an error.
    pub baseline_found: bool,
    /// Whether the good twin did.
    pub baseline_alarm: bool,
    /// compute-sanitizer's first line about the bad twin.
    pub message: String,
    /// Wall seconds of the bad twin under compute-sanitizer.
    pub seconds: f64,
}

/// Results of a comparison.
pub type CompareResults = Results<CompareSummary, CompareRow>;

/// Runs all cases; `print` gets one line for each.
///
/// # Errors
///
/// The manifest, a program or compute-sanitizer is missing, or the
/// sanitizer did not run.
pub fn run(options: &Options, print: &(dyn Fn(&str) + Sync)) -> Result<CompareResults> {
    let manifest = Manifest::read(&options.cases)?;
    let options = &Options {
        cases: absolute(&options.cases, "cases")?,
        ..options.clone()
    };
    let cases: Vec<&Case> = manifest
        .cases
        .iter()
        .filter(|case| case.bad.is_some())
        .filter(|case| {
            let part = options.filter.as_ref();
            part.is_none_or(|part| case.name.contains(part))
        })
        .collect();
    ensure!(!cases.is_empty(), "no case matches the filter");
    let version = version(&options.sanitizer)?;
    let rows = in_parallel(options.jobs, &cases, |case| {
        let row = compare(options, &manifest, case)
            .with_context(|| format!("in the case {}", case.name))?;
        print(&format!(
            "{:<48} alone {} sanitizer {}{} ({:.1} s) {}",
            row.case,
            if row.baseline_found {
                "found "
            } else {
                "missed"
            },
            if row.found { "found " } else { "missed" },
            if row.alarm { " FALSE ALARM" } else { "" },
            row.seconds,
            row.message
        ));
        Ok(row)
    })?;
    Ok(Results {
        summary: summarize(&rows),
        provenance: Provenance {
            device: device(),
            driver: version,
            date: today(),
            commit: manifest.commit.clone(),
        },
        rows,
    })
}

fn summarize(rows: &[CompareRow]) -> CompareSummary {
    let mut summary = CompareSummary::default();
    for row in rows {
        summary.cases += 1;
        summary.detected += usize::from(row.found);
        summary.false_alarms += usize::from(row.alarm);
        summary.baseline_detected += usize::from(row.baseline_found);
        summary.baseline_false_alarms += usize::from(row.baseline_alarm);
        for (what, by) in [
            ("cases", true),
            ("detected", row.found),
            ("baseline_detected", row.baseline_found),
        ] {
            let key = format!("{}/{}/{what}", row.group, row.category);
            *summary.categories.entry(key).or_default() += usize::from(by);
        }
    }
    summary
}

fn compare(options: &Options, manifest: &Manifest, case: &Case) -> Result<CompareRow> {
    let bad = case.bad.as_ref().context("it has no bad twin")?;
    let alone = |program: &Program| start(options, manifest, program, None);
    let leaks = case
        .options
        .iter()
        .any(|option| option == "leak-check=full");
    let checked = |program: &Program| start(options, manifest, program, Some(leaks));
    let (good_alone, bad_alone) = (alone(&case.good)?, alone(&bad.program)?);
    let (good, bad) = (checked(&case.good)?, checked(&bad.program)?);
    Ok(CompareRow {
        case: case.name.clone(),
        group: case.group.clone(),
        category: case.category.clone(),
        found: errors(&bad)?.is_some_and(|count| count > 0),
        alarm: errors(&good)?.is_some_and(|count| count > 0),
        baseline_found: ended_badly(&bad_alone),
        baseline_alarm: ended_badly(&good_alone),
        message: first_message(&bad),
        seconds: (bad.elapsed.as_secs_f64() * 1e3).round() / 1e3,
    })
}

/// Runs a program alone, or under compute-sanitizer with or without a search
/// for leaks.
fn start(
    options: &Options,
    manifest: &Manifest,
    program: &Program,
    sanitizer: Option<bool>,
) -> Result<Outcome> {
    let path = options.cases.join(&program.path);
    ensure!(path.is_file(), "no program at {}", path.display());
    let mut command = match sanitizer {
        None => Command::new(&path),
        Some(leaks) => {
            let mut command = Command::new(&options.sanitizer);
            command.args(["--tool", "memcheck"]);
            if leaks {
                command.args(["--leak-check", "full"]);
            }
            command.arg(&path);
            command
        }
    };
    command
        .args(&program.arguments)
        .current_dir(&options.cases)
        .env_remove("RINGFENCE_OPTIONS")
        .env(
            "LD_LIBRARY_PATH",
            in_front(&options.cases.join(&manifest.libraries))?,
        );
    process::run(&mut command, options.limit)
}

/// How many errors compute-sanitizer counted; `None` if it was cut off.
fn errors(outcome: &Outcome) -> Result<Option<u64>> {
    let Some(line) = lines(outcome).find(|line| line.contains("ERROR SUMMARY: ")) else {
        ensure!(
            outcome.status.is_none(),
            "compute-sanitizer gave no summary: {}",
            outcome.stderr.lines().last().unwrap_or_default()
        );
        return Ok(None);
    };
    let count = line
        .split("ERROR SUMMARY: ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|word| word.parse().ok());
    Ok(Some(count.with_context(|| {
        format!("compute-sanitizer's summary is not of a form that is known: {line}")
    })?))
}

/// The first line that compute-sanitizer wrote about something it found.
fn first_message(outcome: &Outcome) -> String {
    let mark = "========= ";
    lines(outcome)
        .filter_map(|line| line.strip_prefix(mark))
        .map(str::trim)
        .find(|line| !line.starts_with("COMPUTE-SANITIZER") && !line.is_empty())
        .unwrap_or("ran out of time")
        .to_owned()
}

fn lines(outcome: &Outcome) -> impl Iterator<Item = &str> {
    outcome.stdout.lines().chain(outcome.stderr.lines())
}

/// Whether a program by itself shows that something went wrong.
fn ended_badly(outcome: &Outcome) -> bool {
    outcome.code() != Some(0) || outcome.stderr.contains("CUDA error: ")
}

/// compute-sanitizer's version line.
fn version(sanitizer: &Path) -> Result<String> {
    let mut command = Command::new(sanitizer);
    let outcome = process::run(command.arg("--version"), Duration::from_secs(30))?;
    let line = lines(&outcome)
        .find(|line| line.contains("Version"))
        .with_context(|| format!("{} does not say its version", sanitizer.display()))?;
    Ok(format!("compute-sanitizer {}", line.trim()))
}

/// The GPU's name, as nvidia-smi gives it; empty where it does not.
fn device() -> String {
    let mut command = Command::new("nvidia-smi");
    command.args(["--query-gpu=name", "--format=csv,noheader"]);
    process::run(&mut command, Duration::from_secs(30))
        .ok()
        .and_then(|outcome| outcome.stdout.lines().next().map(str::to_owned))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn outcome(code: Option<i32>, stdout: &str, stderr: &str) -> Outcome {
        Outcome {
            status: code.map(|code| std::process::ExitStatus::from_raw(code << 8)),
            stdout: stdout.into(),
            stderr: stderr.into(),
            elapsed: Duration::ZERO,
        }
    }

    #[test]
    fn the_summary_of_compute_sanitizer_is_read() {
        let text = "========= COMPUTE-SANITIZER\n========= Invalid __global__ write of size 4 bytes\n\
                    =========     at fill\n========= ERROR SUMMARY: 12 errors\n";
        let one = outcome(Some(0), text, "");
        assert_eq!(errors(&one).unwrap(), Some(12));
        assert_eq!(
            first_message(&one),
            "Invalid __global__ write of size 4 bytes"
        );
        let none = outcome(Some(0), "========= ERROR SUMMARY: 0 errors\n", "");
        assert_eq!(errors(&none).unwrap(), Some(0));
        assert_eq!(errors(&outcome(None, "", "")).unwrap(), None);
        assert!(errors(&outcome(Some(1), "", "no such tool")).is_err());
        assert!(errors(&outcome(Some(0), "ERROR SUMMARY: many", "")).is_err());
    }

    #[test]
    fn a_program_alone_shows_an_error_by_its_end_or_by_a_call() {
        assert!(!ended_badly(&outcome(Some(0), "fine", "")));
        assert!(ended_badly(&outcome(Some(1), "", "")));
        assert!(ended_badly(&outcome(None, "", "")));
        let printed = "CUDA error: cudaFree(p): invalid argument\n";
        assert!(ended_badly(&outcome(Some(0), "", printed)));
    }

    #[test]
    fn categories_add_up() {
        let row = |category: &str, found| CompareRow {
            case: "c".into(),
            group: "g".into(),
            category: category.into(),
            found,
            alarm: false,
            baseline_found: false,
            baseline_alarm: !found,
            message: String::new(),
            seconds: 0.0,
        };
        let summary = summarize(&[row("a", true), row("a", false), row("b", true)]);
        assert_eq!((summary.cases, summary.detected), (3, 2));
        assert_eq!(summary.baseline_false_alarms, 1);
        assert_eq!(summary.categories["g/a/cases"], 2);
        assert_eq!(summary.categories["g/a/detected"], 1);
        assert_eq!(summary.categories["g/b/baseline_detected"], 0);
    }
}
