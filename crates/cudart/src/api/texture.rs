//! Texture and surface objects.

use super::array::channels_of;
use crate::generated::types::*;
use crate::state::ready;
use driver::sys::{
    CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION, CU_TRSF_NORMALIZED_COORDINATES,
    CU_TRSF_READ_AS_INTEGER, CU_TRSF_SEAMLESS_CUBEMAP, CU_TRSF_SRGB, CUDA_RESOURCE_DESC,
    CUDA_TEXTURE_DESC, CUaddress_mode, CUarray_format, CUfilter_mode, CUresourcetype,
};
use std::ffi::c_void;

/// The driver's format and number of channels of a channel description.
fn format(channels: &cudaChannelFormatDesc) -> Result<(CUarray_format, u32), cudaError_t> {
    use CUarray_format as F;
    use cudaChannelFormatKind as K;
    let format = match (channels.x, channels.f) {
        (8, K::cudaChannelFormatKindUnsigned) => F::CU_AD_FORMAT_UNSIGNED_INT8,
        (16, K::cudaChannelFormatKindUnsigned) => F::CU_AD_FORMAT_UNSIGNED_INT16,
        (32, K::cudaChannelFormatKindUnsigned) => F::CU_AD_FORMAT_UNSIGNED_INT32,
        (8, K::cudaChannelFormatKindSigned) => F::CU_AD_FORMAT_SIGNED_INT8,
        (16, K::cudaChannelFormatKindSigned) => F::CU_AD_FORMAT_SIGNED_INT16,
        (32, K::cudaChannelFormatKindSigned) => F::CU_AD_FORMAT_SIGNED_INT32,
        (16, K::cudaChannelFormatKindFloat) => F::CU_AD_FORMAT_HALF,
        (32, K::cudaChannelFormatKindFloat) => F::CU_AD_FORMAT_FLOAT,
        _ => return Err(cudaError_t::cudaErrorInvalidChannelDescriptor),
    };
    let given = [channels.x, channels.y, channels.z, channels.w];
    let count = given.iter().take_while(|bits| **bits != 0).count();
    let equal = given[..count].iter().all(|bits| *bits == channels.x);
    if !equal || !matches!(count, 1 | 2 | 4) {
        return Err(cudaError_t::cudaErrorInvalidChannelDescriptor);
    }
    Ok((format, count as u32))
}

fn resource(from: &cudaResourceDesc) -> Result<CUDA_RESOURCE_DESC, cudaError_t> {
    let mut to = CUDA_RESOURCE_DESC::zeroed();
    match from.resType {
        cudaResourceType::cudaResourceTypeArray => {
            to.resType = CUresourcetype::CU_RESOURCE_TYPE_ARRAY;
            // SAFETY: the type says that this member is in use.
            to.res.array.hArray = unsafe { from.res.array.array };
        }
        cudaResourceType::cudaResourceTypeMipmappedArray => {
            to.resType = CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
            // SAFETY: as above.
            to.res.mipmap.hMipmappedArray = unsafe { from.res.mipmap.mipmap };
        }
        cudaResourceType::cudaResourceTypeLinear => {
            // SAFETY: as above.
            let linear = unsafe { from.res.linear };
            let (format, channels) = format(&linear.desc)?;
            to.resType = CUresourcetype::CU_RESOURCE_TYPE_LINEAR;
            to.res.linear.devPtr = linear.devPtr as u64;
            to.res.linear.format = format;
            to.res.linear.numChannels = channels;
            to.res.linear.sizeInBytes = linear.sizeInBytes;
        }
        cudaResourceType::cudaResourceTypePitch2D => {
            // SAFETY: as above.
            let pitched = unsafe { from.res.pitch2D };
            let (format, channels) = format(&pitched.desc)?;
            to.resType = CUresourcetype::CU_RESOURCE_TYPE_PITCH2D;
            to.res.pitch2D.devPtr = pitched.devPtr as u64;
            to.res.pitch2D.format = format;
            to.res.pitch2D.numChannels = channels;
            to.res.pitch2D.width = pitched.width;
            to.res.pitch2D.height = pitched.height;
            to.res.pitch2D.pitchInBytes = pitched.pitchInBytes;
        }
        _ => return Err(cudaError_t::cudaErrorInvalidValue),
    }
    Ok(to)
}

