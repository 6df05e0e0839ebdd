//! The host's view of device memory, and the lookup tables that it writes for
//! the device.
//!
//! [`Registry`] holds the live and the recently freed allocations.
//! [`StreamOrder`] is the happens-before relation between streams and the host.
//! [`Quarantine`] delays the reuse of freed addresses. [`Tables`] turns changes
//! of live allocations into writes to the lookup tables of [`model::layout`].
//! [`DeviceHeap`] does the same for the heap of device-side `malloc`.
//! [`canary`] is the algebra of known bytes around a buffer, [`image_canary`]
//! that of known pixels around an image; [`mipmaps`] that of images with
//! levels; [`pieces`] divides their verification among the threads of a kernel,
//! and [`choice`] decides between a kernel and the host. [`shadow`] is the
//! algebra of shadow memory and redzones, [`poison`] that of bytes which the
//! program declares not to be accessed, and [`placed`] is where allocations lie
//! that Ringfence places itself. All are plain data:
//! nothing here locks, allocates device memory, or calls a driver.

pub mod canary;
pub mod choice;
mod device_heap;
pub mod image_canary;
pub mod mipmaps;
mod order;
mod parts;
pub mod pieces;
pub mod placed;
mod placement;
pub mod poison;
mod quarantine;
#[cfg(test)]
mod records;
mod registry;
pub mod shadow;
#[cfg(test)]
mod steps;
mod tables;

pub use device_heap::{Block, DeviceHeap, Read};
pub use order::{Blocking, Point, StreamOrder};
pub use parts::{Layer, PartEdit, PartError};
pub use placement::padded_size;
pub use quarantine::{Held, Quarantine};
pub use registry::{Entry, Freed, Inserted, Neighbours, Owner, Redzones, Registry, Reshaped};
pub use tables::{TableUpdate, Tables, TablesError};
