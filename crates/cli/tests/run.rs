//! `ringfence run` with programs that play a checked process: exit codes,
//! summary, JSON, environment, signals.

mod support;

use report::Event;
use std::io::Read;
use std::process::Stdio;
use support::{Outcome, Scratch, coverage, finding, start};

/// Runs a program that leaves these events.
fn run(options: &[&str], events: &[Event], end: &str) -> Outcome {
    let scratch = Scratch::new();
    let program = scratch.program(events, end);
    let mut arguments = vec!["run", "--device", "cpu"];
    arguments.extend(options);
    arguments.extend(["--", program.to_str().unwrap()]);
    scratch.ringfence(arguments)
}

#[test]
fn a_clean_run_prints_one_line_and_passes_the_programs_code_on() {
    for code in [0, 3] {
        let outcome = run(
            &[],
            &[start(), coverage(2, 0, true)],
            &format!("exit {code}"),
        );
        assert_eq!(outcome.code, Some(code));
        assert_eq!(
            outcome.stderr,
            "ringfence: no findings; kernels: 1 checked, 0 proved, 0 unchecked\n"
        );
    }
}

#[test]
fn findings_decide_the_exit_code() {
    let events = [
        start(),
        finding(),
        Event::Occurrences {
            id: 1,
            occurrences: 5,
        },
        coverage(2, 0, true),
    ];
    let outcome = run(&[], &events, "exit 3");
    assert_eq!(outcome.code, Some(98));
    assert!(
        outcome.stderr.contains("1 finding (5 occurrences)"),
        "{}",
        outcome.stderr
    );
    assert_eq!(
        run(&["--error-exitcode", "5"], &events, "exit 3").code,
        Some(5)
    );
    assert_eq!(
        run(&["--error-exitcode", "0"], &events, "exit 3").code,
        Some(3)
    );
    // Findings of a program that was killed count more than how it died.
    assert_eq!(run(&[], &events, "kill -SEGV $$").code, Some(98));
}

#[test]
fn nothing_checked_is_said_and_is_an_error() {
    for (events, why) in [
        (vec![], "made no CUDA or OpenCL call"),
        (vec![start()], "launched no kernel"),
        (
            vec![start(), coverage(0, 4, true)],
            "every kernel launch ran without checks",
        ),
    ] {
        let outcome = run(&[], &events, "exit 0");
        assert_eq!(outcome.code, Some(97), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(why), "{}", outcome.stderr);
    }
    assert_eq!(run(&["--no-check"], &[], "exit 4").code, Some(4));
}

#[test]
fn failure_of_ringfence_has_its_own_code() {
    let failed = Event::Error {
        message: "no".into(),
        fatal: true,
    };
    assert_eq!(run(&[], &[start(), failed], "exit 0").code, Some(96));
    let warned = Event::Error {
        message: "well".into(),
        fatal: false,
    };
    assert_eq!(
        run(&[], &[start(), warned, coverage(1, 0, true)], "exit 0").code,
        Some(0)
    );
}

