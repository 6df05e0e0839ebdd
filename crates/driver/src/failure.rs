//! The errors by which the driver reports that a kernel failed, and a device's
//! details about it.

use crate::sys::CUresult;
use model::Stopped;

/// What an error means, if it reports that a kernel failed: every later call in
/// its context returns it, too (`cuda.h`, `cudaError_enum`).
#[inline]
pub fn kernel_error(code: CUresult) -> Option<&'static str> {
    use CUresult as E;
    Some(match code {
        E::CUDA_ERROR_ILLEGAL_ADDRESS => "an illegal memory access was encountered",
        E::CUDA_ERROR_LAUNCH_TIMEOUT => "the launch timed out and was terminated",
        E::CUDA_ERROR_ASSERT => "device-side assert triggered",
        E::CUDA_ERROR_HARDWARE_STACK_ERROR => "hardware stack error",
        E::CUDA_ERROR_ILLEGAL_INSTRUCTION => "an illegal instruction was encountered",
        E::CUDA_ERROR_MISALIGNED_ADDRESS => "misaligned address",
        E::CUDA_ERROR_INVALID_ADDRESS_SPACE => {
            "operation not supported on global/shared address space"
        }
        E::CUDA_ERROR_INVALID_PC => "invalid program counter",
        E::CUDA_ERROR_LAUNCH_FAILED => "unspecified launch failure",
        E::CUDA_ERROR_TENSOR_MEMORY_LEAK => "tensor memory was not freed",
        _ => return None,
    })
}

/// A device's details about the failure of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFailure {
    /// The error that calls return.
    pub code: CUresult,
    /// The kernel; `None` if the device does not report it, or if none failed.
    pub kernel: Option<FailedKernel>,
    /// What happened, in words; empty if the device does not report it.
    pub detail: String,
    /// The device lacks what the kernel needs: this is no error of the program.
    pub device_lacks: bool,
}

/// A kernel that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedKernel {
    /// Handle that was launched.
    pub function: u64,
    /// Its name.
    pub name: String,
    /// Where it was stopped.
    pub stopped: Stopped,
    /// The address that it could not access; 0 if it was something else.
    pub address: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DriverError;

    #[test]
    fn every_error_of_a_kernel_is_sticky() {
        let is_sticky = |code| {
            let error = DriverError {
                call: "cuCtxSynchronize",
                code,
                message: String::new(),
            };
            error.is_sticky()
        };
        let codes = (0..1000).map(CUresult);
        let failed = codes.filter(|code| kernel_error(*code).is_some());
        assert_eq!(failed.clone().count(), 10);
        assert!(failed.into_iter().all(is_sticky));
        assert!(!is_sticky(CUresult::CUDA_ERROR_NOT_READY));
        assert!(!is_sticky(CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES));
    }
}
