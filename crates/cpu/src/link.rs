//! The linker: collects PTX; the linking itself happens at load.

use crate::convert::{functions, name, put, put_if};
use crate::image;
use crate::session::say;
use driver::image::parts_of_file;
use driver::linked;
use driver::sys::*;
use emulate::device::Device;
use std::ffi::{c_char, c_void};

fn add(
    gpu: &Device,
    state: CUlinkState,
    kind: CUjitInputType,
    bytes: &[u8],
) -> Result<(), CUresult> {
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
    gpu.linker_add(state.0, texts)
}

fn add_file(
    gpu: &Device,
    state: CUlinkState,
    kind: CUjitInputType,
    path: &str,
) -> Result<(), CUresult> {
    let bytes = std::fs::read(path).map_err(|error| {
        say(&format!("{path}: {error}"));
        CUresult::CUDA_ERROR_FILE_NOT_FOUND
    })?;
    add(gpu, state, kind, &bytes)
}

functions! { gpu;
    fn cuLinkCreate(_count: u32, _options: *mut CUjit_option, _values: *mut *mut c_void, state: *mut CUlinkState) {
        put(state, CUlinkState(gpu.linker_create()))
    }
    fn cuLinkCreate_v2(_count: u32, _options: *mut CUjit_option, _values: *mut *mut c_void, state: *mut CUlinkState) {
        put(state, CUlinkState(gpu.linker_create()))
    }
    fn cuLinkAddData(
        state: CUlinkState, kind: CUjitInputType, data: *mut c_void, size: usize, _name: *const c_char, _count: u32,
        _options: *mut CUjit_option, _values: *mut *mut c_void,
    ) {
        add(gpu, state, kind, crate::convert::list(data.cast::<u8>(), size))
    }
    fn cuLinkAddData_v2(
        state: CUlinkState, kind: CUjitInputType, data: *mut c_void, size: usize, _name: *const c_char, _count: u32,
        _options: *mut CUjit_option, _values: *mut *mut c_void,
    ) {
        add(gpu, state, kind, crate::convert::list(data.cast::<u8>(), size))
    }
    fn cuLinkAddFile(
        state: CUlinkState, kind: CUjitInputType, path: *const c_char, _count: u32, _options: *mut CUjit_option,
        _values: *mut *mut c_void,
    ) {
        add_file(gpu, state, kind, name(path)?)
    }
    fn cuLinkAddFile_v2(
        state: CUlinkState, kind: CUjitInputType, path: *const c_char, _count: u32, _options: *mut CUjit_option,
        _values: *mut *mut c_void,
    ) {
        add_file(gpu, state, kind, name(path)?)
    }
    fn cuLinkComplete(state: CUlinkState, cubin: *mut *mut c_void, size: *mut usize) {
        let made = linked::pack(&gpu.linker_texts(state.0)?);
        let (image, bytes) = gpu.lent().image(state.0, made);
        put_if(size, bytes);
        put(cubin, image)
    }
    fn cuLinkDestroy(state: CUlinkState) {
        gpu.linker_destroy(state.0)?;
        gpu.lent().end_image(state.0);
        Ok(())
    }
}
