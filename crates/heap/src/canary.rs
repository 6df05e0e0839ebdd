//! The algebra of canaries: bytes of a known pattern before and after a buffer,
//! which no program may write.
//!
//! A block that holds a buffer and its canaries is laid out by [`Layout`]; a
//! [`Key`] determines their content, byte by byte from the offset in the block,
//! so that host and device can each write and verify any part of them; a scan
//! that finds a change returns a [`Damage`]. Plain data: callers read and write
//! the device memory.

use model::{CanaryPattern, Settings};
use std::hash::{BuildHasher, RandomState};

/// Bytes after which a pattern repeats. Blocks are whole multiples of it.
pub const PERIOD: u64 = 16;

/// What canaries hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key([u8; PERIOD as usize]);

impl Key {
    /// The same byte everywhere.
    pub fn of_byte(byte: u8) -> Key {
        Key([byte; PERIOD as usize])
    }

    /// Unpredictable bytes, different for each `serial`, so that bytes copied
    /// from another buffer's canary are damage, too. The bytes that programs
    /// write most, 0, 1 and 255, do not occur.
    pub fn derive(seed: u64, serial: u64) -> Key {
        let mut state = seed ^ serial.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut bytes = [0; PERIOD as usize];
        for byte in &mut bytes {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = mix(state);
            *byte = 2 + (mixed % 253) as u8;
        }
        Key(bytes)
    }

    /// One period, as it lies at an offset that is a multiple of it.
    pub fn bytes(&self) -> &[u8; PERIOD as usize] {
        &self.0
    }

    /// The byte at an offset in the block.
    pub fn at(&self, offset: u64) -> u8 {
        self.0[(offset % PERIOD) as usize]
    }

    /// Writes the pattern of the bytes from `offset` on.
    pub fn fill(&self, offset: u64, bytes: &mut [u8]) {
        for (byte, at) in bytes.iter_mut().zip(offset..) {
            *byte = self.at(at);
        }
    }
}

/// The keys of all buffers of a process.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    pattern: CanaryPattern,
    seed: u64,
}

impl Keys {
    /// As the settings say.
    pub fn of(settings: &Settings) -> Keys {
        Keys {
            pattern: settings.canary_pattern,
            seed: seed(settings),
        }
    }

    /// What the canaries of a buffer hold.
    pub fn key(&self, serial: u64) -> Key {
        match self.pattern {
            CanaryPattern::Random => Key::derive(self.seed, serial),
            CanaryPattern::Byte(byte) => Key::of_byte(byte),
        }
    }
}

/// The seed of a process's keys: that of the settings, else a new one at each
/// call. It is no secret: it only makes it unlikely that a program writes the
/// same bytes by chance.
pub fn seed(settings: &Settings) -> u64 {
    match settings.seed {
        0 => RandomState::new().hash_one(std::process::id()),
        seed => seed,
    }
}

/// The finaliser of SplitMix64 (Steele et al., OOPSLA 2014).
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Which of a buffer's canaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// The one that ends where the buffer starts.
    Before,
    /// The one that starts where the buffer ends.
    After,
}

/// A block: canary, buffer, canary, with nothing between them. The canaries
/// are equally long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    start: u64,
    size: u64,
    canary: u64,
    total: u64,
}

impl Layout {
    /// A block around a buffer of `size` bytes with `canary` bytes on either
    /// side. If the block starts at a multiple of `alignment`, so does the
    /// buffer. `None`: no block can be that large, or there is no such
    /// alignment.
    pub fn around(size: u64, canary: u64, alignment: u64) -> Option<Layout> {
        let start = canary.checked_next_multiple_of(alignment)?;
        let end = start.checked_add(size)?.checked_add(canary)?;
        Some(Layout {
            start,
            size,
            canary,
            total: end.checked_next_multiple_of(PERIOD)?,
        })
    }

    /// Bytes of the block.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Where the buffer starts in the block.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Bytes of the buffer.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of each canary.
    pub fn length(&self) -> u64 {
        self.canary
    }

