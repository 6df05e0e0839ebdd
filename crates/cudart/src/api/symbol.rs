//! Device variables by their host shadows.

use crate::api::copy::{copy_in_stream, copy_now, copy_now_per_thread};
use crate::convert::pointer;
use crate::generated::types::*;
use crate::registry::{self, Variable};
use crate::state::ready;
use std::ffi::c_void;

fn variable(symbol: *const c_void) -> Result<Variable, cudaError_t> {
    ready()?;
    registry::variable(symbol as usize)
}

/// Where a copy within a variable starts. One that leaves it is the driver's
/// to make or to refuse, as it is the driver that is watched.
fn place(symbol: *const c_void, offset: usize) -> Result<*mut c_void, cudaError_t> {
    within(symbol, 0, offset)
}

/// Address of a range within a variable.
pub(crate) fn within(
    symbol: *const c_void,
    count: usize,
    offset: usize,
) -> Result<*mut c_void, cudaError_t> {
    let variable = variable(symbol)?;
    match offset.checked_add(count) {
        Some(end) if end <= variable.size => Ok(pointer(variable.address + offset as u64)),
        _ => Err(cudaError_t::cudaErrorInvalidValue),
    }
}

fn into(kind: cudaMemcpyKind) -> Result<(), cudaError_t> {
    use cudaMemcpyKind as K;
    match kind {
        K::cudaMemcpyHostToDevice | K::cudaMemcpyDeviceToDevice | K::cudaMemcpyDefault => Ok(()),
        _ => Err(cudaError_t::cudaErrorInvalidMemcpyDirection),
    }
}

fn out_of(kind: cudaMemcpyKind) -> Result<(), cudaError_t> {
    use cudaMemcpyKind as K;
    match kind {
        K::cudaMemcpyDeviceToHost | K::cudaMemcpyDeviceToDevice | K::cudaMemcpyDefault => Ok(()),
        _ => Err(cudaError_t::cudaErrorInvalidMemcpyDirection),
    }
}

runtime! {
    /// Copies into a variable.
    fn cudaMemcpyToSymbol(symbol: *const c_void, src: *const c_void, count: usize, offset: usize, kind: cudaMemcpyKind) {
        into(kind)?;
        copy_now(place(symbol, offset)?, src, count, kind)
    }

    /// Copies into a variable, in order with the thread's default stream.
    [unchecked] fn cudaMemcpyToSymbol_ptds(
        symbol: *const c_void, src: *const c_void, count: usize, offset: usize, kind: cudaMemcpyKind
    ) {
        into(kind)?;
        copy_now_per_thread(place(symbol, offset)?, src, count, kind)
    }

    /// Copies out of a variable.
    fn cudaMemcpyFromSymbol(dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: cudaMemcpyKind) {
        out_of(kind)?;
        copy_now(dst, place(symbol, offset)?, count, kind)
    }

    /// Copies out of a variable, in order with the thread's default stream.
    [unchecked] fn cudaMemcpyFromSymbol_ptds(
        dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: cudaMemcpyKind
    ) {
        out_of(kind)?;
        copy_now_per_thread(dst, place(symbol, offset)?, count, kind)
    }

    /// Enqueues a copy into a variable.
    fn cudaMemcpyToSymbolAsync / cudaMemcpyToSymbolAsync_ptsz [stream] (
        symbol: *const c_void, src: *const c_void, count: usize, offset: usize, kind: cudaMemcpyKind, stream: cudaStream_t
    ) {
        into(kind)?;
        copy_in_stream(place(symbol, offset)?, src, count, kind, stream)
    }

    /// Enqueues a copy out of a variable.
    fn cudaMemcpyFromSymbolAsync / cudaMemcpyFromSymbolAsync_ptsz [stream] (
        dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: cudaMemcpyKind, stream: cudaStream_t
    ) {
        out_of(kind)?;
        copy_in_stream(dst, place(symbol, offset)?, count, kind, stream)
    }

    /// A variable's address.
    fn cudaGetSymbolAddress(devPtr: *mut *mut c_void, symbol: *const c_void) {
        let variable = variable(symbol)?;
        put!(devPtr, pointer(variable.address))
    }

    /// A variable's size.
    fn cudaGetSymbolSize(size: *mut usize, symbol: *const c_void) {
        let variable = variable(symbol)?;
        put!(size, variable.size)
    }
}
