//! Filling memory.

use crate::convert::address;
use crate::generated::types::*;
use crate::state::ready;
use driver::sys::{CU_STREAM_PER_THREAD, CUstream};
use std::ffi::c_void;

const PER_THREAD: CUstream = CUstream(CU_STREAM_PER_THREAD as u64);

/// `None`: complete before the call returns, as far as the host can observe.
type When = Option<CUstream>;

fn line(pointer: *mut c_void, value: i32, count: usize, when: When) -> Result<(), cudaError_t> {
    ready()?;
    // Only the low byte counts, as with memset.
    let byte = value as u8;
    match when {
        _ if count == 0 => Ok(()),
        None => cu!(cuMemsetD8_v2(address(pointer), byte, count)),
        Some(stream) => cu!(cuMemsetD8Async(address(pointer), byte, count, stream)),
    }
}

fn rows(
    pointer: *mut c_void,
    pitch: usize,
    value: i32,
    width: usize,
    height: usize,
    when: When,
) -> Result<(), cudaError_t> {
    ready()?;
    let byte = value as u8;
    match when {
        _ if width == 0 || height == 0 => Ok(()),
        _ if width > pitch && height > 1 => Err(cudaError_t::cudaErrorInvalidValue),
        None => cu!(cuMemsetD2D8_v2(
            address(pointer),
            pitch,
            byte,
            width,
            height
        )),
        Some(stream) => cu!(cuMemsetD2D8Async(
            address(pointer),
            pitch,
            byte,
            width,
            height,
            stream
        )),
    }
}

fn layers(
    pitched: cudaPitchedPtr,
    value: i32,
    extent: cudaExtent,
    when: When,
) -> Result<(), cudaError_t> {
    ready()?;
    for (offset, rows_in_it) in
        spans(&pitched, &extent).ok_or(cudaError_t::cudaErrorInvalidValue)?
    {
        rows(
            pitched.ptr.wrapping_byte_add(offset),
            pitched.pitch,
            value,
            extent.width,
            rows_in_it,
            when,
        )?;
    }
    Ok(())
}

/// The runs of rows of a box: offset in bytes and number of rows. Layers that
/// follow each other without a gap are one run.
fn spans(pitched: &cudaPitchedPtr, extent: &cudaExtent) -> Option<Vec<(usize, usize)>> {
    if extent.depth == 0 || extent.height == 0 || extent.width == 0 {
        return Some(Vec::new());
    }
    if extent.depth > 1 && extent.height > pitched.ysize {
        return None;
    }
    if extent.depth == 1 || extent.height == pitched.ysize {
        return Some(vec![(0, extent.height.checked_mul(extent.depth)?)]);
    }
    let layer = pitched.pitch.checked_mul(pitched.ysize)?;
    layer.checked_mul(extent.depth)?;
    Some(
        (0..extent.depth)
            .map(|z| (z * layer, extent.height))
            .collect(),
    )
}

runtime! {
    /// Fills bytes.
    fn cudaMemset(devPtr: *mut c_void, value: i32, count: usize) {
        line(devPtr, value, count, None)
    }

    /// Fills bytes in the thread's default stream.
    [unchecked] fn cudaMemset_ptds(devPtr: *mut c_void, value: i32, count: usize) {
        line(devPtr, value, count, Some(PER_THREAD))?;
        cu!(cuStreamSynchronize(PER_THREAD))
    }

    /// Enqueues filling bytes.
    fn cudaMemsetAsync / cudaMemsetAsync_ptsz [stream] (devPtr: *mut c_void, value: i32, count: usize, stream: cudaStream_t) {
        line(devPtr, value, count, Some(stream))
    }

    /// Fills rows.
    fn cudaMemset2D(devPtr: *mut c_void, pitch: usize, value: i32, width: usize, height: usize) {
        rows(devPtr, pitch, value, width, height, None)
    }

    /// Fills rows in the thread's default stream.
    [unchecked] fn cudaMemset2D_ptds(devPtr: *mut c_void, pitch: usize, value: i32, width: usize, height: usize) {
        rows(devPtr, pitch, value, width, height, Some(PER_THREAD))?;
        cu!(cuStreamSynchronize(PER_THREAD))
    }

    /// Enqueues filling rows.
    fn cudaMemset2DAsync / cudaMemset2DAsync_ptsz [stream] (
        devPtr: *mut c_void, pitch: usize, value: i32, width: usize, height: usize, stream: cudaStream_t
    ) {
        rows(devPtr, pitch, value, width, height, Some(stream))
    }

    /// Fills a box.
    fn cudaMemset3D(pitchedDevPtr: cudaPitchedPtr, value: i32, extent: cudaExtent) {
        layers(pitchedDevPtr, value, extent, None)
    }

    /// Fills a box in the thread's default stream.
    [unchecked] fn cudaMemset3D_ptds(pitchedDevPtr: cudaPitchedPtr, value: i32, extent: cudaExtent) {
        layers(pitchedDevPtr, value, extent, Some(PER_THREAD))?;
        cu!(cuStreamSynchronize(PER_THREAD))
    }

    /// Enqueues filling a box.
    fn cudaMemset3DAsync / cudaMemset3DAsync_ptsz [stream] (
        pitchedDevPtr: cudaPitchedPtr, value: i32, extent: cudaExtent, stream: cudaStream_t
    ) {
        layers(pitchedDevPtr, value, extent, Some(stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_without_gaps_are_one_run() {
        let pitched = cudaPitchedPtr {
            ptr: std::ptr::null_mut(),
            pitch: 64,
            xsize: 60,
            ysize: 8,
        };
        let spans = |width, height, depth| {
            spans(
                &pitched,
                &cudaExtent {
                    width,
                    height,
                    depth,
                },
            )
        };
        assert_eq!(spans(60, 8, 3), Some(vec![(0, 24)]));
        assert_eq!(spans(60, 7, 1), Some(vec![(0, 7)]));
        assert_eq!(spans(60, 7, 3), Some(vec![(0, 7), (512, 7), (1024, 7)]));
        assert_eq!(spans(60, 9, 2), None);
        assert_eq!(spans(0, 9, 2), Some(vec![]));
    }
}
