//! What Ringfence costs in third-party OpenCL programs: the wall time of each
//! whole program, natively and by default, in turn, a round at a time.
//!
//! It includes the program's own work on the host, as for its user. Platforms
//! cache compiled kernels, so each variant runs once before the first round.

use super::build::Built;
use super::collection::Program;
use super::run::{End, Runner, device_of};
use super::times::{geomean, quantile};
use crate::process;
use crate::results::{Provenance, Results, median, round, today};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Programs that natively take less are left out of the summary: the start of
/// a process is too much of what is measured.
const SHORTEST: f64 = 0.1;

/// Deadline of what is asked of the platform.
const LIMIT: Duration = Duration::from_secs(30);

/// One round of one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Round, from 1.
    pub round: usize,
    /// How it ended natively and by default.
    pub ends: [End; 2],
    /// Wall seconds, natively and by default.
    pub seconds: [f64; 2],
    /// Launches that were checked.
    pub launches: u64,
    /// Findings.
    pub findings: usize,
    /// The device.
    pub device: String,
}

/// One program; wall seconds, medians of the rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Rounds.
    pub rounds: usize,
    /// Launches that were checked.
    pub launches: u64,
    /// Findings.
    pub findings: usize,
    /// Natively.
    pub native_s: f64,
    /// By default.
    pub default_s: f64,
    /// By default, over native.
    pub ratio: f64,
    /// The slowest native round over the fastest.
    pub native_spread: f64,
    /// Whether it counts for the summary.
    pub counts: bool,
}

/// Flat numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Programs that count.
    pub programs: usize,
    /// Programs that are too short to count.
    pub short_programs: usize,
    /// Geometric mean of the time by default, over native.
    pub geomean: f64,
    /// Nine of ten programs take at most so much.
    pub p90: f64,
    /// The most.
    pub worst: f64,
    /// Geometric mean of the slowest native round over the fastest: differences
    /// of one program that are smaller say little.
    pub native_spread: f64,
    /// Launches that were checked, of all programs that count.
    pub launches: u64,
    /// Seconds of all of these, natively.
    pub native_s: f64,
    /// And by default.
    pub default_s: f64,
}

/// Prints the version of the platform that programs find first.
const ASK_PLATFORM: &str = r#"#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
int main(void) {
    cl_platform_id platform;
    char version[256] = "";
    if (clGetPlatformIDs(1, &platform, NULL) == CL_SUCCESS)
        clGetPlatformInfo(platform, CL_PLATFORM_VERSION, sizeof version - 1, version, NULL);
    puts(version);
    return 0;
}
"#;

/// The platform's version, which says whose it is: `OpenCL 3.0 PoCL 3.1`.
///
/// # Errors
///
/// There is no C compiler, or no OpenCL to compile with.
pub fn platform(folder: &Path) -> Result<String> {
    let (source, program) = (folder.join("platform.c"), folder.join("platform"));
    std::fs::write(&source, ASK_PLATFORM)
        .with_context(|| format!("failed to write {}", source.display()))?;
    let mut compiler = Command::new("cc");
    compiler
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .arg("-lOpenCL");
    let outcome = process::run(&mut compiler, LIMIT)?;
    ensure!(
        outcome.code() == Some(0),
        "a program for OpenCL does not compile: {}",
        outcome.stderr.trim()
    );
    let outcome = process::run(&mut Command::new(&program), LIMIT)?;
    Ok(outcome.stdout.trim().to_owned())
}

/// Runs a program once in each variant; which one runs first depends on the
/// round.
///
/// # Errors
///
/// It cannot be started, or its report cannot be read.
pub fn measure(
    runner: &Runner,
    program: &Program,
    built: &Built,
    arguments: &[String],
    round: usize,
) -> Result<Sample> {
    let mut sample = Sample {
        program: program.name.clone(),
        arguments: arguments.to_vec(),
        round,
        ends: [End::Hang; 2],
        seconds: [0.0; 2],
        launches: 0,
        findings: 0,
        device: String::new(),
    };
    for place in 0..2 {
        if (place + round).is_multiple_of(2) {
            let run = runner.plain(built, arguments, runner.limit)?;
            sample.ends[0] = run.end;
            sample.seconds[0] = run.outcome.elapsed.as_secs_f64();
        } else {
            let (outcome, report, end, _) =
                runner.reported("seconds", &[], built, arguments, runner.limit)?;
            sample.ends[1] = end;
            sample.seconds[1] = outcome.elapsed.as_secs_f64();
            sample.launches = super::run::launches(&report)[1];
            sample.findings = report["findings"].as_array().map_or(0, Vec::len);
            sample.device = device_of(&report);
        }
    }
    Ok(sample)
}

