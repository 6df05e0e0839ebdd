//! The one line that ends every run.

use crate::demangle;
use crate::text::{count, thousands};
use model::{
    BareReason, CanaryCoverage, Coverage, ElsewhereReason, KernelCoverage, Note, PagesCoverage,
    ShadowCoverage, UncheckedReason,
};
use std::collections::BTreeMap;

/// Names that the summary line spells out; the rest is counted.
const NAMES: usize = 3;
/// Characters of a kernel's name that the summary line shows.
const NAME_LENGTH: usize = 40;

/// What the summary line counts.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Distinct findings.
    pub findings: u64,
    /// Records merged into them.
    pub occurrences: u64,
    /// Findings that a file of suppressions names; not among the above.
    pub suppressed: u64,
    /// Records merged into those.
    pub suppressed_occurrences: u64,
    /// Entries of that file which suppressed nothing.
    pub unused_suppressions: Vec<String>,
    /// Coverage of all processes together.
    pub coverage: Coverage,
    /// Processes that ended without saying what they had checked.
    pub incomplete: Vec<u32>,
}

impl Totals {
    /// Launches that ran with checks, were proved in bounds, or were followed
    /// by a canary scan.
    pub fn covered_launches(&self) -> u64 {
        self.coverage
            .kernels
            .values()
            .map(|kernel| kernel.checked + kernel.proved + kernel.verified)
            .sum()
    }
}

/// `ringfence: no findings; kernels: 3 checked, 0 proved, 1 unchecked (…)`.
/// One line without a newline.
pub fn summary(totals: &Totals) -> String {
    let mut line = String::from("ringfence: ");
    if totals.findings == 0 {
        line.push_str("no findings");
    } else {
        line.push_str(&count(totals.findings, "finding"));
        if totals.occurrences > totals.findings {
            line.push_str(&format!(" ({})", count(totals.occurrences, "occurrence")));
        }
    }
    if totals.suppressed > 0 {
        line.push_str(&format!("; {} suppressed", totals.suppressed));
        if totals.suppressed_occurrences > totals.suppressed {
            let occurrences = count(totals.suppressed_occurrences, "occurrence");
            line.push_str(&format!(" ({occurrences})"));
        }
    }
    let kernels = &totals.coverage.kernels;
    let number = |test: &dyn Fn(&KernelCoverage) -> bool| {
        kernels.values().filter(|kernel| test(kernel)).count()
    };
    let checked = number(&|kernel| kernel.checked > 0);
    let proved = number(&|kernel| kernel.checked == 0 && kernel.proved > 0);
    let unchecked: Vec<String> = kernels
        .iter()
        .filter(|(_, kernel)| !kernel.unchecked.is_empty())
        .map(|(name, kernel)| format!("{}: {}", short(name), reasons(kernel)))
        .collect();
    line.push_str(&format!(
        "; kernels: {checked} checked, {proved} proved, {} unchecked",
        unchecked.len()
    ));
    line.push_str(&list(&unchecked));
    let partly: Vec<String> = kernels
        .iter()
        .filter(|(_, kernel)| kernel.checked > 0 && !kernel.unchecked_sites.is_empty())
        .map(|(name, kernel)| {
            let opcodes: Vec<&str> = kernel
                .unchecked_sites
                .keys()
                .map(String::as_str)
                .take(NAMES)
                .collect();
            format!("{}: {}", short(name), opcodes.join(", "))
        })
        .collect();
    if !partly.is_empty() {
        line.push_str(&format!(
            "; {} not fully covered{}",
            partly.len(),
            list(&partly)
        ));
    }
    if totals.coverage.calls > 0 {
        let calls = thousands(totals.coverage.calls);
        line.push_str(&format!("; host calls: {calls} checked"));
    }
    if !totals.unused_suppressions.is_empty() {
        let unused = &totals.unused_suppressions;
        line.push_str(&format!(
            "; {} matched nothing{}",
            count(unused.len() as u64, "suppression"),
            list(unused)
        ));
    }
    // Of launches that bounds have checked there is nothing to say.
    let canaries = totals.coverage.canaries.as_ref();
    if let Some(canaries) = canaries.filter(|c| c.latency_launches > 0 || c.smaller > 0) {
        let verified: u64 = kernels.values().map(|kernel| kernel.verified).sum();
        line.push_str(&canary_line(canaries, verified));
    }
    if let Some(shadow) = &totals.coverage.shadow {
        line.push_str(&shadow_line(shadow));
    }
    if let Some(pages) = &totals.coverage.pages {
        line.push_str(&pages_line(pages));
    }
    if totals.coverage.dropped_records > 0 {
        line.push_str(&format!(
            "; {} more than the ring could hold",
            count(totals.coverage.dropped_records, "record")
        ));
    }
    let notes = totals.coverage.notes.iter();
    line.extend(notes.map(|(note, number)| format!("; {}", said(*note, *number))));
    if !totals.incomplete.is_empty() {
        let processes: Vec<String> = totals.incomplete.iter().map(u32::to_string).collect();
        let plural = if processes.len() == 1 { "" } else { "es" };
        line.push_str(&format!(
            "; process{plural} {} ended early: the counts are those of the last synchronization",
            processes.join(", ")
        ));
    }
    line
}

