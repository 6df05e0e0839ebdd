//! Commands of padded images. Writes past the edge of an image cannot be
//! detected around the image itself, so a padded image, larger in each
//! dimension, takes its place while the kernel runs. A kernel that queries the
//! size of its images would notice, so it gets the image itself, and the
//! summary says so. Each level of a mipmap is padded.

use crate::objects::padded::{PaddedImage, intact};
use crate::objects::shape::Shape;
use crate::platform::ask::ask;
use crate::platform::call;
use crate::platform::events::{Chain, wait_list};
use crate::platform::handles::MemObject;
use crate::sys::*;
use heap::canary::Key;
use heap::mipmaps::Levels;

/// The direction of the copy of all strips, and where they lie one after the
/// other: on the host, or in a buffer.
#[derive(Clone, Copy)]
enum Way {
    Read(*mut u8),
    Write(*const u8),
    Gather(cl_mem),
    Scatter(cl_mem),
}

/// A padded image like one of the program's. `None`: the platform makes none.
pub fn padded(image: cl_mem, context: cl_context, shape: &Shape, key: Key) -> Option<PaddedImage> {
    let levels = Levels::around(shape.size, shape.dimensions, shape.pixel, shape.levels)?;
    let format: u64 = ask!(one, clGetImageInfo(image, CL_IMAGE_FORMAT))?;
    let [a, b, c, d, e, f, g, h] = format.to_ne_bytes();
    let format = cl_image_format {
        image_channel_order: u32::from_ne_bytes([a, b, c, d]),
        image_channel_data_type: u32::from_ne_bytes([e, f, g, h]),
    };
    let strips = intact(&levels, &key)?;
    let description = shape.description(levels.whole());
    let mut code = CL_SUCCESS;
    let made = call!(clCreateImage(
        context,
        CL_MEM_READ_WRITE,
        &raw const format,
        &raw const description,
        std::ptr::null_mut(),
        &raw mut code,
    ) else std::ptr::null_mut());
    let made = MemObject::made(made, code)?;
    let dimensions = shape.dimensions.count;
    Some(PaddedImage::new(
        (context, made),
        (levels, dimensions),
        (key, strips),
    ))
}

impl PaddedImage {
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
        self.each(queue, Way::Write(self.intact().as_ptr()), after, events)
    }

    /// Copies the strips into a buffer.
    pub fn gather(
        &self,
        queue: cl_command_queue,
        strips: cl_mem,
        after: &[cl_event],
        events: &mut Chain,
    ) -> cl_int {
        self.each(queue, Way::Gather(strips), after, events)
    }

    /// Copies the strips back from a buffer.
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
        let image = self.image.raw();
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
