//! Attributes of kernels, given to their instrumented copies, too, and their code, which
//! is loaded together.
//!
//! Where a driver loads a kernel when it is first launched, what was launched begins when the
//! device is idle: kernels and host functions of all streams are waited for. (Seen with
//! driver 580 on an H200. Getting the function, its attributes or its occupancy loads it,
//! too; where kernels run meanwhile, the next launch waits for them.) A program whose kernel
//! waits for another one does one of these before. So no copy may be loaded later than the
//! program's own kernel.

use super::capture;
use super::define::{hook, hooks};
use crate::queries;
use crate::session::next;
use driver::sys::{
    CUdevice, CUfunc_cache, CUfunction, CUfunction_attribute, CUkernel, CUlaunchConfig,
    CUoccupancyB2DSize, CUresult, CUsharedconfig,
};

hooks!(
    cuFuncSetAttribute,
    cuFuncSetCacheConfig,
    cuFuncSetSharedMemConfig,
    cuFuncLoad,
    cuKernelSetAttribute,
    cuKernelSetCacheConfig,
    cuOccupancyMaxActiveBlocksPerMultiprocessor,
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
    cuOccupancyMaxPotentialBlockSize,
    cuOccupancyMaxPotentialBlockSizeWithFlags,
    cuOccupancyAvailableDynamicSMemPerBlock,
    cuOccupancyMaxPotentialClusterSize,
    cuOccupancyMaxActiveClusters,
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

/// The device has loaded a kernel of the program's: it loads the copies, too.
fn loaded(function: CUfunction, result: CUresult) -> CUresult {
    if result == CUresult::CUDA_SUCCESS
        && let Some(kernel) = queries::kernel(function.0)
    {
        for copy in kernel.copies().all() {
            load(kernel.in_library(), copy);
        }
    }
    result
}

hook!(cuFuncLoad(function: CUfunction) |load_it| {
    // SAFETY: the program's handle.
    loaded(function, unsafe { load_it(function) })
});

hook!(cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut i32, function: CUfunction, size: i32, shared: usize) |get| {
    // SAFETY: the program's arguments.
    loaded(function, unsafe { get(blocks, function, size, shared) })
});

hook!(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: *mut i32, function: CUfunction, size: i32, shared: usize, flags: u32) |get| {
    // SAFETY: the program's arguments.
    loaded(function, unsafe { get(blocks, function, size, shared, flags) })
});

hook!(cuOccupancyMaxPotentialBlockSize(grid: *mut i32, block: *mut i32, function: CUfunction, shared_of: CUoccupancyB2DSize, shared: usize, limit: i32) |get| {
    // SAFETY: the program's arguments.
    loaded(function, unsafe { get(grid, block, function, shared_of, shared, limit) })
});

hook!(cuOccupancyMaxPotentialBlockSizeWithFlags(grid: *mut i32, block: *mut i32, function: CUfunction, shared_of: CUoccupancyB2DSize, shared: usize, limit: i32, flags: u32) |get| {
    // SAFETY: the program's arguments.
    loaded(function, unsafe { get(grid, block, function, shared_of, shared, limit, flags) })
});

hook!(cuOccupancyAvailableDynamicSMemPerBlock(shared: *mut usize, function: CUfunction, blocks: i32, size: i32) |get| {
    // SAFETY: the program's arguments.
    loaded(function, unsafe { get(shared, function, blocks, size) })
});

hook!(cuOccupancyMaxPotentialClusterSize(size: *mut i32, function: CUfunction, config: *const CUlaunchConfig) |get| {
    // SAFETY: the program's arguments.
    loaded(function, unsafe { get(size, function, config) })
});

hook!(cuOccupancyMaxActiveClusters(clusters: *mut i32, function: CUfunction, config: *const CUlaunchConfig) |get| {
    // SAFETY: the program's arguments.
    loaded(function, unsafe { get(clusters, function, config) })
});

hook!(cuKernelSetAttribute(attribute: CUfunction_attribute, value: i32, kernel: CUkernel, device: CUdevice) |set| {
    // SAFETY: handles of the device.
    both(kernel.0, |handle| unsafe { set(attribute, value, CUkernel(handle), device) })
});

hook!(cuKernelSetCacheConfig(kernel: CUkernel, config: CUfunc_cache, device: CUdevice) |set| {
    // SAFETY: handles of the device.
    both(kernel.0, |handle| unsafe { set(CUkernel(handle), config, device) })
});