fn sampler(from: &cudaTextureDesc) -> CUDA_TEXTURE_DESC {
    let mut to = CUDA_TEXTURE_DESC::zeroed();
    for (to, from) in to.addressMode.iter_mut().zip(from.addressMode) {
        *to = CUaddress_mode(from.0);
    }
    to.filterMode = CUfilter_mode(from.filterMode.0);
    let flag = |set: bool, bit: u32| if set { bit } else { 0 };
    to.flags = flag(
        from.readMode == cudaTextureReadMode::cudaReadModeElementType,
        CU_TRSF_READ_AS_INTEGER,
    ) | flag(from.normalizedCoords != 0, CU_TRSF_NORMALIZED_COORDINATES)
        | flag(from.sRGB != 0, CU_TRSF_SRGB)
        | flag(
            from.disableTrilinearOptimization != 0,
            CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION,
        )
        | flag(from.seamlessCubemap != 0, CU_TRSF_SEAMLESS_CUBEMAP);
    to.maxAnisotropy = from.maxAnisotropy;
    to.mipmapFilterMode = CUfilter_mode(from.mipmapFilterMode.0);
    to.mipmapLevelBias = from.mipmapLevelBias;
    to.minMipmapLevelClamp = from.minMipmapLevelClamp;
    to.maxMipmapLevelClamp = from.maxMipmapLevelClamp;
    to.borderColor = from.borderColor;
    to
}

/// The inverse of [`resource`].
fn described(from: &CUDA_RESOURCE_DESC) -> Result<cudaResourceDesc, cudaError_t> {
    // SAFETY: numbers, pointers and enumerations, for which zeros are values.
    let mut to: cudaResourceDesc = unsafe { std::mem::zeroed() };
    match from.resType {
        CUresourcetype::CU_RESOURCE_TYPE_ARRAY => {
            to.resType = cudaResourceType::cudaResourceTypeArray;
            // SAFETY: the type says that this member is in use.
            to.res.array.array = unsafe { from.res.array.hArray };
        }
        CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY => {
            to.resType = cudaResourceType::cudaResourceTypeMipmappedArray;
            // SAFETY: as above.
            to.res.mipmap.mipmap = unsafe { from.res.mipmap.hMipmappedArray };
        }
        CUresourcetype::CU_RESOURCE_TYPE_LINEAR => {
            // SAFETY: as above.
            let linear = unsafe { from.res.linear };
            to.resType = cudaResourceType::cudaResourceTypeLinear;
            to.res.linear.devPtr = linear.devPtr as *mut c_void;
            to.res.linear.desc = channels_of(linear.format, linear.numChannels)?;
            to.res.linear.sizeInBytes = linear.sizeInBytes;
        }
        CUresourcetype::CU_RESOURCE_TYPE_PITCH2D => {
            // SAFETY: as above.
            let pitched = unsafe { from.res.pitch2D };
            to.resType = cudaResourceType::cudaResourceTypePitch2D;
            to.res.pitch2D.devPtr = pitched.devPtr as *mut c_void;
            to.res.pitch2D.desc = channels_of(pitched.format, pitched.numChannels)?;
            to.res.pitch2D.width = pitched.width;
            to.res.pitch2D.height = pitched.height;
            to.res.pitch2D.pitchInBytes = pitched.pitchInBytes;
        }
        _ => return Err(cudaError_t::cudaErrorInvalidValue),
    }
    Ok(to)
}

