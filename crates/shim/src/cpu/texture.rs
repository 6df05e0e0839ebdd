//! Texture objects.

use super::{functions, get, put};
use driver::sys::*;
use emulate::device::Texture;

/// The texture that C describes; arrays and views of them are not supported.
///
/// # Safety
/// The member of the resource's union that its type names is initialized.
unsafe fn texture(
    resource: &CUDA_RESOURCE_DESC,
    sampler: &CUDA_TEXTURE_DESC,
) -> Result<Texture, CUresult> {
    // SAFETY: the type says which member is in use.
    let (linear, pitched) = unsafe { (resource.res.linear, resource.res.pitch2D) };
    let (address, width, height, pitch, format, channels) = match resource.resType {
        CUresourcetype::CU_RESOURCE_TYPE_LINEAR => {
            let bits = match linear.format {
                CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8
                | CUarray_format::CU_AD_FORMAT_SIGNED_INT8 => 1,
                CUarray_format::CU_AD_FORMAT_UNSIGNED_INT16
                | CUarray_format::CU_AD_FORMAT_SIGNED_INT16
                | CUarray_format::CU_AD_FORMAT_HALF => 2,
                _ => 4,
            };
            let texel = bits * u64::from(linear.numChannels.max(1));
            let width = linear.sizeInBytes as u64 / texel;
            (
                linear.devPtr,
                width,
                0,
                0,
                linear.format,
                linear.numChannels,
            )
        }
        CUresourcetype::CU_RESOURCE_TYPE_PITCH2D => (
            pitched.devPtr,
            pitched.width as u64,
            pitched.height as u64,
            pitched.pitchInBytes as u64,
            pitched.format,
            pitched.numChannels,
        ),
        _ => return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
    };
    if sampler.flags & CU_TRSF_SRGB != 0 {
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    let [x, y, _] = sampler.addressMode;
    Ok(Texture {
        address,
        width,
        height,
        pitch,
        format,
        channels,
        modes: [x, y],
        filter: sampler.filterMode,
        normalized: sampler.flags & CU_TRSF_NORMALIZED_COORDINATES != 0,
        integers: sampler.flags & CU_TRSF_READ_AS_INTEGER != 0,
    })
}

functions! { gpu;
    fn cuTexObjectCreate(
        object: *mut CUtexObject, resource: *const CUDA_RESOURCE_DESC, sampler: *const CUDA_TEXTURE_DESC,
        view: *const CUDA_RESOURCE_VIEW_DESC,
    ) {
        if !view.is_null() {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        put(object, gpu.texture_create(&texture(&get(resource)?, &get(sampler)?)?)?)
    }
    fn cuTexObjectDestroy(object: CUtexObject) {
        gpu.texture_destroy(object)
    }
}
