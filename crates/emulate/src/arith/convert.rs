//! `cvt` between integers, f16, bf16, f32 and f64 (PTX ISA 9.7.9.21).
//!
//! Float sources are widened to f64, which is exact, and rounded once.

use super::Round;
use super::integer::Integer;
use super::soft::{Exact, bias, overflow};

/// NaN as PTX's f32 instructions write it.
pub const NAN_F32: u32 = 0x7fff_ffff;
/// NaN as PTX's f16 and bf16 instructions write it.
pub const NAN_F16: u16 = 0x7fff;

/// A finite or special f64 in the format with `E` exponent and `M` mantissa
/// bits, correctly rounded. NaN becomes all ones below the sign.
#[inline(always)]
pub fn round_f64<const E: u32, const M: u32>(x: f64, mode: Round) -> u32 {
    let bits = x.to_bits();
    let negative = bits >> 63 == 1;
    let magnitude = bits & (u64::MAX >> 1);
    let exponent = (magnitude >> 52) as i32 - 1023;
    let minimum = 1 - bias(E);
    // A subnormal f64 is far below every smaller format: its missing implicit
    // bit changes nothing but that it must not appear for zero.
    let implicit = u64::from(exponent > -1023) << 52;
    let mantissa = (magnitude & ((1 << 52) - 1)) | implicit;
    let drop = (52 - M as i32 + (minimum - exponent).max(0)).min(63) as u32;
    let kept = mantissa >> drop;
    let low = mantissa & ((1u64 << drop) - 1);
    let half = 1u64 << (drop - 1);
    let up = match mode {
        Round::Nearest => low > half || (low == half && kept & 1 == 1),
        Round::Away => low >= half,
        Round::Zero => false,
        Round::Down => negative && low != 0,
        Round::Up => !negative && low != 0,
    };
    let field = (exponent.max(minimum) - minimum) as u64;
    let infinity = ((1u64 << E) - 1) << M;
    let finite = (field << M) + kept + u64::from(up);
    let finite = if finite >= infinity {
        overflow(negative, infinity, mode)
    } else {
        finite
    };
    let special = if magnitude > 0x7ff << 52 {
        (1 << (E + M)) - 1
    } else {
        infinity
    };
    let result = if magnitude >= 0x7ff << 52 {
        special
    } else {
        finite
    };
    let sign = u64::from(negative && magnitude <= 0x7ff << 52) << (E + M);
    (result | sign) as u32
}

/// A subnormal f32 becomes zero of its sign: `.ftz`.
#[inline(always)]
pub fn flush(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 {
        bits & 0x8000_0000
    } else {
        bits
    })
}

/// NaN in PTX's form for f32.
#[inline(always)]
pub fn canonical(x: f32) -> f32 {
    if x.is_nan() {
        f32::from_bits(NAN_F32)
    } else {
        x
    }
}

/// `cvt.f64.f32`: exact.
#[inline(always)]
pub fn f32_to_f64(x: f32) -> f64 {
    f64::from(x)
}

/// `cvt.rn.f32.f64` and the other roundings.
#[inline(always)]
pub fn f64_to_f32(x: f64, mode: Round) -> f32 {
    match mode {
        Round::Nearest => canonical(x as f32),
        _ => f32::from_bits(round_f64::<8, 23>(x, mode)),
    }
}

/// f16 bits to f32: exact.
#[inline(always)]
pub fn f16_to_f32(h: u16) -> f32 {
    let magnitude = u32::from(h & 0x7fff) << 13;
    // Multiplying by 2^112 moves the bias, of subnormals too.
    let scaled = (f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23)).to_bits();
    let bits = if h & 0x7c00 == 0x7c00 {
        magnitude | 0x7f80_0000
    } else {
        scaled
    };
    canonical(f32::from_bits(bits | u32::from(h & 0x8000) << 16))
}

/// bf16 bits to f32: exact.
#[inline(always)]
pub fn bf16_to_f32(h: u16) -> f32 {
    canonical(f32::from_bits(u32::from(h) << 16))
}