#[test]
fn a_program_that_dies_is_reported_with_what_it_left() {
    let outcome = run(&[], &[start(), coverage(2, 0, false)], "kill -SEGV $$");
    assert_eq!(outcome.code, Some(128 + 11));
    assert!(
        outcome.stderr.contains("killed by signal 11"),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome.stderr.contains("process 7 ended early"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn the_json_report_follows_the_committed_schema() {
    let scratch = Scratch::new();
    let schema = include_str!("../../report/schema/report-v2.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    for (events, end, verdict) in [
        (vec![start(), coverage(1, 1, true)], "exit 0", "clean"),
        (
            vec![start(), finding(), coverage(1, 0, true)],
            "exit 0",
            "findings",
        ),
        (vec![], "kill -TERM $$", "nothing-checked"),
    ] {
        let program = scratch.program(&events, end);
        let file = scratch.path("report.json");
        let mut command = scratch.command(["run", "--device", "cpu", "--json"]);
        command.arg(&file).arg("--").arg(&program).arg("--seed");
        let outcome = Outcome::new(command.output().unwrap());
        let report: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let errors: Vec<String> = schema
            .iter_errors(&report)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(report["verdict"], verdict);
        assert_eq!(report["exit_code"].as_i64(), outcome.code.map(i64::from));
        assert_eq!(report["command"][1], "--seed");
    }
}

#[test]
fn suppressed_findings_do_not_make_the_exit_code() {
    let known = |title: &str| match finding() {
        Event::Finding { id, finding, .. } => Event::Finding {
            id,
            finding,
            suppressed: Some(title.into()),
        },
        other => other,
    };
    let scratch = Scratch::new();
    let file = scratch.write(
        "known",
        "[one]\nkernel = scale\n[two]\nrule = memory-leak\n",
    );
    let option = ["--suppressions", file.to_str().unwrap()];
    let events = [start(), known("one (line 1)"), coverage(2, 0, true)];
    let outcome = run(&option, &events, "exit 3");
    assert_eq!(outcome.code, Some(3));
    assert_eq!(
        outcome.stderr,
        "ringfence: no findings; 1 suppressed; kernels: 1 checked, 0 proved, 0 unchecked; \
         1 suppression matched nothing (two (line 3))\n"
    );
    let bad = scratch.write("bad", "[one]\nkernels = scale\n");
    run(
        &["--suppressions", bad.to_str().unwrap()],
        &events,
        "exit 0",
    )
    .assert_error(&["bad: line 2", "unknown key `kernels`"]);
    run(&["--suppressions", "/no/such"], &events, "exit 0").assert_error(&["/no/such"]);
}

#[test]
fn sarif_and_junit_are_written_beside_json() {
    let scratch = Scratch::new();
    let events = [start(), finding(), coverage(1, 0, true)];
    let path = |name: &str| scratch.path(name).to_str().unwrap().to_string();
    let (sarif, junit) = (path("a.sarif"), path("a.xml"));
    let outcome = run(&["--sarif", &sarif, "--junit", &junit], &events, "exit 0");
    assert_eq!(outcome.code, Some(98), "{}", outcome.stderr);
    let log: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&sarif).unwrap()).unwrap();
    let result = &log["runs"][0]["results"][0];
    assert_eq!(result["ruleId"], "global-out-of-bounds-write");
    let xml = std::fs::read_to_string(&junit).unwrap();
    assert!(xml.contains("classname=\"scale(float*, int)\""), "{xml}");
    run(&["--sarif", "/no/such/folder/x"], &events, "exit 0").assert_error(&["--sarif"]);
}

#[test]
fn settings_reach_the_program_and_its_environment_stays() {
    let scratch = Scratch::new();
    let show = "echo \"$RINGFENCE_SETTINGS\"; echo \"$LD_PRELOAD\"; echo \"$KEPT\"";
    let program = scratch.program(&[start(), coverage(1, 0, true)], show);
    let mut command = scratch.command(["run", "--device", "cpu", "--print-limit", "3"]);
    command
        .arg(&program)
        .env("RINGFENCE_OPTIONS", "print-limit=9:seed=4")
        .env("KEPT", "as it was");
    command.env("LD_PRELOAD", "libdl.so.2");
    let outcome = Outcome::new(command.output().unwrap());
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let settings: model::Settings = serde_json::from_str(lines[0]).unwrap();
    assert_eq!((settings.print_limit, settings.seed), (3, 4));
    assert!(
        lines[1].ends_with(":libdl.so.2") && lines[1].contains("libm.so"),
        "{}",
        lines[1]
    );
    assert_eq!(lines[2], "as it was");
}

#[test]
fn programs_are_searched_in_path_and_see_their_own_name() {
    let scratch = Scratch::new();
    let program = scratch.program(&[start(), coverage(1, 0, true)], "echo \"$1\"");
    let mut command = scratch.command(["run", "--device", "cpu", "program", "-x"]);
    let folders = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
    let outcome = Outcome::new(command.env("PATH", folders).output().unwrap());
    assert_eq!(
        (outcome.code, outcome.stdout.as_str()),
        (Some(0), "-x\n"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn signals_are_passed_on() {
    let scratch = Scratch::new();
    let wait = "trap 'exit 7' TERM\necho ready\nwhile :; do sleep 0.05; done";
    let program = scratch.program(&[start(), coverage(1, 0, true)], wait);
    let mut command = scratch.command(["run", "--device", "cpu"]);
    let mut child = command
        .arg(&program)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut ready)
        .unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

#[test]
fn an_output_that_takes_no_text_changes_no_exit_code() {
    let scratch = Scratch::new();
    let events = [start(), finding(), coverage(2, 0, true)];
    let program = scratch.program(&events, "exit 3");
    let command = || scratch.command(["run", "--device", "cpu", "--", program.to_str().unwrap()]);
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let outputs = [Stdio::from(full), Stdio::from(writer), Stdio::null()];
    for output in outputs {
        let status = command().stderr(output).status().unwrap();
        assert_eq!(status.code(), Some(98));
    }
    // The requested output, to a reader that closes the pipe early.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = scratch.command(["explain"]).stdout(writer).status();
    assert_eq!(status.unwrap().code(), Some(0));
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let status = scratch.command(["explain"]).stdout(full).status();
    assert_eq!(status.unwrap().code(), Some(96));
}

#[test]
fn a_program_without_kernels_is_checked_by_its_calls() {
    let with_calls = |calls, kernels: u64| {
        let Event::Coverage {
            mut coverage,
            complete,
        } = coverage(0, kernels, true)
        else {
            unreachable!("it is one")
        };
        if kernels == 0 {
            coverage.kernels.clear();
        }
        coverage.calls = calls;
        run(
            &[],
            &[start(), Event::Coverage { coverage, complete }],
            "exit 3",
        )
    };
    let checked = with_calls(4, 0);
    assert_eq!(checked.code, Some(3));
    assert!(
        checked.stderr.ends_with("; host calls: 4 checked\n"),
        "{}",
        checked.stderr
    );
    assert_eq!(with_calls(0, 0).code, Some(97));
    // Kernels were launched, and none was checked.
    assert_eq!(with_calls(4, 1).code, Some(97));
}
