//! The C functions of the driver API over the CPU device.
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
mod library;
mod link;
mod memory;
mod module;
mod pointer;
mod pool;
mod stream;
mod texture;
mod vmm;

use crate::state::Cpu;
use driver::Api;
use emulate::device::{Device, Options};
use model::Settings;
use std::sync::Arc;

/// A CPU device for the process. The message of an error says what to do.
pub fn open(settings: &Settings) -> Result<Cpu, String> {
    let options = Options {
        threads: settings.cpu_threads,
        seed: settings.seed,
        pageable: settings.cpu_pageable,
    };
    Device::new(options, Arc::new(host::Process))
        .map(Cpu::new)
        .map_err(|error| format!("the CPU device could not start: {error}"))
}

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
