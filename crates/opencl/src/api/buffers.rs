//! Buffers with canaries around them.
//!
//! The program gets a sub-buffer of a larger block, with a canary before it and
//! one after it; the block itself is hidden. So the platform checks every copy,
//! map and query against the size that the program requested, and kernels get a
//! pointer with the usual alignment. The block is released with its sub-buffer.
//! Where no such block can be made, the program gets the plain buffer that it
//! requested, and the report says so.

use crate::api::session::{self, Session, buffer};
use crate::canaries::blocks::enclosed;
use crate::objects::block::Block;
use crate::objects::buffer::{Given, Made, Place};
use crate::platform::call;
use crate::platform::handles::MemObject;
use crate::sys::*;
use heap::canary::Layout;
use host::Stack;
use model::AllocationKind;
use std::ffi::c_void;
use std::sync::atomic::Ordering;

/// A buffer as the program requests it.
#[derive(Clone, Copy)]
struct Asked {
    context: cl_context,
    flags: u64,
    size: usize,
    host: *mut c_void,
    /// Whether it is made with a list of properties, which is empty.
    properties: bool,
}

impl Asked {
    /// A buffer with canaries; `None` if the platform makes none, or would
    /// refuse the program's request.
    fn guarded(&self, session: &Session, allocated_at: &Stack) -> Option<cl_mem> {
        let (context, flags, host) = (self.context, self.flags, self.host);
        let copies = flags & CL_MEM_COPY_HOST_PTR != 0;
        if self.size == 0 || context.is_null() || copies && host.is_null() {
            return None;
        }
        let size = self.size as u64;
        let known = session.canaries.context(context);
        let given = Given {
            flags,
            host: !host.is_null(),
        };
        let answered = known.flags(given).ok()?;
        let serial = session.objects.next_serial();
        let key = session.canaries.keys.key(serial);
        let (part, block) = session.canaries.sized(|canary| {
            let layout = Layout::around(size, canary, known.alignment)?;
            let made = enclosed(context, flags, &layout)?;
            let block = Block::new(made.block, layout, key);
            if copies {
                known.with_queue(|queue| block.fill(queue, host))??;
            }
            Some((made.part, block))
        })?;
        session.register(Made {
            handle: part.raw() as usize,
            context: context as usize,
            kind: AllocationKind::ClBuffer,
            size,
            serial,
            given,
            flags: answered,
            properties: self.properties,
            place: Place::Block(block),
            allocated_at: allocated_at.clone(),
        });
        Some(MemObject::into_raw(part))
    }

    /// The buffer, by `plain` where it has no canaries of its own.
    fn create(&self, code: *mut cl_int, plain: impl Fn() -> cl_mem) -> cl_mem {
        let Some(session) = session::get() else {
            return plain();
        };
        let answer = |answer| {
            if !code.is_null() {
                // SAFETY: the program's place for the code.
                unsafe { *code = answer };
            }
        };
        let stack = session.stack();
        let uses_host = self.flags & CL_MEM_USE_HOST_PTR != 0;
        if !uses_host && let Some(handle) = self.guarded(session, &stack) {
            answer(CL_SUCCESS);
            return handle;
        }
        let shared = session.objects.svm_at(self.host as usize);
        if uses_host
            && let Some(shared) = &shared
            && shared.handle == self.host as usize
            && self.size as u64 > shared.size
        {
            // The platform gets the size with the canaries behind it.
            answer(CL_INVALID_BUFFER_SIZE);
            return std::ptr::null_mut();
        }
        let handle = plain();
        let (root, origin) = (handle as usize, 0);
        let place = match (uses_host, shared) {
            (false, _) => Place::Bare("no room for canaries"),
            (true, Some(_)) => Place::Shared { root, origin },
            (true, None) => Place::Plain { root, origin },
        };
        session.unguarded(handle, self.flags, self.size as u64, place, stack);
        handle
    }
}

pub unsafe extern "C" fn retain(object: cl_mem) -> cl_int {
    let code = call!(clRetainMemObject(object));
    if code == CL_SUCCESS
        && let Some((_, buffer)) = buffer(object)
        && let Some(image) = buffer.backed()
    {
        image.users.fetch_add(1, Ordering::Relaxed);
    }
    code
}

pub unsafe extern "C" fn release(object: cl_mem) -> cl_int {
    let known = buffer(object);
    let image = known
        .as_ref()
        .and_then(|(session, buffer)| Some((session, buffer.backed()?)));
    let Some((session, image)) = image else {
        return call!(clReleaseMemObject(object));
    };
    if image.users.fetch_sub(1, Ordering::Relaxed) > 1 {
        return call!(clReleaseMemObject(object));
    }
    // Before the call: after it the handle may be another object's.
    session.objects.take(object as usize);
    image.backing.rest();
    let code = call!(clReleaseMemObject(object));
    call!(clReleaseMemObject(image.parent.handle as cl_mem));
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
    let asked = Asked {
        context,
        flags,
        size,
        host,
        properties: false,
    };
    asked.create(code, plain)
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
        let asked = Asked {
            context,
            flags,
            size,
            host,
            properties: !properties.is_null(),
        };
        return asked.create(code, plain);
    }
    let handle = plain();
    if let Some(session) = session::get() {
        let place = Place::Bare("made with properties");
        session.unguarded(handle, flags, size as u64, place, session.stack());
    }
    handle
}
