//! Copies of rows and boxes: each row is checked against the memory that the side's
//! pointer names; what lies between rows is not touched.

use super::copy::checked;
use super::define::{hook, hooks};
use super::sync::{Waited, waited};
use super::{streams, sync};
use driver::sys::{
    CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_BATCH_OP, CUDA_MEMCPY3D_PEER, CUextent3D,
    CUmemcpy3DOperand, CUmemcpy3DOperandType, CUmemorytype, CUstream,
};
use runtime::{Effect, Place, Position, Shape, Side, Touched};
use std::ffi::c_void;

hooks!(
    cuMemcpy2D_v2,
    cuMemcpy2D_v2_ptds,
    cuMemcpy2DAsync_v2,
    cuMemcpy2DAsync_v2_ptsz,
    cuMemcpy2DUnaligned_v2,
    cuMemcpy2DUnaligned_v2_ptds,
    cuMemcpy3D_v2,
    cuMemcpy3D_v2_ptds,
    cuMemcpy3DAsync_v2,
    cuMemcpy3DAsync_v2_ptsz,
    cuMemcpy3DBatchAsync,
    cuMemcpy3DBatchAsync_ptsz,
    cuMemcpy3DBatchAsync_v2,
    cuMemcpy3DBatchAsync_v2_ptsz,
    cuMemcpy3DPeer,
    cuMemcpy3DPeer_ptds,
    cuMemcpy3DPeerAsync,
    cuMemcpy3DPeerAsync_ptsz,
);

/// The sides of one copy that are not arrays, of which the device knows the
/// extents.
type Sides = smallvec::SmallVec<[Side; 2]>;

fn side(
    kind: CUmemorytype,
    host: *const c_void,
    device: u64,
    at: Position,
    shape: Shape,
    effect: Effect,
) -> Option<Side> {
    let (pointer, place) = match kind {
        CUmemorytype::CU_MEMORYTYPE_HOST => (host as u64, Place::Host),
        CUmemorytype::CU_MEMORYTYPE_DEVICE => (device, Place::Device),
        CUmemorytype::CU_MEMORYTYPE_UNIFIED => (device, Place::Any),
        _ => return None,
    };
    Some(Side {
        touched: Touched::within(pointer, at, shape)?,
        place,
        effect,
    })
}

/// # Safety
/// `how` is null or points to the struct.
unsafe fn sides_2d(how: *const CUDA_MEMCPY2D) -> Sides {
    // SAFETY: the caller's word.
    let Some(how) = (unsafe { how.as_ref() }) else {
        return Sides::new();
    };
    let shape = Shape {
        width: how.WidthInBytes as u64,
        height: how.Height as u64,
        depth: 1,
    };
    let at = |x: usize, y: usize, pitch: usize| Position {
        x: x as u64,
        y: y as u64,
        pitch: pitch as u64,
        ..Position::default()
    };
    let from = at(how.srcXInBytes, how.srcY, how.srcPitch);
    let to = at(how.dstXInBytes, how.dstY, how.dstPitch);
    let source = side(
        how.srcMemoryType,
        how.srcHost,
        how.srcDevice,
        from,
        shape,
        Effect::Read,
    );
    let target = side(
        how.dstMemoryType,
        how.dstHost,
        how.dstDevice,
        to,
        shape,
        Effect::Write,
    );
    source.into_iter().chain(target).collect()
}

/// The sides of a 3-D struct, with or without contexts.
macro_rules! sides_3d {
    ($how:expr) => {{
        let how = $how;
        let shape = Shape {
            width: how.WidthInBytes as u64,
            height: how.Height as u64,
            depth: how.Depth as u64,
        };
        let from = Position {
            x: how.srcXInBytes as u64,
            y: how.srcY as u64,
            z: how.srcZ as u64,
            pitch: how.srcPitch as u64,
            height: how.srcHeight as u64,
        };
        let to = Position {
            x: how.dstXInBytes as u64,
            y: how.dstY as u64,
            z: how.dstZ as u64,
            pitch: how.dstPitch as u64,
            height: how.dstHeight as u64,
        };
        let (source, target) = (
            side(
                how.srcMemoryType,
                how.srcHost,
                how.srcDevice,
                from,
                shape,
                Effect::Read,
            ),
            side(
                how.dstMemoryType,
                how.dstHost,
                how.dstDevice,
                to,
                shape,
                Effect::Write,
            ),
        );
        source.into_iter().chain(target).collect::<Sides>()
    }};
}

