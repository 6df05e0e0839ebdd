//! The driver API for a tenant: a [`driver::Api`] table whose functions ask the
//! manager (Guardian, section 4.1).
//!
//! What the manager need not know stays here: contexts, host memory, which
//! handle is which of the manager's numbers. The manager believes none of it.
//! Functions that are not in the table fail with their name, which is better
//! than to do something else than was asked for.
//!
//! What puts work into a stream and cannot fail is sent without waiting for a
//! reply (`ahead`), as launches do not wait natively; if it fails all the same,
//! a later call says so, as CUDA documents for asynchronous errors.
//!
//! Some work is done in this process: functions of the program in streams, and
//! graphs, which become ordinary launches and copies (`order`, `graph`).
//!
//! The manager never waits for a kernel; waiting is done here, by asking again,
//! without a lock, so that other threads of the program can call meanwhile.

mod ahead;
mod call;
mod capture;
mod capture_calls;
mod context;
mod convert;
mod copy;
mod device;
mod error;
mod event;
mod function;
mod graph;
mod large;
mod launch;
mod limit;
mod link;
mod managed;
mod memory;
mod module;
mod order;
mod passing;
mod pinned;
mod pointer;
mod pool;
mod printed;
mod reach;
mod staged;
mod state;
mod stream;
mod through;
mod transfer;
mod work;

use driver::Api;
pub use link::{ConnectError, Options, connect, in_child};

/// The functions that tenants have.
pub fn api() -> Api {
    let mut api = Api::EMPTY;
    for register in [
        call::register,
        capture_calls::register,
        context::register,
        copy::register,
        device::register,
        error::register,
        event::register,
        function::register,
        graph::register,
        launch::register,
        limit::register,
        managed::register,
        memory::register,
        module::register,
        pointer::register,
        pool::register,
        stream::register,
    ] {
        register(&mut api);
    }
    api
}
