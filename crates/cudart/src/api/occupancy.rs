//! How many blocks fit.

use crate::api::launch::driver_config;
use crate::generated::types::*;
use crate::registry;
use crate::state::ready;
use driver::sys::CUfunction;
use std::ffi::c_void;

/// Occupancy calls take a kernel handle for a function handle.
fn function(host: *const c_void) -> Result<CUfunction, cudaError_t> {
    ready()?;
    Ok(CUfunction(registry::kernel(host as usize)?.0))
}

runtime! {
    /// Blocks of a kernel that one multiprocessor holds.
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        numBlocks: *mut i32, func: *const c_void, blockSize: i32, dynamicSMemSize: usize
    ) {
        cu!(cuOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, function(func)?, blockSize, dynamicSMemSize))
    }

    /// Blocks of a kernel that one multiprocessor holds.
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        numBlocks: *mut i32, func: *const c_void, blockSize: i32, dynamicSMemSize: usize, flags: u32
    ) {
        let function = function(func)?;
        cu!(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, function, blockSize, dynamicSMemSize, flags))
    }

    /// Dynamic shared memory left for each of some blocks.
    fn cudaOccupancyAvailableDynamicSMemPerBlock(
        dynamicSmemSize: *mut usize, func: *const c_void, numBlocks: i32, blockSize: i32
    ) {
        cu!(cuOccupancyAvailableDynamicSMemPerBlock(dynamicSmemSize, function(func)?, numBlocks, blockSize))
    }

    /// The largest cluster of a kernel.
    fn cudaOccupancyMaxPotentialClusterSize(
        clusterSize: *mut i32, func: *const c_void, launchConfig: *const cudaLaunchConfig_t
    ) {
        let config = get!(launchConfig)?;
        let config = driver_config(config, config.stream)?;
        cu!(cuOccupancyMaxPotentialClusterSize(clusterSize, function(func)?, &raw const config))
    }

    /// Clusters of a kernel that the device holds.
    fn cudaOccupancyMaxActiveClusters(
        numClusters: *mut i32, func: *const c_void, launchConfig: *const cudaLaunchConfig_t
    ) {
        let config = get!(launchConfig)?;
        let config = driver_config(config, config.stream)?;
        cu!(cuOccupancyMaxActiveClusters(numClusters, function(func)?, &raw const config))
    }
}
