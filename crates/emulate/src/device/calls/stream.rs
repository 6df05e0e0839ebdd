//! The stream calls.

use crate::device::basics::Result;
use crate::device::objects::context;
use crate::device::objects::queue::{GREATEST_PRIORITY, LEGACY, NON_BLOCKING, PER_THREAD, Stream};
use crate::device::objects::ticket::Ticket;
use crate::device::objects::work::{HostFunction, WaitRelation, Work};
use crate::device::state::{Device, State};
use crate::engine::Contained;
use driver::sys::CUresult;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// The thread's own default stream: the address of the device's state it
    /// belongs to, and its handle.
    static PER_THREAD_STREAM: RefCell<Option<(usize, u64)>> = const { RefCell::new(None) };
}

impl State {
    /// The stream of a handle, the special ones included.
    pub(crate) fn stream(self: &Arc<Self>, handle: u64) -> Result<Arc<Stream>> {
        match handle {
            0 | LEGACY => Ok(self.legacy.clone()),
            PER_THREAD => Ok(self.per_thread_stream()),
            _ => self
                .streams
                .read()
                .get(&handle)
                .cloned()
                .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE),
        }
    }

    fn per_thread_stream(self: &Arc<Self>) -> Arc<Stream> {
        let me = Arc::as_ptr(self).addr();
        let known = PER_THREAD_STREAM.with_borrow(|own| {
            own.filter(|(state, _)| *state == me)
                .map(|(_, handle)| handle)
        });
        if let Some(stream) = known.and_then(|handle| self.streams.read().get(&handle).cloned()) {
            return stream;
        }
        let handle = self
            .next_handle
            .fetch_add(64, std::sync::atomic::Ordering::Relaxed);
        let stream = Arc::new(Stream::new(
            handle,
            context::current().unwrap_or(0),
            true,
            0,
        ));
        self.streams.write().insert(handle, stream.clone());
        PER_THREAD_STREAM.with_borrow_mut(|own| *own = Some((me, handle)));
        stream
    }

    /// What work of a stream must wait for in other streams: the legacy
    /// default stream waits for all blocking ones, and they for it.
    pub(super) fn ordering(&self, stream: &Stream) -> Vec<Arc<Ticket>> {
        if stream.handle == LEGACY {
            self.streams
                .read()
                .values()
                .filter(|s| s.blocking)
                .filter_map(|s| s.newest())
                .collect()
        } else if stream.blocking {
            self.legacy.newest().into_iter().collect()
        } else {
            Vec::new()
        }
    }
}

impl Device {
    /// Puts work into a stream. `at_once` lets an idle stream execute it on
    /// this thread, for work that is short or waited for anyway.
    pub(crate) fn submit(
        &self,
        stream: &Arc<Stream>,
        work: Work,
        mut after: Vec<Arc<Ticket>>,
        at_once: bool,
    ) -> Arc<Ticket> {
        let order = self.state.order.lock();
        after.extend(self.state.ordering(stream));
        after.retain(|ticket| !ticket.is_done());
        if at_once
            && after.is_empty()
            && let Some(ticket) = stream.claim()
        {
            drop(order);
            work.run(&self.state);
            stream.release(&ticket);
            return ticket;
        }
        stream.push(&self.state.core, after, work)
    }

    /// Whether work put into the stream now would not be executed at once.
    pub(crate) fn would_wait(&self, stream: &Stream) -> bool {
        stream.newest().is_some() || !self.state.ordering(stream).is_empty()
    }

    /// `cuStreamCreate`, `cuStreamCreateWithPriority`
    pub fn stream_create(&self, flags: u32, priority: i32) -> Result<u64> {
        self.enter()?;
        if flags & !NON_BLOCKING != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let handle = self.handle();
        let owner = context::current().unwrap_or(0);
        let priority = priority.clamp(GREATEST_PRIORITY, 0);
        let stream = Stream::new(handle, owner, flags & NON_BLOCKING == 0, priority);
        self.state.streams.write().insert(handle, Arc::new(stream));
        Ok(handle)
    }

