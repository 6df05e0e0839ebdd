//! Memory that a protection makes in the device's place.

use crate::queries::is_capturing;
use crate::session::{self, next};
use crate::state::Rows;
use driver::sys::CUresult;
use model::{AllocationKind, ElsewhereReason};
use runtime::{Fill, Owner, PlacementRequest, Runtime};

/// Memory that a protection makes for the program, and its address; `None`: the
/// driver is to make it.
pub(super) fn placed(
    runtime: &Runtime,
    kind: AllocationKind,
    bytes: usize,
    obstacle: Option<ElsewhereReason>,
    owner: &dyn Fn() -> Owner,
    fill: Fill,
) -> Option<u64> {
    let request = PlacementRequest {
        size: bytes as u64,
        in_stream_order: matches!(fill, Fill::InStream(_)),
        obstacle,
    };
    let placements = runtime.placements();
    let placement = placements.place(&request)?;
    placements.placed(kind, request.size, owner(), &placement, fill);
    Some(placement.base.0)
}

/// Pitched memory that a protection makes. `None`: the driver is to make it.
///
/// # Safety
/// `place` and `pitch` are the program's, and where `ask`, for one row, has the
/// device write its answers.
pub(super) unsafe fn placed_rows(
    place: *mut u64,
    pitch: *mut usize,
    rows: (usize, usize, u32),
    owner: &dyn Fn() -> Owner,
    ask: impl Fn() -> CUresult,
) -> Option<CUresult> {
    let runtime = session::runtime().filter(|runtime| runtime.placements().are_made())?;
    let (width, height, element) = rows;
    if width == 0 || height == 0 || place.is_null() || pitch.is_null() {
        return None;
    }
    if is_capturing() {
        runtime.placements().elsewhere(ElsewhereReason::Captured);
        return None;
    }
    let pitches = &session::get()?.pitches;
    let key = Rows {
        width,
        element,
        context: owner().context,
    };
    let bytes = match pitches.known(key) {
        Some(known) => known,
        None => {
            // The device alone knows how far apart its rows are.
            if ask() != CUresult::CUDA_SUCCESS {
                return None;
            }
            // SAFETY: both were written by a successful call; the program has not
            // seen them.
            let (row, bytes) = unsafe { (*place, *pitch) };
            // SAFETY: the row that was allocated for this.
            let _ = unsafe { next()?.cuMemFree_v2?(row) };
            pitches.answered(key, bytes);
            bytes
        }
    };
    let total = bytes.checked_mul(height)?;
    let base = placed(
        runtime,
        AllocationKind::Device,
        total,
        None,
        owner,
        Fill::Now,
    )?;
    // SAFETY: the program's places for its answers.
    unsafe {
        *place = base;
        *pitch = bytes;
    }
    Some(CUresult::CUDA_SUCCESS)
}
