//! The program ends with the `ringfence run` that started it.
//!
//! Who kills a command with a signal that cannot be handled (`timeout -s KILL`, a
//! batch system, the system where memory is short) wants its program to end: by
//! itself it would. `ringfence run` passes on the signals that it can handle; for
//! the others the kernel is told to end the program once its parent is gone.
//!
//! This holds for the program alone, not for what it starts: the kernel forgets it
//! in children. So a daemon, or what a shell leaves behind, lives on, as it would
//! natively. It is the parent's thread whose end counts: `ringfence run` starts
//! programs by its first one, which ends with the process.

use std::ffi::c_int;

/// Set by `ringfence run`: its process, a blank, and its name as the kernel has it.
const VARIABLE: &str = "RINGFENCE_LAUNCHER";

/// Ends this process with its parent, if that is the launcher.
pub fn end_with_it() {
    let Ok(launcher) = std::env::var(VARIABLE) else {
        return;
    };
    let Some((process, name)) = launcher.split_once(' ') else {
        return;
    };
    if process.parse() != Ok(parent()) {
        return;
    }
    // The variable is older than the process where it was inherited for long.
    let comm = std::fs::read_to_string(format!("/proc/{process}/comm"));
    if comm.is_ok_and(|comm| comm.trim_end() == name) {
        // SAFETY: the call takes numbers alone, and concerns this process alone.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        if process.parse() != Ok(parent()) {
            // It ended before the call.
            // SAFETY: as above.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
    }
}

fn parent() -> c_int {
    // SAFETY: the call has no condition.
    unsafe { libc::getppid() }
}
