//! Values that streams write to memory and wait for: checked against the memory that
//! they name before they are put in. They order all that comes before and after, as
//! other work that is not distinguished ([`super::order`]).

use super::copy::checked;
use super::define::{hook, hooks};
use super::{order, streams};
use driver::sys::{
    CUdeviceptr, CUresult, CUstream, CUstreamBatchMemOpParams, CUstreamBatchMemOpType, cuuint32_t,
    cuuint64_t,
};
use runtime::{Effect, Place, Side, Touched};

hooks!(
    cuStreamWriteValue32,
    cuStreamWriteValue32_ptsz,
    cuStreamWriteValue32_v2,
    cuStreamWriteValue32_v2_ptsz,
    cuStreamWriteValue64,
    cuStreamWriteValue64_ptsz,
    cuStreamWriteValue64_v2,
    cuStreamWriteValue64_v2_ptsz,
    cuStreamWaitValue32,
    cuStreamWaitValue32_ptsz,
    cuStreamWaitValue32_v2,
    cuStreamWaitValue32_v2_ptsz,
    cuStreamWaitValue64,
    cuStreamWaitValue64_ptsz,
    cuStreamWaitValue64_v2,
    cuStreamWaitValue64_v2_ptsz,
    cuStreamBatchMemOp,
    cuStreamBatchMemOp_ptsz,
    cuStreamBatchMemOp_v2,
    cuStreamBatchMemOp_v2_ptsz,
);

fn value(at: CUdeviceptr, bytes: u64, effect: Effect) -> Side {
    Side {
        touched: Touched::linear(at, bytes),
        place: Place::Any,
        effect,
    }
}

/// Puts it in if nothing speaks against it.
fn put(
    function: &'static str,
    (stream, per_thread): (CUstream, bool),
    sides: &[Side],
    call: impl FnOnce() -> CUresult,
) -> CUresult {
    checked(function, streams::turn(stream, per_thread), sides, || {
        order::before_unknown();
        call()
    })
}

macro_rules! values {
    ($($type:ty, $bytes:literal, $effect:ident: $($symbol:ident),*;)*) => {$(
        hook!([$($symbol),*](stream: CUstream, at: CUdeviceptr, what: $type, flags: u32) |call| {
            let side = value(at, $bytes, Effect::$effect);
            put(FUNCTION, (stream, PER_THREAD), &[side], || {
                // SAFETY: the program's arguments.
                unsafe { call(stream, at, what, flags) }
            })
        });
    )*};
}

values! {
    cuuint32_t, 4, Write: cuStreamWriteValue32, cuStreamWriteValue32_ptsz, cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz;
    cuuint64_t, 8, Write: cuStreamWriteValue64, cuStreamWriteValue64_ptsz, cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz;
    cuuint32_t, 4, Read: cuStreamWaitValue32, cuStreamWaitValue32_ptsz, cuStreamWaitValue32_v2, cuStreamWaitValue32_v2_ptsz;
    cuuint64_t, 8, Read: cuStreamWaitValue64, cuStreamWaitValue64_ptsz, cuStreamWaitValue64_v2, cuStreamWaitValue64_v2_ptsz;
}

/// What an operation of a batch touches, if it is one on memory.
///
/// # Safety
/// The operation is one that `cuda.h` describes.
unsafe fn touched(operation: &CUstreamBatchMemOpParams) -> Option<Side> {
    use CUstreamBatchMemOpType as T;
    // SAFETY: each member begins with the kind, and the address of a wait lies where
    // that of a write does.
    let (kind, at) = unsafe { (operation.operation, operation.writeValue.address) };
    let (bytes, effect) = match kind {
        T::CU_STREAM_MEM_OP_WRITE_VALUE_32 => (4, Effect::Write),
        T::CU_STREAM_MEM_OP_WRITE_VALUE_64 => (8, Effect::Write),
        T::CU_STREAM_MEM_OP_WAIT_VALUE_32 => (4, Effect::Read),
        T::CU_STREAM_MEM_OP_WAIT_VALUE_64 => (8, Effect::Read),
        _ => return None,
    };
    Some(value(at, bytes, effect))
}

hook!([cuStreamBatchMemOp, cuStreamBatchMemOp_ptsz, cuStreamBatchMemOp_v2, cuStreamBatchMemOp_v2_ptsz](
    stream: CUstream,
    count: u32,
    operations: *mut CUstreamBatchMemOpParams,
    flags: u32,
) |call| {
    let listed = match operations.is_null() {
        true => &[][..],
        // SAFETY: the program's list, of as many as it says.
        false => unsafe { std::slice::from_raw_parts(operations, count as usize) },
    };
    // SAFETY: as above.
    let sides = listed.iter().filter_map(|operation| unsafe { touched(operation) });
    let sides: Vec<Side> = sides.collect();
    put(FUNCTION, (stream, PER_THREAD), &sides, || {
        // SAFETY: the program's arguments.
        unsafe { call(stream, count, operations, flags) }
    })
});
