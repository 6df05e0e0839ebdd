//! How things fail that cannot work: with one line that names what and why.

use crate::positions::name;
use crate::session;
use crate::stderr::say;
use driver::sys::CUresult;

/// Answers a call of a function that the device does not have.
pub extern "C" fn missing(position: u32) -> CUresult {
    let position = position as usize;
    if session::get().is_some_and(|session| session.missing.is_first(position)) {
        let name = name(position).unwrap_or("a function");
        say(&format!(
            "{name} is not supported by this device; the call fails with CUDA_ERROR_NOT_SUPPORTED"
        ));
    }
    CUresult::CUDA_ERROR_NOT_SUPPORTED
}

/// Answers every call when Ringfence could not start, and in forked children
/// of a process that uses the CPU device.
pub extern "C" fn refuse() -> CUresult {
    session::refusal()
}
