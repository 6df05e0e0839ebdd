//! Shared virtual memory: allocations with canaries, whose pointers the
//! program holds. A kernel that gets one of them can reach them all, because
//! each may hold pointers to others.

use crate::blocks::{Block, Memory};
use crate::buffers::{Buffer, Place, with_canaries};
use crate::flags::Given;
use crate::jobs::PATIENCE;
use crate::layer::{self, Layer};
use crate::sys::*;
use crate::table::call;
use crate::waits::with_looks;
use heap::canary::Layout;
use model::AllocationKind;
use parking_lot::Mutex;
use std::ffi::c_void;
use std::sync::Arc;

/// Allocations are aligned to the largest type if the program does not say:
/// long16.
const ALIGNMENT: u64 = 128;

impl Layer {
    /// The allocation that holds an address.
    pub fn svm_at(&self, address: usize) -> Option<Arc<Buffer>> {
        let known = self.svm.lock();
        let (start, (_, buffer)) = known.range(..=address).next_back()?;
        ((address - start) as u64 <= buffer.size).then(|| buffer.clone())
    }

    /// All allocations of a context.
    pub fn svm_of(&self, context: usize) -> Vec<Arc<Buffer>> {
        let known = self.svm.lock();
        let here = known.values().filter(|(of, _)| *of == context);
        here.map(|(_, buffer)| buffer.clone()).collect()
    }

    fn guarded_svm(
        &self,
        context: cl_context,
        flags: u64,
        size: usize,
        alignment: cl_uint,
    ) -> Option<*mut c_void> {
        if size == 0 || context.is_null() {
            return None;
        }
        let serial = self.next_serial();
        let key = self.keys.key(serial);
        let (layout, block) = with_canaries(self, |canary| {
            let layout = Layout::around(size as u64, canary, u64::from(alignment).max(ALIGNMENT))?;
            let total = usize::try_from(layout.total()).ok()?;
            let block =
                call!(clSVMAlloc(context, flags, total, alignment) else std::ptr::null_mut());
            (!block.is_null()).then_some((layout, block))
        })?;
        let start = block as usize + layout.start() as usize;
        let buffer = Arc::new(Buffer {
            serial,
            kind: AllocationKind::ClSvm,
            size: size as u64,
            handle: start,
            context: context as usize,
            given: Given { flags, host: false },
            flags,
            properties: false,
            place: Place::Block(Block::new(Memory::Svm(block as usize), layout, key)),
            shadow: Mutex::default(),
            staged: Mutex::default(),
            allocated_at: self.stack(),
        });
        self.svm.lock().insert(start, (context as usize, buffer));
        Some(start as *mut c_void)
    }

    /// Forgets an allocation, and answers where the platform knows it.
    fn take_svm(&self, pointer: *mut c_void) -> Option<(*mut c_void, Arc<Buffer>)> {
        let (_, buffer) = self.svm.lock().remove(&(pointer as usize))?;
        match &buffer.place {
            Place::Block(Block {
                memory: Memory::Svm(block),
                ..
            }) => Some((*block as *mut c_void, buffer)),
            _ => None,
        }
    }
}

pub unsafe extern "C" fn allocate(
    context: cl_context,
    flags: cl_svm_mem_flags,
    size: usize,
    alignment: cl_uint,
) -> *mut c_void {
    let guarded = layer::get().and_then(|layer| layer.guarded_svm(context, flags, size, alignment));
    guarded.unwrap_or_else(
        || call!(clSVMAlloc(context, flags, size, alignment) else std::ptr::null_mut()),
    )
}

pub unsafe extern "C" fn free(context: cl_context, pointer: *mut c_void) {
    let taken = layer::get().and_then(|layer| Some((layer, layer.take_svm(pointer)?)));
    let Some((layer, (block, buffer))) = taken else {
        return call!(clSVMFree(context, pointer) else ());
    };
    // Looks that are under way read it.
    layer
        .jobs
        .wait(PATIENCE, |_, _| Arc::strong_count(&buffer) > 1);
    call!(clSVMFree(context, block) else ())
}

type FreeFunction =
    Option<unsafe extern "C" fn(cl_command_queue, cl_uint, *mut *mut c_void, *mut c_void)>;

pub unsafe extern "C" fn enqueue_free(
    queue: cl_command_queue,
    count: cl_uint,
    pointers: *mut *mut c_void,
    function: FreeFunction,
    data: *mut c_void,
    waits: cl_uint,
    list: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    // A function of the program's own gets the program's own pointers, and
    // frees them by the call above.
    let mut blocks: Vec<*mut c_void> = Vec::new();
    let mut taken: Vec<(usize, Arc<Buffer>)> = Vec::new();
    let mut given = pointers;
    if function.is_none()
        && !pointers.is_null()
        && let Some(layer) = layer::get()
    {
        // SAFETY: the program's list.
        let theirs = unsafe { std::slice::from_raw_parts(pointers, count as usize) };
        for pointer in theirs {
            let Some((block, buffer)) = layer.take_svm(*pointer) else {
                blocks.push(*pointer);
                continue;
            };
            blocks.push(block);
            taken.push((*pointer as usize, buffer));
        }
        given = blocks.as_mut_ptr();
    }
    let code = with_looks((waits, list), |(waits, list)| {
        call!(clEnqueueSVMFree(
            queue, count, given, function, data, waits, list, event
        ))
    });
    if code != CL_SUCCESS
        && let Some(layer) = layer::get()
    {
        // They are not freed.
        let mut known = layer.svm.lock();
        known.extend(
            taken
                .into_iter()
                .map(|(pointer, buffer)| (pointer, (buffer.context, buffer))),
        );
    }
    code
}
