//! Calls that name memory by the device's own address, where the program's
//! lies behind a canary; and memory of other processes, which get the distance, too.
//!
//! A handle that a process exports names the device's allocation. The process
//! that opens it learns from a file in the folder of the run, named after the
//! handle, where the program's buffer lies in it: both must run under the same
//! `ringfence run`. Memory of pools that are made to be exported has no canary
//! in front, so that no distance is needed.

use super::define::{hook, hooks};
use super::memory::{foreign, foreign_buffer, freeing, tell};
use crate::session;
use driver::sys::{
    CUdeviceptr, CUipcMemHandle, CUmemAllocationHandleType, CUmemGenericAllocationHandle,
    CUmemPoolProps, CUmemPoolPtrExportData, CUmemoryPool, CUresult, CUstream,
};
use model::{AllocationKind, DeviceAddress, ElsewhereReason};
use runtime::{Owner, Redzones, Runtime};
use std::ffi::c_void;
use std::path::PathBuf;

hooks!(
    cuIpcGetMemHandle,
    cuIpcOpenMemHandle,
    cuIpcOpenMemHandle_v2,
    cuIpcCloseMemHandle,
    cuMemRetainAllocationHandle,
    cuMemPoolCreate,
    cuMemPoolExportPointer,
    cuStreamAttachMemAsync,
    cuStreamAttachMemAsync_ptsz,
);

/// The device's own address of memory that starts at one of the program's.
fn own_address(base: u64) -> u64 {
    session::runtime().map_or(base, |runtime| {
        runtime.allocations().driver_address(DeviceAddress(base)).0
    })
}

/// Where a run keeps how far memory lies in what a handle names.
fn place(handle: &CUipcMemHandle) -> Option<PathBuf> {
    let folder = session::get()?.settings.session.as_ref()?;
    let name: String = handle
        .reserved
        .iter()
        .map(|byte| format!("{:02x}", byte.cast_unsigned()))
        .collect();
    Some(folder.join(format!("memory-{name}")))
}

/// Shares with the processes of the run how far, and how large.
fn publish(handle: &CUipcMemHandle, base: u64) {
    let Some(runtime) = session::runtime() else {
        return;
    };
    let before = base - own_address(base);
    let size = runtime
        .allocations()
        .extent_of(DeviceAddress(base))
        .map_or(0, |e| e.size);
    if before == 0 {
        return;
    }
    let written = match place(handle) {
        Some(path) => std::fs::write(&path, format!("{before} {size}"))
            .map_err(|error| format!("failed to write {}: {error}", path.display())),
        None => Err("there is no `ringfence run` to tell them by".into()),
    };
    if let Err(reason) = written {
        let message = format!(
            "memory that this process exports lies {before} bytes into what other processes open, which cannot learn \
             that ({reason}); run with --canary-head off"
        );
        runtime.env().error(&message, false);
    }
}

/// Bytes before and size of what a handle names.
fn published(handle: &CUipcMemHandle) -> Option<(u32, u64)> {
    let text = std::fs::read_to_string(place(handle)?).ok()?;
    let (before, size) = text.split_once(' ')?;
    Some((before.parse().ok()?, size.parse().ok()?))
}

/// The driver exports no mapped memory this way: says so, because the program gets
/// an error that it would not get otherwise.
fn not_exported(runtime: &Runtime, base: u64) {
    runtime.placements().elsewhere(ElsewhereReason::NotExported);
    let message = format!(
        "the buffer at {base:#x} lies where Ringfence has mapped memory, and the driver exports no such memory to \
         other processes (cuIpcGetMemHandle failed): run programs that share memory between processes with \
         --protect bounds,canary --keep-addresses off"
    );
    runtime.env().error(&message, false);
}

/// Whether memory at an address of the program was placed by a protection.
fn is_placed(address: u64) -> bool {
    let owner = |runtime: &'static Runtime| {
        let allocations = runtime.allocations();
        allocations.owner_of_placed(DeviceAddress(address))
    };
    session::runtime().and_then(owner).is_some()
}

hook!(cuMemRetainAllocationHandle(
    handle: *mut CUmemGenericAllocationHandle,
    address: *mut c_void,
) |retain| {
    // Memory of cuMemAlloc has none.
    if is_placed(address as u64) {
        return CUresult::CUDA_ERROR_INVALID_VALUE;
    }
    // SAFETY: the program's arguments.
    unsafe { retain(handle, address) }
});

hook!(cuIpcGetMemHandle(handle: *mut CUipcMemHandle, base: CUdeviceptr) |get| {
    // What other processes write there is not seen.
    if let Some(runtime) = session::runtime() {
        runtime.launcher().before_unchecked();
    }
    // SAFETY: the program's arguments; the handle was written by a successful
    // call.
    unsafe {
        let result = get(handle, own_address(base));
        if result == CUresult::CUDA_SUCCESS && let Some(handle) = handle.as_ref() {
            publish(handle, base);
        } else if is_placed(base) && let Some(runtime) = session::runtime() {
            not_exported(runtime, base);
        }
        result
    }
});

hook!([cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2](
    place: *mut CUdeviceptr,
    handle: CUipcMemHandle,
    flags: u32,
) |open| {
    let known = published(&handle);
    // SAFETY: the program's arguments.
    let result = unsafe { open(place, handle, flags) };
    let Some((before, size)) = known else {
        // SAFETY: written by a successful call.
        return unsafe { foreign(result, place) };
    };
    // SAFETY: null, or written by a successful call.
    if result == CUresult::CUDA_SUCCESS && let Some(address) = unsafe { place.as_mut() } {
        foreign_buffer();
        *address += u64::from(before);
        let owner = Owner {
            redzones: Redzones { before, ..Redzones::default() },
            ..Owner::default()
        };
        tell(AllocationKind::Foreign, *address, size as usize, owner);
    }
    result
});

hook!(cuIpcCloseMemHandle(base: CUdeviceptr) |close| {
    let own = own_address(base);
    freeing(base);
    // SAFETY: the program's arguments.
    unsafe { close(own) }
});

hook!(cuMemPoolCreate(pool: *mut CUmemoryPool, properties: *const CUmemPoolProps) |create| {
    // SAFETY: the program's arguments; the handle was written by a successful
    // call.
    unsafe {
        let result = create(pool, properties);
        let none = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE;
        if result == CUresult::CUDA_SUCCESS
            && let Some(properties) = properties.as_ref()
            && properties.handleTypes != none
            && let Some(pool) = pool.as_ref()
            && let Some(session) = session::get()
        {
            session.exported_pools.add(pool.0);
        }
        result
    }
});

hook!(cuMemPoolExportPointer(data: *mut CUmemPoolPtrExportData, base: CUdeviceptr) |export| {
    // SAFETY: the program's arguments.
    unsafe { export(data, own_address(base)) }
});

hook!([cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz](
    stream: CUstream,
    base: CUdeviceptr,
    length: usize,
    flags: u32,
) |attach| {
    let own = own_address(base);
    // The whole of it, which the device knows to be larger.
    let whole = session::runtime()
        .and_then(|runtime| runtime.allocations().extent_of(DeviceAddress(base)))
        .is_some_and(|extent| extent.base.0 == base && extent.size == length as u64);
    // SAFETY: the program's arguments.
    unsafe { attach(stream, own, if whole { 0 } else { length }, flags) }
});
