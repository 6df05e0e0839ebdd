//! Host memory that the device writes while the host reads it.
//!
//! Every access goes through atomics, so that reading a record which a kernel
//! is just writing is a race with a defined outcome, never undefined
//! behaviour. Nothing here may hand out a reference to the plain bytes.

use model::Extent;
use model::layout::Record;
use std::sync::atomic::{AtomicU64, Ordering};

/// Host memory that the device maps at the same address. It stays mapped until
/// the process ends, which is what makes the `'static` words sound.
#[derive(Clone, Copy, Debug)]
pub struct HostMapping {
    extent: Extent,
    words: &'static [AtomicU64],
}

impl HostMapping {
    /// Takes charge of memory that is already mapped at `extent.base`.
    ///
    /// # Safety
    ///
    /// `extent` must be readable and writable host memory, 8-byte aligned,
    /// that stays mapped until the process ends, and that nothing in this
    /// process accesses other than atomically or through a device.
    pub unsafe fn from_mapped(extent: Extent) -> HostMapping {
        let pointer = extent.base.0 as *const AtomicU64;
        debug_assert!(pointer.is_aligned());
        // SAFETY: the caller vouches that the range is mapped for the rest of
        // the process, aligned, and shared only by atomic accesses; AtomicU64
        // has the layout of u64 and no invalid bit patterns.
        let words = unsafe { std::slice::from_raw_parts(pointer, (extent.size / 8) as usize) };
        HostMapping { extent, words }
    }

    /// A mapping over words of the process itself, for devices that live in it.
    /// `extent` is the address at which that device has the words.
    ///
    /// Returns `None` if the sizes differ.
    pub fn from_words(extent: Extent, words: &'static [AtomicU64]) -> Option<HostMapping> {
        (words.len() as u64 * 8 == extent.size).then_some(HostMapping { extent, words })
    }

    /// The addresses that it covers.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Loads the word at byte `offset` with acquire ordering: what the device
    /// released before it stored the word is visible afterwards. `None` if
    /// `offset` is not a multiple of eight inside the mapping.
    pub fn load_u64_acquire(&self, offset: u64) -> Option<u64> {
        Some(self.word(offset)?.load(Ordering::Acquire))
    }

    /// Stores the word at byte `offset` with release ordering. Returns whether
    /// `offset` was a multiple of eight inside the mapping.
    pub fn store_u64_release(&self, offset: u64, value: u64) -> bool {
        self.word(offset)
            .map(|word| word.store(value, Ordering::Release))
            .is_some()
    }

    /// Reads the record at byte `offset`. Its `sequence` is loaded first, with
    /// acquire ordering: if it is the expected one, the rest is complete.
    /// `None` if `offset` is not a multiple of eight inside the mapping.
    pub fn read_record(&self, offset: u64) -> Option<Record> {
        let sequence = self.load_u64_acquire(offset)?;
        let at = |word: u64| Some(self.word(offset + 8 * word)?.load(Ordering::Relaxed));
        // The fields in the order of `model::layout::Record`; u32 pairs share
        // a little-endian word.
        let (site_thread, block) = (at(6)?, at(7)?);
        Some(Record {
            sequence,
            module: at(1)?,
            address: at(2)?,
            base: at(3)?,
            size: at(4)?,
            launch: at(5)?,
            site: site_thread as u32,
            thread: (site_thread >> 32) as u32,
            block_x: block as u32,
            block_yz: (block >> 32) as u32,
        })
    }

    fn word(&self, offset: u64) -> Option<&'static AtomicU64> {
        if !offset.is_multiple_of(8) {
            return None;
        }
        self.words.get(usize::try_from(offset / 8).ok()?)
    }
}

const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Record, module) == 8);
    assert!(offset_of!(Record, address) == 16);
    assert!(offset_of!(Record, base) == 24);
    assert!(offset_of!(Record, size) == 32);
    assert!(offset_of!(Record, launch) == 40);
    assert!(offset_of!(Record, site) == 48);
    assert!(offset_of!(Record, thread) == 52);
    assert!(offset_of!(Record, block_x) == 56);
    assert!(offset_of!(Record, block_yz) == 60);
    assert!(cfg!(target_endian = "little"));
};

#[cfg(test)]
mod tests {
    use super::*;
    use model::DeviceAddress;

    fn mapping(words: usize) -> HostMapping {
        let words: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
        let extent = Extent {
            base: DeviceAddress(0x2100_0000_0000),
            size: words.len() as u64 * 8,
        };
        HostMapping::from_words(extent, words.leak()).expect("sizes agree")
    }

    #[test]
    fn a_record_reads_back_field_by_field() {
        let mapping = mapping(16);
        for word in 0..8 {
            mapping.store_u64_release(64 + word * 8, 0x1111_1111 * (word + 1));
        }
        mapping.store_u64_release(64 + 48, 0x0000_0007_0000_002a);
        mapping.store_u64_release(64 + 56, 0x0003_0002_0000_0001);
        let record = mapping.read_record(64).expect("inside");
        assert_eq!(record.sequence, 0x1111_1111);
        assert_eq!(record.launch, 0x6666_6666);
        assert_eq!((record.site, record.thread), (0x2a, 7));
        assert_eq!((record.block_x, record.block_yz), (1, 0x0003_0002));
    }

    #[test]
    fn offsets_outside_or_askew_are_refused() {
        let mapping = mapping(8);
        assert_eq!(mapping.load_u64_acquire(64), None);
        assert_eq!(mapping.load_u64_acquire(4), None);
        assert!(!mapping.store_u64_release(u64::MAX - 7, 1));
        assert_eq!(mapping.read_record(8), None);
    }
}
