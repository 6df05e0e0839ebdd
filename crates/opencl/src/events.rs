//! The program's events and waits. A kernel's event stays the kernel's own:
//! its times and its state are what they would be. What waits for it also
//! waits for the look behind the kernel, so that canaries are seen as this
//! kernel left them.

use crate::chain::{Chain, let_go};
use crate::jobs::PATIENCE;
use crate::layer::{self, Layer};
use crate::queries::ask;
use crate::sys::*;
use crate::table::call;
use crate::waits::wait_list;
use std::ffi::c_void;
use std::time::Duration;

/// A kernel's event that the program holds.
pub struct Watched {
    /// The event of the look behind it; released with the entry.
    check: usize,
    /// Number of that look's job.
    job: u64,
    /// References that the program holds.
    users: u32,
    /// Whether the kernel waits for the program itself.
    gated: bool,
}

impl Layer {
    /// Remembers the event of a kernel's look for as long as the program
    /// holds the kernel's own. Takes over the reference.
    pub fn watch(&self, event: cl_event, check: cl_event, (job, gated): (u64, bool)) {
        let watched = Watched {
            check: check as usize,
            job,
            users: 1,
            gated,
        };
        self.events.lock().insert(event as usize, watched);
    }

    /// Whether what waits for these events waits for a user event, which the
    /// program may set only when something else has ended.
    pub fn is_gated(&self, list: &[cl_event]) -> bool {
        let pending = |event: cl_event| status(event) > Some(CL_COMPLETE.cast_signed());
        let known = |event: &cl_event| {
            let events = self.events.lock();
            events.get(&(*event as usize)).map(|watched| watched.gated)
        };
        list.iter().any(|event| {
            let gated = known(event).unwrap_or_else(|| {
                let kind: Option<u32> = ask!(one, clGetEventInfo(*event, CL_EVENT_COMMAND_TYPE));
                kind == Some(CL_COMMAND_USER)
            });
            gated && pending(*event)
        })
    }

    /// Those of some events that are a kernel's, with the number of the job
    /// behind it.
    fn jobs_behind(&self, list: &[cl_event]) -> Vec<(u64, cl_event)> {
        let events = self.events.lock();
        let job = |event: &cl_event| Some((events.get(&(*event as usize))?.job, *event));
        list.iter().filter_map(job).collect()
    }

    /// The events of the looks behind those of a wait list. They are held,
    /// because another thread may release the kernel's event, and so its
    /// look's.
    pub fn looks_behind(&self, list: &[cl_event]) -> Chain {
        let mut looks = Chain::default();
        let events = self.events.lock();
        if events.is_empty() {
            return looks;
        }
        for watched in list
            .iter()
            .filter_map(|event| events.get(&(*event as usize)))
        {
            call!(clRetainEvent(watched.check as cl_event));
            looks.push(watched.check as cl_event);
        }
        looks
    }
}

/// How far the command of an event is.
pub fn status(event: cl_event) -> Option<cl_int> {
    let status: Option<u32> = ask!(
        one,
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS)
    );
    status.map(u32::cast_signed)
}

/// A kernel is reported as ended only after the canary scan behind it has: the
/// program may overwrite the canaries' copies from then on. Behind a kernel that
/// failed the scan fails, too. While such a scan was still in the queue,
/// `clFinish` returned its error under Ringfence on NVIDIA's platform (driver
/// 580); programs that enqueue the same commands themselves have not shown it.
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
        && let Some(looks) = layer::get().map(|layer| layer.looks_behind(&[event]))
        && let Some(look) = looks.last()
    {
        let told = value.cast::<cl_int>();
        // SAFETY: the platform has just written a status there.
        unsafe {
            let running = status(look).is_some_and(|status| status > CL_COMPLETE.cast_signed());
            if *told <= CL_COMPLETE.cast_signed() && running {
                *told = CL_RUNNING.cast_signed();
            }
        }
    }
    code
}

type Function = unsafe extern "C" fn(cl_event, cl_int, *mut c_void);

/// A function of the program's that is to be called when a kernel is complete.
struct Called {
    function: Function,
    data: *mut c_void,
    event: cl_event,
}

