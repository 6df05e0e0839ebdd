//! How a process ends: what is left is reported, with the leaks and what was
//! checked.

use super::Runtime;
use crate::drain::Mode;
use crate::findings::{self, Key};
use heap::Entry;
use host::stacks::Stack;
use model::{AllocationKind, Coverage, LeakCheck, Note};
use report::Event;
use std::sync::atomic::Ordering;

impl Runtime {
    /// The program's exit handlers are about to run, and the driver's among
    /// them shut the device down: the last time to look at its heap. Then as
    /// [`Runtime::finish`]. The first call counts.
    pub fn exit_begins(&self) {
        if self.output.is_ours() {
            self.last_checks();
            self.look_for_failure();
        }
        if self.settings.leak_check == LeakCheck::Full && self.output.is_ours() {
            let mut blocks = self.heap_at_exit.lock();
            if blocks.is_none() {
                *blocks = self.live_heap_blocks();
            }
            drop(blocks);
            self.exiting.store(true, Ordering::Release);
        }
        self.finish();
    }

    /// The program has come to its end: what it has not freed by now it never
    /// will. Then as [`Runtime::finish`].
    pub fn end(&self) {
        if self.output.is_ours() && !self.ended.swap(true, Ordering::AcqRel) {
            self.run_drain(Mode::Last);
            let live = self.memory.look(|registry, _, leaving| {
                let stays =
                    |entry: &&Entry<Stack>| !leaving.contains_key(&entry.allocation.extent.base.0);
                registry.iter().filter(stays).cloned().collect::<Vec<_>>()
            });
            self.report_leaks(&live);
            let at_exit = || self.heap_at_exit.lock().take();
            let blocks = self.live_heap_blocks().or_else(at_exit);
            // What kernels did not come to free is no leak.
            if !self.failures.any_stands() {
                self.report_device_heap_leaks(blocks.unwrap_or_default());
            }
        }
        self.finish();
    }

    /// The process is about to end: reports what is left, and the coverage.
    /// May be called again; says only what is new.
    pub fn finish(&self) {
        if !self.output.is_ours() {
            return;
        }
        self.watch().end();
        self.run_drain(Mode::Last);
        self.finished.store(true, Ordering::Release);
        let (coverage, occurrences) = self.leave_totals();
        // Leaks are known at the very end, and are to be counted.
        let is_last =
            self.settings.leak_check == LeakCheck::No || self.ended.load(Ordering::Acquire);
        if !is_last || self.summarized.swap(true, Ordering::AcqRel) {
            return;
        }
        self.output.count_hidden();
        if !self.output.has_session() {
            let mut totals = report::Totals {
                coverage,
                ..report::Totals::default()
            };
            self.output.count(&occurrences, &mut totals);
            self.output.line(&(report::summary(&totals) + "\n"));
        }
    }

    /// Leaves for the command how often each finding was seen, and what was
    /// checked, if that is new.
    pub(super) fn leave_totals(&self) -> (Coverage, Vec<(u64, u64)>) {
        let coverage = self.coverage();
        let occurrences = self.findings.occurrences();
        let now = Some((coverage.clone(), occurrences.clone()));
        let is_new = {
            let mut snapshot = self.snapshot.lock();
            let is_new = snapshot.complete != now;
            snapshot.complete = now;
            is_new
        };
        if is_new {
            for (id, occurrences) in &occurrences {
                self.output.event(&Event::Occurrences {
                    id: *id,
                    occurrences: *occurrences,
                });
            }
            self.output.coverage(&coverage, true);
        }
        (coverage, occurrences)
    }

    /// What was checked so far.
    pub fn coverage(&self) -> Coverage {
        if self.failures.any_stands() {
            let context = self.driver.current_context();
            self.count_told(&self.launches.recent().outstanding(context));
        }
        let mut coverage = self.modules.coverage();
        coverage.calls = self.calls.load(Ordering::Relaxed);
        coverage.dropped_records = self.drain.dropped();
        coverage.canaries = self.canaries.coverage();
        let not_watched = self.watch().not_watched();
        if not_watched != 0 {
            coverage.notes.insert(Note::NotWatched, not_watched);
        }
        let held = self.failures.held.load(Ordering::Relaxed);
        if held != 0 {
            coverage.notes.insert(Note::HeldByFailure, held);
        }
        coverage
    }

    /// Reports what of these the program should have freed.
    pub(super) fn report_leaks(&self, live: &[Entry<Stack>]) {
        if self.settings.leak_check == LeakCheck::No {
            return;
        }
        let callers = self.settings.num_callers_host;
        for entry in live.iter().filter(|entry| is_the_programs(entry)) {
            // Nothing could be freed there any more.
            if self.failures.stands(entry.owner.context) {
                self.failures.held.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            if let Some(id) = self.findings.count(Key::leak(entry)) {
                self.output.finding(id, &findings::leak(entry, callers));
            }
        }
    }
}

/// Whether the program made an allocation by a call that asks for memory.
fn is_the_programs(entry: &Entry<Stack>) -> bool {
    use AllocationKind::{Device, Host, Managed, Mapped, Pool};
    let kind = entry.allocation.kind;
    entry.owner.context != 0 && matches!(kind, Device | Managed | Host | Pool | Mapped)
}
