//! Memory that a program uses after its free, frees twice or wrongly, leaks,
//! or frees right, on the CPU device.

mod support;

use model::{DeviceKind, Finding, LeakCheck, Rule, Settings};
use report::session::read_processes;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use support::{build, library};

const INT: u64 = 4;
const BYTES: u64 = 1000 * INT;

fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| build(&["-arch=sm_75", "-g"], "lifetimes.cu"))
}

/// What a program printed, and what was found in it.
struct Run {
    stdout: String,
    findings: Vec<Finding>,
}

impl Run {
    fn rules(&self) -> Vec<Rule> {
        self.findings.iter().map(|finding| finding.rule).collect()
    }
}

fn run(arguments: &[&str], change: impl Fn(&mut Settings)) -> Run {
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut settings = Settings {
        device: Some(DeviceKind::Cpu),
        session: Some(folder.path().to_path_buf()),
        ..Settings::default()
    };
    change(&mut settings);
    let output = Command::new(program())
        .args(arguments)
        .env("LD_PRELOAD", library())
        .env(
            "RINGFENCE_SETTINGS",
            serde_json::to_string(&settings).expect("settings are JSON"),
        )
        .output()
        .expect("start the program");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stdout}{stderr}");
    let mut findings = Vec::new();
    for file in std::fs::read_dir(folder.path()).expect("session folder") {
        let text = std::fs::read_to_string(file.expect("entry").path()).expect("events");
        for process in read_processes(&text) {
            assert!(process.errors.is_empty(), "{:?}", process.errors);
            findings.extend(process.findings);
        }
    }
    Run { stdout, findings }
}

fn called_in(frames: &[model::HostFrame], function: &str) -> bool {
    frames.iter().any(|frame| frame.function.contains(function))
}

#[test]
fn a_right_program_sees_what_it_would_see_without() {
    let expected = "seen 5\nfreed memory is known: 0\nall given back: 1\n";
    for quarantine in ["256m", "0", "10k"] {
        let run = run(&["good"], |settings| {
            settings.set("quarantine-size", quarantine).expect("a size");
            settings.leak_check = LeakCheck::Full;
        });
        assert_eq!(run.stdout, expected, "{quarantine}");
        assert_eq!(run.rules(), [], "{quarantine}");
    }
    let unchecked = run(&["good"], |settings| settings.check = false);
    assert_eq!(unchecked.stdout, expected);
}

#[test]
fn a_program_that_needs_the_memory_gets_it_back() {
    let run = run(&["churn"], |settings| settings.quarantine_size = u64::MAX);
    assert_eq!((run.stdout.as_str(), run.rules()), ("done\n", vec![]));
}

#[test]
fn a_use_after_free_is_found_at_once_and_after_other_allocations() {
    for kind in ["device", "managed", "pinned", "pool"] {
        for when in ["used", "used-later"] {
            let run = run(&[when, kind], |_| {});
            assert_eq!(run.rules(), [Rule::UseAfterFree], "{when} {kind}");
            let finding = &run.findings[0];
            assert_eq!(finding.occurrences, 1000);
            let intended = finding.intended.as_ref().expect("an allocation");
            assert_eq!(intended.allocation.extent.size, BYTES);
            assert!(intended.freed);
            assert!(called_in(&intended.allocated_at, "allocate"), "{finding:?}");
            assert!(called_in(&intended.freed_at, "release"), "{finding:?}");
        }
    }
    // Too large to be held, and nothing has its address since.
    let run = run(&["used", "large"], |_| {});
    assert_eq!(run.rules(), [Rule::UseAfterFree]);
}

#[test]
fn a_freed_pointer_in_memory_is_found_too() {
    let run = run(&["used-through-memory"], |_| {});
    assert_eq!(run.rules(), [Rule::UseAfterFree]);
    let intended = run.findings[0].intended.as_ref().expect("an allocation");
    assert!(intended.freed && intended.allocation.serial == 1);
}

