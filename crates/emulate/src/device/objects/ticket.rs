//! The completion of work. Waiting for it never holds a lock.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The completion of one piece of work.
#[derive(Debug, Default)]
pub(crate) struct Ticket {
    done: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Ticket {
    /// A ticket of work that is over.
    pub fn completed() -> Arc<Ticket> {
        let ticket = Ticket::default();
        ticket.done.store(true, Ordering::Release);
        Arc::new(ticket)
    }

    /// Whether the work is over.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    pub(crate) fn complete(&self) {
        let _guard = self.lock.lock();
        self.done.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// Returns once the work is over.
    pub fn wait(&self) {
        if self.is_done() {
            return;
        }
        let mut guard = self.lock.lock();
        while !self.is_done() {
            self.changed.wait(&mut guard);
        }
    }
}
