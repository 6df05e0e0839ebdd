//! Dot products and video instructions: bytes and halves of a 32-bit register
//! (PTX ISA 9.7.1.24, 9.7.1.25, 9.7.17, 9.7.18).

use ptx::Mnemonic;

/// Lane `index` of `bits` bits, extended to 64.
#[inline(always)]
fn lane(a: u32, index: u32, bits: u32, signed: bool) -> i64 {
    let raw = (a >> (index * bits)) << (32 - bits);
    if signed {
        i64::from(raw as i32 >> (32 - bits))
    } else {
        i64::from(raw >> (32 - bits))
    }
}

/// `dp4a`: c + Σ of four products of bytes.
#[inline(always)]
pub fn dp4a(a: u32, b: u32, c: u32, a_signed: bool, b_signed: bool) -> u32 {
    let mut sum = c;
    for i in 0..4 {
        sum = sum.wrapping_add((lane(a, i, 8, a_signed) * lane(b, i, 8, b_signed)) as u32);
    }
    sum
}

/// `dp2a.lo`, `dp2a.hi`: c + Σ of two products of halves of `a` with the low
/// or high two bytes of `b`.
#[inline(always)]
pub fn dp2a(a: u32, b: u32, c: u32, a_signed: bool, b_signed: bool, high: bool) -> u32 {
    let first = if high { 2 } else { 0 };
    let mut sum = c;
    for i in 0..2 {
        sum = sum.wrapping_add((lane(a, i, 16, a_signed) * lane(b, first + i, 8, b_signed)) as u32);
    }
    sum
}

/// What a SIMD or scalar video instruction does to a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Video {
    /// `vadd`
    Add,
    /// `vsub`
    Sub,
    /// `vavrg` (SIMD only): the mean, rounded away from zero.
    Average,
    /// `vabsdiff`
    AbsDiff,
    /// `vmin`
    Min,
    /// `vmax`
    Max,
}

impl Video {
    /// `vadd`, `vadd2`, `vadd4` and so on.
    pub fn from_opcode(mnemonic: Mnemonic) -> Option<Video> {
        Some(match mnemonic {
            Mnemonic::Vadd | Mnemonic::Vadd2 | Mnemonic::Vadd4 => Video::Add,
            Mnemonic::Vsub | Mnemonic::Vsub2 | Mnemonic::Vsub4 => Video::Sub,
            Mnemonic::Vavrg2 | Mnemonic::Vavrg4 => Video::Average,
            Mnemonic::Vabsdiff | Mnemonic::Vabsdiff2 | Mnemonic::Vabsdiff4 => Video::AbsDiff,
            Mnemonic::Vmin | Mnemonic::Vmin2 | Mnemonic::Vmin4 => Video::Min,
            Mnemonic::Vmax | Mnemonic::Vmax2 | Mnemonic::Vmax4 => Video::Max,
            _ => return None,
        })
    }

    #[inline(always)]
    fn apply(self, a: i64, b: i64) -> i64 {
        match self {
            Video::Add => a + b,
            Video::Sub => a - b,
            Video::Average => {
                let sum = a + b;
                // (a + b + 1) >> 1 for sums that are not negative, else (a + b) >> 1.
                if sum >= 0 { (sum + 1) >> 1 } else { sum >> 1 }
            }
            Video::AbsDiff => (a - b).abs(),
            Video::Min => a.min(b),
            Video::Max => a.max(b),
        }
    }
}

/// Types and options of a SIMD video instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Simd {
    /// Bits of an element: 16 for `v…2`, 8 for `v…4`.
    pub bits: u32,
    /// `.s32` result.
    pub d_signed: bool,
    /// `.s32` first operand.
    pub a_signed: bool,
    /// `.s32` second operand.
    pub b_signed: bool,
    /// `.sat`
    pub sat: bool,
    /// `.add`: the elements' sum is added to `c`.
    pub accumulate: bool,
    /// Bit i set: element i is computed, else taken from `c` (or not summed).
    pub mask: u32,
}

/// A SIMD video instruction without operand selectors (their defaults).
#[inline(always)]
pub fn simd(operation: Video, a: u32, b: u32, c: u32, options: Simd) -> u32 {
    let Simd {
        bits,
        d_signed,
        a_signed,
        b_signed,
        sat,
        accumulate,
        mask,
    } = options;
    let ones = (1u32 << bits) - 1;
    let (low, high) = range(bits, d_signed);
    let mut result = c;
    for i in 0..32 / bits {
        if mask >> i & 1 == 0 {
            continue;
        }
        let value = operation.apply(lane(a, i, bits, a_signed), lane(b, i, bits, b_signed));
        let value = if sat { value.clamp(low, high) } else { value };
        if accumulate {
            result = result.wrapping_add(value as u32);
        } else {
            let place = i * bits;
            result = result & !(ones << place) | (value as u32 & ones) << place;
        }
    }
    result
}

