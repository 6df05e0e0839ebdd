//! Launches: what a kernel can reach gets its canaries before it, and is
//! looked at after it.

use crate::arguments::{Argument, Kernel};
use crate::buffers::{Buffer, Place, wait_list};
use crate::check::{Job, Launch, Look};
use crate::layer::{self, Layer};
use crate::queries;
use crate::sys::*;
use crate::table::call;
use crate::waits::{List, with_looks};
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

/// What a launch can reach.
struct Reach {
    looks: Vec<Look>,
    /// Arguments whose memory has no canaries, each with the reason.
    bare: Vec<String>,
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
    if reach.looks.is_empty() {
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
    layer.watched(queue, list, event, launch, reach.looks, enqueue)
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

    /// What the kernel's arguments lead to, each block once.
    fn reach(&self, kernel: &Kernel) -> Reach {
        let arguments = kernel.arguments.lock().clone();
        let mut reach = Reach {
            looks: Vec::new(),
            bare: Vec::new(),
        };
        let mut shared = kernel.reaches_shared();
        for (index, argument) in (0u32..).zip(arguments) {
            let buffer = match argument {
                Argument::Memory(handle) => self.buffer(handle),
                Argument::Shared(address) => {
                    shared = true;
                    self.svm_at(address)
                }
                Argument::Other => None,
            };
            let Some(mut buffer) = buffer else { continue };
            if let Place::Part { parent, .. } = &buffer.place {
                buffer = parent.clone();
            }
            match &buffer.place {
                Place::Block(_) => reach.add(buffer, Some(index)),
                Place::Bare(why) => {
                    let name = kernel.names().get(index as usize).cloned().flatten();
                    let name = name.unwrap_or_else(|| index.to_string());
                    reach.bare.push(format!("argument {name}: {why}"));
                }
                Place::Part { .. } => {}
            }
        }
        if shared {
            for buffer in self.svm_of(kernel.context) {
                reach.add(buffer, None);
            }
        }
        reach
    }

    /// Launches a kernel and enqueues the look at what it can reach.
    fn watched(
        &self,
        queue: cl_command_queue,
        (count, list): List,
        event: *mut cl_event,
        launch: Launch,
        looks: Vec<Look>,
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
        for look in &looks {
            match look.block().map_or(Ok(None), |block| block.prepare(queue)) {
                Ok(ready) => before.extend(ready),
                Err(code) => {
                    let code_of = enqueue((count, list), event);
                    if code_of == CL_SUCCESS {
                        self.failed(&launch, "canaries could not be written", code);
                    }
                    return code_of;
                }
            }
        }
        let looks_behind = self.looks_behind(&before[..given]);
        before.extend(looks_behind);
        // An empty list of the program's, or one that it got wrong, is passed
        // on as it is.
        let list = if before.len() == given {
            (count, list)
        } else {
            wait_list(&before)
        };
        let mut done = std::ptr::null_mut();
        let code = enqueue(list, &raw mut done);
        if code != CL_SUCCESS {
            return code;
        }
        let name = launch.kernel.name.clone();
        let started = Job::start(self, queue, done, launch, looks);
        match started {
            Ok((check, job)) if !event.is_null() => self.watch(done, check, job),
            Ok((check, _)) => drop(call!(clReleaseEvent(check))),
            Err(code) => self.report_failure(&name, "canaries could not be read", code),
        }
        if event.is_null() {
            call!(clReleaseEvent(done));
        } else {
            // SAFETY: the program's place for the event.
            unsafe { *event = done };
        }
        CL_SUCCESS
    }

    fn failed(&self, launch: &Launch, what: &str, code: cl_int) {
        self.report_failure(&launch.kernel.name, what, code);
    }

    fn report_failure(&self, kernel: &str, what: &str, code: cl_int) {
        self.reporter.unchecked(kernel, UncheckedReason::Failed);
        self.reporter.error(&format!(
            "{what} (code {code}); launches of kernel {kernel} are not all checked"
        ));
    }

    /// Whether commands of a queue may run in another order than they came.
    pub fn is_out_of_order(&self, queue: cl_command_queue) -> bool {
        let properties: Option<u64> = queries::one(|size, value, needed| {
            call!(clGetCommandQueueInfo(
                queue,
                CL_QUEUE_PROPERTIES,
                size,
                value,
                needed
            ))
        });
        // What is not known is waited for.
        properties.is_none_or(|bits| bits & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE != 0)
    }
}

impl Reach {
    /// Each block once, through the first argument that leads there.
    fn add(&mut self, buffer: Arc<Buffer>, argument: Option<u32>) {
        let same = |look: &Look| Arc::ptr_eq(&look.buffer, &buffer);
        if !self.looks.iter().any(same) {
            self.looks.push(Look::new(buffer, argument));
        }
    }
}

impl Look {
    fn new(buffer: Arc<Buffer>, argument: Option<u32>) -> Look {
        let bytes = match &buffer.place {
            Place::Block(block) => vec![0; block.canary_bytes()].into_boxed_slice(),
            Place::Part { .. } | Place::Bare(_) => Box::default(),
        };
        Look {
            buffer,
            argument,
            bytes,
        }
    }
}
