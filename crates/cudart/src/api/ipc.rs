//! Sharing memory and events between processes, and asking what pairs of
//! devices can do. The driver's structs are laid out alike.

use crate::convert::{address, pointer};
use crate::generated::types::*;
use crate::state::{self, ready};
use driver::sys::{
    CUevent, CUipcEventHandle, CUipcMemHandle, CUmemAllocationHandleType, CUmemAllocationType,
    CUmemoryPool,
};
use std::ffi::c_void;

runtime! {
    /// Handle with which another process opens an allocation.
    fn cudaIpcGetMemHandle(handle: *mut cudaIpcMemHandle_t, devPtr: *mut c_void) {
        ready()?;
        cu!(cuIpcGetMemHandle(handle.cast(), address(devPtr)))
    }

    /// Opens an allocation of another process.
    fn cudaIpcOpenMemHandle(devPtr: *mut *mut c_void, handle: cudaIpcMemHandle_t, flags: u32) {
        ready()?;
        let mut base = 0;
        cu!(cuIpcOpenMemHandle_v2(&raw mut base, CUipcMemHandle { reserved: handle.reserved }, flags))?;
        put!(devPtr, pointer(base))
    }

    /// Closes an allocation of another process.
    fn cudaIpcCloseMemHandle(devPtr: *mut c_void) {
        ready()?;
        cu!(cuIpcCloseMemHandle(address(devPtr)))
    }

    /// Handle with which another process opens an event.
    fn cudaIpcGetEventHandle(handle: *mut cudaIpcEventHandle_t, event: cudaEvent_t) {
        ready()?;
        cu!(cuIpcGetEventHandle(handle.cast(), event))
    }

    /// Opens an event of another process.
    fn cudaIpcOpenEventHandle(event: *mut cudaEvent_t, handle: cudaIpcEventHandle_t) {
        ready()?;
        let mut opened = CUevent::NULL;
        cu!(cuIpcOpenEventHandle(&raw mut opened, CUipcEventHandle { reserved: handle.reserved }))?;
        put!(event, opened)
    }

    /// Handle of the system with which another process opens a pool.
    fn cudaMemPoolExportToShareableHandle(
        shareableHandle: *mut c_void, memPool: cudaMemPool_t, handleType: cudaMemAllocationHandleType, flags: u32
    ) {
        ready()?;
        let kind = CUmemAllocationHandleType(handleType.0);
        cu!(cuMemPoolExportToShareableHandle(shareableHandle, memPool, kind, u64::from(flags)))
    }

    /// Opens a pool of another process.
    fn cudaMemPoolImportFromShareableHandle(
        memPool: *mut cudaMemPool_t, shareableHandle: *mut c_void, handleType: cudaMemAllocationHandleType, flags: u32
    ) {
        ready()?;
        let kind = CUmemAllocationHandleType(handleType.0);
        let mut pool = CUmemoryPool::NULL;
        cu!(cuMemPoolImportFromShareableHandle(&raw mut pool, shareableHandle, kind, u64::from(flags)))?;
        put!(memPool, pool)
    }

    /// What another process needs to find an allocation in a shared pool.
    fn cudaMemPoolExportPointer(exportData: *mut cudaMemPoolPtrExportData, ptr: *mut c_void) {
        ready()?;
        cu!(cuMemPoolExportPointer(exportData.cast(), address(ptr)))
    }

    /// Finds an allocation of another process in a shared pool.
    fn cudaMemPoolImportPointer(
        ptr: *mut *mut c_void, memPool: cudaMemPool_t, exportData: *mut cudaMemPoolPtrExportData
    ) {
        ready()?;
        let mut base = 0;
        cu!(cuMemPoolImportPointer(&raw mut base, memPool, exportData.cast()))?;
        put!(ptr, pointer(base))
    }

    /// The current pool of a place.
    fn cudaMemGetMemPool(memPool: *mut cudaMemPool_t, location: *mut cudaMemLocation, kind: cudaMemAllocationType) {
        ready()?;
        let mut pool = CUmemoryPool::NULL;
        cu!(cuMemGetMemPool(&raw mut pool, location.cast(), CUmemAllocationType(kind.0)))?;
        put!(memPool, pool)
    }

    /// Sets the current pool of a place.
    fn cudaMemSetMemPool(location: *mut cudaMemLocation, kind: cudaMemAllocationType, memPool: cudaMemPool_t) {
        ready()?;
        cu!(cuMemSetMemPool(location.cast(), CUmemAllocationType(kind.0), memPool))
    }

    /// Which atomic operations a device can do on host memory.
    fn cudaDeviceGetHostAtomicCapabilities(
        capabilities: *mut u32, operations: *const cudaAtomicOperation, count: u32, device: i32
    ) {
        let device = state::device_at(device)?;
        cu!(cuDeviceGetHostAtomicCapabilities(capabilities, operations.cast(), count, device))
    }

    /// Which atomic operations a device can do on another's memory.
    fn cudaDeviceGetP2PAtomicCapabilities(
        capabilities: *mut u32, operations: *const cudaAtomicOperation, count: u32, srcDevice: i32, dstDevice: i32
    ) {
        let (from, to) = (state::device_at(srcDevice)?, state::device_at(dstDevice)?);
        cu!(cuDeviceGetP2PAtomicCapabilities(capabilities, operations.cast(), count, from, to))
    }
}
