//! Launches by the program.

use crate::api::session::{self, with_scans};
use crate::canaries::reach::reach;
use crate::findings::Launch;
use crate::objects::kernel::Kernel;
use crate::platform::call;
use crate::platform::events::{List, Waits, Wanted};
use crate::schedule::Launching;
use crate::sys::*;
use model::{Settings, UncheckedReason};

pub unsafe extern "C" fn range(
    queue: cl_command_queue,
    kernel: cl_kernel,
    dimensions: cl_uint,
    offset: *const usize,
    global: *const usize,
    local: *const usize,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    launch(
        queue,
        kernel,
        (count, list),
        event,
        &|(count, list), event| {
            call!(clEnqueueNDRangeKernel(
                queue, kernel, dimensions, offset, global, local, count, list, event
            ))
        },
    )
}

pub unsafe extern "C" fn task(
    queue: cl_command_queue,
    kernel: cl_kernel,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    launch(
        queue,
        kernel,
        (count, list),
        event,
        &|(count, list), event| call!(clEnqueueTask(queue, kernel, count, list, event)),
    )
}

fn launch(
    queue: cl_command_queue,
    kernel: cl_kernel,
    list: List,
    event: *mut cl_event,
    enqueue: &dyn Fn(List, *mut cl_event) -> cl_int,
) -> cl_int {
    let known = session::get().and_then(|session| Some((session, session.objects.kernel(kernel)?)));
    let Some((session, known)) = known else {
        return with_scans(list, |list| enqueue(list, event));
    };
    let number = session.next_launch();
    if !selects(&session.settings, &known, number) {
        let code = with_scans(list, |list| enqueue(list, event));
        if code == CL_SUCCESS {
            let reason = UncheckedReason::Excluded;
            session.report.unchecked(&known.name, reason);
        }
        return code;
    }
    let reach = reach(&session.canaries, &session.objects, &known);
    let backtraces = u64::from(session.settings.launch_backtraces);
    let stack = match known.count_launch() < backtraces {
        true => session.stack(),
        false => None,
    };
    session.report.bare(&known.name, &reach.bare);
    if reach.scans.is_empty() && reach.uses.is_empty() {
        let code = with_scans(list, |list| enqueue(list, event));
        if code == CL_SUCCESS {
            session.report.checked(&known.name);
        }
        return code;
    }
    // SAFETY: the program's list, and its place for the event.
    let (waits, wanted) = unsafe { (Waits::of(list), Wanted::at(event)) };
    let launching = Launching {
        queue,
        launch: Launch {
            kernel: known,
            number,
            stack,
        },
        reach,
        waits,
        wanted,
    };
    launching.enqueue(&session.schedule, enqueue)
}

/// Whether the settings have a launch checked.
fn selects(settings: &Settings, kernel: &Kernel, number: u64) -> bool {
    let after = settings.launch_skip;
    settings.check
        && settings.selects_kernel(&kernel.name, &kernel.name)
        && number > after
        && (settings.launch_count == 0 || number <= after.saturating_add(settings.launch_count))
}
