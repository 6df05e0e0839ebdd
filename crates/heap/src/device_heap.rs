//! The heap of device-side `malloc` and `free`, from the host's side: how it is
//! set up, and the block that an address belongs to. The device works on it in
//! `device/heap.cu`; the host never changes it while kernels run.

use crate::TableUpdate;
use crate::canary::Key;
use model::layout::heap::{
    CHUNK_BLOCKS, CHUNK_SHIFT, CLASSES, HEAP_BASE, HEAP_CHUNKS, HEAP_CHUNKS_MAPPED, HEAP_CONTROL,
    HEAP_CONTROL_SIZE, HEAP_HEADERS, HEAP_MAPS, HEAP_QUARANTINE, HEAP_RESERVED, HeapChunk,
    HeapControl, HeapHeader, KIND_REST, KIND_RUN, MAP_FREE, MAP_WORDS, QUARANTINE_CAPACITY,
    STATE_LIVE, STATE_SHIFT,
};
use model::layout::records::{
    BLOCK_HEAD, HEAP_RECORDS, HEAP_WATCH, HeapKeys, HeapWatch, RECORD_RINGS, RecordRing,
    record_slots,
};
use model::{DeviceAddress, Extent};
use std::mem::offset_of;

/// What the driver maps at a time.
const GRANULE: u64 = 2 << 20;
/// Memory beyond the requested size, so that whatever fits CUDA's heap fits
/// this one: blocks are rounded up, and freed ones are held back.
const SLACK: u64 = 16 << 20;
/// The quarantine's part of the heap.
const HELD_PART: u64 = 8;
/// Headers read at a time when blocks are listed.
const PAGE: u64 = CHUNK_BLOCKS;

/// A device heap of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceHeap {
    chunks: u64,
    /// Blocks have canaries, and records by which they are verified.
    keys: Option<HeapKeys>,
    /// Freed blocks are held back.
    holds: bool,
}

/// Reads device memory; `None` if that fails.
pub type Read<'a> = dyn Fn(DeviceAddress, &mut [u8]) -> Option<()> + 'a;

/// A block of the heap, as its header describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The bytes that the program asked for.
    pub extent: Extent,
    /// It was not freed.
    pub live: bool,
    /// The call that allocated it: low half of the module's tag, and site.
    pub allocated: (u32, u32),
    /// The call that freed it.
    pub freed: (u32, u32),
    /// Low half of the numbers of the launches that allocated and freed it; 0
    /// if not known.
    pub launches: (u32, u32),
}

impl DeviceHeap {
    /// The heap for a program that sets this limit (`cudaLimitMallocHeapSize`).
    pub fn for_limit(limit: u64) -> DeviceHeap {
        let bytes = limit.saturating_mul(2).saturating_add(SLACK);
        let most = HEAP_RESERVED - GRANULE;
        DeviceHeap {
            chunks: bytes.min(most).next_multiple_of(GRANULE) >> CHUNK_SHIFT,
            keys: None,
            holds: true,
        }
    }

    /// The same with canaries around each block. Freed blocks are held back
    /// only if accesses to them are `checked`.
    #[must_use]
    pub fn watched(self, seed: u64, checked: bool) -> DeviceHeap {
        DeviceHeap {
            keys: Some(keys_of(seed)),
            holds: checked,
            ..self
        }
    }

    /// Whether blocks have canaries.
    pub fn is_watched(self) -> bool {
        self.keys.is_some()
    }

    /// What the device must do before the heap can be used.
    pub fn create(self) -> Vec<TableUpdate> {
        let map = |address, size: u64| TableUpdate::Map {
            address,
            size: size.next_multiple_of(GRANULE),
        };
        // The largest first: if memory is short, this should fail before the
        // rest is allocated.
        let mut updates = vec![map(HEAP_BASE, self.chunks << CHUNK_SHIFT)];
        updates.extend(
            self.metadata()
                .into_iter()
                .map(|(address, size)| map(address, size)),
        );
        updates.extend(self.first_state());
        updates
    }

    /// What makes the heap empty again.
    pub fn clear(self) -> Vec<TableUpdate> {
        let zero = |(address, size)| TableUpdate::Fill {
            address,
            value: 0,
            count: size / 4,
        };
        let mut updates: Vec<TableUpdate> = self.metadata().into_iter().map(zero).collect();
        updates.extend(self.first_state());
        updates
    }

    fn metadata(self) -> Vec<(u64, u64)> {
        let records = u64::from(RECORD_RINGS) * record_slots(self.chunks) * 4;
        let mut metadata = vec![
            (HEAP_CONTROL, HEAP_CONTROL_SIZE),
            (HEAP_MAPS, self.chunks.div_ceil(32) * MAP_WORDS * 4),
            (HEAP_QUARANTINE, QUARANTINE_CAPACITY * 4),
            (HEAP_CHUNKS, self.chunks * size_of::<HeapChunk>() as u64),
            (
                HEAP_HEADERS,
                self.chunks * CHUNK_BLOCKS * size_of::<HeapHeader>() as u64,
            ),
        ];
        if self.is_watched() {
            metadata.push((HEAP_RECORDS, records));
        }
        metadata
    }

