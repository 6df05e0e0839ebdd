//! Reads, writes, copies and fills of memory objects by the host.

use crate::api::judge::{Pixels, Touch, leaves, refused, refused_pixels};
use crate::api::session::{self, with_scans};
use crate::objects::access::Access;
use crate::objects::block::Memory;
use crate::objects::buffer::Place;
use crate::platform::ask::ask;
use crate::platform::call;
use crate::platform::events::{List, Waits, Wanted};
use crate::schedule::ImageCommand;
use crate::sys::*;
use std::ffi::c_void;

/// A command of the program's that uses images, as a hook gets it.
pub struct HookedCommand<'a> {
    pub queue: cl_command_queue,
    pub function: &'static str,
    pub images: &'a [(cl_mem, Access)],
    /// Whether the call returns only when all is done.
    pub blocking: bool,
    pub list: List,
    pub event: *mut cl_event,
}

impl HookedCommand<'_> {
    /// Enqueues it.
    pub fn enqueue(self, enqueue: impl FnOnce(List, *mut cl_event) -> cl_int) -> cl_int {
        let Some(session) = session::get() else {
            return enqueue(self.list, self.event);
        };
        let command = ImageCommand {
            queue: self.queue,
            function: self.function,
            images: self.images,
            blocking: self.blocking,
            // SAFETY: the program's list.
            waits: unsafe { Waits::of(self.list) },
            // SAFETY: the program's place for the event.
            wanted: unsafe { Wanted::at(self.event) },
        };
        command.enqueue(&session.schedule, &session.objects, enqueue)
    }
}

/// Hooks that only refuse accesses outside a buffer: name of the hook,
/// function, its parameters before the wait list, and the bytes that it
/// accesses.
macro_rules! judged {
    ($($hook:ident = $name:ident($($parameter:ident: $type:ty),* $(,)?)
        touches $($touch:expr),+;)*) => {
        $(pub unsafe extern "C" fn $hook(
            $($parameter: $type,)*
            count: cl_uint,
            list: *const cl_event,
            event: *mut cl_event,
        ) -> cl_int {
            if refused(stringify!($name), &[$($touch),+]) {
                return CL_INVALID_VALUE;
            }
            with_scans((count, list), |(count, list)| {
                call!($name($($parameter,)* count, list, event))
            })
        })*
    };
}

judged! {
    read = clEnqueueReadBuffer(queue: cl_command_queue, buffer: cl_mem, blocking: cl_bool, offset: usize, size: usize, to: *mut c_void)
        touches Touch::range(buffer, offset, size, Access::Read);
    write = clEnqueueWriteBuffer(queue: cl_command_queue, buffer: cl_mem, blocking: cl_bool, offset: usize, size: usize, from: *const c_void)
        touches Touch::range(buffer, offset, size, Access::Write);
    copy = clEnqueueCopyBuffer(queue: cl_command_queue, from: cl_mem, to: cl_mem, at: usize, goal: usize, size: usize)
        touches Touch::range(from, at, size, Access::Read), Touch::range(to, goal, size, Access::Write);
    fill = clEnqueueFillBuffer(queue: cl_command_queue, buffer: cl_mem, pattern: *const c_void, pattern_size: usize, offset: usize, size: usize)
        touches Touch::range(buffer, offset, size, Access::Write);
    read_rect = clEnqueueReadBufferRect(queue: cl_command_queue, buffer: cl_mem, blocking: cl_bool, origin: *const usize, host_origin: *const usize, region: *const usize, row: usize, slice: usize, host_row: usize, host_slice: usize, to: *mut c_void)
        touches Touch::rect(buffer, origin, region, (row, slice), Access::Read);
    write_rect = clEnqueueWriteBufferRect(queue: cl_command_queue, buffer: cl_mem, blocking: cl_bool, origin: *const usize, host_origin: *const usize, region: *const usize, row: usize, slice: usize, host_row: usize, host_slice: usize, from: *const c_void)
        touches Touch::rect(buffer, origin, region, (row, slice), Access::Write);
}

