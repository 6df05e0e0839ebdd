//! Attributes of kernels, given to their instrumented copies, too, and their code, which
//! is loaded together.
//!
//! A driver that loads a kernel when it is first launched waits until the device is idle.
//! A program whose kernel waits for another one launches both before, or loads them. So no
//! copy may be loaded later than the program's own kernel.

use super::capture;
use super::define::{hook, hooks};
use crate::queries;
use crate::session::next;
use driver::sys::{
    CUdevice, CUfunc_cache, CUfunction, CUfunction_attribute, CUkernel, CUresult, CUsharedconfig,
};

hooks!(
    cuFuncSetAttribute,
    cuFuncSetCacheConfig,
    cuFuncSetSharedMemConfig,
    cuFuncLoad,
    cuKernelSetAttribute,
    cuKernelSetCacheConfig,
);

/// Has the device load the code of a kernel or function, if it has not yet. Drivers before
/// 12.4 have no such call. A failure shows at the launch.
pub(super) fn load(in_library: bool, handle: u64) {
    let Some(api) = next() else { return };
    let Some(load) = api.cuFuncLoad else { return };
    capture::relaxed(|| {
        let mut function = CUfunction(handle);
        if in_library {
            let get = api.cuKernelGetFunction;
            // SAFETY: a place for the answer; the handle came from the device.
            let got = get.map(|get| unsafe { get(&mut function, CUkernel(handle)) });
            if got != Some(CUresult::CUDA_SUCCESS) {
                return;
            }
        }
        // SAFETY: a function of the device.
        let _ = unsafe { load(function) };
    });
}

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

hook!(cuFuncLoad(function: CUfunction) |load_it| {
    // SAFETY: the program's handle.
    let result = unsafe { load_it(function) };
    if result == CUresult::CUDA_SUCCESS
        && let Some(kernel) = queries::kernel(function.0)
    {
        for copy in kernel.copies().all() {
            load(kernel.in_library(), copy);
        }
    }
    result
});

hook!(cuKernelSetAttribute(attribute: CUfunction_attribute, value: i32, kernel: CUkernel, device: CUdevice) |set| {
    // SAFETY: handles of the device.
    both(kernel.0, |handle| unsafe { set(attribute, value, CUkernel(handle), device) })
});

hook!(cuKernelSetCacheConfig(kernel: CUkernel, config: CUfunc_cache, device: CUdevice) |set| {
    // SAFETY: handles of the device.
    both(kernel.0, |handle| unsafe { set(CUkernel(handle), config, device) })
});