/// The inverse of [`sampler`].
fn sampled(from: &CUDA_TEXTURE_DESC) -> cudaTextureDesc {
    // SAFETY: as in `described`.
    let mut to: cudaTextureDesc = unsafe { std::mem::zeroed() };
    for (to, from) in to.addressMode.iter_mut().zip(from.addressMode) {
        *to = cudaTextureAddressMode(from.0);
    }
    to.filterMode = cudaTextureFilterMode(from.filterMode.0);
    let flag = |bit: u32| i32::from(from.flags & bit != 0);
    to.readMode = match from.flags & CU_TRSF_READ_AS_INTEGER {
        0 => cudaTextureReadMode::cudaReadModeNormalizedFloat,
        _ => cudaTextureReadMode::cudaReadModeElementType,
    };
    to.normalizedCoords = flag(CU_TRSF_NORMALIZED_COORDINATES);
    to.sRGB = flag(CU_TRSF_SRGB);
    to.disableTrilinearOptimization = flag(CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION);
    to.seamlessCubemap = flag(CU_TRSF_SEAMLESS_CUBEMAP);
    to.maxAnisotropy = from.maxAnisotropy;
    to.mipmapFilterMode = cudaTextureFilterMode(from.mipmapFilterMode.0);
    to.mipmapLevelBias = from.mipmapLevelBias;
    to.minMipmapLevelClamp = from.minMipmapLevelClamp;
    to.maxMipmapLevelClamp = from.maxMipmapLevelClamp;
    to.borderColor = from.borderColor;
    to
}

runtime! {
    /// What a texture object shows.
    fn cudaGetTextureObjectResourceDesc(pResDesc: *mut cudaResourceDesc, texObject: cudaTextureObject_t) {
        ready()?;
        let mut resource = CUDA_RESOURCE_DESC::zeroed();
        cu!(cuTexObjectGetResourceDesc(&raw mut resource, texObject))?;
        put!(pResDesc, described(&resource)?)
    }

    /// How a texture object is sampled.
    fn cudaGetTextureObjectTextureDesc(pTexDesc: *mut cudaTextureDesc, texObject: cudaTextureObject_t) {
        ready()?;
        let mut sampler = CUDA_TEXTURE_DESC::zeroed();
        cu!(cuTexObjectGetTextureDesc(&raw mut sampler, texObject))?;
        put!(pTexDesc, sampled(&sampler))
    }

    /// What a surface object shows.
    fn cudaGetSurfaceObjectResourceDesc(pResDesc: *mut cudaResourceDesc, surfObject: cudaSurfaceObject_t) {
        ready()?;
        let mut resource = CUDA_RESOURCE_DESC::zeroed();
        cu!(cuSurfObjectGetResourceDesc(&raw mut resource, surfObject))?;
        put!(pResDesc, described(&resource)?)
    }

    /// Makes a texture object.
    fn cudaCreateTextureObject(
        pTexObject: *mut cudaTextureObject_t, pResDesc: *const cudaResourceDesc, pTexDesc: *const cudaTextureDesc,
        pResViewDesc: *const cudaResourceViewDesc
    ) {
        ready()?;
        if !pResViewDesc.is_null() {
            return Err(cudaError_t::cudaErrorNotSupported);
        }
        let (resource, sampler) = (resource(get!(pResDesc)?)?, sampler(get!(pTexDesc)?));
        let mut object = 0;
        cu!(cuTexObjectCreate(&raw mut object, &raw const resource, &raw const sampler, std::ptr::null()))?;
        put!(pTexObject, object)
    }

    /// Destroys a texture object.
    fn cudaDestroyTextureObject(texObject: cudaTextureObject_t) {
        ready()?;
        cu!(cuTexObjectDestroy(texObject))
    }

    /// Makes a surface object.
    fn cudaCreateSurfaceObject(pSurfObject: *mut cudaSurfaceObject_t, pResDesc: *const cudaResourceDesc) {
        ready()?;
        let resource = resource(get!(pResDesc)?)?;
        let mut object = 0;
        cu!(cuSurfObjectCreate(&raw mut object, &raw const resource))?;
        put!(pSurfObject, object)
    }

    /// Destroys a surface object.
    fn cudaDestroySurfaceObject(surfObject: cudaSurfaceObject_t) {
        ready()?;
        cu!(cuSurfObjectDestroy(surfObject))
    }
}
