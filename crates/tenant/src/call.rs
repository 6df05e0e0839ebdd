//! Functions of the program in streams. They are called in this process, on a
//! thread of their own, when the work before them is over; work behind them
//! waits until they have returned.

use crate::capture;
use crate::convert::{Answer, per_thread_functions, pick};
use crate::link::Link;
use crate::managed;
use crate::order::fence;
use crate::state::enter;
use crate::work::Work;
use driver::sys::*;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A pointer of the program.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct UserData(pub(crate) *mut c_void);

// SAFETY: never dereferenced here; the program asked for its function to be
// called with it on a thread of the driver's.
unsafe impl Send for UserData {}
// SAFETY: as above.
unsafe impl Sync for UserData {}

/// A function of the program with its argument.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    /// Of `cuLaunchHostFunc` and of host nodes.
    Host(unsafe extern "C" fn(*mut c_void), UserData),
    /// Of `cuStreamAddCallback`, with the stream as the program names it.
    Callback(
        unsafe extern "C" fn(CUstream, CUresult, *mut c_void),
        u64,
        UserData,
    ),
}

impl Call {
    /// Of the program's struct or call.
    pub(crate) fn host(function: CUhostFn, data: *mut c_void) -> Result<Call, CUresult> {
        let function = function.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        Ok(Call::Host(function, UserData(data)))
    }

    /// Calls it, if the work before it has not failed or it asks for that.
    pub(crate) fn run(self, status: CUresult) {
        match self {
            Call::Host(function, data) if status == CUresult::CUDA_SUCCESS => {
                // SAFETY: the program gave both to be called with each other.
                unsafe { function(data.0) }
            }
            Call::Host(..) => {}
            Call::Callback(function, stream, data) => {
                // SAFETY: as above.
                unsafe { function(CUstream(stream), status, data.0) }
            }
        }
    }
}

/// Puts a call into a stream.
pub(crate) fn put(link: &'static Link, stream: u32, call: Call) -> Answer {
    let status = Arc::new(AtomicU32::new(CUresult::CUDA_SUCCESS.0));
    let (of_fence, mut fence) = (Arc::clone(&status), fence(stream, true));
    let before = move |link: &'static Link| {
        let answer = fence(link);
        if let Err(code) = answer {
            of_fence.store(code.0, Ordering::Release);
        }
        answer
    };
    let order = &link.state.order;
    order.add(link, stream, None, false, Box::new(before))?;
    let calling = move |link: &'static Link| {
        let status = CUresult(status.load(Ordering::Acquire));
        call.run(managed::after(link).err().unwrap_or(status));
        Ok(true)
    };
    order.add(link, stream, None, true, Box::new(calling))?;
    Ok(())
}

per_thread_functions! { link, default, register_all;
    fn cuLaunchHostFunc | cuLaunchHostFunc_ptsz(stream: CUstream, function: CUhostFn, data: *mut c_void) {
        enter(link)?;
        let call = Call::host(function, data)?;
        capture::or_do(link, pick(link, stream, default)?, Work::Call(call))
    }
    fn cuStreamAddCallback | cuStreamAddCallback_ptsz(stream: CUstream, callback: CUstreamCallback, data: *mut c_void, flags: u32) {
        enter(link)?;
        if flags != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let function = callback.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let call = Call::Callback(function, stream.0, UserData(data));
        capture::or_do(link, pick(link, stream, default)?, Work::Call(call))
    }
}

/// Enters this file's functions into the table.
pub(crate) fn register(api: &mut driver::Api) {
    register_all(api);
}
