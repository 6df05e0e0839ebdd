//! The look at canaries after a kernel, by the host.
//!
//! Behind the kernel two commands for each block are enqueued: a read of both
//! canaries, and a write of them as they must be, so that the next kernel
//! answers for itself. Nobody waits: when the last of them is complete, the
//! platform calls back, and what was read is compared. The program's own
//! events stay what they are.

use crate::arguments::Kernel;
use crate::buffers::{Buffer, Place};
use crate::layer::{self, Layer};
use crate::shadows::{self, Copied, Shadow};
use crate::sys::*;
use crate::table::call;
use crate::waits::wait_list;
use heap::canary::{Damage, Side};
use heap::image_canary::PixelDamage;
use host::Stack;
use model::UncheckedReason;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A launch that is looked at.
pub struct Launch {
    pub kernel: Arc<Kernel>,
    /// From 1.
    pub number: u64,
    pub stack: Stack,
}

/// Whose doing a look shows.
pub enum Doer {
    /// A kernel's.
    Kernel(Launch),
    /// The host's, through memory that was mapped until this call.
    Host {
        function: &'static str,
        stack: Stack,
    },
}

impl Doer {
    fn kernel(&self) -> Option<&str> {
        match self {
            Doer::Kernel(launch) => Some(&launch.kernel.name),
            Doer::Host { .. } => None,
        }
    }
}

/// Memory to look at, and where its canaries are read to.
pub struct Look {
    pub buffer: Arc<Buffer>,
    /// The argument through which the kernel reaches it.
    pub argument: Option<u32>,
    /// The copy that the kernel gets in its place, as these arguments.
    shadow: Option<Arc<Shadow>>,
    pub indices: Vec<u32>,
    bytes: Box<[u8]>,
}

impl Look {
    /// A look at an object's own canaries.
    pub fn new(buffer: Arc<Buffer>, argument: Option<u32>) -> Look {
        let bytes = match &buffer.place {
            Place::Block(block) => block.canary_bytes(),
            _ => 0,
        };
        Look {
            buffer,
            argument,
            shadow: None,
            indices: Vec::new(),
            bytes: vec![0; bytes].into_boxed_slice(),
        }
    }

    /// A look at the canaries of a copy.
    pub fn through(buffer: Arc<Buffer>, index: u32, shadow: Arc<Shadow>) -> Look {
        Look {
            buffer,
            argument: Some(index),
            bytes: vec![0; shadow.canary_bytes()].into_boxed_slice(),
            shadow: Some(shadow),
            indices: vec![index],
        }
    }

    pub fn is_of(&self, buffer: &Arc<Buffer>) -> bool {
        Arc::ptr_eq(&self.buffer, buffer)
    }

    /// The copy, if there is one.
    pub fn shadow(&self) -> Option<Arc<Shadow>> {
        self.shadow.clone()
    }

    /// Makes it ready for a kernel that waits for the events `after`. What
    /// the kernel must also wait for is returned, to be released.
    ///
    /// # Errors
    ///
    /// The platform's code.
    pub fn enter(
        &self,
        queue: cl_command_queue,
        kernel: &Kernel,
        after: &[cl_event],
    ) -> Result<Option<cl_event>, cl_int> {
        match (&self.shadow, &self.buffer.place) {
            (Some(shadow), _) => shadow
                .enter(queue, &self.buffer, (kernel, &self.indices), after)
                .map(Some),
            (None, Place::Block(block)) => block.prepare(queue),
            (None, _) => Ok(None),
        }
    }

    /// Gives the kernel its own arguments again.
    pub fn leave(&self, kernel: &Kernel) {
        if self.shadow.is_some() {
            shadows::leave(&self.buffer, kernel, &self.indices);
        }
    }

    /// What the canaries, once read, show.
    fn damages(&self) -> Vec<Damaged> {
        let block = match (&self.shadow, &self.buffer.place) {
            (Some(shadow), _) => match &shadow.copy {
                Copied::Buffer { block, .. } => block,
                Copied::Image(larger, _) => {
                    let damage = larger.grown.verify(&larger.key, &self.bytes);
                    return damage.map(Damaged::Pixels).into_iter().collect();
                }
            },
            (None, Place::Block(block)) => block,
            (None, _) => return Vec::new(),
        };
        let (before, after) = self.bytes.split_at(self.bytes.len() / 2);
        [(Side::Before, before), (Side::After, after)]
            .into_iter()
            .filter_map(|(side, bytes)| block.layout.verify(&block.key, side, bytes))
            .map(Damaged::Bytes)
            .collect()
    }
}

/// What a look shows.
pub enum Damaged {
    /// Beside a buffer.
    Bytes(Damage),
    /// Past the edges of an image.
    Pixels(PixelDamage),
}

/// All looks after one launch.
pub struct Job {
    number: u64,
    doer: Doer,
    looks: Vec<Look>,
}

