//! The last error, and names and texts of errors.

use crate::error;
use crate::generated::types::cudaError_t;
use crate::table::Entry;
use std::ffi::c_char;

/// The thread's last error, which is success afterwards.
pub extern "C" fn cudaGetLastError() -> cudaError_t {
    error::take()
}

/// The thread's last error, which stays.
pub extern "C" fn cudaPeekAtLastError() -> cudaError_t {
    error::peek()
}

/// `cudaErrorInvalidValue`.
pub extern "C" fn cudaGetErrorName(error: cudaError_t) -> *const c_char {
    error::name(error).as_ptr()
}

/// `invalid argument`.
pub extern "C" fn cudaGetErrorString(error: cudaError_t) -> *const c_char {
    error::text(error).as_ptr()
}

/// Functions of this module by name.
pub(crate) const TABLE: &[Entry] = &[
    Entry::new("cudaGetLastError", cudaGetLastError as *const ()),
    Entry::new("cudaPeekAtLastError", cudaPeekAtLastError as *const ()),
    Entry::new("cudaGetErrorName", cudaGetErrorName as *const ()),
    Entry::new("cudaGetErrorString", cudaGetErrorString as *const ()),
];
