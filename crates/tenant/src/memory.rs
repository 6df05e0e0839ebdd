//! Device memory of the tenant, and host memory, which is this process's own.

use crate::capture;
use crate::context::current;
use crate::convert::{Answer, functions, put, put_if};
use crate::link::Link;
use crate::managed;
use crate::reach;
use crate::state::{HostMemory, enter};
use driver::sys::*;
use protocol::{Reply, Request};
use std::ffi::c_void;

pub(crate) fn allocate(link: &Link, size: u64) -> Result<u64, CUresult> {
    enter(link)?;
    let address = take(link, size)?;
    link.state.allocations.lock().insert(address, size);
    let mut contexts = link.state.contexts.lock();
    if let Some(further) = contexts.get_mut(&current()) {
        further.allocations.insert(address);
    }
    Ok(address)
}

/// Takes memory, of which nothing is known here. What was freed in the order of a stream
/// may still wait in this process: where there is too little memory, it is waited for.
pub(crate) fn take(link: &Link, size: u64) -> Result<u64, CUresult> {
    let order = &link.state.order;
    loop {
        let waits = !order.is_empty();
        match link.wait(&Request::Allocate { size }) {
            Ok(Reply::Address(address)) => return Ok(address),
            Ok(_) => return Err(link.astray()),
            Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY) if waits || !order.is_empty() => {
                match order.wait_all(link) {
                    // (In a function that items wait for.)
                    Err(CUresult::CUDA_ERROR_NOT_PERMITTED) => {
                        return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
                    }
                    waited => waited?,
                }
            }
            Err(code) => return Err(code),
        }
    }
}

/// Frees when all work is over that may use the memory.
pub(crate) fn free(link: &'static Link, address: u64) -> Answer {
    enter(link)?;
    if address == 0 {
        return Ok(());
    }
    // What failed before is said, and the memory is freed all the same.
    let before = link.state.order.wait_all(link);
    if before == Err(CUresult::CUDA_ERROR_NOT_PERMITTED) {
        return before;
    }
    if crate::graph::memory::free(link, address) {
        return before;
    }
    if let Some(freed) = managed::free(link, address) {
        return freed.and(before);
    }
    forget_owner(link, address);
    // Before it is free: another thread may be given the address at once.
    link.state.pools.lock().taken_back(address);
    let size = link.state.allocations.lock().remove(&address);
    let freed = reach::free(link, address);
    if let (Err(_), Some(size)) = (freed, size) {
        link.state.allocations.lock().insert(address, size);
    }
    freed.and(before)
}

/// Memory that is freed is of no context any more.
pub(crate) fn forget_owner(link: &Link, address: u64) {
    let mut contexts = link.state.contexts.lock();
    for further in contexts.values_mut() {
        further.allocations.remove(&address);
    }
}

/// Pages of this process.
fn allocate_host(link: &Link, size: usize, flags: u32) -> Result<*mut c_void, CUresult> {
    enter(link)?;
    if size == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let memory = HostMemory {
        size: size as u64,
        flags,
        is_own: true,
    };
    let pinned = link.state.pinned.lock().take(link, size as u64);
    if let Some(address) = pinned {
        link.state.host.lock().insert(address, memory);
        return Ok(std::ptr::with_exposed_provenance_mut(address as usize));
    }
    // SAFETY: a new anonymous mapping, which replaces none.
    let made = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if made == libc::MAP_FAILED {
        return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    }
    let address = made.expose_provenance() as u64;
    link.state.host.lock().insert(address, memory);
    Ok(made)
}

fn free_host(link: &Link, address: u64) -> Answer {
    link.state.order.wait_all(link)?;
    let mut host = link.state.host.lock();
    let Some(memory) = host.get(&address).copied().filter(|memory| memory.is_own) else {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    };
    host.remove(&address);
    drop(host);
    if link.state.pinned.lock().give_back(address) {
        return Ok(());
    }
    let at = std::ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: mapped by `allocate_host` with this size, and taken out of the
    // list, so that it is unmapped once. The program no longer uses it.
    unsafe { libc::munmap(at, memory.size as usize) };
    Ok(())
}