/// The same for images, of which boxes of pixels are accessed.
macro_rules! judged_images {
    ($($hook:ident blocking: $blocking:ident = $name:ident(queue: cl_command_queue, $($parameter:ident: $type:ty),* $(,)?)
        touches $(($image:ident, $origin:ident, $region:ident, $access:expr)),+;)*) => {
        $(pub unsafe extern "C" fn $hook(
            queue: cl_command_queue,
            $($parameter: $type,)*
            count: cl_uint,
            list: *const cl_event,
            event: *mut cl_event,
        ) -> cl_int {
            let boxes = [$(Pixels {
                image: $image,
                origin: $origin.cast(),
                region: $region.cast(),
                access: $access,
            }),+];
            if refused_pixels(stringify!($name), &boxes) {
                return CL_INVALID_VALUE;
            }
            let command = HookedCommand {
                queue,
                function: stringify!($name),
                images: &[$(($image, $access)),+],
                blocking: $blocking != FALSE,
                list: (count, list),
                event,
            };
            command.enqueue(|(count, list), event| {
                call!($name(queue, $($parameter,)* count, list, event))
            })
        })*
    };
}

judged_images! {
    read_image blocking: FALSE = clEnqueueReadImage(queue: cl_command_queue, image: cl_mem, blocking: cl_bool, origin: *const usize, region: *const usize, row: usize, slice: usize, to: *mut c_void)
        touches (image, origin, region, Access::Read);
    write_image blocking: blocking = clEnqueueWriteImage(queue: cl_command_queue, image: cl_mem, blocking: cl_bool, origin: *const usize, region: *const usize, row: usize, slice: usize, from: *const c_void)
        touches (image, origin, region, Access::Write);
    copy_image blocking: FALSE = clEnqueueCopyImage(queue: cl_command_queue, from: cl_mem, to: cl_mem, at: *const usize, goal: *const usize, region: *const usize)
        touches (from, at, region, Access::Read), (to, goal, region, Access::Write);
    fill_image blocking: FALSE = clEnqueueFillImage(queue: cl_command_queue, image: cl_mem, color: *const c_void, origin: *const usize, region: *const usize)
        touches (image, origin, region, Access::Write);
}

/// Bytes of a box of pixels.
fn pixels(image: cl_mem, region: *const usize) -> Option<usize> {
    if region.is_null() {
        return None;
    }
    // SAFETY: three numbers, as these calls take them.
    let region = unsafe { *region.cast::<[usize; 3]>() };
    let pixel: usize = ask!(one, clGetImageInfo(image, CL_IMAGE_ELEMENT_SIZE))?;
    region
        .iter()
        .try_fold(pixel, |all, side| all.checked_mul(*side))
}

/// The block of a buffer, and the offset of the buffer in it: not all platforms
/// copy between images and parts of buffers, or boxes of parts (PoCL 3.1 does
/// not). An access outside the buffer is passed on with the buffer itself,
/// which the platform checks.
fn in_block(buffer: cl_mem, touch: Option<&Touch>) -> (cl_mem, usize) {
    let Some((_, known)) = session::buffer(buffer) else {
        return (buffer, 0);
    };
    let (root, origin) = match &known.place {
        Place::Part { parent, origin } => (parent, *origin),
        _ => (&known, 0),
    };
    if touch.is_some_and(|touch| touch.is_within(known.size))
        && let Some(block) = root.block()
        && let Memory::Buffer(whole) = block.memory
    {
        return (whole as cl_mem, origin + block.layout.start() as usize);
    }
    (buffer, 0)
}

/// An origin, moved by a number of bytes.
fn further(origin: *const usize, bytes: usize) -> [usize; 3] {
    // SAFETY: three numbers, as the caller has checked.
    let [x, y, z] = unsafe { *origin.cast::<[usize; 3]>() };
    [x + bytes, y, z]
}

