//! Exact binary floating point: the path behind directed roundings.
//!
//! A number is a sign, an integer of up to 128 bits, a power of two, and a
//! mark that some non-zero bits below were lost. Sums, products, quotients and
//! roots keep at least two bits more than any target format has, so that one
//! rounding at the end is correct. Slow next to the host's own arithmetic:
//! used only where the host has no such rounding.

use super::Round;

/// An exact (or marked inexact) finite number: (−1)^sign · mantissa · 2^exponent.
#[derive(Clone, Copy, Debug)]
pub struct Exact {
    negative: bool,
    mantissa: u128,
    exponent: i32,
    /// The true magnitude lies strictly between `mantissa` and `mantissa + 1`.
    sticky: bool,
}

/// A binary interchange format: `E` exponent and `M` mantissa bits.
pub const fn bias(exponent_bits: u32) -> i32 {
    (1 << (exponent_bits - 1)) - 1
}

#[allow(
    clippy::should_implement_trait,
    reason = "sums need a rounding mode; all operations look alike"
)]
impl Exact {
    /// A finite f64. Infinities and NaN are the caller's to handle.
    #[inline]
    pub fn from_f64(x: f64) -> Exact {
        let bits = x.to_bits();
        let field = (bits >> 52 & 0x7ff) as i32;
        let fraction = bits & ((1 << 52) - 1);
        let mantissa = if field == 0 {
            fraction
        } else {
            fraction | 1 << 52
        };
        Exact {
            negative: bits >> 63 == 1,
            mantissa: u128::from(mantissa),
            exponent: field.max(1) - 1075,
            sticky: false,
        }
    }

    /// An integer.
    #[inline]
    pub fn from_integer(negative: bool, magnitude: u64) -> Exact {
        Exact {
            negative,
            mantissa: u128::from(magnitude),
            exponent: 0,
            sticky: false,
        }
    }

    /// Shifted so that the highest bit is bit 126 (zero stays).
    fn normalized(self) -> Exact {
        if self.mantissa == 0 {
            return self;
        }
        if self.mantissa >> 127 == 1 {
            // A sum's carry.
            let sticky = self.sticky || self.mantissa & 1 == 1;
            return Exact {
                mantissa: self.mantissa >> 1,
                exponent: self.exponent + 1,
                sticky,
                ..self
            };
        }
        let up = self.mantissa.leading_zeros() as i32 - 1;
        Exact {
            mantissa: self.mantissa << up,
            exponent: self.exponent - up,
            ..self
        }
    }

    /// Product. Both factors must have at most 64 bits.
    #[inline]
    pub fn mul(self, b: Exact) -> Exact {
        Exact {
            negative: self.negative ^ b.negative,
            mantissa: self.mantissa * b.mantissa,
            exponent: self.exponent + b.exponent,
            sticky: false,
        }
    }

    /// Sum. The sign of an exact zero follows `mode` (IEEE 754, 6.3).
    pub fn add(self, b: Exact, mode: Round) -> Exact {
        if self.mantissa == 0 || b.mantissa == 0 {
            if self.mantissa == 0 && b.mantissa == 0 {
                let negative = if mode == Round::Down {
                    self.negative | b.negative
                } else {
                    self.negative & b.negative
                };
                return Exact { negative, ..self };
            }
            return if self.mantissa == 0 { b } else { self };
        }
        let (a, b) = (self.normalized(), b.normalized());
        let (large, small) = if (a.exponent, a.mantissa) >= (b.exponent, b.mantissa) {
            (a, b)
        } else {
            (b, a)
        };
        let down = (large.exponent - small.exponent) as u32;
        // Jamming the lost bits into the lowest keeps every later comparison
        // right: they are lost only when `down` > 21 (a 106-bit product holds
        // 21 zeros below), and then the sum loses at most one leading bit.
        let shifted = if down > 127 {
            0
        } else {
            small.mantissa >> down
        };
        let lost = if down > 127 {
            true
        } else {
            small.mantissa & ((1u128 << down) - 1) != 0
        };
        let jammed = shifted | u128::from(lost);
        if large.negative == small.negative {
            // Both below 2^127: no carry out of 128 bits.
            Exact {
                mantissa: large.mantissa + jammed,
                ..large
            }
        } else {
            let mantissa = large.mantissa - jammed;
            let negative = if mantissa == 0 {
                mode == Round::Down
            } else {
                large.negative
            };
            Exact {
                negative,
                mantissa,
                ..large
            }
        }
    }

