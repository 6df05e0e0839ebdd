//! Texture and surface objects.

use crate::generated::types::*;
use crate::state::ready;
use driver::sys::{
    CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION, CU_TRSF_NORMALIZED_COORDINATES,
    CU_TRSF_READ_AS_INTEGER, CU_TRSF_SEAMLESS_CUBEMAP, CU_TRSF_SRGB, CUDA_RESOURCE_DESC,
    CUDA_TEXTURE_DESC, CUaddress_mode, CUarray_format, CUfilter_mode, CUresourcetype,
};

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

runtime! {
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
