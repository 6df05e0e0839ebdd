//! tf32, fp8 and packed conversions (PTX ISA 9.7.9.21, 9.7.9.22).

use super::Round;
use super::convert::{NAN_F32, bf16_to_f32, f16_to_f32, integer_sat, round_f64};
use super::half::{BF16, F16, Half, relu};
use super::integer::Integer;

/// `cvt.rna.tf32.f32`, `cvt.rn.tf32.f32`, `cvt.rz.tf32.f32`: f32 bits with the
/// low 13 zero. `satfinite` keeps overflow finite.
#[inline(always)]
pub fn f32_to_tf32(x: f32, mode: Round, relu: bool, satfinite: bool) -> u32 {
    if x.is_nan() {
        return NAN_F32;
    }
    if relu && x.is_sign_negative() {
        return 0;
    }
    let rounded = round_f64::<8, 10>(f64::from(x), mode) << 13;
    if satfinite && rounded & 0x7fff_ffff == 0x7f80_0000 {
        rounded - (1 << 13)
    } else {
        rounded
    }
}

/// `cvt.pack.sat`: two integers, saturated to `bits` each, `b` in the lowest
/// bits; above them the low bits of `c`. (Of 16 bits nothing is left above.)
#[inline(always)]
pub fn pack_integers(a: i32, b: i32, c: u32, bits: u32, signed: bool) -> u32 {
    let (least, most) = match signed {
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    };
    let part = |x: i32| x.clamp(least, most) as u32 & ((1 << bits) - 1);
    let packed = part(a) << bits | part(b);
    packed | c.checked_shl(2 * bits).unwrap_or(0)
}

/// An fp8 format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fp8 {
    /// `.e4m3`: no infinity, largest 448, NaN 0x7f.
    E4M3,
    /// `.e5m2`: as IEEE, largest 57344.
    E5M2,
}

/// `cvt.rn.satfinite.e4m3x2.f32` and similar, one element: overflow and
/// infinity become the largest finite value, NaN 0x7f.
#[inline]
pub fn f32_to_fp8(x: f32, format: Fp8, relu: bool) -> u8 {
    if x.is_nan() {
        return 0x7f;
    }
    if relu && x.is_sign_negative() {
        return 0;
    }
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    if x.is_infinite() {
        return sign | if format == Fp8::E4M3 { 0x7e } else { 0x7b };
    }
    let magnitude = match format {
        // The top exponent of e4m3 holds numbers: no IEEE-like rounding fits.
        Fp8::E4M3 => e4m3_magnitude(x.abs()),
        Fp8::E5M2 => (round_f64::<5, 2>(f64::from(x.abs()), Round::Nearest) as u8).min(0x7b),
    };
    sign | magnitude
}

/// Rounds a finite magnitude to e4m3. Steps are 2^-9 below 2^-6 and three
/// bits below the leading one above; scaling by a power of two is exact.
#[inline]
fn e4m3_magnitude(x: f32) -> u8 {
    let x = f64::from(x);
    if x >= 464.0 {
        return 0x7e;
    }
    let exponent = if x < 2f64.powi(-6) {
        -6
    } else {
        (x.to_bits() >> 52) as i32 - 1023
    };
    let steps = (x / 2f64.powi(exponent - 3)).round_ties_even() as i32;
    // `steps` holds the implicit bit (8) for normal numbers: the exponent
    // field is one less than where it would carry.
    ((exponent + 6) * 8 + steps).min(0x7e) as u8
}

/// One fp8 element to f16 bits: exact.
#[inline]
pub fn fp8_to_f16(bits: u8, format: Fp8) -> u16 {
    let sign = u16::from(bits & 0x80) << 8;
    match format {
        Fp8::E5M2 if bits & 0x7f > 0x7c => 0x7fff,
        Fp8::E5M2 => u16::from(bits) << 8,
        Fp8::E4M3 if bits & 0x7f == 0x7f => 0x7fff,
        Fp8::E4M3 => {
            let field = i32::from(bits >> 3 & 15);
            let fraction = f64::from(bits & 7);
            let value = if field == 0 {
                fraction * 2f64.powi(-9)
            } else {
                (8.0 + fraction) * 2f64.powi(field - 10)
            };
            sign | F16::narrow(value)
        }
    }
}

/// `cvt.rn.satfinite.e4m3x2.f32 d, a, b`: `a` in the upper byte.
#[inline]
pub fn f32x2_to_fp8x2(a: f32, b: f32, format: Fp8, relu: bool) -> u16 {
    u16::from(f32_to_fp8(a, format, relu)) << 8 | u16::from(f32_to_fp8(b, format, relu))
}

