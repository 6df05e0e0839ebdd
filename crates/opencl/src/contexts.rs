//! Contexts: how memory must be aligned there, what of Ringfence's own lies in
//! them, and the sign that the program uses OpenCL at all.
//!
//! What is ours keeps a context alive, so it goes when the program gives its
//! last reference back, even if objects of the program's live on in it.

use crate::blocks::enclosed;
use crate::buffers::{Buffer, Place};
use crate::device::Checker;
use crate::flags;
use crate::layer::{self, Layer};
use crate::queries::{self, ask};
use crate::report::Reporter;
use crate::shadows::Copied;
use crate::sys::*;
use crate::table::call;
use heap::canary::Layout;
use heap::choice::{self, Choice, Class, Rent};
use model::{CanaryChecker, Note};
use parking_lot::Mutex;
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What is known of a context.
pub struct Context {
    handle: usize,
    devices: Vec<usize>,
    /// Bytes that every sub-buffer's start must be a multiple of, on every
    /// device.
    pub alignment: u64,
    /// References that the program holds.
    users: AtomicU32,
    own: Mutex<Own>,
    choice: Mutex<Choice>,
    rent: Mutex<Rent>,
    pub known_flags: flags::Known,
}

/// What is ours in a context.
#[derive(Default)]
struct Own {
    /// A queue for what no queue of the program's is at hand for.
    queue: Option<usize>,
    verifier: Verifier,
}

/// The device's checker of a context.
#[derive(Default)]
enum Verifier {
    /// Not built, and not wanted so far.
    #[default]
    None,
    /// To be built by the next launch that could use it.
    Wanted,
    Built(Arc<Checker>),
    /// It could not be built, does not work, or is just being built.
    Missing,
}

/// What looks by the host may cost before the device's checker is built:
/// about what building it costs, in nanoseconds.
const PRICE: u64 = 200_000_000;

/// What a platform tells a program about errors.
type Notify = Option<unsafe extern "C" fn(*const c_char, *const c_void, usize, *mut c_void)>;

pub unsafe extern "C" fn create(
    properties: *const cl_context_properties,
    count: cl_uint,
    devices: *const cl_device_id,
    notify: Notify,
    data: *mut c_void,
    code: *mut cl_int,
) -> cl_context {
    let context = call!(clCreateContext(properties, count, devices, notify, data, code)
        else std::ptr::null_mut());
    created(context);
    context
}

pub unsafe extern "C" fn create_from_type(
    properties: *const cl_context_properties,
    kind: cl_device_type,
    notify: Notify,
    data: *mut c_void,
    code: *mut cl_int,
) -> cl_context {
    let context = call!(clCreateContextFromType(properties, kind, notify, data, code)
        else std::ptr::null_mut());
    created(context);
    context
}

/// A handle may be that of a context that is gone: what was known of it is
/// replaced.
fn created(context: cl_context) {
    let Some(layer) = layer::get().filter(|_| !context.is_null()) else {
        return;
    };
    let devices = devices(context);
    layer.reporter.open(&devices);
    let known = Arc::new(look_at(context, &devices));
    layer.contexts.lock().insert(context as usize, known);
}

fn devices(context: cl_context) -> Vec<cl_device_id> {
    ask!(list, clGetContextInfo(context, CL_CONTEXT_DEVICES))
}

fn look_at(context: cl_context, devices: &[cl_device_id]) -> Context {
    let alignments = devices.iter().map(|device| {
        let bits: Option<cl_uint> =
            ask!(one, clGetDeviceInfo(*device, CL_DEVICE_MEM_BASE_ADDR_ALIGN));
        // The least that a full profile may have is the size of long16.
        u64::from(bits.unwrap_or(1024) / 8).max(128)
    });
    Context {
        handle: context as usize,
        devices: devices.iter().map(|device| *device as usize).collect(),
        users: AtomicU32::new(1),
        own: Mutex::default(),
        choice: Mutex::default(),
        rent: Mutex::new(Rent::of(PRICE)),
        known_flags: flags::Known::default(),
        // Powers of two: the largest is a multiple of all.
        alignment: alignments.max().unwrap_or(128).next_power_of_two(),
    }
}

pub unsafe extern "C" fn retain(context: cl_context) -> cl_int {
    let code = call!(clRetainContext(context));
    if code == CL_SUCCESS
        && let Some(known) = known(context)
    {
        known.users.fetch_add(1, Ordering::Relaxed);
    }
    code
}

