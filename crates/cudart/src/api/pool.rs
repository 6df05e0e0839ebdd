//! Stream-ordered allocation and its pools.

use crate::api::memory::location;
use crate::convert::{address, pointer};
use crate::generated::types::*;
use crate::state::{self, ready};
use driver::sys::{CUmemAllocationType, CUmemPool_attribute, CUmemoryPool};
use std::ffi::c_void;

runtime! {
    /// Enqueues an allocation from the device's current pool.
    fn cudaMallocAsync / cudaMallocAsync_ptsz [hStream] (devPtr: *mut *mut c_void, size: usize, hStream: cudaStream_t) {
        ready()?;
        if size == 0 {
            return put!(devPtr, std::ptr::null_mut());
        }
        let mut base = 0;
        cu!(cuMemAllocAsync(&raw mut base, size, hStream))?;
        put!(devPtr, pointer(base))
    }

    /// Enqueues an allocation from a pool.
    fn cudaMallocFromPoolAsync / cudaMallocFromPoolAsync_ptsz [stream] (
        ptr: *mut *mut c_void, size: usize, memPool: cudaMemPool_t, stream: cudaStream_t
    ) {
        ready()?;
        if size == 0 {
            return put!(ptr, std::ptr::null_mut());
        }
        let mut base = 0;
        cu!(cuMemAllocFromPoolAsync(&raw mut base, size, memPool, stream))?;
        put!(ptr, pointer(base))
    }

    /// Enqueues freeing.
    fn cudaFreeAsync / cudaFreeAsync_ptsz [hStream] (devPtr: *mut c_void, hStream: cudaStream_t) {
        ready()?;
        if devPtr.is_null() {
            return Ok(());
        }
        cu!(cuMemFreeAsync(address(devPtr), hStream))
    }

    /// A new pool.
    fn cudaMemPoolCreate(memPool: *mut cudaMemPool_t, poolProps: *const cudaMemPoolProps) {
        ready()?;
        let mut pool = CUmemoryPool::NULL;
        cu!(cuMemPoolCreate(&raw mut pool, poolProps.cast()))?;
        put!(memPool, pool)
    }

    /// Destroys a pool.
    fn cudaMemPoolDestroy(memPool: cudaMemPool_t) {
        ready()?;
        cu!(cuMemPoolDestroy(memPool))
    }

    /// Gives unused memory of a pool back.
    fn cudaMemPoolTrimTo(memPool: cudaMemPool_t, minBytesToKeep: usize) {
        ready()?;
        cu!(cuMemPoolTrimTo(memPool, minBytesToKeep))
    }

    /// Sets an attribute of a pool.
    fn cudaMemPoolSetAttribute(memPool: cudaMemPool_t, attr: cudaMemPoolAttr, value: *mut c_void) {
        ready()?;
        cu!(cuMemPoolSetAttribute(memPool, CUmemPool_attribute(attr.0), value))
    }

    /// An attribute of a pool.
    fn cudaMemPoolGetAttribute(memPool: cudaMemPool_t, attr: cudaMemPoolAttr, value: *mut c_void) {
        ready()?;
        cu!(cuMemPoolGetAttribute(memPool, CUmemPool_attribute(attr.0), value))
    }

    /// Sets which devices may access a pool's memory.
    fn cudaMemPoolSetAccess(memPool: cudaMemPool_t, descList: *const cudaMemAccessDesc, count: usize) {
        ready()?;
        cu!(cuMemPoolSetAccess(memPool, descList.cast(), count))
    }

    /// Queries which devices may access a pool's memory.
    fn cudaMemPoolGetAccess(flags: *mut cudaMemAccessFlags, memPool: cudaMemPool_t, location: *mut cudaMemLocation) {
        ready()?;
        cu!(cuMemPoolGetAccess(flags.cast(), memPool, location.cast()))
    }

    /// The device's default pool.
    fn cudaDeviceGetDefaultMemPool(memPool: *mut cudaMemPool_t, device: i32) {
        let device = state::device_at(device)?;
        let mut pool = CUmemoryPool::NULL;
        cu!(cuDeviceGetDefaultMemPool(&raw mut pool, device))?;
        put!(memPool, pool)
    }

    /// The device's current pool.
    fn cudaDeviceGetMemPool(memPool: *mut cudaMemPool_t, device: i32) {
        let device = state::device_at(device)?;
        let mut pool = CUmemoryPool::NULL;
        cu!(cuDeviceGetMemPool(&raw mut pool, device))?;
        put!(memPool, pool)
    }

    /// Sets the device's current pool.
    fn cudaDeviceSetMemPool(device: i32, memPool: cudaMemPool_t) {
        let device = state::device_at(device)?;
        cu!(cuDeviceSetMemPool(device, memPool))
    }

    /// The default pool of a place.
    fn cudaMemGetDefaultMemPool(memPool: *mut cudaMemPool_t, place: *mut cudaMemLocation, kind: cudaMemAllocationType) {
        ready()?;
        let mut place = location(*get!(place)?);
        let mut pool = CUmemoryPool::NULL;
        cu!(cuMemGetDefaultMemPool(&raw mut pool, &raw mut place, CUmemAllocationType(kind.0)))?;
        put!(memPool, pool)
    }
}
