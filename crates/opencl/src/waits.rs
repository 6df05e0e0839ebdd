//! Commands that wait for events: what waits for a kernel also waits for the
//! look behind it.

use crate::chain::Chain;
use crate::layer;
use crate::sys::*;
use crate::table::call;
use std::ffi::c_void;

/// A wait list of the program's.
pub type List = (cl_uint, *const cl_event);

/// A list of events as OpenCL wants it: an empty one is null.
pub fn wait_list(events: &[cl_event]) -> List {
    match events {
        [] => (0, std::ptr::null()),
        events => (events.len() as cl_uint, events.as_ptr()),
    }
}

/// Calls `enqueue` with the list, grown by the events of looks.
pub fn with_looks<T>((count, list): List, enqueue: impl FnOnce(List) -> T) -> T {
    let given: &[cl_event] = if list.is_null() || count == 0 {
        &[]
    } else {
        // SAFETY: the program's list.
        unsafe { std::slice::from_raw_parts(list, count as usize) }
    };
    let looks = match layer::get() {
        Some(layer) if !given.is_empty() => layer.looks_behind(given),
        _ => Chain::default(),
    };
    if looks.last().is_none() {
        return enqueue((count, list));
    }
    let all: Vec<cl_event> = given.iter().copied().chain(looks.events()).collect();
    enqueue(wait_list(&all))
}

/// Functions that do nothing else: name of the hook, function, and its
/// parameters before the wait list.
macro_rules! waiting {
    ($($hook:ident = $name:ident($($parameter:ident: $type:ty),* $(,)?);)*) => {
        $(pub unsafe extern "C" fn $hook(
            $($parameter: $type,)*
            count: cl_uint,
            list: *const cl_event,
            event: *mut cl_event,
        ) -> cl_int {
            with_looks((count, list), |(count, list)| {
                call!($name($($parameter,)* count, list, event))
            })
        })*
    };
}

waiting! {
    migrate = clEnqueueMigrateMemObjects(queue: cl_command_queue, objects: cl_uint, list_of_objects: *const cl_mem, flags: cl_mem_migration_flags);
    marker = clEnqueueMarkerWithWaitList(queue: cl_command_queue);
    barrier = clEnqueueBarrierWithWaitList(queue: cl_command_queue);
    acquire_gl = clEnqueueAcquireGLObjects(queue: cl_command_queue, objects: cl_uint, list_of_objects: *const cl_mem);
    release_gl = clEnqueueReleaseGLObjects(queue: cl_command_queue, objects: cl_uint, list_of_objects: *const cl_mem);
    migrate_svm = clEnqueueSVMMigrateMem(queue: cl_command_queue, count_of_pointers: cl_uint, pointers: *mut *const c_void, sizes: *const usize, flags: cl_mem_migration_flags);
}

pub unsafe extern "C" fn wait_for_events(
    queue: cl_command_queue,
    count: cl_uint,
    list: *const cl_event,
) -> cl_int {
    with_looks((count, list), |(count, list)| {
        call!(clEnqueueWaitForEvents(queue, count, list))
    })
}
