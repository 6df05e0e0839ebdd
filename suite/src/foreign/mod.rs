//! Third-party programs: checked-out collections, whose programs are built, run
//! under Ringfence, and compared with their runs without it.
//!
//! Nothing of a collection is copied into this repository. The comparison
//! covers what a user observes: output, exit code, time, findings. A program
//! that behaves differently under Ringfence, or has a finding, is a result to
//! be explained (`docs/foreign.md`) or a bug to be fixed.

pub mod build;
pub mod collection;
pub mod commands;
pub mod conformance;
pub mod inputs;
pub mod makefile;
pub mod output;
pub mod pack;
pub mod python_tests;
pub mod run;
pub mod seconds;
pub mod sizes;
pub mod times;

use crate::case::Api;
use crate::manager::Manager;
use anyhow::{Context, Result, ensure};
use build::Compiler;
use collection::Program;
use model::DeviceKind;
use run::{Row, Runner};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What to do with a collection.
#[derive(Clone, Debug)]
pub struct Options {
    /// The collection.
    pub folder: PathBuf,
    /// What its programs are written against.
    pub api: Api,
    /// Where programs are built, and the results go.
    pub out: PathBuf,
    /// Toolchain with nvcc; if there is none in it, the system's is used.
    pub toolchain: PathBuf,
    /// The `ringfence` command.
    pub ringfence: PathBuf,
    /// The device.
    pub device: DeviceKind,
    /// Only programs whose name contains one of these; empty: all.
    pub filter: Vec<String>,
    /// This part of that many.
    pub shard: (usize, usize),
    /// Programs at a time.
    pub jobs: usize,
    /// Deadline of one run.
    pub limit: Duration,
    /// Time for everything.
    pub budget: Option<Duration>,
    /// Variants; empty: all.
    pub variants: Vec<String>,
    /// Repetitions of a program's work, at most.
    pub repeats: u64,
}

/// `K/N`: the K-th of N parts, from 1.
///
/// # Errors
///
/// It is not of that form, or K is not among the N.
pub fn parse_shard(text: &str) -> Result<(usize, usize), String> {
    let fail = || format!("expected a part such as 1/4, not {text}");
    let (part, parts) = text.split_once('/').ok_or_else(fail)?;
    let part: usize = part.parse().map_err(|_| fail())?;
    let parts: usize = parts.parse().map_err(|_| fail())?;
    if part == 0 || part > parts {
        return Err(fail());
    }
    Ok((part, parts))
}

/// The programs that `options` selects.
///
/// # Errors
///
/// The collection cannot be read, or no program is left.
pub fn selected(options: &Options) -> Result<Vec<Program>> {
    let all = collection::read(&options.folder, options.api)?;
    let (part, parts) = options.shard;
    let programs: Vec<Program> = all
        .into_iter()
        .filter(|program| {
            options.filter.is_empty()
                || options
                    .filter
                    .iter()
                    .any(|text| program.name.contains(text.as_str()))
        })
        .enumerate()
        .filter(|(position, _)| position % parts == part - 1)
        .map(|(_, program)| program)
        .collect();
    ensure!(!programs.is_empty(), "no program is selected");
    Ok(programs)
}

/// Name of the results in the folder for output.
pub const RESULTS: &str = "foreign.jsonl";

/// Deadline of the compiler.
const BUILD_LIMIT: Duration = Duration::from_secs(120);

/// What every way of running a collection begins with.
struct Work {
    start: Instant,
    folder: PathBuf,
    out: PathBuf,
    /// For CUDA programs.
    compiler: Option<Compiler>,
    runner: Runner,
}

impl Work {
    fn begin(options: &Options) -> Result<Work> {
        let compiler = match options.api {
            Api::Cuda => Some(Compiler::find(&absolute(&options.toolchain)?)?),
            Api::OpenCl => None,
        };
        std::fs::create_dir_all(&options.out)
            .with_context(|| format!("failed to make {}", options.out.display()))?;
        Ok(Work {
            start: Instant::now(),
            folder: absolute(&options.folder)?,
            out: absolute(&options.out)?,
            runner: Runner {
                api: options.api,
                ringfence: absolute(&options.ringfence)?,
                device: options.device,
                libraries: compiler.as_ref().map(|compiler| compiler.libraries.clone()),
                limit: options.limit,
                variants: options.variants.clone(),
                repeats: options.repeats,
                socket: None,
            },
            compiler,
        })
    }

    fn is_over(&self, options: &Options) -> bool {
        options
            .budget
            .is_some_and(|budget| self.start.elapsed() > budget)
    }

