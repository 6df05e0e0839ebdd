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
//! The manager never waits for a kernel; waiting is done here, by asking again,
//! without a lock, so that other threads of the program can call meanwhile.

mod ahead;
mod context;
mod convert;
mod copy;
mod device;
mod error;
mod event;
mod function;
mod large;
mod launch;
mod limit;
mod link;
mod memory;
mod module;
mod pointer;
mod printed;
mod staged;
mod state;
mod stream;

use driver::Api;
pub use link::{ConnectError, Options, connect, in_child};

/// The functions that tenants have.
pub fn api() -> Api {
    let mut api = Api::EMPTY;
    for register in [
        context::register,
        copy::register,
        device::register,
        error::register,
        event::register,
        function::register,
        launch::register,
        limit::register,
        memory::register,
        module::register,
        pointer::register,
        stream::register,
    ] {
        register(&mut api);
    }
    api
}
