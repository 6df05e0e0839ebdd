//! Allocations: the runtime learns of each with the size that the program
//! asked for, and of each free before the device does it.
//!
//! The device is asked for more than the program asks for: for canaries on both
//! sides (`Canaries::plans`), or, where there are none, for a little, so
//! that an address one past the end never is another allocation's first
//! (`Allocations::padded_size`). If it has no room for that, it gets the program's
//! own number. A protection may make the memory itself, at an address of its
//! choice (`Runtime::place`). Behind a canary the program's address is not the device's: every
//! call that needs the latter gets it from `Allocations::driver_address`.

use super::define::{hook, hooks};
use super::placed::{placed, placed_rows};
use crate::queries::{is_capturing, outside_captures};
use crate::session::{self, next};
use driver::sys::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY3D_DESCRIPTOR, CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUarray,
    CUarray_format, CUdeviceptr, CUexternalMemory, CUgraphicsResource, CUmemPoolPtrExportData,
    CUmemoryPool, CUmipmappedArray, CUresult,
};
use model::{AllocationKind, BareReason, DeviceAddress, ElsewhereReason, Extent};
use runtime::{CanaryPlan, Fill, FreeCall, FreeRequest, Owner, Redzones};
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
    cuArrayCreate_v2,
    cuArrayDestroy,
    cuArray3DCreate_v2,
    cuMipmappedArrayCreate,
    cuMipmappedArrayDestroy,
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
    outside_captures().is_some_and(|_leave| {
        session::runtime().is_some_and(|runtime| runtime.frees().empty_quarantine())
    })
}

/// Asks for the padded size, and for the program's own if there is no room.
/// Also returns how many bytes of padding there are.
pub(super) fn padded(bytes: usize, ask: impl Fn(usize) -> CUresult) -> (CUresult, u32) {
    let Some(runtime) = session::runtime() else {
        return (ask(bytes), 0);
    };
    let more = usize::try_from(runtime.allocations().padded_size(bytes as u64)).unwrap_or(bytes);
    match with_room(|| ask(more)) {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY if more != bytes => (ask(bytes), 0),
        result => (result, u32::try_from(more - bytes).unwrap_or(0)),
    }
}

/// An owner of memory with so many bytes of padding after it.
pub(super) fn with_padding(owner: Owner, after: u32) -> Owner {
    Owner {
        redzones: Redzones {
            after,
            ..owner.redzones
        },
        ..owner
    }
}

/// Memory that the program asks for.
pub(super) struct Request {
    pub kind: AllocationKind,
    pub bytes: usize,
    /// Another address than the device's will do.
    pub head: bool,
    /// When its canaries are written.
    pub fill: Fill,
    /// Why no protection can place it, if that is known.
    pub obstacle: Option<ElsewhereReason>,
}

/// Allocates memory of the program: with canaries if there is to be any and
/// room for them.
///
/// # Safety
/// `place` is where `ask` has the device write the address.
pub(super) unsafe fn guarded(
    request: Request,
    place: *mut u64,
    owner: impl Fn() -> Owner,
    ask: impl Fn(usize) -> CUresult,
) -> CUresult {
    let Request {
        kind,
        bytes,
        head,
        fill,
        obstacle,
    } = request;
    let Some(runtime) = session::runtime() else {
        return ask(bytes);
    };
    // SAFETY: null, or the program's place for an address.
    if let Some(place) = unsafe { place.as_mut() }
        && let Some(base) = placed(runtime, kind, bytes, obstacle, &owner, fill)
    {
        *place = base;
        return CUresult::CUDA_SUCCESS;
    }
    let plans = runtime
        .placements()
        .surroundings()
        .plans(bytes as u64, head, fill);
    for plan in &plans {
        let Ok(total) = usize::try_from(plan.total()) else {
            continue;
        };
        match with_room(|| ask(total)) {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => {}
            CUresult::CUDA_SUCCESS if !place.is_null() => {
                // SAFETY: written by a successful call; the program has not seen
                // it yet.
                let base = unsafe {
                    *place += plan.start();
                    *place
                };
                let extent = Extent {
                    base: DeviceAddress(base),
                    size: bytes as u64,
                };
                runtime
                    .placements()
                    .surroundings()
                    .allocated(kind, extent, owner(), plan, fill);
                return CUresult::CUDA_SUCCESS;
            }
            result => return result,
        }
    }
    let (result, padding) = padded(bytes, ask);
    if result == CUresult::CUDA_SUCCESS && !place.is_null() {
        if !plans.is_empty() {
            runtime
                .placements()
                .surroundings()
                .bare(BareReason::OutOfMemory);
        }
        // SAFETY: written by a successful call.
        tell(
            kind,
            unsafe { *place },
            bytes,
            with_padding(owner(), padding),
        );
    }
    result
}

