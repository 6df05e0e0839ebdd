//! Initialization and device queries.

use crate::convert::{functions, name, only, put, put_if};
use driver::sys::*;
use emulate::device::Device;
use std::ffi::{c_char, c_void};

/// Copies text into a C buffer, cut to fit, always ended.
///
/// # Safety
/// `to` has room for `room` bytes.
unsafe fn put_text(to: *mut c_char, room: i32, text: &str) -> Result<(), CUresult> {
    let room = usize::try_from(room).unwrap_or(0);
    if to.is_null() || room == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let length = text.len().min(room - 1);
    // SAFETY: `length + 1 <= room`.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, length);
        to.add(length).write(0);
    }
    Ok(())
}

/// What `cuDeviceGetPCIBusId` gives: nothing on a bus.
const BUS_ID: &str = "0000:00:00.0";

functions! { gpu;
    fn cuInit(flags: u32) {
        if flags != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        gpu.init();
        Ok(())
    }
    fn cuDriverGetVersion(version: *mut i32) {
        put(version, Device::VERSION as i32)
    }
    fn cuDeviceGet(device: *mut CUdevice, ordinal: i32) {
        if !gpu.is_initialized() {
            return Err(CUresult::CUDA_ERROR_NOT_INITIALIZED);
        }
        only(ordinal)?;
        put(device, 0)
    }
    fn cuDeviceGetCount(count: *mut i32) {
        if !gpu.is_initialized() {
            return Err(CUresult::CUDA_ERROR_NOT_INITIALIZED);
        }
        put(count, 1)
    }
    fn cuDeviceGetName(text: *mut c_char, length: i32, device: CUdevice) {
        only(device)?;
        put_text(text, length, Device::NAME)
    }
    fn cuDeviceGetUuid(uuid: *mut CUuuid, device: CUdevice) {
        only(device)?;
        put(uuid, CUuuid { bytes: Device::UUID.map(|byte| byte as c_char) })
    }
    fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice) {
        only(device)?;
        put(uuid, CUuuid { bytes: Device::UUID.map(|byte| byte as c_char) })
    }
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice) {
        only(device)?;
        put(bytes, gpu.total_memory() as usize)
    }
    fn cuDeviceGetAttribute(value: *mut i32, attribute: CUdevice_attribute, device: CUdevice) {
        only(device)?;
        put(value, gpu.attribute(attribute).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?)
    }
    fn cuDeviceComputeCapability(major: *mut i32, minor: *mut i32, device: CUdevice) {
        only(device)?;
        put(major, Device::CAPABILITY.0 as i32)?;
        put(minor, Device::CAPABILITY.1 as i32)
    }
    fn cuDeviceGetProperties(properties: *mut CUdevprop, device: CUdevice) {
        only(device)?;
        let of = |attribute| gpu.attribute(attribute).unwrap_or(0);
        use CUdevice_attribute as A;
        put(properties, CUdevprop_v1 {
            maxThreadsPerBlock: of(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
            maxThreadsDim: [
                of(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X),
                of(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
                of(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z),
            ],
            maxGridSize: [
                of(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
                of(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
                of(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z),
            ],
            sharedMemPerBlock: of(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
            totalConstantMemory: of(A::CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
            SIMDWidth: of(A::CU_DEVICE_ATTRIBUTE_WARP_SIZE),
            memPitch: of(A::CU_DEVICE_ATTRIBUTE_MAX_PITCH),
            regsPerBlock: of(A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
            clockRate: of(A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
            textureAlign: of(A::CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT),
        })
    }
    fn cuDeviceGetPCIBusId(text: *mut c_char, length: i32, device: CUdevice) {
        only(device)?;
        put_text(text, length, BUS_ID)
    }
    fn cuDeviceGetByPCIBusId(device: *mut CUdevice, text: *const c_char) {
        if name(text)? == BUS_ID { put(device, 0) } else { Err(CUresult::CUDA_ERROR_INVALID_DEVICE) }
    }
    fn cuDeviceCanAccessPeer(value: *mut i32, device: CUdevice, peer: CUdevice) {
        only(device)?;
        only(peer)?;
        put(value, 0)
    }
    fn cuDeviceGetP2PAttribute(_value: *mut i32, _attribute: CUdevice_P2PAttribute, _from: CUdevice, _to: CUdevice) {
        // There is no second device to ask about.
        Err(CUresult::CUDA_ERROR_INVALID_DEVICE)
    }
    fn cuDeviceGetExecAffinitySupport(value: *mut i32, _kind: CUexecAffinityType, device: CUdevice) {
        only(device)?;
        put(value, 0)
    }
    fn cuDeviceGetTexture1DLinearMaxWidth(width: *mut usize, _format: CUarray_format, _channels: u32, device: CUdevice) {
        only(device)?;
        put(width, 1 << 28)
    }
    fn cuFlushGPUDirectRDMAWrites(_target: CUflushGPUDirectRDMAWritesTarget, _scope: CUflushGPUDirectRDMAWritesScope) {
        Ok(())
    }
    fn cuGetExportTable(table: *mut *const c_void, _id: *const CUuuid) {
        put_if(table, std::ptr::null());
        Err(CUresult::CUDA_ERROR_NOT_FOUND)
    }
}
