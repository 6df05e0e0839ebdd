//! Functions of the host that are enqueued with memory objects
//! (`clEnqueueNativeKernel`).
//!
//! PoCL (3.1) passes such a function the address of the whole buffer instead of
//! the part, which here would be the address of a block; and it passes the
//! addresses of several objects in the order in which they were made. So
//! Ringfence enqueues a function for each object before the program's function,
//! which finds the object's address, and another one that writes these
//! addresses into the program's arguments.

use crate::api::session;
use crate::findings::HostAction;
use crate::objects::block::Memory;
use crate::objects::buffer::{Buffer, Place, root_of};
use crate::platform::call;
use crate::platform::events::{Chain, Waits, Wanted, wait_list};
use crate::schedule::HostWrite;
use crate::sys::*;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

type Function = unsafe extern "C" fn(*mut c_void);

/// The program's arguments start at a multiple of this, as any allocation.
const ALIGNMENT: usize = 16;

/// An object, and the address that the platform gives it.
#[derive(Default)]
struct Object {
    /// Where its address is stored in the program's arguments.
    at: usize,
    /// Address of the object itself.
    own: AtomicUsize,
    /// Address of its block, and bytes from there to the buffer that the
    /// program made; none of an object without canaries.
    block: Option<(AtomicUsize, usize)>,
    /// Whether it is a part of that buffer.
    part: bool,
}

impl Object {
    /// The address that the program's function gets: the same as without
    /// canaries. A platform that does not distinguish a part from its buffer
    /// would pass the buffer's then.
    fn address(&self) -> usize {
        let own = self.own.load(Ordering::Acquire);
        match &self.block {
            None => own,
            Some((block, start)) => {
                let block = block.load(Ordering::Acquire);
                if self.part && own != block {
                    own
                } else {
                    block.wrapping_add(*start)
                }
            }
        }
    }
}

/// The arguments of [`with_addresses`], before the program's.
#[repr(C)]
struct Header {
    function: Function,
    /// Objects, of an `Arc`.
    objects: *const Vec<Object>,
}

/// Bytes before the program's arguments.
const BEFORE: usize = size_of::<Header>().next_multiple_of(ALIGNMENT);

/// The function that is enqueued instead of the program's.
unsafe extern "C" fn with_addresses(data: *mut c_void) {
    // SAFETY: the platform's copy of what `enqueue` passed, used once: the
    // header, and the program's arguments, in which all places lie.
    unsafe {
        let header = data.cast::<Header>().read_unaligned();
        let arguments = data.cast::<u8>().add(BEFORE);
        let objects = Arc::from_raw(header.objects);
        for object in objects.iter() {
            let place = arguments.add(object.at).cast::<usize>();
            place.write_unaligned(object.address());
        }
        drop(objects);
        (header.function)(arguments.cast());
    }
}

/// Records an address. Arguments: the address, and where it is stored.
unsafe extern "C" fn note(data: *mut c_void) {
    // SAFETY: the platform's copy of what `find` passed; the place lives until
    // the command that waits for this one has run.
    unsafe {
        let [address, place] = data.cast::<[usize; 2]>().read_unaligned();
        (*(place as *const AtomicUsize)).store(address, Ordering::Release);
    }
}

/// Enqueues [`note`] of an object.
fn find(
    queue: cl_command_queue,
    object: cl_mem,
    place: &AtomicUsize,
    events: &mut Chain,
) -> cl_int {
    let mut arguments = [0usize, std::ptr::from_ref(place) as usize];
    let mut at: [*const c_void; 1] = [arguments.as_ptr().cast()];
    events.add(|event| {
        call!(clEnqueueNativeKernel(
            queue,
            Some(note),
            arguments.as_mut_ptr().cast(),
            size_of_val(&arguments),
            1,
            &raw const object,
            at.as_mut_ptr(),
            0,
            std::ptr::null(),
            event
        ))
    })
}

/// The handle of an object's block, if it has one, and where the program's
/// buffer starts in it.
fn block_of(buffer: &Arc<Buffer>) -> Option<(cl_mem, usize)> {
    let block = root_of(buffer).block()?;
    match block.memory {
        Memory::Buffer(whole) => Some((whole as cl_mem, block.layout.start() as usize)),
        Memory::Svm(_) => None,
    }
}

