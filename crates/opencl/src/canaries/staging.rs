//! Staging copies, for memory that cannot be given canaries: memory of the host
//! that the program made a buffer of (`CL_MEM_USE_HOST_PTR`), parts of a buffer,
//! whose neighbours are the program's own data, and images.
//!
//! While a kernel runs, a copy takes the place of such an argument: the content
//! is copied there before the kernel and back after it. Launches that use one
//! copy run one after the other, so that none copies stale content back.

use crate::canaries::Canaries;
use crate::canaries::blocks::enclosed;
use crate::canaries::padded::padded;
use crate::objects::block::Block;
use crate::objects::buffer::{Buffer, Place};
use crate::objects::kernel::Kernel;
use crate::objects::staging::{Copied, StagingCopy};
use crate::platform::commands::copy_buffer;
use crate::platform::events::{Chain, Event};
use crate::sys::*;
use heap::canary::Layout;
use std::sync::Arc;

impl Canaries {
    /// The copy of a memory object, made when it is first needed. `None`: there
    /// is no room for it.
    pub fn staging_copy(&self, buffer: &Buffer) -> Option<Arc<StagingCopy>> {
        if let Some(known) = &*buffer.staging.lock() {
            return Some(known.clone());
        }
        let context = buffer.context as cl_context;
        let key = self.keys.key(buffer.serial);
        let copy = match &buffer.place {
            Place::Image(shape) => {
                Copied::Image(padded(buffer.handle as cl_mem, context, shape, key)?)
            }
            _ => {
                let alignment = self.context(context).alignment;
                let (layout, made) = self.sized(|canary| {
                    let layout = Layout::around(buffer.size, canary, alignment)?;
                    Some((layout, enclosed(context, CL_MEM_READ_WRITE, &layout)?))
                })?;
                Copied::Buffer {
                    block: Block::new(made.block, layout, key),
                    part: made.part,
                    bytes: usize::try_from(buffer.size).ok()?,
                }
            }
        };
        let copy = Arc::new(StagingCopy::new(copy));
        // Another thread may have been faster.
        let known = buffer.staging.lock().get_or_insert(copy).clone();
        Some(known)
    }
}

impl StagingCopy {
    /// Writes the canaries before the first use. Later ones wait for this one
    /// anyway.
    fn prepare(&self, queue: cl_command_queue) -> Result<Option<Arc<Chain>>, cl_int> {
        match &self.copy {
            Copied::Buffer { block, .. } => block.prepare(queue),
            Copied::Image(padded) => padded
                .written
                .prepare(queue, |events| padded.restore(queue, &[], events)),
        }
    }

    fn copy(
        &self,
        queue: cl_command_queue,
        (from, to): (cl_mem, cl_mem),
        after: &[cl_event],
        events: &mut Chain,
    ) -> cl_int {
        match &self.copy {
            Copied::Buffer { bytes, .. } => copy_buffer(queue, (from, to), *bytes, after, events),
            Copied::Image(padded) => padded.copy(queue, (from, to), after, events),
        }
    }

    /// Copies the content here and sets the kernel's argument to the copy. The
    /// kernel must wait for the last of the returned events.
    ///
    /// # Errors
    ///
    /// The platform's code; the arguments are then the program's.
    pub fn enter(
        &self,
        queue: cl_command_queue,
        buffer: &Buffer,
        (kernel, indices): (&Kernel, &[u32]),
        after: &[cl_event],
    ) -> Result<Arc<Chain>, cl_int> {
        let mut after = after.to_vec();
        // The copy keeps the earlier use until this launch replaces it: if this
        // one fails, the next one must still wait.
        let last = self.last();
        // A failed earlier command must not make this one fail.
        after.extend(last.iter().filter(|last| last.is_pending()).map(Event::raw));
        let ready = self.prepare(queue)?;
        after.extend(ready.as_ref().and_then(|ready| ready.last()));
        let mut events = Chain::default();
        if let Some(ready) = &ready {
            // The scan finds whether they were written.
            events.hold(ready);
        }
        let ends = (buffer.handle as cl_mem, self.handle());
        let code = self.copy(queue, ends, &after, &mut events);
        events.behind(ready.into_iter().collect());
        if code != CL_SUCCESS {
            return Err(code);
        }
        for index in indices {
            if let Err(code) = kernel.lend(*index, self.handle()) {
                leave(buffer, kernel, indices);
                return Err(code);
            }
        }
        Ok(Arc::new(events))
    }

