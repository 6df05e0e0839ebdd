//! f32 and f64 arithmetic (PTX ISA 9.7.3) with every rounding, `.ftz`, `.sat`.

use super::Round;
use super::convert::{canonical, f64_to_f32, flush, saturate_f32};
use super::soft::{Exact, add_to_odd};

/// Modifiers of an f32 instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Mode {
    /// Rounding; `.rn` when none is written.
    pub round: Round,
    /// `.ftz`: subnormal operands and results become zeros of their sign.
    pub ftz: bool,
    /// `.sat`: the result is clamped to [0, 1].
    pub sat: bool,
}

#[inline(always)]
fn operand(x: f32, mode: Mode) -> f32 {
    if mode.ftz { flush(x) } else { x }
}

#[inline(always)]
fn result(x: f32, mode: Mode) -> f32 {
    let x = if mode.ftz { flush(x) } else { x };
    if mode.sat {
        saturate_f32(x)
    } else {
        canonical(x)
    }
}

/// An exact zero sum of numbers that are not both +0 is −0 under `.rm`
/// (IEEE 754, 6.3); f64 addition, which rounds to nearest, gives +0.
#[inline(always)]
fn signed_zero(sum: f64, a: f64, b: f64, round: Round) -> f64 {
    let positive = a.to_bits() == 0 && b.to_bits() == 0;
    if round == Round::Down && sum == 0.0 && !positive {
        -0.0
    } else {
        sum
    }
}

/// `add.f32`
#[inline(always)]
pub fn add_f32(a: f32, b: f32, mode: Mode) -> f32 {
    let (a, b) = (operand(a, mode), operand(b, mode));
    let sum = if mode.round == Round::Nearest {
        a + b
    } else {
        let (a, b) = (f64::from(a), f64::from(b));
        f64_to_f32(signed_zero(add_to_odd(a, b), a, b, mode.round), mode.round)
    };
    result(sum, mode)
}

/// `sub.f32`
#[inline(always)]
pub fn sub_f32(a: f32, b: f32, mode: Mode) -> f32 {
    add_f32(a, -b, mode)
}

/// `mul.f32`
#[inline(always)]
pub fn mul_f32(a: f32, b: f32, mode: Mode) -> f32 {
    let (a, b) = (operand(a, mode), operand(b, mode));
    let product = if mode.round == Round::Nearest {
        a * b
    } else {
        // 48 bits: exact in f64.
        f64_to_f32(f64::from(a) * f64::from(b), mode.round)
    };
    result(product, mode)
}

/// `fma.f32`, `mad.f32`: one rounding.
#[inline(always)]
pub fn fma_f32(a: f32, b: f32, c: f32, mode: Mode) -> f32 {
    fma_f32_on(a, b, c, mode, cfg!(target_feature = "fma"))
}

/// As [`fma_f32`], for code that is compiled for processors with a fused
/// instruction (`fused`) and without; the results are the same.
#[inline(always)]
pub fn fma_f32_on(a: f32, b: f32, c: f32, mode: Mode, fused: bool) -> f32 {
    let (a, b, c) = (operand(a, mode), operand(b, mode), operand(c, mode));
    if fused && mode.round == Round::Nearest {
        return result(a.mul_add(b, c), mode);
    }
    // The product is exact in f64; the odd sum survives a second rounding.
    // Without the instruction this is far cheaper than the library's fmaf,
    // and it vectorizes.
    let (product, addend) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = signed_zero(add_to_odd(product, addend), product, addend, mode.round);
    result(f64_to_f32(sum, mode.round), mode)
}

/// `div.rn.f32` and the other roundings.
#[inline(always)]
pub fn div_f32(a: f32, b: f32, mode: Mode) -> f32 {
    let (a, b) = (operand(a, mode), operand(b, mode));
    let nearest = a / b;
    let quotient = if mode.round == Round::Nearest || !a.is_finite() || !b.is_finite() || b == 0.0 {
        nearest
    } else {
        let exact = Exact::from_f64(f64::from(a)).div(Exact::from_f64(f64::from(b)));
        f32::from_bits(exact.round::<8, 23>(mode.round) as u32)
    };
    result(quotient, mode)
}

