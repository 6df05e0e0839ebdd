//! Arrays: copies to, from and between them, and what they are.

use crate::api::copy::{When, element_bytes, linear, run_2d};
use crate::convert::{Side, copy_2d};
use crate::generated::types::*;
use crate::state::ready;
use driver::sys::{CUDA_ARRAY3D_DESCRIPTOR, CUarray, CUarray_format};
use std::ffi::c_void;

fn at(array: cudaArray_t, x: usize, y: usize) -> Side {
    Side::Array { array, x, y }
}

/// An array, and where in it a copy starts: bytes in a row, rows.
type Place = (cudaArray_t, usize, usize);

/// Rows of a row-major range of an array, for the 1-D copies to and from it:
/// a first partial row, whole rows, a last partial row.
fn rows(
    array: CUarray,
    x: usize,
    y: usize,
    count: usize,
) -> Result<Vec<(usize, usize, usize, usize)>, cudaError_t> {
    let mut descriptor = CUDA_ARRAY3D_DESCRIPTOR::zeroed();
    cu!(cuArray3DGetDescriptor_v2(&raw mut descriptor, array))?;
    let width = descriptor.Width * element_bytes(array)?;
    let (mut x, mut y, mut left, mut out) = (x, y, count, Vec::new());
    if x >= width {
        return Err(cudaError_t::cudaErrorInvalidValue);
    }
    while left > 0 {
        let (bytes, rows) = if x == 0 && left >= width {
            (width, left / width)
        } else {
            (left.min(width - x), 1)
        };
        out.push((x, y, bytes, rows));
        left -= bytes * rows;
        y += rows;
        x = 0;
    }
    Ok(out)
}

fn to_array(
    (dst, x, y): Place,
    src: *const c_void,
    count: usize,
    kind: cudaMemcpyKind,
    when: When,
) -> Result<(), cudaError_t> {
    ready()?;
    let mut from = src;
    for (x, y, width, height) in rows(dst, x, y, count)? {
        run_2d(
            &copy_2d(at(dst, x, y), linear(from, width), width, height, kind)?,
            when,
        )?;
        from = from.wrapping_byte_add(width * height);
    }
    Ok(())
}

fn from_array(
    dst: *mut c_void,
    (src, x, y): Place,
    count: usize,
    kind: cudaMemcpyKind,
    when: When,
) -> Result<(), cudaError_t> {
    ready()?;
    let mut to = dst;
    for (x, y, width, height) in rows(src, x, y, count)? {
        run_2d(
            &copy_2d(linear(to, width), at(src, x, y), width, height, kind)?,
            when,
        )?;
        to = to.wrapping_byte_add(width * height);
    }
    Ok(())
}

/// The channel description of an array's format.
fn channels(descriptor: &CUDA_ARRAY3D_DESCRIPTOR) -> Result<cudaChannelFormatDesc, cudaError_t> {
    channels_of(descriptor.Format, descriptor.NumChannels)
}

/// The description of so many channels of a format.
pub(super) fn channels_of(
    format: CUarray_format,
    count: u32,
) -> Result<cudaChannelFormatDesc, cudaError_t> {
    use CUarray_format as F;
    use cudaChannelFormatKind as K;
    let (bits, f) = match format {
        F::CU_AD_FORMAT_UNSIGNED_INT8 => (8, K::cudaChannelFormatKindUnsigned),
        F::CU_AD_FORMAT_UNSIGNED_INT16 => (16, K::cudaChannelFormatKindUnsigned),
        F::CU_AD_FORMAT_UNSIGNED_INT32 => (32, K::cudaChannelFormatKindUnsigned),
        F::CU_AD_FORMAT_SIGNED_INT8 => (8, K::cudaChannelFormatKindSigned),
        F::CU_AD_FORMAT_SIGNED_INT16 => (16, K::cudaChannelFormatKindSigned),
        F::CU_AD_FORMAT_SIGNED_INT32 => (32, K::cudaChannelFormatKindSigned),
        F::CU_AD_FORMAT_HALF => (16, K::cudaChannelFormatKindFloat),
        F::CU_AD_FORMAT_FLOAT => (32, K::cudaChannelFormatKindFloat),
        _ => return Err(cudaError_t::cudaErrorNotSupported),
    };
    let of = |index| if index < count { bits } else { 0 };
    Ok(cudaChannelFormatDesc {
        x: of(0),
        y: of(1),
        z: of(2),
        w: of(3),
        f,
    })
}

