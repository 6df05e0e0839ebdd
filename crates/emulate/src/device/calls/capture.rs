//! Stream capture: calls become nodes of a graph (CUDA driver API, "Stream
//! capture").

use crate::device::basics::Result;
use crate::device::objects::capture::{CaptureInfo, Capturing, Session};
use crate::device::objects::event::Event;
use crate::device::objects::queue::LEGACY;
use crate::device::objects::queue::Stream;
use crate::device::objects::work::Work;
use crate::device::state::Device;
use driver::CaptureMode;
use driver::sys::CUresult;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

impl Device {
    /// Makes a node of the work if the stream is being captured, and says so.
    pub(crate) fn capture(&self, stream: &Stream, work: &Work) -> Result<bool> {
        if let Some(capturing) = &mut *stream.capturing.lock() {
            if capturing.session.invalid.load(Ordering::Acquire) {
                return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
            }
            let node = self.graph_node(&capturing.session.graph, work.clone(), &capturing.frontier);
            capturing.frontier = vec![node];
            return Ok(true);
        }
        self.apart_from_captures(stream)?;
        Ok(false)
    }

    /// The legacy stream would have to wait for a blocking stream that is
    /// captured, in whatever mode: using it ends the capture.
    pub(crate) fn apart_from_captures(&self, stream: &Stream) -> Result<()> {
        if stream.handle == LEGACY && self.end_captures(|stream, _| stream.blocking) {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        }
        Ok(())
    }

