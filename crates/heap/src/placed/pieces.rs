//! Physical memory in pieces of one size, each divided among allocations.
//!
//! A slot is the smallest free part that is large enough. Free parts that lie
//! beside each other are one. A piece in which nothing is in use is given up.

use std::collections::{BTreeMap, BTreeSet};

/// A part of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot {
    /// Number of the piece; numbers are never used again.
    pub piece: u64,
    /// First byte in it.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// See the module's header.
#[derive(Clone, Debug)]
pub struct Pieces {
    piece_size: u64,
    align: u64,
    next: u64,
    /// Free parts as (size, piece, offset).
    by_size: BTreeSet<(u64, u64, u64)>,
    /// Sizes of free parts, by piece and offset.
    by_place: BTreeMap<(u64, u64), u64>,
    pieces: u64,
}

impl Pieces {
    /// No pieces yet. Each will have `piece_size` bytes, a multiple of `align`;
    /// slots start at multiples of `align`, a power of two.
    pub fn new(piece_size: u64, align: u64) -> Pieces {
        Pieces {
            piece_size,
            align,
            next: 0,
            by_size: BTreeSet::new(),
            by_place: BTreeMap::new(),
            pieces: 0,
        }
    }

    /// Pieces in use.
    pub fn len(&self) -> u64 {
        self.pieces
    }

    /// Whether no piece is in use.
    pub fn is_empty(&self) -> bool {
        self.pieces == 0
    }

    /// A slot of at least `size` bytes in a piece that is in use. `None`: there is
    /// no room; [`Pieces::add`] makes some, if `size` is at most that of a piece.
    pub fn take(&mut self, size: u64) -> Option<Slot> {
        let size = size.checked_next_multiple_of(self.align)?.max(self.align);
        let found = self.by_size.range((size, 0, 0)..).next().copied();
        let (free, piece, offset) = found?;
        self.remove(piece, offset, free);
        if free > size {
            self.insert(piece, offset + size, free - size);
        }
        Some(Slot {
            piece,
            offset,
            size,
        })
    }

    /// A new piece, all free. Returns its number.
    pub fn add(&mut self) -> u64 {
        let piece = self.next;
        self.next += 1;
        self.pieces += 1;
        self.insert(piece, 0, self.piece_size);
        piece
    }

    /// Nothing uses a slot any more. Returns its piece if that is not in use any
    /// more either, and is given up.
    pub fn put(&mut self, slot: Slot) -> Option<u64> {
        let Slot {
            piece,
            mut offset,
            mut size,
        } = slot;
        if let Some(above) = self.by_place.get(&(piece, offset + size)).copied() {
            self.remove(piece, offset + size, above);
            size += above;
        }
        let below = self.by_place.range((piece, 0)..(piece, offset)).next_back();
        if let Some((place, free)) = below.map(|(place, free)| (*place, *free))
            && place.1 + free == offset
        {
            self.remove(piece, place.1, free);
            offset = place.1;
            size += free;
        }
        if size == self.piece_size {
            self.pieces -= 1;
            return Some(piece);
        }
        self.insert(piece, offset, size);
        None
    }

    fn insert(&mut self, piece: u64, offset: u64, size: u64) {
        self.by_size.insert((size, piece, offset));
        self.by_place.insert((piece, offset), size);
    }

    fn remove(&mut self, piece: u64, offset: u64, size: u64) {
        self.by_size.remove(&(size, piece, offset));
        self.by_place.remove(&(piece, offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PIECE: u64 = 1 << 14;
    const ALIGN: u64 = 256;

    #[test]
    fn a_piece_is_given_up_with_its_last_slot() {
        let mut pieces = Pieces::new(PIECE, ALIGN);
        assert_eq!(pieces.take(1), None);
        assert_eq!(pieces.add(), 0);
        let all: Vec<Slot> = (0..PIECE / ALIGN).filter_map(|_| pieces.take(1)).collect();
        assert_eq!(all.len() as u64, PIECE / ALIGN);
        assert_eq!(pieces.take(1), None);
        let last = all.len() - 1;
        for slot in &all[..last] {
            assert_eq!(pieces.put(*slot), None);
        }
        assert_eq!((pieces.put(all[last]), pieces.len()), (Some(0), 0));
        // What was given up is not taken from again.
        assert_eq!(pieces.take(1), None);
        assert_eq!(pieces.add(), 1);
        assert_eq!(pieces.take(PIECE).map(|slot| slot.size), Some(PIECE));
        assert_eq!(pieces.take(u64::MAX), None);
    }

    proptest! {
        #[test]
        fn slots_lie_apart(steps in prop::collection::vec((any::<bool>(), 1..PIECE, any::<prop::sample::Index>()), 1..300)) {
            let mut pieces = Pieces::new(PIECE, ALIGN);
            let mut live: BTreeSet<Slot> = BTreeSet::new();
            for (takes, size, which) in steps {
                if takes || live.is_empty() {
                    let slot = match pieces.take(size) {
                        Some(slot) => slot,
                        None => {
                            pieces.add();
                            pieces.take(size).unwrap()
                        }
                    };
                    prop_assert!(slot.size >= size && slot.size < size + ALIGN);
                    prop_assert!(slot.offset.is_multiple_of(ALIGN) && slot.offset + slot.size <= PIECE);
                    for other in &live {
                        let apart = other.piece != slot.piece
                            || other.offset + other.size <= slot.offset
                            || slot.offset + slot.size <= other.offset;
                        prop_assert!(apart, "{slot:?} {other:?}");
                    }
                    live.insert(slot);
                } else {
                    let slot = *which.get(&live.iter().copied().collect::<Vec<_>>());
                    live.remove(&slot);
                    let used = live.iter().any(|other| other.piece == slot.piece);
                    prop_assert_eq!(pieces.put(slot), (!used).then_some(slot.piece));
                }
                let used: BTreeSet<u64> = live.iter().map(|slot| slot.piece).collect();
                prop_assert_eq!(pieces.len(), used.len() as u64);
            }
        }
    }
}
