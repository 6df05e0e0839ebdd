//! The table that every exported function jumps through.
//!
//! One pointer a function, in the order of `driver::FUNCTIONS`. Written when
//! Ringfence starts and in a forked child, read by every call; each entry is
//! at any time a function with that symbol's signature, so that no ordering
//! between entries matters.

use crate::positions::COUNT;
use driver::Api;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of any signature.
pub type Function = unsafe extern "C" fn();

/// The table, and the functions that jump through it.
#[repr(C)]
pub struct Table {
    /// First: the exported functions' machine code finds its entry by its
    /// distance from the table.
    entries: [AtomicPtr<()>; COUNT],
    exported: [Function; driver::COUNT],
}

impl Table {
    /// A table with these entries.
    ///
    /// # Safety
    /// Each function has the signature of the symbol at its position.
    pub const unsafe fn new(
        entries: [*const (); COUNT],
        exported: [Function; driver::COUNT],
    ) -> Table {
        let mut table = [const { AtomicPtr::new(std::ptr::null_mut()) }; COUNT];
        let mut position = 0;
        while position < COUNT {
            table[position] = AtomicPtr::new(entries[position].cast_mut());
            position += 1;
        }
        Table {
            entries: table,
            exported,
        }
    }

    /// Replaces every entry.
    pub fn fill(&self, addresses: &[usize; COUNT]) {
        for (entry, address) in self.entries.iter().zip(addresses) {
            entry.store(*address as *mut (), Ordering::Release);
        }
    }

    /// Where calls of the function at `position` go now.
    pub fn target(&self, position: usize) -> usize {
        self.entries[position].load(Ordering::Acquire) as usize
    }

    /// All functions as the program sees them: the exported symbols.
    pub fn program(&self) -> &Api {
        // SAFETY: Api is one pointer a function (`Api::addresses`), and each
        // exported function jumps to an entry with its symbol's signature
        // (`Table::new`).
        unsafe { &*std::ptr::from_ref(&self.exported).cast::<Api>() }
    }
}
