//! What the layer knows: one for the process, made when the loader loads it.
//!
//! No lock is held while a function of the platform runs: it may call back,
//! here or into the program.

use crate::arguments::Kernel;
use crate::buffers::Buffer;
use crate::contexts::Context;
use crate::events::Watched;
use crate::jobs::Jobs;
use crate::maps::Maps;
use crate::report::Reporter;
use heap::canary::Keys;
use model::Settings;
use parking_lot::{Mutex, ReentrantMutex};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Objects by their handle.
pub type ByHandle<T> = Mutex<FxHashMap<usize, T>>;

/// See the module's header.
pub struct Layer {
    pub settings: Settings,
    /// What the canaries of memory objects hold.
    pub keys: Keys,
    serials: AtomicU64,
    pub contexts: ByHandle<Arc<Context>>,
    pub buffers: ByHandle<Arc<Buffer>>,
    /// Shared virtual memory, by address: context and allocation.
    pub svm: Mutex<BTreeMap<usize, (usize, Arc<Buffer>)>>,
    pub kernels: ByHandle<Arc<Kernel>>,
    /// Programs that were built with an option of ours.
    pub programs: ByHandle<()>,
    /// Maps that hold canaries.
    pub maps: Mutex<Maps>,
    /// Kernels' events that the program holds.
    pub events: ByHandle<Watched>,
    pub jobs: Jobs,
    /// Held while a command is enqueued that uses what other commands use in
    /// turn: copies, and what images are made of.
    pub turn: ReentrantMutex<()>,
    pub reporter: Reporter,
}

static LAYER: OnceLock<Layer> = OnceLock::new();

/// Reads the settings; whether anything is to be watched.
pub fn start() -> bool {
    let settings = match host::settings_from_environment(|name| std::env::var(name).ok()) {
        Ok(settings) => settings,
        Err(error) => {
            host::write_stderr(&format!(
                "ringfence: error: {error}; OpenCL runs without checks\n"
            ));
            return false;
        }
    };
    if !settings.protect.canary {
        return false;
    }
    LAYER.get_or_init(|| Layer {
        reporter: Reporter::new(&settings),
        keys: Keys::of(&settings),
        settings,
        serials: AtomicU64::new(0),
        contexts: ByHandle::default(),
        buffers: ByHandle::default(),
        svm: Mutex::default(),
        kernels: ByHandle::default(),
        programs: ByHandle::default(),
        maps: Mutex::default(),
        events: ByHandle::default(),
        jobs: Jobs::default(),
        turn: ReentrantMutex::new(()),
    });
    true
}

/// The layer, where it watches anything.
pub fn get() -> Option<&'static Layer> {
    LAYER.get()
}

impl Layer {
    /// Number of the next memory object, from 1.
    pub fn next_serial(&self) -> u64 {
        self.serials.fetch_add(1, Ordering::Relaxed) + 1
    }
}
