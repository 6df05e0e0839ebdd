//! A kernel that the program has a handle of, for those who launch it.

use crate::functions::{Build, Function, KernelCopies};
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
    /// Handles of the instrumented copies.
    pub copies: KernelCopies,
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

    /// Handles of the instrumented copies.
    pub fn copies(&self) -> KernelCopies {
        self.0.copies
    }

    /// Its parameter layout, when it is instrumented.
    pub fn entry(&self) -> Option<&Arc<EntryPlan>> {
        self.0.entry.as_ref()
    }

    /// The instrumented copies, for the caller to ask the device how large their
    /// blocks may be ([`Kernel::set_limit`]). Empty after the first call.
    pub fn copies_without_limit(&self) -> impl Iterator<Item = (Build, u64)> + use<> {
        let is_known = self.0.copies == KernelCopies::default()
            || self.0.limit_known.load(Ordering::Relaxed)
            || self.0.limit_known.swap(true, Ordering::Relaxed);
        let copies = match is_known {
            true => KernelCopies::default(),
            false => self.0.copies,
        };
        let builds = [Build::Checked, Build::Residual].into_iter();
        builds.filter_map(move |build| Some((build, copies.handle(build)?)))
    }

    /// The largest block that an instrumented copy can be launched with
    /// (`CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK`).
    pub fn set_limit(&self, build: Build, threads: u32) {
        self.0.most_threads[build as usize].store(threads, Ordering::Relaxed);
    }
}