pub unsafe extern "C" fn release(context: cl_context) -> cl_int {
    if let Some(known) = known(context) {
        let before = known.users.load(Ordering::Relaxed);
        if before > 0 && known.users.fetch_sub(1, Ordering::Relaxed) == 1 {
            known.close();
        }
    }
    call!(clReleaseContext(context))
}

/// Gives back what keeps queues of a context that the program has released.
fn forget(context: cl_context) {
    if let Some(known) = known(context) {
        let own = known.own.lock();
        if let Verifier::Built(checker) = &own.verifier {
            let checker = checker.clone();
            drop(own);
            checker.forget();
        }
    }
}

fn context_of_queue(queue: cl_command_queue) -> Option<cl_context> {
    ask!(one, clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT))
}

pub unsafe extern "C" fn release_queue(queue: cl_command_queue) -> cl_int {
    let context = layer::get().and_then(|_| context_of_queue(queue));
    let code = call!(clReleaseCommandQueue(queue));
    if let Some(context) = context.filter(|_| code == CL_SUCCESS) {
        forget(context);
    }
    code
}

pub unsafe extern "C" fn queue_info(
    queue: cl_command_queue,
    name: cl_command_queue_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    if name == CL_QUEUE_REFERENCE_COUNT
        && let Some(context) = layer::get().and_then(|_| context_of_queue(queue))
    {
        forget(context);
    }
    call!(clGetCommandQueueInfo(queue, name, size, value, size_ret))
}

/// References to a context are counted without those of what is ours in it.
pub unsafe extern "C" fn info(
    context: cl_context,
    name: cl_context_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    if name == CL_CONTEXT_REFERENCE_COUNT {
        forget(context);
    }
    if name == CL_CONTEXT_REFERENCE_COUNT
        && let Some(layer) = layer::get()
        && let Some(known) = known(context)
        && let Some(count) = references(context)
    {
        let ours = known.references(layer).unwrap_or(0);
        let count = count.saturating_sub(ours).max(1);
        // SAFETY: what a program passes to clGetContextInfo.
        return unsafe { queries::answer(&count.to_ne_bytes(), size, value, size_ret) };
    }
    call!(clGetContextInfo(context, name, size, value, size_ret))
}

fn references(context: cl_context) -> Option<u32> {
    ask!(one, clGetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT))
}

fn known(context: cl_context) -> Option<Arc<Context>> {
    layer::get()?
        .contexts
        .lock()
        .get(&(context as usize))
        .cloned()
}

impl Context {
    pub fn context(&self) -> cl_context {
        self.handle as cl_context
    }

    fn is_open(&self) -> bool {
        self.users.load(Ordering::Relaxed) > 0
    }

    /// Gives back all that is ours.
    fn close(&self) {
        let own = std::mem::take(&mut *self.own.lock());
        // Jobs that are under way hold on to the checker.
        if let Some(queue) = own.queue {
            call!(clReleaseCommandQueue(queue as cl_command_queue));
        }
    }

    /// References that what is ours adds to those of the context. Platforms
    /// differ in what they count, so it is tried: with a buffer, a part of it,
    /// and a queue.
    fn references(&self, layer: &Layer) -> Option<u32> {
        let context = self.handle as cl_context;
        let layout = Layout::around(64, 16, self.alignment)?;
        let before = references(context)?;
        let tried = enclosed(context, CL_MEM_READ_WRITE, &layout)?;
        let both = references(context)?.saturating_sub(before);
        call!(clRetainMemObject(tried.block as cl_mem));
        call!(clReleaseMemObject(tried.part));
        let buffer = references(context)?.saturating_sub(before);
        call!(clReleaseMemObject(tried.block as cl_mem));
        let queue = self.make_queue()?;
        let with_queue = references(context)?.saturating_sub(before);
        call!(clReleaseCommandQueue(queue));

        let mut ours = 0;
        let all: Vec<Arc<Buffer>> = layer.buffers.lock().values().cloned().collect();
        for known in all {
            if known.context != self.handle {
                continue;
            }
            if let Place::Block(_) = known.place {
                // Without Ringfence it were a buffer.
                ours += both - buffer;
            }
            if known.staged.lock().is_some() {
                ours += buffer;
            }
            if let Some(shadow) = &*known.shadow.lock() {
                ours += match &shadow.copy {
                    Copied::Buffer { .. } => both,
                    Copied::Image(larger) => buffer * larger.objects(),
                };
            }
        }
        let own = self.own.lock();
        if own.queue.is_some() {
            ours += with_queue;
        }
        if let Verifier::Built(checker) = &own.verifier {
            ours += checker.references + buffer * checker.buffers();
        }
        Some(ours)
    }

