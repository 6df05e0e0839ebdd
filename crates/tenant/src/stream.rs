//! Streams.

use crate::convert::{functions, per_thread_functions, pick, put};
use crate::link::Link;
use crate::printed;
use crate::state::{CONTEXT, Stream, create_stream, enter};
use driver::sys::*;
use protocol::Request;

const NON_BLOCKING: u32 = CUstream_flags::CU_STREAM_NON_BLOCKING.0;

fn create(link: &Link, flags: u32, priority: i32) -> Result<CUstream, CUresult> {
    enter(link)?;
    if flags & !NON_BLOCKING != 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let number = create_stream(link, flags & NON_BLOCKING == 0)?;
    let handle = link.state.handle();
    let made = Stream {
        number,
        flags,
        priority,
    };
    link.state.streams.lock().insert(handle, made);
    Ok(CUstream(handle))
}

fn destroy(link: &Link, stream: CUstream) -> Result<(), CUresult> {
    let removed = link.state.streams.lock().remove(&stream.0);
    let removed = removed.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
    link.done(&Request::StreamDestroy {
        stream: removed.number,
    })
}

/// What the program said of a stream; the default ones have no flags.
fn known(link: &'static Link, stream: CUstream, default: u64) -> Result<Stream, CUresult> {
    match link.state.stream(stream.0) {
        Ok(stream) => Ok(stream),
        Err(_) => Ok(Stream {
            number: pick(link, stream, default)?,
            flags: 0,
            priority: 0,
        }),
    }
}

mod made {
    use super::*;
    functions! { link;
        fn cuStreamCreate(stream: *mut CUstream, flags: u32) {
            put(stream, create(link, flags, 0)?)
        }
        fn cuStreamCreateWithPriority(stream: *mut CUstream, flags: u32, _priority: i32) {
            // As the driver does, a priority is brought into the range, which
            // is 0 alone.
            put(stream, create(link, flags, 0)?)
        }
        fn cuStreamDestroy(stream: CUstream) {
            destroy(link, stream)
        }
        fn cuStreamDestroy_v2(stream: CUstream) {
            destroy(link, stream)
        }
        fn cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode) {
            // Streams are not captured.
            put(mode, CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
        }
    }
}

per_thread_functions! { link, default, register_uses;
    fn cuStreamQuery | cuStreamQuery_ptsz(stream: CUstream) {
        link.is_over(&Request::StreamQuery { stream: pick(link, stream, default)? })
    }
    fn cuStreamSynchronize | cuStreamSynchronize_ptsz(stream: CUstream) {
        let stream = pick(link, stream, default)?;
        printed::behind(link, link.done(&Request::StreamQuery { stream }))
    }
    fn cuStreamWaitEvent | cuStreamWaitEvent_ptsz(stream: CUstream, event: CUevent, flags: u32) {
        if flags != 0 {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let event = link.state.event(event.0)?;
        link.put(&Request::StreamWait { stream: pick(link, stream, default)?, event }, true)
    }
    fn cuStreamGetFlags | cuStreamGetFlags_ptsz(stream: CUstream, flags: *mut u32) {
        put(flags, known(link, stream, default)?.flags)
    }
    fn cuStreamGetPriority | cuStreamGetPriority_ptsz(stream: CUstream, priority: *mut i32) {
        put(priority, known(link, stream, default)?.priority)
    }
    fn cuStreamGetId | cuStreamGetId_ptsz(stream: CUstream, id: *mut u64) {
        put(id, known(link, stream, default)?.number.into())
    }
    fn cuStreamGetDevice | cuStreamGetDevice_ptsz(stream: CUstream, device: *mut CUdevice) {
        known(link, stream, default)?;
        put(device, 0)
    }
    fn cuStreamGetCtx | cuStreamGetCtx_ptsz(stream: CUstream, context: *mut CUcontext) {
        known(link, stream, default)?;
        put(context, CUcontext(CONTEXT))
    }
    fn cuStreamIsCapturing | cuStreamIsCapturing_ptsz(stream: CUstream, status: *mut CUstreamCaptureStatus) {
        known(link, stream, default)?;
        put(status, CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }
}

/// Enters this file's functions into the table.
pub(crate) fn register(api: &mut driver::Api) {
    made::register(api);
    register_uses(api);
}
