//! Allocations: the runtime learns of each with the size that the program
//! asked for, and of each free before the device does it.
//!
//! The device is asked for a little more than the program wants, so that an
//! address one past the end never is another allocation's first; see
//! `Runtime::padded_size`. If it has no room for that little more, it gets the
//! program's own number.

use super::sync::Waited;
use super::{hook, hooks, next};
use crate::session;
use driver::sys::{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUdeviceptr, CUexternalMemory, CUgraphicsResource,
    CUipcMemHandle, CUmemPoolPtrExportData, CUmemoryPool, CUresult, CUstream,
};
use model::{AllocationKind, DeviceAddress, Extent};
use parking_lot::Mutex;
use runtime::Runtime;
use std::ffi::c_void;

hooks!(
    cuMemAlloc_v2,
    cuMemAllocPitch_v2,
    cuMemAllocManaged,
    cuMemAllocHost_v2,
    cuMemHostAlloc,
    cuMemHostRegister,
    cuMemHostRegister_v2,
    cuMemHostUnregister,
    cuMemFree_v2,
    cuMemFreeHost,
    cuMemAllocAsync,
    cuMemAllocAsync_ptsz,
    cuMemAllocFromPoolAsync,
    cuMemAllocFromPoolAsync_ptsz,
    cuMemFreeAsync,
    cuMemFreeAsync_ptsz,
    cuMemPoolImportPointer,
    cuMemAddressReserve,
    cuMemAddressFree,
    cuIpcOpenMemHandle,
    cuIpcOpenMemHandle_v2,
    cuIpcCloseMemHandle,
    cuExternalMemoryGetMappedBuffer,
    cuGraphicsResourceGetMappedPointer_v2,
);

/// Rows of a pitched allocation up to this many bytes get one row more; above,
/// a row costs too much.
const PADDED_ROW: usize = 1 << 20;

/// Asks for the padded size, and for the program's own if there is no room.
fn padded(bytes: usize, ask: impl Fn(usize) -> CUresult) -> CUresult {
    let Some(runtime) = session::runtime() else {
        return ask(bytes);
    };
    let more = usize::try_from(runtime.padded_size(bytes as u64)).unwrap_or(bytes);
    match ask(more) {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY if more != bytes => ask(bytes),
        result => result,
    }
}

fn tell(kind: AllocationKind, base: u64, size: usize) {
    if let Some(runtime) = session::runtime() {
        runtime.allocated(
            kind,
            Extent {
                base: DeviceAddress(base),
                size: size as u64,
            },
        );
    }
}

/// Tells of an allocation whose address the device has just written.
///
/// # Safety
/// `place` was written by a successful call.
unsafe fn allocated(
    result: CUresult,
    kind: AllocationKind,
    place: *const u64,
    size: usize,
) -> CUresult {
    if result == CUresult::CUDA_SUCCESS && !place.is_null() {
        // SAFETY: the caller's word.
        tell(kind, unsafe { *place }, size);
    }
    result
}

/// Tells of memory that other interfaces made; the device knows its extent.
///
/// # Safety
/// `place` was written by a successful call.
unsafe fn foreign(result: CUresult, place: *const CUdeviceptr) -> CUresult {
    if result != CUresult::CUDA_SUCCESS || place.is_null() {
        return result;
    }
    // SAFETY: the caller's word.
    let address = unsafe { *place };
    let (mut base, mut size) = (0, 0);
    if let Some(range) = next().and_then(|api| api.cuMemGetAddressRange_v2) {
        // SAFETY: places for both answers.
        if unsafe { range(&mut base, &mut size, address) } == CUresult::CUDA_SUCCESS {
            tell(AllocationKind::Foreign, base, size);
        }
    }
    result
}

fn freeing(base: u64) {
    if base != 0
        && let Some(runtime) = session::runtime()
    {
        runtime.freeing(DeviceAddress(base));
    }
}

