//! The process that the CPU device lives in.

use crate::stderr::say;
use emulate::device::Host;
use std::ffi::c_void;

/// This process.
pub struct Process;

fn at<T>(address: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

impl Host for Process {
    fn copy(&self, to: u64, from: u64, size: usize) {
        // SAFETY: the device has checked its own side against its map; the
        // other is a buffer that the program gave to a cuMemcpy call, which
        // asks it to be `size` bytes long and to live until the copy is over.
        unsafe { libc::memmove(at::<c_void>(to), at::<c_void>(from), size) };
    }

    fn read(&self, from: u64, bytes: &mut [u8]) {
        // SAFETY: as in `copy`; `bytes` is ours.
        unsafe { libc::memmove(bytes.as_mut_ptr().cast(), at::<c_void>(from), bytes.len()) };
    }

    fn print(&self, bytes: &[u8]) {
        unsafe extern "C" {
            static stdout: *mut libc::FILE;
        }
        // Through C's stream, as the real driver does, so that it comes in
        // order with what the program prints.
        // SAFETY: C's standard output exists while the process does.
        unsafe {
            libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stdout);
            libc::fflush(stdout);
        }
    }

    fn print_error(&self, bytes: &[u8]) {
        runtime::write_stderr(&String::from_utf8_lossy(bytes));
    }

    fn report(&self, message: &str) {
        say(message);
    }
}
