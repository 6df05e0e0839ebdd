//! The real driver.
//!
//! Ringfence's own work on the device runs in a stream of its own, which does
//! not synchronize with the program's, and with the calling thread's capture
//! mode relaxed, so that it does not disturb a program that captures a stream.
//! It must never change the program's current context.

mod load;

/// Calls a function of the table and turns its result into a `DriverError`.
macro_rules! call {
    ($gpu:expr, $function:ident ( $($argument:expr),* $(,)? )) => {
        match $gpu.library.api.$function {
            // SAFETY: the table holds the driver's functions under cuda.h's
            // signatures; pointers among the arguments are to locals or to
            // slices whose lengths are passed along.
            Some(function) => check(stringify!($function), unsafe { function($($argument),*) }),
            None => Err(missing(stringify!($function))),
        }
    };
}

mod core_dump;
mod events;
mod support;

pub use load::{OLDEST_DRIVER, OWN_SYMBOL, OpenError};

use crate::sys::{
    CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_PORTABLE, CU_STREAM_LEGACY, CUcontext,
    CUdevice_attribute, CUlimit, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationProp,
    CUmemAllocationType, CUmemLocation, CUmemLocationType, CUpointer_attribute, CUresult, CUstream,
    CUstream_flags, CUstreamCaptureMode,
};
use crate::{
    Api, DeviceFailure, Driver, DriverError, Element, FailedKernel, HostMapping, Release,
    ReleaseCall, Store, StreamEvent, SupportKernel, SupportLaunch, SupportModule, SupportStream,
    kernel_error,
};
use load::Library;
use model::layout::heap::{HEAP_BASE, HEAP_RESERVED};
use model::layout::shadow::{SHADOW_BASE, SHADOW_SECTION};
use model::layout::{CONTROL_BASE, METADATA_RESERVED};
use model::{DeviceAddress, DeviceKind, Extent};
use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The real driver, loaded.
pub struct Gpu {
    library: Library,
    state: Mutex<State>,
    /// Unset until the metadata is mapped.
    reach: OnceLock<Reach>,
    /// The first device's name, once it was queried: while the process exits,
    /// the driver refuses all calls.
    name: OnceLock<String>,
    /// Where the driver writes core dumps, if it does.
    dump: OnceLock<core_dump::DumpFile>,
    /// What was in the first one.
    dumped: OnceLock<Option<FailedKernel>>,
}

/// Which devices' kernels reach the metadata.
struct Reach {
    devices: Vec<i32>,
    /// All that there are.
    everywhere: bool,
}

#[derive(Default)]
struct State {
    /// Own stream of each context that was used.
    streams: HashMap<CUcontext, CUstream>,
    /// The context in which metadata was mapped, for threads that have none.
    home: CUcontext,
    /// The address ranges that are reserved, by their first byte.
    reserved: Vec<u64>,
    /// What [`Gpu::peers`] answers for each device of placed memory.
    peers: HashMap<i32, Vec<i32>>,
    support: support::Support,
}

impl Gpu {
    /// Loads the driver's library from `path`, or from where it is found.
    ///
    /// # Errors
    /// There is none, it cannot be loaded, or it is older than 12.0.
    pub fn open(path: Option<&Path>) -> Result<Gpu, OpenError> {
        Ok(Gpu {
            library: Library::open(path)?,
            state: Mutex::default(),
            reach: OnceLock::new(),
            name: OnceLock::new(),
            dump: OnceLock::new(),
            dumped: OnceLock::new(),
        })
    }

    /// The driver's library, without loading it.
    ///
    /// # Errors
    /// There is none; the error lists where it was searched.
    pub fn find() -> Result<std::path::PathBuf, OpenError> {
        load::find()
    }

    /// Whether a driver library is where it would be searched for.
    pub fn is_installed() -> bool {
        load::find().is_ok()
    }

    /// The driver's functions.
    pub fn api(&self) -> &Api {
        &self.library.api
    }

    /// The file that was loaded.
    pub fn path(&self) -> &Path {
        &self.library.path
    }

    /// A function that cuda.h does not declare (cudaGL.h, cudaEGL.h and so
    /// on); null if the driver has none.
    pub fn symbol(&self, name: &CStr) -> *mut c_void {
        self.library.symbol(name)
    }

