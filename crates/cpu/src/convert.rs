//! What all C functions are written with: they read C memory, call the device,
//! and write the answer.

use crate::session::{self, Cpu};
pub(crate) use driver::arguments::{Answer, get, list, name, put, put_if, put_list};
use driver::sys::CUresult;

/// Calls the device. Before it was made there is nothing to call.
pub(crate) fn answer(work: impl FnOnce(&Cpu) -> Answer) -> CUresult {
    match session::get() {
        None => CUresult::CUDA_ERROR_NOT_INITIALIZED,
        Some(device) => match work(device) {
            Ok(()) => CUresult::CUDA_SUCCESS,
            Err(code) => code,
        },
    }
}

/// Functions of the API and their entry into the table. `$device` names the
/// device in the bodies, which may read and write what the arguments point to.
macro_rules! functions {
    ($device:ident; $( fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block )*) => {
        $(
            #[allow(non_snake_case, unused_unsafe, unused_variables, clippy::too_many_arguments)]
            unsafe extern "C" fn $name($($argument: $type),*) -> driver::sys::CUresult {
                $crate::convert::answer(|$device| {
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
                let $stream = $crate::convert::LEGACY;
                $crate::convert::answer(|$device| {
                    // SAFETY: as in `functions`.
                    unsafe { $body }
                })
            }
            #[allow(non_snake_case, unused_unsafe, unused_variables, clippy::too_many_arguments)]
            unsafe extern "C" fn $twin($($argument: $type),*) -> driver::sys::CUresult {
                let $stream = $crate::convert::PER_THREAD;
                $crate::convert::answer(|$device| {
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

pub(crate) use {functions, per_thread_functions};

/// `CU_STREAM_LEGACY`
pub(crate) const LEGACY: u64 = 1;
/// `CU_STREAM_PER_THREAD`
pub(crate) const PER_THREAD: u64 = 2;

/// The stream that a handle means where null means `default`.
pub(crate) fn pick(handle: driver::sys::CUstream, default: u64) -> u64 {
    if handle.0 == 0 { default } else { handle.0 }
}

/// The device that a program names must be the only one.
pub(crate) fn only(device: i32) -> Answer {
    if device == 0 {
        Ok(())
    } else {
        Err(CUresult::CUDA_ERROR_INVALID_DEVICE)
    }
}
