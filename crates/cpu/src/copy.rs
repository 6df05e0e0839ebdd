//! Copies and fills.

use crate::convert::{get, list, per_thread_functions, pick};
use driver::sys::*;
use emulate::device::{Copy, Device, Fill, Side};
use std::ffi::c_void;

/// A linear copy; `None` as a side's kind lets the address tell.
fn linear(to: (u64, Option<bool>), from: (u64, Option<bool>), size: usize) -> Copy {
    Copy::linear(
        Side::linear(to.0, to.1),
        Side::linear(from.0, from.1),
        size as u64,
    )
}

/// Bytes within the first row of an array, from a byte on: the 1-D copies of
/// arrays.
fn array_row(gpu: &Device, array: CUarray, at: usize, size: usize) -> Result<Side, CUresult> {
    gpu.array_side(array.0, [at as u64, 0, 0], [size as u64, 1, 1])
}

/// A copy between two such sides.
fn row((to, from): (Side, Side), size: usize) -> Copy {
    Copy::linear(to, from, size as u64)
}

fn exposed(pointer: *const c_void) -> u64 {
    pointer.expose_provenance() as u64
}

/// One side of the 2-D and 3-D structs.
struct End {
    kind: CUmemorytype,
    host: *const c_void,
    device: CUdeviceptr,
    array: CUarray,
    x: usize,
    y: usize,
    z: usize,
    pitch: usize,
    height: usize,
}

impl End {
    /// The side of a copy of so many bytes, rows and slices.
    fn side(&self, gpu: &Device, size: [usize; 3]) -> Result<Side, CUresult> {
        let [copy_width, copy_height, _] = size;
        let (base, device) = match self.kind {
            CUmemorytype::CU_MEMORYTYPE_ARRAY => {
                let at = [self.x, self.y, self.z].map(|at| at as u64);
                return gpu.array_side(self.array.0, at, size.map(|size| size as u64));
            }
            CUmemorytype::CU_MEMORYTYPE_HOST => (exposed(self.host), Some(false)),
            CUmemorytype::CU_MEMORYTYPE_DEVICE => (self.device, Some(true)),
            CUmemorytype::CU_MEMORYTYPE_UNIFIED => (self.device, None),
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        };
        // 0 means packed.
        let pitch = if self.pitch == 0 {
            copy_width + self.x
        } else {
            self.pitch
        } as u64;
        let height = if self.height == 0 {
            copy_height + self.y
        } else {
            self.height
        } as u64;
        let slice = pitch
            .checked_mul(height)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let offset = slice
            .checked_mul(self.z as u64)
            .and_then(|at| at.checked_add(pitch.checked_mul(self.y as u64)?))
            .and_then(|at| at.checked_add(self.x as u64))
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let address = base
            .checked_add(offset)
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        Ok(Side {
            address,
            pitch,
            slice,
            device,
        })
    }
}

fn shape_2d(gpu: &Device, c: &CUDA_MEMCPY2D) -> Result<Copy, CUresult> {
    let to = End {
        kind: c.dstMemoryType,
        host: c.dstHost,
        device: c.dstDevice,
        array: c.dstArray,
        x: c.dstXInBytes,
        y: c.dstY,
        z: 0,
        pitch: c.dstPitch,
        height: 0,
    };
    let from = End {
        kind: c.srcMemoryType,
        host: c.srcHost,
        device: c.srcDevice,
        array: c.srcArray,
        x: c.srcXInBytes,
        y: c.srcY,
        z: 0,
        pitch: c.srcPitch,
        height: 0,
    };
    let size = [c.WidthInBytes, c.Height, 1];
    Ok(Copy {
        to: to.side(gpu, size)?,
        from: from.side(gpu, size)?,
        width: c.WidthInBytes as u64,
        height: c.Height as u64,
        depth: 1,
    })
}

