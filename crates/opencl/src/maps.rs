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
use crate::check::{Damaged, Doer, Look};
use crate::copies::{Touch, refused};
use crate::events::status;
use crate::jobs::Job;
use crate::layer::{self, Layer};
use crate::sys::*;
use crate::table::call;
use crate::waits::{List, wait_list, with_looks};
use heap::canary::Side;
use std::ffi::c_void;
use std::sync::Arc;

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
    let writes = flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION) != 0;
    if refused(
        "clEnqueueMapBuffer",
        &[Touch::range(buffer, offset, size, writes)],
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
        let ready = block.prepare(self.queue).ok()?;
        let mut own = std::ptr::null_mut();
        let mut code = CL_SUCCESS;
        let base = with_ready(self.list, ready.as_deref(), |(count, list)| {
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

/// Calls `enqueue` with the program's list, one more event, and those of looks.
fn with_ready<T>(list: List, ready: Option<&Chain>, enqueue: impl FnOnce(List) -> T) -> T {
    with_looks(list, |(count, list)| {
        let Some(ready) = ready.and_then(Chain::last) else {
            return enqueue((count, list));
        };
        let mut all = vec![ready];
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
                Doer::Host { function, stack },
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
    mapped: *mut c_void,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let function = "clEnqueueUnmapMemObject";
    let buffer = layer::get().and_then(|layer| layer.buffer(object as usize));
    if let Some((layer, buffer)) = layer::get().zip(buffer.as_ref())
        && let Some(known) = layer.take_map(object, mapped)
    {
        return known.end(layer, queue, (buffer, mapped), (count, list), event);
    }
    end_of_map(
        queue,
        function,
        buffer,
        (count, list),
        event,
        |(count, list), event| {
            call!(clEnqueueUnmapMemObject(
                queue, object, mapped, count, list, event
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
    let function = "clEnqueueSVMUnmap";
    end_of_map(
        queue,
        function,
        buffer,
        (count, list),
        event,
        |(count, list), event| call!(clEnqueueSVMUnmap(queue, pointer, count, list, event)),
    )
}

/// While memory is mapped the host may write beside it. Looked at here, so
/// that no kernel is blamed for it.
fn end_of_map(
    queue: cl_command_queue,
    function: &'static str,
    buffer: Option<Arc<Buffer>>,
    list: List,
    event: *mut cl_event,
    enqueue: impl FnOnce(List, *mut cl_event) -> cl_int,
) -> cl_int {
    let canaries = buffer.filter(|buffer| match &buffer.place {
        Place::Block(block) => block.written.is_written(),
        _ => false,
    });
    let watching = layer::get().filter(|layer| layer.settings.check);
    let Some((layer, buffer)) = watching.zip(canaries) else {
        return with_looks(list, |list| enqueue(list, event));
    };
    // Another queue may still be writing them.
    let ready = match &buffer.place {
        Place::Block(block) => block.prepare(queue).ok().flatten(),
        _ => None,
    };
    let mut done = std::ptr::null_mut();
    let code = with_ready(list, ready.as_deref(), |list| enqueue(list, &raw mut done));
    if code != CL_SUCCESS {
        return code;
    }
    let doer = Doer::Host {
        function,
        stack: layer.stack(),
    };
    let looks = vec![Look::new(buffer, None)];
    let before = ready.into_iter().collect();
    match Job::start(layer, queue, done, doer, looks, before) {
        Ok((look, job)) if !event.is_null() => layer.watch(done, look, job),
        Ok((look, _)) => let_go(look),
        Err(code) => layer.reporter.error(&format!(
            "canaries could not be read after {function} (code {code})"
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
