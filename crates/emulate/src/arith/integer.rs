//! Integer arithmetic (PTX ISA 9.7.1, 9.7.2).

/// An integer register type: `.u16 .. .s64`, and `.u8`, `.s8` for conversions.
pub trait Integer: Copy + PartialEq + Ord {
    /// The type twice as wide; 64-bit types have 128 bits.
    type Wide: Copy;
    /// Bits.
    const BITS: u32;
    /// `.sN` rather than `.uN`.
    const SIGNED: bool;
    /// All bits zero.
    const ZERO: Self;
    /// Largest value.
    const MAX: Self;
    /// Smallest value.
    const MIN: Self;
    /// The low bits of a register.
    fn from_bits(bits: u64) -> Self;
    /// The value's bits, zero-extended to 64.
    fn bits(self) -> u64;
    /// The value's bits, extended by its own sign to 64.
    fn extended(self) -> u64;
    /// The value.
    fn value(self) -> i128;
    /// `add`, modulo 2^N.
    fn add(self, b: Self) -> Self;
    /// `add.sat` (only `.s32` has it in PTX).
    fn add_sat(self, b: Self) -> Self;
    /// `sub`, modulo 2^N.
    fn sub(self, b: Self) -> Self;
    /// `sub.sat`.
    fn sub_sat(self, b: Self) -> Self;
    /// `mul.lo`
    fn mul_lo(self, b: Self) -> Self;
    /// `mul.hi`
    fn mul_hi(self, b: Self) -> Self;
    /// `mul.wide`
    fn mul_wide(self, b: Self) -> Self::Wide;
    /// `div`. By zero: all ones, as hardware gives.
    fn div(self, b: Self) -> Self;
    /// `rem`. By zero: all ones, as hardware gives.
    fn rem(self, b: Self) -> Self;
    /// `abs`; the smallest value stays.
    fn abs(self) -> Self;
    /// `neg`
    fn neg(self) -> Self;
    /// `shl`; amounts of N and more give 0 (PTX clamps at N).
    fn shl(self, amount: u32) -> Self;
    /// `shr`; amounts of N and more give 0, or the sign for `.sN`.
    fn shr(self, amount: u32) -> Self;
    /// `add.cc`, `addc.cc`: sum and carry out.
    fn add_carry(self, b: Self, carry: bool) -> (Self, bool);
    /// `sub.cc`, `subc.cc`: difference and borrow out.
    fn sub_borrow(self, b: Self, borrow: bool) -> (Self, bool);
    /// |a − b| as `sad` and `vabsdiff` take it, modulo 2^N.
    fn abs_diff(self, b: Self) -> Self;
}

macro_rules! integer {
    ($($t:ident $u:ident $w:ident $signed:literal;)*) => {$(
        impl Integer for $t {
            type Wide = $w;
            const BITS: u32 = $t::BITS;
            const SIGNED: bool = $signed;
            const ZERO: Self = 0;
            const MAX: Self = $t::MAX;
            const MIN: Self = $t::MIN;
            #[inline(always)]
            fn from_bits(bits: u64) -> Self { bits as $t }
            #[inline(always)]
            fn bits(self) -> u64 { self as $u as u64 }
            #[inline(always)]
            fn extended(self) -> u64 { self as i64 as u64 }
            #[inline(always)]
            fn value(self) -> i128 { self as i128 }
            #[inline(always)]
            fn add(self, b: Self) -> Self { self.wrapping_add(b) }
            #[inline(always)]
            fn add_sat(self, b: Self) -> Self { self.saturating_add(b) }
            #[inline(always)]
            fn sub(self, b: Self) -> Self { self.wrapping_sub(b) }
            #[inline(always)]
            fn sub_sat(self, b: Self) -> Self { self.saturating_sub(b) }
            #[inline(always)]
            fn mul_lo(self, b: Self) -> Self { self.wrapping_mul(b) }
            #[inline(always)]
            fn mul_hi(self, b: Self) -> Self { ((self as $w).wrapping_mul(b as $w) >> $t::BITS) as $t }
            #[inline(always)]
            fn mul_wide(self, b: Self) -> $w { (self as $w).wrapping_mul(b as $w) }
            #[inline(always)]
            fn div(self, b: Self) -> Self {
                if b == 0 { !0 } else { self.wrapping_div(b) }
            }
            #[inline(always)]
            fn rem(self, b: Self) -> Self {
                if b == 0 { !0 } else { self.wrapping_rem(b) }
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn abs(self) -> Self { if self < 0 { self.wrapping_neg() } else { self } }
            #[inline(always)]
            fn neg(self) -> Self { self.wrapping_neg() }
            #[inline(always)]
            fn shl(self, amount: u32) -> Self {
                if amount < $t::BITS { self.wrapping_shl(amount) } else { 0 }
            }
            #[inline(always)]
            fn shr(self, amount: u32) -> Self {
                if $signed {
                    self.wrapping_shr(if amount < $t::BITS { amount } else { $t::BITS - 1 })
                } else if amount < $t::BITS {
                    self.wrapping_shr(amount)
                } else {
                    0
                }
            }
            #[inline(always)]
            fn add_carry(self, b: Self, carry: bool) -> (Self, bool) {
                let (sum, first) = (self as $u).overflowing_add(b as $u);
                let (sum, second) = sum.overflowing_add(carry as $u);
                (sum as $t, first | second)
            }
            #[inline(always)]
            fn sub_borrow(self, b: Self, borrow: bool) -> (Self, bool) {
                let (difference, first) = (self as $u).overflowing_sub(b as $u);
                let (difference, second) = difference.overflowing_sub(borrow as $u);
                (difference as $t, first | second)
            }
            #[inline(always)]
            fn abs_diff(self, b: Self) -> Self {
                if self < b { b.wrapping_sub(self) } else { self.wrapping_sub(b) }
            }
        }
    )*};
}

integer! {
    u8 u8 u16 false;
    i8 u8 i16 true;
    u16 u16 u32 false;
    i16 u16 i32 true;
    u32 u32 u64 false;
    i32 u32 i64 true;
    u64 u64 u128 false;
    i64 u64 i128 true;
}

/// `mad.lo`
#[inline(always)]
pub fn mad_lo<T: Integer>(a: T, b: T, c: T) -> T {
    a.mul_lo(b).add(c)
}

/// `mad.hi`
#[inline(always)]
pub fn mad_hi<T: Integer>(a: T, b: T, c: T) -> T {
    a.mul_hi(b).add(c)
}

/// `mad.hi.sat` (only `.s32` has it).
#[inline(always)]
pub fn mad_hi_sat<T: Integer>(a: T, b: T, c: T) -> T {
    a.mul_hi(b).add_sat(c)
}

/// `mad.wide.u16`, `.u32`, … : the product at twice the width, plus `c`.
#[inline(always)]
pub fn mad_wide<T: Integer>(a: T, b: T, c: T::Wide) -> T::Wide
where
    T::Wide: Integer,
{
    a.mul_wide(b).add(c)
}

/// `sad`: c + |a − b|.
#[inline(always)]
pub fn sad<T: Integer>(a: T, b: T, c: T) -> T {
    a.abs_diff(b).add(c)
}

/// `mul24.lo.u32`: low 32 of the 48 bits of the product.
#[inline(always)]
pub fn mul24_lo_u32(a: u32, b: u32) -> u32 {
    (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff)
}

/// `mul24.hi.u32`: high 32 of the 48 bits of the product.
#[inline(always)]
pub fn mul24_hi_u32(a: u32, b: u32) -> u32 {
    ((u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)) >> 16) as u32
}

