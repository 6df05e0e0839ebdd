//! Bits, fields, shifts and permutes (PTX ISA 9.7.1.14 to 9.7.1.23, 9.7.8).

use super::integer::Integer;
use ptx::Modifier;

/// `popc`
#[inline(always)]
pub fn popc<T: Integer>(a: T) -> u32 {
    a.bits().count_ones()
}

/// `clz`
#[inline(always)]
pub fn clz<T: Integer>(a: T) -> u32 {
    a.bits().leading_zeros() - (64 - T::BITS)
}

/// `bfind`: place of the highest bit that differs from the sign (`.sN`), or
/// of the highest one (`.uN`); all ones if there is none.
#[inline(always)]
pub fn bfind<T: Integer>(a: T) -> u32 {
    let bits = if T::SIGNED {
        (a.extended() ^ ((a.extended() as i64) >> 63) as u64) & mask(T::BITS)
    } else {
        a.bits()
    };
    63u32.wrapping_sub(bits.leading_zeros())
}

/// `bfind.shiftamt`: how far to shift left so that the found bit is the
/// highest; all ones if there is none.
#[inline(always)]
pub fn bfind_shift<T: Integer>(a: T) -> u32 {
    let place = bfind(a);
    if place == u32::MAX {
        place
    } else {
        T::BITS - 1 - place
    }
}

/// `brev.b32`
#[inline(always)]
pub fn brev32(a: u32) -> u32 {
    a.reverse_bits()
}

/// `brev.b64`
#[inline(always)]
pub fn brev64(a: u64) -> u64 {
    a.reverse_bits()
}

/// The lowest `count` bits set; 64 and more set all.
#[inline(always)]
fn mask(count: u32) -> u64 {
    if count >= 64 {
        u64::MAX
    } else {
        (1 << count) - 1
    }
}

/// `bfe`: the field of `length & 255` bits from bit `position & 255` on, filled
/// up with the sign for `.sN`.
#[inline(always)]
pub fn bfe<T: Integer>(a: T, position: u32, length: u32) -> T {
    let (position, length) = (position & 0xff, length & 0xff);
    let field = if position >= T::BITS {
        0
    } else {
        a.bits() >> position
    };
    let inside = mask(length);
    let fill = if T::SIGNED && length != 0 {
        let sign = (position + length - 1).min(T::BITS - 1);
        // The ISA fills both above the field and where it runs over the end.
        let above = inside & mask(T::BITS.saturating_sub(position));
        if (a.bits() >> sign) & 1 == 1 {
            !above
        } else {
            0
        }
    } else {
        0
    };
    T::from_bits((field & inside) | fill)
}

/// `bfi`: `b` with the low `length & 255` bits of `a` at bit `position & 255`.
#[inline(always)]
pub fn bfi<T: Integer>(a: T, b: T, position: u32, length: u32) -> T {
    let (position, length) = (position & 0xff, length & 0xff);
    if position >= T::BITS {
        return b;
    }
    let field = mask(length) << position;
    T::from_bits((b.bits() & !field) | ((a.bits() << position) & field))
}

/// `fns`: place of the |offset|-th set bit from `base` on, upwards for a
/// positive offset; with offset 0, `base` itself if set. All ones if none.
#[inline]
pub fn fns(bits: u32, base: u32, offset: i32) -> u32 {
    if base > 31 {
        return u32::MAX;
    }
    if offset == 0 {
        return if bits >> base & 1 == 1 {
            base
        } else {
            u32::MAX
        };
    }
    let mut left = offset.unsigned_abs();
    let mut place = base as i32;
    while (0..32).contains(&place) {
        if bits >> place & 1 == 1 {
            left -= 1;
            if left == 0 {
                return place as u32;
            }
        }
        place += offset.signum();
    }
    u32::MAX
}

/// Modes of `prmt.b32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permute {
    /// No mode: four selectors of four bits.
    Generic,
    /// `.f4e`
    Forward4,
    /// `.b4e`
    Backward4,
    /// `.rc8`
    Replicate8,
    /// `.ecl`
    EdgeLeft,
    /// `.ecr`
    EdgeRight,
    /// `.rc16`
    Replicate16,
}

impl Permute {
    /// The mode that a modifier names.
    pub fn from_modifier(modifier: Modifier) -> Option<Permute> {
        Some(match modifier {
            Modifier::B32 => Permute::Generic,
            Modifier::F4e => Permute::Forward4,
            Modifier::B4e => Permute::Backward4,
            Modifier::Rc8 => Permute::Replicate8,
            Modifier::Ecl => Permute::EdgeLeft,
            Modifier::Ecr => Permute::EdgeRight,
            Modifier::Rc16 => Permute::Replicate16,
            _ => return None,
        })
    }
}

/// Selectors for control 0 to 3 of each special mode (table in `prmt`).
const FORWARD4: [u32; 4] = [0x3210, 0x4321, 0x5432, 0x6543];
const BACKWARD4: [u32; 4] = [0x5670, 0x6701, 0x7012, 0x0123];
const REPLICATE8: [u32; 4] = [0x0000, 0x1111, 0x2222, 0x3333];
const EDGE_LEFT: [u32; 4] = [0x3210, 0x3211, 0x3222, 0x3333];
const EDGE_RIGHT: [u32; 4] = [0x0000, 0x1110, 0x2210, 0x3210];
const REPLICATE16: [u32; 4] = [0x1010, 0x3232, 0x1010, 0x3232];

