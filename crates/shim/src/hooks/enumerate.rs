//! Lists of a module's kernels, without the instrumented copies.

use super::define::{hook, hooks};
use super::module::resolved;
use crate::session::{self, next};
use driver::sys::{CUfunction, CUkernel, CUlibrary, CUmodule, CUresult};
use model::layout::original_name;
use std::ffi::{CStr, c_char};

hooks!(
    cuLibraryEnumerateKernels,
    cuLibraryGetKernelCount,
    cuModuleEnumerateFunctions,
    cuModuleGetFunctionCount
);

/// What differs between functions of modules and kernels of libraries: `H` is
/// the handle that is asked, `K` the one that is listed.
struct Lister<H, K> {
    count: unsafe extern "C" fn(*mut u32, H) -> CUresult,
    list: unsafe extern "C" fn(*mut K, u32, H) -> CUresult,
    name: unsafe extern "C" fn(*mut *const c_char, K) -> CUresult,
    number: fn(K) -> u64,
    is_kernel: bool,
}

/// Kernels with their names.
type Named<K> = Vec<(K, String)>;

impl<H: Copy, K: Copy + Default> Lister<H, K> {
    /// All kernels of the program, and all of Ringfence's.
    fn all(&self, of: H) -> Result<(Named<K>, Named<K>), CUresult> {
        let mut count = 0;
        // SAFETY: a handle that the program gave, and a place for the answer.
        check(unsafe { (self.count)(&mut count, of) })?;
        let mut handles = vec![K::default(); count as usize];
        // SAFETY: `count` places.
        check(unsafe { (self.list)(handles.as_mut_ptr(), count, of) })?;
        let mut named = Vec::with_capacity(handles.len());
        for handle in handles {
            let mut name = std::ptr::null();
            // SAFETY: a handle from the list, and a place for the answer.
            check(unsafe { (self.name)(&mut name, handle) })?;
            if name.is_null() {
                return Err(CUresult::CUDA_ERROR_UNKNOWN);
            }
            // SAFETY: the device's own string, NUL-terminated.
            let name = unsafe { CStr::from_ptr(name) }
                .to_string_lossy()
                .into_owned();
            named.push((handle, name));
        }
        Ok(named
            .into_iter()
            .partition(|(_, name)| original_name(name).is_none()))
    }

    /// Answers the count of the program's own kernels.
    ///
    /// # Safety
    /// `count` is null or valid.
    unsafe fn count(&self, count: *mut u32, of: H) -> CUresult {
        if count.is_null() {
            return CUresult::CUDA_ERROR_INVALID_VALUE;
        }
        match self.all(of) {
            Ok((own, _)) => {
                // SAFETY: the caller's word.
                unsafe { *count = own.len() as u32 };
                CUresult::CUDA_SUCCESS
            }
            Err(error) => error,
        }
    }

    /// Answers the program's own kernels.
    ///
    /// # Safety
    /// `places` is null or has room for `room` handles.
    unsafe fn list(&self, places: *mut K, room: u32, of: H, module: u64) -> CUresult {
        if places.is_null() {
            return CUresult::CUDA_ERROR_INVALID_VALUE;
        }
        match self.all(of) {
            Ok((own, copies)) => {
                for (position, (handle, name)) in own.iter().take(room as usize).enumerate() {
                    // SAFETY: below `room`.
                    unsafe { *places.add(position) = *handle };
                    resolved(
                        (self.number)(*handle),
                        self.is_kernel,
                        module,
                        name,
                        |copy| {
                            let is_copy =
                                |(_, name): &&(K, String)| copy.to_bytes() == name.as_bytes();
                            copies
                                .iter()
                                .find(is_copy)
                                .map(|(handle, _)| (self.number)(*handle))
                        },
                    );
                }
                CUresult::CUDA_SUCCESS
            }
            Err(error) => error,
        }
    }
}

fn check(result: CUresult) -> Result<(), CUresult> {
    if result == CUresult::CUDA_SUCCESS {
        Ok(())
    } else {
        Err(result)
    }
}

fn modules() -> Option<Lister<CUmodule, CUfunction>> {
    session::runtime()?;
    let api = next()?;
    Some(Lister {
        count: api.cuModuleGetFunctionCount?,
        list: api.cuModuleEnumerateFunctions?,
        name: api.cuFuncGetName?,
        number: |function| function.0,
        is_kernel: false,
    })
}

fn libraries() -> Option<Lister<CUlibrary, CUkernel>> {
    session::runtime()?;
    let api = next()?;
    Some(Lister {
        count: api.cuLibraryGetKernelCount?,
        list: api.cuLibraryEnumerateKernels?,
        name: api.cuKernelGetName?,
        number: |kernel| kernel.0,
        is_kernel: true,
    })
}

hook!(cuModuleGetFunctionCount(count: *mut u32, module: CUmodule) |get| {
    // SAFETY: the program's arguments.
    unsafe { modules().map_or_else(|| get(count, module), |lister| lister.count(count, module)) }
});

hook!(cuModuleEnumerateFunctions(functions: *mut CUfunction, room: u32, module: CUmodule) |list| {
    // SAFETY: the program's arguments.
    unsafe {
        modules().map_or_else(
            || list(functions, room, module),
            |lister| lister.list(functions, room, module, module.0),
        )
    }
});

hook!(cuLibraryGetKernelCount(count: *mut u32, library: CUlibrary) |get| {
    // SAFETY: the program's arguments.
    unsafe { libraries().map_or_else(|| get(count, library), |lister| lister.count(count, library)) }
});

hook!(cuLibraryEnumerateKernels(kernels: *mut CUkernel, room: u32, library: CUlibrary) |list| {
    // SAFETY: the program's arguments.
    unsafe {
        libraries().map_or_else(
            || list(kernels, room, library),
            |lister| lister.list(kernels, room, library, library.0),
        )
    }
});
