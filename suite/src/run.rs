//! Runs a folder of built cases under Ringfence and judges each program.

use crate::case::{Case, Manifest, Program};
use crate::judge::{self, Report, Verdict};
use crate::process::{self, Outcome};
use crate::results::{Provenance, Results, SuiteRow, SuiteSummary, today};
use anyhow::{Context, Result, ensure};
pub use model::DeviceKind;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How to run the suite.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which device.
    pub device: DeviceKind,
    /// Folder with the manifest and the programs.
    pub cases: PathBuf,
    /// The `ringfence` command.
    pub ringfence: PathBuf,
    /// Only cases whose name contains this.
    pub filter: Option<String>,
    /// Programs at a time.
    pub jobs: usize,
    /// Deadline of one run of one program.
    pub limit: Duration,
}

/// Results of a run of the suite.
pub type SuiteResults = Results<SuiteSummary, SuiteRow>;

/// A program to be judged: its case, and whether it is the bad twin.
struct Task<'a> {
    case: &'a Case,
    bad: bool,
}

struct Judged {
    row: SuiteRow,
    bad: bool,
    alarm: bool,
    device: Option<(String, u32)>,
}

/// Runs the suite; `tell` gets one line for each program as it ends.
///
/// # Errors
///
/// The manifest or a program is missing, or nothing matches the filter. A
/// wrong verdict is a row of the results.
pub fn run(options: &Options, tell: &(dyn Fn(&str) + Sync)) -> Result<SuiteResults> {
    let manifest = Manifest::read(&options.cases)?;
    // Programs run in the folder of the cases, so relative paths will not do.
    let options = &Options {
        cases: absolute(&options.cases, "cases")?,
        ringfence: absolute(&options.ringfence, "ringfence command")?,
        ..options.clone()
    };
    let scratch = std::env::temp_dir().join(format!("ringfence-suite-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)
        .with_context(|| format!("failed to make {}", scratch.display()))?;
    let tasks: Vec<Task> = manifest
        .cases
        .iter()
        .filter(|case| {
            options
                .filter
                .as_ref()
                .is_none_or(|part| case.name.contains(part))
        })
        .flat_map(|case| {
            let bad = case.bad.as_ref().map(|_| Task { case, bad: true });
            bad.into_iter().chain([Task { case, bad: false }])
        })
        .collect();
    ensure!(!tasks.is_empty(), "no case matches the filter");

    let next = AtomicUsize::new(0);
    let judged = Mutex::new(Vec::with_capacity(tasks.len()));
    let work = || -> Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = tasks.get(index) else {
                return Ok(());
            };
            let one = judge_task(options, &manifest, task, &scratch)
                .with_context(|| format!("in the case {}", task.case.name))?;
            tell(&format!(
                "{} {:<40} {} ({:.1} s)",
                if one.row.pass { "ok  " } else { "FAIL" },
                one.row.program,
                one.row.verdict,
                one.row.seconds
            ));
            if let Ok(mut judged) = judged.lock() {
                judged.push((index, one));
            }
        }
    };
    let outcomes: Vec<Result<()>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs.max(1))
            .map(|_| scope.spawn(work))
            .collect();
        workers
            .into_iter()
            .map(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|_| Err(anyhow::anyhow!("a worker of the suite panicked")))
            })
            .collect()
    });
    // Only scratch files of this run lie there.
    let _ = std::fs::remove_dir_all(&scratch);
    outcomes.into_iter().collect::<Result<()>>()?;

    let mut judged = judged.into_inner().unwrap_or_else(|e| e.into_inner());
    judged.sort_by_key(|(index, _)| *index);
    Ok(summarize(
        judged.into_iter().map(|(_, one)| one).collect(),
        manifest.commit,
    ))
}

fn summarize(judged: Vec<Judged>, commit: String) -> SuiteResults {
    let count = |test: &dyn Fn(&Judged) -> bool| judged.iter().filter(|one| test(one)).count();
    let summary = SuiteSummary {
        cases: count(&|one| one.bad),
        detected: count(&|one| one.bad && one.row.pass),
        good: count(&|one| !one.bad),
        false_alarms: count(&|one| !one.bad && one.alarm),
        passed: count(&|one| one.row.pass),
        failed: count(&|one| !one.row.pass),
    };
    let (device, driver) = judged
        .iter()
        .find_map(|one| one.device.clone())
        .unwrap_or_default();
    Results {
        summary,
        provenance: Provenance {
            device,
            driver: format!("CUDA {}.{}", driver / 1000, driver % 1000 / 10),
            date: today(),
            commit,
        },
        rows: judged.into_iter().map(|one| one.row).collect(),
    }
}

