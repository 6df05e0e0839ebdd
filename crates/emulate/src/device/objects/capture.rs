//! Stream captures that go on.

use super::work::Graph;
use driver::CaptureMode;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::ThreadId;

/// A capture that goes on, maybe over several streams.
pub(crate) struct Session {
    pub id: u64,
    pub graph: Arc<Graph>,
    /// Stream that it was begun in, and must be ended in.
    pub origin: u64,
    pub mode: CaptureMode,
    /// Thread that began it.
    pub thread: ThreadId,
    pub invalid: AtomicBool,
    /// Last nodes of streams that were destroyed while they were captured.
    pub left: Mutex<Vec<usize>>,
}

/// A stream's part in a capture.
#[derive(Clone)]
pub(crate) struct Capturing {
    pub session: Arc<Session>,
    /// Nodes that the next one depends on.
    pub frontier: Vec<usize>,
}

/// What `cuStreamGetCaptureInfo` answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureInfo {
    /// False once something illegal was done.
    pub valid: bool,
    /// Unique in the process.
    pub id: u64,
    /// The graph so far.
    pub graph: u64,
    /// Handles of the nodes that the next one will depend on.
    pub dependencies: Vec<u64>,
}
