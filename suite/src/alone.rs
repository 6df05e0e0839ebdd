//! Runs every program under one protection of Ringfence's alone, for the tables.
//!
//! A bug is found if there is a finding in the twin that has it, whatever its rule:
//! protections that go by addresses, or see damage only afterwards, name the same bug
//! otherwise than bounds, which the cases are written for. Whether it is also what the
//! case expects is counted apart.

use crate::case::{Case, Manifest, Program};
use crate::judge;
use crate::results::{Provenance, Results, today};
use crate::run::{self, Mode, absolute, in_parallel, read_report};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Totals of a protection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AloneSummary {
    /// Cases with a bug.
    pub cases: usize,
    /// Of those, with a finding.
    pub detected: usize,
    /// Of those, with exactly what the case expects.
    pub exact: usize,
    /// Good twins with a finding that the case does not expect, and none is listed for.
    pub false_alarms: usize,
    /// Good twins with a finding, for a reason that is listed.
    #[serde(default)]
    pub listed: usize,
    /// Good twins without a finding that are listed.
    #[serde(default)]
    pub listed_in_vain: usize,
    /// `GROUP/CATEGORY/cases` and `.../detected`.
    #[serde(flatten)]
    pub categories: BTreeMap<String, usize>,
}

/// One case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AloneRow {
    /// The case.
    pub case: String,
    /// Its folder.
    pub group: String,
    /// Row of the tables that it counts for.
    pub category: String,
    /// Whether there is a finding in the bad twin.
    pub found: bool,
    /// Whether it is the expected one, and the only one.
    pub exact: bool,
    /// Whether there is one in the good twin that the case does not expect.
    pub alarm: bool,
    /// Why there is one, where that is known (`expected-missing.txt`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<String>,
    /// The first finding in the bad twin, or how it ended without one.
    pub message: String,
    /// Wall seconds of the bad twin.
    pub seconds: f64,
}

/// Results of a protection.
pub type AloneResults = Results<AloneSummary, AloneRow>;

/// Runs all cases with a bug under `protect=PROTECTION`; `print` gets one line for each.
///
/// # Errors
///
/// The manifest or a program is missing, a report cannot be read, or nothing matches
/// the filter.
pub fn run(
    options: &run::Options,
    protection: &str,
    print: &(dyn Fn(&str) + Sync),
) -> Result<AloneResults> {
    let manifest = Manifest::read(&options.cases)?;
    let options = &run::Options {
        cases: absolute(&options.cases, "cases")?,
        ringfence: absolute(&options.ringfence, "ringfence command")?,
        ..options.clone()
    };
    let matches = |case: &&Case| {
        let part = options.filter.as_ref();
        case.bad.is_some() && part.is_none_or(|part| case.name.contains(part))
    };
    let cases: Vec<&Case> = manifest.cases.iter().filter(matches).collect();
    ensure!(!cases.is_empty(), "no case matches the filter");
    let scratch = tempfile::tempdir().context("no place for reports")?;
    let judged = in_parallel(options.jobs, &cases, |case| {
        let (row, device) = judge_case(options, &manifest, case, protection, scratch.path())
            .with_context(|| format!("in the case {}", case.name))?;
        let found = if row.found { "found " } else { "missed" };
        let alarm = match (row.alarm, &row.listed) {
            (true, None) => " FALSE ALARM",
            (true, Some(_)) => " (the good twin, too, as listed)",
            (false, Some(_)) => " LISTED IN VAIN",
            (false, None) => "",
        };
        print(&format!(
            "{:<48} {found}{alarm} ({:.1} s) {}",
            row.case, row.seconds, row.message
        ));
        Ok((row, device))
    })?;
    let device = judged.iter().find_map(|(_, device)| device.clone());
    let (device, driver) = device.unwrap_or_default();
    let rows: Vec<AloneRow> = judged.into_iter().map(|(row, _)| row).collect();
    Ok(Results {
        summary: summarize(&rows),
        provenance: Provenance {
            device,
            driver: format!("CUDA {}.{}", driver / 1000, driver % 1000 / 10),
            date: today(),
            commit: manifest.commit.clone(),
        },
        rows,
    })
}