hook!(cuMemAlloc_v2(place: *mut CUdeviceptr, bytes: usize) |allocate| {
    // SAFETY: the program's arguments.
    unsafe {
        let result = padded(bytes, |bytes| allocate(place, bytes));
        allocated(result, AllocationKind::Device, place, bytes)
    }
});

hook!(cuMemAllocPitch_v2(
    place: *mut CUdeviceptr,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: u32,
) |allocate| {
    let more = session::runtime().is_some() && height > 0 && width <= PADDED_ROW;
    // SAFETY: the program's arguments.
    unsafe {
        let mut result = allocate(place, pitch, width, height + usize::from(more), element);
        if more && result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            result = allocate(place, pitch, width, height, element);
        }
        if result == CUresult::CUDA_SUCCESS && !pitch.is_null() {
            return allocated(result, AllocationKind::Device, place, (*pitch).saturating_mul(height));
        }
        result
    }
});

hook!(cuMemAllocManaged(place: *mut CUdeviceptr, bytes: usize, flags: u32) |allocate| {
    // SAFETY: the program's arguments.
    unsafe {
        let result = padded(bytes, |bytes| allocate(place, bytes, flags));
        allocated(result, AllocationKind::Managed, place, bytes)
    }
});

hook!(cuMemAllocHost_v2(place: *mut *mut c_void, bytes: usize) |allocate| {
    // SAFETY: the program's arguments.
    unsafe {
        let result = padded(bytes, |bytes| allocate(place, bytes));
        allocated(result, AllocationKind::Host, place.cast(), bytes)
    }
});

hook!(cuMemHostAlloc(place: *mut *mut c_void, bytes: usize, flags: u32) |allocate| {
    // SAFETY: the program's arguments.
    unsafe {
        let result = padded(bytes, |bytes| allocate(place, bytes, flags));
        allocated(result, AllocationKind::Host, place.cast(), bytes)
    }
});

hook!([cuMemHostRegister, cuMemHostRegister_v2](memory: *mut c_void, bytes: usize, flags: u32) |register| {
    // SAFETY: the program's arguments.
    let result = unsafe { register(memory, bytes, flags) };
    if result == CUresult::CUDA_SUCCESS {
        tell(AllocationKind::HostRegistered, memory as u64, bytes);
    }
    result
});

hook!(cuMemHostUnregister(memory: *mut c_void) |unregister| {
    freeing(memory as u64);
    // SAFETY: the program's arguments.
    unsafe { unregister(memory) }
});

hook!(cuMemFree_v2(base: CUdeviceptr) |free| {
    freeing(base);
    // SAFETY: the program's arguments.
    unsafe { free(base) }
});

hook!(cuMemFreeHost(memory: *mut c_void) |free| {
    freeing(memory as u64);
    // SAFETY: the program's arguments.
    unsafe { free(memory) }
});

hook!([cuMemAllocAsync, cuMemAllocAsync_ptsz](place: *mut CUdeviceptr, bytes: usize, stream: CUstream) |allocate| {
    // SAFETY: the program's arguments.
    unsafe {
        let result = padded(bytes, |bytes| allocate(place, bytes, stream));
        reused(place, result);
        allocated(result, AllocationKind::Pool, place, bytes)
    }
});

hook!([cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz](
    place: *mut CUdeviceptr,
    bytes: usize,
    pool: CUmemoryPool,
    stream: CUstream,
) |allocate| {
    // SAFETY: the program's arguments.
    unsafe {
        let result = padded(bytes, |bytes| allocate(place, bytes, pool, stream));
        reused(place, result);
        allocated(result, AllocationKind::Pool, place, bytes)
    }
});

/// Frees that happen when their stream reaches them. Until then kernels that
/// were launched before may use the memory, so the runtime learns of a free
/// only when its stream was waited for, or the address was given out again.
static PENDING: Mutex<Vec<(CUstream, u64)>> = Mutex::new(Vec::new());

