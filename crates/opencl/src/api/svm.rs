//! Shared virtual memory: allocations with canaries, whose pointers the
//! program holds. A kernel that gets one of them can reach them all, because
//! each may hold pointers to others.

use crate::api::session::{self, Session, with_scans};
use crate::objects::block::{Block, Memory};
use crate::objects::buffer::{Buffer, Given, Made, Place};
use crate::platform::call;
use crate::schedule::PATIENCE;
use crate::sys::*;
use heap::canary::Layout;
use model::AllocationKind;
use std::ffi::c_void;
use std::sync::Arc;

/// Allocations are aligned to the largest type if the program does not say:
/// long16.
const ALIGNMENT: u64 = 128;

/// An allocation with canaries; `None` if the platform makes none, or would
/// refuse the program's request.
fn guarded(
    session: &Session,
    context: cl_context,
    flags: u64,
    size: usize,
    alignment: cl_uint,
) -> Option<*mut c_void> {
    if size == 0 || context.is_null() {
        return None;
    }
    let serial = session.objects.next_serial();
    let key = session.canaries.keys.key(serial);
    let (layout, block) = session.canaries.sized(|canary| {
        let layout = Layout::around(size as u64, canary, u64::from(alignment).max(ALIGNMENT))?;
        let total = usize::try_from(layout.total()).ok()?;
        let block = call!(clSVMAlloc(context, flags, total, alignment) else std::ptr::null_mut());
        (!block.is_null()).then_some((layout, block))
    })?;
    let start = block as usize + layout.start() as usize;
    session.objects.add_svm(Arc::new(Buffer::of(Made {
        handle: start,
        context: context as usize,
        kind: AllocationKind::ClSvm,
        size: size as u64,
        serial,
        given: Given { flags, host: false },
        flags,
        properties: false,
        place: Place::Block(Block::new(Memory::Svm(block as usize), layout, key)),
        allocated_at: session.stack(),
    })));
    Some(start as *mut c_void)
}

/// Removes an allocation, and returns the address under which the platform has
/// it.
fn take(session: &Session, pointer: *mut c_void) -> Option<(*mut c_void, Arc<Buffer>)> {
    let buffer = session.objects.take_svm(pointer as usize)?;
    match buffer.block()?.memory {
        Memory::Svm(block) => Some((block as *mut c_void, buffer)),
        Memory::Buffer(_) => None,
    }
}

pub unsafe extern "C" fn allocate(
    context: cl_context,
    flags: cl_svm_mem_flags,
    size: usize,
    alignment: cl_uint,
) -> *mut c_void {
    let guarded =
        session::get().and_then(|session| guarded(session, context, flags, size, alignment));
    guarded.unwrap_or_else(
        || call!(clSVMAlloc(context, flags, size, alignment) else std::ptr::null_mut()),
    )
}

pub unsafe extern "C" fn free(context: cl_context, pointer: *mut c_void) {
    let taken = session::get().and_then(|session| Some((session, take(session, pointer)?)));
    let Some((session, (block, buffer))) = taken else {
        return call!(clSVMFree(context, pointer) else ());
    };
    // Scans that are under way read it.
    let jobs = &session.schedule.jobs;
    jobs.wait(PATIENCE, |_, _| Arc::strong_count(&buffer) > 1);
    call!(clSVMFree(context, block) else ())
}

type FreeFunction =
    Option<unsafe extern "C" fn(cl_command_queue, cl_uint, *mut *mut c_void, *mut c_void)>;

pub unsafe extern "C" fn enqueue_free(
    queue: cl_command_queue,
    count: cl_uint,
    pointers: *mut *mut c_void,
    function: FreeFunction,
    data: *mut c_void,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    // A free function of the program gets the program's own pointers, and frees
    // them by the call above.
    let mut blocks: Vec<*mut c_void> = Vec::new();
    let mut taken: Vec<Arc<Buffer>> = Vec::new();
    let mut given = pointers;
    if function.is_none()
        && !pointers.is_null()
        && let Some(session) = session::get()
    {
        // SAFETY: the program's list.
        let theirs = unsafe { std::slice::from_raw_parts(pointers, count as usize) };
        for pointer in theirs {
            let Some((block, buffer)) = take(session, *pointer) else {
                blocks.push(*pointer);
                continue;
            };
            blocks.push(block);
            taken.push(buffer);
        }
        given = blocks.as_mut_ptr();
    }
    let code = with_scans((waits, list), |(waits, list)| {
        call!(clEnqueueSVMFree(
            queue, count, given, function, data, waits, list, event
        ))
    });
    if let Some(session) = session::get().filter(|_| code != CL_SUCCESS) {
        // They are not freed.
        for buffer in taken {
            session.objects.add_svm(buffer);
        }
    }
    code
}
