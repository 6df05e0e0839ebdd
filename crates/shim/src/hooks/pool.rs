//! Stream-ordered allocation and its pools.
//!
//! During a capture both calls become nodes of a graph. Its memory has its
//! address for as long as the graph lives, is not the program's to leak, and
//! is left alone.

use super::define::{hook, hooks};
use super::memory::{Request, free, guarded, padded, tell, with_padding};
use super::streams;
use crate::queries::{ask_captured, is_capturing, outside_captures};
use crate::session::{self, next};
use driver::SupportStream;
use driver::sys::{CUdeviceptr, CUmemPool_attribute, CUmemoryPool, CUresult, CUstream};
use model::{AllocationKind, BareReason, DeviceAddress, ElsewhereReason, Extent};
use runtime::{Fill, FreeCall, Owner, StreamUse};
use std::ffi::c_void;

hooks!(
    cuMemAllocAsync,
    cuMemAllocAsync_ptsz,
    cuMemAllocFromPoolAsync,
    cuMemAllocFromPoolAsync_ptsz,
    cuMemFreeAsync,
    cuMemFreeAsync_ptsz,
    cuMemPoolTrimTo,
    cuMemPoolDestroy,
    cuMemPoolGetAttribute,
);

/// The pool that cuMemAllocAsync takes from.
fn current_pool() -> CUmemoryPool {
    let mut pool = CUmemoryPool::NULL;
    if let Some(api) = next()
        && let (Some(device_of), Some(pool_of)) = (api.cuCtxGetDevice, api.cuDeviceGetMemPool)
    {
        let mut device = 0;
        // SAFETY: places for both answers.
        unsafe {
            if device_of(&mut device) == CUresult::CUDA_SUCCESS {
                // Without an answer the memory is of no known pool.
                let _ = pool_of(&mut pool, device);
            }
        }
    }
    pool
}

/// Whether a pool is one of those that the driver makes: memory of it lies on
/// the current device, and is for this process alone.
fn is_default(pool: CUmemoryPool) -> bool {
    let mut default = CUmemoryPool::NULL;
    let Some(api) = next() else { return false };
    let (Some(device_of), Some(pool_of)) = (api.cuCtxGetDevice, api.cuDeviceGetDefaultMemPool)
    else {
        return false;
    };
    let mut device = 0;
    // SAFETY: places for both answers.
    unsafe {
        device_of(&mut device) == CUresult::CUDA_SUCCESS
            && pool_of(&mut default, device) == CUresult::CUDA_SUCCESS
            && default == pool
    }
}

/// Allocates memory in stream order. While a stream is captured, that may be a
/// node of a graph.
///
/// # Safety
/// `place` is where `ask` has the device write the address.
unsafe fn allocate(
    place: *mut u64,
    bytes: usize,
    pool: impl Fn() -> CUmemoryPool,
    stream: CUstream,
    per_thread: bool,
    ask: impl Fn(usize) -> CUresult,
) -> CUresult {
    let Some(runtime) = session::runtime() else {
        return ask(bytes);
    };
    let result = if is_capturing() {
        let (result, padding) = padded(bytes, ask);
        if result == CUresult::CUDA_SUCCESS && !place.is_null() {
            runtime.placements().surroundings().bare(BareReason::Graph);
            runtime.placements().elsewhere(ElsewhereReason::Captured);
            // SAFETY: written by a successful call.
            tell(
                AllocationKind::Pool,
                unsafe { *place },
                bytes,
                with_padding(Owner::default(), padding),
            );
        }
        return result;
    } else {
        let pool = pool();
        let owner = || Owner {
            context: runtime.env().driver().current_context(),
            pool: pool.0,
            ..Owner::default()
        };
        let exported =
            session::get().is_some_and(|session| session.exported_pools.contains(pool.0));
        let request = Request {
            kind: AllocationKind::Pool,
            bytes,
            head: !exported,
            fill: Fill::InStream(SupportStream::Program {
                handle: stream.0,
                per_thread,
            }),
            obstacle: (!is_default(pool)).then_some(ElsewhereReason::Pool),
        };
        // SAFETY: the caller's word.
        unsafe { guarded(request, place, owner, ask) }
    };
    if result == CUresult::CUDA_SUCCESS
        && !place.is_null()
        && let Some(stream) = streams::in_use(runtime, stream, per_thread)
    {
        let extent = Extent {
            // SAFETY: written by a successful call.
            base: DeviceAddress(unsafe { *place }),
            size: bytes as u64,
        };
        runtime.allocations().allocated_in_stream(extent, stream);
    }
    result
}

