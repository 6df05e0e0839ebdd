//! Runs a folder of built cases under Ringfence and judges each program.

use crate::case::{Api, Case, Expectation, Manifest, Program};
use crate::judge::{self, Report, Verdict};
use crate::process::{self, Outcome};
use crate::results::{Provenance, Results, SuiteRow, SuiteSummary, Twin, today};
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
    /// Settings for all programs, `key=value`; those of a case count more.
    pub settings: Vec<String>,
    /// Only cases whose name contains this.
    pub filter: Option<String>,
    /// Programs at a time.
    pub jobs: usize,
    /// Deadline of one run of one program.
    pub limit: Duration,
}

/// Results of a run of the suite.
pub type SuiteResults = Results<SuiteSummary, SuiteRow>;

/// A program to be judged.
struct Task<'a> {
    case: &'a Case,
    twin: Twin,
}

impl Task<'_> {
    fn name(&self) -> String {
        format!("{}_{}", self.twin.prefix(), self.case.name)
    }

    /// The program, and what is expected of it if it has a bug.
    fn program(&self) -> Option<(&Program, &[Expectation])> {
        let bad = self.case.bad.as_ref();
        match self.twin {
            Twin::Good => Some((&self.case.good, &[])),
            Twin::Bad => bad.map(|bad| (&bad.program, bad.expect.as_slice())),
            Twin::Annotated => {
                bad.and_then(|bad| Some((bad.annotated.as_ref()?, bad.expect.as_slice())))
            }
        }
    }
}

struct Judged {
    row: SuiteRow,
    alarm: bool,
    device: Option<(String, u32)>,
}

/// Runs the suite; `print` gets one line for each program as it ends.
///
/// # Errors
///
/// The manifest or a program is missing, or nothing matches the filter. A
/// wrong verdict is a row of the results.
pub fn run(options: &Options, print: &(dyn Fn(&str) + Sync)) -> Result<SuiteResults> {
    let manifest = Manifest::read(&options.cases)?;
    // Programs run in the folder of the cases, so relative paths will not do.
    let options = &Options {
        cases: absolute(&options.cases, "cases")?,
        ringfence: absolute(&options.ringfence, "ringfence command")?,
        ..options.clone()
    };
    let scratch = tempfile::tempdir().context("no place for reports")?;
    let tasks: Vec<Task> = manifest
        .cases
        .iter()
        .filter(|case| {
            options
                .filter
                .as_ref()
                .is_none_or(|part| case.name.contains(part))
        })
        .flat_map(|case| [Twin::Bad, Twin::Annotated, Twin::Good].map(|twin| Task { case, twin }))
        .filter(|task| task.program().is_some())
        .collect();
    ensure!(!tasks.is_empty(), "no case matches the filter");

    let judged = in_parallel(options.jobs, &tasks, |task| {
        let one = judge_task(options, &manifest, task, scratch.path())
            .with_context(|| format!("in the case {}", task.case.name))?;
        print(&format!(
            "{} {:<48} {} ({:.1} s)",
            match (&one.row.not_runnable, one.row.pass) {
                (Some(_), _) => "none",
                (None, true) => "ok  ",
                (None, false) => "FAIL",
            },
            one.row.program,
            one.row.verdict,
            one.row.seconds
        ));
        Ok(one)
    });
    Ok(summarize(judged?, manifest.api, manifest.commit))
}

/// Does `work` on all `items`, `jobs` at a time; the results are in order.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    jobs: usize,
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let worker = || -> Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else {
                return Ok(());
            };
            let result = work(item)?;
            if let Ok(mut done) = done.lock() {
                done.push((index, result));
            }
        }
    };
    let outcomes: Vec<Result<()>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .map(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|_| Err(anyhow::anyhow!("a worker of the suite panicked")))
            })
            .collect()
    });
    outcomes.into_iter().collect::<Result<()>>()?;
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