/// `rcp.rn.f32` and the other roundings.
#[inline(always)]
pub fn rcp_f32(a: f32, mode: Mode) -> f32 {
    div_f32(1.0, a, mode)
}

/// `sqrt.rn.f32` and the other roundings.
#[inline(always)]
pub fn sqrt_f32(a: f32, mode: Mode) -> f32 {
    let a = operand(a, mode);
    let nearest = a.sqrt();
    let root = if mode.round == Round::Nearest || !nearest.is_finite() || a == 0.0 {
        nearest
    } else {
        f32::from_bits(
            Exact::from_f64(f64::from(a))
                .sqrt()
                .round::<8, 23>(mode.round) as u32,
        )
    };
    result(root, mode)
}

/// `abs.f32`. NaN in PTX's form, as hardware gives.
#[inline(always)]
pub fn abs_f32(a: f32, ftz: bool) -> f32 {
    let a = if ftz { flush(a) } else { a };
    canonical(a.abs())
}

/// `neg.f32`
#[inline(always)]
pub fn neg_f32(a: f32, ftz: bool) -> f32 {
    let a = if ftz { flush(a) } else { a };
    canonical(-a)
}

/// Modifiers of `min` and `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Extremum {
    /// `.ftz`
    pub ftz: bool,
    /// `.NaN`: a NaN operand makes the result NaN; else the other is taken.
    pub nan: bool,
    /// `.xorsign.abs`: of the magnitudes, with the product's sign.
    pub xorsign_abs: bool,
}

macro_rules! extrema {
    ($float:ident, $bits:ident, $select:ident, $min:ident, $max:ident, $flush:expr, $canonical:expr) => {
        #[inline(always)]
        fn $select(a: $float, b: $float, mode: Extremum, larger: bool) -> $float {
            const SIGN: $bits = 1 << ($bits::BITS - 1);
            let sign = (a.to_bits() ^ b.to_bits()) & SIGN;
            let (a, b) = if mode.ftz {
                ($flush(a), $flush(b))
            } else {
                (a, b)
            };
            let (a, b) = if mode.xorsign_abs {
                (a.abs(), b.abs())
            } else {
                (a, b)
            };
            // −0 counts as less than +0.
            let first_less = a < b || (a == b && a.to_bits() & SIGN != 0);
            let chosen = if first_less != larger { a } else { b };
            let chosen = if b.is_nan() {
                a
            } else if a.is_nan() {
                b
            } else {
                chosen
            };
            let nan = a.is_nan() && b.is_nan() || mode.nan && (a.is_nan() || b.is_nan());
            let signed = if mode.xorsign_abs {
                $float::from_bits(chosen.to_bits() & !SIGN | sign)
            } else {
                chosen
            };
            if nan { $canonical } else { signed }
        }

        /// `min`
        #[inline(always)]
        pub fn $min(a: $float, b: $float, mode: Extremum) -> $float {
            $select(a, b, mode, false)
        }

        /// `max`
        #[inline(always)]
        pub fn $max(a: $float, b: $float, mode: Extremum) -> $float {
            $select(a, b, mode, true)
        }
    };
}

extrema!(
    f32,
    u32,
    select_f32,
    min_f32,
    max_f32,
    flush,
    f32::from_bits(super::convert::NAN_F32)
);
extrema!(
    f64,
    u64,
    select_f64,
    min_f64,
    max_f64,
    std::convert::identity,
    f64::from_bits(NAN_F64)
);

/// NaN as f64 instructions make it from operands that are none.
pub const NAN_F64: u64 = 0xfff8_0000_0000_0000;

/// Whether the exact path may take these operands.
#[inline(always)]
fn finite(a: f64, b: f64) -> bool {
    a.is_finite() && b.is_finite()
}

/// `add.f64`
#[inline(always)]
pub fn add_f64(a: f64, b: f64, round: Round) -> f64 {
    if round == Round::Nearest || !finite(a, b) {
        return a + b;
    }
    f64::from_bits(
        Exact::from_f64(a)
            .add(Exact::from_f64(b), round)
            .round::<11, 52>(round),
    )
}

/// `sub.f64`
#[inline(always)]
pub fn sub_f64(a: f64, b: f64, round: Round) -> f64 {
    if round == Round::Nearest {
        a - b
    } else {
        add_f64(a, -b, round)
    }
}

