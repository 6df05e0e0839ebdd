//! Copies: 1-D, 2-D, 3-D, between devices, to and from arrays.

use crate::convert::{Side, address, copy_2d, copy_3d, sides};
use crate::generated::types::*;
use crate::state::{self, ready};
use driver::sys::{
    CU_STREAM_PER_THREAD, CUDA_ARRAY3D_DESCRIPTOR, CUDA_MEMCPY2D, CUDA_MEMCPY3D,
    CUDA_MEMCPY3D_PEER, CUarray, CUstream,
};
use std::ffi::c_void;

/// The thread's own default stream.
const PER_THREAD: CUstream = CUstream(CU_STREAM_PER_THREAD as u64);

/// When a copy is done and in what order.
#[derive(Clone, Copy)]
pub(crate) enum When {
    /// Before the call returns, in order with the legacy default stream.
    Now,
    /// Before the call returns, in order with the thread's default stream.
    NowPerThread,
    /// In order with a stream.
    InStream(CUstream),
}

fn waited(stream: CUstream) -> Result<(), cudaError_t> {
    cu!(cuStreamSynchronize(stream))
}

fn copy_1d(
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: cudaMemcpyKind,
    when: When,
) -> Result<(), cudaError_t> {
    ready()?;
    sides(kind)?;
    if count == 0 {
        return Ok(());
    }
    let (to, from) = (address(dst), address(src));
    match (when, kind) {
        (When::Now, cudaMemcpyKind::cudaMemcpyHostToDevice) => cu!(cuMemcpyHtoD_v2(to, src, count)),
        (When::Now, cudaMemcpyKind::cudaMemcpyDeviceToHost) => {
            cu!(cuMemcpyDtoH_v2(dst, from, count))
        }
        (When::Now, cudaMemcpyKind::cudaMemcpyDeviceToDevice) => {
            cu!(cuMemcpyDtoD_v2(to, from, count))
        }
        (When::Now, _) => cu!(cuMemcpy(to, from, count)),
        (When::NowPerThread, _) => {
            copy_1d(dst, src, count, kind, When::InStream(PER_THREAD))?;
            waited(PER_THREAD)
        }
        (When::InStream(stream), cudaMemcpyKind::cudaMemcpyHostToDevice) => {
            cu!(cuMemcpyHtoDAsync_v2(to, src, count, stream))
        }
        (When::InStream(stream), cudaMemcpyKind::cudaMemcpyDeviceToHost) => {
            cu!(cuMemcpyDtoHAsync_v2(dst, from, count, stream))
        }
        (When::InStream(stream), cudaMemcpyKind::cudaMemcpyDeviceToDevice) => {
            cu!(cuMemcpyDtoDAsync_v2(to, from, count, stream))
        }
        (When::InStream(stream), _) => cu!(cuMemcpyAsync(to, from, count, stream)),
    }
}

/// 1-D copy for symbols: which cudaMemcpyToSymbol and similar functions reduce
/// to.
pub(crate) fn copy_now(
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: cudaMemcpyKind,
) -> Result<(), cudaError_t> {
    copy_1d(dst, src, count, kind, When::Now)
}

/// As [`copy_now`] in the thread's default stream.
pub(crate) fn copy_now_per_thread(
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: cudaMemcpyKind,
) -> Result<(), cudaError_t> {
    copy_1d(dst, src, count, kind, When::NowPerThread)
}

/// As [`copy_now`], enqueued.
pub(crate) fn copy_in_stream(
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: cudaMemcpyKind,
    stream: CUstream,
) -> Result<(), cudaError_t> {
    copy_1d(dst, src, count, kind, When::InStream(stream))
}

pub(crate) fn run_2d(copy: &CUDA_MEMCPY2D, when: When) -> Result<(), cudaError_t> {
    ready()?;
    if copy.WidthInBytes == 0 || copy.Height == 0 {
        return Ok(());
    }
    match when {
        When::Now => cu!(cuMemcpy2DUnaligned_v2(copy)),
        When::NowPerThread => {
            cu!(cuMemcpy2DAsync_v2(copy, PER_THREAD))?;
            waited(PER_THREAD)
        }
        When::InStream(stream) => cu!(cuMemcpy2DAsync_v2(copy, stream)),
    }
}

