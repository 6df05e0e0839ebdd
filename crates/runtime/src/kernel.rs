//! A kernel that the program has a handle of, for those who launch it.

use crate::functions::Function;
use instrument::EntryPlan;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A kernel that the program got a handle of, as the device resolved it.
#[derive(Clone, Copy, Debug)]
pub struct Resolved<'a> {
    /// The handle.
    pub handle: u64,
    /// Whether it is a CUkernel of a library, not a CUfunction.
    pub in_library: bool,
    /// Handle of its module or library.
    pub module: u64,
    /// Mangled name.
    pub name: &'a str,
    /// Handle of the instrumented copy.
    pub copy: Option<u64>,
}

/// A kernel of a loaded module. Cheap to clone; it outlives its module.
#[derive(Clone, Debug)]
pub struct Kernel(pub(crate) Arc<Function>);

impl Kernel {
    /// The program's handle.
    pub fn handle(&self) -> u64 {
        self.0.handle
    }

    /// Whether the handle is a CUkernel, not a CUfunction.
    pub fn in_library(&self) -> bool {
        self.0.in_library
    }

    /// Handle of its module or library.
    pub fn module(&self) -> u64 {
        self.0.module
    }

    /// Mangled name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Handle of the instrumented copy.
    pub fn copy(&self) -> Option<u64> {
        self.0.checked
    }

    /// Its parameter layout, when it is instrumented.
    pub fn entry(&self) -> Option<&Arc<EntryPlan>> {
        self.0.entry.as_ref()
    }

    /// The instrumented copy, for the caller to ask the device how large its
    /// blocks may be ([`Kernel::set_limit`]). `None` after the first call, and
    /// where there is no copy.
    pub fn copy_without_limit(&self) -> Option<u64> {
        let copy = self.0.checked?;
        let is_known = self.0.limit_known.load(Ordering::Relaxed)
            || self.0.limit_known.swap(true, Ordering::Relaxed);
        (!is_known).then_some(copy)
    }

    /// The largest block that the instrumented copy can be launched with
    /// (`CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK`).
    pub fn set_limit(&self, threads: u32) {
        self.0.checked_threads.store(threads, Ordering::Relaxed);
    }
}
