//! Reads, writes, copies and fills of buffers by the host. What leaves a buffer
//! becomes a finding, because few programs look at the code, and is refused
//! here, with the code that OpenCL has for it: not every platform holds a call
//! to the part of a block that the program knows (NVIDIA's, driver 580, takes
//! boxes that end outside it).

use crate::blocks::Memory;
use crate::buffers::{Buffer, Place};
use crate::layer::{self, Layer};
use crate::queries::ask;
use crate::report::CallError;
use crate::staged::Command;
use crate::sys::*;
use crate::table::call;
use crate::waits::with_looks;
use model::{ApiErrors, Rule};
use std::ffi::c_void;
use std::sync::Arc;

/// Bytes of an object that a call is to touch.
pub struct Touch {
    object: cl_mem,
    /// First byte, and one past the last; larger than any address if it wraps.
    from: u128,
    to: u128,
    writes: bool,
}

impl Touch {
    pub fn range(object: cl_mem, offset: usize, size: usize, writes: bool) -> Option<Touch> {
        let from = offset as u128;
        Some(Touch {
            object,
            from,
            to: from + size as u128,
            writes,
        })
    }

    /// A box of bytes: `None` if the program gives no such.
    fn rect(
        object: cl_mem,
        origin: *const usize,
        region: *const usize,
        (row, slice): (usize, usize),
        writes: bool,
    ) -> Option<Touch> {
        if origin.is_null() || region.is_null() {
            return None;
        }
        // SAFETY: three numbers each, as these calls take them.
        let (o, r) = unsafe { (*origin.cast::<[usize; 3]>(), *region.cast::<[usize; 3]>()) };
        if r.contains(&0) {
            return None;
        }
        let row = if row == 0 { r[0] } else { row } as u128;
        let slice = match slice {
            0 => row.saturating_mul(r[1] as u128),
            slice => slice as u128,
        };
        let at = |x: usize, y: usize, z: usize| {
            let lines = row.saturating_mul(y as u128);
            let slices = slice.saturating_mul(z as u128);
            slices.saturating_add(lines).saturating_add(x as u128)
        };
        let from = at(o[0], o[1], o[2]);
        Some(Touch {
            object,
            from,
            to: from.saturating_add(at(r[0], r[1] - 1, r[2] - 1)),
            writes,
        })
    }
}

/// The layer, if host calls are judged, and whether a bad one is refused.
fn judging() -> Option<(&'static Layer, bool)> {
    let layer = layer::get()?;
    match layer.settings.api_errors {
        ApiErrors::Off => None,
        ApiErrors::Pass => Some((layer, false)),
        ApiErrors::Refuse => Some((layer, true)),
    }
}

/// Whether a call is to be refused, because it leaves its objects, which is
/// reported.
pub fn refused(function: &'static str, touches: &[Option<Touch>]) -> bool {
    let Some((layer, refuses)) = judging() else {
        return false;
    };
    let mut refused = false;
    for touch in touches.iter().flatten() {
        let Some(buffer) = layer.buffer(touch.object as usize) else {
            continue;
        };
        if touch.to > u128::from(buffer.size) {
            refused = refuses;
            layer
                .reporter
                .call(layer, describe(function, touch, buffer));
        }
    }
    refused
}

/// A box of pixels of an image that a call is to touch.
pub struct Pixels {
    pub image: cl_mem,
    pub origin: *const usize,
    pub region: *const usize,
    pub writes: bool,
}

/// Whether a call is to be refused, because it leaves its images, which is
/// reported.
pub fn refused_pixels(function: &'static str, boxes: &[Pixels]) -> bool {
    let Some((layer, refuses)) = judging() else {
        return false;
    };
    let mut refused = false;
    for touch in boxes {
        let Some(buffer) = layer.buffer(touch.image as usize) else {
            continue;
        };
        let (Place::Image(shape)
        | Place::Made {
            shape: Some(shape), ..
        }) = &buffer.place
        else {
            continue;
        };
        if touch.origin.is_null() || touch.region.is_null() {
            continue;
        }
        // SAFETY: three numbers each, as these calls take them.
        let (origin, region) = unsafe {
            (
                *touch.origin.cast::<[usize; 3]>(),
                *touch.region.cast::<[usize; 3]>(),
            )
        };
        let Some((size, pixel)) = shape.pixels() else {
            continue;
        };
        let inside = |index: usize| {
            let end = origin[index].checked_add(region[index]);
            end.is_some_and(|end| end as u64 <= size[index])
        };
        // What is no box at all is the platform's to refuse.
        if region.contains(&0) || (0..3).all(inside) {
            continue;
        }
        refused = refuses;
        let what = if touch.writes { "write" } else { "read" };
        let rows = (origin[2] as u64)
            .saturating_mul(size[1])
            .saturating_add(origin[1] as u64);
        let first = rows
            .saturating_mul(size[0])
            .saturating_add(origin[0] as u64);
        let count = region
            .iter()
            .fold(1u64, |all, side| all.saturating_mul(*side as u64));
        let error = CallError {
            function,
            rule: rule(touch.writes),
            detail: format!("{what} of {region:?} pixels at {origin:?} of an image of {size:?}"),
            width: count.saturating_mul(pixel),
            offset: first.saturating_mul(pixel),
            buffer,
        };
        layer.reporter.call(layer, error);
    }
    refused
}

