//! Calls after which kernels have finished: their records are read.

use super::memory::settle;
use super::{hook, hooks};
use crate::session;
use driver::sys::{
    CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUarray, CUcontext, CUdeviceptr, CUevent,
    CUresult, CUstream,
};
use std::ffi::c_void;

hooks!(
    cuCtxSynchronize,
    cuCtxSynchronize_v2,
    cuStreamSynchronize,
    cuStreamSynchronize_ptsz,
    cuStreamQuery,
    cuStreamQuery_ptsz,
    cuEventSynchronize,
    cuEventQuery,
    cuMemcpy,
    cuMemcpy_ptds,
    cuMemcpyPeer,
    cuMemcpyPeer_ptds,
    cuMemcpyHtoD_v2,
    cuMemcpyHtoD_v2_ptds,
    cuMemcpyDtoH_v2,
    cuMemcpyDtoH_v2_ptds,
    cuMemcpyAtoH_v2,
    cuMemcpyAtoH_v2_ptds,
    cuMemcpy2D_v2,
    cuMemcpy2D_v2_ptds,
    cuMemcpy2DUnaligned_v2,
    cuMemcpy2DUnaligned_v2_ptds,
    cuMemcpy3D_v2,
    cuMemcpy3D_v2_ptds,
    cuMemcpy3DPeer,
    cuMemcpy3DPeer_ptds,
);

/// What waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// For everything in the context.
    Context,
    /// For one stream.
    Stream(CUstream),
    /// For something else, which says nothing about streams as a whole.
    Something,
}

/// Reads records, also after a failure: a kernel that faulted may have left
/// some that say why.
pub(super) fn waited(result: CUresult, what: Waited) -> CUresult {
    if result == CUresult::CUDA_ERROR_NOT_READY {
        return result;
    }
    if let Some(runtime) = session::runtime() {
        if result == CUresult::CUDA_SUCCESS {
            settle(runtime, what);
        }
        runtime.synchronized();
    }
    result
}

hook!(
    cuCtxSynchronize() | wait | {
        // SAFETY: no arguments.
        waited(unsafe { wait() }, Waited::Context)
    }
);

hook!(cuCtxSynchronize_v2(context: CUcontext) |wait| {
    // SAFETY: the program's arguments.
    waited(unsafe { wait(context) }, Waited::Context)
});

hook!([cuStreamSynchronize, cuStreamSynchronize_ptsz, cuStreamQuery, cuStreamQuery_ptsz](stream: CUstream) |wait| {
    // SAFETY: the program's arguments.
    waited(unsafe { wait(stream) }, Waited::Stream(stream))
});

hook!([cuEventSynchronize, cuEventQuery](event: CUevent) |wait| {
    // SAFETY: the program's arguments.
    waited(unsafe { wait(event) }, Waited::Something)
});

hook!([cuMemcpy, cuMemcpy_ptds](to: CUdeviceptr, from: CUdeviceptr, bytes: usize) |copy| {
    // SAFETY: the program's arguments.
    waited(unsafe { copy(to, from, bytes) }, Waited::Something)
});

hook!([cuMemcpyPeer, cuMemcpyPeer_ptds](
    to: CUdeviceptr,
    to_context: CUcontext,
    from: CUdeviceptr,
    from_context: CUcontext,
    bytes: usize,
) |copy| {
    // SAFETY: the program's arguments.
    waited(unsafe { copy(to, to_context, from, from_context, bytes) }, Waited::Something)
});

hook!([cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds](to: CUdeviceptr, from: *const c_void, bytes: usize) |copy| {
    // SAFETY: the program's arguments.
    waited(unsafe { copy(to, from, bytes) }, Waited::Something)
});

hook!([cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds](to: *mut c_void, from: CUdeviceptr, bytes: usize) |copy| {
    // SAFETY: the program's arguments.
    waited(unsafe { copy(to, from, bytes) }, Waited::Something)
});

hook!([cuMemcpyAtoH_v2, cuMemcpyAtoH_v2_ptds](to: *mut c_void, from: CUarray, offset: usize, bytes: usize) |copy| {
    // SAFETY: the program's arguments.
    waited(unsafe { copy(to, from, offset, bytes) }, Waited::Something)
});

hook!([cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds](how: *const CUDA_MEMCPY2D) |copy| {
        // SAFETY: the program's arguments.
        waited(unsafe { copy(how) }, Waited::Something)
    }
);

hook!([cuMemcpy3D_v2, cuMemcpy3D_v2_ptds](how: *const CUDA_MEMCPY3D) |copy| {
    // SAFETY: the program's arguments.
    waited(unsafe { copy(how) }, Waited::Something)
});

hook!([cuMemcpy3DPeer, cuMemcpy3DPeer_ptds](how: *const CUDA_MEMCPY3D_PEER) |copy| {
    // SAFETY: the program's arguments.
    waited(unsafe { copy(how) }, Waited::Something)
});
