//! Contexts. To the program there is the primary context of its device; to the
//! manager there is the tenant.

use crate::capture;
use crate::convert::{functions, only, put, put_if};
use crate::graph;
use crate::link::Link;
use crate::managed;
use crate::module;
use crate::printed;
use crate::reach;
use crate::state::{CONTEXT, Further, STACK, enter};
use driver::sys::*;
use protocol::Request;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

fn initialized(link: &Link) -> Result<(), CUresult> {
    match link.state.is_initialized.load(Ordering::Acquire) {
        true => Ok(()),
        false => Err(CUresult::CUDA_ERROR_NOT_INITIALIZED),
    }
}

/// A context that the program names: the primary one, a further one, or none.
fn known(link: &Link, context: CUcontext) -> Result<(), CUresult> {
    let is_known =
        matches!(context.0, 0 | CONTEXT) || link.state.contexts.lock().contains_key(&context.0);
    match is_known {
        true => Ok(()),
        false => Err(CUresult::CUDA_ERROR_INVALID_CONTEXT),
    }
}

/// Makes a further context, which is current from then on. To the manager all
/// contexts are one; what is allocated in this one goes with it.
fn create(link: &Link, flags: u32, device: CUdevice) -> Result<CUcontext, CUresult> {
    initialized(link)?;
    only(device)?;
    let handle = link.state.handle();
    let made = Further {
        flags,
        allocations: BTreeSet::new(),
    };
    link.state.contexts.lock().insert(handle, made);
    with_stack(|stack| stack.push(handle));
    Ok(CUcontext(handle))
}

/// Ends a further context, when all work is over.
fn destroy(link: &'static Link, context: CUcontext) -> Result<(), CUresult> {
    initialized(link)?;
    let invalid = CUresult::CUDA_ERROR_INVALID_CONTEXT;
    if !link.state.contexts.lock().contains_key(&context.0) {
        return Err(invalid);
    }
    synchronize(link)?;
    let removed = link.state.contexts.lock().remove(&context.0);
    for address in removed.ok_or(invalid)?.allocations {
        link.state.allocations.lock().remove(&address);
        reach::free(link, address)?;
    }
    with_stack(|stack| {
        if stack.last() == Some(&context.0) {
            stack.pop();
        }
    });
    Ok(())
}

/// The flags of a context.
fn flags_of(link: &Link) -> u32 {
    let contexts = link.state.contexts.lock();
    match contexts.get(&current()) {
        Some(further) => further.flags,
        None => link.state.context_flags.load(Ordering::Acquire),
    }
}

/// The context that is current in this thread; 0 for none.
pub(crate) fn current() -> u64 {
    with_stack(|stack| stack.last().copied().unwrap_or(0))
}

/// Does something with the contexts that this thread has pushed.
fn with_stack<T>(work: impl FnOnce(&mut Vec<u64>) -> T) -> T {
    STACK.with(|stack| work(&mut stack.borrow_mut()))
}

