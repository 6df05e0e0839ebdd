//! Sub-buffers: of the program's buffer in its own eyes, in truth of the block
//! that holds it.

use crate::blocks::{HOST_ACCESS, Memory};
use crate::buffers::{Buffer, Place};
use crate::flags::Given;
use crate::layer;
use crate::sys::*;
use crate::table::call;
use model::AllocationKind;
use parking_lot::Mutex;
use std::ffi::c_void;

pub unsafe extern "C" fn create(
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
            // Of a sub-buffer there is none; of all others it is as they are.
            place => {
                let part = call!(clCreateSubBuffer(buffer, flags, kind, info, code)
                    else std::ptr::null_mut());
                if !part.is_null() && kind == CL_BUFFER_CREATE_TYPE_REGION && !info.is_null() {
                    // SAFETY: what this kind is made from.
                    let region = unsafe { *info.cast::<cl_buffer_region>() };
                    let (root, origin) = (buffer as usize, region.origin);
                    let place = match place {
                        Place::Shared { .. } => Place::Shared { root, origin },
                        Place::Bare(why) => Place::Bare(why),
                        _ => Place::Plain { root, origin },
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
    // The block has not all flags of the program's buffer.
    let context = layer.context(parent.context as cl_context);
    let told = match context.flags_of_part(parent.given, flags) {
        Ok(told) => told,
        Err(code) => return fail(code),
    };
    let host_access = match flags & HOST_ACCESS {
        0 => parent.flags & HOST_ACCESS,
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
    // A sub-buffer keeps its parent, which here only the block would know.
    call!(clRetainMemObject(buffer));
    layer.register(Buffer {
        serial: layer.next_serial(),
        kind: AllocationKind::ClSubBuffer,
        size: region.size as u64,
        handle: handle as usize,
        context: parent.context,
        given: Given { flags, host: false },
        flags: told,
        properties: false,
        place: Place::Part {
            parent: parent.clone(),
            origin: region.origin,
        },
        shadow: Mutex::default(),
        staged: Mutex::default(),
        allocated_at: layer.stack(),
    });
    handle
}
