//! Buffers with canaries around them.
//!
//! What the program gets is a sub-buffer of a larger block that it never
//! sees, with a canary before it and one after it. So the platform itself
//! holds every copy, map and query to the size that the program asked for, and
//! kernels get a pointer that is aligned as it would be. The block goes with
//! its sub-buffer. Where no such block can be had, the program gets the plain
//! buffer that it asked for, and the report says so.

use crate::events::status;
use crate::images::Shape;
use crate::layer::{self, Layer};
use crate::queries::ask;
use crate::shadows::Shadow;
use crate::sys::*;
use crate::table::call;
use crate::waits::List;
use heap::canary::{Key, Layout, Side};
use host::Stack;
use model::AllocationKind;
use parking_lot::Mutex;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

/// Flags that say who may do what; a sub-buffer may have them, too.
const ACCESS: u64 = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY | HOST_ACCESS;
const HOST_ACCESS: u64 = CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS;

/// Canaries where larger ones do not fit.
const LEAST: u64 = 64;

/// A memory object of the program's.
pub struct Buffer {
    pub serial: u64,
    pub kind: AllocationKind,
    pub size: u64,
    /// As the program knows it.
    pub handle: usize,
    /// As the program would be told.
    pub flags: u64,
    pub place: Place,
    /// Its copy with canaries, once one was needed.
    pub shadow: Mutex<Option<Arc<Shadow>>>,
    pub allocated_at: Stack,
}

/// Where a memory object lies.
pub enum Place {
    /// In a block of its own, between canaries.
    Block(Block),
    /// In another object of the program's.
    Part {
        parent: Arc<Buffer>,
        /// Bytes from the parent's start.
        origin: usize,
    },
    /// As the platform made it, without canaries: a copy with canaries stands
    /// for it while a kernel runs.
    Plain {
        /// The object that it is a part of, or its own handle.
        root: usize,
        /// Bytes from the root's start.
        origin: usize,
    },
    /// An image; a larger copy stands for it.
    Image(Shape),
    /// An image made of a buffer.
    Made(Arc<Buffer>),
    /// Without canaries, for this reason.
    Bare(&'static str),
}

impl Buffer {
    /// Which bytes of which object of the program's it is.
    pub fn extent(&self) -> (usize, Range<u64>) {
        let (root, origin) = match &self.place {
            Place::Part { parent, origin } => (parent.handle, *origin as u64),
            Place::Plain { root, origin } => (*root, *origin as u64),
            Place::Made(parent) => return parent.extent(),
            Place::Block(_) | Place::Image(_) | Place::Bare(_) => (self.handle, 0),
        };
        (root, origin..origin + self.size)
    }
}

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

impl Layer {
    /// The memory object with this handle, if it is one.
    pub fn buffer(&self, handle: usize) -> Option<Arc<Buffer>> {
        self.buffers.lock().get(&handle).cloned()
    }

    pub fn register(&self, buffer: Buffer) {
        let handle = buffer.handle;
        self.buffers.lock().insert(handle, Arc::new(buffer));
        let data = std::ptr::null_mut();
        call!(clSetMemObjectDestructorCallback(
            handle as cl_mem,
            Some(gone),
            data
        ));
    }

    /// A buffer with canaries; `None`: the platform does not give one, or
    /// would refuse what the program asks for.
    fn guarded(
        &self,
        context: cl_context,
        flags: u64,
        size: usize,
        host: *mut c_void,
        allocated_at: &Stack,
    ) -> Option<cl_mem> {
        let copies = flags & CL_MEM_COPY_HOST_PTR != 0;
        if size == 0 || context.is_null() || copies == host.is_null() {
            return None;
        }
        let serial = self.next_serial();
        let key = self.key(serial);
        let alignment = self.context(context).alignment;
        let wanted = self.settings.canary_size;
        for canary in [wanted, wanted.min(LEAST)] {
            let layout = Layout::around(size as u64, canary, alignment)?;
            let Some(made) = enclosed(context, flags, &layout, &key, host) else {
                continue;
            };
            self.register(Buffer {
                serial,
                kind: AllocationKind::ClBuffer,
                size: size as u64,
                handle: made.part as usize,
                flags: flags | made.added,
                place: Place::Block(Block::new(Memory::Buffer(made.block), layout, key, copies)),
                shadow: Mutex::default(),
                allocated_at: allocated_at.clone(),
            });
            return Some(made.part);
        }
        None
    }

