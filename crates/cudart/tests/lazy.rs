//! Which driver calls the runtime makes, and when: over a driver made of C
//! functions that keep a log. One test, since the driver of a process is chosen
//! once.

use cudart::lookup;
use driver::Api;
use driver::sys::*;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());
static CONTEXT: AtomicU64 = AtomicU64::new(0);

fn log(line: impl Into<String>) {
    LOG.lock().unwrap().push(line.into());
}

fn logged() -> Vec<String> {
    std::mem::take(&mut *LOG.lock().unwrap())
}

const OK: CUresult = CUresult::CUDA_SUCCESS;

unsafe extern "C" fn init(_: u32) -> CUresult {
    log("cuInit");
    OK
}

unsafe extern "C" fn device_get(device: *mut CUdevice, ordinal: i32) -> CUresult {
    if ordinal != 0 {
        return CUresult::CUDA_ERROR_INVALID_DEVICE;
    }
    // SAFETY: the runtime passes a local.
    unsafe { device.write(0) };
    OK
}

unsafe extern "C" fn context_get(context: *mut CUcontext) -> CUresult {
    // SAFETY: the runtime passes a local.
    unsafe { context.write(CUcontext(CONTEXT.load(Ordering::Relaxed))) };
    OK
}

unsafe extern "C" fn context_set(context: CUcontext) -> CUresult {
    log(format!("cuCtxSetCurrent {:#x}", context.0));
    CONTEXT.store(context.0, Ordering::Relaxed);
    OK
}

unsafe extern "C" fn context_device(device: *mut CUdevice) -> CUresult {
    // SAFETY: the runtime passes a local.
    unsafe { device.write(0) };
    OK
}

unsafe extern "C" fn retain(context: *mut CUcontext, _: CUdevice) -> CUresult {
    log("cuDevicePrimaryCtxRetain");
    // SAFETY: the runtime passes a local.
    unsafe { context.write(CUcontext(0xc0)) };
    OK
}

unsafe extern "C" fn load(
    library: *mut CUlibrary,
    code: *const c_void,
    _: *mut CUjit_option,
    _: *mut *mut c_void,
    _: u32,
    options: *mut CUlibraryOption,
    _: *mut *mut c_void,
    count: u32,
) -> CUresult {
    // SAFETY: the runtime passes `count` options and a local.
    let preserved =
        count == 1 && unsafe { *options } == CUlibraryOption::CU_LIBRARY_BINARY_IS_PRESERVED;
    log(format!("cuLibraryLoadData {code:?} preserved={preserved}"));
    // SAFETY: as above.
    unsafe { library.write(CUlibrary(0x11b)) };
    OK
}

unsafe extern "C" fn unload(library: CUlibrary) -> CUresult {
    log(format!("cuLibraryUnload {:#x}", library.0));
    OK
}

unsafe extern "C" fn kernel(kernel: *mut CUkernel, _: CUlibrary, name: *const c_char) -> CUresult {
    // SAFETY: the runtime passes a C string and a local.
    let name = unsafe { CStr::from_ptr(name) };
    log(format!("cuLibraryGetKernel {}", name.to_string_lossy()));
    if name != c"known" {
        return CUresult::CUDA_ERROR_NOT_FOUND;
    }
    // SAFETY: as above.
    unsafe { kernel.write(CUkernel(0x4e1)) };
    OK
}

unsafe extern "C" fn launch(
    function: CUfunction,
    grid: u32,
    _: u32,
    _: u32,
    _: u32,
    _: u32,
    _: u32,
    shared: u32,
    stream: CUstream,
    _: *mut *mut c_void,
    _: *mut *mut c_void,
) -> CUresult {
    log(format!(
        "cuLaunchKernel {:#x} grid {grid} shared {shared} stream {}",
        function.0, stream.0
    ));
    if grid == 0 {
        CUresult::CUDA_ERROR_INVALID_VALUE
    } else {
        OK
    }
}

unsafe extern "C" fn attribute(value: *mut i32, _: CUdevice_attribute, _: CUdevice) -> CUresult {
    // SAFETY: the runtime passes a local.
    unsafe { value.write(1024) };
    OK
}

unsafe extern "C" fn managed(
    address: *mut u64,
    size: *mut usize,
    _: CUlibrary,
    _: *const c_char,
) -> CUresult {
    log("cuLibraryGetManaged");
    // SAFETY: the runtime passes locals.
    unsafe {
        address.write(0xabc000);
        size.write(4);
    }
    OK
}

unsafe extern "C" fn synchronize() -> CUresult {
    CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
}

