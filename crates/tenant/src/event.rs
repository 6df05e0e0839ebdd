//! Events.

use crate::capture;
use crate::convert::{functions, per_thread_functions, pick, put};
use crate::link::Link;
use crate::managed;
use crate::printed;
use crate::state::enter;
use driver::sys::*;
use protocol::{Reply, Request};

/// Events of other processes would be other tenants'.
const INTERPROCESS: u32 = CUevent_flags::CU_EVENT_INTERPROCESS.0;
/// No time is taken.
const UNTIMED: u32 = CUevent_flags::CU_EVENT_DISABLE_TIMING.0;

fn destroy(link: &'static Link, event: CUevent) -> Result<(), CUresult> {
    let number = link.state.events.lock().remove(&event.0);
    link.state.captures.forget_event(event.0);
    let event = number.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
    link.state
        .order
        .put_last(link, Request::EventDestroy { event })
}

/// Whether an event is over.
fn query(link: &Link, event: CUevent) -> Result<(), CUresult> {
    let number = link.state.event(event.0)?;
    capture::check_event(link, event.0)?;
    if link.state.order.pending_record(number).is_some() {
        return Err(CUresult::CUDA_ERROR_NOT_READY);
    }
    link.is_over(&Request::EventQuery { event: number })?;
    managed::after(link)
}

/// Waits for an event.
fn synchronize(link: &Link, event: CUevent) -> Result<(), CUresult> {
    let number = link.state.event(event.0)?;
    capture::check_event(link, event.0)?;
    let before = link.state.order.wait_record(link, number);
    link.done(&Request::EventQuery { event: number })?;
    managed::after(link)?;
    before
}

fn elapsed(link: &Link, start: CUevent, end: CUevent) -> Result<f32, CUresult> {
    let (start, end) = (link.state.event(start.0)?, link.state.event(end.0)?);
    let order = &link.state.order;
    if [start, end]
        .iter()
        .any(|event| order.pending_record(*event).is_some())
    {
        return Err(CUresult::CUDA_ERROR_NOT_READY);
    }
    match link.wait(&Request::EventElapsed { start, end })? {
        Reply::Milliseconds(time) => Ok(time),
        _ => Err(link.astray()),
    }
}

mod made {
    use super::*;
    functions! { link;
        fn cuEventCreate(event: *mut CUevent, flags: u32) {
            enter(link)?;
            if flags & INTERPROCESS != 0 {
                return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
            }
            let made = link.wait(&Request::EventCreate { is_timed: flags & UNTIMED == 0 })?;
            let Reply::Number(number) = made else {
                return Err(link.astray());
            };
            let handle = link.state.handle();
            link.state.events.lock().insert(handle, number);
            put(event, CUevent(handle))
        }
        fn cuEventDestroy(event: CUevent) {
            destroy(link, event)
        }
        fn cuEventDestroy_v2(event: CUevent) {
            destroy(link, event)
        }
        fn cuEventQuery(event: CUevent) {
            query(link, event)
        }
        fn cuEventSynchronize(event: CUevent) {
            printed::behind(link, synchronize(link, event))
        }
        fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) {
            put(milliseconds, elapsed(link, start, end)?)
        }
        fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: CUevent, end: CUevent) {
            put(milliseconds, elapsed(link, start, end)?)
        }
    }
}

fn record(
    link: &'static Link,
    event: CUevent,
    stream: u32,
    is_external: bool,
) -> Result<(), CUresult> {
    let number = link.state.event(event.0)?;
    if capture::record(link, stream, event.0, is_external)? {
        return Ok(());
    }
    link.state.order.record(link, number, stream)
}

/// `CU_EVENT_RECORD_EXTERNAL`: in a capture, a node of its own.
const EXTERNAL: u32 = 1;

per_thread_functions! { link, default, register_records;
    fn cuEventRecord | cuEventRecord_ptsz(event: CUevent, stream: CUstream) {
        record(link, event, pick(link, stream, default)?, false)
    }
    fn cuEventRecordWithFlags | cuEventRecordWithFlags_ptsz(event: CUevent, stream: CUstream, flags: u32) {
        if flags & !EXTERNAL != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        record(link, event, pick(link, stream, default)?, flags & EXTERNAL != 0)
    }
}

/// Enters this file's functions into the table.
pub(crate) fn register(api: &mut driver::Api) {
    made::register(api);
    register_records(api);
}
