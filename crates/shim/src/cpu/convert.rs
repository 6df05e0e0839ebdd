//! What all C functions are written with: they read C memory, call the device,
//! and write the answer.

use crate::session;
use crate::state::Cpu;
use driver::sys::CUresult;

/// What a function gives before it becomes a CUresult.
pub(super) type Answer = Result<(), CUresult>;

/// Calls the device. Before it was made there is nothing to call.
pub(super) fn answer(work: impl FnOnce(&Cpu) -> Answer) -> CUresult {
    match session::get().and_then(|session| session.cpu.as_ref()) {
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
pub(super) unsafe fn put<T>(to: *mut T, value: T) -> Answer {
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
pub(super) unsafe fn put_if<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: not null, so valid by the caller's promise.
        unsafe { to.write(value) };
    }
}

/// Reads a struct. Null is INVALID_VALUE.
///
/// # Safety
/// `from` is null or points to an initialized T.
pub(super) unsafe fn get<T: Copy>(from: *const T) -> Result<T, CUresult> {
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
pub(super) unsafe fn name<'a>(from: *const std::ffi::c_char) -> Result<&'a str, CUresult> {
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
pub(super) unsafe fn list<'a, T>(from: *const T, count: usize) -> &'a [T] {
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
pub(super) unsafe fn put_list<T: Copy>(
    to: *mut T,
    count: *mut usize,
    values: &[T],
    rest: T,
) -> Answer {
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
                $crate::cpu::convert::answer(|$device| {
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
                let $stream = $crate::cpu::convert::LEGACY;
                $crate::cpu::convert::answer(|$device| {
                    // SAFETY: as in `functions`.
                    unsafe { $body }
                })
            }
            #[allow(non_snake_case, unused_unsafe, unused_variables, clippy::too_many_arguments)]
            unsafe extern "C" fn $twin($($argument: $type),*) -> driver::sys::CUresult {
                let $stream = $crate::cpu::convert::PER_THREAD;
                $crate::cpu::convert::answer(|$device| {
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

pub(super) use {functions, per_thread_functions};

/// `CU_STREAM_LEGACY`
pub(super) const LEGACY: u64 = 1;
/// `CU_STREAM_PER_THREAD`
pub(super) const PER_THREAD: u64 = 2;

/// The stream that a handle means where null means `default`.
pub(super) fn pick(handle: driver::sys::CUstream, default: u64) -> u64 {
    if handle.0 == 0 { default } else { handle.0 }
}

/// The device that a program names must be the only one.
pub(super) fn only(device: i32) -> Answer {
    if device == 0 {
        Ok(())
    } else {
        Err(CUresult::CUDA_ERROR_INVALID_DEVICE)
    }
}
