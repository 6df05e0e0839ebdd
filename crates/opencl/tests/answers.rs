//! OpenCL's queries return the same under Ringfence as without: the programs of
//! `suite/opencl/answers` print the results of queries, and must print the
//! same.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The command that `cargo xtask test` has built, else the newest beside the
/// tests.
fn ringfence() -> PathBuf {
    if let Some(command) = std::env::var_os("RINGFENCE_TEST_COMMAND") {
        return command.into();
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let built = ["debug", "release"].map(|profile| target.join(profile).join("ringfence"));
    let newest = built
        .into_iter()
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .max();
    match newest {
        Some((_, path)) => path,
        None => panic!(
            "no ringfence in {}; run `cargo xtask test`, which builds it",
            target.display()
        ),
    }
}

/// A program of the suite's folder; each test has its own.
fn program(test: &str, source: &str) -> PathBuf {
    let suite = workspace().join("suite/opencl");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("opencl-answers-{test}"));
    let built = Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-g1", "-O1", "-pthread", "-I"])
        .arg(suite.join("include"))
        .arg(suite.join(source))
        .arg("-o")
        .arg(&path)
        .args(["-lOpenCL", "-lm"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{source}: {said}");
    path
}

fn under(options: &[&str], program: &Path, twin: &[&str]) -> Output {
    Command::new(ringfence())
        .arg("run")
        .args(options)
        .arg("--")
        .arg(program)
        .args(twin)
        .env("RINGFENCE_OPTIONS", "seed=1")
        .output()
        .unwrap()
}

/// Runs a program alone and with canaries that host and device verify.
fn compare(name: &str) {
    let program = program(name, &format!("answers/{name}.c"));
    let alone = Command::new(&program).output().unwrap();
    let said = String::from_utf8_lossy(&alone.stderr);
    if alone.status.code() == Some(2) && said.contains("clGetPlatformIDs") {
        eprintln!("skipped: no OpenCL platform");
        return;
    }
    assert!(alone.status.success(), "{name} alone: {said}");
    let alone = String::from_utf8_lossy(&alone.stdout);
    assert!(alone.lines().count() > 5, "{alone}");
    for checker in ["host", "device"] {
        let watched = under(&["--canary-checker", checker], &program, &[]);
        let printed = String::from_utf8_lossy(&watched.stdout);
        let differing: Vec<(&str, &str)> = alone
            .lines()
            .zip(printed.lines())
            .filter(|(one, other)| one != other)
            .take(10)
            .collect();
        let said = String::from_utf8_lossy(&watched.stderr);
        let last = said.lines().last().unwrap_or_default();
        assert!(differing.is_empty(), "{name}, {checker}: {differing:#?}");
        assert_eq!(
            alone.lines().count(),
            printed.lines().count(),
            "{name}, {checker}: {last}"
        );
    }
}

#[test]
fn all_flags_of_buffers_and_parts() {
    compare("flags");
}

#[test]
fn wrong_arguments() {
    compare("errors");
}

#[test]
fn correct_programs() {
    compare("work");
}

#[test]
fn memory_that_kernels_share() {
    compare("turns");
}

#[test]
fn a_call_that_is_passed_on_is_not_said_to_be_refused() {
    let program = program("passed", "call_others.c");
    for (how, refused) in [("refuse", true), ("pass", false)] {
        let run = under(&["--api-errors", how], &program, &["bad"]);
        let said = String::from_utf8_lossy(&run.stderr);
        if said.contains("clGetPlatformIDs") {
            eprintln!("skipped: no OpenCL platform");
            return;
        }
        assert!(said.contains("clEnqueueReadBuffer"), "{how}: {said}");
        assert!(said.contains("clEnqueueReadBufferRect"), "{how}: {said}");
        assert_eq!(said.contains("refused"), refused, "{how}: {said}");
    }
}
