//! Events.

use crate::device::basics::Result;
use crate::device::objects::event::{DISABLE_TIMING, Event, Recorded};
use crate::device::objects::work::Work;
use crate::device::state::{Device, State};
use driver::sys::CUresult;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

impl State {
    pub(crate) fn event(&self, handle: u64) -> Result<Arc<Event>> {
        self.events
            .read()
            .get(&handle)
            .cloned()
            .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }
}

impl Device {
    /// `cuEventCreate`
    pub fn event_create(&self, flags: u32) -> Result<u64> {
        self.enter()?;
        // Default, blocking sync, disable timing, interprocess: any mix, but
        // interprocess only without timing, and here not at all.
        if flags & !7 != 0 || flags & 4 != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let handle = self.handle();
        let event = Event {
            handle,
            flags,
            recorded: Mutex::new(None),
            captured: Mutex::new(None),
        };
        self.state.events.write().insert(handle, Arc::new(event));
        Ok(handle)
    }

    /// `cuEventDestroy`
    pub fn event_destroy(&self, handle: u64) -> Result<()> {
        self.state
            .events
            .write()
            .remove(&handle)
            .map(drop)
            .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    /// `cuEventRecord`
    pub fn event_record(&self, handle: u64, stream: u64) -> Result<()> {
        self.enter()?;
        let event = self.state.event(handle)?;
        let stream = self.state.stream(stream)?;
        if self.capture_record(&stream, &event, false)? {
            return Ok(());
        }
        self.apart_from_captures(&stream)?;
        let stamp = Arc::new(OnceLock::new());
        let ticket = self.submit(&stream, Work::Stamp(stamp.clone()), Vec::new(), true);
        *event.captured.lock() = None;
        *event.recorded.lock() = Some(Recorded { ticket, stamp });
        Ok(())
    }

    /// `cuEventRecordWithFlags` with `CU_EVENT_RECORD_EXTERNAL`: a node of the
    /// graph rather than a mark in the capture.
    pub fn event_record_external(&self, handle: u64, stream: u64) -> Result<()> {
        self.enter()?;
        let (event, queue) = (self.state.event(handle)?, self.state.stream(stream)?);
        if self.capture_record(&queue, &event, true)? {
            Ok(())
        } else {
            self.event_record(handle, stream)
        }
    }

    /// `cuEventQuery`
    pub fn event_query(&self, handle: u64) -> Result<()> {
        let event = self.state.event(handle)?;
        self.state.check()?;
        self.ask_event(&event)?;
        match event.ticket() {
            Some(ticket) if !ticket.is_done() => Err(CUresult::CUDA_ERROR_NOT_READY),
            _ => self.state.check(),
        }
    }

    /// `cuEventSynchronize`
    pub fn event_synchronize(&self, handle: u64) -> Result<()> {
        let event = self.state.event(handle)?;
        self.state.check()?;
        self.ask_event(&event)?;
        if let Some(ticket) = event.ticket() {
            ticket.wait();
        }
        self.state.flush();
        self.state.check()
    }

    /// `cuEventElapsedTime`, in milliseconds.
    pub fn event_elapsed(&self, start: u64, end: u64) -> Result<f32> {
        let stamp = |handle| -> Result<Instant> {
            let event = self.state.event(handle)?;
            if event.flags & DISABLE_TIMING != 0 {
                return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
            }
            let recorded = event
                .recorded
                .lock()
                .clone()
                .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
            if !recorded.ticket.is_done() {
                return Err(CUresult::CUDA_ERROR_NOT_READY);
            }
            recorded
                .stamp
                .get()
                .copied()
                .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
        };
        self.state.check()?;
        let (start, end) = (stamp(start)?, stamp(end)?);
        // Events of different streams may have been recorded in either order.
        let forward = end.saturating_duration_since(start).as_secs_f64();
        let backward = start.saturating_duration_since(end).as_secs_f64();
        Ok(((forward - backward) * 1e3) as f32)
    }
}
