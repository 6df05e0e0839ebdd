//! Names and descriptions of errors.

use super::convert::{functions, put};
use crate::state::Cpu;
use driver::sys::CUresult;
use std::ffi::c_char;

/// The driver's words for the errors that this device gives.
fn describe(error: CUresult) -> Option<&'static str> {
    use CUresult as E;
    if let Some(meaning) = driver::kernel_error(error) {
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

/// Writes a text; without one, null and INVALID_VALUE.
///
/// # Safety
/// `to` is null or valid for a write.
unsafe fn put_text(
    cpu: &Cpu,
    to: *mut *const c_char,
    text: Option<&'static str>,
) -> super::convert::Answer {
    let lent = text.map_or(std::ptr::null(), |text| cpu.lent().text(text));
    // SAFETY: this function's promise.
    unsafe { put(to, lent) }?;
    text.map(drop).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
}

functions! { gpu;
    fn cuGetErrorName(error: CUresult, to: *mut *const c_char) {
        put_text(gpu, to, error.name())
    }
    fn cuGetErrorString(error: CUresult, to: *mut *const c_char) {
        put_text(gpu, to, describe(error))
    }
}
