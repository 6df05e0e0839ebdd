//! Questions whose answers Ringfence's padding changed: the program hears the
//! size that it asked for.

use super::{hook, hooks};
use crate::session;
use driver::sys::{CUdeviceptr, CUpointer_attribute, CUresult};
use model::{DeviceAddress, Extent};
use std::ffi::c_void;

hooks!(
    cuMemGetAddressRange_v2,
    cuPointerGetAttribute,
    cuPointerGetAttributes
);

fn extent_of(address: u64) -> Option<Extent> {
    session::runtime()?.extent_of(DeviceAddress(address))
}

hook!(cuMemGetAddressRange_v2(base: *mut CUdeviceptr, size: *mut usize, address: CUdeviceptr) |get| {
    // SAFETY: the program's arguments.
    let result = unsafe { get(base, size, address) };
    if result == CUresult::CUDA_SUCCESS
        && !size.is_null()
        && let Some(extent) = extent_of(address)
    {
        // SAFETY: the device has just written there.
        unsafe { *size = extent.size as usize };
    }
    result
});

/// Corrects one attribute that the device has written to `data`.
///
/// # Safety
/// `data` was written by a successful call for `attribute`.
unsafe fn correct(data: *mut c_void, attribute: CUpointer_attribute, address: u64) {
    if attribute == CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE
        && !data.is_null()
        && let Some(extent) = extent_of(address)
    {
        // SAFETY: this attribute is a size_t.
        unsafe { *data.cast::<usize>() = extent.size as usize };
    }
}

hook!(cuPointerGetAttribute(data: *mut c_void, attribute: CUpointer_attribute, address: CUdeviceptr) |get| {
    // SAFETY: the program's arguments.
    unsafe {
        let result = get(data, attribute, address);
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
    // SAFETY: the program's arguments; both arrays were read by a successful
    // call.
    unsafe {
        let result = get(count, attributes, data, address);
        if result == CUresult::CUDA_SUCCESS && !attributes.is_null() && !data.is_null() {
            for position in 0..count as usize {
                correct(*data.add(position), *attributes.add(position), address);
            }
        }
        result
    }
});
