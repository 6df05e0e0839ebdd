//! What a program says about its memory pools through NVTX (nvToolsExtMem.h,
//! the memory extension of NVIDIA's annotation headers), as it says it to
//! compute-sanitizer.
//!
//! The headers load the library that `NVTX_INJECTION64_PATH` names, hand it a
//! table of empty slots for each extension that the program uses, and call what
//! it puts there. Heaps of the usage "sub-allocator" are pools and their
//! regions blocks; other regions are parts of what is accessible as a whole.
//! Names are for reports. Permissions are not looked at: their slots stay empty.

use crate::session::{self, heaps};
use model::{DeviceAddress, Extent};
use runtime::{Layer, Runtime};
use std::ffi::{CStr, c_char, c_int, c_void};

const MODULE: u16 = 1;
const COMPATIBILITY: u16 = 0x0102;
const SUB_ALLOCATOR: u32 = 1;
const VIRTUAL_ADDRESS: u32 = 1;
/// `NVTX_MESSAGE_TYPE_ASCII`
const BYTES: u32 = 1;
/// The heap that is the whole process.
const EVERYTHING: u64 = 0;
/// A handle where there is no tool, or one that refuses.
const NO_HEAP: u64 = u64::MAX;

/// `nvtxExtModuleSegment_t`
#[repr(C)]
pub struct Segment {
    id: usize,
    count: usize,
    slots: *mut usize,
}

/// `nvtxExtModuleInfo_t`
#[repr(C)]
pub struct ModuleInfo {
    version: u16,
    size: u16,
    module: u16,
    compatibility: u16,
    segment_count: usize,
    segments: *mut Segment,
    export: *const c_void,
    more: *const c_void,
}

/// `nvtxMemVirtualRangeDesc_t`
#[repr(C)]
#[derive(Clone, Copy)]
struct Range {
    size: usize,
    pointer: u64,
}

/// `nvtxMemHeapDesc_t`, as far as it is read.
#[repr(C)]
struct HeapDescription {
    compatibility: u16,
    size: u16,
    reserved: u32,
    usage: u32,
    kind: u32,
    range_size: usize,
    range: *const Range,
}

/// `nvtxMemRegionsRegisterBatch_t`
#[repr(C)]
struct RegisterBatch {
    compatibility: u16,
    size: u16,
    kind: u32,
    heap: u64,
    count: usize,
    element: usize,
    elements: *const u8,
    handles: *mut u64,
}

/// `nvtxMemRegionsResizeBatch_t`
#[repr(C)]
struct ResizeBatch {
    compatibility: u16,
    size: u16,
    kind: u32,
    count: usize,
    element: usize,
    elements: *const u8,
}

/// `nvtxMemRegionsUnregisterBatch_t`
#[repr(C)]
struct UnregisterBatch {
    compatibility: u16,
    size: u16,
    kind: u32,
    count: usize,
    element: usize,
    elements: *const u8,
}

/// `nvtxMemRegionsNameBatch_t`, as far as it is read.
#[repr(C)]
struct NameBatch {
    compatibility: u16,
    size: u16,
    reserved: u32,
    count: usize,
    element: usize,
    elements: *const u8,
}

/// `nvtxMemRegionNameDesc_t`, as far as it is read.
#[repr(C)]
#[derive(Clone, Copy)]
struct Name {
    reference: u32,
    kind: u32,
    region: u64,
    text: *const c_char,
}

/// NVTX itself: nothing of it is listened to, and that is no failure.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjectionNvtx2(_export: *const c_void) -> c_int {
    1
}

/// An extension of NVTX: fills the slots of the memory extension. 0: not one
/// that is known here.
///
/// # Safety
///
/// As the headers call it: the table is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtxExtension(info: *mut ModuleInfo) -> c_int {
    // SAFETY: the caller's word.
    let Some(info) = (unsafe { info.as_ref() }) else {
        return 0;
    };
    if info.module != MODULE || info.compatibility != COMPATIBILITY || info.segments.is_null() {
        return 0;
    }
    let functions: [usize; 7] = [
        heap_register as *const () as usize,
        heap_unregister as *const () as usize,
        heap_reset as *const () as usize,
        regions_register as *const () as usize,
        regions_resize as *const () as usize,
        regions_unregister as *const () as usize,
        regions_name as *const () as usize,
    ];
    // SAFETY: as many segments, with as many slots, as they say.
    unsafe {
        let segments = std::slice::from_raw_parts(info.segments, info.segment_count);
        for segment in segments.iter().filter(|segment| !segment.slots.is_null()) {
            let slots = std::slice::from_raw_parts_mut(segment.slots, segment.count);
            for (slot, function) in slots.iter_mut().zip(functions) {
                *slot = function;
            }
        }
    }
    1
}

fn extent(range: Range) -> Extent {
    Extent {
        base: DeviceAddress(range.pointer),
        size: range.size as u64,
    }
}

/// Declares a part; where it cannot be, that is said.
fn declare(function: &str, layer: Layer, range: Range) -> bool {
    let Some(runtime) = session::runtime() else {
        return true;
    };
    let declared = runtime
        .allocations()
        .declare_part(layer, extent(range), None);
    if let Err(error) = &declared {
        runtime
            .env()
            .error(&format!("{function}: {error}; it is ignored"), false);
    }
    declared.is_ok()
}