/// A runtime function by its name, as the program would find it.
macro_rules! function {
    ($name:ident as $type:ty) => {{
        let address = lookup(stringify!($name)).unwrap();
        // SAFETY: `lookup` gives the function of this name, and the type is
        // that of its declaration in NVIDIA's headers.
        unsafe { std::mem::transmute::<*const (), $type>(address) }
    }};
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Dim3(u32, u32, u32);

/// A driver of the functions above.
static API: Api = Api {
    cuInit: Some(init),
    cuDeviceGet: Some(device_get),
    cuCtxGetCurrent: Some(context_get),
    cuCtxSetCurrent: Some(context_set),
    cuCtxGetDevice: Some(context_device),
    cuDevicePrimaryCtxRetain: Some(retain),
    cuLibraryLoadData: Some(load),
    cuLibraryUnload: Some(unload),
    cuLibraryGetKernel: Some(kernel),
    cuLibraryGetManaged: Some(managed),
    cuLaunchKernel: Some(launch),
    cuDeviceGetAttribute: Some(attribute),
    cuCtxSynchronize: Some(synchronize),
    ..Api::EMPTY
};

type Register = extern "C" fn(*mut c_void) -> *mut *mut c_void;
type RegisterFunction = extern "C" fn(
    *mut *mut c_void,
    *const c_char,
    *mut c_char,
    *const c_char,
    i32,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut i32,
);
type RegisterManaged = extern "C" fn(
    *mut *mut c_void,
    *mut *mut c_void,
    *mut c_char,
    *const c_char,
    i32,
    usize,
    i32,
    i32,
);
type Launch = extern "C" fn(*const c_void, Dim3, Dim3, *mut *mut c_void, usize, u64) -> u32;

#[test]
fn asks_the_driver_late_and_once() {
    cudart::install(|| {
        log("resolved");
        Ok(&API)
    });
    let register = function!(__cudaRegisterFatBinary as Register);
    let register_function = function!(__cudaRegisterFunction as RegisterFunction);
    let register_managed = function!(__cudaRegisterManagedVar as RegisterManaged);
    let unregister = function!(__cudaUnregisterFatBinary as extern "C" fn(*mut *mut c_void));
    let launch = function!(cudaLaunchKernel as Launch);
    let launch_per_thread = function!(cudaLaunchKernel_ptsz as Launch);
    let last_error = function!(cudaGetLastError as extern "C" fn() -> u32);
    let peek_error = function!(cudaPeekAtLastError as extern "C" fn() -> u32);
    let set_device = function!(cudaSetDevice as extern "C" fn(i32) -> u32);
    let synchronize = function!(cudaDeviceSynchronize as extern "C" fn() -> u32);

    // Registration calls no driver function.
    let null = std::ptr::null_mut::<c_void>();
    let handle = register(0x1000 as *mut c_void);
    let (known, unknown, unregistered) = (
        0x10 as *const c_char,
        0x20 as *const c_char,
        0x30 as *const c_void,
    );
    for (host, name) in [(known, c"known"), (unknown, c"unknown")] {
        let (device, none) = (std::ptr::null_mut(), std::ptr::null_mut());
        let name = name.as_ptr();
        register_function(handle, host, device, name, -1, null, null, null, null, none);
    }
    assert_eq!(logged(), Vec::<String>::new());

    // The first launch loads the wrapper as it was registered, the next does not.
    let one = Dim3(1, 1, 1);
    let none = std::ptr::null_mut();
    assert_eq!(launch(known.cast(), one, one, none, 64, 0), 0);
    assert_eq!(
        logged(),
        [
            "resolved",
            "cuInit",
            "cuLibraryLoadData 0x1000 preserved=true",
            "cuLibraryGetKernel known",
            "cuDevicePrimaryCtxRetain",
            "cuCtxSetCurrent 0xc0",
            "cuLaunchKernel 0x4e1 grid 1 shared 64 stream 0",
        ]
    );
    assert_eq!(launch_per_thread(known.cast(), one, one, none, 0, 0), 0);
    assert_eq!(
        launch_per_thread(known.cast(), one, one, none, 0, 0x5700),
        0
    );
    assert_eq!(
        logged(),
        [
            "cuLaunchKernel 0x4e1 grid 1 shared 0 stream 2",
            "cuLaunchKernel 0x4e1 grid 1 shared 0 stream 22272"
        ]
    );

    // Errors are the runtime's, and stay until they are taken.
    assert_eq!(launch(unknown.cast(), one, one, none, 0, 0), 98);
    assert_eq!((peek_error(), last_error(), last_error()), (98, 98, 0));
    assert_eq!(launch(unregistered, one, one, none, 0, 0), 98);
    assert_eq!(launch(known.cast(), Dim3(0, 1, 1), one, none, 0, 0), 1);
    assert_eq!(set_device(3), 101);
    assert_eq!(synchronize(), 700);
    assert_eq!(last_error(), 700);
    logged();

    // A managed variable that appears later is found at the next call.
    let managed = register(0x2000 as *mut c_void);
    let mut pointer = null;
    register_managed(
        managed,
        &raw mut pointer,
        std::ptr::null_mut(),
        c"total".as_ptr(),
        0,
        4,
        0,
        0,
    );
    assert_eq!(logged(), Vec::<String>::new());
    assert_eq!(set_device(0), 0);
    assert_eq!(pointer as usize, 0xabc000);
    assert_eq!(
        logged(),
        [
            "cuCtxSetCurrent 0xc0",
            "cuLibraryLoadData 0x2000 preserved=true",
            "cuLibraryGetManaged"
        ]
    );

    // Unregistering unloads, once.
    unregister(handle);
    unregister(handle);
    assert_eq!(logged(), ["cuLibraryUnload 0x11b"]);
    assert_eq!(launch(known.cast(), one, one, none, 0, 0), 98);

    // A driver without a function: the runtime's call fails.
    let malloc = function!(cudaMalloc as extern "C" fn(*mut *mut c_void, usize) -> u32);
    assert_eq!(malloc(&raw mut pointer, 16), 801);
}
