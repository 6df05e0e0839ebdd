//! Questions about pointers and ranges; advice about managed memory.

use crate::convert::{Answer, functions, list, per_thread_functions, pick};
use driver::sys::*;
use emulate::device::{Advice, Device, Place};
use model::AllocationKind;
use std::ffi::c_void;

/// Writes one attribute of a pointer.
///
/// # Safety
/// `to` has room for the attribute's type.
unsafe fn attribute(
    gpu: &Device,
    to: *mut c_void,
    attribute: CUpointer_attribute,
    address: u64,
) -> Answer {
    use CUpointer_attribute as A;
    let invalid = Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    if to.is_null() {
        return invalid;
    }
    let Some(info) = gpu.pointer_info(address) else {
        return invalid;
    };
    let is_host = matches!(
        info.kind,
        AllocationKind::Host | AllocationKind::HostRegistered
    );
    let pooled = info.kind == AllocationKind::Pool;
    // SAFETY: cuda.h documents the type of each attribute, and the program
    // gives room for it.
    unsafe {
        match attribute {
            A::CU_POINTER_ATTRIBUTE_CONTEXT => to.cast::<u64>().write(info.context),
            A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE => {
                to.cast::<u32>().write(if is_host { 1 } else { 2 })
            }
            A::CU_POINTER_ATTRIBUTE_DEVICE_POINTER => to.cast::<u64>().write(address),
            A::CU_POINTER_ATTRIBUTE_HOST_POINTER if info.on_host() => {
                to.cast::<u64>().write(address)
            }
            A::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS => to.cast::<u32>().write(0),
            A::CU_POINTER_ATTRIBUTE_BUFFER_ID => to.cast::<u64>().write(info.serial),
            A::CU_POINTER_ATTRIBUTE_IS_MANAGED => {
                to.cast::<u32>()
                    .write(u32::from(info.kind == AllocationKind::Managed));
            }
            A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => to.cast::<i32>().write(0),
            A::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE => to.cast::<u8>().write(0),
            A::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR
            | A::CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR => {
                to.cast::<u64>().write(info.extent.base.0);
            }
            A::CU_POINTER_ATTRIBUTE_RANGE_SIZE | A::CU_POINTER_ATTRIBUTE_MAPPING_SIZE => {
                to.cast::<usize>().write(info.extent.size as usize);
            }
            A::CU_POINTER_ATTRIBUTE_MAPPED => to.cast::<u8>().write(1),
            A::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES => to.cast::<u64>().write(0),
            A::CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE => to.cast::<u8>().write(0),
            A::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS => to.cast::<u32>().write(3),
            A::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE => {
                to.cast::<u64>()
                    .write(if pooled { gpu.pool_default() } else { 0 })
            }
            A::CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID => to.cast::<u64>().write(info.serial),
            A::CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE => to.cast::<u8>().write(0),
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
        | A::CU_POINTER_ATTRIBUTE_IS_MANAGED
        | A::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS => 4,
        A::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE
        | A::CU_POINTER_ATTRIBUTE_MAPPED
        | A::CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE
        | A::CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE => 1,
        A::CU_POINTER_ATTRIBUTE_P2P_TOKENS => 16,
        _ => 8,
    }
}

/// The range must be managed memory, or advice about it is an error.
fn managed(gpu: &Device, address: u64) -> Answer {
    match gpu.pointer_info(address) {
        Some(info) if info.kind == AllocationKind::Managed => Ok(()),
        _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}

/// No device (`CU_DEVICE_INVALID`).
const NONE: i32 = -2;

/// A place by the number of its device, or `CU_DEVICE_CPU`.
fn place(device: CUdevice) -> Place {
    match device {
        0.. => Place::Device,
        _ => Place::Host,
    }
}

/// The same by its description.
fn place_of(location: &CUmemLocation) -> Place {
    match location.type_ {
        CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => Place::Device,
        _ => Place::Host,
    }
}

fn advise(gpu: &Device, address: u64, count: usize, advice: CUmem_advise, place: Place) -> Answer {
    use CUmem_advise as A;
    managed(gpu, address)?;
    let advice = match advice {
        A::CU_MEM_ADVISE_SET_READ_MOSTLY => Advice::ReadMostly(true),
        A::CU_MEM_ADVISE_UNSET_READ_MOSTLY => Advice::ReadMostly(false),
        A::CU_MEM_ADVISE_SET_PREFERRED_LOCATION => Advice::Preferred(Some(place)),
        A::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION => Advice::Preferred(None),
        A::CU_MEM_ADVISE_SET_ACCESSED_BY => Advice::Accessed(place, true),
        A::CU_MEM_ADVISE_UNSET_ACCESSED_BY => Advice::Accessed(place, false),
        _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    };
    gpu.advise(address, count as u64, advice)
}

/// # Safety
/// `to` has room for `size` bytes.
unsafe fn range_attribute(
    gpu: &Device,
    to: *mut c_void,
    size: usize,
    kind: CUmem_range_attribute,
    (address, count): (u64, usize),
) -> Answer {
    use CUmem_range_attribute as A;
    managed(gpu, address)?;
    if to.is_null() || size == 0 || !size.is_multiple_of(4) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let advised = gpu.advised(address, count as u64)?;
    let device = |place: Option<Place>| match place {
        Some(Place::Device) => 0,
        Some(Place::Host) => -1,
        None => NONE,
    };
    let location = |place: Option<Place>| match place {
        Some(Place::Device) => CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE.0 as i32,
        Some(Place::Host) => CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST.0 as i32,
        None => CUmemLocationType::CU_MEM_LOCATION_TYPE_INVALID.0 as i32,
    };
    let mut list = Vec::new();
    match kind {
        A::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY => list.push(i32::from(advised.read_mostly)),
        A::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION => list.push(device(advised.preferred)),
        A::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION => list.push(device(advised.prefetched)),
        A::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE => list.push(location(advised.preferred)),
        A::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE => {
            list.push(location(advised.prefetched));
        }
        A::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID
        | A::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID => list.push(0),
        A::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY => {
            let places = [
                (advised.by_device, Place::Device),
                (advised.by_host, Place::Host),
            ];
            let set = places.into_iter().filter(|(is_set, _)| *is_set);
            list.extend(set.map(|(_, place)| device(Some(place))));
        }
        _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
    for index in 0..size / 4 {
        let value = list.get(index).copied().unwrap_or(NONE);
        // SAFETY: within `size` bytes.
        unsafe { to.cast::<i32>().add(index).write(value) };
    }
    Ok(())
}

/// What a prefetch leaves behind.
fn prefetched(gpu: &Device, address: u64, count: usize, place: Place) -> Answer {
    managed(gpu, address)?;
    gpu.advise(address, count as u64, Advice::Prefetched(place))
}

mod asked {
    use super::*;
    functions! { gpu;
        fn cuPointerGetAttribute(to: *mut c_void, kind: CUpointer_attribute, address: CUdeviceptr) {
            attribute(gpu, to, kind, address)
        }
        fn cuPointerGetAttributes(count: u32, kinds: *mut CUpointer_attribute, to: *mut *mut c_void, address: CUdeviceptr) {
            let count = count as usize;
            for (kind, to) in list(kinds, count).iter().zip(list(to, count)) {
                // An unknown pointer is no error here: its attributes are 0.
                if attribute(gpu, *to, *kind, address).is_err() && !to.is_null() {
                    let size = attribute_size(*kind);
                    to.cast::<u8>().write_bytes(0, size);
                    if *kind == CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL {
                        to.cast::<i32>().write(-2);
                    }
                }
            }
            Ok(())
        }
        fn cuPointerSetAttribute(_value: *const c_void, _kind: CUpointer_attribute, address: CUdeviceptr) {
            gpu.pointer_info(address).map(drop).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
        }
        fn cuMemAdvise(address: CUdeviceptr, count: usize, advice: CUmem_advise, device: CUdevice) {
            gpu.apart_from_strict_captures()?;
            advise(gpu, address, count, advice, place(device))
        }
        fn cuMemAdvise_v2(address: CUdeviceptr, count: usize, advice: CUmem_advise, location: CUmemLocation) {
            gpu.apart_from_strict_captures()?;
            advise(gpu, address, count, advice, place_of(&location))
        }
        fn cuMemRangeGetAttribute(to: *mut c_void, size: usize, kind: CUmem_range_attribute, address: CUdeviceptr, count: usize) {
            range_attribute(gpu, to, size, kind, (address, count))
        }
        fn cuMemRangeGetAttributes(
            to: *mut *mut c_void, sizes: *mut usize, kinds: *mut CUmem_range_attribute, attributes: usize, address: CUdeviceptr, count: usize,
        ) {
            let (to, sizes, kinds) = (list(to, attributes), list(sizes, attributes), list(kinds, attributes));
            for ((to, size), kind) in to.iter().zip(sizes).zip(kinds) {
                range_attribute(gpu, *to, *size, *kind, (address, count))?;
            }
            Ok(())
        }
    }
}

per_thread_functions! { gpu, default, register_prefetches;
    fn cuMemPrefetchAsync | cuMemPrefetchAsync_ptsz(address: CUdeviceptr, count: usize, device: CUdevice, stream: CUstream) {
        gpu.stream_not_captured(pick(stream, default))?;
        prefetched(gpu, address, count, place(device))
    }
    fn cuMemPrefetchAsync_v2 | cuMemPrefetchAsync_v2_ptsz(address: CUdeviceptr, count: usize, location: CUmemLocation, _flags: u32, stream: CUstream) {
        gpu.stream_not_captured(pick(stream, default))?;
        prefetched(gpu, address, count, place_of(&location))
    }
    fn cuMemPrefetchBatchAsync | cuMemPrefetchBatchAsync_ptsz(
        addresses: *mut CUdeviceptr, _sizes: *mut usize, count: usize, _locations: *mut CUmemLocation, _indices: *mut usize,
        _location_count: usize, _flags: u64, stream: CUstream,
    ) {
        gpu.stream_not_captured(pick(stream, default))?;
        list(addresses, count).iter().try_for_each(|address| managed(gpu, *address))
    }
    fn cuMemDiscardBatchAsync | cuMemDiscardBatchAsync_ptsz(
        addresses: *mut CUdeviceptr, _sizes: *mut usize, count: usize, _flags: u64, stream: CUstream,
    ) {
        gpu.stream_not_captured(pick(stream, default))?;
        list(addresses, count).iter().try_for_each(|address| managed(gpu, *address))
    }
    fn cuMemDiscardAndPrefetchBatchAsync | cuMemDiscardAndPrefetchBatchAsync_ptsz(
        addresses: *mut CUdeviceptr, _sizes: *mut usize, count: usize, _locations: *mut CUmemLocation, _indices: *mut usize,
        _location_count: usize, _flags: u64, stream: CUstream,
    ) {
        gpu.stream_not_captured(pick(stream, default))?;
        list(addresses, count).iter().try_for_each(|address| managed(gpu, *address))
    }
}

/// Enters this file's functions into the table.
pub fn register(api: &mut driver::Api) {
    asked::register(api);
    register_prefetches(api);
}