    /// `cuStreamDestroy`: what is queued is still executed.
    pub fn stream_destroy(&self, handle: u64) -> Result<()> {
        self.enter()?;
        if handle <= PER_THREAD {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        let stream = self.state.stream(handle)?;
        self.abandon_capture(&stream);
        stream.close();
        // Allocations being freed and the legacy stream must still wait for
        // what is queued: the stream stays in the list until that is over.
        match stream.newest() {
            None => drop(self.state.streams.write().remove(&handle)),
            Some(_) => {
                let mut streams = self.state.streams.write();
                streams.remove(&handle);
                streams.insert(self.handle(), stream);
                streams.retain(|_, s| !s.is_closed() || s.newest().is_some());
            }
        }
        Ok(())
    }

    /// `cuStreamGetFlags`
    pub fn stream_flags(&self, handle: u64) -> Result<u32> {
        Ok(if self.state.stream(handle)?.blocking {
            0
        } else {
            NON_BLOCKING
        })
    }

    /// `cuStreamGetPriority`
    pub fn stream_priority(&self, handle: u64) -> Result<i32> {
        Ok(self.state.stream(handle)?.priority)
    }

    /// `cuStreamSetAttribute`
    pub fn stream_set_attribute(&self, handle: u64, attribute: u32, value: [u8; 64]) -> Result<()> {
        let stream = self.state.stream(handle)?;
        stream.attributes.lock().insert(attribute, value);
        Ok(())
    }

    /// `cuStreamGetAttribute`; `None` for one that was not set.
    pub fn stream_attribute(&self, handle: u64, attribute: u32) -> Result<Option<[u8; 64]>> {
        let stream = self.state.stream(handle)?;
        let found = stream.attributes.lock().get(&attribute).copied();
        Ok(found)
    }

    /// `cuStreamCopyAttributes`
    pub fn stream_copy_attributes(&self, to: u64, from: u64) -> Result<()> {
        let (to, from) = (self.state.stream(to)?, self.state.stream(from)?);
        let copied = from.attributes.lock().clone();
        *to.attributes.lock() = copied;
        Ok(())
    }

    /// `cuStreamGetCtx`
    pub fn stream_context(&self, handle: u64) -> Result<u64> {
        let own = self.state.stream(handle)?.context;
        if own != 0 {
            Ok(own)
        } else {
            context::current().ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)
        }
    }

    /// `cuStreamGetId`
    pub fn stream_id(&self, handle: u64) -> Result<u64> {
        Ok(self.state.stream(handle)?.handle)
    }

    /// For the kernels of one of the programs that share the device and do not trust each
    /// other. `word` is the address of a 32-bit word, not zero where they are to end.
    pub fn contained(&self, word: u64) -> Contained {
        Contained::new(word, &self.state.core.processors)
    }

    /// Kernels that are put into the stream from now on end as [`Contained`] says.
    /// The first call for a stream counts.
    pub fn stream_contain(&self, handle: u64, contained: Arc<Contained>) -> Result<()> {
        self.enter()?;
        let stream = self.state.stream(handle)?;
        // (A second one changes nothing.)
        let _ = stream.contained.set(contained);
        Ok(())
    }

    /// `cuStreamQuery`
    pub fn stream_query(&self, handle: u64) -> Result<()> {
        self.enter()?;
        let stream = self.state.stream(handle)?;
        self.ask_apart_from_captures(&stream)?;
        if self
            .stream_tail(&stream)
            .iter()
            .all(|ticket| ticket.is_done())
        {
            self.state.check()
        } else {
            Err(CUresult::CUDA_ERROR_NOT_READY)
        }
    }

    /// `cuStreamSynchronize`
    pub fn stream_synchronize(&self, handle: u64) -> Result<()> {
        self.enter()?;
        let stream = self.state.stream(handle)?;
        self.ask_apart_from_captures(&stream)?;
        for ticket in self.stream_tail(&stream) {
            ticket.wait();
        }
        self.state.flush();
        self.state.check()
    }

