//! Modules.

use crate::convert::{functions, name, put, put_if};
use crate::image;
use crate::image::ErrorLog;
use crate::session::say;
use driver::image::parts_of_file;
use driver::sys::*;
use std::ffi::{c_char, c_void};

/// PTX texts of a file.
pub fn read_file(path: &str) -> Result<Vec<String>, CUresult> {
    let bytes = std::fs::read(path).map_err(|error| {
        say(&format!("{path}: {error}"));
        CUresult::CUDA_ERROR_FILE_NOT_FOUND
    })?;
    image::texts_of(&parts_of_file(&bytes))
}

functions! { gpu;
    fn cuModuleLoad(module: *mut CUmodule, path: *const c_char) {
        put(module, CUmodule(image::load(gpu, &read_file(name(path)?)?, ErrorLog::NONE)?))
    }
    fn cuModuleLoadData(module: *mut CUmodule, data: *const c_void) {
        put(module, CUmodule(image::load(gpu, &image::texts(data)?, ErrorLog::NONE)?))
    }
    fn cuModuleLoadDataEx(module: *mut CUmodule, data: *const c_void, count: u32, options: *mut CUjit_option, values: *mut *mut c_void) {
        let log = ErrorLog::of(count, options, values);
        put(module, CUmodule(image::load(gpu, &image::texts(data)?, log)?))
    }
    fn cuModuleLoadFatBinary(module: *mut CUmodule, data: *const c_void) {
        put(module, CUmodule(image::load(gpu, &image::texts(data)?, ErrorLog::NONE)?))
    }
    fn cuModuleUnload(module: CUmodule) {
        gpu.module_unload(module.0)
    }
    fn cuModuleGetLoadingMode(mode: *mut CUmoduleLoadingMode) {
        put(mode, CUmoduleLoadingMode::CU_MODULE_EAGER_LOADING)
    }
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, text: *const c_char) {
        put(function, CUfunction(gpu.function(module.0, name(text)?)?))
    }
    fn cuModuleGetFunctionCount(count: *mut u32, module: CUmodule) {
        put(count, gpu.function_names(module.0)?.len() as u32)
    }
    fn cuModuleEnumerateFunctions(functions: *mut CUfunction, count: u32, module: CUmodule) {
        for (index, name) in gpu.function_names(module.0)?.iter().take(count as usize).enumerate() {
            put(functions.add(index), CUfunction(gpu.function(module.0, name)?))?;
        }
        Ok(())
    }
    fn cuModuleGetGlobal_v2(address: *mut CUdeviceptr, bytes: *mut usize, module: CUmodule, text: *const c_char) {
        let extent = gpu.variable(module.0, name(text)?)?;
        put_if(address, extent.base.0);
        put_if(bytes, extent.size as usize);
        Ok(())
    }
}
