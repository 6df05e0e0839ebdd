//! The tests of a Python package, alone and under Ringfence: each must have the
//! same verdict. pytest runs file by file, so that a crash costs one file.

use super::Options;
use crate::process;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of `ringfence run` under which the tests run.
const VARIANTS: [(&str, &[&str]); 2] = [
    ("default", &[]),
    ("device-checker", &["--canary-checker", "device"]),
];

/// A test whose verdict differs, or a file that ended in another way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// File of tests.
    pub file: String,
    /// The variant.
    pub variant: String,
    /// The test; empty for the file as a whole.
    pub test: String,
    /// What it is alone.
    pub alone: String,
    /// What it is under Ringfence.
    pub under: String,
}

/// What was compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Tests with a verdict alone.
    pub tests: usize,
    /// All differences.
    pub differences: Vec<Difference>,
}

/// Whether a folder holds a Python package's tests: itself or in `test` or
/// `tests`.
///
/// # Errors
///
/// A folder exists and cannot be read.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    for place in [folder.to_owned(), folder.join("test"), folder.join("tests")] {
        if !place.is_dir() {
            continue;
        }
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&place)
            .with_context(|| format!("failed to list {}", place.display()))?
        {
            let path = entry?.path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if name.starts_with("test_") && name.ends_with(".py") {
                found.push(path);
            }
        }
        if !found.is_empty() {
            found.sort();
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

/// Runs the tests with this interpreter; `print` gets a line for each file.
///
/// # Errors
///
/// pytest cannot be started, or collects nothing.
pub fn run(options: &Options, python: &Path, print: &(dyn Fn(&str) + Sync)) -> Result<Compared> {
    std::fs::create_dir_all(&options.out)
        .with_context(|| format!("failed to make {}", options.out.display()))?;
    let out = super::absolute(&options.out)?;
    let mut compared = Compared::default();
    for file in files(&options.folder)? {
        let name = file
            .file_stem()
            .and_then(|name| name.to_str())
            .context("a file whose name is no text")?;
        let wanted = options.filter.is_empty()
            || options
                .filter
                .iter()
                .any(|text| name.contains(text.as_str()));
        if !wanted {
            continue;
        }
        let alone = one(
            options,
            python,
            &file,
            None,
            &out.join(format!("{name}.alone.xml")),
        )?;
        compared.tests += alone.verdicts.len();
        let mut count = 0;
        for (variant, set) in VARIANTS {
            let xml = out.join(format!("{name}.{variant}.xml"));
            let under = one(options, python, &file, Some(set), &xml)?;
            let new = differences(name, variant, &alone, &under);
            count += new.len();
            compared.differences.extend(new);
        }
        print(&format!(
            "{name:<32} {} tests, {count} differences",
            alone.verdicts.len()
        ));
    }
    ensure!(compared.tests > 0, "pytest found no test that it could run");
    Ok(compared)
}

/// What became of the tests of a file.
#[derive(Clone, Debug, Default)]
struct Ran {
    verdicts: BTreeMap<String, String>,
    end: String,
}

fn one(
    options: &Options,
    python: &Path,
    file: &Path,
    under: Option<&[&str]>,
    xml: &Path,
) -> Result<Ran> {
    let file = super::absolute(file)?;
    let mut command = match under {
        None => Command::new(python),
        Some(set) => {
            let mut command = Command::new(super::absolute(&options.ringfence)?);
            command
                .args(["run", "--error-exitcode", "0"])
                .args(set)
                .arg("--")
                .arg(python);
            command
        }
    };
    if xml.exists() {
        std::fs::remove_file(xml)?;
    }
    command
        .args(["-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"])
        .arg(format!("--junitxml={}", xml.display()))
        .arg(&file)
        .current_dir(file.parent().unwrap_or(Path::new("/")))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("RINGFENCE_OPTIONS");
    let outcome = process::run(&mut command, options.limit)?;
    let text = std::fs::read_to_string(xml).unwrap_or_default();
    Ok(Ran {
        verdicts: verdicts(&text),
        end: outcome
            .status
            .map_or("ran out of time".into(), |_| outcome.describe()),
    })
}

fn differences(file: &str, variant: &str, alone: &Ran, under: &Ran) -> Vec<Difference> {
    let row = |test: &str, alone: &str, under: &str| Difference {
        file: file.into(),
        variant: variant.into(),
        test: test.into(),
        alone: alone.into(),
        under: under.into(),
    };
    // A process that ended early has no verdicts at all.
    if under.verdicts.is_empty() && !alone.verdicts.is_empty() {
        return vec![row("", &alone.end, &under.end)];
    }
    let tests: BTreeSet<&String> = alone.verdicts.keys().chain(under.verdicts.keys()).collect();
    let of = |ran: &Ran, test: &str| ran.verdicts.get(test).cloned().unwrap_or("missing".into());
    tests
        .into_iter()
        .map(|test| (test, of(alone, test), of(under, test)))
        .filter(|(_, alone, under)| alone != under)
        .map(|(test, alone, under)| row(test, &alone, &under))
        .collect()
}

/// From pytest's JUnit file: each test with `passed`, `failure`, `error` or
/// `skipped`.
fn verdicts(xml: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for case in xml.split("<testcase ").skip(1) {
        let attributes = case.split('>').next().unwrap_or_default();
        let attribute = |name: &str| -> String {
            let rest = attributes.split_once(&format!("{name}=\""));
            let value = rest.and_then(|(_, rest)| rest.split('"').next());
            value.unwrap_or_default().to_owned()
        };
        // `classname` ends in `name`.
        let class = attribute("classname");
        let rest = attributes.replace(&format!("classname=\"{class}\""), "");
        let name = rest
            .split_once("name=\"")
            .and_then(|(_, rest)| rest.split('"').next())
            .unwrap_or_default();
        let body = if attributes.ends_with('/') {
            ""
        } else {
            case.split("</testcase>").next().unwrap_or_default()
        };
        let verdict = ["failure", "error", "skipped"]
            .into_iter()
            .find(|kind| body.contains(&format!("<{kind}")))
            .unwrap_or("passed");
        found.insert(format!("{class}::{name}"), verdict.to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = r#"<testsuite><testcase classname="test_a" name="test_x[1]" time="0.1" /><testcase
classname="test_a" name="test_y" time="0.1"><failure message="no">f</failure></testcase><testcase classname="test_a" name="test_z" time="0"><skipped message="s"/></testcase></testsuite>"#;

    #[test]
    fn verdicts_are_read_from_junit() {
        let xml = XML.replace("<testcase\n", "<testcase ");
        let found = verdicts(&xml);
        assert_eq!(found["test_a::test_x[1]"], "passed");
        assert_eq!(found["test_a::test_y"], "failure");
        assert_eq!(found["test_a::test_z"], "skipped");
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_verdict_that_changes_and_a_crash_are_differences() {
        let ran = |pairs: &[(&str, &str)], end: &str| Ran {
            verdicts: pairs
                .iter()
                .map(|(test, verdict)| ((*test).to_owned(), (*verdict).to_owned()))
                .collect(),
            end: end.into(),
        };
        let alone = ran(&[("a", "passed"), ("b", "failure")], "exited with 1");
        assert!(differences("f", "v", &alone, &alone).is_empty());
        let other = ran(&[("a", "failure")], "exited with 1");
        let rows = differences("f", "v", &alone, &other);
        assert_eq!((rows.len(), rows[1].under.as_str()), (2, "missing"));
        let crash = ran(&[], "was ended by signal 11");
        let rows = differences("f", "v", &alone, &crash);
        assert_eq!(
            (rows.len(), rows[0].under.as_str()),
            (1, "was ended by signal 11")
        );
    }
}
