//! Allocation: device, managed, pinned, registered.

use crate::convert::{functions, put, put_if};
use driver::sys::*;
use model::{AllocationKind, DeviceAddress};
use std::ffi::c_void;

fn host(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

functions! { gpu;
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let (left, all) = gpu.memory_info()?;
        // Callers are known to pass null for what they do not need.
        put_if(free, left as usize);
        put_if(total, all as usize);
        Ok(())
    }
    fn cuMemAlloc_v2(address: *mut CUdeviceptr, size: usize) {
        gpu.apart_from_strict_captures()?;
        put(address, gpu.allocate(size as u64, AllocationKind::Device, 0)?.0)
    }
    fn cuMemAllocPitch_v2(address: *mut CUdeviceptr, pitch: *mut usize, width: usize, height: usize, element: u32) {
        gpu.apart_from_strict_captures()?;
        let (base, bytes) = gpu.allocate_pitch(width as u64, height as u64, element)?;
        put(address, base.0)?;
        put(pitch, bytes as usize)
    }
    fn cuMemFree_v2(address: CUdeviceptr) {
        gpu.apart_from_strict_captures()?;
        gpu.free(DeviceAddress(address))
    }
    fn cuMemAllocManaged(address: *mut CUdeviceptr, size: usize, flags: u32) {
        gpu.apart_from_strict_captures()?;
        if !matches!(flags, 1 | 2 | 4) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        put(address, gpu.allocate(size as u64, AllocationKind::Managed, flags)?.0)
    }
    fn cuMemAllocHost_v2(pointer: *mut *mut c_void, size: usize) {
        gpu.apart_from_strict_captures()?;
        put(pointer, host(gpu.allocate(size as u64, AllocationKind::Host, 0)?.0))
    }
    fn cuMemHostAlloc(pointer: *mut *mut c_void, size: usize, flags: u32) {
        gpu.apart_from_strict_captures()?;
        if flags & !7 != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        put(pointer, host(gpu.allocate(size as u64, AllocationKind::Host, flags)?.0))
    }
    fn cuMemFreeHost(pointer: *mut c_void) {
        gpu.apart_from_strict_captures()?;
        gpu.free_host(DeviceAddress(pointer as u64))
    }
    fn cuMemHostRegister(pointer: *mut c_void, size: usize, flags: u32) {
        gpu.apart_from_strict_captures()?;
        gpu.register_host(pointer.expose_provenance() as u64, size as u64, flags)
    }
    fn cuMemHostRegister_v2(pointer: *mut c_void, size: usize, flags: u32) {
        gpu.apart_from_strict_captures()?;
        gpu.register_host(pointer.expose_provenance() as u64, size as u64, flags)
    }
    fn cuMemHostUnregister(pointer: *mut c_void) {
        gpu.apart_from_strict_captures()?;
        gpu.unregister_host(pointer as u64)
    }
    fn cuMemHostGetDevicePointer_v2(address: *mut CUdeviceptr, pointer: *mut c_void, flags: u32) {
        let info = gpu.pointer_info(pointer as u64).filter(|info| info.on_host());
        if flags != 0 || info.is_none() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        put(address, pointer as u64)
    }
    fn cuMemHostGetFlags(flags: *mut u32, pointer: *mut c_void) {
        match gpu.pointer_info(pointer as u64).filter(|info| info.on_host()) {
            // All pinned memory is portable and mapped here.
            Some(info) => put(flags, info.flags | 3),
            None => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
    fn cuMemGetAddressRange_v2(base: *mut CUdeviceptr, size: *mut usize, address: CUdeviceptr) {
        let info = gpu.pointer_info(address).ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        put_if(base, info.extent.base.0);
        put_if(size, info.extent.size as usize);
        Ok(())
    }
}
