//! The parameters of kernel nodes, in all their versions.

use super::launch::Arguments;
use driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUcontext, CUfunction, CUkernel,
};
use runtime::LaunchShape;
use std::ffi::c_void;

/// The parameters of a kernel node, of any version.
pub(super) trait Kernel: Copy {
    /// The kernel: a CUfunction's or a CUkernel's handle.
    fn handle(&self) -> u64;
    /// Blocks, threads of each, and dynamic shared memory.
    fn shape(&self) -> LaunchShape;
    /// Both forms of the kernel's parameters.
    fn arguments(&self) -> Arguments;
    /// Where it runs; null: in the current context.
    fn context(&self) -> CUcontext;
    /// The same node with another kernel and its parameters.
    fn with(self, handle: u64, pointers: *mut *mut c_void, extra: *mut *mut c_void) -> Self;
}

impl Kernel for CUDA_KERNEL_NODE_PARAMS_v1 {
    fn handle(&self) -> u64 {
        self.func.0
    }

    fn shape(&self) -> LaunchShape {
        LaunchShape {
            grid: [self.gridDimX, self.gridDimY, self.gridDimZ],
            block: [self.blockDimX, self.blockDimY, self.blockDimZ],
            shared: self.sharedMemBytes,
        }
    }

    fn arguments(&self) -> Arguments {
        Arguments {
            pointers: self.kernelParams,
            extra: self.extra,
        }
    }

    fn context(&self) -> CUcontext {
        CUcontext::NULL
    }

    fn with(mut self, handle: u64, pointers: *mut *mut c_void, extra: *mut *mut c_void) -> Self {
        self.func = CUfunction(handle);
        self.kernelParams = pointers;
        self.extra = extra;
        self
    }
}

/// Both later versions have the same members.
macro_rules! with_kernel {
    ($($type:ty),*) => {$(
        impl Kernel for $type {
            fn handle(&self) -> u64 {
                if self.func.0 != 0 { self.func.0 } else { self.kern.0 }
            }

            fn shape(&self) -> LaunchShape {
                LaunchShape {
                    grid: [self.gridDimX, self.gridDimY, self.gridDimZ],
                    block: [self.blockDimX, self.blockDimY, self.blockDimZ],
                    shared: self.sharedMemBytes,
                }
            }

            fn arguments(&self) -> Arguments {
                Arguments { pointers: self.kernelParams, extra: self.extra }
            }

            fn context(&self) -> CUcontext {
                self.ctx
            }

            fn with(mut self, handle: u64, pointers: *mut *mut c_void, extra: *mut *mut c_void) -> Self {
                // The copy's handle is of the same kind as the program's.
                if self.func.0 != 0 {
                    self.func = CUfunction(handle);
                } else {
                    self.kern = CUkernel(handle);
                }
                self.kernelParams = pointers;
                self.extra = extra;
                self
            }
        }
    )*};
}
with_kernel!(
    CUDA_KERNEL_NODE_PARAMS,
    driver::sys::CUDA_KERNEL_NODE_PARAMS_v3
);
