// Written by `cargo xtask generate` from the CUDA 13.0 toolchain; do not edit.
//! Each function of cuda_runtime_api.h as a function pointer type, which the
//! implementations are checked against.
#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all
)]

use super::types::*;
use std::ffi::{c_char, c_void};

pub type cudaDeviceReset = unsafe extern "C" fn() -> cudaError_t;
pub type cudaDeviceSynchronize = unsafe extern "C" fn() -> cudaError_t;
pub type cudaDeviceSetLimit = unsafe extern "C" fn(limit: cudaLimit, value: usize) -> cudaError_t;
pub type cudaDeviceGetLimit = unsafe extern "C" fn(pValue: *mut usize, limit: cudaLimit) -> cudaError_t;
pub type cudaDeviceGetTexture1DLinearMaxWidth = unsafe extern "C" fn(
    maxWidthInElements: *mut usize,
    fmtDesc: *const cudaChannelFormatDesc,
    device: i32,
) -> cudaError_t;
pub type cudaDeviceGetCacheConfig = unsafe extern "C" fn(pCacheConfig: *mut cudaFuncCache) -> cudaError_t;
pub type cudaDeviceGetStreamPriorityRange =
    unsafe extern "C" fn(leastPriority: *mut i32, greatestPriority: *mut i32) -> cudaError_t;
pub type cudaDeviceSetCacheConfig = unsafe extern "C" fn(cacheConfig: cudaFuncCache) -> cudaError_t;
pub type cudaDeviceGetByPCIBusId = unsafe extern "C" fn(device: *mut i32, pciBusId: *const c_char) -> cudaError_t;
pub type cudaDeviceGetPCIBusId = unsafe extern "C" fn(pciBusId: *mut c_char, len: i32, device: i32) -> cudaError_t;
pub type cudaIpcGetEventHandle =
    unsafe extern "C" fn(handle: *mut cudaIpcEventHandle_t, event: cudaEvent_t) -> cudaError_t;
pub type cudaIpcOpenEventHandle =
    unsafe extern "C" fn(event: *mut cudaEvent_t, handle: cudaIpcEventHandle_t) -> cudaError_t;
pub type cudaIpcGetMemHandle =
    unsafe extern "C" fn(handle: *mut cudaIpcMemHandle_t, devPtr: *mut c_void) -> cudaError_t;
pub type cudaIpcOpenMemHandle =
    unsafe extern "C" fn(devPtr: *mut *mut c_void, handle: cudaIpcMemHandle_t, flags: u32) -> cudaError_t;
pub type cudaIpcCloseMemHandle = unsafe extern "C" fn(devPtr: *mut c_void) -> cudaError_t;
pub type cudaDeviceFlushGPUDirectRDMAWrites = unsafe extern "C" fn(
    target: cudaFlushGPUDirectRDMAWritesTarget,
    scope: cudaFlushGPUDirectRDMAWritesScope,
) -> cudaError_t;
pub type cudaDeviceRegisterAsyncNotification = unsafe extern "C" fn(
    device: i32,
    callbackFunc: cudaAsyncCallback,
    userData: *mut c_void,
    callback: *mut cudaAsyncCallbackHandle_t,
) -> cudaError_t;
pub type cudaDeviceUnregisterAsyncNotification =
    unsafe extern "C" fn(device: i32, callback: cudaAsyncCallbackHandle_t) -> cudaError_t;
pub type cudaDeviceGetSharedMemConfig = unsafe extern "C" fn(pConfig: *mut cudaSharedMemConfig) -> cudaError_t;
pub type cudaDeviceSetSharedMemConfig = unsafe extern "C" fn(config: cudaSharedMemConfig) -> cudaError_t;
pub type cudaGetLastError = unsafe extern "C" fn() -> cudaError_t;
pub type cudaPeekAtLastError = unsafe extern "C" fn() -> cudaError_t;
pub type cudaGetErrorName = unsafe extern "C" fn(error: cudaError_t) -> *const c_char;
pub type cudaGetErrorString = unsafe extern "C" fn(error: cudaError_t) -> *const c_char;
pub type cudaGetDeviceCount = unsafe extern "C" fn(count: *mut i32) -> cudaError_t;
pub type cudaGetDeviceProperties = unsafe extern "C" fn(prop: *mut cudaDeviceProp, device: i32) -> cudaError_t;
pub type cudaDeviceGetAttribute =
    unsafe extern "C" fn(value: *mut i32, attr: cudaDeviceAttr, device: i32) -> cudaError_t;
pub type cudaDeviceGetHostAtomicCapabilities = unsafe extern "C" fn(
    capabilities: *mut u32,
    operations: *const cudaAtomicOperation,
    count: u32,
    device: i32,
) -> cudaError_t;
pub type cudaDeviceGetDefaultMemPool = unsafe extern "C" fn(memPool: *mut cudaMemPool_t, device: i32) -> cudaError_t;
pub type cudaDeviceSetMemPool = unsafe extern "C" fn(device: i32, memPool: cudaMemPool_t) -> cudaError_t;
pub type cudaDeviceGetMemPool = unsafe extern "C" fn(memPool: *mut cudaMemPool_t, device: i32) -> cudaError_t;
pub type cudaDeviceGetNvSciSyncAttributes =
    unsafe extern "C" fn(nvSciSyncAttrList: *mut c_void, device: i32, flags: i32) -> cudaError_t;
pub type cudaDeviceGetP2PAttribute =
    unsafe extern "C" fn(value: *mut i32, attr: cudaDeviceP2PAttr, srcDevice: i32, dstDevice: i32) -> cudaError_t;
pub type cudaDeviceGetP2PAtomicCapabilities = unsafe extern "C" fn(
    capabilities: *mut u32,
    operations: *const cudaAtomicOperation,
    count: u32,
    srcDevice: i32,
    dstDevice: i32,
) -> cudaError_t;
pub type cudaChooseDevice = unsafe extern "C" fn(device: *mut i32, prop: *const cudaDeviceProp) -> cudaError_t;
pub type cudaInitDevice = unsafe extern "C" fn(device: i32, deviceFlags: u32, flags: u32) -> cudaError_t;
pub type cudaSetDevice = unsafe extern "C" fn(device: i32) -> cudaError_t;
pub type cudaGetDevice = unsafe extern "C" fn(device: *mut i32) -> cudaError_t;
pub type cudaSetValidDevices = unsafe extern "C" fn(device_arr: *mut i32, len: i32) -> cudaError_t;
pub type cudaSetDeviceFlags = unsafe extern "C" fn(flags: u32) -> cudaError_t;
pub type cudaGetDeviceFlags = unsafe extern "C" fn(flags: *mut u32) -> cudaError_t;
pub type cudaStreamCreate = unsafe extern "C" fn(pStream: *mut cudaStream_t) -> cudaError_t;
pub type cudaStreamCreateWithFlags = unsafe extern "C" fn(pStream: *mut cudaStream_t, flags: u32) -> cudaError_t;
pub type cudaStreamCreateWithPriority =
    unsafe extern "C" fn(pStream: *mut cudaStream_t, flags: u32, priority: i32) -> cudaError_t;
