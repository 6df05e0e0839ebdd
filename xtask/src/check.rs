//! `test` and `ci`: runs the checks, counts what passed and failed over test
//! programs and suite together, and names what was skipped.
//!
//! Nothing is skipped silently: an ignored test, or a step that cannot run
//! here, is listed with what would enable it. In CI only what needs a GPU may
//! be on that list.

use crate::build::{self, Built};
use crate::command::{cargo, command, run};
use crate::workspace::{root, target};
use crate::{
    demo, documented, generate, generate_cudart, generate_device, generate_layout, generate_opencl,
    generate_options, layers, readme, setup,
};
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use suite::compile::Linkage;
use suite::run::DeviceKind;

/// The result of a run of the tests.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    /// Which tests and cases failed.
    failures: Vec<String>,
    /// What was skipped, each with what would enable it.
    skipped: Vec<String>,
    /// Of those, what only another machine would enable: one with a GPU, or
    /// with another platform of OpenCL.
    elsewhere: usize,
}

impl Tally {
    fn finish(self) -> Result<()> {
        for skipped in &self.skipped {
            println!("skipped: {skipped}");
        }
        for failure in &self.failures {
            println!("failed: {failure}");
        }
        println!("{} passed, {} failed", self.passed, self.failed);
        ensure!(self.failed == 0, "{} tests failed", self.failed);
        Ok(())
    }
}

/// Regenerates what is generated, or compares.
///
/// # Errors
///
/// The toolchain is missing, or with `check` a file differs.
pub fn generated(check: bool) -> Result<()> {
    setup::cuda()?;
    generate::run(check)?;
    generate_cudart::run(check)?;
    generate_layout::run(check)?;
    generate_device::run(check)?;
    generate_opencl::run(check)?;
    generate_options::run(check)?;
    println!(
        "generated files: {}",
        if check { "as committed" } else { "written" }
    );
    Ok(())
}

/// Every test that this machine can run.
///
/// # Errors
///
/// A test failed, or could not be built.
pub fn test() -> Result<()> {
    tests()?.finish()
}

/// What CI runs.
///
/// # Errors
///
/// A check failed, or something was skipped that needs no GPU.
pub fn ci() -> Result<()> {
    step("format", || run(&mut cargo(&["fmt", "--all", "--check"])))?;
    step("generated files", || generated(true))?;
    step("layers", layers::check)?;
    step("tables of README and docs", || readme::run(true))?;
    step("unused dependencies", || {
        run(command(setup::machete()?, [root()]).env("CARGO_TERM_COLOR", "never"))
    })?;
    step("licences, duplicates and sources of dependencies", || {
        run(
            command(setup::deny()?, ["check", "bans", "licenses", "sources"])
                .env("CARGO_TERM_COLOR", "never"),
        )
    })?;
    step("lints", || {
        run(&mut cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]))
    })?;
    step("documentation", || {
        run(
            cargo(&["doc", "--workspace", "--lib", "--no-deps", "--quiet"])
                .env("RUSTDOCFLAGS", "-D warnings"),
        )
    })?;
    let tally = tests()?;
    let avoidable = tally.skipped.len() - tally.elsewhere;
    let skipped = tally.skipped.clone();
    tally.finish()?;
    if avoidable > 0 {
        bail!(
            "CI must not skip what needs no other machine:\n{}",
            skipped.join("\n")
        );
    }
    Ok(())
}

fn step<T>(name: &str, action: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("== {name}");
    let start = Instant::now();
    let result = action().with_context(|| format!("in the step `{name}`"))?;
    println!("== {name}: {:.0} s", start.elapsed().as_secs_f64());
    Ok(result)
}

fn tests() -> Result<Tally> {
    let toolchain = step("toolchain", setup::cuda)?;
    step("corpora", setup::corpora)?;
    step("OpenCL", setup::opencl)?;
    step("Slurm", setup::slurm)?;
    let built = step("build", build::all_with_tests)?;
    let cases = target().join("suite");
    step("cases", || build::cases(&cases, Linkage::Static))?;
    let mut tally = Tally::default();
    step("test programs", || {
        test_programs(&built, &cases, &mut tally)
    })?;
    tally.passed += step("commands of README and docs", || {
        documented::check(&built, &demo::program(&toolchain)?)
    })?;
    step("suite on the CPU device", || {
        suite(&built, &cases, DeviceKind::Cpu, &[], &mut tally)
    })?;
    step("good programs of the suite as tenants", || {
        as_tenants(&built, &cases, &mut tally)
    })?;
    let opencl = target().join("suite-opencl");
    step("OpenCL cases", || build::opencl_cases(&opencl))?;
    step("suite on OpenCL", || {
        suite(&built, &opencl, DeviceKind::Cpu, &[], &mut tally)
    })?;
    step("suite on OpenCL, canaries verified by the device", || {
        let settings = ["canary-checker=device"];
        suite(&built, &opencl, DeviceKind::Cpu, &settings, &mut tally)
    })?;
    if Path::new("/dev/nvidiactl").exists() {
        step("suite on the GPU", || {
            suite(&built, &cases, DeviceKind::Gpu, &[], &mut tally)
        })?;
    } else {
        tally.elsewhere += 1;
        tally.skipped.push(
            "the suite on a GPU: this machine has none; run `cargo xtask gpu-bundle` and, where \
             there is one, target/gpu-bundle/run"
                .into(),
        );
    }
    Ok(tally)
}

