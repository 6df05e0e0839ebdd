//! Code that a program hands to the driver as a bare pointer.

use crate::stderr::say;
pub use driver::image::parts_of_file;
use runtime::ModulePart;
use std::ffi::c_void;

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
