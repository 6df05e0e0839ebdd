//! What tenants and the manager say to each other.
//!
//! A tenant sends a [`Request`] and gets one [`Reply`], each a frame: a message
//! and, where it moves many bytes, a payload. Frames travel through a
//! [`Channel`]. The first request is [`Request::Hello`]; it and its reply go
//! over a UNIX socket ([`SocketChannel`]), and all others over rings in memory
//! that the two sides share ([`RingChannel`]).
//!
//! What only puts work into a stream may be sent without a reply
//! ([`Frame::send_quietly`]): it is done in its turn, and if it fails, a later
//! reply says so ([`Request::tells_of_failures`]).
//!
//! All that is received is hostile. Frames have a greatest length, which is
//! checked before memory is taken for them; a message is decoded in full or is
//! an error, and whatever numbers it holds are the receiver's to judge.
//!
//! An administrator's program asks over a socket of its own ([`Control`]).
//!
//! No request waits for a kernel: where one must be over first, the reply is
//! [`Reply::Busy`], and the tenant asks again.

mod admin;
mod channel;
mod control;
mod message;
mod rings;
mod socket;

pub use admin::{AdminReply, AdminRequest, Overview, StoreTotals, TenantRow, Totals, admin_socket};
pub use channel::{Channel, ChannelError, Frame, MAX_FRAME, MAX_MESSAGE, MAX_PAYLOAD};
pub use control::{
    CONTROL_MAGIC, CONTROL_SOCKET, CONTROL_VERSION, Control, ControlError, ControlReply,
    ControlRequest, ManagerState, NewSlice, SLICE_NAME_BYTES, SLICE_SOCKET, SYSTEM_SLICES,
    SliceState, is_slice_name, slice_folder,
};
pub use message::{
    Attribute, DEFAULT_STREAM, DeviceFacts, Hello, Kernel, Limit, Loaded, MAGIC, NAME_BYTES, Place,
    QUIET_IN_A_ROW, Reply, Request, Unprinted, VERSION, Variable, Welcome,
};
pub use ring::{ALIGN as STAGING_ALIGN, Chunk, Chunks, Credentials, PeerError, Staging};
pub use rings::{COPIED_THROUGH, PINNED_UNIT, RingChannel};
pub use socket::{SYSTEM_SOCKET, SocketChannel, default_socket};
