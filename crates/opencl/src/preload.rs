//! The library preloaded into a program, for loaders that have no layers (that
//! of the CUDA toolkit, for one).
//!
//! All functions that a program can be linked to are exported. The first call
//! of any of them starts the loader. A loader with layers has initialized this
//! one by then, and every call is passed on to it unchanged. Otherwise the
//! layer is put above the loader's own functions.
//!
//! A program that resolves the functions itself, by dlopen and dlsym, bypasses
//! this library.

use crate::api::table::{self, install};
use crate::platform::{Table, empty};
use crate::sys::*;
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

/// What a function returns if there is none to call.
trait Missing {
    fn missing() -> Self;
}

impl Missing for cl_int {
    fn missing() -> cl_int {
        CL_INVALID_OPERATION
    }
}

impl<T> Missing for *mut T {
    fn missing() -> *mut T {
        std::ptr::null_mut()
    }
}

impl Missing for () {
    fn missing() {}
}

/// The table that the program's calls go through.
static TOP: OnceLock<&'static Table> = OnceLock::new();

/// The loader's functions.
static NEXT: OnceLock<Table> = OnceLock::new();

thread_local! {
    /// Set while this thread starts the loader: calls by a platform during that
    /// are not the program's.
    static STARTING: Cell<bool> = const { Cell::new(false) };
}

/// `None`: there is no loader (yet).
fn top() -> Option<&'static Dispatch> {
    if let Some(top) = TOP.get() {
        return Some(&top.0);
    }
    let next = match NEXT.get() {
        Some(next) => next,
        None => {
            let found = find()?;
            NEXT.get_or_init(|| Table(found))
        }
    };
    if STARTING.get() {
        return Some(&next.0);
    }
    STARTING.set(true);
    if let Some(start) = next.0.clGetPlatformIDs {
        let mut platforms = 0;
        // SAFETY: queries the number of platforms, into a place of this
        // function.
        unsafe { start(0, std::ptr::null_mut(), &raw mut platforms) };
    }
    STARTING.set(false);
    let top = TOP.get_or_init(|| {
        if table::is_installed() {
            next
        } else {
            install(next.0)
        }
    });
    Some(&top.0)
}

/// The functions of the loader behind this library; `None`: there is none.
fn find() -> Option<Dispatch> {
    let behind = table_of(libc::RTLD_NEXT);
    if behind.clGetPlatformIDs.is_some() {
        return Some(behind);
    }
    // Loaded by one library for itself, as plug-ins are: not in the global
    // search order behind this library.
    let mut loaded: Vec<CString> = Vec::new();
    // SAFETY: the function below, with the list that it expects.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut loaded).cast()) };
    loaded.iter().find_map(|name| {
        // SAFETY: a name of a library that is loaded already.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            return None;
        }
        let table = table_of(handle);
        table.clGetPlatformIDs.is_some().then_some(table)
    })
}

/// Notes libraries that may be a loader.
unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, list: *mut c_void) -> c_int {
    // SAFETY: the arguments of dl_iterate_phdr, and the list that it was called
    // with.
    let (info, list) = unsafe { (&*info, &mut *list.cast::<Vec<CString>>()) };
    if !info.dlpi_name.is_null() {
        // SAFETY: a name that ends with 0.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) };
        let text = name.to_string_lossy();
        let file = text.rsplit('/').next().unwrap_or_default();
        if file.starts_with("libOpenCL") {
            list.push(name.to_owned());
        }
    }
    0
}

macro_rules! look_up {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        /// The functions that a library has.
        fn table_of(library: *mut c_void) -> Dispatch {
            let mut table = empty();
            $({
                const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                };
                // SAFETY: a library's handle, and a name that ends with 0.
                let found = unsafe { libc::dlsym(library, NAME.as_ptr()) };
                if !found.is_null() {
                    // SAFETY: OpenCL's function of this name has this type.
                    table.$name = Some(unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> $result>(found)
                    });
                }
            })*
            table
        }
    };
}

macro_rules! export {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            /// OpenCL's function of this name.
            ///
            /// # Safety
            ///
            /// As OpenCL says.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments, reason = "OpenCL's")]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                match top().and_then(|table| table.$name) {
                    // SAFETY: the program's own arguments.
                    Some(function) => unsafe { function($($argument),*) },
                    None => Missing::missing(),
                }
            }
        )*
    };
}

functions!(look_up);
functions!(export);
