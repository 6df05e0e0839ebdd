//! How two processes come to share rings: the client says hello, the manager
//! makes the memory and passes its descriptor.
//!
//! ```text
//! client → manager   hello     magic (8 bytes), version (4), zero (4)
//! manager → client   welcome   magic (8), version (4), status (4), bytes of the
//!                              request ring, reply ring, staging area (8 each);
//!                              with status 0 and the descriptor of the memory
//! ```
//!
//! Numbers are little-endian. Before and between, nothing may come; behind it
//! nothing is read. The manager alone decides the sizes. It makes no memory for
//! a client that did not say hello, takes no descriptors, and waits no longer
//! than its caller allows, however few bytes come at a time.

use crate::descriptors::{Exchange, ExchangeError};
use crate::endpoint::Endpoint;
use crate::layout::{Layout, LayoutError};
use crate::mapping::Mapping;
use crate::memfd::{self, MemfdError};
use crate::peer::{Peer, PeerError};
use crate::shared::Side;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The version of the handshake and of what the shared memory holds.
pub const VERSION: u32 = 1;
/// How both messages start.
pub const MAGIC: [u8; 8] = *b"RF-RING\0";
/// Bytes of the client's message.
pub const HELLO: usize = 16;
/// Bytes of the manager's message.
pub const WELCOME: usize = 40;

/// The status of a welcome: the descriptor comes with it.
const ACCEPTED: u32 = 0;
/// The manager does not speak the client's version.
const OTHER_VERSION: u32 = 1;
/// The manager could not make the memory.
const NO_MEMORY: u32 = 2;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The messages were not exchanged.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// What came is no message of this handshake.
    #[error("the peer sent something else than a handshake")]
    NotRings,
    /// The sides have different versions.
    #[error("the peer speaks version {theirs} of the rings, this side version {VERSION}")]
    Version {
        /// The peer's.
        theirs: u32,
    },
    /// The manager has no memory or descriptors for another client.
    #[error("the manager could not make shared memory; its log says why")]
    Refused,
    /// The manager answered with an unknown status.
    #[error("the manager answered with the unknown status {0}")]
    Status(u32),
    /// The manager's welcome came without the memory.
    #[error("the manager did not pass the shared memory")]
    NoMemory,
    /// The manager's sizes are not possible.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The memory could not be made, or is not what it should be.
    #[error(transparent)]
    Memory(#[from] MemfdError),
    /// The memory could not be mapped.
    #[error("the shared memory could not be mapped: {0}")]
    Map(#[source] std::io::Error),
    /// The peer is not known.
    #[error(transparent)]
    Peer(#[from] PeerError),
}

/// Reads the numbers of a message, which has room for all that are taken.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let field = self.0.first_chunk().copied();
        self.0 = self.0.get(N..).unwrap_or_default();
        field.unwrap_or([0; N])
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

fn hello() -> [u8; HELLO] {
    let mut bytes = [0; HELLO];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

fn welcome(status: u32, layout: &Layout) -> [u8; WELCOME] {
    use crate::layout::Direction::{Replies, Requests};
    let mut bytes = [0; WELCOME];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&status.to_le_bytes());
    bytes[16..24].copy_from_slice(&layout.ring(Requests).to_le_bytes());
    bytes[24..32].copy_from_slice(&layout.ring(Replies).to_le_bytes());
    bytes[32..].copy_from_slice(&layout.staging().to_le_bytes());
    bytes
}

/// Takes a client in: the manager's side of the handshake, on a socket that
/// it accepted. A client can make it last as long as `timeout`, so the thread
/// that does it serves nobody else meanwhile.
///
/// # Errors
///
/// What the client did wrong, or why there is no memory; the client is told of
/// another version and of missing memory.
pub fn accept(
    socket: UnixStream,
    layout: &Layout,
    timeout: Duration,
) -> Result<Endpoint, HandshakeError> {
    let peer = Peer::client(socket)?;
    let exchange = Exchange::new(peer.socket(), timeout);
    let mut bytes = [0; HELLO];
    exchange.receive(&mut bytes)?;
    let mut fields = Fields(&bytes);
    let magic: [u8; 8] = fields.take();
    let (theirs, zero) = (fields.u32(), fields.u32());
    if magic != MAGIC {
        return Err(HandshakeError::NotRings);
    }
    if theirs != VERSION {
        exchange.send(&welcome(OTHER_VERSION, layout), None)?;
        return Err(HandshakeError::Version { theirs });
    }
    if zero != 0 {
        return Err(HandshakeError::NotRings);
    }
    let made = memfd::create(layout)
        .map_err(HandshakeError::from)
        .and_then(|file| {
            let mapping = Mapping::new(file.as_fd(), layout).map_err(HandshakeError::Map)?;
            Ok((file, mapping))
        });
    match made {
        Ok((file, mapping)) => {
            exchange.send(&welcome(ACCEPTED, layout), Some(file.as_fd()))?;
            Ok(Endpoint::new(mapping, *layout, peer, Side::Manager))
        }
        Err(error) => {
            exchange.send(&welcome(NO_MEMORY, layout), None)?;
            Err(error)
        }
    }
}

/// Connects to a manager: the client's side of the handshake.
///
/// # Errors
///
/// What the manager answered, or did wrong.
pub fn connect(socket: UnixStream, timeout: Duration) -> Result<Endpoint, HandshakeError> {
    let peer = Peer::manager(socket)?;
    let exchange = Exchange::new(peer.socket(), timeout);
    exchange.send(&hello(), None)?;
    let mut bytes = [0; WELCOME];
    let file = exchange.receive_with_one(&mut bytes)?;
    let mut fields = Fields(&bytes);
    let magic: [u8; 8] = fields.take();
    let (theirs, status) = (fields.u32(), fields.u32());
    if magic != MAGIC {
        return Err(HandshakeError::NotRings);
    }
    if theirs != VERSION {
        return Err(HandshakeError::Version { theirs });
    }
    match status {
        ACCEPTED => {}
        NO_MEMORY => return Err(HandshakeError::Refused),
        status => return Err(HandshakeError::Status(status)),
    }
    let layout = Layout::new(fields.u64(), fields.u64(), fields.u64())?;
    let file = file.ok_or(HandshakeError::NoMemory)?;
    memfd::verify(file.as_fd(), &layout)?;
    let mapping = Mapping::new(file.as_fd(), &layout).map_err(HandshakeError::Map)?;
    Ok(Endpoint::new(mapping, layout, peer, Side::Client))
}