hook!([cuMemFreeAsync, cuMemFreeAsync_ptsz](base: CUdeviceptr, stream: CUstream) |free| {
    // SAFETY: the program's arguments.
    let result = unsafe { free(base, stream) };
    if result == CUresult::CUDA_SUCCESS && base != 0 && session::runtime().is_some() {
        PENDING.lock().push((stream, base));
    }
    result
});

/// Tells the runtime of the frees that have happened by now.
pub(super) fn settle(runtime: &Runtime, what: Waited) {
    let mut done = Vec::new();
    PENDING.lock().retain(|(stream, base)| {
        let keep = match what {
            Waited::Context => false,
            Waited::Stream(waited) => waited != *stream,
            Waited::Something => true,
        };
        if !keep {
            done.push(*base);
        }
        keep
    });
    for base in done {
        runtime.freeing(DeviceAddress(base));
    }
}

/// An address that was given out again is free no longer.
///
/// # Safety
/// `place` was written if `result` is success.
unsafe fn reused(place: *const CUdeviceptr, result: CUresult) {
    if result == CUresult::CUDA_SUCCESS && !place.is_null() {
        // SAFETY: the caller's word.
        let address = unsafe { *place };
        let mut pending = PENDING.lock();
        let before = pending.len();
        pending.retain(|(_, base)| *base != address);
        let was_pending = pending.len() != before;
        drop(pending);
        if was_pending {
            freeing(address);
        }
    }
}

hook!(cuMemPoolImportPointer(
    place: *mut CUdeviceptr,
    pool: CUmemoryPool,
    data: *mut CUmemPoolPtrExportData,
) |import| {
    // SAFETY: the program's arguments.
    unsafe { foreign(import(place, pool, data), place) }
});

// Chunks that are mapped next to each other in one reservation serve one
// buffer (PyTorch's expandable segments), so the reservation is the
// allocation; what is not mapped in it, the hardware guards.
hook!(cuMemAddressReserve(
    place: *mut CUdeviceptr,
    bytes: usize,
    alignment: usize,
    hint: CUdeviceptr,
    flags: u64,
) |reserve| {
    // SAFETY: the program's arguments.
    unsafe { allocated(reserve(place, bytes, alignment, hint, flags), AllocationKind::Mapped, place, bytes) }
});

hook!(cuMemAddressFree(base: CUdeviceptr, bytes: usize) |free| {
    freeing(base);
    // SAFETY: the program's arguments.
    unsafe { free(base, bytes) }
});

hook!([cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2](
    place: *mut CUdeviceptr,
    handle: CUipcMemHandle,
    flags: u32,
) |open| {
    // SAFETY: the program's arguments.
    unsafe { foreign(open(place, handle, flags), place) }
});

hook!(cuIpcCloseMemHandle(base: CUdeviceptr) |close| {
    freeing(base);
    // SAFETY: the program's arguments.
    unsafe { close(base) }
});

hook!(cuExternalMemoryGetMappedBuffer(
    place: *mut CUdeviceptr,
    memory: CUexternalMemory,
    description: *const CUDA_EXTERNAL_MEMORY_BUFFER_DESC,
) |map| {
    // SAFETY: the program's arguments; the description was read by a
    // successful call.
    unsafe {
        let result = map(place, memory, description);
        if result == CUresult::CUDA_SUCCESS && !description.is_null() {
            return allocated(result, AllocationKind::Foreign, place, (*description).size as usize);
        }
        result
    }
});

hook!(cuGraphicsResourceGetMappedPointer_v2(
    place: *mut CUdeviceptr,
    bytes: *mut usize,
    resource: CUgraphicsResource,
) |map| {
    // SAFETY: the program's arguments; both places were written by a
    // successful call.
    unsafe {
        let result = map(place, bytes, resource);
        if result == CUresult::CUDA_SUCCESS && !bytes.is_null() {
            return allocated(result, AllocationKind::Foreign, place, *bytes);
        }
        result
    }
});