    /// Enqueues the copies back.
    pub fn bring_back(
        &self,
        queue: cl_command_queue,
        buffer: &Buffer,
        after: &[cl_event],
        events: &mut Chain,
    ) -> cl_int {
        self.copy(
            queue,
            (self.handle(), buffer.handle as cl_mem),
            after,
            events,
        )
    }
}

/// Gives the kernel its own arguments again.
pub fn leave(buffer: &Buffer, kernel: &Kernel, indices: &[u32]) {
    for index in indices {
        // The platform accepted the same argument from the program.
        let _ = kernel.lend(*index, buffer.handle as cl_mem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::testing::Recorder;
    use crate::objects::buffer::testing::made;
    use crate::objects::staging::{Gate, LastUse};
    use crate::platform::commands::Order;
    use crate::platform::events::Event;
    use crate::platform::fake::{Fake, peek, poke};
    use crate::platform::handles::MemObject;
    use model::Settings;

    struct Test {
        copy: Arc<StagingCopy>,
        buffer: Buffer,
        own: MemObject,
        kernel: Kernel,
        raw: cl_kernel,
        fake: Fake,
    }

    fn test() -> Test {
        let fake = Fake::new();
        let own = MemObject::buffer(fake.context, 0, 32).unwrap();
        let (root, origin) = (own.raw() as usize, 0);
        let mut made = made(root, 32, Place::Plain { root, origin });
        made.context = fake.context as usize;
        let buffer = Buffer::of(made);
        let canaries = Canaries::of(&Settings::default(), Arc::new(Recorder::default()));
        let copy = canaries.staging_copy(&buffer).unwrap();
        let again = canaries.staging_copy(&buffer).unwrap();
        assert!(Arc::ptr_eq(&copy, &again), "one copy of an object");
        let raw = fake.kernel("fill", &[("a", false), ("b", false)]);
        let kernel = Kernel::of(raw, Vec::new());
        for index in [0, 1] {
            kernel.lend(index, own.raw()).unwrap();
        }
        Test {
            copy,
            buffer,
            own,
            kernel,
            raw,
            fake,
        }
    }

    #[test]
    fn content_goes_there_and_comes_back() {
        let t = test();
        let queue = t.fake.queue(Order::Kept);
        let own = t.own.raw() as usize;
        poke(own, 3, 5);
        let entered = t.copy.enter(queue, &t.buffer, (&t.kernel, &[1]), &[]);
        assert!(entered.is_ok());
        let there = t.copy.handle() as usize;
        assert_eq!(t.fake.arguments(t.raw), [own, there]);
        t.fake.run();
        assert_eq!(peek(there, 3), 5);
        poke(there, 4, 6);
        let mut events = Chain::default();
        let code = t.copy.bring_back(queue, &t.buffer, &[], &mut events);
        assert_eq!(code, CL_SUCCESS);
        t.fake.run();
        assert_eq!([3, 4].map(|at| peek(own, at)), [5, 6]);
        leave(&t.buffer, &t.kernel, &[1]);
        assert_eq!(t.fake.arguments(t.raw), [own, own]);
    }

    #[test]
    fn the_next_launch_waits_for_the_last_one() {
        let t = test();
        let queue = t.fake.queue(Order::Kept);
        let last = t.fake.event(1);
        t.copy.used_until(LastUse {
            event: Event::retained(last).unwrap(),
            queue: 1,
            gate: Gate::Open,
        });
        let pending = |fake: &Fake, chain: &Chain| {
            fake.run();
            chain
                .last()
                .is_some_and(crate::platform::events::is_pending)
        };
        // A launch that cannot be enqueued must not count as the last use.
        t.fake.refuse("clEnqueueCopyBuffer", CL_OUT_OF_RESOURCES);
        let entered = t.copy.enter(queue, &t.buffer, (&t.kernel, &[0]), &[]);
        assert_eq!(entered.err(), Some(CL_OUT_OF_RESOURCES));
        t.fake.allow();
        let entered = t.copy.enter(queue, &t.buffer, (&t.kernel, &[0]), &[]);
        let chain = entered.unwrap();
        assert!(pending(&t.fake, &chain), "it waits");
        t.fake.end(last, 0);
        assert!(!pending(&t.fake, &chain), "it waits no more");
    }

    #[test]
    fn a_kernel_that_takes_no_copy_has_its_own_arguments() {
        let t = test();
        let queue = t.fake.queue(Order::Kept);
        let own = t.own.raw() as usize;
        // The kernel has no argument 2.
        let entered = t.copy.enter(queue, &t.buffer, (&t.kernel, &[0, 2]), &[]);
        assert_eq!(entered.err(), Some(CL_INVALID_ARG_INDEX));
        assert_eq!(t.fake.arguments(t.raw), [own, own]);
    }
}