    /// Runs `work` with a context current and the capture mode relaxed.
    fn within<T>(
        &self,
        work: impl FnOnce(CUcontext) -> Result<T, DriverError>,
    ) -> Result<T, DriverError> {
        let mut current = CUcontext::NULL;
        call!(self, cuCtxGetCurrent(&mut current))?;
        let borrowed = current == CUcontext::NULL;
        if borrowed {
            current = self.lock().home;
            if current == CUcontext::NULL {
                return Err(DriverError {
                    call: "cuCtxGetCurrent",
                    code: CUresult::CUDA_ERROR_INVALID_CONTEXT,
                    message: "no context is current on this thread; this is an error in Ringfence"
                        .into(),
                });
            }
            call!(self, cuCtxPushCurrent_v2(current))?;
        }
        let result = self.relaxed(|| work(current));
        if borrowed {
            let mut popped = CUcontext::NULL;
            return call!(self, cuCtxPopCurrent_v2(&mut popped)).and(result);
        }
        result
    }

    /// Runs `work` with the calling thread's capture mode relaxed.
    fn relaxed<T>(&self, work: impl FnOnce() -> Result<T, DriverError>) -> Result<T, DriverError> {
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        call!(self, cuThreadExchangeStreamCaptureMode(&mut mode))?;
        let result = work();
        call!(self, cuThreadExchangeStreamCaptureMode(&mut mode)).and(result)
    }

    /// Runs `work` with a context of the program as the current one.
    fn in_context(
        &self,
        context: u64,
        work: impl FnOnce() -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        if self.current_context() == context {
            return work();
        }
        call!(self, cuCtxPushCurrent_v2(CUcontext(context)))?;
        let result = work();
        let mut popped = CUcontext::NULL;
        result.and(call!(self, cuCtxPopCurrent_v2(&mut popped)))
    }

    /// The own stream of a context, which must be current.
    fn stream(&self, context: CUcontext) -> Result<CUstream, DriverError> {
        if let Some(stream) = self.lock().streams.get(&context) {
            return Ok(*stream);
        }
        let mut stream = CUstream::NULL;
        call!(
            self,
            cuStreamCreate(&mut stream, CUstream_flags::CU_STREAM_NON_BLOCKING.0)
        )?;
        // Another thread may have made one meanwhile; both work.
        self.lock().streams.insert(context, stream);
        Ok(stream)
    }

