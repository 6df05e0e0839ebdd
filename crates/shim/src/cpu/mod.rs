//! The C functions of the driver API over the CPU device.
//!
//! One file a theme, each a list of thin functions: read C memory, call
//! [`emulate::device::Device`], write the answer. What is not here stays out
//! of the table, and calling it fails with its name. Nothing here decides
//! anything: rules and error codes are the device's.

mod array;
mod context;
mod copy;
mod device;
mod error;
mod event;
mod function;
mod graph;
mod graph_events;
mod graph_nodes;
mod host;
mod image;
mod launch;
mod library;
mod link;
mod memory;
mod module;
mod pointer;
mod pool;
mod stream;
mod texture;
mod vmm;

use driver::sys::CUresult;
use driver::{Api, Driver};
use emulate::device::{Device, Options};
use model::Settings;
use std::sync::{Arc, OnceLock};

/// What a function gives before it becomes a CUresult.
type Answer = Result<(), CUresult>;

static DEVICE: OnceLock<Arc<Device>> = OnceLock::new();

/// The process's CPU device, made at the first call. The message of an error
/// says what to do.
pub fn device(settings: &Settings) -> Result<Arc<dyn Driver>, String> {
    if let Some(device) = DEVICE.get() {
        return Ok(device.clone());
    }
    let options = Options {
        threads: settings.cpu_threads,
        seed: settings.seed,
        pageable: settings.cpu_pageable,
    };
    let device = Device::new(options, Arc::new(host::Process))
        .map_err(|error| format!("the CPU device could not start: {error}"))?;
    Ok(DEVICE.get_or_init(|| Arc::new(device)).clone())
}

/// The functions that the CPU device has.
pub fn api() -> Api {
    let mut api = Api::EMPTY;
    for register in [
        array::register,
        context::register,
        copy::register,
        device::register,
        error::register,
        event::register,
        function::register,
        graph::register,
        graph_events::register,
        graph_nodes::register,
        launch::register,
        library::register,
        link::register,
        memory::register,
        module::register,
        pointer::register,
        pool::register,
        stream::register,
        texture::register,
        vmm::register,
    ] {
        register(&mut api);
    }
    api
}

/// Calls the device. Before it was made there is nothing to call.
fn answer(work: impl FnOnce(&Device) -> Answer) -> CUresult {
    match DEVICE.get() {
        None => CUresult::CUDA_ERROR_NOT_INITIALIZED,
        Some(device) => match work(device) {
            Ok(()) => CUresult::CUDA_SUCCESS,
            Err(code) => code,
        },
    }
}

/// Writes an answer. Null is INVALID_VALUE.
///
/// # Safety
/// `to` is null or valid for a write.
unsafe fn put<T>(to: *mut T, value: T) -> Answer {
    if to.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, so valid by the caller's promise.
    unsafe { to.write(value) };
    Ok(())
}

/// Writes an answer that the program may not need: null is skipped.
///
/// # Safety
/// `to` is null or valid for a write.
unsafe fn put_if<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: not null, so valid by the caller's promise.
        unsafe { to.write(value) };
    }
}

/// Reads a struct. Null is INVALID_VALUE.
///
/// # Safety
/// `from` is null or points to an initialized T.
unsafe fn get<T: Copy>(from: *const T) -> Result<T, CUresult> {
    if from.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, so valid by the caller's promise.
    Ok(unsafe { from.read() })
}

/// Reads a name. Null, or no UTF-8, is INVALID_VALUE.
///
/// # Safety
/// `from` is null or a C string that stays as it is while the answer is in use.
unsafe fn name<'a>(from: *const std::ffi::c_char) -> Result<&'a str, CUresult> {
    if from.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, so a C string by the caller's promise.
    let text = unsafe { std::ffi::CStr::from_ptr(from) };
    text.to_str()
        .map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)
}

/// A list that C gives as pointer and count; null is an empty one.
///
/// # Safety
/// `from` is null or points to `count` initialized values that stay as they
/// are while the answer is in use.
unsafe fn list<'a, T>(from: *const T, count: usize) -> &'a [T] {
    if from.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: by the caller's promise.
    unsafe { std::slice::from_raw_parts(from, count) }
}

/// Writes a list the way the graph queries do: with a null array only the
/// count; else `*count` values, those beyond the list null, and the count.
///
/// # Safety
/// `count` is null or valid; `to` is null or has room for `*count` values.
unsafe fn put_list<T: Copy>(to: *mut T, count: *mut usize, values: &[T], rest: T) -> Answer {
    if count.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if !to.is_null() {
        // SAFETY: not null, so valid by the caller's promise.
        let room = unsafe { count.read() };
        for index in 0..room {
            // SAFETY: below the room that the caller promises.
            unsafe {
                to.add(index)
                    .write(values.get(index).copied().unwrap_or(rest))
            };
        }
    }
    // SAFETY: not null, so valid by the caller's promise.
    unsafe { count.write(values.len()) };
    Ok(())
}

/// Functions of the API and their entry into the table. `$device` names the
/// device in the bodies, which may read and write what the arguments point to.
macro_rules! functions {
    ($device:ident; $( fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block )*) => {
        $(
            #[allow(non_snake_case, unused_unsafe, unused_variables, clippy::too_many_arguments)]
            unsafe extern "C" fn $name($($argument: $type),*) -> driver::sys::CUresult {
                $crate::cpu::answer(|$device| {
                    // SAFETY: the arguments are what cuda.h asks callers of
                    // this function for: pointers are null or point to what
                    // the parameter's type says, for the length of the call.
                    unsafe { $body }
                })
            }
        )*
        /// Enters these functions into the table.
        pub fn register(api: &mut driver::Api) {
            $( api.$name = Some($name); )*
        }
    };
}

/// As [`functions`], for functions that exist twice: for the legacy and for
/// the per-thread default stream. `$stream` is the stream that a null handle
/// means.
macro_rules! per_thread_functions {
    ($device:ident, $stream:ident, $register:ident;
     $( fn $name:ident | $twin:ident ($($argument:ident: $type:ty),* $(,)?) $body:block )*) => {
        $(
            #[allow(non_snake_case, unused_unsafe, unused_variables, clippy::too_many_arguments)]
            unsafe extern "C" fn $name($($argument: $type),*) -> driver::sys::CUresult {
                let $stream = $crate::cpu::LEGACY;
                $crate::cpu::answer(|$device| {
                    // SAFETY: as in `functions`.
                    unsafe { $body }
                })
            }
            #[allow(non_snake_case, unused_unsafe, unused_variables, clippy::too_many_arguments)]
            unsafe extern "C" fn $twin($($argument: $type),*) -> driver::sys::CUresult {
                let $stream = $crate::cpu::PER_THREAD;
                $crate::cpu::answer(|$device| {
                    // SAFETY: as in `functions`.
                    unsafe { $body }
                })
            }
        )*
        /// Enters these functions into the table.
        fn $register(api: &mut driver::Api) {
            $( api.$name = Some($name); api.$twin = Some($twin); )*
        }
    };
}

use {functions, per_thread_functions};

/// `CU_STREAM_LEGACY`
const LEGACY: u64 = 1;
/// `CU_STREAM_PER_THREAD`
const PER_THREAD: u64 = 2;

/// The stream that a handle means where null means `default`.
fn pick(handle: driver::sys::CUstream, default: u64) -> u64 {
    if handle.0 == 0 { default } else { handle.0 }
}

/// The device that a program names must be the only one.
fn only(device: i32) -> Answer {
    if device == 0 {
        Ok(())
    } else {
        Err(CUresult::CUDA_ERROR_INVALID_DEVICE)
    }
}
