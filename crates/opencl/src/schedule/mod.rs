//! When something is scanned: jobs behind the program's commands, what waits
//! for them, and in which order commands use what they share.

mod behind;
mod host;
mod images;
mod job;
mod jobs;
mod launch;
mod timing;
mod watched;

pub use host::{HostWrite, MAPPED};
pub use images::ImageCommand;
pub use jobs::PATIENCE;
pub use launch::Launching;

use crate::canaries::Canaries;
use crate::findings::Report;
use crate::platform::events::{List, Waits};
use jobs::Jobs;
use parking_lot::ReentrantMutex;
use std::sync::Arc;
use watched::WatchedEvents;

/// See the module's header.
pub struct Schedule {
    pub jobs: Jobs,
    /// Kernels' events that the program holds.
    pub watched: WatchedEvents,
    /// Held while a command is enqueued that uses what other commands use in
    /// turn: staging copies, and backings.
    turn: ReentrantMutex<()>,
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

    fn report(&self) -> &dyn Report {
        &*self.canaries.report
    }

    /// Calls `enqueue` with a wait list, grown by the events of scans: what waits
    /// for a kernel also waits for the scan behind it.
    pub fn with_scans<T>(&self, waits: Waits<'_>, enqueue: impl FnOnce(List) -> T) -> T {
        let scans = self.watched.scans_behind(waits.events);
        waits.with(scans.events(), enqueue)
    }
}
