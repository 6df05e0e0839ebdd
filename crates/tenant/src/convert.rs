//! What all C functions are written with: they read C memory, ask, and write
//! the answer.

use crate::link::{self, Link};
pub(crate) use driver::arguments::{Answer, get, list, name, put, put_if, put_list};
use driver::sys::{CUresult, CUstream};

/// Calls `work` if there is a manager.
pub(crate) fn answer(work: impl FnOnce(&'static Link) -> Answer) -> CUresult {
    match link::get() {
        None => CUresult::CUDA_ERROR_NOT_INITIALIZED,
        Some(link) => match work(link) {
            Ok(()) => CUresult::CUDA_SUCCESS,
            Err(code) => code,
        },
    }
}

/// Functions of the API and their entry into the table. `$link` names the
/// manager in the bodies, which may read and write what the arguments point to.
macro_rules! functions {
    ($link:ident; $( fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block )*) => {
        $(
            #[allow(non_snake_case, unused_unsafe, unused_variables, clippy::too_many_arguments)]
            unsafe extern "C" fn $name($($argument: $type),*) -> driver::sys::CUresult {
                $crate::convert::answer(|$link| {
                    // SAFETY: the arguments are what cuda.h asks callers of
                    // this function for: pointers are null or point to what
                    // the parameter's type says, for the length of the call.
                    unsafe { $body }
                })
            }
        )*
        /// Enters these functions into the table.
        pub(crate) fn register(api: &mut driver::Api) {
            $( api.$name = Some($name); )*
        }
    };
}

/// As [`functions`], for functions that exist twice: for the legacy and for
/// the per-thread default stream. `$stream` is the stream that a null handle
/// means.
macro_rules! per_thread_functions {
    ($link:ident, $stream:ident, $register:ident;
     $( fn $name:ident | $twin:ident ($($argument:ident: $type:ty),* $(,)?) $body:block )*) => {
        $(
            #[allow(non_snake_case, unused_unsafe, unused_variables, clippy::too_many_arguments)]
            unsafe extern "C" fn $name($($argument: $type),*) -> driver::sys::CUresult {
                let $stream = $crate::convert::LEGACY;
                $crate::convert::answer(|$link| {
                    // SAFETY: as in `functions`.
                    unsafe { $body }
                })
            }
            #[allow(non_snake_case, unused_unsafe, unused_variables, clippy::too_many_arguments)]
            unsafe extern "C" fn $twin($($argument: $type),*) -> driver::sys::CUresult {
                let $stream = $crate::convert::PER_THREAD;
                $crate::convert::answer(|$link| {
                    // SAFETY: as in `functions`.
                    unsafe { $body }
                })
            }
        )*
        /// Enters these functions into the table.
        pub(crate) fn $register(api: &mut driver::Api) {
            $( api.$name = Some($name); api.$twin = Some($twin); )*
        }
    };
}

pub(crate) use {functions, per_thread_functions};

/// `CU_STREAM_LEGACY`
pub(crate) const LEGACY: u64 = 1;
/// `CU_STREAM_PER_THREAD`
pub(crate) const PER_THREAD: u64 = 2;

/// The stream that a handle means where null means `default`, as the manager's
/// number.
pub(crate) fn pick(link: &'static Link, handle: CUstream, default: u64) -> Result<u32, CUresult> {
    let handle = if handle.0 == 0 { default } else { handle.0 };
    link.state.stream_number(link, handle)
}

/// The device that a program names must be the only one.
pub(crate) fn only(device: i32) -> Answer {
    match device {
        0 => Ok(()),
        _ => Err(CUresult::CUDA_ERROR_INVALID_DEVICE),
    }
}
