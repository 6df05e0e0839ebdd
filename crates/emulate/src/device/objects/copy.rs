//! Copies and fills of up to three dimensions.

use crate::device::basics::Host;
use crate::mapping::{AccessFault, Memory};

/// One end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Side {
    /// First byte of the first row.
    pub address: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// Bytes from one slice to the next.
    pub slice: u64,
    /// `Some(true)`: must be memory of the device; `Some(false)`: the
    /// program's; `None`: found out by the address.
    pub device: Option<bool>,
}

impl Side {
    /// A run of bytes.
    pub fn linear(address: u64, device: Option<bool>) -> Side {
        Side {
            address,
            pitch: 0,
            slice: 0,
            device,
        }
    }

    fn row(&self, y: u64, z: u64) -> u64 {
        self.address + z * self.slice + y * self.pitch
    }
}

/// A copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Where to.
    pub to: Side,
    /// Where from.
    pub from: Side,
    /// Bytes in a row.
    pub width: u64,
    /// Rows in a slice.
    pub height: u64,
    /// Slices.
    pub depth: u64,
}

impl Copy {
    /// A run of bytes.
    pub fn linear(to: Side, from: Side, size: u64) -> Copy {
        Copy {
            to,
            from,
            width: size,
            height: 1,
            depth: 1,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }

    /// Executes it; device addresses are checked, the program's are its own
    /// promise.
    pub(crate) fn run(
        &self,
        memory: &Memory,
        host: &dyn Host,
    ) -> std::result::Result<(), AccessFault> {
        for z in 0..self.depth {
            for y in 0..self.height {
                let (to, from) = (self.to.row(y, z), self.from.row(y, z));
                let mut view = memory.view();
                if self.to.device == Some(true) {
                    view.check_range(to, self.width, true)?;
                }
                if self.from.device == Some(true) {
                    view.check_range(from, self.width, false)?;
                }
                // `view` is still alive: what was checked stays mapped.
                host.copy(to, from, self.width as usize);
                drop(view);
            }
        }
        Ok(())
    }
}

/// `cuMemset*`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// First byte.
    pub address: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// Bytes of an element: 1, 2 or 4.
    pub element: u32,
    /// Value; its low bytes are used.
    pub value: u32,
    /// Elements in a row.
    pub width: u64,
    /// Rows.
    pub height: u64,
}

impl Fill {
    pub(crate) fn run(&self, memory: &Memory) -> std::result::Result<(), AccessFault> {
        let bytes = self.value.to_le_bytes();
        for y in 0..self.height {
            memory.fill(
                self.address + y * self.pitch,
                &bytes[..self.element as usize],
                self.width,
            )?;
        }
        Ok(())
    }
}

/// Bytes from the first of a shape to its last, or `None` if that overflows.
pub(crate) fn span(side: &Side, width: u64, height: u64, depth: u64) -> Option<u64> {
    let rows = side.pitch.checked_mul(height - 1)?;
    let slices = side.slice.checked_mul(depth - 1)?;
    width.checked_add(rows)?.checked_add(slices)
}
