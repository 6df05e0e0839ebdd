//! The JSON report, version 2. Its schema is `schema/report-v2.schema.json`;
//! fields may be added within a version, never renamed or removed.

use crate::session::Process;
use crate::{Totals, demangle, summary, text};
use model::{Coverage, DeviceKind, Finding, Subject};
use serde::Serialize;

/// Version of the report's form.
pub const VERSION: u32 = 2;

/// The outcome of a run in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Something was checked, nothing was found.
    Clean,
    /// There are findings.
    Findings,
    /// No launch was checked, and no call by the host in a program without launches.
    NothingChecked,
    /// Ringfence itself failed.
    Failed,
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramEnd {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`VERSION`].
    pub version: u32,
    /// Which program wrote it.
    pub tool: Tool,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The outcome in one word.
    pub verdict: Verdict,
    /// How the program ended.
    pub program: ProgramEnd,
    /// Exit code of `ringfence run`.
    pub exit_code: i32,
    /// The summary line.
    pub summary: String,
    /// Processes in which the library was initialized.
    pub processes: Vec<ProcessReport>,
    /// Findings of all processes.
    pub findings: Vec<FindingReport>,
    /// Findings that a file of suppressions names.
    pub suppressed: Vec<FindingReport>,
    /// Entries of that file which suppressed nothing.
    pub unused_suppressions: Vec<String>,
    /// Coverage of all processes together.
    pub coverage: Coverage,
    /// What went wrong in Ringfence.
    pub errors: Vec<String>,
}

/// Which program wrote the report.
#[derive(Clone, Debug, Serialize)]
pub struct Tool {
    /// `ringfence`.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

/// One process of the run.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessReport {
    /// Process id.
    pub pid: u32,
    /// Path of its executable.
    pub program: String,
    /// Which device it ran on.
    pub device: DeviceKind,
    /// The device's name.
    pub device_name: String,
    /// Driver version, 13000 for CUDA 13.0.
    pub driver_version: u32,
    /// Whether it ended in order.
    pub complete: bool,
}

/// A finding and what a reader would compute from it.
#[derive(Clone, Debug, Serialize)]
pub struct FindingReport {
    /// The process it was found in.
    pub pid: u32,
    /// The entry that suppresses it, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppressed_by: Option<String>,
    /// One line for people.
    pub message: String,
    /// The kernel's name as the author wrote it, for an access by a kernel, for
    /// a kernel whose writes were detected after it had ended, and for one that
    /// failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_demangled: Option<String>,
    /// The function's name as the author wrote it, for an access by a kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function_demangled: Option<String>,
    /// The finding.
    #[serde(flatten)]
    pub finding: Finding,
}

/// What a run was, for [`Report::new`].
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The outcome.
    pub verdict: Verdict,
    /// How the program ended.
    pub program: ProgramEnd,
    /// Exit code of `ringfence run`.
    pub exit_code: i32,
    /// What the processes left.
    pub processes: &'a [Process],
    /// Their sums.
    pub totals: &'a Totals,
}

impl Report {
    /// Puts the report of a run together.
    pub fn new(run: Run<'_>) -> Report {
        let finding_report = |pid: u32, entry: Option<&String>, finding: &Finding| FindingReport {
            pid,
            suppressed_by: entry.cloned(),
            message: text::headline(finding),
            kernel_demangled: match &finding.subject {
                Subject::Access(access) => Some(demangle(&access.kernel)),
                Subject::Kernel(run) => Some(demangle(&run.kernel)),
                Subject::Failure(failure) => failure.kernel().map(demangle),
                Subject::Call(_) | Subject::Leak => None,
            },
            function_demangled: finding.access().map(|access| demangle(&access.function)),
            finding: finding.clone(),
        };
        Report {
            version: VERSION,
            tool: Tool {
                name: "ringfence",
                version: env!("CARGO_PKG_VERSION"),
            },
            command: run.command,
            verdict: run.verdict,
            program: run.program,
            exit_code: run.exit_code,
            summary: summary(run.totals),
            processes: run
                .processes
                .iter()
                .map(|process| ProcessReport {
                    pid: process.pid,
                    program: process.program.clone(),
                    device: process.device,
                    device_name: process.device_name.clone(),
                    driver_version: process.driver_version,
                    complete: process.complete,
                })
                .collect(),
            findings: run
                .processes
                .iter()
                .flat_map(|process| {
                    process
                        .findings
                        .iter()
                        .map(|finding| finding_report(process.pid, None, finding))
                })
                .collect(),
            suppressed: run
                .processes
                .iter()
                .flat_map(|process| {
                    process
                        .suppressed
                        .iter()
                        .map(|(entry, finding)| finding_report(process.pid, Some(entry), finding))
                })
                .collect(),
            unused_suppressions: run.totals.unused_suppressions.clone(),
            coverage: run.totals.coverage.clone(),
            errors: run
                .processes
                .iter()
                .flat_map(|process| process.errors.clone())
                .collect(),
        }
    }

