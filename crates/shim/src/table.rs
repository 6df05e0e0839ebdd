//! The table that every exported function jumps through.
//!
//! One pointer a function, in the order of `driver::FUNCTIONS`. Written when
//! Ringfence starts and in a forked child, read by every call; each entry is
//! at any time a function with that symbol's signature, so that no ordering
//! between entries matters.

use crate::exports::{self, COUNT};
use driver::Api;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The table. Read by the exported functions' machine code.
pub static TABLE: [AtomicPtr<()>; COUNT] = {
    let mut table = [const { AtomicPtr::new(std::ptr::null_mut()) }; COUNT];
    let mut position = 0;
    while position < COUNT {
        table[position] = AtomicPtr::new(exports::STARTING[position].cast_mut());
        position += 1;
    }
    table
};

/// Replaces every entry.
pub fn fill(addresses: &[usize; COUNT]) {
    for (entry, address) in TABLE.iter().zip(addresses) {
        entry.store(*address as *mut (), Ordering::Release);
    }
}

/// Where calls of the function at `position` go now.
pub fn target(position: usize) -> usize {
    TABLE[position].load(Ordering::Acquire) as usize
}

/// All functions as the program sees them: the exported symbols.
pub fn program_api() -> &'static Api {
    static API: OnceLock<Api> = OnceLock::new();
    API.get_or_init(|| {
        // SAFETY: each exported function jumps to an entry with its symbol's
        // signature, and the library is never unloaded.
        unsafe { Api::from_addresses(exports::exported()) }
    })
}
