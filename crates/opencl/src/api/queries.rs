//! The program's queries whose results must not reveal Ringfence.

use crate::api::answer::answer;
use crate::api::session;
use crate::objects::block::Memory;
use crate::objects::buffer::Place;
use crate::platform::ask::ask;
use crate::platform::call;
use crate::sys::*;
use std::ffi::c_void;

pub unsafe extern "C" fn mem_object_info(
    object: cl_mem,
    name: cl_mem_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    let known = session::buffer(object).map(|(_, buffer)| buffer);
    if name == CL_MEM_MAP_COUNT
        && let Some(block) = known.as_ref().and_then(|buffer| buffer.block())
        && let Memory::Buffer(whole) = block.memory
    {
        // Some platforms add the maps of a part to the count of the whole
        // buffer.
        let count = |object| {
            let count: Option<cl_uint> = ask!(one, clGetMemObjectInfo(object, CL_MEM_MAP_COUNT));
            count.unwrap_or(0)
        };
        let maps = count(object).max(count(whole as cl_mem));
        // SAFETY: what a program passes to clGetMemObjectInfo.
        return unsafe { answer(&maps.to_ne_bytes(), size, value, size_ret) };
    }
    if name == CL_MEM_PROPERTIES && known.as_ref().is_some_and(|buffer| buffer.properties) {
        // SAFETY: what a program passes to clGetMemObjectInfo.
        return unsafe { answer(&0u64.to_ne_bytes(), size, value, size_ret) };
    }
    if name == CL_MEM_USES_SVM_POINTER && known.is_some() {
        // The platform's own allocation starts before the program's.
        let host: Option<usize> = ask!(one, clGetMemObjectInfo(object, CL_MEM_HOST_PTR));
        let shared = session::get()
            .zip(host)
            .and_then(|(session, host)| Some((session.objects.svm_at(host)?, host)));
        if shared.is_some_and(|(shared, host)| shared.handle == host) {
            let yes: cl_bool = 1;
            // SAFETY: what a program passes to clGetMemObjectInfo.
            return unsafe { answer(&yes.to_ne_bytes(), size, value, size_ret) };
        }
    }
    let shown = known.and_then(|buffer| {
        let (associated, origin) = match &buffer.place {
            Place::Block(_) => (0, 0),
            Place::Part { parent, origin } => (parent.handle, *origin),
            _ => {
                let backed = buffer.backed()?;
                let associated = name == CL_MEM_ASSOCIATED_MEMOBJECT;
                return associated.then(|| backed.parent.handle.to_ne_bytes());
            }
        };
        match name {
            CL_MEM_FLAGS => Some(buffer.flags.to_ne_bytes()),
            CL_MEM_ASSOCIATED_MEMOBJECT => Some(associated.to_ne_bytes()),
            CL_MEM_OFFSET => Some(origin.to_ne_bytes()),
            _ => None,
        }
    });
    match shown {
        // SAFETY: what a program passes to clGetMemObjectInfo.
        Some(bytes) => unsafe { answer(&bytes, size, value, size_ret) },
        None => call!(clGetMemObjectInfo(object, name, size, value, size_ret)),
    }
}

/// For the program, an image that has a backing is made of the program's
/// buffer.
pub unsafe extern "C" fn image_info(
    image: cl_mem,
    name: cl_image_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    if name == CL_IMAGE_BUFFER
        && let Some((_, buffer)) = session::buffer(image)
        && let Some(backed) = buffer.backed()
    {
        // SAFETY: what a program passes to clGetImageInfo.
        return unsafe { answer(&backed.parent.handle.to_ne_bytes(), size, value, size_ret) };
    }
    call!(clGetImageInfo(image, name, size, value, size_ret))
}
