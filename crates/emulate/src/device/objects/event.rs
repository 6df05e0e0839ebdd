//! Events: what their last record left.

use super::ticket::Ticket;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// `CU_EVENT_DISABLE_TIMING`
pub(crate) const DISABLE_TIMING: u32 = 2;

/// What the last record call left.
#[derive(Clone)]
pub(crate) struct Recorded {
    pub ticket: Arc<Ticket>,
    pub stamp: Arc<OnceLock<Instant>>,
}

/// An event.
pub(crate) struct Event {
    pub handle: u64,
    pub flags: u32,
    pub recorded: Mutex<Option<Recorded>>,
    /// Recorded in a stream that is being captured: the capture and the nodes
    /// that it stands for.
    pub captured: Mutex<Option<(u64, Vec<usize>)>>,
}

impl Event {
    /// An event-record node of a graph was executed.
    pub fn completed_now(&self) {
        let stamp = OnceLock::new();
        // A fresh cell: this cannot fail.
        let _ = stamp.set(Instant::now());
        *self.recorded.lock() = Some(Recorded {
            ticket: Ticket::completed(),
            stamp: Arc::new(stamp),
        });
    }

    /// What a wait for the event waits for.
    pub fn ticket(&self) -> Option<Arc<Ticket>> {
        self.recorded
            .lock()
            .as_ref()
            .map(|recorded| recorded.ticket.clone())
    }
}
