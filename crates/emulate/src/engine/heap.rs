//! The heap of device-side `malloc` and `free`.

use crate::mapping::{GRANULE, MapError, Memory};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Alignment of what `malloc` gives (CUDA C++ guide, dynamic allocation).
const ALIGNMENT: u64 = 16;

/// A mapped arena, and which parts of it are free.
pub struct DeviceHeap {
    memory: Arc<Memory>,
    base: u64,
    state: Mutex<State>,
}

struct State {
    /// Free ranges: start and length; never adjacent.
    free: BTreeMap<u64, u64>,
    /// Allocated blocks: start and length.
    used: BTreeMap<u64, u64>,
}

impl DeviceHeap {
    /// A heap of `size` bytes, rounded up to 2 MiB.
    pub fn new(memory: &Arc<Memory>, size: u64) -> Result<DeviceHeap, MapError> {
        let size = size.max(1).next_multiple_of(GRANULE);
        let base = memory.map(size, GRANULE)?;
        let state = State {
            free: BTreeMap::from([(base, size)]),
            used: BTreeMap::new(),
        };
        Ok(DeviceHeap {
            memory: memory.clone(),
            base,
            state: Mutex::new(state),
        })
    }

    /// `malloc`: 0 if there is no room.
    pub fn allocate(&self, size: u64) -> u64 {
        let Some(size) = size.max(1).checked_next_multiple_of(ALIGNMENT) else {
            return 0;
        };
        let mut state = self.state.lock();
        let Some((start, length)) = state
            .free
            .iter()
            .find(|(_, length)| **length >= size)
            .map(|(s, l)| (*s, *l))
        else {
            return 0;
        };
        state.free.remove(&start);
        if length > size {
            state.free.insert(start + size, length - size);
        }
        state.used.insert(start, size);
        start
    }

    /// `free`; false if nothing that is in use starts there.
    pub fn release(&self, address: u64) -> bool {
        let mut state = self.state.lock();
        let Some(mut size) = state.used.remove(&address) else {
            return false;
        };
        let mut start = address;
        if let Some((&before, &length)) = state.free.range(..address).next_back()
            && before + length == address
        {
            state.free.remove(&before);
            (start, size) = (before, size + length);
        }
        if let Some(length) = state.free.remove(&(start + size)) {
            size += length;
        }
        state.free.insert(start, size);
        true
    }

    /// Blocks in use: start and length in bytes.
    pub fn blocks(&self) -> Vec<(u64, u64)> {
        self.state
            .lock()
            .used
            .iter()
            .map(|(s, l)| (*s, *l))
            .collect()
    }
}

impl Drop for DeviceHeap {
    fn drop(&mut self) {
        let _ = self.memory.unmap(self.base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_neighbours_join() {
        let memory = Arc::new(Memory::new().unwrap());
        let heap = DeviceHeap::new(&memory, GRANULE).unwrap();
        let blocks: Vec<u64> = (0..4).map(|_| heap.allocate(GRANULE / 4)).collect();
        assert!(blocks.iter().all(|b| *b != 0));
        assert_eq!(heap.allocate(1), 0, "the heap is full");
        for block in [blocks[1], blocks[3], blocks[0], blocks[2]] {
            assert!(heap.release(block));
        }
        assert!(!heap.release(blocks[0]), "freed twice");
        assert_ne!(heap.allocate(GRANULE), 0, "one range again");
    }
}
