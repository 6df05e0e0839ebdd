//! Copies with canaries, for memory that cannot be given any: memory of the
//! host that the program made a buffer of (`CL_MEM_USE_HOST_PTR`), parts of a
//! buffer, whose neighbours are the program's own data, and images.
//!
//! For the time of a kernel a copy takes the place of such an argument: the
//! content goes there before the kernel and comes back after it. Launches that
//! use one copy follow each other, so that none brings back what is old.

use crate::arguments::Kernel;
use crate::blocks::{Block, Memory, enclosed};
use crate::buffers::{Buffer, Place, with_canaries};
use crate::chain::{Chain, let_go};
use crate::events::status;
use crate::images::Larger;
use crate::layer::Layer;
use crate::sys::*;
use crate::table::call;
use crate::waits::wait_list;
use heap::canary::Layout;
use parking_lot::Mutex;
use std::sync::Arc;

/// A copy of a memory object.
pub struct Shadow {
    pub copy: Copied,
    last: Mutex<Option<Last>>,
}

/// The last use of a copy.
struct Last {
    /// Of the look behind the kernel; ours to release.
    event: usize,
    queue: usize,
    /// Whether the kernel waits for the program.
    gated: bool,
}

/// What stands for what.
pub enum Copied {
    /// A block for a buffer.
    Buffer {
        block: Block,
        /// What a kernel gets.
        part: usize,
        bytes: usize,
    },
    /// A larger image for an image.
    Image(Larger),
}

impl Drop for Shadow {
    fn drop(&mut self) {
        if let Some(last) = self.last.lock().take() {
            let_go(last.event as cl_event);
        }
        call!(clReleaseMemObject(self.handle() as cl_mem));
    }
}

impl Layer {
    /// The copy of a memory object, made when it is first wanted.
    pub fn shadow(&self, buffer: &Buffer) -> Option<Arc<Shadow>> {
        if let Some(known) = &*buffer.shadow.lock() {
            return Some(known.clone());
        }
        let context = buffer.context as cl_context;
        let key = self.keys.key(buffer.serial);
        let copy = match &buffer.place {
            Place::Image(shape) => {
                let larger = Larger::of(buffer.handle as cl_mem, context, shape, key)?;
                Copied::Image(larger)
            }
            _ => {
                let alignment = self.context(context).alignment;
                let (layout, made) = with_canaries(self, |canary| {
                    let layout = Layout::around(buffer.size, canary, alignment)?;
                    Some((layout, enclosed(context, CL_MEM_READ_WRITE, &layout)?))
                })?;
                Copied::Buffer {
                    block: Block::new(Memory::Buffer(made.block), layout, key),
                    part: made.part as usize,
                    bytes: usize::try_from(buffer.size).ok()?,
                }
            }
        };
        let shadow = Arc::new(Shadow {
            copy,
            last: Mutex::new(None),
        });
        // Another thread may have been faster.
        let known = buffer.shadow.lock().get_or_insert(shadow).clone();
        Some(known)
    }
}

impl Shadow {
    /// What a kernel gets.
    fn handle(&self) -> usize {
        match &self.copy {
            Copied::Buffer { part, .. } => *part,
            Copied::Image(larger) => larger.handle,
        }
    }

    /// Writes the canaries before the first use. Later ones wait for this one
    /// anyway.
    fn prepare(&self, queue: cl_command_queue) -> Result<Option<Arc<Chain>>, cl_int> {
        match &self.copy {
            Copied::Buffer { block, .. } => block.prepare(queue),
            Copied::Image(larger) => larger
                .written
                .prepare(queue, |events| larger.restore(queue, &[], events)),
        }
    }

    fn copy(
        &self,
        queue: cl_command_queue,
        (from, to): (usize, usize),
        after: &[cl_event],
        events: &mut Chain,
    ) -> cl_int {
        let (from, to) = (from as cl_mem, to as cl_mem);
        let (count, list) = wait_list(after);
        match &self.copy {
            Copied::Buffer { bytes, .. } => events.add(|event| {
                call!(clEnqueueCopyBuffer(
                    queue, from, to, 0, 0, *bytes, count, list, event
                ))
            }),
            Copied::Image(larger) => larger.copy(queue, (from, to), after, events),
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
        let mut last = Chain::default();
        if let Some(before) = self.last.lock().take() {
            last.push(before.event as cl_event);
        }
        // What has failed is no reason to fail, too.
        let pending = |event: &cl_event| status(*event) > Some(CL_COMPLETE.cast_signed());
        after.extend(last.last().filter(pending));
        let ready = self.prepare(queue)?;
        after.extend(ready.as_ref().and_then(|ready| ready.last()));
        let mut events = Chain::default();
        if let Some(ready) = &ready {
            // Whether they were written is seen by the look.
            events.hold(ready);
        }
        let ends = (buffer.handle, self.handle());
        let code = self.copy(queue, ends, &after, &mut events);
        events.behind(ready.into_iter().collect());
        if code != CL_SUCCESS {
            return Err(code);
        }
        for index in indices {
            let code = set(kernel, *index, self.handle());
            if code != CL_SUCCESS {
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
        self.copy(queue, (self.handle(), buffer.handle), after, events)
    }

    /// Says when the copy may be used again; the event is retained. `gated`: it
    /// waits for the program.
    pub fn used_until(&self, event: cl_event, queue: cl_command_queue, gated: bool) {
        call!(clRetainEvent(event));
        let last = Last {
            event: event as usize,
            queue: queue as usize,
            gated,
        };
        let before = self.last.lock().replace(last);
        if let Some(before) = before {
            let_go(before.event as cl_event);
        }
    }

    /// Whether a launch has the copy that waits for the program, and that a
    /// launch in this queue would not wait for anyway, because it is in another
    /// queue or the queue keeps no order (`loose`).
    pub fn is_gated(&self, queue: cl_command_queue, loose: bool) -> bool {
        let last = self.last.lock();
        last.as_ref().is_some_and(|last| {
            last.gated
                && (loose || last.queue != queue as usize)
                && status(last.event as cl_event) > Some(CL_COMPLETE.cast_signed())
        })
    }
}

/// Gives the kernel its own argument again.
pub fn leave(buffer: &Buffer, kernel: &Kernel, indices: &[u32]) {
    for index in indices {
        set(kernel, *index, buffer.handle);
    }
}

fn set(kernel: &Kernel, index: u32, handle: usize) -> cl_int {
    let value = (&raw const handle).cast();
    call!(clSetKernelArg(
        kernel.handle as cl_kernel,
        index,
        size_of::<cl_mem>(),
        value
    ))
}