/// The copy that a 3-D struct describes.
pub fn shape_3d(gpu: &Device, c: &CUDA_MEMCPY3D) -> Result<Copy, CUresult> {
    let to = End {
        kind: c.dstMemoryType,
        host: c.dstHost,
        device: c.dstDevice,
        array: c.dstArray,
        x: c.dstXInBytes,
        y: c.dstY,
        z: c.dstZ,
        pitch: c.dstPitch,
        height: c.dstHeight,
    };
    let from = End {
        kind: c.srcMemoryType,
        host: c.srcHost,
        device: c.srcDevice,
        array: c.srcArray,
        x: c.srcXInBytes,
        y: c.srcY,
        z: c.srcZ,
        pitch: c.srcPitch,
        height: c.srcHeight,
    };
    let size = [c.WidthInBytes, c.Height, c.Depth];
    Ok(Copy {
        to: to.side(gpu, size)?,
        from: from.side(gpu, size)?,
        width: c.WidthInBytes as u64,
        height: c.Height as u64,
        depth: c.Depth as u64,
    })
}

/// The peer struct without its contexts: there is one device.
fn without_peers(p: &CUDA_MEMCPY3D_PEER_v1) -> CUDA_MEMCPY3D {
    CUDA_MEMCPY3D {
        srcXInBytes: p.srcXInBytes,
        srcY: p.srcY,
        srcZ: p.srcZ,
        srcMemoryType: p.srcMemoryType,
        srcHost: p.srcHost,
        srcDevice: p.srcDevice,
        srcArray: p.srcArray,
        srcPitch: p.srcPitch,
        srcHeight: p.srcHeight,
        dstXInBytes: p.dstXInBytes,
        dstY: p.dstY,
        dstZ: p.dstZ,
        dstMemoryType: p.dstMemoryType,
        dstHost: p.dstHost,
        dstDevice: p.dstDevice,
        dstArray: p.dstArray,
        dstPitch: p.dstPitch,
        dstHeight: p.dstHeight,
        WidthInBytes: p.WidthInBytes,
        Height: p.Height,
        Depth: p.Depth,
        ..CUDA_MEMCPY3D::zeroed()
    }
}

/// Elements in one row.
fn run(address: u64, value: u32, element: u32, count: usize) -> Fill {
    rows((address, 0), value, element, (count, 1))
}

/// Rows of elements: the first and the bytes from one to the next, and how many
/// elements and rows.
fn rows(
    (address, pitch): (u64, usize),
    value: u32,
    element: u32,
    (width, height): (usize, usize),
) -> Fill {
    Fill {
        address,
        pitch: pitch as u64,
        element,
        value,
        width: width as u64,
        height: height as u64,
    }
}

/// Device memory.
const DEVICE: Option<bool> = Some(true);
/// The program's memory.
const HOST: Option<bool> = Some(false);