    /// Calls `work` with a queue of ours, in order, on the first device.
    /// `None`: there is none.
    pub fn with_queue<T>(&self, work: impl FnOnce(cl_command_queue) -> T) -> Option<T> {
        let taken = self.own.lock().queue.take();
        let queue = match taken {
            Some(queue) => queue as cl_command_queue,
            None => self.make_queue()?,
        };
        let result = work(queue);
        let mut own = self.own.lock();
        // One thread at a time has it; of two, one is kept.
        if own.queue.is_none() && self.is_open() {
            own.queue = Some(queue as usize);
        } else {
            drop(own);
            call!(clReleaseCommandQueue(queue));
        }
        Some(result)
    }

    fn make_queue(&self) -> Option<cl_command_queue> {
        let device = *self.devices.first()? as cl_device_id;
        let context = self.handle as cl_context;
        let mut code = CL_SUCCESS;
        let queue = call!(clCreateCommandQueue(context, device, 0, &raw mut code)
            else std::ptr::null_mut());
        (code == CL_SUCCESS && !queue.is_null()).then_some(queue)
    }
}

impl Context {
    /// Who is to make a look of this class: the device's checker, or the host;
    /// and whether it is to be timed. `full`: the host has no memory for it.
    pub fn choose(&self, layer: &Layer, class: Class, full: bool) -> (Option<Arc<Checker>>, bool) {
        let wanted = layer.settings.canary_checker;
        if wanted == CanaryChecker::Host || !self.is_open() {
            return (None, false);
        }
        let always = wanted == CanaryChecker::Device || full;
        let (checker, build) = {
            let mut own = self.own.lock();
            match &own.verifier {
                Verifier::Built(checker) => (Some(checker.clone()), false),
                Verifier::Missing => (None, false),
                Verifier::None if !always => (None, false),
                Verifier::None | Verifier::Wanted => {
                    own.verifier = Verifier::Missing;
                    (None, true)
                }
            }
        };
        let checker = match build {
            true => self.build(&layer.reporter),
            false => checker,
        };
        let Some(checker) = checker else {
            return (None, false);
        };
        if always {
            return (Some(checker), false);
        }
        match self.choice.lock().next(class) {
            (choice::Checker::Host, timed) => (None, timed),
            (choice::Checker::Device, timed) => (Some(checker), timed),
        }
    }

    fn build(&self, reporter: &Reporter) -> Option<Arc<Checker>> {
        let context = self.handle as cl_context;
        let before = references(context);
        let built = Checker::build(context, &self.devices).map(|mut checker| {
            let after = references(context).zip(before);
            checker.references = after.map_or(0, |(after, before)| after.saturating_sub(before));
            Arc::new(checker)
        });
        match &built {
            Some(checker) => {
                let mut own = self.own.lock();
                // The program may have given the context back meanwhile.
                if self.is_open() {
                    own.verifier = Verifier::Built(checker.clone());
                }
            }
            None => reporter.note(Note::NoDeviceChecker),
        }
        built
    }

    /// The device's checker does not work.
    pub fn lose_checker(&self, reporter: &Reporter) {
        let before = std::mem::replace(&mut self.own.lock().verifier, Verifier::Missing);
        if let Verifier::Built(_) = before {
            reporter.note(Note::NoDeviceChecker);
        }
    }

    /// Counts what a look by the host has cost, and wants the device's checker
    /// once it was enough.
    pub fn spend(&self, cost: Duration) {
        let cost = u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX);
        if self.rent.lock().spend(cost) {
            let mut own = self.own.lock();
            if let Verifier::None = own.verifier {
                own.verifier = Verifier::Wanted;
            }
        }
    }

    /// Tells what a look has taken that was to be timed.
    pub fn told(&self, class: Class, checker: choice::Checker, taken: Duration) {
        let nanoseconds = u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX);
        self.choice.lock().measured(class, checker, nanoseconds);
    }
}

impl Layer {
    /// What is known of a context.
    pub fn context(&self, context: cl_context) -> Arc<Context> {
        if let Some(known) = self.contexts.lock().get(&(context as usize)) {
            return known.clone();
        }
        let known = Arc::new(look_at(context, &devices(context)));
        self.contexts.lock().insert(context as usize, known.clone());
        known
    }
}
