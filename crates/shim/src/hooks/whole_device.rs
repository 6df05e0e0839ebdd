//! Calls of the device that wait until nothing runs in a context, as measured
//! on driver 580: the guard, which stays, goes away for their time. They take
//! the place of the device's own in the table that all hooks call, so they
//! lie under every hook, and under the calls that the hooks themselves add.
//!
//! Calls that wait for all kernels in any case are made when the program's
//! streams have been waited for, while the guard still watches.

use super::{context, watch};
use crate::session;
use driver::Api;
use driver::sys::{
    CUarray, CUcontext, CUdevice, CUdeviceptr, CUexternalMemory, CUfunction, CUgraphicsResource,
    CUgreenCtx, CUjit_option, CUkernel, CUlibrary, CUlibraryOption, CUlimit, CUmipmappedArray,
    CUmodule, CUresult,
};
use runtime::{Paused, Waits};
use std::ffi::{c_char, c_void};

/// The device's functions, with those replaced that wait for all of it.
pub fn wrap(api: &Api) -> Api {
    let mut addresses = *api.addresses();
    register(&mut |position, wrapper| {
        if addresses[position] != 0 {
            addresses[position] = wrapper as usize;
        }
    });
    // SAFETY: the addresses are the device's own, or those of wrappers that
    // the compiler has compared with the signatures at their positions.
    unsafe { Api::from_addresses(addresses) }
}

fn pause(waits: Waits) -> Option<Paused<'static>> {
    Some(session::runtime()?.watch().pause(waits))
}

/// Before code is unloaded.
fn pause_to_unload() -> Option<Paused<'static>> {
    watch::forget_kernels();
    pause(Waits::ForAll)
}

/// Before a context ends.
fn pause_for_good(context: CUcontext) -> Option<Paused<'static>> {
    watch::forget_kernels();
    Some(session::runtime()?.watch().pause_for_good(context.0))
}

/// Nothing is freed, and nothing waited for.
fn pause_to_free(address: u64) -> Option<Paused<'static>> {
    if address == 0 {
        return None;
    }
    pause(Waits::ForAll)
}

/// Defines wrappers: the guard is away, by `$pause`, while the call is made.
macro_rules! away {
    ($($pause:expr => [$($symbol:ident),+] $arguments:tt;)*) => {
        $(away!(@each $pause => $arguments $($symbol)+);)*
        fn register(add: &mut dyn FnMut(usize, *const ())) {
            $($({
                const _: ::driver::signatures::$symbol = $symbol;
                add(::driver::index::$symbol, $symbol as *const ());
            })+)*
        }
    };
    (@each $pause:expr => $arguments:tt $($symbol:ident)+) => {
        $(away!(@one $pause => $symbol $arguments);)+
    };
    (@one $pause:expr => $symbol:ident ($($argument:ident: $type:ty),*)) => {
        #[allow(non_snake_case, reason = "the symbol's name")]
        unsafe extern "C" fn $symbol($($argument: $type),*) -> CUresult {
            let Some(call) = session::get().and_then(|session| session.device.$symbol) else {
                return $crate::failure::missing(::driver::index::$symbol as u32);
            };
            let pause: fn($($type),*) -> Option<Paused<'static>> = $pause;
            let _paused = pause($($argument),*);
            // SAFETY: the caller's arguments.
            unsafe { call($($argument),*) }
        }
    };
}

away! {
    || pause(Waits::ForAll) => [cuCtxSynchronize]();
    |_| pause(Waits::ForAll) => [cuCtxSynchronize_v2](context: CUcontext);
    pause_to_free => [cuMemFree_v2](address: CUdeviceptr);
    |memory| pause_to_free(memory as u64) => [cuMemFreeHost, cuMemHostUnregister](memory: *mut c_void);
    |_| pause(Waits::ForAll) => [cuArrayDestroy](array: CUarray);
    |_| pause(Waits::ForAll) => [cuMipmappedArrayDestroy](array: CUmipmappedArray);
    |_| pause_to_unload() => [cuModuleUnload](module: CUmodule);
    |_| pause_to_unload() => [cuLibraryUnload](library: CUlibrary);
    pause_for_good => [cuCtxDestroy, cuCtxDestroy_v2, cuCtxDetach](context: CUcontext);
    |device| pause_for_good(context::primary(device).unwrap_or(CUcontext::NULL)) =>
        [cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2](device: CUdevice);
    // Asking for the context would be asking this. It may be the last reference.
    |_| pause_for_good(CUcontext::NULL) => [cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2](device: CUdevice);
    |_| pause(Waits::Perhaps) => [cuGreenCtxDestroy](context: CUgreenCtx);
    |_| pause(Waits::Perhaps) => [cuIpcCloseMemHandle](address: CUdeviceptr);
    |_| pause(Waits::Perhaps) => [cuDestroyExternalMemory](memory: CUexternalMemory);
    |_| pause(Waits::Perhaps) => [cuGraphicsUnregisterResource](resource: CUgraphicsResource);
    |_, _| pause(Waits::Perhaps) => [cuCtxSetLimit](limit: CUlimit, value: usize);
    |_, _| pause(Waits::Perhaps) => [cuCtxEnablePeerAccess](context: CUcontext, flags: u32);
    |_| pause(Waits::Perhaps) => [cuCtxDisablePeerAccess](context: CUcontext);
    |_, _| pause(Waits::Perhaps) => [cuModuleLoad](module: *mut CUmodule, file: *const c_char);
    |_, _| pause(Waits::Perhaps) => [cuModuleLoadData, cuModuleLoadFatBinary](module: *mut CUmodule, image: *const c_void);
    |_, _, _, _, _| pause(Waits::Perhaps) => [cuModuleLoadDataEx](
        module: *mut CUmodule,
        image: *const c_void,
        count: u32,
        options: *mut CUjit_option,
        values: *mut *mut c_void
    );
    |_, _, _, _, _, _, _, _| pause(Waits::Perhaps) => [cuLibraryLoadData](
        library: *mut CUlibrary,
        code: *const c_void,
        options: *mut CUjit_option,
        values: *mut *mut c_void,
        count: u32,
        library_options: *mut CUlibraryOption,
        library_values: *mut *mut c_void,
        library_count: u32
    );
    |_, _, _, _, _, _, _, _| pause(Waits::Perhaps) => [cuLibraryLoadFromFile](
        library: *mut CUlibrary,
        file: *const c_char,
        options: *mut CUjit_option,
        values: *mut *mut c_void,
        count: u32,
        library_options: *mut CUlibraryOption,
        library_values: *mut *mut c_void,
        library_count: u32
    );
    // Where the library was loaded before the context was made, its module is
    // loaded now.
    |_, _| pause(Waits::Perhaps) => [cuLibraryGetModule](module: *mut CUmodule, library: CUlibrary);
    |_, _| pause(Waits::Perhaps) => [cuKernelGetFunction](function: *mut CUfunction, kernel: CUkernel);
    |_, _, _, _| pause(Waits::Perhaps) => [cuLibraryGetGlobal, cuLibraryGetManaged](
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        library: CUlibrary,
        name: *const c_char
    );
    |_| pause(Waits::Perhaps) => [cuFuncLoad](function: CUfunction);
}
