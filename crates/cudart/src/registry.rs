//! What the program's objects register before `main`: device code images, and
//! the host addresses that identify kernels and variables.
//!
//! Registration only stores data. An image is loaded when something of it is
//! first used, by one thread while others wait; the registry's lock is never
//! held across a driver call.

use crate::generated::types::cudaError_t;
use crate::state;
use driver::sys::{CUdeviceptr, CUkernel, CUlibrary, CUlibraryOption};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString, c_void};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(|| Mutex::new(Registry::default()));
static LOADED: Condvar = Condvar::new();
/// Some `__managed__` variable has no address yet.
static MANAGED_PENDING: AtomicBool = AtomicBool::new(false);

/// Where a device variable lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) address: CUdeviceptr,
    pub(crate) size: usize,
}

#[derive(Default)]
struct Registry {
    /// By handle.
    binaries: BTreeMap<usize, Binary>,
    /// By the address of the host stub.
    functions: HashMap<usize, Function>,
    /// By the address of the host shadow.
    variables: HashMap<usize, Symbol>,
    /// Kernel handles that were returned to the program, and their host stub if
    /// they have one.
    kernels: HashMap<u64, Option<usize>>,
}

struct Binary {
    /// Address of the `0x466243b1` wrapper.
    image: usize,
    library: Library,
    managed: Vec<Managed>,
}

#[derive(Clone, Copy)]
enum Library {
    NotLoaded,
    BeingLoaded,
    Loaded(CUlibrary),
    Failed(cudaError_t),
}

struct Function {
    binary: usize,
    name: CString,
    kernel: Option<CUkernel>,
}

struct Symbol {
    binary: usize,
    name: CString,
    found: Option<Variable>,
}

#[derive(Clone)]
struct Managed {
    /// Address of the host pointer that gets the variable's address.
    pointer: usize,
    name: CString,
    found: Option<Variable>,
}

/// Registers an image; the handle is a pointer that stays valid.
pub(crate) fn register_binary(image: *const c_void) -> *mut *mut c_void {
    // Old host code may dereference the handle: it points at the image's
    // address.
    let handle = Box::leak(Box::new(image.cast_mut()));
    let binary = Binary {
        image: image as usize,
        library: Library::NotLoaded,
        managed: Vec::new(),
    };
    REGISTRY
        .lock()
        .binaries
        .insert(std::ptr::from_mut(handle) as usize, binary);
    handle
}

/// Removes an image and unloads it. Also called at exit, after everything.
pub(crate) fn unregister_binary(handle: usize) {
    let binary = {
        let mut registry = REGISTRY.lock();
        registry
            .functions
            .retain(|_, function| function.binary != handle);
        registry
            .variables
            .retain(|_, symbol| symbol.binary != handle);
        registry.binaries.remove(&handle)
    };
    if let Some(Binary {
        library: Library::Loaded(library),
        ..
    }) = binary
        && state::started()
        && let Ok(api) = state::api()
        && let Some(unload) = api.cuLibraryUnload
    {
        // SAFETY: the table's own function, and a library that was loaded and
        // is no longer in the registry, so it is not unloaded twice. At exit
        // the driver may be shut down already (CUDA_ERROR_DEINITIALIZED): then
        // nothing is left to unload, and no caller can handle an error.
        let _ = unsafe { unload(library) };
    }
}

/// Registers which kernel a host stub stands for.
pub(crate) fn register_function(handle: usize, host: usize, name: &CStr) {
    let function = Function {
        binary: handle,
        name: name.to_owned(),
        kernel: None,
    };
    REGISTRY.lock().functions.insert(host, function);
}

/// Registers which variable a host shadow stands for.
pub(crate) fn register_variable(handle: usize, host: usize, name: &CStr) {
    let symbol = Symbol {
        binary: handle,
        name: name.to_owned(),
        found: None,
    };
    REGISTRY.lock().variables.insert(host, symbol);
}

