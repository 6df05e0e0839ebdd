//! Copies of runs of bytes: checked against the memory that they name before they are
//! made. Those that wait for the device also read what kernels have recorded.

use super::define::{hook, hooks};
use super::sync::{Waited, waited};
use super::{streams, sync};
use crate::session;
use driver::sys::{CUarray, CUcontext, CUdeviceptr, CUresult, CUstream};
use runtime::{CallDecision, Effect, Place, Side, Touched, When};
use std::ffi::c_void;

hooks!(
    cuMemcpy,
    cuMemcpy_ptds,
    cuMemcpyAsync,
    cuMemcpyAsync_ptsz,
    cuMemcpyAtoD_v2,
    cuMemcpyAtoD_v2_ptds,
    cuMemcpyAtoH_v2,
    cuMemcpyAtoH_v2_ptds,
    cuMemcpyAtoHAsync_v2,
    cuMemcpyAtoHAsync_v2_ptsz,
    cuMemcpyBatchAsync,
    cuMemcpyBatchAsync_ptsz,
    cuMemcpyBatchAsync_v2,
    cuMemcpyBatchAsync_v2_ptsz,
    cuMemcpyDtoA_v2,
    cuMemcpyDtoA_v2_ptds,
    cuMemcpyDtoD_v2,
    cuMemcpyDtoD_v2_ptds,
    cuMemcpyDtoDAsync_v2,
    cuMemcpyDtoDAsync_v2_ptsz,
    cuMemcpyDtoH_v2,
    cuMemcpyDtoH_v2_ptds,
    cuMemcpyDtoHAsync_v2,
    cuMemcpyDtoHAsync_v2_ptsz,
    cuMemcpyHtoA_v2,
    cuMemcpyHtoA_v2_ptds,
    cuMemcpyHtoAAsync_v2,
    cuMemcpyHtoAAsync_v2_ptsz,
    cuMemcpyHtoD_v2,
    cuMemcpyHtoD_v2_ptds,
    cuMemcpyHtoDAsync_v2,
    cuMemcpyHtoDAsync_v2_ptsz,
    cuMemcpyPeer,
    cuMemcpyPeer_ptds,
    cuMemcpyPeerAsync,
    cuMemcpyPeerAsync_ptsz,
);

/// Makes a call if nothing speaks against it.
pub(super) fn checked(
    function: &'static str,
    when: When,
    sides: &[Side],
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    let Some(runtime) = session::runtime() else {
        return call();
    };
    match runtime.host_calls().check(function, when, sides) {
        CallDecision::Make => call(),
        CallDecision::Refuse => CUresult::CUDA_ERROR_INVALID_VALUE,
        CallDecision::Doubt(doubt) => {
            let result = call();
            if result == CUresult::CUDA_ERROR_INVALID_VALUE {
                runtime.host_calls().refused(&doubt);
            }
            result
        }
    }
}

fn read(place: Place, pointer: u64, bytes: usize) -> Side {
    Side {
        touched: Touched::linear(pointer, bytes as u64),
        place,
        effect: Effect::Read,
    }
}

fn write(place: Place, pointer: u64, bytes: usize) -> Side {
    Side {
        effect: Effect::Write,
        ..read(place, pointer, bytes)
    }
}

fn device_to_device(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) -> [Side; 2] {
    [
        read(Place::Device, from, bytes),
        write(Place::Device, to, bytes),
    ]
}

fn anywhere(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) -> [Side; 2] {
    [read(Place::Any, from, bytes), write(Place::Any, to, bytes)]
}

fn host_to_device(to: CUdeviceptr, from: *const c_void, bytes: usize) -> [Side; 2] {
    [
        read(Place::Host, from as u64, bytes),
        write(Place::Device, to, bytes),
    ]
}

fn device_to_host(to: *mut c_void, from: CUdeviceptr, bytes: usize) -> [Side; 2] {
    [
        read(Place::Device, from, bytes),
        write(Place::Host, to as u64, bytes),
    ]
}

