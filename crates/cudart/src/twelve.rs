//! Functions of CUDA 12's runtime whose names CUDA 13 uses for others, or not
//! at all.
//!
//! CUDA 13 dropped the `_v2` suffixes: its plain names are CUDA 12's `…_v2`
//! (and `_v3`). Layouts are those of CUDA 12.8's headers, which are not among
//! the pinned ones; the sizes below were taken from their C compilation.

use crate::api::{device, launch};
use crate::generated::types::*;
use crate::registry;
use crate::state::{device_at, ready};
use crate::table::Entry;
use driver::sys::{CUgraphNode, CUmem_advise, CUmemLocation, CUmemLocationType, CUstream};
use std::ffi::{c_char, c_void};

/// Where a name of CUDA 12 is implemented.
pub(crate) enum Renamed {
    /// In this module.
    Own,
    /// As CUDA 13's function of this name.
    As(&'static str),
    /// Nowhere.
    Absent,
}

/// CUDA 12 names whose signature is that of another name in CUDA 13.
const NEW_NAMES: &[(&str, &str)] = &[
    ("cudaEventElapsedTime_v2", "cudaEventElapsedTime"),
    ("cudaGraphAddDependencies_v2", "cudaGraphAddDependencies"),
    ("cudaGraphGetEdges_v2", "cudaGraphGetEdges"),
    (
        "cudaGraphNodeGetDependencies_v2",
        "cudaGraphNodeGetDependencies",
    ),
    (
        "cudaGraphNodeGetDependentNodes_v2",
        "cudaGraphNodeGetDependentNodes",
    ),
    (
        "cudaGraphRemoveDependencies_v2",
        "cudaGraphRemoveDependencies",
    ),
    ("cudaMemAdvise_v2", "cudaMemAdvise"),
    ("cudaMemPrefetchAsync_v2", "cudaMemPrefetchAsync"),
    ("cudaMemPrefetchAsync_v2_ptsz", "cudaMemPrefetchAsync_ptsz"),
    ("cudaStreamGetCaptureInfo_v3", "cudaStreamGetCaptureInfo"),
    (
        "cudaStreamGetCaptureInfo_v3_ptsz",
        "cudaStreamGetCaptureInfo_ptsz",
    ),
    (
        "cudaStreamUpdateCaptureDependencies_v2",
        "cudaStreamUpdateCaptureDependencies",
    ),
    (
        "cudaStreamUpdateCaptureDependencies_v2_ptsz",
        "cudaStreamUpdateCaptureDependencies_ptsz",
    ),
    ("cudaThreadExit", "cudaDeviceReset"),
    ("cudaThreadGetCacheConfig", "cudaDeviceGetCacheConfig"),
    ("cudaThreadGetLimit", "cudaDeviceGetLimit"),
    ("cudaThreadSetCacheConfig", "cudaDeviceSetCacheConfig"),
    ("cudaThreadSetLimit", "cudaDeviceSetLimit"),
    ("cudaThreadSynchronize", "cudaDeviceSynchronize"),
];

/// CUDA 12 names whose signature, or the layout of whose arguments, differs
/// from the same name's in CUDA 13 (12.8's headers compared with 13.0's), and
/// which have no implementation here. cudaGetDeviceProperties without a suffix
/// is CUDA 11's.
const OTHER_SIGNATURES: &[&str] = &[
    "cudaCreateSurfaceObject",
    "cudaCreateTextureObject",
    "cudaExternalMemoryGetMappedBuffer",
    "cudaExternalMemoryGetMappedMipmappedArray",
    "cudaGetDeviceProperties",
    "cudaGetSurfaceObjectResourceDesc",
    "cudaGetTextureObjectResourceDesc",
    "cudaGetTextureObjectResourceViewDesc",
    "cudaGraphAddNode",
    "cudaGraphAddNode_v2",
    "cudaChooseDevice",
    "cudaImportExternalMemory",
    "cudaImportExternalSemaphore",
    "cudaMemcpy3DBatchAsync",
    "cudaMemcpy3DBatchAsync_ptsz",
    "cudaMemcpyBatchAsync",
    "cudaMemcpyBatchAsync_ptsz",
];

pub(crate) fn renamed(name: &str) -> Renamed {
    if TABLE.iter().chain(OTHER).any(|entry| entry.name == name) {
        return Renamed::Own;
    }
    if let Some((_, thirteen)) = NEW_NAMES.iter().find(|(twelve, _)| *twelve == name) {
        return Renamed::As(thirteen);
    }
    if OTHER_SIGNATURES.contains(&name) {
        return Renamed::Absent;
    }
    // The same name with the same signature.
    crate::generated::names::EXPORTS_13
        .binary_search(&name)
        .map_or(Renamed::Absent, |index| {
            Renamed::As(crate::generated::names::EXPORTS_13[index])
        })
}

/// cudaDeviceProp of CUDA 12.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "CUDA's own names")]
pub struct cudaDeviceProp12 {
    pub name: [c_char; 256],
    pub uuid: cudaUUID_t,
    pub luid: [c_char; 8],
    pub luidDeviceNodeMask: u32,
    pub totalGlobalMem: usize,
    pub sharedMemPerBlock: usize,
    pub regsPerBlock: i32,
    pub warpSize: i32,
    pub memPitch: usize,
    pub maxThreadsPerBlock: i32,
    pub maxThreadsDim: [i32; 3],
    pub maxGridSize: [i32; 3],
    pub clockRate: i32,
    pub totalConstMem: usize,
    pub major: i32,
    pub minor: i32,
    pub textureAlignment: usize,
    pub texturePitchAlignment: usize,
    pub deviceOverlap: i32,
    pub multiProcessorCount: i32,
    pub kernelExecTimeoutEnabled: i32,
    pub integrated: i32,
    pub canMapHostMemory: i32,
    pub computeMode: i32,
    pub maxTexture1D: i32,
    pub maxTexture1DMipmap: i32,
    pub maxTexture1DLinear: i32,
    pub maxTexture2D: [i32; 2],
    pub maxTexture2DMipmap: [i32; 2],
    pub maxTexture2DLinear: [i32; 3],
    pub maxTexture2DGather: [i32; 2],
    pub maxTexture3D: [i32; 3],
    pub maxTexture3DAlt: [i32; 3],
    pub maxTextureCubemap: i32,
    pub maxTexture1DLayered: [i32; 2],
    pub maxTexture2DLayered: [i32; 3],
    pub maxTextureCubemapLayered: [i32; 2],
    pub maxSurface1D: i32,
    pub maxSurface2D: [i32; 2],
    pub maxSurface3D: [i32; 3],
    pub maxSurface1DLayered: [i32; 2],
    pub maxSurface2DLayered: [i32; 3],
    pub maxSurfaceCubemap: i32,
    pub maxSurfaceCubemapLayered: [i32; 2],
    pub surfaceAlignment: usize,
    pub concurrentKernels: i32,
    pub ECCEnabled: i32,
    pub pciBusID: i32,
    pub pciDeviceID: i32,
    pub pciDomainID: i32,
    pub tccDriver: i32,
    pub asyncEngineCount: i32,
    pub unifiedAddressing: i32,
    pub memoryClockRate: i32,
    pub memoryBusWidth: i32,
    pub l2CacheSize: i32,
    pub persistingL2CacheMaxSize: i32,
    pub maxThreadsPerMultiProcessor: i32,
    pub streamPrioritiesSupported: i32,
    pub globalL1CacheSupported: i32,
    pub localL1CacheSupported: i32,
    pub sharedMemPerMultiprocessor: usize,
    pub regsPerMultiprocessor: i32,
    pub managedMemory: i32,
    pub isMultiGpuBoard: i32,
    pub multiGpuBoardGroupID: i32,
    pub hostNativeAtomicSupported: i32,
    pub singleToDoublePrecisionPerfRatio: i32,
    pub pageableMemoryAccess: i32,
    pub concurrentManagedAccess: i32,
    pub computePreemptionSupported: i32,
    pub canUseHostPointerForRegisteredMem: i32,
    pub cooperativeLaunch: i32,
    pub cooperativeMultiDeviceLaunch: i32,
    pub sharedMemPerBlockOptin: usize,
    pub pageableMemoryAccessUsesHostPageTables: i32,
    pub directManagedMemAccessFromHost: i32,
    pub maxBlocksPerMultiProcessor: i32,
    pub accessPolicyMaxWindowSize: i32,
    pub reservedSharedMemPerBlock: usize,
    pub hostRegisterSupported: i32,
    pub sparseCudaArraySupported: i32,
    pub hostRegisterReadOnlySupported: i32,
    pub timelineSemaphoreInteropSupported: i32,
    pub memoryPoolsSupported: i32,
    pub gpuDirectRDMASupported: i32,
    pub gpuDirectRDMAFlushWritesOptions: u32,
    pub gpuDirectRDMAWritesOrdering: i32,
    pub memoryPoolSupportedHandleTypes: u32,
    pub deferredMappingCudaArraySupported: i32,
    pub ipcEventSupported: i32,
    pub clusterLaunch: i32,
    pub unifiedFunctionPointers: i32,
    pub reserved: [i32; 63],
}
// By the C compilation of CUDA 12.8's driver_types.h.
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<cudaDeviceProp12>() == 1032);
    assert!(offset_of!(cudaDeviceProp12, clockRate) == 348);
    assert!(offset_of!(cudaDeviceProp12, computeMode) == 404);
    assert!(offset_of!(cudaDeviceProp12, surfaceAlignment) == 568);
    assert!(offset_of!(cudaDeviceProp12, memoryClockRate) == 608);
    assert!(offset_of!(cudaDeviceProp12, sharedMemPerMultiprocessor) == 640);
    assert!(offset_of!(cudaDeviceProp12, cooperativeMultiDeviceLaunch) == 692);
    assert!(offset_of!(cudaDeviceProp12, reservedSharedMemPerBlock) == 720);
    assert!(offset_of!(cudaDeviceProp12, unifiedFunctionPointers) == 776);
    assert!(offset_of!(cudaDeviceProp12, reserved) == 780);
};