/// `mul.f64`
#[inline(always)]
pub fn mul_f64(a: f64, b: f64, round: Round) -> f64 {
    if round == Round::Nearest || !finite(a, b) {
        return a * b;
    }
    f64::from_bits(
        Exact::from_f64(a)
            .mul(Exact::from_f64(b))
            .round::<11, 52>(round),
    )
}

/// `fma.f64`: one rounding.
#[inline(always)]
pub fn fma_f64(a: f64, b: f64, c: f64, round: Round) -> f64 {
    if round == Round::Nearest || !finite(a, b) || !c.is_finite() {
        return a.mul_add(b, c);
    }
    let sum = Exact::from_f64(a)
        .mul(Exact::from_f64(b))
        .add(Exact::from_f64(c), round);
    f64::from_bits(sum.round::<11, 52>(round))
}

/// `div.f64`
#[inline(always)]
pub fn div_f64(a: f64, b: f64, round: Round) -> f64 {
    if round == Round::Nearest || !finite(a, b) || b == 0.0 {
        return a / b;
    }
    f64::from_bits(
        Exact::from_f64(a)
            .div(Exact::from_f64(b))
            .round::<11, 52>(round),
    )
}

/// `rcp.f64`
#[inline(always)]
pub fn rcp_f64(a: f64, round: Round) -> f64 {
    div_f64(1.0, a, round)
}

