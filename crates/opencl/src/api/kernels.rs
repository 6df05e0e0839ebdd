//! Kernels of the program's, and their arguments.

use crate::api::session::{self, Session};
use crate::objects::kernel::{Argument, Kernel};
use crate::platform::call;
use crate::sys::*;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// Registers a kernel that the program has just made.
fn made(session: &Session, kernel: cl_kernel, arguments: Vec<Argument>) -> Option<Arc<Kernel>> {
    if kernel.is_null() {
        return None;
    }
    let known = Arc::new(Kernel::of(kernel, arguments));
    session.objects.add_kernel(known.clone());
    Some(known)
}

fn known(kernel: cl_kernel) -> Option<(&'static Session, Arc<Kernel>)> {
    let session = session::get()?;
    Some((session, session.objects.kernel(kernel)?))
}

pub unsafe extern "C" fn create_kernel(
    program: cl_program,
    name: *const c_char,
    code: *mut cl_int,
) -> cl_kernel {
    let kernel = call!(clCreateKernel(program, name, code) else std::ptr::null_mut());
    if let Some(session) = session::get() {
        made(session, kernel, Vec::new());
    }
    kernel
}

pub unsafe extern "C" fn create_kernels(
    program: cl_program,
    count: cl_uint,
    kernels: *mut cl_kernel,
    count_ret: *mut cl_uint,
) -> cl_int {
    let mut number = 0;
    let code = call!(clCreateKernelsInProgram(
        program,
        count,
        kernels,
        &raw mut number
    ));
    if !count_ret.is_null() {
        // SAFETY: the program's place for the number.
        unsafe { *count_ret = number };
    }
    if code == CL_SUCCESS
        && !kernels.is_null()
        && let Some(session) = session::get()
    {
        for index in 0..number.min(count) as usize {
            // SAFETY: the platform wrote this many handles there.
            made(session, unsafe { *kernels.add(index) }, Vec::new());
        }
    }
    code
}

pub unsafe extern "C" fn clone_kernel(source: cl_kernel, code: *mut cl_int) -> cl_kernel {
    let kernel = call!(clCloneKernel(source, code) else std::ptr::null_mut());
    if let Some(session) = session::get() {
        let known = session.objects.kernel(source);
        let arguments = known.as_ref().map(|known| known.arguments());
        let made = made(session, kernel, arguments.unwrap_or_default());
        if let (Some(known), Some(made)) = (known, made) {
            made.set_reaches_shared(known.reaches_shared());
        }
    }
    kernel
}

pub unsafe extern "C" fn set(
    kernel: cl_kernel,
    index: cl_uint,
    size: usize,
    value: *const c_void,
) -> cl_int {
    let code = call!(clSetKernelArg(kernel, index, size, value));
    if code == CL_SUCCESS
        && let Some((session, known)) = known(kernel)
    {
        let mut argument = Argument::Other;
        if size == size_of::<cl_mem>() && !value.is_null() {
            // SAFETY: the program passes a pointer to this many bytes.
            let handle = unsafe { value.cast::<usize>().read_unaligned() };
            // A number that equals a handle by chance only costs an extra scan.
            if session.objects.buffer(handle).is_some() {
                argument = Argument::Memory(handle);
            }
        }
        known.set(index, argument);
    }
    code
}

pub unsafe extern "C" fn set_shared(
    kernel: cl_kernel,
    index: cl_uint,
    pointer: *const c_void,
) -> cl_int {
    let code = call!(clSetKernelArgSVMPointer(kernel, index, pointer));
    if code == CL_SUCCESS
        && let Some((_, known)) = known(kernel)
    {
        known.set(index, Argument::Shared(pointer as usize));
    }
    code
}

pub unsafe extern "C" fn set_exec_info(
    kernel: cl_kernel,
    name: cl_kernel_exec_info,
    size: usize,
    value: *const c_void,
) -> cl_int {
    let code = call!(clSetKernelExecInfo(kernel, name, size, value));
    let tells_pointers = name == CL_KERNEL_EXEC_INFO_SVM_PTRS && size > 0;
    if code == CL_SUCCESS
        && tells_pointers
        && let Some((_, known)) = known(kernel)
    {
        known.set_reaches_shared(true);
    }
    code
}
