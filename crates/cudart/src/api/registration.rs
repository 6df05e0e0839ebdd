//! What the start-up code that nvcc writes into each object calls. Nothing
//! here calls the driver, except that unregistering unloads.

use crate::generated::types::{cudaError_t, cudaKernel_t, dim3, uint3};
use crate::table::Entry;
use crate::{registry, state};
use std::ffi::{CStr, c_char, c_int, c_void};

/// Registers an image of device code.
///
/// # Safety
/// `wrapper` is the object's own fatbin wrapper, which stays until it is unregistered.
pub unsafe extern "C" fn __cudaRegisterFatBinary(wrapper: *mut c_void) -> *mut *mut c_void {
    registry::register_binary(wrapper)
}

/// Says that an image's functions and variables are all registered.
pub extern "C" fn __cudaRegisterFatBinaryEnd(_handle: *mut *mut c_void) {}

/// Unregisters an image, at exit.
pub extern "C" fn __cudaUnregisterFatBinary(handle: *mut *mut c_void) {
    registry::unregister_binary(handle as usize);
}

/// Registers a kernel's host stub.
///
/// # Safety
/// `name` is a C string.
#[allow(clippy::too_many_arguments, reason = "C signature")]
pub unsafe extern "C" fn __cudaRegisterFunction(
    handle: *mut *mut c_void,
    host: *const c_char,
    _device: *mut c_char,
    name: *const c_char,
    _thread_limit: c_int,
    _thread: *mut uint3,
    _block: *mut uint3,
    _block_dim: *mut dim3,
    _grid_dim: *mut dim3,
    _warp_size: *mut c_int,
) {
    // SAFETY: nvcc's start-up code passes a string literal.
    let name = unsafe { CStr::from_ptr(name) };
    registry::register_function(handle as usize, host as usize, name);
}

/// Registers a variable's host shadow.
///
/// # Safety
/// `name` is a C string.
#[allow(clippy::too_many_arguments, reason = "C signature")]
pub unsafe extern "C" fn __cudaRegisterVar(
    handle: *mut *mut c_void,
    host: *mut c_char,
    _device: *mut c_char,
    name: *const c_char,
    _external: c_int,
    _size: usize,
    _constant: c_int,
    _global: c_int,
) {
    // SAFETY: nvcc's start-up code passes a string literal.
    let name = unsafe { CStr::from_ptr(name) };
    registry::register_variable(handle as usize, host as usize, name);
}

/// Registers a `__managed__` variable.
///
/// # Safety
/// `name` is a C string, `host` the address of the pointer that host code uses.
#[allow(clippy::too_many_arguments, reason = "C signature")]
pub unsafe extern "C" fn __cudaRegisterManagedVar(
    handle: *mut *mut c_void,
    host: *mut *mut c_void,
    _device: *mut c_char,
    name: *const c_char,
    _external: c_int,
    _size: usize,
    _constant: c_int,
    _global: c_int,
) {
    // SAFETY: nvcc's start-up code passes a string literal.
    let name = unsafe { CStr::from_ptr(name) };
    registry::register_managed(handle as usize, host as usize, name);
}

/// Called before host code first touches a `__managed__` variable.
pub extern "C" fn __cudaInitModule(_handle: *mut *mut c_void) -> c_char {
    match state::ready() {
        Ok(()) => 1,
        Err(error) => {
            crate::error::record(error);
            0
        }
    }
}

/// The kernel that a host stub stands for; asked once per kernel.
///
/// # Safety
/// `kernel` can be written.
pub unsafe extern "C" fn __cudaGetKernel(
    kernel: *mut cudaKernel_t,
    host: *const c_void,
) -> cudaError_t {
    crate::error::finish(registry::kernel(host as usize).and_then(|found| put!(kernel, found)))
}

/// Functions of this module by name.
pub(crate) const TABLE: &[Entry] = &[
    Entry::new(
        "__cudaRegisterFatBinary",
        __cudaRegisterFatBinary as *const (),
    ),
    Entry::new(
        "__cudaRegisterFatBinaryEnd",
        __cudaRegisterFatBinaryEnd as *const (),
    ),
    Entry::new(
        "__cudaUnregisterFatBinary",
        __cudaUnregisterFatBinary as *const (),
    ),
    Entry::new(
        "__cudaRegisterFunction",
        __cudaRegisterFunction as *const (),
    ),
    Entry::new("__cudaRegisterVar", __cudaRegisterVar as *const ()),
    Entry::new(
        "__cudaRegisterManagedVar",
        __cudaRegisterManagedVar as *const (),
    ),
    Entry::new("__cudaInitModule", __cudaInitModule as *const ()),
    Entry::new("__cudaGetKernel", __cudaGetKernel as *const ()),
];
