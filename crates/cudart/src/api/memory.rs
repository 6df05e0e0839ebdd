//! Allocating, freeing, and asking about memory.

use crate::convert::{address, pointer};
use crate::generated::types::*;
use crate::state::{self, ready};
use driver::sys::{
    CUDA_ARRAY3D_DESCRIPTOR, CUarray_format, CUmem_advise, CUmem_range_attribute, CUmemLocation,
    CUpointer_attribute,
};
use std::ffi::c_void;

/// cudaMallocPitch and cudaMalloc3D: rows of `width` bytes, padded.
fn pitched(width: usize, rows: usize) -> Result<(u64, usize), cudaError_t> {
    ready()?;
    if width == 0 || rows == 0 {
        return Ok((0, 0));
    }
    let (mut base, mut pitch) = (0, 0);
    // The element size only matters for the alignment of rows; 4 is the
    // smallest that the driver takes.
    cu!(cuMemAllocPitch_v2(
        &raw mut base,
        &raw mut pitch,
        width,
        rows,
        4
    ))?;
    Ok((base, pitch))
}

/// One attribute of the allocation that holds an address; `None` if the driver
/// has none.
fn attribute<T: Default>(attribute: CUpointer_attribute, address: u64) -> Option<T> {
    let mut value = T::default();
    let result = (|| {
        cu!(cuPointerGetAttribute(
            (&raw mut value).cast(),
            attribute,
            address
        ))
    })();
    result.ok().map(|()| value)
}

/// What the runtime says of an address.
pub(crate) fn attributes_of(asked: *const c_void) -> cudaPointerAttributes {
    use CUpointer_attribute as A;
    let at = address(asked);
    let mut out = cudaPointerAttributes {
        r#type: cudaMemoryType::cudaMemoryTypeUnregistered,
        device: INVALID_DEVICE,
        devicePointer: std::ptr::null_mut(),
        hostPointer: asked.cast_mut(),
        reserved: [0; 8],
    };
    let kind: u32 = attribute(A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at).unwrap_or(0);
    if kind == 0 {
        return out;
    }
    let managed: u32 = attribute(A::CU_POINTER_ATTRIBUTE_IS_MANAGED, at).unwrap_or(0);
    out.r#type = match (managed != 0, kind) {
        (true, _) => cudaMemoryType::cudaMemoryTypeManaged,
        // CU_MEMORYTYPE_HOST and the others count like the runtime's.
        (false, 1) => cudaMemoryType::cudaMemoryTypeHost,
        (false, _) => cudaMemoryType::cudaMemoryTypeDevice,
    };
    out.device = attribute(A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at).unwrap_or(0);
    out.devicePointer =
        attribute(A::CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at).map_or(std::ptr::null_mut(), pointer);
    out.hostPointer =
        attribute(A::CU_POINTER_ATTRIBUTE_HOST_POINTER, at).map_or(std::ptr::null_mut(), pointer);
    out
}

/// cudaInvalidDeviceId: the macro is `((int)-2)`.
const INVALID_DEVICE: i32 = -2;