    /// Where a canary starts in the block.
    pub fn canary(&self, side: Side) -> u64 {
        match side {
            Side::Before => self.start - self.canary,
            Side::After => self.start + self.size,
        }
    }

    /// Writes an intact canary into `bytes`, which have its length.
    pub fn fill(&self, key: &Key, side: Side, bytes: &mut [u8]) {
        key.fill(self.canary(side), bytes);
    }

    /// The damage of a canary whose bytes were read, if any.
    pub fn verify(&self, key: &Key, side: Side, bytes: &[u8]) -> Option<Damage> {
        let (offset, length) = (self.canary(side), self.canary);
        let mut first_and_last = None;
        let mut changed = 0;
        for (index, byte) in (0..length).zip(bytes) {
            if *byte != key.at(offset + index) {
                changed += 1;
                let (_, last) = first_and_last.get_or_insert((index, index));
                *last = index;
            }
        }
        let (first, last) = first_and_last?;
        let from = first as usize;
        let shown = bytes.len().min(from + SHOWN).min(last as usize + 1);
        let (nearest, farthest) = self.distances(side, first, last);
        Some(Damage {
            side,
            nearest,
            farthest,
            bytes: changed,
            found: bytes[from..shown].to_vec(),
        })
    }

    /// How far from the buffer the first and the last changed byte of a canary
    /// are, given their indices in it: nearest and farthest.
    pub(crate) fn distances(&self, side: Side, first: u64, last: u64) -> (u64, u64) {
        match side {
            Side::After => (first, last),
            Side::Before => (self.canary - last, self.canary - first),
        }
    }
}

/// Bytes of the damage that are kept.
pub(crate) const SHOWN: usize = 16;

