//! Commands that write, read and repair the canaries of blocks.

use crate::objects::block::{Block, Memory};
use crate::platform::call;
use crate::platform::events::{Chain, List, wait_list};
use crate::platform::handles::MemObject;
use crate::sys::*;
use heap::canary::{Layout, Side};
use std::ffi::c_void;
use std::sync::Arc;

/// Flags for the access by host and kernels, which a sub-buffer may have, too.
const ACCESS: u64 = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY | HOST_ACCESS;
pub const HOST_ACCESS: u64 = CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS;

/// A block, and the part of it that lies between its canaries.
pub struct Enclosed {
    pub block: Memory,
    /// It keeps the block.
    pub part: MemObject,
}

/// Makes a block and the part between its canaries.
pub fn enclosed(context: cl_context, flags: u64, layout: &Layout) -> Option<Enclosed> {
    let total = usize::try_from(layout.total()).ok()?;
    let block = MemObject::buffer(context, block_flags(flags), total)?;
    let (origin, size) = (layout.start() as usize, layout.size() as usize);
    let part = MemObject::part(block.raw(), flags & ACCESS, origin, size)?;
    Some(Enclosed {
        block: Memory::Buffer(block.raw() as usize),
        part,
    })
}

/// The host must be able to read canaries. Content from the host is written
/// later ([`Block::fill`]): NVIDIA's platform (driver 580) keeps the host's
/// bytes of a block that was made with them, and returns those from reads of
/// canaries, whatever a kernel has written.
fn block_flags(flags: u64) -> u64 {
    flags & !HOST_ACCESS & !CL_MEM_COPY_HOST_PTR
}

/// The direction of the copy of both canaries, and their place on the host.
#[derive(Clone, Copy)]
enum Way {
    Read(*mut u8),
    Write(*const u8),
}

impl Block {
    /// Writes content from the host's memory, which holds as many bytes as
    /// the buffer has, and the canaries. `None`: it cannot be written.
    pub fn fill(&self, queue: cl_command_queue, content: *const c_void) -> Option<()> {
        let Memory::Buffer(block) = self.memory else {
            return None;
        };
        let mut ready = Chain::default();
        if self.restore(queue, &[], &mut ready) != CL_SUCCESS {
            return None;
        }
        let behind = [ready.last()?];
        let (count, list) = wait_list(&behind);
        let (start, size) = (self.layout.start() as usize, self.layout.size() as usize);
        let code = call!(clEnqueueWriteBuffer(
            queue,
            block as cl_mem,
            1,
            start,
            size,
            content,
            count,
            list,
            std::ptr::null_mut()
        ));
        // The canaries' source must outlive their write.
        call!(clWaitForEvents(count, list));
        self.written.settle();
        (code == CL_SUCCESS).then_some(())
    }

    /// Ensures that the canaries are written before the next command, which
    /// must wait for the last of the returned events, if there are any.
    ///
    /// # Errors
    ///
    /// The platform's code.
    pub fn prepare(&self, queue: cl_command_queue) -> Result<Option<Arc<Chain>>, cl_int> {
        self.written
            .prepare(queue, |events| self.restore(queue, &[], events))
    }

    /// Writes the canaries again, behind another command.
    pub fn rewrite(&self, queue: cl_command_queue, after: cl_event) {
        self.written
            .rewrite(|events| self.restore(queue, &[after], events));
    }

    /// Enqueues a read of both canaries into `bytes`, which must stay where
    /// they are until the last of `events` is complete.
    pub fn read(
        &self,
        queue: cl_command_queue,
        bytes: &mut [u8],
        after: &[cl_event],
        events: &mut Chain,
    ) -> cl_int {
        if bytes.len() < self.canary_bytes() {
            return CL_INVALID_VALUE;
        }
        self.both(queue, Way::Read(bytes.as_mut_ptr()), after, events)
    }

    /// Enqueues a write of both canaries as they must be.
    pub fn restore(
        &self,
        queue: cl_command_queue,
        after: &[cl_event],
        events: &mut Chain,
    ) -> cl_int {
        // The source lives as long as this block, which the caller holds until
        // the last event is complete.
        self.both(queue, Way::Write(self.intact().as_ptr()), after, events)
    }

    /// One command a canary; `events` get those of both.
    ///
    /// (Both as two rows of one rectangle would be one command, but NVIDIA's
    /// platform, driver 580, refuses a rectangle whose last row is not followed
    /// by a whole pitch: CL_INVALID_VALUE.)
    fn both(
        &self,
        queue: cl_command_queue,
        way: Way,
        after: &[cl_event],
        events: &mut Chain,
    ) -> cl_int {
        let before = wait_list(after);
        let code = events.add(|event| self.one(queue, way, Side::Before, before, event));
        let (CL_SUCCESS, Some(first)) = (code, events.last()) else {
            return code;
        };
        let behind = [first];
        let before = wait_list(&behind);
        let code = events.add(|event| self.one(queue, way, Side::After, before, event));
        if code != CL_SUCCESS {
            // The caller takes its memory back. The status of the wait does not
            // matter: the command has ended either way.
            call!(clWaitForEvents(1, behind.as_ptr()));
        }
        code
    }