/// f64 to f16 bits, rounded once.
#[inline(always)]
pub fn f64_to_f16(x: f64, mode: Round) -> u16 {
    round_f64::<5, 10>(x, mode) as u16
}

/// f32 to f16 bits.
#[inline(always)]
pub fn f32_to_f16(x: f32, mode: Round) -> u16 {
    f64_to_f16(f64::from(x), mode)
}

/// f64 to bf16 bits, rounded once.
#[inline(always)]
pub fn f64_to_bf16(x: f64, mode: Round) -> u16 {
    round_f64::<8, 7>(x, mode) as u16
}

/// f32 to bf16 bits.
#[inline(always)]
pub fn f32_to_bf16(x: f32, mode: Round) -> u16 {
    f64_to_bf16(f64::from(x), mode)
}

/// `cvt` between integers: the value modulo 2^N.
#[inline(always)]
pub fn integer<S: Integer, D: Integer>(x: S) -> D {
    D::from_bits(x.extended())
}

/// `cvt.sat` between integers: the value clamped to the target's range.
#[inline(always)]
pub fn integer_sat<S: Integer, D: Integer>(x: S) -> D {
    let clamped = x.value().clamp(D::MIN.value(), D::MAX.value());
    D::from_bits(clamped as u64)
}

/// `cvt.rn.f32.s32`, …: an integer to f32.
#[inline(always)]
pub fn integer_to_f32<S: Integer>(x: S, mode: Round) -> f32 {
    match mode {
        Round::Nearest if S::SIGNED => (x.extended() as i64) as f32,
        Round::Nearest => x.bits() as f32,
        _ => f32::from_bits(exact(x).round::<8, 23>(mode) as u32),
    }
}

/// An integer to f64.
#[inline(always)]
pub fn integer_to_f64<S: Integer>(x: S, mode: Round) -> f64 {
    match mode {
        Round::Nearest if S::SIGNED => (x.extended() as i64) as f64,
        Round::Nearest => x.bits() as f64,
        _ => f64::from_bits(exact(x).round::<11, 52>(mode)),
    }
}

/// An integer to f16 bits.
#[inline(always)]
pub fn integer_to_f16<S: Integer>(x: S, mode: Round) -> u16 {
    exact(x).round::<5, 10>(mode) as u16
}

/// An integer to bf16 bits.
#[inline(always)]
pub fn integer_to_bf16<S: Integer>(x: S, mode: Round) -> u16 {
    exact(x).round::<8, 7>(mode) as u16
}

#[inline(always)]
fn exact<S: Integer>(x: S) -> Exact {
    if S::SIGNED {
        let value = x.extended() as i64;
        Exact::from_integer(value < 0, value.unsigned_abs())
    } else {
        Exact::from_integer(false, x.bits())
    }
}

/// `cvt.rni.f64.f64` and similar: to an integral value.
#[inline(always)]
pub fn integral_f64(x: f64, mode: Round) -> f64 {
    match mode {
        Round::Nearest => x.round_ties_even(),
        Round::Zero => x.trunc(),
        Round::Down => x.floor(),
        Round::Up => x.ceil(),
        Round::Away => x.round(),
    }
}

/// `cvt.rni.f32.f32` and similar: to an integral value.
#[inline(always)]
pub fn integral_f32(x: f32, mode: Round) -> f32 {
    canonical(match mode {
        Round::Nearest => x.round_ties_even(),
        Round::Zero => x.trunc(),
        Round::Down => x.floor(),
        Round::Up => x.ceil(),
        Round::Away => x.round(),
    })
}

/// f32 (and by it f16, bf16) to an integer: rounded to an integral value,
/// clamped to the target's range. NaN gives 0, or 2^(N−1) if the target has
/// 64 bits.
#[inline(always)]
pub fn f32_to_integer<D: Integer>(x: f32, mode: Round) -> D {
    if x.is_nan() {
        return if D::BITS == 64 {
            D::from_bits(1 << 63)
        } else {
            D::ZERO
        };
    }
    clamp(f64::from(integral_f32(x, mode)))
}

