//! The program's streams: which may still have kernels to run, and waiting for
//! them under the guard's eyes.

use super::Watch;
use super::machine::State;
use super::outstanding::Busy;
use crate::streams::StreamName;
use driver::StreamEvent;

impl Watch {
    pub(super) fn forget(&self, events: impl IntoIterator<Item = StreamEvent>) {
        for event in events {
            self.env.driver().destroy_event(event);
        }
    }

    /// Whether kernels run that the guard watches, or will as soon as the supervisor
    /// has started the next slice.
    pub(super) fn is_at_work(&self) -> bool {
        let shared = self.state.lock();
        let is_over = shared.machine.state(self.ended()) == State::GivenUp;
        self.is_needed() && !is_over && !shared.machine.is_held() && !shared.outstanding.is_empty()
    }

    /// Waits for what the program has launched, as far as that is known, under
    /// the guard's eyes.
    pub(super) fn wait_for_streams(&self) {
        let streams = self.state.lock().outstanding.streams();
        // Waiting for kernels is not being stuck.
        let _outside = self.calls.leave();
        let mut events = Vec::new();
        for busy in streams {
            if let Some(event) = self.event_behind(&busy) {
                events.push((busy.name, busy.last(), event));
            }
        }
        for (name, last, event) in events {
            // A failure is the program's, and its own call will answer it.
            let _ = self.env.driver().wait_for_event(event);
            self.is_over(name, last);
        }
    }

    /// What was launched into a stream up to this ordinal is over.
    fn is_over(&self, name: StreamName, last: u64) {
        let round = self.round();
        let mut shared = self.state.lock();
        let old = shared.outstanding.is_over(name, last, round);
        drop(shared);
        self.forget(old);
    }

    /// The place after the last launch of a stream.
    fn event_behind(&self, busy: &Busy) -> Option<StreamEvent> {
        let _naming = self.naming.lock();
        let known = {
            let mut shared = self.state.lock();
            shared.outstanding.take_event(busy.name)?
        };
        if known.is_some() || matches!(busy.name, StreamName::PerThread { .. }) {
            return known;
        }
        let driver = self.env.driver();
        let mut event = None;
        // A stream that cannot be marked is not waited for here.
        driver
            .with_context(busy.context, &mut || {
                event = Some(driver.record_event(busy.stream)?);
                Ok(())
            })
            .ok()?;
        event
    }

    /// The program has waited for a stream. Another thread may have launched
    /// into it since.
    pub fn stream_waited_for(&self, name: StreamName) {
        if !self.wanted {
            return;
        }
        let busy = self.state.lock().outstanding.find(name);
        if let Some(busy) = busy {
            self.drop_if_idle(&busy);
        }
    }

    /// The program is about to destroy a stream, or to capture it: it is not
    /// named to the driver any more.
    pub fn stream_over(&self, name: StreamName) {
        if self.wanted {
            self.forget_streams(|busy| busy.name == name);
        }
    }

    pub(super) fn forget_streams(&self, which: impl Fn(&Busy) -> bool) {
        let _naming = self.naming.lock();
        let round = self.round();
        let events = self.state.lock().outstanding.remove(which, round);
        self.forget(events);
    }

    /// Takes streams off the list whose kernels have ended.
    pub(super) fn drop_idle_streams(&self) {
        let streams = self.state.lock().outstanding.streams();
        for busy in streams {
            self.drop_if_idle(&busy);
        }
    }

    fn drop_if_idle(&self, busy: &Busy) {
        if self.is_still_busy(busy) == Some(false) {
            self.is_over(busy.name, busy.last());
        }
    }

    /// Whether a stream of the program has something to do; `None` if that
    /// is not known, as while it is being captured.
    pub(super) fn is_still_busy(&self, busy: &Busy) -> Option<bool> {
        if busy.coming != 0 {
            return Some(true);
        }
        let driver = self.env.driver();
        let _naming = self.naming.lock();
        let event = {
            let shared = self.state.lock();
            shared.outstanding.event_of(busy.name)?
        };
        let per_thread = matches!(busy.name, StreamName::PerThread { .. });
        let mut over = None;
        driver
            .with_context(busy.context, &mut || {
                over = match event {
                    Some(event) => Some(driver.is_over(event)?),
                    None if per_thread => None,
                    None => Some(driver.is_idle(busy.stream)?),
                };
                Ok(())
            })
            .ok()?;
        over.map(|over| !over)
    }
}
