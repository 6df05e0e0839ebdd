//! Libraries that the program loads itself, and the driver's entry points.

use crate::convert::pointer;
use crate::generated::types::*;
use crate::registry;
use crate::state::{self, ready};
use driver::sys::{CUdriverProcAddressQueryResult, CUkernel, CUlibrary};
use std::ffi::{c_char, c_void};

/// The version whose functions cudaGetDriverEntryPoint gives: that of the runtime.
const RUNTIME_VERSION: i32 = CUDART_VERSION as i32;

/// CUDART_VERSION of the headers that the signatures were generated from.
pub(crate) const CUDART_VERSION: u32 = 13000;

fn entry_point(
    symbol: *const c_char,
    out: *mut *mut c_void,
    version: i32,
    flags: u64,
    status: *mut cudaDriverEntryPointQueryResult,
) -> Result<(), cudaError_t> {
    state::initialised()?;
    let mut found = std::ptr::null_mut();
    let mut result = CUdriverProcAddressQueryResult(0);
    cu!(cuGetProcAddress_v2(
        symbol,
        &raw mut found,
        version,
        flags,
        &raw mut result
    ))
    .or_else(|error| {
        // For absent names, only the status says so.
        if error == cudaError_t::cudaErrorSymbolNotFound {
            Ok(())
        } else {
            Err(error)
        }
    })?;
    put!(out, found)?;
    if status.is_null() {
        let absent = result != CUdriverProcAddressQueryResult(0);
        return if absent {
            Err(cudaError_t::cudaErrorSymbolNotFound)
        } else {
            Ok(())
        };
    }
    put!(status, cudaDriverEntryPointQueryResult(result.0))
}

/// Without a choice of streams in the flags, `_ptsz` programs get the
/// functions with the thread's own default stream.
fn per_thread(flags: u64) -> u64 {
    if flags == 0 {
        u64::from(cudaGetDriverEntryPointFlags::cudaEnablePerThreadDefaultStream.0)
    } else {
        flags
    }
}

