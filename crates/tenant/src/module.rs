//! Modules and libraries, which are the same here, and kernels and functions,
//! which are, too: same handles.

use crate::convert::{functions, name, only, put, put_if};
use crate::link::Link;
use crate::printed;
use crate::state::{Kernel, Module, enter};
use driver::image::{parts, parts_of_file};
use driver::sys::*;
use fatbin::ModulePart;
use parking_lot::Mutex;
use protocol::{MAX_PAYLOAD, Reply, Request};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};
use std::sync::Arc;

/// The code that the manager is sent.
fn code<'c>(link: &Link, parts: &[ModulePart<'c>]) -> Result<&'c [u8], CUresult> {
    match parts {
        [] => Err(CUresult::CUDA_ERROR_INVALID_IMAGE),
        [ModulePart::Fatbin(bytes) | ModulePart::Elf(bytes)] => Ok(bytes),
        [ModulePart::Ptx(text)] => Ok(text.as_bytes()),
        _ => {
            link.say("code that is compiled with -rdc=true cannot be loaded for a tenant; the call fails with CUDA_ERROR_NOT_SUPPORTED");
            Err(CUresult::CUDA_ERROR_NOT_SUPPORTED)
        }
    }
}

/// Has the manager load code.
fn send(link: &Link, code: &[u8]) -> Result<protocol::Loaded, CUresult> {
    // Other threads may load at the same time: one module after the other.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    for chunk in code.chunks(MAX_PAYLOAD) {
        match link.ask(&Request::Upload, chunk, |_| {})? {
            Reply::Done => {}
            _ => return Err(link.astray()),
        }
    }
    match link.wait(&Request::Load)? {
        Reply::Loaded(loaded) => Ok(loaded),
        _ => Err(link.astray()),
    }
}

