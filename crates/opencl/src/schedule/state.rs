//! What all commands of a process share.

use crate::canaries::Canaries;
use crate::findings::Report;
use crate::platform::events::{List, Waits};
use crate::schedule::jobs::Jobs;
use crate::schedule::watched::WatchedEvents;
use parking_lot::ReentrantMutex;
use std::sync::Arc;

/// The jobs, events and orders that all commands share.
pub struct Schedule {
    pub jobs: Jobs,
    /// Kernels' events that the program holds.
    pub watched: WatchedEvents,
    /// Held while a command is enqueued that uses what other commands use in
    /// turn: staging copies, and backings.
    pub turn: ReentrantMutex<()>,
    pub canaries: Arc<Canaries>,
}

impl Schedule {
    /// Nothing is under way.
    pub fn of(canaries: Arc<Canaries>) -> Schedule {
        Schedule {
            jobs: Jobs::default(),
            watched: WatchedEvents::default(),
            turn: ReentrantMutex::new(()),
            canaries,
        }
    }

    /// Receives what is found.
    pub fn report(&self) -> &dyn Report {
        &*self.canaries.report
    }

    /// Calls `enqueue` with a wait list, grown by the events of scans: a
    /// command that waits for a kernel also waits for the scan behind it.
    pub fn with_scans<T>(&self, waits: Waits<'_>, enqueue: impl FnOnce(List) -> T) -> T {
        let scans = self.watched.scans_behind(waits.events);
        waits.with(scans.events(), enqueue)
    }
}
