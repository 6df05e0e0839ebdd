//! Launches.

use crate::convert::{Answer, get, list, per_thread_functions, pick};
use crate::lent::UserData;
use driver::sys::*;
use emulate::device::{Device, FunctionInfo, HostFunction, Launch};
use std::ffi::c_void;
use std::sync::Arc;

/// What the attributes of cuLaunchKernelEx ask for that this device heeds;
/// the others are hints.
#[derive(Default)]
pub struct Attributes {
    /// Blocks of a cluster; zeros if none was asked for.
    pub cluster: [u32; 3],
    /// All blocks resident together.
    pub cooperative: bool,
}

/// Reads the attributes of a launch.
///
/// # Safety
/// `config.attrs` points to `config.numAttrs` attributes.
pub unsafe fn attributes(config: &CUlaunchConfig) -> Attributes {
    let mut found = Attributes::default();
    // SAFETY: this function's promise.
    for attribute in unsafe { list(config.attrs, config.numAttrs as usize) } {
        match attribute.id {
            CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
                // SAFETY: the id says which member is set.
                let size = unsafe { attribute.value.clusterDim };
                found.cluster = [size.x, size.y, size.z];
            }
            CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE => {
                // SAFETY: the id says which member is set.
                found.cooperative = unsafe { attribute.value.cooperative } != 0;
            }
            _ => {}
        }
    }
    found
}

/// Reads the parameters of a launch into one block.
///
/// # Safety
/// As [`driver::arguments::parameters`].
pub unsafe fn parameters(
    info: &FunctionInfo,
    each: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result<Vec<u8>, CUresult> {
    // SAFETY: this function's promise.
    unsafe { driver::arguments::parameters(&info.parameters, info.parameter_bytes, each, extra) }
}

/// # Safety
/// As [`parameters`].
unsafe fn launch(
    gpu: &Device,
    stream: u64,
    mut shape: Launch,
    each: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Answer {
    let info = gpu.function_info(shape.function)?;
    // SAFETY: this function's promise.
    shape.parameters = unsafe { parameters(&info, each, extra) }?;
    gpu.launch(shape, stream)
}

/// A host function of the program with its argument.
pub struct ProgramFunction {
    /// The function.
    pub function: unsafe extern "C" fn(*mut c_void),
    /// What it is called with.
    pub data: UserData,
}

impl HostFunction for ProgramFunction {
    fn call(&self) {
        // SAFETY: the program gave both to be called with each other.
        unsafe { (self.function)(self.data.get()) }
    }
}

/// A host function of the program as the device calls it.
pub fn host_function(
    function: CUhostFn,
    data: *mut c_void,
) -> Result<Arc<dyn HostFunction>, CUresult> {
    Ok(Arc::new(ProgramFunction {
        function: function.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?,
        data: UserData(data),
    }))
}

per_thread_functions! { gpu, default, register_all;
    fn cuLaunchKernel | cuLaunchKernel_ptsz(
        function: CUfunction, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared: u32, stream: CUstream, each: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        let shape = Launch {
            function: function.0,
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            dynamic_shared: shared,
            ..Launch::default()
        };
        launch(gpu, pick(stream, default), shape, each, extra)
    }
    fn cuLaunchKernelEx | cuLaunchKernelEx_ptsz(
        config: *const CUlaunchConfig, function: CUfunction, each: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        let config = get(config)?;
        let Attributes { cluster, cooperative } = attributes(&config);
        let shape = Launch {
            function: function.0,
            grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
            block: [config.blockDimX, config.blockDimY, config.blockDimZ],
            cluster,
            dynamic_shared: config.sharedMemBytes,
            parameters: Vec::new(),
            cooperative,
        };
        launch(gpu, pick(config.hStream, default), shape, each, extra)
    }
    fn cuLaunchCooperativeKernel | cuLaunchCooperativeKernel_ptsz(
        function: CUfunction, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared: u32, stream: CUstream, each: *mut *mut c_void,
    ) {
        let shape = Launch {
            function: function.0,
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            dynamic_shared: shared,
            cooperative: true,
            ..Launch::default()
        };
        launch(gpu, pick(stream, default), shape, each, std::ptr::null_mut())
    }
    fn cuLaunchHostFunc | cuLaunchHostFunc_ptsz(stream: CUstream, function: CUhostFn, data: *mut c_void) {
        gpu.host_function(pick(stream, default), host_function(function, data)?)
    }
    fn cuStreamAddCallback | cuStreamAddCallback_ptsz(stream: CUstream, callback: CUstreamCallback, data: *mut c_void, _flags: u32) {
        let callback = callback.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        gpu.stream_not_captured(pick(stream, default))?;
        let data = UserData(data);
        let call = move || {
            // SAFETY: the program gave both to be called with each other.
            unsafe { callback(stream, CUresult::CUDA_SUCCESS, data.get()) }
        };
        gpu.host_function(pick(stream, default), Arc::new(call))
    }
}

/// Enters this file's functions into the table.
pub fn register(api: &mut driver::Api) {
    register_all(api);
}