/// `vset2`, `vset4`: one per element that compares true (all the ones summed
/// to `c` with `.add`).
#[inline(always)]
pub fn simd_set(relation: super::compare::Compare, a: u32, b: u32, c: u32, options: Simd) -> u32 {
    let Simd {
        bits,
        a_signed,
        b_signed,
        accumulate,
        mask,
        ..
    } = options;
    let ones = (1u32 << bits) - 1;
    let mut result = c;
    for i in 0..32 / bits {
        if mask >> i & 1 == 0 {
            continue;
        }
        let set = super::compare::integer(
            relation,
            lane(a, i, bits, a_signed),
            lane(b, i, bits, b_signed),
        );
        if accumulate {
            result = result.wrapping_add(u32::from(set));
        } else {
            let place = i * bits;
            result = result & !(ones << place) | u32::from(set) << place;
        }
    }
    result
}

#[inline(always)]
fn range(bits: u32, signed: bool) -> (i64, i64) {
    if signed {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    }
}

/// A part of an operand of a scalar video instruction: `.b0` … `.h1`, with
/// the operand's sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// Bits: 32, 16 or 8.
    pub bits: u32,
    /// Which of them, from the low end.
    pub index: u32,
    /// `.s32`
    pub signed: bool,
}

impl Part {
    /// The part's value.
    #[inline(always)]
    pub fn take(self, a: u32) -> i64 {
        lane(a, self.index, self.bits, self.signed)
    }
}

/// A scalar video instruction before its secondary operation: the value,
/// clamped to the 32-bit result type with `.sat`.
#[inline(always)]
pub fn scalar(operation: Video, a: i64, b: i64, d_signed: bool, sat: bool) -> u32 {
    let value = operation.apply(a, b);
    let (low, high) = range(32, d_signed);
    (if sat { value.clamp(low, high) } else { value }) as u32
}

#[cfg(test)]
mod tests {
    use super::super::compare::Compare;
    use super::*;

    const BYTES: Simd = Simd {
        bits: 8,
        d_signed: false,
        a_signed: false,
        b_signed: false,
        sat: false,
        accumulate: false,
        mask: 15,
    };

    #[test]
    fn dot_products() {
        assert_eq!(dp4a(0x0102_0304, 0x0101_0101, 5, false, false), 15);
        assert_eq!(dp4a(0xff00_0000, 0x0200_0000, 0, true, false) as i32, -2);
        assert_eq!(dp4a(0xff00_0000, 0x0200_0000, 0, false, false), 510);
        assert_eq!(
            dp2a(0x0002_0003, 0x0504_0302, 1, false, false, false),
            1 + 3 * 2 + 2 * 3
        );
        assert_eq!(
            dp2a(0x0002_ffff, 0x0504_0302, 1, true, false, true) as i32,
            1 - 4 + 10
        );
    }

    #[test]
    fn video() {
        assert_eq!(
            simd(Video::Add, 0x01ff_0203, 0x0101_0101, 0, BYTES),
            0x0200_0304
        );
        assert_eq!(
            simd(
                Video::Add,
                0x01ff_0203,
                0x0101_0101,
                0,
                Simd { sat: true, ..BYTES }
            ),
            0x02ff_0304
        );
        assert_eq!(
            simd(
                Video::AbsDiff,
                0x0105_0203,
                0x0301_0101,
                7,
                Simd {
                    accumulate: true,
                    ..BYTES
                }
            ),
            7 + 9
        );
        assert_eq!(
            simd(Video::Average, 0x0100_0002, 0x0200_0003, 0, BYTES),
            0x0200_0003
        );
        let halves = Simd {
            bits: 16,
            d_signed: true,
            a_signed: true,
            b_signed: true,
            mask: 3,
            ..BYTES
        };
        assert_eq!(
            simd(Video::Min, 0xffff_0005, 0x0001_0004, 0, halves),
            0xffff_0004
        );
        assert_eq!(
            simd(
                Video::Max,
                0xffff_0005,
                0x0001_0004,
                9,
                Simd { mask: 2, ..halves }
            ),
            0x0001_0009
        );
        assert_eq!(
            simd_set(Compare::Lt, 0x0102_0304, 0x0201_0404, 0, BYTES),
            0x0100_0100
        );
        assert_eq!(scalar(Video::Sub, 1, 2, false, true), 0);
        assert_eq!(scalar(Video::Sub, 1, 2, true, true), u32::MAX);
        assert_eq!(
            Part {
                bits: 8,
                index: 3,
                signed: true
            }
            .take(0x8000_0000),
            -128
        );
        assert_eq!(
            Video::from_opcode(Mnemonic::Vabsdiff4),
            Some(Video::AbsDiff)
        );
    }
}
