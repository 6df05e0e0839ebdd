//! Frames over rings in shared memory, which both sides move to after the
//! welcome. The socket stays open: that it hangs up says that the other side
//! is gone.

use crate::{Channel, ChannelError, MAX_FRAME, SocketChannel};
use ring::{Endpoint, Layout, Staging};
use std::time::Duration;

/// Bytes of the ring of requests: some thousand launches.
const REQUESTS: u64 = 1 << 20;
/// Bytes of the ring of replies.
const REPLIES: u64 = 256 << 10;

/// Bytes at the start of the staging area that copies of pageable memory go through: what
/// is under way of them. Memory is taken for it when it is used.
pub const COPIED_THROUGH: u64 = 10 << 20;

/// Bytes of the staging area behind that: host memory that the tenant allocates
/// as pinned, which is copied from and to as it is. Memory is taken for it when it
/// is used.
const PINNED: u64 = 1 << 30;

/// The pinned part is made known to drivers in units of so many bytes; no copy
/// goes beyond one.
pub const PINNED_UNIT: u64 = 32 << 20;

/// How long the other side may take to move to the rings.
const MOVE: Duration = Duration::from_secs(30);

/// A channel over rings.
pub struct RingChannel {
    channel: ring::Channel,
}

impl RingChannel {
    /// The manager's side: makes the memory when the tenant asks for it.
    ///
    /// # Errors
    ///
    /// The tenant does not ask, or there is no memory.
    pub fn accept(socket: SocketChannel) -> Result<RingChannel, ChannelError> {
        let layout = Layout::new(REQUESTS, REPLIES, COPIED_THROUGH + PINNED);
        let layout = layout.map_err(ring::HandshakeError::from)?;
        let end = ring::accept(socket.into_socket(), &layout, MOVE)?;
        Ok(RingChannel::over(end))
    }

    /// The tenant's side.
    ///
    /// # Errors
    ///
    /// The manager does not make the memory.
    pub fn connect(socket: SocketChannel) -> Result<RingChannel, ChannelError> {
        let end = ring::connect(socket.into_socket(), MOVE)?;
        Ok(RingChannel::over(end))
    }

    /// The memory that large copies go through, and pinned memory.
    pub fn staging(&self) -> &Staging {
        &self.channel.end().staging
    }

    /// Whether the tenant is to send only requests with replies: somebody waits until all
    /// streams are idle, and there may be no room for a request that cannot be refused.
    pub fn is_held(&self) -> bool {
        self.channel.end().notice() != 0
    }

    /// Tells the tenant whether to send only requests with replies.
    pub fn hold(&self, is_held: bool) {
        self.channel.end().set_notice(is_held.into());
    }

    /// Whether the other side is gone.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn is_closed(&self) -> Result<bool, ChannelError> {
        let peer = self.channel.end().peer();
        peer.is_gone()
            .map_err(|error| ChannelError::Io(std::io::Error::other(error)))
    }

    fn over(end: Endpoint) -> RingChannel {
        RingChannel {
            channel: ring::Channel::new(end, MAX_FRAME),
        }
    }
}

fn of_ring(error: ring::Error) -> ChannelError {
    use ring::Error as E;
    match error {
        E::Gone => ChannelError::Closed,
        // Nothing here interrupts, and a channel waits where a ring is full.
        E::TimedOut(_) | E::Interrupted | E::Full => ChannelError::TimedOut,
        E::TooLarge { size, .. } => ChannelError::TooLarge(size as u64),
        E::Message { length, .. } => ChannelError::TooLarge(length),
        E::Corrupt(_) | E::Part { .. } => ChannelError::Corrupt(error),
        E::Peer(_) | E::Futex(_) => ChannelError::Io(std::io::Error::other(error)),
    }
}

impl Channel for RingChannel {
    fn send(&mut self, parts: &[&[u8]]) -> Result<(), ChannelError> {
        self.channel.send(parts).map_err(of_ring)
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> Result<(), ChannelError> {
        self.receive_with(frame, &mut || {})
    }

    fn receive_with(
        &mut self,
        frame: &mut Vec<u8>,
        before_wait: &mut dyn FnMut(),
    ) -> Result<(), ChannelError> {
        let received = self.channel.receive_with(frame, before_wait);
        received.map_err(of_ring)
    }

    fn set_patience(&mut self, patience: Option<Duration>) -> Result<(), ChannelError> {
        self.channel.set_patience(patience);
        Ok(())
    }
}
