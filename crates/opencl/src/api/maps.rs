//! Maps. While memory is mapped, the host may write beside it. A scan at the
//! end of the map finds such writes, so that they are not attributed to a
//! kernel.
//!
//! What a platform maps need not be the buffer's own memory: it may be a copy
//! of the requested bytes (NVIDIA's, driver 580), and then a write by the host
//! past their end never reaches a canary. So the canaries beside them are
//! mapped, too, and scanned in the mapped memory itself.

use crate::api::copies::HookedCommand;
use crate::api::judge::{Pixels, Touch, leaves, refused, refused_pixels};
use crate::api::session::{self, Session, with_scans};
use crate::canaries::blocks::HOST_ACCESS;
use crate::findings::{Culprit, Damaged, HostAction, Overwritten};
use crate::objects::access::Access;
use crate::objects::block::Memory;
use crate::objects::buffer::Buffer;
use crate::objects::maps::Mapped;
use crate::platform::call;
use crate::platform::events::{Chain, Event, Waits, Wanted};
use crate::schedule::{HostWrite, ImageCommand, MAPPED};
use crate::sys::*;
use heap::canary::Side;
use std::ffi::c_void;
use std::sync::Arc;

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
        &[Touch::range(buffer, offset, size, access(flags))],
    ) {
        if !code.is_null() {
            // SAFETY: the program's place for the code.
            unsafe { *code = CL_INVALID_VALUE };
        }
        return std::ptr::null_mut();
    }
    let grown = session::buffer(buffer).and_then(|(session, known)| {
        let asked = Asked {
            queue,
            blocking,
            flags,
            offset,
            size,
            // SAFETY: the program's list.
            waits: unsafe { Waits::of((count, list)) },
        };
        // SAFETY: the program's place for the event.
        asked.map(session, &known, unsafe { Wanted::at(event) })
    });
    if let Some(pointer) = grown {
        if !code.is_null() {
            // SAFETY: as above.
            unsafe { *code = CL_SUCCESS };
        }
        return pointer;
    }
    with_scans((count, list), |(count, list)| {
        call!(clEnqueueMapBuffer(queue, buffer, blocking, flags, offset, size, count, list, event, code)
            else std::ptr::null_mut())
    })
}

/// What the host may do with a map with these flags.
fn access(flags: cl_map_flags) -> Access {
    match flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION) {
        0 => Access::Read,
        _ => Access::Write,
    }
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
    let access = access(flags);
    let pixels = Pixels {
        image,
        origin,
        region,
        access,
    };
    let mut answer = CL_INVALID_VALUE;
    let mut pointer = std::ptr::null_mut();
    if !refused_pixels("clEnqueueMapImage", &[pixels]) {
        let command = HookedCommand {
            queue,
            function: "clEnqueueMapImage",
            // What the host writes is copied back when the map ends.
            images: &[(image, Access::Read)],
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
    if let Some((_, buffer)) = session::buffer(image)
        && let Some(backed) = buffer.backed()
        && answer == CL_SUCCESS
    {
        backed.backing.keep_map(pointer as usize, access);
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
    if leaves("clEnqueueSVMMap", pointer, size, access(flags)) {
        return CL_INVALID_VALUE;
    }
    with_scans((count, list), |(count, list)| {
        call!(clEnqueueSVMMap(
            queue, blocking, flags, pointer, size, count, list, event
        ))
    })
}

/// The map that the program requests, of bytes inside the buffer.
struct Asked<'a> {
    queue: cl_command_queue,
    blocking: cl_bool,
    flags: u64,
    offset: usize,
    size: usize,
    waits: Waits<'a>,
}

impl Asked<'_> {
    /// Maps the canaries, too. `None`: the map was not made.
    fn map(&self, session: &Session, buffer: &Buffer, wanted: Wanted) -> Option<*mut c_void> {
        let block = buffer.block()?;
        let Memory::Buffer(whole) = block.memory else {
            return None;
        };
        // A map that need not keep the memory's content could write arbitrary
        // bytes over the canaries. The block lacks the buffer's flags for host
        // access.
        if !session.settings.check
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
        let base = session
            .schedule
            .with_ready(self.waits, &ready, |(count, list)| {
                call!(clEnqueueMapBuffer(
                self.queue, whole as cl_mem, self.blocking, self.flags, from, to - from, count,
                list, &raw mut own, &raw mut code
            ) else std::ptr::null_mut())
            });
        if code != CL_SUCCESS || base.is_null() {
            return None;
        }
        let own = Event::of(own)?;
        if wanted.is_some() {
            wanted.give(Some(own.clone()));
        }
        let pointer = base as usize + (start + self.offset - from);
        let mapped = Mapped {
            base: base as usize,
            from,
            to,
            event: own,
        };
        session.objects.maps.keep(buffer.handle, pointer, mapped);
        Some(pointer as *mut c_void)
    }
}

