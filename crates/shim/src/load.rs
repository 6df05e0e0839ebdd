//! What happens when the library is loaded, before anything else of the
//! program.

use crate::environment::{device_kind, leave_error, settings};
use crate::exports::TABLE;
use crate::launcher;
use crate::process;
use crate::stderr::say;
use model::{DeviceKind, exit_code};
use std::ffi::{c_char, c_int};

/// This symbol distinguishes Ringfence's library from the real driver's.
#[unsafe(no_mangle)]
pub extern "C" fn ringfence_is_loaded() -> c_int {
    1
}

/// A block of C strings, ended by null.
type Strings = *const *const c_char;

unsafe extern "C" {
    static mut environ: Strings;
}

#[unsafe(link_section = ".init_array")]
#[used]
static BEFORE_MAIN: extern "C" fn(c_int, Strings, Strings) = before_main;

/// On the CPU device and as a tenant, programs with the static CUDA runtime are redirected to
/// ours; that must happen before their own constructors register kernels, and
/// those of their libraries. So this library starts before all others
/// (build.rs), even before the C library, which only then takes over the
/// environment that the loader passes to every initialiser.
extern "C" fn before_main(_count: c_int, _arguments: Strings, environment: Strings) {
    // SAFETY: there is one thread; the loader's block lives as long as the
    // process, and is what the C library itself is about to store here.
    unsafe {
        if environ.is_null() {
            environ = environment;
        }
    }
    launcher::end_with_it();
    // Errors in settings are reported at the first CUDA call: most processes that
    // inherit the environment never make one.
    let Ok(settings) = settings() else {
        return;
    };
    let kind = device_kind(&settings);
    if kind == DeviceKind::Gpu {
        return;
    }
    // The functions as the program sees them, for our own CUDA runtime library.
    cudart::install(|| Ok(TABLE.program()));
    if let Err(error) = cudart::redirect_static() {
        say(&format!("error: {error}"));
        leave_error(&settings, kind, &error.to_string());
        process::exit_now(exit_code::FAILED.into());
    }
    // Most programs open none that uses CUDA.
    if let Err(error) = cudart::redirect_opened() {
        say(&format!("warning: {error}"));
    }
}

#[unsafe(link_section = ".fini_array")]
#[used]
static AFTER_ALL: extern "C" fn() = after_all;

/// No code of the program runs after this: the library that starts first ends
/// last.
extern "C" fn after_all() {
    process::finish(true);
}
