//! Text on the standard error output, which may be full or have no reader any
//! more: then the text is lost, and the program goes on as without Ringfence.
//!
//! A write to a pipe without a reader raises SIGPIPE, which kills a program
//! that neither handles nor ignores it. The program did not make this write, so
//! it must not get the signal.

use std::io::Write as _;
use std::mem::MaybeUninit;

/// Writes to the standard error output.
pub fn write_stderr(text: &str) {
    without_sigpipe(|| {
        // An output that accepts no text cannot be reported.
        let _ = std::io::stderr().write_all(text.as_bytes());
    });
}

/// Runs a function that may write to a pipe, and discards the SIGPIPE that this
/// raises.
pub(crate) fn without_sigpipe(write: impl FnOnce()) {
    let mut only = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: sigemptyset and sigpending initialise the sets that they are
    // given, and pthread_sigmask fills `before`; nothing else is accessed.
    let was_pending = unsafe {
        libc::sigemptyset(only.as_mut_ptr());
        libc::sigaddset(only.as_mut_ptr(), libc::SIGPIPE);
        let mut pending = MaybeUninit::uninit();
        libc::sigpending(pending.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, only.as_ptr(), before.as_mut_ptr());
        libc::sigismember(pending.as_ptr(), libc::SIGPIPE) == 1
    };
    write();
    let now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both sets were initialised above. SIGPIPE is raised for the
    // thread that writes, so that what is taken here is that of the write,
    // unless one was pending before.
    unsafe {
        if !was_pending {
            while libc::sigtimedwait(only.as_ptr(), std::ptr::null_mut(), &raw const now) == -1
                && *libc::__errno_location() == libc::EINTR
            {}
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::pipe;

    #[test]
    fn a_pipe_without_a_reader_does_not_end_the_process() {
        // SAFETY: the default action, as C programs have it.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let (reader, mut writer) = pipe().unwrap();
        drop(reader);
        let mut result = Ok(());
        without_sigpipe(|| result = writer.write_all(b"text"));
        assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    }
}
