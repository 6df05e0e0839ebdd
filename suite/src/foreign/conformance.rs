//! OpenCL's conformance tests, alone and under Ringfence: each sub-test must have
//! the same verdict. The tree is built beforehand, as its own documentation
//! says; each sub-test runs in a process of its own, so that a crash costs one.

use super::build::Built;
use super::run::{End, OPENCL_VARIANTS};
use super::{Lines, Options, Work, read_lines};
use crate::process;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Name of the results in the folder for output.
const RESULTS: &str = "conformance.jsonl";

/// Deadline for the list of a program's sub-tests.
const LIST_LIMIT: Duration = Duration::from_secs(30);

/// The verdict of a sub-test that takes too long to be run several times.
const TOO_SLOW: &str = "too slow";

/// One sub-test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The program.
    pub program: String,
    /// The sub-test.
    pub test: String,
    /// Its verdict alone.
    pub alone: String,
    /// Whether it had another when it was run alone again.
    pub unstable: bool,
    /// Verdict and findings under Ringfence, by variant.
    pub under: BTreeMap<String, Verdict>,
}

/// What became of a sub-test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// `pass`, `fail` or `skip`, and how the process ended if not well.
    pub verdict: String,
    /// What Ringfence found.
    pub findings: Vec<String>,
}

impl Row {
    /// What differs from the sub-test alone, a line for each variant.
    pub fn differences(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (variant, under) in &self.under {
            let mut parts = under.findings.clone();
            if under.verdict != self.alone && !self.unstable {
                parts.insert(0, format!("{}, not {}", under.verdict, self.alone));
            }
            if !parts.is_empty() {
                lines.push(format!(
                    "{} {} [{variant}] {}",
                    self.program,
                    self.test,
                    parts.join("; ")
                ));
            }
        }
        lines
    }
}

/// The programs of a built tree; none if it is none, or is not built.
///
/// # Errors
///
/// A folder cannot be read.
pub fn programs(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for tree in [
        folder.join("test_conformance"),
        folder.join("build/test_conformance"),
    ] {
        if tree.is_dir() {
            below(&tree, &mut found)?;
        }
    }
    found.sort();
    Ok(found)
}

fn below(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in
        std::fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))?
    {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !path.is_symlink() {
            below(&path, found)?;
        } else if name.starts_with("test_") && super::collection::is_program(&path) {
            found.push(path);
        }
    }
    Ok(())
}

/// The names in what a program prints for `--list`.
fn listed(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| line.strip_prefix('\t'));
    let names = names.filter(|name| !name.is_empty() && !name.contains([' ', '\t', '<']));
    names.map(str::to_owned).collect()
}

/// Runs the sub-tests that the results do not hold yet; `print` gets a line for
/// each that differs, and for each program.
///
/// # Errors
///
/// A program cannot be started, or files cannot be read or written.
pub fn run(options: &Options, print: &(dyn Fn(&str) + Sync)) -> Result<Vec<Row>> {
    let work = Work::begin(options)?;
    let path = work.out.join(RESULTS);
    let mut rows: Vec<Row> = read_lines(&path)?;
    let known: BTreeSet<(String, String)> = rows
        .iter()
        .map(|row| (row.program.clone(), row.test.clone()))
        .collect();
    let lines = Lines::open(path)?;
    let (part, parts) = options.shard;
    for (position, program) in programs(&work.folder)?.iter().enumerate() {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let wanted = options.filter.is_empty()
            || options
                .filter
                .iter()
                .any(|text| name.contains(text.as_str()));
        if !wanted || position % parts != part - 1 {
            continue;
        }
        let mut list = Command::new(program);
        let listing = process::run(list.arg("--list"), LIST_LIMIT)?;
        let tests: Vec<String> = listed(&(listing.stdout + &listing.stderr))
            .into_iter()
            .filter(|test| !known.contains(&(name.to_string(), test.clone())))
            .collect();
        let new = crate::run::in_parallel(options.jobs, &tests, |test| {
            if work.is_over(options) {
                return Ok(None);
            }
            let row =
                one(&work, program, &name, test).with_context(|| format!("in {name} {test}"))?;
            row.differences().iter().for_each(|line| print(line));
            lines.add(&row)?;
            Ok(Some(row))
        })?;
        let new: Vec<Row> = new.into_iter().flatten().collect();
        print(&format!("{name:<32} {} sub-tests", new.len()));
        rows.extend(new);
    }
    ensure!(!rows.is_empty(), "no sub-test was run");
    Ok(rows)
}

