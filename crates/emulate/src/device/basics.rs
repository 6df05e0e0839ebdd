//! What every part of the device uses: the result of a call, and the process
//! around the device.

use driver::sys::CUresult;

/// What a call of the device gives: a value, or the driver API's error code.
pub type Result<T> = std::result::Result<T, CUresult>;

/// The process around the device: its ordinary memory, its standard output.
pub trait Host: Send + Sync {
    /// Copies within the process's address space, as `memmove`. The program
    /// vouches for addresses that are the device's to check only as far as it
    /// knows them.
    fn copy(&self, to: u64, from: u64, size: usize);
    /// Reads the program's memory.
    fn read(&self, from: u64, bytes: &mut [u8]);
    /// Output of device-side `printf`.
    fn print(&self, bytes: &[u8]);
    /// What a failed device-side `assert` says.
    fn print_error(&self, bytes: &[u8]);
    /// One line about a fault, for people.
    fn report(&self, message: &str);
}

/// How to set up the device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Worker threads of one kernel; 0 is one a core.
    pub threads: u32,
    /// Seed of the warp schedule.
    pub seed: u64,
    /// Kernels may access all memory of the program.
    pub pageable: bool,
}
