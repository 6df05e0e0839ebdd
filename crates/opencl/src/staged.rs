//! Images made of buffers, on platforms that make none of a part of a buffer
//! (PoCL 3.1), which here each buffer is.
//!
//! Such an image is made of a buffer of ours, which is made like the
//! program's. Before each command that uses the image the content of the
//! program's buffer is brought there, and afterwards back if it may have
//! changed. Commands that use it follow each other.

use crate::arguments::Kernel;
use crate::buffers::{Buffer, Place};
use crate::chain::{Chain, let_go};
use crate::check::{Culprit, Doer, Look};
use crate::events::status;
use crate::jobs::Job;
use crate::layer::{self, Layer};
use crate::sys::*;
use crate::table::call;
use crate::waits::{List, wait_list, with_looks};
use parking_lot::Mutex;
use std::sync::Arc;

/// See the module's header.
pub struct Staged {
    /// Its `cl_mem`; ours to release.
    memory: usize,
    bytes: usize,
    /// Of the last command that used it.
    last: Mutex<Option<Arc<Chain>>>,
    /// Maps of its images, by address, and whether the host may write there.
    maps: Mutex<Vec<(usize, bool)>>,
}

impl Drop for Staged {
    fn drop(&mut self) {
        call!(clReleaseMemObject(self.memory as cl_mem));
    }
}

/// A command's use of the content of a buffer that images are made of.
pub struct Use {
    pub staged: Arc<Staged>,
    pub buffer: Arc<Buffer>,
    /// Whether the content may change.
    pub writes: bool,
    pub arguments: Vec<Lent>,
}

/// An argument of a kernel that is the buffer itself, or a part of it.
pub struct Lent {
    pub index: u32,
    /// Of the program's object.
    pub handle: usize,
    /// First byte and bytes, of a part.
    pub part: Option<(usize, usize)>,
}

impl Buffer {
    /// What stands for the buffer in images that are made of it.
    ///
    /// # Errors
    ///
    /// The platform's code.
    pub fn stage(&self) -> Result<Arc<Staged>, cl_int> {
        let mut known = self.staged.lock();
        if let Some(staged) = &*known {
            return Ok(staged.clone());
        }
        let bytes = usize::try_from(self.size).map_err(|_| CL_INVALID_BUFFER_SIZE)?;
        // Its images are asked for its flags. What it is made with does not
        // matter: the content comes with the first command.
        let flags = self.given.flags;
        let mut host = Vec::<u8>::new();
        let mut from = std::ptr::null_mut();
        if flags & CL_MEM_COPY_HOST_PTR != 0 {
            let room = host.try_reserve_exact(bytes);
            room.map_err(|_| CL_OUT_OF_HOST_MEMORY)?;
            host.resize(bytes, 0);
            from = host.as_mut_ptr();
        }
        let mut code = CL_SUCCESS;
        let memory = call!(clCreateBuffer(
            self.context as cl_context,
            flags,
            bytes,
            from.cast(),
            &raw mut code
        ) else std::ptr::null_mut());
        if code != CL_SUCCESS || memory.is_null() {
            return Err(code);
        }
        let staged = Arc::new(Staged {
            memory: memory as usize,
            bytes,
            last: Mutex::default(),
            maps: Mutex::default(),
        });
        *known = Some(staged.clone());
        Ok(staged)
    }

    /// The buffer that an image of ours stands for, and what it is made of.
    pub fn staged(&self) -> Option<(&Arc<Buffer>, &Arc<Staged>)> {
        match &self.place {
            Place::Made {
                parent,
                staged: Some(staged),
                ..
            } => Some((parent, staged)),
            _ => None,
        }
    }
}

impl Staged {
    /// No image is made of it any more: nothing of ours holds a queue.
    pub fn rest(&self) {
        let last = self.last.lock().take();
        drop(last);
    }

    pub fn memory(&self) -> cl_mem {
        self.memory as cl_mem
    }

    pub fn keep_map(&self, pointer: usize, writes: bool) {
        self.maps.lock().push((pointer, writes));
    }

    /// Forgets a map; whether the host may have written.
    fn take_map(&self, pointer: usize) -> Option<bool> {
        let mut maps = self.maps.lock();
        let at = maps.iter().rposition(|(at, _)| *at == pointer)?;
        Some(maps.remove(at).1)
    }

    fn copy(
        &self,
        queue: cl_command_queue,
        (from, to): (cl_mem, cl_mem),
        after: &[cl_event],
        events: &mut Chain,
    ) -> cl_int {
        let (count, list) = wait_list(after);
        events.add(|event| {
            call!(clEnqueueCopyBuffer(
                queue, from, to, 0, 0, self.bytes, count, list, event
            ))
        })
    }
}

