//! Answers to the program's questions.

use crate::sys::*;
use std::ffi::c_void;

/// Answers a question of the program's as OpenCL does.
///
/// # Safety
///
/// `value` is null or has room for `size` bytes; `size_ret` is null or may be
/// written.
pub unsafe fn answer(
    bytes: &[u8],
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    if !value.is_null() {
        if size < bytes.len() {
            return CL_INVALID_VALUE;
        }
        // SAFETY: there is room, as just compared.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), bytes.len()) };
    }
    if !size_ret.is_null() {
        // SAFETY: as this function's contract says.
        unsafe { *size_ret = bytes.len() };
    }
    CL_SUCCESS
}
