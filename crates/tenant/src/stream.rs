//! Streams.

use crate::capture;
use crate::convert::{functions, get, per_thread_functions, pick, put};
use crate::link::Link;
use crate::managed;
use crate::printed;
use crate::reach;
use crate::state::{CONTEXT, Stream, create_stream, enter};
use driver::CaptureMode;
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

fn destroy(link: &'static Link, stream: CUstream) -> Result<(), CUresult> {
    let removed = link.state.streams.lock().remove(&stream.0);
    let removed = removed.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
    capture::abandon(link, removed.number);
    let request = Request::StreamDestroy {
        stream: removed.number,
    };
    link.state.order.put_last(link, request)
}

/// Whether the work of a stream is over.
fn query(link: &Link, stream: u32) -> Result<(), CUresult> {
    capture::refuse(link, stream)?;
    capture::check_strict(link)?;
    if link.state.order.is_held(stream) {
        return Err(CUresult::CUDA_ERROR_NOT_READY);
    }
    link.is_over(&Request::StreamQuery { stream })?;
    managed::after(link)
}

/// Waits for the work of a stream.
fn synchronize(link: &'static Link, stream: u32) -> Result<(), CUresult> {
    capture::refuse(link, stream)?;
    capture::check_strict(link)?;
    let before = link.state.order.wait_stream(link, stream);
    reach::stream(link, stream)?;
    managed::after(link)?;
    before
}

/// `CU_EVENT_WAIT_EXTERNAL`: in a capture, a node of its own.
const EXTERNAL: u32 = 1;

fn wait(link: &'static Link, stream: u32, event: CUevent, flags: u32) -> Result<(), CUresult> {
    if flags & !EXTERNAL != 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let number = link.state.event(event.0)?;
    if capture::wait(link, stream, event.0, flags & EXTERNAL != 0)? {
        return Ok(());
    }
    link.state.order.await_event(link, number, stream)
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
            let wanted = CaptureMode::of(get(mode.cast_const())?.0);
            let wanted = wanted.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
            put(mode, CUstreamCaptureMode(wanted.exchange() as u32))
        }
    }
}

per_thread_functions! { link, default, register_uses;
    fn cuStreamQuery | cuStreamQuery_ptsz(stream: CUstream) {
        query(link, pick(link, stream, default)?)
    }
    fn cuStreamSynchronize | cuStreamSynchronize_ptsz(stream: CUstream) {
        let stream = pick(link, stream, default)?;
        printed::behind(link, synchronize(link, stream))
    }
    fn cuStreamWaitEvent | cuStreamWaitEvent_ptsz(stream: CUstream, event: CUevent, flags: u32) {
        wait(link, pick(link, stream, default)?, event, flags)
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
    fn cuStreamAttachMemAsync | cuStreamAttachMemAsync_ptsz(stream: CUstream, address: CUdeviceptr, _length: usize, flags: u32) {
        let stream = known(link, stream, default)?.number;
        let only = match CUmemAttach_flags(flags) {
            CUmemAttach_flags::CU_MEM_ATTACH_SINGLE => Some(stream),
            CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL | CUmemAttach_flags::CU_MEM_ATTACH_HOST => None,
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        };
        managed::attach(link, address, only)
    }
    fn cuStreamCopyAttributes | cuStreamCopyAttributes_ptsz(to: CUstream, from: CUstream) {
        known(link, to, default)?;
        known(link, from, default).map(drop)
    }
    fn cuStreamSetAttribute | cuStreamSetAttribute_ptsz(stream: CUstream, _attribute: CUstreamAttrID, _value: *const CUstreamAttrValue) {
        // Hints about caches, priorities and how to wait.
        known(link, stream, default).map(drop)
    }
    fn cuStreamGetAttribute | cuStreamGetAttribute_ptsz(stream: CUstream, attribute: CUstreamAttrID, value: *mut CUstreamAttrValue) {
        let mut answer = CUstreamAttrValue::zeroed();
        if attribute == CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_PRIORITY {
            answer.priority = known(link, stream, default)?.priority;
        }
        put(value, answer)
    }
}

/// Enters this file's functions into the table.
pub(crate) fn register(api: &mut driver::Api) {
    made::register(api);
    register_uses(api);
}