    fn build(&self, program: &Program) -> Result<Result<build::Built, String>> {
        let place = build::Place {
            root: &self.folder,
            out: &self.out,
            compiler: self.compiler.as_ref(),
            device: self.runner.device,
            limit: BUILD_LIMIT,
        };
        build::build(&place, program)
    }
}

/// Builds and compares; `print` gets a line for each program. Programs that the
/// results already hold are not run again.
///
/// # Errors
///
/// There is no compiler, or files cannot be read or written. A program that
/// does not build or differs is a row of the results.
pub fn run(options: &Options, print: &(dyn Fn(&str) + Sync)) -> Result<Vec<Row>> {
    let mut work = Work::begin(options)?;
    let manager = match (options.api, options.device, work.runner.wants(run::TENANT)) {
        (Api::Cuda, DeviceKind::Cpu, true) => Some("cpu"),
        (Api::Cuda, DeviceKind::Gpu, true) => Some("gpu"),
        _ => None,
    };
    let manager = manager.map(|device| Manager::start(&work.runner.ringfence, device));
    let manager = manager.transpose()?;
    work.runner.socket = manager.as_ref().map(Manager::socket);
    let results = work.out.join(RESULTS);
    let mut rows = read(&results)?;
    let known: BTreeSet<String> = rows.iter().map(|row| row.program.clone()).collect();
    let lines = Lines::open(results)?;
    let programs: Vec<Program> = selected(options)?
        .into_iter()
        .filter(|program| !known.contains(&program.name))
        .collect();
    let new = crate::run::in_parallel(options.jobs, &programs, |program| {
        if work.is_over(options) {
            return Ok(None);
        }
        let row = match work.build(program)? {
            Ok(built) => work
                .runner
                .compare(program, &built)
                .with_context(|| format!("in {}", program.name))?,
            Err(reason) => Row::not_built(program, reason),
        };
        lines.add(&row)?;
        print(&describe(&row));
        Ok(Some(row))
    })?;
    rows.extend(new.into_iter().flatten());
    rows.sort_by(|a, b| a.program.cmp(&b.program));
    Ok(rows)
}

/// Only builds, and finds the size at which each program runs in a quarter of
/// the time limit, at most two at a time on a GPU. Returns how many do.
///
/// # Errors
///
/// As [`run()`].
pub fn build_all(options: &Options, print: &(dyn Fn(&str) + Sync)) -> Result<usize> {
    let work = Work::begin(options)?;
    let programs = selected(options)?;
    // Processes that start on one GPU wait for each other, and then seem too slow; NVIDIA's
    // OpenCL can stand still where several share a GPU.
    let turns = [Mutex::new(()), Mutex::new(())];
    let turn = || match (options.device, options.api) {
        (DeviceKind::Gpu, Api::OpenCl) => Some(turns[0].lock()),
        (DeviceKind::Gpu, Api::Cuda) => Some(match turns[0].try_lock() {
            Ok(first) => Ok(first),
            Err(_) => turns[1].lock(),
        }),
        (DeviceKind::Cpu | DeviceKind::Tenant, _) => None,
    };
    let ready = crate::run::in_parallel(options.jobs, &programs, |program| {
        if work.is_over(options) {
            return Ok(false);
        }
        let said = match work.build(program)? {
            Err(reason) => Err(format!("not built: {reason}")),
            Ok(built) => {
                let _turn = turn();
                let arguments = work.runner.sized(program, &built)?;
                arguments.ok_or_else(|| "too slow, or fails".to_owned())
            }
        };
        print(&format!(
            "{:<32} {}",
            program.name,
            match &said {
                Ok(arguments) => format!("runs: {}", arguments.join(" ")),
                Err(why) => why.clone(),
            }
        ));
        Ok(said.is_ok())
    })?;
    Ok(ready.into_iter().filter(|ready| *ready).count())
}

/// Name of the samples in the folder for output.
pub const SAMPLES: &str = "times.jsonl";

