//! Compares the JSON report of one run with what the case expects.
//!
//! Strict on purpose: a bad twin must give the expected finding and no other,
//! a good one none at all, and in both every launch must have been checked or
//! proved. A report that says less is a failure, never a pass.

use crate::case::Expectation;
use crate::process::Outcome;
use model::{Coverage, Finding};
use serde::Deserialize;

/// Exit code of `ringfence run` when there are findings.
pub const EXIT_FINDINGS: i32 = 98;

/// The parts of a report that verdicts depend on.
#[derive(Clone, Debug, Deserialize)]
pub struct Report {
    /// How the program itself ended.
    pub program: ProgramEnd,
    /// All findings.
    pub findings: Vec<Finding>,
    /// What was checked.
    pub coverage: Coverage,
    /// Failures of Ringfence itself.
    pub errors: Vec<String>,
    /// Processes of the run.
    pub processes: Vec<Process>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramEnd {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// One process of a report.
#[derive(Clone, Debug, Deserialize)]
pub struct Process {
    /// Device name.
    pub device_name: String,
    /// Driver version, 13000 for CUDA 13.0.
    pub driver_version: u32,
}

/// A verdict on one program: what happened in one line, and if it is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it is the expected one.
    pub pass: bool,
    /// What happened.
    pub text: String,
}

fn wrong(text: String) -> Verdict {
    Verdict { pass: false, text }
}

/// One line about a finding, without addresses, so that it is the same on
/// every device.
pub fn describe(finding: &Finding) -> String {
    // The outermost call is the program's own line.
    let place = finding
        .source
        .as_ref()
        .and_then(|source| source.chain().last())
        .map_or("an unknown line".into(), |source| {
            format!("{}:{}", file_name(&source.file), source.line)
        });
    let size = finding.intended.as_ref().map_or(String::new(), |nearest| {
        format!(" of {} bytes", nearest.allocation.extent.size)
    });
    format!(
        "{} in {} at {place}{size}",
        finding.rule.id(),
        finding.function
    )
}

/// Judges the run of a bad twin.
pub fn judge_bad(expect: &Expectation, outcome: &Outcome, report: Option<&Report>) -> Verdict {
    let report = match usable(outcome, report, EXIT_FINDINGS) {
        Ok(report) => report,
        Err(verdict) => return verdict,
    };
    let Some(first) = report.findings.first() else {
        return wrong("no finding".into());
    };
    for finding in &report.findings {
        if let Some(difference) = difference(expect, finding) {
            return wrong(format!("{}: {difference}", describe(finding)));
        }
    }
    Verdict {
        pass: true,
        text: describe(first),
    }
}

/// Judges the run of a good program; `plain` is its output without checks.
pub fn judge_good(outcome: &Outcome, report: Option<&Report>, plain: &Outcome) -> Verdict {
    if plain.code() != Some(0) {
        return wrong(format!(
            "without checks it {}: {}",
            plain.describe(),
            tail(&plain.stderr)
        ));
    }
    let report = match usable(outcome, report, 0) {
        Ok(report) => report,
        Err(verdict) => return verdict,
    };
    if let Some(finding) = report.findings.first() {
        return wrong(format!("false alarm: {}", describe(finding)));
    }
    if outcome.stdout != plain.stdout {
        return wrong(format!(
            "its output differs from a run without checks: `{}`, not `{}`",
            outcome.stdout.trim(),
            plain.stdout.trim()
        ));
    }
    Verdict {
        pass: true,
        text: "clean".into(),
    }
}

/// The report, if the run ended as it must and everything was checked.
fn usable<'a>(
    outcome: &Outcome,
    report: Option<&'a Report>,
    code: i32,
) -> Result<&'a Report, Verdict> {
    let seen = report.map_or(String::new(), |report| {
        report.findings.first().map_or(String::new(), |finding| {
            format!("; first finding: {}", describe(finding))
        })
    });
    if outcome.code() != Some(code) {
        return Err(wrong(format!(
            "it {}, not with {code}{seen}: {}",
            outcome.describe(),
            tail(&outcome.stderr)
        )));
    }
    let Some(report) = report else {
        return Err(wrong("it left no report".into()));
    };
    if let Some(error) = report.errors.first() {
        return Err(wrong(format!("Ringfence failed: {error}")));
    }
    // A finding must not keep a program from its end.
    if report.program != ProgramEnd::Code(0) {
        return Err(wrong(format!(
            "the program ended with {:?}{seen}: {}",
            report.program,
            tail(&outcome.stderr)
        )));
    }
    let mut launches = 0;
    for (kernel, coverage) in &report.coverage.kernels {
        launches += coverage.checked + coverage.proved;
        if let Some((reason, count)) = coverage.unchecked.iter().next() {
            return Err(wrong(format!(
                "{count} launches of {kernel} ran unchecked: {reason:?}{seen}"
            )));
        }
    }
    if launches == 0 {
        return Err(wrong("no launch was checked".into()));
    }
    Ok(report)
}

