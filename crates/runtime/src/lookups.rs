//! When the device's lookup tables are brought up to date: before launches of
//! kernels that look pointers up, and whenever memory changes while such
//! kernels may be running.

use crate::env::Env;
use crate::memory::Memory;
use crate::metadata::Metadata;
use crate::streams::StreamUse;
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

    /// A kernel that looks pointers up is about to be launched, into this stream, if
    /// that is known.
    pub fn launching(&self, stream: Option<StreamUse>) {
        self.used.store(true, Ordering::Relaxed);
        self.outstanding.store(true, Ordering::Relaxed);
        self.flush();
        self.hide_what_was_freed(stream);
    }

    /// A graph is about to be launched, whose kernels may look pointers up, and
    /// find what the program allocates while they run.
    pub fn graph_launching(&self, stream: Option<StreamUse>) {
        if self.used.load(Ordering::Relaxed) {
            self.outstanding.store(true, Ordering::Relaxed);
            self.flush();
            self.hide_what_was_freed(stream);
        }
    }

    /// The stream has come to what it frees before it comes to what is launched now.
    fn hide_what_was_freed(&self, stream: Option<StreamUse>) {
        let Some(stream) = stream else { return };
        let freed = self.memory.hide_freed_in(stream.name);
        if let Err(error) = self.metadata.hide(&freed, stream.support()) {
            let message =
                format!("uses of memory that was freed in stream order may not be found: {error}");
            self.env.error(&message, false);
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
