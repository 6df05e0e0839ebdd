//! The pointer parameters of a launch, and what they point into.

use model::{Extent, Rule};
use smallvec::SmallVec;

/// A pointer parameter at a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    /// Byte offset in the parameter block.
    pub offset: u32,
    /// Its value.
    pub pointer: u64,
    /// The allocation it belongs to; zeros if none that may be used here.
    pub bounds: Extent,
    /// Why its allocation may not be used here, if that is known.
    pub wrong: Option<Rule>,
}

/// The pointer parameters of a launch; most kernels have no more than four.
pub(crate) type Roots = SmallVec<[Root; 4]>;