fn rule(writes: bool) -> Rule {
    if writes {
        Rule::CopyOutOfBoundsWrite
    } else {
        Rule::CopyOutOfBoundsRead
    }
}

fn describe(function: &'static str, touch: &Touch, buffer: Arc<Buffer>) -> CallError {
    let size = touch.to - touch.from;
    let width = u64::try_from(size).unwrap_or(u64::MAX);
    let what = if touch.writes { "write" } else { "read" };
    CallError {
        function,
        rule: rule(touch.writes),
        detail: format!(
            "{what} of {} at offset {} of {}",
            report::count(width, "byte"),
            touch.from,
            report::count(buffer.size, "byte")
        ),
        width,
        offset: u64::try_from(touch.from).unwrap_or(u64::MAX),
        buffer,
    }
}

/// Hooks that do nothing else than to refuse what leaves a buffer: name of the
/// hook, function, its parameters before the wait list, and what it is to
/// touch.
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
            with_looks((count, list), |(count, list)| {
                call!($name($($parameter,)* count, list, event))
            })
        })*
    };
}

judged! {
    read = clEnqueueReadBuffer(queue: cl_command_queue, buffer: cl_mem, blocking: cl_bool, offset: usize, size: usize, to: *mut c_void)
        touches Touch::range(buffer, offset, size, false);
    write = clEnqueueWriteBuffer(queue: cl_command_queue, buffer: cl_mem, blocking: cl_bool, offset: usize, size: usize, from: *const c_void)
        touches Touch::range(buffer, offset, size, true);
    copy = clEnqueueCopyBuffer(queue: cl_command_queue, from: cl_mem, to: cl_mem, at: usize, goal: usize, size: usize)
        touches Touch::range(from, at, size, false), Touch::range(to, goal, size, true);
    fill = clEnqueueFillBuffer(queue: cl_command_queue, buffer: cl_mem, pattern: *const c_void, pattern_size: usize, offset: usize, size: usize)
        touches Touch::range(buffer, offset, size, true);
    read_rect = clEnqueueReadBufferRect(queue: cl_command_queue, buffer: cl_mem, blocking: cl_bool, origin: *const usize, host_origin: *const usize, region: *const usize, row: usize, slice: usize, host_row: usize, host_slice: usize, to: *mut c_void)
        touches Touch::rect(buffer, origin, region, (row, slice), false);
    write_rect = clEnqueueWriteBufferRect(queue: cl_command_queue, buffer: cl_mem, blocking: cl_bool, origin: *const usize, host_origin: *const usize, region: *const usize, row: usize, slice: usize, host_row: usize, host_slice: usize, from: *const c_void)
        touches Touch::rect(buffer, origin, region, (row, slice), true);
}

