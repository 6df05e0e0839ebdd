//! Streams as queues, each with a thread that takes one piece of work after
//! the other.
//!
//! Protocol: [`Queue::busy`] is set by the thread that executes work of the
//! stream: its own, or a caller that found the stream idle; only one can. A
//! [`Ticket`] is completed after its work, exactly once, also when the work
//! was skipped because the context has failed. Waiting for a ticket never
//! holds a lock.

use super::capture::Capturing;
use super::ticket::Ticket;
use super::work::Work;
use crate::device::core::Core;
use crate::engine::Contained;
use driver::DeviceFailure;
use driver::sys::CUresult;
use parking_lot::{Condvar, Mutex};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

/// `CU_STREAM_LEGACY`; 0 means it too.
pub(crate) const LEGACY: u64 = 1;
/// `CU_STREAM_PER_THREAD`
pub(crate) const PER_THREAD: u64 = 2;
/// `CU_STREAM_NON_BLOCKING`
pub(crate) const NON_BLOCKING: u32 = 1;
/// Most urgent priority; 0 is the least.
pub const GREATEST_PRIORITY: i32 = -5;

struct Entry {
    /// What must be over first.
    after: Vec<Arc<Ticket>>,
    work: Work,
    ticket: Arc<Ticket>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Entry>,
    /// Someone executes work of this stream.
    busy: bool,
    /// The stream's thread exists.
    started: bool,
    /// No more work comes.
    closed: bool,
    /// Ticket of the newest work.
    newest: Option<Arc<Ticket>>,
}

/// A stream.
pub(crate) struct Stream {
    pub handle: u64,
    pub context: u64,
    /// Ordered against the legacy default stream.
    pub blocking: bool,
    pub priority: i32,
    queue: Mutex<Queue>,
    wake: Condvar,
    pub capturing: Mutex<Option<Capturing>>,
    /// Set for streams of programs that share the device with others.
    pub contained: OnceLock<Arc<Contained>>,
    /// Attributes that were set, as the program's bytes: hints about caches,
    /// priorities and how to wait.
    pub attributes: Mutex<FxHashMap<u32, [u8; 64]>>,
}

impl Stream {
    pub fn new(handle: u64, context: u64, blocking: bool, priority: i32) -> Stream {
        Stream {
            handle,
            context,
            blocking,
            priority,
            queue: Mutex::default(),
            wake: Condvar::new(),
            capturing: Mutex::new(None),
            contained: OnceLock::new(),
            attributes: Mutex::default(),
        }
    }

    /// Ticket of the newest work that is not over.
    pub fn newest(&self) -> Option<Arc<Ticket>> {
        self.queue
            .lock()
            .newest
            .clone()
            .filter(|ticket| !ticket.is_done())
    }

    /// Puts work at the end. After a close the work is dropped: done.
    pub fn push(
        self: &Arc<Self>,
        core: &Arc<Core>,
        after: Vec<Arc<Ticket>>,
        work: Work,
    ) -> Arc<Ticket> {
        let ticket = Arc::new(Ticket::default());
        let mut queue = self.queue.lock();
        if queue.closed {
            return Ticket::completed();
        }
        queue.newest = Some(ticket.clone());
        queue.waiting.push_back(Entry {
            after,
            work,
            ticket: ticket.clone(),
        });
        if !queue.started {
            queue.started = true;
            let (stream, shared) = (self.clone(), core.clone());
            let thread = std::thread::Builder::new().name("ringfence-stream".into());
            if let Err(error) = thread.spawn(move || stream.serve(&shared)) {
                // No thread would ever take the work: fail instead of hanging.
                queue.started = false;
                queue.waiting.clear();
                ticket.complete();
                drop(queue);
                let message =
                    format!("the CPU device could not start a thread for a stream: {error}");
                if core.fail_silently(DeviceFailure {
                    code: CUresult::CUDA_ERROR_OUT_OF_MEMORY,
                    kernel: None,
                    detail: message.clone(),
                    device_lacks: true,
                }) {
                    core.host.report(&message);
                }
                return ticket;
            }
        }
        drop(queue);
        self.wake.notify_all();
        ticket
    }

    /// Takes an idle stream for the caller's thread, which then executes work
    /// and calls [`Stream::release`]. `None` if the stream is not idle.
    pub fn claim(&self) -> Option<Arc<Ticket>> {
        let mut queue = self.queue.lock();
        if queue.busy || queue.closed || !queue.waiting.is_empty() {
            return None;
        }
        queue.busy = true;
        let ticket = Arc::new(Ticket::default());
        queue.newest = Some(ticket.clone());
        Some(ticket)
    }

    /// Ends what [`Stream::claim`] began.
    pub fn release(&self, ticket: &Ticket) {
        self.queue.lock().busy = false;
        ticket.complete();
        self.wake.notify_all();
    }

    /// No more work; the thread ends after what is queued.
    pub fn close(&self) {
        self.queue.lock().closed = true;
        self.wake.notify_all();
    }

    /// Whether [`Stream::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.queue.lock().closed
    }

    /// The stream's thread.
    fn serve(&self, core: &Arc<Core>) {
        let mut queue = self.queue.lock();
        loop {
            if queue.busy || queue.waiting.is_empty() {
                if queue.closed && !queue.busy {
                    return;
                }
                self.wake.wait(&mut queue);
                continue;
            }
            let Some(entry) = queue.waiting.pop_front() else {
                continue;
            };
            queue.busy = true;
            drop(queue);
            for ticket in &entry.after {
                ticket.wait();
            }
            entry.work.run(core);
            drop(entry.work);
            queue = self.queue.lock();
            queue.busy = false;
            entry.ticket.complete();
        }
    }
}