fn descriptor(array: CUarray) -> Result<CUDA_ARRAY3D_DESCRIPTOR, cudaError_t> {
    ready()?;
    let mut descriptor = CUDA_ARRAY3D_DESCRIPTOR::zeroed();
    cu!(cuArray3DGetDescriptor_v2(&raw mut descriptor, array))?;
    Ok(descriptor)
}

runtime! {
    /// Copies rows into an array.
    fn cudaMemcpy2DToArray(
        dst: cudaArray_t, wOffset: usize, hOffset: usize, src: *const c_void, spitch: usize, width: usize, height: usize,
        kind: cudaMemcpyKind
    ) {
        run_2d(&copy_2d(at(dst, wOffset, hOffset), linear(src, spitch), width, height, kind)?, When::Now)
    }

    /// Copies rows into an array, in order with the thread's default stream.
    [unchecked] fn cudaMemcpy2DToArray_ptds(
        dst: cudaArray_t, wOffset: usize, hOffset: usize, src: *const c_void, spitch: usize, width: usize, height: usize,
        kind: cudaMemcpyKind
    ) {
        run_2d(&copy_2d(at(dst, wOffset, hOffset), linear(src, spitch), width, height, kind)?, When::NowPerThread)
    }

    /// Enqueues a copy of rows into an array.
    fn cudaMemcpy2DToArrayAsync / cudaMemcpy2DToArrayAsync_ptsz [stream] (
        dst: cudaArray_t, wOffset: usize, hOffset: usize, src: *const c_void, spitch: usize, width: usize, height: usize,
        kind: cudaMemcpyKind, stream: cudaStream_t
    ) {
        run_2d(&copy_2d(at(dst, wOffset, hOffset), linear(src, spitch), width, height, kind)?, When::InStream(stream))
    }

    /// Copies rows out of an array.
    fn cudaMemcpy2DFromArray(
        dst: *mut c_void, dpitch: usize, src: cudaArray_const_t, wOffset: usize, hOffset: usize, width: usize,
        height: usize, kind: cudaMemcpyKind
    ) {
        run_2d(&copy_2d(linear(dst, dpitch), at(src, wOffset, hOffset), width, height, kind)?, When::Now)
    }

    /// Copies rows out of an array, in order with the thread's default stream.
    [unchecked] fn cudaMemcpy2DFromArray_ptds(
        dst: *mut c_void, dpitch: usize, src: cudaArray_const_t, wOffset: usize, hOffset: usize, width: usize,
        height: usize, kind: cudaMemcpyKind
    ) {
        run_2d(&copy_2d(linear(dst, dpitch), at(src, wOffset, hOffset), width, height, kind)?, When::NowPerThread)
    }

    /// Enqueues a copy of rows out of an array.
    fn cudaMemcpy2DFromArrayAsync / cudaMemcpy2DFromArrayAsync_ptsz [stream] (
        dst: *mut c_void, dpitch: usize, src: cudaArray_const_t, wOffset: usize, hOffset: usize, width: usize,
        height: usize, kind: cudaMemcpyKind, stream: cudaStream_t
    ) {
        run_2d(&copy_2d(linear(dst, dpitch), at(src, wOffset, hOffset), width, height, kind)?, When::InStream(stream))
    }

    /// Copies rows between arrays.
    fn cudaMemcpy2DArrayToArray(
        dst: cudaArray_t, wOffsetDst: usize, hOffsetDst: usize, src: cudaArray_const_t, wOffsetSrc: usize,
        hOffsetSrc: usize, width: usize, height: usize, kind: cudaMemcpyKind
    ) {
        run_2d(&copy_2d(at(dst, wOffsetDst, hOffsetDst), at(src, wOffsetSrc, hOffsetSrc), width, height, kind)?, When::Now)
    }

    /// Copies rows between arrays, in order with the thread's default stream.
    [unchecked] fn cudaMemcpy2DArrayToArray_ptds(
        dst: cudaArray_t, wOffsetDst: usize, hOffsetDst: usize, src: cudaArray_const_t, wOffsetSrc: usize,
        hOffsetSrc: usize, width: usize, height: usize, kind: cudaMemcpyKind
    ) {
        run_2d(&copy_2d(at(dst, wOffsetDst, hOffsetDst), at(src, wOffsetSrc, hOffsetSrc), width, height, kind)?, When::NowPerThread)
    }

    /// Copies bytes into an array, row after row.
    fn cudaMemcpyToArray(
        dst: cudaArray_t, wOffset: usize, hOffset: usize, src: *const c_void, count: usize, kind: cudaMemcpyKind
    ) {
        to_array((dst, wOffset, hOffset), src, count, kind, When::Now)
    }

    /// Copies bytes into an array, row after row, in order with the thread's default stream.
    [unchecked] fn cudaMemcpyToArray_ptds(
        dst: cudaArray_t, wOffset: usize, hOffset: usize, src: *const c_void, count: usize, kind: cudaMemcpyKind
    ) {
        to_array((dst, wOffset, hOffset), src, count, kind, When::NowPerThread)
    }

    /// Enqueues a copy of bytes into an array, row after row.
    fn cudaMemcpyToArrayAsync / cudaMemcpyToArrayAsync_ptsz [stream] (
        dst: cudaArray_t, wOffset: usize, hOffset: usize, src: *const c_void, count: usize, kind: cudaMemcpyKind,
        stream: cudaStream_t
    ) {
        to_array((dst, wOffset, hOffset), src, count, kind, When::InStream(stream))
    }

    /// Copies bytes out of an array, row after row.
    fn cudaMemcpyFromArray(
        dst: *mut c_void, src: cudaArray_const_t, wOffset: usize, hOffset: usize, count: usize, kind: cudaMemcpyKind
    ) {
        from_array(dst, (src, wOffset, hOffset), count, kind, When::Now)
    }

    /// Copies bytes out of an array, row after row, in order with the thread's default stream.
    [unchecked] fn cudaMemcpyFromArray_ptds(
        dst: *mut c_void, src: cudaArray_const_t, wOffset: usize, hOffset: usize, count: usize, kind: cudaMemcpyKind
    ) {
        from_array(dst, (src, wOffset, hOffset), count, kind, When::NowPerThread)
    }

    /// Enqueues a copy of bytes out of an array, row after row.
    fn cudaMemcpyFromArrayAsync / cudaMemcpyFromArrayAsync_ptsz [stream] (
        dst: *mut c_void, src: cudaArray_const_t, wOffset: usize, hOffset: usize, count: usize, kind: cudaMemcpyKind,
        stream: cudaStream_t
    ) {
        from_array(dst, (src, wOffset, hOffset), count, kind, When::InStream(stream))
    }

    /// What an array is; each out pointer may be null.
    fn cudaArrayGetInfo(
        desc: *mut cudaChannelFormatDesc, extent: *mut cudaExtent, flags: *mut u32, array: cudaArray_t
    ) {
        let descriptor = descriptor(array)?;
        if !desc.is_null() {
            put!(desc, channels(&descriptor)?)?;
        }
        if !extent.is_null() {
            put!(extent, cudaExtent { width: descriptor.Width, height: descriptor.Height, depth: descriptor.Depth })?;
        }
        if !flags.is_null() {
            put!(flags, descriptor.Flags)?;
        }
        Ok(())
    }

    /// The channels of an array.
    fn cudaGetChannelDesc(desc: *mut cudaChannelFormatDesc, array: cudaArray_const_t) {
        put!(desc, channels(&descriptor(array)?)?)
    }

    /// Copies bytes between arrays, row after row: through the host, since the
    /// rows of the two may differ in length.
    fn cudaMemcpyArrayToArray(
        dst: cudaArray_t, wOffsetDst: usize, hOffsetDst: usize, src: cudaArray_const_t, wOffsetSrc: usize,
        hOffsetSrc: usize, count: usize, _kind: cudaMemcpyKind
    ) {
        array_to_array((dst, wOffsetDst, hOffsetDst), (src, wOffsetSrc, hOffsetSrc), count, When::Now)
    }

    /// Copies bytes between arrays, in order with the thread's default stream.
    [unchecked] fn cudaMemcpyArrayToArray_ptds(
        dst: cudaArray_t, wOffsetDst: usize, hOffsetDst: usize, src: cudaArray_const_t, wOffsetSrc: usize,
        hOffsetSrc: usize, count: usize, _kind: cudaMemcpyKind
    ) {
        array_to_array((dst, wOffsetDst, hOffsetDst), (src, wOffsetSrc, hOffsetSrc), count, When::NowPerThread)
    }
}

fn array_to_array(dst: Place, src: Place, count: usize, when: When) -> Result<(), cudaError_t> {
    let mut bytes = vec![0u8; count];
    let buffer = bytes.as_mut_ptr().cast::<c_void>();
    from_array(
        buffer,
        src,
        count,
        cudaMemcpyKind::cudaMemcpyDeviceToHost,
        when,
    )?;
    to_array(
        dst,
        buffer,
        count,
        cudaMemcpyKind::cudaMemcpyHostToDevice,
        when,
    )
}
