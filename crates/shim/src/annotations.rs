//! What a program that includes `ringfence.h` says about its memory.
//!
//! The header looks one symbol up and gets a table of functions. Before the
//! first CUDA call, and where nothing is checked, they have no effect:
//! then the functions do nothing and succeed, as without Ringfence.

use crate::session;
use model::{DeviceAddress, Extent};
use runtime::{Layer, PartError, Runtime};
use std::ffi::{CStr, c_char, c_int, c_void};

type OnPointer = unsafe extern "C" fn(*const c_void) -> c_int;
type OnBytes = unsafe extern "C" fn(*const c_void, usize) -> c_int;

/// `struct ringfence_interface` of the header.
#[repr(C)]
pub struct Interface {
    size: usize,
    region_create: unsafe extern "C" fn(*const c_void, usize, *const c_char) -> c_int,
    region_destroy: OnPointer,
    pool_create: OnBytes,
    pool_destroy: OnPointer,
    pool_alloc: unsafe extern "C" fn(*const c_void, *const c_void, usize) -> c_int,
    pool_free: OnPointer,
    poison: OnBytes,
    unpoison: OnBytes,
}

static INTERFACE: Interface = Interface {
    size: size_of::<Interface>(),
    region_create,
    region_destroy,
    pool_create,
    pool_destroy,
    pool_alloc,
    pool_free,
    poison,
    unpoison,
};

/// The functions of `ringfence.h`.
#[unsafe(no_mangle)]
pub extern "C" fn ringfence_get_interface() -> &'static Interface {
    &INTERFACE
}

/// 0, or -1 if it cannot be so, which is said.
fn answer(done: impl FnOnce(&Runtime) -> Result<(), String>) -> c_int {
    let Some(runtime) = session::runtime() else {
        return 0;
    };
    match done(runtime) {
        Ok(()) => 0,
        Err(message) => {
            runtime.env().error(&message, false);
            -1
        }
    }
}

fn declare(
    function: &str,
    layer: Layer,
    base: *const c_void,
    bytes: usize,
    name: Option<String>,
) -> c_int {
    let extent = Extent {
        base: DeviceAddress(base as u64),
        size: bytes as u64,
    };
    let failed = |error: PartError| format!("{function}: {error}; it is ignored");
    answer(|runtime| {
        runtime
            .allocations()
            .declare_part(layer, extent, name)
            .map_err(failed)
    })
}

fn set_addressable(function: &str, base: *const c_void, bytes: usize, is: bool) -> c_int {
    let extent = Extent {
        base: DeviceAddress(base as u64),
        size: bytes as u64,
    };
    answer(|runtime| {
        let done = runtime.allocations().set_addressable(extent, is);
        done.map_err(|error| format!("{function}: {error}; it is ignored"))
    })
}

fn release(function: &str, what: &str, base: *const c_void, layer: Layer) -> c_int {
    let address = DeviceAddress(base as u64);
    answer(|runtime| {
        if runtime.allocations().release_part(layer, address) {
            Ok(())
        } else {
            Err(format!(
                "{function}: no {what} starts at {address}; it is ignored"
            ))
        }
    })
}

unsafe extern "C" fn region_create(
    base: *const c_void,
    bytes: usize,
    name: *const c_char,
) -> c_int {
    let name = (!name.is_null()).then(|| {
        // SAFETY: the header asks for null or a C string.
        unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned()
    });
    declare("ringfence_region_create", Layer::Region, base, bytes, name)
}

unsafe extern "C" fn region_destroy(base: *const c_void) -> c_int {
    release("ringfence_region_destroy", "region", base, Layer::Region)
}

unsafe extern "C" fn pool_create(base: *const c_void, bytes: usize) -> c_int {
    declare("ringfence_pool_create", Layer::Pool, base, bytes, None)
}

unsafe extern "C" fn pool_destroy(base: *const c_void) -> c_int {
    release("ringfence_pool_destroy", "pool", base, Layer::Pool)
}

unsafe extern "C" fn pool_alloc(pool: *const c_void, base: *const c_void, bytes: usize) -> c_int {
    let address = DeviceAddress(base as u64);
    let belongs = |runtime: &Runtime| {
        let found = runtime.allocations().pool_of(address);
        if found.is_some_and(|found| found.base.0 == pool as u64) {
            return Ok(());
        }
        Err(format!(
            "ringfence_pool_alloc: {address} does not lie in a pool that starts at {pool:?}; it is ignored"
        ))
    };
    match answer(belongs) {
        0 => declare("ringfence_pool_alloc", Layer::Block, base, bytes, None),
        failed => failed,
    }
}

unsafe extern "C" fn pool_free(base: *const c_void) -> c_int {
    release("ringfence_pool_free", "block", base, Layer::Block)
}

unsafe extern "C" fn poison(base: *const c_void, bytes: usize) -> c_int {
    set_addressable("ringfence_poison", base, bytes, false)
}

unsafe extern "C" fn unpoison(base: *const c_void, bytes: usize) -> c_int {
    set_addressable("ringfence_unpoison", base, bytes, true)
}
