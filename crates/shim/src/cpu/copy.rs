//! Copies and fills.

use super::{Answer, get, list, per_thread_functions, pick};
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

fn exposed(pointer: *const c_void) -> u64 {
    pointer.expose_provenance() as u64
}

/// One side of the 2-D and 3-D structs.
struct End {
    kind: CUmemorytype,
    host: *const c_void,
    device: CUdeviceptr,
    x: usize,
    y: usize,
    z: usize,
    pitch: usize,
    height: usize,
}

impl End {
    fn side(&self, copy_width: usize, copy_height: usize) -> Result<Side, CUresult> {
        let (base, device) = match self.kind {
            CUmemorytype::CU_MEMORYTYPE_HOST => (exposed(self.host), Some(false)),
            CUmemorytype::CU_MEMORYTYPE_DEVICE => (self.device, Some(true)),
            CUmemorytype::CU_MEMORYTYPE_UNIFIED => (self.device, None),
            // Arrays are not supported.
            _ => return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
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

fn shape_2d(c: &CUDA_MEMCPY2D) -> Result<Copy, CUresult> {
    let to = End {
        kind: c.dstMemoryType,
        host: c.dstHost,
        device: c.dstDevice,
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
        x: c.srcXInBytes,
        y: c.srcY,
        z: 0,
        pitch: c.srcPitch,
        height: 0,
    };
    Ok(Copy {
        to: to.side(c.WidthInBytes, c.Height)?,
        from: from.side(c.WidthInBytes, c.Height)?,
        width: c.WidthInBytes as u64,
        height: c.Height as u64,
        depth: 1,
    })
}

/// The copy that a 3-D struct describes.
pub fn shape_3d(c: &CUDA_MEMCPY3D) -> Result<Copy, CUresult> {
    let to = End {
        kind: c.dstMemoryType,
        host: c.dstHost,
        device: c.dstDevice,
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
        x: c.srcXInBytes,
        y: c.srcY,
        z: c.srcZ,
        pitch: c.srcPitch,
        height: c.srcHeight,
    };
    Ok(Copy {
        to: to.side(c.WidthInBytes, c.Height)?,
        from: from.side(c.WidthInBytes, c.Height)?,
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
        srcPitch: p.srcPitch,
        srcHeight: p.srcHeight,
        dstXInBytes: p.dstXInBytes,
        dstY: p.dstY,
        dstZ: p.dstZ,
        dstMemoryType: p.dstMemoryType,
        dstHost: p.dstHost,
        dstDevice: p.dstDevice,
        dstPitch: p.dstPitch,
        dstHeight: p.dstHeight,
        WidthInBytes: p.WidthInBytes,
        Height: p.Height,
        Depth: p.Depth,
        ..CUDA_MEMCPY3D::zeroed()
    }
}

fn fill(
    gpu: &Device,
    address: u64,
    value: u32,
    element: u32,
    size: (usize, usize),
    pitch: usize,
    stream: u64,
) -> Answer {
    let fill = Fill {
        address,
        pitch: pitch as u64,
        element,
        value,
        width: size.0 as u64,
        height: size.1 as u64,
    };
    gpu.fill(fill, stream)
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
    fn cuMemcpy2D_v2 | cuMemcpy2D_v2_ptds(copy: *const CUDA_MEMCPY2D) {
        gpu.copy(shape_2d(&get(copy)?)?, default)
    }
    fn cuMemcpy2DUnaligned_v2 | cuMemcpy2DUnaligned_v2_ptds(copy: *const CUDA_MEMCPY2D) {
        gpu.copy(shape_2d(&get(copy)?)?, default)
    }
    fn cuMemcpy2DAsync_v2 | cuMemcpy2DAsync_v2_ptsz(copy: *const CUDA_MEMCPY2D, stream: CUstream) {
        gpu.copy_async(shape_2d(&get(copy)?)?, pick(stream, default))
    }
    fn cuMemcpy3D_v2 | cuMemcpy3D_v2_ptds(copy: *const CUDA_MEMCPY3D) {
        gpu.copy(shape_3d(&get(copy)?)?, default)
    }
    fn cuMemcpy3DAsync_v2 | cuMemcpy3DAsync_v2_ptsz(copy: *const CUDA_MEMCPY3D, stream: CUstream) {
        gpu.copy_async(shape_3d(&get(copy)?)?, pick(stream, default))
    }
    fn cuMemcpy3DPeer | cuMemcpy3DPeer_ptds(copy: *const CUDA_MEMCPY3D_PEER) {
        gpu.copy(shape_3d(&without_peers(&get(copy)?))?, default)
    }
    fn cuMemcpy3DPeerAsync | cuMemcpy3DPeerAsync_ptsz(copy: *const CUDA_MEMCPY3D_PEER, stream: CUstream) {
        gpu.copy_async(shape_3d(&without_peers(&get(copy)?))?, pick(stream, default))
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
        fill(gpu, to, value.into(), 1, (count, 1), 0, default)
    }
    fn cuMemsetD16_v2 | cuMemsetD16_v2_ptds(to: CUdeviceptr, value: u16, count: usize) {
        fill(gpu, to, value.into(), 2, (count, 1), 0, default)
    }
    fn cuMemsetD32_v2 | cuMemsetD32_v2_ptds(to: CUdeviceptr, value: u32, count: usize) {
        fill(gpu, to, value, 4, (count, 1), 0, default)
    }
    fn cuMemsetD2D8_v2 | cuMemsetD2D8_v2_ptds(to: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize) {
        fill(gpu, to, value.into(), 1, (width, height), pitch, default)
    }
    fn cuMemsetD2D16_v2 | cuMemsetD2D16_v2_ptds(to: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize) {
        fill(gpu, to, value.into(), 2, (width, height), pitch, default)
    }
    fn cuMemsetD2D32_v2 | cuMemsetD2D32_v2_ptds(to: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize) {
        fill(gpu, to, value, 4, (width, height), pitch, default)
    }
    fn cuMemsetD8Async | cuMemsetD8Async_ptsz(to: CUdeviceptr, value: u8, count: usize, stream: CUstream) {
        fill(gpu, to, value.into(), 1, (count, 1), 0, pick(stream, default))
    }
    fn cuMemsetD16Async | cuMemsetD16Async_ptsz(to: CUdeviceptr, value: u16, count: usize, stream: CUstream) {
        fill(gpu, to, value.into(), 2, (count, 1), 0, pick(stream, default))
    }
    fn cuMemsetD32Async | cuMemsetD32Async_ptsz(to: CUdeviceptr, value: u32, count: usize, stream: CUstream) {
        fill(gpu, to, value, 4, (count, 1), 0, pick(stream, default))
    }
    fn cuMemsetD2D8Async | cuMemsetD2D8Async_ptsz(to: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize, stream: CUstream) {
        fill(gpu, to, value.into(), 1, (width, height), pitch, pick(stream, default))
    }
    fn cuMemsetD2D16Async | cuMemsetD2D16Async_ptsz(to: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize, stream: CUstream) {
        fill(gpu, to, value.into(), 2, (width, height), pitch, pick(stream, default))
    }
    fn cuMemsetD2D32Async | cuMemsetD2D32Async_ptsz(to: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize, stream: CUstream) {
        fill(gpu, to, value, 4, (width, height), pitch, pick(stream, default))
    }
}

/// Enters this file's functions into the table.
pub fn register(api: &mut driver::Api) {
    register_copies(api);
    register_fills(api);
}
