//! The allocation registry of the process, and the changes that the device's
//! lookup tables have not seen yet.

use crate::stacks::Stack;
use heap::Registry;
use model::{AllocationKind, DeviceAddress, Extent};
use parking_lot::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Freed allocations that findings can still name.
const HISTORY: usize = 4096;

/// A change of the live allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// An extent went live.
    Insert {
        /// Its bytes.
        extent: Extent,
        /// Its allocation's serial.
        serial: u64,
    },
    /// The extent that starts at this address is gone.
    Remove {
        /// First byte.
        base: u64,
    },
}

struct State {
    registry: Registry<Stack>,
    /// `None` until some module needs lookups; until then the registry itself
    /// is the change.
    changes: Option<Vec<Change>>,
}

/// See the module's header.
pub(crate) struct Memory {
    state: RwLock<State>,
    changed: AtomicBool,
}

impl Memory {
    pub fn new() -> Memory {
        let state = State {
            registry: Registry::new(HISTORY),
            changes: None,
        };
        Memory {
            state: RwLock::new(state),
            changed: AtomicBool::new(true),
        }
    }

    pub fn insert(&self, kind: AllocationKind, extent: Extent, name: Option<String>, stack: Stack) {
        let mut state = self.state.write();
        let Some(inserted) = state.registry.insert(kind, extent, name, stack) else {
            return;
        };
        if let Some(changes) = &mut state.changes {
            changes.extend(
                inserted
                    .displaced
                    .iter()
                    .map(|old| Change::Remove { base: old.base.0 }),
            );
            changes.push(Change::Insert {
                extent,
                serial: inserted.serial,
            });
        }
        self.changed.store(true, Ordering::Release);
    }

    /// Returns whether an allocation started there.
    pub fn remove(&self, base: DeviceAddress, stack: Stack) -> bool {
        let mut state = self.state.write();
        let removed = state.registry.remove(base, stack).is_some();
        if removed && let Some(changes) = &mut state.changes {
            changes.push(Change::Remove { base: base.0 });
        }
        if removed {
            self.changed.store(true, Ordering::Release);
        }
        removed
    }

    /// Reads the registry. The closure must not call the driver.
    pub fn read<R>(&self, look: impl FnOnce(&Registry<Stack>) -> R) -> R {
        look(&self.state.read().registry)
    }

    /// Whether [`Memory::take_changes`] would return any.
    pub fn changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }

    /// The changes since the last call; at the first call, everything that is
    /// live. What was inserted and removed in between is left out.
    pub fn take_changes(&self) -> Vec<Change> {
        let mut state = self.state.write();
        self.changed.store(false, Ordering::Release);
        match state.changes.replace(Vec::new()) {
            Some(changes) => net(changes),
            None => state
                .registry
                .iter()
                .map(|entry| Change::Insert {
                    extent: entry.allocation.extent,
                    serial: entry.allocation.serial,
                })
                .collect(),
        }
    }
}

/// Drops pairs of an insertion and its removal.
fn net(changes: Vec<Change>) -> Vec<Change> {
    let mut kept: Vec<Option<Change>> = Vec::with_capacity(changes.len());
    let mut inserted: rustc_hash::FxHashMap<u64, usize> = rustc_hash::FxHashMap::default();
    for change in changes {
        match change {
            Change::Insert { extent, .. } => {
                inserted.insert(extent.base.0, kept.len());
                kept.push(Some(change));
            }
            Change::Remove { base } => match inserted.remove(&base) {
                Some(index) => kept[index] = None,
                None => kept.push(Some(change)),
            },
        }
    }
    kept.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(base: u64) -> Extent {
        Extent {
            base: DeviceAddress(base),
            size: 16,
        }
    }

    #[test]
    fn the_first_changes_are_all_that_lives_and_later_ones_are_net() {
        let memory = Memory::new();
        for base in [0x100, 0x200, 0x300] {
            memory.insert(AllocationKind::Device, extent(base), None, None);
        }
        assert!(memory.remove(DeviceAddress(0x200), None));
        let first = memory.take_changes();
        assert_eq!(
            first,
            [
                Change::Insert {
                    extent: extent(0x100),
                    serial: 1
                },
                Change::Insert {
                    extent: extent(0x300),
                    serial: 3
                }
            ]
        );
        assert!(!memory.changed());
        memory.insert(AllocationKind::Device, extent(0x400), None, None);
        memory.remove(DeviceAddress(0x400), None);
        memory.remove(DeviceAddress(0x100), None);
        memory.insert(AllocationKind::Device, extent(0x100), None, None);
        assert!(memory.changed());
        let second = memory.take_changes();
        assert_eq!(
            second,
            [
                Change::Remove { base: 0x100 },
                Change::Insert {
                    extent: extent(0x100),
                    serial: 5
                }
            ]
        );
        assert!(!memory.remove(DeviceAddress(0x999), None));
    }
}
