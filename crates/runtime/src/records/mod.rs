//! What the device records: when it is read, and by whom.
//!
//! * [`drain`] consumes the ring;
//! * [`drain_thread`] is a thread that reads while kernels run.
//!
//! Records are handed to a [`Reader`], which the runtime connects: who makes
//! findings of them uses services that read records themselves.

mod drain;
mod drain_thread;

use crate::env::Env;
use crate::metadata::Metadata;
use drain::{Drain, Mode};
use drain_thread::DrainThread;
use model::layout::{ENDED, Record};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Who makes findings of records.
pub(crate) trait Reader: Send + Sync {
    /// A record, in its turn.
    fn record(&self, record: &Record);
}

/// See the module's header.
pub(crate) struct Records {
    me: Weak<Records>,
    env: Arc<Env>,
    metadata: Arc<Metadata>,
    drain: Drain,
    drain_thread: DrainThread,
    /// The process is about to end: nothing is read any more while it runs.
    finished: AtomicBool,
    /// Records of threads that the check code has ended.
    ended: AtomicU64,
    reader: OnceLock<Weak<dyn Reader>>,
}

impl Records {
    pub fn new(env: Arc<Env>, metadata: Arc<Metadata>) -> Arc<Records> {
        Arc::new_cyclic(|me| Records {
            me: me.clone(),
            env,
            metadata,
            drain: Drain::default(),
            drain_thread: DrainThread::default(),
            finished: AtomicBool::new(false),
            ended: AtomicU64::new(0),
            reader: OnceLock::new(),
        })
    }

    /// Says who makes findings of records, once.
    pub fn connect(&self, reader: Weak<dyn Reader>) {
        self.reader.get_or_init(|| reader);
    }

    /// Reads what the device has recorded.
    pub fn read(&self) {
        self.run(Mode::Wait);
    }

    /// As [`Records::read`], when no kernel runs any more.
    pub fn read_last(&self) {
        self.run(Mode::Last);
    }

    /// Something that may record was launched.
    #[inline]
    pub fn expect(&self) {
        self.drain_thread.launched(&self.me);
    }

    /// The program has waited for the device: nothing that may record runs.
    pub fn synchronized(&self) {
        self.drain_thread.synchronized();
    }

    /// The process is about to end, and its threads with it.
    pub fn finish(&self) {
        self.finished.store(true, Ordering::Release);
    }

    /// Whether the process is about to end.
    pub fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// Records that the ring could not hold, as far as seen.
    pub fn dropped(&self) -> u64 {
        self.drain.dropped()
    }

    /// Threads that the check code has ended in loops that they did not leave.
    pub fn ended_threads(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    fn run(&self, mode: Mode) {
        let reader = self.reader.get().and_then(Weak::upgrade);
        let (Some(ring), Some(reader)) = (self.metadata.ring(), reader) else {
            return;
        };
        self.drain.run(ring, self.env.driver(), mode, |record| {
            if record.thread & ENDED != 0 {
                self.ended.fetch_add(1, Ordering::Relaxed);
            }
            reader.record(record)
        });
    }
}