/// Registers a `__managed__` variable and the host pointer that is to get its
/// address.
pub(crate) fn register_managed(handle: usize, pointer: usize, name: &CStr) {
    if let Some(binary) = REGISTRY.lock().binaries.get_mut(&handle) {
        binary.managed.push(Managed {
            pointer,
            name: name.to_owned(),
            found: None,
        });
        MANAGED_PENDING.store(true, Ordering::Release);
    }
}

/// The kernel that a host stub, or a kernel handle given in its place, stands for.
pub(crate) fn kernel(host: usize) -> Result<CUkernel, cudaError_t> {
    let (binary, name) = {
        let registry = REGISTRY.lock();
        match registry.functions.get(&host) {
            Some(Function {
                kernel: Some(kernel),
                ..
            }) => return Ok(*kernel),
            Some(function) => (function.binary, function.name.clone()),
            None if registry.kernels.contains_key(&(host as u64)) => {
                return Ok(CUkernel(host as u64));
            }
            None => return Err(cudaError_t::cudaErrorInvalidDeviceFunction),
        }
    };
    let library = library(binary)?;
    let mut kernel = CUkernel::NULL;
    cu!(cuLibraryGetKernel(&raw mut kernel, library, name.as_ptr()))
        .map_err(not_found(cudaError_t::cudaErrorInvalidDeviceFunction))?;
    let mut registry = REGISTRY.lock();
    if let Some(function) = registry.functions.get_mut(&host) {
        function.kernel = Some(kernel);
    }
    registry.kernels.insert(kernel.0, Some(host));
    Ok(kernel)
}

/// Registers a kernel handle that the program got from a library of its own.
pub(crate) fn note_kernel(kernel: CUkernel) {
    REGISTRY.lock().kernels.entry(kernel.0).or_insert(None);
}

/// The host stub of a kernel handle, or the handle itself: what a graph node's
/// `func` is to the program.
pub(crate) fn host_of(kernel: CUkernel) -> usize {
    REGISTRY
        .lock()
        .kernels
        .get(&kernel.0)
        .copied()
        .flatten()
        .unwrap_or(kernel.0 as usize)
}

/// The variable that a host shadow stands for. A `__managed__` variable is
/// named by its own address.
pub(crate) fn variable(host: usize) -> Result<Variable, cudaError_t> {
    let (binary, name) = {
        let registry = REGISTRY.lock();
        match registry.variables.get(&host) {
            Some(Symbol {
                found: Some(found), ..
            }) => return Ok(*found),
            Some(symbol) => (symbol.binary, symbol.name.clone()),
            None => {
                let mut managed = registry
                    .binaries
                    .values()
                    .flat_map(|binary| &binary.managed);
                return managed
                    .find_map(|managed| managed.found.filter(|found| found.address == host as u64))
                    .ok_or(cudaError_t::cudaErrorInvalidSymbol);
            }
        }
    };
    let library = library(binary)?;
    let mut found = Variable {
        address: 0,
        size: 0,
    };
    cu!(cuLibraryGetGlobal(
        &raw mut found.address,
        &raw mut found.size,
        library,
        name.as_ptr()
    ))
    .map_err(not_found(cudaError_t::cudaErrorInvalidSymbol))?;
    if let Some(symbol) = REGISTRY.lock().variables.get_mut(&host) {
        symbol.found = Some(found);
    }
    Ok(found)
}

/// Removes what a reset of the device made invalid: addresses of variables.
pub(crate) fn forget_addresses() {
    for symbol in REGISTRY.lock().variables.values_mut() {
        symbol.found = None;
    }
}