/// f64 to an integer, likewise. NaN gives 2^(N−1).
#[inline(always)]
pub fn f64_to_integer<D: Integer>(x: f64, mode: Round) -> D {
    if x.is_nan() {
        return D::from_bits(1 << (D::BITS - 1));
    }
    clamp(integral_f64(x, mode))
}

/// An integral value in the target's range. Rust's casts saturate at 64 bits,
/// the integer clamp does the rest.
#[inline(always)]
fn clamp<D: Integer>(x: f64) -> D {
    if D::BITS == 64 {
        return D::from_bits(if D::SIGNED {
            (x as i64) as u64
        } else {
            x as u64
        });
    }
    // Saturates at 64 bits, keeping order; then both bounds fit in i64.
    let wide = x as i64;
    D::from_bits(wide.clamp(D::MIN.value() as i64, D::MAX.value() as i64) as u64)
}

/// `.sat` on a float result: clamped to [0, 1], NaN to +0.
#[inline(always)]
pub fn saturate_f32(x: f32) -> f32 {
    // Comparisons that NaN fails, so that it falls to 0; −0 gives +0.
    let low = if x > 0.0 { x } else { 0.0 };
    if low < 1.0 { low } else { 1.0 }
}

/// `.sat` for f64.
#[inline(always)]
pub fn saturate_f64(x: f64) -> f64 {
    let low = if x > 0.0 { x } else { 0.0 };
    if low < 1.0 { low } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_widening() {
        for bits in 0..=u16::MAX {
            let (wide, brain) = (f16_to_f32(bits), bf16_to_f32(bits));
            assert_eq!(
                wide.to_bits(),
                canonical(half::f16::from_bits(bits).to_f32()).to_bits()
            );
            for mode in Round::ALL {
                let expected = if wide.is_nan() { NAN_F16 } else { bits };
                assert_eq!(f32_to_f16(wide, mode), expected, "{bits:#x} {mode:?}");
                let expected = if brain.is_nan() { NAN_F16 } else { bits };
                assert_eq!(f32_to_bf16(brain, mode), expected, "{bits:#x} {mode:?}");
            }
        }
    }

    #[test]
    fn narrowing_agrees_with_the_exact_path() {
        let mut x = 0x1234_5678_9abc_def1u64;
        for i in 0..400_000u64 {
            x = x
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(i | 1);
            // Exponents around the limits of the small formats.
            let exponent = match i % 4 {
                0 => 1023 - 160 + (x >> 40) % 40,
                1 => 1023 - 30 + (x >> 40) % 50,
                2 => 1023 + 120 + (x >> 40) % 10,
                _ => (x >> 40) % 2047,
            };
            let fraction = if i & 8 == 0 {
                x & 0xf_ffff_ffff_ffff
            } else {
                x & 0xf_fc00_0000_0000
            };
            let value = f64::from_bits((x >> 63) << 63 | exponent << 52 | fraction);
            let slow = Exact::from_f64(value);
            for mode in Round::ALL {
                assert_eq!(
                    u64::from(round_f64::<8, 23>(value, mode)),
                    slow.round::<8, 23>(mode),
                    "{value:e} {mode:?}"
                );
                assert_eq!(
                    u64::from(round_f64::<5, 10>(value, mode)),
                    slow.round::<5, 10>(mode),
                    "{value:e} {mode:?}"
                );
                assert_eq!(
                    u64::from(round_f64::<8, 7>(value, mode)),
                    slow.round::<8, 7>(mode),
                    "{value:e} {mode:?}"
                );
                assert_eq!(
                    u64::from(round_f64::<5, 2>(value, mode)),
                    slow.round::<5, 2>(mode),
                    "{value:e} {mode:?}"
                );
            }
            assert_eq!(
                f64_to_f32(value, Round::Nearest).to_bits(),
                round_f64::<8, 23>(value, Round::Nearest)
            );
        }
    }

    #[test]
    fn specials() {
        assert_eq!(f64_to_f32(f64::NAN, Round::Zero).to_bits(), NAN_F32);
        assert_eq!(f64_to_f32(-f64::NAN, Round::Nearest).to_bits(), NAN_F32);
        assert_eq!(f32_to_f16(f32::NEG_INFINITY, Round::Up), 0xfc00);
        assert_eq!(f32_to_f16(1e9, Round::Zero), 0x7bff);
        assert_eq!(f32_to_f16(1e9, Round::Nearest), 0x7c00);
        assert_eq!(f32_to_f16(-1e9, Round::Up), 0xfbff);
        assert_eq!(f32_to_f16(-0.0, Round::Up), 0x8000);
        assert_eq!(f64_to_f16(5e-324, Round::Up), 1);
        assert_eq!(f64_to_f16(-5e-324, Round::Down), 0x8001);
        assert_eq!(f64_to_f16(5e-324, Round::Nearest), 0);
        // One rounding: through f32 this would be a tie, and go to even.
        assert_eq!(
            f64_to_f16(1.0 + 2f64.powi(-11) + 2f64.powi(-40), Round::Nearest),
            0x3c01
        );
    }

    #[test]
    fn floats_to_integers_clamp() {
        assert_eq!(f32_to_integer::<i32>(f32::NAN, Round::Zero), 0);
        assert_eq!(f32_to_integer::<u64>(f32::NAN, Round::Zero), 1 << 63);
        assert_eq!(f64_to_integer::<i32>(f64::NAN, Round::Zero), i32::MIN);
        assert_eq!(f32_to_integer::<u8>(300.0, Round::Zero), 255);
        assert_eq!(f32_to_integer::<u32>(-5.0, Round::Zero), 0);
        assert_eq!(f32_to_integer::<i8>(-129.5, Round::Nearest), -128);
        assert_eq!(f32_to_integer::<i32>(3e9, Round::Zero), i32::MAX);
        assert_eq!(f32_to_integer::<i32>(2.5, Round::Nearest), 2);
        assert_eq!(f32_to_integer::<i32>(-2.5, Round::Down), -3);
        assert_eq!(f32_to_integer::<i32>(2.1, Round::Up), 3);
        assert_eq!(f64_to_integer::<u64>(1.9e19, Round::Zero), u64::MAX);
        assert_eq!(f64_to_integer::<u64>(-1.0, Round::Zero), 0);
        assert_eq!(f64_to_integer::<i64>(f64::INFINITY, Round::Zero), i64::MAX);
        assert_eq!(f64_to_integer::<u32>(4e9, Round::Zero), 4_000_000_000);
    }

    #[test]
    fn integers_to_floats_round_once() {
        assert_eq!(integer_to_f32(0x0100_0001u32, Round::Nearest), 16_777_216.0);
        assert_eq!(integer_to_f32(0x0100_0001u32, Round::Up), 16_777_218.0);
        assert_eq!(integer_to_f32(-0x0100_0001i32, Round::Up), -16_777_216.0);
        assert_eq!(
            integer_to_f64(u64::MAX, Round::Zero),
            18_446_744_073_709_549_568.0
        );
        assert_eq!(integer_to_f16(70_000u32, Round::Nearest), 0x7c00);
        assert_eq!(integer_to_f16(-1i8, Round::Nearest), 0xbc00);
        assert_eq!(integer_to_bf16(257u16, Round::Nearest), 0x4380);
        assert_eq!(integer_to_f32(0i32, Round::Down).to_bits(), 0);
        assert_eq!(integer::<i8, u32>(-1), u32::MAX);
        assert_eq!(integer::<u8, i64>(255), 255);
        assert_eq!(integer_sat::<i32, u8>(-5), 0);
        assert_eq!(integer_sat::<u64, i32>(u64::MAX), i32::MAX);
        assert_eq!(integer_sat::<u32, u64>(7), 7);
    }

    #[test]
    fn saturation() {
        assert_eq!(saturate_f32(f32::NAN).to_bits(), 0);
        assert_eq!(saturate_f32(-0.0).to_bits(), 0);
        assert_eq!(saturate_f32(1.5), 1.0);
        assert_eq!(saturate_f64(0.25), 0.25);
    }
}
