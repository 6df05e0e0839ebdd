//! Maps. While memory is mapped the host may write beside it, which is looked
//! at when the map ends, so that no kernel is blamed for it.
//!
//! What a platform maps need not be the buffer's own memory: it may be a copy
//! of the bytes that were asked for (NVIDIA's, driver 580), and then nothing
//! that the host writes past their end ever gets near a canary. So the canaries
//! beside them are mapped, too, and looked at in the mapped memory itself.

use crate::blocks::{Block, HOST_ACCESS, Memory};
use crate::buffers::{Buffer, Place};
use crate::chain::{Chain, let_go};
pub use crate::check::Culprit;
use crate::check::{Damaged, Doer, Look};
use crate::copies::{Pixels, Touch, leaves, refused, refused_pixels};
use crate::events::status;
use crate::jobs::Job;
use crate::layer::{self, Layer};
use crate::queries::ask;
use crate::staged::Command;
use crate::sys::*;
use crate::table::call;
use crate::waits::{List, wait_list, with_looks};
use heap::canary::Side;
use std::ffi::c_void;
use std::sync::Arc;

/// What a host does that writes beside what is mapped.
fn mapped(function: &'static str) -> Culprit {
    let what = "while the buffer was mapped, the host wrote outside it";
    Culprit { function, what }
}

/// A map that holds canaries.
pub struct Mapped {
    /// The first mapped byte, as the platform knows the map.
    base: usize,
    /// Which byte of the block that is.
    from: usize,
    /// One past the last.
    to: usize,
    /// Of the map; ours to release.
    event: usize,
}

/// Maps by the program's object and pointer; one pointer may be that of several.
pub type Maps = std::collections::BTreeMap<(usize, usize), Vec<Mapped>>;

pub unsafe extern "C" fn map_buffer(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    flags: cl_map_flags,
    offset: usize,
    size: usize,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
    code: *mut cl_int,
) -> *mut c_void {
    if refused(
        "clEnqueueMapBuffer",
        &[Touch::range(buffer, offset, size, writes(flags))],
    ) {
        if !code.is_null() {
            // SAFETY: the program's place for the code.
            unsafe { *code = CL_INVALID_VALUE };
        }
        return std::ptr::null_mut();
    }
    let grown = layer::get().and_then(|layer| {
        let known = layer.buffer(buffer as usize)?;
        let asked = Asked {
            queue,
            blocking,
            flags,
            offset,
            size,
            list: (count, list),
        };
        asked.map(layer, &known, event)
    });
    if let Some(pointer) = grown {
        if !code.is_null() {
            // SAFETY: as above.
            unsafe { *code = CL_SUCCESS };
        }
        return pointer;
    }
    with_looks((count, list), |(count, list)| {
        call!(clEnqueueMapBuffer(queue, buffer, blocking, flags, offset, size, count, list, event, code)
            else std::ptr::null_mut())
    })
}

/// Whether a map with these flags may be written.
fn writes(flags: cl_map_flags) -> bool {
    flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION) != 0
}

pub unsafe extern "C" fn map_image(
    queue: cl_command_queue,
    image: cl_mem,
    blocking: cl_bool,
    flags: cl_map_flags,
    origin: *const usize,
    region: *const usize,
    row: *mut usize,
    slice: *mut usize,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
    code: *mut cl_int,
) -> *mut c_void {
    let writes = writes(flags);
    let pixels = Pixels {
        image,
        origin,
        region,
        writes,
    };
    let mut answer = CL_INVALID_VALUE;
    let mut pointer = std::ptr::null_mut();
    if !refused_pixels("clEnqueueMapImage", &[pixels]) {
        let command = Command {
            queue,
            function: "clEnqueueMapImage",
            // What the host writes comes back when the map ends.
            images: &[(image, false)],
            blocking: blocking != FALSE,
            list: (count, list),
            event,
        };
        answer = command.enqueue(|(count, list), event| {
            let mut code = CL_SUCCESS;
            pointer = call!(clEnqueueMapImage(
                queue, image, blocking, flags, origin, region, row, slice, count, list, event,
                &raw mut code
            ) else std::ptr::null_mut());
            code
        });
    }
    if let Some(buffer) = layer::get().and_then(|layer| layer.buffer(image as usize))
        && let Some((_, staged)) = buffer.staged()
        && answer == CL_SUCCESS
    {
        staged.keep_map(pointer as usize, writes);
    }
    if !code.is_null() {
        // SAFETY: the program's place for the code.
        unsafe { *code = answer };
    }
    pointer
}

