//! Launches.

use super::convert::{Answer, get, list, per_thread_functions, pick};
use crate::state::UserData;
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

/// `CU_LAUNCH_PARAM_END`, `_BUFFER_POINTER`, `_BUFFER_SIZE`
const EXTRA_END: usize = 0;
const EXTRA_BUFFER: usize = 1;
const EXTRA_SIZE: usize = 2;

/// Reads the parameters of a launch into one block.
///
/// # Safety
/// `each` is null or points to one pointer a parameter, each to that many
/// bytes; `extra` is null or a list as cuLaunchKernel documents it.
pub unsafe fn parameters(
    info: &FunctionInfo,
    each: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result<Vec<u8>, CUresult> {
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    let mut block = vec![0u8; info.parameter_bytes as usize];
    if !each.is_null() {
        if !extra.is_null() {
            return Err(invalid);
        }
        for (index, (offset, size)) in info.parameters.iter().enumerate() {
            // SAFETY: one pointer a parameter.
            let from = unsafe { *each.add(index) };
            if from.is_null() {
                return Err(invalid);
            }
            let to = &mut block[*offset as usize..(*offset + *size) as usize];
            // SAFETY: the parameter's bytes; `to` is ours and as long.
            unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.as_mut_ptr(), to.len()) };
        }
        return Ok(block);
    }
    if extra.is_null() {
        return if block.is_empty() {
            Ok(block)
        } else {
            Err(invalid)
        };
    }
    let (mut buffer, mut size, mut at) = (std::ptr::null::<u8>(), 0usize, 0usize);
    loop {
        // SAFETY: keys and values alternate until the end key.
        let key = unsafe { *extra.add(at) } as usize;
        if key == EXTRA_END {
            break;
        }
        // SAFETY: a key that is not the end has a value.
        let value = unsafe { *extra.add(at + 1) };
        match key {
            EXTRA_BUFFER => buffer = value.cast(),
            EXTRA_SIZE if !value.is_null() => {
                // SAFETY: the size's value points to a size_t.
                size = unsafe { value.cast::<usize>().read() };
            }
            _ => return Err(invalid),
        }
        at += 2;
    }
    if buffer.is_null() || size < block.len() {
        return if block.is_empty() {
            Ok(block)
        } else {
            Err(invalid)
        };
    }
    // SAFETY: the buffer has `size` bytes, and the block no more.
    unsafe { std::ptr::copy_nonoverlapping(buffer, block.as_mut_ptr(), block.len()) };
    Ok(block)
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