pub type cudaStreamGetPriority = unsafe extern "C" fn(hStream: cudaStream_t, priority: *mut i32) -> cudaError_t;
pub type cudaStreamGetFlags = unsafe extern "C" fn(hStream: cudaStream_t, flags: *mut u32) -> cudaError_t;
pub type cudaStreamGetId = unsafe extern "C" fn(hStream: cudaStream_t, streamId: *mut u64) -> cudaError_t;
pub type cudaStreamGetDevice = unsafe extern "C" fn(hStream: cudaStream_t, device: *mut i32) -> cudaError_t;
pub type cudaCtxResetPersistingL2Cache = unsafe extern "C" fn() -> cudaError_t;
pub type cudaStreamCopyAttributes = unsafe extern "C" fn(dst: cudaStream_t, src: cudaStream_t) -> cudaError_t;
pub type cudaStreamGetAttribute = unsafe extern "C" fn(
    hStream: cudaStream_t,
    attr: cudaLaunchAttributeID,
    value_out: *mut cudaLaunchAttributeValue,
) -> cudaError_t;
pub type cudaStreamSetAttribute = unsafe extern "C" fn(
    hStream: cudaStream_t,
    attr: cudaLaunchAttributeID,
    value: *const cudaLaunchAttributeValue,
) -> cudaError_t;
pub type cudaStreamDestroy = unsafe extern "C" fn(stream: cudaStream_t) -> cudaError_t;
pub type cudaStreamWaitEvent =
    unsafe extern "C" fn(stream: cudaStream_t, event: cudaEvent_t, flags: u32) -> cudaError_t;
pub type cudaStreamAddCallback = unsafe extern "C" fn(
    stream: cudaStream_t,
    callback: cudaStreamCallback_t,
    userData: *mut c_void,
    flags: u32,
) -> cudaError_t;
pub type cudaStreamSynchronize = unsafe extern "C" fn(stream: cudaStream_t) -> cudaError_t;
pub type cudaStreamQuery = unsafe extern "C" fn(stream: cudaStream_t) -> cudaError_t;
pub type cudaStreamAttachMemAsync =
    unsafe extern "C" fn(stream: cudaStream_t, devPtr: *mut c_void, length: usize, flags: u32) -> cudaError_t;
pub type cudaStreamBeginCapture =
    unsafe extern "C" fn(stream: cudaStream_t, mode: cudaStreamCaptureMode) -> cudaError_t;
pub type cudaStreamBeginCaptureToGraph = unsafe extern "C" fn(
    stream: cudaStream_t,
    graph: cudaGraph_t,
    dependencies: *const cudaGraphNode_t,
    dependencyData: *const cudaGraphEdgeData,
    numDependencies: usize,
    mode: cudaStreamCaptureMode,
) -> cudaError_t;
pub type cudaThreadExchangeStreamCaptureMode = unsafe extern "C" fn(mode: *mut cudaStreamCaptureMode) -> cudaError_t;
pub type cudaStreamEndCapture = unsafe extern "C" fn(stream: cudaStream_t, pGraph: *mut cudaGraph_t) -> cudaError_t;
pub type cudaStreamIsCapturing =
    unsafe extern "C" fn(stream: cudaStream_t, pCaptureStatus: *mut cudaStreamCaptureStatus) -> cudaError_t;
pub type cudaStreamGetCaptureInfo = unsafe extern "C" fn(
    stream: cudaStream_t,
    captureStatus_out: *mut cudaStreamCaptureStatus,
    id_out: *mut u64,
    graph_out: *mut cudaGraph_t,
    dependencies_out: *mut *const cudaGraphNode_t,
    edgeData_out: *mut *const cudaGraphEdgeData,
    numDependencies_out: *mut usize,
) -> cudaError_t;
pub type cudaStreamUpdateCaptureDependencies = unsafe extern "C" fn(
    stream: cudaStream_t,
    dependencies: *mut cudaGraphNode_t,
    dependencyData: *const cudaGraphEdgeData,
    numDependencies: usize,
    flags: u32,
) -> cudaError_t;
pub type cudaEventCreate = unsafe extern "C" fn(event: *mut cudaEvent_t) -> cudaError_t;
pub type cudaEventCreateWithFlags = unsafe extern "C" fn(event: *mut cudaEvent_t, flags: u32) -> cudaError_t;
pub type cudaEventRecord = unsafe extern "C" fn(event: cudaEvent_t, stream: cudaStream_t) -> cudaError_t;
pub type cudaEventRecordWithFlags =
    unsafe extern "C" fn(event: cudaEvent_t, stream: cudaStream_t, flags: u32) -> cudaError_t;