/// `; canaries: 12 buffers, verified 3 times, at most 5 launches and 40 µs late`.
fn canary_line(canaries: &CanaryCoverage, verified: u64) -> String {
    let mut line = format!("; canaries: {}", count(canaries.buffers, "buffer"));
    if canaries.smaller > 0 {
        line.push_str(&format!(
            " ({} with smaller ones, as memory ran out)",
            canaries.smaller
        ));
    }
    if canaries.checks > 0 {
        line.push_str(&format!(", verified {}", count(canaries.checks, "time")));
    }
    if canaries.latency_launches > 0 {
        line.push_str(&format!(
            ", at most {} and {} µs late",
            launches(canaries.latency_launches),
            canaries.latency_microseconds
        ));
    }
    if verified > 0 {
        line.push_str(&format!(
            ", also after {} without checks",
            launches(verified)
        ));
    }
    if !canaries.bare.is_empty() {
        line.push_str(&format!("; without canaries: {}", bare(&canaries.bare)));
    }
    line
}

/// `; shadow memory: 12 buffers; not covered: 2 of the host`.
fn shadow_line(shadow: &ShadowCoverage) -> String {
    let mut line = format!("; shadow memory: {}", count(shadow.buffers, "buffer"));
    if !shadow.bare.is_empty() {
        let bare = bare(&shadow.bare);
        line.push_str(&format!("; not covered: {bare}"));
    }
    line
}

/// `; pages: 7 buffers end at unmapped pages, 2 share pages; 4.0 MiB of memory for
/// 1.2 MiB of buffers`.
fn pages_line(pages: &PagesCoverage) -> String {
    let mut line = format!(
        "; pages: {} at unmapped pages",
        count(pages.exact, "buffer")
    );
    if pages.shared > 0 {
        line.push_str(&format!(", {} sharing pages", thousands(pages.shared)));
    }
    if pages.memory > 0 {
        let (memory, bytes) = (mebibytes(pages.memory), mebibytes(pages.bytes));
        line.push_str(&format!(", {memory} MiB of memory for {bytes} MiB"));
    }
    if pages.seed != 0 {
        line.push_str(&format!(", a sample by --seed {}", pages.seed));
    }
    if pages.reused > 0 {
        let reused = count(pages.reused, "buffer");
        line.push_str(&format!(", addresses used again for {reused}"));
    }
    let elsewhere = pages.elsewhere.iter();
    let elsewhere: Vec<String> = elsewhere
        .map(|(reason, buffers)| format!("{buffers} {}", describe_elsewhere(*reason)))
        .collect();
    if !elsewhere.is_empty() {
        line.push_str(&format!(
            "; not at unmapped pages: {}",
            elsewhere.join(", ")
        ));
    }
    line
}

fn bare(buffers: &BTreeMap<BareReason, u64>) -> String {
    let list: Vec<String> = buffers
        .iter()
        .map(|(reason, number)| format!("{number} {}", describe_bare(*reason)))
        .collect();
    list.join(", ")
}

