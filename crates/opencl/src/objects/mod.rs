//! The data about the program's objects, by handle, and their invariants.

pub mod access;
pub mod backing;
pub mod block;
pub mod buffer;
pub mod kernel;
pub mod maps;
pub mod padded;
pub mod registry;
pub mod shape;
pub mod source;
pub mod staging;
pub mod written;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// Objects by their handle.
pub type ByHandle<T> = Mutex<FxHashMap<usize, T>>;
