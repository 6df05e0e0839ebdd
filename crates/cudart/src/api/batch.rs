//! Many copies, prefetches or discards in one call. The driver takes the same
//! arrays; its pointers are numbers of the same width.

use crate::generated::types::*;
use crate::state::ready;
use std::ffi::c_void;

runtime! {
    /// Enqueues copies.
    fn cudaMemcpyBatchAsync / cudaMemcpyBatchAsync_ptsz [stream] (
        dsts: *const *mut c_void, srcs: *const *const c_void, sizes: *const usize, count: usize,
        attrs: *mut cudaMemcpyAttributes, attrsIdxs: *mut usize, numAttrs: usize, stream: cudaStream_t
    ) {
        ready()?;
        cu!(cuMemcpyBatchAsync_v2(
            dsts.cast_mut().cast(), srcs.cast_mut().cast(), sizes.cast_mut(), count, attrs.cast(), attrsIdxs, numAttrs, stream
        ))
    }

    /// Enqueues copies of boxes.
    fn cudaMemcpy3DBatchAsync / cudaMemcpy3DBatchAsync_ptsz [stream] (
        numOps: usize, opList: *mut cudaMemcpy3DBatchOp, flags: u64, stream: cudaStream_t
    ) {
        ready()?;
        cu!(cuMemcpy3DBatchAsync_v2(numOps, opList.cast(), flags, stream))
    }

    /// Prefetches ranges of managed memory.
    fn cudaMemPrefetchBatchAsync / cudaMemPrefetchBatchAsync_ptsz [stream] (
        dptrs: *mut *mut c_void, sizes: *mut usize, count: usize, prefetchLocs: *mut cudaMemLocation,
        prefetchLocIdxs: *mut usize, numPrefetchLocs: usize, flags: u64, stream: cudaStream_t
    ) {
        ready()?;
        cu!(cuMemPrefetchBatchAsync(
            dptrs.cast(), sizes, count, prefetchLocs.cast(), prefetchLocIdxs, numPrefetchLocs, flags, stream
        ))
    }

    /// Discards the contents of ranges of managed memory.
    fn cudaMemDiscardBatchAsync / cudaMemDiscardBatchAsync_ptsz [stream] (
        dptrs: *mut *mut c_void, sizes: *mut usize, count: usize, flags: u64, stream: cudaStream_t
    ) {
        ready()?;
        cu!(cuMemDiscardBatchAsync(dptrs.cast(), sizes, count, flags, stream))
    }

    /// Discards the contents of ranges of managed memory and moves them.
    fn cudaMemDiscardAndPrefetchBatchAsync / cudaMemDiscardAndPrefetchBatchAsync_ptsz [stream] (
        dptrs: *mut *mut c_void, sizes: *mut usize, count: usize, prefetchLocs: *mut cudaMemLocation,
        prefetchLocIdxs: *mut usize, numPrefetchLocs: usize, flags: u64, stream: cudaStream_t
    ) {
        ready()?;
        cu!(cuMemDiscardAndPrefetchBatchAsync(
            dptrs.cast(), sizes, count, prefetchLocs.cast(), prefetchLocIdxs, numPrefetchLocs, flags, stream
        ))
    }
}