    /// Quotient. The divisor must not be zero; both must have at most 64 bits.
    pub fn div(self, b: Exact) -> Exact {
        let negative = self.negative ^ b.negative;
        if self.mantissa == 0 {
            return Exact { negative, ..self };
        }
        let a = self.normalized();
        Exact {
            negative,
            mantissa: a.mantissa / b.mantissa,
            exponent: a.exponent - b.exponent,
            sticky: !a.mantissa.is_multiple_of(b.mantissa),
        }
    }

    /// Square root of a number that is not negative.
    pub fn sqrt(self) -> Exact {
        if self.mantissa == 0 {
            return self;
        }
        let a = self.normalized();
        // An even exponent, with the mantissa one bit higher if need be.
        let (mantissa, exponent) = if a.exponent & 1 == 0 {
            (a.mantissa, a.exponent)
        } else {
            (a.mantissa << 1, a.exponent - 1)
        };
        let root = mantissa.isqrt();
        Exact {
            negative: false,
            mantissa: root,
            exponent: exponent / 2,
            sticky: root * root != mantissa,
        }
    }

    /// The bits of the number in a format with `E` exponent and `M` mantissa
    /// bits, correctly rounded; too large numbers give infinity or, where the
    /// rounding points inwards, the largest finite number.
    pub fn round<const E: u32, const M: u32>(self, mode: Round) -> u64 {
        let sign = u64::from(self.negative) << (E + M);
        if self.mantissa == 0 {
            // A sticky zero is a tiny number, and does not arise: quotients
            // and roots of non-zero numbers keep their leading bits.
            return sign;
        }
        let a = self.normalized();
        // Value of the leading bit is 2^top.
        let top = a.exponent + 126;
        let minimum = 1 - bias(E);
        let drop = 126 - M as i32 + (minimum - top).max(0);
        let (kept, low, half) = if drop > 127 {
            (0, a.mantissa, u128::MAX)
        } else {
            let drop = drop as u32;
            (
                a.mantissa >> drop,
                a.mantissa & ((1u128 << drop) - 1),
                1u128 << (drop - 1),
            )
        };
        let inexact = low != 0 || a.sticky;
        let up = match mode {
            Round::Nearest => low > half || (low == half && (a.sticky || kept & 1 == 1)),
            Round::Away => low >= half,
            Round::Zero => false,
            Round::Down => inexact && self.negative,
            Round::Up => inexact && !self.negative,
        };
        let kept = kept as u64 + u64::from(up);
        // The implicit bit of `kept` adds one to the exponent field.
        let field = (top.max(minimum) + bias(E) - 1) as i64;
        let infinity = ((1u64 << E) - 1) << M;
        let bits = if field >= (1 << E) - 1 {
            infinity
        } else {
            ((field as u64) << M) + kept
        };
        if bits >= infinity {
            sign | overflow(self.negative, infinity, mode)
        } else {
            sign | bits
        }
    }
}

/// What a number too large becomes: infinity or the largest finite number.
#[inline(always)]
pub fn overflow(negative: bool, infinity: u64, mode: Round) -> u64 {
    let inwards = match mode {
        Round::Nearest | Round::Away => false,
        Round::Zero => true,
        Round::Down => !negative,
        Round::Up => negative,
    };
    infinity - u64::from(inwards)
}

