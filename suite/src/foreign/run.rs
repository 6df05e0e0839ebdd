//! Runs one program in every variant and compares each with the reference.

use super::build::Built;
use super::collection::Program;
use super::output::{Difference, Expected};
use super::sizes;
use crate::case::Api;
use crate::judge::EXIT_FINDINGS;
use crate::process::{self, Outcome};
use crate::run::in_front;
use anyhow::{Context, Result};
use model::{DeviceKind, exit_code};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// One way of running a program under Ringfence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its name in results.
    pub name: &'static str,
    /// Options of `ringfence run`.
    pub options: &'static [&'static str],
}

/// All variants of CUDA programs, in the order in which they run.
pub const VARIANTS: &[Variant] = &[
    Variant {
        name: "no-check",
        options: &["--no-check"],
    },
    Variant {
        name: "default",
        options: &[],
    },
    Variant {
        name: "verify",
        options: &["--prove", "verify"],
    },
    Variant {
        name: "prove-off",
        options: &["--prove", "off"],
    },
    Variant {
        name: "watch",
        options: &["--protect", "canary,watch"],
    },
    Variant {
        name: "shadow",
        options: &["--protect", "shadow"],
    },
    Variant {
        name: "shadow-checked",
        options: &[
            "--protect",
            "shadow",
            "--prove",
            "off",
            "--shadow-encoding",
            "128",
        ],
    },
    Variant {
        name: "pages",
        options: &["--protect", "pages"],
    },
    Variant {
        name: TENANT,
        options: &[],
    },
];

/// The variant in which a program is a tenant of a manager of the same device, with
/// its kernels fenced and nothing checked.
pub const TENANT: &str = "tenant";

/// All variants of OpenCL programs: canaries, verified by whichever is faster,
/// by the host and by the device.
pub const OPENCL_VARIANTS: &[Variant] = &[
    Variant {
        name: "default",
        options: &[],
    },
    Variant {
        name: "host-checker",
        options: &["--canary-checker", "host"],
    },
    Variant {
        name: "device-checker",
        options: &["--canary-checker", "device"],
    },
];

/// How programs are run.
#[derive(Clone, Debug)]
pub struct Runner {
    /// What they are written against.
    pub api: Api,
    /// The `ringfence` command, absolute.
    pub ringfence: PathBuf,
    /// The device.
    pub device: DeviceKind,
    /// Folder of the CUDA libraries that programs may need.
    pub libraries: Option<PathBuf>,
    /// Deadline of one run.
    pub limit: Duration,
    /// Names of the variants that are wanted; empty: all.
    pub variants: Vec<String>,
    /// How often a program repeats its work, at most.
    pub repeats: u64,
    /// Where tenants connect.
    pub socket: Option<PathBuf>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// With an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// It was killed when its time was up.
    Hang,
}

impl End {
    /// How a program ended.
    pub(super) fn of(outcome: &Outcome) -> End {
        match outcome.status {
            None => End::Hang,
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => End::Code(code),
                (None, signal) => End::Signal(signal.unwrap_or_default()),
            },
        }
    }
}

/// One finding, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The rule.
    pub rule: String,
    /// Kernel or call, and where.
    pub at: String,
    /// What the report says.
    pub message: String,
    /// How often.
    pub occurrences: u64,
}

/// What one variant did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariantRow {
    /// Its name.
    pub variant: String,
    /// How the program ended.
    pub end: End,
    /// Exit code of the command.
    pub code: Option<i32>,
    /// Wall seconds.
    pub seconds: f64,
    /// First line of standard output that differs.
    pub stdout: Option<Difference>,
    /// First line of standard error that differs.
    pub stderr: Option<Difference>,
    /// What was found.
    pub findings: Vec<Found>,
    /// Launches proved, checked and not checked.
    pub launches: [u64; 3],
    /// What Ringfence says of what it cannot do, and of its own failures.
    pub errors: Vec<String>,
}