    /// All chunks are free but the first, which stands for "none". The number
    /// of chunks is written last: from then on the heap is usable.
    fn first_state(self) -> Vec<TableUpdate> {
        let write = |address, bytes| TableUpdate::Write { address, bytes };
        let mut maps = Vec::with_capacity(self.chunks as usize * 4);
        for word in 0..self.chunks.div_ceil(32) {
            let left = (self.chunks - word * 32).min(32);
            let mut free = u32::MAX >> (32 - left);
            if word == 0 {
                free &= !1;
            }
            for which in 0..MAP_WORDS {
                let bits = if which == MAP_FREE { free } else { 0 };
                maps.extend_from_slice(&bits.to_le_bytes());
            }
        }
        let budget = match self.holds {
            true => (self.chunks << CHUNK_SHIFT) / HELD_PART,
            false => 0,
        };
        let free = self.chunks as u32 - 1;
        let mut updates = vec![
            write(HEAP_MAPS, maps),
            write(
                HEAP_CONTROL + offset_of!(HeapControl, quarantine_budget) as u64,
                budget.to_le_bytes().into(),
            ),
            write(
                HEAP_CONTROL + offset_of!(HeapControl, free_chunks) as u64,
                free.to_le_bytes().into(),
            ),
        ];
        if let Some(keys) = self.keys {
            updates.push(write(HEAP_WATCH, self.watch(keys)));
        }
        updates.push(write(HEAP_CHUNKS_MAPPED, self.chunks.to_le_bytes().into()));
        updates
    }

    /// [`HeapWatch`] as it is at first: all slots of all rings may be handed
    /// out.
    fn watch(self, keys: HeapKeys) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<HeapWatch>()];
        let mut put = |at: usize, value: &[u8]| {
            if let Some(place) = bytes.get_mut(at..at + value.len()) {
                place.copy_from_slice(value);
            }
        };
        let slots = record_slots(self.chunks) as u32;
        for (index, key) in [keys.head, keys.tail, keys.size, keys.free]
            .iter()
            .enumerate()
        {
            put(offset_of!(HeapWatch, keys) + index * 8, &key.to_le_bytes());
        }
        put(offset_of!(HeapWatch, slots), &slots.to_le_bytes());
        for ring in 0..RECORD_RINGS as usize {
            let at = offset_of!(HeapWatch, rings) + ring * size_of::<RecordRing>();
            let word = u64::from(slots);
            put(at + offset_of!(RecordRing, word), &word.to_le_bytes());
        }
        bytes
    }

    /// Bytes of a block before the program's own.
    fn head(self) -> u64 {
        if self.is_watched() { BLOCK_HEAD } else { 0 }
    }

    /// Whether an address lies in the heap.
    pub fn holds(self, address: DeviceAddress) -> bool {
        address.0.wrapping_sub(HEAP_BASE) >> CHUNK_SHIFT < self.chunks
    }

    /// The block that an address points into or to the end of, live or freed.
    /// `None` if there never was one, or its memory was used otherwise since.
    pub fn block_at(self, address: DeviceAddress, read: &Read<'_>) -> Option<Block> {
        if !self.holds(address) {
            return None;
        }
        let mut number = (address.0 - HEAP_BASE) >> CHUNK_SHIFT;
        let mut chunk = self.chunk(number, read)?;
        if chunk.kind == KIND_REST {
            number = u64::from(chunk.stride);
            chunk = self.chunk(number, read)?;
        }
        let inside = address.0 - base_of(number).0;
        let index = match chunk.kind {
            KIND_RUN => 0,
            1..=CLASSES => inside.checked_div(u64::from(chunk.stride))?,
            _ => return None,
        };
        let block = self.block(number, index, &chunk, &header(number, index, read)?)?;
        let offset = address.0.wrapping_sub(block.extent.base.0);
        (offset <= block.extent.size).then_some(block)
    }

    /// Every live block.
    pub fn live_blocks(self, read: &Read<'_>) -> Vec<Block> {
        let mut blocks = Vec::new();
        for number in 1..self.chunks {
            let Some(chunk) = self.chunk(number, read) else {
                break;
            };
            let count = match chunk.kind {
                KIND_RUN => 1,
                1..=CLASSES => u64::from(chunk.capacity).min(PAGE),
                _ => continue,
            };
            let mut bytes = vec![0; count as usize * size_of::<HeapHeader>()];
            if read(header_address(number, 0), &mut bytes).is_none() {
                break;
            }
            blocks.extend(
                bytes
                    .chunks_exact(size_of::<HeapHeader>())
                    .enumerate()
                    .filter_map(|(index, bytes)| {
                        self.block(number, index as u64, &chunk, &decode(bytes)?)
                    })
                    .filter(|block| block.live),
            );
        }
        blocks
    }

    /// A block from its header; `None` if there never was one.
    fn block(
        self,
        number: u64,
        index: u64,
        chunk: &HeapChunk,
        header: &HeapHeader,
    ) -> Option<Block> {
        let state = header.word >> STATE_SHIFT;
        if state == 0 {
            return None;
        }
        let stride = if chunk.kind == KIND_RUN {
            0
        } else {
            u64::from(chunk.stride)
        };
        let halves = |place: u64| ((place >> 32) as u32, place as u32);
        Some(Block {
            extent: Extent {
                base: DeviceAddress(base_of(number).0 + index * stride + self.head()),
                size: header.word & ((1 << STATE_SHIFT) - 1),
            },
            live: state == STATE_LIVE,
            allocated: halves(header.allocated),
            freed: halves(header.freed),
            launches: (header.allocated_launch & !(1 << 31), header.freed_launch),
        })
    }

    fn chunk(self, number: u64, read: &Read<'_>) -> Option<HeapChunk> {
        if number == 0 || number >= self.chunks {
            return None;
        }
        let mut bytes = [0; 16];
        let size = size_of::<HeapChunk>() as u64;
        read(DeviceAddress(HEAP_CHUNKS + number * size), &mut bytes)?;
        let word = |at: usize| {
            let bytes = bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        Some(HeapChunk {
            kind: word(offset_of!(HeapChunk, kind))?,
            stride: word(offset_of!(HeapChunk, stride))?,
            magic: word(offset_of!(HeapChunk, magic))?,
            capacity: word(offset_of!(HeapChunk, capacity))?,
            ..HeapChunk::default()
        })
    }
}

