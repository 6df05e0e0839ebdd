//! cuGetProcAddress: the device chooses the variant, Ringfence puts its own
//! function of the same variant in its place.
//!
//! Rules: `driver::resolver`, and cuda-facts on versions. Substituting another
//! variant than the device chose would change a function's signature under
//! the program; so where the variant is not certain, the device's answer
//! stays.

use crate::session::{self, Session};
use driver::resolver::{Resolution, resolve};
use driver::sys::{CUdriverProcAddress_flags, CUdriverProcAddressQueryResult, CUresult};
use driver::{FUNCTIONS, index, signatures};
use model::DeviceKind;
use std::ffi::{CStr, c_char, c_void};

/// The version that the CPU device speaks, and the newest whose variants the
/// generated table knows.
const KNOWN_VERSION: u32 = 13000;

/// Where the first query of a program may come in, so always hooked: also when
/// Ringfence could not start. Then functions are found, and fail.
pub fn register(add: &mut dyn FnMut(usize, *const ())) {
    const _: signatures::cuGetProcAddress = first;
    const _: signatures::cuGetProcAddress_v2 = second;
    add(index::cuGetProcAddress, first as *const ());
    add(index::cuGetProcAddress_v2, second as *const ());
}

unsafe extern "C" fn first(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: i32,
    flags: u64,
) -> CUresult {
    let Some(session) = session::get().filter(|session| session.kind == DeviceKind::Gpu) else {
        // SAFETY: the program's own arguments.
        let result = unsafe { from_table(symbol, function, version, flags, std::ptr::null_mut()) };
        // Without a place for a status, absence is an error.
        // SAFETY: written by `from_table` when it succeeds, which checks null.
        let absent = result == CUresult::CUDA_SUCCESS && unsafe { *function }.is_null();
        return if absent {
            CUresult::CUDA_ERROR_NOT_FOUND
        } else {
            result
        };
    };
    let Some(next) = session.next.cuGetProcAddress else {
        return crate::failure::missing(index::cuGetProcAddress as u32);
    };
    // SAFETY: the program's own arguments.
    let result = unsafe { next(symbol, function, version, flags) };
    if result == CUresult::CUDA_SUCCESS {
        // SAFETY: the call succeeded, so name and place are valid.
        unsafe { substitute(session, symbol, function, version, flags) };
    }
    result
}

unsafe extern "C" fn second(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: i32,
    flags: u64,
    status: *mut CUdriverProcAddressQueryResult,
) -> CUresult {
    let Some(session) = session::get().filter(|session| session.kind == DeviceKind::Gpu) else {
        // SAFETY: the program's own arguments.
        return unsafe { from_table(symbol, function, version, flags, status) };
    };
    let Some(next) = session.next.cuGetProcAddress_v2 else {
        return crate::failure::missing(index::cuGetProcAddress_v2 as u32);
    };
    // SAFETY: the program's own arguments.
    let result = unsafe { next(symbol, function, version, flags, status) };
    if result == CUresult::CUDA_SUCCESS {
        // SAFETY: the call succeeded, so name and place are valid.
        unsafe { substitute(session, symbol, function, version, flags) };
    }
    result
}

/// Puts the exported function in the place of the device's function.
///
/// # Safety
/// `symbol` and `function` are what the device's resolver has just accepted.
unsafe fn substitute(
    session: &Session,
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: i32,
    flags: u64,
) {
    if symbol.is_null() || function.is_null() {
        return;
    }
    // SAFETY: not null, and written by the device's resolver.
    let found = unsafe { *function } as usize;
    if found == 0 {
        return;
    }
    // SAFETY: a NUL-terminated name, which the device's resolver has read.
    let Ok(name) = unsafe { CStr::from_ptr(symbol) }.to_str() else {
        return;
    };
    let expected = match resolve(name, version.max(0).cast_unsigned(), per_thread(flags)) {
        Resolution::Function(position) => Some(position),
        Resolution::VersionTooOld | Resolution::NotFound => None,
    };
    let Some(position) = chosen(session.next.addresses(), found, name, expected, version) else {
        return;
    };
    // What is not hooked stays the device's own.
    if session.table.target(position) == session.next.addresses()[position]
        || session.next.addresses()[position] == 0
    {
        return;
    }
    // SAFETY: the place is valid; see above.
    unsafe { *function = session.table.program().addresses()[position] as *mut c_void };
}

/// The position of the variant that the device answered with.
fn chosen(
    next: &[usize],
    found: usize,
    name: &str,
    expected: Option<usize>,
    version: i32,
) -> Option<usize> {
    // The variant that the table expects, if it is that very function; several
    // symbols may share one address.
    if let Some(position) = expected
        && next[position] == found
    {
        return expected;
    }
    let of_name = |position: &usize| {
        FUNCTIONS[*position]
            .strip_prefix(name)
            .is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('_'))
    };
    let same = (0..next.len())
        .filter(|position| next[*position] == found)
        .find(of_name);
    // A function that is not among the exported ones: the table is right as
    // far as it reaches.
    let certain = expected.filter(|_| version.max(0).cast_unsigned() <= KNOWN_VERSION);
    same.or(certain)
}

fn per_thread(flags: u64) -> bool {
    let flag = CUdriverProcAddress_flags::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    flags & u64::from(flag.0) != 0
}

/// Answers a query from the generated table alone.
///
/// # Safety
/// Each pointer is null or valid, and `symbol` NUL-terminated.
unsafe fn from_table(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: i32,
    flags: u64,
    status: *mut CUdriverProcAddressQueryResult,
) -> CUresult {
    let known_flags = u64::from(
        CUdriverProcAddress_flags::CU_GET_PROC_ADDRESS_LEGACY_STREAM.0
            | CUdriverProcAddress_flags::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM.0,
    );
    let Ok(version) = u32::try_from(version) else {
        return CUresult::CUDA_ERROR_INVALID_VALUE;
    };
    if symbol.is_null()
        || function.is_null()
        || version > KNOWN_VERSION
        || flags & !known_flags != 0
    {
        return CUresult::CUDA_ERROR_INVALID_VALUE;
    }
    let Some(table) = session::table() else {
        return CUresult::CUDA_ERROR_NOT_INITIALIZED;
    };
    // SAFETY: not null, and NUL-terminated as the caller guarantees.
    let name = unsafe { CStr::from_ptr(symbol) }.to_str().unwrap_or("");
    let (answer, found) = match resolve(name, version, per_thread(flags)) {
        Resolution::Function(position) => (
            table.program().addresses()[position] as *mut c_void,
            CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS,
        ),
        Resolution::VersionTooOld => (
            std::ptr::null_mut(),
            CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT,
        ),
        Resolution::NotFound => (
            std::ptr::null_mut(),
            CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
        ),
    };
    // SAFETY: not null, and valid as the caller guarantees.
    unsafe { *function = answer };
    if !status.is_null() {
        // SAFETY: as above.
        unsafe { *status = found };
    }
    CUresult::CUDA_SUCCESS
}
