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
mod enumerate;
mod function;
mod graph;
mod graph_nodes;
mod graph_replay;
pub mod image;
mod launch;
mod loaded;
mod mapped;
mod memory;
mod module;
mod order;
mod pool;
mod query;
mod replace;
mod set;
mod shifted;
mod streams;
mod sync;
pub mod timing;
pub mod watch;
pub mod whole_device;

use driver::Api;
use driver::sys::CUresult;

/// Whether null stands for the calling thread's own stream in the function of
/// this name (cuda.h, "per-thread default stream").
const fn is_per_thread(function: &str) -> bool {
    matches!(
        function.as_bytes(),
        [.., b'_', b'p', b't', b's' | b'd', b'z' | b's']
    )
}

/// What a hook's body returns, by a `return` or at its end.
fn returned(body: impl FnOnce() -> CUresult) -> CUresult {
    body()
}

/// Defines one hook for several symbols with the same parameters. `$next` is
/// the device's function of the same symbol, `FUNCTION` the symbol's name, and
/// `PER_THREAD` whether null is the thread's own stream there.
macro_rules! hook {
    ([$($symbol:ident),+ $(,)?] $arguments:tt |$next:ident| $body:expr) => {
        $($crate::hooks::hook!($symbol $arguments |$next| $body);)+
    };
    ($symbol:ident ($($argument:ident: $type:ty),* $(,)?) |$next:ident| $body:expr) => {
        #[allow(non_snake_case, reason = "the symbol's name")]
        unsafe extern "C" fn $symbol($($argument: $type),*) -> ::driver::sys::CUresult {
            #[allow(dead_code, reason = "few hooks name their function")]
            const FUNCTION: &str = stringify!($symbol);
            #[allow(dead_code, reason = "few hooks are given a stream")]
            const PER_THREAD: bool = $crate::hooks::is_per_thread(FUNCTION);
            let Some($next) = $crate::hooks::next().and_then(|api| api.$symbol) else {
                return $crate::failure::missing(::driver::index::$symbol as u32);
            };
            let _entered = $crate::hooks::watch::enter();
            let result = $crate::hooks::returned(move || $body);
            if result != ::driver::sys::CUresult::CUDA_SUCCESS {
                $crate::hooks::failed(result, FUNCTION);
            }
            result
        }
    };
}

/// Lists a module's hooks; the compiler compares each with the signature in
/// cuda.h.
macro_rules! hooks {
    ($($symbol:ident),* $(,)?) => {
        pub(super) fn register(add: &mut dyn FnMut(usize, *const ())) {
            $({
                const _: ::driver::signatures::$symbol = $symbol;
                add(::driver::index::$symbol, $symbol as *const ());
            })*
        }
    };
}

pub(crate) use {hook, hooks};

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
    mapped::register(add);
    memory::register(add);
    module::register(add);
    order::register(add);
    pool::register(add);
    query::register(add);
    set::register(add);
    shifted::register(add);
    streams::register(add);
    sync::register(add);
}

/// A hooked call has failed: perhaps because a kernel did, which is a finding.
/// Errors of kernels stick, so that one of the calls after it comes here,
/// whichever it is.
#[cold]
fn failed(result: CUresult, function: &str) {
    if driver::kernel_error(result).is_some()
        && let Some(runtime) = crate::session::runtime()
    {
        runtime.kernel_failed(result, function);
    }
}

/// The device's own functions.
fn next() -> Option<&'static Api> {
    Some(&crate::session::get()?.next)
}