/// What was overwritten of a canary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Which canary.
    pub side: Side,
    /// The changed byte that is nearest to the buffer: after it, bytes from
    /// its end (0: the first byte past it); before it, bytes up to its start
    /// (1: the last byte before it).
    pub nearest: u64,
    /// The one that is farthest, counted alike.
    pub farthest: u64,
    /// How many bytes changed.
    pub bytes: u64,
    /// The bytes from the lowest changed one on, at most 16.
    pub found: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canary(layout: &Layout, key: &Key, side: Side) -> Vec<u8> {
        let mut bytes = vec![0; layout.length() as usize];
        layout.fill(key, side, &mut bytes);
        bytes
    }

    fn key() -> impl Strategy<Value = Key> {
        prop_oneof![
            any::<u8>().prop_map(Key::of_byte),
            (any::<u64>(), any::<u64>()).prop_map(|(seed, serial)| Key::derive(seed, serial)),
        ]
    }

    proptest! {
        #[test]
        fn a_block_holds_its_parts_and_keeps_the_alignment(
            size in 0u64..1 << 40,
            wanted in 0u64..1 << 20,
            shift in 0u32..16,
        ) {
            let alignment = 1 << shift;
            let layout = Layout::around(size, wanted, alignment).unwrap();
            prop_assert_eq!(layout.start() % alignment, 0);
            prop_assert_eq!(layout.total() % PERIOD, 0);
            prop_assert_eq!(layout.canary(Side::Before) + wanted, layout.start());
            prop_assert_eq!(layout.canary(Side::After), layout.start() + size);
            prop_assert_eq!(layout.length(), wanted);
            let end = layout.canary(Side::After) + wanted;
            prop_assert!(end <= layout.total() && layout.total() < end + PERIOD);
            prop_assert!(layout.canary(Side::Before) < alignment);
        }

        #[test]
        fn what_was_filled_verifies_in_any_pieces(
            size in 0u64..1000,
            wanted in 1u64..300,
            key in key(),
            cut in 0usize..300,
        ) {
            let layout = Layout::around(size, wanted, 64).unwrap();
            for side in [Side::Before, Side::After] {
                let whole = canary(&layout, &key, side);
                prop_assert_eq!(layout.verify(&key, side, &whole), None);
                let offset = layout.canary(side);
                let cut = cut.min(whole.len());
                let mut pieces = vec![0; whole.len()];
                let (head, tail) = pieces.split_at_mut(cut);
                key.fill(offset, head);
                key.fill(offset + cut as u64, tail);
                prop_assert_eq!(pieces, whole);
            }
        }

        #[test]
        fn damage_is_found_where_it_was_done_and_repaired(
            size in 0u64..1000,
            wanted in 16u64..300,
            key in key(),
            (at, length) in (0usize..4096, 1usize..40),
            before in any::<bool>(),
        ) {
            let layout = Layout::around(size, wanted, 128).unwrap();
            let side = if before { Side::Before } else { Side::After };
            let mut bytes = canary(&layout, &key, side);
            let at = at % bytes.len();
            let end = (at + length).min(bytes.len());
            for byte in &mut bytes[at..end] {
                *byte = byte.wrapping_add(1);
            }
            let damage = layout.verify(&key, side, &bytes).unwrap();
            prop_assert_eq!(damage.side, side);
            prop_assert_eq!(damage.bytes, (end - at) as u64);
            let total = bytes.len() as u64;
            let expected = match side {
                Side::After => (at as u64, end as u64 - 1),
                Side::Before => (total - end as u64 + 1, total - at as u64),
            };
            prop_assert_eq!((damage.nearest, damage.farthest), expected);
            let shown = end.min(at + SHOWN);
            prop_assert_eq!(damage.found.as_slice(), &bytes[at..shown]);
            layout.fill(&key, side, &mut bytes);
            prop_assert_eq!(layout.verify(&key, side, &bytes), None);
        }

        #[test]
        fn random_keys_differ_and_avoid_what_programs_write(seed in any::<u64>(), serial in 0u64..1 << 40) {
            let key = Key::derive(seed, serial);
            prop_assert!(key.bytes().iter().all(|byte| ![0, 1, 255].contains(byte)));
            prop_assert_ne!(key, Key::derive(seed, serial + 1));
            prop_assert_eq!(key, Key::derive(seed, serial));
        }
    }

    #[test]
    fn keys_are_those_of_the_settings_and_nobody_elses_without_a_seed() {
        let settings = Settings {
            seed: 7,
            ..Settings::default()
        };
        assert_eq!(Keys::of(&settings).key(3), Key::derive(7, 3));
        let of_byte = Settings {
            canary_pattern: CanaryPattern::Byte(0xc2),
            ..Settings::default()
        };
        assert_eq!(Keys::of(&of_byte).key(3), Key::of_byte(0xc2));
        let unseeded = || Keys::of(&Settings::default());
        assert_ne!(unseeded().key(3), unseeded().key(3));
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        assert!(Layout::around(u64::MAX - 10, 4096, 128).is_none());
        assert!(Layout::around(8, u64::MAX, 128).is_none());
        assert!(Layout::around(8, 64, 0).is_none());
        let none = Layout::around(1000, 0, 128).unwrap();
        assert_eq!((none.start(), none.total()), (0, 1008));
    }

    #[test]
    fn the_first_byte_past_a_buffer_counts_from_nought_the_last_before_it_from_one() {
        let layout = Layout::around(100, 32, 64).unwrap();
        let key = Key::of_byte(0xc2);
        let mut after = canary(&layout, &key, Side::After);
        after[0] = 7;
        let damage = layout.verify(&key, Side::After, &after).unwrap();
        assert_eq!((damage.nearest, damage.farthest, damage.bytes), (0, 0, 1));
        assert_eq!(damage.found, [7]);
        let mut before = canary(&layout, &key, Side::Before);
        let last = before.len() - 1;
        before[last] = 7;
        let damage = layout.verify(&key, Side::Before, &before).unwrap();
        assert_eq!((damage.nearest, damage.farthest, damage.bytes), (1, 1, 1));
    }
}