/// `cvt.rn.satfinite.e4m3x2.f16x2`
#[inline]
pub fn f16x2_to_fp8x2(a: u32, format: Fp8, relu: bool) -> u16 {
    f32x2_to_fp8x2(
        f16_to_f32((a >> 16) as u16),
        f16_to_f32(a as u16),
        format,
        relu,
    )
}

/// `cvt.rn.f16x2.e4m3x2` and similar.
#[inline]
pub fn fp8x2_to_f16x2(a: u16, format: Fp8, with_relu: bool) -> u32 {
    let convert = |bits| {
        let half = fp8_to_f16(bits, format);
        u32::from(if with_relu { relu::<F16>(half) } else { half })
    };
    convert(a as u8) | convert((a >> 8) as u8) << 16
}

/// Keeps an overflow finite: infinities become the largest finite number.
#[inline(always)]
fn finite<H: Half>(bits: u16) -> u16 {
    if bits & 0x7fff == H::INFINITY {
        bits - 1
    } else {
        bits
    }
}

/// `cvt.{rn,rz}{.relu}{.satfinite}.f16.f32`
#[inline(always)]
pub fn f32_to_f16(x: f32, mode: Round, with_relu: bool, satfinite: bool) -> u16 {
    let bits = round_f64::<5, 10>(f64::from(x), mode) as u16;
    let bits = if with_relu { relu::<F16>(bits) } else { bits };
    if satfinite { finite::<F16>(bits) } else { bits }
}

/// `cvt.{rn,rz}{.relu}{.satfinite}.bf16.f32`
#[inline(always)]
pub fn f32_to_bf16(x: f32, mode: Round, with_relu: bool, satfinite: bool) -> u16 {
    let bits = round_f64::<8, 7>(f64::from(x), mode) as u16;
    let bits = if with_relu { relu::<BF16>(bits) } else { bits };
    if satfinite {
        finite::<BF16>(bits)
    } else {
        bits
    }
}

/// `cvt.rn.f16x2.f32 d, a, b`: `a` in the upper half.
#[inline(always)]
pub fn f32x2_to_f16x2(a: f32, b: f32, mode: Round, relu: bool, satfinite: bool) -> u32 {
    u32::from(f32_to_f16(a, mode, relu, satfinite)) << 16
        | u32::from(f32_to_f16(b, mode, relu, satfinite))
}

/// `cvt.rn.bf16x2.f32 d, a, b`: `a` in the upper half.
#[inline(always)]
pub fn f32x2_to_bf16x2(a: f32, b: f32, mode: Round, relu: bool, satfinite: bool) -> u32 {
    u32::from(f32_to_bf16(a, mode, relu, satfinite)) << 16
        | u32::from(f32_to_bf16(b, mode, relu, satfinite))
}

/// Both halves of an f16x2 as f32: (low, high).
#[inline(always)]
pub fn f16x2_to_f32x2(a: u32) -> (f32, f32) {
    (f16_to_f32(a as u16), f16_to_f32((a >> 16) as u16))
}

/// Both halves of a bf16x2 as f32: (low, high).
#[inline(always)]
pub fn bf16x2_to_f32x2(a: u32) -> (f32, f32) {
    (bf16_to_f32(a as u16), bf16_to_f32((a >> 16) as u16))
}

/// `cvt.pack.sat.T.s32 d, a, b` with 16-bit T: `a` above `b`.
#[inline(always)]
pub fn pack16<T: Integer>(a: i32, b: i32) -> u32 {
    (integer_sat::<i32, T>(a).bits() as u32) << 16 | integer_sat::<i32, T>(b).bits() as u32
}