fn release(link: &'static Link) -> Result<(), CUresult> {
    let order = (Ordering::AcqRel, Ordering::Acquire);
    let retained = &link.state.retained;
    let fewer = |count: u32| count.checked_sub(1);
    let before = retained.fetch_update(order.0, order.1, fewer);
    before.map_err(|_| CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
    Ok(())
}

/// Ends all that was made in the context, when its work is over.
fn reset(link: &Link) -> Result<(), CUresult> {
    initialized(link)?;
    // What failed is over with the context; what kernels have printed goes with
    // their memory.
    let _ = link.state.order.wait_all(link);
    let _ = printed::behind(link, link.done(&Request::Synchronize));
    link.done(&Request::Reset)?;
    link.forget_failure();
    link.state.forget();
    graph::forget(link);
    module::load_again(link)
}

/// Waits for all work of the program.
fn synchronize(link: &'static Link) -> Result<(), CUresult> {
    let before = link.state.order.wait_all(link);
    reach::all(link)?;
    managed::after(link)?;
    before
}

functions! { link;
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) {
        initialized(link)?;
        only(device)?;
        link.state.retained.fetch_add(1, Ordering::AcqRel);
        put(context, CUcontext(CONTEXT))
    }
    fn cuDevicePrimaryCtxRelease(device: CUdevice) {
        only(device)?;
        release(link)
    }
    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) {
        only(device)?;
        release(link)
    }
    fn cuDevicePrimaryCtxReset(device: CUdevice) {
        only(device)?;
        reset(link)
    }
    fn cuDevicePrimaryCtxReset_v2(device: CUdevice) {
        only(device)?;
        reset(link)
    }
    fn cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut u32, active: *mut i32) {
        only(device)?;
        put_if(flags, link.state.context_flags.load(Ordering::Acquire));
        put(active, i32::from(link.state.retained.load(Ordering::Acquire) > 0))
    }
    fn cuDevicePrimaryCtxSetFlags(device: CUdevice, flags: u32) {
        only(device)?;
        link.state.context_flags.store(flags, Ordering::Release);
        Ok(())
    }
    fn cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: u32) {
        only(device)?;
        link.state.context_flags.store(flags, Ordering::Release);
        Ok(())
    }
    fn cuCtxCreate_v2(context: *mut CUcontext, flags: u32, device: CUdevice) {
        put(context, create(link, flags, device)?)
    }
    fn cuCtxCreate_v3(context: *mut CUcontext, _affinity: *mut CUexecAffinityParam, count: i32, flags: u32, device: CUdevice) {
        if count != 0 {
            return Err(CUresult::CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
        }
        put(context, create(link, flags, device)?)
    }
    fn cuCtxCreate_v4(context: *mut CUcontext, _parameters: *mut CUctxCreateParams, flags: u32, device: CUdevice) {
        put(context, create(link, flags, device)?)
    }
    fn cuCtxDestroy(context: CUcontext) {
        destroy(link, context)
    }
    fn cuCtxDestroy_v2(context: CUcontext) {
        destroy(link, context)
    }
    fn cuCtxPushCurrent(context: CUcontext) {
        initialized(link)?;
        known(link, context)?;
        with_stack(|stack| stack.push(context.0));
        Ok(())
    }
    fn cuCtxPopCurrent(context: *mut CUcontext) {
        let popped = with_stack(Vec::pop);
        put_if(context, CUcontext(popped.ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?));
        Ok(())
    }
    fn cuCtxPushCurrent_v2(context: CUcontext) {
        initialized(link)?;
        known(link, context)?;
        with_stack(|stack| stack.push(context.0));
        Ok(())
    }
    fn cuCtxPopCurrent_v2(context: *mut CUcontext) {
        let popped = with_stack(Vec::pop);
        put_if(context, CUcontext(popped.ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?));
        Ok(())
    }
    fn cuCtxSetCurrent(context: CUcontext) {
        initialized(link)?;
        known(link, context)?;
        with_stack(|stack| {
            stack.pop();
            if context.0 != 0 {
                stack.push(context.0);
            }
        });
        Ok(())
    }
    fn cuCtxGetCurrent(context: *mut CUcontext) {
        initialized(link)?;
        put(context, CUcontext(current()))
    }
    fn cuCtxGetDevice(device: *mut CUdevice) {
        enter(link)?;
        put(device, 0)
    }
    fn cuCtxGetDevice_v2(device: *mut CUdevice, context: CUcontext) {
        known(link, context)?;
        if context.0 == 0 {
            enter(link)?;
        }
        put(device, 0)
    }
    fn cuCtxGetFlags(flags: *mut u32) {
        enter(link)?;
        put(flags, flags_of(link))
    }
    fn cuCtxSetFlags(flags: u32) {
        enter(link)?;
        link.state.context_flags.store(flags, Ordering::Release);
        Ok(())
    }
    fn cuCtxGetId(context: CUcontext, id: *mut u64) {
        known(link, context)?;
        put(id, if context.0 == 0 { current() } else { context.0 })
    }
    fn cuCtxGetApiVersion(context: CUcontext, version: *mut u32) {
        known(link, context)?;
        put(version, 3020)
    }
    fn cuCtxSynchronize() {
        enter(link)?;
        capture::check_all(link)?;
        printed::behind(link, synchronize(link))
    }
    fn cuCtxSynchronize_v2(context: CUcontext) {
        known(link, context)?;
        capture::check_all(link)?;
        printed::behind(link, synchronize(link))
    }
    fn cuCtxGetCacheConfig(config: *mut CUfunc_cache) {
        put(config, CUfunc_cache::CU_FUNC_CACHE_PREFER_NONE)
    }
    fn cuCtxSetCacheConfig(_config: CUfunc_cache) {
        // A preference, which the driver may ignore.
        enter(link)
    }
    fn cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) {
        // Priorities would be over other tenants, too.
        put_if(least, 0);
        put_if(greatest, 0);
        Ok(())
    }
}
