//! What a process needs to be a tenant without `ringfence run`: in a container,
//! or as a batch system's job. Ringfence's library takes the place of the
//! driver's as soon as the dynamic loader preloads it, so mounts and environment
//! variables are all; no device file is among them.
//!
//! None of this is a boundary. A container may change its environment as it
//! likes: what it may have is decided by the manager, by the socket that is
//! mounted.

pub mod cdi;
mod edits;

pub use edits::{Edits, EditsError, LIBRARIES, Libraries, Mount, RUN, environment};
