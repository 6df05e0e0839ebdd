//! Canaries around the allocations that the host makes: the table that tells
//! the device where they are.

/// Table of canaries: [`CanaryRecord`]s, device memory, mapped 2 MiB at a time
/// as it grows.
pub const CANARY_TABLE: u64 = 0x2038_0000_0000;
/// Bytes reserved for the table.
pub const CANARY_TABLE_RESERVED: u64 = 1 << 30;

/// One allocation with canaries on either side. A slot whose `check` is not
/// that of its other fields is empty, or is being written, and is passed over.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CanaryRecord {
    /// First byte of the program's buffer.
    pub base: u64,
    /// Its length in bytes.
    pub size: u64,
    /// Serial of the allocation, from which its pattern is made.
    pub serial: u64,
    /// Bytes of canary that end where the buffer starts.
    pub before: u32,
    /// Bytes of canary that start where the buffer ends.
    pub after: u32,
    /// One period of the pattern, as `heap::canary::Key` has it: the byte at
    /// an address is that at the address modulo 16.
    pub pattern: [u64; 2],
    /// The context that the buffer belongs to, as a handle: kernels of other
    /// contexts may not be able to read it.
    pub context: u64,
    /// [`CanaryRecord::checksum`] of the other fields; 0 in an empty slot.
    pub check: u64,
}

impl CanaryRecord {
    /// What `check` must be: never 0. Records are written while the device may
    /// be reading, and a torn one must not be believed.
    pub fn checksum(&self) -> u64 {
        let lengths = u64::from(self.before) | u64::from(self.after) << 32;
        let words = [
            self.base,
            self.size,
            self.serial,
            lengths,
            self.pattern[0],
            self.pattern[1],
            self.context,
        ];
        let sum = words
            .iter()
            .fold(0x52_46_43_41_4e_41_52_59, |sum: u64, word| {
                (sum.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            });
        sum | 1
    }

    /// The record with its checksum.
    #[must_use]
    pub fn sealed(self) -> CanaryRecord {
        CanaryRecord {
            check: self.checksum(),
            ..self
        }
    }
}

const _: () = assert!(size_of::<CanaryRecord>() == 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_record_is_not_believed() {
        let old = CanaryRecord {
            base: 0x7f00_0000_0200,
            size: 1000,
            serial: 7,
            before: 256,
            after: 280,
            pattern: [0x1234_5678_9abc_def0, 0x0fed_cba9_8765_4321],
            ..CanaryRecord::default()
        }
        .sealed();
        let new = CanaryRecord {
            base: 0x7f00_0000_0800,
            serial: 8,
            ..old
        }
        .sealed();
        assert_eq!(old.check, old.checksum());
        for torn in [
            CanaryRecord {
                base: new.base,
                ..old
            },
            CanaryRecord {
                serial: new.serial,
                ..old
            },
            CanaryRecord { after: 0, ..old },
            CanaryRecord {
                check: new.check,
                ..old
            },
        ] {
            assert_ne!(torn.check, torn.checksum());
        }
        assert_ne!(CanaryRecord::default().checksum(), 0);
    }
}
