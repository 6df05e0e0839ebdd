//! The runtime's functions, by theme. Each file declares its functions with
//! the `runtime!` macro, which also makes the file's table.

pub mod array;
pub mod batch;
pub mod copy;
pub mod device;
pub mod error;
pub mod event;
pub mod function;
pub mod graph;
pub mod graph_generic;
pub mod graph_nodes;
pub mod ipc;
pub mod launch;
pub mod library;
pub mod memory;
pub mod memset;
pub mod occupancy;
pub mod pool;
pub mod registration;
pub mod stream;
pub mod symbol;
pub mod texture;
