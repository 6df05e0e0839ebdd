//! Approximate functions (PTX ISA 9.7.3). The ISA bounds their error; here they
//! have the precision of the host's library, which is within every bound. So
//! results may differ from a GPU's in the last bits, as those of two GPU
//! generations may.

use super::convert::{canonical, flush};

#[inline(always)]
fn through(a: f32, ftz: bool, f: impl Fn(f32) -> f32) -> f32 {
    if ftz {
        flush(canonical(f(flush(a))))
    } else {
        canonical(f(a))
    }
}

/// `div.approx.f32`: a · (1/b), so for |b| above 2^126 the result is 0, or NaN
/// if `a` is infinite.
#[inline(always)]
pub fn div(a: f32, b: f32, ftz: bool) -> f32 {
    let (a, b) = if ftz { (flush(a), flush(b)) } else { (a, b) };
    let huge = b.abs() > f32::from_bits((127 + 126) << 23) && b.is_finite();
    let quotient = if huge { a * 0.0f32.copysign(b) } else { a / b };
    canonical(if ftz { flush(quotient) } else { quotient })
}

/// `div.full.f32`: scaled, so accurate over the full range.
#[inline(always)]
pub fn div_full(a: f32, b: f32, ftz: bool) -> f32 {
    let (a, b) = if ftz { (flush(a), flush(b)) } else { (a, b) };
    canonical(if ftz { flush(a / b) } else { a / b })
}

/// `rcp.approx.f32`
#[inline(always)]
pub fn rcp(a: f32, ftz: bool) -> f32 {
    through(a, ftz, |a| 1.0 / a)
}

/// `rcp.approx.ftz.f64`: 20 bits; the low 32 bits of operand and result are
/// taken as zero.
#[inline(always)]
pub fn rcp_f64(a: f64) -> f64 {
    high_word(1.0 / flush_f64(high_word(a)))
}

/// `sqrt.approx.f32`
#[inline(always)]
pub fn sqrt(a: f32, ftz: bool) -> f32 {
    through(a, ftz, f32::sqrt)
}

/// `rsqrt.approx.f32`
#[inline(always)]
pub fn rsqrt(a: f32, ftz: bool) -> f32 {
    through(a, ftz, |a| (1.0 / f64::from(a).sqrt()) as f32)
}

/// `rsqrt.approx.f64`
#[inline(always)]
pub fn rsqrt_f64(a: f64) -> f64 {
    1.0 / a.sqrt()
}

/// `rsqrt.approx.ftz.f64`
#[inline(always)]
pub fn rsqrt_f64_ftz(a: f64) -> f64 {
    high_word(1.0 / flush_f64(high_word(a)).sqrt())
}

#[inline(always)]
fn high_word(a: f64) -> f64 {
    f64::from_bits(a.to_bits() & 0xffff_ffff_0000_0000)
}

#[inline(always)]
fn flush_f64(a: f64) -> f64 {
    if a.is_subnormal() {
        0.0f64.copysign(a)
    } else {
        a
    }
}

/// `sin.approx.f32`; `a` in radians.
#[inline(always)]
pub fn sin(a: f32, ftz: bool) -> f32 {
    through(a, ftz, f32::sin)
}

/// `cos.approx.f32`; `a` in radians.
#[inline(always)]
pub fn cos(a: f32, ftz: bool) -> f32 {
    through(a, ftz, f32::cos)
}

/// `ex2.approx.f32`
#[inline(always)]
pub fn ex2(a: f32, ftz: bool) -> f32 {
    through(a, ftz, f32::exp2)
}

/// `lg2.approx.f32`
#[inline(always)]
pub fn lg2(a: f32, ftz: bool) -> f32 {
    through(a, ftz, f32::log2)
}

/// `tanh.approx.f32`
#[inline(always)]
pub fn tanh(a: f32) -> f32 {
    canonical(a.tanh())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_operands() {
        // Tables of special values in the ISA.
        let tiny = f32::from_bits(1);
        assert_eq!(rcp(0.0, false), f32::INFINITY);
        assert_eq!(rcp(-0.0, false), f32::NEG_INFINITY);
        assert_eq!(rcp(tiny, true), f32::INFINITY);
        assert_eq!(rcp(f32::NEG_INFINITY, false).to_bits(), 1 << 31);
        assert_eq!(rsqrt(-1.0, false).to_bits(), 0x7fff_ffff);
        assert_eq!(rsqrt(0.0, false), f32::INFINITY);
        assert_eq!(rsqrt(-0.0, false), f32::NEG_INFINITY);
        assert_eq!(rsqrt(f32::INFINITY, false), 0.0);
        assert_eq!(sqrt(-0.0, false).to_bits(), 1 << 31);
        assert_eq!(sin(f32::INFINITY, false).to_bits(), 0x7fff_ffff);
        assert_eq!(sin(-0.0, false).to_bits(), 1 << 31);
        assert_eq!(cos(tiny, true), 1.0);
        assert_eq!(lg2(0.0, false), f32::NEG_INFINITY);
        assert_eq!(lg2(-1.0, false).to_bits(), 0x7fff_ffff);
        assert_eq!(ex2(f32::NEG_INFINITY, false), 0.0);
        assert_eq!(ex2(-149.0, false), tiny);
        assert_eq!(ex2(-149.0, true), 0.0);
        assert_eq!(tanh(f32::INFINITY), 1.0);
        assert_eq!(div(1.0, 2e38, false), 0.0);
        assert_eq!(div(f32::INFINITY, 2e38, false).to_bits(), 0x7fff_ffff);
        assert!(div_full(1e38, 2e38, false) == 0.5);
        assert_eq!(rcp_f64(4.0), 0.25);
    }

    #[test]
    fn errors_stay_within_the_documented_bounds() {
        for i in 0..20_000 {
            let x = (i as f32 - 10_000.0) * (std::f32::consts::PI / 10_000.0);
            assert!((f64::from(sin(x, false)) - f64::from(x).sin()).abs() <= 2f64.powf(-20.5));
            assert!((f64::from(cos(x, false)) - f64::from(x).cos()).abs() <= 2f64.powf(-20.5));
            let exact = f64::from(x).exp2();
            assert!((f64::from(ex2(x, false)) / exact - 1.0).abs() <= 2f64.powi(-22));
            let exact = f64::from(x).tanh();
            assert!((f64::from(tanh(x)) - exact).abs() <= 2f64.powi(-11) * exact.abs());
            let y = 1.0 + i as f32;
            let exact = 1.0 / f64::from(y).sqrt();
            assert!((f64::from(rsqrt(y, false)) / exact - 1.0).abs() <= 2f64.powf(-22.9));
            let exact = f64::from(y).log2();
            assert!(
                (f64::from(lg2(y, false)) - exact).abs() <= 2f64.powi(-22) * exact.abs().max(1.0)
            );
        }
    }
}
