//! Images of the program's.

use crate::api::session::{self, Session, context_of};
use crate::canaries::backing::backing_of;
use crate::objects::backing::Backing;
use crate::objects::buffer::{Given, Made, Place};
use crate::objects::shape::Shape;
use crate::platform::call;
use crate::sys::*;
use model::AllocationKind;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Registers an image that the program has just made; `of`: the memory that it
/// is made of.
fn remember(
    session: &Session,
    image: cl_mem,
    flags: u64,
    of: cl_mem,
    backing: Option<Arc<Backing>>,
) {
    if image.is_null() {
        return;
    }
    let shape = Shape::of(image);
    let place = match (session.buffer(of), shape) {
        // Its pixels are the buffer's bytes, and past their end are the
        // buffer's canaries.
        (Some(parent), shape) => Place::Made {
            parent,
            shape,
            backing,
            users: AtomicU32::new(1),
        },
        (None, Some(shape)) if of.is_null() => Place::Image(shape),
        (None, Some(_)) => Place::Bare("made of another object"),
        (None, None) => Place::Bare("an image of a kind that cannot be grown"),
    };
    session.register(Made {
        handle: image as usize,
        context: context_of(image),
        kind: AllocationKind::ClImage,
        size: shape.map_or(0, |shape| shape.bytes()),
        serial: session.objects.next_serial(),
        given: Given { flags, host: false },
        flags,
        properties: false,
        place,
        allocated_at: session.stack(),
    });
}

/// Makes an image by `make`, which gets a description and a place for the error
/// code.
fn create_by(
    flags: u64,
    description: *const cl_image_desc,
    code: *mut cl_int,
    make: impl Fn(*const cl_image_desc, *mut cl_int) -> cl_mem,
) -> cl_mem {
    let Some(session) = session::get() else {
        return make(description, code);
    };
    let mut answer = CL_SUCCESS;
    let mut image = make(description, &raw mut answer);
    let mut of = std::ptr::null_mut();
    let mut backing = None;
    if !description.is_null() {
        // SAFETY: the program's description.
        let mut described = unsafe { *description };
        of = described.mem_object;
        // A platform that makes no images of parts of buffers.
        let buffer = session
            .buffer(of)
            .filter(|buffer| image.is_null() && buffer.block().is_some());
        if let Some(made) = buffer.and_then(|buffer| backing_of(&buffer).ok()) {
            described.mem_object = made.memory();
            image = make(&raw const described, &raw mut answer);
            if !image.is_null() {
                backing = Some(made);
                // The image holds what it is made of.
                call!(clRetainMemObject(of));
            }
        }
    }
    if !code.is_null() {
        // SAFETY: the program's place for the code.
        unsafe { *code = answer };
    }
    remember(session, image, flags, of, backing);
    image
}

fn made(image: cl_mem, flags: u64) -> cl_mem {
    if let Some(session) = session::get() {
        remember(session, image, flags, std::ptr::null_mut(), None);
    }
    image
}

pub unsafe extern "C" fn create(
    context: cl_context,
    flags: cl_mem_flags,
    format: *const cl_image_format,
    description: *const cl_image_desc,
    host: *mut c_void,
    code: *mut cl_int,
) -> cl_mem {
    create_by(flags, description, code, |description, code| {
        call!(clCreateImage(context, flags, format, description, host, code)
            else std::ptr::null_mut())
    })
}

pub unsafe extern "C" fn create_with_properties(
    context: cl_context,
    properties: *const cl_mem_properties,
    flags: cl_mem_flags,
    format: *const cl_image_format,
    description: *const cl_image_desc,
    host: *mut c_void,
    code: *mut cl_int,
) -> cl_mem {
    create_by(flags, description, code, |description, code| {
        call!(clCreateImageWithProperties(
            context, properties, flags, format, description, host, code
        ) else std::ptr::null_mut())
    })
}

pub unsafe extern "C" fn create_2d(
    context: cl_context,
    flags: cl_mem_flags,
    format: *const cl_image_format,
    width: usize,
    height: usize,
    row: usize,
    host: *mut c_void,
    code: *mut cl_int,
) -> cl_mem {
    let image = call!(clCreateImage2D(context, flags, format, width, height, row, host, code)
        else std::ptr::null_mut());
    made(image, flags)
}

pub unsafe extern "C" fn create_3d(
    context: cl_context,
    flags: cl_mem_flags,
    format: *const cl_image_format,
    width: usize,
    height: usize,
    depth: usize,
    row: usize,
    slice: usize,
    host: *mut c_void,
    code: *mut cl_int,
) -> cl_mem {
    let image = call!(clCreateImage3D(
        context, flags, format, width, height, depth, row, slice, host, code
    ) else std::ptr::null_mut());
    made(image, flags)
}