#[inline(always)]
fn low24(a: i32) -> i32 {
    (a << 8) >> 8
}

/// `mul24.lo.s32`
#[inline(always)]
pub fn mul24_lo_s32(a: i32, b: i32) -> i32 {
    low24(a).wrapping_mul(low24(b))
}

/// `mul24.hi.s32`
#[inline(always)]
pub fn mul24_hi_s32(a: i32, b: i32) -> i32 {
    ((i64::from(low24(a)) * i64::from(low24(b))) >> 16) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_by_zero_gives_all_ones() {
        assert_eq!(7u32.div(0), u32::MAX);
        assert_eq!(7u32.rem(0), u32::MAX);
        assert_eq!((-7i64).div(0), -1);
        assert_eq!(7u16.rem(0), u16::MAX);
        assert_eq!(i32::MIN.div(-1), i32::MIN);
        assert_eq!(i32::MIN.rem(-1), 0);
    }

    #[test]
    fn shifts_clamp_at_the_width() {
        assert_eq!(1u32.shl(32), 0);
        assert_eq!(1u32.shl(31), 1 << 31);
        assert_eq!(u64::MAX.shr(64), 0);
        assert_eq!((-8i32).shr(77), -1);
        assert_eq!(8i16.shr(16), 0);
        assert_eq!((-2i16).shr(1), -1);
        assert_eq!(1u16.shl(u32::MAX), 0);
    }

    #[test]
    fn high_products() {
        assert_eq!(u32::MAX.mul_hi(u32::MAX), u32::MAX - 1);
        assert_eq!((-1i32).mul_hi(5), -1);
        assert_eq!(u64::MAX.mul_hi(2), 1);
        assert_eq!(i64::MIN.mul_hi(i64::MIN), 1 << 62);
        assert_eq!((-3i32).mul_wide(7), -21);
        assert_eq!(mad_wide(-3i32, 7, 1), -20);
        assert_eq!(mad_hi_sat(i32::MAX, i32::MAX, i32::MAX), i32::MAX);
        assert_eq!(300u16.mul_hi(300), 1);
    }

    #[test]
    fn carries_chain() {
        // 2^64 - 1 + 1 by halves.
        let (low, carry) = u32::MAX.add_carry(1, false);
        let (high, out) = u32::MAX.add_carry(0, carry);
        assert_eq!((low, high, out), (0, 0, true));
        let (low, borrow) = 0u32.sub_borrow(1, false);
        let (high, out) = 5u32.sub_borrow(5, borrow);
        assert_eq!((low, high, out), (u32::MAX, u32::MAX, true));
    }

    #[test]
    fn twenty_four_bits() {
        assert_eq!(
            mul24_hi_u32(0xff_ffff, 0xff_ffff),
            (((0xff_ffffu64) * 0xff_ffff) >> 16) as u32
        );
        assert_eq!(mul24_lo_s32(0x00ff_ffff, 3), -3);
        assert_eq!(mul24_hi_s32(0x0080_0000, 2), (-(1i64 << 24) >> 16) as i32);
        assert_eq!(sad(-5i32, 7, 1), 13);
        assert_eq!(sad(3u32, 10, 0), 7);
    }
}