/// What is gone already went with its allocation.
fn release(runtime: &Runtime, layer: Layer, base: u64) {
    let _ = runtime
        .allocations()
        .release_part(layer, DeviceAddress(base));
}

/// A list whose elements may be larger than what is known of them. One whose
/// elements are smaller, or that is not there, is empty.
///
/// # Safety
/// `count` elements of `element` bytes lie there, each beginning with a `T`.
unsafe fn elements<T: Copy>(
    first: *const u8,
    element: usize,
    count: usize,
) -> impl Iterator<Item = T> {
    let known = !first.is_null() && element >= size_of::<T>();
    (0..if known { count } else { 0 }).map(move |index| {
        // SAFETY: the caller's word.
        unsafe { first.add(index * element).cast::<T>().read_unaligned() }
    })
}

unsafe extern "C" fn heap_register(_domain: *const c_void, heap: *const HeapDescription) -> u64 {
    // SAFETY: null or the program's description.
    let Some(heap) = (unsafe { heap.as_ref() }) else {
        return NO_HEAP;
    };
    if heap.kind != VIRTUAL_ADDRESS || heap.range_size < size_of::<Range>() {
        return NO_HEAP;
    }
    // SAFETY: of this type, by the kind and size.
    let Some(range) = (unsafe { heap.range.as_ref() }) else {
        return NO_HEAP;
    };
    let layer = match heap.usage {
        SUB_ALLOCATOR => Layer::Block,
        _ => Layer::Region,
    };
    if layer == Layer::Block && !declare("nvtxMemHeapRegister", Layer::Pool, *range) {
        return NO_HEAP;
    }
    heaps().add_heap(range.pointer, layer);
    range.pointer
}

fn clear(heap: u64) {
    let gone = heaps().clear(heap);
    if let Some(runtime) = session::runtime() {
        for (layer, base) in gone {
            release(runtime, layer, base);
        }
    }
}

unsafe extern "C" fn heap_unregister(_domain: *const c_void, heap: u64) {
    clear(heap);
    let known = heaps().remove_heap(heap);
    if let (Some(Layer::Block), Some(runtime)) = (known, session::runtime()) {
        release(runtime, Layer::Pool, heap);
    }
}

unsafe extern "C" fn heap_reset(_domain: *const c_void, heap: u64) {
    if heap != EVERYTHING {
        return clear(heap);
    }
    heaps().heaps().into_iter().for_each(clear);
}

unsafe extern "C" fn regions_register(_domain: *const c_void, batch: *const RegisterBatch) {
    // SAFETY: null or the program's description, with as many elements as it
    // says, and as many places for handles, if any.
    unsafe {
        let Some(batch) = batch.as_ref() else { return };
        if batch.kind != VIRTUAL_ADDRESS || batch.heap == NO_HEAP {
            return;
        }
        let layer = heaps().layer(batch.heap);
        let list = elements::<Range>(batch.elements, batch.element, batch.count);
        for (index, range) in list.enumerate() {
            if declare("nvtxMemRegionsRegister", layer, range) {
                heaps().add_region(batch.heap, range.pointer);
            }
            if !batch.handles.is_null() {
                *batch.handles.add(index) = range.pointer;
            }
        }
    }
}

unsafe extern "C" fn regions_resize(_domain: *const c_void, batch: *const ResizeBatch) {
    // SAFETY: null or the program's description, with as many elements as it
    // says.
    let Some(batch) = (unsafe { batch.as_ref() }) else {
        return;
    };
    if batch.kind != VIRTUAL_ADDRESS {
        return;
    }
    // SAFETY: as above.
    for range in unsafe { elements::<Range>(batch.elements, batch.element, batch.count) } {
        let heap = heaps().heap_of(range.pointer);
        let (Some(heap), Some(runtime)) = (heap, session::runtime()) else {
            continue;
        };
        let layer = heaps().layer(heap);
        release(runtime, layer, range.pointer);
        if !declare("nvtxMemRegionsResize", layer, range) {
            heaps().remove_region(range.pointer);
        }
    }
}

unsafe extern "C" fn regions_unregister(_domain: *const c_void, batch: *const UnregisterBatch) {
    // SAFETY: null or the program's description.
    let Some(batch) = (unsafe { batch.as_ref() }) else {
        return;
    };
    // Handles are pointers here, so both kinds of reference are the same.
    // SAFETY: as many elements of that size as it says.
    for region in unsafe { elements::<u64>(batch.elements, batch.element, batch.count) } {
        let layer = heaps().remove_region(region);
        if let (Some(layer), Some(runtime)) = (layer, session::runtime()) {
            release(runtime, layer, region);
        }
    }
}

unsafe extern "C" fn regions_name(_domain: *const c_void, batch: *const NameBatch) {
    // SAFETY: null or the program's description.
    let Some(batch) = (unsafe { batch.as_ref() }) else {
        return;
    };
    // SAFETY: as many elements of that size as it says.
    for name in unsafe { elements::<Name>(batch.elements, batch.element, batch.count) } {
        if name.kind != BYTES || name.text.is_null() {
            continue;
        }
        // SAFETY: a C string, by its kind.
        let text = unsafe { CStr::from_ptr(name.text) }
            .to_string_lossy()
            .into_owned();
        if let Some(runtime) = session::runtime() {
            // What is not known needs no name.
            let _ = runtime
                .allocations()
                .name_memory(DeviceAddress(name.region), text);
        }
    }
}