/// With one digit after the point.
fn mebibytes(bytes: u64) -> String {
    let tenths = (bytes * 10).div_ceil(1 << 20);
    format!("{}.{}", thousands(tenths / 10), tenths % 10)
}

fn describe_elsewhere(reason: ElsewhereReason) -> &'static str {
    match reason {
        ElsewhereReason::OutOfMemory => "because memory was short",
        ElsewhereReason::Managed => "managed",
        ElsewhereReason::Pool => "of pools that the program made",
        ElsewhereReason::Foreign => "mapped or imported",
        ElsewhereReason::Captured => "allocated during a capture",
        ElsewhereReason::Refused => "refused by the driver",
        ElsewhereReason::NotExported => "that could not be exported",
    }
}

fn launches(number: u64) -> String {
    match number {
        1 => "1 launch".into(),
        _ => format!("{} launches", thousands(number)),
    }
}

fn describe_bare(reason: BareReason) -> &'static str {
    match reason {
        BareReason::OutOfMemory => "because memory was short",
        BareReason::Host => "of the host",
        BareReason::Foreign => "mapped or imported",
        BareReason::Graph => "of graphs",
        BareReason::Unprotected => "made before there were any",
        BareReason::InStreamOrder => "allocated in stream order",
        BareReason::FarAway => "too far from the others",
    }
}

/// A kernel's name without its parameters, cut to a length.
fn short(name: &str) -> String {
    let full = demangle(name);
    let head = full
        .split('(')
        .next()
        .filter(|head| !head.is_empty())
        .unwrap_or(&full);
    // The names of templates begin with return types.
    let head = head.strip_prefix("void ").unwrap_or(head);
    if head.chars().count() <= NAME_LENGTH {
        return head.to_string();
    }
    head.chars().take(NAME_LENGTH - 1).chain(['…']).collect()
}

pub(crate) fn reasons(kernel: &KernelCoverage) -> String {
    let words: Vec<&str> = kernel
        .unchecked
        .keys()
        .map(|reason| describe(*reason))
        .collect();
    let launches: u64 = kernel.unchecked.values().sum();
    let all = launches + kernel.checked + kernel.proved;
    if launches == all {
        words.join(", ")
    } else {
        format!("{}, {launches} of {all} launches", words.join(", "))
    }
}

fn describe(reason: UncheckedReason) -> &'static str {
    match reason {
        UncheckedReason::NoPtx => "no PTX",
        UncheckedReason::NotInstrumentable => "PTX not understood",
        UncheckedReason::Rejected => "instrumented module refused by the driver",
        UncheckedReason::LaunchPath => "launched by a call that is not hooked",
        UncheckedReason::Registers => "block too large for the checked build",
        UncheckedReason::DeviceRuntime => "its module launches kernels from the device",
        UncheckedReason::NoCheckedSite => "none of its accesses can be checked",
        UncheckedReason::Excluded => "excluded",
        UncheckedReason::Failed => "Ringfence failed",
        UncheckedReason::Unfinished => "not ended when the program did, or failed on the device",
    }
}

fn said(note: Note, number: u64) -> String {
    let launches = || count(number, "launch");
    match note {
        Note::CanariesByHost => format!("canaries of {} verified by the host", launches()),
        Note::CanariesByDevice => format!("canaries of {} verified by the device", launches()),
        Note::NotWatched => format!(
            "{} filled the device, and were scanned after they had ended",
            launches()
        ),
        Note::HeldByFailure => format!(
            "{} could not be freed after a kernel had failed",
            count(number, "allocation")
        ),
        Note::ThreadsEnded => format!(
            "{} in loops that did not end after a failed check",
            match number {
                1 => "1 thread was ended".into(),
                _ => format!("{} were ended", count(number, "thread")),
            }
        ),
        Note::NoDeviceChecker => "no kernel that verifies canaries could be built".into(),
        Note::SmallerCanaries => format!(
            "{} with smaller canaries, because memory was short",
            count(number, "buffer")
        ),
    }
}

