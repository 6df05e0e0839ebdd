//! What the guard found, as findings.

use super::Watch;
use super::machine::State;
use super::outstanding::{Progress, Run};
use super::ring;
use super::words::Words;
use crate::findings::{self, Key};
use ::model::layout::guard::{FOUND, GUARD_FINDINGS, GuardFinding, SIDE_BEFORE};
use ::model::{
    DeviceAddress, Finding, KernelRun, Overwritten, Relation, Rule, RunningKernel, Subject, Watched,
};
use heap::canary::Side;
use host::stacks;
use std::sync::atomic::Ordering;

/// Bytes of a canary that a finding shows.
const SHOWN: u64 = 16;

/// Who may have done what was found.
pub(crate) struct Suspects {
    /// All kernels that may be running.
    pub running: Vec<RunningKernel>,
    /// Ordinal of the newest launch among them.
    pub launch: u64,
    /// Its kernel; empty if there is none.
    pub kernel: String,
    /// Where it was launched.
    pub stack: host::Stack,
    /// The kernels of the others.
    pub others: Vec<String>,
}

impl Watch {
    /// Reports what is in the ring. One thread at a time; another one that comes
    /// meanwhile has nothing to do.
    pub(super) fn drain(&self) {
        let progress = self.progress();
        if self.metadata.watches_heap() {
            // What is found of the device heap comes with other records.
            self.records.read();
        }
        let Some(words) = self.words.get() else {
            return;
        };
        let Some(_turn) = self.draining.take() else {
            return;
        };
        let mut number = self.drained.load(Ordering::Relaxed);
        while let Some(found) = ring::read(words, number + 1) {
            number += 1;
            self.found(&found);
            self.drained.store(number, Ordering::Relaxed);
            ring::consumed(words, number);
        }
        self.state.lock().outstanding.reported(progress);
    }

    /// How far the guard has come; `None` if it has been given up.
    fn progress(&self) -> Option<Progress> {
        // Under the lock no other slice begins.
        let shared = self.state.lock();
        let state = shared.machine.state(self.ended());
        // What rounds before this one had no room for shows in what is read now.
        let round = self.round();
        let found = self.words.get().map_or(0, |words| words.load(FOUND));
        let waiting = found.saturating_sub(self.drained.load(Ordering::Relaxed));
        (state != State::GivenUp).then(|| Progress {
            context: shared.machine.context(),
            round,
            is_away: state == State::Paused,
            is_full: waiting >= GUARD_FINDINGS,
        })
    }

    fn found(&self, found: &GuardFinding) {
        let side = if found.side == SIDE_BEFORE {
            Side::Before
        } else {
            Side::After
        };
        let key = Key::Watched(found.serial, side);
        let Some(id) = self.reporter.count(key) else {
            return;
        };
        let finding = self.put_together(found, side);
        self.reporter.publish(id, &finding);
    }

    /// The kernels that may have done what this round of the guard found; any
    /// round, if that is not known. To be asked before a finding is put together,
    /// and not under a lock.
    pub(crate) fn suspects(&self, round: Option<u64>) -> Suspects {
        let (streams, over) = {
            let shared = self.state.lock();
            (shared.outstanding.streams(), shared.outstanding.over())
        };
        let mut running: Vec<RunningKernel> = Vec::new();
        let mut candidates: Vec<(u64, String, host::Stack)> = Vec::new();
        let busy = streams.iter().map(|busy| (busy, self.is_still_busy(busy)));
        let over = over.iter().map(|busy| (busy, Some(false)));
        for (busy, unfinished) in over.chain(busy) {
            let newest = busy.last();
            let had_begun = |run: &&Run| round.is_none_or(|round| run.round <= round);
            for run in busy.runs.iter().filter(had_begun) {
                let kernel = run
                    .function
                    .and_then(|function| self.modules.name_of(function))
                    .unwrap_or_default();
                running.push(RunningKernel {
                    kernel: kernel.clone(),
                    launch: run.ordinal,
                    stream: busy.name.words(),
                    // Of those before the newest nothing more is known.
                    unfinished: unfinished.filter(|busy| !busy || run.ordinal == newest),
                });
                candidates.push((run.ordinal, kernel, run.stack.clone()));
            }
        }
        running.sort_by_key(|kernel| kernel.launch);
        candidates.sort_by_key(|(ordinal, ..)| *ordinal);
        // The newest is named; all others may have done it as well.
        let (launch, kernel, stack) = candidates.last().cloned().unwrap_or_default();
        let mut others: Vec<String> = candidates
            .into_iter()
            .map(|(_, name, _)| name)
            .filter(|name| *name != kernel && !name.is_empty())
            .collect();
        others.sort();
        others.dedup();
        Suspects {
            running,
            launch,
            kernel,
            stack,
            others,
        }
    }

    fn put_together(&self, found: &GuardFinding, side: Side) -> Finding {
        let callers = self.env.callers();
        let (nearest, farthest) = match side {
            Side::After => (found.lowest, found.highest),
            Side::Before => (found.highest, found.lowest),
        };
        let distance = |address: u64| match side {
            Side::After => address.wrapping_sub(found.base + found.size),
            Side::Before => found.base.wrapping_sub(address),
        };
        let mut content: Vec<u8> = found
            .content
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        content.truncate((found.highest - found.lowest + 1).min(SHOWN) as usize);
        let suspects = self.suspects(Some(found.epoch));
        let address = DeviceAddress(nearest);
        let buffer = DeviceAddress(found.base);
        let context = self
            .memory
            .look(|registry, _, pending| findings::call_context(buffer, buffer, registry, pending));
        let mut intended = context.intended.map(|near| near.resolve(address, callers));
        if let Some(near) = &mut intended {
            near.relation = match side {
                Side::After => Relation::After(distance(nearest)),
                Side::Before => Relation::Before(distance(nearest)),
            };
        }
        Finding {
            rule: Rule::CanaryOverwritten,
            address,
            subject: Subject::Kernel(KernelRun {
                launched_at: stacks::resolve(&suspects.stack, callers, Some(&suspects.kernel)),
                kernel: suspects.kernel,
                argument: None,
                others: suspects.others,
                overwritten: Overwritten {
                    bytes: found.changed,
                    farthest: distance(farthest),
                    found: content,
                    pixel: None,
                },
                launch: suspects.launch,
                watched: Some(Watched {
                    running: suspects.running,
                    device_time: found.time,
                }),
            }),
            intended,
            nearest: None,
            occurrences: 1,
        }
    }
}