pub type cudaEventQuery = unsafe extern "C" fn(event: cudaEvent_t) -> cudaError_t;
pub type cudaEventSynchronize = unsafe extern "C" fn(event: cudaEvent_t) -> cudaError_t;
pub type cudaEventDestroy = unsafe extern "C" fn(event: cudaEvent_t) -> cudaError_t;
pub type cudaEventElapsedTime = unsafe extern "C" fn(ms: *mut f32, start: cudaEvent_t, end: cudaEvent_t) -> cudaError_t;
pub type cudaImportExternalMemory = unsafe extern "C" fn(
    extMem_out: *mut cudaExternalMemory_t,
    memHandleDesc: *const cudaExternalMemoryHandleDesc,
) -> cudaError_t;
pub type cudaExternalMemoryGetMappedBuffer = unsafe extern "C" fn(
    devPtr: *mut *mut c_void,
    extMem: cudaExternalMemory_t,
    bufferDesc: *const cudaExternalMemoryBufferDesc,
) -> cudaError_t;
pub type cudaExternalMemoryGetMappedMipmappedArray = unsafe extern "C" fn(
    mipmap: *mut cudaMipmappedArray_t,
    extMem: cudaExternalMemory_t,
    mipmapDesc: *const cudaExternalMemoryMipmappedArrayDesc,
) -> cudaError_t;
pub type cudaDestroyExternalMemory = unsafe extern "C" fn(extMem: cudaExternalMemory_t) -> cudaError_t;
pub type cudaImportExternalSemaphore = unsafe extern "C" fn(
    extSem_out: *mut cudaExternalSemaphore_t,
    semHandleDesc: *const cudaExternalSemaphoreHandleDesc,
) -> cudaError_t;
pub type cudaSignalExternalSemaphoresAsync = unsafe extern "C" fn(
    extSemArray: *const cudaExternalSemaphore_t,
    paramsArray: *const cudaExternalSemaphoreSignalParams,
    numExtSems: u32,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaWaitExternalSemaphoresAsync = unsafe extern "C" fn(
    extSemArray: *const cudaExternalSemaphore_t,
    paramsArray: *const cudaExternalSemaphoreWaitParams,
    numExtSems: u32,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaDestroyExternalSemaphore = unsafe extern "C" fn(extSem: cudaExternalSemaphore_t) -> cudaError_t;
pub type cudaLaunchKernel = unsafe extern "C" fn(
    func: *const c_void,
    gridDim: dim3,
    blockDim: dim3,
    args: *mut *mut c_void,
    sharedMem: usize,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaLaunchKernelExC =
    unsafe extern "C" fn(config: *const cudaLaunchConfig_t, func: *const c_void, args: *mut *mut c_void) -> cudaError_t;
pub type cudaLaunchCooperativeKernel = unsafe extern "C" fn(
    func: *const c_void,
    gridDim: dim3,
    blockDim: dim3,
    args: *mut *mut c_void,
    sharedMem: usize,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaFuncSetCacheConfig = unsafe extern "C" fn(func: *const c_void, cacheConfig: cudaFuncCache) -> cudaError_t;
pub type cudaFuncGetAttributes =
    unsafe extern "C" fn(attr: *mut cudaFuncAttributes, func: *const c_void) -> cudaError_t;
pub type cudaFuncSetAttribute =
    unsafe extern "C" fn(func: *const c_void, attr: cudaFuncAttribute, value: i32) -> cudaError_t;
pub type cudaFuncGetName = unsafe extern "C" fn(name: *mut *const c_char, func: *const c_void) -> cudaError_t;
pub type cudaFuncGetParamInfo = unsafe extern "C" fn(
    func: *const c_void,
    paramIndex: usize,
    paramOffset: *mut usize,
    paramSize: *mut usize,
) -> cudaError_t;
pub type cudaLaunchHostFunc =
    unsafe extern "C" fn(stream: cudaStream_t, r#fn: cudaHostFn_t, userData: *mut c_void) -> cudaError_t;
pub type cudaFuncSetSharedMemConfig =
    unsafe extern "C" fn(func: *const c_void, config: cudaSharedMemConfig) -> cudaError_t;
pub type cudaOccupancyMaxActiveBlocksPerMultiprocessor = unsafe extern "C" fn(
    numBlocks: *mut i32,
    func: *const c_void,
    blockSize: i32,
    dynamicSMemSize: usize,
) -> cudaError_t;
pub type cudaOccupancyAvailableDynamicSMemPerBlock = unsafe extern "C" fn(
    dynamicSmemSize: *mut usize,
    func: *const c_void,
    numBlocks: i32,
    blockSize: i32,
) -> cudaError_t;
pub type cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags = unsafe extern "C" fn(
    numBlocks: *mut i32,
    func: *const c_void,
    blockSize: i32,
    dynamicSMemSize: usize,
    flags: u32,
) -> cudaError_t;
pub type cudaOccupancyMaxPotentialClusterSize = unsafe extern "C" fn(
    clusterSize: *mut i32,
    func: *const c_void,
    launchConfig: *const cudaLaunchConfig_t,
) -> cudaError_t;
pub type cudaOccupancyMaxActiveClusters = unsafe extern "C" fn(
    numClusters: *mut i32,
    func: *const c_void,
    launchConfig: *const cudaLaunchConfig_t,
) -> cudaError_t;
pub type cudaMallocManaged = unsafe extern "C" fn(devPtr: *mut *mut c_void, size: usize, flags: u32) -> cudaError_t;
pub type cudaMalloc = unsafe extern "C" fn(devPtr: *mut *mut c_void, size: usize) -> cudaError_t;
pub type cudaMallocHost = unsafe extern "C" fn(ptr: *mut *mut c_void, size: usize) -> cudaError_t;
pub type cudaMallocPitch =
    unsafe extern "C" fn(devPtr: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) -> cudaError_t;
pub type cudaMallocArray = unsafe extern "C" fn(
    array: *mut cudaArray_t,
    desc: *const cudaChannelFormatDesc,
    width: usize,
    height: usize,
    flags: u32,
) -> cudaError_t;
pub type cudaFree = unsafe extern "C" fn(devPtr: *mut c_void) -> cudaError_t;
pub type cudaFreeHost = unsafe extern "C" fn(ptr: *mut c_void) -> cudaError_t;
pub type cudaFreeArray = unsafe extern "C" fn(array: cudaArray_t) -> cudaError_t;
pub type cudaFreeMipmappedArray = unsafe extern "C" fn(mipmappedArray: cudaMipmappedArray_t) -> cudaError_t;
pub type cudaHostAlloc = unsafe extern "C" fn(pHost: *mut *mut c_void, size: usize, flags: u32) -> cudaError_t;
pub type cudaHostRegister = unsafe extern "C" fn(ptr: *mut c_void, size: usize, flags: u32) -> cudaError_t;
pub type cudaHostUnregister = unsafe extern "C" fn(ptr: *mut c_void) -> cudaError_t;
pub type cudaHostGetDevicePointer =
    unsafe extern "C" fn(pDevice: *mut *mut c_void, pHost: *mut c_void, flags: u32) -> cudaError_t;
pub type cudaHostGetFlags = unsafe extern "C" fn(pFlags: *mut u32, pHost: *mut c_void) -> cudaError_t;
pub type cudaMalloc3D = unsafe extern "C" fn(pitchedDevPtr: *mut cudaPitchedPtr, extent: cudaExtent) -> cudaError_t;
pub type cudaMalloc3DArray = unsafe extern "C" fn(
    array: *mut cudaArray_t,
    desc: *const cudaChannelFormatDesc,
    extent: cudaExtent,
    flags: u32,
) -> cudaError_t;
pub type cudaMallocMipmappedArray = unsafe extern "C" fn(
    mipmappedArray: *mut cudaMipmappedArray_t,
    desc: *const cudaChannelFormatDesc,
    extent: cudaExtent,
    numLevels: u32,
    flags: u32,
) -> cudaError_t;
pub type cudaGetMipmappedArrayLevel = unsafe extern "C" fn(
    levelArray: *mut cudaArray_t,
    mipmappedArray: cudaMipmappedArray_const_t,
    level: u32,
) -> cudaError_t;
pub type cudaMemcpy3D = unsafe extern "C" fn(p: *const cudaMemcpy3DParms) -> cudaError_t;
pub type cudaMemcpy3DPeer = unsafe extern "C" fn(p: *const cudaMemcpy3DPeerParms) -> cudaError_t;
pub type cudaMemcpy3DAsync = unsafe extern "C" fn(p: *const cudaMemcpy3DParms, stream: cudaStream_t) -> cudaError_t;
pub type cudaMemcpy3DPeerAsync =
    unsafe extern "C" fn(p: *const cudaMemcpy3DPeerParms, stream: cudaStream_t) -> cudaError_t;
pub type cudaMemGetInfo = unsafe extern "C" fn(free: *mut usize, total: *mut usize) -> cudaError_t;
pub type cudaArrayGetInfo = unsafe extern "C" fn(
    desc: *mut cudaChannelFormatDesc,
    extent: *mut cudaExtent,
    flags: *mut u32,
    array: cudaArray_t,
) -> cudaError_t;
pub type cudaArrayGetPlane =
    unsafe extern "C" fn(pPlaneArray: *mut cudaArray_t, hArray: cudaArray_t, planeIdx: u32) -> cudaError_t;
pub type cudaArrayGetMemoryRequirements = unsafe extern "C" fn(
    memoryRequirements: *mut cudaArrayMemoryRequirements,
    array: cudaArray_t,
    device: i32,
) -> cudaError_t;
pub type cudaMipmappedArrayGetMemoryRequirements = unsafe extern "C" fn(
    memoryRequirements: *mut cudaArrayMemoryRequirements,
    mipmap: cudaMipmappedArray_t,
    device: i32,
) -> cudaError_t;
pub type cudaArrayGetSparseProperties =
    unsafe extern "C" fn(sparseProperties: *mut cudaArraySparseProperties, array: cudaArray_t) -> cudaError_t;
pub type cudaMipmappedArrayGetSparseProperties =
    unsafe extern "C" fn(sparseProperties: *mut cudaArraySparseProperties, mipmap: cudaMipmappedArray_t) -> cudaError_t;
pub type cudaMemcpy =
    unsafe extern "C" fn(dst: *mut c_void, src: *const c_void, count: usize, kind: cudaMemcpyKind) -> cudaError_t;
pub type cudaMemcpyPeer = unsafe extern "C" fn(
    dst: *mut c_void,
    dstDevice: i32,
    src: *const c_void,
    srcDevice: i32,
    count: usize,
) -> cudaError_t;
pub type cudaMemcpy2D = unsafe extern "C" fn(
    dst: *mut c_void,
    dpitch: usize,
    src: *const c_void,
    spitch: usize,
    width: usize,
    height: usize,
    kind: cudaMemcpyKind,
) -> cudaError_t;
pub type cudaMemcpy2DToArray = unsafe extern "C" fn(
    dst: cudaArray_t,
    wOffset: usize,
    hOffset: usize,
    src: *const c_void,
    spitch: usize,
    width: usize,
    height: usize,
    kind: cudaMemcpyKind,
) -> cudaError_t;
pub type cudaMemcpy2DFromArray = unsafe extern "C" fn(
    dst: *mut c_void,
    dpitch: usize,
    src: cudaArray_const_t,
    wOffset: usize,
    hOffset: usize,
    width: usize,
    height: usize,
    kind: cudaMemcpyKind,
) -> cudaError_t;
pub type cudaMemcpy2DArrayToArray = unsafe extern "C" fn(
    dst: cudaArray_t,
    wOffsetDst: usize,
    hOffsetDst: usize,
    src: cudaArray_const_t,
    wOffsetSrc: usize,
    hOffsetSrc: usize,
    width: usize,
    height: usize,
    kind: cudaMemcpyKind,
) -> cudaError_t;
pub type cudaMemcpyToSymbol = unsafe extern "C" fn(
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
) -> cudaError_t;
pub type cudaMemcpyFromSymbol = unsafe extern "C" fn(
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
) -> cudaError_t;
pub type cudaMemcpyAsync = unsafe extern "C" fn(
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: cudaMemcpyKind,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaMemcpyPeerAsync = unsafe extern "C" fn(
    dst: *mut c_void,
    dstDevice: i32,
    src: *const c_void,
    srcDevice: i32,
    count: usize,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaMemcpyBatchAsync = unsafe extern "C" fn(
    dsts: *const *mut c_void,
    srcs: *const *const c_void,
    sizes: *const usize,
    count: usize,
    attrs: *mut cudaMemcpyAttributes,
    attrsIdxs: *mut usize,
    numAttrs: usize,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaMemcpy3DBatchAsync = unsafe extern "C" fn(
    numOps: usize,
    opList: *mut cudaMemcpy3DBatchOp,
    flags: u64,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaMemcpy2DAsync = unsafe extern "C" fn(
    dst: *mut c_void,
    dpitch: usize,
    src: *const c_void,
    spitch: usize,
    width: usize,
    height: usize,
    kind: cudaMemcpyKind,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaMemcpy2DToArrayAsync = unsafe extern "C" fn(
    dst: cudaArray_t,
    wOffset: usize,
    hOffset: usize,
    src: *const c_void,
    spitch: usize,
    width: usize,
    height: usize,
    kind: cudaMemcpyKind,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaMemcpy2DFromArrayAsync = unsafe extern "C" fn(
    dst: *mut c_void,
    dpitch: usize,
    src: cudaArray_const_t,
    wOffset: usize,
    hOffset: usize,
    width: usize,
    height: usize,
    kind: cudaMemcpyKind,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaMemcpyToSymbolAsync = unsafe extern "C" fn(
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaMemcpyFromSymbolAsync = unsafe extern "C" fn(
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaMemset = unsafe extern "C" fn(devPtr: *mut c_void, value: i32, count: usize) -> cudaError_t;
pub type cudaMemset2D =
    unsafe extern "C" fn(devPtr: *mut c_void, pitch: usize, value: i32, width: usize, height: usize) -> cudaError_t;
pub type cudaMemset3D =
    unsafe extern "C" fn(pitchedDevPtr: cudaPitchedPtr, value: i32, extent: cudaExtent) -> cudaError_t;
pub type cudaMemsetAsync =
    unsafe extern "C" fn(devPtr: *mut c_void, value: i32, count: usize, stream: cudaStream_t) -> cudaError_t;
pub type cudaMemset2DAsync = unsafe extern "C" fn(
    devPtr: *mut c_void,
    pitch: usize,
    value: i32,
    width: usize,
    height: usize,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaMemset3DAsync = unsafe extern "C" fn(
    pitchedDevPtr: cudaPitchedPtr,
    value: i32,
    extent: cudaExtent,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaGetSymbolAddress = unsafe extern "C" fn(devPtr: *mut *mut c_void, symbol: *const c_void) -> cudaError_t;
pub type cudaGetSymbolSize = unsafe extern "C" fn(size: *mut usize, symbol: *const c_void) -> cudaError_t;
pub type cudaMemPrefetchAsync = unsafe extern "C" fn(
    devPtr: *const c_void,
    count: usize,
    location: cudaMemLocation,
    flags: u32,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaMemPrefetchBatchAsync = unsafe extern "C" fn(
    dptrs: *mut *mut c_void,
    sizes: *mut usize,
    count: usize,
    prefetchLocs: *mut cudaMemLocation,
    prefetchLocIdxs: *mut usize,
    numPrefetchLocs: usize,
    flags: u64,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaMemDiscardBatchAsync = unsafe extern "C" fn(
    dptrs: *mut *mut c_void,
    sizes: *mut usize,
    count: usize,
    flags: u64,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaMemDiscardAndPrefetchBatchAsync = unsafe extern "C" fn(
    dptrs: *mut *mut c_void,
    sizes: *mut usize,
    count: usize,
    prefetchLocs: *mut cudaMemLocation,
    prefetchLocIdxs: *mut usize,
    numPrefetchLocs: usize,
    flags: u64,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaMemAdvise = unsafe extern "C" fn(
    devPtr: *const c_void,
    count: usize,
    advice: cudaMemoryAdvise,
    location: cudaMemLocation,
) -> cudaError_t;
pub type cudaMemRangeGetAttribute = unsafe extern "C" fn(
    data: *mut c_void,
    dataSize: usize,
    attribute: cudaMemRangeAttribute,
    devPtr: *const c_void,
    count: usize,
) -> cudaError_t;
pub type cudaMemRangeGetAttributes = unsafe extern "C" fn(
    data: *mut *mut c_void,
    dataSizes: *mut usize,
    attributes: *mut cudaMemRangeAttribute,
    numAttributes: usize,
    devPtr: *const c_void,
    count: usize,
) -> cudaError_t;
pub type cudaMemcpyToArray = unsafe extern "C" fn(
    dst: cudaArray_t,
    wOffset: usize,
    hOffset: usize,
    src: *const c_void,
    count: usize,
    kind: cudaMemcpyKind,
) -> cudaError_t;
pub type cudaMemcpyFromArray = unsafe extern "C" fn(
    dst: *mut c_void,
    src: cudaArray_const_t,
    wOffset: usize,
    hOffset: usize,
    count: usize,
    kind: cudaMemcpyKind,
) -> cudaError_t;
pub type cudaMemcpyArrayToArray = unsafe extern "C" fn(
    dst: cudaArray_t,
    wOffsetDst: usize,
    hOffsetDst: usize,
    src: cudaArray_const_t,
    wOffsetSrc: usize,
    hOffsetSrc: usize,
    count: usize,
    kind: cudaMemcpyKind,
) -> cudaError_t;
pub type cudaMemcpyToArrayAsync = unsafe extern "C" fn(
    dst: cudaArray_t,
    wOffset: usize,
    hOffset: usize,
    src: *const c_void,
    count: usize,
    kind: cudaMemcpyKind,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaMemcpyFromArrayAsync = unsafe extern "C" fn(
    dst: *mut c_void,
    src: cudaArray_const_t,
    wOffset: usize,
    hOffset: usize,
    count: usize,
    kind: cudaMemcpyKind,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaMallocAsync =
    unsafe extern "C" fn(devPtr: *mut *mut c_void, size: usize, hStream: cudaStream_t) -> cudaError_t;
pub type cudaFreeAsync = unsafe extern "C" fn(devPtr: *mut c_void, hStream: cudaStream_t) -> cudaError_t;
pub type cudaMemPoolTrimTo = unsafe extern "C" fn(memPool: cudaMemPool_t, minBytesToKeep: usize) -> cudaError_t;
pub type cudaMemPoolSetAttribute =
    unsafe extern "C" fn(memPool: cudaMemPool_t, attr: cudaMemPoolAttr, value: *mut c_void) -> cudaError_t;
pub type cudaMemPoolGetAttribute =
    unsafe extern "C" fn(memPool: cudaMemPool_t, attr: cudaMemPoolAttr, value: *mut c_void) -> cudaError_t;
pub type cudaMemPoolSetAccess =
    unsafe extern "C" fn(memPool: cudaMemPool_t, descList: *const cudaMemAccessDesc, count: usize) -> cudaError_t;
pub type cudaMemPoolGetAccess = unsafe extern "C" fn(
    flags: *mut cudaMemAccessFlags,
    memPool: cudaMemPool_t,
    location: *mut cudaMemLocation,
) -> cudaError_t;
pub type cudaMemPoolCreate =
    unsafe extern "C" fn(memPool: *mut cudaMemPool_t, poolProps: *const cudaMemPoolProps) -> cudaError_t;
pub type cudaMemPoolDestroy = unsafe extern "C" fn(memPool: cudaMemPool_t) -> cudaError_t;
pub type cudaMemGetDefaultMemPool = unsafe extern "C" fn(
    memPool: *mut cudaMemPool_t,
    location: *mut cudaMemLocation,
    r#type: cudaMemAllocationType,
) -> cudaError_t;
pub type cudaMemGetMemPool = unsafe extern "C" fn(
    memPool: *mut cudaMemPool_t,
    location: *mut cudaMemLocation,
    r#type: cudaMemAllocationType,
) -> cudaError_t;
pub type cudaMemSetMemPool = unsafe extern "C" fn(
    location: *mut cudaMemLocation,
    r#type: cudaMemAllocationType,
    memPool: cudaMemPool_t,
) -> cudaError_t;
pub type cudaMallocFromPoolAsync = unsafe extern "C" fn(
    ptr: *mut *mut c_void,
    size: usize,
    memPool: cudaMemPool_t,
    stream: cudaStream_t,
) -> cudaError_t;
pub type cudaMemPoolExportToShareableHandle = unsafe extern "C" fn(
    shareableHandle: *mut c_void,
    memPool: cudaMemPool_t,
    handleType: cudaMemAllocationHandleType,
    flags: u32,
) -> cudaError_t;
pub type cudaMemPoolImportFromShareableHandle = unsafe extern "C" fn(
    memPool: *mut cudaMemPool_t,
    shareableHandle: *mut c_void,
    handleType: cudaMemAllocationHandleType,
    flags: u32,
) -> cudaError_t;
pub type cudaMemPoolExportPointer =
    unsafe extern "C" fn(exportData: *mut cudaMemPoolPtrExportData, ptr: *mut c_void) -> cudaError_t;
pub type cudaMemPoolImportPointer = unsafe extern "C" fn(
    ptr: *mut *mut c_void,
    memPool: cudaMemPool_t,
    exportData: *mut cudaMemPoolPtrExportData,
) -> cudaError_t;
pub type cudaPointerGetAttributes =
    unsafe extern "C" fn(attributes: *mut cudaPointerAttributes, ptr: *const c_void) -> cudaError_t;
pub type cudaDeviceCanAccessPeer =
    unsafe extern "C" fn(canAccessPeer: *mut i32, device: i32, peerDevice: i32) -> cudaError_t;
pub type cudaDeviceEnablePeerAccess = unsafe extern "C" fn(peerDevice: i32, flags: u32) -> cudaError_t;
pub type cudaDeviceDisablePeerAccess = unsafe extern "C" fn(peerDevice: i32) -> cudaError_t;
pub type cudaGraphicsUnregisterResource = unsafe extern "C" fn(resource: cudaGraphicsResource_t) -> cudaError_t;
pub type cudaGraphicsResourceSetMapFlags =
    unsafe extern "C" fn(resource: cudaGraphicsResource_t, flags: u32) -> cudaError_t;
pub type cudaGraphicsMapResources =
    unsafe extern "C" fn(count: i32, resources: *mut cudaGraphicsResource_t, stream: cudaStream_t) -> cudaError_t;
pub type cudaGraphicsUnmapResources =
    unsafe extern "C" fn(count: i32, resources: *mut cudaGraphicsResource_t, stream: cudaStream_t) -> cudaError_t;
pub type cudaGraphicsResourceGetMappedPointer =
    unsafe extern "C" fn(devPtr: *mut *mut c_void, size: *mut usize, resource: cudaGraphicsResource_t) -> cudaError_t;
pub type cudaGraphicsSubResourceGetMappedArray = unsafe extern "C" fn(
    array: *mut cudaArray_t,
    resource: cudaGraphicsResource_t,
    arrayIndex: u32,
    mipLevel: u32,
) -> cudaError_t;
pub type cudaGraphicsResourceGetMappedMipmappedArray =
    unsafe extern "C" fn(mipmappedArray: *mut cudaMipmappedArray_t, resource: cudaGraphicsResource_t) -> cudaError_t;
pub type cudaGetChannelDesc =
    unsafe extern "C" fn(desc: *mut cudaChannelFormatDesc, array: cudaArray_const_t) -> cudaError_t;
pub type cudaCreateChannelDesc =
    unsafe extern "C" fn(x: i32, y: i32, z: i32, w: i32, f: cudaChannelFormatKind) -> cudaChannelFormatDesc;
pub type cudaCreateTextureObject = unsafe extern "C" fn(
    pTexObject: *mut cudaTextureObject_t,
    pResDesc: *const cudaResourceDesc,
    pTexDesc: *const cudaTextureDesc,
    pResViewDesc: *const cudaResourceViewDesc,
) -> cudaError_t;
pub type cudaDestroyTextureObject = unsafe extern "C" fn(texObject: cudaTextureObject_t) -> cudaError_t;
pub type cudaGetTextureObjectResourceDesc =
    unsafe extern "C" fn(pResDesc: *mut cudaResourceDesc, texObject: cudaTextureObject_t) -> cudaError_t;
pub type cudaGetTextureObjectTextureDesc =
    unsafe extern "C" fn(pTexDesc: *mut cudaTextureDesc, texObject: cudaTextureObject_t) -> cudaError_t;
pub type cudaGetTextureObjectResourceViewDesc =
    unsafe extern "C" fn(pResViewDesc: *mut cudaResourceViewDesc, texObject: cudaTextureObject_t) -> cudaError_t;
pub type cudaCreateSurfaceObject =
    unsafe extern "C" fn(pSurfObject: *mut cudaSurfaceObject_t, pResDesc: *const cudaResourceDesc) -> cudaError_t;
pub type cudaDestroySurfaceObject = unsafe extern "C" fn(surfObject: cudaSurfaceObject_t) -> cudaError_t;
pub type cudaGetSurfaceObjectResourceDesc =
    unsafe extern "C" fn(pResDesc: *mut cudaResourceDesc, surfObject: cudaSurfaceObject_t) -> cudaError_t;
pub type cudaDriverGetVersion = unsafe extern "C" fn(driverVersion: *mut i32) -> cudaError_t;
pub type cudaRuntimeGetVersion = unsafe extern "C" fn(runtimeVersion: *mut i32) -> cudaError_t;
pub type cudaLogsRegisterCallback = unsafe extern "C" fn(
    callbackFunc: cudaLogsCallback_t,
    userData: *mut c_void,
    callback_out: *mut cudaLogsCallbackHandle,
) -> cudaError_t;
pub type cudaLogsUnregisterCallback = unsafe extern "C" fn(callback: cudaLogsCallbackHandle) -> cudaError_t;
pub type cudaLogsCurrent = unsafe extern "C" fn(iterator_out: *mut cudaLogIterator, flags: u32) -> cudaError_t;
pub type cudaLogsDumpToFile =
    unsafe extern "C" fn(iterator: *mut cudaLogIterator, pathToFile: *const c_char, flags: u32) -> cudaError_t;
pub type cudaLogsDumpToMemory = unsafe extern "C" fn(
    iterator: *mut cudaLogIterator,
    buffer: *mut c_char,
    size: *mut usize,
    flags: u32,
) -> cudaError_t;
pub type cudaGraphCreate = unsafe extern "C" fn(pGraph: *mut cudaGraph_t, flags: u32) -> cudaError_t;
pub type cudaGraphAddKernelNode = unsafe extern "C" fn(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    pNodeParams: *const cudaKernelNodeParams,
) -> cudaError_t;
pub type cudaGraphKernelNodeGetParams =
    unsafe extern "C" fn(node: cudaGraphNode_t, pNodeParams: *mut cudaKernelNodeParams) -> cudaError_t;
pub type cudaGraphKernelNodeSetParams =
    unsafe extern "C" fn(node: cudaGraphNode_t, pNodeParams: *const cudaKernelNodeParams) -> cudaError_t;
pub type cudaGraphKernelNodeCopyAttributes =
    unsafe extern "C" fn(hDst: cudaGraphNode_t, hSrc: cudaGraphNode_t) -> cudaError_t;
pub type cudaGraphKernelNodeGetAttribute = unsafe extern "C" fn(
    hNode: cudaGraphNode_t,
    attr: cudaLaunchAttributeID,
    value_out: *mut cudaLaunchAttributeValue,
) -> cudaError_t;
pub type cudaGraphKernelNodeSetAttribute = unsafe extern "C" fn(
    hNode: cudaGraphNode_t,
    attr: cudaLaunchAttributeID,
    value: *const cudaLaunchAttributeValue,
) -> cudaError_t;
pub type cudaGraphAddMemcpyNode = unsafe extern "C" fn(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    pCopyParams: *const cudaMemcpy3DParms,
) -> cudaError_t;
pub type cudaGraphAddMemcpyNodeToSymbol = unsafe extern "C" fn(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
) -> cudaError_t;
pub type cudaGraphAddMemcpyNodeFromSymbol = unsafe extern "C" fn(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
) -> cudaError_t;
pub type cudaGraphAddMemcpyNode1D = unsafe extern "C" fn(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: cudaMemcpyKind,
) -> cudaError_t;
pub type cudaGraphMemcpyNodeGetParams =
    unsafe extern "C" fn(node: cudaGraphNode_t, pNodeParams: *mut cudaMemcpy3DParms) -> cudaError_t;
pub type cudaGraphMemcpyNodeSetParams =
    unsafe extern "C" fn(node: cudaGraphNode_t, pNodeParams: *const cudaMemcpy3DParms) -> cudaError_t;
pub type cudaGraphMemcpyNodeSetParamsToSymbol = unsafe extern "C" fn(
    node: cudaGraphNode_t,
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
) -> cudaError_t;
pub type cudaGraphMemcpyNodeSetParamsFromSymbol = unsafe extern "C" fn(
    node: cudaGraphNode_t,
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
) -> cudaError_t;
pub type cudaGraphMemcpyNodeSetParams1D = unsafe extern "C" fn(
    node: cudaGraphNode_t,
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: cudaMemcpyKind,
) -> cudaError_t;
pub type cudaGraphAddMemsetNode = unsafe extern "C" fn(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    pMemsetParams: *const cudaMemsetParams,
) -> cudaError_t;
pub type cudaGraphMemsetNodeGetParams =
    unsafe extern "C" fn(node: cudaGraphNode_t, pNodeParams: *mut cudaMemsetParams) -> cudaError_t;
pub type cudaGraphMemsetNodeSetParams =
    unsafe extern "C" fn(node: cudaGraphNode_t, pNodeParams: *const cudaMemsetParams) -> cudaError_t;
pub type cudaGraphAddHostNode = unsafe extern "C" fn(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    pNodeParams: *const cudaHostNodeParams,
) -> cudaError_t;
pub type cudaGraphHostNodeGetParams =
    unsafe extern "C" fn(node: cudaGraphNode_t, pNodeParams: *mut cudaHostNodeParams) -> cudaError_t;
pub type cudaGraphHostNodeSetParams =
    unsafe extern "C" fn(node: cudaGraphNode_t, pNodeParams: *const cudaHostNodeParams) -> cudaError_t;
pub type cudaGraphAddChildGraphNode = unsafe extern "C" fn(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    childGraph: cudaGraph_t,
) -> cudaError_t;
pub type cudaGraphChildGraphNodeGetGraph =
    unsafe extern "C" fn(node: cudaGraphNode_t, pGraph: *mut cudaGraph_t) -> cudaError_t;
pub type cudaGraphAddEmptyNode = unsafe extern "C" fn(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
) -> cudaError_t;
pub type cudaGraphAddEventRecordNode = unsafe extern "C" fn(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    event: cudaEvent_t,
) -> cudaError_t;
pub type cudaGraphEventRecordNodeGetEvent =
    unsafe extern "C" fn(node: cudaGraphNode_t, event_out: *mut cudaEvent_t) -> cudaError_t;
pub type cudaGraphEventRecordNodeSetEvent =
    unsafe extern "C" fn(node: cudaGraphNode_t, event: cudaEvent_t) -> cudaError_t;
pub type cudaGraphAddEventWaitNode = unsafe extern "C" fn(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    event: cudaEvent_t,
) -> cudaError_t;
pub type cudaGraphEventWaitNodeGetEvent =
    unsafe extern "C" fn(node: cudaGraphNode_t, event_out: *mut cudaEvent_t) -> cudaError_t;
pub type cudaGraphEventWaitNodeSetEvent =
    unsafe extern "C" fn(node: cudaGraphNode_t, event: cudaEvent_t) -> cudaError_t;
pub type cudaGraphAddExternalSemaphoresSignalNode = unsafe extern "C" fn(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    nodeParams: *const cudaExternalSemaphoreSignalNodeParams,
) -> cudaError_t;
pub type cudaGraphExternalSemaphoresSignalNodeGetParams =
    unsafe extern "C" fn(hNode: cudaGraphNode_t, params_out: *mut cudaExternalSemaphoreSignalNodeParams) -> cudaError_t;
pub type cudaGraphExternalSemaphoresSignalNodeSetParams = unsafe extern "C" fn(
    hNode: cudaGraphNode_t,
    nodeParams: *const cudaExternalSemaphoreSignalNodeParams,
) -> cudaError_t;
pub type cudaGraphAddExternalSemaphoresWaitNode = unsafe extern "C" fn(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    nodeParams: *const cudaExternalSemaphoreWaitNodeParams,
) -> cudaError_t;
pub type cudaGraphExternalSemaphoresWaitNodeGetParams =
    unsafe extern "C" fn(hNode: cudaGraphNode_t, params_out: *mut cudaExternalSemaphoreWaitNodeParams) -> cudaError_t;
pub type cudaGraphExternalSemaphoresWaitNodeSetParams =
    unsafe extern "C" fn(hNode: cudaGraphNode_t, nodeParams: *const cudaExternalSemaphoreWaitNodeParams) -> cudaError_t;
pub type cudaGraphAddMemAllocNode = unsafe extern "C" fn(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    nodeParams: *mut cudaMemAllocNodeParams,
) -> cudaError_t;
pub type cudaGraphMemAllocNodeGetParams =
    unsafe extern "C" fn(node: cudaGraphNode_t, params_out: *mut cudaMemAllocNodeParams) -> cudaError_t;
pub type cudaGraphAddMemFreeNode = unsafe extern "C" fn(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    dptr: *mut c_void,
) -> cudaError_t;
pub type cudaGraphMemFreeNodeGetParams =
    unsafe extern "C" fn(node: cudaGraphNode_t, dptr_out: *mut c_void) -> cudaError_t;
pub type cudaDeviceGraphMemTrim = unsafe extern "C" fn(device: i32) -> cudaError_t;
pub type cudaDeviceGetGraphMemAttribute =
    unsafe extern "C" fn(device: i32, attr: cudaGraphMemAttributeType, value: *mut c_void) -> cudaError_t;
pub type cudaDeviceSetGraphMemAttribute =
    unsafe extern "C" fn(device: i32, attr: cudaGraphMemAttributeType, value: *mut c_void) -> cudaError_t;
pub type cudaGraphClone =
    unsafe extern "C" fn(pGraphClone: *mut cudaGraph_t, originalGraph: cudaGraph_t) -> cudaError_t;
pub type cudaGraphNodeFindInClone = unsafe extern "C" fn(
    pNode: *mut cudaGraphNode_t,
    originalNode: cudaGraphNode_t,
    clonedGraph: cudaGraph_t,
) -> cudaError_t;
pub type cudaGraphNodeGetType =
    unsafe extern "C" fn(node: cudaGraphNode_t, pType: *mut cudaGraphNodeType) -> cudaError_t;
pub type cudaGraphGetNodes =
    unsafe extern "C" fn(graph: cudaGraph_t, nodes: *mut cudaGraphNode_t, numNodes: *mut usize) -> cudaError_t;
pub type cudaGraphGetRootNodes = unsafe extern "C" fn(
    graph: cudaGraph_t,
    pRootNodes: *mut cudaGraphNode_t,
    pNumRootNodes: *mut usize,
) -> cudaError_t;
pub type cudaGraphGetEdges = unsafe extern "C" fn(
    graph: cudaGraph_t,
    from: *mut cudaGraphNode_t,
    to: *mut cudaGraphNode_t,
    edgeData: *mut cudaGraphEdgeData,
    numEdges: *mut usize,
) -> cudaError_t;
pub type cudaGraphNodeGetDependencies = unsafe extern "C" fn(
    node: cudaGraphNode_t,
    pDependencies: *mut cudaGraphNode_t,
    edgeData: *mut cudaGraphEdgeData,
    pNumDependencies: *mut usize,
) -> cudaError_t;
pub type cudaGraphNodeGetDependentNodes = unsafe extern "C" fn(
    node: cudaGraphNode_t,
    pDependentNodes: *mut cudaGraphNode_t,
    edgeData: *mut cudaGraphEdgeData,
    pNumDependentNodes: *mut usize,
) -> cudaError_t;
pub type cudaGraphAddDependencies = unsafe extern "C" fn(
    graph: cudaGraph_t,
    from: *const cudaGraphNode_t,
    to: *const cudaGraphNode_t,
    edgeData: *const cudaGraphEdgeData,
    numDependencies: usize,
) -> cudaError_t;
pub type cudaGraphRemoveDependencies = unsafe extern "C" fn(
    graph: cudaGraph_t,
    from: *const cudaGraphNode_t,
    to: *const cudaGraphNode_t,
    edgeData: *const cudaGraphEdgeData,
    numDependencies: usize,
) -> cudaError_t;
pub type cudaGraphDestroyNode = unsafe extern "C" fn(node: cudaGraphNode_t) -> cudaError_t;
pub type cudaGraphInstantiate =
    unsafe extern "C" fn(pGraphExec: *mut cudaGraphExec_t, graph: cudaGraph_t, flags: u64) -> cudaError_t;
pub type cudaGraphInstantiateWithFlags =
    unsafe extern "C" fn(pGraphExec: *mut cudaGraphExec_t, graph: cudaGraph_t, flags: u64) -> cudaError_t;
pub type cudaGraphInstantiateWithParams = unsafe extern "C" fn(
    pGraphExec: *mut cudaGraphExec_t,
    graph: cudaGraph_t,
    instantiateParams: *mut cudaGraphInstantiateParams,
) -> cudaError_t;
pub type cudaGraphExecGetFlags = unsafe extern "C" fn(graphExec: cudaGraphExec_t, flags: *mut u64) -> cudaError_t;
pub type cudaGraphExecKernelNodeSetParams = unsafe extern "C" fn(
    hGraphExec: cudaGraphExec_t,
    node: cudaGraphNode_t,
    pNodeParams: *const cudaKernelNodeParams,
) -> cudaError_t;
pub type cudaGraphExecMemcpyNodeSetParams = unsafe extern "C" fn(
    hGraphExec: cudaGraphExec_t,
    node: cudaGraphNode_t,
    pNodeParams: *const cudaMemcpy3DParms,
) -> cudaError_t;
pub type cudaGraphExecMemcpyNodeSetParamsToSymbol = unsafe extern "C" fn(
    hGraphExec: cudaGraphExec_t,
    node: cudaGraphNode_t,
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
) -> cudaError_t;
pub type cudaGraphExecMemcpyNodeSetParamsFromSymbol = unsafe extern "C" fn(
    hGraphExec: cudaGraphExec_t,
    node: cudaGraphNode_t,
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
) -> cudaError_t;
pub type cudaGraphExecMemcpyNodeSetParams1D = unsafe extern "C" fn(
    hGraphExec: cudaGraphExec_t,
    node: cudaGraphNode_t,
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: cudaMemcpyKind,
) -> cudaError_t;
pub type cudaGraphExecMemsetNodeSetParams = unsafe extern "C" fn(
    hGraphExec: cudaGraphExec_t,
    node: cudaGraphNode_t,
    pNodeParams: *const cudaMemsetParams,
) -> cudaError_t;
pub type cudaGraphExecHostNodeSetParams = unsafe extern "C" fn(
    hGraphExec: cudaGraphExec_t,
    node: cudaGraphNode_t,
    pNodeParams: *const cudaHostNodeParams,
) -> cudaError_t;
pub type cudaGraphExecChildGraphNodeSetParams =
    unsafe extern "C" fn(hGraphExec: cudaGraphExec_t, node: cudaGraphNode_t, childGraph: cudaGraph_t) -> cudaError_t;
pub type cudaGraphExecEventRecordNodeSetEvent =
    unsafe extern "C" fn(hGraphExec: cudaGraphExec_t, hNode: cudaGraphNode_t, event: cudaEvent_t) -> cudaError_t;
pub type cudaGraphExecEventWaitNodeSetEvent =
    unsafe extern "C" fn(hGraphExec: cudaGraphExec_t, hNode: cudaGraphNode_t, event: cudaEvent_t) -> cudaError_t;
pub type cudaGraphExecExternalSemaphoresSignalNodeSetParams = unsafe extern "C" fn(
    hGraphExec: cudaGraphExec_t,
    hNode: cudaGraphNode_t,
    nodeParams: *const cudaExternalSemaphoreSignalNodeParams,
) -> cudaError_t;
pub type cudaGraphExecExternalSemaphoresWaitNodeSetParams = unsafe extern "C" fn(
    hGraphExec: cudaGraphExec_t,
    hNode: cudaGraphNode_t,
    nodeParams: *const cudaExternalSemaphoreWaitNodeParams,
) -> cudaError_t;
pub type cudaGraphNodeSetEnabled =
    unsafe extern "C" fn(hGraphExec: cudaGraphExec_t, hNode: cudaGraphNode_t, isEnabled: u32) -> cudaError_t;
pub type cudaGraphNodeGetEnabled =
    unsafe extern "C" fn(hGraphExec: cudaGraphExec_t, hNode: cudaGraphNode_t, isEnabled: *mut u32) -> cudaError_t;
pub type cudaGraphExecUpdate = unsafe extern "C" fn(
    hGraphExec: cudaGraphExec_t,
    hGraph: cudaGraph_t,
    resultInfo: *mut cudaGraphExecUpdateResultInfo,
) -> cudaError_t;
pub type cudaGraphUpload = unsafe extern "C" fn(graphExec: cudaGraphExec_t, stream: cudaStream_t) -> cudaError_t;
pub type cudaGraphLaunch = unsafe extern "C" fn(graphExec: cudaGraphExec_t, stream: cudaStream_t) -> cudaError_t;
pub type cudaGraphExecDestroy = unsafe extern "C" fn(graphExec: cudaGraphExec_t) -> cudaError_t;
pub type cudaGraphDestroy = unsafe extern "C" fn(graph: cudaGraph_t) -> cudaError_t;
pub type cudaGraphDebugDotPrint =
    unsafe extern "C" fn(graph: cudaGraph_t, path: *const c_char, flags: u32) -> cudaError_t;
pub type cudaUserObjectCreate = unsafe extern "C" fn(
    object_out: *mut cudaUserObject_t,
    ptr: *mut c_void,
    destroy: cudaHostFn_t,
    initialRefcount: u32,
    flags: u32,
) -> cudaError_t;
pub type cudaUserObjectRetain = unsafe extern "C" fn(object: cudaUserObject_t, count: u32) -> cudaError_t;
pub type cudaUserObjectRelease = unsafe extern "C" fn(object: cudaUserObject_t, count: u32) -> cudaError_t;
pub type cudaGraphRetainUserObject =
    unsafe extern "C" fn(graph: cudaGraph_t, object: cudaUserObject_t, count: u32, flags: u32) -> cudaError_t;
pub type cudaGraphReleaseUserObject =
    unsafe extern "C" fn(graph: cudaGraph_t, object: cudaUserObject_t, count: u32) -> cudaError_t;
pub type cudaGraphAddNode = unsafe extern "C" fn(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    dependencyData: *const cudaGraphEdgeData,
    numDependencies: usize,
    nodeParams: *mut cudaGraphNodeParams,
) -> cudaError_t;
pub type cudaGraphNodeSetParams =
    unsafe extern "C" fn(node: cudaGraphNode_t, nodeParams: *mut cudaGraphNodeParams) -> cudaError_t;
pub type cudaGraphExecNodeSetParams = unsafe extern "C" fn(
    graphExec: cudaGraphExec_t,
    node: cudaGraphNode_t,
    nodeParams: *mut cudaGraphNodeParams,
) -> cudaError_t;
pub type cudaGraphConditionalHandleCreate = unsafe extern "C" fn(
    pHandle_out: *mut cudaGraphConditionalHandle,
    graph: cudaGraph_t,
    defaultLaunchValue: u32,
    flags: u32,
) -> cudaError_t;
pub type cudaGetDriverEntryPoint = unsafe extern "C" fn(
    symbol: *const c_char,
    funcPtr: *mut *mut c_void,
    flags: u64,
    driverStatus: *mut cudaDriverEntryPointQueryResult,
) -> cudaError_t;
pub type cudaGetDriverEntryPointByVersion = unsafe extern "C" fn(
    symbol: *const c_char,
    funcPtr: *mut *mut c_void,
    cudaVersion: u32,
    flags: u64,
    driverStatus: *mut cudaDriverEntryPointQueryResult,
) -> cudaError_t;
pub type cudaLibraryLoadData = unsafe extern "C" fn(
    library: *mut cudaLibrary_t,
    code: *const c_void,
    jitOptions: *mut cudaJitOption,
    jitOptionsValues: *mut *mut c_void,
    numJitOptions: u32,
    libraryOptions: *mut cudaLibraryOption,
    libraryOptionValues: *mut *mut c_void,
    numLibraryOptions: u32,
) -> cudaError_t;
pub type cudaLibraryLoadFromFile = unsafe extern "C" fn(
    library: *mut cudaLibrary_t,
    fileName: *const c_char,
    jitOptions: *mut cudaJitOption,
    jitOptionsValues: *mut *mut c_void,
    numJitOptions: u32,
    libraryOptions: *mut cudaLibraryOption,
    libraryOptionValues: *mut *mut c_void,
    numLibraryOptions: u32,
) -> cudaError_t;
pub type cudaLibraryUnload = unsafe extern "C" fn(library: cudaLibrary_t) -> cudaError_t;
pub type cudaLibraryGetKernel =
    unsafe extern "C" fn(pKernel: *mut cudaKernel_t, library: cudaLibrary_t, name: *const c_char) -> cudaError_t;
pub type cudaLibraryGetGlobal = unsafe extern "C" fn(
    dptr: *mut *mut c_void,
    bytes: *mut usize,
    library: cudaLibrary_t,
    name: *const c_char,
) -> cudaError_t;
pub type cudaLibraryGetManaged = unsafe extern "C" fn(
    dptr: *mut *mut c_void,
    bytes: *mut usize,
    library: cudaLibrary_t,
    name: *const c_char,
) -> cudaError_t;
pub type cudaLibraryGetUnifiedFunction =
    unsafe extern "C" fn(fptr: *mut *mut c_void, library: cudaLibrary_t, symbol: *const c_char) -> cudaError_t;
pub type cudaLibraryGetKernelCount = unsafe extern "C" fn(count: *mut u32, lib: cudaLibrary_t) -> cudaError_t;
pub type cudaLibraryEnumerateKernels =
    unsafe extern "C" fn(kernels: *mut cudaKernel_t, numKernels: u32, lib: cudaLibrary_t) -> cudaError_t;
pub type cudaKernelSetAttributeForDevice =
    unsafe extern "C" fn(kernel: cudaKernel_t, attr: cudaFuncAttribute, value: i32, device: i32) -> cudaError_t;
pub type cudaGetExportTable =
    unsafe extern "C" fn(ppExportTable: *mut *const c_void, pExportTableId: *const cudaUUID_t) -> cudaError_t;
pub type cudaGetFuncBySymbol =
    unsafe extern "C" fn(functionPtr: *mut cudaFunction_t, symbolPtr: *const c_void) -> cudaError_t;
pub type cudaGetKernel =
    unsafe extern "C" fn(kernelPtr: *mut cudaKernel_t, entryFuncAddr: *const c_void) -> cudaError_t;
