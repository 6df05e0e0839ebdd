//! The program's streams: which may still have kernels to run, and waiting for
//! them under the guard's eyes.

use super::Watching;
use super::machine::State;
use super::outstanding::Busy;
use crate::streams::StreamName;
use driver::Mark;

impl Watching<'_> {
    pub(super) fn forget(&self, marks: impl IntoIterator<Item = Mark>) {
        for mark in marks {
            self.runtime.driver.forget_mark(mark);
        }
    }

    /// Whether kernels run that the guard watches, or will as soon as the keeper
    /// has started the next slice.
    pub(super) fn is_at_work(&self) -> bool {
        let shared = self.watch.state.lock();
        let is_over = shared.machine.state(self.watch.ended()) == State::GivenUp;
        self.is_needed() && !is_over && !shared.machine.is_held() && !shared.outstanding.is_empty()
    }

    /// Waits for what the program has launched, as far as that is known, under
    /// the guard's eyes.
    pub(super) fn wait_for_streams(self) {
        let streams = self.watch.state.lock().outstanding.streams();
        // Waiting for kernels is not being stuck.
        let _outside = self.watch.calls.leave();
        let mut marks = Vec::new();
        for busy in streams {
            if let Some(mark) = self.mark(&busy) {
                marks.push((busy.name, busy.last(), mark));
            }
        }
        for (name, last, mark) in marks {
            // A failure is the program's, and its own call will answer it.
            let _ = self.runtime.driver.wait_for_mark(mark);
            self.is_over(name, last);
        }
    }

    /// What was launched into a stream up to this ordinal is over.
    fn is_over(&self, name: StreamName, last: u64) {
        let round = self.watch.round();
        let mut shared = self.watch.state.lock();
        let old = shared.outstanding.is_over(name, last, round);
        drop(shared);
        self.forget(old);
    }

    /// The place after the last launch of a stream.
    fn mark(&self, busy: &Busy) -> Option<Mark> {
        let _naming = self.watch.naming.lock();
        let known = {
            let mut shared = self.watch.state.lock();
            shared.outstanding.take_mark(busy.name)?
        };
        if known.is_some() || matches!(busy.name, StreamName::PerThread { .. }) {
            return known;
        }
        let driver = &self.runtime.driver;
        let mut mark = None;
        // A stream that cannot be marked is not waited for here.
        driver
            .with_context(busy.context, &mut || {
                mark = Some(driver.mark(busy.stream)?);
                Ok(())
            })
            .ok()?;
        mark
    }

    /// The program has waited for a stream. Another thread may have launched
    /// into it since.
    pub fn stream_waited_for(&self, name: StreamName) {
        if !self.watch.wanted {
            return;
        }
        let busy = self.watch.state.lock().outstanding.find(name);
        if let Some(busy) = busy {
            self.drop_if_idle(&busy);
        }
    }

    /// The program is about to destroy a stream, or to capture it: it is not
    /// named to the driver any more.
    pub fn stream_over(&self, name: StreamName) {
        if self.watch.wanted {
            self.forget_streams(|busy| busy.name == name);
        }
    }

    pub(super) fn forget_streams(&self, which: impl Fn(&Busy) -> bool) {
        let _naming = self.watch.naming.lock();
        let round = self.watch.round();
        let marks = self.watch.state.lock().outstanding.remove(which, round);
        self.forget(marks);
    }

    /// Takes streams off the list whose kernels have ended.
    pub(super) fn drop_idle_streams(&self) {
        let streams = self.watch.state.lock().outstanding.streams();
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
        let driver = &self.runtime.driver;
        let _naming = self.watch.naming.lock();
        let mark = {
            let shared = self.watch.state.lock();
            shared.outstanding.mark_of(busy.name)?
        };
        let per_thread = matches!(busy.name, StreamName::PerThread { .. });
        let mut over = None;
        driver
            .with_context(busy.context, &mut || {
                over = match mark {
                    Some(mark) => Some(driver.is_over(mark)?),
                    None if per_thread => None,
                    None => Some(driver.is_idle(busy.stream)?),
                };
                Ok(())
            })
            .ok()?;
        over.map(|over| !over)
    }
}