per_thread_functions! { gpu, default, register_copies;
    fn cuMemcpy | cuMemcpy_ptds(to: CUdeviceptr, from: CUdeviceptr, size: usize) {
        gpu.copy(linear((to, None), (from, None), size), default)
    }
    fn cuMemcpyAsync | cuMemcpyAsync_ptsz(to: CUdeviceptr, from: CUdeviceptr, size: usize, stream: CUstream) {
        gpu.copy_async(linear((to, None), (from, None), size), pick(stream, default))
    }
    fn cuMemcpyPeer | cuMemcpyPeer_ptds(to: CUdeviceptr, _target: CUcontext, from: CUdeviceptr, _source: CUcontext, size: usize) {
        gpu.copy(linear((to, DEVICE), (from, DEVICE), size), default)
    }
    fn cuMemcpyPeerAsync | cuMemcpyPeerAsync_ptsz(to: CUdeviceptr, _target: CUcontext, from: CUdeviceptr, _source: CUcontext, size: usize, stream: CUstream) {
        gpu.copy_async(linear((to, DEVICE), (from, DEVICE), size), pick(stream, default))
    }
    fn cuMemcpyHtoD_v2 | cuMemcpyHtoD_v2_ptds(to: CUdeviceptr, from: *const c_void, size: usize) {
        gpu.copy(linear((to, DEVICE), (exposed(from), HOST), size), default)
    }
    fn cuMemcpyDtoH_v2 | cuMemcpyDtoH_v2_ptds(to: *mut c_void, from: CUdeviceptr, size: usize) {
        gpu.copy(linear((exposed(to), HOST), (from, DEVICE), size), default)
    }
    fn cuMemcpyDtoD_v2 | cuMemcpyDtoD_v2_ptds(to: CUdeviceptr, from: CUdeviceptr, size: usize) {
        gpu.copy(linear((to, DEVICE), (from, DEVICE), size), default)
    }
    fn cuMemcpyHtoDAsync_v2 | cuMemcpyHtoDAsync_v2_ptsz(to: CUdeviceptr, from: *const c_void, size: usize, stream: CUstream) {
        gpu.copy_async(linear((to, DEVICE), (exposed(from), HOST), size), pick(stream, default))
    }
    fn cuMemcpyDtoHAsync_v2 | cuMemcpyDtoHAsync_v2_ptsz(to: *mut c_void, from: CUdeviceptr, size: usize, stream: CUstream) {
        gpu.copy_async(linear((exposed(to), HOST), (from, DEVICE), size), pick(stream, default))
    }
    fn cuMemcpyDtoDAsync_v2 | cuMemcpyDtoDAsync_v2_ptsz(to: CUdeviceptr, from: CUdeviceptr, size: usize, stream: CUstream) {
        gpu.copy_async(linear((to, DEVICE), (from, DEVICE), size), pick(stream, default))
    }
    fn cuMemcpyHtoA_v2 | cuMemcpyHtoA_v2_ptds(to: CUarray, at: usize, from: *const c_void, size: usize) {
        gpu.copy(row((array_row(gpu, to, at, size)?, Side::linear(exposed(from), HOST)), size), default)
    }
    fn cuMemcpyAtoH_v2 | cuMemcpyAtoH_v2_ptds(to: *mut c_void, from: CUarray, at: usize, size: usize) {
        gpu.copy(row((Side::linear(exposed(to), HOST), array_row(gpu, from, at, size)?), size), default)
    }
    fn cuMemcpyDtoA_v2 | cuMemcpyDtoA_v2_ptds(to: CUarray, at: usize, from: CUdeviceptr, size: usize) {
        gpu.copy(row((array_row(gpu, to, at, size)?, Side::linear(from, DEVICE)), size), default)
    }
    fn cuMemcpyAtoD_v2 | cuMemcpyAtoD_v2_ptds(to: CUdeviceptr, from: CUarray, at: usize, size: usize) {
        gpu.copy(row((Side::linear(to, DEVICE), array_row(gpu, from, at, size)?), size), default)
    }
    fn cuMemcpyAtoA_v2 | cuMemcpyAtoA_v2_ptds(to: CUarray, at: usize, from: CUarray, source: usize, size: usize) {
        gpu.copy(row((array_row(gpu, to, at, size)?, array_row(gpu, from, source, size)?), size), default)
    }
    fn cuMemcpyHtoAAsync_v2 | cuMemcpyHtoAAsync_v2_ptsz(to: CUarray, at: usize, from: *const c_void, size: usize, stream: CUstream) {
        gpu.copy_async(row((array_row(gpu, to, at, size)?, Side::linear(exposed(from), HOST)), size), pick(stream, default))
    }
    fn cuMemcpyAtoHAsync_v2 | cuMemcpyAtoHAsync_v2_ptsz(to: *mut c_void, from: CUarray, at: usize, size: usize, stream: CUstream) {
        gpu.copy_async(row((Side::linear(exposed(to), HOST), array_row(gpu, from, at, size)?), size), pick(stream, default))
    }
    fn cuMemcpy2D_v2 | cuMemcpy2D_v2_ptds(copy: *const CUDA_MEMCPY2D) {
        gpu.copy(shape_2d(gpu, &get(copy)?)?, default)
    }
    fn cuMemcpy2DUnaligned_v2 | cuMemcpy2DUnaligned_v2_ptds(copy: *const CUDA_MEMCPY2D) {
        gpu.copy(shape_2d(gpu, &get(copy)?)?, default)
    }
    fn cuMemcpy2DAsync_v2 | cuMemcpy2DAsync_v2_ptsz(copy: *const CUDA_MEMCPY2D, stream: CUstream) {
        gpu.copy_async(shape_2d(gpu, &get(copy)?)?, pick(stream, default))
    }
    fn cuMemcpy3D_v2 | cuMemcpy3D_v2_ptds(copy: *const CUDA_MEMCPY3D) {
        gpu.copy(shape_3d(gpu, &get(copy)?)?, default)
    }
    fn cuMemcpy3DAsync_v2 | cuMemcpy3DAsync_v2_ptsz(copy: *const CUDA_MEMCPY3D, stream: CUstream) {
        gpu.copy_async(shape_3d(gpu, &get(copy)?)?, pick(stream, default))
    }
    fn cuMemcpy3DPeer | cuMemcpy3DPeer_ptds(copy: *const CUDA_MEMCPY3D_PEER) {
        gpu.copy(shape_3d(gpu, &without_peers(&get(copy)?))?, default)
    }
    fn cuMemcpy3DPeerAsync | cuMemcpy3DPeerAsync_ptsz(copy: *const CUDA_MEMCPY3D_PEER, stream: CUstream) {
        gpu.copy_async(shape_3d(gpu, &without_peers(&get(copy)?))?, pick(stream, default))
    }
    fn cuMemcpyBatchAsync_v2 | cuMemcpyBatchAsync_v2_ptsz(
        to: *mut CUdeviceptr, from: *mut CUdeviceptr, sizes: *mut usize, count: usize, _attributes: *mut CUmemcpyAttributes,
        _indices: *mut usize, _attribute_count: usize, stream: CUstream,
    ) {
        let (to, from, sizes) = (list(to, count), list(from, count), list(sizes, count));
        for ((to, from), size) in to.iter().zip(from).zip(sizes) {
            gpu.copy_async(linear((*to, None), (*from, None), *size), pick(stream, default))?;
        }
        Ok(())
    }
}

