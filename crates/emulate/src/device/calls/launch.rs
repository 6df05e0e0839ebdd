//! Kernel launches: limits first, then a place in the stream.

use crate::device::basics::Result;
use crate::device::objects::launch::{KernelCall, Launch};
use crate::device::objects::work::Work;
use crate::device::properties::{self, Occupancy};
use crate::device::state::Device;
use driver::sys::CUresult;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Device {
    /// Checks a launch against the limits of device and kernel.
    pub(crate) fn kernel_call(&self, mut launch: Launch) -> Result<KernelCall> {
        let function = self.function_of(launch.function)?;
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        let fits = |size: [u32; 3], limit: [u32; 3]| {
            size.iter()
                .zip(limit)
                .all(|(n, most)| (1..=most).contains(n))
        };
        if !fits(launch.grid, properties::MAX_GRID) || !fits(launch.block, properties::MAX_BLOCK) {
            return Err(invalid);
        }
        // At most 1024 · 1024 · 64: no overflow.
        let threads: u32 = launch.block.iter().product();
        if threads > function.max_threads()
            || launch.dynamic_shared > function.dynamic_shared_limit()
        {
            return Err(invalid);
        }
        if function
            .entry
            .required_block
            .is_some_and(|block| block != launch.block)
        {
            return Err(invalid);
        }
        if launch.cluster == [0; 3] {
            launch.cluster = function.entry.required_cluster.unwrap_or([1; 3]);
        }
        let cluster = launch
            .cluster
            .iter()
            .try_fold(1u32, |n, axis| n.checked_mul(*axis))
            .unwrap_or(0);
        let divides = launch
            .cluster
            .iter()
            .zip(launch.grid)
            .all(|(c, g)| *c != 0 && g % c == 0);
        // Every device of a capability has the portable size; the kernel has to
        // be asked for more.
        let most = match function.non_portable_cluster.load(Ordering::Relaxed) {
            0 => properties::MAX_CLUSTER,
            _ => 2 * properties::MAX_CLUSTER,
        };
        if cluster == 0 || cluster > most || !divides {
            return Err(CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE);
        }
        if launch.parameters.len() != function.entry.parameter_bytes as usize {
            return Err(invalid);
        }
        if launch.cooperative {
            let shared = function.entry.static_shared + launch.dynamic_shared;
            let resident = u64::from(Occupancy::of(threads, shared).blocks)
                * u64::from(self.multiprocessors());
            let blocks: u64 = launch.grid.iter().map(|n| u64::from(*n)).product();
            if blocks > resident {
                return Err(CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
            }
        }
        Ok(KernelCall {
            launch,
            function,
            contained: None,
        })
    }

    /// `cuLaunchKernel` and kin.
    pub fn launch(&self, launch: Launch, stream: u64) -> Result<()> {
        self.enter()?;
        let stream = self.state.stream(stream)?;
        let mut call = self.kernel_call(launch)?;
        call.contained = stream.contained.get().cloned();
        self.enqueue(&stream, Work::Kernel(Arc::new(call)), false)
    }

    /// `cuOccupancyMaxActiveBlocksPerMultiprocessor`
    pub fn occupancy(&self, function: u64, threads: u32, dynamic_shared: u32) -> Result<Occupancy> {
        let function = self.function_of(function)?;
        if threads == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        if threads > function.max_threads() {
            return Ok(Occupancy { blocks: 0 });
        }
        Ok(Occupancy::of(
            threads,
            function.entry.static_shared.saturating_add(dynamic_shared),
        ))
    }
}
