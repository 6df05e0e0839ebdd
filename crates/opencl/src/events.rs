//! The program's events and waits. A kernel's event stays the kernel's own:
//! its times and its state are what they would be. What waits for it also
//! waits for the look behind the kernel, so that canaries are seen as this
//! kernel left them.

use crate::check::PATIENCE;
use crate::layer::{self, Layer};
use crate::sys::*;
use crate::table::call;

/// A kernel's event that the program holds.
pub struct Watched {
    /// The event of the look behind it; released with the entry.
    check: usize,
    /// Number of that look's job.
    job: u64,
    /// References that the program holds.
    users: u32,
}

impl Layer {
    /// Remembers the event of a kernel's look for as long as the program
    /// holds the kernel's own. Takes over the reference.
    pub fn watch(&self, event: cl_event, check: cl_event, job: u64) {
        let watched = Watched {
            check: check as usize,
            job,
            users: 1,
        };
        self.events.lock().insert(event as usize, watched);
    }

    /// Adds the events of the looks behind the first `given` of a wait list.
    pub fn with_checks(&self, list: &mut Vec<cl_event>, given: usize) {
        let events = self.events.lock();
        for index in 0..given.min(list.len()) {
            if let Some(watched) = events.get(&(list[index] as usize)) {
                list.push(watched.check as cl_event);
            }
        }
    }
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
        call!(clReleaseEvent(watched.check as cl_event));
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
    let jobs: Vec<u64> = {
        let events = layer.events.lock();
        let watched = given
            .iter()
            .filter_map(|event| events.get(&(*event as usize)));
        watched.map(|watched| watched.job).collect()
    };
    if code == CL_SUCCESS && !jobs.is_empty() {
        layer
            .jobs
            .wait(PATIENCE, |number, _| jobs.contains(&number));
        layer.reporter.save(false);
    }
    code
}

pub unsafe extern "C" fn finish(queue: cl_command_queue) -> cl_int {
    let code = call!(clFinish(queue));
    if let Some(layer) = layer::get().filter(|_| code == CL_SUCCESS) {
        layer.jobs.wait(PATIENCE, |_, of| of == queue as usize);
        layer.reporter.save(false);
    }
    code
}
