//! Events.

use crate::capture;
use crate::convert::{Answer, functions, per_thread_functions, pick, put};
use crate::link::Link;
use crate::managed;
use crate::printed;
use crate::state::{Event, enter};
use driver::sys::*;
use protocol::{Reply, Request};

/// Events of other processes would be other tenants'.
const INTERPROCESS: u32 = CUevent_flags::CU_EVENT_INTERPROCESS.0;
/// Who waits for it sleeps.
const BLOCKING: u32 = CUevent_flags::CU_EVENT_BLOCKING_SYNC.0;
/// No time is taken.
const UNTIMED: u32 = CUevent_flags::CU_EVENT_DISABLE_TIMING.0;

fn destroy(link: &'static Link, event: CUevent) -> Result<(), CUresult> {
    let removed = link.state.events.lock().remove(&event.0);
    link.state.captures.forget_event(event.0);
    let event = removed.map(|event| event.number);
    let event = event.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
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
            let is_timed_abroad = flags & INTERPROCESS != 0 && flags & UNTIMED == 0;
            if flags & !(INTERPROCESS | UNTIMED | BLOCKING) != 0 || is_timed_abroad {
                return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
            }
            if flags & INTERPROCESS != 0 {
                return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
            }
            let is_timed = flags & UNTIMED == 0;
            let number = create(link, is_timed)?;
            let handle = link.state.handle();
            link.state.events.lock().insert(handle, Event { number, is_timed });
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
    link.state.event(event.0)?;
    if capture::record(link, stream, event.0, is_external)? {
        return Ok(());
    }
    put_record(link, event.0, stream)
}

/// Records an event behind what is in a stream.
///
/// Who has waited for it before means the record of that time. So while work is held
/// in this process, which may be such a wait, or an older record, a record is another
/// event of the manager's.
pub(crate) fn put_record(link: &'static Link, event: u64, stream: u32) -> Answer {
    let order = &link.state.order;
    if order.is_empty() {
        return order.record(link, link.state.event(event)?, stream);
    }
    let known = link.state.events.lock().get(&event).copied();
    let old = known.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
    let number = create(link, old.is_timed)?;
    order.record(link, number, stream)?;
    let newest = Event { number, ..old };
    let replaced = link.state.events.lock().insert(event, newest);
    let event = replaced.map_or(old.number, |replaced| replaced.number);
    order.put_last(link, Request::EventDestroy { event })
}

/// Has the manager make an event.
fn create(link: &Link, is_timed: bool) -> Result<u32, CUresult> {
    match link.wait(&Request::EventCreate { is_timed })? {
        Reply::Number(number) => Ok(number),
        _ => Err(link.astray()),
    }
}

/// What comes into a stream from now on comes behind all that is in another one.
pub(crate) fn follow(link: &'static Link, stream: u32, other: u32) -> Answer {
    let event = create(link, false)?;
    let order = &link.state.order;
    let ordered = order
        .record(link, event, other)
        .and_then(|()| order.await_event(link, event, stream));
    ordered.and(order.put_last(link, Request::EventDestroy { event }))
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