    /// For calls that a capture cannot record, and that may have to wait for
    /// the device: memory, textures, queries. They fail where the modes of
    /// capture and thread forbid them, and the capture ends.
    ///
    /// # Errors
    ///
    /// Such a capture goes on.
    pub fn apart_from_strict_captures(&self) -> Result<()> {
        if self.end_captures(|_, session| session.mode.forbids(session.thread)) {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        Ok(())
    }

    /// Ends the captures that are meant, and says whether there is any.
    fn end_captures(&self, meant: impl Fn(&Stream, &Session) -> bool) -> bool {
        let mut any = false;
        for stream in self.state.streams.read().values() {
            if let Some(capturing) = &*stream.capturing.lock()
                && meant(stream, &capturing.session)
            {
                capturing.session.invalid.store(true, Ordering::Release);
                any = true;
            }
        }
        any
    }

    /// What waits for this stream or asks about it, and cannot be recorded.
    pub(crate) fn ask_apart_from_captures(&self, stream: &Stream) -> Result<()> {
        if self.invalidate_capture(stream) {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        self.apart_from_captures(stream)?;
        self.apart_from_strict_captures()
    }

    /// As [`Device::ask_apart_from_captures`], of an event.
    pub(crate) fn ask_event(&self, event: &Event) -> Result<()> {
        if let Some((id, _)) = *event.captured.lock() {
            return Err(if self.end_captures(|_, session| session.id == id) {
                CUresult::CUDA_ERROR_CAPTURED_EVENT
            } else {
                // Of a capture that has ended.
                CUresult::CUDA_ERROR_INVALID_VALUE
            });
        }
        self.apart_from_strict_captures()
    }

    /// `cuThreadExchangeStreamCaptureMode`: the mode that was.
    ///
    /// # Errors
    ///
    /// There is no such mode.
    pub fn exchange_capture_mode(&self, mode: u32) -> Result<u32> {
        let mode = CaptureMode::of(mode).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        Ok(mode.exchange() as u32)
    }

    /// An event recorded in a captured stream stands for its frontier; as an
    /// external one it becomes a node.
    pub(crate) fn capture_record(
        &self,
        stream: &Stream,
        event: &Arc<Event>,
        external: bool,
    ) -> Result<bool> {
        if external {
            return self.capture(stream, &Work::Record(event.clone()));
        }
        let capturing = stream.capturing.lock();
        let Some(capturing) = &*capturing else {
            return Ok(false);
        };
        if capturing.session.invalid.load(Ordering::Acquire) {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        }
        *event.captured.lock() = Some((capturing.session.id, capturing.frontier.clone()));
        Ok(true)
    }

    /// A wait for a captured event joins the stream to its capture.
    pub(crate) fn capture_wait(&self, stream: &Stream, event: &Event) -> Result<bool> {
        let captured = event.captured.lock().clone();
        let mut own = stream.capturing.lock();
        match (&mut *own, captured) {
            (None, None) => Ok(false),
            // An event from outside the capture: nothing may wait for it there.
            (Some(capturing), None) => {
                if capturing.session.invalid.swap(true, Ordering::AcqRel) {
                    return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
                }
                Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
            }
            (Some(capturing), Some((id, nodes))) => {
                if capturing.session.id != id {
                    capturing.session.invalid.store(true, Ordering::Release);
                    return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_MERGE);
                }
                for node in nodes {
                    if !capturing.frontier.contains(&node) {
                        capturing.frontier.push(node);
                    }
                }
                Ok(true)
            }
            (None, Some((id, frontier))) => {
                drop(own);
                if stream.handle == LEGACY {
                    return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
                }
                let session = self
                    .session(id)
                    .ok_or(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)?;
                *stream.capturing.lock() = Some(Capturing { session, frontier });
                Ok(true)
            }
        }
    }

    fn session(&self, id: u64) -> Option<Arc<Session>> {
        let streams = self.state.streams.read();
        streams.values().find_map(|stream| {
            let capturing = stream.capturing.lock();
            capturing
                .as_ref()
                .filter(|c| c.session.id == id)
                .map(|c| c.session.clone())
        })
    }

    /// A call that is not legal while capturing ends the capture. Says whether
    /// there was one.
    pub(crate) fn invalidate_capture(&self, stream: &Stream) -> bool {
        match &*stream.capturing.lock() {
            Some(capturing) => {
                capturing.session.invalid.store(true, Ordering::Release);
                true
            }
            None => false,
        }
    }

    /// The stream is destroyed while it is captured. One that was joined to
    /// the capture may go, as long as what it did is joined back.
    pub(crate) fn abandon_capture(&self, stream: &Stream) {
        let Some(capturing) = stream.capturing.lock().take() else {
            return;
        };
        let session = &capturing.session;
        if session.origin == stream.handle {
            session.invalid.store(true, Ordering::Release);
        } else {
            session.left.lock().extend(capturing.frontier);
        }
    }

    /// For waits of the whole device, which no capture allows.
    pub(crate) fn apart_from_all_captures(&self) -> Result<()> {
        if self.end_captures(|_, _| true) {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        Ok(())
    }

    /// `cuStreamBeginCapture`
    pub fn stream_begin_capture(&self, handle: u64, mode: u32) -> Result<()> {
        let graph = self.graph_create()?;
        self.stream_begin_capture_to(handle, graph, Vec::new(), mode)
    }

    /// `cuStreamBeginCaptureToGraph`
    pub fn stream_begin_capture_to(
        &self,
        handle: u64,
        graph: u64,
        after: Vec<u64>,
        mode: u32,
    ) -> Result<()> {
        self.enter()?;
        let stream = self.state.stream(handle)?;
        if stream.handle == LEGACY {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        let mode = CaptureMode::of(mode).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let graph = self.graph(graph)?;
        let frontier = self.node_indices(&graph, &after)?;
        let mut capturing = stream.capturing.lock();
        if capturing.is_some() {
            return Err(CUresult::CUDA_ERROR_ILLEGAL_STATE);
        }
        let session = Session {
            id: self.handle(),
            graph,
            origin: stream.handle,
            mode,
            thread: std::thread::current().id(),
            invalid: AtomicBool::new(false),
            left: Mutex::default(),
        };
        *capturing = Some(Capturing {
            session: Arc::new(session),
            frontier,
        });
        Ok(())
    }

    /// `cuStreamEndCapture`
    pub fn stream_end_capture(&self, handle: u64) -> Result<u64> {
        let stream = self.state.stream(handle)?;
        let capturing = stream
            .capturing
            .lock()
            .clone()
            .ok_or(CUresult::CUDA_ERROR_ILLEGAL_STATE)?;
        let session = &capturing.session;
        if session.origin != stream.handle {
            session.invalid.store(true, Ordering::Release);
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        }
        let joined = session.graph.ancestors(&capturing.frontier);
        let mut unjoined = session
            .left
            .lock()
            .iter()
            .any(|node| !joined.contains(node));
        for other in self.state.streams.read().values() {
            let mut part = other.capturing.lock();
            if part
                .as_ref()
                .is_some_and(|part| Arc::ptr_eq(&part.session, session))
            {
                let nodes = part.take().map(|part| part.frontier).unwrap_or_default();
                unjoined |= !nodes
                    .iter()
                    .collect::<BTreeSet<_>>()
                    .is_subset(&joined.iter().collect());
            }
        }
        if session.invalid.load(Ordering::Acquire) {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        }
        if unjoined {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        }
        Ok(session.graph.handle)
    }

    /// `cuStreamGetCaptureInfo`, `cuStreamIsCapturing`: `None` if it is not
    /// being captured.
    pub fn stream_capture_info(&self, handle: u64) -> Result<Option<CaptureInfo>> {
        let stream = self.state.stream(handle)?;
        let capturing = stream.capturing.lock();
        Ok(capturing.as_ref().map(|c| CaptureInfo {
            valid: !c.session.invalid.load(Ordering::Acquire),
            id: c.session.id,
            graph: c.session.graph.handle,
            dependencies: c.session.graph.handles(&c.frontier),
        }))
    }

    /// `cuStreamUpdateCaptureDependencies`; replaces them, or with `add` adds.
    pub fn stream_set_dependencies(&self, handle: u64, nodes: &[u64], add: bool) -> Result<()> {
        let stream = self.state.stream(handle)?;
        let mut capturing = stream.capturing.lock();
        let capturing = capturing
            .as_mut()
            .ok_or(CUresult::CUDA_ERROR_ILLEGAL_STATE)?;
        let indices = self.node_indices(&capturing.session.graph, nodes)?;
        if !add {
            capturing.frontier.clear();
        }
        capturing.frontier.extend(indices);
        Ok(())
    }
}
