//! Linkers of the program: the texts that they link are remembered, because the device
//! links them to machine code. (That of the CPU device leaves them text.)

use super::define::{hook, hooks};
use super::replace::{Options, on_cpu};
use crate::image;
use crate::session;
use crate::state::{Input, Links};
use driver::sys::{CUjit_option, CUjitInputType, CUlinkState, CUresult};
use runtime::ModulePart;
use std::ffi::{c_char, c_void};

hooks!(
    cuLinkAddData,
    cuLinkAddData_v2,
    cuLinkAddFile,
    cuLinkAddFile_v2,
    cuLinkComplete,
    cuLinkCreate,
    cuLinkCreate_v2,
    cuLinkDestroy,
);

/// What is remembered of linkers, where modules are looked at.
fn links() -> Option<&'static Links> {
    let session = session::get()?;
    (session::runtime().is_some() && !on_cpu()).then_some(&session.links)
}

/// Options whose values are numbers, for the same code to be linked again; `None` if
/// there are some that say with what it is linked. (Logs and times are left out: they
/// change nothing.)
///
/// # Safety
/// `options` are a program's.
unsafe fn numbers(options: Options) -> Option<Vec<(CUjit_option, usize)>> {
    let count = options.count as usize;
    if count == 0 || options.names.is_null() || options.values.is_null() {
        return Some(Vec::new());
    }
    // SAFETY: both arrays have `count` elements.
    let (names, values) = unsafe {
        (
            std::slice::from_raw_parts(options.names, count),
            std::slice::from_raw_parts(options.values, count),
        )
    };
    let mut kept = Vec::new();
    for (name, value) in names.iter().zip(values) {
        match *name {
            CUjit_option::CU_JIT_WALL_TIME
            | CUjit_option::CU_JIT_INFO_LOG_BUFFER
            | CUjit_option::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES
            | CUjit_option::CU_JIT_ERROR_LOG_BUFFER
            | CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
            | CUjit_option::CU_JIT_LOG_VERBOSE => {}
            CUjit_option::CU_JIT_GLOBAL_SYMBOL_NAMES
            | CUjit_option::CU_JIT_GLOBAL_SYMBOL_ADDRESSES
            | CUjit_option::CU_JIT_GLOBAL_SYMBOL_COUNT
            | CUjit_option::CU_JIT_REFERENCED_KERNEL_NAMES
            | CUjit_option::CU_JIT_REFERENCED_KERNEL_COUNT
            | CUjit_option::CU_JIT_REFERENCED_VARIABLE_NAMES
            | CUjit_option::CU_JIT_REFERENCED_VARIABLE_COUNT => return None,
            name => kept.push((name, value.addr())),
        }
    }
    Some(kept)
}

/// What a linker was given, if it is PTX or may hold it. No bytes: they are not known.
fn input(kind: CUjitInputType, bytes: &[u8]) -> Option<Input> {
    match kind {
        CUjitInputType::CU_JIT_INPUT_PTX | CUjitInputType::CU_JIT_INPUT_FATBINARY
            if !bytes.is_empty() =>
        {
            match *image::parts_of_file(bytes) {
                [ModulePart::Ptx(text)] => Some(Input::Ptx(text.into())),
                [ModulePart::Fatbin(bytes)] => Some(Input::Fatbin(bytes.to_vec())),
                _ => None,
            }
        }
        _ => None,
    }
}

hook!([cuLinkCreate, cuLinkCreate_v2](
    count: u32,
    names: *mut CUjit_option,
    values: *mut *mut c_void,
    linker: *mut CUlinkState,
) |create| {
    // SAFETY: the program's options, before the device writes to them.
    let options = unsafe { numbers(Options { count, names, values }) };
    // SAFETY: the program's arguments.
    let result = unsafe { create(count, names, values, linker) };
    if result == CUresult::CUDA_SUCCESS
        && let Some(links) = links()
    {
        // SAFETY: written by the successful call.
        links.begin(unsafe { *linker }.0, options);
    }
    result
});

hook!([cuLinkAddData, cuLinkAddData_v2](
    linker: CUlinkState,
    kind: CUjitInputType,
    data: *mut c_void,
    size: usize,
    name: *const c_char,
    count: u32,
    names: *mut CUjit_option,
    values: *mut *mut c_void,
) |add| {
    // SAFETY: the program's arguments.
    let result = unsafe { add(linker, kind, data, size, name, count, names, values) };
    if result == CUresult::CUDA_SUCCESS
        && let Some(links) = links()
    {
        let bytes = match data.is_null() {
            true => &[],
            // SAFETY: the device has read them, too.
            false => unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) },
        };
        links.add(linker.0, input(kind, bytes));
    }
    result
});

hook!([cuLinkAddFile, cuLinkAddFile_v2](
    linker: CUlinkState,
    kind: CUjitInputType,
    path: *const c_char,
    count: u32,
    names: *mut CUjit_option,
    values: *mut *mut c_void,
) |add| {
    // SAFETY: the program's arguments.
    let result = unsafe { add(linker, kind, path, count, names, values) };
    if result == CUresult::CUDA_SUCCESS
        && let Some(links) = links()
    {
        // SAFETY: the device has read the name, too.
        links.add(linker.0, input(kind, &unsafe { image::read_file(path) }));
    }
    result
});

hook!(cuLinkComplete(linker: CUlinkState, image: *mut *mut c_void, size: *mut usize) |complete| {
    let mut bytes = 0;
    let size = if size.is_null() { &raw mut bytes } else { size };
    // SAFETY: the program's arguments; it need not ask for the size.
    let result = unsafe { complete(linker, image, size) };
    if result == CUresult::CUDA_SUCCESS
        && let Some(links) = links()
    {
        // SAFETY: written by the successful call: so many bytes, which the linker owns.
        unsafe {
            if !image.is_null() && !(*image).is_null() {
                links.complete(linker.0, std::slice::from_raw_parts((*image).cast::<u8>(), *size));
            }
        }
    }
    result
});

hook!(cuLinkDestroy(linker: CUlinkState) |destroy| {
    if let Some(links) = links() {
        links.end(linker.0);
    }
    // SAFETY: the program's arguments.
    unsafe { destroy(linker) }
});
