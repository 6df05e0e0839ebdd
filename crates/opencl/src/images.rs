//! Images. What a kernel writes past the edge of one cannot be seen beside
//! the image itself, so a larger copy stands for it while the kernel runs,
//! grown in each dimension. A kernel that asks how large its images are would
//! notice, and gets the image itself; the summary says so. Of a mipmap each
//! level is grown.

use crate::buffers::{Buffer, Place, context_of};
use crate::chain::Chain;
use crate::flags::Given;
use crate::layer::{self, Layer};
use crate::queries::ask;
use crate::staged::Staged;
use crate::sys::*;
use crate::table::call;
use crate::waits::wait_list;
use crate::written::Written;
use heap::canary::Key;
use heap::mipmaps::{Dimensions, Levels};
use model::AllocationKind;
use parking_lot::Mutex;
use std::ffi::c_void;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};

/// What is known of an image.
#[derive(Clone, Copy)]
pub struct Shape {
    kind: u32,
    /// Pixels, and layers of arrays, in the order in which copies take them.
    size: [u64; 3],
    dimensions: Dimensions,
    /// Bytes of a pixel.
    pixel: u64,
    /// Mipmap levels; 1 of an image that is no mipmap.
    levels: u32,
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
        let width = number(CL_IMAGE_WIDTH)?;
        let height = || number(CL_IMAGE_HEIGHT);
        let layers = || number(CL_IMAGE_ARRAY_SIZE);
        let (count, size) = match kind {
            CL_MEM_OBJECT_IMAGE1D | CL_MEM_OBJECT_IMAGE1D_BUFFER => (1, [width, 1, 1]),
            CL_MEM_OBJECT_IMAGE1D_ARRAY => (2, [width, layers()?, 1]),
            CL_MEM_OBJECT_IMAGE2D => (2, [width, height()?, 1]),
            CL_MEM_OBJECT_IMAGE2D_ARRAY => (3, [width, height()?, layers()?]),
            CL_MEM_OBJECT_IMAGE3D => (3, [width, height()?, number(CL_IMAGE_DEPTH)?]),
            _ => return None,
        };
        let arrays = [CL_MEM_OBJECT_IMAGE1D_ARRAY, CL_MEM_OBJECT_IMAGE2D_ARRAY];
        Some(Shape {
            kind,
            size,
            dimensions: Dimensions {
                count,
                layers: arrays.contains(&kind),
            },
            pixel: number(CL_IMAGE_ELEMENT_SIZE)?,
            levels: levels.unwrap_or(0).max(1),
        })
    }

    /// Pixels in the order in which copies take them, and bytes of one. `None`:
    /// copies name a level besides.
    pub fn pixels(&self) -> Option<([u64; 3], u64)> {
        (self.levels == 1).then_some((self.size, self.pixel))
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
            num_mip_levels: if self.levels > 1 { self.levels } else { 0 },
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

/// Which way all strips go, and where they lie one after the other: on the
/// host, or in a buffer.
#[derive(Clone, Copy)]
enum Way {
    Read(*mut u8),
    Write(*const u8),
    Gather(cl_mem),
    Scatter(cl_mem),
}

/// A larger image that stands for one of the program's.
pub struct Larger {
    /// Its `cl_mem`; released by its owner.
    pub handle: usize,
    pub levels: Levels,
    /// Which number of an origin is the level.
    dimensions: usize,
    pub key: Key,
    /// All strips as they must be.
    intact: Box<[u8]>,
    context: usize,
    pub written: Written,
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
        let levels = Levels::around(shape.size, shape.dimensions, shape.pixel, shape.levels)?;
        let format: u64 = ask!(one, clGetImageInfo(image, CL_IMAGE_FORMAT))?;
        let [a, b, c, d, e, f, g, h] = format.to_ne_bytes();
        let format = cl_image_format {
            image_channel_order: u32::from_ne_bytes([a, b, c, d]),
            image_channel_data_type: u32::from_ne_bytes([e, f, g, h]),
        };
        let mut intact = Vec::new();
        let bytes = usize::try_from(levels.canary_bytes()).ok()?;
        intact.try_reserve_exact(bytes).ok()?;
        intact.resize(bytes, 0);
        // Every level's pattern starts anew, at a multiple of what it repeats
        // after.
        key.fill(0, &mut intact);
        let description = shape.description(levels.whole());
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
            levels,
            dimensions: shape.dimensions.count,
            key,
            intact: intact.into_boxed_slice(),
            context: context as usize,
            written: Written::default(),
            strips: OnceLock::new(),
        })
    }

    /// All strips as they must be.
    pub fn intact(&self) -> &[u8] {
        &self.intact
    }

    pub fn canary_bytes(&self) -> usize {
        self.intact.len()
    }

    /// Copies the image there, or back.
    pub fn copy(
        &self,
        queue: cl_command_queue,
        (from, to): (cl_mem, cl_mem),
        after: &[cl_event],
        events: &mut Chain,
    ) -> cl_int {
        let mut behind: Option<[cl_event; 1]> = None;
        for (number, level) in self.levels.levels().iter().enumerate() {
            let region = level.grown.size().map(|side| side as usize);
            let origin = self.origin([0; 3], number);
            let (count, list) = wait_list(behind.as_ref().map_or(after, |own| own));
            let (origin, region) = (origin.as_ptr(), region.as_ptr());
            let code = events.add(|event| {
                call!(clEnqueueCopyImage(
                    queue, from, to, origin, origin, region, count, list, event
                ))
            });
            if code != CL_SUCCESS {
                return code;
            }
            behind = events.last().map(|event| [event]);
        }
        match behind {
            Some(_) => CL_SUCCESS,
            None => CL_INVALID_VALUE,
        }
    }

    /// Where something starts at a level.
    fn origin(&self, at: [u64; 3], level: usize) -> [usize; 4] {
        let [x, y, z] = at.map(|at| at as usize);
        let mut origin = [x, y, z, 0];
        if level > 0 {
            origin[self.dimensions] = level;
        }
        origin
    }

    /// Reads all strips into `bytes`, one after the other.
    pub fn read(
        &self,
        queue: cl_command_queue,
        bytes: &mut [u8],
        after: &[cl_event],
        events: &mut Chain,
    ) -> cl_int {
        self.each(queue, Way::Read(bytes.as_mut_ptr()), after, events)
    }

    /// Writes all strips as they must be.
    pub fn restore(
        &self,
        queue: cl_command_queue,
        after: &[cl_event],
        events: &mut Chain,
    ) -> cl_int {
        self.each(queue, Way::Write(self.intact.as_ptr()), after, events)
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
        events: &mut Chain,
    ) -> cl_int {
        self.each(queue, Way::Gather(strips), after, events)
    }

    /// Brings the strips from a buffer back.
    pub fn scatter(
        &self,
        queue: cl_command_queue,
        strips: cl_mem,
        after: &[cl_event],
        events: &mut Chain,
    ) -> cl_int {
        self.each(queue, Way::Scatter(strips), after, events)
    }

    /// One command a strip, each behind the one before.
    fn each(
        &self,
        queue: cl_command_queue,
        way: Way,
        after: &[cl_event],
        events: &mut Chain,
    ) -> cl_int {
        let mut behind: Option<cl_event> = None;
        let levels = self.levels.levels().iter().enumerate();
        let strips = levels.flat_map(|(number, level)| {
            let strips = level.grown.strips().iter();
            strips.map(move |strip| (number, level.offset, strip))
        });
        let image = self.handle as cl_mem;
        for (number, start, strip) in strips {
            let origin = self.origin(strip.origin, number);
            let region = strip.region.map(|side| side as usize);
            let (origin, region) = (origin.as_ptr(), region.as_ptr());
            let own = behind.map(|event| [event]);
            let (count, list) = wait_list(own.as_ref().map_or(after, |own| own));
            let at = (start + strip.offset) as usize;
            let code = events.add(|done| match way {
                Way::Read(to) => {
                    let to = to.wrapping_add(at).cast();
                    call!(clEnqueueReadImage(
                        queue, image, FALSE, origin, region, 0, 0, to, count, list, done
                    ))
                }
                Way::Write(from) => {
                    let from = from.wrapping_add(at).cast();
                    call!(clEnqueueWriteImage(
                        queue, image, FALSE, origin, region, 0, 0, from, count, list, done
                    ))
                }
                Way::Gather(strips) => call!(clEnqueueCopyImageToBuffer(
                    queue, image, strips, origin, region, at, count, list, done
                )),
                Way::Scatter(strips) => call!(clEnqueueCopyBufferToImage(
                    queue, strips, image, at, origin, region, count, list, done
                )),
            });
            if code != CL_SUCCESS {
                return code;
            }
            behind = events.last();
        }
        match behind {
            Some(_) => CL_SUCCESS,
            None => CL_INVALID_VALUE,
        }
    }
}