/// Loads code as a module or a library. The handle.
fn load(link: &Link, parts: &[ModulePart<'_>], is_library: bool) -> Result<u64, CUresult> {
    let code = code(link, parts)?;
    let loaded = send(link, code)?;
    let handle = link.state.handle();
    let code = is_library.then(|| Arc::from(code));
    enroll(link, handle, loaded, code, &BTreeMap::new());
    Ok(handle)
}

/// Enters what was loaded under a handle; kernels get those that `known` has for
/// their names.
fn enroll(
    link: &Link,
    handle: u64,
    loaded: protocol::Loaded,
    code: Option<Arc<[u8]>>,
    known: &BTreeMap<String, u64>,
) {
    let mut by_name = BTreeMap::new();
    for kernel in loaded.kernels {
        let own = known.get(&kernel.name).copied();
        let own = own.unwrap_or_else(|| link.state.handle());
        by_name.insert(kernel.name.clone(), own);
        let kernel = Kernel {
            number: kernel.kernel,
            name: CString::new(kernel.name).unwrap_or_default(),
            module: handle,
            parameters: kernel.parameters,
            parameter_bytes: kernel.parameter_bytes,
            prints: loaded.prints,
            launched: Mutex::default(),
            attributes: Mutex::new(kernel.attributes),
        };
        link.state.kernels.lock().insert(own, Arc::new(kernel));
    }
    let module = Module {
        number: loaded.module,
        kernels: by_name,
        variables: loaded.variables,
        code,
    };
    link.state.modules.lock().insert(handle, Arc::new(module));
}

/// Loads libraries again, after a reset: their handles, and those of their
/// kernels, stay what they were, as natively.
pub(crate) fn load_again(link: &Link) -> Result<(), CUresult> {
    let all: Vec<(u64, Arc<Module>)> = {
        let modules = link.state.modules.lock();
        modules.iter().map(|(h, m)| (*h, Arc::clone(m))).collect()
    };
    for (handle, module) in all {
        if let Some(code) = &module.code {
            let loaded = send(link, code)?;
            let code = Some(Arc::clone(code));
            enroll(link, handle, loaded, code, &module.kernels);
        }
    }
    Ok(())
}

/// # Safety
/// `image` is what cuModuleLoadData takes.
unsafe fn load_image(link: &Link, image: *const c_void, is_library: bool) -> Result<u64, CUresult> {
    if image.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let say = &mut |error: &fatbin::Error| {
        link.say(&format!("a fat binary cannot be read: {error}"));
    };
    // SAFETY: this function's promise.
    load(link, &unsafe { parts(image, say) }, is_library)
}

fn load_file(link: &Link, path: &str, is_library: bool) -> Result<u64, CUresult> {
    let bytes = std::fs::read(path).map_err(|error| {
        link.say(&format!("{path}: {error}"));
        CUresult::CUDA_ERROR_FILE_NOT_FOUND
    })?;
    load(link, &parts_of_file(&bytes), is_library)
}

fn unload(link: &Link, handle: u64) -> Result<(), CUresult> {
    let module = link.state.module(handle)?;
    if crate::link::is_ending() {
        // A kernel that does not end would be waited for.
        return Ok(());
    }
    link.state.order.wait_all(link)?;
    let unloaded = link.done(&Request::Unload {
        module: module.number,
    });
    printed::behind(link, unloaded)?;
    link.state.modules.lock().remove(&handle);
    let mut kernels = link.state.kernels.lock();
    for kernel in module.kernels.values() {
        kernels.remove(kernel);
    }
    Ok(())
}

fn kernel(link: &Link, module: u64, name: &str) -> Result<u64, CUresult> {
    let module = link.state.module(module)?;
    let found = module.kernels.get(name).copied();
    found.ok_or(CUresult::CUDA_ERROR_NOT_FOUND)
}

fn variable(link: &Link, module: u64, name: &str) -> Result<(u64, u64), CUresult> {
    let module = link.state.module(module)?;
    let mut all = module.variables.iter();
    let found = all.find(|variable| variable.name == name);
    let found = found.map(|variable| (variable.address, variable.size));
    found.ok_or(CUresult::CUDA_ERROR_NOT_FOUND)
}

fn handles(link: &Link, module: u64) -> Result<Vec<u64>, CUresult> {
    Ok(link
        .state
        .module(module)?
        .kernels
        .values()
        .copied()
        .collect())
}

functions! { link;
    fn cuModuleLoad(module: *mut CUmodule, path: *const c_char) {
        enter(link)?;
        put(module, CUmodule(load_file(link, name(path)?, false)?))
    }
    fn cuModuleLoadData(module: *mut CUmodule, data: *const c_void) {
        enter(link)?;
        put(module, CUmodule(load_image(link, data, false)?))
    }
    fn cuModuleLoadDataEx(module: *mut CUmodule, data: *const c_void, _count: u32, _options: *mut CUjit_option, _values: *mut *mut c_void) {
        enter(link)?;
        put(module, CUmodule(load_image(link, data, false)?))
    }
    fn cuModuleLoadFatBinary(module: *mut CUmodule, data: *const c_void) {
        enter(link)?;
        put(module, CUmodule(load_image(link, data, false)?))
    }
    fn cuModuleUnload(module: CUmodule) {
        unload(link, module.0)
    }
    fn cuModuleGetLoadingMode(mode: *mut CUmoduleLoadingMode) {
        put(mode, CUmoduleLoadingMode::CU_MODULE_EAGER_LOADING)
    }
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, text: *const c_char) {
        put(function, CUfunction(kernel(link, module.0, name(text)?)?))
    }
    fn cuModuleGetFunctionCount(count: *mut u32, module: CUmodule) {
        put(count, handles(link, module.0)?.len() as u32)
    }
    fn cuModuleEnumerateFunctions(functions: *mut CUfunction, count: u32, module: CUmodule) {
        for (index, kernel) in handles(link, module.0)?.into_iter().take(count as usize).enumerate() {
            put(functions.add(index), CUfunction(kernel))?;
        }
        Ok(())
    }
    fn cuModuleGetGlobal_v2(address: *mut CUdeviceptr, bytes: *mut usize, module: CUmodule, text: *const c_char) {
        let (at, size) = variable(link, module.0, name(text)?)?;
        put_if(address, at);
        put_if(bytes, size as usize);
        Ok(())
    }
    fn cuLibraryLoadData(
        library: *mut CUlibrary, code: *const c_void, _jit: *mut CUjit_option, _jit_values: *mut *mut c_void, _jit_count: u32,
        _options: *mut CUlibraryOption, _values: *mut *mut c_void, _count: u32,
    ) {
        put(library, CUlibrary(load_image(link, code, true)?))
    }
    fn cuLibraryLoadFromFile(
        library: *mut CUlibrary, path: *const c_char, _jit: *mut CUjit_option, _jit_values: *mut *mut c_void, _jit_count: u32,
        _options: *mut CUlibraryOption, _values: *mut *mut c_void, _count: u32,
    ) {
        put(library, CUlibrary(load_file(link, name(path)?, true)?))
    }
    fn cuLibraryUnload(library: CUlibrary) {
        unload(link, library.0)
    }
    fn cuLibraryGetKernel(to: *mut CUkernel, library: CUlibrary, text: *const c_char) {
        put(to, CUkernel(kernel(link, library.0, name(text)?)?))
    }
    fn cuLibraryGetKernelCount(count: *mut u32, library: CUlibrary) {
        put(count, handles(link, library.0)?.len() as u32)
    }
    fn cuLibraryEnumerateKernels(kernels: *mut CUkernel, count: u32, library: CUlibrary) {
        for (index, kernel) in handles(link, library.0)?.into_iter().take(count as usize).enumerate() {
            put(kernels.add(index), CUkernel(kernel))?;
        }
        Ok(())
    }
    fn cuLibraryGetModule(to: *mut CUmodule, library: CUlibrary) {
        link.state.module(library.0)?;
        put(to, CUmodule(library.0))
    }
    fn cuLibraryGetGlobal(address: *mut CUdeviceptr, bytes: *mut usize, library: CUlibrary, text: *const c_char) {
        let (at, size) = variable(link, library.0, name(text)?)?;
        put_if(address, at);
        put_if(bytes, size as usize);
        Ok(())
    }
    fn cuKernelGetFunction(function: *mut CUfunction, kernel: CUkernel) {
        link.state.kernel(kernel.0)?;
        put(function, CUfunction(kernel.0))
    }
    fn cuKernelGetLibrary(library: *mut CUlibrary, kernel: CUkernel) {
        put(library, CUlibrary(link.state.kernel(kernel.0)?.module))
    }
    fn cuFuncGetModule(module: *mut CUmodule, function: CUfunction) {
        put(module, CUmodule(link.state.kernel(function.0)?.module))
    }
    fn cuKernelGetName(text: *mut *const c_char, kernel: CUkernel) {
        // The kernel keeps its name while it is loaded.
        put(text, link.state.kernel(kernel.0)?.name.as_ptr())
    }
    fn cuFuncGetName(text: *mut *const c_char, function: CUfunction) {
        put(text, link.state.kernel(function.0)?.name.as_ptr())
    }
    fn cuKernelSetCacheConfig(kernel: CUkernel, _config: CUfunc_cache, device: CUdevice) {
        only(device)?;
        // A preference, which the driver may ignore.
        link.state.kernel(kernel.0).map(drop)
    }
    fn cuFuncSetCacheConfig(function: CUfunction, _config: CUfunc_cache) {
        link.state.kernel(function.0).map(drop)
    }
}