/// Reports canaries that are mapped and overwritten; whether there are any.
fn report_overwritten(
    mapped: &Mapped,
    session: &Session,
    buffer: &Buffer,
    function: &'static str,
) -> bool {
    let Some(block) = buffer.block() else {
        return false;
    };
    let mut overwritten = false;
    for side in [Side::Before, Side::After] {
        let Some(bytes) = mapped.canary(block, side) else {
            continue;
        };
        let Some(damage) = block.layout.verify(&block.key, side, bytes) else {
            continue;
        };
        overwritten = true;
        let action = HostAction {
            function,
            what: MAPPED,
        };
        session.report.overwritten(&Overwritten {
            culprit: &Culprit::Host {
                action,
                stack: session.stack(),
            },
            buffer,
            argument: None,
            damage: &Damaged::Bytes(damage),
        });
    }
    overwritten
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
    let enqueue = |(count, list), event| {
        call!(clEnqueueUnmapMemObject(
            queue, object, pointer, count, list, event
        ))
    };
    let Some((session, buffer)) = session::buffer(object) else {
        return with_scans((count, list), |list| enqueue(list, event));
    };
    // SAFETY: the program's list, and its place for the event.
    let (waits, wanted) = unsafe { (Waits::of((count, list)), Wanted::at(event)) };
    if let Some(mapped) = session.objects.maps.take(object as usize, pointer as usize) {
        return end(mapped, session, queue, (&buffer, pointer), (waits, wanted));
    }
    if buffer.backed().is_some() {
        let command = ImageCommand {
            queue,
            function,
            images: &[(object, Access::Write)],
            blocking: false,
            waits,
            wanted,
        };
        let map = (&session.objects, pointer as usize);
        return command.unmap(&session.schedule, map, enqueue);
    }
    let write = HostWrite {
        queue,
        action: HostAction {
            function,
            what: MAPPED,
        },
        buffers: session.if_checked(buffer),
        waits,
        wanted,
    };
    write.enqueue(&session.schedule, || session.stack(), enqueue)
}

