//! The errors by which the driver reports that a kernel failed, and a device's
//! details about it.

use crate::sys::CUresult;
use model::{Stopped, ThreadCoordinates};

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

/// The driver's words for an error, for devices that have to say them themselves;
/// the name of one that they do not give.
pub fn describe(error: CUresult) -> Option<&'static str> {
    use CUresult as E;
    if let Some(meaning) = kernel_error(error) {
        return Some(meaning);
    }
    Some(match error {
        E::CUDA_SUCCESS => "no error",
        E::CUDA_ERROR_INVALID_VALUE => "invalid argument",
        E::CUDA_ERROR_OUT_OF_MEMORY => "out of memory",
        E::CUDA_ERROR_NOT_INITIALIZED => "initialization error",
        E::CUDA_ERROR_DEINITIALIZED => "driver shutting down",
        E::CUDA_ERROR_NO_DEVICE => "no CUDA-capable device is detected",
        E::CUDA_ERROR_INVALID_DEVICE => "invalid device ordinal",
        E::CUDA_ERROR_INVALID_IMAGE => "device kernel image is invalid",
        E::CUDA_ERROR_INVALID_CONTEXT => "invalid device context",
        E::CUDA_ERROR_NO_BINARY_FOR_GPU => {
            "no kernel image is available for execution on the device"
        }
        E::CUDA_ERROR_INVALID_PTX => "a PTX JIT compilation failed",
        E::CUDA_ERROR_FILE_NOT_FOUND => "file not found",
        E::CUDA_ERROR_INVALID_HANDLE => "invalid resource handle",
        E::CUDA_ERROR_NOT_FOUND => "named symbol not found",
        E::CUDA_ERROR_NOT_READY => "device not ready",
        E::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES => "too many resources requested for launch",
        E::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE => "too many blocks in cooperative launch",
        E::CUDA_ERROR_NOT_SUPPORTED => "operation not supported",
        E::CUDA_ERROR_CONTEXT_IS_DESTROYED => "context is destroyed",
        E::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED => {
            "part or all of the requested memory range is already mapped"
        }
        E::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED => {
            "pointer does not correspond to a registered memory region"
        }
        E::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED => {
            "operation not permitted when stream is capturing"
        }
        E::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED => {
            "operation failed due to a previous error during capture"
        }
        E::CUDA_ERROR_STREAM_CAPTURE_MERGE => {
            "operation would result in a merge of separate capture sequences"
        }
        E::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED => {
            "capture was not ended in the same stream as it began"
        }
        E::CUDA_ERROR_STREAM_CAPTURE_UNJOINED => "capturing stream has unjoined work",
        E::CUDA_ERROR_STREAM_CAPTURE_ISOLATION => {
            "dependency created on uncaptured work in another stream"
        }
        E::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT => {
            "operation would make the legacy stream depend on a capturing blocking stream"
        }
        E::CUDA_ERROR_CAPTURED_EVENT => {
            "operation not permitted on an event last recorded in a capturing stream"
        }
        E::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE => {
            "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update"
        }
        E::CUDA_ERROR_UNKNOWN => "unknown error",
        _ => return error.name(),
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
    /// Handle that was launched; 0 if the device reports only the name.
    pub function: u64,
    /// Its name.
    pub name: String,
    /// Where it was stopped.
    pub stopped: Stopped,
    /// The address that it could not access; 0 if it was something else, or is
    /// not known.
    pub address: u64,
    /// Threads that were at the place where it failed, with what each accessed
    /// there and shortly before: some of them may have been right, and registers may
    /// have changed since. Empty where `address` is known.
    pub threads: Vec<FailedThread>,
}

/// A thread of a kernel that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedThread {
    /// Which.
    pub thread: ThreadCoordinates,
    /// The address that it accessed, as far as its registers tell.
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