impl VariantRow {
    /// What is not as it should be, in a few words; none if all is.
    pub fn differences(&self, reference: End) -> Vec<String> {
        let mut all = Vec::new();
        match self.end {
            End::Hang => all.push("hangs".to_owned()),
            end if end != reference => all.push(format!("ends with {end:?}, not {reference:?}")),
            _ => {}
        }
        let nothing_to_check = self.code == Some(exit_code::NOTHING_CHECKED.into());
        if let (End::Code(own), Some(code)) = (self.end, self.code)
            && code != own
            && (code != EXIT_FINDINGS || self.findings.is_empty())
            && !nothing_to_check
        {
            all.push(format!("exit code {code}"));
        }
        if self.end != End::Hang {
            if let Some(difference) = &self.stdout {
                all.push(format!(
                    "output `{}`, not `{}`",
                    difference.got, difference.expected
                ));
            } else if let Some(difference) = &self.stderr {
                all.push(format!(
                    "stderr `{}`, not `{}`",
                    difference.got, difference.expected
                ));
            }
        }
        for finding in &self.findings {
            all.push(format!("{} at {}", finding.rule, finding.at));
        }
        all.extend(self.errors.iter().cloned());
        all
    }
}

/// What became of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The program.
    pub program: String,
    /// What became of it: `ran`, `not-built`, `too-slow`.
    pub state: String,
    /// Why it is not `ran`.
    pub reason: String,
    /// Arguments with which it ran.
    pub arguments: Vec<String>,
    /// How the reference ended.
    pub reference: Option<End>,
    /// Wall seconds of the reference.
    pub seconds: f64,
    /// The reference differs from itself in more than words.
    pub unstable: bool,
    /// What the device of the reference cannot do.
    #[serde(default)]
    pub lacks: Vec<String>,
    /// The variants.
    pub variants: Vec<VariantRow>,
}

impl Row {
    /// The row of a program that does not build.
    pub fn not_built(program: &Program, reason: String) -> Row {
        Row {
            program: program.name.clone(),
            state: "not-built".into(),
            reason,
            arguments: program.arguments.clone(),
            reference: None,
            seconds: 0.0,
            unstable: false,
            lacks: Vec::new(),
            variants: Vec::new(),
        }
    }
}

/// Sizes that are tried until one runs, as the largest number.
const CAPS: &[u64] = &[512, 64, 8192, 16, u64::MAX];

/// Sizes of OpenCL programs without a GPU.
const OPENCL_CAPS: &[u64] = &[u64::MAX, 1 << 20, 1 << 16, 1 << 12, 512, 64, 16];

/// Sizes on a GPU.
const GPU_CAPS: &[u64] = &[u64::MAX, 1 << 20, 1 << 14, 512];

/// A run of the reference.
pub(super) struct Plain {
    /// What Ringfence says that its device cannot do.
    pub lacks: Vec<String>,
    /// What it left.
    pub outcome: Outcome,
    /// How the program itself ended.
    pub end: End,
}

/// Arguments with which a program runs within a quarter of the time, and the
/// run.
pub(super) struct Reference {
    /// The arguments.
    pub arguments: Vec<String>,
    /// The run that was found fit.
    pub run: Plain,
}

impl Runner {
    /// Whether this variant is wanted.
    pub fn wants(&self, variant: &str) -> bool {
        self.variants.is_empty() || self.variants.iter().any(|name| name == variant)
    }

