//! What Ringfence enqueues behind a command of the program.

use crate::objects::backing::Backing;
use crate::objects::staging::Gate;
use crate::platform::call;
use crate::platform::events::{Chain, Event, Wanted};
use crate::schedule::job::{Job, Work};
use crate::schedule::state::Schedule;
use crate::schedule::watched::Watched;
use crate::sys::*;
use std::sync::Arc;

/// A command of the program's that was enqueued.
pub struct Enqueued {
    pub queue: cl_command_queue,
    /// Its event, and whether the program gets it.
    pub done: Event,
    pub wanted: Wanted,
    /// Whether it waits for the program.
    pub gate: Gate,
}

impl Schedule {
    /// Enqueues the commands behind a command: scans, and copies from backings
    /// to their images' memory. The command's event is passed to the program or
    /// released. Returns the event that completes last, if any command was
    /// enqueued.
    ///
    /// # Errors
    ///
    /// The platform's code. The event is the program's all the same.
    pub fn behind(
        self: &Arc<Schedule>,
        command: Enqueued,
        work: Work,
    ) -> Result<Option<Event>, cl_int> {
        let Enqueued {
            queue,
            done,
            wanted,
            gate,
        } = command;
        let all: Vec<Arc<Backing>> = work.uses.iter().map(|one| one.backing.clone()).collect();
        let used_until = |last: &Event, before: Vec<Arc<Chain>>| {
            let mut events = Chain::of(last.clone());
            events.behind(before);
            let events = Arc::new(events);
            for backing in &all {
                backing.used_until(events.clone());
            }
        };
        let result = if work.is_empty() {
            used_until(&done, work.before);
            Ok(None)
        } else {
            Job::start(self, queue, &done, work).map(|started| {
                used_until(&started.end, Vec::new());
                if wanted.is_some() {
                    let watched = Watched::new(started.end.clone(), started.number, gate);
                    self.watched.watch(&done, watched);
                }
                Some(started.end)
            })
        };
        if !all.is_empty() {
            // A command in another queue may have to wait for it.
            call!(clFlush(queue));
        }
        wanted.give(Some(done));
        result
    }
}
