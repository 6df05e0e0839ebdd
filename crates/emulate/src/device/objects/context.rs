//! Contexts: names with a count, and which is current on a thread.

use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::mem::ManuallyDrop;

/// Heap of device-side `malloc` to start with, in bytes: CUDA's default.
pub(crate) const DEFAULT_HEAP: u64 = 8 << 20;

thread_local! {
    /// The thread's stack of contexts; the last is current. Never dropped, so
    /// that it is still there for calls from destructors of static objects,
    /// which run after the main thread's own.
    pub static STACK: RefCell<ManuallyDrop<Vec<u64>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// The calling thread's current context.
pub(crate) fn current() -> Option<u64> {
    STACK
        .with_borrow(|stack| stack.last().copied())
        .filter(|context| *context != 0)
}

#[derive(Default)]
pub(crate) struct Contexts {
    pub primary: u64,
    pub primary_count: u32,
    pub primary_flags: u32,
    /// Flags by handle, of the contexts that live.
    pub live: FxHashMap<u64, u32>,
}
