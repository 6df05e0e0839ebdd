//! The linker: collects PTX; the linking itself happens at load.

use super::{functions, image, name, put, put_if};
use crate::failure::say;
use crate::hooks::image::parts_of_file;
use driver::sys::*;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

/// One cuLinkCreate.
#[derive(Default)]
struct Linker {
    texts: Vec<String>,
    /// What cuLinkComplete gave out; the program reads it until it destroys
    /// the linker.
    image: Vec<u8>,
}

static LINKERS: Mutex<BTreeMap<u64, Linker>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(0x5247_0000_0000);

fn create() -> CUlinkState {
    let handle = NEXT.fetch_add(64, Ordering::Relaxed);
    LINKERS.lock().insert(handle, Linker::default());
    CUlinkState(handle)
}

fn add(state: CUlinkState, kind: CUjitInputType, bytes: &[u8]) -> Result<(), CUresult> {
    let texts = match kind {
        CUjitInputType::CU_JIT_INPUT_PTX | CUjitInputType::CU_JIT_INPUT_FATBINARY => {
            image::texts_of(&parts_of_file(bytes))?
        }
        // The device runtime is part of the device.
        CUjitInputType::CU_JIT_INPUT_LIBRARY => Vec::new(),
        _ => {
            say(
                "the CPU device links PTX only; compile with -gencode arch=compute_XX,code=compute_XX",
            );
            return Err(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
        }
    };
    let mut linkers = LINKERS.lock();
    let linker = linkers
        .get_mut(&state.0)
        .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
    linker.texts.extend(texts);
    Ok(())
}

fn add_file(state: CUlinkState, kind: CUjitInputType, path: &str) -> Result<(), CUresult> {
    let bytes = std::fs::read(path).map_err(|error| {
        say(&format!("{path}: {error}"));
        CUresult::CUDA_ERROR_FILE_NOT_FOUND
    })?;
    add(state, kind, &bytes)
}

functions! { _gpu;
    fn cuLinkCreate(_count: u32, _options: *mut CUjit_option, _values: *mut *mut c_void, state: *mut CUlinkState) {
        put(state, create())
    }
    fn cuLinkCreate_v2(_count: u32, _options: *mut CUjit_option, _values: *mut *mut c_void, state: *mut CUlinkState) {
        put(state, create())
    }
    fn cuLinkAddData(
        state: CUlinkState, kind: CUjitInputType, data: *mut c_void, size: usize, _name: *const c_char, _count: u32,
        _options: *mut CUjit_option, _values: *mut *mut c_void,
    ) {
        add(state, kind, super::list(data.cast::<u8>(), size))
    }
    fn cuLinkAddData_v2(
        state: CUlinkState, kind: CUjitInputType, data: *mut c_void, size: usize, _name: *const c_char, _count: u32,
        _options: *mut CUjit_option, _values: *mut *mut c_void,
    ) {
        add(state, kind, super::list(data.cast::<u8>(), size))
    }
    fn cuLinkAddFile(
        state: CUlinkState, kind: CUjitInputType, path: *const c_char, _count: u32, _options: *mut CUjit_option,
        _values: *mut *mut c_void,
    ) {
        add_file(state, kind, name(path)?)
    }
    fn cuLinkAddFile_v2(
        state: CUlinkState, kind: CUjitInputType, path: *const c_char, _count: u32, _options: *mut CUjit_option,
        _values: *mut *mut c_void,
    ) {
        add_file(state, kind, name(path)?)
    }
    fn cuLinkComplete(state: CUlinkState, cubin: *mut *mut c_void, size: *mut usize) {
        let mut linkers = LINKERS.lock();
        let linker = linkers.get_mut(&state.0).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        linker.image = image::pack(&linker.texts);
        put_if(size, linker.image.len());
        put(cubin, linker.image.as_mut_ptr().cast())
    }
    fn cuLinkDestroy(state: CUlinkState) {
        LINKERS.lock().remove(&state.0).map(drop).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }
}