/// Measures kernels, one round of all programs after the other; rounds of
/// earlier calls count. What was measured so far is put together in the end. `also`: with
/// [`times::ALSO`]; `protect`: under these protections in place of the default ones.
///
/// # Errors
///
/// As [`run()`], or nothing could be measured.
pub fn time(
    options: &Options,
    rounds: usize,
    (also, protect): (bool, Option<&str>),
    commit: String,
    print: &(dyn Fn(&str) + Sync),
) -> Result<times::ForeignResults> {
    let work = Work::begin(options)?;
    let path = work.out.join(SAMPLES);
    let mut samples = times::read(&path)?;
    let lines = Lines::open(path)?;
    let programs = selected(options)?;
    let protect: Vec<&str> = protect.map_or_else(Vec::new, |list| vec!["--protect", list]);
    let measured = times::MEASURED.map(|(name, set)| match name {
        times::NATIVE => (name, set.to_vec()),
        _ => (name, [&protect[..], set].concat()),
    });
    let also = times::ALSO.iter().filter(|_| also);
    let variants: Vec<(&str, Vec<&str>)> = measured
        .into_iter()
        .chain(also.map(|(name, set)| (*name, set.to_vec())))
        .collect();
    for round in 0..rounds {
        let left: Vec<&Program> = programs
            .iter()
            .filter(|program| {
                let has = |sample: &&times::Sample| {
                    sample.program == program.name && sample.round == round
                };
                samples.iter().filter(has).count() < variants.len()
            })
            .collect();
        let new = crate::run::in_parallel(options.jobs, &left, |program| {
            let mut new = Vec::new();
            if work.is_over(options) {
                return Ok(new);
            }
            let Ok(built) = work.build(program)? else {
                return Ok(new);
            };
            let Some(arguments) = work.runner.sized(program, &built)? else {
                return Ok(new);
            };
            let mut said = format!("{:<32}", program.name);
            for (variant, set) in &variants {
                let known = samples.iter().any(|sample| {
                    sample.program == program.name
                        && sample.round == round
                        && sample.variant == *variant
                });
                if known {
                    continue;
                }
                let variant = (*variant, &set[..]);
                let sample =
                    times::measure(&work.runner, program, &built, &arguments, variant, round)?;
                said += &format!(" {} {:.1} s", sample.variant, sample.seconds);
                lines.add(&sample)?;
                new.push(sample);
            }
            print(&said);
            Ok(new)
        })?;
        samples.extend(new.into_iter().flatten());
    }
    times::summarize(&samples, commit)
}

/// Name of the samples of whole programs in the folder for output.
const SECONDS: &str = "seconds.jsonl";

/// Measures OpenCL programs as [`time`] measures kernels.
///
/// # Errors
///
/// As [`run()`], or nothing could be measured.
pub fn time_programs(
    options: &Options,
    rounds: usize,
    commit: String,
    print: &(dyn Fn(&str) + Sync),
) -> Result<crate::results::Results<seconds::Summary, seconds::Row>> {
    let work = Work::begin(options)?;
    let path = work.out.join(SECONDS);
    let mut samples: Vec<seconds::Sample> = read_lines(&path)?;
    let lines = Lines::open(path)?;
    let programs = selected(options)?;
    // The first does not count.
    for round in 0..=rounds {
        let left: Vec<&Program> = programs
            .iter()
            .filter(|program| {
                !samples
                    .iter()
                    .any(|sample| sample.program == program.name && sample.round == round)
            })
            .collect();
        let new = crate::run::in_parallel(options.jobs, &left, |program| {
            if work.is_over(options) {
                return Ok(None);
            }
            let Ok(built) = work.build(program)? else {
                return Ok(None);
            };
            let Some(arguments) = work.runner.sized(program, &built)? else {
                return Ok(None);
            };
            let sample = seconds::measure(&work.runner, program, &built, &arguments, round)?;
            let [native, default] = sample.seconds;
            print(&format!(
                "{:<56} {native:>8.3} s {default:>8.3} s",
                sample.program
            ));
            lines.add(&sample)?;
            Ok(Some(sample))
        })?;
        samples.extend(new.into_iter().flatten());
    }
    samples.retain(|sample| sample.round > 0);
    seconds::summarize(&samples, seconds::platform(&work.out)?, commit)
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot resolve {}", path.display()))
}

/// Rows that an earlier run wrote.
///
/// # Errors
///
/// As `read_lines`.
pub fn read(path: &Path) -> Result<Vec<Row>> {
    read_lines(path)
}

/// Lines of JSON; none if the file does not exist. A truncated last line is
/// skipped.
///
/// # Errors
///
/// The file exists and cannot be read.
fn read_lines<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(error).with_context(|| format!("failed to read {}", path.display()));
        }
    };
    let lines: Vec<&str> = text.lines().collect();
    let mut rows = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        match serde_json::from_str(line) {
            Ok(row) => rows.push(row),
            Err(_) if at + 1 == lines.len() && !text.ends_with('\n') => {}
            Err(error) => {
                return Err(error).with_context(|| format!("{}, line {}", path.display(), at + 1));
            }
        }
    }
    Ok(rows)
}