/// cudaPointerAttributes of CUDA 12.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "CUDA's own names")]
pub struct cudaPointerAttributes12 {
    pub r#type: cudaMemoryType,
    pub device: i32,
    pub devicePointer: *mut c_void,
    pub hostPointer: *mut c_void,
}
const _: () = assert!(size_of::<cudaPointerAttributes12>() == 24);

fn properties(device: i32) -> Result<cudaDeviceProp12, cudaError_t> {
    use driver::sys::CUdevice_attribute as A;
    let device = device_at(device)?;
    // SAFETY: cudaDeviceProp12 consists of integers and arrays of them.
    let mut out: cudaDeviceProp12 = unsafe { std::mem::zeroed() };
    device::fill_properties!(&mut out, device);
    let of = |attribute| device::attribute_or_zero(attribute, device);
    out.clockRate = of(A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    out.deviceOverlap = of(A::CU_DEVICE_ATTRIBUTE_GPU_OVERLAP);
    out.kernelExecTimeoutEnabled = of(A::CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT);
    out.computeMode = of(A::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
    out.memoryClockRate = of(A::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
    out.singleToDoublePrecisionPerfRatio =
        of(A::CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO);
    Ok(out)
}

/// A device ordinal, or cudaCpuDeviceId, as a place of memory.
fn place(device: i32) -> CUmemLocation {
    if device == -1 {
        CUmemLocation {
            type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST,
            id: 0,
        }
    } else {
        CUmemLocation {
            type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: device,
        }
    }
}

/// The version that CUDA 12 programs get. They test `>= 12000` and the like;
/// the newest runtime of that line whose names are listed.
const VERSION: i32 = 12080;

/// Launches; a shape that the device cannot have is an invalid configuration.
fn launched(how: launch::Launch, arguments: *mut *mut c_void) -> Result<(), cudaError_t> {
    launch::launch(how, arguments).map_err(|error| launch::explain(error, how.grid, how.block))
}

/// As [`launched`], with attributes.
fn launched_with(
    config: *const cudaLaunchConfig_t,
    function: *const c_void,
    arguments: *mut *mut c_void,
    stream: impl Fn(CUstream) -> CUstream,
) -> Result<(), cudaError_t> {
    launch::launch_with(config, function, arguments, stream).map_err(|error| match get!(config) {
        Ok(config) => launch::explain(error, config.gridDim, config.blockDim),
        Err(_) => error,
    })
}

runtime! {
    /// Launches the kernel of a host stub.
    fn cudaLaunchKernel / cudaLaunchKernel_ptsz [stream] (
        func: *const c_void, gridDim: dim3, blockDim: dim3, args: *mut *mut c_void, sharedMem: usize, stream: cudaStream_t
    ) {
        let kernel = registry::kernel(func as usize)?;
        launched(launch::Launch { kernel, grid: gridDim, block: blockDim, shared: sharedMem, stream, cooperative: false }, args)
    }

    /// Launches a kernel whose blocks may wait for each other.
    fn cudaLaunchCooperativeKernel / cudaLaunchCooperativeKernel_ptsz [stream] (
        func: *const c_void, gridDim: dim3, blockDim: dim3, args: *mut *mut c_void, sharedMem: usize, stream: cudaStream_t
    ) {
        let kernel = registry::kernel(func as usize)?;
        launched(launch::Launch { kernel, grid: gridDim, block: blockDim, shared: sharedMem, stream, cooperative: true }, args)
    }

    /// Launches with attributes.
    fn cudaLaunchKernelExC(config: *const cudaLaunchConfig_t, func: *const c_void, args: *mut *mut c_void) {
        launched_with(config, func, args, |stream| stream)
    }

    /// Launches with attributes; stream 0 is the thread's own default stream.
    [unchecked] fn cudaLaunchKernelExC_ptsz(config: *const cudaLaunchConfig_t, func: *const c_void, args: *mut *mut c_void) {
        launched_with(config, func, args, crate::state::per_thread)
    }

    /// Describes a device, in CUDA 12's layout.
    [unchecked] fn cudaGetDeviceProperties_v2(prop: *mut cudaDeviceProp12, device: i32) {
        let properties = properties(device)?;
        put!(prop, properties)
    }

    /// What an address belongs to. CUDA 13 made the struct longer.
    [unchecked] fn cudaPointerGetAttributes(attributes: *mut cudaPointerAttributes12, ptr: *const c_void) {
        ready()?;
        let all = crate::api::memory::attributes_of(ptr);
        put!(attributes, cudaPointerAttributes12 {
            r#type: all.r#type,
            device: all.device,
            devicePointer: all.devicePointer,
            hostPointer: all.hostPointer,
        })
    }

    /// The version of the runtime that the program was made for.
    [unchecked] fn cudaRuntimeGetVersion(runtimeVersion: *mut i32) {
        put!(runtimeVersion, VERSION)
    }

    /// Advises about managed memory.
    [unchecked] fn cudaMemAdvise(devPtr: *const c_void, count: usize, advice: cudaMemoryAdvise, device: i32) {
        ready()?;
        cu!(cuMemAdvise_v2(crate::convert::address(devPtr), count, CUmem_advise(advice.0), place(device)))
    }

    /// Prefetches managed memory.
    [unchecked] fn cudaMemPrefetchAsync / cudaMemPrefetchAsync_ptsz [stream] (
        devPtr: *const c_void, count: usize, dstDevice: i32, stream: cudaStream_t
    ) {
        ready()?;
        cu!(cuMemPrefetchAsync_v2(crate::convert::address(devPtr), count, place(dstDevice), 0, stream))
    }

    /// The edges of a graph.
    [unchecked] fn cudaGraphGetEdges(
        graph: cudaGraph_t, from: *mut cudaGraphNode_t, to: *mut cudaGraphNode_t, numEdges: *mut usize
    ) {
        ready()?;
        cu!(cuGraphGetEdges_v2(graph, from, to, std::ptr::null_mut(), numEdges))
    }

    /// What a node depends on.
    [unchecked] fn cudaGraphNodeGetDependencies(
        node: cudaGraphNode_t, pDependencies: *mut cudaGraphNode_t, pNumDependencies: *mut usize
    ) {
        ready()?;
        cu!(cuGraphNodeGetDependencies_v2(node, pDependencies, std::ptr::null_mut(), pNumDependencies))
    }

    /// What depends on a node.
    [unchecked] fn cudaGraphNodeGetDependentNodes(
        node: cudaGraphNode_t, pDependentNodes: *mut cudaGraphNode_t, pNumDependentNodes: *mut usize
    ) {
        ready()?;
        cu!(cuGraphNodeGetDependentNodes_v2(node, pDependentNodes, std::ptr::null_mut(), pNumDependentNodes))
    }

    /// Adds edges.
    [unchecked] fn cudaGraphAddDependencies(
        graph: cudaGraph_t, from: *const cudaGraphNode_t, to: *const cudaGraphNode_t, numDependencies: usize
    ) {
        ready()?;
        cu!(cuGraphAddDependencies_v2(graph, from, to, std::ptr::null(), numDependencies))
    }

    /// Removes edges.
    [unchecked] fn cudaGraphRemoveDependencies(
        graph: cudaGraph_t, from: *const cudaGraphNode_t, to: *const cudaGraphNode_t, numDependencies: usize
    ) {
        ready()?;
        cu!(cuGraphRemoveDependencies_v2(graph, from, to, std::ptr::null(), numDependencies))
    }

    /// The state of a capture.
    [unchecked] fn cudaStreamGetCaptureInfo / cudaStreamGetCaptureInfo_ptsz [stream] (
        stream: cudaStream_t, captureStatus_out: *mut cudaStreamCaptureStatus, id_out: *mut u64
    ) {
        capture_info(stream, captureStatus_out, id_out, std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut())
    }

    /// The state of a capture and its graph.
    [unchecked] fn cudaStreamGetCaptureInfo_v2 / cudaStreamGetCaptureInfo_v2_ptsz [stream] (
        stream: cudaStream_t, captureStatus_out: *mut cudaStreamCaptureStatus, id_out: *mut u64, graph_out: *mut cudaGraph_t,
        dependencies_out: *mut *const cudaGraphNode_t, numDependencies_out: *mut usize
    ) {
        capture_info(stream, captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out)
    }

    /// Changes what the next captured node depends on.
    [unchecked] fn cudaStreamUpdateCaptureDependencies / cudaStreamUpdateCaptureDependencies_ptsz [stream] (
        stream: cudaStream_t, dependencies: *mut cudaGraphNode_t, numDependencies: usize, flags: u32
    ) {
        ready()?;
        cu!(cuStreamUpdateCaptureDependencies_v2(stream, dependencies, std::ptr::null(), numDependencies, flags))
    }
}

fn capture_info(
    stream: cudaStream_t,
    status: *mut cudaStreamCaptureStatus,
    id: *mut u64,
    graph: *mut cudaGraph_t,
    dependencies: *mut *const CUgraphNode,
    count: *mut usize,
) -> Result<(), cudaError_t> {
    ready()?;
    cu!(cuStreamGetCaptureInfo_v3(
        stream,
        status.cast(),
        id,
        graph,
        dependencies,
        std::ptr::null_mut(),
        count
    ))
}

/// No function of this module gives anything but `cudaError_t`.
pub(crate) const OTHER: &[Entry] = &[];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::names::EXPORTS_12;
    use crate::table::{Version, implemented};

    #[test]
    fn new_names_are_names_of_both_versions() {
        for (twelve, thirteen) in NEW_NAMES {
            assert!(EXPORTS_12.binary_search(twelve).is_ok(), "{twelve}");
            assert!(
                implemented(Version::Thirteen, thirteen).is_some(),
                "{thirteen}"
            );
        }
        for entry in TABLE {
            assert!(
                EXPORTS_12.binary_search(&entry.name).is_ok(),
                "{}",
                entry.name
            );
        }
    }
}