    /// Runs asynchronous work on the own stream and waits for it alone.
    fn on_stream(
        &self,
        work: impl FnOnce(CUstream) -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        self.within(|context| {
            let stream = self.stream(context)?;
            work(stream)?;
            call!(self, cuStreamSynchronize(stream))
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing panics while it is held; the state is valid at any point.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves the addresses around `address`, once: see
    /// [`METADATA_RESERVED`] for why not piece by piece.
    fn reserve(&self, address: DeviceAddress) -> Result<(), DriverError> {
        let (wanted, size) = if address.0 >= HEAP_BASE {
            (HEAP_BASE, HEAP_RESERVED)
        } else if address.0 >= SHADOW_BASE {
            (address.0 & !(SHADOW_SECTION - 1), SHADOW_SECTION)
        } else {
            (CONTROL_BASE, METADATA_RESERVED)
        };
        self.reserve_at(wanted, size)
    }

    fn reserve_at(&self, wanted: u64, size: u64) -> Result<(), DriverError> {
        if self.lock().reserved.contains(&wanted) {
            return Ok(());
        }
        let bytes = size as usize;
        let mut base = 0;
        call!(self, cuMemAddressReserve(&mut base, bytes, 0, wanted, 0))?;
        if base != wanted {
            // The conflict is the error to return, not a failure to release.
            let _ = call!(self, cuMemAddressFree(base, bytes));
            return Err(taken("cuMemAddressReserve", DeviceAddress(wanted), size));
        }
        self.lock().reserved.push(wanted);
        Ok(())
    }

    /// Makes host memory visible to the device at the host's own address.
    fn register(&self, address: DeviceAddress, bytes: usize) -> Result<(), DriverError> {
        let memory = address.0 as *mut c_void;
        self.within(|_| {
            let flags = CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE;
            call!(self, cuMemHostRegister_v2(memory, bytes, flags))?;
            let mut seen = 0;
            call!(self, cuMemHostGetDevicePointer_v2(&mut seen, memory, 0))?;
            if seen != address.0 {
                // The first error is the one to return.
                let _ = call!(self, cuMemHostUnregister(memory));
                return Err(DriverError {
                    call: "cuMemHostGetDevicePointer",
                    code: CUresult::CUDA_ERROR_NOT_SUPPORTED,
                    message: format!(
                        "the device maps host memory at {seen:#x}, not at its own address {address}; Ringfence \
                         needs a device with unified addressing for registered memory"
                    ),
                });
            }
            Ok(())
        })
    }

    fn device(&self) -> Result<i32, DriverError> {
        let mut device = 0;
        call!(self, cuCtxGetDevice(&mut device))?;
        Ok(device)
    }

    /// The device itself and those that can access its memory.
    fn peers(&self, home: i32) -> Result<Reach, DriverError> {
        let mut count = 0;
        call!(self, cuDeviceGetCount(&mut count))?;
        let mut devices = vec![home];
        for ordinal in 0..count {
            let (mut device, mut can) = (0, 0);
            call!(self, cuDeviceGet(&mut device, ordinal))?;
            if device != home {
                call!(self, cuDeviceCanAccessPeer(&mut can, device, home))?;
                if can != 0 {
                    devices.push(device);
                }
            }
        }
        let everywhere = devices.len() as i64 >= i64::from(count);
        Ok(Reach {
            devices,
            everywhere,
        })
    }

    /// Physical memory of a device. `for_program`: other devices of the machine,
    /// such as network cards, may be to reach it, as they reach that of cuMemAlloc.
    fn create(&self, device: i32, bytes: usize, for_program: bool) -> Result<u64, DriverError> {
        let mut properties = CUmemAllocationProp::zeroed();
        properties.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = on_device(device);
        if for_program {
            let attribute =
                CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
            let mut capable = 0;
            let asked = call!(self, cuDeviceGetAttribute(&mut capable, attribute, device));
            properties.allocFlags.gpuDirectRDMACapable = u8::from(asked.is_ok() && capable != 0);
        }
        let mut handle = 0;
        call!(self, cuMemCreate(&mut handle, bytes, &properties, 0))?;
        Ok(handle)
    }

    /// Lets kernels of these devices access mapped memory.
    fn give_access(&self, address: u64, bytes: usize, devices: &[i32]) -> Result<(), DriverError> {
        let access: Vec<CUmemAccessDesc> = devices
            .iter()
            .map(|device| CUmemAccessDesc {
                location: on_device(*device),
                flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            })
            .collect();
        call!(
            self,
            cuMemSetAccess(address, bytes, access.as_ptr(), access.len())
        )
    }

    /// The device of the current context and those that can access its memory.
    fn peers_of_current(&self) -> Result<Vec<i32>, DriverError> {
        let device = self.device()?;
        if let Some(known) = self.lock().peers.get(&device) {
            return Ok(known.clone());
        }
        let devices = self.peers(device)?.devices;
        self.lock().peers.insert(device, devices.clone());
        Ok(devices)
    }

    /// Whether kernels of the current context's device reach the metadata.
    /// True while nothing is mapped yet: that device will be the one.
    pub fn reaches_current_device(&self) -> bool {
        match self.reach.get() {
            None => true,
            Some(reach) if reach.everywhere => true,
            Some(reach) => self
                .device()
                .is_ok_and(|device| reach.devices.contains(&device)),
        }
    }

    /// Whether kernels of every device reach them, as far as is known.
    pub fn reaches_all_devices(&self) -> bool {
        self.reach.get().is_none_or(|reach| reach.everywhere)
    }

    /// Removes the streams of a context that is being destroyed.
    pub fn context_destroyed(&self, context: CUcontext) {
        let mut state = self.lock();
        state.streams.remove(&context);
        state.support.forget(context);
        if state.home == context {
            state.home = CUcontext::NULL;
        }
    }
}

impl Driver for Gpu {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Gpu
    }

    fn name(&self) -> String {
        if let Some(known) = self.name.get() {
            return known.clone();
        }
        let read = || {
            let mut device = 0;
            let mut name = [0; 256];
            call!(self, cuDeviceGet(&mut device, 0)).ok()?;
            call!(
                self,
                cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, device)
            )
            .ok()?;
            let bytes = name.map(|byte| byte.cast_unsigned());
            Some(
                CStr::from_bytes_until_nul(&bytes)
                    .ok()?
                    .to_string_lossy()
                    .into_owned(),
            )
        };
        match read() {
            Some(name) => self.name.get_or_init(|| name).clone(),
            None => "NVIDIA GPU".into(),
        }
    }

    fn version(&self) -> u32 {
        self.library.version
    }

    fn compute_capability(&self) -> Result<u32, DriverError> {
        // A module may be loaded before there is a context (cuda-facts.md).
        let device = self.device().unwrap_or(0);
        let (mut major, mut minor) = (0, 0);
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
        call!(self, cuDeviceGetAttribute(&mut major, attribute, device))?;
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
        call!(self, cuDeviceGetAttribute(&mut minor, attribute, device))?;
        Ok((major * 10 + minor).max(0).cast_unsigned())
    }

    fn map_fixed(&self, address: DeviceAddress, size: u64) -> Result<(), DriverError> {
        let bytes = size as usize;
        self.within(|context| {
            let device = self.device()?;
            self.reserve(address)?;
            let handle = self.create(device, bytes, false)?;
            let mapped = call!(self, cuMemMap(address.0, bytes, 0, handle, 0));
            // The mapping holds its own reference.
            call!(self, cuMemRelease(handle)).and(mapped)?;
            let reach = match self.reach.get() {
                Some(reach) => reach,
                None => {
                    let peers = self.peers(device)?;
                    self.reach.get_or_init(|| peers)
                }
            };
            self.give_access(address.0, bytes, &reach.devices)?;
            self.lock().home = context;
            Ok(())
        })?;
        self.fill(address, 0, size / 4)
    }

    fn reserve_fixed(&self, extent: Extent) -> Result<(), DriverError> {
        self.relaxed(|| self.reserve_at(extent.base.0, extent.size))
    }

    fn create_memory(&self, size: u64) -> Result<u64, DriverError> {
        self.within(|_| self.create(self.device()?, size as usize, true))
    }

    fn map_memory(&self, extent: Extent, memory: u64) -> Result<(), DriverError> {
        let (address, bytes) = (extent.base.0, extent.size as usize);
        self.within(|_| {
            let devices = self.peers_of_current()?;
            call!(self, cuMemMap(address, bytes, 0, memory, 0))?;
            let given = self.give_access(address, bytes, &devices);
            if given.is_err() {
                // The first error is the one to return.
                let _ = call!(self, cuMemUnmap(address, bytes));
            }
            given
        })
    }

    fn unmap_memory(&self, extent: Extent) -> Result<(), DriverError> {
        self.relaxed(|| call!(self, cuMemUnmap(extent.base.0, extent.size as usize)))
    }

    fn release_memory(&self, memory: u64) -> Result<(), DriverError> {
        self.relaxed(|| call!(self, cuMemRelease(memory)))
    }

    fn total_memory(&self) -> Result<u64, DriverError> {
        let mut bytes = 0;
        call!(self, cuDeviceTotalMem_v2(&mut bytes, self.device()?))?;
        Ok(bytes as u64)
    }

    fn map_host_fixed(
        &self,
        address: DeviceAddress,
        size: u64,
    ) -> Result<HostMapping, DriverError> {
        let bytes = size as usize;
        let wanted = address.0 as *mut c_void;
        // SAFETY: a new anonymous mapping; MAP_FIXED_NOREPLACE never replaces
        // one that exists.
        let mapped = unsafe {
            libc::mmap(
                wanted,
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
                -1,
                0,
            )
        };
        if mapped != wanted {
            if mapped != libc::MAP_FAILED {
                // SAFETY: the mapping was made just now and nothing uses it.
                unsafe { libc::munmap(mapped, bytes) };
            }
            return Err(taken("mmap", address, size));
        }
        let undo = |error| {
            // SAFETY: made above, and not handed out.
            unsafe { libc::munmap(mapped, bytes) };
            error
        };
        self.register(address, bytes).map_err(undo)?;
        // SAFETY: mapped above, page-aligned, never unmapped from here on, and
        // reachable only through the mapping that is returned and the device.
        Ok(unsafe {
            HostMapping::from_mapped(Extent {
                base: address,
                size,
            })
        })
    }

    fn restore_host(&self, mapping: HostMapping) -> Result<(), DriverError> {
        let Extent { base, size } = mapping.extent();
        let seen = self.within(|_| {
            let mut seen = 0;
            call!(
                self,
                cuMemHostGetDevicePointer_v2(&mut seen, base.0 as *mut c_void, 0)
            )?;
            Ok(seen)
        });
        if seen == Ok(base.0) {
            return Ok(());
        }
        self.register(base, size as usize)
    }

    fn write(&self, address: DeviceAddress, bytes: &[u8]) -> Result<(), DriverError> {
        self.write_all(&[(address, bytes)])
    }

    fn fill(&self, address: DeviceAddress, value: u32, count: u64) -> Result<(), DriverError> {
        self.on_stream(|stream| {
            call!(
                self,
                cuMemsetD32Async(address.0, value, count as usize, stream)
            )
        })
    }

    fn fill_in_stream(
        &self,
        address: DeviceAddress,
        element: Element,
        count: u64,
        stream: SupportStream,
    ) -> Result<(), DriverError> {
        self.within(|context| {
            let (at, count) = (address.0, count as usize);
            let (stream, per_thread) = match stream {
                SupportStream::Program { handle, per_thread } => (CUstream(handle), per_thread),
                SupportStream::Own => (self.stream(context)?, false),
                SupportStream::Guard => (self.guard_stream(context)?, false),
            };
            match (element, per_thread) {
                (Element::Byte(value), true) => {
                    call!(self, cuMemsetD8Async_ptsz(at, value, count, stream))
                }
                (Element::Byte(value), false) => {
                    call!(self, cuMemsetD8Async(at, value, count, stream))
                }
                (Element::Word(value), true) => {
                    call!(self, cuMemsetD32Async_ptsz(at, value, count, stream))
                }
                (Element::Word(value), false) => {
                    call!(self, cuMemsetD32Async(at, value, count, stream))
                }
            }
        })
    }

    fn read(&self, address: DeviceAddress, bytes: &mut [u8]) -> Result<(), DriverError> {
        self.on_stream(|stream| {
            call!(
                self,
                cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr().cast(), address.0, bytes.len(), stream)
            )
        })
    }

