//! Copies with canaries, for memory that cannot be given any: memory of the
//! host that the program made a buffer of (`CL_MEM_USE_HOST_PTR`), and parts
//! of a buffer, whose neighbours are the program's own data.
//!
//! For the time of a kernel a copy takes the place of such an argument: the
//! content goes there before the kernel and comes back after it. Launches that
//! use one copy follow each other, so that none brings back what is old.

use crate::arguments::Kernel;
use crate::buffers::{Block, Buffer, Memory, enclosed};
use crate::layer::Layer;
use crate::queries;
use crate::sys::*;
use crate::table::call;
use heap::canary::Layout;
use parking_lot::Mutex;
use std::sync::Arc;

/// A copy of a memory object.
pub struct Shadow {
    pub block: Block,
    /// What a kernel gets.
    part: usize,
    bytes: usize,
    /// Of the look behind the last kernel that got it; ours to release.
    last: Mutex<Option<usize>>,
}

impl Drop for Shadow {
    fn drop(&mut self) {
        if let Some(last) = self.last.lock().take() {
            call!(clReleaseEvent(last as cl_event));
        }
        call!(clReleaseMemObject(self.part as cl_mem));
    }
}

impl Layer {
    /// The copy of a memory object, made when it is first wanted.
    pub fn shadow(&self, buffer: &Buffer) -> Option<Arc<Shadow>> {
        if let Some(known) = &*buffer.shadow.lock() {
            return Some(known.clone());
        }
        let context: Option<cl_context> = queries::one(|size, value, needed| {
            let name = CL_MEM_CONTEXT;
            call!(clGetMemObjectInfo(
                buffer.handle as cl_mem,
                name,
                size,
                value,
                needed
            ))
        });
        let context = context?;
        let alignment = self.context(context).alignment;
        let layout = Layout::around(buffer.size, self.settings.canary_size, alignment)?;
        let key = self.key(buffer.serial);
        let none = std::ptr::null_mut();
        let made = enclosed(context, CL_MEM_READ_WRITE, &layout, &key, none)?;
        let shadow = Arc::new(Shadow {
            block: Block::new(Memory::Buffer(made.block), layout, key, false),
            part: made.part as usize,
            bytes: usize::try_from(buffer.size).ok()?,
            last: Mutex::new(None),
        });
        // Another thread may have been faster.
        let known = buffer.shadow.lock().get_or_insert(shadow).clone();
        Some(known)
    }
}

impl Shadow {
    /// Brings the content here and puts the copy into the kernel's arguments.
    /// Returns the event that the kernel must wait for, which must be
    /// released.
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
    ) -> Result<cl_event, cl_int> {
        let mut after = after.to_vec();
        let last = self.last.lock().take();
        after.extend(last.map(|last| last as cl_event));
        let ready = self.block.prepare(queue)?;
        after.extend(ready);
        let mut event = std::ptr::null_mut();
        let ends = (buffer.handle as cl_mem, self.part as cl_mem);
        let code = copy(queue, ends, self.bytes, &after, &mut event);
        for event in last.map(|last| last as cl_event).into_iter().chain(ready) {
            call!(clReleaseEvent(event));
        }
        if code != CL_SUCCESS {
            return Err(code);
        }
        for index in indices {
            let code = set(kernel, *index, self.part);
            if code != CL_SUCCESS {
                leave(buffer, kernel, indices);
                call!(clReleaseEvent(event));
                return Err(code);
            }
        }
        Ok(event)
    }

    /// Enqueues the way back.
    pub fn bring_back(
        &self,
        queue: cl_command_queue,
        buffer: &Buffer,
        after: &[cl_event],
        event: &mut cl_event,
    ) -> cl_int {
        let ends = (self.part as cl_mem, buffer.handle as cl_mem);
        copy(queue, ends, self.bytes, after, event)
    }

    /// Says when the copy may be used again; the event is retained.
    pub fn used_until(&self, event: cl_event) {
        call!(clRetainEvent(event));
        let before = self.last.lock().replace(event as usize);
        if let Some(before) = before {
            call!(clReleaseEvent(before as cl_event));
        }
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

fn copy(
    queue: cl_command_queue,
    (from, to): (cl_mem, cl_mem),
    bytes: usize,
    after: &[cl_event],
    event: &mut cl_event,
) -> cl_int {
    let (count, list) = crate::buffers::wait_list(after);
    call!(clEnqueueCopyBuffer(
        queue, from, to, 0, 0, bytes, count, list, event
    ))
}