fn base_of(chunk: u64) -> DeviceAddress {
    DeviceAddress(HEAP_BASE + (chunk << CHUNK_SHIFT))
}

fn header_address(chunk: u64, index: u64) -> DeviceAddress {
    let number = chunk * CHUNK_BLOCKS + index;
    DeviceAddress(HEAP_HEADERS + number * size_of::<HeapHeader>() as u64)
}

fn header(chunk: u64, index: u64, read: &Read<'_>) -> Option<HeapHeader> {
    if index >= CHUNK_BLOCKS {
        return None;
    }
    let mut bytes = [0; size_of::<HeapHeader>()];
    read(header_address(chunk, index), &mut bytes)?;
    decode(&bytes)
}

fn decode(bytes: &[u8]) -> Option<HeapHeader> {
    let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    Some(HeapHeader {
        word: long(offset_of!(HeapHeader, word))?,
        allocated: long(offset_of!(HeapHeader, allocated))?,
        freed: long(offset_of!(HeapHeader, freed))?,
        allocated_launch: word(offset_of!(HeapHeader, allocated_launch))?,
        freed_launch: word(offset_of!(HeapHeader, freed_launch))?,
    })
}

/// Keys from a seed; none is 0.
fn keys_of(seed: u64) -> HeapKeys {
    let key = |serial| {
        let bytes = *Key::derive(seed, serial).bytes();
        u64::from_le_bytes(std::array::from_fn(|at| bytes[at]))
    };
    HeapKeys {
        head: key(1),
        tail: key(2),
        size: key(3),
        free: key(4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::layout::heap::CHUNKS;

    #[test]
    fn the_heap_is_larger_than_asked_for_and_never_than_its_addresses() {
        for limit in [0, 1, 8 << 20, 1 << 30, u64::MAX] {
            let heap = DeviceHeap::for_limit(limit);
            let bytes = heap.chunks << CHUNK_SHIFT;
            assert!(bytes >= limit.min(HEAP_RESERVED / 2) && bytes < HEAP_RESERVED);
            assert!(bytes.is_multiple_of(GRANULE) && heap.chunks < CHUNKS);
        }
    }

    #[test]
    fn every_update_stays_in_what_is_mapped() {
        let plain = DeviceHeap::for_limit(8 << 20);
        for heap in [plain, plain.watched(1, true)] {
            stays_inside(heap);
        }
    }

    fn stays_inside(heap: DeviceHeap) {
        let updates = heap.create();
        let mapped: Vec<(u64, u64)> = updates
            .iter()
            .filter_map(|update| match update {
                TableUpdate::Map { address, size } => Some((*address, *size)),
                _ => None,
            })
            .collect();
        for update in updates.iter().chain(&heap.clear()) {
            let (address, size) = match update {
                TableUpdate::Map { .. } => continue,
                TableUpdate::Write { address, bytes } => (*address, bytes.len() as u64),
                TableUpdate::Fill { address, count, .. } => (*address, count * 4),
            };
            let inside = mapped
                .iter()
                .any(|(base, bytes)| *base <= address && address + size <= base + bytes);
            assert!(inside || address == HEAP_CHUNKS_MAPPED, "{address:#x}");
        }
    }

    #[test]
    fn an_address_outside_is_no_block() {
        let heap = DeviceHeap::for_limit(1);
        let nothing = |_: DeviceAddress, bytes: &mut [u8]| {
            bytes.fill(0);
            Some(())
        };
        for address in [0, HEAP_BASE - 1, HEAP_BASE, HEAP_BASE + (1 << 20), u64::MAX] {
            assert_eq!(heap.block_at(DeviceAddress(address), &nothing), None);
        }
        assert!(heap.live_blocks(&nothing).is_empty());
    }
}
