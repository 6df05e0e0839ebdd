//! Images. What a kernel writes past the edge of one cannot be seen beside
//! the image itself, so a larger copy stands for it while the kernel runs,
//! grown in each dimension. A kernel that asks how large its images are would
//! notice, and gets the image itself; the summary says so.

use crate::buffers::{Buffer, Place};
use crate::layer::{self, Layer};
use crate::queries::ask;
use crate::sys::*;
use crate::table::call;
use heap::canary::Key;
use heap::image_canary::Grown;
use model::AllocationKind;
use parking_lot::Mutex;
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

/// What is known of an image.
#[derive(Clone, Copy)]
pub struct Shape {
    kind: u32,
    /// Pixels, and layers of arrays, in the order in which copies take them.
    size: [u64; 3],
    dimensions: usize,
    /// Bytes of a pixel.
    pixel: u64,
}

impl Shape {
    /// `None`: an image of a kind that cannot be grown.
    fn of(image: cl_mem) -> Option<Shape> {
        let kind: u32 = ask!(one, clGetMemObjectInfo(image, CL_MEM_TYPE))?;
        let number = |name| -> Option<u64> {
            let number: usize = ask!(one, clGetImageInfo(image, name))?;
            Some(number as u64)
        };
        let levels: Option<u32> = ask!(one, clGetImageInfo(image, CL_IMAGE_NUM_MIP_LEVELS));
        if levels.is_some_and(|levels| levels > 1) {
            return None;
        }
        let width = number(CL_IMAGE_WIDTH)?;
        let height = || number(CL_IMAGE_HEIGHT);
        let layers = || number(CL_IMAGE_ARRAY_SIZE);
        let (dimensions, size) = match kind {
            CL_MEM_OBJECT_IMAGE1D => (1, [width, 1, 1]),
            CL_MEM_OBJECT_IMAGE1D_ARRAY => (2, [width, layers()?, 1]),
            CL_MEM_OBJECT_IMAGE2D => (2, [width, height()?, 1]),
            CL_MEM_OBJECT_IMAGE2D_ARRAY => (3, [width, height()?, layers()?]),
            CL_MEM_OBJECT_IMAGE3D => (3, [width, height()?, number(CL_IMAGE_DEPTH)?]),
            _ => return None,
        };
        Some(Shape {
            kind,
            size,
            dimensions,
            pixel: number(CL_IMAGE_ELEMENT_SIZE)?,
        })
    }

    /// Pixels in the order in which copies take them, and bytes of one.
    pub fn pixels(&self) -> ([u64; 3], u64) {
        (self.size, self.pixel)
    }

    fn bytes(&self) -> u64 {
        let pixels = self.size.iter().copied().fold(1, u64::saturating_mul);
        pixels.saturating_mul(self.pixel)
    }

    /// An image of this kind with other sides.
    fn description(&self, size: [u64; 3]) -> cl_image_desc {
        let [width, second, third] = size.map(|side| side as usize);
        let mut description = cl_image_desc {
            image_type: self.kind,
            image_width: width,
            image_height: 0,
            image_depth: 0,
            image_array_size: 0,
            image_row_pitch: 0,
            image_slice_pitch: 0,
            num_mip_levels: 0,
            num_samples: 0,
            mem_object: std::ptr::null_mut(),
        };
        match self.kind {
            CL_MEM_OBJECT_IMAGE1D_ARRAY => description.image_array_size = second,
            CL_MEM_OBJECT_IMAGE2D => description.image_height = second,
            CL_MEM_OBJECT_IMAGE2D_ARRAY => {
                description.image_height = second;
                description.image_array_size = third;
            }
            CL_MEM_OBJECT_IMAGE3D => {
                description.image_height = second;
                description.image_depth = third;
            }
            _ => {}
        }
        description
    }
}

/// A larger image that stands for one of the program's.
pub struct Larger {
    /// Its `cl_mem`; released by its owner.
    pub handle: usize,
    pub grown: Grown,
    pub key: Key,
    /// All strips as they must be.
    intact: Box<[u8]>,
    context: usize,
    /// A buffer for the strips, once the device's checker needed one.
    strips: OnceLock<Option<usize>>,
}

impl Drop for Larger {
    fn drop(&mut self) {
        if let Some(strips) = self.strips.get().copied().flatten() {
            call!(clReleaseMemObject(strips as cl_mem));
        }
    }
}

