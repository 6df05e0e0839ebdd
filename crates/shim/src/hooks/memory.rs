//! Allocations: the runtime learns of each with the size that the program
//! asked for, and of each free before the device does it.
//!
//! The device is asked for a little more than the program wants, so that an
//! address one past the end never is another allocation's first; see
//! `Runtime::padded_size`. If it has no room for that little more, it gets the
//! program's own number.

use super::{capture, hook, hooks, next};
use crate::session;
use driver::sys::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR, CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUarray,
    CUdeviceptr, CUexternalMemory, CUgraphicsResource, CUipcMemHandle, CUmemPoolPtrExportData,
    CUmemoryPool, CUmipmappedArray, CUresult,
};
use model::{AllocationKind, DeviceAddress, Extent};
use runtime::{FreeCall, FreeRequest, Owner, Runtime};
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
    cuMemPoolImportPointer,
    cuIpcOpenMemHandle,
    cuIpcOpenMemHandle_v2,
    cuIpcCloseMemHandle,
    cuArrayCreate_v2,
    cuArray3DCreate_v2,
    cuMipmappedArrayCreate,
    cuExternalMemoryGetMappedBuffer,
    cuGraphicsResourceGetMappedPointer_v2,
);

/// Rows of a pitched allocation up to this many bytes get one row more; above,
/// a row costs too much.
const PADDED_ROW: usize = 1 << 20;

/// Asks the device for memory; if it has none left, once more when it has that
/// of the quarantine too.
pub(super) fn with_room(ask: impl Fn() -> CUresult) -> CUresult {
    match ask() {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY if make_room() => ask(),
        result => result,
    }
}

/// Whether freed memory was given back to the device.
fn make_room() -> bool {
    !capture::active() && session::runtime().is_some_and(Runtime::empty_quarantine)
}

/// Asks for the padded size, and for the program's own if there is no room.
pub(super) fn padded(bytes: usize, ask: impl Fn(usize) -> CUresult) -> CUresult {
    let Some(runtime) = session::runtime() else {
        return ask(bytes);
    };
    let more = usize::try_from(runtime.padded_size(bytes as u64)).unwrap_or(bytes);
    match with_room(|| ask(more)) {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY if more != bytes => ask(bytes),
        result => result,
    }
}

pub(super) fn tell(kind: AllocationKind, base: u64, size: usize, owner: Owner) {
    if let Some(runtime) = session::runtime() {
        let extent = Extent {
            base: DeviceAddress(base),
            size: size as u64,
        };
        runtime.allocated_by(kind, extent, owner);
    }
}

/// The program itself, in the current context.
pub(super) fn own() -> Owner {
    let context = session::runtime().map_or(0, |runtime| runtime.driver().current_context());
    Owner { context, pool: 0 }
}

/// Tells of an allocation of the program whose address the device has just
/// written.
///
/// # Safety
/// `place` was written by a successful call.
pub(super) unsafe fn allocated(
    result: CUresult,
    kind: AllocationKind,
    place: *const u64,
    size: usize,
) -> CUresult {
    if result == CUresult::CUDA_SUCCESS && !place.is_null() {
        // SAFETY: the caller's word.
        tell(kind, unsafe { *place }, size, own());
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
            tell(AllocationKind::Foreign, base, size, Owner::default());
        }
    }
    result
}

pub(super) fn freeing(base: u64) {
    if base != 0
        && let Some(runtime) = session::runtime()
    {
        runtime.freeing(DeviceAddress(base));
    }
}

/// Frees as the runtime decides. `make` is the device's own call.
pub(super) fn free(
    function: &'static str,
    call: FreeCall,
    address: u64,
    make: impl Fn() -> CUresult,
) -> CUresult {
    let Some(runtime) = session::runtime() else {
        return make();
    };
    let request = FreeRequest {
        function,
        call,
        address: DeviceAddress(address),
        capturing: capture::active(),
    };
    CUresult(runtime.free(request, &|| make().0))
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
        let mut result = with_room(|| allocate(place, pitch, width, height + usize::from(more), element));
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
        tell(AllocationKind::HostRegistered, memory as u64, bytes, own());
    }
    result
});

hook!(cuMemHostUnregister(memory: *mut c_void) |unregister| {
    // SAFETY: the program's arguments.
    free("cuMemHostUnregister", FreeCall::Unregister, memory as u64, || unsafe { unregister(memory) })
});

hook!(cuMemFree_v2(base: CUdeviceptr) |give_back| {
    // SAFETY: the program's arguments.
    free("cuMemFree_v2", FreeCall::Free, base, || unsafe { give_back(base) })
});

hook!(cuMemFreeHost(memory: *mut c_void) |give_back| {
    // SAFETY: the program's arguments.
    free("cuMemFreeHost", FreeCall::FreeHost, memory as u64, || unsafe { give_back(memory) })
});

hook!(cuMemPoolImportPointer(
    place: *mut CUdeviceptr,
    pool: CUmemoryPool,
    data: *mut CUmemPoolPtrExportData,
) |import| {
    // SAFETY: the program's arguments.
    unsafe { foreign(import(place, pool, data), place) }
});

// Arrays are the device's to guard; only their memory must be there.

hook!(cuArrayCreate_v2(array: *mut CUarray, how: *const CUDA_ARRAY_DESCRIPTOR) |create| {
    // SAFETY: the program's arguments.
    with_room(|| unsafe { create(array, how) })
});

hook!(cuArray3DCreate_v2(array: *mut CUarray, how: *const CUDA_ARRAY3D_DESCRIPTOR) |create| {
    // SAFETY: the program's arguments.
    with_room(|| unsafe { create(array, how) })
});

hook!(cuMipmappedArrayCreate(
    array: *mut CUmipmappedArray,
    how: *const CUDA_ARRAY3D_DESCRIPTOR,
    levels: u32,
) |create| {
    // SAFETY: the program's arguments.
    with_room(|| unsafe { create(array, how, levels) })
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
    // SAFETY: the program's arguments; both were read or written by a
    // successful call.
    unsafe {
        let result = map(place, memory, description);
        if result == CUresult::CUDA_SUCCESS && !description.is_null() && !place.is_null() {
            tell(AllocationKind::Foreign, *place, (*description).size as usize, Owner::default());
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
        if result == CUresult::CUDA_SUCCESS && !bytes.is_null() && !place.is_null() {
            tell(AllocationKind::Foreign, *place, *bytes, Owner::default());
        }
        result
    }
});