/// Scans the canaries and unmaps. Overwritten canaries are written again behind
/// the unmap: memory that was mapped for reading must not be written.
fn end(
    mapped: Mapped,
    session: &Session,
    queue: cl_command_queue,
    (buffer, pointer): (&Buffer, *mut c_void),
    (waits, wanted): (Waits<'_>, Wanted),
) -> cl_int {
    let Some((block, Memory::Buffer(whole))) = buffer.block().map(|block| (block, block.memory))
    else {
        return CL_INVALID_MEM_OBJECT;
    };
    let overwritten = report_overwritten(&mapped, session, buffer, "clEnqueueUnmapMemObject");
    let mut done = std::ptr::null_mut();
    let code = session.schedule.with_scans(waits, |(count, list)| {
        call!(clEnqueueUnmapMemObject(
            queue,
            whole as cl_mem,
            mapped.base as *mut c_void,
            count,
            list,
            &raw mut done
        ))
    });
    if code != CL_SUCCESS {
        // The program may try again.
        let maps = &session.objects.maps;
        maps.keep(buffer.handle, pointer as usize, mapped);
        return code;
    }
    drop(mapped);
    let done = Event::of(done);
    if let Some(done) = done.as_ref().filter(|_| overwritten) {
        block.rewrite(queue, done.raw());
    }
    wanted.give(done);
    CL_SUCCESS
}

pub unsafe extern "C" fn unmap_svm(
    queue: cl_command_queue,
    pointer: *mut c_void,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let enqueue =
        |(count, list), event| call!(clEnqueueSVMUnmap(queue, pointer, count, list, event));
    let buffer = session::get()
        .and_then(|session| Some((session, session.objects.svm_at(pointer as usize)?)));
    let Some((session, buffer)) = buffer else {
        return with_scans((count, list), |list| enqueue(list, event));
    };
    // SAFETY: the program's list, and its place for the event.
    let (waits, wanted) = unsafe { (Waits::of((count, list)), Wanted::at(event)) };
    let write = HostWrite {
        queue,
        action: HostAction {
            function: "clEnqueueSVMUnmap",
            what: MAPPED,
        },
        buffers: session.if_checked(buffer),
        waits,
        wanted,
    };
    write.enqueue(&session.schedule, || session.stack(), enqueue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::buffers;
    use crate::api::session::testing::start;
    use crate::findings::testing::Kept;
    use crate::platform::commands::Order;
    use crate::platform::fake::peek;
    use model::Settings;

    #[test]
    fn what_the_host_writes_beside_a_map_is_found_and_repaired() {
        let t = start(Settings::default());
        let queue = t.fake.queue(Order::Kept);
        let none = std::ptr::null_mut();
        let (mut code, no_list) = (1, std::ptr::null());
        for beside in [None, Some(-1), Some(40)] {
            // SAFETY: what a program passes.
            let (buffer, pointer) = unsafe {
                let buffer = buffers::create(t.fake.context, 0, 40, none, &raw mut code);
                let flags = CL_MAP_WRITE;
                let pointer = map_buffer(
                    queue,
                    buffer,
                    1,
                    flags,
                    0,
                    40,
                    0,
                    no_list,
                    std::ptr::null_mut(),
                    &raw mut code,
                );
                (buffer, pointer.cast::<u8>())
            };
            assert_eq!(code, CL_SUCCESS);
            let before = peek(buffer as usize, beside.unwrap_or(0));
            // SAFETY: inside the block that was mapped, in bytes that the
            // program may not access.
            unsafe {
                if let Some(at) = beside {
                    *pointer.offset(at) ^= 0xff;
                }
                *pointer = 3;
                let end = unmap(
                    queue,
                    buffer,
                    pointer.cast(),
                    0,
                    no_list,
                    std::ptr::null_mut(),
                );
                assert_eq!(end, CL_SUCCESS);
            }
            t.fake.run();
            let found = t.recorder.take();
            assert_eq!(found.len(), usize::from(beside.is_some()), "{beside:?}");
            assert_eq!(peek(buffer as usize, 0), 3);
            if let Some(at) = beside {
                let serial = t.session.buffer(buffer).unwrap().serial;
                let side = if at < 0 { Side::Before } else { Side::After };
                let nearest = u64::from(at < 0);
                let name = "clEnqueueUnmapMemObject".to_owned();
                assert_eq!(
                    found,
                    [Kept::Overwritten(name, None, serial, side, nearest)]
                );
                assert_eq!(peek(buffer as usize, at), before);
            }
        }
    }

    #[test]
    fn flags_say_what_the_host_may_do() {
        assert_eq!(access(CL_MAP_READ), Access::Read);
        assert_eq!(access(CL_MAP_READ | CL_MAP_WRITE), Access::Write);
        assert_eq!(access(CL_MAP_WRITE_INVALIDATE_REGION), Access::Write);
    }
}
