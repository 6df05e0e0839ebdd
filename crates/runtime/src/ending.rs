//! How a process ends: what is left is reported, with the leaks and what was
//! checked.

use crate::device_heap::DeviceHeap;
use crate::env::Env;
use crate::failures::Failures;
use crate::frees::Frees;
use crate::host_calls::HostCalls;
use crate::memory::Memory;
use crate::modules::Modules;
use crate::protection::Protections;
use crate::records::Records;
use crate::reporter::Reporter;
use heap::{Block, Entry};
use host::Stack;
use model::{Coverage, LeakCheck, Note};
use parking_lot::Mutex;
use report::Event;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a running process leaves its coverage, in case it is killed.
const SNAPSHOT: Duration = Duration::from_secs(1);

/// The services that the end uses.
pub(crate) struct Below {
    pub env: Arc<Env>,
    pub memory: Arc<Memory>,
    pub modules: Arc<Modules>,
    pub frees: Arc<Frees>,
    pub host_calls: Arc<HostCalls>,
    pub records: Arc<Records>,
    pub reporter: Arc<Reporter>,
    pub failures: Arc<Failures>,
    pub heap: Arc<DeviceHeap>,
    pub protections: Arc<Protections>,
}

/// See the module's header.
pub struct Ending {
    below: Below,
    ended: AtomicBool,
    /// Exit handlers are running.
    exiting: AtomicBool,
    /// What was live on the device heap when they began.
    heap_at_exit: Mutex<Option<Vec<Block>>>,
    summarized: AtomicBool,
    snapshot: Mutex<Snapshot>,
}

#[derive(Default)]
struct Snapshot {
    /// When coverage was last left; `None`: never.
    at: Option<Instant>,
    /// What was left last, and how often each finding was seen by then.
    complete: Option<(Coverage, Vec<(u64, u64)>)>,
}

impl Ending {
    pub(crate) fn new(below: Below) -> Ending {
        Ending {
            below,
            ended: AtomicBool::new(false),
            exiting: AtomicBool::new(false),
            heap_at_exit: Mutex::default(),
            summarized: AtomicBool::new(false),
            snapshot: Mutex::default(),
        }
    }

    /// A kernel is about to be launched.
    #[inline]
    pub(crate) fn launching(&self) {
        if self.exiting.load(Ordering::Relaxed) {
            // It may free what was live before.
            *self.heap_at_exit.lock() = None;
        }
    }

    /// The program's exit handlers are about to run, and the driver's among
    /// them shut the device down: the last time to look at its heap. Then as
    /// [`Ending::finish`]. The first call counts.
    pub fn exit_begins(&self) {
        if self.below.env.output().is_ours() {
            self.below.protections.each(|one| one.exit_begins());
            self.below.failures.look();
        }
        if self.below.env.settings().leak_check == LeakCheck::Full
            && self.below.env.output().is_ours()
        {
            let mut blocks = self.heap_at_exit.lock();
            if blocks.is_none() {
                *blocks = self.below.heap.live_blocks();
            }
            drop(blocks);
            self.exiting.store(true, Ordering::Release);
        }
        self.finish();
    }

    /// The program has come to its end: what it has not freed by now it never
    /// will. Then as [`Ending::finish`].
    pub fn end(&self) {
        if self.below.env.output().is_ours() && !self.ended.swap(true, Ordering::AcqRel) {
            self.below.records.read_last();
            let live = self.below.memory.look(|registry, _, pending| {
                let stays =
                    |entry: &&Entry<Stack>| !pending.contains_key(&entry.allocation.extent.base.0);
                registry.iter().filter(stays).cloned().collect::<Vec<_>>()
            });
            let could_free = |context| self.below.failures.could_free(context);
            self.below.reporter.leaks(&live, could_free);
            let at_exit = || self.heap_at_exit.lock().take();
            let blocks = self.below.heap.live_blocks().or_else(at_exit);
            // What kernels did not come to free is no leak.
            if !self.below.failures.any_stands() {
                self.below.heap.report_leaks(blocks.unwrap_or_default());
            }
        }
        self.finish();
    }

    /// The process is about to end: reports what is left, and the coverage.
    /// May be called again; says only what is new.
    pub fn finish(&self) {
        if !self.below.env.output().is_ours() {
            return;
        }
        self.below.protections.each(|one| one.finish());
        self.below.records.read_last();
        self.below.records.finish();
        let (coverage, occurrences) = self.leave_totals();
        // Leaks are known at the very end, and are to be counted.
        let is_last = self.below.env.settings().leak_check == LeakCheck::No
            || self.ended.load(Ordering::Acquire);
        if !is_last || self.summarized.swap(true, Ordering::AcqRel) {
            return;
        }
        self.below.env.output().count_hidden();
        if !self.below.env.output().has_session() {
            let mut totals = report::Totals {
                coverage,
                ..report::Totals::default()
            };
            self.below.env.output().count(&occurrences, &mut totals);
            self.below
                .env
                .output()
                .line(&(report::summary(&totals) + "\n"));
        }
    }

    /// Leaves for the command how often each finding was seen, and what was
    /// checked, if that is new.
    pub(crate) fn leave_totals(&self) -> (Coverage, Vec<(u64, u64)>) {
        let coverage = self.coverage();
        let occurrences = self.below.reporter.occurrences();
        let now = Some((coverage.clone(), occurrences.clone()));
        let is_new = {
            let mut snapshot = self.snapshot.lock();
            let is_new = snapshot.complete != now;
            snapshot.complete = now;
            is_new
        };
        if is_new {
            for (id, occurrences) in &occurrences {
                self.below.env.output().event(&Event::Occurrences {
                    id: *id,
                    occurrences: *occurrences,
                });
            }
            self.below.env.output().coverage(&coverage, true);
        }
        (coverage, occurrences)
    }

    /// What was checked so far.
    pub fn coverage(&self) -> Coverage {
        if self.below.failures.any_stands() {
            let context = self.below.env.driver().current_context();
            self.below.failures.count_told(context);
        }
        let mut coverage = self.below.modules.coverage();
        coverage.calls = self.below.frees.checked() + self.below.host_calls.checked();
        coverage.dropped_records = self.below.records.dropped();
        self.below.protections.each(|one| one.add_to(&mut coverage));
        let held = self.below.failures.held();
        if held != 0 {
            coverage.notes.insert(Note::HeldByFailure, held);
        }
        let ended = self.below.records.ended_threads();
        if ended != 0 {
            coverage.notes.insert(Note::ThreadsEnded, ended);
        }
        coverage
    }

    /// Leaves what was checked so far, if that was not done just before.
    pub(crate) fn leave_coverage(&self) {
        let due = {
            let mut snapshot = self.snapshot.lock();
            let due = snapshot.at.is_none_or(|at| at.elapsed() >= SNAPSHOT);
            if due {
                snapshot.at = Some(Instant::now());
            }
            due
        };
        if due {
            let output = self.below.env.output();
            output.coverage(&self.coverage(), false);
        }
    }
}
