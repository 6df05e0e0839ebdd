//! The process's life: fork, and every way to end.
//!
//! A report is due however the program ends: by returning from main, by
//! `_exit`, by a signal that kills it. What a signal handler may do is next to
//! nothing, so a thread that was made beforehand does the work, and the
//! handler waits for it, but not for long.

use crate::failure::refuse;
use crate::positions::COUNT;
use crate::session::{self, Session};
use crate::timing;
use model::DeviceKind;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::time::Duration;

/// Destructors of the program's static objects may run after this.
extern "C" fn after_main() {
    finish(false);
}

/// Drains and writes what is left. Safe to call often. `last`: the program has
/// come to its end by itself, and calls nothing any more.
pub fn finish(last: bool) {
    if session::get().is_some_and(|session| session.life.is_own())
        && let Some(runtime) = session::runtime()
    {
        timing::finish();
        if last {
            runtime.ending().end();
        } else {
            runtime.ending().exit_begins();
        }
    }
}

/// Called once, when the device has been opened.
pub fn register() {
    // SAFETY: plain function pointers in a library that is never unloaded.
    unsafe {
        libc::atexit(after_main);
        libc::pthread_atfork(None, None, Some(in_child));
    }
}

/// Called at each launch. Exit handlers run in the reverse order of their
/// registration, and libcuda registers its own, which shut the device down, when
/// it is initialised and when a context is made: from here on ours comes first.
pub fn device_in_use() {
    let Some(session) = session::get() else {
        return;
    };
    session.life.launching(|| {
        // SAFETY: a plain function pointer in a library that is never unloaded.
        unsafe {
            libc::atexit(after_main);
        }
    });
}

/// In a forked child neither contexts nor threads exist. The real driver knows
/// that itself; calls of the CPU device are refused with the code that the
/// real one gives. A parent that had not initialised CUDA leaves the child all
/// it needs to do so itself.
extern "C" fn in_child() {
    let Some(session) = session::get() else {
        return;
    };
    if session.kind == DeviceKind::Tenant {
        tenant::in_child();
    } else if !session.is_initialised() {
        session.life.take_over();
        return;
    }
    session.life.set_forked();
    match session.kind {
        DeviceKind::Gpu => {}
        DeviceKind::Cpu | DeviceKind::Tenant => {
            session.table.fill(&[refuse as *const () as usize; COUNT])
        }
    }
}

/// `_exit` runs no handlers, so it is taken over.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    finish(true);
    exit_now(status)
}

/// C99's name for the same.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the C library's name")]
pub unsafe extern "C" fn _Exit(status: c_int) -> ! {
    finish(true);
    exit_now(status)
}

/// Ends the process at once.
pub fn exit_now(status: c_int) -> ! {
    loop {
        // SAFETY: ends the process; touches no memory.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// Signals whose default is to kill.
const FATAL: [c_int; 8] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGHUP,
];

/// How long a dying process waits for its report.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Starts the runtime, once the program has initialised CUDA. From then on there
/// is something to report.
pub fn initialise(session: &'static Session) {
    if session.initialise() {
        session.last_words.prepare(|| report_when_killed(session));
    }
}

/// Starts the thread that reports when a signal kills the process, and takes the
/// signals.
fn report_when_killed(session: &'static Session) {
    let spawned = without_signals(|| {
        std::thread::Builder::new()
            .name("ringfence-exit".into())
            .spawn(|| {
                // SAFETY: `prepare` has called this function.
                unsafe { session.last_words.wait() };
                finish(false);
                session.last_words.set_said();
            })
    });
    if spawned.is_err() {
        // No thread, no last words: then signals stay as they are.
        return;
    }
    for signal in FATAL {
        watch(signal);
    }
}

/// Runs `work`, and starts its threads, with all signals blocked.
fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: sigfillset and pthread_sigmask fill the sets that they are given.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = work();
    // SAFETY: `before` was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    result
}

/// Takes a signal whose action is still the default one.
fn watch(signal: c_int) {
    // SAFETY: a zeroed sigaction is a valid one with the default action, and
    // both calls only read and write the structures given.
    unsafe {
        let mut present: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &mut present) != 0
            || present.sa_sigaction != libc::SIG_DFL
        {
            return;
        }
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = dying as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_RESETHAND;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

/// Only what signal-safety(7) allows. The action is the default again when
/// this runs (SA_RESETHAND), so raising the signal kills on return.
extern "C" fn dying(signal: c_int) {
    // Reading the session is one atomic load.
    if let Some(session) = session::get() {
        // SAFETY: `prepare` has called what installed this handler.
        unsafe { session.last_words.ask() };
        let pause = libc::timespec {
            tv_sec: 0,
            tv_nsec: 1_000_000,
        };
        let mut left = LAST_WORDS.as_millis();
        while left > 0 && !session.last_words.is_said() {
            // SAFETY: async-signal-safe; only reads the time given.
            unsafe { libc::nanosleep(&pause, std::ptr::null_mut()) };
            left -= 1;
        }
    }
    // SAFETY: async-signal-safe.
    unsafe { libc::raise(signal) };
}
