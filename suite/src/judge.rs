//! Compares the JSON report of one run with what the case expects.
//!
//! Strict on purpose: a bad twin must give the expected finding and no other, a
//! good one none at all, and in both every launch must have been checked or
//! proved, or been followed by a canary scan. A report with less coverage is a
//! failure, never a pass.

use crate::case::{Culprit, Expectation};
use crate::process::Outcome;
use model::{
    AllocationKind, Coverage, Finding, KernelRun, NearestAllocation, Note, Relation, Rule,
    SourceLocation, Subject, UncheckedReason,
};
use serde::Deserialize;

/// Exit code of `ringfence run` when there are findings.
pub const EXIT_FINDINGS: i32 = model::exit_code::FINDINGS as i32;

/// Exit code of a program that needs what the platform lacks.
const EXIT_NOT_RUNNABLE: i32 = 77;

/// What the platform lacks that a program needs: it has asked the platform,
/// and ended with a code and a line that say so.
pub fn lacking(outcome: &Outcome) -> Option<String> {
    if outcome.code() != Some(EXIT_NOT_RUNNABLE) {
        return None;
    }
    let said = |line: &str| line.strip_prefix("not runnable: ").map(str::to_owned);
    outcome.stderr.lines().find_map(said)
}

/// The parts of a report that verdicts depend on.
#[derive(Clone, Debug, Deserialize)]
pub struct Report {
    /// How the program itself ended.
    pub program: ProgramEnd,
    /// All findings.
    pub findings: Vec<Finding>,
    /// What was checked.
    pub coverage: Coverage,
    /// Failures of Ringfence itself.
    pub errors: Vec<String>,
    /// Processes of the run.
    pub processes: Vec<Process>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramEnd {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// One process of a report.
#[derive(Clone, Debug, Deserialize)]
pub struct Process {
    /// Device name.
    pub device_name: String,
    /// Driver version, 13000 for CUDA 13.0.
    pub driver_version: u32,
}

/// A verdict on one program: what happened in one line, and if it is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it is the expected one.
    pub pass: bool,
    /// What happened.
    pub text: String,
}

fn wrong(text: String) -> Verdict {
    Verdict { pass: false, text }
}

/// One line about a finding, without addresses, so that it is the same on
/// every device.
pub fn describe(finding: &Finding) -> String {
    let rule = finding.rule.id();
    // The outermost call is the program's own line.
    let place = places(finding)
        .last()
        .map_or("an unknown line".into(), |(file, line)| {
            format!("{file}:{line}")
        });
    let size = finding.intended.as_ref().map_or(String::new(), |nearest| {
        format!(" of {} bytes", nearest.allocation.extent.size)
    });
    match &finding.subject {
        Subject::Access(access) => format!("{rule} in {} at {place}{size}", access.function),
        Subject::Kernel(run) => {
            let argument = run
                .argument
                .as_ref()
                .and_then(|argument| argument.name.as_deref())
                .map_or(String::new(), |name| format!(" through {name}"));
            format!("{rule} by {}{argument} at {place}{size}", run.kernel)
        }
        Subject::Call(call) => format!("{rule} by {} at {place}{size}", call.function),
        Subject::Leak => format!("{rule}, allocated at {place}{size}"),
        Subject::Failure(failure) => {
            let names: Vec<&str> = failure
                .kernels
                .iter()
                .map(|kernel| kernel.kernel.as_str())
                .collect();
            format!(
                "{rule} ({}) in {} at {place}",
                failure.error,
                names.join(" or ")
            )
        }
    }
}

/// Where in the program it happened, innermost first: the source of an access
/// and the calls through which it was inlined, the first frame of a call, or of
/// the launch of a kernel whose write was detected after it had ended, the
/// place of the allocation of a leak.
fn places(finding: &Finding) -> Vec<(&str, u32)> {
    let frame = |frame: &'_ model::HostFrame| frame.file.is_some() && frame.line.is_some();
    let frames = match &finding.subject {
        Subject::Access(access) => {
            let chain = access.source.iter().flat_map(SourceLocation::chain);
            return chain
                .map(|place| (file_name(&place.file), place.line))
                .collect();
        }
        Subject::Kernel(run) => run.launched_at.iter(),
        Subject::Call(call) => call.called_at.iter(),
        Subject::Failure(failure) => {
            if let Some(source) = failure.source() {
                return source
                    .chain()
                    .map(|place| (file_name(&place.file), place.line))
                    .collect();
            }
            failure.frames().iter()
        }
        Subject::Leak => finding
            .intended
            .as_ref()
            .map_or([].iter(), |leaked| leaked.allocated_at.iter()),
    };
    frames
        .filter(|known| frame(known))
        .take(1)
        .filter_map(|frame| Some((file_name(frame.file.as_deref()?), frame.line?)))
        .collect()
}

/// Judges the run of a bad twin: each finding must be one that is expected,
/// and each that is expected must be there.
pub fn judge_bad(expect: &[Expectation], outcome: &Outcome, report: Option<&Report>) -> Verdict {
    let report = match usable(outcome, report, EXIT_FINDINGS) {
        Ok(report) => report,
        Err(verdict) => return verdict,
    };
    let Some(first) = report.findings.first() else {
        return wrong("no finding".into());
    };
    for finding in &report.findings {
        let differences: Vec<String> = expect
            .iter()
            .map_while(|expect| difference(expect, finding))
            .collect();
        if differences.len() == expect.len() {
            return wrong(format!("{}: {}", describe(finding), differences.join("; ")));
        }
    }
    for expect in expect {
        let met = |finding| difference(expect, finding).is_none();
        if !report.findings.iter().any(met) {
            return wrong(format!("no {} beside {}", expect.rule, describe(first)));
        }
    }
    let mut all: Vec<String> = report.findings.iter().map(describe).collect();
    all.sort();
    all.dedup();
    Verdict {
        pass: true,
        text: all.join("; "),
    }
}

/// Judges the run of a bad twin whose bug cannot be detected without the
/// program's annotations: no finding, and everything checked.
pub fn judge_missed(found: &Verdict, outcome: &Outcome, report: Option<&Report>) -> Verdict {
    if found.pass {
        return wrong(format!("found without an annotation: {}", found.text));
    }
    match usable(outcome, report, 0) {
        Ok(_) => Verdict {
            pass: true,
            text: "missed, as it must be without an annotation".into(),
        },
        Err(verdict) => verdict,
    }
}

/// Judges what the summary says beside kernels, if nothing else is wrong.
pub fn judge_notes(notes: &[Note], report: Option<&Report>, verdict: Verdict) -> Verdict {
    let said = |note| report.is_some_and(|report| report.coverage.notes.contains_key(note));
    match notes.iter().find(|note| !said(note)) {
        Some(note) if verdict.pass => wrong(format!("its summary does not say {note:?}")),
        _ => verdict,
    }
}

/// Judges a program that is listed as judged wrong, for `reason`.
pub fn judge_listed(reason: &str, verdict: &Verdict) -> Verdict {
    if verdict.pass {
        wrong(format!(
            "judged right, but expected to be missing: {}",
            verdict.text
        ))
    } else {
        Verdict {
            pass: true,
            text: format!("missing, as expected: {reason}"),
        }
    }
}

/// Judges the run of a good program; `plain` is its output without checks.
/// `also`: the findings that it must give, and no other.
pub fn judge_good(
    also: &[Expectation],
    outcome: &Outcome,
    report: Option<&Report>,
    plain: &Outcome,
) -> Verdict {
    if plain.code() != Some(0) {
        return wrong(format!(
            "without checks it {}: {}",
            plain.describe(),
            tail(&plain.stderr)
        ));
    }
    let mut text = "clean".into();
    if also.is_empty() {
        let report = match usable(outcome, report, 0) {
            Ok(report) => report,
            Err(verdict) => return verdict,
        };
        if let Some(finding) = report.findings.first() {
            return wrong(format!("false alarm: {}", describe(finding)));
        }
    } else {
        let given = judge_bad(also, outcome, report);
        if !given.pass {
            return given;
        }
        text = given.text;
    }
    if outcome.stdout != plain.stdout {
        return wrong(format!(
            "its output differs from a run without checks: `{}`, not `{}`",
            outcome.stdout.trim(),
            plain.stdout.trim()
        ));
    }
    Verdict { pass: true, text }
}

/// The report, if the run ended as it must and everything was checked.
fn usable<'a>(
    outcome: &Outcome,
    report: Option<&'a Report>,
    code: i32,
) -> Result<&'a Report, Verdict> {
    let seen = report.map_or(String::new(), |report| {
        report.findings.first().map_or(String::new(), |finding| {
            format!("; first finding: {}", describe(finding))
        })
    });
    if outcome.code() != Some(code) {
        return Err(wrong(format!(
            "it {}, not with {code}{seen}: {}",
            outcome.describe(),
            tail(&outcome.stderr)
        )));
    }
    let Some(report) = report else {
        return Err(wrong("it left no report".into()));
    };
    if let Some(error) = report.errors.first() {
        return Err(wrong(format!("Ringfence failed: {error}")));
    }
    // A finding must not keep a program from its end.
    if report.program != ProgramEnd::Code(0) {
        return Err(wrong(format!(
            "the program ended with {:?}{seen}: {}",
            report.program,
            tail(&outcome.stderr)
        )));
    }
    // What a kernel that failed kept from running, or what failed itself.
    let has_failed = report.findings.iter().any(|one| one.failure().is_some());
    let is_excused =
        |reason: &UncheckedReason| has_failed && *reason == UncheckedReason::Unfinished;
    let mut launches = report.coverage.calls;
    for (kernel, coverage) in &report.coverage.kernels {
        launches += coverage.checked + coverage.proved + coverage.verified;
        let unfinished = coverage.unchecked.get(&UncheckedReason::Unfinished);
        launches += unfinished.filter(|_| has_failed).unwrap_or(&0);
        let mut others = coverage
            .unchecked
            .iter()
            .filter(|(reason, _)| !is_excused(reason));
        let unchecked: u64 = others.clone().map(|(_, count)| count).sum();
        if unchecked > coverage.verified
            && let Some((reason, count)) = others.next()
        {
            return Err(wrong(format!(
                "{count} launches of {kernel} ran unchecked: {reason:?}{seen}"
            )));
        }
    }
    if launches == 0 {
        return Err(wrong("nothing was checked".into()));
    }
    Ok(report)
}

