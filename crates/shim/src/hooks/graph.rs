//! Kernels that are put into graphs by hand are planned as launches are, with
//! the bounds of the memory that their pointers belong to when the node gets
//! them. Kernels captured from a stream pass the launch hooks. A program that
//! asks for a node's parameters gets its own kernel, so that what it sets
//! instead fits the kernel that it names.

use super::launch::{Arguments, launch};
use super::{graph_replay, hook, hooks, loaded};
use driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUcontext, CUfunction, CUgraph,
    CUgraphExec, CUgraphNode, CUkernel, CUresult,
};
use runtime::LaunchShape;
use std::ffi::c_void;

hooks!(
    cuGraphAddKernelNode,
    cuGraphAddKernelNode_v2,
    cuGraphKernelNodeGetParams,
    cuGraphKernelNodeGetParams_v2,
    cuGraphKernelNodeSetParams,
    cuGraphKernelNodeSetParams_v2,
    cuGraphExecKernelNodeSetParams,
    cuGraphExecKernelNodeSetParams_v2,
);

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

/// Gives a node its kernel: the instrumented copy, where there is one. The
/// device copies the kernel's parameters before it returns.
///
/// # Safety
/// `parameters` is null or points to the program's struct.
pub(super) unsafe fn planned<K: Kernel>(
    parameters: *const K,
    give: impl Fn(*const K) -> CUresult,
) -> CUresult {
    // SAFETY: the caller's word.
    let Some(node) = (unsafe { parameters.as_ref() }) else {
        return give(parameters);
    };
    let place = |handle: u64, pointers, extra| {
        let node = node.with(handle, pointers, extra);
        give(&raw const node)
    };
    // SAFETY: the program's arguments, for that kernel.
    unsafe { launch(node.handle(), node.shape(), node.arguments(), None, place) }
}

hook!(cuGraphAddKernelNode(
    node: *mut CUgraphNode,
    graph: CUgraph,
    dependencies: *const CUgraphNode,
    dependency_count: usize,
    parameters: *const CUDA_KERNEL_NODE_PARAMS_v1,
) |add| {
    // SAFETY: the program's arguments.
    unsafe { planned(parameters, |parameters| add(node, graph, dependencies, dependency_count, parameters)) }
});

hook!(cuGraphAddKernelNode_v2(
    node: *mut CUgraphNode,
    graph: CUgraph,
    dependencies: *const CUgraphNode,
    dependency_count: usize,
    parameters: *const CUDA_KERNEL_NODE_PARAMS,
) |add| {
    // SAFETY: the program's arguments.
    unsafe { planned(parameters, |parameters| add(node, graph, dependencies, dependency_count, parameters)) }
});

hook!(cuGraphKernelNodeSetParams(node: CUgraphNode, parameters: *const CUDA_KERNEL_NODE_PARAMS_v1) |set| {
    // SAFETY: the program's arguments.
    unsafe { planned(parameters, |parameters| set(node, parameters)) }
});

hook!(cuGraphKernelNodeSetParams_v2(node: CUgraphNode, parameters: *const CUDA_KERNEL_NODE_PARAMS) |set| {
    // SAFETY: the program's arguments.
    unsafe { planned(parameters, |parameters| set(node, parameters)) }
});

hook!(cuGraphExecKernelNodeSetParams(
    graph: CUgraphExec,
    node: CUgraphNode,
    parameters: *const CUDA_KERNEL_NODE_PARAMS_v1,
) |set| {
    // SAFETY: the program's arguments.
    unsafe {
        let result = planned(parameters, |parameters| set(graph, node, parameters));
        if result == CUresult::CUDA_SUCCESS && let Some(parameters) = parameters.as_ref() {
            graph_replay::kernel_set(graph, node, parameters);
        }
        result
    }
});

hook!(cuGraphExecKernelNodeSetParams_v2(
    graph: CUgraphExec,
    node: CUgraphNode,
    parameters: *const CUDA_KERNEL_NODE_PARAMS,
) |set| {
    // SAFETY: the program's arguments.
    unsafe {
        let result = planned(parameters, |parameters| set(graph, node, parameters));
        if result == CUresult::CUDA_SUCCESS && let Some(parameters) = parameters.as_ref() {
            graph_replay::kernel_set(graph, node, parameters);
        }
        result
    }
});

hook!(cuGraphKernelNodeGetParams(node: CUgraphNode, parameters: *mut CUDA_KERNEL_NODE_PARAMS_v1) |get| {
    // SAFETY: the program's arguments; written by a successful call.
    unsafe {
        let result = get(node, parameters);
        if result == CUresult::CUDA_SUCCESS
            && let Some(original) = loaded::original((*parameters).func.0)
        {
            (*parameters).func = CUfunction(original);
        }
        result
    }
});

hook!(cuGraphKernelNodeGetParams_v2(node: CUgraphNode, parameters: *mut CUDA_KERNEL_NODE_PARAMS) |get| {
    // SAFETY: the program's arguments; written by a successful call.
    unsafe {
        let result = get(node, parameters);
        if result == CUresult::CUDA_SUCCESS {
            if let Some(original) = loaded::original((*parameters).func.0) {
                (*parameters).func = CUfunction(original);
            }
            if let Some(original) = loaded::original((*parameters).kern.0) {
                (*parameters).kern = CUkernel(original);
            }
        }
        result
    }
});
