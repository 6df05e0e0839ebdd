//! How things fail that cannot work: with one line that names what and why.

use crate::exports::{COUNT, name};
use driver::sys::CUresult;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

static NAMED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

/// Answers a call of a function that the device does not have.
pub extern "C" fn missing(position: u32) -> CUresult {
    let position = position as usize;
    if NAMED
        .get(position)
        .is_some_and(|named| !named.swap(true, Ordering::Relaxed))
    {
        let name = name(position).unwrap_or("a function");
        say(&format!(
            "{name} is not supported by this device; the call fails with CUDA_ERROR_NOT_SUPPORTED"
        ));
    }
    CUresult::CUDA_ERROR_NOT_SUPPORTED
}

static CODE: AtomicU32 = AtomicU32::new(CUresult::CUDA_ERROR_NOT_INITIALIZED.0);

/// Sets what [`refuse`] answers.
pub fn set_refusal(code: CUresult) {
    CODE.store(code.0, Ordering::Release);
}

/// Answers every call when Ringfence could not start, and in forked children
/// of a process that uses the CPU device.
pub extern "C" fn refuse() -> CUresult {
    CUresult(CODE.load(Ordering::Acquire))
}

/// Prints one line to stderr.
pub fn say(message: &str) {
    runtime::write_stderr(&format!("ringfence: {message}\n"));
}
