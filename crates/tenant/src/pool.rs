//! Memory in the order of streams, and its pools. There is one store of memory, the
//! tenant's partition: pools are names for it.

use crate::capture;
use crate::convert::{Answer, functions, get, only, per_thread_functions, pick, put};
use crate::link::Link;
use crate::memory::{allocate, forget_owner};
use crate::state::enter;
use driver::pools::{Pools, is_flag};
use driver::sys::*;
use parking_lot::Mutex;
use protocol::Request;
use std::ffi::c_void;

/// The handle of the device's own pool. Counted handles start elsewhere.
pub(crate) const DEFAULT: u64 = 0x5246_1800_0000;

fn pools(link: &Link) -> &Mutex<Pools> {
    &link.state.pools
}

/// A pool that shares memory with other processes would share it with other
/// tenants.
fn create(link: &Link, properties: CUmemPoolProps) -> Result<u64, CUresult> {
    enter(link)?;
    if properties.handleTypes != CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE {
        link.say("memory pools that are shared with other processes are not supported for tenants; cuMemPoolCreate fails with CUDA_ERROR_NOT_SUPPORTED");
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    let handle = link.state.handle();
    pools(link).lock().add(handle);
    Ok(handle)
}

/// Memory that is there at once. What a stream captures becomes memory of the
/// graph.
fn allocate_in(link: &'static Link, size: u64, pool: u64, stream: u32) -> Result<u64, CUresult> {
    enter(link)?;
    if capture::is_capturing(link, stream) {
        let (address, work) = crate::graph::memory::allocation(link, size)?;
        capture::put(link, stream, work)?;
        return Ok(address);
    }
    capture::check_legacy(link, stream)?;
    capture::check_strict(link)?;
    let address = allocate(link, size)?;
    pools(link).lock().handed_out(pool, address, size);
    Ok(address)
}

/// Frees memory behind the work of a stream.
pub(crate) fn free_in(link: &'static Link, address: u64, stream: u32) -> Answer {
    enter(link)?;
    if capture::is_capturing(link, stream) {
        let work = crate::graph::memory::release(link, address)?;
        return capture::put(link, stream, work);
    }
    capture::check_legacy(link, stream)?;
    capture::check_strict(link)?;
    free_behind(link, address, stream)
}

/// As [`free_in`], for a stream that is not captured.
pub(crate) fn free_behind(link: &'static Link, address: u64, stream: u32) -> Answer {
    if crate::graph::memory::free(link, address) {
        return Ok(());
    }
    forget_owner(link, address);
    // Before it is free: another thread may be given the address at once.
    pools(link).lock().taken_back(address);
    let size = link.state.allocations.lock().remove(&address);
    let request = Request::FreeBehind { address, stream };
    let freed = link.state.order.put(link, request, size.is_some());
    if let (Err(_), Some(size)) = (&freed, size) {
        link.state.allocations.lock().insert(address, size);
    }
    freed.map(drop)
}

mod made {
    use super::*;
    functions! { link;
        fn cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: CUdevice) {
            only(device)?;
            put(pool, CUmemoryPool(DEFAULT))
        }
        fn cuDeviceGetMemPool(pool: *mut CUmemoryPool, device: CUdevice) {
            only(device)?;
            put(pool, CUmemoryPool(pools(link).lock().current()))
        }
        fn cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool) {
            only(device)?;
            pools(link).lock().set_current(pool.0)
        }
        fn cuMemGetDefaultMemPool(pool: *mut CUmemoryPool, _location: *mut CUmemLocation, _kind: CUmemAllocationType) {
            put(pool, CUmemoryPool(DEFAULT))
        }
        fn cuMemGetMemPool(pool: *mut CUmemoryPool, _location: *mut CUmemLocation, _kind: CUmemAllocationType) {
            put(pool, CUmemoryPool(pools(link).lock().current()))
        }
        fn cuMemSetMemPool(_location: *mut CUmemLocation, _kind: CUmemAllocationType, pool: CUmemoryPool) {
            pools(link).lock().set_current(pool.0)
        }
        fn cuMemPoolCreate(pool: *mut CUmemoryPool, properties: *const CUmemPoolProps) {
            capture::check_strict(link)?;
            put(pool, CUmemoryPool(create(link, get(properties)?)?))
        }
        fn cuMemPoolDestroy(pool: CUmemoryPool) {
            capture::check_strict(link)?;
            pools(link).lock().destroy(pool.0)
        }
        fn cuMemPoolTrimTo(pool: CUmemoryPool, keep: usize) {
            capture::check_strict(link)?;
            pools(link).lock().trim(pool.0, keep as u64)
        }
        fn cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, value: *mut c_void) {
            pools(link).lock().exists(pool.0)?;
            let value = match is_flag(attribute) {
                true => get(value.cast::<i32>().cast_const())? as u64,
                false => get(value.cast::<u64>().cast_const())?,
            };
            pools(link).lock().set(pool.0, attribute, value)
        }
        fn cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, value: *mut c_void) {
            let found = pools(link).lock().get(pool.0, attribute)?;
            match is_flag(attribute) {
                true => put(value.cast::<i32>(), found as i32),
                false => put(value.cast::<u64>(), found),
            }
        }
        fn cuMemPoolSetAccess(pool: CUmemoryPool, _access: *const CUmemAccessDesc, _count: usize) {
            // There is one device, which has it.
            pools(link).lock().exists(pool.0)
        }
        fn cuMemPoolGetAccess(flags: *mut CUmemAccess_flags, pool: CUmemoryPool, _location: *mut CUmemLocation) {
            pools(link).lock().exists(pool.0)?;
            put(flags, CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        }
        fn cuDeviceGraphMemTrim(device: CUdevice) {
            only(device)
        }
    }
}

per_thread_functions! { link, default, register_streams;
    fn cuMemAllocAsync | cuMemAllocAsync_ptsz(address: *mut CUdeviceptr, size: usize, stream: CUstream) {
        let pool = pools(link).lock().current();
        put(address, allocate_in(link, size as u64, pool, pick(link, stream, default)?)?)
    }
    fn cuMemAllocFromPoolAsync | cuMemAllocFromPoolAsync_ptsz(address: *mut CUdeviceptr, size: usize, pool: CUmemoryPool, stream: CUstream) {
        pools(link).lock().exists(pool.0)?;
        put(address, allocate_in(link, size as u64, pool.0, pick(link, stream, default)?)?)
    }
    fn cuMemFreeAsync | cuMemFreeAsync_ptsz(address: CUdeviceptr, stream: CUstream) {
        free_in(link, address, pick(link, stream, default)?)
    }
}

/// Enters this file's functions into the table.
pub(crate) fn register(api: &mut driver::Api) {
    made::register(api);
    register_streams(api);
}
