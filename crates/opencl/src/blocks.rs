//! Blocks: memory of the platform's that holds a buffer between two canaries.

use crate::events::status;
use crate::queries::ask;
use crate::sys::*;
use crate::table::call;
use crate::waits::{List, wait_list};
use heap::canary::{Key, Layout, Side};
use parking_lot::Mutex;
use std::ffi::c_void;

/// Flags that say who may do what; a sub-buffer may have them, too.
const ACCESS: u64 = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY | HOST_ACCESS;
pub const HOST_ACCESS: u64 = CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS;

/// How the platform knows a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// A `cl_mem`, which lives as long as the program's object.
    Buffer(usize),
    /// Shared virtual memory, by its address.
    Svm(usize),
}

/// A block with canaries.
pub struct Block {
    pub memory: Memory,
    pub layout: Layout,
    pub key: Key,
    /// Both canaries as they must be, one after the other.
    intact: Box<[u8]>,
    written: Mutex<Written>,
}

/// Whether the canaries are there.
enum Written {
    No,
    /// When this event is complete, which is ours to release.
    Soon(usize),
    Yes,
}

/// A block, and the part of it that lies between its canaries.
pub struct Enclosed {
    /// Its `cl_mem`, which lives as long as the part.
    pub block: usize,
    pub part: cl_mem,
    /// Flags that the platform adds to those that it is given.
    pub added: u64,
}

/// Makes a block and the part between its canaries.
pub fn enclosed(context: cl_context, flags: u64, layout: &Layout) -> Option<Enclosed> {
    let total = usize::try_from(layout.total()).ok()?;
    let mut code = CL_SUCCESS;
    let none = std::ptr::null_mut();
    let block = call!(clCreateBuffer(context, block_flags(flags), total, none, &raw mut code)
        else std::ptr::null_mut());
    if code != CL_SUCCESS || block.is_null() {
        return None;
    }
    let region = cl_buffer_region {
        origin: layout.start() as usize,
        size: layout.size() as usize,
    };
    let part = call!(clCreateSubBuffer(
        block,
        flags & ACCESS,
        CL_BUFFER_CREATE_TYPE_REGION,
        (&raw const region).cast(),
        &raw mut code,
    ) else std::ptr::null_mut());
    let told: Option<u64> = ask!(one, clGetMemObjectInfo(block, CL_MEM_FLAGS));
    // The part holds it from here on.
    call!(clReleaseMemObject(block));
    let added = told.map_or(0, |told| told & !block_flags(flags));
    (code == CL_SUCCESS && !part.is_null()).then_some(Enclosed {
        block: block as usize,
        part,
        added,
    })
}

/// The host must be able to look at canaries. What is to be copied from the
/// host is written later ([`Block::fill`]): NVIDIA's platform (driver 580)
/// keeps the host's bytes of a block that was made with them, and answers reads
/// of canaries from there, whatever a kernel has written.
fn block_flags(flags: u64) -> u64 {
    flags & !HOST_ACCESS & !CL_MEM_COPY_HOST_PTR
}

/// Which way both canaries go, and where they are on the host.
#[derive(Clone, Copy)]
enum Way {
    Read(*mut u8),
    Write(*const u8),
}

impl Drop for Block {
    fn drop(&mut self) {
        self.settle();
    }
}

impl Block {
    /// A block without content, and without canaries so far.
    pub fn new(memory: Memory, layout: Layout, key: Key) -> Block {
        let length = layout.length() as usize;
        let mut intact = vec![0; 2 * length].into_boxed_slice();
        let (before, after) = intact.split_at_mut(length);
        layout.fill(&key, Side::Before, before);
        layout.fill(&key, Side::After, after);
        Block {
            memory,
            layout,
            key,
            intact,
            written: Mutex::new(Written::No),
        }
    }

    /// Writes content from the host's memory, which holds as many bytes as
    /// the buffer has, and the canaries. `None`: it cannot be written.
    pub fn fill(&self, queue: cl_command_queue, content: *const c_void) -> Option<()> {
        let Memory::Buffer(block) = self.memory else {
            return None;
        };
        let mut ready = std::ptr::null_mut();
        if self.restore(queue, &[], &mut ready) != CL_SUCCESS {
            return None;
        }
        let behind = [ready];
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
        call!(clReleaseEvent(ready));
        *self.written.lock() = Written::Yes;
        (code == CL_SUCCESS).then_some(())
    }

