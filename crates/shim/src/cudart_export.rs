//! Where the forwarding libraries libcudart.so.13 and .12 find the CUDA
//! runtime's functions (`cudart::forwarding`).

use std::ffi::{CStr, c_char, c_uint};

/// The runtime function of a name for programs of CUDA `version`, 12 or 13;
/// null if that version has no such function.
///
/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringfence_cudart_lookup(
    name: *const c_char,
    version: c_uint,
) -> *const () {
    let version = match version {
        12 => cudart::Version::Twelve,
        13 => cudart::Version::Thirteen,
        _ => return std::ptr::null(),
    };
    // SAFETY: the forwarding libraries pass their own string literals.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str()
        .ok()
        .and_then(|name| cudart::lookup_version(version, name))
        .unwrap_or(std::ptr::null())
}