pub(super) fn tell(kind: AllocationKind, base: u64, size: usize, owner: Owner) {
    if let Some(runtime) = session::runtime() {
        let extent = Extent {
            base: DeviceAddress(base),
            size: size as u64,
        };
        runtime.allocations().allocated_by(kind, extent, owner);
    }
}

/// The program itself, in the current context.
pub(super) fn own() -> Owner {
    let context = session::runtime().map_or(0, |runtime| runtime.env().driver().current_context());
    Owner {
        context,
        ..Owner::default()
    }
}

/// Reports an allocation of the program whose address the device has just
/// written, with so many bytes of padding after it.
///
/// # Safety
/// `place` was written by a successful call.
pub(super) unsafe fn allocated(
    result: CUresult,
    kind: AllocationKind,
    place: *const u64,
    size: usize,
    padding: u32,
) -> CUresult {
    if result == CUresult::CUDA_SUCCESS && !place.is_null() {
        // SAFETY: the caller's word.
        tell(kind, unsafe { *place }, size, with_padding(own(), padding));
    }
    result
}

/// Reports memory that other interfaces made; the device knows its extent.
///
/// # Safety
/// `place` was written by a successful call.
pub(super) unsafe fn foreign(result: CUresult, place: *const CUdeviceptr) -> CUresult {
    if result != CUresult::CUDA_SUCCESS || place.is_null() {
        return result;
    }
    foreign_buffer();
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

/// Memory that has no canaries, because others made it.
pub(super) fn foreign_buffer() {
    if let Some(runtime) = session::runtime() {
        runtime
            .placements()
            .surroundings()
            .bare(BareReason::Foreign);
        runtime.placements().elsewhere(ElsewhereReason::Foreign);
    }
}

pub(super) fn freeing(base: u64) {
    if base != 0
        && let Some(runtime) = session::runtime()
    {
        runtime.allocations().freeing(DeviceAddress(base));
    }
}

/// Frees as the runtime decides. `make` is the device's own call, and gets the
/// device's own address.
pub(super) fn free(
    function: &'static str,
    call: FreeCall,
    address: u64,
    make: impl Fn(u64) -> CUresult,
) -> CUresult {
    let Some(runtime) = session::runtime() else {
        return make(address);
    };
    // To be held until the memory is free: to free it may mean to wait for the device.
    let leave = outside_captures();
    let request = FreeRequest {
        function,
        call,
        address: DeviceAddress(address),
        capturing: leave.is_none(),
    };
    runtime.frees().free(request, &|address| make(address.0))
}

/// Memory that the program may use as soon as it has the address.
fn at_once(kind: AllocationKind, bytes: usize) -> Request {
    Request {
        kind,
        bytes,
        head: true,
        fill: Fill::Now,
        obstacle: match kind {
            AllocationKind::Managed => Some(ElsewhereReason::Managed),
            _ if is_capturing() => Some(ElsewhereReason::Captured),
            _ => None,
        },
    }
}

hook!(cuMemAlloc_v2(place: *mut CUdeviceptr, bytes: usize) |allocate| {
    // SAFETY: the program's arguments.
    unsafe {
        guarded(at_once(AllocationKind::Device, bytes), place, own, |bytes| allocate(place, bytes))
    }
});

/// Pitched memory with rows of canary before and after it. `None`: there is to
/// be none, or no room.
///
/// # Safety
/// `place` and `pitch` are where `ask` has the device write its answers.
unsafe fn guarded_rows(
    place: *mut u64,
    pitch: *mut usize,
    width: usize,
    height: usize,
    ask: impl Fn(usize) -> CUresult,
) -> Option<CUresult> {
    let runtime = session::runtime()?;
    let surroundings = runtime.placements().surroundings();
    let size = (width as u64).saturating_mul(height as u64);
    let canary = usize::try_from(surroundings.bytes(size)).ok()?;
    if canary == 0 || width == 0 || place.is_null() || pitch.is_null() {
        return None;
    }
    // Rows are no shorter than this.
    let rows = canary.div_ceil(width);
    let all = height.checked_add(rows.checked_mul(2)?)?;
    let result = with_room(|| ask(all));
    if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        surroundings.bare(BareReason::OutOfMemory);
        return None;
    }
    if result == CUresult::CUDA_SUCCESS {
        // SAFETY: written by a successful call; the program has not seen the
        // address yet.
        let (base, pitch) = unsafe { (&mut *place, *pitch as u64) };
        let canary_head = runtime.env().settings().canary_head;
        let before = match surroundings.has_head(canary_head) {
            true => rows as u64,
            false => 0,
        };
        let plan = CanaryPlan::of_rows(
            pitch,
            height as u64,
            before,
            all as u64 - height as u64 - before,
        )?;
        *base += plan.start();
        let extent = Extent {
            base: DeviceAddress(*base),
            size: pitch * height as u64,
        };
        surroundings.allocated(AllocationKind::Device, extent, own(), &plan, Fill::Now);
    }
    Some(result)
}