per_thread_functions! { gpu, default, register_fills;
    fn cuMemsetD8_v2 | cuMemsetD8_v2_ptds(to: CUdeviceptr, value: u8, count: usize) {
        gpu.fill(run(to, value.into(), 1, count), default)
    }
    fn cuMemsetD16_v2 | cuMemsetD16_v2_ptds(to: CUdeviceptr, value: u16, count: usize) {
        gpu.fill(run(to, value.into(), 2, count), default)
    }
    fn cuMemsetD32_v2 | cuMemsetD32_v2_ptds(to: CUdeviceptr, value: u32, count: usize) {
        gpu.fill(run(to, value, 4, count), default)
    }
    fn cuMemsetD2D8_v2 | cuMemsetD2D8_v2_ptds(to: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize) {
        gpu.fill(rows((to, pitch), value.into(), 1, (width, height)), default)
    }
    fn cuMemsetD2D16_v2 | cuMemsetD2D16_v2_ptds(to: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize) {
        gpu.fill(rows((to, pitch), value.into(), 2, (width, height)), default)
    }
    fn cuMemsetD2D32_v2 | cuMemsetD2D32_v2_ptds(to: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize) {
        gpu.fill(rows((to, pitch), value, 4, (width, height)), default)
    }
    fn cuMemsetD8Async | cuMemsetD8Async_ptsz(to: CUdeviceptr, value: u8, count: usize, stream: CUstream) {
        gpu.fill(run(to, value.into(), 1, count), pick(stream, default))
    }
    fn cuMemsetD16Async | cuMemsetD16Async_ptsz(to: CUdeviceptr, value: u16, count: usize, stream: CUstream) {
        gpu.fill(run(to, value.into(), 2, count), pick(stream, default))
    }
    fn cuMemsetD32Async | cuMemsetD32Async_ptsz(to: CUdeviceptr, value: u32, count: usize, stream: CUstream) {
        gpu.fill(run(to, value, 4, count), pick(stream, default))
    }
    fn cuMemsetD2D8Async | cuMemsetD2D8Async_ptsz(to: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize, stream: CUstream) {
        gpu.fill(rows((to, pitch), value.into(), 1, (width, height)), pick(stream, default))
    }
    fn cuMemsetD2D16Async | cuMemsetD2D16Async_ptsz(to: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize, stream: CUstream) {
        gpu.fill(rows((to, pitch), value.into(), 2, (width, height)), pick(stream, default))
    }
    fn cuMemsetD2D32Async | cuMemsetD2D32Async_ptsz(to: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize, stream: CUstream) {
        gpu.fill(rows((to, pitch), value, 4, (width, height)), pick(stream, default))
    }
}

/// Enters this file's functions into the table.
pub fn register(api: &mut driver::Api) {
    register_copies(api);
    register_fills(api);
}