    fn one(
        &self,
        queue: cl_command_queue,
        way: Way,
        side: Side,
        (count, list): List,
        event: *mut cl_event,
    ) -> cl_int {
        let length = self.layout.length() as usize;
        let canary = self.layout.canary(side) as usize;
        let at = match side {
            Side::Before => 0,
            Side::After => length,
        };
        match (self.memory, way) {
            (Memory::Buffer(block), Way::Read(to)) => {
                let (block, to) = (block as cl_mem, to.wrapping_add(at).cast());
                call!(clEnqueueReadBuffer(
                    queue, block, FALSE, canary, length, to, count, list, event
                ))
            }
            (Memory::Buffer(block), Way::Write(from)) => {
                let (block, from) = (block as cl_mem, from.wrapping_add(at).cast());
                call!(clEnqueueWriteBuffer(
                    queue, block, FALSE, canary, length, from, count, list, event
                ))
            }
            (Memory::Svm(block), way) => {
                let block = (block + canary) as *mut c_void;
                let (to, from) = match way {
                    Way::Read(to) => (to.wrapping_add(at).cast(), block.cast_const()),
                    Way::Write(from) => (block, from.wrapping_add(at).cast()),
                };
                call!(clEnqueueSVMMemcpy(
                    queue, FALSE, to, from, length, count, list, event
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::commands::Order;
    use crate::platform::fake::{Fake, peek, poke};
    use heap::canary::Key;

    const SIZE: u64 = 100;

    fn block(fake: &Fake) -> (Block, MemObject) {
        let layout = Layout::around(SIZE, 64, 128).unwrap();
        let made = enclosed(fake.context, CL_MEM_READ_WRITE, &layout).unwrap();
        let block = Block::new(made.block, layout, Key::of_byte(0xab));
        (block, made.part)
    }

    #[test]
    fn a_buffer_lies_between_its_canaries_and_keeps_them() {
        let fake = Fake::new();
        let (block, part) = block(&fake);
        assert_eq!(fake.mems(), 2);
        let queue = fake.queue(Order::Kept);
        block.prepare(queue).unwrap();
        fake.run();
        let part_of = part.raw() as usize;
        assert_eq!(
            [-1, 0, SIZE as isize - 1, SIZE as isize].map(|at| peek(part_of, at)),
            [0xab, 0, 0, 0xab]
        );
        drop(part);
        assert_eq!(fake.mems(), 0);
    }

    #[test]
    fn what_is_written_beside_is_read_and_repaired() {
        let fake = Fake::new();
        let (block, part) = block(&fake);
        let queue = fake.queue(Order::Kept);
        block.prepare(queue).unwrap();
        fake.run();
        poke(part.raw() as usize, SIZE as isize + 2, 1);
        let mut bytes = vec![0; block.canary_bytes()];
        let mut events = Chain::default();
        assert_eq!(block.read(queue, &mut bytes, &[], &mut events), CL_SUCCESS);
        assert_eq!(block.restore(queue, &[], &mut events), CL_SUCCESS);
        fake.run();
        let (before, after) = bytes.split_at(bytes.len() / 2);
        let verify = |side, bytes| block.layout.verify(&block.key, side, bytes);
        assert!(verify(Side::Before, before).is_none());
        let damage = verify(Side::After, after).unwrap();
        assert_eq!((damage.nearest, damage.bytes), (2, 1));
        assert_eq!(peek(part.raw() as usize, SIZE as isize + 2), 0xab);
        // No room for both canaries.
        let code = block.read(queue, &mut bytes[1..], &[], &mut events);
        assert_eq!(code, CL_INVALID_VALUE);
    }

    #[test]
    fn content_of_the_host_is_there_with_the_canaries() {
        let fake = Fake::new();
        let (block, part) = block(&fake);
        let content = [7u8; SIZE as usize];
        let queue = fake.queue(Order::Kept);
        assert!(block.fill(queue, content.as_ptr().cast()).is_some());
        let part_of = part.raw() as usize;
        assert_eq!(
            [-1, 0, 99, 100].map(|at| peek(part_of, at)),
            [0xab, 7, 7, 0xab]
        );
        assert!(block.written.is_written());
        fake.refuse("clEnqueueWriteBuffer", CL_OUT_OF_RESOURCES);
        assert!(block.fill(queue, content.as_ptr().cast()).is_none());
    }

    #[test]
    fn no_block_stays_where_the_part_is_refused() {
        let fake = Fake::new();
        fake.refuse("clCreateSubBuffer", CL_INVALID_VALUE);
        let layout = Layout::around(SIZE, 64, 128).unwrap();
        assert!(enclosed(fake.context, 0, &layout).is_none());
        assert_eq!(fake.mems(), 0);
    }

    #[test]
    fn a_block_has_no_flags_that_hide_its_canaries() {
        let all = HOST_ACCESS | CL_MEM_COPY_HOST_PTR | CL_MEM_READ_ONLY;
        assert_eq!(block_flags(all), CL_MEM_READ_ONLY);
    }
}
