//! The report of a process that a signal kills. What a signal handler may do is
//! next to nothing, so a thread that was made beforehand writes the report, and
//! the handler waits for it.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// How the handler and the thread find each other.
pub struct LastWords {
    asked: UnsafeCell<MaybeUninit<libc::sem_t>>,
    said: AtomicBool,
    prepared: Once,
}

// SAFETY: the semaphore is only touched through sem_init (once, before the
// others), sem_post and sem_wait, which are made for sharing.
unsafe impl Sync for LastWords {}
// SAFETY: it is initialised where it stays (`prepare`); before that it is bytes.
unsafe impl Send for LastWords {}

impl Default for LastWords {
    fn default() -> LastWords {
        LastWords {
            asked: UnsafeCell::new(MaybeUninit::uninit()),
            said: AtomicBool::new(false),
            prepared: Once::new(),
        }
    }
}

impl LastWords {
    fn semaphore(&self) -> *mut libc::sem_t {
        self.asked.get().cast()
    }

    /// Once: makes the semaphore, which must stay where it is, then starts what
    /// uses it.
    pub fn prepare(&'static self, start: impl FnOnce()) {
        self.prepared.call_once(|| {
            // SAFETY: its first use; not shared between processes.
            unsafe { libc::sem_init(self.semaphore(), 0, 0) };
            start();
        });
    }

    /// Returns when the process is dying.
    ///
    /// # Safety
    /// Called by what [`LastWords::prepare`] starts.
    pub unsafe fn wait(&'static self) {
        // SAFETY: initialised by the caller's word; retried when interrupted.
        while unsafe { libc::sem_wait(self.semaphore()) } != 0 {}
    }

    /// The process is dying. Async-signal-safe.
    ///
    /// # Safety
    /// Called by what [`LastWords::prepare`] starts.
    pub unsafe fn ask(&'static self) {
        // SAFETY: initialised by the caller's word.
        unsafe { libc::sem_post(self.semaphore()) };
    }

    /// The report is written.
    pub fn set_said(&self) {
        self.said.store(true, Ordering::Release);
    }

    /// Whether the report is written. Async-signal-safe.
    pub fn is_said(&self) -> bool {
        self.said.load(Ordering::Acquire)
    }
}
