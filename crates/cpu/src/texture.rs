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
        gpu.apart_from_strict_captures()?;
        if !view.is_null() {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let (resource, sampler) = (get(resource)?, get(sampler)?);
        let made = gpu.texture_create(&texture(gpu, &resource, &sampler)?)?;
        gpu.texture_describe(made, (resource, sampler));
        put(object, made)
    }
    fn cuTexObjectGetResourceDesc(resource: *mut CUDA_RESOURCE_DESC, object: CUtexObject) {
        put(resource, gpu.texture_described(object)?.0)
    }
    fn cuTexObjectGetTextureDesc(sampler: *mut CUDA_TEXTURE_DESC, object: CUtexObject) {
        put(sampler, gpu.texture_described(object)?.1)
    }
    fn cuTexObjectGetResourceViewDesc(_view: *mut CUDA_RESOURCE_VIEW_DESC, object: CUtexObject) {
        // None is made of a view.
        gpu.texture_described(object)?;
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    }
    fn cuSurfObjectGetResourceDesc(resource: *mut CUDA_RESOURCE_DESC, object: CUsurfObject) {
        put(resource, gpu.texture_described(object)?.0)
    }
    fn cuTexObjectDestroy(object: CUtexObject) {
        gpu.apart_from_strict_captures()?;
        gpu.texture_destroy(object)
    }
    fn cuSurfObjectCreate(object: *mut CUsurfObject, resource: *const CUDA_RESOURCE_DESC) {
        gpu.apart_from_strict_captures()?;
        let resource = get(resource)?;
        if resource.resType != CUresourcetype::CU_RESOURCE_TYPE_ARRAY {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // The type says which member is in use.
        let array = resource.res.array;
        let made = gpu.surface_create(array.hArray.0)?;
        gpu.texture_describe(made, (resource, CUDA_TEXTURE_DESC::zeroed()));
        put(object, made)
    }
    fn cuSurfObjectDestroy(object: CUsurfObject) {
        gpu.apart_from_strict_captures()?;
        gpu.texture_destroy(object)
    }
}