fn summarize(judged: Vec<Judged>, api: Api, commit: String) -> SuiteResults {
    let (device, driver) = judged
        .iter()
        .find_map(|one| one.device.clone())
        .unwrap_or_default();
    let false_alarms = judged
        .iter()
        .filter(|one| one.row.twin == Twin::Good && one.alarm)
        .count();
    let rows: Vec<SuiteRow> = judged.into_iter().map(|one| one.row).collect();
    Results {
        summary: summary(&rows, false_alarms),
        provenance: Provenance {
            device,
            driver: format!(
                "{} {}.{}",
                match api {
                    Api::Cuda => "CUDA",
                    Api::OpenCl => "OpenCL",
                },
                driver / 1000,
                driver % 1000 / 10
            ),
            date: today(),
            commit,
        },
        rows,
    }
}

fn summary(rows: &[SuiteRow], false_alarms: usize) -> SuiteSummary {
    let mut summary = SuiteSummary {
        false_alarms,
        ..Default::default()
    };
    for row in rows {
        if row.not_runnable.is_some() {
            let case = usize::from(row.twin == Twin::Bad);
            summary.cases += case;
            summary.not_runnable += case;
            continue;
        }
        *(if row.pass {
            &mut summary.passed
        } else {
            &mut summary.failed
        }) += 1;
        summary.expected_missing += usize::from(row.expected_missing.is_some());
        let found = usize::from(row.found == Some(true));
        let mut count = |what: &str, by: usize| {
            let key = format!("{}/{}/{what}", row.group, row.category);
            *summary.categories.entry(key).or_default() += by;
        };
        match row.twin {
            Twin::Good => summary.good += 1,
            Twin::Bad => {
                count("cases", 1);
                count("detected", found);
                summary.cases += 1;
                summary.detected += found;
            }
            Twin::Annotated => {
                count("detected_annotated", found);
                summary.detected_annotated += found;
            }
        }
    }
    summary
}

fn judge_task(
    options: &Options,
    manifest: &Manifest,
    task: &Task<'_>,
    scratch: &Path,
) -> Result<Judged> {
    let name = task.name();
    let json = scratch.join(format!("{name}.json"));
    let (program, expect) = task.program().context("the case has no such twin")?;
    let settings: Vec<&str> = options
        .settings
        .iter()
        .chain(&task.case.options)
        .map(String::as_str)
        .collect();
    let settings = settings.join(":");
    let start = |mode: &Mode<'_>, settings: &str| start(options, manifest, program, settings, mode);
    // Queried without Ringfence, so that a fault of Ringfence cannot be
    // mistaken for one of the platform.
    let plain = match (manifest.api, options.device) {
        (Api::OpenCl, _) | (Api::Cuda, DeviceKind::Gpu) => Mode::Native,
        // Natively there is no device: the original code on the CPU device.
        (Api::Cuda, DeviceKind::Cpu | DeviceKind::Tenant) => Mode::Unchecked,
    };
    if (manifest.api == Api::OpenCl || task.case.premise)
        && let Some(lacks) = judge::lacking(&start(&plain, "")?)
    {
        return Ok(not_runnable(task, name, lacks));
    }
    let outcome = start(&Mode::Checked(&json), &settings)?;
    // A report that cannot be read is a wrong verdict, not the suite's end.
    let (report, unreadable) = match read_report(&json) {
        Ok(report) => (report, None),
        Err(error) => (None, Some(format!("{error:#}"))),
    };
    let found = match task.twin {
        Twin::Good => None,
        _ => Some(judge::judge_bad(expect, &outcome, report.as_ref())),
    };
    // A finding that a good twin must give is no false alarm.
    let also = task.case.also.as_slice();
    let alarm = report.as_ref().is_some_and(|report| {
        let mut findings = report.findings.iter();
        findings.any(|finding| !judge::is_expected(also, finding))
    });
    // The bug of an annotated case must be missed until it is annotated.
    let needs_annotation = task
        .case
        .bad
        .as_ref()
        .is_some_and(|bad| bad.annotated.is_some());
    let (verdict, output) = match (&found, task.twin) {
        (Some(found), Twin::Bad) if needs_annotation => {
            (judge::judge_missed(found, &outcome, report.as_ref()), None)
        }
        (Some(found), _) => (found.clone(), None),
        (None, _) => {
            let plain = start(&plain, "")?;
            (
                judge::judge_good(&task.case.also, &outcome, report.as_ref(), &plain),
                Some(outcome.stdout.clone()),
            )
        }
    };
    let verdict = match unreadable {
        Some(text) => Verdict { pass: false, text },
        None => judge::judge_notes(&task.case.notes, report.as_ref(), verdict),
    };
    let mut listed = manifest.missing.iter();
    let listed = listed.find(|missing| missing.is_of(&name, options.device, None));
    let verdict = match listed {
        None => verdict,
        // The list excuses a miss, never an alarm.
        Some(_) if task.twin == Twin::Good && alarm => verdict,
        Some(missing) => judge::judge_listed(&missing.reason, &verdict),
    };
    Ok(Judged {
        row: SuiteRow {
            program: name,
            twin: task.twin,
            group: task.case.group.clone(),
            category: task.case.category.clone(),
            found: found.map(|verdict| verdict.pass),
            expected_missing: listed.map(|missing| missing.reason.clone()),
            not_runnable: None,
            pass: verdict.pass,
            verdict: verdict.text,
            output,
            seconds: (outcome.elapsed.as_secs_f64() * 1e3).round() / 1e3,
        },
        alarm,
        device: report.and_then(|report| {
            report
                .processes
                .first()
                .map(|process| (process.device_name.clone(), process.driver_version))
        }),
    })
}

