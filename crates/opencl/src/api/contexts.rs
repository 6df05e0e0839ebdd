//! The program's contexts and queues. The first context shows that the program
//! uses OpenCL.

use crate::api::answer::answer;
use crate::api::session;
use crate::canaries::contexts::{Context, references};
use crate::platform::ask::ask;
use crate::platform::call;
use crate::sys::*;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// How a platform notifies a program of errors.
type Notify = Option<unsafe extern "C" fn(*const c_char, *const c_void, usize, *mut c_void)>;

pub unsafe extern "C" fn create(
    properties: *const cl_context_properties,
    count: cl_uint,
    devices: *const cl_device_id,
    notify: Notify,
    data: *mut c_void,
    code: *mut cl_int,
) -> cl_context {
    let context = call!(clCreateContext(properties, count, devices, notify, data, code)
        else std::ptr::null_mut());
    created(context);
    context
}

pub unsafe extern "C" fn create_from_type(
    properties: *const cl_context_properties,
    kind: cl_device_type,
    notify: Notify,
    data: *mut c_void,
    code: *mut cl_int,
) -> cl_context {
    let context = call!(clCreateContextFromType(properties, kind, notify, data, code)
        else std::ptr::null_mut());
    created(context);
    context
}

fn created(context: cl_context) {
    if let Some(session) = session::get().filter(|_| !context.is_null()) {
        session.opened(context);
    }
}

fn known(context: cl_context) -> Option<Arc<Context>> {
    session::get()?.canaries.known(context)
}

pub unsafe extern "C" fn retain(context: cl_context) -> cl_int {
    let code = call!(clRetainContext(context));
    if let Some(known) = known(context).filter(|_| code == CL_SUCCESS) {
        known.retained();
    }
    code
}

pub unsafe extern "C" fn release(context: cl_context) -> cl_int {
    if let Some(known) = known(context) {
        known.released();
    }
    call!(clReleaseContext(context))
}

/// Releases memory that keeps queues alive in a context that the program has
/// released.
fn forget_queues(context: cl_context) {
    if let Some(known) = known(context) {
        known.forget_queues();
    }
}

fn context_of_queue(queue: cl_command_queue) -> Option<cl_context> {
    ask!(one, clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT))
}

pub unsafe extern "C" fn release_queue(queue: cl_command_queue) -> cl_int {
    let context = session::get().and_then(|_| context_of_queue(queue));
    let code = call!(clReleaseCommandQueue(queue));
    if let Some(context) = context.filter(|_| code == CL_SUCCESS) {
        forget_queues(context);
    }
    code
}

pub unsafe extern "C" fn queue_info(
    queue: cl_command_queue,
    name: cl_command_queue_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    if name == CL_QUEUE_REFERENCE_COUNT
        && let Some(context) = session::get().and_then(|_| context_of_queue(queue))
    {
        forget_queues(context);
    }
    call!(clGetCommandQueueInfo(queue, name, size, value, size_ret))
}

/// The reference count of a context, without the references of Ringfence's
/// objects.
pub unsafe extern "C" fn info(
    context: cl_context,
    name: cl_context_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    if name == CL_CONTEXT_REFERENCE_COUNT {
        forget_queues(context);
    }
    if name == CL_CONTEXT_REFERENCE_COUNT
        && let Some(session) = session::get()
        && let Some(known) = known(context)
        && let Some(count) = references(context)
    {
        let ours = known
            .own_references(&session.objects.buffers_of(context as usize))
            .unwrap_or(0);
        let count = count.saturating_sub(ours).max(1);
        // SAFETY: what a program passes to clGetContextInfo.
        return unsafe { answer(&count.to_ne_bytes(), size, value, size_ret) };
    }
    call!(clGetContextInfo(context, name, size, value, size_ret))
}