impl Larger {
    /// `None`: the platform does not give one.
    pub fn of(image: cl_mem, context: cl_context, shape: &Shape, key: Key) -> Option<Larger> {
        let grown = Grown::around(shape.size, shape.dimensions, shape.pixel)?;
        let format: u64 = ask!(one, clGetImageInfo(image, CL_IMAGE_FORMAT))?;
        let [a, b, c, d, e, f, g, h] = format.to_ne_bytes();
        let format = cl_image_format {
            image_channel_order: u32::from_ne_bytes([a, b, c, d]),
            image_channel_data_type: u32::from_ne_bytes([e, f, g, h]),
        };
        let mut intact = Vec::new();
        let bytes = usize::try_from(grown.canary_bytes()).ok()?;
        intact.try_reserve_exact(bytes).ok()?;
        intact.resize(bytes, 0);
        key.fill(0, &mut intact);
        let description = shape.description(grown.whole());
        let mut code = CL_SUCCESS;
        let larger = call!(clCreateImage(
            context,
            CL_MEM_READ_WRITE,
            &raw const format,
            &raw const description,
            std::ptr::null_mut(),
            &raw mut code,
        ) else std::ptr::null_mut());
        (code == CL_SUCCESS && !larger.is_null()).then_some(Larger {
            handle: larger as usize,
            grown,
            key,
            intact: intact.into_boxed_slice(),
            context: context as usize,
            strips: OnceLock::new(),
        })
    }

    pub fn canary_bytes(&self) -> usize {
        self.intact.len()
    }

    /// Copies the image there, or back.
    pub fn copy(
        &self,
        queue: cl_command_queue,
        (from, to): (cl_mem, cl_mem),
        (count, list): (cl_uint, *const cl_event),
        event: &mut cl_event,
    ) -> cl_int {
        let region = self.grown.size().map(|side| side as usize);
        let (origin, region) = ([0; 3].as_ptr(), region.as_ptr());
        call!(clEnqueueCopyImage(
            queue, from, to, origin, origin, region, count, list, event
        ))
    }

    /// Reads all strips into `bytes`, one after the other.
    pub fn read(
        &self,
        queue: cl_command_queue,
        bytes: &mut [u8],
        after: &[cl_event],
        event: &mut cl_event,
    ) -> cl_int {
        let to = bytes.as_mut_ptr();
        self.each(after, event, &|origin,
                                  region,
                                  offset,
                                  (count, list),
                                  event| {
            call!(clEnqueueReadImage(
                queue,
                self.handle as cl_mem,
                FALSE,
                origin,
                region,
                0,
                0,
                to.wrapping_add(offset).cast(),
                count,
                list,
                event,
            ))
        })
    }

    /// Writes all strips as they must be.
    pub fn restore(
        &self,
        queue: cl_command_queue,
        after: &[cl_event],
        event: &mut cl_event,
    ) -> cl_int {
        let from = self.intact.as_ptr();
        self.each(after, event, &|origin,
                                  region,
                                  offset,
                                  (count, list),
                                  event| {
            call!(clEnqueueWriteImage(
                queue,
                self.handle as cl_mem,
                FALSE,
                origin,
                region,
                0,
                0,
                from.wrapping_add(offset).cast(),
                count,
                list,
                event,
            ))
        })
    }

    /// Memory objects that it has.
    pub fn objects(&self) -> u32 {
        1 + u32::from(self.strips.get().copied().flatten().is_some())
    }

    /// A buffer that holds all strips, one after the other.
    pub fn strips(&self) -> Option<cl_mem> {
        let make = || {
            let mut code = CL_SUCCESS;
            let made = call!(clCreateBuffer(
                self.context as cl_context,
                CL_MEM_READ_WRITE,
                self.intact.len(),
                std::ptr::null_mut(),
                &raw mut code
            ) else std::ptr::null_mut());
            (code == CL_SUCCESS && !made.is_null()).then_some(made as usize)
        };
        Some((*self.strips.get_or_init(make))? as cl_mem)
    }

    /// Brings the strips into a buffer.
    pub fn gather(
        &self,
        queue: cl_command_queue,
        strips: cl_mem,
        after: &[cl_event],
        event: &mut cl_event,
    ) -> cl_int {
        let image = self.handle as cl_mem;
        self.each(after, event, &|origin,
                                  region,
                                  offset,
                                  (count, list),
                                  event| {
            call!(clEnqueueCopyImageToBuffer(
                queue, image, strips, origin, region, offset, count, list, event
            ))
        })
    }