/// Page-locked memory of the host has no canaries.
fn bare_host(result: CUresult) {
    if result == CUresult::CUDA_SUCCESS
        && let Some(runtime) = session::runtime()
    {
        runtime.placements().surroundings().bare(BareReason::Host);
    }
}

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
        if let Some(result) = placed_rows(place, pitch, (width, height, element), &own, || {
            allocate(place, pitch, width, 1, element)
        }) {
            return result;
        }
        if more && let Some(result) = guarded_rows(place, pitch, width, height, |rows| {
            allocate(place, pitch, width, rows, element)
        }) {
            return result;
        }
        let mut padded = more;
        let mut result = with_room(|| allocate(place, pitch, width, height + usize::from(more), element));
        if more && result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            padded = false;
            result = allocate(place, pitch, width, height, element);
        }
        if result == CUresult::CUDA_SUCCESS && !pitch.is_null() {
            let padding = if padded { u32::try_from(*pitch).unwrap_or(0) } else { 0 };
            return allocated(result, AllocationKind::Device, place, (*pitch).saturating_mul(height), padding);
        }
        result
    }
});

hook!(cuMemAllocManaged(place: *mut CUdeviceptr, bytes: usize, flags: u32) |allocate| {
    // SAFETY: the program's arguments.
    unsafe {
        guarded(at_once(AllocationKind::Managed, bytes), place, own, |bytes| allocate(place, bytes, flags))
    }
});

hook!(cuMemAllocHost_v2(place: *mut *mut c_void, bytes: usize) |allocate| {
    // SAFETY: the program's arguments.
    unsafe {
        let (result, padding) = padded(bytes, |bytes| allocate(place, bytes));
        bare_host(result);
        allocated(result, AllocationKind::Host, place.cast(), bytes, padding)
    }
});

hook!(cuMemHostAlloc(place: *mut *mut c_void, bytes: usize, flags: u32) |allocate| {
    // SAFETY: the program's arguments.
    unsafe {
        let (result, padding) = padded(bytes, |bytes| allocate(place, bytes, flags));
        bare_host(result);
        allocated(result, AllocationKind::Host, place.cast(), bytes, padding)
    }
});

hook!([cuMemHostRegister, cuMemHostRegister_v2](memory: *mut c_void, bytes: usize, flags: u32) |register| {
    // SAFETY: the program's arguments.
    let result = unsafe { register(memory, bytes, flags) };
    if result == CUresult::CUDA_SUCCESS {
        bare_host(result);
        if let Some(runtime) = session::runtime() {
            let extent = Extent {
                base: DeviceAddress(memory as u64),
                size: bytes as u64,
            };
            runtime.allocations().registered(extent, own());
        }
    }
    result
});