/// `sqrt.f64`
#[inline(always)]
pub fn sqrt_f64(a: f64, round: Round) -> f64 {
    if round == Round::Nearest || !a.is_finite() || a <= 0.0 {
        return a.sqrt();
    }
    f64::from_bits(Exact::from_f64(a).sqrt().round::<11, 52>(round))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTED: [Round; 3] = [Round::Zero, Round::Down, Round::Up];

    fn mode(round: Round) -> Mode {
        Mode {
            round,
            ..Mode::default()
        }
    }

    struct Floats(u64);

    impl Floats {
        fn next(&mut self) -> f32 {
            loop {
                self.0 = self
                    .0
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let mixed = (self.0 ^ self.0 >> 32) as u32;
                let bits = match self.0 >> 60 {
                    // Subnormals and near neighbours are frequent.
                    0..3 => mixed & 0x807f_ffff,
                    3..8 => mixed & 0x83ff_ffff | 0x3e00_0000,
                    _ => mixed,
                };
                let x = f32::from_bits(bits);
                if x.is_finite() {
                    return x;
                }
            }
        }
    }

    #[test]
    fn f32_agrees_with_the_exact_path() {
        let mut floats = Floats(9);
        for _ in 0..200_000 {
            let (a, b, c) = (floats.next(), floats.next(), floats.next());
            let (x, y, z) = (
                Exact::from_f64(a.into()),
                Exact::from_f64(b.into()),
                Exact::from_f64(c.into()),
            );
            for round in [Round::Nearest, Round::Zero, Round::Down, Round::Up] {
                let bits = |e: Exact| e.round::<8, 23>(round) as u32;
                let m = mode(round);
                assert_eq!(
                    add_f32(a, b, m).to_bits(),
                    bits(x.add(y, round)),
                    "{a:e} + {b:e} {round:?}"
                );
                assert_eq!(
                    mul_f32(a, b, m).to_bits(),
                    bits(x.mul(y)),
                    "{a:e} * {b:e} {round:?}"
                );
                for fused in [false, true] {
                    let fma = fma_f32_on(a, b, c, m, fused);
                    assert_eq!(
                        fma.to_bits(),
                        bits(x.mul(y).add(z, round)),
                        "{a:e}*{b:e}+{c:e} {round:?}"
                    );
                }
                if b != 0.0 {
                    assert_eq!(
                        div_f32(a, b, m).to_bits(),
                        bits(x.div(y)),
                        "{a:e} / {b:e} {round:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn zeros_under_rounding_down() {
        for round in DIRECTED {
            let zero = if round == Round::Down {
                (-0.0f32).to_bits()
            } else {
                0
            };
            assert_eq!(add_f32(1.5, -1.5, mode(round)).to_bits(), zero);
            assert_eq!(sub_f32(1.5, 1.5, mode(round)).to_bits(), zero);
            assert_eq!(fma_f32(2.0, 3.0, -6.0, mode(round)).to_bits(), zero);
            assert_eq!(add_f32(0.0, 0.0, mode(round)).to_bits(), 0);
            assert_eq!(
                add_f64(1.5, -1.5, round).to_bits(),
                if zero == 0 { 0 } else { 1 << 63 }
            );
        }
    }

    #[test]
    fn flushing_and_saturating() {
        let tiny = f32::from_bits(1);
        let ftz = Mode {
            ftz: true,
            ..Mode::default()
        };
        assert_eq!(add_f32(tiny, 0.0, ftz).to_bits(), 0);
        assert_eq!(mul_f32(-tiny, 1e30, ftz).to_bits(), 1 << 31);
        assert_eq!(mul_f32(f32::MIN_POSITIVE, 0.5, ftz), 0.0);
        assert_eq!(add_f32(tiny, 0.0, Mode::default()), tiny);
        let sat = Mode {
            sat: true,
            ..Mode::default()
        };
        assert_eq!(add_f32(3.0, 4.0, sat), 1.0);
        assert_eq!(fma_f32(f32::NAN, 4.0, 1.0, sat).to_bits(), 0);
        assert_eq!(sqrt_f32(-1.0, Mode::default()).to_bits(), 0x7fff_ffff);
        assert_eq!(
            add_f32(f32::INFINITY, f32::NEG_INFINITY, mode(Round::Up)).to_bits(),
            0x7fff_ffff
        );
        assert_eq!(
            fma_f32(f32::INFINITY, 1.0, 2.0, mode(Round::Up)),
            f32::INFINITY
        );
    }

    #[test]
    fn extremes_of_nan_and_zero() {
        let plain = Extremum::default();
        let nan = Extremum { nan: true, ..plain };
        let xor = Extremum {
            xorsign_abs: true,
            ..plain
        };
        assert_eq!(min_f32(f32::NAN, 2.0, plain), 2.0);
        assert_eq!(max_f32(2.0, f32::NAN, plain), 2.0);
        assert_eq!(max_f32(2.0, f32::NAN, nan).to_bits(), 0x7fff_ffff);
        assert_eq!(min_f32(f32::NAN, f32::NAN, plain).to_bits(), 0x7fff_ffff);
        assert_eq!(min_f32(0.0, -0.0, plain).to_bits(), 1 << 31);
        assert_eq!(min_f32(-0.0, 0.0, plain).to_bits(), 1 << 31);
        assert_eq!(max_f32(-0.0, 0.0, plain).to_bits(), 0);
        assert_eq!(max_f32(0.0, -0.0, plain).to_bits(), 0);
        assert_eq!(max_f32(-3.0, 2.0, xor), -3.0);
        assert_eq!(min_f32(-3.0, -2.0, xor), 2.0);
        assert_eq!(max_f64(-3.0, 2.0, plain), 2.0);
        assert_eq!(min_f64(-0.0, 0.0, plain).to_bits(), 1 << 63);
        assert_eq!(
            min_f32(f32::from_bits(3), 1.0, Extremum { ftz: true, ..plain }),
            0.0
        );
    }

    #[test]
    fn f64_directions() {
        assert_eq!(add_f64(1.0, 1e-30, Round::Up), 1.0f64.next_up());
        assert_eq!(add_f64(1.0, 1e-30, Round::Down), 1.0);
        assert_eq!(add_f64(1.0, -1e-30, Round::Zero), 1.0f64.next_down());
        assert_eq!(mul_f64(5e-324, 0.5, Round::Up), 5e-324);
        assert_eq!(mul_f64(f64::MAX, 2.0, Round::Down), f64::MAX);
        assert_eq!(mul_f64(f64::MAX, -2.0, Round::Down), f64::NEG_INFINITY);
        assert_eq!(div_f64(1.0, 3.0, Round::Up), (1.0f64 / 3.0).next_up());
        assert_eq!(fma_f64(1.0, 1.0, 1e-300, Round::Up), 1.0f64.next_up());
        assert_eq!(sqrt_f64(2.0, Round::Down), 2f64.sqrt().next_down());
        assert!(div_f64(0.0, 0.0, Round::Down).is_nan());
        assert_eq!(div_f64(1.0, 0.0, Round::Down), f64::INFINITY);
    }
}
