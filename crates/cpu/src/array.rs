//! Arrays and mipmapped arrays.

use crate::convert::{functions, get, put};
use driver::sys::*;
use emulate::device::{ArrayShape, Device};

/// The shape that C describes.
fn shape(from: &CUDA_ARRAY3D_DESCRIPTOR) -> ArrayShape {
    ArrayShape {
        width: from.Width as u64,
        height: from.Height as u64,
        depth: from.Depth as u64,
        format: from.Format,
        channels: from.NumChannels,
        flags: from.Flags,
    }
}

fn descriptor(gpu: &Device, array: CUarray) -> Result<CUDA_ARRAY3D_DESCRIPTOR, CUresult> {
    let shape = gpu.array_shape(array.0)?;
    Ok(CUDA_ARRAY3D_DESCRIPTOR {
        Width: shape.width as usize,
        Height: shape.height as usize,
        Depth: shape.depth as usize,
        Format: shape.format,
        NumChannels: shape.channels,
        Flags: shape.flags,
    })
}

functions! { gpu;
    fn cuArrayCreate_v2(array: *mut CUarray, wanted: *const CUDA_ARRAY_DESCRIPTOR) {
        gpu.apart_from_strict_captures()?;
        let wanted = get(wanted)?;
        let wanted = CUDA_ARRAY3D_DESCRIPTOR {
            Width: wanted.Width,
            Height: wanted.Height,
            Format: wanted.Format,
            NumChannels: wanted.NumChannels,
            ..CUDA_ARRAY3D_DESCRIPTOR::zeroed()
        };
        put(array, CUarray(gpu.array_create(shape(&wanted))?))
    }
    fn cuArray3DCreate_v2(array: *mut CUarray, wanted: *const CUDA_ARRAY3D_DESCRIPTOR) {
        gpu.apart_from_strict_captures()?;
        put(array, CUarray(gpu.array_create(shape(&get(wanted)?))?))
    }
    fn cuArrayGetDescriptor_v2(to: *mut CUDA_ARRAY_DESCRIPTOR, array: CUarray) {
        let full = descriptor(gpu, array)?;
        put(to, CUDA_ARRAY_DESCRIPTOR {
            Width: full.Width,
            Height: full.Height,
            Format: full.Format,
            NumChannels: full.NumChannels,
        })
    }
    fn cuArray3DGetDescriptor_v2(to: *mut CUDA_ARRAY3D_DESCRIPTOR, array: CUarray) {
        put(to, descriptor(gpu, array)?)
    }
    fn cuArrayDestroy(array: CUarray) {
        gpu.array_destroy(array.0)
    }
    fn cuMipmappedArrayCreate(
        mipmap: *mut CUmipmappedArray, wanted: *const CUDA_ARRAY3D_DESCRIPTOR, levels: u32,
    ) {
        gpu.apart_from_strict_captures()?;
        put(mipmap, CUmipmappedArray(gpu.mipmap_create(shape(&get(wanted)?), levels)?))
    }
    fn cuMipmappedArrayGetLevel(array: *mut CUarray, mipmap: CUmipmappedArray, level: u32) {
        let levels = gpu.mipmap_levels(mipmap.0)?;
        let found = *levels.get(level as usize).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        put(array, CUarray(found))
    }
    fn cuMipmappedArrayDestroy(mipmap: CUmipmappedArray) {
        gpu.mipmap_destroy(mipmap.0)
    }
}
