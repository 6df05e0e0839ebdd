//! Frames over a UNIX socket: each after its length, 4 bytes.

use crate::{Channel, ChannelError, MAX_FRAME};
use ring::{Credentials, PeerError};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::io::{ErrorKind, IoSlice, Read};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// How long the other side may leave a frame half read, or half sent.
const STALL: Duration = Duration::from_secs(30);

/// A channel over a socket.
pub struct SocketChannel {
    socket: UnixStream,
    patience: Option<Duration>,
}

impl SocketChannel {
    /// A channel over a connected socket.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn new(socket: UnixStream) -> Result<SocketChannel, ChannelError> {
        socket.set_write_timeout(Some(STALL))?;
        Ok(SocketChannel {
            socket,
            patience: None,
        })
    }

    /// Who is at the other end, as the kernel knows it.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn peer(&self) -> Result<Credentials, PeerError> {
        Credentials::of(&self.socket)
    }

    /// The socket. Of what the other side has sent, nothing was read behind the
    /// last frame.
    pub fn into_socket(self) -> UnixStream {
        self.socket
    }

    fn read(&mut self, bytes: &mut [u8], patience: Option<Duration>) -> Result<(), ChannelError> {
        self.socket.set_read_timeout(patience)?;
        self.socket.read_exact(bytes).map_err(of_io)
    }
}

fn of_io(error: std::io::Error) -> ChannelError {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            ChannelError::Closed
        }
        ErrorKind::WouldBlock | ErrorKind::TimedOut => ChannelError::TimedOut,
        _ => error.into(),
    }
}

impl Channel for SocketChannel {
    fn send(&mut self, parts: &[&[u8]]) -> Result<(), ChannelError> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > MAX_FRAME {
            return Err(ChannelError::TooLarge(length as u64));
        }
        let head = (length as u32).to_le_bytes();
        let mut slices: Vec<IoSlice<'_>> = std::iter::once(&head[..])
            .chain(parts.iter().copied())
            .map(IoSlice::new)
            .collect();
        let mut left = &mut slices[..];
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            // No signal: the program may not have asked for one.
            let mut control = SendAncillaryBuffer::default();
            match sendmsg(&self.socket, left, &mut control, SendFlags::NOSIGNAL) {
                Ok(0) => return Err(ChannelError::Closed),
                Ok(sent) => IoSlice::advance_slices(&mut left, sent),
                Err(Errno::INTR) => {}
                Err(error) => return Err(of_io(error.into())),
            }
        }
        Ok(())
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> Result<(), ChannelError> {
        let mut head = [0; 4];
        let (first, rest) = head.split_at_mut(1);
        self.read(first, self.patience)?;
        self.read(rest, Some(STALL))?;
        let length = u32::from_le_bytes(head) as usize;
        if length > MAX_FRAME {
            return Err(ChannelError::TooLarge(length as u64));
        }
        // Memory is taken as bytes arrive: a length alone takes none.
        frame.clear();
        while frame.len() < length {
            let at = frame.len();
            frame.resize(length.min(at + STEP), 0);
            self.read(&mut frame[at..], Some(STALL))?;
        }
        Ok(())
    }

    fn set_patience(&mut self, patience: Option<Duration>) -> Result<(), ChannelError> {
        self.patience = patience;
        Ok(())
    }
}

/// Bytes that memory is taken for at a time.
const STEP: usize = 256 << 10;

/// Where a manager that root has started listens.
pub const SYSTEM_SOCKET: &str = "/run/ringfence.sock";

/// Where a manager of this process's user listens, if it is not told otherwise.
pub fn default_socket() -> PathBuf {
    let user = rustix::process::getuid();
    if user.is_root() {
        return SYSTEM_SOCKET.into();
    }
    let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let folder = folder.map_or_else(
        || format!("/run/user/{}", user.as_raw()).into(),
        PathBuf::from,
    );
    folder.join("ringfence.sock")
}
