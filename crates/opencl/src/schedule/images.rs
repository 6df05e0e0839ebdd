//! Commands of the program's that use images. Before a command that uses an
//! image with a backing, the content of the program's buffer is copied to the
//! backing, and afterwards back if it may have changed.

use crate::canaries::backing::{self, Use};
use crate::findings::{Culprit, HostAction};
use crate::objects::access::Access;
use crate::objects::registry::Objects;
use crate::objects::staging::Gate;
use crate::platform::call;
use crate::platform::events::{Event, List, Waits, Wanted};
use crate::schedule::behind::Enqueued;
use crate::schedule::job::Work;
use crate::schedule::state::Schedule;
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

/// Whether the content of a buffer is copied to its backing first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Brought,
    /// It is valid: the host has written it.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canaries::Canaries;
    use crate::canaries::backing::backing_of;
    use crate::findings::testing::Recorder;
    use crate::objects::buffer::testing::made;
    use crate::objects::buffer::{Buffer, Place};
    use crate::platform::commands::Order;
    use crate::platform::fake::{Fake, peek, poke};
    use crate::platform::handles::MemObject;
    use model::Settings;
    use std::sync::atomic::AtomicU32;

    const IMAGE: usize = 0x77;

    struct Test {
        schedule: Arc<Schedule>,
        objects: Objects,
        parent: Arc<Buffer>,
        queue: cl_command_queue,
        fake: Fake,
    }

    fn test() -> Test {
        let fake = Fake::new();
        let own = MemObject::buffer(fake.context, 0, 32).unwrap();
        let mut facts = made(own.into_raw() as usize, 32, Place::Bare("a test"));
        facts.context = fake.context as usize;
        let parent = Arc::new(Buffer::of(facts));
        let objects = Objects::default();
        let place = Place::Made {
            parent: parent.clone(),
            shape: None,
            backing: Some(backing_of(&parent).unwrap()),
            users: AtomicU32::new(1),
        };
        objects.add(Buffer::of(made(IMAGE, 32, place)));
        let recorder = Arc::new(Recorder::default());
        let canaries = Canaries::of(&Settings::default(), recorder);
        Test {
            schedule: Arc::new(Schedule::of(Arc::new(canaries))),
            objects,
            parent,
            queue: fake.queue(Order::Kept),
            fake,
        }
    }

    impl Test {
        fn command(&self, images: &'static [(cl_mem, Access)]) -> ImageCommand<'static> {
            // SAFETY: no list and no place.
            let (waits, wanted) = unsafe {
                let list = (0, std::ptr::null());
                (Waits::of(list), Wanted::at(std::ptr::null_mut()))
            };
            ImageCommand {
                queue: self.queue,
                function: "f",
                images,
                blocking: true,
                waits,
                wanted,
            }
        }

        fn marker(&self, (count, list): List, event: *mut cl_event) -> cl_int {
            call!(clEnqueueMarkerWithWaitList(self.queue, count, list, event))
        }

        fn backing(&self) -> usize {
            backing_of(&self.parent).unwrap().memory() as usize
        }
    }

    #[test]
    fn content_comes_back_only_if_the_command_writes() {
        for (images, commands) in [
            (&[(IMAGE as cl_mem, Access::Read)], 2),
            (&[(IMAGE as cl_mem, Access::Write)], 3),
        ] {
            let t = test();
            poke(t.parent.handle, 1, 5);
            let command = t.command(images);
            let code =
                command.enqueue(&t.schedule, &t.objects, |list, event| t.marker(list, event));
            assert_eq!(code, CL_SUCCESS);
            t.fake.run();
            assert_eq!(peek(t.backing(), 1), 5);
            assert_eq!(t.fake.log().len(), commands);
        }
    }

    #[test]
    fn a_map_that_was_written_brings_the_content_back() {
        let t = test();
        let image = &[(IMAGE as cl_mem, Access::Write)];
        let unmap = |pointer| {
            let command = t.command(image);
            let code = command.unmap(&t.schedule, (&t.objects, pointer), |list, event| {
                t.marker(list, event)
            });
            assert_eq!(code, CL_SUCCESS);
            t.fake.run();
        };
        poke(t.backing(), 2, 9);
        let backing = backing_of(&t.parent).unwrap();
        backing.keep_map(0x10, Access::Read);
        unmap(0x10);
        assert_eq!(peek(t.parent.handle, 2), 0);
        backing.keep_map(0x10, Access::Write);
        unmap(0x10);
        assert_eq!(peek(t.parent.handle, 2), 9);
    }

    #[test]
    fn a_command_without_such_images_is_passed_on() {
        let t = test();
        let command = t.command(&[(0x99 as cl_mem, Access::Write)]);
        let code = command.enqueue(&t.schedule, &t.objects, |list, event| {
            assert_eq!(list, (0, std::ptr::null()));
            assert!(event.is_null());
            -77
        });
        assert_eq!(code, -77);
        assert!(t.fake.log().is_empty());
    }

    #[test]
    fn a_command_whose_content_cannot_be_brought_is_not_enqueued() {
        let t = test();
        t.fake.refuse("clEnqueueCopyBuffer", CL_OUT_OF_RESOURCES);
        let command = t.command(&[(IMAGE as cl_mem, Access::Read)]);
        let code = command.enqueue(&t.schedule, &t.objects, |_, _| panic!("it was enqueued"));
        assert_eq!(code, CL_OUT_OF_RESOURCES);
    }
}
