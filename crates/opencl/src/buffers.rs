//! Buffers with canaries around them.
//!
//! What the program gets is a sub-buffer of a larger block that it never
//! sees, with a canary before it and one after it. So the platform itself
//! holds every copy, map and query to the size that the program asked for, and
//! kernels get a pointer that is aligned as it would be. The block goes with
//! its sub-buffer. Where no such block can be had, the program gets the plain
//! buffer that it asked for, and the report says so.

use crate::blocks::{Block, Memory, enclosed};
use crate::flags::Given;
use crate::images::Shape;
use crate::layer::{self, Layer};
use crate::queries::ask;
use crate::shadows::Shadow;
use crate::staged::Staged;
use crate::sys::*;
use crate::table::call;
use heap::canary::Layout;
use host::Stack;
use model::{AllocationKind, Note};
use parking_lot::Mutex;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Canaries where larger ones do not fit.
const LEAST: u64 = 64;

/// Tries canaries as large as the settings want them, and then the least; the
/// summary says if it had to be those.
pub fn with_canaries<T>(layer: &Layer, make: impl Fn(u64) -> Option<T>) -> Option<T> {
    let wanted = layer.settings.canary_size;
    if let Some(made) = make(wanted) {
        return Some(made);
    }
    if wanted <= LEAST {
        return None;
    }
    let made = make(LEAST)?;
    layer.reporter.note(Note::SmallerCanaries);
    Some(made)
}

/// A memory object of the program's.
pub struct Buffer {
    pub serial: u64,
    pub kind: AllocationKind,
    pub size: u64,
    /// As the program knows it.
    pub handle: usize,
    /// Its context's handle.
    pub context: usize,
    /// What the program gave.
    pub given: Given,
    /// As the program would be told.
    pub flags: u64,
    /// Whether it was made with a list of properties, which was empty.
    pub properties: bool,
    pub place: Place,
    /// Its copy with canaries, once one was needed.
    pub shadow: Mutex<Option<Arc<Shadow>>>,
    /// What stands for it in images that are made of it.
    pub staged: Mutex<Option<Arc<Staged>>>,
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
    /// Made of shared virtual memory, or a part of what is. Kernels may know it
    /// by its address, so no copy stands for it; the canaries around it are the
    /// allocation's.
    Shared {
        /// The object that it is a part of, or its own handle.
        root: usize,
        /// Bytes from the root's start.
        origin: usize,
    },
    /// An image; a larger copy stands for it.
    Image(Shape),
    /// An image made of a buffer.
    Made {
        parent: Arc<Buffer>,
        shape: Option<Shape>,
        /// What it is made of in truth, if that is not the buffer.
        staged: Option<Arc<Staged>>,
        /// References that the program holds.
        users: AtomicU32,
    },
    /// Without canaries, for this reason.
    Bare(&'static str),
}

impl Buffer {
    /// Which bytes of which object of the program's it is.
    pub fn extent(&self) -> (usize, Range<u64>) {
        let (root, origin) = match &self.place {
            Place::Part { parent, origin } => (parent.handle, *origin as u64),
            Place::Plain { root, origin } | Place::Shared { root, origin } => {
                (*root, *origin as u64)
            }
            Place::Made { parent, .. } => return parent.extent(),
            Place::Block(_) | Place::Image(_) | Place::Bare(_) => (self.handle, 0),
        };
        (root, origin..origin + self.size)
    }
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
        (host, properties): (*mut c_void, bool),
        allocated_at: &Stack,
    ) -> Option<cl_mem> {
        let copies = flags & CL_MEM_COPY_HOST_PTR != 0;
        if size == 0 || context.is_null() || copies && host.is_null() {
            return None;
        }
        let known = self.context(context);
        let given = Given {
            flags,
            host: !host.is_null(),
        };
        let told = known.flags(given).ok()?;
        let serial = self.next_serial();
        let key = self.keys.key(serial);
        let (made, block) = with_canaries(self, |canary| {
            let layout = Layout::around(size as u64, canary, known.alignment)?;
            let made = enclosed(context, flags, &layout)?;
            let block = Block::new(Memory::Buffer(made.block), layout, key);
            if copies {
                let filled = known.with_queue(|queue| block.fill(queue, host));
                if filled.flatten().is_none() {
                    call!(clReleaseMemObject(made.part));
                    return None;
                }
            }
            Some((made, block))
        })?;
        self.register(Buffer {
            serial,
            kind: AllocationKind::ClBuffer,
            size: size as u64,
            handle: made.part as usize,
            context: context as usize,
            given,
            flags: told,
            properties,
            place: Place::Block(block),
            shadow: Mutex::default(),
            staged: Mutex::default(),
            allocated_at: allocated_at.clone(),
        });
        Some(made.part)
    }

