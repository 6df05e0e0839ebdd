//! How hooks are defined and listed.

use crate::session;
use driver::sys::CUresult;

/// Whether null stands for the calling thread's own stream in the function of
/// this name (cuda.h, "per-thread default stream").
pub(super) const fn is_per_thread(function: &str) -> bool {
    matches!(
        function.as_bytes(),
        [.., b'_', b'p', b't', b's' | b'd', b'z' | b's']
    )
}

/// What a hook's body returns, by a `return` or at its end.
pub(super) fn returned(body: impl FnOnce() -> CUresult) -> CUresult {
    body()
}

/// Defines one hook for several symbols with the same parameters. `$next` is
/// the device's function of the same symbol, `FUNCTION` the symbol's name, and
/// `PER_THREAD` whether null is the thread's own stream there.
macro_rules! hook {
    ([$($symbol:ident),+ $(,)?] $arguments:tt |$next:ident| $body:expr) => {
        $($crate::hooks::define::hook!($symbol $arguments |$next| $body);)+
    };
    ($symbol:ident ($($argument:ident: $type:ty),* $(,)?) |$next:ident| $body:expr) => {
        #[allow(non_snake_case, reason = "the symbol's name")]
        unsafe extern "C" fn $symbol($($argument: $type),*) -> ::driver::sys::CUresult {
            #[allow(dead_code, reason = "few hooks name their function")]
            const FUNCTION: &str = stringify!($symbol);
            #[allow(dead_code, reason = "few hooks are given a stream")]
            const PER_THREAD: bool = $crate::hooks::define::is_per_thread(FUNCTION);
            let Some($next) = $crate::session::next().and_then(|api| api.$symbol) else {
                return $crate::failure::missing(::driver::index::$symbol as u32);
            };
            let _entered = $crate::hooks::watch::enter();
            let result = $crate::hooks::define::returned(move || $body);
            if result != ::driver::sys::CUresult::CUDA_SUCCESS {
                $crate::hooks::define::failed(result, FUNCTION);
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

/// A hooked call has failed: perhaps because a kernel did, which is a finding.
/// Errors of kernels stick, so that one of the calls after it comes here,
/// whichever it is.
#[cold]
pub(super) fn failed(result: CUresult, function: &str) {
    if driver::kernel_error(result).is_some()
        && let Some(runtime) = session::runtime()
    {
        runtime.failures().kernel_failed(result, function);
    }
}
