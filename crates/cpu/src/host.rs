//! The process that the CPU device lives in.

use emulate::device::Host;
use std::ffi::c_void;

/// Where the device's output goes.
#[derive(Clone, Copy)]
pub struct Output {
    /// What kernels print.
    pub print: fn(&[u8]),
    /// What a failed device-side `assert` says.
    pub print_error: fn(&[u8]),
    /// One line for people.
    pub say: fn(&str),
}

/// This process, and where its output goes.
pub struct Process(pub Output);

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
        (self.0.print)(bytes);
    }

    fn print_error(&self, bytes: &[u8]) {
        (self.0.print_error)(bytes);
    }

    fn report(&self, message: &str) {
        (self.0.say)(message);
    }
}
