//! Code that a program hands to the driver as a bare pointer, or names.

use crate::stderr::say;
pub use driver::image::parts_of_file;
use runtime::ModulePart;
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;

/// Reads the parts of an image; none if it is nothing that is known.
///
/// # Safety
/// As [`driver::image::parts`].
pub unsafe fn parts<'a>(image: *const c_void) -> Vec<ModulePart<'a>> {
    // SAFETY: this function's promise.
    unsafe {
        driver::image::parts(image, &mut |error| {
            say(&format!(
                "a fat binary that the program registers cannot be read, its kernels run unchecked: {error}"
            ));
        })
    }
}

/// A file that the program names; nothing if it cannot be read, which the device then
/// says itself.
///
/// # Safety
/// `name` is null or NUL-terminated.
pub unsafe fn read_file(name: *const c_char) -> Vec<u8> {
    if name.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's word.
    let name = unsafe { CStr::from_ptr(name) };
    std::fs::read(OsStr::from_bytes(name.to_bytes())).unwrap_or_default()
}
