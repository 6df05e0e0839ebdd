//! f16 and bf16 arithmetic, single and packed (PTX ISA 9.7.4).
//!
//! Operands are widened to f64. Sums and products of f16 are exact there;
//! those of bf16 are exact or have 53 bits, enough that the second rounding
//! is harmless; fused sums are rounded to odd first. So each instruction
//! rounds once.

use super::Round;
use super::convert::{bf16_to_f32, f16_to_f32, f64_to_bf16, f64_to_f16};
use super::float::{Extremum, max_f32, min_f32};
use super::soft::add_to_odd;

/// A 16-bit float format.
pub trait Half {
    /// The value, exactly.
    fn widen(bits: u16) -> f32;
    /// Rounded to nearest even; NaN becomes 0x7fff.
    fn narrow(x: f64) -> u16;
    /// Highest magnitude that `.ftz` turns into zero.
    const SUBNORMAL: u16;
    /// Infinity.
    const INFINITY: u16;
}

/// `.f16`
#[derive(Clone, Copy, Debug)]
pub struct F16;

/// `.bf16`
#[derive(Clone, Copy, Debug)]
pub struct BF16;

impl Half for F16 {
    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        f16_to_f32(bits)
    }
    #[inline(always)]
    fn narrow(x: f64) -> u16 {
        f64_to_f16(x, Round::Nearest)
    }
    const SUBNORMAL: u16 = 0x03ff;
    const INFINITY: u16 = 0x7c00;
}

impl Half for BF16 {
    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        bf16_to_f32(bits)
    }
    #[inline(always)]
    fn narrow(x: f64) -> u16 {
        f64_to_bf16(x, Round::Nearest)
    }
    const SUBNORMAL: u16 = 0x007f;
    const INFINITY: u16 = 0x7f80;
}

/// Modifiers of a half instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Mode {
    /// `.ftz`
    pub ftz: bool,
    /// `.sat`: clamped to [0, 1], NaN to +0.
    pub sat: bool,
    /// `.relu`: negative results become 0, NaN stays.
    pub relu: bool,
}

/// A subnormal becomes zero of its sign.
#[inline(always)]
pub fn flush<H: Half>(bits: u16) -> u16 {
    if bits & 0x7fff <= H::SUBNORMAL {
        bits & 0x8000
    } else {
        bits
    }
}

#[inline(always)]
fn operand<H: Half>(bits: u16, ftz: bool) -> f64 {
    f64::from(H::widen(if ftz { flush::<H>(bits) } else { bits }))
}

#[inline(always)]
fn result<H: Half>(x: f64, mode: Mode) -> u16 {
    let bits = H::narrow(x);
    let bits = if mode.ftz { flush::<H>(bits) } else { bits };
    let bits = if mode.relu { relu::<H>(bits) } else { bits };
    if mode.sat { saturate::<H>(bits) } else { bits }
}

/// `.relu`
#[inline(always)]
pub fn relu<H: Half>(bits: u16) -> u16 {
    if bits & 0x8000 != 0 && bits & 0x7fff <= H::INFINITY {
        0
    } else {
        bits
    }
}

#[inline(always)]
fn saturate<H: Half>(bits: u16) -> u16 {
    H::narrow(f64::from(super::convert::saturate_f32(H::widen(bits))))
}

/// `add`
#[inline(always)]
pub fn add<H: Half>(a: u16, b: u16, mode: Mode) -> u16 {
    result::<H>(operand::<H>(a, mode.ftz) + operand::<H>(b, mode.ftz), mode)
}

/// `sub`
#[inline(always)]
pub fn sub<H: Half>(a: u16, b: u16, mode: Mode) -> u16 {
    result::<H>(operand::<H>(a, mode.ftz) - operand::<H>(b, mode.ftz), mode)
}

/// `mul`
#[inline(always)]
pub fn mul<H: Half>(a: u16, b: u16, mode: Mode) -> u16 {
    result::<H>(operand::<H>(a, mode.ftz) * operand::<H>(b, mode.ftz), mode)
}

/// `fma`
#[inline(always)]
pub fn fma<H: Half>(a: u16, b: u16, c: u16, mode: Mode) -> u16 {
    let product = operand::<H>(a, mode.ftz) * operand::<H>(b, mode.ftz);
    result::<H>(add_to_odd(product, operand::<H>(c, mode.ftz)), mode)
}

/// `fma.oob`: as `fma`, but 0 if `a` or `b` is the out-of-bounds NaN 0xffff.
#[inline(always)]
pub fn fma_oob<H: Half>(a: u16, b: u16, c: u16, mode: Mode) -> u16 {
    if a == 0xffff || b == 0xffff {
        0
    } else {
        fma::<H>(a, b, c, mode)
    }
}

/// `neg`: NaN becomes 0x7fff.
#[inline(always)]
pub fn neg<H: Half>(a: u16, ftz: bool) -> u16 {
    let a = if ftz { flush::<H>(a) } else { a };
    if a & 0x7fff > H::INFINITY {
        0x7fff
    } else {
        a ^ 0x8000
    }
}