    /// Sees to it that the canaries are written before what is enqueued next,
    /// which must wait for the returned event, if there is one; it must be
    /// released.
    ///
    /// One thread at a time: another one that launches a kernel with this
    /// block must find the event.
    ///
    /// # Errors
    ///
    /// The platform's code.
    pub fn prepare(&self, queue: cl_command_queue) -> Result<Option<cl_event>, cl_int> {
        let mut written = self.written.lock();
        match *written {
            Written::Yes => return Ok(None),
            Written::Soon(event) => {
                let event = event as cl_event;
                if status(event) != Some(CL_COMPLETE.cast_signed()) {
                    call!(clRetainEvent(event));
                    return Ok(Some(event));
                }
                call!(clReleaseEvent(event));
                *written = Written::Yes;
                return Ok(None);
            }
            Written::No => {}
        }
        let mut event = std::ptr::null_mut();
        match self.restore(queue, &[], &mut event) {
            CL_SUCCESS => {
                *written = Written::Soon(event as usize);
                call!(clRetainEvent(event));
                Ok(Some(event))
            }
            code => Err(code),
        }
    }

    /// Writes the canaries again, behind another command.
    pub fn rewrite(&self, queue: cl_command_queue, after: cl_event) {
        let mut written = self.written.lock();
        let mut event = std::ptr::null_mut();
        if self.restore(queue, &[after], &mut event) != CL_SUCCESS {
            return;
        }
        if let Written::Soon(before) =
            std::mem::replace(&mut *written, Written::Soon(event as usize))
        {
            call!(clReleaseEvent(before as cl_event));
        }
    }

    /// A kernel that waited for the canaries has ended: they are there. The
    /// platform may call this while a thread that holds the lock calls the
    /// platform: then that thread sees for itself, now or the next time.
    pub fn settle(&self) {
        let Some(mut written) = self.written.try_lock() else {
            return;
        };
        let before = std::mem::replace(&mut *written, Written::Yes);
        drop(written);
        if let Written::Soon(event) = before {
            call!(clReleaseEvent(event as cl_event));
        }
    }

    /// Whether the canaries are there, or will be before what is enqueued now.
    pub fn is_written(&self) -> bool {
        !matches!(*self.written.lock(), Written::No)
    }

    /// Enqueues a read of both canaries into `bytes`, which must stay where
    /// they are until `event` is complete.
    pub fn read(
        &self,
        queue: cl_command_queue,
        bytes: &mut [u8],
        after: &[cl_event],
        event: &mut cl_event,
    ) -> cl_int {
        if bytes.len() < self.intact.len() {
            return CL_INVALID_VALUE;
        }
        self.both(queue, Way::Read(bytes.as_mut_ptr()), after, event)
    }

    /// Enqueues a write of both canaries as they must be.
    pub fn restore(
        &self,
        queue: cl_command_queue,
        after: &[cl_event],
        event: &mut cl_event,
    ) -> cl_int {
        // The source lives as long as this block does; who enqueues this holds
        // on to it until the event is complete.
        self.both(queue, Way::Write(self.intact.as_ptr()), after, event)
    }

    /// One command a canary; `event` is that of the second.
    ///
    /// (Both as two rows of one rectangle would be one command, but NVIDIA's
    /// platform, driver 580, refuses a rectangle whose last row is not followed
    /// by a whole pitch: CL_INVALID_VALUE.)
    fn both(
        &self,
        queue: cl_command_queue,
        way: Way,
        after: &[cl_event],
        event: &mut cl_event,
    ) -> cl_int {
        let mut first = std::ptr::null_mut();
        let code = self.one(queue, way, Side::Before, wait_list(after), &raw mut first);
        if code != CL_SUCCESS {
            return code;
        }
        let behind = [first];
        let code = self.one(queue, way, Side::After, wait_list(&behind), event);
        if code != CL_SUCCESS {
            // The caller takes its memory back. What the wait answers changes
            // nothing: the command has ended either way.
            call!(clWaitForEvents(1, behind.as_ptr()));
        }
        call!(clReleaseEvent(first));
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

    /// Bytes of both canaries.
    pub fn canary_bytes(&self) -> usize {
        self.intact.len()
    }
}
