//! Errors: from the driver's numbers to the runtime's, and the last error of
//! each thread.

use crate::generated::errors::ERRORS;
use crate::generated::types::{cudaError, cudaError_t};
use driver::sys::CUresult;
use std::cell::Cell;
use std::ffi::CStr;

thread_local! {
    /// What cudaGetLastError gives. No destructor, so usable while a thread
    /// or the process ends.
    static LAST: Cell<u32> = const { Cell::new(0) };
}

/// A driver result as a runtime result. Since CUDA 10.1 both count alike
/// (driver_types.h); a number that the runtime does not list is unknown.
pub(crate) fn check(result: CUresult) -> Result<(), cudaError_t> {
    match result.0 {
        0 => Ok(()),
        code if entry(code).is_some() => Err(cudaError(code)),
        _ => Err(cudaError_t::cudaErrorUnknown),
    }
}

/// The end of every runtime function: an error becomes the thread's last error.
pub(crate) fn finish(result: Result<(), cudaError_t>) -> cudaError_t {
    match result {
        Ok(()) => cudaError_t::cudaSuccess,
        Err(error) => record(error),
    }
}

/// Prints a message to stderr; what that does not take is lost.
pub(crate) fn say(message: &str) {
    use std::io::Write as _;
    let _ = std::io::stderr().write_all(format!("ringfence: {message}\n").as_bytes());
}

/// Makes `error` the thread's last error.
pub(crate) fn record(error: cudaError_t) -> cudaError_t {
    LAST.set(error.0);
    error
}

/// The thread's last error, which stays.
pub(crate) fn peek() -> cudaError_t {
    cudaError(LAST.get())
}

/// The thread's last error, which is success afterwards.
pub(crate) fn take() -> cudaError_t {
    cudaError(LAST.replace(0))
}

fn entry(code: u32) -> Option<&'static (u32, &'static CStr, &'static CStr)> {
    ERRORS
        .binary_search_by_key(&code, |entry| entry.0)
        .ok()
        .map(|index| &ERRORS[index])
}

/// `cudaErrorInvalidValue`.
pub(crate) fn name(error: cudaError_t) -> &'static CStr {
    entry(error.0).map_or(c"unrecognized error code", |entry| entry.1)
}

/// `invalid argument`.
pub(crate) fn text(error: cudaError_t) -> &'static CStr {
    entry(error.0).map_or(c"unrecognized error code", |entry| entry.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_for_the_search() {
        for pair in ERRORS.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{pair:?}");
        }
    }

    #[test]
    fn driver_numbers_are_runtime_numbers() {
        for (driver, runtime) in [
            (
                CUresult::CUDA_ERROR_INVALID_VALUE,
                cudaError_t::cudaErrorInvalidValue,
            ),
            (
                CUresult::CUDA_ERROR_OUT_OF_MEMORY,
                cudaError_t::cudaErrorMemoryAllocation,
            ),
            (
                CUresult::CUDA_ERROR_NOT_INITIALIZED,
                cudaError_t::cudaErrorInitializationError,
            ),
            (
                CUresult::CUDA_ERROR_DEINITIALIZED,
                cudaError_t::cudaErrorCudartUnloading,
            ),
            (
                CUresult::CUDA_ERROR_NO_DEVICE,
                cudaError_t::cudaErrorNoDevice,
            ),
            (
                CUresult::CUDA_ERROR_INVALID_CONTEXT,
                cudaError_t::cudaErrorDeviceUninitialized,
            ),
            (
                CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
                cudaError_t::cudaErrorNoKernelImageForDevice,
            ),
            (
                CUresult::CUDA_ERROR_INVALID_HANDLE,
                cudaError_t::cudaErrorInvalidResourceHandle,
            ),
            (
                CUresult::CUDA_ERROR_NOT_FOUND,
                cudaError_t::cudaErrorSymbolNotFound,
            ),
            (
                CUresult::CUDA_ERROR_NOT_READY,
                cudaError_t::cudaErrorNotReady,
            ),
            (
                CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
                cudaError_t::cudaErrorIllegalAddress,
            ),
            (
                CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                cudaError_t::cudaErrorLaunchOutOfResources,
            ),
            (
                CUresult::CUDA_ERROR_LAUNCH_FAILED,
                cudaError_t::cudaErrorLaunchFailure,
            ),
            (
                CUresult::CUDA_ERROR_NOT_SUPPORTED,
                cudaError_t::cudaErrorNotSupported,
            ),
            (
                CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                cudaError_t::cudaErrorStreamCaptureUnsupported,
            ),
        ] {
            assert_eq!(check(driver), Err(runtime));
        }
        assert_eq!(check(CUresult::CUDA_SUCCESS), Ok(()));
        assert_eq!(check(CUresult(123_456)), Err(cudaError_t::cudaErrorUnknown));
    }

    #[test]
    fn texts_are_those_of_the_library() {
        assert_eq!(
            text(cudaError_t::cudaErrorInvalidValue),
            c"invalid argument"
        );
        assert_eq!(
            name(cudaError_t::cudaErrorMemoryAllocation),
            c"cudaErrorMemoryAllocation"
        );
        assert_eq!(text(cudaError(4242)), c"unrecognized error code");
    }

    #[test]
    fn the_last_error_is_the_threads_own() {
        record(cudaError_t::cudaErrorInvalidValue);
        std::thread::spawn(|| assert_eq!(peek(), cudaError_t::cudaSuccess))
            .join()
            .unwrap();
        assert_eq!(peek(), cudaError_t::cudaErrorInvalidValue);
        assert_eq!(take(), cudaError_t::cudaErrorInvalidValue);
        assert_eq!(take(), cudaError_t::cudaSuccess);
    }
}
