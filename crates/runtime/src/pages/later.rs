//! Buffers that are freed in stream order, or while a stream is captured: their
//! memory is taken away when that is due, which is looked for whenever the
//! program allocates, frees or waits.

use super::Pages;
use super::physical::Placed;
use crate::streams::StreamUse;
use driver::StreamEvent;
use std::thread::{self, ThreadId};

/// A buffer that is freed, and still mapped.
pub(super) struct Leaving {
    placed: Placed,
    until: Until,
}

/// Until when the memory of a freed buffer is in use.
enum Until {
    /// A stream has come there.
    Event(StreamEvent),
    /// All kernels of its context have been waited for: by the thread that is
    /// named, if it began to wait after the free.
    Waited(Option<ThreadId>),
}

impl Pages {
    /// The buffer's memory goes when a stream has come to this place.
    pub(super) fn leave_in_stream(&self, placed: Placed, stream: StreamUse) {
        let until = match self.env.driver().record_event(stream.support()) {
            Ok(event) => Until::Event(event),
            Err(_) => Until::Waited(None),
        };
        self.state.lock().leaving.push(Leaving { placed, until });
    }

    /// The buffer's memory goes when the host has waited for all kernels of its
    /// context.
    pub(super) fn leave(&self, placed: Placed) {
        let until = Until::Waited(None);
        self.state.lock().leaving.push(Leaving { placed, until });
    }

    /// Whether something is to go when all kernels have been waited for.
    pub(super) fn awaits(&self) -> bool {
        let waits = |leaving: &Leaving| matches!(leaving.until, Until::Waited(_));
        self.any() && self.state.lock().leaving.iter().any(waits)
    }

    /// This thread is about to wait for all kernels of a context.
    pub(super) fn waiting_for(&self, context: u64) {
        let mut state = self.state.lock();
        let theirs = state.leaving.iter_mut();
        for leaving in theirs.filter(|leaving| leaving.placed.context == context) {
            if let Until::Waited(by) = &mut leaving.until {
                *by = Some(thread::current().id());
            }
        }
    }

    /// Takes away what is due: at which streams have arrived and, `has_waited`,
    /// what this thread has waited for since [`Pages::waiting_for`]. Returns
    /// whether there was anything.
    pub(super) fn collect(&self, has_waited: bool) -> bool {
        let me = thread::current().id();
        let driver = self.env.driver();
        self.collect_if(|leaving| match leaving.until {
            // In a context that has failed, nothing is due any more.
            Until::Event(event) => driver.is_over(event).unwrap_or(false),
            Until::Waited(by) => has_waited && by == Some(me),
        })
    }

    /// Waits for what is to go of the current context, because the program needs
    /// its memory. Returns whether there was any.
    pub(super) fn collect_all(&self) -> bool {
        let context = self.env.driver().current_context();
        let is_theirs = |leaving: &Leaving| leaving.placed.context == context;
        if !self.state.lock().leaving.iter().any(is_theirs) {
            return false;
        }
        self.waiting_for(context);
        self.env.driver().settle(context).is_ok() && self.collect(true)
    }

    /// A context is gone, and with it what would have been waited for.
    pub(super) fn leave_with_context(&self, context: u64) {
        self.collect_if(|leaving| leaving.placed.context == context);
    }

    fn collect_if(&self, is_due: impl Fn(&Leaving) -> bool) -> bool {
        let all = {
            let mut state = self.state.lock();
            if state.leaving.is_empty() {
                return false;
            }
            std::mem::take(&mut state.leaving)
        };
        let (due, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(is_due);
        self.state.lock().leaving.extend(rest);
        for leaving in &due {
            if let Until::Event(event) = leaving.until {
                self.env.driver().destroy_event(event);
            }
            self.remove(&leaving.placed);
        }
        !due.is_empty()
    }
}
