//! Wrong sizes that are planted in calls of libraries whose kernels are machine code:
//! whether unmapped pages find them, and stay silent where the sizes are right.

use crate::options::{Places, device};
use anyhow::{Context, Result, bail, ensure};
use model::{Finding, Subject};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;
use suite::judge::Report;
use suite::process;

#[derive(clap::Args)]
pub struct Planted {
    #[command(flatten)]
    places: Places,
    /// Python with PyTorch.
    #[arg(long)]
    python: PathBuf,
    /// The program for it (`bench/torch/planted.py`).
    #[arg(long)]
    script: PathBuf,
    /// Cases at a time: nothing is timed.
    #[arg(long, default_value_t = 4)]
    jobs: usize,
}

/// Flat numbers of `gpu-planted.json`.
#[derive(Debug, Serialize)]
struct Summary {
    /// Calls with a wrong size, each buffer an allocation of CUDA's.
    cases: usize,
    /// Those of them with a finding.
    found: usize,
    /// Those with one that names the buffer.
    named: usize,
    /// The same of PyTorch's with its caching allocator, which cuts buffers out of
    /// larger allocations.
    cached_cases: usize,
    cached_found: usize,
    /// Calls with the right size that had a finding, or failed.
    false_alarms: usize,
}

/// One call, with the wrong size and with the right one.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    case: Case,
    /// PyTorch's caching allocator is on.
    cached: bool,
    /// The finding of the run with the wrong size: its rule, and the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<String>,
    /// It names the buffer.
    names_buffer: bool,
    /// How the run with the wrong size ended.
    end: String,
    /// The run with the right size ended well, and had no finding.
    silent: bool,
}

/// A line that the programs print of themselves.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Case {
    case: String,
    library: String,
    call: String,
    wrong: String,
    /// Bytes of the buffer that the size is wrong for.
    bytes: u64,
}

/// How a program of cases is started.
struct Program<'x> {
    start: Vec<&'x Path>,
    /// It has an allocator of its own, which can be on or off.
    has_cache: bool,
}

/// Runs all cases and writes the results.
///
/// # Errors
///
/// A program cannot be started, or prints something else.
pub fn measure(planted: &Planted) -> Result<()> {
    let thrust = planted.places.programs.join("planted");
    let programs = [
        Program {
            start: vec![&thrust],
            has_cache: false,
        },
        Program {
            start: vec![&planted.python, &planted.script],
            has_cache: true,
        },
    ];
    let mut tasks = Vec::new();
    for program in &programs {
        let listed = process::run(program.command().arg("--list"), planted.places.timeout())?;
        let lines = listed.stdout.lines();
        let cases: Vec<Case> = lines
            .map(|line| serde_json::from_str(line).with_context(|| format!("in `{line}`")))
            .collect::<Result<_>>()?;
        ensure!(!cases.is_empty(), "{} lists no case", program.name());
        for case in cases {
            let has_cache = program.has_cache && case.library == "PyTorch";
            tasks.push((program, case.clone(), false));
            if has_cache {
                tasks.push((program, case, true));
            }
        }
    }
    let mut rows = Vec::new();
    for some in tasks.chunks(planted.jobs.max(1)) {
        let results: Vec<Result<Row>> = std::thread::scope(|scope| {
            let started: Vec<_> = some
                .iter()
                .map(|(program, case, cached)| {
                    scope.spawn(move || run(planted, program, case, *cached))
                })
                .collect();
            let ended = started.into_iter().map(|thread| thread.join());
            ended
                .map(|row| row.unwrap_or_else(|_| bail!("a run panicked")))
                .collect()
        });
        rows.extend(results.into_iter().collect::<Result<Vec<Row>>>()?);
    }
    let count = |is_it: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| is_it(row)).count();
    let summary = Summary {
        cases: count(&|row| !row.cached),
        found: count(&|row| !row.cached && row.rule.is_some()),
        named: count(&|row| !row.cached && row.names_buffer),
        cached_cases: count(&|row| row.cached),
        cached_found: count(&|row| row.cached && row.rule.is_some()),
        false_alarms: count(&|row| !row.silent),
    };
    println!("{}", serde_json::to_string_pretty(&summary)?);
    planted.places.write_of(device(), summary, rows)
}

impl Program<'_> {
    fn name(&self) -> String {
        self.start
            .last()
            .map_or_else(String::new, |path| path.display().to_string())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.start[0]);
        command.args(&self.start[1..]);
        command
    }
}

fn run(planted: &Planted, program: &Program<'_>, case: &Case, cached: bool) -> Result<Row> {
    let folder = tempfile::tempdir()?;
    let report = folder.path().join("report.json");
    let under = |how: &str| -> Result<(process::Outcome, Report)> {
        let mut command = Command::new(&planted.places.ringfence);
        command
            .args([
                "run",
                "--device",
                "gpu",
                "--protect",
                "pages",
                "--core-dump",
                "on",
                "--json",
            ])
            .arg(&report)
            .arg("--")
            .args(&program.start)
            .args([&case.case, how])
            .args(cached.then_some("--cached"))
            .env_remove("RINGFENCE_OPTIONS");
        let outcome = process::run(&mut command, planted.places.timeout())?;
        let text = std::fs::read(&report)
            .with_context(|| format!("{} {how} left no report: {}", case.case, outcome.stderr))?;
        std::fs::remove_file(&report)?;
        Ok((outcome, serde_json::from_slice(&text)?))
    };
    let (outcome, wrong) = under("wrong")?;
    let (right_outcome, right) = under("right")?;
    let names = |finding: &&Finding| {
        let intended = finding.intended.as_ref();
        intended.is_some_and(|near| near.allocation.extent.size == case.bytes)
    };
    let named = wrong.findings.iter().find(names);
    let found = named.or(wrong.findings.first());
    let row = Row {
        rule: found.map(|finding| finding.rule.id().to_owned()),
        kernel: found.and_then(kernel_of),
        names_buffer: named.is_some(),
        end: outcome.describe(),
        silent: right_outcome.code() == Some(0) && right.findings.is_empty(),
        case: case.clone(),
        cached,
    };
    println!(
        "{:<16} {:<8} {:<8} {} {}{}{}",
        case.case,
        case.library,
        if cached { "cached" } else { "" },
        row.rule.as_deref().unwrap_or("not found"),
        row.kernel.as_deref().unwrap_or(""),
        if row.names_buffer {
            ", names the buffer"
        } else {
            ""
        },
        if row.silent {
            ""
        } else {
            ", and not silent with the right size"
        }
    );
    Ok(row)
}

/// The kernel that a finding names.
fn kernel_of(finding: &Finding) -> Option<String> {
    let kernel = match &finding.subject {
        Subject::Access(access) => &access.kernel,
        Subject::Kernel(run) => &run.kernel,
        Subject::Failure(failure) => &failure.kernels.first()?.kernel,
        Subject::Call(_) | Subject::Leak => return None,
    };
    Some(kernel.clone())
}