fn run_3d(copy: &CUDA_MEMCPY3D, when: When) -> Result<(), cudaError_t> {
    if copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0 {
        return Ok(());
    }
    match when {
        When::Now => cu!(cuMemcpy3D_v2(copy)),
        When::NowPerThread => {
            cu!(cuMemcpy3DAsync_v2(copy, PER_THREAD))?;
            waited(PER_THREAD)
        }
        When::InStream(stream) => cu!(cuMemcpy3DAsync_v2(copy, stream)),
    }
}

/// Bytes of one element of an array.
pub(crate) fn element_bytes(array: CUarray) -> Result<usize, cudaError_t> {
    use driver::sys::CUarray_format as F;
    let mut descriptor = CUDA_ARRAY3D_DESCRIPTOR::zeroed();
    cu!(cuArray3DGetDescriptor_v2(&raw mut descriptor, array))?;
    let channel = match descriptor.Format {
        F::CU_AD_FORMAT_UNSIGNED_INT8 | F::CU_AD_FORMAT_SIGNED_INT8 => 1,
        F::CU_AD_FORMAT_UNSIGNED_INT16 | F::CU_AD_FORMAT_SIGNED_INT16 | F::CU_AD_FORMAT_HALF => 2,
        F::CU_AD_FORMAT_UNSIGNED_INT32 | F::CU_AD_FORMAT_SIGNED_INT32 | F::CU_AD_FORMAT_FLOAT => 4,
        _ => return Err(cudaError_t::cudaErrorNotSupported),
    };
    Ok(channel * descriptor.NumChannels as usize)
}

fn parameters_3d(parms: *const cudaMemcpy3DParms) -> Result<CUDA_MEMCPY3D, cudaError_t> {
    ready()?;
    copy_3d(get!(parms)?, &element_bytes)
}

/// The driver's form of a copy node's parameters.
pub(crate) fn node_parameters(
    parms: *const cudaMemcpy3DParms,
) -> Result<CUDA_MEMCPY3D, cudaError_t> {
    parameters_3d(parms)
}

/// A 3-D copy between devices: as within one, plus both contexts.
fn parameters_peer(parms: *const cudaMemcpy3DPeerParms) -> Result<CUDA_MEMCPY3D_PEER, cudaError_t> {
    ready()?;
    let parms = get!(parms)?;
    let within = cudaMemcpy3DParms {
        srcArray: parms.srcArray,
        srcPos: parms.srcPos,
        srcPtr: parms.srcPtr,
        dstArray: parms.dstArray,
        dstPos: parms.dstPos,
        dstPtr: parms.dstPtr,
        extent: parms.extent,
        kind: cudaMemcpyKind::cudaMemcpyDeviceToDevice,
    };
    let copy = copy_3d(&within, &element_bytes)?;
    Ok(CUDA_MEMCPY3D_PEER {
        srcXInBytes: copy.srcXInBytes,
        srcY: copy.srcY,
        srcZ: copy.srcZ,
        srcMemoryType: copy.srcMemoryType,
        srcDevice: copy.srcDevice,
        srcArray: copy.srcArray,
        srcContext: state::primary(parms.srcDevice)?,
        srcPitch: copy.srcPitch,
        srcHeight: copy.srcHeight,
        dstXInBytes: copy.dstXInBytes,
        dstY: copy.dstY,
        dstZ: copy.dstZ,
        dstMemoryType: copy.dstMemoryType,
        dstDevice: copy.dstDevice,
        dstArray: copy.dstArray,
        dstContext: state::primary(parms.dstDevice)?,
        dstPitch: copy.dstPitch,
        dstHeight: copy.dstHeight,
        WidthInBytes: copy.WidthInBytes,
        Height: copy.Height,
        Depth: copy.Depth,
        ..CUDA_MEMCPY3D_PEER::zeroed()
    })
}

pub(crate) fn linear(pointer: *const c_void, pitch: usize) -> Side {
    Side::Linear { pointer, pitch }
}