    /// Runs the reference smaller and smaller until it ends in time and well.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub(super) fn reference(
        &self,
        program: &Program,
        built: &Built,
        time: Duration,
    ) -> Result<Option<Reference>> {
        // What an earlier call found.
        if let Some(Some(arguments)) = known_size(&sizes_of(built))? {
            let run = self.plain(built, &arguments, self.limit)?;
            return Ok((run.end != End::Hang).then_some(Reference { arguments, run }));
        }
        let caps = match (self.device, self.api) {
            _ if program.small => &[u64::MAX],
            (DeviceKind::Gpu, _) => GPU_CAPS,
            (DeviceKind::Cpu | DeviceKind::Tenant, Api::Cuda) => CAPS,
            (DeviceKind::Cpu | DeviceKind::Tenant, Api::OpenCl) => OPENCL_CAPS,
        };
        let mut tried: Vec<Vec<String>> = Vec::new();
        let mut ended = None;
        let mut largest = u64::MAX;
        for cap in caps {
            // What is larger than what was too slow is too slow as well.
            if *cap > largest {
                continue;
            }
            let arguments = sizes::shrink(&program.arguments, *cap, program.repeats, self.repeats);
            if tried.contains(&arguments) {
                continue;
            }
            tried.push(arguments.clone());
            let run = self.plain(built, &arguments, time)?;
            match run.end {
                End::Hang => largest = *cap,
                End::Code(0) => return Ok(Some(Reference { arguments, run })),
                _ if ended.is_none() => ended = Some(Reference { arguments, run }),
                _ => {}
            }
        }
        Ok(ended)
    }

    /// Arguments with which a program ends well in time; what an earlier call
    /// found is kept beside the program.
    ///
    /// # Errors
    ///
    /// The program cannot be started, or the file cannot be written.
    pub fn sized(&self, program: &Program, built: &Built) -> Result<Option<Vec<String>>> {
        let path = sizes_of(built);
        if let Some(known) = known_size(&path)? {
            return Ok(known);
        }
        let found = self
            .reference(program, built, self.limit / 4)?
            .filter(|reference| reference.run.end == End::Code(0))
            .map(|reference| reference.arguments);
        std::fs::write(&path, serde_json::to_string(&found)?)
            .with_context(|| format!("failed to write {}", path.display()))?;
        Ok(found)
    }

    /// Whether programs run without Ringfence: not those that have only its
    /// CPU device.
    fn is_native(&self) -> bool {
        self.device == DeviceKind::Gpu || self.api == Api::OpenCl
    }

    /// Runs the reference: natively, on the CPU device unchecked.
    pub(super) fn plain(
        &self,
        built: &Built,
        arguments: &[String],
        limit: Duration,
    ) -> Result<Plain> {
        self.plain_with(built, arguments, limit, None)
    }

    /// The reference a second time: what differs between the two is not
    /// compared. New memory of the host holds other bytes than zeros, as under
    /// Ringfence, which allocates, too: a program that reads what it never
    /// wrote differs from itself.
    fn plain_again(&self, built: &Built, arguments: &[String]) -> Result<Plain> {
        self.plain_with(
            built,
            arguments,
            self.limit,
            Some(("MALLOC_PERTURB_", "165")),
        )
    }

    fn plain_with(
        &self,
        built: &Built,
        arguments: &[String],
        limit: Duration,
        variable: Option<(&str, &str)>,
    ) -> Result<Plain> {
        if self.is_native() {
            let mut command = Command::new(&built.program);
            command.envs(variable);
            self.place(command.args(arguments), built)?;
            let outcome = process::run(&mut command, limit)?;
            let end = End::of(&outcome);
            return Ok(Plain {
                outcome,
                end,
                lacks: Vec::new(),
            });
        }
        let options = &["--no-check"];
        let (outcome, report, end, log) =
            self.reported("reference", options, built, arguments, limit)?;
        Ok(Plain {
            outcome,
            end,
            lacks: errors(&report, &log),
        })
    }

    /// Runs under Ringfence; with the report, how the program itself ended,
    /// and the log.
    pub(super) fn reported(
        &self,
        name: &str,
        options: &[&str],
        built: &Built,
        arguments: &[String],
        limit: Duration,
    ) -> Result<(Outcome, Value, End, String)> {
        let log = built.scratch.join(format!("{name}.log"));
        let json = built.scratch.join(format!("{name}.json"));
        for old in [&log, &json] {
            if old.exists() {
                std::fs::remove_file(old)?;
            }
        }
        let json_option = json.display().to_string();
        let mut options: Vec<&str> = options.to_vec();
        options.extend(["--json", &json_option]);
        let outcome = process::run(&mut self.under(&options, built, arguments, &log)?, limit)?;
        let report: Value = std::fs::read_to_string(&json)
            .ok()
            .filter(|text| !text.is_empty())
            .map(|text| serde_json::from_str(&text))
            .transpose()
            .with_context(|| format!("{} is not JSON", json.display()))?
            .unwrap_or_default();
        let end = match (&outcome.status, &report["program"]) {
            (None, _) => End::Hang,
            (_, Value::Null) => End::of(&outcome),
            (_, program) => serde_json::from_value(program.clone())?,
        };
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        Ok((outcome, report, end, log))
    }

    /// Runs as a tenant, of which there is no report.
    fn as_tenant(
        &self,
        socket: &Path,
        built: &Built,
        arguments: &[String],
    ) -> Result<(Outcome, Value, End, String)> {
        let log = built.scratch.join("tenant.log");
        if log.exists() {
            std::fs::remove_file(&log)?;
        }
        let runner = Runner {
            device: DeviceKind::Tenant,
            ..self.clone()
        };
        let options = ["--socket", &socket.display().to_string()];
        let mut command = runner.under(&options, built, arguments, &log)?;
        let outcome = process::run(&mut command, self.limit)?;
        // (As a shell says how a program was ended by a signal.)
        let end = match End::of(&outcome) {
            End::Code(code @ 129..=192) => End::Signal(code - 128),
            end => end,
        };
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        Ok((outcome, Value::Null, end, log))
    }

    /// A command that runs the program under Ringfence; its own words go to
    /// `log`.
    pub(super) fn under(
        &self,
        options: &[&str],
        built: &Built,
        arguments: &[String],
        log: &Path,
    ) -> Result<Command> {
        let mut command = Command::new(&self.ringfence);
        command.args([
            "run",
            "--device",
            match self.device {
                DeviceKind::Gpu => "gpu",
                DeviceKind::Cpu => "cpu",
                DeviceKind::Tenant => "tenant",
            },
        ]);
        command
            .args(options)
            .arg("--log-file")
            .arg(log)
            .arg("--")
            .arg(&built.program)
            .args(arguments);
        self.place(&mut command, built)?;
        Ok(command)
    }

    fn place(&self, command: &mut Command, built: &Built) -> Result<()> {
        command
            .current_dir(&built.folder)
            .envs(built.environment.iter().map(|(name, value)| (name, value)))
            .env_remove("RINGFENCE_OPTIONS");
        if let Some(libraries) = &self.libraries {
            command.env("LD_LIBRARY_PATH", in_front(libraries)?);
        }
        Ok(())
    }

    /// Runs a program in every variant.
    ///
    /// # Errors
    ///
    /// A run cannot be started, or a report cannot be read.
    pub fn compare(&self, program: &Program, built: &Built) -> Result<Row> {
        let mut row = Row {
            program: program.name.clone(),
            state: "ran".into(),
            reason: String::new(),
            arguments: program.arguments.clone(),
            reference: None,
            seconds: 0.0,
            unstable: false,
            lacks: Vec::new(),
            variants: Vec::new(),
        };
        let Some(first) = self.reference(program, built, self.limit / 4)? else {
            row.state = "too-slow".into();
            row.reason = format!(
                "the reference takes more than {} s at every size",
                (self.limit / 4).as_secs()
            );
            return Ok(row);
        };
        let Reference { arguments, run } = first;
        let Plain {
            outcome,
            end,
            lacks,
        } = run;
        row.lacks = lacks;
        if end != End::Code(0) {
            let mut lines = outcome.stderr.lines().chain(outcome.stdout.lines());
            let last = lines.rfind(|line| !line.trim().is_empty());
            row.reason = last.unwrap_or_default().to_owned();
        }
        row.arguments = arguments.clone();
        row.seconds = seconds(outcome.elapsed);
        row.reference = Some(end);
        let Plain {
            outcome: again,
            end: end_again,
            ..
        } = self.plain_again(built, &arguments)?;
        row.unstable =
            end_again != end || again.stdout.lines().count() != outcome.stdout.lines().count();
        let stdout = Expected::new(&outcome.stdout, &again.stdout);
        let stderr = Expected::new(&the_programs(&outcome.stderr), &the_programs(&again.stderr));
        let variants = match self.api {
            Api::Cuda => VARIANTS,
            Api::OpenCl => OPENCL_VARIANTS,
        };
        for variant in variants {
            let wanted = self.wants(variant.name);
            // On the CPU device that is the reference itself.
            let is_reference = !self.is_native() && variant.name == "no-check";
            // Nobody has started a manager.
            let has_no_place = variant.name == TENANT && self.socket.is_none();
            if !wanted || is_reference || has_no_place {
                continue;
            }
            let mut got = self.variant(variant, built, &arguments, &stdout, &stderr)?;
            if !got.differences(end).is_empty() && got.findings.is_empty() && end_again != end {
                // The reference itself ends in more than one way.
                got.errors
                    .push("the reference ends in more than one way".into());
            }
            row.variants.push(got);
        }
        Ok(row)
    }

    fn variant(
        &self,
        variant: &Variant,
        built: &Built,
        arguments: &[String],
        stdout: &Expected,
        stderr: &Expected,
    ) -> Result<VariantRow> {
        let (outcome, report, end, log) = match (variant.name, &self.socket) {
            (TENANT, Some(socket)) => self.as_tenant(socket, built, arguments)?,
            _ => self.reported(variant.name, variant.options, built, arguments, self.limit)?,
        };
        Ok(VariantRow {
            variant: variant.name.into(),
            end,
            code: outcome.code(),
            seconds: seconds(outcome.elapsed),
            stdout: stdout.difference(&outcome.stdout),
            stderr: stderr.difference(&the_programs(&outcome.stderr)),
            findings: findings(&report),
            launches: launches(&report),
            errors: errors(&report, &log),
        })
    }
}

