//! Launching kernels and host functions.

use crate::generated::types::*;
use crate::table::Entry;
use crate::{registry, state};
use driver::sys::{CUdevice_attribute, CUfunction, CUkernel, CUlaunchConfig, CUstream};
use std::cell::Cell;
use std::ffi::{c_uint, c_void};

/// What `<<<…>>>` pushed and the kernel's host stub is about to pop.
#[derive(Clone, Copy)]
struct Configuration {
    grid: dim3,
    block: dim3,
    shared: usize,
    stream: CUstream,
}

/// How many configurations can be open at once: a launch whose arguments
/// launch kernels themselves opens one for each level.
const LEVELS: usize = 16;

/// Open configurations of a thread, oldest first. Needs no destructor, so
/// destructors of static objects can still launch.
#[derive(Clone, Copy)]
struct Open {
    count: usize,
    all: [Option<Configuration>; LEVELS],
}

thread_local! {
    static OPEN: Cell<Open> = const { Cell::new(Open { count: 0, all: [None; LEVELS] }) };
}

fn push(configuration: Configuration) -> bool {
    let mut open = OPEN.get();
    let Some(slot) = open.all.get_mut(open.count) else {
        return false;
    };
    *slot = Some(configuration);
    open.count += 1;
    OPEN.set(open);
    true
}

fn pop() -> Option<Configuration> {
    let mut open = OPEN.get();
    open.count = open.count.checked_sub(1)?;
    let popped = open.all.get(open.count).copied().flatten();
    OPEN.set(open);
    popped
}

/// Stores the configuration between `<<<` and `>>>`. 0 is success: the stub is
/// then called.
pub extern "C" fn __cudaPushCallConfiguration(
    grid: dim3,
    block: dim3,
    shared: usize,
    stream: CUstream,
) -> c_uint {
    if push(Configuration {
        grid,
        block,
        shared,
        stream,
    }) {
        return 0;
    }
    crate::error::record(cudaError_t::cudaErrorInvalidConfiguration).0
}

/// Returns what was last pushed.
///
/// # Safety
/// The pointers can be written.
pub unsafe extern "C" fn __cudaPopCallConfiguration(
    grid: *mut dim3,
    block: *mut dim3,
    shared: *mut usize,
    stream: *mut c_void,
) -> cudaError_t {
    crate::error::finish(
        self::pop()
            .ok_or(cudaError_t::cudaErrorMissingConfiguration)
            .and_then(|popped| {
                put!(grid, popped.grid)?;
                put!(block, popped.block)?;
                put!(shared, popped.shared)?;
                put!(stream.cast::<CUstream>(), popped.stream)
            }),
    )
}

/// How a kernel is to run, without attributes.
#[derive(Clone, Copy)]
pub(crate) struct Launch {
    pub(crate) kernel: CUkernel,
    pub(crate) grid: dim3,
    pub(crate) block: dim3,
    pub(crate) shared: usize,
    pub(crate) stream: CUstream,
    pub(crate) cooperative: bool,
}

pub(crate) fn launch(launch: Launch, arguments: *mut *mut c_void) -> Result<(), cudaError_t> {
    state::ready()?;
    let Launch {
        kernel,
        grid,
        block,
        shared,
        stream,
        cooperative,
    } = launch;
    let shared = u32::try_from(shared).map_err(|_| cudaError_t::cudaErrorInvalidValue)?;
    // The driver takes a kernel handle for a function handle in launches.
    let function = CUfunction(kernel.0);
    if cooperative {
        cu!(cuLaunchCooperativeKernel(
            function, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream, arguments
        ))
    } else {
        cu!(cuLaunchKernel(
            function,
            grid.x,
            grid.y,
            grid.z,
            block.x,
            block.y,
            block.z,
            shared,
            stream,
            arguments,
            std::ptr::null_mut(),
        ))
    }
}

/// The driver says "invalid value" of everything. Up to CUDA 12, the runtime
/// calls a shape that the device cannot have an invalid configuration; that of
/// CUDA 13 does not (measured with 13.0).
pub(crate) fn explain(error: cudaError_t, grid: dim3, block: dim3) -> cudaError_t {
    if error == cudaError_t::cudaErrorInvalidValue && !shape_fits(grid, block).unwrap_or(true) {
        return cudaError_t::cudaErrorInvalidConfiguration;
    }
    error
}

