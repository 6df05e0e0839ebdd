//! What the device is made of: plain values with their rules. None of them uses
//! the device.

pub mod advice;
pub mod arena;
pub mod array;
pub mod capture;
pub mod context;
pub mod copy;
pub mod event;
pub mod graph;
pub mod graph_memory;
pub mod launch;
pub mod linkers;
pub mod memory;
pub mod module;
pub mod queue;
pub mod support;
pub mod texture;
pub mod ticket;
pub mod user_objects;
pub mod vmm;
pub mod work;
