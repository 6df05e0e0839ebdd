//! The program's events and waits.

use crate::api::session;
use crate::platform::call;
use crate::platform::events::{COMPLETE, Chain, Event, is_pending, status, wait_list};
use crate::platform::release;
use crate::schedule::PATIENCE;
use crate::sys::*;
use std::ffi::c_void;
use std::time::Duration;

/// A kernel is reported as ended only after the canary scan behind it has
/// ended: the program may overwrite the canaries' copies from then on. If a
/// kernel fails, the scan behind it fails, too. While such a scan was still in
/// the queue, `clFinish` returned its error under Ringfence on NVIDIA's
/// platform (driver 580); programs that enqueued the same commands themselves
/// did not show this.
pub unsafe extern "C" fn info(
    event: cl_event,
    name: cl_event_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    let code = call!(clGetEventInfo(event, name, size, value, size_ret));
    if code == CL_SUCCESS
        && name == CL_EVENT_COMMAND_EXECUTION_STATUS
        && !value.is_null()
        && let Some(scans) = scans_behind(event)
        && let Some(scan) = scans.last()
    {
        let answered = value.cast::<cl_int>();
        // SAFETY: the platform has just written a status there.
        unsafe {
            if *answered <= COMPLETE && is_pending(scan) {
                *answered = CL_RUNNING.cast_signed();
            }
        }
    }
    code
}

/// The events of the scan behind an event of the program's.
fn scans_behind(event: cl_event) -> Option<Chain> {
    let session = session::get()?;
    Some(session.schedule.watched.scans_behind(&[event]))
}

type Function = unsafe extern "C" fn(cl_event, cl_int, *mut c_void);

/// A function of the program's that is to be called when a kernel is complete.
struct Called {
    function: Function,
    data: *mut c_void,
    /// Held because the program may release its own reference before the scan
    /// is made.
    event: Event,
}

pub unsafe extern "C" fn set_callback(
    event: cl_event,
    kind: cl_int,
    function: Option<Function>,
    data: *mut c_void,
) -> cl_int {
    let scans = scans_behind(event);
    let scan = scans.as_ref().and_then(Chain::last);
    let (Some(scan), Some(given), COMPLETE) = (scan, function, kind) else {
        return call!(clSetEventCallback(event, kind, function, data));
    };
    let Some(event) = Event::retained(event) else {
        return CL_INVALID_EVENT;
    };
    let called = Box::new(Called {
        function: given,
        data,
        event,
    });
    let data = Box::into_raw(called);
    let code = call!(clSetEventCallback(scan, kind, Some(complete), data.cast()));
    if code != CL_SUCCESS {
        // SAFETY: the platform did not take it.
        drop(unsafe { Box::from_raw(data) });
    }
    code
}

unsafe extern "C" fn complete(_scan: cl_event, status_of_scan: cl_int, data: *mut c_void) {
    // SAFETY: the data that was passed with this function, which is called
    // once.
    let called = unsafe { Box::from_raw(data.cast::<Called>()) };
    let event = called.event.raw();
    let status = status(event).unwrap_or(status_of_scan);
    // SAFETY: the program requested this call, with its own event.
    unsafe { (called.function)(event, status, called.data) };
}

pub unsafe extern "C" fn set_user_event_status(event: cl_event, status: cl_int) -> cl_int {
    release::set_user_event_status(event, status)
}

pub unsafe extern "C" fn retain(event: cl_event) -> cl_int {
    let code = call!(clRetainEvent(event));
    if let Some(session) = session::get().filter(|_| code == CL_SUCCESS) {
        session.schedule.watched.retained(event);
    }
    code
}

pub unsafe extern "C" fn release(event: cl_event) -> cl_int {
    if let Some(session) = session::get() {
        session.schedule.watched.released(event);
    }
    call!(clReleaseEvent(event))
}

pub unsafe extern "C" fn wait(count: cl_uint, list: *const cl_event) -> cl_int {
    let code = call!(clWaitForEvents(count, list));
    let Some(session) = session::get().filter(|_| !list.is_null() && count > 0) else {
        return code;
    };
    let schedule = &session.schedule;
    // SAFETY: the program's list.
    let given = unsafe { std::slice::from_raw_parts(list, count as usize) };
    let watched = schedule.watched.jobs_behind(given);
    // In a list with a failed event, other events may depend on the program's
    // next call.
    let ended =
        |(_, event): &(u64, cl_event)| code == CL_SUCCESS || status(*event) <= Some(COMPLETE);
    let (jobs, ended): (Vec<u64>, Vec<cl_event>) = watched.into_iter().filter(ended).unzip();
    if jobs.is_empty() {
        return code;
    }
    let scans = schedule.watched.scans_behind(&ended);
    let scans: Vec<cl_event> = scans.events().collect();
    // The jobs read the status that the waits return.
    if code == CL_SUCCESS {
        let (count, list) = wait_list(&scans);
        call!(clWaitForEvents(count, list));
    } else {
        // If one event fails, a wait for several may return before the others
        // have ended.
        for scan in &scans {
            call!(clWaitForEvents(1, scan));
        }
    }
    schedule
        .jobs
        .wait(PATIENCE, |number, _| jobs.contains(&number));
    session.output.save(false);
    code
}

pub unsafe extern "C" fn finish(queue: cl_command_queue) -> cl_int {
    let code = call!(clFinish(queue));
    if let Some(session) = session::get() {
        // A wait that failed may have left commands that have not ended.
        let patience = match code {
            CL_SUCCESS => PATIENCE,
            _ => Duration::ZERO,
        };
        let jobs = &session.schedule.jobs;
        jobs.wait(patience, |_, of| of == queue as usize);
        session.output.save(false);
    }
    code
}
