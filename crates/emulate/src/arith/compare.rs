//! Comparisons and selections (PTX ISA 9.7.6, 9.7.3.1, 9.7.3.5).

use super::convert::flush;
use super::integer::Integer;
use ptx::Modifier;

/// The relation of `set` and `setp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// `.lo`, `.ls`, `.hi`, `.hs`: of unsigned integers.
    Lo,
    Ls,
    Hi,
    Hs,
    /// `.equ` … `.geu`: true also if an operand is NaN.
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    /// Both are numbers.
    Num,
    /// At least one is NaN.
    Nan,
}

impl Compare {
    /// The relation that a modifier names.
    pub fn from_modifier(modifier: Modifier) -> Option<Compare> {
        use Compare::*;
        Some(match modifier {
            Modifier::Eq => Eq,
            Modifier::Ne => Ne,
            Modifier::Lt => Lt,
            Modifier::Le => Le,
            Modifier::Gt => Gt,
            Modifier::Ge => Ge,
            Modifier::Lo => Lo,
            Modifier::Ls => Ls,
            Modifier::Hi => Hi,
            Modifier::Hs => Hs,
            Modifier::Equ => Equ,
            Modifier::Neu => Neu,
            Modifier::Ltu => Ltu,
            Modifier::Leu => Leu,
            Modifier::Gtu => Gtu,
            Modifier::Geu => Geu,
            Modifier::Num => Num,
            Modifier::Nan => Nan,
            _ => return None,
        })
    }
}

/// Integers and untyped bits. The relations of floats hold for no integer.
#[inline(always)]
pub fn integer<T: Integer>(relation: Compare, a: T, b: T) -> bool {
    match relation {
        Compare::Eq => a == b,
        Compare::Ne => a != b,
        Compare::Lt => a < b,
        Compare::Le => a <= b,
        Compare::Gt => a > b,
        Compare::Ge => a >= b,
        Compare::Lo => a.bits() < b.bits(),
        Compare::Ls => a.bits() <= b.bits(),
        Compare::Hi => a.bits() > b.bits(),
        Compare::Hs => a.bits() >= b.bits(),
        _ => false,
    }
}

macro_rules! float {
    ($(#[$doc:meta])* $name:ident, $float:ident) => {
        $(#[$doc])*
        #[inline(always)]
        #[allow(
            clippy::neg_cmp_op_on_partial_ord,
            clippy::double_comparisons,
            reason = "the suggested forms differ for NaN"
        )]
        pub fn $name(relation: Compare, a: $float, b: $float) -> bool {
            match relation {
                Compare::Eq => a == b,
                // Ordered: false if an operand is NaN.
                Compare::Ne => a < b || a > b,
                Compare::Lt | Compare::Lo => a < b,
                Compare::Le | Compare::Ls => a <= b,
                Compare::Gt | Compare::Hi => a > b,
                Compare::Ge | Compare::Hs => a >= b,
                Compare::Equ => !(a < b || a > b),
                Compare::Neu => a != b,
                Compare::Ltu => !(a >= b),
                Compare::Leu => !(a > b),
                Compare::Gtu => !(a <= b),
                Compare::Geu => !(a < b),
                Compare::Num => !a.is_nan() && !b.is_nan(),
                Compare::Nan => a.is_nan() || b.is_nan(),
            }
        }
    };
}

float!(
    /// f32, and f16 and bf16 once widened.
    float32, f32
);
float!(
    /// f64
    float64, f64
);

/// f32 with `.ftz`.
#[inline(always)]
pub fn float32_ftz(relation: Compare, a: f32, b: f32) -> bool {
    float32(relation, flush(a), flush(b))
}

/// The property that `testp` tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Test {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

impl Test {
    /// The test that a modifier names.
    pub fn from_modifier(modifier: Modifier) -> Option<Test> {
        Some(match modifier {
            Modifier::Finite => Test::Finite,
            Modifier::Infinite => Test::Infinite,
            Modifier::Number => Test::Number,
            Modifier::Notanumber => Test::NotANumber,
            Modifier::Normal => Test::Normal,
            Modifier::Subnormal => Test::Subnormal,
            _ => return None,
        })
    }
}

