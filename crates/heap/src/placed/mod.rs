//! Where allocations lie that Ringfence places itself, in an address range of
//! its own (`PLACED_BASE` in `model::layout::placed`).
//!
//! * [`Ranges`] gives each allocation addresses of its own, with a gap on either
//!   side, and does not give them out again while others are left;
//! * [`Pieces`] divides physical memory among allocations that share it;
//! * [`Frame`] says where in its range an allocation starts;
//! * [`Sample`] decides which allocations get memory of their own.
//!
//! The granule and the gaps are the caller's: unmapped guards of whole pages for
//! `--protect pages`, and redzones for a protection that looks at addresses in
//! software. Nothing here maps memory.

mod frame;
mod pieces;
mod ranges;
mod sample;

pub use frame::{Frame, Side};
pub use pieces::{Pieces, Slot};
pub use ranges::Ranges;
pub use sample::Sample;