/// `CU_MEMHOSTALLOC_DEVICEMAP`, `CU_MEMHOSTREGISTER_DEVICEMAP`
const DEVICE_MAP: u32 = 2;

/// Refuses host memory that kernels shall reach.
fn unmapped(link: &Link, call: &str, flags: u32) -> Answer {
    if flags & DEVICE_MAP == 0 {
        return Ok(());
    }
    link.say(&format!(
        "{call} is asked for host memory that kernels can access, which kernels of tenants cannot; the call fails with CUDA_ERROR_NOT_SUPPORTED"
    ));
    Err(CUresult::CUDA_ERROR_NOT_SUPPORTED)
}

fn register_host(link: &Link, address: u64, size: u64, flags: u32) -> Answer {
    enter(link)?;
    unmapped(link, "cuMemHostRegister", flags)?;
    if address == 0 || size == 0 || address.checked_add(size).is_none() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let mut host = link.state.host.lock();
    let below = host.range(..address + size).next_back();
    if below.is_some_and(|(start, memory)| start + memory.size > address) {
        return Err(CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    }
    let memory = HostMemory {
        size,
        flags,
        is_own: false,
    };
    host.insert(address, memory);
    Ok(())
}

functions! { link;
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        enter(link)?;
        let Reply::Memory { free: left, total: all } = link.wait(&Request::MemoryInfo)? else {
            return Err(link.astray());
        };
        put_if(free, left as usize);
        put_if(total, all as usize);
        Ok(())
    }
    fn cuMemAlloc_v2(address: *mut CUdeviceptr, size: usize) {
        capture::check_strict(link)?;
        put(address, allocate(link, size as u64)?)
    }
    fn cuMemAllocPitch_v2(address: *mut CUdeviceptr, pitch: *mut usize, width: usize, height: usize, element: u32) {
        capture::check_strict(link)?;
        if !matches!(element, 4 | 8 | 16) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let bytes = width.checked_next_multiple_of(512).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let whole = bytes.checked_mul(height).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        put(address, allocate(link, whole as u64)?)?;
        put(pitch, bytes)
    }
    fn cuMemFree_v2(address: CUdeviceptr) {
        capture::check_strict(link)?;
        free(link, address)
    }
    fn cuMemGetAddressRange_v2(base: *mut CUdeviceptr, size: *mut usize, address: CUdeviceptr) {
        let (start, bytes) = link.state.allocation(address).ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        put_if(base, start);
        put_if(size, bytes as usize);
        Ok(())
    }
    fn cuMemAllocHost_v2(pointer: *mut *mut c_void, size: usize) {
        capture::check_strict(link)?;
        put(pointer, allocate_host(link, size, 0)?)
    }
    fn cuMemHostAlloc(pointer: *mut *mut c_void, size: usize, flags: u32) {
        capture::check_strict(link)?;
        unmapped(link, "cuMemHostAlloc", flags)?;
        if flags & !7 != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        put(pointer, allocate_host(link, size, flags)?)
    }
    fn cuMemFreeHost(pointer: *mut c_void) {
        capture::check_strict(link)?;
        free_host(link, pointer as u64)
    }
    fn cuMemHostRegister_v2(pointer: *mut c_void, size: usize, flags: u32) {
        capture::check_strict(link)?;
        register_host(link, pointer as u64, size as u64, flags)
    }
    fn cuMemHostUnregister(pointer: *mut c_void) {
        capture::check_strict(link)?;
        link.state.order.wait_all(link)?;
        let mut host = link.state.host.lock();
        match host.get(&(pointer as u64)) {
            Some(memory) if !memory.is_own => {
                host.remove(&(pointer as u64));
                Ok(())
            }
            _ => Err(CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
        }
    }
    fn cuMemHostGetFlags(flags: *mut u32, pointer: *mut c_void) {
        let found = link.state.host_memory(pointer as u64);
        put(flags, found.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?.1.flags)
    }
}
