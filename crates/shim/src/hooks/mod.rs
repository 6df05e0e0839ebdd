//! Hooks: what Ringfence adds to the functions of the device.
//!
//! A hook calls the device with the program's own arguments, notifies the runtime
//! what happened, and returns the device's own result. When there is no
//! runtime (checking is off, CUDA is not initialised, a forked child) it only
//! calls the device. No lock is held across a call of the device.

mod capture;
mod context;
mod copy;
mod copy_shapes;
mod define;
mod enumerate;
mod function;
mod graph;
mod graph_memory;
mod graph_nodes;
mod graph_replay;
mod graph_scan;
mod kernel_node;
mod launch;
mod link;
mod mapped;
mod memory;
mod module;
mod order;
mod placed;
mod pool;
mod query;
mod replace;
mod set;
mod shifted;
mod streams;
mod sync;
mod values;
mod watch;
mod waves;
pub mod whole_device;

/// Reports every hook: position of its function, and the hook.
pub fn register(add: &mut dyn FnMut(usize, *const ())) {
    capture::register(add);
    context::register(add);
    copy::register(add);
    copy_shapes::register(add);
    enumerate::register(add);
    function::register(add);
    graph::register(add);
    graph_nodes::register(add);
    graph_replay::register(add);
    launch::register(add);
    link::register(add);
    mapped::register(add);
    memory::register(add);
    module::register(add);
    order::register(add);
    pool::register(add);
    query::register(add);
    set::register(add);
    shifted::register(add);
    sync::register(add);
    values::register(add);
}