fn suite(
    built: &Built,
    cases: &Path,
    device: DeviceKind,
    settings: &[&str],
    tally: &mut Tally,
) -> Result<()> {
    let results = suite::run::run(
        &suite::run::Options {
            device,
            cases: cases.to_owned(),
            ringfence: built.command.clone(),
            settings: settings.iter().map(|pair| (*pair).to_owned()).collect(),
            filter: None,
            jobs: 2,
            limit: Duration::from_secs(120),
        },
        &|line| println!("{line}"),
    )?;
    tally.passed += results.summary.passed as u64;
    tally.failed += results.summary.failed as u64;
    for row in &results.rows {
        if !row.pass {
            let (program, verdict) = (&row.program, &row.verdict);
            tally.failures.push(format!("{program}: {verdict}"));
        }
        if let Some(lacks) = &row.not_runnable {
            tally.elsewhere += 1;
            let program = &row.program;
            tally
                .skipped
                .push(format!("{program}: {lacks}; another platform may"));
        }
    }
    Ok(())
}

/// The suite's programs without a bug as tenants of a manager of the CPU device.
fn as_tenants(built: &Built, cases: &Path, tally: &mut Tally) -> Result<()> {
    let options = suite::tenants::Options {
        cases: cases.to_owned(),
        ringfence: built.command.clone(),
        list: root().join("suite/cases").join(suite::tenants::LIST),
        filter: None,
        jobs: 2,
        limit: Duration::from_secs(120),
    };
    let (summary, rows) = suite::tenants::run(&options, &|line| println!("{line}"))?;
    tally.passed += (summary.work + summary.refused) as u64;
    tally.failed += summary.failed as u64;
    for row in rows.iter().filter(|row| !row.pass) {
        let failure = format!("{} as a tenant: {}", row.program, row.verdict);
        tally.failures.push(failure);
    }
    Ok(())
}

/// `cargo test`, its output passed on while its result lines are added up.
fn test_programs(built: &Built, cases: &Path, tally: &mut Tally) -> Result<()> {
    let mut child = cargo(&["test", "--release", "--workspace", "--no-fail-fast"])
        // What tests of the whole stack start.
        .env("RINGFENCE_TEST_COMMAND", &built.command)
        .env("RINGFENCE_TEST_CASES", cases)
        .env("RINGFENCE_CORPORA", root().join("target/corpora"))
        .stdout(Stdio::piped())
        .spawn()
        .context("failed to start cargo test")?;
    let pipe = child.stdout.take().context("no pipe from cargo test")?;
    let mut results = 0;
    for line in BufReader::new(pipe).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        results += u64::from(count(&line, tally));
    }
    let status = child.wait()?;
    ensure!(results > 0, "cargo test ran no test program: {status}");
    ensure!(
        status.success() || tally.failed > 0,
        "cargo test ended with {status}"
    );
    Ok(())
}

/// Adds a line of a test program to the tally; whether it was a result line.
fn count(line: &str, tally: &mut Tally) -> bool {
    if let Some(name) = line.strip_prefix("test ")
        && let Some(name) = name.strip_suffix(" ... FAILED")
    {
        tally.failures.push(format!("the test {name}"));
    }
    if let Some(name) = line.strip_prefix("test ").and_then(|rest| {
        rest.split(" ... ignored")
            .next()
            .filter(|name| name.len() < rest.len())
    }) {
        tally
            .skipped
            .push(format!("the test {name}: it is marked `ignore`"));
    }
    let Some(rest) = line.strip_prefix("test result: ") else {
        return false;
    };
    let number = |word: &str| {
        rest.split([';', '.'])
            .map(str::trim)
            .find_map(|part| part.strip_suffix(word)?.trim().parse::<u64>().ok())
            .unwrap_or(0)
    };
    tally.passed += number("passed");
    tally.failed += number("failed");
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_add_up_and_ignored_tests_are_named() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test a::b ... ok",
            "test c::d ... ignored",
            "test e - f (line 3) ... ignored, needs much time",
            "test g::h ... FAILED",
            "test result: ok. 8 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.12s",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s",
        ] {
            count(line, &mut tally);
        }
        assert_eq!((tally.passed, tally.failed), (11, 2));
        assert_eq!(tally.failures, ["the test g::h"]);
        assert_eq!(
            tally.skipped,
            [
                "the test c::d: it is marked `ignore`",
                "the test e - f (line 3): it is marked `ignore`"
            ]
        );
        assert!(tally.finish().is_err());
    }
}
