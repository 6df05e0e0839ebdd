//! Safe, typed calls of a driver: what a program needs that owns a device, over
//! whichever table of functions the device has.
//!
//! A handle is a value that only this module makes; it ends what it stands for
//! when it is dropped, and keeps alive what that depends on. Device memory is
//! reached through a [`Slice`] of a [`Reservation`], whose bounds are checked
//! when it is made, so that no call of this module touches memory that its
//! caller did not map. Kernels may: that is what fences are for.
//!
//! A thread calls [`Context::make_current`] before anything else. No call waits
//! for a kernel, except that the driver does so when a module is loaded or
//! unloaded, when host memory is no longer registered, when kernels get more
//! local memory ([`Context::reserve_local`]), and when streams or chains are made.

/// Calls a function of a table and turns its result into a `DriverError`.
macro_rules! call {
    ($calls:expr, $function:ident ( $($argument:expr),* $(,)? )) => {
        match $calls.api.$function {
            Some(function) => {
                // SAFETY: the table holds a driver's functions under cuda.h's
                // signatures (`Calls::new`). Pointers among the arguments are to
                // locals, or to slices whose lengths are passed along; handles
                // are alive, because the values that hold them end them when
                // dropped.
                let code = unsafe { function($($argument),*) };
                $crate::calls::check(stringify!($function), code)
            }
            None => Err($crate::calls::absent(stringify!($function))),
        }
    };
}

mod context;
mod graph;
mod host;
mod memory;
mod module;
mod stream;

pub use context::Context;
pub use graph::Chain;
pub use host::HostMemory;
pub use memory::{OutOfReservation, Physical, Reservation, Rows, Slice};
pub use module::{Function, Image, Launch, LoadError, Module, Variable};
pub use stream::{Event, Stream};

use crate::gpu::Gpu;
use crate::sys::CUresult;
use crate::{Api, DriverError};
use std::sync::Arc;

/// A driver's functions, to be called through the types of this module.
pub struct Calls {
    api: Api,
    /// The library that the functions are in.
    _library: Option<Arc<Gpu>>,
}

impl Calls {
    /// The functions of a table.
    ///
    /// # Safety
    /// They behave as the CUDA driver API documents, and may be called for the
    /// rest of the process.
    pub unsafe fn new(api: Api) -> Calls {
        Calls {
            api,
            _library: None,
        }
    }

    /// The functions of the real driver.
    pub fn of_gpu(gpu: Arc<Gpu>) -> Calls {
        Calls {
            api: *gpu.api(),
            _library: Some(gpu),
        }
    }
}

fn check(call: &'static str, code: CUresult) -> Result<(), DriverError> {
    if code == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let name = code.name().unwrap_or("an error that cuda.h does not list");
    Err(DriverError {
        call,
        code,
        message: name.to_owned(),
    })
}

fn absent(call: &'static str) -> DriverError {
    DriverError {
        call,
        code: CUresult::CUDA_ERROR_NOT_SUPPORTED,
        message: "the device has no such function".into(),
    }
}
