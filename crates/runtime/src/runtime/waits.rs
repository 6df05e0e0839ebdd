//! What the program has waited for, and contexts that go: what was under way is
//! over then.

use super::Runtime;
use crate::drain::Mode;
use crate::streams::{self, StreamName};
use host::stacks;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often a running process leaves its coverage, in case it is killed.
const SNAPSHOT: Duration = Duration::from_secs(1);

impl Runtime {
    /// Whether the order of streams matters; if not, it need not be reported.
    pub fn tracks_streams(&self) -> bool {
        self.streams.are_tracked()
    }

    /// The program does something that orders streams.
    pub fn ordered(&self, what: streams::Ordering) {
        self.streams.tell(what);
    }

    /// The program has waited for a stream.
    pub fn waited_for(&self, stream: StreamName) {
        self.memory.left(|leaving| leaving.stream == stream);
        self.launches
            .recent()
            .over(|launch| launch.stream == stream);
        self.streams.tell(streams::Ordering::HostWaited(stream));
        self.after_wait(Some(stream));
    }

    /// The program has waited for the legacy default stream of the current
    /// context.
    pub fn legacy_waited_for(&self) {
        let context = self.driver.current_context();
        let legacy = StreamName::Legacy { context };
        self.launches
            .recent()
            .over(|launch| launch.stream == legacy);
    }

    /// The program has waited for all that was put into the streams of a
    /// context; kernels of other contexts may still run.
    pub fn waited_for_context(&self, context: u64) {
        self.memory.left(|leaving| leaving.context == context);
        self.launches
            .recent()
            .over(|launch| launch.context == context);
        self.streams.tell(streams::Ordering::Everything);
        self.memory.settle_parts(context);
        self.after_wait(None);
    }

    /// The program waited for the device: whatever its kernels have found is
    /// reported before this returns.
    pub fn synchronized(&self) {
        self.watcher.synchronized();
        self.lookups_outstanding.store(false, Ordering::Relaxed);
        self.verify_heap_unguarded();
        self.run_drain(Mode::Wait);
        let due = {
            let mut snapshot = self.snapshot.lock();
            let due = snapshot.at.is_none_or(|at| at.elapsed() >= SNAPSHOT);
            if due {
                snapshot.at = Some(Instant::now());
            }
            due
        };
        if due {
            self.output.coverage(&self.coverage(), false);
        }
    }

    /// A context is gone, and with it all that it allocated.
    pub fn context_gone(&self, context: u64) {
        let stack = stacks::capture(self.settings.num_callers_host);
        let theirs = self.memory.context_gone(context, &stack);
        let slots = theirs.iter().filter_map(|entry| entry.owner.around.slot);
        self.canaries_gone(context, slots);
        self.report_leaks(&theirs);
        if self.failures.stands(context) {
            self.count_told(&self.launches.recent().outstanding(context));
        }
        self.failures.context_gone(context);
        self.deep_stacks.context_gone(context);
        self.launches
            .recent()
            .over(|launch| launch.context == context);
        self.metadata.forget_heap_of(context);
        self.watch().context_gone(context);
    }

    /// The program has destroyed or reset a context, after
    /// [`Runtime::synchronized`]. What Ringfence keeps on the device may be
    /// gone with it; the next launch finds out.
    pub fn context_destroyed(&self) {
        self.metadata.doubt();
        self.canaries.doubt();
    }
}
