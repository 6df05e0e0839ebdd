//! Questions about pointers.

use crate::convert::{Answer, functions, list};
use crate::link::Link;
use crate::managed::is_managed;
use crate::state::CONTEXT;
use driver::sys::*;
use std::ffi::c_void;

/// Writes one attribute of a pointer.
///
/// # Safety
/// `to` has room for the attribute's type.
unsafe fn attribute(
    link: &Link,
    to: *mut c_void,
    attribute: CUpointer_attribute,
    address: u64,
) -> Answer {
    use CUpointer_attribute as A;
    let invalid = Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    if to.is_null() {
        return invalid;
    }
    let state = &link.state;
    let on_device = state.is_device(address);
    let found = match on_device {
        true => state.allocation(address),
        false => state
            .host_memory(address)
            .map(|(start, memory)| (start, memory.size)),
    };
    // A variable of a module is device memory that was not allocated.
    let (start, size) = match found {
        Some(range) => range,
        None if on_device && state.is_variable(address) => (address, 0),
        None => return invalid,
    };
    // SAFETY: cuda.h documents the type of each attribute, and the program
    // gives room for it.
    unsafe {
        match attribute {
            A::CU_POINTER_ATTRIBUTE_CONTEXT => to.cast::<u64>().write(CONTEXT),
            A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE => {
                to.cast::<u32>().write(if on_device { 2 } else { 1 });
            }
            A::CU_POINTER_ATTRIBUTE_DEVICE_POINTER if on_device => {
                to.cast::<u64>().write(address);
            }
            A::CU_POINTER_ATTRIBUTE_HOST_POINTER if !on_device || is_managed(link, address) => {
                to.cast::<u64>().write(address);
            }
            A::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS => to.cast::<u32>().write(0),
            A::CU_POINTER_ATTRIBUTE_IS_MANAGED => {
                to.cast::<u8>().write(u8::from(is_managed(link, address)));
            }
            A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => to.cast::<i32>().write(0),
            A::CU_POINTER_ATTRIBUTE_MAPPED => to.cast::<u8>().write(u8::from(on_device)),
            A::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE => to.cast::<u8>().write(0),
            A::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR if size > 0 => to.cast::<u64>().write(start),
            A::CU_POINTER_ATTRIBUTE_RANGE_SIZE if size > 0 => {
                to.cast::<usize>().write(size as usize);
            }
            A::CU_POINTER_ATTRIBUTE_BUFFER_ID => to.cast::<u64>().write(start),
            _ => return invalid,
        }
    }
    Ok(())
}

/// Bytes of an attribute's type, for what an unknown pointer gives.
fn attribute_size(attribute: CUpointer_attribute) -> usize {
    use CUpointer_attribute as A;
    match attribute {
        A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE
        | A::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
        | A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        | A::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS => 4,
        A::CU_POINTER_ATTRIBUTE_IS_MANAGED
        | A::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE
        | A::CU_POINTER_ATTRIBUTE_MAPPED
        | A::CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE
        | A::CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE => 1,
        A::CU_POINTER_ATTRIBUTE_P2P_TOKENS => 16,
        _ => 8,
    }
}

functions! { link;
    fn cuPointerGetAttribute(to: *mut c_void, kind: CUpointer_attribute, address: CUdeviceptr) {
        attribute(link, to, kind, address)
    }
    fn cuPointerGetAttributes(count: u32, kinds: *mut CUpointer_attribute, to: *mut *mut c_void, address: CUdeviceptr) {
        let count = count as usize;
        for (kind, to) in list(kinds, count).iter().zip(list(to, count)) {
            // An unknown pointer is no error here: its attributes are 0.
            if attribute(link, *to, *kind, address).is_err() && !to.is_null() {
                to.cast::<u8>().write_bytes(0, attribute_size(*kind));
                if *kind == CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL {
                    to.cast::<i32>().write(-2);
                }
            }
        }
        Ok(())
    }
}
