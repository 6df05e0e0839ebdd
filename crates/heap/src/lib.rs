//! What the host knows about device memory, and the tables by which the device learns it.
//!
//! [`Registry`] holds the live allocations and remembers the freed ones.
//! [`StreamOrder`] knows what happens before what.
//! [`Quarantine`] keeps freed addresses from being given out again.
//! [`Tables`] turns changes of live allocations into writes to the lookup
//! tables of [`model::layout`]. [`DeviceHeap`] does the same for the heap of
//! device-side `malloc`. [`canary`] is the algebra of known bytes around a
//! buffer, [`image_canary`] that of known pixels around an image; [`mipmaps`]
//! that of images with levels; [`pieces`]
//! is how a kernel verifies both, [`choice`] whether one does. All are plain data: nothing here locks,
//! allocates device memory, or calls a driver.

pub mod canary;
pub mod choice;
mod device_heap;
pub mod image_canary;
pub mod mipmaps;
mod order;
mod parts;
pub mod pieces;
mod placement;
mod quarantine;
#[cfg(test)]
mod records;
mod registry;
#[cfg(test)]
mod steps;
mod tables;

pub use device_heap::{Block, DeviceHeap, Read};
pub use order::{Blocking, Point, StreamOrder};
pub use parts::{Layer, PartEdit, PartError};
pub use placement::padded_size;
pub use quarantine::{Held, Quarantine};
pub use registry::{Around, Entry, Freed, Inserted, Neighbours, Owner, Registry, Reshaped};
pub use tables::{TableUpdate, Tables, TablesError};
