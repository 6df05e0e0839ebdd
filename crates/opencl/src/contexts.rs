//! Contexts: how memory must be aligned there, what of Ringfence's own lies in
//! them, and the sign that the program uses OpenCL at all.
//!
//! What is ours keeps a context alive, so it goes when the program gives its
//! last reference back, even if objects of the program's live on in it.

use crate::layer::{self, Layer};
use crate::queries::ask;
use crate::sys::*;
use crate::table::call;
use parking_lot::Mutex;
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

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
}

/// What is ours in a context.
#[derive(Default)]
struct Own {
    /// A queue for what no queue of the program's is at hand for.
    queue: Option<usize>,
}

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

fn known(context: cl_context) -> Option<Arc<Context>> {
    layer::get()?
        .contexts
        .lock()
        .get(&(context as usize))
        .cloned()
}

impl Context {
    fn is_open(&self) -> bool {
        self.users.load(Ordering::Relaxed) > 0
    }

    /// Gives back all that is ours.
    fn close(&self) {
        let own = std::mem::take(&mut *self.own.lock());
        if let Some(queue) = own.queue {
            call!(clReleaseCommandQueue(queue as cl_command_queue));
        }
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
