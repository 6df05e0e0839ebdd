//! Texture and surface objects.

use crate::convert::{functions, get, put};
use driver::sys::*;
use emulate::device::{Device, Plane, Sampler, Texture};

/// The texture that C describes; views that change a format are not supported.
///
/// # Safety
/// The member of the resource's union that its type names is initialized.
unsafe fn texture(
    gpu: &Device,
    resource: &CUDA_RESOURCE_DESC,
    sampler: &CUDA_TEXTURE_DESC,
) -> Result<Texture, CUresult> {
    let flag = |bit: u32| sampler.flags & bit != 0;
    let sampler = Sampler {
        modes: sampler.addressMode,
        filter: sampler.filterMode,
        levels: sampler.mipmapFilterMode,
        normalized: flag(CU_TRSF_NORMALIZED_COORDINATES),
        integers: flag(CU_TRSF_READ_AS_INTEGER),
        srgb: flag(CU_TRSF_SRGB),
        border: sampler.borderColor,
        clamp: [sampler.minMipmapLevelClamp, sampler.maxMipmapLevelClamp],
        bias: sampler.mipmapLevelBias,
    };
    match resource.resType {
        CUresourcetype::CU_RESOURCE_TYPE_ARRAY => {
            // SAFETY: the type says which member is in use.
            let array = unsafe { resource.res.array };
            gpu.array_texture(array.hArray.0, sampler)
        }
        CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY => {
            // SAFETY: as above.
            let mipmap = unsafe { resource.res.mipmap };
            gpu.mipmap_texture(mipmap.hMipmappedArray.0, sampler)
        }
        CUresourcetype::CU_RESOURCE_TYPE_LINEAR => {
            // SAFETY: as above.
            let linear = unsafe { resource.res.linear };
            let bytes = match linear.format {
                CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8
                | CUarray_format::CU_AD_FORMAT_SIGNED_INT8 => 1,
                CUarray_format::CU_AD_FORMAT_UNSIGNED_INT16
                | CUarray_format::CU_AD_FORMAT_SIGNED_INT16
                | CUarray_format::CU_AD_FORMAT_HALF => 2,
                _ => 4,
            };
            let texel = bytes * u64::from(linear.numChannels.max(1));
            Ok(Texture {
                levels: vec![Plane {
                    address: linear.devPtr,
                    width: linear.sizeInBytes as u64 / texel,
                    height: 0,
                    depth: 0,
                    pitch: 0,
                    slice: 0,
                }],
                format: linear.format,
                channels: linear.numChannels,
                sampler,
            })
        }
        CUresourcetype::CU_RESOURCE_TYPE_PITCH2D => {
            // SAFETY: as above.
            let pitched = unsafe { resource.res.pitch2D };
            Ok(Texture {
                levels: vec![Plane {
                    address: pitched.devPtr,
                    width: pitched.width as u64,
                    height: pitched.height as u64,
                    depth: 0,
                    pitch: pitched.pitchInBytes as u64,
                    slice: 0,
                }],
                format: pitched.format,
                channels: pitched.numChannels,
                sampler,
            })
        }
        _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}

functions! { gpu;
    fn cuTexObjectCreate(
        object: *mut CUtexObject, resource: *const CUDA_RESOURCE_DESC, sampler: *const CUDA_TEXTURE_DESC,
        view: *const CUDA_RESOURCE_VIEW_DESC,
    ) {
        if !view.is_null() {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        put(object, gpu.texture_create(&texture(gpu, &get(resource)?, &get(sampler)?)?)?)
    }
    fn cuTexObjectDestroy(object: CUtexObject) {
        gpu.texture_destroy(object)
    }
    fn cuSurfObjectCreate(object: *mut CUsurfObject, resource: *const CUDA_RESOURCE_DESC) {
        let resource = get(resource)?;
        if resource.resType != CUresourcetype::CU_RESOURCE_TYPE_ARRAY {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // The type says which member is in use.
        let array = resource.res.array;
        put(object, gpu.surface_create(array.hArray.0)?)
    }
    fn cuSurfObjectDestroy(object: CUsurfObject) {
        gpu.texture_destroy(object)
    }
}
