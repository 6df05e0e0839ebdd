//! Small allocations share 2 MiB chunks, as the driver's do: a stray access
//! next to one rarely faults, and freed memory often stays readable.
//!
//! Pure bookkeeping over addresses; the caller maps and unmaps chunks.

use crate::mapping::GRANULE;
use std::collections::BTreeMap;

/// What every allocation is aligned to, in bytes; cuMemAlloc promises 256.
pub const ALIGNMENT: u64 = 512;

/// Free and used parts of the chunks.
#[derive(Debug, Default)]
pub struct Arena {
    /// Free ranges by first byte; none spans two chunks.
    free: BTreeMap<u64, u64>,
    /// Bytes in use, by chunk.
    chunks: BTreeMap<u64, u64>,
}

impl Arena {
    /// Largest size that shares a chunk.
    pub const LARGEST: u64 = GRANULE / 2;

    /// Room for `size` bytes, if a chunk has it.
    pub fn take(&mut self, size: u64) -> Option<u64> {
        let size = size.next_multiple_of(ALIGNMENT);
        let (&start, &length) = self.free.iter().find(|(_, length)| **length >= size)?;
        self.free.remove(&start);
        if length > size {
            self.free.insert(start + size, length - size);
        }
        *self.chunks.entry(start - start % GRANULE).or_default() += size;
        Some(start)
    }

    /// A fresh chunk of [`GRANULE`] bytes, aligned to it.
    pub fn add_chunk(&mut self, start: u64) {
        self.chunks.insert(start, 0);
        self.free.insert(start, GRANULE);
    }

    /// Gives back what [`Arena::take`] gave for `size`. Returns the chunk if
    /// nothing in it is in use any more; it is then no longer part of the arena.
    pub fn give_back(&mut self, start: u64, size: u64) -> Option<u64> {
        let size = size.next_multiple_of(ALIGNMENT);
        let chunk = start - start % GRANULE;
        let used = self.chunks.get_mut(&chunk)?;
        *used = used.saturating_sub(size);
        if *used == 0 {
            self.chunks.remove(&chunk);
            self.free.retain(|at, _| at - at % GRANULE != chunk);
            return Some(chunk);
        }
        let (mut start, mut end) = (start, start + size);
        if let Some((&before, &length)) = self.free.range(chunk..start).next_back()
            && before + length == start
        {
            self.free.remove(&before);
            start = before;
        }
        if end < chunk + GRANULE
            && let Some(length) = self.free.remove(&end)
        {
            end += length;
        }
        self.free.insert(start, end - start);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u64 = 0x7000_0000_0000;

    #[test]
    fn neighbours_merge_and_an_empty_chunk_leaves() {
        let mut arena = Arena::default();
        assert_eq!(arena.take(1), None);
        arena.add_chunk(CHUNK);
        let [a, b, c] = [100, 512, 513].map(|size| arena.take(size).expect("room"));
        assert_eq!([a, b, c], [CHUNK, CHUNK + 512, CHUNK + 1024]);
        assert_eq!(arena.give_back(a, 100), None);
        assert_eq!(arena.give_back(c, 513), None);
        assert_eq!(arena.take(1024), Some(CHUNK + 1024));
        assert_eq!(arena.give_back(CHUNK + 1024, 1024), None);
        assert_eq!(arena.give_back(b, 512), Some(CHUNK));
        assert_eq!(arena.take(1), None);
    }

    #[test]
    fn ranges_never_overlap() {
        let mut arena = Arena::default();
        let mut live: Vec<(u64, u64)> = Vec::new();
        let mut x = 7u64;
        for _ in 0..20_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let size = 1 + (x >> 40) % 70_000;
            if x >> 63 == 0 && !live.is_empty() {
                let (at, size) = live.swap_remove((x >> 20) as usize % live.len());
                arena.give_back(at, size);
            } else {
                let at = arena.take(size).unwrap_or_else(|| {
                    arena.add_chunk(CHUNK + (x >> 8) % 1_000_000 * GRANULE);
                    arena.take(size).expect("a fresh chunk has room")
                });
                assert_eq!(at % ALIGNMENT, 0);
                assert_eq!(at / GRANULE, (at + size - 1) / GRANULE);
                assert!(live.iter().all(|(b, s)| at + size <= *b || b + s <= at));
                live.push((at, size));
            }
        }
    }
}
