//! Names and descriptions of errors.

use crate::convert::{functions, put};
use crate::session::Cpu;
use driver::sys::CUresult;
use std::ffi::c_char;

/// Writes a text; without one, null and INVALID_VALUE.
///
/// # Safety
/// `to` is null or valid for a write.
unsafe fn put_text(
    cpu: &Cpu,
    to: *mut *const c_char,
    text: Option<&'static str>,
) -> crate::convert::Answer {
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
        put_text(gpu, to, driver::describe(error))
    }
}