/// Puts samples together.
///
/// # Errors
///
/// No program was measured.
pub fn summarize(
    samples: &[Sample],
    driver: String,
    commit: String,
) -> Result<Results<Summary, Row>> {
    let mut by_program: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        by_program.entry(&sample.program).or_default().push(sample);
    }
    let rows: Vec<Row> = by_program.values().filter_map(|all| row(all)).collect();
    ensure!(!rows.is_empty(), "no program was measured");
    let devices = samples.iter().map(|sample| &sample.device);
    let device = devices.max_by_key(|name| name.len());
    Ok(Results {
        summary: summary(&rows),
        provenance: Provenance {
            device: device.cloned().unwrap_or_default(),
            driver,
            date: today(),
            commit,
        },
        rows,
    })
}

/// `None` if one run did not end as the others.
fn row(samples: &[&Sample]) -> Option<Row> {
    let first = samples.first()?;
    let alike = samples.iter().all(|sample| {
        sample.ends.iter().all(|end| *end == End::Code(0)) && sample.arguments == first.arguments
    });
    if !alike {
        return None;
    }
    let seconds = |variant: usize| {
        let mut all: Vec<f64> = samples
            .iter()
            .map(|sample| sample.seconds[variant])
            .collect();
        median(&mut all)
    };
    let (native, default) = (seconds(0)?, seconds(1)?);
    let natively = || samples.iter().map(|sample| sample.seconds[0]);
    let least = natively().fold(f64::INFINITY, f64::min);
    let spread = natively().fold(least, f64::max) / least;
    Some(Row {
        program: first.program.clone(),
        arguments: first.arguments.clone(),
        rounds: samples.len(),
        launches: first.launches,
        findings: first.findings,
        native_s: round(native),
        default_s: round(default),
        ratio: round(default / native),
        native_spread: round(spread),
        // What launches nothing has nothing that is checked.
        counts: native >= SHORTEST && first.launches > 0,
    })
}

fn summary(rows: &[Row]) -> Summary {
    let counted: Vec<&Row> = rows.iter().filter(|row| row.counts).collect();
    let ratios: Vec<f64> = counted.iter().map(|row| row.ratio).collect();
    Summary {
        programs: counted.len(),
        short_programs: rows
            .iter()
            .filter(|row| row.native_s < SHORTEST && row.launches > 0)
            .count(),
        geomean: geomean(&ratios),
        p90: quantile(&ratios, 0.9),
        worst: quantile(&ratios, 1.0),
        native_spread: geomean(
            &counted
                .iter()
                .map(|row| row.native_spread)
                .collect::<Vec<_>>(),
        ),
        launches: counted.iter().map(|row| row.launches).sum(),
        native_s: round(counted.iter().map(|row| row.native_s).sum()),
        default_s: round(counted.iter().map(|row| row.default_s).sum()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(program: &str, round: usize, seconds: [f64; 2]) -> Sample {
        Sample {
            program: program.into(),
            arguments: Vec::new(),
            round,
            ends: [End::Code(0); 2],
            seconds,
            launches: 3,
            findings: 0,
            device: "a GPU".into(),
        }
    }

    #[test]
    fn medians_of_programs_that_end_well_count() {
        let mut all = vec![
            sample("a", 1, [1.0, 1.1]),
            sample("a", 2, [1.0, 9.0]),
            sample("a", 3, [2.0, 1.2]),
            sample("b", 1, [1.0, 1.2]),
            sample("short", 1, [0.05, 0.5]),
            sample("fails", 1, [1.0, 1.0]),
        ];
        all[5].ends[1] = End::Signal(11);
        let results = summarize(&all, "p".into(), "c".into()).unwrap();
        let summary = &results.summary;
        assert_eq!((summary.programs, summary.short_programs), (2, 1));
        assert_eq!((summary.geomean, summary.worst), (1.2, 1.2));
        assert_eq!((summary.launches, summary.native_s), (6, 2.0));
        assert_eq!(results.rows[0].native_spread, 2.0);
        assert_eq!(results.provenance.device, "a GPU");
        assert_eq!(results.rows.len(), 3);
        assert!(summarize(&all[5..], String::new(), String::new()).is_err());
    }

    #[test]
    fn a_program_without_launches_does_not_count() {
        let mut one = sample("a", 1, [1.0, 1.0]);
        one.launches = 0;
        assert_eq!(
            summarize(&[one], String::new(), String::new())
                .unwrap()
                .summary
                .programs,
            0
        );
    }
}
