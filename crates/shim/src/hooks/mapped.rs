//! Reserved addresses, and the memory that a program maps there. What may be
//! accessed is what is mapped: chunks that lie next to each other in one
//! reservation are one allocation, which grows and shrinks (allocators extend
//! their buffers this way). Unmapping is a free.

use super::define::{hook, hooks};
use super::memory::{foreign_buffer, own, with_room};
use crate::session;
use driver::sys::{CUdeviceptr, CUmemAllocationProp, CUmemGenericAllocationHandle, CUresult};
use model::{DeviceAddress, Extent};

hooks!(
    cuMemAddressReserve,
    cuMemAddressFree,
    cuMemCreate,
    cuMemMap,
    cuMemUnmap,
);

fn extent(base: u64, bytes: usize) -> Extent {
    Extent {
        base: DeviceAddress(base),
        size: bytes as u64,
    }
}

hook!(cuMemAddressReserve(
    place: *mut CUdeviceptr,
    bytes: usize,
    alignment: usize,
    hint: CUdeviceptr,
    flags: u64,
) |reserve| {
    // SAFETY: the program's arguments; the address was written by a
    // successful call.
    unsafe {
        let result = reserve(place, bytes, alignment, hint, flags);
        if result == CUresult::CUDA_SUCCESS && !place.is_null() && let Some(runtime) = session::runtime() {
            runtime.allocations().reserved(extent(*place, bytes));
        }
        result
    }
});

hook!(cuMemAddressFree(base: CUdeviceptr, bytes: usize) |free| {
    // Before: afterwards another thread may get these addresses.
    let reserved = session::runtime().and_then(|runtime| runtime.allocations().unreserving(DeviceAddress(base)));
    // SAFETY: the program's arguments.
    let result = unsafe { free(base, bytes) };
    if result != CUresult::CUDA_SUCCESS && let (Some(runtime), Some(reserved)) = (session::runtime(), reserved) {
        runtime.allocations().reserved(reserved);
    }
    result
});

hook!(cuMemCreate(
    handle: *mut CUmemGenericAllocationHandle,
    bytes: usize,
    properties: *const CUmemAllocationProp,
    flags: u64,
) |create| {
    // SAFETY: the program's arguments.
    with_room(|| unsafe { create(handle, bytes, properties, flags) })
});

hook!(cuMemMap(
    base: CUdeviceptr,
    bytes: usize,
    offset: usize,
    handle: CUmemGenericAllocationHandle,
    flags: u64,
) |map| {
    // SAFETY: the program's arguments.
    let result = unsafe { map(base, bytes, offset, handle, flags) };
    if result == CUresult::CUDA_SUCCESS && let Some(runtime) = session::runtime() {
        foreign_buffer();
        runtime.allocations().mapped(extent(base, bytes), own());
    }
    result
});

hook!(cuMemUnmap(base: CUdeviceptr, bytes: usize) |unmap| {
    // SAFETY: the program's arguments.
    let result = unsafe { unmap(base, bytes) };
    // Afterwards: only the program itself can map there again.
    if result == CUresult::CUDA_SUCCESS && let Some(runtime) = session::runtime() {
        runtime.allocations().unmapped(extent(base, bytes));
    }
    result
});