hook!([cuMemcpy, cuMemcpy_ptds](to: CUdeviceptr, from: CUdeviceptr, bytes: usize) |copy| {
    checked(FUNCTION, sync::last(), &anywhere(to, from, bytes), || {
        // SAFETY: the program's arguments.
        waited(unsafe { copy(to, from, bytes) }, Waited::Something)
    })
});

hook!([cuMemcpyAsync, cuMemcpyAsync_ptsz](to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) |copy| {
    checked(FUNCTION, streams::turn(stream, PER_THREAD), &anywhere(to, from, bytes), || {
        // SAFETY: the program's arguments.
        unsafe { copy(to, from, bytes, stream) }
    })
});

hook!([cuMemcpyPeer, cuMemcpyPeer_ptds](
    to: CUdeviceptr,
    to_context: CUcontext,
    from: CUdeviceptr,
    from_context: CUcontext,
    bytes: usize,
) |copy| {
    checked(FUNCTION, sync::last(), &anywhere(to, from, bytes), || {
        // SAFETY: the program's arguments.
        waited(unsafe { copy(to, to_context, from, from_context, bytes) }, Waited::Something)
    })
});

hook!([cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz](
    to: CUdeviceptr,
    to_context: CUcontext,
    from: CUdeviceptr,
    from_context: CUcontext,
    bytes: usize,
    stream: CUstream,
) |copy| {
    checked(FUNCTION, streams::turn(stream, PER_THREAD), &anywhere(to, from, bytes), || {
        // SAFETY: the program's arguments.
        unsafe { copy(to, to_context, from, from_context, bytes, stream) }
    })
});

hook!([cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds](to: CUdeviceptr, from: *const c_void, bytes: usize) |copy| {
    checked(FUNCTION, sync::last(), &host_to_device(to, from, bytes), || {
        // SAFETY: the program's arguments.
        waited(unsafe { copy(to, from, bytes) }, Waited::Something)
    })
});

hook!([cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz](
    to: CUdeviceptr,
    from: *const c_void,
    bytes: usize,
    stream: CUstream,
) |copy| {
    checked(FUNCTION, streams::turn(stream, PER_THREAD), &host_to_device(to, from, bytes), || {
        // SAFETY: the program's arguments.
        unsafe { copy(to, from, bytes, stream) }
    })
});

hook!([cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds](to: *mut c_void, from: CUdeviceptr, bytes: usize) |copy| {
    checked(FUNCTION, sync::last(), &device_to_host(to, from, bytes), || {
        // SAFETY: the program's arguments.
        waited(unsafe { copy(to, from, bytes) }, if PER_THREAD { Waited::Something } else { Waited::Legacy })
    })
});

hook!([cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz](
    to: *mut c_void,
    from: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) |copy| {
    checked(FUNCTION, streams::turn(stream, PER_THREAD), &device_to_host(to, from, bytes), || {
        // SAFETY: the program's arguments.
        unsafe { copy(to, from, bytes, stream) }
    })
});

hook!([cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds](to: CUdeviceptr, from: CUdeviceptr, bytes: usize) |copy| {
    checked(FUNCTION, sync::last(), &device_to_device(to, from, bytes), || {
        // SAFETY: the program's arguments.
        unsafe { copy(to, from, bytes) }
    })
});

hook!([cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz](
    to: CUdeviceptr,
    from: CUdeviceptr,
    bytes: usize,
    stream: CUstream,
) |copy| {
    checked(FUNCTION, streams::turn(stream, PER_THREAD), &device_to_device(to, from, bytes), || {
        // SAFETY: the program's arguments.
        unsafe { copy(to, from, bytes, stream) }
    })
});

// Of copies to and from arrays, the array's side is the device's to check: it
// knows the array's extents.

hook!([cuMemcpyDtoA_v2, cuMemcpyDtoA_v2_ptds](to: CUarray, offset: usize, from: CUdeviceptr, bytes: usize) |copy| {
    checked(FUNCTION, sync::last(), &[read(Place::Device, from, bytes)], || {
        // SAFETY: the program's arguments.
        unsafe { copy(to, offset, from, bytes) }
    })
});

