//! What a checked process writes for the command: JSON lines, one event each.
//!
//! A process may die at any moment, so every line is complete in itself,
//! findings are written when they are found, and coverage is written again and
//! again, the last one marked complete.

use model::{CanaryCoverage, Coverage, DeviceKind, Finding, PagesCoverage, ShadowCoverage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One line of `<session>/<pid>.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The library was initialized in a process.
    Start {
        /// Its process id.
        pid: u32,
        /// Path of its executable.
        program: String,
        /// Which device it runs on.
        device: DeviceKind,
        /// The device's name.
        device_name: String,
        /// Driver version, 13000 for CUDA 13.0.
        driver_version: u32,
    },
    /// A finding, at its first occurrence.
    Finding {
        /// Number within the process, from 1.
        id: u64,
        /// The finding.
        finding: Box<Finding>,
        /// The entry that suppresses it, if one does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        suppressed: Option<String>,
    },
    /// How often a finding occurred, at the end.
    Occurrences {
        /// Number within the process.
        id: u64,
        /// Records merged into it.
        occurrences: u64,
    },
    /// What was checked so far.
    Coverage {
        /// The counters.
        coverage: Box<Coverage>,
        /// Whether the process ended normally and this is final.
        complete: bool,
    },
    /// Ringfence could not do something; the program runs on.
    Error {
        /// What, where, what to do.
        message: String,
        /// Whether nothing can be checked from now on.
        fatal: bool,
    },
}

/// A process of a session, put together from its events.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    /// Its process id.
    pub pid: u32,
    /// Path of its executable.
    pub program: String,
    /// Which device it ran on.
    pub device: DeviceKind,
    /// The device's name.
    pub device_name: String,
    /// Driver version.
    pub driver_version: u32,
    /// Its findings, in the order they were found.
    pub findings: Vec<Finding>,
    /// Findings that are known, each with the entry that suppresses it.
    pub suppressed: Vec<(String, Finding)>,
    /// What was checked, as far as the process reported it.
    pub coverage: Coverage,
    /// Whether the process ended in order.
    pub complete: bool,
    /// What went wrong in Ringfence.
    pub errors: Vec<String>,
    /// Whether one of the errors ended all checking in it.
    pub failed: bool,
}

/// Where a finding of a process is kept.
#[derive(Clone, Copy)]
enum Place {
    Finding(usize),
    Suppressed(usize),
}

/// Puts the processes of one session file together. A line that does not
/// parse, as a killed process leaves at the end, is skipped. A process that
/// replaced itself (exec) starts anew, so a file can hold several.
pub fn read_processes(text: &str) -> Vec<Process> {
    let mut processes: Vec<Process> = Vec::new();
    // By the finding's number in the process.
    let mut places: BTreeMap<u64, Place> = BTreeMap::new();
    for event in text
        .lines()
        .filter_map(|line| serde_json::from_str::<Event>(line).ok())
    {
        if let Event::Start {
            pid,
            program,
            device,
            device_name,
            driver_version,
        } = event
        {
            processes.push(Process {
                pid,
                program,
                device,
                device_name,
                driver_version,
                findings: Vec::new(),
                suppressed: Vec::new(),
                coverage: Coverage::default(),
                complete: false,
                errors: Vec::new(),
                failed: false,
            });
            places.clear();
            continue;
        }
        let Some(process) = processes.last_mut() else {
            continue;
        };
        match event {
            Event::Start { .. } => {}
            Event::Finding {
                id,
                finding,
                suppressed: None,
            } => {
                places.insert(id, Place::Finding(process.findings.len()));
                process.findings.push(*finding);
            }
            Event::Finding {
                id,
                finding,
                suppressed: Some(entry),
            } => {
                places.insert(id, Place::Suppressed(process.suppressed.len()));
                process.suppressed.push((entry, *finding));
            }
            Event::Occurrences { id, occurrences } => {
                let finding = match places.get(&id) {
                    Some(Place::Finding(index)) => process.findings.get_mut(*index),
                    Some(Place::Suppressed(index)) => process
                        .suppressed
                        .get_mut(*index)
                        .map(|(_, finding)| finding),
                    None => None,
                };
                if let Some(finding) = finding {
                    finding.occurrences = occurrences;
                }
            }
            Event::Coverage { coverage, complete } => {
                process.coverage = *coverage;
                process.complete |= complete;
            }
            Event::Error { message, fatal } => {
                process.errors.push(message);
                process.failed |= fatal;
            }
        }
    }
    processes
}

/// Adds the coverage of another process.
pub fn merge_coverage(into: &mut Coverage, from: &Coverage) {
    into.dropped_records += from.dropped_records;
    into.calls += from.calls;
    for (note, number) in &from.notes {
        *into.notes.entry(*note).or_default() += number;
    }
    if let Some(from) = &from.canaries {
        merge_canaries(into.canaries.get_or_insert_default(), from);
    }
    if let Some(from) = &from.shadow {
        merge_shadow(into.shadow.get_or_insert_default(), from);
    }
    if let Some(from) = &from.pages {
        merge_pages(into.pages.get_or_insert_default(), from);
    }
    for (name, kernel) in &from.kernels {
        let merged = into.kernels.entry(name.clone()).or_default();
        merged.proved += kernel.proved;
        merged.checked += kernel.checked;
        merged.residual += kernel.residual;
        merged.verified += kernel.verified;
        for (reason, launches) in &kernel.unchecked {
            *merged.unchecked.entry(*reason).or_default() += launches;
        }
        // Sites belong to the kernel's text: the same kernel in two processes
        // has them once.
        merged.exact_sites = merged.exact_sites.max(kernel.exact_sites);
        merged.weak_sites = merged.weak_sites.max(kernel.weak_sites);
        merged.calls_without_bounds = merged.calls_without_bounds.max(kernel.calls_without_bounds);
        for (opcode, sites) in &kernel.unchecked_sites {
            let known = merged.unchecked_sites.entry(opcode.clone()).or_default();
            *known = (*known).max(*sites);
        }
    }
}

fn merge_shadow(into: &mut ShadowCoverage, from: &ShadowCoverage) {
    into.buffers += from.buffers;
    into.memory += from.memory;
    into.bytes += from.bytes;
    into.shadow += from.shadow;
    for (reason, buffers) in &from.bare {
        *into.bare.entry(*reason).or_default() += buffers;
    }
}

fn merge_pages(into: &mut PagesCoverage, from: &PagesCoverage) {
    into.exact += from.exact;
    into.shared += from.shared;
    into.bytes += from.bytes;
    into.memory += from.memory;
    into.reused += from.reused;
    for (reason, buffers) in &from.elsewhere {
        *into.elsewhere.entry(*reason).or_default() += buffers;
    }
    // Each process has its own; that of one is enough to repeat that one.
    if into.seed == 0 {
        into.seed = from.seed;
    }
}

fn merge_canaries(into: &mut CanaryCoverage, from: &CanaryCoverage) {
    into.buffers += from.buffers;
    into.bytes += from.bytes;
    into.smaller += from.smaller;
    for (reason, buffers) in &from.bare {
        *into.bare.entry(*reason).or_default() += buffers;
    }
    into.checks += from.checks;
    into.nanoseconds += from.nanoseconds;
    into.latency_launches = into.latency_launches.max(from.latency_launches);
    into.latency_microseconds = into.latency_microseconds.max(from.latency_microseconds);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::tests::sample_finding;

    fn line(event: &Event) -> String {
        serde_json::to_string(event).unwrap() + "\n"
    }

    fn start() -> Event {
        Event::Start {
            pid: 7,
            program: "/bin/app".into(),
            device: DeviceKind::Cpu,
            device_name: "CPU".into(),
            driver_version: 13000,
        }
    }

    #[test]
    fn a_killed_process_keeps_its_findings_and_is_incomplete() {
        let mut text = line(&start());
        text += &line(&Event::Finding {
            id: 4,
            finding: Box::new(sample_finding()),
            suppressed: None,
        });
        text += &line(&Event::Finding {
            id: 2,
            finding: Box::new(sample_finding()),
            suppressed: Some("known (line 1)".into()),
        });
        for (id, occurrences) in [(4, 9), (2, 7), (3, 5)] {
            text += &line(&Event::Occurrences { id, occurrences });
        }
        text += "{\"event\":\"coverage\",\"cover";
        let processes = read_processes(&text);
        assert_eq!(processes.len(), 1);
        assert_eq!(processes[0].findings[0].occurrences, 9);
        assert_eq!(processes[0].findings.len(), 1);
        let (entry, finding) = &processes[0].suppressed[0];
        assert_eq!((entry.as_str(), finding.occurrences), ("known (line 1)", 7));
        assert!(!processes[0].complete);
    }

    #[test]
    fn exec_starts_a_new_process_under_the_same_id() {
        let done = Event::Coverage {
            coverage: Box::default(),
            complete: true,
        };
        let text = line(&start()) + &line(&start()) + &line(&done);
        let complete: Vec<bool> = read_processes(&text)
            .iter()
            .map(|process| process.complete)
            .collect();
        assert_eq!(complete, [false, true]);
    }
}
