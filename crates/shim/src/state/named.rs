//! Functions that the device lacks: each is named once.

use crate::positions::COUNT;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which were named, by position.
pub struct Named([AtomicBool; COUNT]);

impl Default for Named {
    fn default() -> Named {
        Named([const { AtomicBool::new(false) }; COUNT])
    }
}

impl Named {
    /// Whether the function at a position was not named before.
    pub fn is_first(&self, position: usize) -> bool {
        self.0
            .get(position)
            .is_some_and(|named| !named.swap(true, Ordering::Relaxed))
    }
}
