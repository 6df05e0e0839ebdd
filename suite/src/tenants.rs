//! Runs the good programs of built cases as tenants of a manager that owns the
//! CPU device, and compares each with itself on the CPU device.
//!
//! `not-as-tenants.txt` beside the groups lists the programs that a manager
//! refuses, each with what they are told. It is checked in both directions: a
//! program that is not listed must work, and one that is listed must be refused
//! for the reason that the list gives.

use crate::case::{Case, Manifest};
use crate::judge;
use crate::manager::Manager;
use crate::process::{self, Outcome};
use crate::run::{absolute, in_front, in_parallel};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// File name of the list of programs that do not work as tenants.
pub const LIST: &str = "not-as-tenants.txt";

/// Ringfence itself has failed.
const RINGFENCE_FAILED: i32 = model::exit_code::FAILED as i32;

/// How to run the programs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder with the manifest and the programs.
    pub cases: PathBuf,
    /// The `ringfence` command.
    pub ringfence: PathBuf,
    /// The list of programs that do not work.
    pub list: PathBuf,
    /// Only cases whose name contains this.
    pub filter: Option<String>,
    /// Programs at a time.
    pub jobs: usize,
    /// Deadline of one run of one program.
    pub limit: Duration,
}

/// What was seen of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The program.
    pub program: String,
    /// What was seen, for people.
    pub verdict: String,
    /// It was as the list says.
    pub pass: bool,
    /// It works as a tenant.
    pub works: bool,
}

/// What was seen of all programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many work as tenants.
    pub work: usize,
    /// How many are refused, as the list says.
    pub refused: usize,
    /// How many do something else than the list says.
    pub failed: usize,
}

/// Runs the programs; `print` gets one line for each as it ends.
///
/// # Errors
///
/// The manifest, the list or a program is missing, the manager does not start,
/// nothing matches the filter, or the list names a program that there is not.
pub fn run(options: &Options, print: &(dyn Fn(&str) + Sync)) -> Result<(Summary, Vec<Row>)> {
    let manifest = Manifest::read(&options.cases)?;
    let listed = read_list(&options.list)?;
    let options = &Options {
        cases: absolute(&options.cases, "cases")?,
        ringfence: absolute(&options.ringfence, "ringfence command")?,
        ..options.clone()
    };
    for name in listed.keys() {
        let mut cases = manifest.cases.iter();
        ensure!(
            cases.any(|case| &case.name == name),
            "{} lists {name}, which is no case",
            options.list.display()
        );
    }
    let filter = options.filter.as_deref().unwrap_or_default();
    let cases = manifest.cases.iter();
    let cases: Vec<_> = cases.filter(|case| case.name.contains(filter)).collect();
    ensure!(!cases.is_empty(), "no case matches the filter");
    let manager = Manager::start(&options.ringfence, "cpu")?;
    let one = |case: &&Case| {
        let start = |device: &[&str]| {
            let path = options.cases.join(&case.good.path);
            ensure!(path.is_file(), "no program at {}", path.display());
            let mut command = Command::new(&options.ringfence);
            command.arg("run").args(device);
            if device.contains(&"tenant") {
                command.arg("--socket").arg(manager.socket());
            }
            command
                .arg("--")
                .arg(&path)
                .args(&case.good.arguments)
                .current_dir(&options.cases)
                .env("RINGFENCE_OPTIONS", "")
                .env(
                    "LD_LIBRARY_PATH",
                    in_front(&options.cases.join(&manifest.libraries))?,
                );
            process::run(&mut command, options.limit)
        };
        let alone = start(&["--device", "cpu", "--no-check"])?;
        let row = match judge::lacking(&alone) {
            Some(lacks) => Row {
                program: case.name.clone(),
                verdict: format!("cannot run here: {lacks}"),
                pass: true,
                works: true,
            },
            None => {
                let tenant = start(&["--device", "tenant"])?;
                judge_tenant(&case.name, &alone, &tenant, listed.get(&case.name))
            }
        };
        let mark = if row.pass { "ok  " } else { "FAIL" };
        print(&format!("{mark} {:<44} {}", row.program, row.verdict));
        Ok(row)
    };
    let rows = in_parallel(options.jobs, &cases, one)?;
    drop(manager);
    Ok((summary(&rows), rows))
}

fn summary(rows: &[Row]) -> Summary {
    let mut summary = Summary::default();
    for row in rows {
        *match (row.pass, row.works) {
            (true, true) => &mut summary.work,
            (true, false) => &mut summary.refused,
            (false, _) => &mut summary.failed,
        } += 1;
    }
    summary
}

