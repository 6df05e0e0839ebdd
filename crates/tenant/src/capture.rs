//! Stream capture: calls become nodes of a graph (CUDA driver API, "Stream
//! capture").

use crate::convert::Answer;
use crate::graph::{self, Graph};
use crate::link::Link;
use crate::work::Work;
use driver::CaptureMode;
use driver::sys::CUresult;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ThreadId;

/// A capture that goes on, maybe over several streams.
struct Session {
    id: u64,
    graph: Arc<Graph>,
    /// Stream that it was begun in, and must be ended in.
    origin: u32,
    mode: CaptureMode,
    /// Thread that began it.
    thread: ThreadId,
    is_invalid: AtomicBool,
    /// Last nodes of streams that were destroyed while they were captured.
    left: Mutex<Vec<usize>>,
}

impl Session {
    fn invalidate(&self) {
        self.is_invalid.store(true, Ordering::Release);
    }

    fn is_invalid(&self) -> bool {
        self.is_invalid.load(Ordering::Acquire)
    }
}

/// A stream's part in a capture.
#[derive(Clone)]
struct Capturing {
    session: Arc<Session>,
    /// Nodes that the next one depends on.
    frontier: Vec<usize>,
}

/// The captures of the program.
#[derive(Default)]
pub(crate) struct Captures {
    /// How many streams are captured.
    count: AtomicUsize,
    streams: Mutex<BTreeMap<u32, Capturing>>,
    /// Events that were recorded in a captured stream: the capture, and the
    /// nodes that each stands for.
    events: Mutex<BTreeMap<u64, (u64, Vec<usize>)>>,
}

/// What `cuStreamGetCaptureInfo` answers.
pub(crate) struct Info {
    /// False once something illegal was done.
    pub(crate) is_valid: bool,
    /// Unique in the process.
    pub(crate) id: u64,
    /// The graph so far.
    pub(crate) graph: u64,
    /// Handles of the nodes that the next one will depend on.
    pub(crate) dependencies: Vec<u64>,
}

impl Captures {
    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<u32, Capturing>) -> T) -> T {
        let mut streams = self.streams.lock();
        let result = change(&mut streams);
        self.count.store(streams.len(), Ordering::Release);
        result
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// The context was reset.
    pub(crate) fn forget(&self) {
        self.change(BTreeMap::clear);
        self.events.lock().clear();
    }

    /// An event is gone, or stands for something else.
    pub(crate) fn forget_event(&self, event: u64) {
        self.events.lock().remove(&event);
    }
}

/// The legacy default stream.
const LEGACY: u32 = 0;

/// Whether a stream is captured.
pub(crate) fn is_capturing(link: &Link, stream: u32) -> bool {
    let captures = &link.state.captures;
    !captures.is_empty() && captures.streams.lock().contains_key(&stream)
}

/// Ends the captures that are meant, and says whether there is any.
fn end_those(link: &Link, meant: impl Fn(u32, &Session) -> bool) -> bool {
    if link.state.captures.is_empty() {
        return false;
    }
    let mut any = false;
    for (stream, capturing) in link.state.captures.streams.lock().iter() {
        if meant(*stream, &capturing.session) {
            capturing.session.invalidate();
            any = true;
        }
    }
    any
}