/// A call of the program's.
struct Given<'a> {
    queue: cl_command_queue,
    function: Function,
    arguments: &'a [u8],
    objects: &'a [cl_mem],
    /// Where their addresses are stored in the arguments.
    places: &'a [*const c_void],
}

impl Given<'_> {
    /// Finds the objects' addresses. `None`: this is not possible, or not
    /// necessary.
    fn find(&self, known: &[Option<Arc<Buffer>>], events: &mut Chain) -> Option<Arc<Vec<Object>>> {
        let base = self.arguments.as_ptr() as usize;
        let mut objects = Vec::new();
        let mut handles = Vec::new();
        for ((handle, place), buffer) in self.objects.iter().zip(self.places).zip(known) {
            let at = (*place as usize).checked_sub(base)?;
            if at.checked_add(size_of::<usize>())? > self.arguments.len() {
                return None;
            }
            let block = buffer.as_ref().and_then(block_of);
            handles.push((*handle, block.map(|(whole, _)| whole)));
            objects.push(Object {
                at,
                block: block.map(|(_, start)| (AtomicUsize::new(0), start)),
                part: buffer
                    .as_ref()
                    .is_some_and(|buffer| matches!(buffer.place, Place::Part { .. })),
                ..Object::default()
            });
        }
        if handles.iter().all(|(_, whole)| whole.is_none()) {
            return None;
        }
        let objects = Arc::new(objects);
        for (object, (handle, whole)) in objects.iter().zip(handles) {
            let mut code = CL_SUCCESS;
            if let (Some((block, _)), Some(whole)) = (&object.block, whole) {
                code = find(self.queue, whole, block, events);
            }
            if code == CL_SUCCESS && (object.part || object.block.is_none()) {
                code = find(self.queue, handle, &object.own, events);
            }
            if code != CL_SUCCESS {
                // The enqueued functions write into them.
                std::mem::forget(objects.clone());
                return None;
            }
        }
        Some(objects)
    }

    /// Enqueues the program's function with the objects' own addresses.
    fn enqueue(
        &self,
        objects: Arc<Vec<Object>>,
        found: &Chain,
        (count, list): (cl_uint, *const cl_event),
        event: *mut cl_event,
    ) -> cl_int {
        let mut before: Vec<cl_event> = found.events().collect();
        if !list.is_null() {
            // SAFETY: a list of this many events.
            before.extend(unsafe { std::slice::from_raw_parts(list, count as usize) });
        }
        let (count, list) = wait_list(&before);
        let total = BEFORE + self.arguments.len();
        let mut bytes = vec![0u128; total.div_ceil(size_of::<u128>())];
        let base = bytes.as_mut_ptr().cast::<u8>();
        let header = Header {
            function: self.function,
            objects: Arc::into_raw(objects),
        };
        let objects = header.objects;
        // SAFETY: there is room for the header and the arguments behind it.
        unsafe {
            base.cast::<Header>().write(header);
            base.add(BEFORE)
                .copy_from_nonoverlapping(self.arguments.as_ptr(), self.arguments.len());
        }
        let start = self.arguments.as_ptr() as usize;
        // The address that the platform writes there is replaced.
        let mut places: Vec<*const c_void> = self
            .places
            .iter()
            .map(|place| base.wrapping_add(BEFORE + (*place as usize - start)))
            .map(|place| place.cast_const().cast())
            .collect();
        let code = call!(clEnqueueNativeKernel(
            self.queue,
            Some(with_addresses),
            base.cast(),
            total,
            self.objects.len() as cl_uint,
            self.objects.as_ptr(),
            places.as_mut_ptr(),
            count,
            list,
            event
        ));
        if code != CL_SUCCESS {
            // SAFETY: the function that takes it is never called.
            let objects = unsafe { Arc::from_raw(objects) };
            // It may still be written.
            std::mem::forget(objects);
        }
        code
    }
}

