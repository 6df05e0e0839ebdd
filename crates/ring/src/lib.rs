//! The transport between a tenant and the manager: rings in shared memory,
//! between two processes that do not trust each other.
//!
//! ```text
//! client                                            manager
//! connect(socket) ── hello ──────────────────────▶ accept(socket, layout)
//!                 ◀─ welcome, sealed memory file ──
//! sender.send ────── request ring ───────────────▶ receiver.receive
//! receiver.receive ◀─ reply ring ─────────────────  sender.try_send
//! staging ────────── offset and length in a frame ▶ staging.chunk(offset, length)
//! ```
//!
//! A frame is any bytes up to [`Sender::max_frame`]; what they mean is decided
//! elsewhere. Each direction has one ring with one sender and one receiver, and
//! frames arrive whole and in order. While both sides are busy, no call enters
//! the kernel; a side that waits spins for a while, then sleeps on a futex.
//!
//! **Trust.** The peer may write anything anywhere in the memory at any time,
//! may stop, and may die. It can thereby end its own connection, with an error
//! that says why ([`Error::Corrupt`], [`Error::Gone`]), and can let a caller
//! wait as long as that caller allowed. It cannot cause an access outside the
//! memory, a panic, a loop without end, or undefined behaviour: see `frames`
//! for what is validated, `mapping` for why accesses are sound, `bell` for why
//! no wake-up is lost, and `wait` for what a peer can do to a side that sleeps.
//! A frame that was received is a copy that nobody else can change.
//!
//! **Back-pressure.** A full ring holds the sender up, for a time that the
//! caller chooses. The manager must not wait for one tenant while others need
//! it: it uses [`Sender::try_send`], and ends a connection whose client does not
//! take its replies.
//!
//! **Memory.** It is the manager's, on its account. A client may keep it mapped
//! for ever; when a connection ends, the manager gives its pages back. A manager
//! that ends a connection itself leaves the rings, with its last replies in
//! them, until the client unmaps them.
//!
//! **Requests and replies.** [`Channel`] carries messages of any size over both
//! rings. A handshake of its own goes through the socket before that of the
//! rings, if there is one: [`accept`] and [`connect`] read no byte too many.
//!
//! **Forks.** A child of a client has the same memory and socket. Only one of
//! the two may use them: the rings have one sender and one receiver.

mod bell;
mod channel;
mod chunks;
mod descriptors;
mod endpoint;
mod error;
pub mod frames;
mod handshake;
mod layout;
mod mapping;
mod memfd;
mod peer;
mod shared;
mod staging;
mod wait;

#[cfg(test)]
mod model;

pub use channel::{Channel, STALL};
pub use chunks::{Chunks, NotInUse};
pub use descriptors::ExchangeError;
pub use endpoint::{Endpoint, Interrupt, Receiver, Sender};
pub use error::Error;
pub use frames::Corrupt;
pub use handshake::{HELLO, HandshakeError, MAGIC, VERSION, WELCOME, accept, connect};
pub use layout::{Direction, Layout, LayoutError, MAX_RING, MAX_STAGING, MIN_RING, PAGE};
pub use memfd::MemfdError;
pub use peer::{Credentials, Peer, PeerError};
pub use staging::{ALIGN, Chunk, Staging, StagingError};
pub use wait::{LAST_SLICE, SPIN, Spin};
