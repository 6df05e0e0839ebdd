//! Questions about what the program's handles mean, to the device and to the
//! runtime.

use crate::session::{self, next};
use crate::state::Outside;
use driver::Api;
use driver::sys::{
    CUcontext, CUfunction, CUfunction_attribute, CUkernel, CUresult, CUstream,
    CUstreamCaptureStatus,
};
use runtime::Kernel;

/// The current context; 0: there is none.
#[inline]
pub fn current_context() -> u64 {
    let mut context = CUcontext::NULL;
    if let Some(get) = next().and_then(|api| api.cuCtxGetCurrent) {
        // SAFETY: a place for the answer.
        let _ = unsafe { get(&mut context) };
    }
    context.0
}

/// Whether any stream is being captured.
pub fn is_capturing() -> bool {
    session::get().is_some_and(|session| session.captures.is_active())
}

/// Leave to make calls that would end a capture; `None`: a stream is being captured, or
/// nothing is checked.
pub fn outside_captures() -> Option<Outside<'static>> {
    session::get()?.captures.outside()
}

/// Whether what is put into a stream now becomes part of a graph.
/// `per_thread`: null is the thread's own stream.
pub fn is_captured(stream: CUstream, per_thread: bool) -> bool {
    ask_captured(stream, per_thread) == Some(true)
}

/// As [`is_captured`]; `None` if the device does not say: there is no such
/// stream, or it is the legacy one, which must not wait for one that is
/// captured. The question itself ends no capture.
pub fn ask_captured(stream: CUstream, per_thread: bool) -> Option<bool> {
    let api = next()?;
    let ask = if per_thread {
        api.cuStreamIsCapturing_ptsz
    } else {
        api.cuStreamIsCapturing
    };
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: a place for the answer; the handle is the program's.
    let asked = ask.map(|ask| unsafe { ask(stream, &mut status) });
    (asked == Some(CUresult::CUDA_SUCCESS))
        .then_some(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
}

/// An attribute of a function, or of a kernel on the current device.
pub fn attribute_of(
    api: &Api,
    handle: u64,
    is_kernel: bool,
    attribute: CUfunction_attribute,
) -> Option<i32> {
    let mut value = 0;
    // SAFETY: places for the answers; the handle came from the device.
    let asked = unsafe {
        if is_kernel {
            let mut device = 0;
            if api.cuCtxGetDevice?(&mut device) != CUresult::CUDA_SUCCESS {
                return None;
            }
            api.cuKernelGetAttribute?(&mut value, attribute, CUkernel(handle), device)
        } else {
            api.cuFuncGetAttribute?(&mut value, attribute, CUfunction(handle))
        }
    };
    (asked == CUresult::CUDA_SUCCESS).then_some(value)
}

/// The kernel that the program has this handle of.
pub fn kernel(handle: u64) -> Option<Kernel> {
    session::runtime()?.modules().kernel(handle)
}

/// The program's kernel, where the handle is that of an instrumented copy.
pub fn original(handle: u64) -> Option<u64> {
    session::runtime()?.modules().original_of(handle)
}
