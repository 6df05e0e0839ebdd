//! Shadow memory: one byte that says which bytes of a block of memory a kernel
//! may access (GASan, section 3.1). Written by the host, read by check code.
//!
//! ```text
//! 0x2000_0000_0020  u32 first   the first unit of the window
//!                   u32 units   how many are in it
//!                   u32 placed  how many units of placed allocations are covered
//!                   u32 poison  whether bytes of live buffers were poisoned
//! 0x2400_0000_0000  the shadow byte of block 0, then of block 1, and so on
//! ```
//!
//! The memory of one mapping granule of shadow is a *piece*. Two ranges of pieces
//! have shadow memory: those of placed allocations (`placed`), from their first
//! address on, and one *window* where the driver's own allocations lie. (Kernels
//! get both ranges of the moment with the launch parameter, behind the bounds.)
//! Addresses elsewhere are not checked. Memory in the window that Ringfence did
//! not allocate is addressable as a whole; of placed allocations nothing is
//! addressable but what is live. Shadow memory is mapped before a range grows, and
//! stays mapped.
//!
//! Check code counts addresses in *units* of 64 KiB. The last unit of a range's
//! last piece is mapped, but not covered: so the shadow byte behind that of a
//! covered address is mapped, too, and a check that may be about two blocks loads
//! both without asking twice. No buffer and no redzone lies in a unit beside the
//! window's ends (`runtime::shadow`), so nothing is missed by that.
//!
//! Of an address, bits from [`TESTED_BITS`] on are ignored: the device refuses an
//! access to such an address itself.

use crate::settings::form::{Form, Words};
use serde::{Deserialize, Serialize};

/// `u32[4]` in the control page: the window's first unit and its units, the
/// units of placed allocations, and whether there is poison. Read as one vector.
pub const SHADOW_WINDOW: u64 = super::CONTROL_BASE + 0x20;
/// The shadow byte of the block at address 0.
pub const SHADOW_BASE: u64 = 0x2400_0000_0000;
/// log2 of the addresses that may have a shadow.
pub const ADDRESS_BITS: u32 = 47;
/// Bytes of addresses that are reserved together for shadow memory: all that blocks of
/// 128 and 256 need.
pub const SHADOW_SECTION: u64 = Encoding::Block128.reserved();
/// log2 of the bytes of shadow memory that are mapped together.
pub const SHADOW_GRANULE_SHIFT: u32 = 21;
/// Bytes of shadow memory that are mapped together.
pub const SHADOW_GRANULE: u64 = 1 << SHADOW_GRANULE_SHIFT;
/// log2 of the bytes of a unit.
pub const UNIT_SHIFT: u32 = 16;
/// Bytes of a unit.
pub const UNIT: u64 = 1 << UNIT_SHIFT;
/// Bits of an address that a check is about: a unit's number has 32.
pub const TESTED_BITS: u32 = UNIT_SHIFT + 32;
/// Bytes of the smallest redzone that can be asked for: a block of any encoding.
pub const MIN_REDZONE: u64 = Encoding::Block256.block();
/// Most pieces in a window.
pub const SHADOW_PIECES: u32 = 4096;

/// Bytes of the launch parameter that hold the words of [`SHADOW_WINDOW`], behind
/// all bounds.
pub const LAUNCH_WINDOW: u64 = 16;

/// What a shadow byte says about its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// Blocks of 8 bytes; the first `n` are addressable. As on a CPU, for comparison:
    /// shadow memory takes an eighth of what the program uses (GASan-8).
    #[serde(rename = "8")]
    Block8,
    /// Blocks of 128 bytes; the first `n` are addressable (GASan-128).
    #[serde(rename = "128")]
    Block128,
    /// Blocks of 256 bytes; for 0, none are addressable, else the first `n + 1`
    /// (GASan-256). A block with one addressable byte has 0, too: a check that
    /// is about exactly this byte asks the lookup tables.
    #[serde(rename = "256")]
    Block256,
}

impl Encoding {
    /// All of them.
    pub const ALL: [Encoding; 3] = [Encoding::Block8, Encoding::Block128, Encoding::Block256];

    pub(crate) const FORM: Words<Encoding> = Words(&[
        (Encoding::Block8, &["8"]),
        (Encoding::Block128, &["128"]),
        (Encoding::Block256, &["256"]),
    ]);

    /// log2 of the bytes of a block.
    pub const fn shift(self) -> u32 {
        match self {
            Encoding::Block8 => 3,
            Encoding::Block128 => 7,
            Encoding::Block256 => 8,
        }
    }

    /// Bytes of a block.
    pub const fn block(self) -> u64 {
        1 << self.shift()
    }

    /// The byte of a block that is addressable as a whole.
    pub const fn whole(self) -> u8 {
        match self {
            Encoding::Block8 => 8,
            Encoding::Block128 => 128,
            Encoding::Block256 => 255,
        }
    }