pub unsafe extern "C" fn set_callback(
    event: cl_event,
    kind: cl_int,
    function: Option<Function>,
    data: *mut c_void,
) -> cl_int {
    let looks = layer::get().map(|layer| layer.looks_behind(&[event]));
    let look = looks.as_ref().and_then(Chain::last);
    let (Some(look), Some(given)) = (look, function) else {
        return call!(clSetEventCallback(event, kind, function, data));
    };
    if kind != CL_COMPLETE.cast_signed() {
        return call!(clSetEventCallback(event, kind, function, data));
    }
    let called = Box::new(Called {
        function: given,
        data,
        event,
    });
    // The program may release its own reference before the look is made.
    call!(clRetainEvent(event));
    let data = Box::into_raw(called);
    let code = call!(clSetEventCallback(look, kind, Some(complete), data.cast()));
    if code != CL_SUCCESS {
        // SAFETY: the platform did not take it.
        drop(unsafe { Box::from_raw(data) });
        let_go(event);
    }
    code
}

unsafe extern "C" fn complete(_look: cl_event, status_of_look: cl_int, data: *mut c_void) {
    // SAFETY: what was given with this function, which is called once.
    let called = unsafe { Box::from_raw(data.cast::<Called>()) };
    let status = status(called.event).unwrap_or(status_of_look);
    // SAFETY: as the program asked for it, with its own event.
    unsafe { (called.function)(called.event, status, called.data) };
    let_go(called.event);
}

pub unsafe extern "C" fn retain(event: cl_event) -> cl_int {
    let code = call!(clRetainEvent(event));
    if code == CL_SUCCESS
        && let Some(layer) = layer::get()
        && let Some(watched) = layer.events.lock().get_mut(&(event as usize))
    {
        watched.users += 1;
    }
    code
}

pub unsafe extern "C" fn release(event: cl_event) -> cl_int {
    let Some(layer) = layer::get() else {
        return call!(clReleaseEvent(event));
    };
    // Before the call: after it the handle may be another event's.
    let check = {
        let mut events = layer.events.lock();
        match events.get_mut(&(event as usize)) {
            Some(watched) if watched.users > 1 => {
                watched.users -= 1;
                None
            }
            Some(_) => events.remove(&(event as usize)),
            None => None,
        }
    };
    if let Some(watched) = check {
        let_go(watched.check as cl_event);
    }
    call!(clReleaseEvent(event))
}

pub unsafe extern "C" fn wait(count: cl_uint, list: *const cl_event) -> cl_int {
    let Some(layer) = layer::get().filter(|_| !list.is_null() && count > 0) else {
        return call!(clWaitForEvents(count, list));
    };
    let code = call!(clWaitForEvents(count, list));
    // SAFETY: the program's list.
    let given = unsafe { std::slice::from_raw_parts(list, count as usize) };
    let watched = layer.jobs_behind(given);
    // Of a list with an event that failed, others may wait for the program's
    // next step.
    let ended = |(_, event): &(u64, cl_event)| {
        code == CL_SUCCESS || status(*event) <= Some(CL_COMPLETE.cast_signed())
    };
    let (jobs, ended): (Vec<u64>, Vec<cl_event>) = watched.into_iter().filter(ended).unzip();
    if jobs.is_empty() {
        return code;
    }
    let looks = layer.looks_behind(&ended);
    let looks: Vec<cl_event> = looks.events().collect();
    // What the waits answer is seen by the jobs.
    if code == CL_SUCCESS {
        let (count, list) = wait_list(&looks);
        call!(clWaitForEvents(count, list));
    } else {
        // Where one event failed, the wait for several may be over before the
        // others have ended.
        for look in &looks {
            call!(clWaitForEvents(1, look));
        }
    }
    layer
        .jobs
        .wait(PATIENCE, |number, _| jobs.contains(&number));
    layer.reporter.save(false);
    code
}

pub unsafe extern "C" fn finish(queue: cl_command_queue) -> cl_int {
    let code = call!(clFinish(queue));
    if let Some(layer) = layer::get() {
        // A wait that failed may have left commands that have not ended.
        let patience = match code {
            CL_SUCCESS => PATIENCE,
            _ => Duration::ZERO,
        };
        layer.jobs.wait(patience, |_, of| of == queue as usize);
        layer.reporter.save(false);
    }
    code
}