fn list(items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let mut text = items
        .iter()
        .take(NAMES)
        .cloned()
        .collect::<Vec<_>>()
        .join("; ");
    if items.len() > NAMES {
        text.push_str(&format!("; and {} more", items.len() - NAMES));
    }
    format!(" ({text})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn kernel(checked: u64, unchecked: &[(UncheckedReason, u64)]) -> KernelCoverage {
        KernelCoverage {
            checked,
            unchecked: unchecked.iter().copied().collect(),
            ..KernelCoverage::default()
        }
    }

    #[test]
    fn a_clean_run() {
        let kernels = BTreeMap::from([
            ("_Z5scalePfi".to_string(), kernel(3, &[])),
            ("_Z3addPf".to_string(), kernel(1, &[])),
            (
                "gemm".to_string(),
                kernel(0, &[(UncheckedReason::NoPtx, 7)]),
            ),
        ]);
        let totals = Totals {
            coverage: Coverage {
                kernels,
                ..Coverage::default()
            },
            ..Totals::default()
        };
        insta::assert_snapshot!(summary(&totals));
        assert_eq!(totals.covered_launches(), 4);
    }

    #[test]
    fn everything_that_can_be_less_than_perfect_is_said() {
        let mut partly = kernel(2, &[(UncheckedReason::Excluded, 1)]);
        partly.unchecked_sites.insert("cp.async.bulk".into(), 3);
        let mut kernels = BTreeMap::from([("_Z5scalePfi".to_string(), partly)]);
        for index in 0..5 {
            let name = format!("kernel_with_a_name_that_goes_on_and_on_and_on_{index}");
            kernels.insert(name, kernel(0, &[(UncheckedReason::LaunchPath, 1)]));
        }
        let coverage = Coverage {
            kernels,
            dropped_records: 12_345,
            calls: 1_234,
            notes: BTreeMap::from([
                (Note::CanariesByHost, 7),
                (Note::CanariesByDevice, 900),
                (Note::NoDeviceChecker, 1),
                (Note::SmallerCanaries, 2),
                (Note::NotWatched, 4),
                (Note::HeldByFailure, 3),
                (Note::ThreadsEnded, 32),
            ]),
            shadow: None,
            canaries: None,
            pages: None,
        };
        let totals = Totals {
            findings: 1,
            occurrences: 4096,
            suppressed: 2,
            suppressed_occurrences: 30,
            unused_suppressions: vec!["old stencil (line 3)".into()],
            coverage,
            incomplete: vec![42],
        };
        insta::assert_snapshot!(summary(&totals));
    }

    #[test]
    fn pages_are_said_with_what_they_cost() {
        let pages = PagesCoverage {
            exact: 1200,
            shared: 2,
            bytes: 3 << 20,
            memory: (1026 << 20) - 1,
            reused: 1,
            elsewhere: BTreeMap::from([(ElsewhereReason::Managed, 3)]),
            seed: 7,
        };
        assert_eq!(
            pages_line(&pages),
            "; pages: 1,200 buffers at unmapped pages, 2 sharing pages, 1,026.0 MiB of memory for 3.0 MiB, a sample by \
             --seed 7, addresses used again for 1 buffer; not at unmapped pages: 3 managed"
        );
        let none = PagesCoverage::default();
        assert_eq!(pages_line(&none), "; pages: 0 buffers at unmapped pages");
    }

    #[test]
    fn canaries_are_said_with_what_they_cannot_do() {
        let canaries = CanaryCoverage {
            buffers: 1200,
            smaller: 2,
            bare: BTreeMap::from([(BareReason::Host, 3)]),
            checks: 1,
            latency_launches: 17,
            latency_microseconds: 850,
            ..CanaryCoverage::default()
        };
        assert_eq!(
            canary_line(&canaries, 40),
            "; canaries: 1,200 buffers (2 with smaller ones, as memory ran out), verified 1 time, at most 17 launches and \
             850 µs late, also after 40 launches without checks; without canaries: 3 of the host"
        );
        let none = CanaryCoverage {
            buffers: 1,
            ..CanaryCoverage::default()
        };
        assert_eq!(canary_line(&none, 0), "; canaries: 1 buffer");
    }
}