/// Standard error without what the command itself says there: also behind a line
/// that the program did not end.
fn the_programs(stderr: &str) -> String {
    let lines = stderr
        .lines()
        .filter(|line| !line.starts_with("ringfence: "));
    let own = lines.map(|line| line.split("ringfence: ").next().unwrap_or_default());
    own.map(|line| format!("{line}\n")).collect()
}

/// Where the size is kept at which a program runs.
fn sizes_of(built: &Built) -> PathBuf {
    built.scratch.join("arguments.json")
}

/// `None`: not determined yet; `Some(None)`: it runs at no size.
fn known_size(path: &Path) -> Result<Option<Option<Vec<String>>>> {
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text)
            .map(Some)
            .with_context(|| format!("{} is not JSON", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("failed to read {}", path.display())),
    }
}

fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e3).round() / 1e3
}

pub(super) fn findings(report: &Value) -> Vec<Found> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = report["findings"].as_array();
    all.into_iter()
        .flatten()
        .map(|finding| {
            let subject = &finding["subject"];
            let source = &subject["source"];
            let name = [
                &finding["kernel_demangled"],
                &subject["kernel"],
                &subject["call"],
            ]
            .into_iter()
            .map(text)
            .find(|name| !name.is_empty())
            .unwrap_or_default();
            let line = match source["line"].as_u64() {
                Some(line) => format!(" line {line}"),
                None => String::new(),
            };
            Found {
                rule: text(&finding["rule"]),
                at: format!("{name}{line}"),
                message: text(&finding["message"]),
                occurrences: finding["occurrences"].as_u64().unwrap_or_default(),
            }
        })
        .collect()
}