/// Whether a kernel is named as the culprit. For a finding of the guard, this
/// may be any kernel that was running.
fn may_be(run: &KernelRun, name: &str) -> bool {
    run.kernel == name || run.watched.is_some() && run.others.iter().any(|other| other == name)
}

/// Whether a kernel had not ended when something was found.
fn was_running(finding: &Finding, name: &str) -> bool {
    let watched = finding.kernel_run().and_then(|run| run.watched.as_ref());
    watched.is_some_and(|watched| {
        let mut running = watched.running.iter();
        running.any(|kernel| kernel.kernel == name && kernel.unfinished == Some(true))
    })
}

fn wrong_culprit(culprit: &Culprit, finding: &Finding) -> Option<String> {
    match (culprit, &finding.subject) {
        (Culprit::Function(part), Subject::Access(access)) if access.function.contains(part) => {
            None
        }
        (Culprit::Call(part), Subject::Call(call)) if call.function.contains(part) => None,
        (Culprit::Kernel { name, argument }, Subject::Kernel(run)) if may_be(run, name) => {
            // CUDA's have no names.
            let found = run.argument.as_ref().map(|found| {
                found
                    .name
                    .clone()
                    .unwrap_or_else(|| found.index.to_string())
            });
            (found != *argument).then(|| format!("expected the argument {argument:?}"))
        }
        (
            Culprit::Kernel {
                name,
                argument: None,
            },
            Subject::Failure(failure),
        ) if failure.kernels.iter().any(|kernel| kernel.kernel == *name) => None,
        (Culprit::Leak, Subject::Leak) => None,
        (Culprit::Kernel { name, .. }, _) => Some(format!("expected the kernel {name}")),
        (Culprit::Function(part), _) => Some(format!("expected an access in {part}")),
        (Culprit::Call(part), _) => Some(format!("expected a call of {part}")),
        (Culprit::Leak, _) => Some("expected a leak".into()),
    }
}