    /// The report's text, indented, with a final newline.
    ///
    /// # Errors
    ///
    /// A path or name in it cannot be written as JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::session::merge_coverage;
    use crate::text::tests::{
        sample_call, sample_failure, sample_finding, sample_leak, sample_overwritten,
    };
    use model::{KernelCoverage, Relation, UncheckedReason};

    pub(crate) fn sample() -> Report {
        let mut anonymous = sample_finding();
        anonymous.intended = None;
        anonymous.nearest.as_mut().unwrap().relation = Relation::Before(4);
        let Subject::Access(access) = &mut anonymous.subject else {
            unreachable!("the sample is an access")
        };
        access.source = None;
        let mut kernel = KernelCoverage {
            checked: 2,
            residual: 1,
            exact_sites: 3,
            ..KernelCoverage::default()
        };
        kernel.unchecked.insert(UncheckedReason::NoPtx, 1);
        kernel.unchecked_sites.insert("tex.2d".into(), 1);
        let mut coverage = Coverage::default();
        coverage.kernels.insert("_Z5scalePfi".into(), kernel);
        let process = Process {
            pid: 7,
            program: "/bin/app".into(),
            device: DeviceKind::Cpu,
            device_name: "CPU".into(),
            driver_version: 13000,
            findings: vec![
                sample_finding(),
                anonymous,
                sample_call(),
                sample_leak(),
                sample_overwritten(),
                sample_failure(),
            ],
            suppressed: vec![("known (line 2)".into(), sample_finding())],
            coverage: coverage.clone(),
            complete: true,
            errors: vec!["something".into()],
            failed: false,
        };
        let mut totals = Totals {
            findings: 6,
            occurrences: 7,
            suppressed: 1,
            suppressed_occurrences: 1,
            unused_suppressions: vec!["old (line 9)".into()],
            ..Totals::default()
        };
        merge_coverage(&mut totals.coverage, &coverage);
        Report::new(Run {
            command: vec!["./app".into(), "--flag".into()],
            verdict: Verdict::Findings,
            program: ProgramEnd::Code(0),
            exit_code: model::exit_code::FINDINGS.into(),
            processes: &[process],
            totals: &totals,
        })
    }

    fn schema() -> jsonschema::Validator {
        let text = include_str!("../schema/report-v2.schema.json");
        let schema = serde_json::from_str(text).expect("the schema is JSON");
        jsonschema::validator_for(&schema).expect("the schema is one")
    }

    #[test]
    fn reports_follow_the_schema() {
        let report = serde_json::to_value(sample()).unwrap();
        let errors: Vec<String> = schema()
            .iter_errors(&report)
            .map(|error| format!("{}: {error}", error.instance_path))
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }

    #[test]
    fn the_schema_refuses_what_is_not_a_report() {
        let schema = schema();
        let good = serde_json::to_value(sample()).unwrap();
        for (pointer, value) in [
            ("/version", serde_json::json!(1)),
            ("/verdict", serde_json::json!("fine")),
            ("/findings/0/rule", serde_json::json!("other")),
            ("/findings/0/address", serde_json::json!("0x10")),
            (
                "/findings/0/subject/thread/block",
                serde_json::json!([1, 2]),
            ),
            ("/findings/0/subject/by", serde_json::json!("call")),
            ("/findings/2/subject/width", serde_json::json!(-1)),
            ("/suppressed/0/suppressed_by", serde_json::json!(3)),
            ("/findings/3/subject", serde_json::json!("leak")),
            (
                "/findings/4/subject/overwritten/found",
                serde_json::json!([256]),
            ),
            (
                "/findings/4/subject/argument",
                serde_json::json!({"index": 1}),
            ),
            (
                "/coverage/kernels/_Z5scalePfi/checked",
                serde_json::json!(-1),
            ),
            ("/findings/5/subject/stopped/thread", serde_json::json!(0)),
            ("/findings/5/subject/code", serde_json::json!("700")),
            ("/program", serde_json::json!({"code": 0, "signal": 11})),
        ] {
            let mut bad = good.clone();
            *bad.pointer_mut(pointer).expect(pointer) = value;
            assert!(!schema.is_valid(&bad), "{pointer}");
        }
    }
}
