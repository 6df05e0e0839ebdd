//! Libraries and kernels. On this device, which has one context's worth of
//! everything, a library is a module and a kernel a function: same handles.

use crate::convert::{functions, name, only, put, put_if};
use crate::image::ErrorLog;
use crate::{image, module};
use driver::sys::*;
use std::ffi::{c_char, c_void};

functions! { gpu;
    fn cuLibraryLoadData(
        library: *mut CUlibrary, code: *const c_void, jit: *mut CUjit_option, jit_values: *mut *mut c_void, jit_count: u32,
        _options: *mut CUlibraryOption, _values: *mut *mut c_void, _count: u32,
    ) {
        let log = ErrorLog::of(jit_count, jit, jit_values);
        put(library, CUlibrary(image::load_library(gpu, &image::texts(code)?, log)?))
    }
    fn cuLibraryLoadFromFile(
        library: *mut CUlibrary, path: *const c_char, jit: *mut CUjit_option, jit_values: *mut *mut c_void, jit_count: u32,
        _options: *mut CUlibraryOption, _values: *mut *mut c_void, _count: u32,
    ) {
        let log = ErrorLog::of(jit_count, jit, jit_values);
        put(library, CUlibrary(image::load_library(gpu, &module::read_file(name(path)?)?, log)?))
    }
    fn cuLibraryUnload(library: CUlibrary) {
        gpu.module_unload(library.0)
    }
    fn cuLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, text: *const c_char) {
        put(kernel, CUkernel(gpu.function(library.0, name(text)?)?))
    }
    fn cuLibraryGetKernelCount(count: *mut u32, library: CUlibrary) {
        put(count, gpu.function_names(library.0)?.len() as u32)
    }
    fn cuLibraryEnumerateKernels(kernels: *mut CUkernel, count: u32, library: CUlibrary) {
        for (index, name) in gpu.function_names(library.0)?.iter().take(count as usize).enumerate() {
            put(kernels.add(index), CUkernel(gpu.function(library.0, name)?))?;
        }
        Ok(())
    }
    fn cuLibraryGetModule(to: *mut CUmodule, library: CUlibrary) {
        if !gpu.module_exists(library.0) {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        put(to, CUmodule(library.0))
    }
    fn cuKernelGetFunction(function: *mut CUfunction, kernel: CUkernel) {
        gpu.function_info(kernel.0)?;
        put(function, CUfunction(kernel.0))
    }
    fn cuKernelGetLibrary(library: *mut CUlibrary, kernel: CUkernel) {
        put(library, CUlibrary(gpu.function_info(kernel.0)?.module))
    }
    fn cuLibraryGetGlobal(address: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, text: *const c_char) {
        let extent = gpu.variable(library.0, name(text)?)?;
        put_if(address, extent.base.0);
        put_if(bytes, extent.size as usize);
        Ok(())
    }
    fn cuLibraryGetManaged(address: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, text: *const c_char) {
        // All memory is the host's too: a managed variable is a variable.
        let extent = gpu.variable(library.0, name(text)?)?;
        put_if(address, extent.base.0);
        put_if(bytes, extent.size as usize);
        Ok(())
    }
    fn cuKernelGetAttribute(value: *mut i32, attribute: CUfunction_attribute, kernel: CUkernel, device: CUdevice) {
        only(device)?;
        put(value, gpu.function_attribute(kernel.0, attribute)?)
    }
    fn cuKernelSetAttribute(attribute: CUfunction_attribute, value: i32, kernel: CUkernel, device: CUdevice) {
        only(device)?;
        gpu.function_set_attribute(kernel.0, attribute, value)
    }
    fn cuKernelSetCacheConfig(kernel: CUkernel, _config: CUfunc_cache, device: CUdevice) {
        only(device)?;
        gpu.function_info(kernel.0).map(drop)
    }
    fn cuKernelGetName(text: *mut *const c_char, kernel: CUkernel) {
        put(text, gpu.lent().text(&gpu.function_info(kernel.0)?.name))
    }
    fn cuKernelGetParamInfo(kernel: CUkernel, index: usize, offset: *mut usize, size: *mut usize) {
        let info = gpu.function_info(kernel.0)?;
        let (at, bytes) = *info.parameters.get(index).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        put_if(size, bytes as usize);
        put(offset, at as usize)
    }
}
