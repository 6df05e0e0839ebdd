//! Builds of programs, with the one option that makes platforms keep the names
//! and kinds of kernels' arguments. A query of the options returns those of the
//! program.

use crate::api::answer::answer;
use crate::api::session;
use crate::platform::ask::ask;
use crate::platform::call;
use crate::sys::*;
use std::ffi::{CStr, CString, c_char, c_void};

const OPTION: &str = "-cl-kernel-arg-info";

/// The options with Ringfence's; `None`: nothing is added.
fn options_with(options: *const c_char) -> Option<CString> {
    let given = if options.is_null() {
        c""
    } else {
        // SAFETY: the program's text.
        unsafe { CStr::from_ptr(options) }
    };
    let mut bytes = given.to_bytes().to_vec();
    if bytes
        .windows(OPTION.len())
        .any(|part| part == OPTION.as_bytes())
    {
        return None;
    }
    bytes.push(b' ');
    bytes.extend(OPTION.as_bytes());
    CString::new(bytes).ok()
}

type Notify = Option<unsafe extern "C" fn(cl_program, *mut c_void)>;

/// Builds with this option, and without it if that fails: some platforms do not
/// support it, and NVIDIA's (driver 580) fails with it on kernels that have no
/// arguments.
///
/// The program must be notified only of the build that counts, so this function
/// waits for the first one.
fn build(
    program: cl_program,
    options: *const c_char,
    (notify, data): (Notify, *mut c_void),
    build: impl Fn(*const c_char, Notify, *mut c_void) -> cl_int,
) -> cl_int {
    let Some(session) = session::get() else {
        return build(options, notify, data);
    };
    let objects = &session.objects;
    let Some(with) = options_with(options) else {
        objects.set_altered(program, false);
        return build(options, notify, data);
    };
    objects.set_altered(program, true);
    if build(with.as_ptr(), None, std::ptr::null_mut()) != CL_SUCCESS {
        objects.set_altered(program, false);
        return build(options, notify, data);
    }
    if let Some(notify) = notify {
        // SAFETY: the program requested this call, with its own data.
        unsafe { notify(program, data) };
    }
    CL_SUCCESS
}

pub unsafe extern "C" fn build_program(
    program: cl_program,
    count: cl_uint,
    devices: *const cl_device_id,
    options: *const c_char,
    notify: Notify,
    data: *mut c_void,
) -> cl_int {
    build(program, options, (notify, data), |options, notify, data| {
        call!(clBuildProgram(
            program, count, devices, options, notify, data
        ))
    })
}

pub unsafe extern "C" fn compile_program(
    program: cl_program,
    count: cl_uint,
    devices: *const cl_device_id,
    options: *const c_char,
    headers: cl_uint,
    list: *const cl_program,
    names: *mut *const c_char,
    notify: Notify,
    data: *mut c_void,
) -> cl_int {
    build(program, options, (notify, data), |options, notify, data| {
        call!(clCompileProgram(
            program, count, devices, options, headers, list, names, notify, data
        ))
    })
}

pub unsafe extern "C" fn build_info(
    program: cl_program,
    device: cl_device_id,
    name: cl_program_build_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    if name == CL_PROGRAM_BUILD_OPTIONS
        && session::get().is_some_and(|session| session.objects.is_altered(program))
    {
        let answered = ask!(text, clGetProgramBuildInfo(program, device, name));
        // Some platforms tidy the text up.
        let own = answered
            .as_deref()
            .and_then(|answered| answered.trim_end().strip_suffix(OPTION));
        if let Some(own) = own {
            let own = [own.trim_end().as_bytes(), b"\0"].concat();
            // SAFETY: what a program passes to clGetProgramBuildInfo.
            return unsafe { answer(&own, size, value, size_ret) };
        }
    }
    call!(clGetProgramBuildInfo(
        program, device, name, size, value, size_ret
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_added_once() {
        let with = |options: &CStr| options_with(options.as_ptr());
        assert_eq!(with(c"-w").as_deref(), Some(c"-w -cl-kernel-arg-info"));
        assert_eq!(with(c"-cl-kernel-arg-info -w"), None);
        let none = options_with(std::ptr::null());
        assert_eq!(none.as_deref(), Some(c" -cl-kernel-arg-info"));
    }
}
