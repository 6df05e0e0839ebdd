//! Commands of the program's that use images. Before a command that uses an
//! image with a backing, the content of the program's buffer is brought there,
//! and afterwards back if it may have changed.

use crate::canaries::backing::{self, Use};
use crate::findings::{Culprit, HostAction};
use crate::objects::access::Access;
use crate::objects::registry::Objects;
use crate::objects::staging::Gate;
use crate::platform::call;
use crate::platform::events::{Event, List, Waits, Wanted};
use crate::schedule::Schedule;
use crate::schedule::behind::Enqueued;
use crate::schedule::job::Work;
use crate::sys::*;
use std::sync::Arc;

/// A command of the program's that uses images.
pub struct ImageCommand<'a> {
    pub queue: cl_command_queue,
    pub function: &'static str,
    pub images: &'a [(cl_mem, Access)],
    /// Whether the call returns only when all is done.
    pub blocking: bool,
    pub waits: Waits<'a>,
    pub wanted: Wanted,
}

/// Whether the content of a buffer is brought to its backing first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Brought,
    /// It is there: the host has written it.
    Kept,
}

impl ImageCommand<'_> {
    /// Enqueues it.
    pub fn enqueue(
        self,
        schedule: &Arc<Schedule>,
        objects: &Objects,
        enqueue: impl FnOnce(List, *mut cl_event) -> cl_int,
    ) -> cl_int {
        let mut uses: Vec<Use> = Vec::new();
        for (image, access) in self.images {
            let buffer = objects.buffer(*image as usize);
            let one = buffer.and_then(|buffer| Use::of(&buffer, *access));
            backing::add(&mut uses, one);
        }
        self.with(schedule, (uses, Content::Brought), enqueue)
    }

    /// Enqueues the end of a map of its images.
    pub fn unmap(
        self,
        schedule: &Arc<Schedule>,
        (objects, pointer): (&Objects, usize),
        enqueue: impl FnOnce(List, *mut cl_event) -> cl_int,
    ) -> cl_int {
        let mut uses: Vec<Use> = Vec::new();
        for (image, _) in self.images {
            let buffer = objects.buffer(*image as usize);
            let one = buffer.and_then(|buffer| {
                let access = buffer.backed()?.backing.take_map(pointer)?;
                Use::of(&buffer, access)
            });
            backing::add(&mut uses, one.filter(Use::writes));
        }
        self.with(schedule, (uses, Content::Kept), enqueue)
    }

    fn with(
        self,
        schedule: &Arc<Schedule>,
        (uses, content): (Vec<Use>, Content),
        enqueue: impl FnOnce(List, *mut cl_event) -> cl_int,
    ) -> cl_int {
        let queue = self.queue;
        if uses.is_empty() {
            return schedule.with_scans(self.waits, |list| self.wanted.pass(list, enqueue));
        }
        let turn = schedule.turn.lock();
        let scans = schedule.watched.scans_behind(self.waits.events);
        let mut own = Vec::new();
        if content == Content::Brought {
            let mut before = self.waits.events.to_vec();
            before.extend(scans.events());
            if let Err(code) = backing::enter(queue, &uses, None, &before, &mut own) {
                return code;
            }
        }
        let more = scans
            .events()
            .chain(own.iter().filter_map(|chain| chain.last()));
        let mut done = std::ptr::null_mut();
        let code = self.waits.with(more, |list| enqueue(list, &raw mut done));
        if code != CL_SUCCESS {
            return code;
        }
        let Some(done) = Event::of(done) else {
            return CL_INVALID_EVENT;
        };
        let command = Enqueued {
            queue,
            done,
            wanted: self.wanted,
            gate: Gate::Open,
        };
        let work = Work {
            culprit: Culprit::Host {
                action: HostAction {
                    function: self.function,
                    what: "",
                },
                stack: None,
            },
            scans: Vec::new(),
            uses,
            before: own,
        };
        let last = match schedule.behind(command, work) {
            Ok(last) => last,
            Err(code) => return code,
        };
        drop(turn);
        if let Some(last) = last.filter(|_| self.blocking) {
            let last = last.raw();
            call!(clWaitForEvents(1, &raw const last));
        }
        CL_SUCCESS
    }
}
