//! The driver table and the current device: what NVIDIA's runtime sets up
//! lazily at the first call that needs it.
//!
//! No lock of this module is held across a driver call: callbacks re-enter.

use crate::error::{check, say};
use crate::generated::types::cudaError_t;
use driver::Api;
use driver::sys::{CUcontext, CUdevice, CUstream};
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

type Resolver = Box<dyn Fn() -> Result<&'static Api, String> + Send + Sync>;

static RESOLVER: OnceLock<Resolver> = OnceLock::new();
static API: OnceLock<&'static Api> = OnceLock::new();
/// Process that ran cuInit; 0 before. A child of fork finds another id.
static INITIALISED: AtomicU32 = AtomicU32::new(0);
/// Primary contexts that this runtime retained.
static PRIMARY: Mutex<BTreeMap<i32, CUcontext>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// What cudaSetDevice chose in this thread.
    static DEVICE: Cell<i32> = const { Cell::new(0) };
}

/// Gives the runtime its driver. `resolver` is called at the first runtime
/// call that needs the driver (and again later if it failed); its error is a
/// sentence for the user. Only the first installation counts.
pub fn install(resolver: impl Fn() -> Result<&'static Api, String> + Send + Sync + 'static) {
    // A second installation would change the driver under existing handles.
    drop(RESOLVER.set(Box::new(resolver)));
}

/// The driver table.
pub(crate) fn api() -> Result<&'static Api, cudaError_t> {
    if let Some(api) = API.get() {
        return Ok(api);
    }
    let found = match RESOLVER.get() {
        Some(resolver) => resolver(),
        None => Err("the CUDA runtime was called before the device was chosen".to_string()),
    };
    match found {
        Ok(api) => Ok(API.get_or_init(|| api)),
        Err(message) => {
            say(&message);
            Err(cudaError_t::cudaErrorInitializationError)
        }
    }
}

/// A driver function that must be there.
pub(crate) fn present<T>(function: Option<T>, name: &str) -> Result<T, cudaError_t> {
    function.ok_or_else(|| {
        say(&format!("{name} is not available on the cpu device"));
        cudaError_t::cudaErrorNotSupported
    })
}

/// After this the driver is initialised.
pub(crate) fn initialised() -> Result<(), cudaError_t> {
    let process = std::process::id();
    match INITIALISED.load(Ordering::Acquire) {
        0 => {
            cu!(cuInit(0))?;
            INITIALISED.store(process, Ordering::Release);
            Ok(())
        }
        id if id == process => Ok(()),
        // A forked child has neither contexts nor the device's threads.
        _ => Err(cudaError_t::cudaErrorInitializationError),
    }
}

/// After this the thread has a current context, and `__managed__` variables
/// have their addresses.
pub(crate) fn ready() -> Result<(), cudaError_t> {
    initialised()?;
    if current_context()? == CUcontext::NULL {
        cu!(cuCtxSetCurrent(primary(DEVICE.get())?))?;
    }
    crate::registry::load_managed()
}

fn current_context() -> Result<CUcontext, cudaError_t> {
    let mut context = CUcontext::NULL;
    cu!(cuCtxGetCurrent(&raw mut context))?;
    Ok(context)
}

/// The driver's device with this ordinal.
pub(crate) fn device_at(ordinal: i32) -> Result<CUdevice, cudaError_t> {
    initialised()?;
    let mut device = 0;
    cu!(cuDeviceGet(&raw mut device, ordinal)).map_err(|_| cudaError_t::cudaErrorInvalidDevice)?;
    Ok(device)
}

/// The primary context of a device, retained once per process.
pub(crate) fn primary(ordinal: i32) -> Result<CUcontext, cudaError_t> {
    if let Some(context) = PRIMARY.lock().get(&ordinal) {
        return Ok(*context);
    }
    let device = device_at(ordinal)?;
    let mut context = CUcontext::NULL;
    cu!(cuDevicePrimaryCtxRetain(&raw mut context, device))?;
    let earlier = PRIMARY.lock().insert(ordinal, context);
    if earlier.is_some() {
        // Another thread was first; one reference is enough.
        cu!(cuDevicePrimaryCtxRelease_v2(device))?;
    }
    Ok(context)
}

/// The primary context if this runtime already uses it.
pub(crate) fn primary_in_use(ordinal: i32) -> Option<CUcontext> {
    PRIMARY.lock().get(&ordinal).copied()
}

/// cudaSetDevice.
pub(crate) fn set_device(ordinal: i32) -> Result<(), cudaError_t> {
    let context = primary(ordinal)?;
    DEVICE.set(ordinal);
    cu!(cuCtxSetCurrent(context))?;
    crate::registry::load_managed()
}

/// The current device without making a context: that of the current context,
/// else what the thread chose.
pub(crate) fn device() -> Result<i32, cudaError_t> {
    initialised()?;
    if current_context()? == CUcontext::NULL {
        return Ok(DEVICE.get());
    }
    let mut device: CUdevice = 0;
    cu!(cuCtxGetDevice(&raw mut device))?;
    Ok(device)
}

/// cudaDeviceReset of the current device.
pub(crate) fn reset_device() -> Result<(), cudaError_t> {
    initialised()?;
    let ordinal = device()?;
    let device = device_at(ordinal)?;
    if PRIMARY.lock().remove(&ordinal).is_some() {
        cu!(cuCtxSetCurrent(CUcontext::NULL))?;
        cu!(cuDevicePrimaryCtxReset_v2(device))?;
    }
    Ok(())
}

/// In a `_ptsz` function stream 0 is the thread's own default stream.
pub(crate) fn per_thread(stream: CUstream) -> CUstream {
    if stream.0 == 0 {
        CUstream(u64::from(driver::sys::CU_STREAM_PER_THREAD))
    } else {
        stream
    }
}

/// Whether the driver is available; needs no context. For calls at exit, which
/// must not initialize anything.
pub(crate) fn started() -> bool {
    INITIALISED.load(Ordering::Acquire) == std::process::id() && API.get().is_some()
}

/// Version of the driver as cuDriverGetVersion gives it.
pub(crate) fn driver_version() -> Result<i32, cudaError_t> {
    let mut version = 0;
    let function = present(api()?.cuDriverGetVersion, "cuDriverGetVersion")?;
    // SAFETY: the table's own function; `version` outlives the call.
    check(unsafe { function(&raw mut version) })?;
    Ok(version)
}