pub unsafe extern "C" fn map_svm(
    queue: cl_command_queue,
    blocking: cl_bool,
    flags: cl_map_flags,
    pointer: *mut c_void,
    size: usize,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    if leaves("clEnqueueSVMMap", pointer, size, writes(flags)) {
        return CL_INVALID_VALUE;
    }
    with_looks((count, list), |(count, list)| {
        call!(clEnqueueSVMMap(
            queue, blocking, flags, pointer, size, count, list, event
        ))
    })
}

/// A map as the program wants it, of bytes that the buffer has.
struct Asked {
    queue: cl_command_queue,
    blocking: cl_bool,
    flags: u64,
    offset: usize,
    size: usize,
    list: List,
}

impl Asked {
    /// Maps the canaries, too. `None`: nothing was done.
    fn map(
        &self,
        layer: &Layer,
        buffer: &Arc<Buffer>,
        event: *mut cl_event,
    ) -> Option<*mut c_void> {
        let Place::Block(block) = &buffer.place else {
            return None;
        };
        let Memory::Buffer(whole) = block.memory else {
            return None;
        };
        // A map that need not hold what the memory held would write back
        // anything for canaries. Who may map what, the block does not know.
        if !layer.settings.check
            || self.size == 0
            || (self.offset as u128 + self.size as u128) > u128::from(buffer.size)
            || self.flags & CL_MAP_WRITE_INVALIDATE_REGION != 0
            || buffer.flags & HOST_ACCESS != 0
        {
            return None;
        }
        let start = block.layout.start() as usize;
        let (mut from, mut to) = (start + self.offset, start + self.offset + self.size);
        if self.offset == 0 {
            // From the block's own start, which is as aligned as the buffer's.
            from = 0;
        }
        if (self.offset + self.size) as u64 == buffer.size {
            to += block.layout.length() as usize;
        }
        let ready: Vec<Arc<Chain>> = block.prepare(self.queue).ok()?.into_iter().collect();
        let mut own = std::ptr::null_mut();
        let mut code = CL_SUCCESS;
        let base = with_ready(self.list, ready.as_slice(), |(count, list)| {
            call!(clEnqueueMapBuffer(
                self.queue, whole as cl_mem, self.blocking, self.flags, from, to - from, count,
                list, &raw mut own, &raw mut code
            ) else std::ptr::null_mut())
        });
        if code != CL_SUCCESS || base.is_null() {
            return None;
        }
        if !event.is_null() {
            call!(clRetainEvent(own));
            // SAFETY: the program's place for the event.
            unsafe { *event = own };
        }
        let pointer = base as usize + (start + self.offset - from);
        let mapped = Mapped {
            base: base as usize,
            from,
            to,
            event: own as usize,
        };
        layer.keep_map(buffer.handle, pointer, mapped);
        Some(pointer as *mut c_void)
    }
}

/// Calls `enqueue` with the program's list, further events, and those of looks.
fn with_ready<T>(list: List, ready: &[Arc<Chain>], enqueue: impl FnOnce(List) -> T) -> T {
    with_looks(list, |(count, list)| {
        let mut all: Vec<cl_event> = ready.iter().filter_map(|events| events.last()).collect();
        if all.is_empty() {
            return enqueue((count, list));
        }
        if !list.is_null() {
            // SAFETY: a list of so many events.
            all.extend(unsafe { std::slice::from_raw_parts(list, count as usize) });
        }
        enqueue(wait_list(&all))
    })
}