impl Use {
    pub fn of(buffer: &Buffer, writes: bool) -> Option<Use> {
        let (parent, staged) = buffer.staged()?;
        Some(Use {
            staged: staged.clone(),
            buffer: parent.clone(),
            writes,
            arguments: Vec::new(),
        })
    }

    /// Enqueues the way there. The command must wait for the last of the
    /// returned events.
    ///
    /// # Errors
    ///
    /// The platform's code.
    fn enter(&self, queue: cl_command_queue, after: &[cl_event]) -> Result<Arc<Chain>, cl_int> {
        let last = self.staged.last.lock().clone();
        let mut all = after.to_vec();
        // What has failed is no reason to fail, too.
        let pending = |event: &cl_event| status(*event) > Some(CL_COMPLETE.cast_signed());
        all.extend(last.as_ref().and_then(|last| last.last()).filter(pending));
        let mut events = Chain::default();
        let ends = (self.buffer.handle as cl_mem, self.staged.memory());
        match self.staged.copy(queue, ends, &all, &mut events) {
            CL_SUCCESS => {
                events.behind(last.into_iter().collect());
                Ok(Arc::new(events))
            }
            code => Err(code),
        }
    }

    /// Enqueues the way back.
    pub fn bring_back(
        &self,
        queue: cl_command_queue,
        after: &[cl_event],
        events: &mut Chain,
    ) -> cl_int {
        let ends = (self.staged.memory(), self.buffer.handle as cl_mem);
        self.staged.copy(queue, ends, after, events)
    }

    /// Gives a kernel what the image is made of where it has the buffer itself:
    /// what it writes through one of them must be seen through the other.
    fn lend(&self, kernel: &Kernel) {
        for argument in &self.arguments {
            let whole = self.staged.memory();
            let Some((origin, size)) = argument.part else {
                set(kernel, argument.index, whole);
                continue;
            };
            let region = cl_buffer_region { origin, size };
            let mut code = CL_SUCCESS;
            let part = call!(clCreateSubBuffer(
                whole,
                0,
                CL_BUFFER_CREATE_TYPE_REGION,
                (&raw const region).cast(),
                &raw mut code
            ) else std::ptr::null_mut());
            if code == CL_SUCCESS && !part.is_null() {
                set(kernel, argument.index, part);
                // The launch holds it.
                call!(clReleaseMemObject(part));
            }
        }
    }
}

impl Use {
    /// Gives the kernel its own arguments again.
    pub fn take_back(&self, kernel: &Kernel) {
        for argument in &self.arguments {
            set(kernel, argument.index, argument.handle as cl_mem);
        }
    }
}

fn set(kernel: &Kernel, index: u32, memory: cl_mem) {
    let value = (&raw const memory).cast();
    call!(clSetKernelArg(
        kernel.handle as cl_kernel,
        index,
        size_of::<cl_mem>(),
        value
    ));
}

/// Enqueues the ways there of all uses, of a kernel's or another command's.
/// `own` gets what the command must wait for.
///
/// # Errors
///
/// The platform's code.
pub fn enter(
    queue: cl_command_queue,
    uses: &[Use],
    kernel: Option<&Kernel>,
    before: &[cl_event],
    own: &mut Vec<Arc<Chain>>,
) -> Result<(), cl_int> {
    for one in uses {
        own.push(one.enter(queue, before)?);
    }
    if let Some(kernel) = kernel {
        for one in uses {
            one.lend(kernel);
        }
    }
    Ok(())
}

impl Layer {
    /// Enqueues what comes behind a command: looks, and the way back of what
    /// stands for buffers. `done` is the command's event, which goes to the
    /// program or is released. Returns the event that is complete when all is
    /// done, if anything comes behind it.
    ///
    /// # Errors
    ///
    /// The platform's code. The event is the program's all the same.
    pub fn behind(
        &self,
        queue: cl_command_queue,
        (done, event): (cl_event, *mut cl_event),
        (doer, gated): (Doer, bool),
        (looks, uses): (Vec<Look>, Vec<Use>),
        own: Vec<Arc<Chain>>,
    ) -> Result<Option<Chain>, cl_int> {
        let all: Vec<Arc<Staged>> = uses.iter().map(|one| one.staged.clone()).collect();
        let used_until = |last: cl_event, before: Vec<Arc<Chain>>| {
            let mut events = Chain::default();
            call!(clRetainEvent(last));
            events.push(last);
            events.behind(before);
            let events = Arc::new(events);
            for staged in &all {
                *staged.last.lock() = Some(events.clone());
            }
        };
        let mut result = Ok(None);
        if looks.is_empty() && !uses.iter().any(|one| one.writes) {
            used_until(done, own);
        } else {
            match Job::start(self, queue, done, doer, (looks, uses), own) {
                Ok((check, job)) => {
                    used_until(check, Vec::new());
                    let mut last = Chain::default();
                    call!(clRetainEvent(check));
                    last.push(check);
                    result = Ok(Some(last));
                    if event.is_null() {
                        let_go(check);
                    } else {
                        self.watch(done, check, (job, gated));
                    }
                }
                Err(code) => result = Err(code),
            }
        }
        if !all.is_empty() {
            // A command in another queue may have to wait for it.
            call!(clFlush(queue));
        }
        if event.is_null() {
            let_go(done);
        } else {
            // SAFETY: the program's place for the event.
            unsafe { *event = done };
        }
        result
    }
}

