//! Commands that wait for events: what waits for a kernel also waits for the
//! scan behind it.

use crate::api::session::with_scans;
use crate::platform::call;
use crate::sys::*;
use std::ffi::c_void;

/// Functions that only wait: name of the hook, function, and its parameters
/// before the wait list.
macro_rules! waiting {
    ($($hook:ident = $name:ident($($parameter:ident: $type:ty),* $(,)?);)*) => {
        $(pub unsafe extern "C" fn $hook(
            $($parameter: $type,)*
            count: cl_uint,
            list: *const cl_event,
            event: *mut cl_event,
        ) -> cl_int {
            with_scans((count, list), |(count, list)| {
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
    with_scans((count, list), |(count, list)| {
        call!(clEnqueueWaitForEvents(queue, count, list))
    })
}