/// `cvt.pack.sat.T.s32.b32 d, a, b, c` with T of `bits` 8, 4 or 2: the low
/// part of `c` moves up, `a` and `b` follow below it.
#[inline(always)]
pub fn pack_below(a: i32, b: i32, c: u32, bits: u32, signed: bool) -> u32 {
    let (low, high) = if signed {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    };
    let element = |x: i32| (x.clamp(low, high) as u32) & ((1 << bits) - 1);
    c << (2 * bits) | element(a) << bits | element(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_integers_are_saturated_and_pushed_in_from_below() {
        assert_eq!(pack_integers(70000, -5, 9, 16, false), 0xffff_0000);
        assert_eq!(pack_integers(-70000, 70000, 9, 16, true), 0x8000_7fff);
        assert_eq!(pack_integers(300, 17, 0xabcd_1234, 8, false), 0x1234_ff11);
        assert_eq!(pack_integers(-300, 17, 0xabcd_1234, 8, true), 0x1234_8011);
        assert_eq!(pack_integers(-1, 20, 0x12_3456, 4, false), 0x1234_560f);
        assert_eq!(pack_integers(-1, -20, 0x12_3456, 4, true), 0x1234_56f8);
        assert_eq!(pack_integers(5, 1, 0x0fff_ffff, 2, false), 0xffff_fffd);
        assert_eq!(pack_integers(-5, 1, 0, 2, true), 0b1001);
    }

    #[test]
    fn tf32_keeps_ten_bits() {
        assert_eq!(f32_to_tf32(1.0, Round::Away, false, false), 1f32.to_bits());
        assert_eq!(
            f32_to_tf32(f32::from_bits(0x3f80_1000), Round::Away, false, false),
            0x3f80_2000
        );
        assert_eq!(
            f32_to_tf32(f32::from_bits(0x3f80_1000), Round::Nearest, false, false),
            0x3f80_0000
        );
        assert_eq!(
            f32_to_tf32(f32::MAX, Round::Nearest, false, false),
            0x7f80_0000
        );
        assert_eq!(
            f32_to_tf32(f32::MAX, Round::Nearest, false, true),
            0x7f7f_e000
        );
        assert_eq!(f32_to_tf32(-2.0, Round::Nearest, true, false), 0);
    }

    #[test]
    fn fp8_round_trips_and_rounds_to_even() {
        for format in [Fp8::E4M3, Fp8::E5M2] {
            let mut last = -1.0;
            for bits in 0..=0x7fu8 {
                let value = f16_to_f32(fp8_to_f16(bits, format));
                if !value.is_finite() {
                    continue;
                }
                assert!(value > last);
                if last >= 0.0 {
                    // The middle of two neighbours is rounded to the even one.
                    let middle = (value + last) / 2.0;
                    let even = if bits & 1 == 0 { bits } else { bits - 1 };
                    assert_eq!(
                        f32_to_fp8(middle, format, false),
                        even,
                        "{middle} {format:?}"
                    );
                    assert_eq!(f32_to_fp8(middle.next_up(), format, false), bits);
                    assert_eq!(f32_to_fp8(middle.next_down(), format, false), bits - 1);
                }
                last = value;
                assert_eq!(f32_to_fp8(value, format, false), bits, "{value} {format:?}");
                assert_eq!(f32_to_fp8(-value, format, false), bits | 0x80);
            }
        }
        assert_eq!(f16_to_f32(fp8_to_f16(0x7e, Fp8::E4M3)), 448.0);
        assert_eq!(f16_to_f32(fp8_to_f16(0x7b, Fp8::E5M2)), 57344.0);
        assert_eq!(f32_to_fp8(1e9, Fp8::E4M3, false), 0x7e);
        assert_eq!(f32_to_fp8(f32::NEG_INFINITY, Fp8::E5M2, false), 0xfb);
        assert_eq!(f32_to_fp8(f32::NAN, Fp8::E5M2, false), 0x7f);
        assert_eq!(f32_to_fp8(-1.0, Fp8::E5M2, true), 0);
        assert_eq!(f32x2_to_fp8x2(1.0, 2.0, Fp8::E4M3, false), 0x3840);
        assert_eq!(fp8x2_to_f16x2(0x3840, Fp8::E4M3, false), 0x3c00_4000);
        assert_eq!(f16x2_to_fp8x2(0x3c00_4000, Fp8::E4M3, false), 0x3840);
    }

    #[test]
    fn packing() {
        assert_eq!(
            f32x2_to_f16x2(1.0, 2.0, Round::Nearest, false, false),
            0x3c00_4000
        );
        assert_eq!(
            f32x2_to_bf16x2(1.0, -2.0, Round::Nearest, true, false),
            0x3f80_0000
        );
        assert_eq!(f32_to_f16(1e9, Round::Nearest, false, true), 0x7bff);
        assert_eq!(pack16::<i16>(40_000, -1), 0x7fff_ffff);
        assert_eq!(pack16::<u16>(-4, 70_000), 0xffff);
        assert_eq!(pack_below(300, -3, 0x1234, 8, false), 0x1234_ff00);
        assert_eq!(pack_below(-300, -3, 0x1234, 8, true), 0x1234_80fd);
        assert_eq!(pack_below(9, -9, 0x1, 4, true), 0x178);
        assert_eq!(bf16x2_to_f32x2(0x3f80_4000), (2.0, 1.0));
        assert_eq!(f16x2_to_f32x2(0x3c00_4000), (2.0, 1.0));
    }
}
