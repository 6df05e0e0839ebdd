//! Functions: attributes and occupancy.

use crate::convert::{functions, put, put_if};
use driver::sys::*;
use emulate::device::{Device, WARP_SIZE};
use std::ffi::c_char;

/// Cluster sizes that every sm_90 can hold.
const PORTABLE_CLUSTER: i32 = 8;

/// The largest block that fills a multiprocessor best, and the grid that fills
/// the device with it.
fn best_block(
    gpu: &Device,
    function: u64,
    shared: impl Fn(i32) -> usize,
    limit: i32,
) -> Result<(i32, i32), CUresult> {
    let most = gpu.function_attribute(
        function,
        CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
    )?;
    let most = if limit > 0 { most.min(limit) } else { most };
    let warp = WARP_SIZE as i32;
    let (mut best, mut filled) = ((0, 0), 0);
    let mut size = most;
    while size > 0 {
        let dynamic = u32::try_from(shared(size)).unwrap_or(u32::MAX);
        let blocks = gpu.occupancy(function, size as u32, dynamic)?.blocks as i32;
        if blocks * size > filled {
            filled = blocks * size;
            best = (blocks * gpu.multiprocessors() as i32, size);
        }
        // Down to the next multiple of a warp.
        size = (size - 1) / warp * warp;
    }
    Ok(best)
}

fn active_blocks(
    gpu: &Device,
    function: CUfunction,
    threads: i32,
    shared: usize,
) -> Result<i32, CUresult> {
    let threads = u32::try_from(threads).map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?;
    let shared = u32::try_from(shared).unwrap_or(u32::MAX);
    Ok(gpu.occupancy(function.0, threads, shared)?.blocks as i32)
}

/// Calls the program's function from block size to shared memory, if any.
fn shared_of(callback: CUoccupancyB2DSize, fixed: usize) -> impl Fn(i32) -> usize {
    move |threads| match callback {
        // SAFETY: the program gave it to be called with a block size.
        Some(function) => unsafe { function(threads) },
        None => fixed,
    }
}

functions! { gpu;
    fn cuFuncGetAttribute(value: *mut i32, attribute: CUfunction_attribute, function: CUfunction) {
        put(value, gpu.function_attribute(function.0, attribute)?)
    }
    fn cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: i32) {
        gpu.function_set_attribute(function.0, attribute, value)
    }
    fn cuFuncSetCacheConfig(function: CUfunction, _config: CUfunc_cache) {
        gpu.function_info(function.0).map(drop)
    }
    fn cuFuncSetSharedMemConfig(function: CUfunction, _config: CUsharedconfig) {
        gpu.function_info(function.0).map(drop)
    }
    fn cuFuncGetModule(module: *mut CUmodule, function: CUfunction) {
        put(module, CUmodule(gpu.function_info(function.0)?.module))
    }
    fn cuFuncGetName(text: *mut *const c_char, function: CUfunction) {
        put(text, gpu.lent().text(&gpu.function_info(function.0)?.name))
    }
    fn cuFuncGetParamInfo(function: CUfunction, index: usize, offset: *mut usize, size: *mut usize) {
        let info = gpu.function_info(function.0)?;
        let (at, bytes) = *info.parameters.get(index).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        put_if(size, bytes as usize);
        put(offset, at as usize)
    }
    fn cuFuncIsLoaded(state: *mut CUfunctionLoadingState, function: CUfunction) {
        gpu.function_info(function.0)?;
        put(state, CUfunctionLoadingState::CU_FUNCTION_LOADING_STATE_LOADED)
    }
    fn cuFuncLoad(function: CUfunction) {
        gpu.function_info(function.0).map(drop)
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut i32, function: CUfunction, threads: i32, shared: usize) {
        put(blocks, active_blocks(gpu, function, threads, shared)?)
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: *mut i32, function: CUfunction, threads: i32, shared: usize, _flags: u32) {
        put(blocks, active_blocks(gpu, function, threads, shared)?)
    }
    fn cuOccupancyMaxPotentialBlockSize(
        grid: *mut i32, block: *mut i32, function: CUfunction, callback: CUoccupancyB2DSize, shared: usize, limit: i32,
    ) {
        let (blocks, threads) = best_block(gpu, function.0, shared_of(callback, shared), limit)?;
        put(grid, blocks)?;
        put(block, threads)
    }
    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: *mut i32, block: *mut i32, function: CUfunction, callback: CUoccupancyB2DSize, shared: usize, limit: i32, _flags: u32,
    ) {
        let (blocks, threads) = best_block(gpu, function.0, shared_of(callback, shared), limit)?;
        put(grid, blocks)?;
        put(block, threads)
    }
    fn cuOccupancyAvailableDynamicSMemPerBlock(bytes: *mut usize, function: CUfunction, blocks: i32, threads: i32) {
        if blocks < 1 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // The largest size that still lets `blocks` be resident, by bisection:
        // occupancy falls with size.
        let (mut low, mut high) = (0usize, 228 << 10);
        if active_blocks(gpu, function, threads, 0)? < blocks {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        while low + 1 < high {
            let middle = (low + high) / 2;
            if active_blocks(gpu, function, threads, middle)? >= blocks { low = middle } else { high = middle }
        }
        put(bytes, low)
    }
    fn cuOccupancyMaxPotentialClusterSize(size: *mut i32, function: CUfunction, _config: *const CUlaunchConfig) {
        gpu.function_info(function.0)?;
        put(size, PORTABLE_CLUSTER)
    }
    fn cuOccupancyMaxActiveClusters(count: *mut i32, function: CUfunction, config: *const CUlaunchConfig) {
        let config = crate::convert::get(config)?;
        let threads = config.blockDimX.saturating_mul(config.blockDimY).saturating_mul(config.blockDimZ);
        let blocks = gpu.occupancy(function.0, threads, config.sharedMemBytes)?.blocks * gpu.multiprocessors();
        let cluster = crate::launch::attributes(&config).cluster.iter().product::<u32>().max(1);
        put(count, (blocks / cluster) as i32)
    }
}