/// `testp.f32`. The ISA counts zeros as normal
/// ("positive and negative zero are considered normal").
#[inline(always)]
pub fn testp_f32(test: Test, a: f32) -> bool {
    match test {
        Test::Finite => a.is_finite(),
        Test::Infinite => a.is_infinite(),
        Test::Number => !a.is_nan(),
        Test::NotANumber => a.is_nan(),
        Test::Normal => a.is_normal() || a == 0.0,
        Test::Subnormal => a.is_subnormal(),
    }
}

/// `testp.f64`
#[inline(always)]
pub fn testp_f64(test: Test, a: f64) -> bool {
    match test {
        Test::Finite => a.is_finite(),
        Test::Infinite => a.is_infinite(),
        Test::Number => !a.is_nan(),
        Test::NotANumber => a.is_nan(),
        Test::Normal => a.is_normal() || a == 0.0,
        Test::Subnormal => a.is_subnormal(),
    }
}

/// `copysign.f32`: the magnitude of `b` with the sign of `a`.
#[inline(always)]
pub fn copysign_f32(a: f32, b: f32) -> f32 {
    b.copysign(a)
}

/// `copysign.f64`: the magnitude of `b` with the sign of `a`.
#[inline(always)]
pub fn copysign_f64(a: f64, b: f64) -> f64 {
    b.copysign(a)
}

/// `slct.dtype.s32`
#[inline(always)]
pub fn slct_s32<T: Copy>(a: T, b: T, c: i32) -> T {
    if c >= 0 { a } else { b }
}

/// `slct.dtype.f32`. −0 selects `a`, NaN `b`; with `.ftz` a subnormal is zero.
#[inline(always)]
pub fn slct_f32<T: Copy>(a: T, b: T, c: f32, ftz: bool) -> T {
    let c = if ftz { flush(c) } else { c };
    if c >= 0.0 { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unordered_forms_differ_only_for_nan() {
        use Compare::*;
        for (ordered, unordered) in [
            (Eq, Equ),
            (Ne, Neu),
            (Lt, Ltu),
            (Le, Leu),
            (Gt, Gtu),
            (Ge, Geu),
        ] {
            for a in [-1.0f32, -0.0, 0.0, 1.0, f32::INFINITY, f32::NAN] {
                for b in [-1.0f32, -0.0, 0.0, 1.0, f32::INFINITY, f32::NAN] {
                    let nan = a.is_nan() || b.is_nan();
                    assert_eq!(
                        float32(unordered, a, b),
                        nan || float32(ordered, a, b),
                        "{a} {b} {ordered:?}"
                    );
                    assert!(!(nan && float32(ordered, a, b)));
                    assert_eq!(float64(ordered, a.into(), b.into()), float32(ordered, a, b));
                    assert_eq!(float32(Nan, a, b), nan);
                    assert_eq!(float32(Num, a, b), !nan);
                }
            }
        }
        assert!(float32(Eq, 0.0, -0.0));
        assert!(float32_ftz(Eq, f32::from_bits(1), 0.0));
    }

    #[test]
    fn integers_by_sign() {
        assert!(integer(Compare::Lt, -1i32, 0));
        assert!(!integer(Compare::Lt, -1i32 as u32, 0));
        assert!(integer(Compare::Hi, -1i32, 0));
        assert!(integer(Compare::Hs, 5u64, 5));
        assert!(!integer(Compare::Nan, 5u64, 5));
    }

    #[test]
    fn selections() {
        assert_eq!(slct_s32(1, 2, 0), 1);
        assert_eq!(slct_s32(1, 2, -1), 2);
        assert_eq!(slct_f32(1, 2, -0.0, false), 1);
        assert_eq!(slct_f32(1, 2, f32::NAN, false), 2);
        assert_eq!(slct_f32(1, 2, -f32::from_bits(1), true), 1);
        assert_eq!(copysign_f32(-1.0, 3.0), -3.0);
        assert!(testp_f32(Test::Normal, 0.0) && testp_f64(Test::Subnormal, 5e-324));
        assert!(testp_f32(Test::NotANumber, f32::NAN) && !testp_f32(Test::Finite, f32::INFINITY));
    }
}
