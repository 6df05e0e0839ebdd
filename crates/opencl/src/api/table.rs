//! The layer's interface to OpenCL's loader (`cl_layer.h`): the loader queries
//! its version, passes the table of functions below it, and gets the table that
//! programs call. Functions without a hook are passed on unchanged.

use crate::api::{
    answer, buffers, contexts, copies, events, images, kernels, launches, maps, native, parts,
    programs, queries, session, svm, waits,
};
use crate::platform::{self, Table, empty};
use crate::sys::*;
use std::ffi::c_void;
use std::mem::size_of;
use std::sync::OnceLock;

const CL_LAYER_API_VERSION: cl_uint = 0x4240;
const CL_LAYER_NAME: cl_uint = 0x4241;
const CL_LAYER_API_VERSION_100: cl_uint = 100;
const NAME: &[u8] = b"ringfence\0";

/// Functions in the table.
const ENTRIES: usize = size_of::<Dispatch>() / size_of::<*const c_void>();

static LAYER: OnceLock<Table> = OnceLock::new();

/// Replaces the entries that are present.
macro_rules! hook {
    ($table:ident: $($name:ident => $function:path),* $(,)?) => {
        $(if $table.$name.is_some() {
            $table.$name = Some($function);
        })*
    };
}

fn hooked(mut table: Dispatch) -> Dispatch {
    hook!(table:
        clCreateContext => contexts::create,
        clCreateContextFromType => contexts::create_from_type,
        clGetContextInfo => contexts::info,
        clRetainContext => contexts::retain,
        clReleaseContext => contexts::release,
        clReleaseCommandQueue => contexts::release_queue,
        clGetCommandQueueInfo => contexts::queue_info,
        clCreateBuffer => buffers::create,
        clCreateBufferWithProperties => buffers::create_with_properties,
        clCreateSubBuffer => parts::create,
        clRetainMemObject => buffers::retain,
        clReleaseMemObject => buffers::release,
        clCreateImage => images::create,
        clCreateImageWithProperties => images::create_with_properties,
        clCreateImage2D => images::create_2d,
        clCreateImage3D => images::create_3d,
        clGetMemObjectInfo => queries::mem_object_info,
        clGetImageInfo => queries::image_info,
        clBuildProgram => programs::build_program,
        clCompileProgram => programs::compile_program,
        clGetProgramBuildInfo => programs::build_info,
        clCreateKernel => kernels::create_kernel,
        clCreateKernelsInProgram => kernels::create_kernels,
        clCloneKernel => kernels::clone_kernel,
        clSetKernelArg => kernels::set,
        clEnqueueNDRangeKernel => launches::range,
        clEnqueueTask => launches::task,
        clFinish => events::finish,
        clWaitForEvents => events::wait,
        clRetainEvent => events::retain,
        clReleaseEvent => events::release,
        clGetEventInfo => events::info,
        clSetEventCallback => events::set_callback,
        clSetUserEventStatus => events::set_user_event_status,
        clEnqueueReadBuffer => copies::read,
        clEnqueueWriteBuffer => copies::write,
        clEnqueueCopyBuffer => copies::copy,
        clEnqueueFillBuffer => copies::fill,
        clEnqueueReadBufferRect => copies::read_rect,
        clEnqueueWriteBufferRect => copies::write_rect,
        clEnqueueCopyBufferRect => copies::copy_rect,
        clEnqueueSVMMemcpy => copies::copy_memory,
        clEnqueueSVMMemFill => copies::fill_memory,
        clEnqueueReadImage => copies::read_image,
        clEnqueueWriteImage => copies::write_image,
        clEnqueueCopyImage => copies::copy_image,
        clEnqueueCopyImageToBuffer => copies::copy_image_to_buffer,
        clEnqueueCopyBufferToImage => copies::copy_buffer_to_image,
        clEnqueueFillImage => copies::fill_image,
        clEnqueueMapBuffer => maps::map_buffer,
        clEnqueueMapImage => maps::map_image,
        clEnqueueUnmapMemObject => maps::unmap,
        clEnqueueNativeKernel => native::enqueue,
        clEnqueueMigrateMemObjects => waits::migrate,
        clEnqueueMarkerWithWaitList => waits::marker,
        clEnqueueBarrierWithWaitList => waits::barrier,
        clEnqueueWaitForEvents => waits::wait_for_events,
        clEnqueueAcquireGLObjects => waits::acquire_gl,
        clEnqueueReleaseGLObjects => waits::release_gl,
        clSVMAlloc => svm::allocate,
        clSVMFree => svm::free,
        clEnqueueSVMFree => svm::enqueue_free,
        clEnqueueSVMMap => maps::map_svm,
        clEnqueueSVMUnmap => maps::unmap_svm,
        clEnqueueSVMMigrateMem => waits::migrate_svm,
        clSetKernelArgSVMPointer => kernels::set_shared,
        clSetKernelExecInfo => kernels::set_exec_info,
    );
    table
}

/// Puts the layer above a table, unless one was put there before.
pub fn install(below: Dispatch) -> &'static Table {
    platform::set_target(below);
    let top = if session::start() {
        hooked(below)
    } else {
        below
    };
    LAYER.get_or_init(|| Table(top))
}

/// Whether a loader, or the preloaded library, has put the layer in its place.
pub fn is_installed() -> bool {
    LAYER.get().is_some()
}

/// `clGetLayerInfo` of `cl_layer.h`.
///
/// # Safety
///
/// `value` is null or has room for `size` bytes; `size_ret` is null or may be
/// written.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the loader resolves this name")]
pub unsafe extern "C" fn clGetLayerInfo(
    name: cl_uint,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    let version = CL_LAYER_API_VERSION_100.to_ne_bytes();
    let answer: &[u8] = match name {
        CL_LAYER_API_VERSION => &version,
        CL_LAYER_NAME => NAME,
        _ => return CL_INVALID_VALUE,
    };
    // SAFETY: as this function's contract says.
    unsafe { answer::answer(answer, size, value, size_ret) }
}

/// `clInitLayer` of `cl_layer.h`.
///
/// # Safety
///
/// `target` is a table of `entries` functions that live as long as the
/// process; the others may be written.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the loader resolves this name")]
pub unsafe extern "C" fn clInitLayer(
    entries: cl_uint,
    below: *const Dispatch,
    entries_ret: *mut cl_uint,
    layer_ret: *mut *const Dispatch,
) -> cl_int {
    if below.is_null() || entries_ret.is_null() || layer_ret.is_null() {
        return CL_INVALID_VALUE;
    }
    let count = (entries as usize).min(ENTRIES);
    let mut table = empty();
    // SAFETY: both hold at least `count` entries of a pointer's size, and do
    // not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(
            below.cast::<*const c_void>(),
            (&raw mut table).cast::<*const c_void>(),
            count,
        );
    }
    let top: *const Dispatch = &raw const install(table).0;
    // SAFETY: not null; the caller guarantees that they may be written.
    unsafe {
        *entries_ret = count as cl_uint;
        *layer_ret = top;
    }
    CL_SUCCESS
}