/// Loads images with `__managed__` variables and stores their addresses where
/// host code reads them.
pub(crate) fn load_managed() -> Result<(), cudaError_t> {
    if !MANAGED_PENDING.load(Ordering::Acquire) {
        return Ok(());
    }
    let pending: Vec<(usize, Managed)> = {
        let registry = REGISTRY.lock();
        let all = registry
            .binaries
            .iter()
            .flat_map(|(handle, binary)| binary.managed.iter().map(|m| (*handle, m.clone())));
        all.filter(|(_, managed)| managed.found.is_none()).collect()
    };
    for (handle, managed) in pending {
        let library = library(handle)?;
        let mut found = Variable {
            address: 0,
            size: 0,
        };
        cu!(cuLibraryGetManaged(
            &raw mut found.address,
            &raw mut found.size,
            library,
            managed.name.as_ptr()
        ))
        .map_err(not_found(cudaError_t::cudaErrorInvalidSymbol))?;
        // SAFETY: the address that the program's own start-up code registered
        // as that of its pointer to the variable; it lives as long as the image.
        unsafe { (managed.pointer as *mut u64).write(found.address) };
        if let Some(binary) = REGISTRY.lock().binaries.get_mut(&handle) {
            for entry in binary
                .managed
                .iter_mut()
                .filter(|entry| entry.pointer == managed.pointer)
            {
                entry.found = Some(found);
            }
        }
    }
    let registry = REGISTRY.lock();
    let open = registry
        .binaries
        .values()
        .flat_map(|binary| &binary.managed)
        .any(|managed| managed.found.is_none());
    MANAGED_PENDING.store(open, Ordering::Release);
    Ok(())
}

fn not_found(instead: cudaError_t) -> impl Fn(cudaError_t) -> cudaError_t {
    move |error| {
        if error == cudaError_t::cudaErrorSymbolNotFound {
            instead
        } else {
            error
        }
    }
}

/// The loaded library of an image.
fn library(handle: usize) -> Result<CUlibrary, cudaError_t> {
    state::initialised()?;
    let image = {
        let mut registry = REGISTRY.lock();
        loop {
            let binary = registry
                .binaries
                .get_mut(&handle)
                .ok_or(cudaError_t::cudaErrorInvalidResourceHandle)?;
            match binary.library {
                Library::Loaded(library) => return Ok(library),
                Library::Failed(error) => return Err(error),
                Library::BeingLoaded => LOADED.wait(&mut registry),
                Library::NotLoaded => {
                    binary.library = Library::BeingLoaded;
                    break binary.image;
                }
            }
        }
    };
    let result = load(image);
    if let Some(binary) = REGISTRY.lock().binaries.get_mut(&handle) {
        binary.library = match result {
            Ok(library) => Library::Loaded(library),
            Err(error) => Library::Failed(error),
        };
    }
    LOADED.notify_all();
    result
}

fn load(image: usize) -> Result<CUlibrary, cudaError_t> {
    let mut library = CUlibrary::NULL;
    // As NVIDIA's runtime loads them: the image stays where it is.
    let mut options = [CUlibraryOption::CU_LIBRARY_BINARY_IS_PRESERVED];
    let mut values = [std::ptr::without_provenance_mut::<c_void>(1)];
    cu!(cuLibraryLoadData(
        &raw mut library,
        image as *const c_void,
        std::ptr::null_mut(),
        std::ptr::null_mut(),
        0,
        options.as_mut_ptr(),
        values.as_mut_ptr(),
        1,
    ))?;
    Ok(library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_belong_to_their_image() {
        let first = register_binary(16 as *const c_void) as usize;
        let second = register_binary(32 as *const c_void) as usize;
        register_function(first, 0x1000, c"one");
        register_function(second, 0x2000, c"two");
        register_variable(first, 0x3000, c"counter");
        unregister_binary(first);
        let registry = REGISTRY.lock();
        assert!(!registry.functions.contains_key(&0x1000));
        assert!(!registry.variables.contains_key(&0x3000));
        assert_eq!(registry.functions[&0x2000].name.as_c_str(), c"two");
        assert_eq!(registry.binaries[&second].image, 32);
    }

    #[test]
    fn unknown_addresses_are_runtime_errors() {
        assert_eq!(
            kernel(0xdead).unwrap_err(),
            cudaError_t::cudaErrorInvalidDeviceFunction
        );
        assert_eq!(
            variable(0xdead).unwrap_err(),
            cudaError_t::cudaErrorInvalidSymbol
        );
        note_kernel(CUkernel(0xbeef0));
        assert_eq!(kernel(0xbeef0), Ok(CUkernel(0xbeef0)));
    }
}
