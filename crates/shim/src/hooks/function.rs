//! Attributes of kernels, given to their instrumented copies too.

use super::{hook, hooks, loaded};
use driver::Api;
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

/// An attribute of a function, or of a kernel on the current device.
pub(super) fn attribute_of(
    api: &Api,
    handle: u64,
    is_kernel: bool,
    attribute: CUfunction_attribute,
) -> Option<i32> {
    let mut value = 0;
    // SAFETY: places for the answers; the handle came from the device.
    let asked = unsafe {
        if is_kernel {
            let mut device = 0;
            if api.cuCtxGetDevice?(&mut device) != CUresult::CUDA_SUCCESS {
                return None;
            }
            api.cuKernelGetAttribute?(&mut value, attribute, CUkernel(handle), device)
        } else {
            api.cuFuncGetAttribute?(&mut value, attribute, CUfunction(handle))
        }
    };
    (asked == CUresult::CUDA_SUCCESS).then_some(value)
}

/// Does for the program's kernel what it asks, then the same for the copy. A
/// failure of the latter shows at its launch, which then takes the original.
fn both(handle: u64, set: impl Fn(u64) -> CUresult) -> CUresult {
    let result = set(handle);
    if result == CUresult::CUDA_SUCCESS
        && let Some(copy) = loaded::kernel(handle).and_then(|kernel| kernel.copy())
    {
        let _ = set(copy);
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
