//! Attributes of kernels, given to their instrumented copies, too.

use super::define::{hook, hooks};
use crate::queries;
use driver::sys::{
    CUdevice, CUfunc_cache, CUfunction, CUfunction_attribute, CUkernel, CUresult, CUsharedconfig,
};

hooks!(
    cuFuncSetAttribute,
    cuFuncSetCacheConfig,
    cuFuncSetSharedMemConfig,
    cuKernelSetAttribute,
    cuKernelSetCacheConfig,
);

/// Does for the program's kernel what it asks, then the same for its copies. A
/// failure of the latter shows at a launch, which then takes the original.
fn both(handle: u64, set: impl Fn(u64) -> CUresult) -> CUresult {
    let result = set(handle);
    if result == CUresult::CUDA_SUCCESS
        && let Some(kernel) = queries::kernel(handle)
    {
        for copy in kernel.copies().all() {
            let _ = set(copy);
        }
    }
    result
}

hook!(cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: i32) |set| {
    // SAFETY: handles of the device.
    both(function.0, |handle| unsafe { set(CUfunction(handle), attribute, value) })
});

hook!(cuFuncSetCacheConfig(function: CUfunction, config: CUfunc_cache) |set| {
    // SAFETY: handles of the device.
    both(function.0, |handle| unsafe { set(CUfunction(handle), config) })
});

hook!(cuFuncSetSharedMemConfig(function: CUfunction, config: CUsharedconfig) |set| {
    // SAFETY: handles of the device.
    both(function.0, |handle| unsafe { set(CUfunction(handle), config) })
});

hook!(cuKernelSetAttribute(attribute: CUfunction_attribute, value: i32, kernel: CUkernel, device: CUdevice) |set| {
    // SAFETY: handles of the device.
    both(kernel.0, |handle| unsafe { set(attribute, value, CUkernel(handle), device) })
});

hook!(cuKernelSetCacheConfig(kernel: CUkernel, config: CUfunc_cache, device: CUdevice) |set| {
    // SAFETY: handles of the device.
    both(kernel.0, |handle| unsafe { set(CUkernel(handle), config, device) })
});