impl Job {
    /// Enqueues the looks behind `done`. Returns the event that is complete
    /// when all were made, which must be released, and the job's number.
    pub fn start(
        layer: &Layer,
        queue: cl_command_queue,
        done: cl_event,
        doer: Doer,
        looks: Vec<Look>,
    ) -> Result<(cl_event, u64), cl_int> {
        let loose = layer.is_out_of_order(queue);
        let mut job = Box::new(Job {
            number: layer.jobs.begin(queue as usize, doer.kernel()),
            doer,
            looks,
        });
        let mut events = Vec::new();
        let result = job.enqueue(queue, loose, done, &mut events);
        let last = match result {
            Ok(last) => last,
            Err(code) => {
                layer.jobs.end(job.number);
                if !events.is_empty() {
                    // Some reads may still be on their way into it.
                    Box::leak(job);
                }
                release(&events);
                return Err(code);
            }
        };
        release(&events);
        let number = job.number;
        let data = Box::into_raw(job).cast::<c_void>();
        let complete = CL_COMPLETE as cl_int;
        match call!(clSetEventCallback(last, complete, Some(looked), data)) {
            CL_SUCCESS => Ok((last, number)),
            code => {
                // It is never called: the bytes stay where they are, because
                // reads are on their way into them.
                layer.jobs.end(number);
                call!(clReleaseEvent(last));
                Err(code)
            }
        }
    }

    /// Enqueues reads and writes, and returns the event of the last; `events`
    /// gets the others.
    fn enqueue(
        &mut self,
        queue: cl_command_queue,
        loose: bool,
        done: cl_event,
        events: &mut Vec<cl_event>,
    ) -> Result<cl_event, cl_int> {
        let ok = |code| {
            if code == CL_SUCCESS {
                Ok(())
            } else {
                Err(code)
            }
        };
        let mut writes = Vec::new();
        for look in &mut self.looks {
            let mut put = |event: cl_event, events: &mut Vec<cl_event>| {
                events.push(event);
                writes.push(event);
            };
            let (mut read, mut write) = (std::ptr::null_mut(), std::ptr::null_mut());
            let after: &[cl_event] = if loose { &[done] } else { &[] };
            let own = match &look.buffer.place {
                Place::Block(block) => Some(block),
                _ => None,
            };
            let code = match (&look.shadow, own) {
                (Some(shadow), _) => shadow.read(queue, &mut look.bytes, after, &mut read),
                (None, Some(block)) => block.read(queue, &mut look.bytes, after, &mut read),
                (None, None) => continue,
            };
            ok(code)?;
            events.push(read);
            if let Some(shadow) = &look.shadow {
                let mut back = std::ptr::null_mut();
                ok(shadow.bring_back(queue, &look.buffer, after, &mut back))?;
                put(back, events);
            }
            let after: &[cl_event] = if loose { &[read] } else { &[] };
            let code = match (&look.shadow, own) {
                (Some(shadow), _) => shadow.restore(queue, after, &mut write),
                (None, Some(block)) => block.restore(queue, after, &mut write),
                (None, None) => continue,
            };
            ok(code)?;
            put(write, events);
        }
        if loose && writes.len() > 1 {
            let (count, list) = wait_list(&writes);
            let mut marker = std::ptr::null_mut();
            ok(call!(clEnqueueMarkerWithWaitList(
                queue,
                count,
                list,
                &raw mut marker
            )))?;
            return Ok(marker);
        }
        let last = writes.last().copied().ok_or(CL_INVALID_VALUE)?;
        events.retain(|event| *event != last);
        Ok(last)
    }

    fn conclude(&self, status: cl_int) {
        let Some(layer) = layer::get() else { return };
        if status < 0 {
            if let Some(kernel) = self.doer.kernel() {
                let reason = UncheckedReason::Unfinished;
                layer.reporter.unchecked(kernel, reason);
            }
        } else {
            if let Some(kernel) = self.doer.kernel() {
                layer.reporter.checked(kernel);
            }
            for look in &self.looks {
                for damage in look.damages() {
                    layer.reporter.damage(layer, &self.doer, look, &damage);
                }
            }
        }
        for look in &self.looks {
            if let Place::Block(block) = &look.buffer.place {
                block.settle();
            }
        }
        layer.jobs.end(self.number);
    }
}

fn release(events: &[cl_event]) {
    for event in events {
        call!(clReleaseEvent(*event));
    }
}

/// Called by the platform, on a thread of its own: no call of OpenCL here but
/// releases.
unsafe extern "C" fn looked(_event: cl_event, status: cl_int, data: *mut c_void) {
    // SAFETY: the job that was given with this function, which is called once.
    let job = unsafe { Box::from_raw(data.cast::<Job>()) };
    job.conclude(status);
}

/// Jobs that are under way.
#[derive(Default)]
pub struct Jobs {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    last: u64,
    /// By number: queue, and name of the kernel, if it is about one.
    pending: BTreeMap<u64, (usize, Option<String>)>,
}

/// How long a platform may take to call back after it said that all is done.
pub const PATIENCE: Duration = Duration::from_secs(10);

impl Jobs {
    fn begin(&self, queue: usize, kernel: Option<&str>) -> u64 {
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        state
            .pending
            .insert(number, (queue, kernel.map(str::to_owned)));
        number
    }

    fn end(&self, number: u64) {
        self.state.lock().pending.remove(&number);
        self.ended.notify_all();
    }

    /// Waits until what was begun so far and is meant by `which` has ended.
    pub fn wait(&self, patience: Duration, which: impl Fn(u64, usize) -> bool) {
        let deadline = Instant::now() + patience;
        let mut state = self.state.lock();
        let last = state.last;
        let open = |state: &State| {
            let mut so_far = state.pending.range(..=last);
            so_far.any(|(number, (queue, _))| which(*number, *queue))
        };
        while open(&state) {
            if self.ended.wait_until(&mut state, deadline).timed_out() {
                return;
            }
        }
    }

    /// The kernel of each look that has not ended.
    pub fn unfinished(&self) -> Vec<String> {
        let state = self.state.lock();
        let names = state.pending.values().filter_map(|(_, name)| name.clone());
        names.collect()
    }
}