    /// An object that has no canaries of its own.
    pub fn unguarded(&self, handle: cl_mem, flags: u64, size: u64, place: Place, at: Stack) {
        if handle.is_null() {
            return;
        }
        let given = Given { flags, host: false };
        self.register(Buffer {
            serial: self.next_serial(),
            kind: match place {
                Place::Plain { root, .. } | Place::Shared { root, .. }
                    if root != handle as usize =>
                {
                    AllocationKind::ClSubBuffer
                }
                _ => AllocationKind::ClBuffer,
            },
            size,
            handle: handle as usize,
            context: context_of(handle),
            given,
            flags,
            properties: false,
            place,
            shadow: Mutex::default(),
            staged: Mutex::default(),
            allocated_at: at,
        });
    }

    /// A frame's worth of host call stack, as the settings want it.
    pub fn stack(&self) -> Stack {
        host::stacks::capture(self.settings.num_callers_host)
    }
}

/// The handle of an object's context; 0: the platform does not tell.
pub fn context_of(object: cl_mem) -> usize {
    let context: Option<usize> = ask!(one, clGetMemObjectInfo(object, CL_MEM_CONTEXT));
    context.unwrap_or(0)
}

/// The platform is about to free an object.
unsafe extern "C" fn gone(object: cl_mem, _data: *mut c_void) {
    let Some(layer) = layer::get() else { return };
    let buffer = layer.buffers.lock().remove(&(object as usize));
    let Some(buffer) = buffer else { return };
    layer.forget_maps(object as usize);
    let shadow = buffer.shadow.lock().take();
    drop(shadow);
    if let Place::Part { parent, .. } = &buffer.place {
        call!(clReleaseMemObject(parent.handle as cl_mem));
    }
}

/// The references that the program holds to an image that stands for a buffer,
/// which holds the buffer. Not every platform says that such an image is freed
/// (PoCL 3.1 does not).
fn users(buffer: &Buffer) -> Option<(&Arc<Buffer>, &Arc<Staged>, &AtomicU32)> {
    match &buffer.place {
        Place::Made {
            parent,
            staged: Some(staged),
            users,
            ..
        } => Some((parent, staged, users)),
        _ => None,
    }
}

pub unsafe extern "C" fn retain(object: cl_mem) -> cl_int {
    let code = call!(clRetainMemObject(object));
    if code == CL_SUCCESS
        && let Some(buffer) = layer::get().and_then(|layer| layer.buffer(object as usize))
        && let Some((_, _, users)) = users(&buffer)
    {
        users.fetch_add(1, Ordering::Relaxed);
    }
    code
}

pub unsafe extern "C" fn release(object: cl_mem) -> cl_int {
    let known = layer::get().and_then(|layer| Some((layer, layer.buffer(object as usize)?)));
    let Some((layer, buffer)) = known else {
        return call!(clReleaseMemObject(object));
    };
    let Some((parent, staged, users)) = users(&buffer) else {
        return call!(clReleaseMemObject(object));
    };
    if users.fetch_sub(1, Ordering::Relaxed) > 1 {
        return call!(clReleaseMemObject(object));
    }
    // Before the call: after it the handle may be another object's.
    layer.buffers.lock().remove(&(object as usize));
    staged.rest();
    let code = call!(clReleaseMemObject(object));
    call!(clReleaseMemObject(parent.handle as cl_mem));
    code
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
    create_by(context, flags, size, (host, false), code, plain)
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
        let properties = !properties.is_null();
        return create_by(context, flags, size, (host, properties), code, plain);
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
    (host, properties): (*mut c_void, bool),
    code: *mut cl_int,
    plain: impl Fn() -> cl_mem,
) -> cl_mem {
    let Some(layer) = layer::get() else {
        return plain();
    };
    let stack = layer.stack();
    if flags & CL_MEM_USE_HOST_PTR == 0
        && let Some(handle) = layer.guarded(context, flags, size, (host, properties), &stack)
    {
        if !code.is_null() {
            // SAFETY: the program's place for the code.
            unsafe { *code = CL_SUCCESS };
        }
        return handle;
    }
    let shared = layer.svm_at(host as usize);
    if flags & CL_MEM_USE_HOST_PTR != 0
        && let Some(shared) = &shared
        && shared.handle == host as usize
        && size as u64 > shared.size
    {
        // The platform sees the canaries behind it, too.
        if !code.is_null() {
            // SAFETY: the program's place for the code.
            unsafe { *code = CL_INVALID_BUFFER_SIZE };
        }
        return std::ptr::null_mut();
    }
    let handle = plain();
    let place = if flags & CL_MEM_USE_HOST_PTR == 0 {
        Place::Bare("no room for canaries")
    } else if shared.is_some() {
        Place::Shared {
            root: handle as usize,
            origin: 0,
        }
    } else {
        Place::Plain {
            root: handle as usize,
            origin: 0,
        }
    };
    layer.unguarded(handle, flags, size as u64, place, stack);
    handle
}