/// What one program did as a tenant, beside what it does alone, and whether that
/// is what the list says.
fn judge_tenant(name: &str, alone: &Outcome, tenant: &Outcome, listed: Option<&String>) -> Row {
    // Else both could fail alike.
    if alone.code() == Some(RINGFENCE_FAILED) {
        return Row {
            program: name.to_owned(),
            verdict: format!(
                "on the CPU device it {}: {}",
                alone.describe(),
                alone.stderr.trim()
            ),
            pass: false,
            works: false,
        };
    }
    let difference = difference(alone, tenant);
    let works = difference.is_none();
    let (pass, verdict) = match (difference, listed) {
        (None, None) => (true, "the same".to_owned()),
        (None, Some(_)) => (
            false,
            format!("it works, and is in {LIST}: take it out there"),
        ),
        (Some(what), Some(reason)) if what.contains(reason.as_str()) => {
            (true, format!("refused, as listed: {reason}"))
        }
        (Some(what), Some(reason)) => (false, format!("listed with `{reason}`, but {what}")),
        (Some(what), None) => (false, what),
    };
    Row {
        program: name.to_owned(),
        verdict,
        pass,
        works,
    }
}

/// What differs, with what Ringfence said; `None` if nothing does.
fn difference(alone: &Outcome, tenant: &Outcome) -> Option<String> {
    let what = if alone.code() != tenant.code() || alone.code().is_none() {
        format!(
            "it {}, and on the CPU device it {}",
            tenant.describe(),
            alone.describe()
        )
    } else if alone.stdout != tenant.stdout {
        format!(
            "it prints `{}`, and on the CPU device `{}`",
            tenant.stdout.trim(),
            alone.stdout.trim()
        )
    } else {
        return None;
    };
    let said: Vec<&str> = tenant.stderr.lines().take(4).collect();
    Some(format!("{what}: {}", said.join(" | ")))
}

/// Reads the list: one line a program, `CASE PART-OF-WHAT-IT-IS-TOLD`; `#` starts
/// a comment.
fn read_list(path: &Path) -> Result<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("failed to read {}", path.display()))?;
    parse_list(&text).with_context(|| format!("in {}", path.display()))
}

fn parse_list(text: &str) -> Result<BTreeMap<String, String>> {
    let mut list = BTreeMap::new();
    let lines = text.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some((name, reason)) = line.split_once(' ') else {
            bail!("`{line}` is not `CASE PART-OF-WHAT-IT-IS-TOLD`");
        };
        let before = list.insert(name.to_owned(), reason.trim().to_owned());
        ensure!(before.is_none(), "{name} is listed twice");
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn outcome(code: i32, stdout: &str, stderr: &str) -> Outcome {
        Outcome {
            status: Some(ExitStatus::from_raw(code << 8)),
            stdout: stdout.into(),
            stderr: stderr.into(),
            elapsed: Duration::ZERO,
        }
    }

    #[test]
    fn the_list_is_checked_in_both_directions() {
        let alone = outcome(0, "1\n", "");
        let refused = outcome(1, "", "ringfence: cuX is not supported by this device");
        let other = outcome(0, "2\n", "");
        let listed = |reason: &str| Some(reason.to_owned());
        let judge = |tenant: &Outcome, listed: Option<String>| {
            let row = judge_tenant("c", &alone, tenant, listed.as_ref());
            (row.pass, row.works)
        };
        assert_eq!(judge(&alone, None), (true, true));
        assert_eq!(judge(&alone, listed("cuX")), (false, true));
        assert_eq!(judge(&refused, listed("cuX is not")), (true, false));
        assert_eq!(judge(&refused, listed("cuY is not")), (false, false));
        assert_eq!(judge(&refused, None), (false, false));
        assert_eq!(judge(&other, None), (false, false));
        let failed = outcome(RINGFENCE_FAILED, "", "ringfence: error: why");
        let row = judge_tenant("c", &failed, &failed, None);
        assert!(!row.pass && row.verdict.contains("why"), "{row:?}");
    }

    #[test]
    fn lists_are_read() {
        let list = parse_list("# why\n\na cuX is not\nb  y\n").unwrap();
        assert_eq!(list.len(), 2);
        assert_eq!(list["a"], "cuX is not");
        assert_eq!(list["b"], "y");
        assert!(parse_list("a").is_err());
        assert!(parse_list("a b\na c\n").is_err());
    }
}