/// A file of lines that several threads append to.
struct Lines {
    path: PathBuf,
    file: Mutex<std::fs::File>,
}

impl Lines {
    fn open(path: PathBuf) -> Result<Lines> {
        // A line that was cut off must not run into the next.
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if let Some(end) = text.rfind('\n').map(|at| at + 1).or(Some(0))
            && end < text.len()
        {
            std::fs::write(&path, &text[..end])
                .with_context(|| format!("failed to write {}", path.display()))?;
        }
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("failed to open {}", path.display()))?;
        Ok(Lines {
            path,
            file: Mutex::new(file),
        })
    }

    fn add(&self, row: &impl serde::Serialize) -> Result<()> {
        let line = serde_json::to_string(row)? + "\n";
        let mut file = self.file.lock().unwrap_or_else(|e| e.into_inner());
        file.write_all(line.as_bytes())
            .with_context(|| format!("failed to write {}", self.path.display()))
    }
}

/// A program's line: what is not as it should be.
pub fn describe(row: &Row) -> String {
    let Some(reference) = row.reference else {
        return format!("{:<32} {}: {}", row.program, row.state, row.reason);
    };
    let mut text = format!("{:<32} ", row.program);
    let mut differences: Vec<(String, Vec<&str>)> = Vec::new();
    for variant in &row.variants {
        for difference in variant.differences(reference) {
            match differences
                .iter_mut()
                .find(|(known, _)| *known == difference)
            {
                Some((_, variants)) => variants.push(&variant.variant),
                None => differences.push((difference, vec![&variant.variant])),
            }
        }
    }
    for lack in &row.lacks {
        differences.push((lack.clone(), vec!["reference"]));
    }
    if reference != run::End::Code(0) {
        differences.push((format!("{reference:?}: {}", row.reason), vec!["reference"]));
    }
    if differences.is_empty() {
        return text + "same";
    }
    for (at, (difference, variants)) in differences.iter().enumerate() {
        if at > 0 {
            text += &format!("\n{:<32} ", "");
        }
        text += &format!("[{}] {difference}", variants.join(","));
    }
    text
}

/// Counts over all rows, as lines of a table.
pub fn summary(rows: &[Row]) -> String {
    let count = |wanted: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| wanted(row)).count();
    let differs = |row: &Row, wanted: &dyn Fn(&run::VariantRow, run::End) -> bool| {
        let Some(reference) = row.reference else {
            return false;
        };
        row.variants
            .iter()
            .any(|variant| wanted(variant, reference))
    };
    let lines: [(&str, usize); 9] = [
        ("programs", rows.len()),
        ("not built", count(&|row| row.state == "not-built")),
        ("too slow", count(&|row| row.state == "too-slow")),
        ("ran", count(&|row| row.state == "ran")),
        (
            "with findings",
            count(&|row| differs(row, &|variant, _| !variant.findings.is_empty())),
        ),
        (
            "output differs",
            count(&|row| {
                differs(row, &|variant, _| {
                    variant.end != run::End::Hang
                        && (variant.stdout.is_some() || variant.stderr.is_some())
                })
            }),
        ),
        (
            "end differs",
            count(&|row| {
                differs(row, &|variant, reference| {
                    variant.end != reference && variant.end != run::End::Hang
                })
            }),
        ),
        (
            "hangs",
            count(&|row| differs(row, &|variant, _| variant.end == run::End::Hang)),
        ),
        (
            "not supported or failed",
            count(&|row| {
                !row.lacks.is_empty() || differs(row, &|variant, _| !variant.errors.is_empty())
            }),
        ),
    ];
    lines
        .iter()
        .map(|(what, count)| format!("{what:<24} {count:>5}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_parts_of_a_whole() {
        assert_eq!(parse_shard("1/4"), Ok((1, 4)));
        for wrong in ["0/4", "5/4", "1", "a/b", "1/0"] {
            assert!(parse_shard(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_line_that_was_cut_off_is_run_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(RESULTS);
        assert!(read(&path).unwrap().is_empty());
        let row = Row {
            program: "p".into(),
            state: "too-slow".into(),
            reason: "r".into(),
            arguments: vec![],
            reference: None,
            seconds: 1.0,
            unstable: false,
            lacks: vec![],
            variants: vec![],
        };
        let line = serde_json::to_string(&row).unwrap();
        std::fs::write(&path, format!("{line}\n{}", &line[..20])).unwrap();
        assert_eq!(read(&path).unwrap(), [row]);
        std::fs::write(&path, format!("{}\n{line}\n", &line[..20])).unwrap();
        assert!(read(&path).is_err());
    }
}
