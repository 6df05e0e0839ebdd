//! Frames, and what carries them.

use crate::Request;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Bytes of a message at most.
pub const MAX_MESSAGE: usize = 1 << 20;

/// Bytes of a payload at most. Larger transfers take several requests.
pub const MAX_PAYLOAD: usize = 4 << 20;

/// Bytes of a frame at most.
pub const MAX_FRAME: usize = HEAD + MAX_MESSAGE + MAX_PAYLOAD;

/// Bytes before the message: its length, with [`QUIET`] and [`PATIENT`].
const HEAD: usize = 4;

/// The bit of the head that says that no answer is wanted.
const QUIET: u32 = 1 << 31;

/// The bit of the head that says that the answer may come a little later if it
/// would be [`crate::Reply::Busy`] now.
const PATIENT: u32 = 1 << 30;

/// Why nothing was sent or received. After any of these a channel is of no more
/// use.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The other side is gone.
    #[error("the other side has closed the connection")]
    Closed,
    /// The other side did not send, or did not read, for too long.
    #[error("the other side does not answer")]
    TimedOut,
    /// A frame that is too large.
    #[error("a frame of {0} bytes is too large")]
    TooLarge(u64),
    /// Bytes that are no message.
    #[error("the other side sent what is no message of this version: {0}")]
    Garbage(&'static str),
    /// Rings that no other side of this version writes.
    #[error("the other side sent what is no message of this version: {0}")]
    Corrupt(ring::Error),
    /// The two sides do not share memory.
    #[error("the connection has no shared memory: {0}")]
    NoRings(#[from] ring::HandshakeError),
    /// The system's error.
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
}

/// Carries frames from one side to the other, in order.
pub trait Channel: Send {
    /// Sends one frame, which the parts make together: at most [`MAX_FRAME`]
    /// bytes.
    ///
    /// # Errors
    ///
    /// It was not sent.
    fn send(&mut self, parts: &[&[u8]]) -> Result<(), ChannelError>;

    /// Waits for a frame, and puts it into `frame`, in the place of what that
    /// held: at most [`MAX_FRAME`] bytes.
    ///
    /// # Errors
    ///
    /// None came.
    fn receive(&mut self, frame: &mut Vec<u8>) -> Result<(), ChannelError>;

    /// As [`Channel::receive`]. `before_wait` is called before each wait, and may be where
    /// a frame is there already.
    ///
    /// # Errors
    ///
    /// As [`Channel::receive`].
    fn receive_with(
        &mut self,
        frame: &mut Vec<u8>,
        before_wait: &mut dyn FnMut(),
    ) -> Result<(), ChannelError> {
        before_wait();
        self.receive(frame)
    }

    /// How long [`Channel::receive`] waits from now on; `None`: for ever.
    ///
    /// # Errors
    ///
    /// The system's.
    fn set_patience(&mut self, patience: Option<Duration>) -> Result<(), ChannelError>;
}

/// A frame that was received.
#[derive(Default)]
pub struct Frame {
    bytes: Vec<u8>,
    payload: usize,
    is_quiet: bool,
    is_patient: bool,
}

impl Frame {
    /// Sends a message and a payload.
    ///
    /// # Errors
    ///
    /// They are too large, or were not sent.
    pub fn send<M: Serialize>(
        channel: &mut dyn Channel,
        message: &M,
        payload: &[u8],
    ) -> Result<(), ChannelError> {
        Frame::send_as(channel, message, payload, 0)
    }

    /// As [`Frame::send`], for a request that wants no answer: one of those of
    /// which [`Request::may_be_quiet`] says so.
    ///
    /// # Errors
    ///
    /// As [`Frame::send`].
    pub fn send_quietly(
        channel: &mut dyn Channel,
        request: &Request,
        payload: &[u8],
    ) -> Result<(), ChannelError> {
        Frame::send_as(channel, request, payload, QUIET)
    }

    /// As [`Frame::send`], for a request whose sender waits until it can be done:
    /// the manager looks for some ten microseconds whether it can be before it
    /// answers [`crate::Reply::Busy`].
    ///
    /// # Errors
    ///
    /// As [`Frame::send`].
    pub fn send_patiently(
        channel: &mut dyn Channel,
        request: &Request,
        payload: &[u8],
    ) -> Result<(), ChannelError> {
        Frame::send_as(channel, request, payload, PATIENT)
    }

    fn send_as<M: Serialize>(
        channel: &mut dyn Channel,
        message: &M,
        payload: &[u8],
        flag: u32,
    ) -> Result<(), ChannelError> {
        let message = postcard::to_allocvec(message)
            .map_err(|_| ChannelError::Garbage("a message cannot be written"))?;
        if message.len() > MAX_MESSAGE || payload.len() > MAX_PAYLOAD {
            return Err(ChannelError::TooLarge(
                message.len() as u64 + payload.len() as u64,
            ));
        }
        let head = (message.len() as u32 | flag).to_le_bytes();
        channel.send(&[&head, &message, payload])
    }

    /// Waits for a message, which takes the place of this frame's.
    ///
    /// # Errors
    ///
    /// None came, or bytes that are none.
    pub fn receive<M: DeserializeOwned>(
        &mut self,
        channel: &mut dyn Channel,
    ) -> Result<M, ChannelError> {
        self.receive_with(channel, &mut || {})
    }

    /// As [`Frame::receive`]; `before_wait` is called before each wait
    /// ([`Channel::receive_with`]).
    ///
    /// # Errors
    ///
    /// As [`Frame::receive`].
    pub fn receive_with<M: DeserializeOwned>(
        &mut self,
        channel: &mut dyn Channel,
        before_wait: &mut dyn FnMut(),
    ) -> Result<M, ChannelError> {
        channel.receive_with(&mut self.bytes, before_wait)?;
        self.decode()
    }

    /// The frame that these bytes are.
    ///
    /// # Errors
    ///
    /// They are none.
    pub fn parse<M: DeserializeOwned>(bytes: Vec<u8>) -> Result<(M, Frame), ChannelError> {
        let mut frame = Frame {
            bytes,
            ..Frame::default()
        };
        let message = frame.decode()?;
        Ok((message, frame))
    }

    fn decode<M: DeserializeOwned>(&mut self) -> Result<M, ChannelError> {
        let garbage = ChannelError::Garbage;
        let (head, rest) = self
            .bytes
            .split_first_chunk::<HEAD>()
            .ok_or(garbage("a frame without a head"))?;
        let head = u32::from_le_bytes(*head);
        let length = (head & !(QUIET | PATIENT)) as usize;
        if length > MAX_MESSAGE {
            return Err(ChannelError::TooLarge(length as u64));
        }
        let message = rest
            .get(..length)
            .ok_or(garbage("a frame that is shorter than its message"))?;
        if rest.len() - length > MAX_PAYLOAD {
            return Err(ChannelError::TooLarge(rest.len() as u64));
        }
        let (value, left) = postcard::take_from_bytes(message)
            .map_err(|_| garbage("a message that cannot be read"))?;
        if !left.is_empty() {
            return Err(garbage("bytes after a message"));
        }
        self.payload = HEAD + length;
        self.is_quiet = head & QUIET != 0;
        self.is_patient = head & PATIENT != 0;
        Ok(value)
    }

    /// Whether it was sent by [`Frame::send_quietly`].
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Whether it was sent by [`Frame::send_patiently`].
    pub fn is_patient(&self) -> bool {
        self.is_patient
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        self.bytes.get(self.payload..).unwrap_or_default()
    }
}