fn difference(expect: &Expectation, finding: &Finding) -> Option<String> {
    if finding.rule.id() != expect.rule {
        return Some(format!("expected {}", expect.rule));
    }
    if !finding.function.contains(&expect.function) {
        return Some(format!("expected it in {}", expect.function));
    }
    let Some(source) = &finding.source else {
        return Some("it names no source line".into());
    };
    let here = |(file, line): &(String, u32)| {
        source
            .chain()
            .any(|place| (file_name(&place.file), place.line) == (file.as_str(), *line))
    };
    if !expect.places.iter().any(here) {
        return Some(format!(
            "expected it at {}:{}",
            expect.places[0].0, expect.places[0].1
        ));
    }
    if let Some(size) = expect.size {
        let found = finding
            .intended
            .as_ref()
            .map(|nearest| nearest.allocation.extent.size);
        if found != Some(size) {
            return Some(format!("expected an allocation of {size} bytes"));
        }
    }
    None
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The last lines of an error output, in one.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::*;
    use std::os::unix::process::ExitStatusExt;

    fn outcome(code: i32, stdout: &str) -> Outcome {
        Outcome {
            status: Some(std::process::ExitStatus::from_raw(code << 8)),
            stdout: stdout.into(),
            stderr: String::new(),
            elapsed: std::time::Duration::ZERO,
        }
    }

    fn finding() -> Finding {
        Finding {
            rule: Rule::GlobalOutOfBoundsRead,
            kind: AccessKind::Read,
            space: Space::Global,
            width: 4,
            address: DeviceAddress(0x1400),
            kernel: "_Z4walkPi".into(),
            function: "_Z4walkPi".into(),
            source: Some(SourceLocation {
                file: "/src/walk.cu".into(),
                line: 9,
                column: 1,
                inlined_at: None,
            }),
            ptx_line: 40,
            instruction: "ld.global.u32 %r1, [%rd1];".into(),
            thread: ThreadCoordinates {
                block: [0; 3],
                thread: [0; 3],
            },
            launch: 1,
            intended: Some(NearestAllocation {
                allocation: Allocation {
                    extent: Extent {
                        base: DeviceAddress(0x1000),
                        size: 1024,
                    },
                    kind: AllocationKind::Device,
                    serial: 1,
                    name: None,
                },
                relation: Relation::After(0),
                allocated_at: vec![],
                freed: false,
                freed_at: vec![],
            }),
            nearest: None,
            launched_at: vec![],
            occurrences: 1,
        }
    }

    fn report(findings: Vec<Finding>) -> Report {
        let mut coverage = Coverage::default();
        coverage.kernels.insert(
            "_Z4walkPi".into(),
            KernelCoverage {
                checked: 1,
                ..Default::default()
            },
        );
        Report {
            program: ProgramEnd::Code(0),
            findings,
            coverage,
            errors: vec![],
            processes: vec![],
        }
    }

    fn expectation() -> Expectation {
        Expectation {
            rule: "global-out-of-bounds-read".into(),
            function: "walk".into(),
            size: Some(1024),
            places: vec![("walk.cu".into(), 9)],
        }
    }

    #[test]
    fn the_expected_finding_passes_and_every_other_fails() {
        let bad = outcome(EXIT_FINDINGS, "");
        let verdict = judge_bad(&expectation(), &bad, Some(&report(vec![finding()])));
        assert_eq!(
            verdict,
            Verdict {
                pass: true,
                text: "global-out-of-bounds-read in _Z4walkPi at walk.cu:9 of 1024 bytes".into()
            }
        );
        let changes: [fn(&mut Finding); 5] = [
            |f| f.rule = Rule::InvalidPointer,
            |f| f.function = "other".into(),
            |f| f.source = None,
            |f| f.source.as_mut().unwrap().line = 8,
            |f| f.intended.as_mut().unwrap().allocation.extent.size = 1020,
        ];
        for change in changes {
            let mut other = finding();
            change(&mut other);
            for findings in [vec![other.clone()], vec![finding(), other]] {
                assert!(!judge_bad(&expectation(), &bad, Some(&report(findings))).pass);
            }
        }
        assert!(!judge_bad(&expectation(), &bad, Some(&report(vec![]))).pass);
        assert!(!judge_bad(&expectation(), &bad, None).pass);
        let mut crashed = report(vec![finding()]);
        crashed.program = ProgramEnd::Signal(11);
        assert!(!judge_bad(&expectation(), &bad, Some(&crashed)).pass);
        assert!(
            !judge_bad(
                &expectation(),
                &outcome(0, ""),
                Some(&report(vec![finding()]))
            )
            .pass
        );
    }

    #[test]
    fn a_good_program_must_be_clean_checked_and_unchanged() {
        let plain = outcome(0, "sum 3\n");
        assert!(judge_good(&outcome(0, "sum 3\n"), Some(&report(vec![])), &plain).pass);
        assert!(!judge_good(&outcome(0, "sum 4\n"), Some(&report(vec![])), &plain).pass);
        assert!(
            !judge_good(
                &outcome(0, "sum 3\n"),
                Some(&report(vec![finding()])),
                &plain
            )
            .pass
        );
        assert!(!judge_good(&outcome(0, "sum 3\n"), None, &plain).pass);
        assert!(
            !judge_good(
                &outcome(0, "sum 3\n"),
                Some(&report(vec![])),
                &outcome(1, "sum 3\n")
            )
            .pass
        );
        let mut unchecked = report(vec![]);
        unchecked.coverage.kernels.clear();
        assert!(!judge_good(&outcome(0, "sum 3\n"), Some(&unchecked), &plain).pass);
        let mut partly = report(vec![]);
        let kernel = partly.coverage.kernels.get_mut("_Z4walkPi").unwrap();
        kernel.unchecked.insert(UncheckedReason::LaunchPath, 1);
        assert!(!judge_good(&outcome(0, "sum 3\n"), Some(&partly), &plain).pass);
        let mut failed = report(vec![]);
        failed.errors.push("no ring".into());
        assert!(!judge_good(&outcome(0, "sum 3\n"), Some(&failed), &plain).pass);
    }
}
