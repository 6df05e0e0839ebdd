//! Merges the results of the processes into one line, one file and one exit
//! code.

use super::child::Ended;
use crate::terminal;
use anyhow::{Context, Result};
use model::{ProcessTimes, Settings, TIMES_VERSION, TimesFile, exit_code};
use report::json::{ProgramEnd, Report, Run, Verdict};
use report::session::{Process, merge_coverage, read_processes};
use report::{Suppressions, Totals, junit::junit, sarif::sarif};
use std::ffi::OsString;
use std::path::Path;

/// A finished run.
#[derive(Debug)]
pub struct Outcome {
    times: Vec<ProcessTimes>,
    processes: Vec<Process>,
    totals: Totals,
    ended: Ended,
    verdict: Verdict,
}

impl Outcome {
    /// Reads the session directory.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn collect(
        session: &Path,
        ended: Ended,
        suppressions: Option<&Suppressions>,
    ) -> Result<Outcome> {
        let mut files: Vec<_> = std::fs::read_dir(session)
            .and_then(|entries| {
                entries
                    .map(|entry| entry.map(|entry| entry.path()))
                    .collect()
            })
            .with_context(|| format!("the results in {} cannot be read", session.display()))?;
        files.sort();
        let (times, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|path| {
            path.to_str()
                .is_some_and(|name| name.ends_with(model::TIMES_SUFFIX))
        });
        let times = times.iter().map(|file| read_times(file));
        let times = times.collect::<Result<Vec<_>>>()?;
        let mut processes = Vec::new();
        for file in files {
            let text =
                std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            processes.extend(read_processes(&String::from_utf8_lossy(&text)));
        }
        Ok(Outcome {
            times,
            ..Outcome::new(processes, ended, suppressions)
        })
    }

    fn new(processes: Vec<Process>, ended: Ended, suppressions: Option<&Suppressions>) -> Outcome {
        let mut totals = Totals::default();
        for process in &processes {
            totals.findings += process.findings.len() as u64;
            totals.occurrences += process
                .findings
                .iter()
                .map(|finding| finding.occurrences)
                .sum::<u64>();
            totals.suppressed += process.suppressed.len() as u64;
            totals.suppressed_occurrences += process
                .suppressed
                .iter()
                .map(|(_, finding)| finding.occurrences)
                .sum::<u64>();
            merge_coverage(&mut totals.coverage, &process.coverage);
            if !process.complete && !process.failed {
                totals.incomplete.push(process.pid);
            }
        }
        if let Some(suppressions) = suppressions {
            let used = processes.iter().flat_map(|process| &process.suppressed);
            totals.unused_suppressions = suppressions.unused(used.map(|(entry, _)| entry.as_str()));
        }
        let verdict = if totals.findings > 0 {
            Verdict::Findings
        } else if processes.iter().any(|process| process.failed) {
            Verdict::Failed
        } else if totals.covered_launches() == 0
            && (totals.coverage.calls == 0 || !totals.coverage.kernels.is_empty())
        {
            Verdict::NothingChecked
        } else {
            Verdict::Clean
        };
        Outcome {
            times: Vec::new(),
            processes,
            totals,
            ended,
            verdict,
        }
    }

    fn exit_code(&self, settings: &Settings) -> u8 {
        let own = match self.ended {
            Ended::Code(code) => code,
            Ended::Signal(signal) => exit_code::SIGNAL.saturating_add(signal),
        };
        match (self.verdict, self.ended) {
            (Verdict::Findings, _) => match settings.error_exitcode {
                0 => own,
                code => code,
            },
            (Verdict::Failed, _) => exit_code::FAILED,
            (Verdict::NothingChecked, Ended::Code(_)) if settings.check => {
                exit_code::NOTHING_CHECKED
            }
            (Verdict::NothingChecked | Verdict::Clean, _) => own,
        }
    }

    /// Why nothing was checked, in a line; `None` if something was.
    fn nothing_checked(&self, settings: &Settings) -> Option<String> {
        if self.verdict != Verdict::NothingChecked {
            return None;
        }
        let launched = !self.totals.coverage.kernels.is_empty();
        let why = if settings.device == Some(model::DeviceKind::Tenant) {
            "the program ran as a tenant: its kernels were fenced, and nothing was checked"
        } else if !settings.check {
            "checking was switched off"
        } else if self.processes.is_empty() {
            "nothing was checked: the program made no CUDA or OpenCL call"
        } else if launched {
            "nothing was checked: every kernel launch ran without checks"
        } else {
            "nothing was checked: the program launched no kernel, and made no call that could be"
        };
        Some(why.to_owned())
    }

    /// Prints the summary and writes the reports. Returns the exit code.
    ///
    /// # Errors
    ///
    /// A report cannot be written.
    pub fn conclude(&self, command: &[OsString], settings: &Settings) -> Result<u8> {
        if let Ended::Signal(signal) = self.ended {
            terminal::say(&format!("the program was killed by signal {signal}"));
        }
        if let Some(line) = self.nothing_checked(settings) {
            terminal::say(&line);
        }
        if settings.check && !self.processes.is_empty() {
            terminal::line(&report::summary(&self.totals));
        }
        let exit_code = self.exit_code(settings);
        let files = [&settings.json, &settings.sarif, &settings.junit];
        if files.iter().any(|file| file.is_some()) {
            let report = self.report(command, exit_code);
            let texts = [
                settings
                    .json
                    .as_ref()
                    .map(|path| (path, report.to_json().map_err(anyhow::Error::from))),
                settings
                    .sarif
                    .as_ref()
                    .map(|path| (path, sarif(&report).map_err(anyhow::Error::from))),
                settings
                    .junit
                    .as_ref()
                    .map(|path| (path, junit(&report).map_err(anyhow::Error::from))),
            ];
            for (path, text) in texts.into_iter().flatten() {
                let text = text.context("the report cannot be made")?;
                std::fs::write(path, text)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
        if let Some(path) = &settings.time_kernels {
            let times = TimesFile {
                version: TIMES_VERSION,
                processes: self.times.clone(),
            };
            let text =
                serde_json::to_string_pretty(&times).context("the times cannot be written")?;
            std::fs::write(path, text + "\n")
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(exit_code)
    }

    fn report(&self, command: &[OsString], exit_code: u8) -> Report {
        Report::new(Run {
            command: command
                .iter()
                .map(|part| part.to_string_lossy().into_owned())
                .collect(),
            verdict: self.verdict,
            program: match self.ended {
                Ended::Code(code) => ProgramEnd::Code(code.into()),
                Ended::Signal(signal) => ProgramEnd::Signal(signal.into()),
            },
            exit_code: exit_code.into(),
            processes: &self.processes,
            totals: &self.totals,
        })
    }
}

/// The times of its kernels that a process wrote.
fn read_times(path: &Path) -> Result<ProcessTimes> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("in {}", path.display()))
}
