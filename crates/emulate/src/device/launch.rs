//! Kernel launches: limits first, then a place in the stream.

use super::module::Function;
use super::work::Work;
use super::{Device, Occupancy, Result, State, properties};
use crate::engine::{Fault, FaultKind, LaunchConfig};
use driver::sys::CUresult;
use driver::{DeviceFailure, FailedKernel};
use model::{Stopped, ThreadCoordinates};
use std::sync::Arc;

/// A launch.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Launch {
    /// Handle of the function.
    pub function: u64,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Blocks of a cluster; `[0; 3]` for what the kernel says, or one.
    pub cluster: [u32; 3],
    /// Dynamic shared memory, in bytes.
    pub dynamic_shared: u32,
    /// The parameter block.
    pub parameters: Vec<u8>,
    /// All blocks must be resident together (`cuLaunchCooperativeKernel`).
    pub cooperative: bool,
}

/// A launch that was found legal.
pub(crate) struct KernelCall {
    pub launch: Launch,
    pub function: Arc<Function>,
}

impl Device {
    /// Checks a launch against the limits of device and kernel.
    pub(crate) fn kernel_call(&self, mut launch: Launch) -> Result<Arc<KernelCall>> {
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
        if cluster == 0 || cluster > 2 * properties::MAX_CLUSTER || !divides {
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
        Ok(Arc::new(KernelCall { launch, function }))
    }

    /// `cuLaunchKernel` and kin.
    pub fn launch(&self, launch: Launch, stream: u64) -> Result<()> {
        self.enter()?;
        let stream = self.state.stream(stream)?;
        let call = self.kernel_call(launch)?;
        self.enqueue(&stream, Work::Kernel(call), false)
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

impl KernelCall {
    /// Executes the kernel on this thread and the engine's workers.
    pub fn run(&self, state: &Arc<State>) {
        let cancel = state.cancel();
        let config = LaunchConfig {
            grid: self.launch.grid,
            block: self.launch.block,
            cluster: self.launch.cluster,
            dynamic_shared: self.launch.dynamic_shared,
            params: &self.launch.parameters,
            seed: state.seed,
            threads: state.threads as usize,
            cancel: &cancel,
            cooperative: self.launch.cooperative,
        };
        let outcome = state.machine.launch(
            &self.function.program,
            &self.function.entry.name,
            &config,
            &state.memory,
        );
        let Err(mut fault) = outcome else { return };
        self.not_run(state);
        if fault.kind == FaultKind::Cancelled {
            return;
        }
        // People know the kernel by its own name.
        if let Some(name) = fault.kernel.strip_prefix(model::layout::CHECKED_PREFIX) {
            fault.kernel = name.to_owned();
        }
        let message = format!("the CPU device stopped: {fault}");
        let is_assert = fault.kind == FaultKind::Assert;
        let failure = self.failure(fault, &message);
        // The assertion's own words are on stderr, and what the device lacks is
        // an error of the run.
        let is_said = is_assert || failure.device_lacks;
        if state.fail_silently(failure) && !is_said {
            state.host.report(&message);
        }
    }

    /// The kernel was put into a stream, and has not run to its end.
    pub fn not_run(&self, state: &State) {
        state.not_run.lock().push(self.launch.function);
    }

    fn failure(&self, fault: Fault, message: &str) -> DeviceFailure {
        DeviceFailure {
            code: fault_code(fault.kind),
            detail: message.to_owned(),
            device_lacks: matches!(
                fault.kind,
                FaultKind::Unsupported | FaultKind::InvalidLaunch
            ),
            kernel: Some(FailedKernel {
                function: self.launch.function,
                name: fault.kernel,
                address: fault.address,
                stopped: Stopped {
                    detail: fault.message,
                    thread: ThreadCoordinates {
                        block: fault.block,
                        thread: fault.thread,
                    },
                    source: fault.source.map(|source| *source),
                    ptx_line: fault.ptx_line,
                    instruction: fault.opcode,
                },
            }),
        }
    }
}

/// The driver's error for a fault.
fn fault_code(kind: FaultKind) -> CUresult {
    match kind {
        FaultKind::IllegalAddress => CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
        FaultKind::MisalignedAddress => CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
        FaultKind::InvalidAddressSpace => CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE,
        FaultKind::InvalidProgramCounter => CUresult::CUDA_ERROR_INVALID_PC,
        FaultKind::Unsupported => CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
        FaultKind::Assert => CUresult::CUDA_ERROR_ASSERT,
        FaultKind::StackOverflow => CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
        FaultKind::Deadlock => CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
        FaultKind::InvalidLaunch => CUresult::CUDA_ERROR_INVALID_VALUE,
        FaultKind::Trap | FaultKind::Cancelled => CUresult::CUDA_ERROR_LAUNCH_FAILED,
    }
}
