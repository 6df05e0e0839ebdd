//! Where the output of the CPU device goes: to the program's own streams.

use crate::stderr::say;
use cpu_api::Output;

/// The program's standard output and standard error.
pub const OF_THE_PROGRAM: Output = Output {
    print,
    print_error,
    say,
};

/// Through C's stream, as the real driver does, so that it comes in order with
/// what the program prints.
fn print(bytes: &[u8]) {
    unsafe extern "C" {
        static stdout: *mut libc::FILE;
    }
    // SAFETY: C's standard output exists while the process does.
    unsafe {
        libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stdout);
        libc::fflush(stdout);
    }
}

fn print_error(bytes: &[u8]) {
    runtime::write_stderr(&String::from_utf8_lossy(bytes));
}