fn shape_fits(grid: dim3, block: dim3) -> Result<bool, cudaError_t> {
    use CUdevice_attribute as A;
    let device = state::device_at(state::device()?)?;
    let limit = |attribute| {
        let mut value = 0;
        cu!(cuDeviceGetAttribute(&raw mut value, attribute, device))?;
        Ok::<u64, cudaError_t>(u64::try_from(value).unwrap_or(0))
    };
    let dimensions = [
        (grid.x, A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
        (grid.y, A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
        (grid.z, A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z),
        (block.x, A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X),
        (block.y, A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
        (block.z, A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z),
    ];
    for (value, attribute) in dimensions {
        if value == 0 || u64::from(value) > limit(attribute)? {
            return Ok(false);
        }
    }
    let threads = u64::from(block.x) * u64::from(block.y) * u64::from(block.z);
    Ok(threads <= limit(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?)
}

/// The launch configuration in the driver's layout. The attributes are the
/// same in both.
pub(crate) fn driver_config(
    config: &cudaLaunchConfig_t,
    stream: CUstream,
) -> Result<CUlaunchConfig, cudaError_t> {
    Ok(CUlaunchConfig {
        gridDimX: config.gridDim.x,
        gridDimY: config.gridDim.y,
        gridDimZ: config.gridDim.z,
        blockDimX: config.blockDim.x,
        blockDimY: config.blockDim.y,
        blockDimZ: config.blockDim.z,
        sharedMemBytes: u32::try_from(config.dynamicSmemBytes)
            .map_err(|_| cudaError_t::cudaErrorInvalidValue)?,
        hStream: stream,
        attrs: config.attrs.cast(),
        numAttrs: config.numAttrs,
    })
}

pub(crate) fn launch_with(
    config: *const cudaLaunchConfig_t,
    function: *const c_void,
    arguments: *mut *mut c_void,
    stream: impl Fn(CUstream) -> CUstream,
) -> Result<(), cudaError_t> {
    state::ready()?;
    let config = get!(config)?;
    let kernel = registry::kernel(function as usize)?;
    let driver = driver_config(config, stream(config.stream))?;
    cu!(cuLaunchKernelEx(
        &raw const driver,
        CUfunction(kernel.0),
        arguments,
        std::ptr::null_mut()
    ))
}

runtime! {
    /// Launches the kernel of a host stub.
    fn cudaLaunchKernel / cudaLaunchKernel_ptsz [stream] (
        func: *const c_void, gridDim: dim3, blockDim: dim3, args: *mut *mut c_void, sharedMem: usize, stream: cudaStream_t
    ) {
        let kernel = registry::kernel(func as usize)?;
        launch(Launch { kernel, grid: gridDim, block: blockDim, shared: sharedMem, stream, cooperative: false }, args)
    }

    /// Launches a kernel whose blocks may wait for each other.
    fn cudaLaunchCooperativeKernel / cudaLaunchCooperativeKernel_ptsz [stream] (
        func: *const c_void, gridDim: dim3, blockDim: dim3, args: *mut *mut c_void, sharedMem: usize, stream: cudaStream_t
    ) {
        let kernel = registry::kernel(func as usize)?;
        launch(Launch { kernel, grid: gridDim, block: blockDim, shared: sharedMem, stream, cooperative: true }, args)
    }

    /// Launches with attributes.
    fn cudaLaunchKernelExC(config: *const cudaLaunchConfig_t, func: *const c_void, args: *mut *mut c_void) {
        launch_with(config, func, args, |stream| stream)
    }

    /// Launches with attributes; stream 0 is the thread's own default stream.
    [unchecked] fn cudaLaunchKernelExC_ptsz(config: *const cudaLaunchConfig_t, func: *const c_void, args: *mut *mut c_void) {
        launch_with(config, func, args, state::per_thread)
    }

    /// Launches the kernel that `__cudaGetKernel` found; what `<<<…>>>` calls.
    [unchecked] fn __cudaLaunchKernel / __cudaLaunchKernel_ptsz [stream] (
        kernel: cudaKernel_t, gridDim: dim3, blockDim: dim3, args: *mut *mut c_void, sharedMem: usize, stream: cudaStream_t
    ) {
        if kernel == CUkernel::NULL {
            // __cudaGetKernel failed, which the host stub does not check: its
            // error stays the thread's last error.
            let earlier = crate::error::peek();
            let none = earlier == cudaError_t::cudaSuccess;
            return Err(if none { cudaError_t::cudaErrorInvalidDeviceFunction } else { earlier });
        }
        launch(Launch { kernel, grid: gridDim, block: blockDim, shared: sharedMem, stream, cooperative: false }, args)
    }

    /// Enqueues a host function.
    fn cudaLaunchHostFunc / cudaLaunchHostFunc_ptsz [stream] (
        stream: cudaStream_t, hostFn: cudaHostFn_t, userData: *mut c_void
    ) {
        state::ready()?;
        cu!(cuLaunchHostFunc(stream, hostFn, userData))
    }
}

/// Functions that give no `cudaError_t`, or that no header declares.
pub(crate) const OTHER: &[Entry] = &[
    Entry::new(
        "__cudaPushCallConfiguration",
        __cudaPushCallConfiguration as *const (),
    ),
    Entry::new(
        "__cudaPopCallConfiguration",
        __cudaPopCallConfiguration as *const (),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_nest() {
        let one = dim3 { x: 1, y: 2, z: 3 };
        let two = dim3 { x: 4, y: 5, z: 6 };
        assert_eq!(__cudaPushCallConfiguration(one, two, 7, CUstream(8)), 0);
        assert_eq!(__cudaPushCallConfiguration(two, one, 9, CUstream(10)), 0);
        let (mut grid, mut block, mut shared, mut stream) = (one, one, 0, CUstream(0));
        let mut pop = || {
            // SAFETY: pointers to locals.
            let result = unsafe {
                __cudaPopCallConfiguration(
                    &raw mut grid,
                    &raw mut block,
                    &raw mut shared,
                    (&raw mut stream).cast(),
                )
            };
            (result, grid.x, block.x, shared, stream.0)
        };
        assert_eq!(pop(), (cudaError_t::cudaSuccess, 4, 1, 9, 10));
        assert_eq!(pop(), (cudaError_t::cudaSuccess, 1, 4, 7, 8));
        assert_eq!(pop().0, cudaError_t::cudaErrorMissingConfiguration);
        for _ in 0..LEVELS {
            assert_eq!(__cudaPushCallConfiguration(one, two, 0, CUstream(0)), 0);
        }
        assert_ne!(__cudaPushCallConfiguration(one, two, 0, CUstream(0)), 0);
    }
}
