//! Sub-buffers: for the program, parts of its buffer; for the platform, parts
//! of the block that holds it.

use crate::api::session::{self, Session};
use crate::canaries::blocks::HOST_ACCESS;
use crate::objects::block::{Block, Memory};
use crate::objects::buffer::{Buffer, Given, Made, Place};
use crate::platform::call;
use crate::sys::*;
use model::AllocationKind;
use std::ffi::c_void;
use std::sync::Arc;

pub unsafe extern "C" fn create(
    buffer: cl_mem,
    flags: cl_mem_flags,
    kind: cl_buffer_create_type,
    info: *const c_void,
    code: *mut cl_int,
) -> cl_mem {
    let plain = || {
        call!(clCreateSubBuffer(buffer, flags, kind, info, code)
            else std::ptr::null_mut())
    };
    let Some((session, parent)) = session::buffer(buffer) else {
        return plain();
    };
    // SAFETY: what this kind is made from.
    let region = (kind == CL_BUFFER_CREATE_TYPE_REGION && !info.is_null())
        .then(|| unsafe { *info.cast::<cl_buffer_region>() });
    let Some(block) = parent.block() else {
        // A sub-buffer has none; that of all other buffers is their own.
        let part = plain();
        if let Some(region) = region {
            session.unguarded(
                part,
                flags,
                region.size as u64,
                like(&parent, region),
                session.stack(),
            );
        }
        return part;
    };
    let made = match region {
        Some(region) => inside(session, &parent, block, flags, region),
        None => Err(CL_INVALID_VALUE),
    };
    if !code.is_null() {
        // SAFETY: the program's place for the code.
        unsafe { *code = made.err().unwrap_or(CL_SUCCESS) };
    }
    made.unwrap_or(std::ptr::null_mut())
}

/// Where a part of an object without canaries of its own lies.
fn like(parent: &Buffer, region: cl_buffer_region) -> Place {
    let (root, origin) = (parent.handle, region.origin);
    match parent.place {
        Place::Shared { .. } => Place::Shared { root, origin },
        Place::Bare(why) => Place::Bare(why),
        _ => Place::Plain { root, origin },
    }
}

/// Makes a part of a buffer with canaries.
///
/// # Errors
///
/// OpenCL's code for the program's error, or the platform's.
fn inside(
    session: &Session,
    parent: &Arc<Buffer>,
    block: &Block,
    flags: u64,
    region: cl_buffer_region,
) -> Result<cl_mem, cl_int> {
    if region.size == 0 {
        return Err(CL_INVALID_BUFFER_SIZE);
    }
    let end = region.origin.checked_add(region.size);
    if end.is_none_or(|end| end as u64 > parent.size) {
        return Err(CL_INVALID_VALUE);
    }
    // The block has not all flags of the program's buffer.
    let context = session.canaries.context(parent.context as cl_context);
    let answered = context.flags_of_part(parent.given, flags)?;
    let host_access = match flags & HOST_ACCESS {
        0 => parent.flags & HOST_ACCESS,
        access => access,
    };
    let inside = cl_buffer_region {
        origin: region.origin + block.layout.start() as usize,
        size: region.size,
    };
    let Memory::Buffer(whole) = block.memory else {
        return Err(CL_INVALID_MEM_OBJECT);
    };
    let mut code = CL_SUCCESS;
    let handle = call!(clCreateSubBuffer(
        whole as cl_mem,
        (flags & !HOST_ACCESS) | host_access,
        CL_BUFFER_CREATE_TYPE_REGION,
        (&raw const inside).cast(),
        &raw mut code,
    ) else std::ptr::null_mut());
    if handle.is_null() {
        return Err(code);
    }
    // A sub-buffer keeps its parent alive; here the platform would do so only
    // for the block.
    call!(clRetainMemObject(parent.handle as cl_mem));
    session.register(Made {
        handle: handle as usize,
        context: parent.context,
        kind: AllocationKind::ClSubBuffer,
        size: region.size as u64,
        serial: session.objects.next_serial(),
        given: Given { flags, host: false },
        flags: answered,
        properties: false,
        place: Place::Part {
            parent: parent.clone(),
            origin: region.origin,
        },
        allocated_at: session.stack(),
    });
    Ok(handle)
}