fn not_runnable(task: &Task<'_>, program: String, lacks: String) -> Judged {
    Judged {
        row: SuiteRow {
            program,
            twin: task.twin,
            group: task.case.group.clone(),
            category: task.case.category.clone(),
            found: None,
            expected_missing: None,
            verdict: format!("cannot run here: {lacks}"),
            not_runnable: Some(lacks),
            pass: true,
            output: None,
            seconds: 0.0,
        },
        alarm: false,
        device: None,
    }
}

/// How a program is started.
pub(crate) enum Mode<'a> {
    /// Without Ringfence.
    Native,
    /// Under Ringfence, its kernels as they are.
    Unchecked,
    /// Under Ringfence, with the JSON report going to this file.
    Checked(&'a Path),
}

pub(crate) fn start(
    options: &Options,
    manifest: &Manifest,
    program: &Program,
    settings: &str,
    mode: &Mode<'_>,
) -> Result<Outcome> {
    let folder = &options.cases;
    let path = folder.join(&program.path);
    ensure!(path.is_file(), "no program at {}", path.display());
    let device = match options.device {
        DeviceKind::Gpu => "gpu",
        DeviceKind::Cpu => "cpu",
        DeviceKind::Tenant => "tenant",
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
        .env("RINGFENCE_OPTIONS", settings)
        // A program with the shared CUDA runtime finds it here; on the CPU
        // device Ringfence puts its own in front. What was there stays: it
        // may be what leads to the driver.
        .env(
            "LD_LIBRARY_PATH",
            in_front(&folder.join(&manifest.libraries))?,
        );
    process::run(&mut command, options.limit)
}

pub(crate) fn absolute(path: &Path, what: &str) -> Result<PathBuf> {
    std::fs::canonicalize(path).with_context(|| format!("no {what} at {}", path.display()))
}

/// `LD_LIBRARY_PATH` with one more folder, searched first.
///
/// # Errors
///
/// The folder's name has a colon.
pub fn in_front(folder: &Path) -> Result<OsString> {
    let old = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let rest = std::env::split_paths(&old).filter(|path| !path.as_os_str().is_empty());
    std::env::join_paths(std::iter::once(folder.to_owned()).chain(rest)).with_context(|| {
        format!(
            "the folder {} cannot be searched for libraries",
            folder.display()
        )
    })
}

pub(crate) fn read_report(path: &Path) -> Result<Option<Report>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(serde_json::from_str(&text).with_context(|| {
            format!("the report is not of a form that is known:\n{text}")
        })?)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("failed to read {}", path.display())),
    }
}
