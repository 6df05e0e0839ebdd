//! How far apart the device lays rows of pitched memory.

use parking_lot::Mutex;
use std::collections::BTreeMap;

/// What the device's answer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rows {
    /// Bytes of a row.
    pub width: usize,
    /// Bytes of an element.
    pub element: u32,
    /// The context.
    pub context: u64,
}

/// Bytes from row to row, as the device has answered.
#[derive(Default)]
pub struct Pitches(Mutex<BTreeMap<Rows, usize>>);

impl Pitches {
    /// What the device has answered.
    pub fn known(&self, rows: Rows) -> Option<usize> {
        self.0.lock().get(&rows).copied()
    }

    /// The device has answered.
    pub fn answered(&self, rows: Rows, pitch: usize) {
        self.0.lock().insert(rows, pitch);
    }
}
