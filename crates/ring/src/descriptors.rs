//! Bytes and descriptors through the socket, until a deadline.
//!
//! Whoever sends descriptors to a process fills its table. Descriptors that are
//! not expected are therefore never taken: without room for them the kernel
//! closes them, and says so. Where one is expected, there may be room for two
//! (control data is padded); what is too much is closed here.

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Room for one descriptor.
const SPACE: usize = rustix::cmsg_space!(ScmRights(1));

/// Why bytes could not be exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The time is over.
    #[error("the peer did not complete the handshake within {0:?}")]
    TimedOut(Duration),
    /// The peer closed the connection.
    #[error("the peer closed the connection after {got} of {expected} bytes of the handshake")]
    Truncated {
        /// Bytes exchanged.
        got: usize,
        /// Bytes of the message.
        expected: usize,
    },
    /// The peer sent descriptors that were not expected.
    #[error("the peer sent descriptors where {expected} were expected")]
    Descriptors {
        /// How many may come.
        expected: usize,
    },
    /// A system call failed.
    #[error("{call} failed in the handshake: {errno}")]
    System {
        /// Which.
        call: &'static str,
        /// Its error.
        errno: Errno,
    },
}

/// Exchanges messages of fixed sizes through a socket, all within one time.
pub(crate) struct Exchange<'s> {
    socket: &'s UnixStream,
    start: Instant,
    timeout: Duration,
}

impl<'s> Exchange<'s> {
    pub fn new(socket: &'s UnixStream, timeout: Duration) -> Exchange<'s> {
        Exchange {
            socket,
            start: Instant::now(),
            timeout,
        }
    }

    /// Waits until the socket can be read or written.
    fn ready(&self, event: PollFlags) -> Result<(), ExchangeError> {
        loop {
            let left = self.timeout.saturating_sub(self.start.elapsed());
            if left.is_zero() {
                return Err(ExchangeError::TimedOut(self.timeout));
            }
            let mut polled = [PollFd::new(self.socket, event)];
            match rustix::event::poll(&mut polled, Some(&crate::peer::timespec(left))) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => {
                    return Err(ExchangeError::System {
                        call: "poll",
                        errno,
                    });
                }
            }
        }
    }

    /// Fills `bytes`, and takes no byte behind them. No descriptor may come.
    pub fn receive(&self, bytes: &mut [u8]) -> Result<(), ExchangeError> {
        self.receive_all(bytes, &mut [], 0).map(drop)
    }

    /// Fills `bytes`, and takes at most one descriptor.
    pub fn receive_with_one(&self, bytes: &mut [u8]) -> Result<Option<OwnedFd>, ExchangeError> {
        let mut space = [MaybeUninit::uninit(); SPACE];
        self.receive_all(bytes, &mut space, 1)
    }

    fn receive_all(
        &self,
        bytes: &mut [u8],
        space: &mut [MaybeUninit<u8>],
        allowed: usize,
    ) -> Result<Option<OwnedFd>, ExchangeError> {
        let (expected, mut got, mut taken) = (bytes.len(), 0, None);
        while got < expected {
            self.ready(PollFlags::IN)?;
            let mut control = RecvAncillaryBuffer::new(space);
            let mut rest = [IoSliceMut::new(&mut bytes[got..])];
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let received = match rustix::net::recvmsg(self.socket, &mut rest, &mut control, flags) {
                Ok(received) => received,
                Err(Errno::AGAIN | Errno::INTR) => continue,
                Err(Errno::CONNRESET) => return Err(ExchangeError::Truncated { got, expected }),
                Err(errno) => {
                    return Err(ExchangeError::System {
                        call: "recvmsg",
                        errno,
                    });
                }
            };
            let mut surplus = received.flags.contains(ReturnFlags::CTRUNC);
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    for descriptor in descriptors {
                        // What is replaced or dropped is closed.
                        surplus |= taken.replace(descriptor).is_some();
                    }
                }
            }
            if surplus {
                return Err(ExchangeError::Descriptors { expected: allowed });
            }
            if received.bytes == 0 {
                return Err(ExchangeError::Truncated { got, expected });
            }
            got += received.bytes;
        }
        Ok(taken)
    }

    /// Sends all bytes, and the descriptor with the first.
    pub fn send(
        &self,
        bytes: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(), ExchangeError> {
        let (expected, mut got) = (bytes.len(), 0);
        while got < expected {
            self.ready(PollFlags::OUT)?;
            let mut space = [MaybeUninit::uninit(); SPACE];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let one = descriptor.as_slice();
            if got == 0 && !one.is_empty() {
                control.push(SendAncillaryMessage::ScmRights(one));
            }
            let rest = [IoSlice::new(&bytes[got..])];
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::sendmsg(self.socket.as_fd(), &rest, &mut control, flags) {
                Ok(sent) => got += sent,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => {
                    return Err(ExchangeError::Truncated { got, expected });
                }
                Err(errno) => {
                    return Err(ExchangeError::System {
                        call: "sendmsg",
                        errno,
                    });
                }
            }
        }
        Ok(())
    }
}
