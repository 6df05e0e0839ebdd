//! Launches: what a kernel can reach gets its canaries before it, and is
//! looked at after it.

use crate::arguments::Kernel;
use crate::chain::Chain;
use crate::check::{Doer, Launch, Look};
use crate::layer::{self, Layer};
use crate::queries::ask;
use crate::shadows::Shadow;
use crate::staged::{self, Use};
use crate::sys::*;
use crate::table::call;
use crate::waits::{List, wait_list, with_looks};
use model::UncheckedReason;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
    let known = layer::get().and_then(|layer| Some((layer, layer.kernel(kernel)?)));
    let Some((layer, known)) = known else {
        return with_looks(list, |list| enqueue(list, event));
    };
    let number = layer.reporter.launch();
    if !layer.selects(&known, number) {
        let code = with_looks(list, |list| enqueue(list, event));
        if code == CL_SUCCESS {
            layer
                .reporter
                .unchecked(&known.name, UncheckedReason::Excluded);
        }
        return code;
    }
    let reach = layer.reach(&known);
    let stack = if known.launches.fetch_add(1, Ordering::Relaxed)
        < u64::from(layer.settings.launch_backtraces)
    {
        layer.stack()
    } else {
        None
    };
    layer.reporter.bare(&known.name, &reach.bare);
    if reach.looks.is_empty() && reach.uses.is_empty() {
        let code = with_looks(list, |list| enqueue(list, event));
        if code == CL_SUCCESS {
            layer.reporter.checked(&known.name);
        }
        return code;
    }
    let launch = Launch {
        kernel: known,
        number,
        stack,
    };
    layer.watched(
        queue,
        list,
        event,
        launch,
        (reach.looks, reach.uses),
        enqueue,
    )
}

impl Layer {
    fn selects(&self, kernel: &Kernel, number: u64) -> bool {
        let settings = &self.settings;
        let after = settings.launch_skip;
        settings.check
            && settings.selects_kernel(&kernel.name, &kernel.name)
            && number > after
            && (settings.launch_count == 0 || number <= after.saturating_add(settings.launch_count))
    }

    /// Launches a kernel and enqueues the look at what it can reach.
    fn watched(
        &self,
        queue: cl_command_queue,
        (count, list): List,
        event: *mut cl_event,
        launch: Launch,
        (mut looks, uses): (Vec<Look>, Vec<Use>),
        enqueue: &dyn Fn(List, *mut cl_event) -> cl_int,
    ) -> cl_int {
        // For the finding: later the kernel may be gone.
        launch.kernel.names();
        let mut before: Vec<cl_event> = Vec::new();
        if !list.is_null() {
            // SAFETY: the program's list.
            before.extend(unsafe { std::slice::from_raw_parts(list, count as usize) });
        }
        let given = before.len();
        let looks_behind = self.looks_behind(&before);
        before.extend(looks_behind.events());
        let gated = self.is_gated(&before[..given]);
        let in_turn = looks.iter().any(|look| look.shadow().is_some()) || !uses.is_empty();
        let _turn = in_turn.then(|| self.turn.lock());
        // A launch in another queue that waits for the program must not be
        // waited for: the program may wait for this one.
        let mut bare = Vec::new();
        let loose = in_turn && self.is_out_of_order(queue);
        looks.retain(|look| {
            let blocked = look
                .shadow()
                .is_some_and(|shadow| shadow.is_gated(queue, loose));
            if blocked {
                bare.push(look.describe(
                    &launch.kernel,
                    "a launch that waits for the program has its copy",
                ));
            }
            !blocked
        });
        self.reporter.bare(&launch.kernel.name, &bare);
        let mut own = Vec::new();
        let entered = enter(queue, &launch.kernel, &mut looks, &before, &mut own);
        if let Err(code) = staged::enter(queue, &uses, Some(&launch.kernel), &before, &mut own) {
            // Without the content of the image the kernel must not run.
            for look in &looks {
                look.leave(&launch.kernel);
            }
            return code;
        }
        before.extend(own.iter().filter_map(|events| events.last()));
        // An empty list of the program's, or one that it got wrong, is passed
        // on as it is.
        let list = if before.len() == given {
            (count, list)
        } else {
            wait_list(&before)
        };
        let mut done = std::ptr::null_mut();
        let code = enqueue(list, &raw mut done);
        for look in &looks {
            look.leave(&launch.kernel);
        }
        for one in &uses {
            one.take_back(&launch.kernel);
        }
        if code != CL_SUCCESS {
            return code;
        }
        let name = launch.kernel.name.clone();
        let shadows: Vec<Arc<Shadow>> = looks.iter().filter_map(Look::shadow).collect();
        if let Err(code) = entered {
            self.failed(&name, code);
        }
        let doer = Doer::Kernel(launch);
        match self.behind(queue, (done, event), (doer, gated), (looks, uses), own) {
            Ok(Some(check)) => {
                if let Some(last) = check.last() {
                    for shadow in &shadows {
                        shadow.used_until(last, queue, gated);
                    }
                }
                if !shadows.is_empty() {
                    // A launch in another queue may have to wait for it.
                    call!(clFlush(queue));
                }
            }
            Ok(None) => {}
            Err(code) => self.failed(&name, code),
        }
        CL_SUCCESS
    }

    fn failed(&self, kernel: &str, code: cl_int) {
        self.reporter.unchecked(kernel, UncheckedReason::Failed);
        self.reporter.error(&format!(
            "canaries could not be written or read (code {code}); launches of kernel {kernel} are not all checked"
        ));
    }

    /// Whether commands of a queue may run in another order than they came.
    pub fn is_out_of_order(&self, queue: cl_command_queue) -> bool {
        let properties: Option<u64> = ask!(one, clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES));
        // What is not known is waited for.
        properties.is_none_or(|bits| bits & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE != 0)
    }
}

/// Makes ready what a kernel can reach. `own` gets the events that the kernel
/// must wait for.
///
/// # Errors
///
/// The platform's code. Then all arguments are the program's, and nothing is
/// to be looked at.
fn enter(
    queue: cl_command_queue,
    kernel: &Kernel,
    looks: &mut Vec<Look>,
    before: &[cl_event],
    own: &mut Vec<Arc<Chain>>,
) -> Result<(), cl_int> {
    for at in 0..looks.len() {
        match looks[at].enter(queue, kernel, before) {
            Ok(event) => own.extend(event),
            Err(code) => {
                for look in &looks[..at] {
                    look.leave(kernel);
                }
                looks.clear();
                return Err(code);
            }
        }
    }
    Ok(())
}