const BAD_FREES: &str = "\
inside: cudaErrorInvalidValue
host pointer: cudaErrorInvalidValue
stack pointer: cudaErrorInvalidValue
pinned by cudaFree: cudaErrorInvalidValue
device by cudaFreeHost: cudaErrorInvalidValue
managed by cudaFreeHost: cudaErrorInvalidValue
never allocated: cudaErrorInvalidValue
inside a pool's: cudaErrorInvalidValue
device: cudaSuccess
device again: cudaErrorInvalidValue
pinned: cudaSuccess
pinned again: cudaErrorInvalidValue
managed: cudaSuccess
managed again: cudaErrorInvalidValue
pool: cudaSuccess
pool again: cudaErrorInvalidValue
";

#[test]
fn bad_frees_are_found_and_answered_as_the_device_does() {
    let expected = [[Rule::InvalidFree; 8].as_slice(), &[Rule::DoubleFree; 4]].concat();
    for (how, rules) in [("refuse", &expected[..]), ("pass", &expected), ("off", &[])] {
        for quarantine in [256 << 20, 0] {
            let run = run(&["bad-frees"], |settings| {
                settings.set("api-errors", how).expect("a word");
                settings.quarantine_size = quarantine;
            });
            assert_eq!(run.stdout, BAD_FREES, "{how} {quarantine}");
            assert_eq!(run.rules(), rules, "{how} {quarantine}");
            for finding in &run.findings {
                let call = finding.call().expect("a call");
                assert!(called_in(&call.called_at, "bad_frees"), "{call:?}");
                let second = finding.rule == Rule::DoubleFree;
                let freed = finding
                    .intended
                    .as_ref()
                    .is_some_and(|intended| intended.freed);
                assert_eq!(freed, second, "{call:?}");
            }
        }
    }
}

#[test]
fn memory_goes_with_the_context() {
    let run = run(&["reset"], |_| {});
    assert_eq!(run.stdout, "after the reset: cudaErrorInvalidValue\n");
    assert_eq!(run.rules(), [Rule::DoubleFree]);
    let intended = run.findings[0].intended.as_ref().expect("an allocation");
    assert!(called_in(&intended.freed_at, "reset"), "{intended:?}");
}

#[test]
fn what_is_never_freed_is_a_leak_if_that_is_asked_for() {
    assert_eq!(run(&["leaks"], |_| {}).rules(), []);
    let leaks = run(&["leaks"], |settings| settings.leak_check = LeakCheck::Full);
    assert_eq!(leaks.rules(), [Rule::MemoryLeak; 2]);
    let leak = |kind| {
        let of_kind = |finding: &&Finding| {
            let intended = finding.intended.as_ref().expect("an allocation");
            intended.allocation.kind == kind
        };
        leaks
            .findings
            .iter()
            .find(of_kind)
            .expect("a leak of this kind")
    };
    assert_eq!(leak(model::AllocationKind::Device).occurrences, 3);
    assert_eq!(leak(model::AllocationKind::Host).occurrences, 1);
    let reset = run(&["reset"], |settings| settings.leak_check = LeakCheck::Full);
    assert_eq!(reset.rules(), [Rule::MemoryLeak, Rule::DoubleFree]);
}

#[test]
fn memory_of_streams_is_used_between_its_allocation_and_its_free() {
    assert_eq!(run(&["ordered"], |_| {}).rules(), []);
    for (what, rule) in [
        ("early", Rule::UseBeforeAllocation),
        ("late", Rule::UseAfterFree),
        ("race", Rule::StreamOrderRace),
        ("free-race", Rule::StreamOrderRace),
    ] {
        let run = run(&[what], |_| {});
        assert_eq!(run.rules(), [rule], "{what}");
        let intended = run.findings[0].intended.as_ref().expect("an allocation");
        assert_eq!(intended.allocation.extent.size, BYTES, "{what}");
        let freed = matches!(what, "late" | "race");
        assert_eq!(intended.freed, freed, "{what}");
    }
}
