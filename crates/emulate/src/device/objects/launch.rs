//! Kernel launches: what is launched, and how it executes.

use super::module::Function;
use crate::device::core::Core;
use crate::engine::{Contained, Fault, FaultKind, LaunchConfig};
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
#[derive(Clone)]
pub(crate) struct KernelCall {
    pub launch: Launch,
    pub function: Arc<Function>,
    /// Of the stream that it is put into.
    pub contained: Option<Arc<Contained>>,
}

impl KernelCall {
    /// Executes the kernel on this thread and the engine's workers.
    pub fn run(&self, core: &Core) {
        let cancel = core.cancel();
        let config = LaunchConfig {
            grid: self.launch.grid,
            block: self.launch.block,
            cluster: self.launch.cluster,
            dynamic_shared: self.launch.dynamic_shared,
            params: &self.launch.parameters,
            seed: core.seed,
            threads: core.threads as usize,
            cancel: &cancel,
            cooperative: self.launch.cooperative,
            contained: self.contained.as_deref(),
        };
        let outcome = core.machine.launch(
            &self.function.program,
            &self.function.entry.name,
            &config,
            &core.memory,
        );
        let Err(mut fault) = outcome else { return };
        self.not_run(core);
        if fault.kind == FaultKind::Cancelled {
            return;
        }
        // People know the kernel by its own name.
        if let Some(name) = model::layout::original_name(&fault.kernel) {
            fault.kernel = name.to_owned();
        }
        let message = format!("the CPU device stopped: {fault}");
        let is_assert = fault.kind == FaultKind::Assert;
        let failure = self.failure(fault, &message);
        // The assertion's own words are on stderr, and what the device lacks is
        // an error of the run.
        let is_said = is_assert || failure.device_lacks;
        if core.fail_silently(failure) && !is_said {
            core.host.report(&message);
        }
    }

    /// The kernel was put into a stream, and has not run to its end.
    pub fn not_run(&self, core: &Core) {
        core.add_not_run(self.launch.function);
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
                threads: Vec::new(),
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
        FaultKind::IllegalInstruction => CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
        FaultKind::InvalidProgramCounter => CUresult::CUDA_ERROR_INVALID_PC,
        FaultKind::Unsupported => CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
        FaultKind::Assert => CUresult::CUDA_ERROR_ASSERT,
        FaultKind::StackOverflow => CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
        FaultKind::Deadlock => CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
        FaultKind::InvalidLaunch => CUresult::CUDA_ERROR_INVALID_VALUE,
        FaultKind::Trap | FaultKind::Cancelled => CUresult::CUDA_ERROR_LAUNCH_FAILED,
    }
}

impl std::fmt::Debug for KernelCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelCall")
            .field("launch", &self.launch)
            .finish_non_exhaustive()
    }
}