impl Layer {
    /// An image that the program has just made; `of`: what it is made of.
    fn image(&self, image: cl_mem, flags: u64, of: cl_mem, staged: Option<Arc<Staged>>) {
        if image.is_null() {
            return;
        }
        let shape = Shape::of(image);
        let place = match (self.buffer(of as usize), shape) {
            // Its pixels are the buffer's bytes, and past their end are the
            // buffer's canaries.
            (Some(parent), shape) => Place::Made {
                parent,
                shape,
                staged,
                users: AtomicU32::new(1),
            },
            (None, Some(shape)) if of.is_null() => Place::Image(shape),
            (None, Some(_)) => Place::Bare("made of another object"),
            (None, None) => Place::Bare("an image of a kind that cannot be grown"),
        };
        self.register(Buffer {
            serial: self.next_serial(),
            kind: AllocationKind::ClImage,
            size: shape.map_or(0, |shape| shape.bytes()),
            handle: image as usize,
            context: context_of(image),
            given: Given { flags, host: false },
            flags,
            properties: false,
            place,
            shadow: Mutex::default(),
            staged: Mutex::default(),
            allocated_at: self.stack(),
        });
    }
}

/// Makes an image by `make`, which is given a description and a place for the
/// code.
fn create_by(
    flags: u64,
    description: *const cl_image_desc,
    code: *mut cl_int,
    make: impl Fn(*const cl_image_desc, *mut cl_int) -> cl_mem,
) -> cl_mem {
    let Some(layer) = layer::get() else {
        return make(description, code);
    };
    let mut answer = CL_SUCCESS;
    let mut image = make(description, &raw mut answer);
    let mut of = std::ptr::null_mut();
    let mut staged = None;
    if !description.is_null() {
        // SAFETY: the program's description.
        let mut described = unsafe { *description };
        of = described.mem_object;
        // A platform that makes no images of parts of buffers.
        let buffer = layer
            .buffer(of as usize)
            .filter(|buffer| image.is_null() && matches!(buffer.place, Place::Block(_)));
        if let Some(stage) = buffer.and_then(|buffer| buffer.stage().ok()) {
            described.mem_object = stage.memory();
            image = make(&raw const described, &raw mut answer);
            if !image.is_null() {
                staged = Some(stage);
                // The image holds what it is made of.
                call!(clRetainMemObject(of));
            }
        }
    }
    if !code.is_null() {
        // SAFETY: the program's place for the code.
        unsafe { *code = answer };
    }
    layer.image(image, flags, of, staged);
    image
}

fn made(image: cl_mem, flags: u64) -> cl_mem {
    if let Some(layer) = layer::get() {
        layer.image(image, flags, std::ptr::null_mut(), None);
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

/// Where a block that an image is made of lies, if the buffer has one.
pub fn root_of(buffer: &Arc<Buffer>) -> &Arc<Buffer> {
    match &buffer.place {
        Place::Made { parent, .. } | Place::Part { parent, .. } => root_of(parent),
        _ => buffer,
    }
}