runtime! {
    /// A driver function of the runtime's version.
    fn cudaGetDriverEntryPoint(
        symbol: *const c_char, funcPtr: *mut *mut c_void, flags: u64, driverStatus: *mut cudaDriverEntryPointQueryResult
    ) {
        entry_point(symbol, funcPtr, RUNTIME_VERSION, flags, driverStatus)
    }

    /// A driver function of the runtime's version, for per-thread default streams.
    [unchecked] fn cudaGetDriverEntryPoint_ptsz(
        symbol: *const c_char, funcPtr: *mut *mut c_void, flags: u64, driverStatus: *mut cudaDriverEntryPointQueryResult
    ) {
        entry_point(symbol, funcPtr, RUNTIME_VERSION, per_thread(flags), driverStatus)
    }

    /// A driver function of a version.
    fn cudaGetDriverEntryPointByVersion(
        symbol: *const c_char, funcPtr: *mut *mut c_void, cudaVersion: u32, flags: u64,
        driverStatus: *mut cudaDriverEntryPointQueryResult
    ) {
        let version = i32::try_from(cudaVersion).map_err(|_| cudaError_t::cudaErrorInvalidValue)?;
        entry_point(symbol, funcPtr, version, flags, driverStatus)
    }

    /// A driver function of a version, for per-thread default streams.
    [unchecked] fn cudaGetDriverEntryPointByVersion_ptsz(
        symbol: *const c_char, funcPtr: *mut *mut c_void, cudaVersion: u32, flags: u64,
        driverStatus: *mut cudaDriverEntryPointQueryResult
    ) {
        let version = i32::try_from(cudaVersion).map_err(|_| cudaError_t::cudaErrorInvalidValue)?;
        entry_point(symbol, funcPtr, version, per_thread(flags), driverStatus)
    }

    /// Loads device code.
    fn cudaLibraryLoadData(
        library: *mut cudaLibrary_t, code: *const c_void, jitOptions: *mut cudaJitOption, jitOptionsValues: *mut *mut c_void,
        numJitOptions: u32, libraryOptions: *mut cudaLibraryOption, libraryOptionValues: *mut *mut c_void,
        numLibraryOptions: u32
    ) {
        state::initialised()?;
        let mut loaded = CUlibrary::NULL;
        cu!(cuLibraryLoadData(
            &raw mut loaded, code, jitOptions.cast(), jitOptionsValues, numJitOptions, libraryOptions.cast(),
            libraryOptionValues, numLibraryOptions
        ))?;
        put!(library, loaded)
    }

    /// Loads device code from a file.
    fn cudaLibraryLoadFromFile(
        library: *mut cudaLibrary_t, fileName: *const c_char, jitOptions: *mut cudaJitOption,
        jitOptionsValues: *mut *mut c_void, numJitOptions: u32, libraryOptions: *mut cudaLibraryOption,
        libraryOptionValues: *mut *mut c_void, numLibraryOptions: u32
    ) {
        state::initialised()?;
        let mut loaded = CUlibrary::NULL;
        cu!(cuLibraryLoadFromFile(
            &raw mut loaded, fileName, jitOptions.cast(), jitOptionsValues, numJitOptions, libraryOptions.cast(),
            libraryOptionValues, numLibraryOptions
        ))?;
        put!(library, loaded)
    }

    /// Unloads a library.
    fn cudaLibraryUnload(library: cudaLibrary_t) {
        state::initialised()?;
        cu!(cuLibraryUnload(library))
    }

    /// A kernel by name.
    fn cudaLibraryGetKernel(pKernel: *mut cudaKernel_t, library: cudaLibrary_t, name: *const c_char) {
        state::initialised()?;
        let mut kernel = CUkernel::NULL;
        cu!(cuLibraryGetKernel(&raw mut kernel, library, name))?;
        registry::note_kernel(kernel);
        put!(pKernel, kernel)
    }

    /// How many kernels a library has.
    fn cudaLibraryGetKernelCount(count: *mut u32, library: cudaLibrary_t) {
        state::initialised()?;
        cu!(cuLibraryGetKernelCount(count, library))
    }

    /// The kernels of a library.
    fn cudaLibraryEnumerateKernels(kernels: *mut cudaKernel_t, numKernels: u32, library: cudaLibrary_t) {
        state::initialised()?;
        let mut held = 0;
        cu!(cuLibraryGetKernelCount(&raw mut held, library))?;
        cu!(cuLibraryEnumerateKernels(kernels, numKernels, library))?;
        for index in 0..numKernels.min(held) as usize {
            // SAFETY: the driver has just filled this many entries of the program's array.
            registry::note_kernel(unsafe { kernels.add(index).read() });
        }
        Ok(())
    }

    /// A variable by name.
    fn cudaLibraryGetGlobal(dptr: *mut *mut c_void, bytes: *mut usize, library: cudaLibrary_t, name: *const c_char) {
        ready()?;
        let (mut base, mut size) = (0, 0);
        cu!(cuLibraryGetGlobal(&raw mut base, &raw mut size, library, name))?;
        if !bytes.is_null() {
            put!(bytes, size)?;
        }
        put!(dptr, pointer(base))
    }

    /// A managed variable by name.
    fn cudaLibraryGetManaged(dptr: *mut *mut c_void, bytes: *mut usize, library: cudaLibrary_t, name: *const c_char) {
        ready()?;
        let (mut base, mut size) = (0, 0);
        cu!(cuLibraryGetManaged(&raw mut base, &raw mut size, library, name))?;
        if !bytes.is_null() {
            put!(bytes, size)?;
        }
        put!(dptr, pointer(base))
    }

    /// A pointer to a device function by name.
    fn cudaLibraryGetUnifiedFunction(fptr: *mut *mut c_void, library: cudaLibrary_t, symbol: *const c_char) {
        ready()?;
        cu!(cuLibraryGetUnifiedFunction(fptr, library, symbol))
    }
}
