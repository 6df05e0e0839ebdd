//! Contexts.

use crate::convert::{functions, only, put, put_if};
use driver::sys::*;

functions! { gpu;
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) {
        only(device)?;
        put(context, CUcontext(gpu.primary_retain()?))
    }
    fn cuDevicePrimaryCtxRelease(device: CUdevice) {
        only(device)?;
        gpu.primary_release()
    }
    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) {
        only(device)?;
        gpu.primary_release()
    }
    fn cuDevicePrimaryCtxReset(device: CUdevice) {
        only(device)?;
        gpu.primary_reset()
    }
    fn cuDevicePrimaryCtxReset_v2(device: CUdevice) {
        only(device)?;
        gpu.primary_reset()
    }
    fn cuDevicePrimaryCtxSetFlags(device: CUdevice, flags: u32) {
        only(device)?;
        gpu.primary_set_flags(flags)
    }
    fn cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: u32) {
        only(device)?;
        gpu.primary_set_flags(flags)
    }
    fn cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut u32, active: *mut i32) {
        only(device)?;
        let (current, is_active) = gpu.primary_state()?;
        put_if(flags, current);
        put(active, i32::from(is_active))
    }
    fn cuCtxCreate_v2(context: *mut CUcontext, flags: u32, device: CUdevice) {
        only(device)?;
        put(context, CUcontext(gpu.context_create(flags)?))
    }
    fn cuCtxCreate_v3(context: *mut CUcontext, _affinity: *mut CUexecAffinityParam, count: i32, flags: u32, device: CUdevice) {
        only(device)?;
        if count != 0 {
            return Err(CUresult::CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
        }
        put(context, CUcontext(gpu.context_create(flags)?))
    }
    fn cuCtxCreate_v4(context: *mut CUcontext, _parameters: *mut CUctxCreateParams, flags: u32, device: CUdevice) {
        only(device)?;
        put(context, CUcontext(gpu.context_create(flags)?))
    }
    fn cuCtxDestroy(context: CUcontext) {
        gpu.context_destroy(context.0)
    }
    fn cuCtxDestroy_v2(context: CUcontext) {
        gpu.context_destroy(context.0)
    }
    fn cuCtxPushCurrent(context: CUcontext) {
        gpu.context_push(context.0)
    }
    fn cuCtxPushCurrent_v2(context: CUcontext) {
        gpu.context_push(context.0)
    }
    fn cuCtxPopCurrent(context: *mut CUcontext) {
        put_if(context, CUcontext(gpu.context_pop()?));
        Ok(())
    }
    fn cuCtxPopCurrent_v2(context: *mut CUcontext) {
        put_if(context, CUcontext(gpu.context_pop()?));
        Ok(())
    }
    fn cuCtxSetCurrent(context: CUcontext) {
        gpu.context_set(context.0)
    }
    fn cuCtxGetCurrent(context: *mut CUcontext) {
        put(context, CUcontext(gpu.context_current()?))
    }
    fn cuCtxGetDevice(device: *mut CUdevice) {
        if gpu.context_current()? == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
        }
        put(device, 0)
    }
    fn cuCtxGetDevice_v2(device: *mut CUdevice, context: CUcontext) {
        let context = if context.0 == 0 { gpu.context_current()? } else { context.0 };
        if !gpu.context_exists(context) {
            return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
        }
        put(device, 0)
    }
    fn cuCtxGetFlags(flags: *mut u32) {
        put(flags, gpu.context_flags()?)
    }
    fn cuCtxSetFlags(_flags: u32) {
        // They choose how the host waits; here it always sleeps.
        gpu.context_flags().map(drop)
    }
    fn cuCtxGetId(context: CUcontext, id: *mut u64) {
        let context = if context.0 == 0 { gpu.context_current()? } else { context.0 };
        if !gpu.context_exists(context) {
            return Err(CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
        }
        put(id, context)
    }
    fn cuCtxSynchronize() {
        gpu.synchronize()
    }
    fn cuCtxSynchronize_v2(_context: CUcontext) {
        gpu.synchronize()
    }
    fn cuCtxSetLimit(limit: CUlimit, value: usize) {
        gpu.apart_from_strict_captures()?;
        gpu.set_limit(limit.0, value as u64)
    }
    fn cuCtxGetLimit(value: *mut usize, limit: CUlimit) {
        put(value, gpu.limit(limit.0)? as usize)
    }
    fn cuCtxGetCacheConfig(config: *mut CUfunc_cache) {
        put(config, CUfunc_cache::CU_FUNC_CACHE_PREFER_NONE)
    }
    fn cuCtxSetCacheConfig(_config: CUfunc_cache) {
        // A preference; there is no cache to divide.
        Ok(())
    }
    fn cuCtxGetSharedMemConfig(config: *mut CUsharedconfig) {
        put(config, CUsharedconfig::CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE)
    }
    fn cuCtxSetSharedMemConfig(_config: CUsharedconfig) {
        Ok(())
    }
    fn cuCtxGetApiVersion(_context: CUcontext, version: *mut u32) {
        put(version, 3020)
    }
    fn cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) {
        put_if(least, 0);
        put_if(greatest, emulate::device::GREATEST_PRIORITY);
        Ok(())
    }
    fn cuCtxResetPersistingL2Cache() {
        Ok(())
    }
    fn cuCtxEnablePeerAccess(_peer: CUcontext, _flags: u32) {
        Err(CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)
    }
    fn cuCtxDisablePeerAccess(_peer: CUcontext) {
        Err(CUresult::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED)
    }
}
