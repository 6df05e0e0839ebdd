//! Modules and libraries: hand the device instrumented code where there is
//! PTX, and find the instrumented copy of every kernel the program looks up.

use super::capture;
use super::define::{hook, hooks};
use super::memory::with_room;
use super::replace::{Decision, Options, decide, diagnose};
use crate::image;
use crate::queries;
use crate::session::{self, next};
use crate::state::{Linked, Loaded};
use crate::timing;
use driver::sys::{
    CUdeviceptr, CUfunction, CUjit_option, CUkernel, CUlibrary, CUlibraryOption, CUmodule, CUresult,
};
use model::layout::RESIDUAL_PREFIX;
use model::{DeviceAddress, Extent};
use runtime::{KernelCopies, ModulePart, ModulePlan, Resolved, Runtime};
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

hooks!(
    cuLibraryGetGlobal,
    cuLibraryGetKernel,
    cuLibraryGetManaged,
    cuLibraryGetModule,
    cuLibraryLoadData,
    cuLibraryLoadFromFile,
    cuLibraryUnload,
    cuKernelGetFunction,
    cuModuleGetFunction,
    cuModuleGetGlobal_v2,
    cuModuleLoad,
    cuModuleLoadData,
    cuModuleLoadDataEx,
    cuModuleLoadFatBinary,
    cuModuleUnload,
);

fn remember(runtime: &Runtime, handle: u64, plan: Arc<ModulePlan>, instrumented: bool) {
    runtime.modules().loaded(handle, Arc::clone(&plan));
    if let Some(session) = session::get() {
        let variables = Arc::default();
        session.modules.add(
            handle,
            Loaded {
                plan,
                instrumented,
                variables,
            },
        );
    }
}

/// What is remembered of a module.
fn known(handle: u64) -> Option<Loaded> {
    session::get()?.modules.get(handle)
}

