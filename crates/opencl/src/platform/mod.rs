//! The platform below: its functions, queries of it, and references to its
//! events.

pub mod ask;
pub mod commands;
pub mod events;
#[cfg(test)]
pub mod fake;
pub mod handles;
pub mod release;

use crate::sys::*;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// A table of functions.
pub struct Table(pub Dispatch);

// SAFETY: a table of functions, never written after it was made; its other
// pointers are functions, too.
unsafe impl Sync for Table {}
// SAFETY: as above.
unsafe impl Send for Table {}

/// A table without functions.
pub fn empty() -> Dispatch {
    // SAFETY: all its fields are optional functions and pointers, for which
    // all-zero bytes mean none.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

static TARGET: OnceLock<Table> = OnceLock::new();

/// Sets the functions that [`call`] calls, unless they were set before.
pub fn set_target(below: Dispatch) {
    let _ = TARGET.set(Table(below));
}

/// The platform's functions; none before they were set.
#[cfg(not(test))]
pub fn target() -> Option<&'static Dispatch> {
    TARGET.get().map(|table| &table.0)
}

/// In tests each thread has a platform of its own.
#[cfg(test)]
pub fn target() -> Option<&'static Dispatch> {
    fake::target().or_else(|| TARGET.get().map(|table| &table.0))
}

/// Calls a function of the platform; the value after `else` where there is
/// none.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?) else $missing:expr) => {
        match $crate::platform::target().and_then(|table| table.$name) {
            // SAFETY: the platform's own function, with arguments of the types
            // that it declares; handles and pointers are the program's, or the
            // platform returned them and they live until they are released, or
            // they are places of the caller that outlive the call or the
            // command.
            Some(function) => unsafe { function($($argument),*) },
            None => $missing,
        }
    };
    ($name:ident($($argument:expr),* $(,)?)) => {
        $crate::platform::call!($name($($argument),*) else CL_INVALID_OPERATION)
    };
}
pub(crate) use call;
