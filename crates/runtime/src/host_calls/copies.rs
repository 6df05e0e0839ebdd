//! Which bytes a copy or set touches, and which of them lie outside an
//! allocation. Pure arithmetic over what a call was given.

use model::{DeviceAddress, Extent};

/// One side of a copy, or the target of a set: bytes in rows, rows in slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The pointer that the program gave. It says which allocation is meant.
    pub pointer: u64,
    /// Bytes from there to the first byte touched.
    pub offset: u64,
    /// Bytes touched in a row.
    pub width: u64,
    /// Rows in a slice.
    pub height: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// Slices.
    pub depth: u64,
    /// Bytes from one slice to the next.
    pub slice: u64,
}

/// Where a side of a 2-D or 3-D copy lies relative to its pointer, as the
/// driver's structs say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Position {
    /// Bytes into a row.
    pub x: u64,
    /// Rows into a slice.
    pub y: u64,
    /// Slices.
    pub z: u64,
    /// Bytes from one row to the next; 0: rows follow each other.
    pub pitch: u64,
    /// Rows from one slice to the next; 0: slices follow each other.
    pub height: u64,
}

/// Extent of a 2-D or 3-D copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes in a row.
    pub width: u64,
    /// Rows in a slice.
    pub height: u64,
    /// Slices.
    pub depth: u64,
}

impl Touched {
    /// A run of bytes.
    pub fn linear(pointer: u64, bytes: u64) -> Touched {
        Touched {
            pointer,
            offset: 0,
            width: bytes,
            height: 1,
            pitch: 0,
            depth: 1,
            slice: 0,
        }
    }

    /// Rows of bytes that start at the pointer.
    pub fn rows(pointer: u64, pitch: u64, width: u64, height: u64) -> Touched {
        Touched {
            height,
            pitch,
            ..Touched::linear(pointer, width)
        }
    }

    /// A box of bytes. `None` if its place or size is beyond all addresses.
    pub fn within(pointer: u64, at: Position, shape: Shape) -> Option<Touched> {
        let pitch = match at.pitch {
            0 => shape.width.checked_add(at.x)?,
            pitch => pitch,
        };
        let rows = match at.height {
            0 => shape.height.checked_add(at.y)?,
            height => height,
        };
        let slice = pitch.checked_mul(rows)?;
        let offset = slice
            .checked_mul(at.z)?
            .checked_add(pitch.checked_mul(at.y)?)?
            .checked_add(at.x)?;
        Some(Touched {
            pointer,
            offset,
            width: shape.width,
            height: shape.height,
            pitch,
            depth: shape.depth,
            slice,
        })
    }