/// The same for images: what it is to touch are boxes of pixels.
macro_rules! judged_images {
    ($($hook:ident blocking: $blocking:ident = $name:ident(queue: cl_command_queue, $($parameter:ident: $type:ty),* $(,)?)
        touches $(($image:ident, $origin:ident, $region:ident, $writes:literal)),+;)*) => {
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
                writes: $writes,
            }),+];
            if refused_pixels(stringify!($name), &boxes) {
                return CL_INVALID_VALUE;
            }
            let command = Command {
                queue,
                function: stringify!($name),
                images: &[$(($image, $writes)),+],
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
        touches (image, origin, region, false);
    write_image blocking: blocking = clEnqueueWriteImage(queue: cl_command_queue, image: cl_mem, blocking: cl_bool, origin: *const usize, region: *const usize, row: usize, slice: usize, from: *const c_void)
        touches (image, origin, region, true);
    copy_image blocking: FALSE = clEnqueueCopyImage(queue: cl_command_queue, from: cl_mem, to: cl_mem, at: *const usize, goal: *const usize, region: *const usize)
        touches (from, at, region, false), (to, goal, region, true);
    fill_image blocking: FALSE = clEnqueueFillImage(queue: cl_command_queue, image: cl_mem, color: *const c_void, origin: *mut usize, region: *mut usize)
        touches (image, origin, region, true);
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

/// The block of a buffer, and how many bytes from its start the buffer's own
/// start: not all platforms copy between images and parts of buffers, or boxes
/// of parts (PoCL 3.1 does not). What leaves the buffer is left to the
/// platform's own judgement of the buffer.
fn in_block(buffer: cl_mem, touch: Option<&Touch>) -> (cl_mem, usize) {
    let known = layer::get().and_then(|layer| layer.buffer(buffer as usize));
    let Some(known) = known else {
        return (buffer, 0);
    };
    let (root, origin) = match &known.place {
        Place::Part { parent, origin } => (parent, *origin),
        _ => (&known, 0),
    };
    if touch.is_some_and(|touch| touch.to <= u128::from(known.size))
        && let Place::Block(block) = &root.place
        && let Memory::Buffer(whole) = block.memory
    {
        return (whole as cl_mem, origin + block.layout.start() as usize);
    }
    (buffer, 0)
}

/// An origin so many bytes further on.
fn further(origin: *const usize, bytes: usize) -> [usize; 3] {
    // SAFETY: three numbers, as the caller has seen.
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
            Touch::rect(from, at, region, (from_row, from_slice), false),
            Touch::rect(to, goal, region, (to_row, to_slice), true),
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
    with_looks((count, list), |(count, list)| {
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
    let touch = Touch::range(to, goal, bytes, true);
    let pixels = Pixels {
        image: from,
        origin: at,
        region,
        writes: false,
    };
    if refused("clEnqueueCopyImageToBuffer", &[touch])
        || refused_pixels("clEnqueueCopyImageToBuffer", &[pixels])
    {
        return CL_INVALID_VALUE;
    }
    let (block, start) = in_block(to, Touch::range(to, goal, bytes, true).as_ref());
    let place = goal.wrapping_add(start);
    let command = Command {
        queue,
        function: "clEnqueueCopyImageToBuffer",
        images: &[(from, false)],
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
    let touch = Touch::range(from, at, bytes, false);
    let pixels = Pixels {
        image: to,
        origin: goal,
        region,
        writes: true,
    };
    if refused("clEnqueueCopyBufferToImage", &[touch])
        || refused_pixels("clEnqueueCopyBufferToImage", &[pixels])
    {
        return CL_INVALID_VALUE;
    }
    let (block, start) = in_block(from, Touch::range(from, at, bytes, false).as_ref());
    let place = at.wrapping_add(start);
    let command = Command {
        queue,
        function: "clEnqueueCopyBufferToImage",
        images: &[(to, true)],
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
    // Nothing below holds these to any bounds.
    let to_leaves = leaves("clEnqueueSVMMemcpy", to, size, true);
    if leaves("clEnqueueSVMMemcpy", from, size, false) || to_leaves {
        return CL_INVALID_VALUE;
    }
    with_looks((count, list), |(count, list)| {
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
    if leaves("clEnqueueSVMMemFill", to, size, true) {
        return CL_INVALID_VALUE;
    }
    with_looks((count, list), |(count, list)| {
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

/// Whether a call that starts in an SVM allocation goes over its end; if so it
/// is reported, and must be refused if the settings want it.
pub fn leaves(function: &'static str, pointer: *const c_void, size: usize, writes: bool) -> bool {
    let Some((layer, refuses)) = judging() else {
        return false;
    };
    let Some(buffer) = layer.svm_at(pointer as usize) else {
        return false;
    };
    let offset = (pointer as usize - buffer.handle) as u64;
    if u128::from(offset) + size as u128 <= u128::from(buffer.size) {
        return false;
    }
    let what = if writes { "write" } else { "read" };
    let error = CallError {
        function,
        rule: rule(writes),
        detail: format!(
            "{what} of {} at offset {offset} of {}",
            report::count(size as u64, "byte"),
            report::count(buffer.size, "byte")
        ),
        width: size as u64,
        offset,
        buffer,
    };
    layer.reporter.call(layer, error);
    refuses
}