    /// What must be over for a stream to be idle: its own work, and for the
    /// legacy default stream that of all blocking ones.
    pub(crate) fn stream_tail(&self, stream: &Stream) -> Vec<Arc<Ticket>> {
        let _order = self.state.order.lock();
        let mut tail: Vec<_> = stream.newest().into_iter().collect();
        if stream.handle == LEGACY {
            tail.extend(self.state.ordering(stream));
        }
        tail
    }

    /// `cuStreamWaitEvent`
    pub fn stream_wait_event(&self, handle: u64, event: u64) -> Result<()> {
        self.enter()?;
        let (stream, event) = (self.state.stream(handle)?, self.state.event(event)?);
        if self.capture_wait(&stream, &event)? {
            return Ok(());
        }
        if let Some(ticket) = event.ticket().filter(|ticket| !ticket.is_done()) {
            self.submit(&stream, Work::Nothing, vec![ticket], false);
        }
        Ok(())
    }

    /// For calls in a stream that no graph can hold.
    ///
    /// # Errors
    ///
    /// The stream is captured, which ends its capture, or is the legacy stream
    /// while another is.
    pub fn stream_not_captured(&self, handle: u64) -> Result<()> {
        self.enter()?;
        let stream = self.state.stream(handle)?;
        if self.invalidate_capture(&stream) {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        self.apart_from_captures(&stream)
    }

    /// `cuLaunchHostFunc`, `cuStreamAddCallback`
    pub fn host_function(&self, handle: u64, function: Arc<dyn HostFunction>) -> Result<()> {
        self.enter()?;
        let stream = self.state.stream(handle)?;
        self.enqueue(&stream, Work::Host(function), false)
    }

    /// `cuStreamWriteValue32`, `cuStreamWriteValue64` (`wide`)
    pub fn stream_write_value(&self, handle: u64, to: u64, value: u64, wide: bool) -> Result<()> {
        self.enter()?;
        let stream = self.state.stream(handle)?;
        self.check_device_range(to, if wide { 8 } else { 4 })?;
        self.enqueue(&stream, Work::WriteValue { to, value, wide }, false)
    }

    /// `cuStreamWaitValue32`, `cuStreamWaitValue64` (`wide`); the low two bits
    /// of `flags` say when it goes on.
    pub fn stream_wait_value(
        &self,
        handle: u64,
        at: u64,
        value: u64,
        wide: bool,
        flags: u32,
    ) -> Result<()> {
        self.enter()?;
        let stream = self.state.stream(handle)?;
        self.check_device_range(at, if wide { 8 } else { 4 })?;
        let relation = match flags & 3 {
            0 => WaitRelation::GreaterEqual,
            1 => WaitRelation::Equal,
            2 => WaitRelation::And,
            _ => WaitRelation::Nor,
        };
        self.enqueue(
            &stream,
            Work::WaitValue {
                at,
                value,
                wide,
                relation,
            },
            false,
        )
    }

    /// Work for a stream, or a node of the graph that it is captured into.
    pub(crate) fn enqueue(&self, stream: &Arc<Stream>, work: Work, at_once: bool) -> Result<()> {
        if self.capture(stream, &work)? {
            return Ok(());
        }
        self.submit(stream, work, Vec::new(), at_once);
        Ok(())
    }

    /// As [`Device::enqueue`], and waits; not legal while capturing.
    pub(crate) fn execute(&self, stream: &Arc<Stream>, work: Work) -> Result<()> {
        if self.invalidate_capture(stream) {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        self.apart_from_captures(stream)?;
        self.submit(stream, work, Vec::new(), true).wait();
        self.state.flush();
        self.state.check()
    }

    pub(crate) fn close_streams(&self, context: u64) {
        let mut streams = self.state.streams.write();
        for stream in streams.values().filter(|s| s.context == context) {
            stream.close();
        }
        streams.retain(|_, s| s.context != context || s.newest().is_some());
    }
}