    /// Brings the strips from a buffer back.
    pub fn scatter(
        &self,
        queue: cl_command_queue,
        strips: cl_mem,
        after: &[cl_event],
        event: &mut cl_event,
    ) -> cl_int {
        let image = self.handle as cl_mem;
        self.each(after, event, &|origin,
                                  region,
                                  offset,
                                  (count, list),
                                  event| {
            call!(clEnqueueCopyBufferToImage(
                queue, strips, image, offset, origin, region, count, list, event
            ))
        })
    }

    /// One command a strip, each behind the one before; `last` gets the event
    /// of the last.
    #[allow(
        clippy::type_complexity,
        reason = "the parameters of the two calls that share it"
    )]
    fn each(
        &self,
        after: &[cl_event],
        last: &mut cl_event,
        enqueue: &dyn Fn(
            *const usize,
            *const usize,
            usize,
            (cl_uint, *const cl_event),
            *mut cl_event,
        ) -> cl_int,
    ) -> cl_int {
        let mut behind: Option<cl_event> = None;
        for strip in self.grown.strips() {
            let origin = strip.origin.map(|at| at as usize);
            let region = strip.region.map(|side| side as usize);
            let own = behind.map(|event| [event]);
            let list = crate::waits::wait_list(own.as_ref().map_or(after, |own| own));
            let mut event = std::ptr::null_mut();
            let offset = strip.offset as usize;
            let code = enqueue(
                origin.as_ptr(),
                region.as_ptr(),
                offset,
                list,
                &raw mut event,
            );
            if let Some(before) = behind {
                call!(clReleaseEvent(before));
            }
            if code != CL_SUCCESS {
                return code;
            }
            behind = Some(event);
        }
        match behind {
            Some(event) => {
                *last = event;
                CL_SUCCESS
            }
            None => CL_INVALID_VALUE,
        }
    }
}

impl Layer {
    /// An image that the program has just made; `of`: what it is made of.
    fn image(&self, image: cl_mem, flags: u64, of: cl_mem) {
        if image.is_null() {
            return;
        }
        let shape = Shape::of(image);
        let place = match (self.buffer(of as usize), shape) {
            // Its pixels are the buffer's bytes, and past their end are the
            // buffer's canaries.
            (Some(parent), _) => Place::Made(parent),
            (None, Some(shape)) if of.is_null() => Place::Image(shape),
            (None, Some(_)) => Place::Bare("made of another object"),
            (None, None) => Place::Bare("an image of a kind that cannot be grown"),
        };
        self.register(Buffer {
            serial: self.next_serial(),
            kind: AllocationKind::ClImage,
            size: shape.map_or(0, |shape| shape.bytes()),
            handle: image as usize,
            flags,
            place,
            shadow: Mutex::default(),
            allocated_at: self.stack(),
        });
    }
}

fn made_of(description: *const cl_image_desc) -> cl_mem {
    if description.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the program's description.
    unsafe { (*description).mem_object }
}

fn made(image: cl_mem, flags: u64, of: cl_mem) -> cl_mem {
    let Some(layer) = layer::get() else {
        return image;
    };
    layer.image(image, flags, of);
    let guarded = || {
        let buffer = layer.buffer(of as usize);
        buffer.is_some_and(|buffer| matches!(buffer.place, Place::Block(_)))
    };
    if image.is_null() && guarded() {
        layer.reporter.error(
            "the platform made no image of a buffer that has canaries; if the program makes one \
             without Ringfence, the platform takes no parts of buffers for it: use --protect bounds",
        );
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
    let image = call!(clCreateImage(context, flags, format, description, host, code)
        else std::ptr::null_mut());
    made(image, flags, made_of(description))
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
    let image = call!(clCreateImageWithProperties(
        context, properties, flags, format, description, host, code
    ) else std::ptr::null_mut());
    made(image, flags, made_of(description))
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
    made(image, flags, std::ptr::null_mut())
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
    made(image, flags, std::ptr::null_mut())
}

/// Where a block that an image is made of lies, if the buffer has one.
pub fn root_of(buffer: &Arc<Buffer>) -> &Arc<Buffer> {
    match &buffer.place {
        Place::Made(parent) | Place::Part { parent, .. } => root_of(parent),
        _ => buffer,
    }
}
