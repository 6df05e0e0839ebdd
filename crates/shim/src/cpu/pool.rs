//! Memory pools. There is one store of memory; pools are names for it, and
//! their attributes are kept and given back.

use super::{functions, only, per_thread_functions, pick, put};
use driver::sys::*;
use model::DeviceAddress;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::c_void;

/// Handle of the default pool.
pub const DEFAULT: u64 = 0x5248_0000_0000;

/// Pools that live, with their attributes that were set.
static POOLS: Mutex<BTreeMap<u64, BTreeMap<u32, u64>>> = Mutex::new(BTreeMap::new());
static CURRENT: Mutex<u64> = Mutex::new(DEFAULT);
static NEXT: Mutex<u64> = Mutex::new(DEFAULT + 64);

fn known(pool: CUmemoryPool) -> Result<(), CUresult> {
    if pool.0 == DEFAULT || POOLS.lock().contains_key(&pool.0) {
        Ok(())
    } else {
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    }
}

/// The first three attributes are `int` flags, the others 64-bit counts.
fn is_flag(attribute: CUmemPool_attribute) -> bool {
    (1..=3).contains(&attribute.0)
}

mod made {
    use super::*;
    functions! { gpu;
        fn cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: CUdevice) {
            only(device)?;
            put(pool, CUmemoryPool(DEFAULT))
        }
        fn cuDeviceGetMemPool(pool: *mut CUmemoryPool, device: CUdevice) {
            only(device)?;
            put(pool, CUmemoryPool(*CURRENT.lock()))
        }
        fn cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool) {
            only(device)?;
            known(pool)?;
            *CURRENT.lock() = pool.0;
            Ok(())
        }
        fn cuMemGetDefaultMemPool(pool: *mut CUmemoryPool, _location: *mut CUmemLocation, _kind: CUmemAllocationType) {
            put(pool, CUmemoryPool(DEFAULT))
        }
        fn cuMemGetMemPool(pool: *mut CUmemoryPool, _location: *mut CUmemLocation, _kind: CUmemAllocationType) {
            put(pool, CUmemoryPool(*CURRENT.lock()))
        }
        fn cuMemSetMemPool(_location: *mut CUmemLocation, _kind: CUmemAllocationType, pool: CUmemoryPool) {
            known(pool)?;
            *CURRENT.lock() = pool.0;
            Ok(())
        }
        fn cuMemPoolCreate(pool: *mut CUmemoryPool, _properties: *const CUmemPoolProps) {
            let mut next = NEXT.lock();
            let handle = *next;
            *next += 64;
            POOLS.lock().insert(handle, BTreeMap::new());
            put(pool, CUmemoryPool(handle))
        }
        fn cuMemPoolDestroy(pool: CUmemoryPool) {
            let mut current = CURRENT.lock();
            if *current == pool.0 {
                *current = DEFAULT;
            }
            POOLS.lock().remove(&pool.0).map(drop).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
        }
        fn cuMemPoolTrimTo(pool: CUmemoryPool, _keep: usize) {
            known(pool)
        }
        fn cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, value: *mut c_void) {
            known(pool)?;
            let value = if is_flag(attribute) {
                super::super::get(value.cast::<i32>().cast_const())? as u64
            } else {
                super::super::get(value.cast::<u64>().cast_const())?
            };
            POOLS.lock().entry(pool.0).or_default().insert(attribute.0, value);
            Ok(())
        }
        fn cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, value: *mut c_void) {
            known(pool)?;
            let set = POOLS.lock().get(&pool.0).and_then(|kept| kept.get(&attribute.0)).copied();
            if is_flag(attribute) {
                put(value.cast::<i32>(), set.map_or(1, |set| set as i32))
            } else {
                put(value.cast::<u64>(), set.unwrap_or(0))
            }
        }
        fn cuMemPoolSetAccess(pool: CUmemoryPool, _access: *const CUmemAccessDesc, _count: usize) {
            known(pool)
        }
        fn cuMemPoolGetAccess(flags: *mut CUmemAccess_flags, pool: CUmemoryPool, _location: *mut CUmemLocation) {
            known(pool)?;
            put(flags, CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        }
        fn cuDeviceGraphMemTrim(device: CUdevice) {
            let _ = gpu;
            only(device)
        }
    }
}

per_thread_functions! { gpu, default, register_streams;
    fn cuMemAllocAsync | cuMemAllocAsync_ptsz(address: *mut CUdeviceptr, size: usize, stream: CUstream) {
        put(address, gpu.allocate_async(size as u64, pick(stream, default))?.0)
    }
    fn cuMemAllocFromPoolAsync | cuMemAllocFromPoolAsync_ptsz(address: *mut CUdeviceptr, size: usize, pool: CUmemoryPool, stream: CUstream) {
        known(pool)?;
        put(address, gpu.allocate_async(size as u64, pick(stream, default))?.0)
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