hook!([cuMemAllocAsync, cuMemAllocAsync_ptsz](place: *mut CUdeviceptr, bytes: usize, stream: CUstream) |ask| {
    // SAFETY: the program's arguments.
    unsafe { allocate(place, bytes, current_pool, stream, PER_THREAD, |bytes| ask(place, bytes, stream)) }
});

hook!([cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz](
    place: *mut CUdeviceptr,
    bytes: usize,
    pool: CUmemoryPool,
    stream: CUstream,
) |ask| {
    // SAFETY: the program's arguments.
    unsafe { allocate(place, bytes, || pool, stream, PER_THREAD, |bytes| ask(place, bytes, pool, stream)) }
});

fn free_async(
    function: &'static str,
    per_thread: bool,
    base: CUdeviceptr,
    stream: CUstream,
    make: impl Fn(u64) -> CUresult,
) -> CUresult {
    let Some(runtime) = session::runtime() else {
        return make(base);
    };
    let stream = match is_capturing() {
        false => streams::in_use(runtime, stream, per_thread),
        // Of memory that a graph allocates there is nothing to look at, and
        // nothing else about the stream may be asked.
        true => (ask_captured(stream, per_thread) == Some(false)).then(|| StreamUse {
            name: streams::name(runtime, stream, per_thread),
            context: runtime.env().driver().current_context(),
            blocking: true,
        }),
    };
    let Some(stream) = stream else {
        // A node of a graph, or an error that the device answers itself.
        return make(runtime.allocations().driver_address(DeviceAddress(base)).0);
    };
    free(function, FreeCall::FreeAsync { stream }, base, make)
}

hook!([cuMemFreeAsync, cuMemFreeAsync_ptsz](base: CUdeviceptr, stream: CUstream) |give_back| {
    // SAFETY: the program's arguments.
    free_async("cuMemFreeAsync", PER_THREAD, base, stream, |base| unsafe { give_back(base, stream) })
});

/// What the program has freed goes back to its pool.
fn ending(pool: CUmemoryPool) {
    if let Some(runtime) = session::runtime()
        && let Some(_leave) = outside_captures()
    {
        runtime.frees().pool_ending(pool.0);
    }
}

hook!(cuMemPoolTrimTo(pool: CUmemoryPool, keep: usize) |trim| {
    ending(pool);
    // SAFETY: the program's arguments.
    unsafe { trim(pool, keep) }
});

hook!(cuMemPoolDestroy(pool: CUmemoryPool) |destroy| {
    ending(pool);
    if let Some(session) = session::get() {
        session.exported_pools.remove(pool.0);
    }
    // SAFETY: the program's arguments.
    unsafe { destroy(pool) }
});

hook!(cuMemPoolGetAttribute(
    pool: CUmemoryPool,
    attribute: CUmemPool_attribute,
    value: *mut c_void,
) |get| {
    use CUmemPool_attribute as A;
    // SAFETY: the program's arguments.
    let result = unsafe { get(pool, attribute, value) };
    let is_used = attribute == A::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
    let is_reserved = attribute == A::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
    if result == CUresult::CUDA_SUCCESS
        && (is_used || is_reserved)
        && !value.is_null()
        && let Some(runtime) = session::runtime()
    {
        let held = match is_used {
            true => runtime.frees().unused_of_pool(pool.0),
            false => 0,
        };
        // What a protection made in the pool's place.
        let placed = runtime.allocations().placed_in_pool(pool.0);
        let value = value.cast::<u64>();
        // SAFETY: both attributes are 64-bit counts, just written.
        unsafe { *value = (*value).saturating_sub(held) + placed };
    }
    result
});