fn judge_task(
    options: &Options,
    manifest: &Manifest,
    task: &Task<'_>,
    scratch: &Path,
) -> Result<Judged> {
    let name = format!(
        "{}_{}",
        if task.bad { "bad" } else { "good" },
        task.case.name
    );
    let json = scratch.join(format!("{name}.json"));
    let program = match (&task.case.bad, task.bad) {
        (Some(bad), true) => &bad.program,
        _ => &task.case.good,
    };
    let outcome = start(options, manifest, program, &Mode::Checked(&json))?;
    let report = read_report(&json)?;
    let (verdict, output): (Verdict, _) = match (&task.case.bad, task.bad) {
        (Some(bad), true) => (
            judge::judge_bad(&bad.expect, &outcome, report.as_ref()),
            None,
        ),
        _ => {
            // Without checks: natively where there is a GPU, else the
            // original code on the CPU device.
            let plain_mode = match options.device {
                DeviceKind::Gpu => Mode::Native,
                DeviceKind::Cpu => Mode::Unchecked,
            };
            let plain = start(options, manifest, program, &plain_mode)?;
            (
                judge::judge_good(&outcome, report.as_ref(), &plain),
                Some(outcome.stdout.clone()),
            )
        }
    };
    Ok(Judged {
        row: SuiteRow {
            program: name,
            pass: verdict.pass,
            verdict: verdict.text,
            output,
            seconds: (outcome.elapsed.as_secs_f64() * 1e3).round() / 1e3,
        },
        bad: task.bad,
        alarm: report
            .as_ref()
            .is_some_and(|report| !report.findings.is_empty()),
        device: report.and_then(|report| {
            report
                .processes
                .first()
                .map(|process| (process.device_name.clone(), process.driver_version))
        }),
    })
}

/// How a program is started.
enum Mode<'a> {
    /// Without Ringfence.
    Native,
    /// Under Ringfence, its kernels as they are.
    Unchecked,
    /// Under Ringfence, with the JSON report going to this file.
    Checked(&'a Path),
}

fn start(
    options: &Options,
    manifest: &Manifest,
    program: &Program,
    mode: &Mode<'_>,
) -> Result<Outcome> {
    let folder = &options.cases;
    let path = folder.join(&program.path);
    ensure!(path.is_file(), "no program at {}", path.display());
    let device = match options.device {
        DeviceKind::Gpu => "gpu",
        DeviceKind::Cpu => "cpu",
    };
    let mut command = match mode {
        Mode::Native => Command::new(&path),
        Mode::Unchecked | Mode::Checked(_) => {
            let mut command = Command::new(&options.ringfence);
            command.args(["run", "--device", device]);
            match mode {
                Mode::Checked(json) => command.arg("--json").arg(json),
                _ => command.arg("--no-check"),
            };
            command.arg("--").arg(&path);
            command
        }
    };
    command
        .args(&program.arguments)
        .current_dir(folder)
        .env_remove("RINGFENCE_OPTIONS")
        // A program with the shared CUDA runtime finds it here; on the CPU
        // device Ringfence puts its own in front. What was there stays: it
        // may be what leads to the driver.
        .env(
            "LD_LIBRARY_PATH",
            in_front(&folder.join(&manifest.libraries))?,
        );
    process::run(&mut command, options.limit)
}

fn absolute(path: &Path, what: &str) -> Result<PathBuf> {
    std::fs::canonicalize(path).with_context(|| format!("no {what} at {}", path.display()))
}

/// `LD_LIBRARY_PATH` with one more folder, searched first.
fn in_front(folder: &Path) -> Result<OsString> {
    let old = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let rest = std::env::split_paths(&old).filter(|path| !path.as_os_str().is_empty());
    std::env::join_paths(std::iter::once(folder.to_owned()).chain(rest)).with_context(|| {
        format!(
            "the folder {} cannot be searched for libraries",
            folder.display()
        )
    })
}

fn read_report(path: &Path) -> Result<Option<Report>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(serde_json::from_str(&text).with_context(|| {
            format!("the report is not of a form that is known:\n{text}")
        })?)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("failed to read {}", path.display())),
    }
}