runtime! {
    /// Copies bytes.
    fn cudaMemcpy(dst: *mut c_void, src: *const c_void, count: usize, kind: cudaMemcpyKind) {
        copy_1d(dst, src, count, kind, When::Now)
    }

    /// Copies bytes, in order with the thread's default stream.
    [unchecked] fn cudaMemcpy_ptds(dst: *mut c_void, src: *const c_void, count: usize, kind: cudaMemcpyKind) {
        copy_1d(dst, src, count, kind, When::NowPerThread)
    }

    /// Enqueues a copy of bytes.
    fn cudaMemcpyAsync / cudaMemcpyAsync_ptsz [stream] (
        dst: *mut c_void, src: *const c_void, count: usize, kind: cudaMemcpyKind, stream: cudaStream_t
    ) {
        copy_1d(dst, src, count, kind, When::InStream(stream))
    }

    /// Copies rows.
    fn cudaMemcpy2D(
        dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize, height: usize, kind: cudaMemcpyKind
    ) {
        run_2d(&copy_2d(linear(dst, dpitch), linear(src, spitch), width, height, kind)?, When::Now)
    }

    /// Copies rows, in order with the thread's default stream.
    [unchecked] fn cudaMemcpy2D_ptds(
        dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize, height: usize, kind: cudaMemcpyKind
    ) {
        run_2d(&copy_2d(linear(dst, dpitch), linear(src, spitch), width, height, kind)?, When::NowPerThread)
    }

    /// Enqueues a copy of rows.
    fn cudaMemcpy2DAsync / cudaMemcpy2DAsync_ptsz [stream] (
        dst: *mut c_void, dpitch: usize, src: *const c_void, spitch: usize, width: usize, height: usize,
        kind: cudaMemcpyKind, stream: cudaStream_t
    ) {
        run_2d(&copy_2d(linear(dst, dpitch), linear(src, spitch), width, height, kind)?, When::InStream(stream))
    }

    /// Copies a box.
    fn cudaMemcpy3D(p: *const cudaMemcpy3DParms) {
        run_3d(&parameters_3d(p)?, When::Now)
    }

    /// Copies a box, in order with the thread's default stream.
    [unchecked] fn cudaMemcpy3D_ptds(p: *const cudaMemcpy3DParms) {
        run_3d(&parameters_3d(p)?, When::NowPerThread)
    }

    /// Enqueues a copy of a box.
    fn cudaMemcpy3DAsync / cudaMemcpy3DAsync_ptsz [stream] (p: *const cudaMemcpy3DParms, stream: cudaStream_t) {
        run_3d(&parameters_3d(p)?, When::InStream(stream))
    }

    /// Copies a box between devices.
    fn cudaMemcpy3DPeer(p: *const cudaMemcpy3DPeerParms) {
        let copy = parameters_peer(p)?;
        cu!(cuMemcpy3DPeer(&raw const copy))
    }

    /// Copies a box between devices, in order with the thread's default stream.
    [unchecked] fn cudaMemcpy3DPeer_ptds(p: *const cudaMemcpy3DPeerParms) {
        let copy = parameters_peer(p)?;
        cu!(cuMemcpy3DPeerAsync(&raw const copy, PER_THREAD))?;
        waited(PER_THREAD)
    }

    /// Enqueues a copy of a box between devices.
    fn cudaMemcpy3DPeerAsync / cudaMemcpy3DPeerAsync_ptsz [stream] (p: *const cudaMemcpy3DPeerParms, stream: cudaStream_t) {
        let copy = parameters_peer(p)?;
        cu!(cuMemcpy3DPeerAsync(&raw const copy, stream))
    }

    /// Copies bytes between devices.
    fn cudaMemcpyPeer(dst: *mut c_void, dstDevice: i32, src: *const c_void, srcDevice: i32, count: usize) {
        ready()?;
        let (to, from) = (state::primary(dstDevice)?, state::primary(srcDevice)?);
        cu!(cuMemcpyPeer(address(dst), to, address(src), from, count))
    }

    /// Enqueues a copy of bytes between devices.
    fn cudaMemcpyPeerAsync(
        dst: *mut c_void, dstDevice: i32, src: *const c_void, srcDevice: i32, count: usize, stream: cudaStream_t
    ) {
        ready()?;
        let (to, from) = (state::primary(dstDevice)?, state::primary(srcDevice)?);
        cu!(cuMemcpyPeerAsync(address(dst), to, address(src), from, count, stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_name_both_sides() {
        use driver::sys::CUmemorytype as T;
        assert_eq!(
            sides(cudaMemcpyKind::cudaMemcpyDeviceToHost),
            Ok((T::CU_MEMORYTYPE_DEVICE, T::CU_MEMORYTYPE_HOST))
        );
        assert_eq!(
            sides(cudaMemcpyKind(5)),
            Err(cudaError_t::cudaErrorInvalidMemcpyDirection)
        );
    }
}