impl Mapped {
    /// The mapped bytes of a canary; `None`: they are not all mapped, or not yet.
    fn canary(&self, block: &Block, side: Side) -> Option<&[u8]> {
        let start = block.layout.canary(side) as usize;
        let end = start + block.layout.length() as usize;
        if start < self.from || end > self.to || status(self.event as cl_event)? != 0 {
            return None;
        }
        let first = (self.base + start - self.from) as *const u8;
        // SAFETY: the platform has mapped these bytes, and nobody unmaps them
        // before this map is forgotten; the program has no right to them.
        Some(unsafe { std::slice::from_raw_parts(first, end - start) })
    }

    /// Looks at the canaries that are mapped; whether any was overwritten.
    fn look(&self, layer: &Layer, buffer: &Arc<Buffer>, function: &'static str) -> bool {
        let Place::Block(block) = &buffer.place else {
            return false;
        };
        let mut overwritten = false;
        for side in [Side::Before, Side::After] {
            let Some(bytes) = self.canary(block, side) else {
                continue;
            };
            let Some(damage) = block.layout.verify(&block.key, side, bytes) else {
                continue;
            };
            overwritten = true;
            let stack = layer.stack();
            let (doer, look) = (
                Doer::Host {
                    culprit: mapped(function),
                    stack,
                },
                Look::new(buffer.clone(), None),
            );
            layer
                .reporter
                .damage(layer, &doer, &look, &Damaged::Bytes(damage));
        }
        overwritten
    }
}

pub unsafe extern "C" fn unmap(
    queue: cl_command_queue,
    object: cl_mem,
    pointer: *mut c_void,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let function = "clEnqueueUnmapMemObject";
    let buffer = layer::get().and_then(|layer| layer.buffer(object as usize));
    if let Some((layer, buffer)) = layer::get().zip(buffer.as_ref())
        && let Some(known) = layer.take_map(object, pointer)
    {
        return known.end(layer, queue, (buffer, pointer), (count, list), event);
    }
    if buffer
        .as_ref()
        .is_some_and(|buffer| buffer.staged().is_some())
    {
        let command = Command {
            queue,
            function,
            images: &[(object, true)],
            blocking: false,
            list: (count, list),
            event,
        };
        return command.unmap(pointer as usize, |(count, list), event| {
            call!(clEnqueueUnmapMemObject(
                queue, object, pointer, count, list, event
            ))
        });
    }
    behind_host(
        queue,
        mapped(function),
        buffer.into_iter().collect(),
        (count, list),
        event,
        |(count, list), event| {
            call!(clEnqueueUnmapMemObject(
                queue, object, pointer, count, list, event
            ))
        },
    )
}

impl Layer {
    fn keep_map(&self, object: usize, pointer: usize, mapped: Mapped) {
        let mut maps = self.maps.lock();
        maps.entry((object, pointer)).or_default().push(mapped);
    }

    fn take_map(&self, object: cl_mem, pointer: *mut c_void) -> Option<Mapped> {
        let mut maps = self.maps.lock();
        let key = (object as usize, pointer as usize);
        let list = maps.get_mut(&key)?;
        let known = list.pop();
        if list.is_empty() {
            maps.remove(&key);
        }
        known
    }

    /// Forgets the maps of an object that is gone.
    pub fn forget_maps(&self, object: usize) {
        let mut maps = self.maps.lock();
        let keys: Vec<_> = maps
            .range((object, 0)..=(object, usize::MAX))
            .map(|(key, _)| *key)
            .collect();
        for mapped in keys
            .into_iter()
            .filter_map(|key| maps.remove(&key))
            .flatten()
        {
            let_go(mapped.event as cl_event);
        }
    }
}

