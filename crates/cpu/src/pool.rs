//! Memory pools.

use crate::convert::{functions, get, only, per_thread_functions, pick, put};
use driver::pools::is_flag;
use driver::sys::*;
use model::DeviceAddress;
use std::ffi::c_void;

mod made {
    use super::*;
    functions! { gpu;
        fn cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: CUdevice) {
            only(device)?;
            put(pool, CUmemoryPool(gpu.pool_default()))
        }
        fn cuDeviceGetMemPool(pool: *mut CUmemoryPool, device: CUdevice) {
            only(device)?;
            put(pool, CUmemoryPool(gpu.pool_current()))
        }
        fn cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool) {
            only(device)?;
            gpu.pool_set_current(pool.0)
        }
        fn cuMemGetDefaultMemPool(pool: *mut CUmemoryPool, _location: *mut CUmemLocation, _kind: CUmemAllocationType) {
            put(pool, CUmemoryPool(gpu.pool_default()))
        }
        fn cuMemGetMemPool(pool: *mut CUmemoryPool, _location: *mut CUmemLocation, _kind: CUmemAllocationType) {
            put(pool, CUmemoryPool(gpu.pool_current()))
        }
        fn cuMemSetMemPool(_location: *mut CUmemLocation, _kind: CUmemAllocationType, pool: CUmemoryPool) {
            gpu.pool_set_current(pool.0)
        }
        fn cuMemPoolCreate(pool: *mut CUmemoryPool, _properties: *const CUmemPoolProps) {
            gpu.apart_from_strict_captures()?;
            put(pool, CUmemoryPool(gpu.pool_create()))
        }
        fn cuMemPoolDestroy(pool: CUmemoryPool) {
            gpu.apart_from_strict_captures()?;
            gpu.pool_destroy(pool.0)
        }
        fn cuMemPoolTrimTo(pool: CUmemoryPool, keep: usize) {
            gpu.apart_from_strict_captures()?;
            gpu.pool_trim(pool.0, keep as u64)
        }
        fn cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, value: *mut c_void) {
            gpu.pool_exists(pool.0)?;
            let value = if is_flag(attribute) {
                get(value.cast::<i32>().cast_const())? as u64
            } else {
                get(value.cast::<u64>().cast_const())?
            };
            gpu.pool_set_attribute(pool.0, attribute, value)
        }
        fn cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, value: *mut c_void) {
            let found = gpu.pool_attribute(pool.0, attribute)?;
            if is_flag(attribute) {
                put(value.cast::<i32>(), found as i32)
            } else {
                put(value.cast::<u64>(), found)
            }
        }
        fn cuMemPoolSetAccess(pool: CUmemoryPool, _access: *const CUmemAccessDesc, _count: usize) {
            gpu.pool_exists(pool.0)
        }
        fn cuMemPoolGetAccess(flags: *mut CUmemAccess_flags, pool: CUmemoryPool, _location: *mut CUmemLocation) {
            gpu.pool_exists(pool.0)?;
            put(flags, CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        }
        fn cuDeviceGraphMemTrim(device: CUdevice) {
            only(device)
        }
    }
}

per_thread_functions! { gpu, default, register_streams;
    fn cuMemAllocAsync | cuMemAllocAsync_ptsz(address: *mut CUdeviceptr, size: usize, stream: CUstream) {
        put(address, gpu.allocate_async(size as u64, pick(stream, default))?.0)
    }
    fn cuMemAllocFromPoolAsync | cuMemAllocFromPoolAsync_ptsz(address: *mut CUdeviceptr, size: usize, pool: CUmemoryPool, stream: CUstream) {
        put(address, gpu.allocate_from_pool(size as u64, pool.0, pick(stream, default))?.0)
    }
    fn cuMemFreeAsync | cuMemFreeAsync_ptsz(address: CUdeviceptr, stream: CUstream) {
        gpu.free_async(DeviceAddress(address), pick(stream, default))
    }
}

/// Enters this file's functions into the table.
pub fn register(api: &mut driver::Api) {
    made::register(api);
    register_streams(api);
}