    fn unguarded(&self, handle: cl_mem, flags: u64, size: u64, place: Place, at: Stack) {
        if handle.is_null() {
            return;
        }
        self.register(Buffer {
            serial: self.next_serial(),
            kind: match place {
                Place::Plain { root, .. } if root != handle as usize => AllocationKind::ClSubBuffer,
                _ => AllocationKind::ClBuffer,
            },
            size,
            handle: handle as usize,
            flags,
            place,
            shadow: Mutex::default(),
            allocated_at: at,
        });
    }

    /// A frame's worth of host call stack, as the settings want it.
    pub fn stack(&self) -> Stack {
        host::stacks::capture(self.settings.num_callers_host)
    }
}

/// A block, and the part of it that lies between its canaries.
pub struct Enclosed {
    /// Its `cl_mem`, which lives as long as the part.
    pub block: usize,
    pub part: cl_mem,
    /// Flags that the platform adds to those that it is given.
    pub added: u64,
}

/// Makes a block and the part between its canaries; its content, and then the
/// canaries, too, come from the host's memory, if there is any.
pub fn enclosed(
    context: cl_context,
    flags: u64,
    layout: &Layout,
    key: &Key,
    host: *mut c_void,
) -> Option<Enclosed> {
    let block = make_block(context, flags, layout, key, host)?;
    let region = cl_buffer_region {
        origin: layout.start() as usize,
        size: layout.size() as usize,
    };
    let mut code = CL_SUCCESS;
    let part = call!(clCreateSubBuffer(
        block as cl_mem,
        flags & ACCESS,
        CL_BUFFER_CREATE_TYPE_REGION,
        (&raw const region).cast(),
        &raw mut code,
    ) else std::ptr::null_mut());
    let told: Option<u64> = ask!(one, clGetMemObjectInfo(block as cl_mem, CL_MEM_FLAGS));
    // The part holds it from here on.
    call!(clReleaseMemObject(block as cl_mem));
    let added = told.map_or(0, |told| told & !block_flags(flags));
    (code == CL_SUCCESS && !part.is_null()).then_some(Enclosed { block, part, added })
}

/// The host must be able to look at canaries.
fn block_flags(flags: u64) -> u64 {
    flags & !HOST_ACCESS & !CL_MEM_COPY_HOST_PTR
}

/// A block, its canaries written if it is made from the host's memory.
fn make_block(
    context: cl_context,
    flags: u64,
    layout: &Layout,
    key: &Key,
    host: *mut c_void,
) -> Option<usize> {
    let total = usize::try_from(layout.total()).ok()?;
    let mut flags = block_flags(flags);
    let mut content = Vec::new();
    let mut source = std::ptr::null_mut();
    if !host.is_null() {
        content.try_reserve_exact(total).ok()?;
        content.resize(total, 0);
        key.fill(0, &mut content);
        let start = layout.start() as usize;
        // SAFETY: the program gives a pointer to as many bytes as the buffer
        // is to have.
        let given = unsafe { std::slice::from_raw_parts(host.cast(), layout.size() as usize) };
        content[start..start + given.len()].copy_from_slice(given);
        source = content.as_mut_ptr().cast();
        flags |= CL_MEM_COPY_HOST_PTR;
    }
    let mut code = CL_SUCCESS;
    let block = call!(clCreateBuffer(context, flags, total, source, &raw mut code)
        else std::ptr::null_mut());
    (code == CL_SUCCESS && !block.is_null()).then_some(block as usize)
}

impl Drop for Block {
    fn drop(&mut self) {
        self.settle();
    }
}

impl Block {
    /// `written`: the canaries are there already.
    pub fn new(memory: Memory, layout: Layout, key: Key, written: bool) -> Block {
        let length = layout.length() as usize;
        let mut intact = vec![0; 2 * length].into_boxed_slice();
        let (before, after) = intact.split_at_mut(length);
        layout.fill(&key, Side::Before, before);
        layout.fill(&key, Side::After, after);
        let written = if written { Written::Yes } else { Written::No };
        Block {
            memory,
            layout,
            key,
            intact,
            written: Mutex::new(written),
        }
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

    /// A kernel that waited for the canaries has ended: they are there.
    pub fn settle(&self) {
        let before = std::mem::replace(&mut *self.written.lock(), Written::Yes);
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
        let to = bytes.as_mut_ptr();
        self.both(after, event, &|canary, at, (count, list), event| {
            let to = to.wrapping_add(at).cast::<c_void>();
            let length = self.layout.length() as usize;
            match self.memory {
                Memory::Buffer(handle) => call!(clEnqueueReadBuffer(
                    queue,
                    handle as cl_mem,
                    FALSE,
                    canary,
                    length,
                    to,
                    count,
                    list,
                    event
                )),
                Memory::Svm(block) => call!(clEnqueueSVMMemcpy(
                    queue,
                    FALSE,
                    to,
                    (block + canary) as *const c_void,
                    length,
                    count,
                    list,
                    event
                )),
            }
        })
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
        let from = self.intact.as_ptr();
        self.both(after, event, &|canary, at, (count, list), event| {
            let from = from.wrapping_add(at).cast::<c_void>();
            let length = self.layout.length() as usize;
            match self.memory {
                Memory::Buffer(handle) => call!(clEnqueueWriteBuffer(
                    queue,
                    handle as cl_mem,
                    FALSE,
                    canary,
                    length,
                    from,
                    count,
                    list,
                    event
                )),
                Memory::Svm(block) => call!(clEnqueueSVMMemcpy(
                    queue,
                    FALSE,
                    (block + canary) as *mut c_void,
                    from,
                    length,
                    count,
                    list,
                    event
                )),
            }
        })
    }

    /// Enqueues something for one canary and then for the other. `one` gets
    /// the canary's offset in the block and in the host's copy, what to wait
    /// for, and the place of its event; `event` is that of the second.
    ///
    /// (Both as two rows of one rectangle would be one command, but NVIDIA's
    /// platform, driver 580, refuses a rectangle whose last row is not followed
    /// by a whole pitch: CL_INVALID_VALUE.)
    fn both(
        &self,
        after: &[cl_event],
        event: &mut cl_event,
        one: &dyn Fn(usize, usize, List, *mut cl_event) -> cl_int,
    ) -> cl_int {
        let mut first = std::ptr::null_mut();
        let before = self.layout.canary(Side::Before) as usize;
        let code = one(before, 0, wait_list(after), &raw mut first);
        if code != CL_SUCCESS {
            return code;
        }
        let length = self.layout.length() as usize;
        let behind = [first];
        let end = self.layout.canary(Side::After) as usize;
        let code = one(end, length, wait_list(&behind), event);
        if code != CL_SUCCESS {
            // The caller takes its memory back. What the wait answers changes
            // nothing: the command has ended either way.
            call!(clWaitForEvents(1, behind.as_ptr()));
        }
        call!(clReleaseEvent(first));
        code
    }

    /// Bytes of both canaries.
    pub fn canary_bytes(&self) -> usize {
        self.intact.len()
    }
}

/// A list of events as OpenCL wants it: an empty one is null.
pub fn wait_list(events: &[cl_event]) -> List {
    match events {
        [] => (0, std::ptr::null()),
        events => (events.len() as cl_uint, events.as_ptr()),
    }
}

/// The platform is about to free an object.
unsafe extern "C" fn gone(object: cl_mem, _data: *mut c_void) {
    let Some(layer) = layer::get() else { return };
    let buffer = layer.buffers.lock().remove(&(object as usize));
    let Some(buffer) = buffer else { return };
    let shadow = buffer.shadow.lock().take();
    drop(shadow);
    if let Place::Part { parent, .. } = &buffer.place {
        call!(clReleaseMemObject(parent.handle as cl_mem));
    }
}

pub unsafe extern "C" fn create(
    context: cl_context,
    flags: cl_mem_flags,
    size: usize,
    host: *mut c_void,
    code: *mut cl_int,
) -> cl_mem {
    let plain =
        || call!(clCreateBuffer(context, flags, size, host, code) else std::ptr::null_mut());
    create_by(context, flags, size, host, code, plain)
}

pub unsafe extern "C" fn create_with_properties(
    context: cl_context,
    properties: *const cl_mem_properties,
    flags: cl_mem_flags,
    size: usize,
    host: *mut c_void,
    code: *mut cl_int,
) -> cl_mem {
    let plain = || {
        call!(clCreateBufferWithProperties(context, properties, flags, size, host, code)
            else std::ptr::null_mut())
    };
    // SAFETY: a list that ends with 0, if there is one.
    if properties.is_null() || unsafe { *properties } == 0 {
        return create_by(context, flags, size, host, code, plain);
    }
    let handle = plain();
    if let Some(layer) = layer::get() {
        let why = "made with properties";
        layer.unguarded(handle, flags, size as u64, Place::Bare(why), layer.stack());
    }
    handle
}

fn create_by(
    context: cl_context,
    flags: u64,
    size: usize,
    host: *mut c_void,
    code: *mut cl_int,
    plain: impl Fn() -> cl_mem,
) -> cl_mem {
    let Some(layer) = layer::get() else {
        return plain();
    };
    let stack = layer.stack();
    if flags & CL_MEM_USE_HOST_PTR == 0
        && let Some(handle) = layer.guarded(context, flags, size, host, &stack)
    {
        if !code.is_null() {
            // SAFETY: the program's place for the code.
            unsafe { *code = CL_SUCCESS };
        }
        return handle;
    }
    let handle = plain();
    let place = if flags & CL_MEM_USE_HOST_PTR == 0 {
        Place::Bare("no room for canaries")
    } else if layer.svm_at(host as usize).is_some() {
        // Kernels may know it by its address.
        Place::Bare("made of shared virtual memory")
    } else {
        Place::Plain {
            root: handle as usize,
            origin: 0,
        }
    };
    layer.unguarded(handle, flags, size as u64, place, stack);
    handle
}

pub unsafe extern "C" fn create_part(
    buffer: cl_mem,
    flags: cl_mem_flags,
    kind: cl_buffer_create_type,
    info: *const c_void,
    code: *mut cl_int,
) -> cl_mem {
    let known = layer::get().and_then(|layer| Some((layer, layer.buffer(buffer as usize)?)));
    let (layer, parent, block) = match &known {
        Some((layer, parent)) => match &parent.place {
            Place::Block(block) => (*layer, parent, block),
            // Of a sub-buffer there is none, of what is plain a plain one.
            _ => {
                let part = call!(clCreateSubBuffer(buffer, flags, kind, info, code)
                    else std::ptr::null_mut());
                if !part.is_null() && kind == CL_BUFFER_CREATE_TYPE_REGION && !info.is_null() {
                    // SAFETY: what this kind is made from.
                    let region = unsafe { *info.cast::<cl_buffer_region>() };
                    let place = Place::Plain {
                        root: buffer as usize,
                        origin: region.origin,
                    };
                    let size = region.size as u64;
                    layer.unguarded(part, flags, size, place, layer.stack());
                }
                return part;
            }
        },
        None => {
            return call!(clCreateSubBuffer(buffer, flags, kind, info, code)
                else std::ptr::null_mut());
        }
    };
    let fail = |refusal| {
        if !code.is_null() {
            // SAFETY: the program's place for the code.
            unsafe { *code = refusal };
        }
        std::ptr::null_mut()
    };
    if kind != CL_BUFFER_CREATE_TYPE_REGION || info.is_null() {
        return fail(CL_INVALID_VALUE);
    }
    // SAFETY: what this kind is made from.
    let region = unsafe { *info.cast::<cl_buffer_region>() };
    let end = region.origin.checked_add(region.size);
    if region.size == 0 || end.is_none_or(|end| end as u64 > parent.size) {
        return fail(if region.size == 0 {
            CL_INVALID_BUFFER_SIZE
        } else {
            CL_INVALID_VALUE
        });
    }
    // The block has none of the flags that say what the host may do.
    let theirs = parent.flags & HOST_ACCESS;
    let host_access = match flags & HOST_ACCESS {
        0 => theirs,
        _ if theirs != 0 && flags & HOST_ACCESS != theirs => return fail(CL_INVALID_VALUE),
        access => access,
    };
    let inside = cl_buffer_region {
        origin: region.origin + block.layout.start() as usize,
        size: region.size,
    };
    let asked = (flags & !HOST_ACCESS) | host_access;
    let Memory::Buffer(whole) = block.memory else {
        return fail(CL_INVALID_MEM_OBJECT);
    };
    let handle = call!(clCreateSubBuffer(
        whole as cl_mem,
        asked,
        kind,
        (&raw const inside).cast(),
        code,
    ) else std::ptr::null_mut());
    if handle.is_null() {
        return handle;
    }
    let told: Option<u64> = ask!(one, clGetMemObjectInfo(handle, CL_MEM_FLAGS));
    // A sub-buffer keeps its parent, which here only the block would know.
    call!(clRetainMemObject(buffer));
    layer.register(Buffer {
        serial: layer.next_serial(),
        kind: AllocationKind::ClSubBuffer,
        size: region.size as u64,
        handle: handle as usize,
        flags: told.unwrap_or(asked),
        place: Place::Part {
            parent: parent.clone(),
            origin: region.origin,
        },
        shadow: Mutex::default(),
        allocated_at: layer.stack(),
    });
    handle
}
