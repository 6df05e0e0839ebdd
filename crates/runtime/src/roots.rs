//! The pointer parameters of a launch, and what they point into.

use model::{Extent, Rule};
use smallvec::SmallVec;

/// How far from an allocation a pointer may lie that is still meant for it,
/// where no canary says so: the distance that the default canaries give.
pub(crate) const JUST_OUTSIDE: u64 = 4096;

/// A pointer parameter at a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    /// Byte offset in the parameter block.
    pub offset: u32,
    /// Its value.
    pub pointer: u64,
    /// The allocation it belongs to; zeros if none that may be used here.
    pub bounds: Extent,
    /// All bytes within the bounds may be used until the launch ends, as far as the host has
    /// a say: kernels that ask shadow memory may go by the bounds instead.
    pub is_lasting: bool,
    /// Why its allocation may not be used here, if that is known.
    pub wrong: Option<Rule>,
}

/// The pointer parameters of a launch; most kernels have no more than four.
pub(crate) type Roots = SmallVec<[Root; 4]>;