impl Mapped {
    /// Looks at the canaries and unmaps. What was overwritten is written again,
    /// behind the unmap: mapped memory that was only to be read must not be.
    fn end(
        self,
        layer: &Layer,
        queue: cl_command_queue,
        (buffer, pointer): (&Arc<Buffer>, *mut c_void),
        list: List,
        event: *mut cl_event,
    ) -> cl_int {
        let Place::Block(block) = &buffer.place else {
            return CL_INVALID_MEM_OBJECT;
        };
        let Memory::Buffer(whole) = block.memory else {
            return CL_INVALID_MEM_OBJECT;
        };
        let overwritten = self.look(layer, buffer, "clEnqueueUnmapMemObject");
        let mut done = std::ptr::null_mut();
        let code = with_looks(list, |(count, list)| {
            call!(clEnqueueUnmapMemObject(
                queue,
                whole as cl_mem,
                self.base as *mut c_void,
                count,
                list,
                &raw mut done
            ))
        });
        if code != CL_SUCCESS {
            // The program may try again.
            layer.keep_map(buffer.handle, pointer as usize, self);
            return code;
        }
        let_go(self.event as cl_event);
        if overwritten {
            block.rewrite(queue, done);
        }
        if event.is_null() {
            let_go(done);
        } else {
            // SAFETY: the program's place for the event.
            unsafe { *event = done };
        }
        CL_SUCCESS
    }
}

pub unsafe extern "C" fn unmap_svm(
    queue: cl_command_queue,
    pointer: *mut c_void,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let buffer = layer::get().and_then(|layer| layer.svm_at(pointer as usize));
    behind_host(
        queue,
        mapped("clEnqueueSVMUnmap"),
        buffer.into_iter().collect(),
        (count, list),
        event,
        |(count, list), event| call!(clEnqueueSVMUnmap(queue, pointer, count, list, event)),
    )
}

/// Enqueues what the host may write beside buffers by, such as the end of a
/// map. Looked at here, so that no kernel is blamed for it.
pub fn behind_host(
    queue: cl_command_queue,
    culprit: Culprit,
    mut buffers: Vec<Arc<Buffer>>,
    list: List,
    event: *mut cl_event,
    mut enqueue: impl FnMut(List, *mut cl_event) -> cl_int,
) -> cl_int {
    let context: Option<usize> = ask!(one, clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT));
    buffers.retain(|buffer| match &buffer.place {
        Place::Block(block) => block.written.is_written() && context == Some(buffer.context),
        _ => false,
    });
    let watching = layer::get().filter(|layer| layer.settings.check && !buffers.is_empty());
    let Some(layer) = watching else {
        return with_looks(list, |list| enqueue(list, event));
    };
    // Another queue may still be writing them.
    let ready: Vec<Arc<Chain>> = buffers
        .iter()
        .filter_map(|buffer| match &buffer.place {
            Place::Block(block) => block.prepare(queue).ok().flatten(),
            _ => None,
        })
        .collect();
    let mut done = std::ptr::null_mut();
    let code = with_ready(list, &ready, |list| enqueue(list, &raw mut done));
    if code != CL_SUCCESS {
        return code;
    }
    let doer = Doer::Host {
        culprit,
        stack: layer.stack(),
    };
    let look = |buffer| Look::new(buffer, None);
    let looks = buffers.into_iter().map(look).collect();
    match Job::start(layer, queue, done, doer, (looks, Vec::new()), ready) {
        Ok((look, job)) if !event.is_null() => layer.watch(done, look, (job, false)),
        Ok((look, _)) => let_go(look),
        Err(code) => layer.reporter.error(&format!(
            "canaries could not be read after {} (code {code})",
            culprit.function
        )),
    }
    if event.is_null() {
        let_go(done);
    } else {
        // SAFETY: the program's place for the event.
        unsafe { *event = done };
    }
    CL_SUCCESS
}
