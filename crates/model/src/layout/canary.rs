//! Canaries around the allocations that the host makes: the table with their
//! addresses for the device, and the arguments of the kernels that work on it
//! (`device/canary.cu`).
//!
//! A warp *pins* a slot of the table while it reads the canaries that the
//! slot's record names. It adds one to the slot's pin, and then uses the record
//! only if it is still there. To remove a record, one empties the slot first
//! and then waits until it is not pinned: after that no warp reads the memory.
//! Both sides execute a full fence between their two steps. So a record may be
//! used in any stream, however that stream is ordered with others.

use super::shared::shared;
use std::mem::offset_of;

/// Table of canaries: [`CanaryRecord`]s, device memory, mapped 2 MiB at a time
/// as it grows.
pub const CANARY_TABLE: u64 = 0x2038_0000_0000;
/// Bytes reserved for the table.
pub const CANARY_TABLE_RESERVED: u64 = 1 << 30;

/// Slots that the table can have.
pub const CANARY_SLOTS: u64 = 1 << 22;
/// `u32[CANARY_SLOTS]`: warps that read what the slot's record names, and
/// [`CANARY_CLAIMED`]; mapped with the table.
pub const CANARY_PINS: u64 = CANARY_TABLE + CANARY_SLOTS * 64;
/// In a slot's pin: a warp reports the slot's canaries and repairs them.
pub const CANARY_CLAIMED: u32 = 1 << 31;

/// What the host reads of checks: [`CheckStamp`]s, host memory visible to the
/// device.
pub const CHECK_STAMPS: u64 = 0x2100_2000_0000;
/// Stamps; a power of two. A check's is at its number modulo this.
pub const STAMPS: u64 = 1 << 12;
/// Bytes of the stamps: one mapping granule.
pub const CHECK_STAMPS_SIZE: u64 = 2 << 20;
/// `u32[STAMPS]` in the control page: blocks of a check that have ended.
pub const CHECK_BLOCKS: u64 = super::CONTROL_BASE + 0x4000;

/// Name of the kernel that verifies canaries.
pub const CHECK_KERNEL: &str = "ringfence_canary_check";
/// Name of the kernel that makes canaries and enters their record.
pub const FILL_KERNEL: &str = "ringfence_canary_fill";

shared! {
/// When a check ran, by `%globaltimer` in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CheckStamp {
    /// Number of the check, once it has ended.
    pub check: u64,
    /// When its first block began.
    pub begun: u64,
    /// When its last block ended.
    pub ended: u64,
    /// Zero.
    pub reserved: u64,
}
}

/// Slots that a check can name one by one.
pub const NAMED_SLOTS: usize = 8;

/// [`CheckParameters::first`]: the slots are those in
/// [`CheckParameters::slots`].
pub const SLOTS_NAMED: u32 = u32::MAX;

shared! {
/// Parameters of [`CHECK_KERNEL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CheckParameters {
    /// Number of the check, from 1.
    pub check: u64,
    /// Only buffers of this context are read.
    pub context: u64,
    /// First slot to verify, or [`SLOTS_NAMED`].
    pub first: u32,
    /// How many.
    pub count: u32,
    /// Not 0: the records are removed from the table. When the kernel has
    /// ended, no warp reads their canaries any more.
    pub retire: u32,
    /// Zero.
    pub reserved: u32,
    /// The slots, if they are named.
    pub slots: [u32; NAMED_SLOTS],
}
}

shared! {
/// Parameters of [`FILL_KERNEL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FillParameters {
    /// The record, sealed.
    pub record: CanaryRecord,
    /// The slot that it is written to.
    pub slot: u64,
}
}

/// `module` of a [`super::Record`] that reports an overwritten canary. Its
/// `address` is then the serial of the allocation, `base` and `size` the first
/// 16 bytes found, `launch` the check, `site` the side
/// ([`super::guard::SIDE_BEFORE`], [`super::guard::SIDE_AFTER`]), `thread` the
/// distance of the lowest changed byte from the lowest of the canary, `block_x`
/// that of the highest, and `block_yz` how many bytes were changed.
pub const CANARY_RECORD: u64 = 0;

shared! {
/// One allocation with canaries on either side. A slot whose `check` is not
/// that of its other fields is empty, or is being written, and is passed over.
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
}

/// What [`CanaryRecord::checksum`] starts from.
pub const CHECKSUM_SEED: u64 = u64::from_be_bytes(*b"RFCANARY");
/// How far [`CanaryRecord::checksum`] rotates the sum to the left before it
/// takes in a word.
pub const CHECKSUM_ROTATION: u32 = 23;
/// What [`CanaryRecord::checksum`] multiplies the sum by after each word.
pub const CHECKSUM_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl CanaryRecord {
    /// What `check` must be: made from all words before it, and never 0. Records are written while the device may
    /// be reading, and a torn one must not be believed.
    pub fn checksum(&self) -> u64 {
        let bytes = self.bytes();
        let (words, _) = bytes.as_chunks::<8>();
        let covered = &words[..offset_of!(CanaryRecord, check) / 8];
        let sum = covered.iter().fold(CHECKSUM_SEED, |sum: u64, word| {
            (sum.rotate_left(CHECKSUM_ROTATION) ^ u64::from_le_bytes(*word))
                .wrapping_mul(CHECKSUM_MULTIPLIER)
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

const _: () = {
    assert!(size_of::<CanaryRecord>() == 64);
    assert!(size_of::<CheckStamp>() == 32);
    assert!(size_of::<CheckParameters>() == 64);
    assert!(size_of::<FillParameters>() == 72);
    assert!(CANARY_PINS + CANARY_SLOTS * 4 <= CANARY_TABLE + CANARY_TABLE_RESERVED);
    assert!(STAMPS * 32 <= CHECK_STAMPS_SIZE);
    assert!(CHECK_BLOCKS + STAMPS * 4 <= super::READ_SINK);
    assert!(super::guard::GUARD_CONTROL + super::guard::GUARD_CONTROL_SIZE <= CHECK_STAMPS);
};

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