/// `abs`: NaN becomes 0x7fff.
#[inline(always)]
pub fn abs<H: Half>(a: u16, ftz: bool) -> u16 {
    let a = if ftz { flush::<H>(a) } else { a };
    if a & 0x7fff > H::INFINITY {
        0x7fff
    } else {
        a & 0x7fff
    }
}

/// `min`
#[inline(always)]
pub fn min<H: Half>(a: u16, b: u16, mode: Extremum) -> u16 {
    let (a, b) = if mode.ftz {
        (flush::<H>(a), flush::<H>(b))
    } else {
        (a, b)
    };
    H::narrow(f64::from(min_f32(
        H::widen(a),
        H::widen(b),
        Extremum { ftz: false, ..mode },
    )))
}

/// `max`
#[inline(always)]
pub fn max<H: Half>(a: u16, b: u16, mode: Extremum) -> u16 {
    let (a, b) = if mode.ftz {
        (flush::<H>(a), flush::<H>(b))
    } else {
        (a, b)
    };
    H::narrow(f64::from(max_f32(
        H::widen(a),
        H::widen(b),
        Extremum { ftz: false, ..mode },
    )))
}

/// `tanh.approx`
#[inline(always)]
pub fn tanh<H: Half>(a: u16) -> u16 {
    H::narrow(f64::from(H::widen(a)).tanh())
}

/// `ex2.approx`; `.ftz` is implied for bf16 and flushes operand and result.
#[inline(always)]
pub fn ex2<H: Half>(a: u16, ftz: bool) -> u16 {
    result::<H>(
        operand::<H>(a, ftz).exp2(),
        Mode {
            ftz,
            ..Mode::default()
        },
    )
}

/// One function on both halves of a packed operand.
#[inline(always)]
pub fn both(a: u32, f: impl Fn(u16) -> u16) -> u32 {
    u32::from(f(a as u16)) | u32::from(f((a >> 16) as u16)) << 16
}

/// One function of two operands on both halves.
#[inline(always)]
pub fn both2(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    u32::from(f(a as u16, b as u16)) | u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16
}

/// One function of three operands on both halves.
#[inline(always)]
pub fn both3(a: u32, b: u32, c: u32, f: impl Fn(u16, u16, u16) -> u16) -> u32 {
    u32::from(f(a as u16, b as u16, c as u16))
        | u32::from(f((a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16)) << 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arith::soft::Exact;

    fn check<H: Half, const E: u32, const M: u32>() {
        let mut state = 5u64;
        for _ in 0..200_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let mixed = state ^ state >> 31;
            let (a, b, c) = (mixed as u16, (mixed >> 16) as u16, (mixed >> 32) as u16);
            let (x, y, z) = (H::widen(a), H::widen(b), H::widen(c));
            if !(x.is_finite() && y.is_finite() && z.is_finite()) {
                continue;
            }
            let [x, y, z] = [x, y, z].map(|v| Exact::from_f64(v.into()));
            let bits = |e: Exact| e.round::<E, M>(Round::Nearest) as u16;
            let mode = Mode::default();
            assert_eq!(
                add::<H>(a, b, mode),
                bits(x.add(y, Round::Nearest)),
                "{a:#x} + {b:#x}"
            );
            assert_eq!(mul::<H>(a, b, mode), bits(x.mul(y)), "{a:#x} * {b:#x}");
            assert_eq!(
                fma::<H>(a, b, c, mode),
                bits(x.mul(y).add(z, Round::Nearest)),
                "{a:#x} * {b:#x} + {c:#x}"
            );
        }
    }

    #[test]
    fn one_rounding() {
        check::<F16, 5, 10>();
        check::<BF16, 8, 7>();
    }

    #[test]
    fn modifiers() {
        let relu = Mode {
            relu: true,
            ..Mode::default()
        };
        let sat = Mode {
            sat: true,
            ..Mode::default()
        };
        let ftz = Mode {
            ftz: true,
            ..Mode::default()
        };
        assert_eq!(fma::<F16>(0x3c00, 0xbc00, 0, relu), 0);
        assert_eq!(fma::<F16>(0x7fff, 0xbc00, 0, relu), 0x7fff);
        assert_eq!(add::<F16>(0x4000, 0x4000, sat), 0x3c00);
        assert_eq!(mul::<F16>(0x7e01, 0x4000, sat), 0);
        assert_eq!(add::<F16>(1, 1, ftz), 0);
        assert_eq!(add::<F16>(1, 1, Mode::default()), 2);
        assert_eq!(neg::<F16>(0xfe00, false), 0x7fff);
        assert_eq!(abs::<BF16>(0xbf80, false), 0x3f80);
        assert_eq!(min::<F16>(0x7e00, 0x3c00, Extremum::default()), 0x3c00);
        assert_eq!(
            max::<F16>(
                0x7e00,
                0x3c00,
                Extremum {
                    nan: true,
                    ..Extremum::default()
                }
            ),
            0x7fff
        );
        assert_eq!(fma_oob::<F16>(0xffff, 0x3c00, 0x3c00, Mode::default()), 0);
        assert_eq!(ex2::<F16>(0x4000, false), 0x4400);
        assert_eq!(
            both2(0x3c00_4000, 0x3c00_3c00, |a, b| add::<F16>(
                a,
                b,
                Mode::default()
            )),
            0x4000_4200
        );
    }
}