    fn write_all(&self, writes: &[(DeviceAddress, &[u8])]) -> Result<(), DriverError> {
        self.on_stream(|stream| {
            writes.iter().try_for_each(|(address, bytes)| {
                call!(
                    self,
                    cuMemcpyHtoDAsync_v2(address.0, bytes.as_ptr().cast(), bytes.len(), stream)
                )
            })
        })
    }

    fn store_all(&self, stores: &[Store<'_>]) -> Result<(), DriverError> {
        self.on_stream(|stream| {
            stores.iter().try_for_each(|store| match *store {
                Store::Bytes(address, bytes) => call!(
                    self,
                    cuMemcpyHtoDAsync_v2(address.0, bytes.as_ptr().cast(), bytes.len(), stream)
                ),
                Store::Fill {
                    address,
                    value,
                    count,
                } => call!(
                    self,
                    cuMemsetD32Async(address.0, value, count as usize, stream)
                ),
            })
        })
    }

    fn load_support(&self, ptx: &'static str) -> Result<SupportModule, DriverError> {
        self.load_support_module(ptx)
    }

    fn support_kernel(
        &self,
        module: SupportModule,
        name: &str,
    ) -> Result<SupportKernel, DriverError> {
        self.find_support_kernel(module, name)
    }

    fn launch_support(
        &self,
        kernel: SupportKernel,
        launch: &SupportLaunch<'_>,
    ) -> Result<(), DriverError> {
        self.launch_support_kernel(kernel, launch)
    }

    fn wait_for_own(&self) -> Result<(), DriverError> {
        self.wait_for_own_stream()
    }

    fn with_context(
        &self,
        context: u64,
        work: &mut dyn FnMut() -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        self.in_context(context, work)
    }

    fn record_event(&self, stream: SupportStream) -> Result<StreamEvent, DriverError> {
        self.record_in_stream(stream)
    }

    fn wait_for_event(&self, event: StreamEvent) -> Result<(), DriverError> {
        self.wait_for_event(event)
    }

    fn is_over(&self, event: StreamEvent) -> Result<bool, DriverError> {
        self.is_event_over(event)
    }

    fn destroy_event(&self, event: StreamEvent) {
        self.destroy_event(event);
    }

    fn is_idle(&self, stream: SupportStream) -> Result<bool, DriverError> {
        self.is_stream_idle(stream)
    }

    fn allocation_of(&self, address: DeviceAddress) -> Option<Extent> {
        let mut base = 0u64;
        let mut size = 0usize;
        let start = CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR;
        call!(
            self,
            cuPointerGetAttribute((&raw mut base).cast(), start, address.0)
        )
        .ok()?;
        let length = CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE;
        call!(
            self,
            cuPointerGetAttribute((&raw mut size).cast(), length, address.0)
        )
        .ok()?;
        (size > 0).then_some(Extent {
            base: DeviceAddress(base),
            size: size as u64,
        })
    }

    fn failure(&self) -> Option<DeviceFailure> {
        if self.current_context() == 0 {
            return None;
        }
        let legacy = SupportStream::Program {
            handle: CU_STREAM_LEGACY.into(),
            per_thread: false,
        };
        let code = self.is_stream_idle(legacy).err()?.code;
        kernel_error(code)?;
        // Without a core dump, the driver reports no more than that.
        Some(DeviceFailure {
            code,
            kernel: self.dumped_kernel(),
            detail: String::new(),
            device_lacks: false,
        })
    }

    fn dump_failures(&self, file: &Path) -> Result<(), DriverError> {
        self.ask_for_dumps(file)
    }

    fn take_not_run(&self) -> Vec<u64> {
        Vec::new()
    }

    fn accesses_pageable_memory(&self) -> bool {
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS;
        let mut answer = 0;
        let asked = self
            .device()
            .and_then(|device| call!(self, cuDeviceGetAttribute(&mut answer, attribute, device)));
        asked.is_ok() && answer != 0
    }

    fn stack_limit(&self) -> Option<u64> {
        let mut bytes = 0;
        call!(
            self,
            cuCtxGetLimit(&mut bytes, CUlimit::CU_LIMIT_STACK_SIZE)
        )
        .ok()?;
        Some(bytes as u64)
    }

    fn set_stack_limit(&self, bytes: u64) -> Result<(), DriverError> {
        call!(
            self,
            cuCtxSetLimit(CUlimit::CU_LIMIT_STACK_SIZE, bytes as usize)
        )
    }

    fn current_context(&self) -> u64 {
        let mut context = CUcontext::NULL;
        match call!(self, cuCtxGetCurrent(&mut context)) {
            Ok(()) => context.0,
            Err(_) => 0,
        }
    }

    fn settle(&self, context: u64) -> Result<(), DriverError> {
        // cuMemFree waits for everything in the context, whatever the stream.
        self.in_context(context, || self.relaxed(|| call!(self, cuCtxSynchronize())))
    }

    fn release(&self, release: &Release) -> Result<(), DriverError> {
        let address = release.address.0;
        let give_back = || match release.call {
            ReleaseCall::Free => call!(self, cuMemFree_v2(address)),
            ReleaseCall::FreeHost => call!(self, cuMemFreeHost(address as *mut c_void)),
            ReleaseCall::FreeAsync { stream } => {
                call!(self, cuMemFreeAsync(address, CUstream(stream)))
            }
        };
        self.in_context(release.context, || self.relaxed(give_back))
    }
}

/// The memory of a device, as a place.
fn on_device(device: i32) -> CUmemLocation {
    CUmemLocation {
        type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        id: device,
    }
}

fn check(call: &'static str, result: CUresult) -> Result<(), DriverError> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let message = match result {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
            "the device has no memory left for Ringfence's tables".to_owned()
        }
        _ => result
            .name()
            .unwrap_or("an error that cuda.h does not list")
            .to_owned(),
    };
    Err(DriverError {
        call,
        code: result,
        message,
    })
}

fn missing(call: &'static str) -> DriverError {
    DriverError {
        call,
        code: CUresult::CUDA_ERROR_NOT_FOUND,
        message: "the driver does not export it; update the driver".into(),
    }
}

fn taken(call: &'static str, address: DeviceAddress, size: u64) -> DriverError {
    DriverError {
        call,
        code: CUresult::CUDA_ERROR_OUT_OF_MEMORY,
        message: format!(
            "the address range {address} to {:#x}, which Ringfence needs, is in use; \
             check for another tool in the process that reserves it (sanitizers, other interposers)",
            address.0 + size
        ),
    }
}
