//! Commands by which the host may write beside buffers, such as the end of a
//! map. A scan follows each, so that writes by the host are not attributed to a
//! kernel.

use crate::canaries::scan::Scan;
use crate::findings::{Culprit, HostAction};
use crate::objects::buffer::Buffer;
use crate::objects::staging::Gate;
use crate::platform::ask::ask;
use crate::platform::events::{Chain, Event, List, Waits, Wanted};
use crate::schedule::job::{Job, Work};
use crate::schedule::state::Schedule;
use crate::schedule::watched::Watched;
use crate::sys::*;
use host::Stack;
use std::sync::Arc;

/// What a host did that wrote beside what was mapped.
pub const MAPPED: &str = "while the buffer was mapped, the host wrote outside it";

/// A command by which the host may write.
pub struct HostWrite<'a> {
    pub queue: cl_command_queue,
    pub action: HostAction,
    /// What it may write beside.
    pub buffers: Vec<Arc<Buffer>>,
    pub waits: Waits<'a>,
    pub wanted: Wanted,
}

impl HostWrite<'_> {
    /// Enqueues it by `enqueue`, and a scan behind it. `stack` gives the call
    /// stack of the program.
    pub fn enqueue(
        mut self,
        schedule: &Arc<Schedule>,
        stack: impl FnOnce() -> Stack,
        enqueue: impl FnOnce(List, *mut cl_event) -> cl_int,
    ) -> cl_int {
        let queue = self.queue;
        let context: Option<usize> = ask!(one, clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT));
        self.buffers.retain(|buffer| {
            let written = buffer
                .block()
                .is_some_and(|block| block.written.is_written());
            written && context == Some(buffer.context)
        });
        if self.buffers.is_empty() {
            return schedule.with_scans(self.waits, |list| self.wanted.pass(list, enqueue));
        }
        // Another queue may still be writing them.
        let blocks = self.buffers.iter().filter_map(|buffer| buffer.block());
        let before: Vec<Arc<Chain>> = blocks
            .filter_map(|block| block.prepare(queue).ok().flatten())
            .collect();
        let mut done = std::ptr::null_mut();
        let code = schedule.with_ready(self.waits, &before, |list| enqueue(list, &raw mut done));
        if code != CL_SUCCESS {
            return code;
        }
        let Some(done) = Event::of(done) else {
            return code;
        };
        let scans = self.buffers.into_iter();
        let work = Work {
            culprit: Culprit::Host {
                action: self.action,
                stack: stack(),
            },
            scans: scans.map(|buffer| Scan::new(buffer, None)).collect(),
            uses: Vec::new(),
            before,
        };
        match Job::start(schedule, queue, &done, work) {
            Ok(started) if self.wanted.is_some() => {
                let watched = Watched::new(started.end, started.number, Gate::Open);
                schedule.watched.watch(&done, watched);
            }
            Ok(_) => {}
            Err(code) => schedule.report().error(&format!(
                "canaries could not be read after {} (code {code})",
                self.action.function
            )),
        }
        self.wanted.give(Some(done));
        CL_SUCCESS
    }
}

impl Schedule {
    /// Calls `enqueue` with the program's list, grown by the events of commands
    /// that write canaries and of scans.
    pub fn with_ready<T>(
        &self,
        waits: Waits<'_>,
        ready: &[Arc<Chain>],
        enqueue: impl FnOnce(List) -> T,
    ) -> T {
        let scans = self.watched.scans_behind(waits.events);
        let ready = ready.iter().filter_map(|events| events.last());
        waits.with(ready.chain(scans.events()), enqueue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canaries::Canaries;
    use crate::canaries::blocks::enclosed;
    use crate::findings::testing::{Kept, Recorder};
    use crate::objects::block::Block;
    use crate::objects::buffer::Place;
    use crate::objects::buffer::testing::made;
    use crate::platform::call;
    use crate::platform::commands::Order;
    use crate::platform::fake::{Fake, poke};
    use heap::canary::{Key, Layout, Side};
    use model::{CanaryChecker, Settings};

    #[test]
    fn what_the_host_writes_is_not_the_next_kernel_s() {
        let fake = Fake::new();
        let recorder = Arc::new(Recorder::default());
        let settings = Settings {
            canary_checker: CanaryChecker::Host,
            ..Settings::default()
        };
        let canaries = Canaries::of(&settings, recorder.clone());
        let schedule = Arc::new(Schedule::of(Arc::new(canaries)));
        let queue = fake.queue(Order::Kept);
        let layout = Layout::around(100, 64, 128).unwrap();
        let enclosed = enclosed(fake.context, 0, &layout).unwrap();
        let block = Block::new(enclosed.block, layout, Key::of_byte(0xab));
        let handle = enclosed.part.into_raw() as usize;
        let mut facts = made(handle, 100, Place::Block(block));
        facts.context = fake.context as usize;
        let buffer = Arc::new(Buffer::of(facts));
        let enqueue = || {
            let mut event = std::ptr::null_mut();
            // SAFETY: no list, and a place of this test's.
            let (waits, wanted) = unsafe {
                let list = (0, std::ptr::null());
                (Waits::of(list), Wanted::at(&raw mut event))
            };
            let write = HostWrite {
                queue,
                action: HostAction {
                    function: "f",
                    what: "it wrote",
                },
                buffers: vec![buffer.clone()],
                waits,
                wanted,
            };
            let code = write.enqueue(
                &schedule,
                || None,
                |(count, list), event| {
                    call!(clEnqueueMarkerWithWaitList(queue, count, list, event))
                },
            );
            assert_eq!(code, CL_SUCCESS);
            Event::of(event).unwrap()
        };
        // Canaries that were never written are not scanned.
        drop(enqueue());
        assert_eq!(fake.log(), ["clEnqueueMarkerWithWaitList"]);
        fake.run();
        let block = buffer.block().unwrap();
        block.prepare(queue).unwrap();
        fake.run();
        poke(handle, -1, 1);
        let event = enqueue();
        let scans = schedule.watched.scans_behind(&[event.raw()]);
        assert!(
            scans.last().is_some(),
            "what waits for it waits for the scan"
        );
        fake.run();
        let found = Kept::Overwritten("f".into(), None, buffer.serial, Side::Before, 1);
        assert_eq!(recorder.take(), [found]);
    }
}