/// The device of the first process.
pub(super) fn device_of(report: &Value) -> String {
    let name = report["processes"][0]["device_name"].as_str();
    name.unwrap_or_default().to_owned()
}

/// Launches by what ran, as the summary of the report counts kernels.
pub(super) fn launches(report: &Value) -> [u64; 3] {
    // By reason where there are several.
    let counted = |value: &Value| match value {
        Value::Object(reasons) => reasons.values().filter_map(Value::as_u64).sum(),
        number => number.as_u64().unwrap_or(0),
    };
    let kernels = report["coverage"]["kernels"].as_object();
    ["proved", "checked", "unchecked"].map(|what| {
        let kernels = kernels.into_iter().flatten();
        kernels.map(|(_, kernel)| counted(&kernel[what])).sum()
    })
}

/// Failures of Ringfence, and what it reports as missing.
fn errors(report: &Value, log: &str) -> Vec<String> {
    let mut all: Vec<String> = report["errors"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|error| error.as_str().map(str::to_owned))
        .collect();
    for line in log.lines() {
        let line = line.trim();
        let says = line.contains("not support")
            || line.contains("unsupported")
            || line.contains("panicked")
            || line.contains("error: ");
        let line = line.trim_start_matches("ringfence: ").to_owned();
        if says && !all.iter().any(|known| line.contains(known.as_str())) {
            all.push(line);
        }
    }
    all.truncate(8);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(end: End, code: i32) -> VariantRow {
        VariantRow {
            variant: "default".into(),
            end,
            code: Some(code),
            seconds: 0.0,
            stdout: None,
            stderr: None,
            findings: Vec::new(),
            launches: [0; 3],
            errors: Vec::new(),
        }
    }

    #[test]
    fn launches_are_added_up_over_kernels_and_reasons() {
        let report = serde_json::json!({"coverage": {"kernels": {
            "one": {"proved": 3, "checked": 1, "unchecked": {"no-ptx": 2, "excluded": 5}},
            "two": {"proved": 4, "checked": 0, "unchecked": {}},
        }}});
        assert_eq!(launches(&report), [7, 1, 7]);
        assert_eq!(launches(&Value::Null), [0; 3]);
    }

    #[test]
    fn what_the_command_says_is_not_the_programs() {
        let stderr = "one\nringfence: no findings\ntwo\n.ringfence: checking was switched off\n";
        assert_eq!(the_programs(stderr), "one\ntwo\n.\n");
        assert_eq!(the_programs("."), ".\n");
    }

    #[test]
    fn what_is_not_as_the_reference_is_a_difference() {
        let well = End::Code(0);
        assert!(row(well, 0).differences(well).is_empty());
        // Nothing was checked, which the command says by its exit code.
        assert!(row(well, 97).differences(well).is_empty());
        assert_eq!(row(well, 96).differences(well), ["exit code 96"]);
        assert_eq!(row(well, 98).differences(well), ["exit code 98"]);
        assert_eq!(row(End::Hang, 0).differences(well), ["hangs"]);
        assert_eq!(row(End::Code(1), 1).differences(well).len(), 1);
        assert_eq!(row(End::Signal(11), 139).differences(well).len(), 1);
        assert!(row(End::Code(3), 3).differences(End::Code(3)).is_empty());
    }

    #[test]
    fn findings_and_errors_come_from_the_report() {
        let report = json!({
            "findings": [{
                "rule": "invalid-pointer", "message": "m", "occurrences": 7,
                "kernel_demangled": "k(int*)", "subject": {"kernel": "_Z1kPi", "source": {"line": 4}},
            }],
            "errors": ["cuX is not supported"],
        });
        let found = findings(&report);
        assert_eq!(
            (found[0].at.as_str(), found[0].occurrences),
            ("k(int*) line 4", 7)
        );
        let log = "ringfence: cuX is not supported\nringfence: instruction foo is not supported\n";
        assert_eq!(
            errors(&report, log),
            ["cuX is not supported", "instruction foo is not supported"]
        );
    }
}
