//! Memsets: checked against the memory that they name before they are made.

use super::copy::checked;
use super::define::{hook, hooks};
use super::{streams, sync};
use driver::sys::{CUDA_MEMSET_NODE_PARAMS, CUdeviceptr, CUstream};
use runtime::{Effect, Place, Side, Touched};

hooks!(
    cuMemsetD16_v2,
    cuMemsetD16_v2_ptds,
    cuMemsetD16Async,
    cuMemsetD16Async_ptsz,
    cuMemsetD2D16_v2,
    cuMemsetD2D16_v2_ptds,
    cuMemsetD2D16Async,
    cuMemsetD2D16Async_ptsz,
    cuMemsetD2D32_v2,
    cuMemsetD2D32_v2_ptds,
    cuMemsetD2D32Async,
    cuMemsetD2D32Async_ptsz,
    cuMemsetD2D8_v2,
    cuMemsetD2D8_v2_ptds,
    cuMemsetD2D8Async,
    cuMemsetD2D8Async_ptsz,
    cuMemsetD32_v2,
    cuMemsetD32_v2_ptds,
    cuMemsetD32Async,
    cuMemsetD32Async_ptsz,
    cuMemsetD8_v2,
    cuMemsetD8_v2_ptds,
    cuMemsetD8Async,
    cuMemsetD8Async_ptsz,
);

fn target(touched: Touched) -> [Side; 1] {
    [Side {
        touched,
        place: Place::Device,
        effect: Effect::Write,
    }]
}

/// `count` elements.
fn run(to: CUdeviceptr, element: usize, count: usize) -> [Side; 1] {
    target(Touched::linear(to, count.saturating_mul(element) as u64))
}

/// Rows of elements.
fn rows(to: CUdeviceptr, pitch: usize, element: usize, width: usize, height: usize) -> [Side; 1] {
    let width = width.saturating_mul(element) as u64;
    target(Touched::rows(to, pitch as u64, width, height as u64))
}

/// What a set in a graph does.
pub(super) fn node(set: &CUDA_MEMSET_NODE_PARAMS) -> [Side; 1] {
    rows(
        set.dst,
        set.pitch,
        set.elementSize as usize,
        set.width,
        set.height,
    )
}

macro_rules! sets {
    ($($element:literal $value:ty: [$($now:ident),*], [$($in_stream:ident),*], [$($rows:ident),*], [$($rows_in_stream:ident),*];)*) => {$(
        hook!([$($now),*](to: CUdeviceptr, value: $value, count: usize) |set| {
            checked(FUNCTION, sync::last(), &run(to, $element, count), || {
                // SAFETY: the program's arguments.
                unsafe { set(to, value, count) }
            })
        });
        hook!([$($in_stream),*](to: CUdeviceptr, value: $value, count: usize, stream: CUstream) |set| {
            checked(FUNCTION, streams::turn(stream, PER_THREAD), &run(to, $element, count), || {
                // SAFETY: the program's arguments.
                unsafe { set(to, value, count, stream) }
            })
        });
        hook!([$($rows),*](to: CUdeviceptr, pitch: usize, value: $value, width: usize, height: usize) |set| {
            checked(FUNCTION, sync::last(), &rows(to, pitch, $element, width, height), || {
                // SAFETY: the program's arguments.
                unsafe { set(to, pitch, value, width, height) }
            })
        });
        hook!([$($rows_in_stream),*](
            to: CUdeviceptr,
            pitch: usize,
            value: $value,
            width: usize,
            height: usize,
            stream: CUstream,
        ) |set| {
            checked(FUNCTION, streams::turn(stream, PER_THREAD), &rows(to, pitch, $element, width, height), || {
                // SAFETY: the program's arguments.
                unsafe { set(to, pitch, value, width, height, stream) }
            })
        });
    )*};
}

sets! {
    1 u8: [cuMemsetD8_v2, cuMemsetD8_v2_ptds], [cuMemsetD8Async, cuMemsetD8Async_ptsz],
        [cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds], [cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz];
    2 u16: [cuMemsetD16_v2, cuMemsetD16_v2_ptds], [cuMemsetD16Async, cuMemsetD16Async_ptsz],
        [cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds], [cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz];
    4 u32: [cuMemsetD32_v2, cuMemsetD32_v2_ptds], [cuMemsetD32Async, cuMemsetD32Async_ptsz],
        [cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds], [cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz];
}
