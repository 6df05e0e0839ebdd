//! Questions whose answers Ringfence's padding, canaries and quarantine changed:
//! the program gets the address that it was given and the size that it asked
//! for, and what it freed is free.

use super::define::{hook, hooks};
use crate::queries::current_context;
use crate::session;
use driver::sys::{CUdeviceptr, CUpointer_attribute, CUresult};
use model::{DeviceAddress, Extent};
use std::ffi::c_void;

hooks!(
    cuMemGetAddressRange_v2,
    cuMemGetInfo_v2,
    cuPointerGetAttribute,
    cuPointerGetAttributes
);

/// An address that no device has.
const NOWHERE: u64 = 1 << 12;

fn extent_of(address: u64) -> Option<Extent> {
    session::runtime()?
        .allocations()
        .extent_of(DeviceAddress(address))
}

/// Whether only the driver has memory there: what the program has freed, and
/// canaries and padding.
fn is_hidden(address: u64) -> bool {
    session::runtime()
        .is_some_and(|runtime| runtime.allocations().is_hidden(DeviceAddress(address)))
}

hook!(cuMemGetInfo_v2(free: *mut usize, total: *mut usize) |get| {
    let (mut left, mut all) = (0, 0);
    // Programs are known to pass null for what they do not need.
    // SAFETY: the program's arguments, or places of our own.
    unsafe {
        let result = get(
            if free.is_null() { &mut left } else { free },
            if total.is_null() { &mut all } else { total },
        );
        if result == CUresult::CUDA_SUCCESS
            && !free.is_null()
            && let Some(runtime) = session::runtime()
        {
            let all = if total.is_null() { all } else { *total };
            let held = usize::try_from(runtime.frees().quarantined_bytes()).unwrap_or(usize::MAX);
            *free = (*free).saturating_add(held).min(all);
        }
        result
    }
});

hook!(cuMemGetAddressRange_v2(base: *mut CUdeviceptr, size: *mut usize, address: CUdeviceptr) |get| {
    if is_hidden(address) {
        return CUresult::CUDA_ERROR_NOT_FOUND;
    }
    // SAFETY: the program's arguments.
    let result = unsafe { get(base, size, address) };
    if result == CUresult::CUDA_SUCCESS
        && let Some(extent) = extent_of(address)
    {
        // SAFETY: null, or the device has just written there.
        unsafe {
            if let Some(size) = size.as_mut() {
                *size = extent.size as usize;
            }
            if let Some(base) = base.as_mut() {
                *base = extent.base.0;
            }
        }
    }
    result
});

/// What the device answers about memory of its own, where Ringfence made it: the
/// driver knows no context of mapped memory.
fn of_owner(attribute: CUpointer_attribute, address: u64) -> Option<u64> {
    use CUpointer_attribute as A;
    let owner = || {
        let allocations = session::runtime()?.allocations();
        allocations.owner_of_placed(DeviceAddress(address))
    };
    match attribute {
        A::CU_POINTER_ATTRIBUTE_CONTEXT => Some(owner()?.context),
        A::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE => Some(owner()?.pool),
        _ => None,
    }
}

/// Corrects one attribute that the device has written to `data`.
///
/// # Safety
/// `data` was written by a successful call for `attribute`.
unsafe fn correct(data: *mut c_void, attribute: CUpointer_attribute, address: u64) {
    if data.is_null() {
        return;
    }
    if let Some(answer) = of_owner(attribute, address) {
        // SAFETY: both attributes are handles.
        unsafe { *data.cast::<u64>() = answer };
    }
    let is_start = attribute == CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR;
    let is_size = attribute == CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE;
    if (is_start || is_size)
        && let Some(extent) = extent_of(address)
    {
        let answer = if is_start { extent.base.0 } else { extent.size };
        // SAFETY: both attributes are of this size.
        unsafe { *data.cast::<u64>() = answer };
    }
}

/// Whether kernels of the current context reach a pointer by its own address, as it is
/// known of memory that was allocated there. Triton asks so about each argument of each
/// launch, and the device's answer takes longer.
#[inline]
fn is_own_address(attribute: CUpointer_attribute, address: u64) -> bool {
    attribute == CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER
        && session::runtime()
            .and_then(|runtime| {
                let allocations = runtime.allocations();
                allocations.remembered_context(DeviceAddress(address))
            })
            .is_some_and(|context| context == current_context())
}

hook!(cuPointerGetAttribute(data: *mut c_void, attribute: CUpointer_attribute, address: CUdeviceptr) |get| {
    if !data.is_null() && is_own_address(attribute, address) {
        // SAFETY: the program's place for a pointer.
        unsafe { data.cast::<u64>().write(address) };
        return CUresult::CUDA_SUCCESS;
    }
    if is_hidden(address) {
        return CUresult::CUDA_ERROR_INVALID_VALUE;
    }
    // SAFETY: the program's arguments; handles have room for handles.
    unsafe {
        let mut result = get(data, attribute, address);
        if !data.is_null() && of_owner(attribute, address).is_some() {
            result = CUresult::CUDA_SUCCESS;
        }
        if result == CUresult::CUDA_SUCCESS {
            correct(data, attribute, address);
        }
        result
    }
});

hook!(cuPointerGetAttributes(
    count: u32,
    attributes: *mut CUpointer_attribute,
    data: *mut *mut c_void,
    address: CUdeviceptr,
) |get| {
    // Of memory that is not there the device answers defaults, as of what it
    // never had.
    let asked = if is_hidden(address) { NOWHERE } else { address };
    // SAFETY: the program's arguments; both arrays were read by a successful
    // call.
    unsafe {
        let result = get(count, attributes, data, asked);
        if result == CUresult::CUDA_SUCCESS && !attributes.is_null() && !data.is_null() {
            for position in 0..count as usize {
                correct(*data.add(position), *attributes.add(position), address);
            }
        }
        result
    }
});