fn judge_case(
    options: &run::Options,
    manifest: &Manifest,
    case: &Case,
    protection: &str,
    scratch: &Path,
) -> Result<(AloneRow, Option<(String, u32)>)> {
    let bad = case.bad.as_ref().context("it has no bad twin")?;
    let settings = options.settings.iter().chain(&case.options);
    let mut settings: Vec<String> = settings.cloned().collect();
    settings.push(format!("protect={protection}"));
    let settings = settings.join(":");
    let checked = |program: &Program, twin: &str| {
        let json = scratch.join(format!("{twin}_{}.json", case.name));
        let outcome = run::start(options, manifest, program, &settings, &Mode::Checked(&json))?;
        let report = match read_report(&json) {
            // A program that does not end leaves none.
            Err(_) if outcome.status.is_none() => None,
            report => report?,
        };
        Ok::<_, anyhow::Error>((outcome, report))
    };
    let (outcome, report) = checked(&bad.program, "bad")?;
    let (_, good) = checked(&case.good, "good")?;
    let twin = format!("good_{}", case.name);
    let mut listed = manifest.missing.iter();
    let listed = listed.find(|missing| missing.is_of(&twin, options.device, Some(protection)));
    let first = report.as_ref().and_then(|report| report.findings.first());
    let unexpected = good.iter().flat_map(|report| &report.findings);
    let mut unexpected = unexpected.filter(|finding| !judge::is_expected(&case.also, finding));
    let row = AloneRow {
        case: case.name.clone(),
        group: case.group.clone(),
        category: case.category.clone(),
        found: first.is_some(),
        exact: judge::judge_bad(&bad.expect, &outcome, report.as_ref()).pass,
        alarm: unexpected.next().is_some(),
        listed: listed.map(|missing| missing.reason.clone()),
        message: match (first, outcome.code()) {
            (Some(finding), _) => judge::describe(finding),
            (None, Some(code)) => format!("no findings, exit code {code}"),
            (None, None) => "no findings, and it was ended".into(),
        },
        seconds: (outcome.elapsed.as_secs_f64() * 1e3).round() / 1e3,
    };
    let device = report.and_then(|report| {
        let process = report.processes.first()?;
        Some((process.device_name.clone(), process.driver_version))
    });
    Ok((row, device))
}

fn summarize(rows: &[AloneRow]) -> AloneSummary {
    let mut summary = AloneSummary::default();
    for row in rows {
        summary.cases += 1;
        summary.detected += usize::from(row.found);
        summary.exact += usize::from(row.exact);
        let listed = row.listed.is_some();
        summary.false_alarms += usize::from(row.alarm && !listed);
        summary.listed += usize::from(row.alarm && listed);
        summary.listed_in_vain += usize::from(!row.alarm && listed);
        for (what, by) in [("cases", true), ("detected", row.found)] {
            let key = format!("{}/{}/{what}", row.group, row.category);
            *summary.categories.entry(key).or_default() += usize::from(by);
        }
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_add_up() {
        let row = |category: &str, found, exact| AloneRow {
            case: "c".into(),
            group: "g".into(),
            category: category.into(),
            found,
            exact,
            alarm: exact,
            listed: None,
            message: String::new(),
            seconds: 0.0,
        };
        let known = |row| AloneRow {
            listed: Some("why".into()),
            ..row
        };
        let rows = [
            row("a", true, false),
            row("a", false, false),
            row("b", true, true),
            known(row("b", true, true)),
            known(row("b", true, false)),
        ];
        let summary = summarize(&rows);
        assert_eq!((summary.cases, summary.detected, summary.exact), (5, 4, 2));
        assert_eq!(summary.false_alarms, 1);
        assert_eq!((summary.listed, summary.listed_in_vain), (1, 1));
        assert_eq!(summary.categories["g/a/cases"], 2);
        assert_eq!(summary.categories["g/a/detected"], 1);
    }
}
