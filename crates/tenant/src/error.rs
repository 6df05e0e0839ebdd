//! Names and descriptions of errors.

use crate::convert::{Answer, put};
use crate::state::lasting;
use driver::sys::CUresult;
use std::ffi::c_char;

/// Writes a text; without one, null and INVALID_VALUE.
///
/// # Safety
/// `to` is null or valid for a write.
unsafe fn put_text(to: *mut *const c_char, text: Option<&'static str>) -> Answer {
    // SAFETY: this function's promise.
    unsafe { put(to, text.map_or(std::ptr::null(), lasting)) }?;
    text.map(drop).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
}

crate::convert::functions! { link;
    fn cuGetErrorName(error: CUresult, to: *mut *const c_char) {
        put_text(to, error.name())
    }
    fn cuGetErrorString(error: CUresult, to: *mut *const c_char) {
        put_text(to, driver::describe(error))
    }
}
