//! Staging copies, for memory that cannot be given canaries: memory of the host
//! that the program made a buffer of (`CL_MEM_USE_HOST_PTR`), parts of a buffer,
//! whose neighbours are the program's own data, and images.
//!
//! For the time of a kernel a copy takes the place of such an argument: the
//! content goes there before the kernel and comes back after it. Launches that
//! use one copy follow each other, so that none brings back what is old.

use crate::canaries::Canaries;
use crate::canaries::blocks::enclosed;
use crate::canaries::padded::padded;
use crate::objects::block::Block;
use crate::objects::buffer::{Buffer, Place};
use crate::objects::kernel::Kernel;
use crate::objects::staging::{Copied, StagingCopy};
use crate::platform::call;
use crate::platform::events::{Chain, Event, wait_list};
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
        let (count, list) = wait_list(after);
        match &self.copy {
            Copied::Buffer { bytes, .. } => events.add(|event| {
                call!(clEnqueueCopyBuffer(
                    queue, from, to, 0, 0, *bytes, count, list, event
                ))
            }),
            Copied::Image(padded) => padded.copy(queue, (from, to), after, events),
        }
    }

    /// Brings the content here and puts the copy into the kernel's arguments.
    /// The kernel must wait for the last of the returned events.
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
        // The copy keeps it until this launch is its last use: if this one fails,
        // the next one must still wait.
        let last = self.last();
        // What has failed is no reason to fail, too.
        after.extend(last.iter().filter(|last| last.is_pending()).map(Event::raw));
        let ready = self.prepare(queue)?;
        after.extend(ready.as_ref().and_then(|ready| ready.last()));
        let mut events = Chain::default();
        if let Some(ready) = &ready {
            // Whether they were written is seen by the scan.
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

    /// Enqueues the way back.
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
        // The platform took the same argument from the program.
        let _ = kernel.lend(*index, buffer.handle as cl_mem);
    }
}