/// Findings about lifetimes name the allocation and the free.
fn wrong_lifetime(finding: &Finding) -> Option<String> {
    let (allocated, freed) = match finding.rule {
        Rule::UseAfterFree | Rule::DoubleFree => (true, true),
        Rule::MemoryLeak => (true, false),
        _ => return None,
    };
    let Some(NearestAllocation {
        allocation,
        allocated_at,
        freed_at,
        ..
    }) = &finding.intended
    else {
        return Some("it names no allocation".into());
    };
    // What kernels allocate and free has no host call.
    if allocation.kind == AllocationKind::DeviceHeap {
        return None;
    }
    if allocated && allocated_at.is_empty() {
        return Some("it does not say where the memory was allocated".into());
    }
    if freed && freed_at.is_empty() {
        return Some("it does not say where the memory was freed".into());
    }
    None
}

/// Whether a finding is one of those that are expected.
pub fn is_expected(expect: &[Expectation], finding: &Finding) -> bool {
    expect
        .iter()
        .any(|expect| difference(expect, finding).is_none())
}

fn difference(expect: &Expectation, finding: &Finding) -> Option<String> {
    if finding.rule.id() != expect.rule {
        return Some(format!("expected {}", expect.rule));
    }
    if let Some(difference) = wrong_culprit(&expect.culprit, finding) {
        return Some(difference);
    }
    if let Some(difference) = wrong_lifetime(finding) {
        return Some(difference);
    }
    // Which buffer it was follows from the address that could not be accessed.
    let has_address = finding.failure().is_none() || finding.address.0 != 0;
    let is_freed = |near: &NearestAllocation| near.freed || !near.freed_at.is_empty();
    if expect.live && has_address && finding.intended.as_ref().is_none_or(is_freed) {
        return Some("expected an allocation that was not freed".into());
    }
    if let Some(error) = expect.error
        && finding
            .failure()
            .is_none_or(|failure| failure.code != error)
    {
        return Some(format!("expected the error {error}"));
    }
    if let Some(running) = &expect.running
        && !was_running(finding, running)
    {
        return Some(format!("expected it to be detected while {running} ran"));
    }
    let places = places(finding);
    if places.is_empty() {
        return Some("it names no source line".into());
    }
    let here = |(file, line): &(String, u32)| places.contains(&(file.as_str(), *line));
    if !expect.places.iter().any(here) {
        return Some(format!(
            "expected it at {}:{}",
            expect.places[0].0, expect.places[0].1
        ));
    }
    if let Some(at) = expect.at.filter(|_| has_address) {
        let found = finding
            .intended
            .as_ref()
            .and_then(|nearest| match nearest.relation {
                Relation::After(bytes) => i64::try_from(bytes).ok(),
                Relation::Before(bytes) => i64::try_from(bytes).ok().map(|bytes| -bytes),
                Relation::Inside(_) => None,
            });
        if found != Some(at) {
            return Some(format!(
                "expected it {at} bytes from the buffer, not {found:?}"
            ));
        }
    }
    if let Some(size) = expect.size.filter(|_| has_address) {
        let found = finding
            .intended
            .as_ref()
            .map(|nearest| nearest.allocation.extent.size);
        if found != Some(size) {
            return Some(format!("expected an allocation of {size} bytes"));
        }
    }
    None
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The last lines of an error output, in one.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::*;
    use std::os::unix::process::ExitStatusExt;

    fn outcome(code: i32, stdout: &str) -> Outcome {
        Outcome {
            status: Some(std::process::ExitStatus::from_raw(code << 8)),
            stdout: stdout.into(),
            stderr: String::new(),
            elapsed: std::time::Duration::ZERO,
        }
    }

    fn finding() -> Finding {
        Finding {
            rule: Rule::GlobalOutOfBoundsRead,
            address: DeviceAddress(0x1400),
            subject: Subject::Access(DeviceAccess {
                kind: AccessKind::Read,
                space: Space::Global,
                width: 4,
                width_at_run_time: false,
                alignment: None,
                kernel: "_Z4walkPi".into(),
                function: "_Z4walkPi".into(),
                source: Some(SourceLocation {
                    file: "/src/walk.cu".into(),
                    line: 9,
                    column: 1,
                    inlined_at: None,
                }),
                ptx_line: 40,
                instruction: "ld.global.u32 %r1, [%rd1];".into(),
                thread: ThreadCoordinates {
                    block: [0; 3],
                    thread: [0; 3],
                },
                launch: 1,
                launched_at: vec![],
            }),
            intended: Some(NearestAllocation {
                allocation: Allocation {
                    extent: Extent {
                        base: DeviceAddress(0x1000),
                        size: 1024,
                    },
                    kind: AllocationKind::Device,
                    serial: 1,
                    name: None,
                },
                relation: Relation::After(0),
                allocated_at: vec![],
                freed: false,
                freed_at: vec![],
            }),
            nearest: None,
            occurrences: 1,
        }
    }

    fn access(finding: &mut Finding) -> &mut DeviceAccess {
        match &mut finding.subject {
            Subject::Access(access) => access,
            other => unreachable!("no access: {other:?}"),
        }
    }

    fn report(findings: Vec<Finding>) -> Report {
        let mut coverage = Coverage::default();
        coverage.kernels.insert(
            "_Z4walkPi".into(),
            KernelCoverage {
                checked: 1,
                ..Default::default()
            },
        );
        Report {
            program: ProgramEnd::Code(0),
            findings,
            coverage,
            errors: vec![],
            processes: vec![],
        }
    }

    fn expectation() -> [Expectation; 1] {
        [Expectation {
            rule: "global-out-of-bounds-read".into(),
            culprit: Culprit::Function("walk".into()),
            size: Some(1024),
            at: None,
            running: None,
            live: false,
            error: None,
            places: vec![("walk.cu".into(), 9)],
        }]
    }

    #[test]
    fn the_expected_finding_passes_and_every_other_fails() {
        let bad = outcome(EXIT_FINDINGS, "");
        let verdict = judge_bad(&expectation(), &bad, Some(&report(vec![finding()])));
        assert_eq!(
            verdict,
            Verdict {
                pass: true,
                text: "global-out-of-bounds-read in _Z4walkPi at walk.cu:9 of 1024 bytes".into()
            }
        );
        let changes: [fn(&mut Finding); 5] = [
            |f| f.rule = Rule::InvalidPointer,
            |f| access(f).function = "other".into(),
            |f| access(f).source = None,
            |f| access(f).source.as_mut().unwrap().line = 8,
            |f| f.intended.as_mut().unwrap().allocation.extent.size = 1020,
        ];
        for change in changes {
            let mut other = finding();
            change(&mut other);
            for findings in [vec![other.clone()], vec![finding(), other]] {
                assert!(!judge_bad(&expectation(), &bad, Some(&report(findings))).pass);
            }
        }
        assert!(!judge_bad(&expectation(), &bad, Some(&report(vec![]))).pass);
        assert!(!judge_bad(&expectation(), &bad, None).pass);
        let mut crashed = report(vec![finding()]);
        crashed.program = ProgramEnd::Signal(11);
        assert!(!judge_bad(&expectation(), &bad, Some(&crashed)).pass);
        assert!(
            !judge_bad(
                &expectation(),
                &outcome(0, ""),
                Some(&report(vec![finding()]))
            )
            .pass
        );
    }

    #[test]
    fn calls_and_leaks_are_judged_by_their_first_known_frame() {
        let frame = |function: &str, line| HostFrame {
            function: function.into(),
            file: Some("/src/copy.cu".into()),
            line,
            object: None,
        };
        let frames = vec![
            frame("start", None),
            frame("upload", Some(7)),
            frame("main", Some(9)),
        ];
        let mut copy = finding();
        copy.rule = Rule::CopyOutOfBoundsWrite;
        copy.subject = Subject::Call(HostCall {
            function: "cuMemcpyHtoD_v2".into(),
            detail: String::new(),
            width: Some(8),
            called_at: frames.clone(),
        });
        let mut leak = finding();
        leak.rule = Rule::MemoryLeak;
        leak.subject = Subject::Leak;
        leak.intended.as_mut().unwrap().allocated_at = frames;
        for (found, culprit, text) in [
            (
                copy,
                Culprit::Call("cuMemcpyHtoD".into()),
                "copy-out-of-bounds-write by cuMemcpyHtoD_v2 at copy.cu:7 of 1024 bytes",
            ),
            (
                leak,
                Culprit::Leak,
                "memory-leak, allocated at copy.cu:7 of 1024 bytes",
            ),
        ] {
            let mut expected = Expectation {
                rule: found.rule.id().into(),
                culprit,
                size: Some(1024),
                at: None,
                running: None,
                live: false,
                error: None,
                places: vec![("copy.cu".into(), 7)],
            };
            let judge = |expected: &Expectation| {
                let bad = outcome(EXIT_FINDINGS, "");
                judge_bad(
                    std::slice::from_ref(expected),
                    &bad,
                    Some(&report(vec![found.clone()])),
                )
            };
            assert_eq!(judge(&expected).text, text);
            assert!(judge(&expected).pass);
            expected.places[0].1 = 9;
            assert!(!judge(&expected).pass);
            expected.places[0].1 = 7;
            expected.culprit = Culprit::Function("upload".into());
            assert!(!judge(&expected).pass);
        }
    }

    #[test]
    fn each_finding_needs_an_expectation_and_each_expectation_a_finding() {
        let bad = outcome(EXIT_FINDINGS, "");
        let mut read = finding();
        read.rule = Rule::GlobalOutOfBoundsWrite;
        let [one] = expectation();
        let mut other = one.clone();
        other.rule = "global-out-of-bounds-write".into();
        let both = report(vec![finding(), read]);
        assert!(judge_bad(&[one.clone(), other.clone()], &bad, Some(&both)).pass);
        assert!(!judge_bad(std::slice::from_ref(&one), &bad, Some(&both)).pass);
        let single = report(vec![finding()]);
        assert!(!judge_bad(&[one, other], &bad, Some(&single)).pass);
    }

    #[test]
    fn use_after_free_must_name_both_stacks() {
        let bad = outcome(EXIT_FINDINGS, "");
        let frame = HostFrame {
            function: "main".into(),
            file: None,
            line: None,
            object: None,
        };
        let mut late = finding();
        late.rule = Rule::UseAfterFree;
        let mut expect = expectation();
        expect[0].rule = "use-after-free".into();
        let judge =
            |finding: &Finding| judge_bad(&expect, &bad, Some(&report(vec![finding.clone()]))).pass;
        assert!(!judge(&late));
        let freed = late.intended.as_mut().unwrap();
        freed.allocated_at.push(frame.clone());
        assert!(!judge(&late));
        late.intended.as_mut().unwrap().freed_at.push(frame);
        assert!(judge(&late));
    }

    #[test]
    fn a_bug_that_needs_an_annotation_must_be_missed_without() {
        let clean = outcome(0, "");
        let missed = judge_bad(&expectation(), &clean, Some(&report(vec![])));
        assert!(judge_missed(&missed, &clean, Some(&report(vec![]))).pass);
        let bad = outcome(EXIT_FINDINGS, "");
        let found = judge_bad(&expectation(), &bad, Some(&report(vec![finding()])));
        assert!(!judge_missed(&found, &bad, Some(&report(vec![finding()]))).pass);
        // Nothing found because nothing was checked is no miss.
        let mut unchecked = report(vec![]);
        unchecked.coverage.kernels.clear();
        assert!(!judge_missed(&missed, &clean, Some(&unchecked)).pass);
    }

    #[test]
    fn what_is_listed_fails_once_it_is_right() {
        let right = Verdict {
            pass: true,
            text: "x".into(),
        };
        assert!(!judge_listed("why", &right).pass);
        assert!(judge_listed("why", &wrong("x".into())).pass);
    }

    #[test]
    fn a_good_program_must_be_clean_checked_and_unchanged() {
        let plain = outcome(0, "sum 3\n");
        assert!(judge_good(&[], &outcome(0, "sum 3\n"), Some(&report(vec![])), &plain).pass);
        assert!(!judge_good(&[], &outcome(0, "sum 4\n"), Some(&report(vec![])), &plain).pass);
        assert!(
            !judge_good(
                &[],
                &outcome(0, "sum 3\n"),
                Some(&report(vec![finding()])),
                &plain
            )
            .pass
        );
        assert!(!judge_good(&[], &outcome(0, "sum 3\n"), None, &plain).pass);
        assert!(
            !judge_good(
                &[],
                &outcome(0, "sum 3\n"),
                Some(&report(vec![])),
                &outcome(1, "sum 3\n")
            )
            .pass
        );
        let mut unchecked = report(vec![]);
        unchecked.coverage.kernels.clear();
        assert!(!judge_good(&[], &outcome(0, "sum 3\n"), Some(&unchecked), &plain).pass);
        let mut partly = report(vec![]);
        let kernel = partly.coverage.kernels.get_mut("_Z4walkPi").unwrap();
        kernel.unchecked.insert(UncheckedReason::LaunchPath, 1);
        assert!(!judge_good(&[], &outcome(0, "sum 3\n"), Some(&partly), &plain).pass);
        let mut failed = report(vec![]);
        failed.errors.push("no ring".into());
        assert!(!judge_good(&[], &outcome(0, "sum 3\n"), Some(&failed), &plain).pass);
    }
}
