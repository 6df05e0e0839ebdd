//! When the device's lookup tables are brought up to date: before launches of
//! kernels that look pointers up, and whenever memory changes while such
//! kernels may be running.

use crate::env::Env;
use crate::memory::Memory;
use crate::metadata::Metadata;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module's header.
pub(crate) struct Lookups {
    env: Arc<Env>,
    memory: Arc<Memory>,
    metadata: Arc<Metadata>,
    /// Some kernel looks pointers up.
    used: AtomicBool,
    /// Kernels that do may be running.
    outstanding: AtomicBool,
}

impl Lookups {
    pub fn new(env: Arc<Env>, memory: Arc<Memory>, metadata: Arc<Metadata>) -> Lookups {
        Lookups {
            env,
            memory,
            metadata,
            used: AtomicBool::new(false),
            outstanding: AtomicBool::new(false),
        }
    }

    /// A kernel that looks pointers up is about to be launched.
    pub fn launching(&self) {
        self.used.store(true, Ordering::Relaxed);
        self.outstanding.store(true, Ordering::Relaxed);
        self.flush();
    }

    /// A graph is about to be launched, whose kernels may look pointers up, and
    /// find what the program allocates while they run.
    pub fn graph_launching(&self) {
        if self.used.load(Ordering::Relaxed) {
            self.outstanding.store(true, Ordering::Relaxed);
            self.flush();
        }
    }

    /// A kernel that looks pointers up may be running, and may be given the new
    /// memory through memory.
    pub fn memory_changed(&self) {
        if self.outstanding.load(Ordering::Relaxed) {
            self.flush();
        }
    }

    /// The program has waited for the device.
    pub fn synchronized(&self) {
        self.outstanding.store(false, Ordering::Relaxed);
    }

    fn flush(&self) {
        if let Err(message) = self.metadata.flush(&self.memory) {
            self.env.error(&message, false);
        }
    }
}
