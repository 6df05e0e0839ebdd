//! Finds the number of a name in a fixed list, in constant time.

/// A list of names with a table of hashes, made when the program is compiled.
/// `SLOTS` is a power of two, about twice the number of names.
pub(crate) struct Names<const SLOTS: usize> {
    names: &'static [&'static str],
    /// Numbers of names, plus one; 0 is a free slot.
    slots: [u16; SLOTS],
}

impl<const SLOTS: usize> Names<SLOTS> {
    /// The table of `names`, no two of which are the same.
    pub(crate) const fn of(names: &'static [&'static str]) -> Self {
        assert!(SLOTS.is_power_of_two() && names.len() < SLOTS);
        let mut slots = [0; SLOTS];
        let mut index = 0;
        while index < names.len() {
            let mut slot = hash(names[index].as_bytes()) & (SLOTS - 1);
            while slots[slot] != 0 {
                slot = (slot + 1) & (SLOTS - 1);
            }
            slots[slot] = index as u16 + 1;
            index += 1;
        }
        Names { names, slots }
    }

    /// The number of a name.
    #[inline]
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let mut slot = hash(name.as_bytes()) & (SLOTS - 1);
        loop {
            let index = usize::from(self.slots[slot]).checked_sub(1)?;
            if self.names[index] == name {
                return Some(index);
            }
            slot = (slot + 1) & (SLOTS - 1);
        }
    }

    /// The name with a number.
    pub(crate) fn text(&self, index: usize) -> Option<&'static str> {
        self.names.get(index).copied()
    }
}

/// As FxHash does it, byte by byte: names are short.
#[inline]
const fn hash(bytes: &[u8]) -> usize {
    let mut hash = 0u32;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash.rotate_left(5) ^ bytes[at] as u32).wrapping_mul(0x9e37_79b9);
        at += 1;
    }
    (hash >> 16) as usize
}
