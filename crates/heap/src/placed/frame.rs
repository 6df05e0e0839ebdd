//! Where in its range an allocation starts.

/// Which end of its range an allocation touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end: what runs past the allocation leaves the range.
    End,
    /// The start: what runs before the allocation leaves the range.
    Start,
}

/// An allocation within a range of whole granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Bytes of the range, a multiple of the granule.
    pub range: u64,
    /// Bytes of the range before the allocation, a multiple of the alignment.
    pub before: u64,
    /// Bytes of the range after the allocation: less than the alignment, if the
    /// allocation touches the end.
    pub after: u64,
}

impl Frame {
    /// An allocation of `size` bytes whose start is a multiple of `align` bytes.
    /// Both `granule` and `align` are powers of two, and `align` is not the
    /// larger one. `None`: the size is 0 or too large for any range.
    pub fn of(size: u64, granule: u64, align: u64, side: Side) -> Option<Frame> {
        let range = size
            .checked_next_multiple_of(granule)
            .filter(|range| *range != 0)?;
        let before = match side {
            Side::End => (range - size) & !(align - 1),
            Side::Start => 0,
        };
        Some(Frame {
            range,
            before,
            after: range - before - size,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GRANULE: u64 = 2 << 20;

    #[test]
    fn sizes_that_no_range_holds_have_no_frame() {
        for size in [0, u64::MAX, u64::MAX - GRANULE + 2] {
            assert_eq!(Frame::of(size, GRANULE, 512, Side::End), None);
        }
        let large = 100 << 30;
        let frame = Frame::of(large, GRANULE, 512, Side::End);
        assert_eq!(frame.map(|frame| frame.range), Some(large));
    }

    proptest! {
        #[test]
        fn the_allocation_fits_and_touches_its_side(size in 1..1u64 << 40, shift in 0..=9u32) {
            let align = 1 << shift;
            for side in [Side::End, Side::Start] {
                let frame = Frame::of(size, GRANULE, align, side).unwrap();
                prop_assert_eq!(frame.before + size + frame.after, frame.range);
                prop_assert!(frame.range.is_multiple_of(GRANULE) && frame.range < size + GRANULE);
                prop_assert!(frame.before.is_multiple_of(align));
                match side {
                    Side::End => prop_assert!(frame.after < align),
                    Side::Start => prop_assert_eq!(frame.before, 0),
                }
            }
        }
    }
}
