//! Launches.

use crate::capture;
use crate::convert::{Answer, get, list, per_thread_functions, pick};
use crate::link::Link;
use crate::printed;
use crate::state::{Kernel, enter};
use crate::work::Work;
use driver::arguments::parameters;
use driver::sys::*;
use protocol::Request;
use std::ffi::c_void;
use std::sync::Arc;

/// A launch without its kernel, stream and parameters.
struct Shape {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    is_cooperative: bool,
}

/// A launch.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) kernel: Arc<Kernel>,
    /// The kernel as the program names it.
    pub(crate) function: u64,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    /// Dynamic shared memory, in bytes.
    pub(crate) shared: u32,
    pub(crate) is_cooperative: bool,
    pub(crate) parameters: Vec<u8>,
}

/// Refuses pointers to the program's own memory that it has pinned: natively a
/// kernel can follow them, and here it would be somewhere else.
fn refuse_host_memory(link: &Link, kernel: &Kernel, block: &[u8]) -> Answer {
    for (offset, size) in &kernel.parameters {
        let at = *offset as usize;
        let word = block.get(at..).and_then(|rest| rest.first_chunk());
        let Some(word) = word.filter(|_| *size == 8) else {
            continue;
        };
        if link.state.host_memory(u64::from_le_bytes(*word)).is_some() {
            link.say(&format!(
                "kernel `{}` is given a pointer to pinned host memory, which kernels of tenants cannot access; the launch fails with CUDA_ERROR_NOT_SUPPORTED",
                kernel.name.to_string_lossy()
            ));
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
    }
    Ok(())
}

/// # Safety
/// `each` and `extra` are what cuLaunchKernel documents.
unsafe fn launch(
    link: &'static Link,
    function: CUfunction,
    stream: u32,
    shape: Shape,
    (each, extra): (*mut *mut c_void, *mut *mut c_void),
) -> Answer {
    enter(link)?;
    let kernel = link.state.kernel(function.0)?;
    // SAFETY: this function's promise.
    let block = unsafe { parameters(&kernel.parameters, kernel.parameter_bytes, each, extra) }?;
    let launch = Launch {
        kernel,
        function: function.0,
        grid: shape.grid,
        block: shape.block,
        shared: shape.shared,
        is_cooperative: shape.is_cooperative,
        parameters: block,
    };
    if capture::is_capturing(link, stream) {
        refuse_host_memory(link, &launch.kernel, &launch.parameters)?;
        return capture::put(link, stream, Work::Kernel(Arc::new(launch)));
    }
    capture::check_legacy(link, stream)?;
    put_own(link, stream, launch)
}

/// Puts the launch of a graph's node into a stream.
pub(crate) fn put(link: &'static Link, stream: u32, launch: &Launch) -> Answer {
    put_own(link, stream, launch.clone())
}

fn put_own(link: &'static Link, stream: u32, launch: Launch) -> Answer {
    let Launch {
        kernel,
        function: _,
        grid,
        block,
        shared,
        is_cooperative,
        parameters,
    } = launch;
    refuse_host_memory(link, &kernel, &parameters)?;
    let request = Request::Launch {
        kernel: kernel.number,
        stream,
        grid,
        block,
        shared,
        is_cooperative,
        parameters,
    };
    let use_of_block = (block, shared);
    let is_known = kernel.launched.lock().contains(&use_of_block);
    // What the device refuses of a launch depends on the kernel, the block and
    // its shared memory; of the grid, on its size alone. So the device has
    // decided about a block that the kernel was launched with before.
    let cannot_fail = is_known && !is_cooperative && link.state.fits(grid);
    let held = link.state.order.put(link, request, cannot_fail)?;
    printed::launched(link, &kernel);
    let mut launched = kernel.launched.lock();
    if held.is_none() && !is_known && !is_cooperative && launched.len() < MAX_KNOWN {
        launched.push(use_of_block);
    }
    Ok(())
}

/// How many blocks of a kernel are remembered; launches with others wait for
/// their reply.
const MAX_KNOWN: usize = 32;

/// Says that the manager has no clusters.
pub(crate) fn no_clusters(link: &Link) -> CUresult {
    link.say(
        "clusters are not supported for tenants; the launch fails with CUDA_ERROR_NOT_SUPPORTED",
    );
    CUresult::CUDA_ERROR_NOT_SUPPORTED
}

/// What the attributes of cuLaunchKernelEx ask for; what only hints is left out.
///
/// # Safety
/// `config.attrs` points to `config.numAttrs` attributes.
unsafe fn is_cooperative(link: &Link, config: &CUlaunchConfig) -> Result<bool, CUresult> {
    use CUlaunchAttributeID as A;
    let mut cooperative = false;
    // SAFETY: this function's promise.
    for attribute in unsafe { list(config.attrs, config.numAttrs as usize) } {
        match attribute.id {
            A::CU_LAUNCH_ATTRIBUTE_COOPERATIVE => {
                // SAFETY: the id says which member is set.
                cooperative = unsafe { attribute.value.cooperative } != 0;
            }
            A::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
                // SAFETY: the id says which member is set.
                let size = unsafe { attribute.value.clusterDim };
                if (size.x, size.y, size.z) != (1, 1, 1) {
                    return Err(no_clusters(link));
                }
            }
            A::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT
            | A::CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT
            | A::CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE => {
                return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
            }
            _ => {}
        }
    }
    Ok(cooperative)
}

per_thread_functions! { link, default, register_all;
    fn cuLaunchKernel | cuLaunchKernel_ptsz(
        function: CUfunction, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared: u32, stream: CUstream, each: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        let shape = Shape {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared,
            is_cooperative: false,
        };
        launch(link, function, pick(link, stream, default)?, shape, (each, extra))
    }
    fn cuLaunchKernelEx | cuLaunchKernelEx_ptsz(
        config: *const CUlaunchConfig, function: CUfunction, each: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        let config = get(config)?;
        let shape = Shape {
            grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
            block: [config.blockDimX, config.blockDimY, config.blockDimZ],
            shared: config.sharedMemBytes,
            is_cooperative: is_cooperative(link, &config)?,
        };
        launch(link, function, pick(link, config.hStream, default)?, shape, (each, extra))
    }
    fn cuLaunchCooperativeKernel | cuLaunchCooperativeKernel_ptsz(
        function: CUfunction, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared: u32, stream: CUstream, each: *mut *mut c_void,
    ) {
        let shape = Shape {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared,
            is_cooperative: true,
        };
        launch(link, function, pick(link, stream, default)?, shape, (each, std::ptr::null_mut()))
    }
}

/// Enters this file's functions into the table.
pub(crate) fn register(api: &mut driver::Api) {
    register_all(api);
}