/// A command of the program's that uses images.
pub struct Command<'a> {
    pub queue: cl_command_queue,
    pub function: &'static str,
    /// Each with whether it is written.
    pub images: &'a [(cl_mem, bool)],
    /// Whether the call returns only when all is done.
    pub blocking: bool,
    pub list: List,
    pub event: *mut cl_event,
}

impl Command<'_> {
    /// Enqueues it: the content of what its images are made of is brought
    /// there before, where that must be, and back.
    pub fn enqueue(self, enqueue: impl FnOnce(List, *mut cl_event) -> cl_int) -> cl_int {
        let mut uses: Vec<Use> = Vec::new();
        if let Some(layer) = layer::get() {
            for (image, writes) in self.images {
                let buffer = layer.buffer(*image as usize);
                let one = buffer.and_then(|buffer| Use::of(&buffer, *writes));
                add(&mut uses, one);
            }
        }
        self.with(uses, true, enqueue)
    }

    /// Enqueues the end of a map.
    pub fn unmap(
        self,
        pointer: usize,
        enqueue: impl FnOnce(List, *mut cl_event) -> cl_int,
    ) -> cl_int {
        let mut uses: Vec<Use> = Vec::new();
        if let Some(layer) = layer::get() {
            for (image, _) in self.images {
                let buffer = layer.buffer(*image as usize);
                let one = buffer.and_then(|buffer| {
                    let (_, staged) = buffer.staged()?;
                    let writes = staged.take_map(pointer)?;
                    Use::of(&buffer, writes)
                });
                add(&mut uses, one.filter(|one| one.writes));
            }
        }
        self.with(uses, false, enqueue)
    }

    fn with(
        self,
        uses: Vec<Use>,
        fill: bool,
        enqueue: impl FnOnce(List, *mut cl_event) -> cl_int,
    ) -> cl_int {
        let Some(layer) = layer::get().filter(|_| !uses.is_empty()) else {
            return with_looks(self.list, |list| enqueue(list, self.event));
        };
        let queue = self.queue;
        let turn = layer.turn.lock();
        let mut done = std::ptr::null_mut();
        let mut own = Vec::new();
        let code = with_looks(self.list, |(count, list)| {
            let mut before: Vec<cl_event> = Vec::new();
            if !list.is_null() {
                // SAFETY: a list of so many events.
                before.extend(unsafe { std::slice::from_raw_parts(list, count as usize) });
            }
            if fill {
                if let Err(code) = enter(queue, &uses, None, &before, &mut own) {
                    return code;
                }
                before.extend(own.iter().filter_map(|events| events.last()));
            }
            enqueue(wait_list(&before), &raw mut done)
        });
        if code != CL_SUCCESS {
            return code;
        }
        let culprit = Culprit {
            function: self.function,
            what: "",
        };
        let doer = Doer::Host {
            culprit,
            stack: None,
        };
        let last = match layer.behind(
            queue,
            (done, self.event),
            (doer, false),
            (Vec::new(), uses),
            own,
        ) {
            Ok(last) => last,
            Err(code) => return code,
        };
        drop(turn);
        if self.blocking
            && let Some(last) = last.as_ref().and_then(Chain::last)
        {
            call!(clWaitForEvents(1, &raw const last));
        }
        CL_SUCCESS
    }
}

/// Adds a use, of one buffer only once.
pub fn add(uses: &mut Vec<Use>, one: Option<Use>) {
    let Some(one) = one else { return };
    let same = |other: &&mut Use| Arc::ptr_eq(&other.staged, &one.staged);
    match uses.iter_mut().find(same) {
        Some(known) => known.writes |= one.writes,
        None => uses.push(one),
    }
}