/// `prmt`: bytes picked from `b:a`.
#[inline(always)]
pub fn prmt(a: u32, b: u32, control: u32, mode: Permute) -> u32 {
    let low = (control & 3) as usize;
    let selectors = match mode {
        Permute::Generic => control,
        Permute::Forward4 => FORWARD4[low],
        Permute::Backward4 => BACKWARD4[low],
        Permute::Replicate8 => REPLICATE8[low],
        Permute::EdgeLeft => EDGE_LEFT[low],
        Permute::EdgeRight => EDGE_RIGHT[low],
        Permute::Replicate16 => REPLICATE16[low],
    };
    let source = u64::from(b) << 32 | u64::from(a);
    let mut result = 0;
    for lane in 0..4 {
        let selector = selectors >> (4 * lane);
        let byte = (source >> (8 * (selector & 7))) as u8;
        let replicated = ((byte as i8) >> 7) as u8;
        let picked = if selector & 8 != 0 { replicated } else { byte };
        result |= u32::from(picked) << (8 * lane);
    }
    result
}

/// `shf.l.wrap`, `shf.l.clamp`: high half of `b:a` shifted left.
#[inline(always)]
pub fn shf_l(a: u32, b: u32, amount: u32, clamp: bool) -> u32 {
    let n = if clamp { amount.min(32) } else { amount & 31 };
    let pair = u64::from(b) << 32 | u64::from(a);
    // By 32 the pair would lose its low half: take it from there instead.
    if n == 32 {
        a
    } else {
        ((pair << n) >> 32) as u32
    }
}

/// `shf.r.wrap`, `shf.r.clamp`: low half of `b:a` shifted right.
#[inline(always)]
pub fn shf_r(a: u32, b: u32, amount: u32, clamp: bool) -> u32 {
    let n = if clamp { amount.min(32) } else { amount & 31 };
    ((u64::from(b) << 32 | u64::from(a)) >> n) as u32
}

/// `lop3`: bit by bit, bit `a<<2 | b<<1 | c` of the table.
#[inline(always)]
pub fn lop3(a: u32, b: u32, c: u32, table: u8) -> u32 {
    let term = |bit: u32| 0u32.wrapping_sub(u32::from(table) >> bit & 1);
    // A tree of selections: c picks within pairs, b within fours, a at last.
    let pick = |low: u32, high: u32, by: u32| low ^ ((low ^ high) & by);
    let zero_zero = pick(term(0), term(1), c);
    let zero_one = pick(term(2), term(3), c);
    let one_zero = pick(term(4), term(5), c);
    let one_one = pick(term(6), term(7), c);
    pick(pick(zero_zero, zero_one, b), pick(one_zero, one_one, b), a)
}

/// `szext.u32`, `szext.s32`: the low `width` bits, extended. `clamp`: widths
/// above 32 count as 32; else modulo 32.
#[inline(always)]
pub fn szext<T: Integer>(a: T, width: u32, clamp: bool) -> T {
    let width = if clamp { width.min(32) } else { width & 31 };
    bfe(a, 0, width)
}

/// `bmsk`: `width` ones from bit `start` on.
#[inline(always)]
pub fn bmsk(start: u32, width: u32, clamp: bool) -> u32 {
    let (start, width) = if clamp {
        (start.min(32), width.min(32))
    } else {
        (start & 31, width & 31)
    };
    (mask(width) << start) as u32
}