pub unsafe extern "C" fn copy_rect(
    queue: cl_command_queue,
    from: cl_mem,
    to: cl_mem,
    at: *const usize,
    goal: *const usize,
    region: *const usize,
    from_row: usize,
    from_slice: usize,
    to_row: usize,
    to_slice: usize,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let touches = || {
        [
            Touch::rect(from, at, region, (from_row, from_slice), Access::Read),
            Touch::rect(to, goal, region, (to_row, to_slice), Access::Write),
        ]
    };
    let [read, write] = touches();
    if refused("clEnqueueCopyBufferRect", &touches()) {
        return CL_INVALID_VALUE;
    }
    let (from_block, from_start) = in_block(from, read.as_ref());
    let (to_block, to_start) = in_block(to, write.as_ref());
    let moved = (read.is_some() && write.is_some())
        .then(|| (further(at, from_start), further(goal, to_start)));
    let (at, goal) = match &moved {
        Some((at, goal)) => (at.as_ptr(), goal.as_ptr()),
        None => (at, goal),
    };
    with_scans((count, list), |(count, list)| {
        call!(clEnqueueCopyBufferRect(
            queue, from_block, to_block, at, goal, region, from_row, from_slice, to_row, to_slice,
            count, list, event
        ))
    })
}

pub unsafe extern "C" fn copy_image_to_buffer(
    queue: cl_command_queue,
    from: cl_mem,
    to: cl_mem,
    at: *const usize,
    region: *const usize,
    goal: usize,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let bytes = pixels(from, region).unwrap_or(0);
    let touch = Touch::range(to, goal, bytes, Access::Write);
    let pixels = Pixels {
        image: from,
        origin: at,
        region,
        access: Access::Read,
    };
    if refused("clEnqueueCopyImageToBuffer", &[touch])
        || refused_pixels("clEnqueueCopyImageToBuffer", &[pixels])
    {
        return CL_INVALID_VALUE;
    }
    let (block, start) = in_block(to, Touch::range(to, goal, bytes, Access::Write).as_ref());
    let place = goal.wrapping_add(start);
    let command = HookedCommand {
        queue,
        function: "clEnqueueCopyImageToBuffer",
        images: &[(from, Access::Read)],
        blocking: false,
        list: (count, list),
        event,
    };
    command.enqueue(|(count, list), event| {
        call!(clEnqueueCopyImageToBuffer(
            queue, from, block, at, region, place, count, list, event
        ))
    })
}

pub unsafe extern "C" fn copy_buffer_to_image(
    queue: cl_command_queue,
    from: cl_mem,
    to: cl_mem,
    at: usize,
    goal: *const usize,
    region: *const usize,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let bytes = pixels(to, region).unwrap_or(0);
    let touch = Touch::range(from, at, bytes, Access::Read);
    let pixels = Pixels {
        image: to,
        origin: goal,
        region,
        access: Access::Write,
    };
    if refused("clEnqueueCopyBufferToImage", &[touch])
        || refused_pixels("clEnqueueCopyBufferToImage", &[pixels])
    {
        return CL_INVALID_VALUE;
    }
    let (block, start) = in_block(from, Touch::range(from, at, bytes, Access::Read).as_ref());
    let place = at.wrapping_add(start);
    let command = HookedCommand {
        queue,
        function: "clEnqueueCopyBufferToImage",
        images: &[(to, Access::Write)],
        blocking: false,
        list: (count, list),
        event,
    };
    command.enqueue(|(count, list), event| {
        call!(clEnqueueCopyBufferToImage(
            queue, block, to, place, goal, region, count, list, event
        ))
    })
}

pub unsafe extern "C" fn copy_memory(
    queue: cl_command_queue,
    blocking: cl_bool,
    to: *mut c_void,
    from: *const c_void,
    size: usize,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    // The layers below do not check these against bounds.
    let to_leaves = leaves("clEnqueueSVMMemcpy", to, size, Access::Write);
    if leaves("clEnqueueSVMMemcpy", from, size, Access::Read) || to_leaves {
        return CL_INVALID_VALUE;
    }
    with_scans((count, list), |(count, list)| {
        call!(clEnqueueSVMMemcpy(
            queue, blocking, to, from, size, count, list, event
        ))
    })
}

pub unsafe extern "C" fn fill_memory(
    queue: cl_command_queue,
    to: *mut c_void,
    pattern: *const c_void,
    pattern_size: usize,
    size: usize,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    if leaves("clEnqueueSVMMemFill", to, size, Access::Write) {
        return CL_INVALID_VALUE;
    }
    with_scans((count, list), |(count, list)| {
        call!(clEnqueueSVMMemFill(
            queue,
            to,
            pattern,
            pattern_size,
            size,
            count,
            list,
            event
        ))
    })
}
