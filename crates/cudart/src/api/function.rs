//! Kernels as objects: attributes, names, handles.

use crate::generated::types::*;
use crate::registry;
use crate::state::{self, ready};
use driver::sys::{CUdevice, CUfunc_cache, CUfunction, CUfunction_attribute, CUkernel};
use std::ffi::{c_char, c_void};

fn kernel(host: *const c_void) -> Result<(CUkernel, CUdevice), cudaError_t> {
    ready()?;
    let device = state::device_at(state::device()?)?;
    Ok((registry::kernel(host as usize)?, device))
}

runtime! {
    /// What a kernel needs and may have.
    fn cudaFuncGetAttributes(attr: *mut cudaFuncAttributes, func: *const c_void) {
        use CUfunction_attribute as A;
        let (kernel, device) = kernel(func)?;
        let ask = |attribute: CUfunction_attribute| {
            let mut value = 0;
            cu!(cuKernelGetAttribute(&raw mut value, attribute, kernel, device))?;
            Ok::<i32, cudaError_t>(value)
        };
        // Attributes that were introduced with clusters are 0 on drivers
        // without them.
        let newer = |attribute| ask(attribute).unwrap_or(0);
        let bytes = |attribute| ask(attribute).map(|value| usize::try_from(value).unwrap_or(0));
        let attributes = cudaFuncAttributes {
            sharedSizeBytes: bytes(A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            constSizeBytes: bytes(A::CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES)?,
            localSizeBytes: bytes(A::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            maxThreadsPerBlock: ask(A::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            numRegs: ask(A::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            ptxVersion: ask(A::CU_FUNC_ATTRIBUTE_PTX_VERSION)?,
            binaryVersion: ask(A::CU_FUNC_ATTRIBUTE_BINARY_VERSION)?,
            cacheModeCA: newer(A::CU_FUNC_ATTRIBUTE_CACHE_MODE_CA),
            maxDynamicSharedSizeBytes: newer(A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
            preferredShmemCarveout: newer(A::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT),
            clusterDimMustBeSet: newer(A::CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET),
            requiredClusterWidth: newer(A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH),
            requiredClusterHeight: newer(A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT),
            requiredClusterDepth: newer(A::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH),
            clusterSchedulingPolicyPreference: newer(A::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE),
            nonPortableClusterSizeAllowed: newer(A::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED),
            reserved: [0; 16],
        };
        put!(attr, attributes)
    }

    /// Sets an attribute; the numbers are the driver's.
    fn cudaFuncSetAttribute(func: *const c_void, attr: cudaFuncAttribute, value: i32) {
        let (kernel, device) = kernel(func)?;
        cu!(cuKernelSetAttribute(CUfunction_attribute(attr.0), value, kernel, device))
    }

    /// Prefers a split of cache and shared memory.
    fn cudaFuncSetCacheConfig(func: *const c_void, cacheConfig: cudaFuncCache) {
        let (kernel, device) = kernel(func)?;
        cu!(cuKernelSetCacheConfig(kernel, CUfunc_cache(cacheConfig.0), device))
    }

    /// Bank size: devices since Maxwell have one only.
    fn cudaFuncSetSharedMemConfig(func: *const c_void, _config: cudaSharedMemConfig) {
        kernel(func).map(drop)
    }

    /// A kernel's mangled name.
    fn cudaFuncGetName(name: *mut *const c_char, func: *const c_void) {
        let (kernel, _) = kernel(func)?;
        cu!(cuKernelGetName(name, kernel))
    }

    /// Offset and size of a parameter.
    fn cudaFuncGetParamInfo(func: *const c_void, paramIndex: usize, paramOffset: *mut usize, paramSize: *mut usize) {
        let (kernel, _) = kernel(func)?;
        cu!(cuKernelGetParamInfo(kernel, paramIndex, paramOffset, paramSize))
    }

    /// The driver's function of a host stub.
    fn cudaGetFuncBySymbol(functionPtr: *mut cudaFunction_t, symbolPtr: *const c_void) {
        let (kernel, _) = kernel(symbolPtr)?;
        let mut function = CUfunction::NULL;
        cu!(cuKernelGetFunction(&raw mut function, kernel))?;
        put!(functionPtr, function)
    }

    /// The driver's kernel of a host stub.
    fn cudaGetKernel(kernelPtr: *mut cudaKernel_t, entryFuncAddr: *const c_void) {
        let kernel = registry::kernel(entryFuncAddr as usize)?;
        put!(kernelPtr, kernel)
    }

    /// Sets an attribute on one device.
    fn cudaKernelSetAttributeForDevice(kernel: cudaKernel_t, attr: cudaFuncAttribute, value: i32, device: i32) {
        ready()?;
        let device = state::device_at(device)?;
        cu!(cuKernelSetAttribute(CUfunction_attribute(attr.0), value, kernel, device))
    }
}
