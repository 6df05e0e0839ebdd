//! Virtual memory management.

use crate::convert::{functions, get, list, put};
use driver::sys::*;
use emulate::device::Device;
use emulate::mapping::Protection;
use std::ffi::c_void;

functions! { gpu;
    fn cuMemGetAllocationGranularity(size: *mut usize, _properties: *const CUmemAllocationProp, _option: CUmemAllocationGranularity_flags) {
        put(size, Device::GRANULARITY as usize)
    }
    fn cuMemAddressReserve(to: *mut CUdeviceptr, size: usize, align: usize, hint: CUdeviceptr, _flags: u64) {
        put(to, gpu.address_reserve(size as u64, align as u64, hint)?)
    }
    fn cuMemAddressFree(address: CUdeviceptr, size: usize) {
        gpu.address_free(address, size as u64)
    }
    fn cuMemCreate(handle: *mut CUmemGenericAllocationHandle, size: usize, properties: *const CUmemAllocationProp, _flags: u64) {
        get(properties)?;
        put(handle, gpu.memory_create(size as u64)?)
    }
    fn cuMemRelease(handle: CUmemGenericAllocationHandle) {
        gpu.memory_release(handle)
    }
    fn cuMemMap(address: CUdeviceptr, size: usize, offset: usize, handle: CUmemGenericAllocationHandle, _flags: u64) {
        gpu.memory_map(address, size as u64, offset as u64, handle)
    }
    fn cuMemUnmap(address: CUdeviceptr, size: usize) {
        gpu.memory_unmap(address, size as u64)
    }
    fn cuMemSetAccess(address: CUdeviceptr, size: usize, access: *const CUmemAccessDesc, count: usize) {
        for access in list(access, count) {
            let protection = match access.flags {
                CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE => Protection::None,
                CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ => Protection::Read,
                CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE => Protection::ReadWrite,
                _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
            };
            // Access of the host is not the device's to give or take.
            if access.location.type_ == CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE {
                gpu.memory_access(address, size as u64, protection)?;
            }
        }
        Ok(())
    }
    fn cuMemGetAccess(flags: *mut u64, location: *const CUmemLocation, address: CUdeviceptr) {
        let on_device = get(location)?.type_ == CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        let access = match gpu.memory_protection(address)? {
            Protection::ReadWrite if on_device => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            Protection::Read if on_device => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ,
            _ => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE,
        };
        put(flags, u64::from(access.0))
    }
    fn cuMemGetAllocationPropertiesFromHandle(properties: *mut CUmemAllocationProp, handle: CUmemGenericAllocationHandle) {
        gpu.memory_size(handle)?;
        let mut answer = CUmemAllocationProp::zeroed();
        answer.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        answer.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        put(properties, answer)
    }
    fn cuMemRetainAllocationHandle(handle: *mut CUmemGenericAllocationHandle, address: *mut c_void) {
        put(handle, gpu.memory_handle_at(address as u64)?)
    }
}
