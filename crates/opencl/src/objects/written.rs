//! Whether canaries were written to memory: that is done when the first kernel
//! needs them.

use crate::platform::events::{COMPLETE, Chain, status};
use crate::sys::*;
use parking_lot::Mutex;
use std::sync::Arc;

/// Whether the canaries of one block were written.
#[derive(Default)]
pub struct Written(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    No,
    /// When the last of these events is complete.
    Soon {
        events: Arc<Chain>,
        /// The queue of the writes, if they wait only for earlier commands in
        /// it; `None` if they must follow another command.
        queue: Option<usize>,
    },
    Yes,
}

impl State {
    /// Checks whether the writes have ended. Writes that failed because what
    /// they waited for failed have written nothing.
    fn update(&mut self) {
        let State::Soon { events, .. } = self else {
            return;
        };
        match events.last().and_then(status) {
            Some(code) if code == COMPLETE => *self = State::Yes,
            Some(code) if code < 0 => *self = State::No,
            _ => {}
        }
    }
}

impl Written {
    /// Ensures that the canaries are written, by `write`, before the next
    /// command in `queue`, which must wait for the last of the returned events,
    /// if there are any.
    ///
    /// No command waits for writes in another queue: commands before them may
    /// wait for the program, or fail. The canaries are written twice instead.
    ///
    /// One thread at a time: another one that launches a kernel with the same
    /// memory must find the events.
    ///
    /// # Errors
    ///
    /// The platform's code.
    pub fn prepare(
        &self,
        queue: cl_command_queue,
        write: impl FnOnce(&mut Chain) -> cl_int,
    ) -> Result<Option<Arc<Chain>>, cl_int> {
        let mut state = self.0.lock();
        state.update();
        let mut before = Vec::new();
        match &*state {
            State::Yes => return Ok(None),
            State::Soon { events, queue: of } if of.is_none_or(|of| of == queue as usize) => {
                return Ok(Some(events.clone()));
            }
            State::Soon { events, .. } => before.push(events.clone()),
            State::No => {}
        }
        let mut events = Chain::default();
        events.behind(before);
        match write(&mut events) {
            CL_SUCCESS => {
                let events = Arc::new(events);
                *state = State::Soon {
                    events: events.clone(),
                    queue: Some(queue as usize),
                };
                Ok(Some(events))
            }
            code => Err(code),
        }
    }

    /// Writes them again.
    pub fn rewrite(&self, write: impl FnOnce(&mut Chain) -> cl_int) {
        let mut state = self.0.lock();
        let mut events = Chain::default();
        if write(&mut events) == CL_SUCCESS {
            *state = State::Soon {
                events: Arc::new(events),
                queue: None,
            };
        }
    }

    /// The writes are complete: a kernel that waited for them has ended. The
    /// platform may call this while a thread that holds the lock calls the
    /// platform: then that thread finds it out itself, now or the next time.
    pub fn settle(&self) {
        let Some(mut state) = self.0.try_lock() else {
            return;
        };
        let before = std::mem::replace(&mut *state, State::Yes);
        drop(state);
        // Its events are released without the lock.
        drop(before);
    }

    /// Whether they are written, or will be before the next command runs.
    pub fn is_written(&self) -> bool {
        let mut state = self.0.lock();
        state.update();
        !matches!(*state, State::No)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(written: &Written, queue: usize) -> bool {
        let mut wrote = false;
        let prepared = written.prepare(queue as cl_command_queue, |_| {
            wrote = true;
            CL_SUCCESS
        });
        assert!(matches!(prepared, Ok(Some(_))));
        wrote
    }

    #[test]
    fn no_queue_waits_for_writes_in_another_one() {
        let written = Written::default();
        assert!(writes(&written, 1));
        assert!(!writes(&written, 1));
        assert!(writes(&written, 2));
        written.settle();
        let prepared = written.prepare(1 as cl_command_queue, |_| CL_INVALID_VALUE);
        assert!(matches!(prepared, Ok(None)));
    }

    #[test]
    fn all_queues_wait_for_writes_behind_another_command() {
        let written = Written::default();
        written.rewrite(|_| CL_SUCCESS);
        assert!(!writes(&written, 1));
        assert!(!writes(&written, 2));
    }
}
