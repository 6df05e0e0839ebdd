//! What PTX instructions compute, one scalar function an operation.
//!
//! Every function is pure, takes the values of one lane and is inlined, so that
//! a loop over the 32 lanes of a warp with a constant mode becomes vector code.
//! Results are those that the PTX ISA (9.x, chapter 9.7) prescribes; where it
//! leaves a result open, those of NVIDIA hardware. Nothing here depends on
//! registers, predicates or memory.
//!
//! | module | holds |
//! | --- | --- |
//! | [`integer`] | add … rem, mad, carry chains, min, max |
//! | [`bits`] | shifts, funnel shifts, fields, permutes, lop3 |
//! | [`packed`] | dot products and SIMD video instructions |
//! | [`float`] | f32 and f64 with all roundings, `.ftz`, `.sat` |
//! | [`approx`] | the approximate functions |
//! | [`half`] | f16 and bf16, single and packed |
//! | [`compare`] | set, setp, testp, slct, copysign |
//! | [`convert`] | cvt |
//! | [`narrow`] | tf32, fp8 and packed conversions |
//! | [`soft`] | exact arithmetic behind the directed roundings |

pub mod approx;
pub mod bits;
pub mod compare;
pub mod convert;
pub mod float;
pub mod half;
pub mod integer;
pub mod narrow;
pub mod packed;
pub mod soft;

use ptx::Modifier;

/// Direction in which an inexact floating-point result is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Round {
    /// `.rn`, `.rni`: to nearest, ties to even.
    #[default]
    Nearest,
    /// `.rz`, `.rzi`: towards zero.
    Zero,
    /// `.rm`, `.rmi`: towards negative infinity.
    Down,
    /// `.rp`, `.rpi`: towards positive infinity.
    Up,
    /// `.rna`: to nearest, ties away from zero.
    Away,
}

#[cfg(test)]
impl Round {
    /// Every direction.
    const ALL: [Round; 5] = [
        Round::Nearest,
        Round::Zero,
        Round::Down,
        Round::Up,
        Round::Away,
    ];
}

impl Round {
    /// The rounding that a modifier names, of float or
    /// integer results alike.
    pub fn from_modifier(modifier: Modifier) -> Option<Round> {
        Some(match modifier {
            Modifier::Rn | Modifier::Rni => Round::Nearest,
            Modifier::Rz | Modifier::Rzi => Round::Zero,
            Modifier::Rm | Modifier::Rmi => Round::Down,
            Modifier::Rp | Modifier::Rpi => Round::Up,
            Modifier::Rna => Round::Away,
            _ => return None,
        })
    }
}