hook!(cuMemHostUnregister(memory: *mut c_void) |unregister| {
    // SAFETY: the program's arguments.
    free("cuMemHostUnregister", FreeCall::Unregister, memory as u64, |_| unsafe { unregister(memory) })
});

hook!(cuMemFree_v2(base: CUdeviceptr) |give_back| {
    // SAFETY: the program's arguments.
    free("cuMemFree_v2", FreeCall::Free, base, |base| unsafe { give_back(base) })
});

hook!(cuMemFreeHost(memory: *mut c_void) |give_back| {
    // SAFETY: the program's arguments.
    free("cuMemFreeHost", FreeCall::FreeHost, memory as u64, |memory| unsafe {
        give_back(memory as *mut c_void)
    })
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

/// Bytes of an array of so many texels.
fn array_bytes(format: CUarray_format, channels: u32, sides: [usize; 3]) -> u64 {
    use CUarray_format as F;
    let channel = match format {
        F::CU_AD_FORMAT_UNSIGNED_INT8 | F::CU_AD_FORMAT_SIGNED_INT8 => 1,
        F::CU_AD_FORMAT_UNSIGNED_INT32 | F::CU_AD_FORMAT_SIGNED_INT32 | F::CU_AD_FORMAT_FLOAT => 4,
        _ => 2,
    };
    let sides = sides.iter().map(|side| (*side).max(1) as u64);
    sides.fold(channel * u64::from(channels), u64::saturating_mul)
}

/// The same, by what the program asks for.
///
/// # Safety
/// `how` is null or points to the struct.
unsafe fn array_3d_bytes(how: *const CUDA_ARRAY3D_DESCRIPTOR) -> u64 {
    // SAFETY: the caller's word.
    unsafe { how.as_ref() }.map_or(0, |how| {
        array_bytes(
            how.Format,
            how.NumChannels,
            [how.Width, how.Height, how.Depth],
        )
    })
}

/// # Safety
/// A successful call has written the handle to `place`.
unsafe fn array_made(result: CUresult, place: *const u64, bytes: u64) -> CUresult {
    if result == CUresult::CUDA_SUCCESS
        && !place.is_null()
        && let Some(runtime) = session::runtime()
    {
        // SAFETY: the caller's word.
        runtime.frees().array_made(unsafe { *place }, bytes);
    }
    result
}

fn free_array(function: &'static str, handle: u64, destroy: impl Fn() -> CUresult) -> CUresult {
    match session::runtime() {
        Some(runtime) => runtime.frees().free_array(function, handle, &destroy),
        None => destroy(),
    }
}

hook!(cuArrayDestroy(array: CUarray) |destroy| {
    // SAFETY: the program's arguments.
    free_array(FUNCTION, array.0, || unsafe { destroy(array) })
});

hook!(cuMipmappedArrayDestroy(array: CUmipmappedArray) |destroy| {
    // SAFETY: the program's arguments.
    free_array(FUNCTION, array.0, || unsafe { destroy(array) })
});

hook!(cuArrayCreate_v2(array: *mut CUarray, how: *const CUDA_ARRAY_DESCRIPTOR) |create| {
    // SAFETY: the program's arguments.
    unsafe {
        let bytes = how.as_ref().map_or(0, |how| array_bytes(how.Format, how.NumChannels, [how.Width, how.Height, 1]));
        array_made(with_room(|| create(array, how)), array.cast(), bytes)
    }
});

hook!(cuArray3DCreate_v2(array: *mut CUarray, how: *const CUDA_ARRAY3D_DESCRIPTOR) |create| {
    // SAFETY: the program's arguments.
    unsafe { array_made(with_room(|| create(array, how)), array.cast(), array_3d_bytes(how)) }
});

hook!(cuMipmappedArrayCreate(
    array: *mut CUmipmappedArray,
    how: *const CUDA_ARRAY3D_DESCRIPTOR,
    levels: u32,
) |create| {
    // SAFETY: the program's arguments.
    unsafe { array_made(with_room(|| create(array, how, levels)), array.cast(), array_3d_bytes(how)) }
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
            foreign_buffer();
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
            foreign_buffer();
            tell(AllocationKind::Foreign, *place, *bytes, Owner::default());
        }
        result
    }
});
