//! Which process this is, and what has happened to it.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The life of a process.
pub struct Life {
    /// The process that the session is for.
    owner: AtomicU32,
    /// Set in a forked child, where neither contexts nor threads survive.
    forked: AtomicBool,
    in_use: Once,
}

impl Life {
    /// That of the calling process.
    pub fn of_this_process() -> Life {
        Life {
            owner: AtomicU32::new(std::process::id()),
            forked: AtomicBool::new(false),
            in_use: Once::new(),
        }
    }

    /// Whether the session is for the calling process. A vfork child shares the
    /// parent's memory, and must not report for it.
    pub fn is_own(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == std::process::id()
    }

    /// The session is for the calling process from now on.
    pub fn take_over(&self) {
        self.owner.store(std::process::id(), Ordering::Relaxed);
    }

    /// The calling process is a forked child, and has no session.
    pub fn set_forked(&self) {
        self.forked.store(true, Ordering::Relaxed);
    }

    /// Whether this is a forked child of the process that started.
    pub fn is_forked(&self) -> bool {
        self.forked.load(Ordering::Relaxed)
    }

    /// Called at each launch: runs `first` at the first one.
    pub fn launching(&self, first: impl FnOnce()) {
        self.in_use.call_once(first);
    }
}
