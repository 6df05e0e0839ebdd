//! Why a frame was not sent or received.

use crate::frames::{Corrupt, PushError};
use crate::peer::PeerError;
use rustix::io::Errno;
use std::time::Duration;

/// Why a frame was not sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The frame can never be sent. The connection goes on.
    #[error("a frame of {size} bytes, where {limit} is the limit")]
    TooLarge {
        /// Its bytes.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// There is no room now. The connection goes on.
    #[error("the ring is full")]
    Full,
    /// The peer did nothing for as long as the caller wanted to wait. The
    /// connection goes on.
    #[error("the peer did not answer within {0:?}")]
    TimedOut(Duration),
    /// [`crate::Interrupt::interrupt`] was called.
    #[error("the wait was interrupted")]
    Interrupted,
    /// The peer ended or closed the connection.
    #[error("the peer ended or closed the connection")]
    Gone,
    /// The peer wrote what no correct peer writes. The connection is over.
    #[error("the peer broke the ring: {0}")]
    Corrupt(#[from] Corrupt),
    /// The peer announced a message that is too large. The connection is over.
    #[error("the peer sends a message of {length} bytes, where {limit} is the limit")]
    Message {
        /// Bytes announced.
        length: u64,
        /// Bytes allowed.
        limit: usize,
    },
    /// A frame is no part of the message that the peer announced. The connection
    /// is over.
    #[error("the peer sent {got} bytes of a message, of which {missing} were missing")]
    Part {
        /// Bytes of the frame.
        got: usize,
        /// Bytes that could come.
        missing: usize,
    },
    /// The kernel does not say whether the peer is there.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The kernel refused to sleep.
    #[error("futex failed: {0}")]
    Futex(Errno),
}

impl From<PushError> for Error {
    fn from(error: PushError) -> Error {
        match error {
            PushError::TooLarge { size, limit } => Error::TooLarge { size, limit },
            PushError::Corrupt(corrupt) => Error::Corrupt(corrupt),
        }
    }
}
