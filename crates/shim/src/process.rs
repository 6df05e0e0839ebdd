//! The process's life: before main, fork, and every way to end.
//!
//! A report is due however the program ends: by returning from main, by
//! `_exit`, by a signal that kills it. What a signal handler may do is next to
//! nothing, so a thread that was made beforehand does the work, and the
//! handler waits for it, but not for long.

use crate::exports::COUNT;
use crate::failure::{refuse, say, set_refusal};
use crate::{hooks, resolver, session, table};
use driver::sys::CUresult;
use model::{DeviceKind, exit_code};
use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// This symbol distinguishes Ringfence's library from the real driver's.
#[unsafe(no_mangle)]
pub extern "C" fn ringfence_is_loaded() -> c_int {
    1
}

/// A block of C strings, ended by null.
type Strings = *const *const c_char;

unsafe extern "C" {
    static mut environ: Strings;
}

#[unsafe(link_section = ".init_array")]
#[used]
static BEFORE_MAIN: extern "C" fn(c_int, Strings, Strings) = before_main;

/// On the CPU device, programs with the static CUDA runtime are redirected to
/// ours; that must happen before their own constructors register kernels, and
/// those of their libraries. So this library starts before all others
/// (build.rs), even before the C library, which only then takes over the
/// environment that the loader passes to every initialiser.
extern "C" fn before_main(_count: c_int, _arguments: Strings, environment: Strings) {
    // SAFETY: there is one thread; the loader's block lives as long as the
    // process, and is what the C library itself is about to store here.
    unsafe {
        if environ.is_null() {
            environ = environment;
        }
    }
    // Errors in settings are reported at the first CUDA call: most processes that
    // inherit the environment never make one.
    let Ok(settings) = session::settings() else {
        return;
    };
    if session::device_kind(&settings) != DeviceKind::Cpu {
        return;
    }
    resolver::install_cudart();
    if let Err(error) = cudart::redirect_static() {
        say(&format!("error: {error}"));
        session::leave_error(&settings, DeviceKind::Cpu, &error.to_string());
        exit_now(exit_code::FAILED.into());
    }
}

#[unsafe(link_section = ".fini_array")]
#[used]
static AFTER_ALL: extern "C" fn() = after_all;

/// Destructors of the program's static objects may run after this.
extern "C" fn after_main() {
    finish(false);
}

/// No code of the program runs after this: the library that starts first ends
/// last.
extern "C" fn after_all() {
    finish(true);
}

/// Drains and writes what is left. Safe to call often. `last`: the program has
/// come to its end by itself, and calls nothing any more.
fn finish(last: bool) {
    // A vfork child shares the parent's memory and must not speak for it.
    if OWNER.load(Ordering::Relaxed) == std::process::id()
        && let Some(runtime) = session::runtime()
    {
        hooks::timing::finish();
        if last {
            runtime.end();
        } else {
            runtime.exit_begins();
        }
    }
}

static OWNER: AtomicU32 = AtomicU32::new(0);

/// Called once, when the device has been opened.
pub fn register() {
    OWNER.store(std::process::id(), Ordering::Relaxed);
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
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
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
    if !session.is_initialised() {
        OWNER.store(std::process::id(), Ordering::Relaxed);
        return;
    }
    session::set_forked();
    match session.kind {
        DeviceKind::Gpu => {}
        DeviceKind::Cpu => {
            set_refusal(CUresult::CUDA_ERROR_NOT_INITIALIZED);
            table::fill(&[refuse as *const () as usize; COUNT]);
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

fn exit_now(status: c_int) -> ! {
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

struct Semaphore(UnsafeCell<MaybeUninit<libc::sem_t>>);

// SAFETY: only touched through sem_init (once, before the others), sem_post
// and sem_wait, which are made for sharing.
unsafe impl Sync for Semaphore {}

static DYING: Semaphore = Semaphore(UnsafeCell::new(MaybeUninit::uninit()));
static SAID: AtomicBool = AtomicBool::new(false);
static WATCH_SIGNALS: Once = Once::new();

/// Called when the runtime has started: from now on there is something to
/// report.
pub fn initialised() {
    WATCH_SIGNALS.call_once(|| {
        let semaphore = DYING.0.get().cast::<libc::sem_t>();
        // SAFETY: first use of this static; not shared between processes.
        unsafe { libc::sem_init(semaphore, 0, 0) };
        let spawned = without_signals(|| {
            std::thread::Builder::new()
                .name("ringfence-exit".into())
                .spawn(|| {
                    let semaphore = DYING.0.get().cast::<libc::sem_t>();
                    // SAFETY: initialised above; retried when interrupted.
                    while unsafe { libc::sem_wait(semaphore) } != 0 {}
                    finish(false);
                    SAID.store(true, Ordering::Release);
                })
        });
        if spawned.is_err() {
            // No thread, no last words: then signals stay as they are.
            return;
        }
        for signal in FATAL {
            watch(signal);
        }
    });
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
    // SAFETY: sem_post, nanosleep and raise are async-signal-safe; the
    // semaphore was initialised before the handler was installed.
    unsafe {
        libc::sem_post(DYING.0.get().cast::<libc::sem_t>());
        let pause = libc::timespec {
            tv_sec: 0,
            tv_nsec: 1_000_000,
        };
        let mut left = LAST_WORDS.as_millis();
        while left > 0 && !SAID.load(Ordering::Acquire) {
            libc::nanosleep(&pause, std::ptr::null_mut());
            left -= 1;
        }
        libc::raise(signal);
    }
}