/// `cnot`: 1 if zero, else 0.
#[inline(always)]
pub fn cnot<T: Integer>(a: T) -> T {
    T::from_bits(u64::from(a == T::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loop that the ISA gives for `bfe`.
    fn bfe_by_the_book(a: u64, b: u32, c: u32, msb: u32, signed: bool) -> u64 {
        let (pos, len) = (b & 0xff, c & 0xff);
        let sign = if !signed || len == 0 {
            0
        } else {
            a >> (pos + len - 1).min(msb) & 1
        };
        (0..=msb).fold(0, |d, i| {
            let bit = if i < len && pos + i <= msb {
                a >> (pos + i) & 1
            } else {
                sign
            };
            d | bit << i
        })
    }

    /// The loop that the ISA gives for `bfi`.
    fn bfi_by_the_book(a: u64, b: u64, c: u32, d: u32, msb: u32) -> u64 {
        let (pos, len) = (c & 0xff, d & 0xff);
        let mut f = b;
        let mut i = 0;
        while i < len && pos + i <= msb {
            f = f & !(1 << (pos + i)) | (a >> i & 1) << (pos + i);
            i += 1;
        }
        f
    }

    #[test]
    fn fields_follow_the_isa() {
        let values = [
            0u64,
            1,
            0x8000_0000,
            0xffff_ffff,
            0xdead_beef_0bad_f00d,
            u64::MAX,
            1 << 63,
            0x7654_3210,
        ];
        for a in values {
            for position in [0, 1, 7, 15, 31, 32, 33, 63, 64, 200, 256 + 5] {
                for length in [0, 1, 5, 8, 31, 32, 33, 63, 64, 100, 255] {
                    let (low, signed_low) = (a as u32, a as i32);
                    assert_eq!(
                        u64::from(bfe(low, position, length)),
                        bfe_by_the_book(u64::from(low), position, length, 31, false)
                    );
                    assert_eq!(
                        u64::from(bfe(signed_low, position, length) as u32),
                        bfe_by_the_book(u64::from(low), position, length, 31, true),
                        "{a:x} {position} {length}"
                    );
                    assert_eq!(
                        bfe(a, position, length),
                        bfe_by_the_book(a, position, length, 63, false)
                    );
                    assert_eq!(
                        bfe(a as i64, position, length) as u64,
                        bfe_by_the_book(a, position, length, 63, true)
                    );
                    for b in values {
                        assert_eq!(
                            bfi(a, b, position, length),
                            bfi_by_the_book(a, b, position, length, 63)
                        );
                        assert_eq!(
                            u64::from(bfi(low, b as u32, position, length)),
                            bfi_by_the_book(u64::from(low), b & 0xffff_ffff, position, length, 31)
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn counting_and_finding() {
        assert_eq!(clz(1u32), 31);
        assert_eq!(clz(0u64), 64);
        assert_eq!(popc(0xf0f0u32), 8);
        assert_eq!(bfind(0u32), u32::MAX);
        assert_eq!(bfind(-1i32), u32::MAX);
        assert_eq!(bfind(-2i32), 0);
        assert_eq!(bfind(i32::MIN), 30);
        assert_eq!(bfind(0x8000_0000u32), 31);
        assert_eq!(bfind_shift(1u32), 31);
        assert_eq!(bfind_shift(0u64), u32::MAX);
        assert_eq!(bfind(i64::MAX), 62);
        assert_eq!(fns(0b1011_0000, 0, 2), 5);
        assert_eq!(fns(0b1011_0000, 7, -2), 5);
        assert_eq!(fns(0b1011_0000, 4, 0), 4);
        assert_eq!(fns(0b1011_0000, 3, 0), u32::MAX);
        assert_eq!(fns(0b1011_0000, 0, 4), u32::MAX);
    }

    #[test]
    fn permutes() {
        let (a, b) = (0x3322_1180, 0x7766_5544);
        assert_eq!(prmt(a, b, 0x7654, Permute::Generic), b);
        assert_eq!(prmt(a, b, 0x0123, Permute::Generic), 0x8011_2233);
        assert_eq!(prmt(a, b, 0x8888, Permute::Generic), 0xffff_ffff);
        assert_eq!(prmt(a, b, 0x9999, Permute::Generic), 0);
        assert_eq!(prmt(a, b, 1, Permute::Forward4), 0x4433_2211);
        assert_eq!(prmt(a, b, 0, Permute::Backward4), 0x5566_7780);
        assert_eq!(prmt(a, b, 2, Permute::Replicate8), 0x2222_2222);
        assert_eq!(prmt(a, b, 1, Permute::EdgeLeft), 0x3322_1111);
        assert_eq!(prmt(a, b, 1, Permute::EdgeRight), 0x1111_1180);
        assert_eq!(prmt(a, b, 3, Permute::Replicate16), 0x3322_3322);
    }

    #[test]
    fn funnels() {
        let (a, b) = (0x89ab_cdef, 0x0123_4567);
        assert_eq!(shf_l(a, b, 8, false), 0x2345_6789);
        assert_eq!(shf_l(a, b, 40, false), 0x2345_6789);
        assert_eq!(shf_l(a, b, 40, true), a);
        assert_eq!(shf_r(a, b, 8, false), 0x6789_abcd);
        assert_eq!(shf_r(a, b, 99, true), b);
        assert_eq!(shf_r(a, b, 0, true), a);
    }

    #[test]
    fn lop3_reads_its_table() {
        let (a, b, c) = (0xf0f0_1234u32, 0xcccc_5678, 0xaaaa_9abc);
        for table in 0..=255u8 {
            let expected = (0..32).fold(0u32, |d, i| {
                let index = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1);
                d | (u32::from(table) >> index & 1) << i
            });
            assert_eq!(lop3(a, b, c, table), expected, "{table:#x}");
        }
    }

    #[test]
    fn masks() {
        assert_eq!(bmsk(4, 8, true), 0xff0);
        assert_eq!(bmsk(32, 8, true), 0);
        assert_eq!(bmsk(0, 33, true), u32::MAX);
        assert_eq!(bmsk(33, 33, false), 2);
        assert_eq!(szext(0xf8i32, 4, true), -8);
        assert_eq!(szext(0xf8u32, 4, true), 8);
        assert_eq!(szext(-3i32, 32, true), -3);
        assert_eq!(szext(-3i32, 32, false), 0);
        assert_eq!(cnot(0u32), 1);
        assert_eq!(cnot(9u64), 0);
    }
}