pub unsafe extern "C" fn enqueue(
    queue: cl_command_queue,
    function: Option<Function>,
    arguments: *mut c_void,
    bytes: usize,
    objects: cl_uint,
    list_of_objects: *const cl_mem,
    places: *mut *const c_void,
    count: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let plain = |(count, list), event| {
        call!(clEnqueueNativeKernel(
            queue,
            function,
            arguments,
            bytes,
            objects,
            list_of_objects,
            places,
            count,
            list,
            event
        ))
    };
    let (Some(session), Some(function)) = (session::get(), function) else {
        return plain((count, list), event);
    };
    if arguments.is_null()
        || objects == 0
        || list_of_objects.is_null()
        || places.is_null()
        || list.is_null() != (count == 0)
    {
        return plain((count, list), event);
    }
    // SAFETY: the program's arguments and its lists of objects and places, with
    // the sizes that it passed.
    let given = unsafe {
        Given {
            queue,
            function,
            arguments: std::slice::from_raw_parts(arguments.cast(), bytes),
            objects: std::slice::from_raw_parts(list_of_objects, objects as usize),
            places: std::slice::from_raw_parts(places, objects as usize),
        }
    };
    let all = given.objects.iter();
    let known: Vec<Option<Arc<Buffer>>> = all.map(|object| session.buffer(*object)).collect();
    let mut events = Chain::default();
    let found = given.find(&known, &mut events);
    // SAFETY: the program's list, and its place for the event.
    let (waits, wanted) = unsafe { (Waits::of((count, list)), Wanted::at(event)) };
    let write = HostWrite {
        queue,
        action: HostAction {
            function: "clEnqueueNativeKernel",
            what: "the function that was enqueued wrote outside the buffer",
        },
        buffers: match session.settings.check {
            true => roots(&known),
            false => Vec::new(),
        },
        waits,
        wanted,
    };
    write.enqueue(
        &session.schedule,
        || session.stack(),
        |list, event| match found {
            Some(found) => given.enqueue(found, &events, list, event),
            None => plain(list, event),
        },
    )
}

/// The buffers that the program made of some objects, each once.
fn roots(known: &[Option<Arc<Buffer>>]) -> Vec<Arc<Buffer>> {
    let mut buffers: Vec<Arc<Buffer>> = Vec::new();
    for buffer in known.iter().flatten().map(root_of) {
        if !buffers.iter().any(|other| Arc::ptr_eq(other, buffer)) {
            buffers.push(buffer.clone());
        }
    }
    buffers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_that_the_platform_would_give_without_canaries() {
        let object = |own, block, part| Object {
            own: AtomicUsize::new(own),
            block: Some((AtomicUsize::new(block), 0x80)),
            part,
            ..Object::default()
        };
        // A buffer; a part that the platform does not distinguish from its
        // buffer; one that it does.
        assert_eq!(object(0, 0x1000, false).address(), 0x1080);
        assert_eq!(object(0x1000, 0x1000, true).address(), 0x1080);
        assert_eq!(object(0x10c0, 0x1000, true).address(), 0x10c0);
        let plain = Object {
            own: AtomicUsize::new(0x2000),
            ..Object::default()
        };
        assert_eq!(plain.address(), 0x2000);
    }

    unsafe extern "C" fn program(data: *mut c_void) {
        // SAFETY: the test's own arguments.
        let seen = unsafe { data.cast::<[usize; 2]>().read_unaligned() };
        assert_eq!(seen, [7, 0x2000]);
    }

    #[test]
    fn the_program_s_function_gets_its_arguments() {
        let objects = Arc::new(vec![Object {
            at: size_of::<usize>(),
            own: AtomicUsize::new(0x2000),
            ..Object::default()
        }]);
        let header = Header {
            function: program,
            objects: Arc::into_raw(objects),
        };
        let mut bytes = [0u128; 8];
        let base = bytes.as_mut_ptr().cast::<u8>();
        // SAFETY: there is room for both.
        unsafe {
            base.cast::<Header>().write(header);
            base.add(BEFORE)
                .cast::<[usize; 2]>()
                .write_unaligned([7, 0]);
            with_addresses(base.cast());
        }
    }
}
