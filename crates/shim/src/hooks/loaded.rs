//! What the shim itself must remember of loaded modules: which plan belongs to
//! a handle. The runtime knows their kernels.
//!
//! Handles of modules and libraries are all pointers of the device, so one map
//! serves both.

use crate::session;
use parking_lot::{Mutex, RwLock};
use runtime::{Kernel, ModulePlan};
use rustc_hash::FxHashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

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

static MODULES: LazyLock<RwLock<FxHashMap<u64, Loaded>>> = LazyLock::new(RwLock::default);

/// Remembers a module.
pub fn add_module(handle: u64, loaded: Loaded) {
    MODULES.write().insert(handle, loaded);
}

/// The module with this handle.
pub fn module(handle: u64) -> Option<Loaded> {
    MODULES.read().get(&handle).cloned()
}

/// Forgets a module.
pub fn remove_module(handle: u64) {
    MODULES.write().remove(&handle);
}

/// The kernel that the program has this handle of.
pub fn kernel(handle: u64) -> Option<Kernel> {
    session::runtime()?.modules().kernel(handle)
}

/// The program's kernel, where the handle is that of an instrumented copy.
pub fn original(handle: u64) -> Option<u64> {
    session::runtime()?.modules().original_of(handle)
}
