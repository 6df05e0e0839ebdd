//! The window of the driver's addresses that have shadow memory, as numbers.
//!
//! It is one range, so that a check compares an address with it once, and it
//! only grows. All of it has shadow memory; a range that would need much more of
//! that than the buffers in it is refused. (Placed allocations lie elsewhere, side
//! by side from their first address on: of them a number says it all.)

use model::layout::shadow::{Encoding, SHADOW_BASE, SHADOW_GRANULE, SHADOW_PIECES, UNIT};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

pub(super) const GRANULE: u64 = SHADOW_GRANULE;

/// Pieces that may be in the window beside as many as hold buffers.
const SPARE: u32 = 32;

/// See the module's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    first: u32,
    pieces: u32,
    /// Pieces that held a buffer when they were covered, or more.
    used: u32,
}

/// The pieces that must be covered so that a range of addresses is: with a unit
/// on either side. (The last unit is not covered; and an access that begins right
/// before the first piece is not checked where it ends.)
pub(super) fn pieces(encoding: Encoding, (start, end): (u64, u64)) -> RangeInclusive<u64> {
    let shift = encoding.piece_shift();
    start.saturating_sub(UNIT) >> shift..=(end - 1).saturating_add(UNIT) >> shift
}

/// Where the shadow memory of a piece is.
pub(super) fn shadow_of_piece(piece: u32) -> u64 {
    SHADOW_BASE + u64::from(piece) * GRANULE
}

impl Window {
    /// How many pieces there are.
    pub fn len(&self) -> u32 {
        self.pieces
    }

    /// The words that check code reads.
    pub fn words(&self, encoding: Encoding) -> u64 {
        let units = encoding.covered_units(self.pieces);
        u64::from(encoding.first_unit(self.first)) | u64::from(units) << 32
    }

    /// Whether pieces are in it.
    pub fn covers(&self, pieces: &RangeInclusive<u64>) -> bool {
        let first = u64::from(self.first);
        first <= *pieces.start() && *pieces.end() < first + u64::from(self.pieces)
    }

    /// Buffers lie in these pieces, which are covered.
    pub fn uses(&mut self, pieces: &RangeInclusive<u64>) {
        // An upper bound is enough to be sparing with memory.
        let more = (pieces.end() - pieces.start()) as u32;
        self.used = self.used.saturating_add(more).min(self.pieces);
    }

    /// The window with these pieces, too; `None` if it would be too large.
    pub fn grown(&self, encoding: Encoding, pieces: &RangeInclusive<u64>) -> Option<Window> {
        let (start, end) = (*pieces.start(), *pieces.end() + 1);
        if end > encoding.all_pieces() {
            return None;
        }
        let own = match self.pieces {
            0 => start..end,
            count => u64::from(self.first)..u64::from(self.first) + u64::from(count),
        };
        let (first, last) = (own.start.min(start), own.end.max(end));
        let count = u32::try_from(last - first).ok()?;
        let used = self.used.saturating_add((end - start) as u32).min(count);
        let fits = count <= SHADOW_PIECES && count <= used.saturating_mul(2).saturating_add(SPARE);
        fits.then_some(Window {
            first: u32::try_from(first).ok()?,
            pieces: count,
            used,
        })
    }

    /// The pieces that another window does not have.
    pub fn beyond(&self, other: &Window) -> BTreeSet<u32> {
        let own = self.first..self.first + self.pieces;
        let others = other.first..other.first + other.pieces;
        own.filter(|piece| !others.contains(piece)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_to_both_sides_and_is_sparing() {
        let window = Window::default();
        assert!(!window.covers(&(0..=0)));
        let one = window.grown(Encoding::Block256, &(1000..=1000)).unwrap();
        assert_eq!((one.first, one.pieces), (1000, 1));
        let units = 1 << 13;
        assert_eq!(
            one.words(Encoding::Block256),
            (1000 * units) | ((units - 1) << 32)
        );
        assert_eq!(window.words(Encoding::Block128), 0);
        let more = one.grown(Encoding::Block256, &(990..=991)).unwrap();
        assert!(more.covers(&(990..=1000)) && !more.covers(&(989..=990)));
        assert_eq!(more.beyond(&one), (990..1000).collect());
        assert_eq!(more.grown(Encoding::Block256, &(5000..=5000)), None);
        assert!(more.grown(Encoding::Block256, &(1020..=1020)).is_some());
        for encoding in Encoding::ALL {
            let last = encoding.all_pieces() - 1;
            assert!(window.grown(encoding, &(last..=last)).is_some());
            assert_eq!(window.grown(encoding, &(last..=last + 1)), None);
        }
    }

    #[test]
    fn a_piece_is_what_one_granule_of_shadow_covers() {
        for encoding in Encoding::ALL {
            let bytes = GRANULE << encoding.shift();
            assert_eq!(pieces(encoding, (bytes + UNIT, 2 * bytes - UNIT)), 1..=1);
            assert_eq!(pieces(encoding, (bytes, 2 * bytes - UNIT)), 0..=1);
            assert_eq!(pieces(encoding, (bytes + UNIT, 2 * bytes)), 1..=2);
            assert_eq!(pieces(encoding, (0, 1)), 0..=0);
            assert_eq!(encoding.shadow_of(bytes), shadow_of_piece(1));
        }
    }
}