fn one(work: &Work, program: &Path, name: &str, test: &str) -> Result<Row> {
    let scratch = work.out.join(name).join(test);
    std::fs::create_dir_all(&scratch)
        .with_context(|| format!("failed to make {}", scratch.display()))?;
    let verdicts = scratch.join("verdicts.json");
    let built = Built {
        folder: program.parent().unwrap_or(&work.folder).to_owned(),
        program: program.to_owned(),
        scratch,
        environment: vec![
            // Fewer values, the same calls.
            ("CL_WIMPY_MODE".into(), "1".into()),
            (
                "CL_CONFORMANCE_RESULTS_FILENAME".into(),
                verdicts.clone().into(),
            ),
        ],
    };
    let arguments = [test.to_owned()];
    let clear = || match std::fs::remove_file(&verdicts) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    let alone = |limit: Duration| -> Result<String> {
        clear()?;
        let run = work.runner.plain(&built, &arguments, limit)?;
        Ok(verdict(&verdicts, test, run.end))
    };
    let mut row = Row {
        program: name.to_owned(),
        test: test.to_owned(),
        alone: alone(work.runner.limit / 4)?,
        unstable: false,
        under: BTreeMap::new(),
    };
    if row.alone.contains("hang") {
        row.alone = TOO_SLOW.to_owned();
        return Ok(row);
    }
    for variant in OPENCL_VARIANTS {
        clear()?;
        let (_, report, end, _) = work.runner.reported(
            variant.name,
            variant.options,
            &built,
            &arguments,
            work.runner.limit,
        )?;
        let findings = super::run::findings(&report).into_iter();
        let under = Verdict {
            verdict: verdict(&verdicts, test, end),
            findings: findings
                .map(|found| format!("{} at {}", found.rule, found.at))
                .collect(),
        };
        row.under.insert(variant.name.to_owned(), under);
    }
    if row.under.values().any(|under| under.verdict != row.alone) {
        row.unstable = alone(work.runner.limit)? != row.alone;
    }
    Ok(row)
}

/// The verdict in the file that a program writes, and its end if that says
/// something else.
fn verdict(file: &Path, test: &str, end: End) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let said = json["results"][test].as_str().unwrap_or("no verdict");
    match end {
        // Ringfence's own, for findings: those are listed by themselves.
        End::Code(0) => said.to_owned(),
        End::Code(_) if said == "fail" => said.to_owned(),
        End::Code(code) => format!("{said}, exit code {code}"),
        End::Signal(signal) => format!("{said}, signal {signal}"),
        End::Hang => format!("{said}, hang"),
    }
}

/// Counts of all rows, as lines of a table.
pub fn summary(rows: &[Row]) -> String {
    let count = |wanted: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| wanted(row)).count();
    let lines = [
        ("sub-tests", rows.len()),
        ("pass alone", count(&|row| row.alone == "pass")),
        ("fail alone", count(&|row| row.alone.starts_with("fail"))),
        ("skipped alone", count(&|row| row.alone == "skip")),
        ("too slow", count(&|row| row.alone == TOO_SLOW)),
        ("unstable alone", count(&|row| row.unstable)),
        ("differ", count(&|row| !row.differences().is_empty())),
    ];
    let lines = lines.map(|(what, count)| format!("{what:<24} {count:>5}\n"));
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sub_tests_are_read() {
        let text = "Usage: x [options]\n\t<test name>\tOne or more\nTest names:\n\tbuffer_copy\n\tsvm_two words\n\tlast\n";
        assert_eq!(listed(text), ["buffer_copy", "last"]);
    }

    #[test]
    fn a_verdict_has_the_end_that_does_not_fit() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("v.json");
        assert_eq!(verdict(&file, "a", End::Signal(6)), "no verdict, signal 6");
        std::fs::write(&file, r#"{"results": {"a": "pass", "b": "fail"}}"#).unwrap();
        assert_eq!(verdict(&file, "a", End::Code(0)), "pass");
        assert_eq!(verdict(&file, "a", End::Signal(11)), "pass, signal 11");
        assert_eq!(verdict(&file, "b", End::Code(1)), "fail");
    }

    #[test]
    fn another_verdict_and_findings_are_differences() {
        let verdict = |verdict: &str, findings: &[&str]| Verdict {
            verdict: verdict.into(),
            findings: findings.iter().map(|text| (*text).into()).collect(),
        };
        let mut row = Row {
            program: "p".into(),
            test: "t".into(),
            alone: "pass".into(),
            unstable: false,
            under: [
                ("default".into(), verdict("fail", &[])),
                ("device-checker".into(), verdict("pass", &["rule at k"])),
                ("host-checker".into(), verdict("pass", &[])),
            ]
            .into(),
        };
        assert_eq!(
            row.differences(),
            [
                "p t [default] fail, not pass",
                "p t [device-checker] rule at k"
            ]
        );
        assert!(summary(&[row.clone()]).contains("differ                       1"));
        row.unstable = true;
        assert_eq!(row.differences().len(), 1);
    }

    #[test]
    fn only_a_built_tree_has_programs() {
        let folder = tempfile::tempdir().unwrap();
        assert!(programs(folder.path()).unwrap().is_empty());
        let place = folder.path().join("build/test_conformance/api");
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("test_api"), "no program").unwrap();
        assert!(programs(folder.path()).unwrap().is_empty());
    }
}
