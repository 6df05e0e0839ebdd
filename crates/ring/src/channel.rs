//! Messages of any size up to a limit, over both rings of an end: `send`,
//! `receive` and `set_patience`, as what carries requests and replies needs
//! them, over rings or a socket alike.
//!
//! A message goes in one frame or more. The first begins with the message's
//! length (8 bytes, little-endian); the others are whole parts of it, none
//! empty. So a message may be larger than a ring, and the receiver's memory is
//! bounded by its own limit and by what really came.
//!
//! What the errors mean to a caller that knows no rings:
//!
//! | error | meaning |
//! | --- | --- |
//! | [`Error::Gone`] | closed |
//! | [`Error::TimedOut`], [`Error::Interrupted`] | nothing came or went in time |
//! | [`Error::TooLarge`], [`Error::Message`] | a message that is too large |
//! | [`Error::Corrupt`], [`Error::Part`] | bytes that are no message |
//! | [`Error::Peer`], [`Error::Futex`] | an error of the system |

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::frames::length_of;
use smallvec::SmallVec;
use std::time::{Duration, Instant};

/// Bytes before a message.
const HEAD: usize = 8;

/// How long a message may take from its first byte to its last, unless
/// [`Channel::set_stall`] says otherwise.
pub const STALL: Duration = Duration::from_secs(30);

/// An end that sends and receives messages.
#[derive(Debug)]
pub struct Channel {
    end: Endpoint,
    limit: usize,
    patience: Option<Duration>,
    stall: Duration,
    /// What went wrong in the middle of a message: the next frame would be
    /// taken for the first of another.
    broken: Option<Error>,
}

impl Channel {
    /// Messages of at most `limit` bytes. A wait for a message has no end until
    /// [`Channel::set_patience`]; one that was begun may take [`STALL`].
    pub fn new(end: Endpoint, limit: usize) -> Channel {
        Channel {
            end,
            limit,
            patience: None,
            stall: STALL,
            broken: None,
        }
    }

    /// Who is at the other end, bulk data, interrupts.
    pub fn end(&self) -> &Endpoint {
        &self.end
    }

    /// How long [`Channel::receive`] waits for a message to begin, from now on;
    /// `None`: without end.
    pub fn set_patience(&mut self, patience: Option<Duration>) {
        self.patience = patience;
    }

    /// How long the peer may take to receive one message, or to send the rest of
    /// one, from now on.
    pub fn set_stall(&mut self, stall: Duration) {
        self.stall = stall;
    }

    /// Sends a message, which the parts make together.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`]: nothing was sent. With any other error the
    /// connection is over, except that a message that fits into one frame can
    /// be sent again after [`Error::TimedOut`].
    pub fn send(&mut self, parts: &[&[u8]]) -> Result<(), Error> {
        self.usable()?;
        let (size, limit) = (length_of(parts), self.limit);
        if size > limit {
            return Err(Error::TooLarge { size, limit });
        }
        let head = (size as u64).to_le_bytes();
        let largest = self.end.sender.max_frame();
        if HEAD + size <= largest {
            let mut whole: SmallVec<[&[u8]; 8]> = SmallVec::new();
            whole.push(&head);
            whole.extend_from_slice(parts);
            return self.end.sender.send_parts(&whole, Some(self.stall));
        }
        let start = Instant::now();
        let mut begun = false;
        let bytes = std::iter::once(&head[..]).chain(parts.iter().copied());
        let result = frames_of(bytes, largest, |frame| {
            let left = self.stall.saturating_sub(start.elapsed());
            self.end.sender.send_parts(frame, Some(left))?;
            begun = true;
            Ok(())
        });
        if let (Err(error), true) = (result, begun) {
            self.broken = Some(error);
        }
        result
    }

    /// Waits for a message, and puts it into `message`, in the place of what
    /// that held.
    ///
    /// # Errors
    ///
    /// The connection is over, except after [`Error::TimedOut`] or
    /// [`Error::Interrupted`] before a message.
    pub fn receive(&mut self, message: &mut Vec<u8>) -> Result<(), Error> {
        self.receive_with(message, &mut || {})
    }

    /// As [`Channel::receive`]. `before_wait` is called before each wait: not where the
    /// whole message is there already.
    ///
    /// # Errors
    ///
    /// As [`Channel::receive`].
    pub fn receive_with(
        &mut self,
        message: &mut Vec<u8>,
        before_wait: &mut dyn FnMut(),
    ) -> Result<(), Error> {
        self.usable()?;
        if !self.end.receiver.try_receive(message)? {
            before_wait();
            self.end.receiver.receive(message, self.patience)?;
        }
        let result = self.rest(message, before_wait);
        if let Err(error) = result {
            self.broken = Some(error);
        }
        result
    }

    /// What follows the first frame of a message.
    fn rest(&mut self, message: &mut Vec<u8>, before_wait: &mut dyn FnMut()) -> Result<(), Error> {
        let limit = self.limit;
        let Some((head, first)) = message.split_first_chunk::<HEAD>() else {
            return Err(Error::Part {
                got: message.len(),
                missing: HEAD,
            });
        };
        let length = u64::from_le_bytes(*head);
        let Some(size) = usize::try_from(length).ok().filter(|size| *size <= limit) else {
            return Err(Error::Message { length, limit });
        };
        let (mut got, mut missing) = (first.len(), size);
        let start = Instant::now();
        let mut is_first = true;
        while got != missing {
            if got > missing || (got == 0 && !is_first) {
                return Err(Error::Part { got, missing });
            }
            is_first = false;
            missing -= got;
            let kept = message.len();
            before_wait();
            let left = self.stall.saturating_sub(start.elapsed());
            self.end.receiver.receive_after(message, kept, Some(left))?;
            got = message.len() - kept;
        }
        message.drain(..HEAD);
        Ok(())
    }

    fn usable(&self) -> Result<(), Error> {
        self.broken.map_or(Ok(()), Err)
    }
}

/// Cuts the bytes of parts into frames of at most `largest` bytes.
fn frames_of<'p>(
    parts: impl Iterator<Item = &'p [u8]>,
    largest: usize,
    mut send: impl FnMut(&[&[u8]]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut frame: Vec<&[u8]> = Vec::new();
    let mut room = largest;
    for mut part in parts {
        while part.len() > room {
            let (now, later) = part.split_at(room);
            frame.push(now);
            send(&frame)?;
            frame.clear();
            (part, room) = (later, largest);
        }
        frame.push(part);
        room -= part.len();
    }
    if room < largest {
        send(&frame)?;
    }
    Ok(())
}