hook!([cuMemcpyAtoD_v2, cuMemcpyAtoD_v2_ptds](to: CUdeviceptr, from: CUarray, offset: usize, bytes: usize) |copy| {
    checked(FUNCTION, sync::last(), &[write(Place::Device, to, bytes)], || {
        // SAFETY: the program's arguments.
        unsafe { copy(to, from, offset, bytes) }
    })
});

hook!([cuMemcpyHtoA_v2, cuMemcpyHtoA_v2_ptds](to: CUarray, offset: usize, from: *const c_void, bytes: usize) |copy| {
    checked(FUNCTION, sync::last(), &[read(Place::Host, from as u64, bytes)], || {
        // SAFETY: the program's arguments.
        unsafe { copy(to, offset, from, bytes) }
    })
});

hook!([cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync_v2_ptsz](
    to: CUarray,
    offset: usize,
    from: *const c_void,
    bytes: usize,
    stream: CUstream,
) |copy| {
    checked(FUNCTION, streams::turn(stream, PER_THREAD), &[read(Place::Host, from as u64, bytes)], || {
        // SAFETY: the program's arguments.
        unsafe { copy(to, offset, from, bytes, stream) }
    })
});

hook!([cuMemcpyAtoH_v2, cuMemcpyAtoH_v2_ptds](to: *mut c_void, from: CUarray, offset: usize, bytes: usize) |copy| {
    checked(FUNCTION, sync::last(), &[write(Place::Host, to as u64, bytes)], || {
        // SAFETY: the program's arguments.
        waited(unsafe { copy(to, from, offset, bytes) }, Waited::Something)
    })
});

hook!([cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync_v2_ptsz](
    to: *mut c_void,
    from: CUarray,
    offset: usize,
    bytes: usize,
    stream: CUstream,
) |copy| {
    checked(FUNCTION, streams::turn(stream, PER_THREAD), &[write(Place::Host, to as u64, bytes)], || {
        // SAFETY: the program's arguments.
        unsafe { copy(to, from, offset, bytes, stream) }
    })
});

/// The sides of a batch; one that is bad refuses all, as the device does.
///
/// # Safety
/// The arrays are null or have `count` elements.
unsafe fn batch(
    to: *const CUdeviceptr,
    from: *const CUdeviceptr,
    sizes: *const usize,
    count: usize,
) -> Vec<Side> {
    if to.is_null() || from.is_null() || sizes.is_null() {
        return Vec::new();
    }
    (0..count)
        .flat_map(|index| {
            // SAFETY: the caller's word.
            let (to, from, bytes) =
                unsafe { (*to.add(index), *from.add(index), *sizes.add(index)) };
            anywhere(to, from, bytes)
        })
        .collect()
}

hook!([cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz](
    to: *mut CUdeviceptr,
    from: *mut CUdeviceptr,
    sizes: *mut usize,
    count: usize,
    attributes: *mut driver::sys::CUmemcpyAttributes,
    indices: *mut usize,
    attribute_count: usize,
    failed: *mut usize,
    stream: CUstream,
) |copy| {
    // SAFETY: the program's arguments.
    unsafe {
        checked(FUNCTION, streams::turn(stream, PER_THREAD), &batch(to, from, sizes, count), || {
            copy(to, from, sizes, count, attributes, indices, attribute_count, failed, stream)
        })
    }
});

hook!([cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz](
    to: *mut CUdeviceptr,
    from: *mut CUdeviceptr,
    sizes: *mut usize,
    count: usize,
    attributes: *mut driver::sys::CUmemcpyAttributes,
    indices: *mut usize,
    attribute_count: usize,
    stream: CUstream,
) |copy| {
    // SAFETY: the program's arguments.
    unsafe {
        checked(FUNCTION, streams::turn(stream, PER_THREAD), &batch(to, from, sizes, count), || {
            copy(to, from, sizes, count, attributes, indices, attribute_count, stream)
        })
    }
});
