//! What the shim itself must remember of loaded modules: which plan belongs to
//! a handle. Their kernels are the runtime's.
//!
//! Handles of modules and libraries are all pointers of the device, so one map
//! serves both.

use parking_lot::{Mutex, RwLock};
use runtime::ModulePlan;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A module or library.
#[derive(Clone)]
pub struct Loaded {
    /// What the runtime decided about it.
    pub plan: Arc<ModulePlan>,
    /// Whether the device was given instrumented code.
    pub instrumented: bool,
    /// Its variables in global memory.
    pub variables: Arc<Variables>,
}

/// The variables of a module.
#[derive(Default)]
pub struct Variables {
    /// Whether all their addresses are known.
    pub known: AtomicBool,
    /// Their addresses.
    pub bases: Mutex<Vec<u64>>,
}

/// Loaded modules, by handle.
#[derive(Default)]
pub struct Modules {
    loaded: RwLock<FxHashMap<u64, Loaded>>,
}

impl Modules {
    /// Remembers a module.
    pub fn add(&self, handle: u64, loaded: Loaded) {
        self.loaded.write().insert(handle, loaded);
    }

    /// The module with this handle.
    pub fn get(&self, handle: u64) -> Option<Loaded> {
        self.loaded.read().get(&handle).cloned()
    }

    /// Forgets a module.
    pub fn remove(&self, handle: u64) {
        self.loaded.write().remove(&handle);
    }
}
