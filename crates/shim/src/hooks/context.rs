//! Start of CUDA, and the ends of contexts: kernels are awaited and their
//! records read while that is still possible.

use super::define::{hook, hooks};
use crate::process;
use crate::session::{self, next};
use crate::timing;
use driver::sys::{CUcontext, CUdevice, CUlimit, CUresult};

hooks!(
    cuInit,
    cuCtxSetLimit,
    cuCtxGetLimit,
    cuCtxDestroy,
    cuCtxDestroy_v2,
    cuDevicePrimaryCtxReset,
    cuDevicePrimaryCtxReset_v2,
    cuDevicePrimaryCtxRelease,
    cuDevicePrimaryCtxRelease_v2,
);

hook!(cuInit(flags: u32) |init| {
    // SAFETY: the program's arguments.
    let result = unsafe { init(flags) };
    if result == CUresult::CUDA_SUCCESS
        && let Some(session) = session::get()
    {
        process::initialise(session);
    }
    result
});

hook!(cuCtxSetLimit(limit: CUlimit, value: usize) |set| {
    let runtime = session::runtime();
    let is_stack = limit == CUlimit::CU_LIMIT_STACK_SIZE;
    let wanted = match runtime.filter(|_| is_stack) {
        Some(runtime) => runtime.deep_stacks().limit_to_set(value as u64) as usize,
        None => value,
    };
    // SAFETY: the program's arguments, but for a limit that is higher.
    let result = unsafe { set(limit, wanted) };
    if result == CUresult::CUDA_SUCCESS
        && let Some(runtime) = runtime
    {
        if is_stack {
            runtime.deep_stacks().limit_chosen(value as u64);
        } else if limit == CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE {
            runtime.device_heap().set_limit(value as u64);
        }
    }
    result
});

hook!(cuCtxGetLimit(value: *mut usize, limit: CUlimit) |get| {
    // SAFETY: the program's arguments.
    let result = unsafe { get(value, limit) };
    if result == CUresult::CUDA_SUCCESS
        && limit == CUlimit::CU_LIMIT_STACK_SIZE
        && let Some(chosen) = session::runtime().and_then(|runtime| runtime.deep_stacks().chosen_limit())
    {
        // SAFETY: the device has written the answer there.
        unsafe { value.write(chosen as usize) };
    }
    result
});

/// Waits for the kernels of a context and reads their records.
fn drain(context: CUcontext) {
    let (Some(runtime), Some(api)) = (session::runtime(), next()) else {
        return;
    };
    if let (Some(push), Some(pop), Some(wait)) = (
        api.cuCtxPushCurrent_v2,
        api.cuCtxPopCurrent_v2,
        api.cuCtxSynchronize,
    ) {
        // SAFETY: a context that the program is about to destroy; null or a
        // dead one is refused by the device, and nothing is popped then.
        if unsafe { push(context) } == CUresult::CUDA_SUCCESS {
            // SAFETY: no arguments.
            let result = unsafe { wait() };
            if result != CUresult::CUDA_SUCCESS {
                super::define::failed(result, "");
            }
            let mut popped = CUcontext::NULL;
            // SAFETY: pushed above.
            let _ = unsafe { pop(&mut popped) };
        }
    }
    runtime.synchronized();
    timing::context_ending(context);
}

/// The primary context of a device, if it is active.
pub(super) fn primary(device: CUdevice) -> Option<CUcontext> {
    let api = next()?;
    let (state, retain, release) = (
        api.cuDevicePrimaryCtxGetState?,
        api.cuDevicePrimaryCtxRetain?,
        api.cuDevicePrimaryCtxRelease_v2?,
    );
    let (mut flags, mut active) = (0, 0);
    let mut context = CUcontext::NULL;
    // SAFETY: places for all answers; the reference that is taken is given
    // back at once, and the program's own keeps the context alive.
    unsafe {
        if state(device, &mut flags, &mut active) != CUresult::CUDA_SUCCESS
            || active == 0
            || retain(&mut context, device) != CUresult::CUDA_SUCCESS
        {
            return None;
        }
        let _ = release(device);
    }
    Some(context)
}

/// Whether the primary context of a device is there.
fn is_active(device: CUdevice) -> bool {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: places for both answers.
    let asked = next()
        .and_then(|api| api.cuDevicePrimaryCtxGetState)
        .map(|state| unsafe { state(device, &mut flags, &mut active) });
    asked == Some(CUresult::CUDA_SUCCESS) && active != 0
}

fn forget(context: CUcontext) {
    if let Some(runtime) = session::runtime() {
        runtime.device_heap().context_ending(context.0);
    }
    if let Some(gpu) = session::get().and_then(|session| session.gpu.as_ref()) {
        gpu.context_destroyed(context);
    }
}

/// A context is gone; what Ringfence keeps on the device may have gone with
/// it.
fn destroyed(result: CUresult, context: CUcontext) {
    if let Some(runtime) = session::runtime() {
        let is_known = result == CUresult::CUDA_SUCCESS && context != CUcontext::NULL;
        runtime.context_gone(is_known.then_some(context.0));
    }
}

hook!([cuCtxDestroy, cuCtxDestroy_v2](context: CUcontext) |destroy| {
    drain(context);
    forget(context);
    // SAFETY: the program's arguments.
    let result = unsafe { destroy(context) };
    destroyed(result, context);
    result
});

hook!([cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2](device: CUdevice) |reset| {
    let context = session::runtime().and_then(|_| primary(device));
    if let Some(context) = context {
        drain(context);
        forget(context);
    }
    // SAFETY: the program's arguments.
    let result = unsafe { reset(device) };
    destroyed(result, context.unwrap_or(CUcontext::NULL));
    result
});

hook!([cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2](device: CUdevice) |release| {
    // It may be the last reference, which destroys the context.
    let context = session::runtime().and_then(|_| primary(device));
    if let Some(context) = context {
        drain(context);
    }
    // SAFETY: the program's arguments.
    let result = unsafe { release(device) };
    let gone = context.filter(|_| !is_active(device));
    destroyed(result, gone.unwrap_or(CUcontext::NULL));
    result
});