/// The runtime's place of memory in the driver's type, laid out alike.
pub(crate) fn location(location: cudaMemLocation) -> CUmemLocation {
    CUmemLocation {
        type_: driver::sys::CUmemLocationType(location.r#type.0),
        id: location.id,
    }
}

/// The driver's array format of a channel description.
fn format(desc: &cudaChannelFormatDesc) -> Result<(CUarray_format, u32), cudaError_t> {
    use CUarray_format as F;
    use cudaChannelFormatKind as K;
    let channels = [desc.x, desc.y, desc.z, desc.w]
        .iter()
        .take_while(|bits| **bits != 0)
        .count();
    let format = match (desc.f, desc.x) {
        (K::cudaChannelFormatKindUnsigned, 8) => F::CU_AD_FORMAT_UNSIGNED_INT8,
        (K::cudaChannelFormatKindUnsigned, 16) => F::CU_AD_FORMAT_UNSIGNED_INT16,
        (K::cudaChannelFormatKindUnsigned, 32) => F::CU_AD_FORMAT_UNSIGNED_INT32,
        (K::cudaChannelFormatKindSigned, 8) => F::CU_AD_FORMAT_SIGNED_INT8,
        (K::cudaChannelFormatKindSigned, 16) => F::CU_AD_FORMAT_SIGNED_INT16,
        (K::cudaChannelFormatKindSigned, 32) => F::CU_AD_FORMAT_SIGNED_INT32,
        (K::cudaChannelFormatKindFloat, 16) => F::CU_AD_FORMAT_HALF,
        (K::cudaChannelFormatKindFloat, 32) => F::CU_AD_FORMAT_FLOAT,
        _ => return Err(cudaError_t::cudaErrorInvalidChannelDescriptor),
    };
    match channels {
        1 | 2 | 4 => Ok((format, channels as u32)),
        _ => Err(cudaError_t::cudaErrorInvalidChannelDescriptor),
    }
}

fn descriptor(
    desc: *const cudaChannelFormatDesc,
    extent: cudaExtent,
    flags: u32,
) -> Result<CUDA_ARRAY3D_DESCRIPTOR, cudaError_t> {
    ready()?;
    let (Format, NumChannels) = format(get!(desc)?)?;
    Ok(CUDA_ARRAY3D_DESCRIPTOR {
        Width: extent.width,
        Height: extent.height,
        Depth: extent.depth,
        Format,
        NumChannels,
        Flags: flags,
    })
}

fn create_array(
    desc: *const cudaChannelFormatDesc,
    extent: cudaExtent,
    flags: u32,
) -> Result<cudaArray_t, cudaError_t> {
    let descriptor = descriptor(desc, extent, flags)?;
    let mut array = cudaArray_t::NULL;
    cu!(cuArray3DCreate_v2(&raw mut array, &raw const descriptor))?;
    Ok(array)
}

runtime! {
    /// Allocates device memory. 0 bytes are no error and no memory.
    fn cudaMalloc(devPtr: *mut *mut c_void, size: usize) {
        ready()?;
        if size == 0 {
            return put!(devPtr, std::ptr::null_mut());
        }
        let mut base = 0;
        cu!(cuMemAlloc_v2(&raw mut base, size))?;
        put!(devPtr, pointer(base))
    }

    /// Allocates memory that host and device can access.
    fn cudaMallocManaged(devPtr: *mut *mut c_void, size: usize, flags: u32) {
        ready()?;
        let mut base = 0;
        cu!(cuMemAllocManaged(&raw mut base, size, flags))?;
        put!(devPtr, pointer(base))
    }

    /// Allocates page-locked host memory.
    fn cudaMallocHost(ptr: *mut *mut c_void, size: usize) {
        ready()?;
        if size == 0 {
            return put!(ptr, std::ptr::null_mut());
        }
        let mut base = std::ptr::null_mut();
        cu!(cuMemAllocHost_v2(&raw mut base, size))?;
        put!(ptr, base)
    }

    /// Allocates page-locked host memory, with flags that are the driver's own.
    fn cudaHostAlloc(pHost: *mut *mut c_void, size: usize, flags: u32) {
        ready()?;
        if size == 0 {
            return put!(pHost, std::ptr::null_mut());
        }
        let mut base = std::ptr::null_mut();
        cu!(cuMemHostAlloc(&raw mut base, size, flags))?;
        put!(pHost, base)
    }

    /// Allocates padded rows.
    fn cudaMallocPitch(devPtr: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) {
        let (base, stride) = pitched(width, height)?;
        put!(devPtr, pointer(base))?;
        put!(pitch, stride)
    }

    /// Allocates a box of padded rows.
    fn cudaMalloc3D(pitchedDevPtr: *mut cudaPitchedPtr, extent: cudaExtent) {
        let rows = extent.height.checked_mul(extent.depth).ok_or(cudaError_t::cudaErrorMemoryAllocation)?;
        let (base, pitch) = pitched(extent.width, rows)?;
        put!(pitchedDevPtr, cudaPitchedPtr { ptr: pointer(base), pitch, xsize: extent.width, ysize: extent.height })
    }

    /// Frees device memory of any kind.
    fn cudaFree(devPtr: *mut c_void) {
        ready()?;
        if devPtr.is_null() {
            return Ok(());
        }
        cu!(cuMemFree_v2(address(devPtr)))
    }

    /// Frees page-locked host memory.
    fn cudaFreeHost(ptr: *mut c_void) {
        ready()?;
        if ptr.is_null() {
            return Ok(());
        }
        cu!(cuMemFreeHost(ptr))
    }

    /// Page-locks host memory of the program.
    fn cudaHostRegister(ptr: *mut c_void, size: usize, flags: u32) {
        ready()?;
        cu!(cuMemHostRegister_v2(ptr, size, flags))
    }

    /// Undoes cudaHostRegister.
    fn cudaHostUnregister(ptr: *mut c_void) {
        ready()?;
        cu!(cuMemHostUnregister(ptr))
    }

    /// The device address of page-locked host memory.
    fn cudaHostGetDevicePointer(pDevice: *mut *mut c_void, pHost: *mut c_void, flags: u32) {
        ready()?;
        let mut base = 0;
        cu!(cuMemHostGetDevicePointer_v2(&raw mut base, pHost, flags))?;
        put!(pDevice, pointer(base))
    }

    /// The flags of page-locked host memory.
    fn cudaHostGetFlags(pFlags: *mut u32, pHost: *mut c_void) {
        ready()?;
        cu!(cuMemHostGetFlags(pFlags, pHost))
    }

    /// Free and total device memory.
    fn cudaMemGetInfo(free: *mut usize, total: *mut usize) {
        ready()?;
        let (mut free_bytes, mut total_bytes) = (0, 0);
        cu!(cuMemGetInfo_v2(&raw mut free_bytes, &raw mut total_bytes))?;
        put!(free, free_bytes)?;
        put!(total, total_bytes)
    }

    /// What an address belongs to. Memory unknown to CUDA is no error.
    fn cudaPointerGetAttributes(attributes: *mut cudaPointerAttributes, ptr: *const c_void) {
        ready()?;
        put!(attributes, attributes_of(ptr))
    }

    /// Advises about managed memory.
    fn cudaMemAdvise(devPtr: *const c_void, count: usize, advice: cudaMemoryAdvise, place: cudaMemLocation) {
        ready()?;
        cu!(cuMemAdvise_v2(address(devPtr), count, CUmem_advise(advice.0), location(place)))
    }

    /// Prefetches managed memory.
    fn cudaMemPrefetchAsync / cudaMemPrefetchAsync_ptsz [stream] (
        devPtr: *const c_void, count: usize, place: cudaMemLocation, flags: u32, stream: cudaStream_t
    ) {
        ready()?;
        cu!(cuMemPrefetchAsync_v2(address(devPtr), count, location(place), flags, stream))
    }

    /// An attribute of a range of managed memory.
    fn cudaMemRangeGetAttribute(
        data: *mut c_void, dataSize: usize, attribute: cudaMemRangeAttribute, devPtr: *const c_void, count: usize
    ) {
        ready()?;
        cu!(cuMemRangeGetAttribute(data, dataSize, CUmem_range_attribute(attribute.0), address(devPtr), count))
    }

    /// Several attributes of a range of managed memory.
    fn cudaMemRangeGetAttributes(
        data: *mut *mut c_void, dataSizes: *mut usize, attributes: *mut cudaMemRangeAttribute, numAttributes: usize,
        devPtr: *const c_void, count: usize
    ) {
        ready()?;
        cu!(cuMemRangeGetAttributes(data, dataSizes, attributes.cast(), numAttributes, address(devPtr), count))
    }

    /// Allocates an array of one or two dimensions.
    fn cudaMallocArray(
        array: *mut cudaArray_t, desc: *const cudaChannelFormatDesc, width: usize, height: usize, flags: u32
    ) {
        let created = create_array(desc, cudaExtent { width, height, depth: 0 }, flags)?;
        put!(array, created)
    }

    /// Allocates an array.
    fn cudaMalloc3DArray(
        array: *mut cudaArray_t, desc: *const cudaChannelFormatDesc, extent: cudaExtent, flags: u32
    ) {
        let created = create_array(desc, extent, flags)?;
        put!(array, created)
    }

    /// Frees an array.
    fn cudaFreeArray(array: cudaArray_t) {
        ready()?;
        if array == cudaArray_t::NULL {
            return Ok(());
        }
        cu!(cuArrayDestroy(array))
    }

    /// An array with smaller and smaller levels.
    fn cudaMallocMipmappedArray(
        mipmappedArray: *mut cudaMipmappedArray_t, desc: *const cudaChannelFormatDesc, extent: cudaExtent,
        numLevels: u32, flags: u32
    ) {
        let descriptor = descriptor(desc, extent, flags)?;
        let mut mipmap = cudaMipmappedArray_t::NULL;
        cu!(cuMipmappedArrayCreate(&raw mut mipmap, &raw const descriptor, numLevels))?;
        put!(mipmappedArray, mipmap)
    }

    /// One of its levels.
    fn cudaGetMipmappedArrayLevel(
        levelArray: *mut cudaArray_t, mipmappedArray: cudaMipmappedArray_const_t, level: u32
    ) {
        ready()?;
        let mut array = cudaArray_t::NULL;
        cu!(cuMipmappedArrayGetLevel(&raw mut array, mipmappedArray, level))?;
        put!(levelArray, array)
    }

    /// Frees a mipmapped array; null is no error.
    fn cudaFreeMipmappedArray(mipmappedArray: cudaMipmappedArray_t) {
        ready()?;
        if mipmappedArray == cudaMipmappedArray_t::NULL {
            return Ok(());
        }
        cu!(cuMipmappedArrayDestroy(mipmappedArray))
    }

    /// May one device use another's memory?
    fn cudaDeviceCanAccessPeer(canAccessPeer: *mut i32, device: i32, peerDevice: i32) {
        let (device, peer) = (state::device_at(device)?, state::device_at(peerDevice)?);
        cu!(cuDeviceCanAccessPeer(canAccessPeer, device, peer))
    }

    /// Enables the current device to access another's memory.
    fn cudaDeviceEnablePeerAccess(peerDevice: i32, flags: u32) {
        ready()?;
        if peerDevice == state::device()? {
            return Err(cudaError_t::cudaErrorInvalidDevice);
        }
        cu!(cuCtxEnablePeerAccess(state::primary(peerDevice)?, flags))
    }

    /// Undoes cudaDeviceEnablePeerAccess.
    fn cudaDeviceDisablePeerAccess(peerDevice: i32) {
        ready()?;
        let context = state::primary_in_use(peerDevice).ok_or(cudaError_t::cudaErrorPeerAccessNotEnabled)?;
        cu!(cuCtxDisablePeerAccess(context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desc(bits: [i32; 4], f: cudaChannelFormatKind) -> cudaChannelFormatDesc {
        cudaChannelFormatDesc {
            x: bits[0],
            y: bits[1],
            z: bits[2],
            w: bits[3],
            f,
        }
    }

    #[test]
    fn channel_formats() {
        let float4 = desc([32; 4], cudaChannelFormatKind::cudaChannelFormatKindFloat);
        assert_eq!(format(&float4), Ok((CUarray_format::CU_AD_FORMAT_FLOAT, 4)));
        let uchar = desc(
            [8, 0, 0, 0],
            cudaChannelFormatKind::cudaChannelFormatKindUnsigned,
        );
        assert_eq!(
            format(&uchar),
            Ok((CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8, 1))
        );
        let three = desc(
            [8, 8, 8, 0],
            cudaChannelFormatKind::cudaChannelFormatKindUnsigned,
        );
        assert_eq!(
            format(&three),
            Err(cudaError_t::cudaErrorInvalidChannelDescriptor)
        );
    }
}
