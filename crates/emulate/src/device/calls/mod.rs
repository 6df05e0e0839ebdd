//! The calls of the device, one file a theme.

mod advice;
mod array;
mod capture;
mod context;
mod copy;
mod event;
mod executables;
mod graph;
mod graph_memory;
mod launch;
mod linkers;
mod memory;
mod module;
mod nodes;
mod pools;
mod properties;
mod stream;
mod support;
mod texture;
mod user_objects;
mod vmm;
