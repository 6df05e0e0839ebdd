//! Contexts: how memory must be aligned there, and the sign that the program
//! uses OpenCL at all.

use crate::layer::{self, Layer};
use crate::queries::ask;
use crate::sys::*;
use crate::table::call;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// What is known of a context.
pub struct Context {
    /// Bytes that every sub-buffer's start must be a multiple of, on every
    /// device.
    pub alignment: u64,
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
    let known = Arc::new(look_at(&devices));
    layer.contexts.lock().insert(context as usize, known);
}

fn devices(context: cl_context) -> Vec<cl_device_id> {
    ask!(list, clGetContextInfo(context, CL_CONTEXT_DEVICES))
}

fn look_at(devices: &[cl_device_id]) -> Context {
    let alignments = devices.iter().map(|device| {
        let bits: Option<cl_uint> =
            ask!(one, clGetDeviceInfo(*device, CL_DEVICE_MEM_BASE_ADDR_ALIGN));
        // The least that a full profile may have is the size of long16.
        u64::from(bits.unwrap_or(1024) / 8).max(128)
    });
    Context {
        // Powers of two: the largest is a multiple of all.
        alignment: alignments.max().unwrap_or(128).next_power_of_two(),
    }
}

impl Layer {
    /// What is known of a context.
    pub fn context(&self, context: cl_context) -> Arc<Context> {
        if let Some(known) = self.contexts.lock().get(&(context as usize)) {
            return known.clone();
        }
        let known = Arc::new(look_at(&devices(context)));
        self.contexts.lock().insert(context as usize, known.clone());
        known
    }
}