/// What a copy in a graph touches.
///
/// # Safety
/// `how` is null or points to the struct.
pub(super) unsafe fn node(how: *const CUDA_MEMCPY3D) -> Sides {
    // SAFETY: the caller's word.
    unsafe { how.as_ref() }.map_or_else(Sides::new, |how| sides_3d!(how))
}

/// # Safety
/// `how` is null or points to the struct.
unsafe fn sides_peer(how: *const CUDA_MEMCPY3D_PEER) -> Sides {
    // SAFETY: the caller's word.
    unsafe { how.as_ref() }.map_or_else(Sides::new, |how| sides_3d!(how))
}

fn operand(operand: &CUmemcpy3DOperand, extent: CUextent3D, effect: Effect) -> Option<Side> {
    if operand.type_ != CUmemcpy3DOperandType::CU_MEMCPY_OPERAND_TYPE_POINTER {
        return None;
    }
    // SAFETY: the type says which member is in use, and all of its bytes were
    // given by the program.
    let pointer = unsafe { operand.op.ptr };
    let at = Position {
        pitch: pointer.rowLength as u64,
        height: pointer.layerHeight as u64,
        ..Position::default()
    };
    let shape = Shape {
        width: extent.width as u64,
        height: extent.height as u64,
        depth: extent.depth as u64,
    };
    Some(Side {
        touched: Touched::within(pointer.ptr, at, shape)?,
        place: Place::Any,
        effect,
    })
}

/// The sides of a batch; one that is bad refuses all, as the device does.
///
/// # Safety
/// `list` is null or has `count` elements.
unsafe fn batch(list: *const CUDA_MEMCPY3D_BATCH_OP, count: usize) -> Vec<Side> {
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's word.
    let list = unsafe { std::slice::from_raw_parts(list, count) };
    list.iter()
        .flat_map(|one| {
            [
                operand(&one.src, one.extent, Effect::Read),
                operand(&one.dst, one.extent, Effect::Write),
            ]
        })
        .flatten()
        .collect()
}

hook!([cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds](
    how: *const CUDA_MEMCPY2D,
) |copy| {
    // SAFETY: the program's arguments.
    unsafe { checked(FUNCTION, sync::last(), &sides_2d(how), || waited(copy(how), Waited::Something)) }
});

hook!([cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz](how: *const CUDA_MEMCPY2D, stream: CUstream) |copy| {
    // SAFETY: the program's arguments.
    unsafe { checked(FUNCTION, streams::turn(stream, PER_THREAD), &sides_2d(how), || copy(how, stream)) }
});

hook!([cuMemcpy3D_v2, cuMemcpy3D_v2_ptds](how: *const CUDA_MEMCPY3D) |copy| {
    // SAFETY: the program's arguments.
    unsafe { checked(FUNCTION, sync::last(), &node(how), || waited(copy(how), Waited::Something)) }
});

hook!([cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz](how: *const CUDA_MEMCPY3D, stream: CUstream) |copy| {
    // SAFETY: the program's arguments.
    unsafe { checked(FUNCTION, streams::turn(stream, PER_THREAD), &node(how), || copy(how, stream)) }
});

hook!([cuMemcpy3DPeer, cuMemcpy3DPeer_ptds](how: *const CUDA_MEMCPY3D_PEER) |copy| {
    // SAFETY: the program's arguments.
    unsafe { checked(FUNCTION, sync::last(), &sides_peer(how), || waited(copy(how), Waited::Something)) }
});

hook!([cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz](how: *const CUDA_MEMCPY3D_PEER, stream: CUstream) |copy| {
    // SAFETY: the program's arguments.
    unsafe { checked(FUNCTION, streams::turn(stream, PER_THREAD), &sides_peer(how), || copy(how, stream)) }
});

hook!([cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_ptsz](
    count: usize,
    list: *mut CUDA_MEMCPY3D_BATCH_OP,
    failed: *mut usize,
    flags: u64,
    stream: CUstream,
) |copy| {
    // SAFETY: the program's arguments.
    unsafe { checked(FUNCTION, streams::turn(stream, PER_THREAD), &batch(list, count), || copy(count, list, failed, flags, stream)) }
});

hook!([cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync_v2_ptsz](
    count: usize,
    list: *mut CUDA_MEMCPY3D_BATCH_OP,
    flags: u64,
    stream: CUstream,
) |copy| {
    // SAFETY: the program's arguments.
    unsafe { checked(FUNCTION, streams::turn(stream, PER_THREAD), &batch(list, count), || copy(count, list, flags, stream)) }
});