/// What the program has linked an image from, if it has.
fn linked(parts: &[ModulePart<'_>]) -> Option<Arc<Linked>> {
    match parts {
        [ModulePart::Elf(image)] => session::get()?.links.of(image),
        _ => None,
    }
}

/// Loads an image as a module: the replacement if there is one and the device
/// takes it, else as the program does.
///
/// # Safety
/// `module` and `options` are the program's.
unsafe fn load_module(
    module: *mut CUmodule,
    parts: &[ModulePart<'_>],
    options: Options,
    original: impl Fn() -> CUresult,
) -> CUresult {
    let (Some(runtime), Some(load)) = (
        session::runtime(),
        next().and_then(|api| api.cuModuleLoadDataEx),
    ) else {
        return original();
    };
    let linked = linked(parts);
    // SAFETY: the program's options.
    let plan = match unsafe { decide(runtime, parts, linked.as_deref(), options) } {
        Decision::Replace(replacement) if !module.is_null() => {
            let image = replacement.image.as_ptr().cast();
            // SAFETY: the image is complete, the rest is the program's.
            let result = with_room(|| unsafe {
                load(module, image, options.count, options.names, options.values)
            });
            if result == CUresult::CUDA_SUCCESS {
                // SAFETY: written by the successful call.
                let handle = unsafe { *module }.0;
                remember(runtime, handle, replacement.plan, replacement.instrumented);
                return result;
            }
            // SAFETY: as above.
            let message = unsafe { diagnose(result, &replacement.image, options) };
            runtime.modules().rejected(&replacement.plan, &message);
            Some(replacement.plan)
        }
        Decision::Replace(replacement) => Some(replacement.plan),
        Decision::Keep(plan) => plan,
    };
    let result = with_room(original);
    if result == CUresult::CUDA_SUCCESS
        && let Some(plan) = plan
    {
        // SAFETY: written by the successful call.
        remember(runtime, unsafe { *module }.0, plan, false);
    }
    result
}

/// As [`load_module`], for libraries.
///
/// # Safety
/// All pointers are the program's.
unsafe fn load_library(
    library: *mut CUlibrary,
    parts: &[ModulePart<'_>],
    options: Options,
    library_options: LibraryOptions,
    original: impl Fn() -> CUresult,
) -> CUresult {
    let (Some(runtime), Some(load)) = (
        session::runtime(),
        next().and_then(|api| api.cuLibraryLoadData),
    ) else {
        return original();
    };
    let linked = linked(parts);
    // SAFETY: the program's options.
    let plan = match unsafe { decide(runtime, parts, linked.as_deref(), options) } {
        Decision::Replace(replacement) if !library.is_null() => {
            // SAFETY: the program's library options.
            let (mut names, mut values) = unsafe { library_options.without_preserved() };
            let (count, names, values) =
                (names.len() as u32, names.as_mut_ptr(), values.as_mut_ptr());
            // SAFETY: the image is complete, and the device copies it, because
            // the option that it need not is taken out. The library was written
            // by a successful call.
            let result = with_room(|| unsafe {
                let loaded = load(
                    library,
                    replacement.image.as_ptr().cast(),
                    options.names,
                    options.values,
                    options.count,
                    names,
                    values,
                    count,
                );
                match loaded {
                    CUresult::CUDA_SUCCESS => compiled(*library),
                    failed => failed,
                }
            });
            if result == CUresult::CUDA_SUCCESS {
                // SAFETY: written by the successful call.
                remember(
                    runtime,
                    unsafe { *library }.0,
                    replacement.plan,
                    replacement.instrumented,
                );
                return result;
            }
            // SAFETY: the image is complete, the options are the program's.
            let message = unsafe { diagnose(result, &replacement.image, options) };
            runtime.modules().rejected(&replacement.plan, &message);
            Some(replacement.plan)
        }
        Decision::Replace(replacement) => Some(replacement.plan),
        Decision::Keep(plan) => plan,
    };
    let result = with_room(original);
    if result == CUresult::CUDA_SUCCESS
        && let Some(plan) = plan
    {
        // SAFETY: written by the successful call.
        remember(runtime, unsafe { *library }.0, plan, false);
    }
    result
}

/// Libraries may be compiled at first use. An error in instrumented code must
/// show here, where the original can still take its place; without a current
/// context the device cannot compile, and the library passes.
///
/// # Safety
/// `library` was loaded just now.
unsafe fn compiled(library: CUlibrary) -> CUresult {
    let Some(api) = next() else {
        return CUresult::CUDA_SUCCESS;
    };
    let (Some(get), Some(unload)) = (api.cuLibraryGetModule, api.cuLibraryUnload) else {
        return CUresult::CUDA_SUCCESS;
    };
    if queries::current_context() == 0 {
        return CUresult::CUDA_SUCCESS;
    }
    let mut module = CUmodule::NULL;
    // SAFETY: a loaded library, and a valid place for the answer.
    let result = capture::relaxed(|| unsafe { get(&mut module, library) });
    if result != CUresult::CUDA_SUCCESS {
        // SAFETY: loaded, and its handle goes no further.
        let _ = unsafe { unload(library) };
    }
    result
}

#[derive(Clone, Copy)]
struct LibraryOptions {
    count: u32,
    names: *mut CUlibraryOption,
    values: *mut *mut c_void,
}

impl LibraryOptions {
    /// The options but for the promise that the image stays where it is.
    ///
    /// # Safety
    /// The arrays are null or have `count` elements.
    unsafe fn without_preserved(self) -> (Vec<CUlibraryOption>, Vec<*mut c_void>) {
        if self.count == 0 || self.names.is_null() {
            return Default::default();
        }
        let count = self.count as usize;
        // SAFETY: the caller's word.
        let names = unsafe { std::slice::from_raw_parts(self.names, count) };
        let value = |position: usize| {
            if self.values.is_null() {
                std::ptr::null_mut()
            } else {
                // SAFETY: the caller's word.
                unsafe { *self.values.add(position) }
            }
        };
        let kept = names.iter().enumerate();
        kept.filter(|(_, name)| **name != CUlibraryOption::CU_LIBRARY_BINARY_IS_PRESERVED)
            .map(|(position, name)| (*name, value(position)))
            .unzip()
    }
}

hook!(cuModuleLoad(module: *mut CUmodule, name: *const c_char) |load| {
    // SAFETY: the program's arguments.
    unsafe {
        let bytes = image::read_file(name);
        load_module(module, &image::parts_of_file(&bytes), Options::NONE, || load(module, name))
    }
});

hook!(cuModuleLoadData(module: *mut CUmodule, data: *const c_void) |load| {
    // SAFETY: the program's arguments.
    unsafe { load_module(module, &image::parts(data), Options::NONE, || load(module, data)) }
});

hook!(cuModuleLoadFatBinary(module: *mut CUmodule, data: *const c_void) |load| {
    // SAFETY: the program's arguments.
    unsafe { load_module(module, &image::parts(data), Options::NONE, || load(module, data)) }
});

hook!(cuModuleLoadDataEx(
    module: *mut CUmodule,
    data: *const c_void,
    count: u32,
    names: *mut CUjit_option,
    values: *mut *mut c_void,
) |load| {
    let options = Options { count, names, values };
    // SAFETY: the program's arguments.
    unsafe { load_module(module, &image::parts(data), options, || load(module, data, count, names, values)) }
});

hook!(cuLibraryLoadData(
    library: *mut CUlibrary,
    data: *const c_void,
    names: *mut CUjit_option,
    values: *mut *mut c_void,
    count: u32,
    library_names: *mut CUlibraryOption,
    library_values: *mut *mut c_void,
    library_count: u32,
) |load| {
    let options = Options { count, names, values };
    let library_options = LibraryOptions { count: library_count, names: library_names, values: library_values };
    // SAFETY: the program's arguments.
    unsafe {
        load_library(library, &image::parts(data), options, library_options, || {
            load(library, data, names, values, count, library_names, library_values, library_count)
        })
    }
});

hook!(cuLibraryLoadFromFile(
    library: *mut CUlibrary,
    name: *const c_char,
    names: *mut CUjit_option,
    values: *mut *mut c_void,
    count: u32,
    library_names: *mut CUlibraryOption,
    library_values: *mut *mut c_void,
    library_count: u32,
) |load| {
    let options = Options { count, names, values };
    let library_options = LibraryOptions { count: library_count, names: library_names, values: library_values };
    // SAFETY: the program's arguments.
    unsafe {
        let bytes = image::read_file(name);
        load_library(library, &image::parts_of_file(&bytes), options, library_options, || {
            load(library, name, names, values, count, library_names, library_values, library_count)
        })
    }
});

/// Drains what kernels of the module recorded, then forgets it and its
/// variables.
fn unloading(handle: u64) {
    let Some(runtime) = session::runtime() else {
        return;
    };
    runtime.synchronized();
    if let Some(known) = known(handle) {
        let mut bases = std::mem::take(&mut *known.variables.bases.lock());
        bases.sort_unstable();
        bases.dedup();
        for base in bases {
            runtime.allocations().freeing(DeviceAddress(base));
        }
    }
    runtime.modules().unloading(handle);
    if let Some(session) = session::get() {
        session.modules.remove(handle);
    }
    timing::forget_kernels();
}

hook!(cuModuleUnload(module: CUmodule) |unload| {
    unloading(module.0);
    // SAFETY: the program's arguments.
    unsafe { unload(module) }
});

hook!(cuLibraryUnload(library: CUlibrary) |unload| {
    unloading(library.0);
    // SAFETY: the program's arguments.
    unsafe { unload(library) }
});

hook!(cuLibraryGetModule(module: *mut CUmodule, library: CUlibrary) |get| {
    // SAFETY: the program's arguments.
    let result = unsafe { get(module, library) };
    if result == CUresult::CUDA_SUCCESS
        && let Some(runtime) = session::runtime()
        && let Some(library) = known(library.0)
    {
        // SAFETY: written by the successful call.
        let handle = unsafe { *module }.0;
        if known(handle).is_none() {
            remember(runtime, handle, library.plan, library.instrumented);
        }
    }
    result
});

/// Finds the module's variables, once, so that the runtime knows of them
/// before the first kernel runs. `get` asks the device for one by name. A
/// library needs a current context for that, so it is tried again with each
/// of its kernels until it works.
fn find_variables(known: &Loaded, get: impl Fn(&CStr, &mut CUdeviceptr, &mut usize) -> CUresult) {
    let Some(runtime) = session::runtime() else {
        return;
    };
    if !known.instrumented || known.variables.known.load(Ordering::Acquire) {
        return;
    }
    let mut all = true;
    for name in known.plan.variables() {
        let Ok(text) = CString::new(name) else {
            continue;
        };
        let (mut base, mut size) = (0, 0);
        match capture::relaxed(|| get(&text, &mut base, &mut size)) {
            CUresult::CUDA_SUCCESS => {
                let extent = Extent {
                    base: DeviceAddress(base),
                    size: size as u64,
                };
                runtime.allocations().variable_resolved(name, extent);
                known.variables.bases.lock().push(base);
            }
            // Removed by the device's compiler, as nothing refers to it.
            CUresult::CUDA_ERROR_NOT_FOUND => {}
            _ => all = false,
        }
    }
    known.variables.known.store(all, Ordering::Release);
}

/// # Safety
/// `handle` is a loaded module.
unsafe fn find_module_variables(handle: CUmodule) {
    if let (Some(known), Some(get)) = (
        known(handle.0),
        next().and_then(|api| api.cuModuleGetGlobal_v2),
    ) {
        // SAFETY: places for both answers, the caller's handle.
        find_variables(&known, |name, base, size| unsafe {
            get(base, size, handle, name.as_ptr())
        });
    }
}

/// # Safety
/// `handle` is a loaded library.
unsafe fn find_library_variables(handle: CUlibrary) {
    let Some(api) = next() else { return };
    if let (Some(known), Some(global), Some(managed)) = (
        known(handle.0),
        api.cuLibraryGetGlobal,
        api.cuLibraryGetManaged,
    ) {
        find_variables(&known, |name, base, size| {
            // SAFETY: places for both answers, the caller's handle.
            match unsafe { global(base, size, handle, name.as_ptr()) } {
                CUresult::CUDA_ERROR_NOT_FOUND => {
                    // SAFETY: as above.
                    unsafe { managed(base, size, handle, name.as_ptr()) }
                }
                result => result,
            }
        });
    }
}

/// Reports a kernel and its copies to the runtime, which `find` looks up by name.
pub(super) fn resolved(
    handle: u64,
    is_kernel: bool,
    module: u64,
    name: &str,
    find: impl Fn(&CStr) -> Option<u64>,
) {
    let (Some(runtime), Some(known)) = (session::runtime(), known(module)) else {
        return;
    };
    if runtime
        .modules()
        .kernel(handle)
        .is_some_and(|kernel| kernel.module() == module && kernel.name() == name)
    {
        return;
    }
    let mut copies = KernelCopies::default();
    if let Some(entry) = known.plan.entry(name).filter(|_| known.instrumented) {
        let find = |copy: Option<&str>| find(&CString::new(copy?).ok()?);
        let residual = entry.residual.as_ref();
        copies = KernelCopies {
            checked: find(entry.checked_name.as_deref()),
            residual: find(residual.map(|residual| residual.name.as_str())),
        };
    }
    runtime.modules().resolved(Resolved {
        handle,
        in_library: is_kernel,
        module,
        name,
        copies,
    });
}

/// # Safety
/// `name` is NUL-terminated: the device has found something under it.
unsafe fn text<'a>(name: *const c_char) -> &'a str {
    // SAFETY: the caller's word.
    unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("")
}

hook!(cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) |get| {
    // SAFETY: the program's arguments.
    let result = unsafe { get(function, module, name) };
    if result == CUresult::CUDA_SUCCESS {
        // SAFETY: the module that the call has just accepted.
        unsafe { find_module_variables(module) };
        // SAFETY: written by, and read by, the successful call.
        let (handle, name) = unsafe { ((*function).0, text(name)) };
        resolved(handle, false, module.0, name, |copy| {
            let mut found = CUfunction::NULL;
            // SAFETY: a loaded module, a name, and a place for the answer.
            let result = unsafe { get(&mut found, module, copy.as_ptr()) };
            (result == CUresult::CUDA_SUCCESS).then_some(found.0)
        });
    }
    result
});

hook!(cuLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, name: *const c_char) |get| {
    // SAFETY: the program's arguments.
    let result = unsafe { get(kernel, library, name) };
    if result == CUresult::CUDA_SUCCESS {
        // SAFETY: the library that the call has just accepted.
        unsafe { find_library_variables(library) };
        // SAFETY: written by, and read by, the successful call.
        let (handle, name) = unsafe { ((*kernel).0, text(name)) };
        resolved(handle, true, library.0, name, |copy| {
            let mut found = CUkernel::NULL;
            // SAFETY: a loaded library, a name, and a place for the answer.
            let result = unsafe { get(&mut found, library, copy.as_ptr()) };
            (result == CUresult::CUDA_SUCCESS).then_some(found.0)
        });
    }
    result
});

hook!(cuKernelGetFunction(function: *mut CUfunction, kernel: CUkernel) |get| {
    // SAFETY: the program's arguments.
    let result = unsafe { get(function, kernel) };
    if result == CUresult::CUDA_SUCCESS
        && let Some(known) = queries::kernel(kernel.0)
    {
        // SAFETY: written by the successful call.
        let handle = unsafe { *function }.0;
        let copies = known.copies();
        resolved(handle, false, known.module(), known.name(), |name| {
            let is_residual = name.to_bytes().starts_with(RESIDUAL_PREFIX.as_bytes());
            let copy = if is_residual { copies.residual } else { copies.checked };
            let mut found = CUfunction::NULL;
            // SAFETY: the copy's handle came from the device.
            let result = unsafe { get(&mut found, CUkernel(copy?)) };
            (result == CUresult::CUDA_SUCCESS).then_some(found.0)
        });
    }
    result
});

/// Looks a variable up with places for both answers, as the program may have
/// given none, and reports it to the runtime.
///
/// # Safety
/// `pointer` and `bytes` are null or valid, `name` as the device expects it.
unsafe fn variable(
    pointer: *mut CUdeviceptr,
    bytes: *mut usize,
    name: *const c_char,
    get: impl FnOnce(*mut CUdeviceptr, *mut usize) -> CUresult,
) -> CUresult {
    let (mut base, mut size) = (0, 0);
    let result = get(&mut base, &mut size);
    if result != CUresult::CUDA_SUCCESS {
        return result;
    }
    if !pointer.is_null() {
        // SAFETY: the caller's word.
        unsafe { *pointer = base };
    }
    if !bytes.is_null() {
        // SAFETY: the caller's word.
        unsafe { *bytes = size };
    }
    if let Some(runtime) = session::runtime() {
        let extent = Extent {
            base: DeviceAddress(base),
            size: size as u64,
        };
        // SAFETY: the device has found a variable of this name.
        runtime
            .allocations()
            .variable_resolved(unsafe { text(name) }, extent);
    }
    result
}

hook!(cuModuleGetGlobal_v2(pointer: *mut CUdeviceptr, bytes: *mut usize, module: CUmodule, name: *const c_char) |get| {
    // SAFETY: the program's arguments.
    unsafe { variable(pointer, bytes, name, |pointer, bytes| get(pointer, bytes, module, name)) }
});

hook!([cuLibraryGetGlobal, cuLibraryGetManaged](
    pointer: *mut CUdeviceptr,
    bytes: *mut usize,
    library: CUlibrary,
    name: *const c_char,
) |get| {
    // SAFETY: the program's arguments.
    unsafe { variable(pointer, bytes, name, |pointer, bytes| get(pointer, bytes, library, name)) }
});