/// Work for the legacy stream, which would have to wait for a captured one, in
/// whatever mode: using it ends the capture.
pub(crate) fn check_legacy(link: &Link, stream: u32) -> Answer {
    if stream == LEGACY && end_those(link, |other, _| link.state.order.is_ordered(other)) {
        return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    Ok(())
}

/// For calls that a capture cannot record: they fail where the modes of capture
/// and thread forbid them, and the capture ends.
pub(crate) fn check_strict(link: &Link) -> Answer {
    if end_those(link, |_, session| session.mode.forbids(session.thread)) {
        return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    Ok(())
}

/// For waits of the whole device, which no capture allows.
pub(crate) fn check_all(link: &Link) -> Answer {
    if end_those(link, |_, _| true) {
        return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    Ok(())
}

/// Makes a node of work if the stream is captured. Whether it is.
pub(crate) fn node(
    link: &Link,
    stream: u32,
    work: impl FnOnce() -> Work,
) -> Result<bool, CUresult> {
    let captures = &link.state.captures;
    if captures.is_empty() {
        return Ok(false);
    }
    let mut streams = captures.streams.lock();
    let Some(capturing) = streams.get_mut(&stream) else {
        drop(streams);
        check_legacy(link, stream)?;
        return Ok(false);
    };
    if capturing.session.is_invalid() {
        return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    let graph = &capturing.session.graph;
    capturing.frontier = vec![graph::add_at(link, graph, work(), &capturing.frontier)];
    Ok(true)
}

/// Makes a node of work for a stream that is captured.
pub(crate) fn put(link: &Link, stream: u32, work: Work) -> Answer {
    match node(link, stream, || work)? {
        true => Ok(()),
        // Its capture has just ended.
        false => Err(CUresult::CUDA_ERROR_ILLEGAL_STATE),
    }
}

/// Puts work into a stream, or into the graph that it is captured into.
pub(crate) fn or_do(link: &'static Link, stream: u32, work: Work) -> Answer {
    match node(link, stream, || work.clone())? {
        true => Ok(()),
        false => work.put(link, stream),
    }
}

/// A call that is not legal while capturing ends the capture.
pub(crate) fn refuse(link: &Link, stream: u32) -> Answer {
    let captures = &link.state.captures;
    if captures.is_empty() {
        return Ok(());
    }
    if let Some(capturing) = captures.streams.lock().get(&stream) {
        capturing.session.invalidate();
        return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    check_legacy(link, stream)
}

/// An event recorded in a captured stream stands for its frontier; as an
/// external one it becomes a node. Whether the stream is captured.
pub(crate) fn record(
    link: &Link,
    stream: u32,
    event: u64,
    is_external: bool,
) -> Result<bool, CUresult> {
    let captures = &link.state.captures;
    if is_external {
        return node(link, stream, || Work::Record(event));
    }
    if captures.is_empty() {
        // Of a capture that is over, if at all.
        captures.forget_event(event);
        return Ok(false);
    }
    let streams = captures.streams.lock();
    let Some(capturing) = streams.get(&stream) else {
        captures.forget_event(event);
        return Ok(false);
    };
    if capturing.session.is_invalid() {
        return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    let place = (capturing.session.id, capturing.frontier.clone());
    captures.events.lock().insert(event, place);
    Ok(true)
}

/// For what waits for an event or asks about it.
pub(crate) fn check_event(link: &Link, event: u64) -> Answer {
    let captured = link.state.captures.events.lock().get(&event).cloned();
    let Some((id, _)) = captured else {
        return check_strict(link);
    };
    Err(match end_those(link, |_, session| session.id == id) {
        true => CUresult::CUDA_ERROR_CAPTURED_EVENT,
        // Of a capture that has ended.
        false => CUresult::CUDA_ERROR_INVALID_VALUE,
    })
}

/// A wait for a captured event joins the stream to its capture. Whether it is a
/// matter of captures; `is_external`: the wait becomes a node.
pub(crate) fn wait(
    link: &Link,
    stream: u32,
    event: u64,
    is_external: bool,
) -> Result<bool, CUresult> {
    let captures = &link.state.captures;
    if is_external {
        return node(link, stream, || Work::Wait(event));
    }
    let captured = captures.events.lock().get(&event).cloned();
    captures.change(|streams| {
        let own = streams.get_mut(&stream);
        match (own, captured) {
            (None, None) => Ok(false),
            (Some(capturing), None) if capturing.session.is_invalid() => {
                Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
            }
            // An event from outside the capture: nothing may wait for it there.
            (Some(capturing), None) => {
                capturing.session.invalidate();
                Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
            }
            (Some(capturing), Some((id, nodes))) => {
                if capturing.session.id != id {
                    capturing.session.invalidate();
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
                if stream == LEGACY {
                    return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
                }
                let mut others = streams.values();
                let joined = others.find(|other| other.session.id == id);
                let joined = joined.ok_or(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)?;
                let session = Arc::clone(&joined.session);
                streams.insert(stream, Capturing { session, frontier });
                Ok(true)
            }
        }
    })
}

/// The stream is destroyed while it is captured. One that was joined to the
/// capture may go, as long as what it did is joined back.
pub(crate) fn abandon(link: &Link, stream: u32) {
    let removed = link
        .state
        .captures
        .change(|streams| streams.remove(&stream));
    let Some(capturing) = removed else { return };
    let session = &capturing.session;
    match session.origin == stream {
        true => session.invalidate(),
        false => session.left.lock().extend(capturing.frontier),
    }
}

/// Begins a capture into a graph, behind some of its nodes.
pub(crate) fn begin(
    link: &Link,
    stream: u32,
    graph: Option<u64>,
    after: &[u64],
    mode: u32,
) -> Answer {
    crate::state::enter(link)?;
    if stream == LEGACY {
        return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    let mode = CaptureMode::of(mode).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    if is_capturing(link, stream) {
        return Err(CUresult::CUDA_ERROR_ILLEGAL_STATE);
    }
    let graph = match graph {
        Some(graph) => graph::find(link, graph)?,
        None => graph::create(link)?,
    };
    let frontier = graph::positions(link, &graph, after)?;
    let session = Arc::new(Session {
        id: link.state.handle(),
        graph,
        origin: stream,
        mode,
        thread: std::thread::current().id(),
        is_invalid: AtomicBool::new(false),
        left: Mutex::default(),
    });
    let begun = Capturing { session, frontier };
    link.state
        .captures
        .change(|streams| streams.insert(stream, begun));
    Ok(())
}

/// `cuStreamEndCapture`: the graph.
pub(crate) fn end(link: &Link, stream: u32) -> Result<u64, CUresult> {
    link.state.captures.change(|streams| {
        let capturing = streams.get(&stream).cloned();
        let capturing = capturing.ok_or(CUresult::CUDA_ERROR_ILLEGAL_STATE)?;
        let session = &capturing.session;
        if session.origin != stream {
            session.invalidate();
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        }
        let joined = session.graph.ancestors(&capturing.frontier);
        let mut last: Vec<usize> = session.left.lock().clone();
        streams.retain(|_, part| {
            let is_part = Arc::ptr_eq(&part.session, session);
            if is_part {
                last.extend(&part.frontier);
            }
            !is_part
        });
        if session.is_invalid() {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        }
        if last.iter().any(|node| !joined.contains(node)) {
            return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        }
        Ok(session.graph.handle)
    })
}

/// `cuStreamGetCaptureInfo`; `None` if the stream is not captured.
pub(crate) fn info(link: &Link, stream: u32) -> Option<Info> {
    let streams = link.state.captures.streams.lock();
    streams.get(&stream).map(|capturing| Info {
        is_valid: !capturing.session.is_invalid(),
        id: capturing.session.id,
        graph: capturing.session.graph.handle,
        dependencies: capturing.session.graph.handles(&capturing.frontier),
    })
}

/// `cuStreamUpdateCaptureDependencies`; replaces them, or with `is_added` adds.
pub(crate) fn set_dependencies(link: &Link, stream: u32, nodes: &[u64], is_added: bool) -> Answer {
    let mut streams = link.state.captures.streams.lock();
    let capturing = streams.get_mut(&stream);
    let capturing = capturing.ok_or(CUresult::CUDA_ERROR_ILLEGAL_STATE)?;
    let nodes = graph::positions(link, &capturing.session.graph, nodes)?;
    if !is_added {
        capturing.frontier.clear();
    }
    capturing.frontier.extend(nodes);
    Ok(())
}
