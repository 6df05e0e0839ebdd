//! Code for the processor at hand: fences, and loops compiled for AVX2.

use std::sync::atomic::{Ordering, fence};

/// Order all accesses before against all accesses after, for every thread.
pub fn full_fence() {
    fence(Ordering::SeqCst);
}

/// Code that is compiled twice: for any x86-64, and for processors with AVX2
/// and FMA.
pub trait Twice {
    /// What the code gives.
    type Output;
    /// The code; must be `#[inline(always)]`. `wide`: this is the compilation
    /// for AVX2 and FMA.
    fn run(self, wide: bool) -> Self::Output;
}

/// Proof that the processor has AVX2, FMA, BMI and F16C.
#[derive(Clone, Copy, Debug)]
pub struct Wide(());

impl Wide {
    /// `None` if the processor lacks one of them.
    pub fn detect() -> Option<Wide> {
        use std::arch::is_x86_feature_detected as has;
        (has!("avx2")
            && has!("fma")
            && has!("bmi1")
            && has!("bmi2")
            && has!("f16c")
            && has!("lzcnt")
            && has!("popcnt"))
        .then_some(Wide(()))
    }
}

#[target_feature(enable = "avx2,fma,bmi1,bmi2,f16c,lzcnt,popcnt")]
fn run_wide<T: Twice>(code: T) -> T::Output {
    code.run(true)
}

/// Run the code compiled for AVX2 and FMA where the processor has them, else
/// the same code compiled for any x86-64. The results are the same.
#[inline(always)]
pub fn twice<T: Twice>(wide: Option<Wide>, code: T) -> T::Output {
    match wide {
        // SAFETY: a `Wide` exists only if `detect` found every feature that
        // `run_wide` enables.
        Some(Wide(())) => unsafe { run_wide(code) },
        None => code.run(false),
    }
}
