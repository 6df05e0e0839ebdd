//! Names of streams: a handle alone does not say which stream is meant.

/// `CU_STREAM_LEGACY`
const LEGACY: u64 = 1;

/// A stream, whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StreamName {
    /// The legacy default stream of a context.
    Legacy {
        /// The context's handle.
        context: u64,
    },
    /// The default stream of a thread.
    PerThread {
        /// The context's handle.
        context: u64,
        /// The thread's number.
        thread: u64,
    },
    /// One that the program made, by its handle.
    Made(u64),
}

impl StreamName {
    /// A handle that means this stream in every thread in which its context is
    /// current, if there is one.
    pub fn lasting_handle(self) -> Option<u64> {
        match self {
            StreamName::Legacy { .. } => Some(LEGACY),
            StreamName::PerThread { .. } => None,
            StreamName::Made(handle) => Some(handle),
        }
    }
}