    /// Whether it touches nothing.
    pub fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }

    /// Bytes touched in all.
    pub fn bytes(&self) -> u64 {
        self.width
            .saturating_mul(self.height)
            .saturating_mul(self.depth)
    }

    /// The first byte touched.
    pub fn first(&self) -> DeviceAddress {
        DeviceAddress(self.pointer.wrapping_add(self.offset))
    }

    /// The same bytes, named by the address of the first.
    pub fn from_first(&self) -> Touched {
        Touched {
            pointer: self.first().0,
            offset: 0,
            ..*self
        }
    }

    /// The first byte touched that lies in `extent`, if the shape is well
    /// formed.
    pub fn first_inside(&self, extent: Extent) -> Option<DeviceAddress> {
        if self.is_empty() || !self.is_well_formed() {
            return None;
        }
        let first = self.first().0;
        let Some(room) = extent.base.0.checked_sub(first).filter(|room| *room > 0) else {
            let byte = DeviceAddress(first);
            return match extent.contains(byte) {
                true => Some(byte),
                // It starts behind it.
                false => None,
            };
        };
        // The extent begins in this slice and row, or between it and the next.
        let (z, y, in_row) = self.place(room);
        let row = first + z * self.slice + y * self.pitch;
        let byte = if in_row < self.width {
            row + in_row
        } else if y + 1 < self.height {
            row.saturating_add(self.pitch)
        } else if z + 1 < self.depth {
            first.saturating_add((z + 1).saturating_mul(self.slice))
        } else {
            return None;
        };
        let byte = DeviceAddress(byte);
        extent.contains(byte).then_some(byte)
    }

    /// Slice, row, and bytes from the row's start, so many bytes behind the
    /// first byte; in a gap, of the row before it. The shape is well formed.
    fn place(&self, bytes: u64) -> (u64, u64, u64) {
        let z = match self.depth {
            1 => 0,
            depth => (bytes / self.slice).min(depth - 1),
        };
        let in_slice = bytes - z * self.slice;
        let y = match self.height {
            1 => 0,
            height => (in_slice / self.pitch).min(height - 1),
        };
        (z, y, in_slice - y * self.pitch)
    }

    /// Whether rows and slices come one after the other. If not, the driver
    /// refuses the call, whatever the addresses.
    pub fn is_well_formed(&self) -> bool {
        let rows_apart = self.height <= 1 || self.pitch >= self.width;
        let slice_bytes = || {
            (self.height - 1)
                .checked_mul(self.pitch)?
                .checked_add(self.width)
        };
        let slices_apart =
            self.depth <= 1 || slice_bytes().is_some_and(|bytes| self.slice >= bytes);
        rows_apart && slices_apart
    }

    /// Bytes from the first touched to the last, this included. `None`: more
    /// than there are addresses.
    pub(crate) fn span(&self) -> Option<u64> {
        let slices = self.slice.checked_mul(self.depth - 1)?;
        let rows = self.pitch.checked_mul(self.height - 1)?;
        slices.checked_add(rows)?.checked_add(self.width)
    }

    /// Whether every byte lies in `extent`.
    #[inline]
    pub fn lies_in(&self, extent: Extent) -> bool {
        if self.is_empty() {
            return true;
        }
        let start = self
            .pointer
            .wrapping_sub(extent.base.0)
            .checked_add(self.offset);
        let end = start.and_then(|start| start.checked_add(self.span()?));
        self.pointer >= extent.base.0 && end.is_some_and(|end| end <= extent.size)
    }

    /// The first byte touched that lies outside `extent`. `None`: all lie
    /// inside, or the shape is not well formed.
    pub fn first_outside(&self, extent: Extent) -> Option<DeviceAddress> {
        if self.lies_in(extent) || !self.is_well_formed() {
            return None;
        }
        let first = self.first().0;
        if !extent.contains(DeviceAddress(first)) {
            return Some(DeviceAddress(first));
        }
        // The extent ends in this slice and row, or between it and the next.
        let room = extent.end().0 - first;
        let (z, y, in_row) = self.place(room);
        let row = first + z * self.slice + y * self.pitch;
        if in_row < self.width {
            return Some(DeviceAddress(row + in_row));
        }
        // It ends in the gap after this row: the next row lies outside.
        let next = if y + 1 < self.height {
            row.saturating_add(self.pitch)
        } else {
            first.saturating_add((z + 1).saturating_mul(self.slice))
        };
        Some(DeviceAddress(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent(base: u64, size: u64) -> Extent {
        Extent {
            base: DeviceAddress(base),
            size,
        }
    }

    /// Every byte that is touched, one by one.
    fn bytes(touched: &Touched) -> Vec<u64> {
        let mut all = Vec::new();
        for z in 0..touched.depth {
            for y in 0..touched.height {
                let row = touched.first().0 + z * touched.slice + y * touched.pitch;
                all.extend(row..row + touched.width);
            }
        }
        all
    }

    #[test]
    fn the_last_row_ends_at_its_width() {
        // Four rows of 100 bytes, 128 apart: 484 bytes, not 512.
        let rows = Touched::rows(0x1000, 128, 100, 4);
        assert!(rows.lies_in(extent(0x1000, 484)));
        assert_eq!(
            rows.first_outside(extent(0x1000, 483)),
            Some(DeviceAddress(0x1000 + 483))
        );
    }

    #[test]
    fn the_end_may_lie_between_two_rows() {
        let rows = Touched::rows(0x1000, 128, 100, 4);
        for size in 100..=128 {
            assert_eq!(
                rows.first_outside(extent(0x1000, size)),
                Some(DeviceAddress(0x1080)),
                "{size}"
            );
        }
    }

    #[test]
    fn sizes_beyond_all_addresses_are_outside_and_nothing_overflows() {
        let huge = Touched::linear(0x1000, u64::MAX);
        assert_eq!(
            huge.first_outside(extent(0x1000, 16)),
            Some(DeviceAddress(0x1010))
        );
        let rows = Touched::rows(0x1000, u64::MAX / 2, 4, u64::MAX);
        assert_eq!(
            rows.first_outside(extent(0x1000, 16)),
            Some(DeviceAddress(0x1000 + u64::MAX / 2))
        );
        let at = Position {
            z: u64::MAX,
            ..Position::default()
        };
        let shape = Shape {
            width: 4,
            height: 4,
            depth: 4,
        };
        assert_eq!(Touched::within(0x1000, at, shape), None);
    }

    #[test]
    fn an_empty_copy_touches_nothing() {
        assert!(Touched::linear(0, 0).lies_in(extent(0x1000, 1)));
        assert!(Touched::rows(0, 0, 4, 0).lies_in(extent(0x1000, 1)));
    }

    #[test]
    fn overlapping_rows_are_the_drivers_to_refuse() {
        let rows = Touched::rows(0x1000, 4, 8, 4);
        assert!(!rows.is_well_formed());
        assert_eq!(rows.first_outside(extent(0x1000, 8)), None);
    }

    proptest! {
        #[test]
        fn agrees_with_a_walk_over_every_byte(
            pointer in 100u64..160,
            (x, y, z) in (0u64..5, 0u64..3, 0u64..3),
            (width, height, depth) in (0u64..8, 0u64..4, 0u64..4),
            (pad_x, pad_y) in (0u64..4, 0u64..3),
            packed in any::<bool>(),
            (base, size) in (90u64..170, 1u64..400),
        ) {
            let shape = Shape { width, height, depth };
            let at = Position {
                x, y, z,
                pitch: if packed { 0 } else { x + width + pad_x },
                height: if packed { 0 } else { y + height + pad_y },
            };
            let touched = Touched::within(pointer, at, shape).unwrap();
            let extent = extent(base, size);
            let walked = bytes(&touched);
            let inside = walked.iter().copied().find(|byte| extent.contains(DeviceAddress(*byte)));
            prop_assert_eq!(touched.first_inside(extent), inside.map(DeviceAddress));
            prop_assert_eq!(bytes(&touched.from_first()), walked.clone());
            // The pointer itself must belong to what it is checked against.
            prop_assume!(pointer >= base);
            prop_assert_eq!(walked.len() as u64, touched.bytes());
            let outside = walked.iter().copied().find(|byte| !extent.contains(DeviceAddress(*byte)));
            if walked.is_empty() {
                prop_assert!(touched.lies_in(extent));
            } else {
                prop_assert_eq!(touched.lies_in(extent), outside.is_none());
                prop_assert!(touched.is_well_formed());
                prop_assert_eq!(touched.first_outside(extent), outside.map(DeviceAddress));
            }
        }
    }
}