/// The sum with its last bit set if it is inexact ("round to odd"): rounding
/// that once more to a format at least two bits shorter is correct in every
/// mode. Both must be finite and far from f64's own limits, or the sum may be
/// infinite or NaN, which passes through.
#[inline(always)]
#[allow(clippy::double_comparisons, reason = "`!=` would be true for NaN")]
pub fn add_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let back = sum - a;
    // Knuth's two-sum: the error is exact.
    let error = (a - (sum - back)) + (b - back);
    let bits = sum.to_bits();
    let inexact = error > 0.0 || error < 0.0;
    let towards_zero = (error > 0.0) != (sum > 0.0);
    // An odd result stays: it is one of the two neighbours already.
    let truncated = bits - u64::from(inexact && towards_zero && bits & 1 == 0);
    f64::from_bits(if inexact { truncated | 1 } else { bits })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustc_apfloat::ieee::{
        BFloatS, Double, Float8E5M2S, HalfS, IeeeFloat, Semantics, Single, SingleS,
    };
    use rustc_apfloat::{Float, FloatConvert, Round as Theirs};

    fn theirs(mode: Round) -> Theirs {
        match mode {
            Round::Nearest => Theirs::NearestTiesToEven,
            Round::Zero => Theirs::TowardZero,
            Round::Down => Theirs::TowardNegative,
            Round::Up => Theirs::TowardPositive,
            Round::Away => Theirs::NearestTiesToAway,
        }
    }

    fn apfloat(x: f64) -> Double {
        Double::from_bits(x.to_bits().into())
    }

    /// LLVM's conversion of a double to a narrower format.
    fn converted<S: Semantics>(x: f64, mode: Round) -> u64
    where
        Double: FloatConvert<IeeeFloat<S>>,
    {
        let to: IeeeFloat<S> = apfloat(x).convert_r(theirs(mode), &mut false).value;
        to.to_bits() as u64
    }

    /// A small generator: the tests must not depend on a seed's luck.
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let x = self.0 ^ (self.0 >> 29);
            x.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (x >> 31)
        }

        /// Finite, with exponents near each other half of the time.
        fn double(&mut self) -> f64 {
            loop {
                let bits = self.next();
                let near = self.next() & 1 == 0;
                let bits = if near {
                    bits & !(0x7ff << 52) | (1000 + (self.next() & 63)) << 52
                } else {
                    bits
                };
                // Few set bits give ties and exact results.
                let bits = if self.next() & 3 == 0 {
                    bits & !((1 << 40) - 1)
                } else {
                    bits
                };
                let x = f64::from_bits(bits);
                if x.is_finite() {
                    return x;
                }
            }
        }
    }

    #[test]
    fn nearest_agrees_with_the_host() {
        let mut numbers = Numbers(1);
        for _ in 0..200_000 {
            let (a, b, c) = (numbers.double(), numbers.double(), numbers.double());
            let (x, y, z) = (Exact::from_f64(a), Exact::from_f64(b), Exact::from_f64(c));
            let near = Round::Nearest;
            assert_eq!(
                x.add(y, near).round::<11, 52>(near),
                (a + b).to_bits(),
                "{a:e} + {b:e}"
            );
            assert_eq!(
                x.mul(y).round::<11, 52>(near),
                (a * b).to_bits(),
                "{a:e} * {b:e}"
            );
            if b != 0.0 {
                assert_eq!(
                    x.div(y).round::<11, 52>(near),
                    (a / b).to_bits(),
                    "{a:e} / {b:e}"
                );
            }
            assert_eq!(
                x.mul(y).add(z, near).round::<11, 52>(near),
                a.mul_add(b, c).to_bits(),
                "{a:e} * {b:e} + {c:e}"
            );
            let root = a.abs();
            assert_eq!(
                Exact::from_f64(root).sqrt().round::<11, 52>(near),
                root.sqrt().to_bits(),
                "sqrt {root:e}"
            );
            assert_eq!(x.round::<8, 23>(near) as u32, (a as f32).to_bits(), "{a:e}");
        }
    }

    #[test]
    fn sums_products_and_quotients_agree_with_llvm_in_every_mode() {
        let mut numbers = Numbers(2);
        for _ in 0..40_000 {
            let (a, b, c) = (numbers.double(), numbers.double(), numbers.double());
            let (x, y, z) = (Exact::from_f64(a), Exact::from_f64(b), Exact::from_f64(c));
            let (p, q, r) = (apfloat(a), apfloat(b), apfloat(c));
            for mode in Round::ALL {
                let round = theirs(mode);
                let check = |ours: Exact, theirs: Double, what: &str| {
                    assert_eq!(
                        ours.round::<11, 52>(mode),
                        theirs.to_bits() as u64,
                        "{what} of {a:e}, {b:e}, {c:e}, {mode:?}"
                    );
                };
                check(x.add(y, mode), p.add_r(q, round).value, "sum");
                check(x.mul(y), p.mul_r(q, round).value, "product");
                if b != 0.0 {
                    check(x.div(y), p.div_r(q, round).value, "quotient");
                }
                check(
                    x.mul(y).add(z, mode),
                    p.mul_add_r(q, r, round).value,
                    "fused sum",
                );
            }
        }
    }

    #[test]
    fn conversions_agree_with_llvm_in_every_mode() {
        let mut numbers = Numbers(4);
        let minimum =
            |exponent_bits: u32, mantissa_bits: u32| 1 - bias(exponent_bits) - mantissa_bits as i32;
        for i in 0..100_000 {
            // Most doubles are far outside of the narrow formats: scaled to
            // around their least and greatest numbers, every path is taken.
            let x = numbers.double();
            let fraction = f64::from_bits(x.to_bits() & !(0x7ff << 52) | 1023 << 52);
            let scale = [
                minimum(8, 23),
                minimum(5, 10),
                minimum(8, 7),
                minimum(5, 2),
                0,
                bias(5),
                bias(8),
            ][i % 7]
                + (numbers.next() % 14) as i32
                - 4;
            let x = if i % 8 == 0 {
                x
            } else {
                fraction * 2f64.powi(scale)
            };
            let exact = Exact::from_f64(x);
            for mode in Round::ALL {
                for (ours, theirs, format) in [
                    (
                        exact.round::<8, 23>(mode),
                        converted::<SingleS>(x, mode),
                        "f32",
                    ),
                    (
                        exact.round::<5, 10>(mode),
                        converted::<HalfS>(x, mode),
                        "f16",
                    ),
                    (
                        exact.round::<8, 7>(mode),
                        converted::<BFloatS>(x, mode),
                        "bf16",
                    ),
                    (
                        exact.round::<5, 2>(mode),
                        converted::<Float8E5M2S>(x, mode),
                        "e5m2",
                    ),
                ] {
                    assert_eq!(ours, theirs, "{x:e} as {format}, {mode:?}");
                }
            }
        }
    }

    #[test]
    fn integers_agree_with_llvm_in_every_mode() {
        let mut numbers = Numbers(5);
        for _ in 0..50_000 {
            let magnitude = numbers.next() >> (numbers.next() % 64);
            for (mode, negative) in Round::ALL
                .into_iter()
                .flat_map(|mode| [(mode, false), (mode, true)])
            {
                let value = if negative {
                    -i128::from(magnitude)
                } else {
                    i128::from(magnitude)
                };
                let exact = Exact::from_integer(negative && magnitude != 0, magnitude);
                let single = Single::from_i128_r(value, theirs(mode)).value.to_bits() as u64;
                let double = Double::from_i128_r(value, theirs(mode)).value.to_bits() as u64;
                assert_eq!(
                    exact.round::<8, 23>(mode),
                    single,
                    "{value} as f32, {mode:?}"
                );
                assert_eq!(
                    exact.round::<11, 52>(mode),
                    double,
                    "{value} as f64, {mode:?}"
                );
            }
        }
    }

    /// LLVM has no square roots: the root is checked by its square.
    #[test]
    fn directed_roots_enclose() {
        let mut numbers = Numbers(6);
        for _ in 0..50_000 {
            let a = numbers.double().abs();
            let root = |mode| f64::from_bits(Exact::from_f64(a).sqrt().round::<11, 52>(mode));
            let (down, up) = (root(Round::Down), root(Round::Up));
            let square = |x: f64, round| apfloat(x).mul_r(apfloat(x), round).value;
            assert!(square(down, Theirs::TowardZero) <= apfloat(a), "{a:e}");
            assert!(square(up, Theirs::TowardPositive) >= apfloat(a), "{a:e}");
            assert!(down == up || down.next_up() == up, "{a:e}");
            assert_eq!(root(Round::Zero), down);
        }
    }

    #[test]
    fn odd_sums_round_correctly_again() {
        let mut numbers = Numbers(3);
        for _ in 0..200_000 {
            let float = |n: u64| f64::from(f32::from_bits(n as u32));
            let (a, b, c) = (
                float(numbers.next()),
                float(numbers.next()),
                float(numbers.next()),
            );
            if !(a.is_finite() && b.is_finite() && c.is_finite()) {
                continue;
            }
            let odd = add_to_odd(a * b, c);
            for mode in Round::ALL {
                let exact = Exact::from_f64(a)
                    .mul(Exact::from_f64(b))
                    .add(Exact::from_f64(c), mode);
                let once = Exact::from_f64(odd).round::<8, 23>(mode);
                // The sign of an exact zero is decided where the sum is taken.
                if odd != 0.0 {
                    assert_eq!(
                        once,
                        exact.round::<8, 23>(mode),
                        "{a:e} * {b:e} + {c:e} {mode:?}"
                    );
                }
            }
        }
    }
}
