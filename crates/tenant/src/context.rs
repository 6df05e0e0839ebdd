//! Contexts. To the program there is the primary context of its device; to the
//! manager there is the tenant.

use crate::convert::{functions, only, put, put_if};
use crate::link::Link;
use crate::printed;
use crate::state::{CONTEXT, STACK, enter};
use driver::sys::*;
use protocol::Request;
use std::sync::atomic::Ordering;

fn initialized(link: &Link) -> Result<(), CUresult> {
    match link.state.is_initialized.load(Ordering::Acquire) {
        true => Ok(()),
        false => Err(CUresult::CUDA_ERROR_NOT_INITIALIZED),
    }
}

/// A context that the program names: the one, or none.
fn known(context: CUcontext) -> Result<(), CUresult> {
    match context.0 {
        0 | CONTEXT => Ok(()),
        _ => Err(CUresult::CUDA_ERROR_INVALID_CONTEXT),
    }
}

fn current() -> u64 {
    STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0))
}

fn release(link: &Link) -> Result<(), CUresult> {
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
    // What kernels have printed goes with their memory; a failure is forgotten.
    let _ = printed::behind(link, link.done(&Request::Synchronize));
    link.done(&Request::Reset)?;
    link.forget_failure();
    link.state.forget();
    Ok(())
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
    fn cuCtxPushCurrent_v2(context: CUcontext) {
        initialized(link)?;
        known(context)?;
        STACK.with_borrow_mut(|stack| stack.push(context.0));
        Ok(())
    }
    fn cuCtxPopCurrent_v2(context: *mut CUcontext) {
        let popped = STACK.with_borrow_mut(Vec::pop);
        put_if(context, CUcontext(popped.ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?));
        Ok(())
    }
    fn cuCtxSetCurrent(context: CUcontext) {
        initialized(link)?;
        known(context)?;
        STACK.with_borrow_mut(|stack| {
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
        known(context)?;
        if context.0 == 0 {
            enter(link)?;
        }
        put(device, 0)
    }
    fn cuCtxGetFlags(flags: *mut u32) {
        enter(link)?;
        put(flags, link.state.context_flags.load(Ordering::Acquire))
    }
    fn cuCtxSetFlags(flags: u32) {
        enter(link)?;
        link.state.context_flags.store(flags, Ordering::Release);
        Ok(())
    }
    fn cuCtxGetId(context: CUcontext, id: *mut u64) {
        known(context)?;
        put(id, CONTEXT)
    }
    fn cuCtxGetApiVersion(context: CUcontext, version: *mut u32) {
        known(context)?;
        put(version, 3020)
    }
    fn cuCtxSynchronize() {
        enter(link)?;
        printed::behind(link, link.done(&Request::Synchronize))
    }
    fn cuCtxSynchronize_v2(context: CUcontext) {
        known(context)?;
        printed::behind(link, link.done(&Request::Synchronize))
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
