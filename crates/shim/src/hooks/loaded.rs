//! What the shim itself must remember of loaded modules: which plan belongs to
//! a handle, and which copy to a kernel.
//!
//! Handles of modules, libraries, functions and kernels are all pointers of
//! the device, so one map for each pair serves both.

use parking_lot::{Mutex, RwLock};
use runtime::{EntryPlan, ModulePlan};
use std::collections::HashMap;
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

/// A function or kernel of one.
pub struct Function {
    /// Handle of its module or library.
    pub module: u64,
    /// Whether the handle is a CUkernel, not a CUfunction.
    pub is_kernel: bool,
    /// Mangled name.
    pub name: String,
    /// Handle of the instrumented copy.
    pub checked: Option<u64>,
    /// Its parameter layout, when it is instrumented.
    pub entry: Option<Arc<EntryPlan>>,
    /// Whether the largest block of the copy was asked for.
    pub limit_known: AtomicBool,
}

static MODULES: LazyLock<RwLock<HashMap<u64, Loaded>>> = LazyLock::new(RwLock::default);
static FUNCTIONS: LazyLock<RwLock<HashMap<u64, Arc<Function>>>> = LazyLock::new(RwLock::default);

/// From an instrumented copy to the program's kernel.
static ORIGINALS: LazyLock<RwLock<HashMap<u64, u64>>> = LazyLock::new(RwLock::default);

/// Remembers a module.
pub fn add_module(handle: u64, loaded: Loaded) {
    MODULES.write().insert(handle, loaded);
}

/// The module with this handle.
pub fn module(handle: u64) -> Option<Loaded> {
    MODULES.read().get(&handle).cloned()
}

/// Forgets a module and what was found in it.
pub fn remove_module(handle: u64) {
    MODULES.write().remove(&handle);
    let mut gone = Vec::new();
    FUNCTIONS.write().retain(|_, function| {
        let keep = function.module != handle;
        if !keep {
            gone.extend(function.checked);
        }
        keep
    });
    let mut originals = ORIGINALS.write();
    for copy in gone {
        originals.remove(&copy);
    }
}

/// Remembers a function.
pub fn add_function(handle: u64, function: Function) {
    if let Some(copy) = function.checked {
        ORIGINALS.write().insert(copy, handle);
    }
    FUNCTIONS.write().insert(handle, Arc::new(function));
}

/// The program's kernel, where the handle is that of an instrumented copy.
pub fn original(handle: u64) -> Option<u64> {
    ORIGINALS.read().get(&handle).copied()
}

/// Every kernel of a library with its instrumented copy, if it has one.
pub fn kernels() -> Vec<(u64, Option<u64>)> {
    let functions = FUNCTIONS.read();
    let kernels = functions.iter().filter(|(_, function)| function.is_kernel);
    kernels
        .map(|(handle, function)| (*handle, function.checked))
        .collect()
}

/// The function with this handle.
pub fn function(handle: u64) -> Option<Arc<Function>> {
    FUNCTIONS.read().get(&handle).cloned()
}

/// The instrumented copy of a function.
pub fn checked(handle: u64) -> Option<u64> {
    function(handle)?.checked
}
