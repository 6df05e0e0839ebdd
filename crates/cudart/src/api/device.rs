//! Devices: choosing, describing, limits, versions, resets.

use crate::generated::types::*;
use crate::registry;
use crate::state::{self, device_at, ready};
use crate::table::Entry;
use driver::sys::{CUdevice, CUdevice_P2PAttribute, CUdevice_attribute, CUfunc_cache, CUlimit};
use std::ffi::c_char;

use super::library::CUDART_VERSION;

/// An attribute of a device; 0 where the driver does not have it.
pub(crate) fn attribute_or_zero(attribute: CUdevice_attribute, device: CUdevice) -> i32 {
    let mut value = 0;
    match (|| cu!(cuDeviceGetAttribute(&raw mut value, attribute, device)))() {
        Ok(()) => value,
        Err(_) => 0,
    }
}

/// What both versions' cudaDeviceProp hold, filled from the driver. The
/// fields have the same names in both; types differ in width only.
macro_rules! fill_properties {
    ($out:expr, $device:expr) => {{
        use driver::sys::CUdevice_attribute as A;
        let out = $out;
        let device = $device;
        let of = |attribute| crate::api::device::attribute_or_zero(attribute, device);
        let bytes = |attribute| usize::try_from(of(attribute)).unwrap_or(0);
        cu!(cuDeviceGetName(
            out.name.as_mut_ptr(),
            out.name.len() as i32,
            device
        ))?;
        cu!(cuDeviceTotalMem_v2(&raw mut out.totalGlobalMem, device))?;
        let mut uuid = driver::sys::CUuuid::zeroed();
        // A device without an identifier is described all the same.
        if (|| cu!(cuDeviceGetUuid_v2(&raw mut uuid, device)))().is_ok() {
            out.uuid.bytes = uuid.bytes;
        }
        out.sharedMemPerBlock = bytes(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
        out.regsPerBlock = of(A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
        out.warpSize = of(A::CU_DEVICE_ATTRIBUTE_WARP_SIZE);
        out.memPitch = bytes(A::CU_DEVICE_ATTRIBUTE_MAX_PITCH);
        out.maxThreadsPerBlock = of(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
        out.maxThreadsDim = [
            of(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X),
            of(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
            of(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z),
        ];
        out.maxGridSize = [
            of(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
            of(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
            of(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z),
        ];
        out.totalConstMem = bytes(A::CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
        out.major = of(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
        out.minor = of(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
        out.textureAlignment = bytes(A::CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
        out.texturePitchAlignment = bytes(A::CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT);
        out.multiProcessorCount = of(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
        out.integrated = of(A::CU_DEVICE_ATTRIBUTE_INTEGRATED);
        out.canMapHostMemory = of(A::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
        out.maxTexture1D = of(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH);
        out.maxTexture2D = [
            of(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH),
            of(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT),
        ];
        out.maxTexture3D = [
            of(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH),
            of(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT),
            of(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH),
        ];
        out.surfaceAlignment = bytes(A::CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT);
        out.concurrentKernels = of(A::CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
        out.ECCEnabled = of(A::CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
        out.pciBusID = of(A::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
        out.pciDeviceID = of(A::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
        out.pciDomainID = of(A::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
        out.tccDriver = of(A::CU_DEVICE_ATTRIBUTE_TCC_DRIVER);
        out.asyncEngineCount = of(A::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
        out.unifiedAddressing = of(A::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
        out.memoryBusWidth = of(A::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
        out.l2CacheSize = of(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
        out.persistingL2CacheMaxSize = of(A::CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE);
        out.maxThreadsPerMultiProcessor = of(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
        out.streamPrioritiesSupported = of(A::CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED);
        out.globalL1CacheSupported = of(A::CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED);
        out.localL1CacheSupported = of(A::CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED);
        out.sharedMemPerMultiprocessor =
            bytes(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
        out.regsPerMultiprocessor = of(A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
        out.managedMemory = of(A::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
        out.isMultiGpuBoard = of(A::CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD);
        out.multiGpuBoardGroupID = of(A::CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID);
        out.hostNativeAtomicSupported = of(A::CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED);
        out.pageableMemoryAccess = of(A::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
        out.concurrentManagedAccess = of(A::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
        out.computePreemptionSupported = of(A::CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED);
        out.canUseHostPointerForRegisteredMem =
            of(A::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
        out.cooperativeLaunch = of(A::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
        out.sharedMemPerBlockOptin =
            bytes(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
        out.pageableMemoryAccessUsesHostPageTables =
            of(A::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
        out.directManagedMemAccessFromHost =
            of(A::CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST);
        out.maxBlocksPerMultiProcessor = of(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
        out.accessPolicyMaxWindowSize = of(A::CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE);
        out.reservedSharedMemPerBlock =
            bytes(A::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
        out.hostRegisterSupported = of(A::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
        out.sparseCudaArraySupported = of(A::CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED);
        out.hostRegisterReadOnlySupported =
            of(A::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED);
        out.timelineSemaphoreInteropSupported =
            of(A::CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED);
        out.memoryPoolsSupported = of(A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
        out.gpuDirectRDMASupported = of(A::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
        out.memoryPoolSupportedHandleTypes =
            of(A::CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES) as u32;
        out.deferredMappingCudaArraySupported =
            of(A::CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED);
        out.ipcEventSupported = of(A::CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
        out.clusterLaunch = of(A::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
        out.unifiedFunctionPointers = of(A::CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS);
    }};
}
pub(crate) use fill_properties;

fn flags() -> Result<u32, cudaError_t> {
    let device = device_at(state::device()?)?;
    let (mut flags, mut active) = (0, 0);
    cu!(cuDevicePrimaryCtxGetState(
        device,
        &raw mut flags,
        &raw mut active
    ))?;
    Ok(flags)
}

runtime! {
    /// How many devices there are.
    fn cudaGetDeviceCount(count: *mut i32) {
        let mut devices = 0;
        let result = state::initialised().and_then(|()| cu!(cuDeviceGetCount(&raw mut devices)));
        put!(count, devices)?;
        result?;
        if devices == 0 { Err(cudaError_t::cudaErrorNoDevice) } else { Ok(()) }
    }

    /// Chooses the thread's device and makes its context current.
    fn cudaSetDevice(device: i32) {
        state::set_device(device)
    }

    /// Makes a device's context without choosing it.
    fn cudaInitDevice(device: i32, _deviceFlags: u32, _flags: u32) {
        state::primary(device).map(drop)
    }

    /// The thread's device.
    fn cudaGetDevice(device: *mut i32) {
        let current = state::device()?;
        put!(device, current)
    }

    /// Which devices may be chosen without asking: all are, in their order.
    fn cudaSetValidDevices(device_arr: *mut i32, len: i32) {
        for index in 0..usize::try_from(len).map_err(|_| cudaError_t::cudaErrorInvalidValue)? {
            // SAFETY: the program passes an array of `len` numbers.
            device_at(unsafe { device_arr.add(index).read() })?;
        }
        Ok(())
    }

    /// Sets how the host synchronizes.
    fn cudaSetDeviceFlags(flags: u32) {
        let device = device_at(state::device()?)?;
        cu!(cuDevicePrimaryCtxSetFlags_v2(device, flags))
    }

    /// How the host waits.
    fn cudaGetDeviceFlags(flags: *mut u32) {
        let set = self::flags()?;
        put!(flags, set)
    }

    /// Describes a device.
    fn cudaGetDeviceProperties(prop: *mut cudaDeviceProp, device: i32) {
        let device = device_at(device)?;
        // SAFETY: cudaDeviceProp consists of integers and arrays of them.
        let mut properties: cudaDeviceProp = unsafe { std::mem::zeroed() };
        fill_properties!(&mut properties, device);
        properties.hostNumaId = attribute_or_zero(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device);
        properties.deviceNumaConfig = attribute_or_zero(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_NUMA_CONFIG, device);
        properties.deviceNumaId = attribute_or_zero(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_NUMA_ID, device);
        put!(prop, properties)
    }

    /// One attribute of a device; the numbers are the driver's.
    fn cudaDeviceGetAttribute(value: *mut i32, attr: cudaDeviceAttr, device: i32) {
        let device = device_at(device)?;
        cu!(cuDeviceGetAttribute(value, CUdevice_attribute(attr.0), device))
    }

    /// The device that fits best: the first.
    fn cudaChooseDevice(device: *mut i32, prop: *const cudaDeviceProp) {
        device_at(0)?;
        get!(prop)?;
        put!(device, 0)
    }

    /// How two devices can talk.
    fn cudaDeviceGetP2PAttribute(value: *mut i32, attr: cudaDeviceP2PAttr, srcDevice: i32, dstDevice: i32) {
        let (from, to) = (device_at(srcDevice)?, device_at(dstDevice)?);
        cu!(cuDeviceGetP2PAttribute(value, CUdevice_P2PAttribute(attr.0), from, to))
    }

    /// A device by its place on the PCI bus.
    fn cudaDeviceGetByPCIBusId(device: *mut i32, pciBusId: *const c_char) {
        state::initialised()?;
        cu!(cuDeviceGetByPCIBusId(device, pciBusId))
    }

    /// A device's place on the PCI bus.
    fn cudaDeviceGetPCIBusId(pciBusId: *mut c_char, len: i32, device: i32) {
        let device = device_at(device)?;
        cu!(cuDeviceGetPCIBusId(pciBusId, len, device))
    }

    /// Waits for the device.
    fn cudaDeviceSynchronize() {
        ready()?;
        cu!(cuCtxSynchronize())
    }

    /// Destroys all that the process has on the device.
    fn cudaDeviceReset() {
        state::reset_device()?;
        registry::forget_addresses();
        Ok(())
    }

    /// Sets a limit.
    fn cudaDeviceSetLimit(limit: cudaLimit, value: usize) {
        ready()?;
        cu!(cuCtxSetLimit(CUlimit(limit.0), value))
    }

    /// A limit.
    fn cudaDeviceGetLimit(pValue: *mut usize, limit: cudaLimit) {
        ready()?;
        cu!(cuCtxGetLimit(pValue, CUlimit(limit.0)))
    }

    /// The preferred split of cache and shared memory.
    fn cudaDeviceGetCacheConfig(pCacheConfig: *mut cudaFuncCache) {
        ready()?;
        cu!(cuCtxGetCacheConfig(pCacheConfig.cast()))
    }

    /// Prefers a split of cache and shared memory.
    fn cudaDeviceSetCacheConfig(cacheConfig: cudaFuncCache) {
        ready()?;
        cu!(cuCtxSetCacheConfig(CUfunc_cache(cacheConfig.0)))
    }

    /// Bank size: devices since Maxwell have one only.
    fn cudaDeviceGetSharedMemConfig(pConfig: *mut cudaSharedMemConfig) {
        ready()?;
        put!(pConfig, cudaSharedMemConfig::cudaSharedMemBankSizeFourByte)
    }

    /// Bank size: devices since Maxwell have one only.
    fn cudaDeviceSetSharedMemConfig(_config: cudaSharedMemConfig) {
        ready()
    }

    /// Makes persisting lines of the cache ordinary ones.
    fn cudaCtxResetPersistingL2Cache() {
        ready()?;
        cu!(cuCtxResetPersistingL2Cache())
    }

    /// The driver's version, 0 without a driver.
    fn cudaDriverGetVersion(driverVersion: *mut i32) {
        let version = state::driver_version().unwrap_or(0);
        put!(driverVersion, version)
    }

    /// This runtime's version.
    fn cudaRuntimeGetVersion(runtimeVersion: *mut i32) {
        put!(runtimeVersion, CUDART_VERSION as i32)
    }

    /// Profilers attach to the driver; nothing to start here.
    [unchecked] fn cudaProfilerStart() {
        Ok(())
    }

    /// Profilers attach to the driver; nothing to stop here.
    [unchecked] fn cudaProfilerStop() {
        Ok(())
    }
}

/// Channel description from its parts.
pub extern "C" fn cudaCreateChannelDesc(
    x: i32,
    y: i32,
    z: i32,
    w: i32,
    f: cudaChannelFormatKind,
) -> cudaChannelFormatDesc {
    cudaChannelFormatDesc { x, y, z, w, f }
}

/// Functions that give no `cudaError_t`.
pub(crate) const OTHER: &[Entry] = &[Entry::new(
    "cudaCreateChannelDesc",
    cudaCreateChannelDesc as *const (),
)];