    /// The byte of a block of which the first `bytes` are addressable.
    pub const fn value(self, bytes: u64) -> u8 {
        let bytes = if bytes > self.block() {
            self.block()
        } else {
            bytes
        };
        match self {
            Encoding::Block8 | Encoding::Block128 => bytes as u8,
            Encoding::Block256 => bytes.saturating_sub(1) as u8,
        }
    }

    /// How many bytes of a block are addressable at least. (One byte alone
    /// cannot be told from none in blocks of 256.)
    pub const fn addressable(self, value: u8) -> u64 {
        match (self, value) {
            (_, 0) => 0,
            (Encoding::Block8 | Encoding::Block128, value) => value as u64,
            (Encoding::Block256, value) => value as u64 + 1,
        }
    }

    /// Whether each number of addressable bytes has a value of its own: in blocks of 256
    /// one byte has none.
    pub const fn tells_all(self) -> bool {
        self.block() < 256
    }

    /// Bytes of addresses that all shadow memory takes.
    pub const fn reserved(self) -> u64 {
        1 << (ADDRESS_BITS - self.shift())
    }

    /// How many pieces there are below the last address.
    pub const fn all_pieces(self) -> u64 {
        1 << (ADDRESS_BITS - self.piece_shift())
    }

    /// Percent of the device's memory that the shadow memory of placed allocations may
    /// take.
    pub const fn most_percent(self) -> u64 {
        match self {
            // The addresses of twice the memory.
            Encoding::Block8 => 25,
            Encoding::Block128 | Encoding::Block256 => 1,
        }
    }

    /// log2 of the bytes of a piece.
    pub const fn piece_shift(self) -> u32 {
        self.shift() + SHADOW_GRANULE_SHIFT
    }

    /// The first piece of placed allocations.
    pub const fn first_placed(self) -> u64 {
        super::placed::PLACED_BASE >> self.piece_shift()
    }

    /// The first unit of a piece.
    pub const fn first_unit(self, piece: u32) -> u32 {
        piece << (self.piece_shift() - UNIT_SHIFT)
    }

    /// How many units of so many pieces are covered.
    pub const fn covered_units(self, pieces: u32) -> u32 {
        self.first_unit(pieces).saturating_sub(1)
    }

    /// Where the shadow byte of an address is.
    pub const fn shadow_of(self, address: u64) -> u64 {
        SHADOW_BASE + (address >> self.shift())
    }
}

impl std::fmt::Display for Encoding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.block())
    }
}

impl std::str::FromStr for Encoding {
    type Err = ();

    /// The bytes of a block.
    fn from_str(text: &str) -> Result<Encoding, ()> {
        Encoding::FORM.parse(text).ok_or(())
    }
}

const _: () = {
    assert!(SHADOW_WINDOW.is_multiple_of(LAUNCH_WINDOW));
    assert!(ADDRESS_BITS < TESTED_BITS);
    // What check code puts together from halves.
    assert!(SHADOW_BASE & 0xff_ffff_ffff == 0 && SHADOW_BASE >> 48 == 0);
    // A window's units do not wrap.
    assert!((SHADOW_PIECES as u64) << (Encoding::Block256.piece_shift() - UNIT_SHIFT) < 1 << 32);
    assert!(SHADOW_WINDOW + LAUNCH_WINDOW <= super::canary::CHECK_BLOCKS);
    assert!(super::heap::HEAP_CHUNKS_MAPPED + 8 <= SHADOW_WINDOW);
    assert!(super::CONTROL_BASE + super::METADATA_RESERVED <= SHADOW_BASE);
    assert!(SHADOW_BASE.is_multiple_of(SHADOW_SECTION));
    assert!(SHADOW_BASE + Encoding::Block8.reserved() <= super::heap::HEAP_BASE);
    assert!(super::placed::PLACED_BASE.is_multiple_of(1 << Encoding::Block256.piece_shift()));
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_paper() {
        let (small, large) = (Encoding::Block128, Encoding::Block256);
        for bytes in 0..=16u64 {
            let expected = bytes.min(8);
            assert_eq!(Encoding::Block8.value(bytes), expected as u8);
            assert_eq!(Encoding::Block8.addressable(expected as u8), expected);
        }
        for bytes in 0..=256u64 {
            let expected = bytes.min(128) as u8;
            assert_eq!(small.value(bytes), expected);
            assert_eq!(small.addressable(small.value(bytes)), bytes.min(128));
            // One byte alone has no value of its own.
            let known = if bytes == 1 { 0 } else { bytes };
            assert_eq!(large.addressable(large.value(bytes)), known);
        }
        for encoding in Encoding::ALL {
            assert_eq!(encoding.whole(), encoding.value(encoding.block()));
            assert_eq!(encoding.to_string().parse(), Ok(encoding));
        }
        assert_eq!("64".parse::<Encoding>(), Err(()));
    }
}
