//! The C functions of the driver API over the CPU device: a [`driver::Api`] table
//! whose functions call the one CPU device of the process.
//!
//! One file a theme, each a list of thin functions: read C memory, call
//! [`emulate::device::Device`], write the answer. What is not here stays out
//! of the table, and calling it fails with its name. Nothing here decides
//! anything: rules and error codes are the device's.

mod array;
mod context;
mod convert;
mod copy;
mod device;
mod error;
mod event;
mod function;
mod graph;
mod graph_events;
mod graph_nodes;
mod host;
mod image;
mod launch;
mod lent;
mod library;
mod link;
mod memory;
mod module;
mod pointer;
mod pool;
mod session;
mod stream;
mod texture;
mod vmm;

use driver::Api;
pub use emulate::device::{Contained, Options};
pub use host::Output;
pub use session::{Cpu, open};

/// The functions that the CPU device has.
pub fn api() -> Api {
    let mut api = Api::EMPTY;
    for register in [
        array::register,
        context::register,
        copy::register,
        device::register,
        error::register,
        event::register,
        function::register,
        graph::register,
        graph_events::register,
        graph_nodes::register,
        launch::register,
        library::register,
        link::register,
        memory::register,
        module::register,
        pointer::register,
        pool::register,
        stream::register,
        texture::register,
        vmm::register,
    ] {
        register(&mut api);
    }
    api
}

/// The same functions, to be called from Rust. A device must have been opened.
pub fn calls(_opened: &Cpu) -> driver::calls::Calls {
    // SAFETY: each function of the table has its declared signature (`functions!`
    // assigns it to the field of its name), behaves as cuda.h documents it, and
    // is part of this program.
    unsafe { driver::calls::Calls::new(api()) }
}
