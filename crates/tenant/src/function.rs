//! Attributes, parameters and occupancy of kernels.

use crate::convert::{functions, only, put, put_if};
use crate::link::Link;
use driver::sys::*;
use protocol::{Attribute, Reply, Request};

fn attribute(link: &Link, kernel: u64, wanted: CUfunction_attribute) -> Result<i32, CUresult> {
    let kernel = link.state.kernel(kernel)?;
    let all = kernel.attributes.lock();
    let found = all.iter().find(|known| known.attribute == wanted.0);
    found
        .map(|known| known.value)
        .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
}

fn set_attribute(
    link: &Link,
    kernel: u64,
    attribute: CUfunction_attribute,
    value: i32,
) -> Result<(), CUresult> {
    let kernel = link.state.kernel(kernel)?;
    let request = Request::SetAttribute {
        kernel: kernel.number,
        attribute: Attribute {
            attribute: attribute.0,
            value,
        },
    };
    match link.wait(&request)? {
        Reply::Attributes(all) => {
            *kernel.attributes.lock() = all;
            kernel.launched.lock().clear();
            Ok(())
        }
        _ => Err(link.astray()),
    }
}

fn active_blocks(link: &Link, kernel: u64, threads: i32, shared: usize) -> Result<i32, CUresult> {
    let request = Request::Occupancy {
        kernel: link.state.kernel(kernel)?.number,
        threads,
        shared: u32::try_from(shared).unwrap_or(u32::MAX),
    };
    match link.wait(&request)? {
        Reply::Value(blocks) => Ok(blocks),
        _ => Err(link.astray()),
    }
}

fn parameter(link: &Link, kernel: u64, index: usize) -> Result<(u32, u32), CUresult> {
    let kernel = link.state.kernel(kernel)?;
    let found = kernel.parameters.get(index).copied();
    found.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
}

/// The block that fills a multiprocessor best, and the grid that fills the
/// device with it.
fn best_block(
    link: &Link,
    kernel: u64,
    shared: impl Fn(i32) -> usize,
    limit: i32,
) -> Result<(i32, i32), CUresult> {
    use CUdevice_attribute as D;
    let of_device = |wanted| crate::device::attribute(link, wanted).unwrap_or(1);
    let most = attribute(
        link,
        kernel,
        CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
    )?;
    let most = if limit > 0 { most.min(limit) } else { most };
    let warp = of_device(D::CU_DEVICE_ATTRIBUTE_WARP_SIZE).max(1);
    let multiprocessors = of_device(D::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    let (mut best, mut filled, mut size) = ((0, 0), 0, most);
    while size > 0 {
        let blocks = active_blocks(link, kernel, size, shared(size))?;
        if blocks.saturating_mul(size) > filled {
            filled = blocks.saturating_mul(size);
            best = (blocks.saturating_mul(multiprocessors), size);
        }
        // Down to the next multiple of a warp.
        size = (size - 1) / warp * warp;
    }
    Ok(best)
}

/// Calls the program's function from block size to shared memory, if any.
fn shared_of(callback: CUoccupancyB2DSize, fixed: usize) -> impl Fn(i32) -> usize {
    move |threads| match callback {
        // SAFETY: the program gave it to be called with a block size.
        Some(function) => unsafe { function(threads) },
        None => fixed,
    }
}

functions! { link;
    fn cuFuncGetAttribute(value: *mut i32, wanted: CUfunction_attribute, function: CUfunction) {
        put(value, attribute(link, function.0, wanted)?)
    }
    fn cuFuncSetAttribute(function: CUfunction, wanted: CUfunction_attribute, value: i32) {
        set_attribute(link, function.0, wanted, value)
    }
    fn cuKernelGetAttribute(value: *mut i32, wanted: CUfunction_attribute, kernel: CUkernel, device: CUdevice) {
        only(device)?;
        put(value, attribute(link, kernel.0, wanted)?)
    }
    fn cuKernelSetAttribute(wanted: CUfunction_attribute, value: i32, kernel: CUkernel, device: CUdevice) {
        only(device)?;
        set_attribute(link, kernel.0, wanted, value)
    }
    fn cuFuncGetParamInfo(function: CUfunction, index: usize, offset: *mut usize, size: *mut usize) {
        let (at, bytes) = parameter(link, function.0, index)?;
        put_if(size, bytes as usize);
        put(offset, at as usize)
    }
    fn cuKernelGetParamInfo(kernel: CUkernel, index: usize, offset: *mut usize, size: *mut usize) {
        let (at, bytes) = parameter(link, kernel.0, index)?;
        put_if(size, bytes as usize);
        put(offset, at as usize)
    }
    fn cuFuncIsLoaded(state: *mut CUfunctionLoadingState, function: CUfunction) {
        link.state.kernel(function.0)?;
        put(state, CUfunctionLoadingState::CU_FUNCTION_LOADING_STATE_LOADED)
    }
    fn cuFuncLoad(function: CUfunction) {
        link.state.kernel(function.0).map(drop)
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut i32, function: CUfunction, threads: i32, shared: usize) {
        put(blocks, active_blocks(link, function.0, threads, shared)?)
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: *mut i32, function: CUfunction, threads: i32, shared: usize, _flags: u32) {
        put(blocks, active_blocks(link, function.0, threads, shared)?)
    }
    fn cuOccupancyMaxPotentialBlockSize(
        grid: *mut i32, block: *mut i32, function: CUfunction, callback: CUoccupancyB2DSize, shared: usize, limit: i32,
    ) {
        let (blocks, threads) = best_block(link, function.0, shared_of(callback, shared), limit)?;
        put(grid, blocks)?;
        put(block, threads)
    }
    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: *mut i32, block: *mut i32, function: CUfunction, callback: CUoccupancyB2DSize, shared: usize, limit: i32, _flags: u32,
    ) {
        let (blocks, threads) = best_block(link, function.0, shared_of(callback, shared), limit)?;
        put(grid, blocks)?;
        put(block, threads)
    }
}
