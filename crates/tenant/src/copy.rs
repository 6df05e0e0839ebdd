//! Copies and memsets. Host memory belongs to this process, and the manager cannot read
//! it later: what crosses between host and device goes through shared memory in the order
//! of the stream ([`through`]), or is copied when the stream is idle, before the call
//! returns.

use crate::ahead::SMALL;
use crate::convert::{Answer, get, list, per_thread_functions, pick};
use crate::large::large;
use crate::link::Link;
use crate::managed;
use crate::passing::in_passing;
use crate::reach::{self, Reached};
use crate::state::Stream;
use crate::through::{self, MOST};
use crate::transfer::{Fill, Transfer, copy_in, copy_now, fill_in};
use driver::sys::*;
use protocol::{Chunk, DEFAULT_STREAM, MAX_PAYLOAD, Place, Reply, Request};
use std::cell::Cell;
use std::ffi::c_void;

/// One side of a copy: rows, one after the other by a pitch.
#[derive(Clone, Copy)]
pub(crate) struct Side {
    pub(crate) address: u64,
    pub(crate) pitch: u64,
    pub(crate) on_device: bool,
}

/// How many bytes a row has, and how many rows there are.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) width: u64,
    pub(crate) height: u64,
}

impl Side {
    /// Memory in one piece.
    fn linear(address: u64, on_device: bool) -> Side {
        Side {
            address,
            pitch: 0,
            on_device,
        }
    }

    /// Rows of it as the manager takes them, from a row and a byte on.
    pub(crate) fn place(self, row: u64, byte: u64, shape: Shape) -> Place {
        Place {
            address: self.address + row * self.pitch + byte,
            pitch: self.pitch,
            width: shape.width,
            height: shape.height,
        }
    }
}

fn exposed(pointer: *const c_void) -> u64 {
    pointer.expose_provenance() as u64
}

/// The pieces of a transfer of so many bytes at most: first row, first byte, shape.
pub(crate) fn pieces(whole: Shape, most: u64) -> impl Iterator<Item = (u64, u64, Shape)> {
    let rows = (most / whole.width.max(1)).max(1);
    let width = whole.width.min(most);
    let row_starts = (0..whole.height).step_by(rows as usize);
    row_starts.flat_map(move |row| {
        let height = rows.min(whole.height - row);
        (0..whole.width)
            .step_by(width.max(1) as usize)
            .map(move |byte| {
                let width = width.min(whole.width - byte);
                (row, byte, Shape { width, height })
            })
    })
}

/// Waits until all is over that a copy in this stream comes after.
pub(crate) fn settle(link: &'static Link, stream: u32) -> Result<Reached, CUresult> {
    let reached = reach::stream(link, stream)?;
    if stream == DEFAULT_STREAM || !link.state.order.is_ordered(stream) {
        return Ok(reached);
    }
    // (The stream may wait for it.)
    Ok(match reach::stream(link, DEFAULT_STREAM)? {
        Reached::Idle => reached,
        Reached::Later => Reached::Later,
    })
}

/// Asks for a copy until the streams are idle that it comes after. `false`: they never are,
/// because other threads put more in.
fn ask_for(
    link: &'static Link,
    request: &Request,
    (stream, payload): (u32, &[u8]),
    mut read: impl FnMut(&[u8]),
) -> Result<bool, CUresult> {
    let expected = match request {
        Request::Read { .. } => Reply::Bytes,
        _ => Reply::Done,
    };
    loop {
        match link.ask(request, payload, &mut read)? {
            Reply::Busy if settle(link, stream)? == Reached::Later => return Ok(false),
            Reply::Busy => {}
            reply if reply == expected => return Ok(true),
            _ => return Err(link.astray()),
        }
    }
}

/// The bytes of a piece of rows, one row behind the other.
///
/// # Safety
/// `from` is host memory with these rows.
pub(crate) unsafe fn gather(from: Side, (row, byte, part): (u64, u64, Shape), bytes: &mut Vec<u8>) {
    bytes.clear();
    for line in row..row + part.height {
        let at = from.address + line * from.pitch + byte;
        let at = std::ptr::with_exposed_provenance::<u8>(at as usize);
        // SAFETY: a part of a row of the program's memory.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(at, part.width as usize) });
    }
}

/// Spreads such bytes over the rows of a piece.
///
/// # Safety
/// `to` is host memory with these rows, which the program leaves to the copy.
pub(crate) unsafe fn scatter(to: Side, (row, byte, part): (u64, u64, Shape), bytes: &[u8]) {
    for (line, bytes) in (row..row + part.height).zip(bytes.chunks_exact(part.width as usize)) {
        let at = to.address + line * to.pitch + byte;
        let at = std::ptr::with_exposed_provenance_mut::<u8>(at as usize);
        // SAFETY: a part of a row of the program's memory; `bytes` are ours.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len()) };
    }
}

/// # Safety
/// `from` is host memory with these rows.
unsafe fn upload(link: &'static Link, stream: u32, to: Side, from: Side, shape: Shape) -> Answer {
    let mut bytes = Vec::new();
    for piece in pieces(shape, MAX_PAYLOAD as u64) {
        let (row, byte, part) = piece;
        // SAFETY: this function's promise.
        unsafe { gather(from, piece, &mut bytes) };
        let request = Request::Write {
            stream,
            to: to.place(row, byte, part),
        };
        let is_sure = bytes.len() as u64 <= SMALL && link.state.holds(&to.place(row, byte, part));
        if is_sure && link.send(&request, &bytes)? {
            continue;
        }
        while !ask_for(link, &request, (stream, &bytes), |_| {})? {
            let is_known = link.state.holds(&to.place(row, byte, part));
            // SAFETY: as above.
            if is_known && unsafe { in_passing(link, stream, (to, from), piece) }? {
                break;
            }
        }
    }
    Ok(())
}

/// # Safety
/// `to` is host memory with these rows.
unsafe fn download(link: &'static Link, stream: u32, to: Side, from: Side, shape: Shape) -> Answer {
    for piece in pieces(shape, MAX_PAYLOAD as u64) {
        let (row, byte, part) = piece;
        let request = Request::Read {
            stream,
            from: from.place(row, byte, part),
        };
        let fits = Cell::new(false);
        let read = |bytes: &[u8]| {
            fits.set(bytes.len() as u64 == part.width * part.height);
            if fits.get() {
                // SAFETY: this function's promise.
                unsafe { scatter(to, piece, bytes) };
            }
        };
        let is_whole = loop {
            if ask_for(link, &request, (stream, &[]), read)? {
                break fits.get();
            }
            let is_known = link.state.holds(&from.place(row, byte, part));
            // SAFETY: as above.
            if is_known && unsafe { in_passing(link, stream, (to, from), piece) }? {
                break true;
            }
        };
        if !is_whole {
            return Err(link.astray());
        }
    }
    Ok(())
}

/// Whether an address is one of memory that only the device has.
fn is_devices_alone(link: &Link, address: u64) -> bool {
    link.state.is_device(address) && !managed::is_managed(link, address)
}

/// A side where its address says that it is, whatever the program says: addresses are
/// those of one space.
pub(crate) fn of_its_address(link: &Link, side: Side) -> Result<Side, CUresult> {
    placed(side, is_devices_alone(link, side.address))
}

/// As [`of_its_address`].
///
/// # Errors
///
/// `CUDA_ERROR_INVALID_VALUE`: null, or next to it, where no memory is.
fn placed(side: Side, is_devices: bool) -> Result<Side, CUresult> {
    const NULL_PAGES: u64 = 1 << 16;
    let on_device = side.on_device || is_devices;
    if !on_device && side.address < NULL_PAGES {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    Ok(Side { on_device, ..side })
}

/// Whether all that comes into any stream later comes behind what is in this one.
fn is_before_all(link: &Link, stream: u32) -> bool {
    let is_apart = |stream: &Stream| stream.flags & CUstream_flags::CU_STREAM_NON_BLOCKING.0 != 0;
    stream == DEFAULT_STREAM && !link.state.streams.lock().values().any(is_apart)
}

/// Bytes of a download at most that is made in one piece: in several, the device and this
/// process copy at the same time.
const DOWNLOAD: u64 = 64 << 10;

/// A copy in the order of its stream, if it is of bytes in one piece that go through the
/// staging area ([`through`]); whether it was one.
///
/// # Safety
/// As [`copy_rows`].
unsafe fn in_order(
    link: &'static Link,
    stream: u32,
    (to, from): (Side, Side),
    shape: Shape,
    is_synchronous: bool,
) -> Result<bool, CUresult> {
    let (most, is_ordered) = match (to.on_device, from.on_device) {
        (true, false) => (MOST, !is_synchronous || is_before_all(link, stream)),
        (false, true) => (DOWNLOAD, true),
        _ => return Ok(false),
    };
    if shape.height != 1 || shape.width > most || !is_ordered {
        return Ok(false);
    }
    through::reclaim(link);
    let width = shape.width as usize;
    match from.on_device {
        false => {
            let at = std::ptr::with_exposed_provenance::<u8>(from.address as usize);
            // SAFETY: this function's promise.
            let bytes = unsafe { std::slice::from_raw_parts(at, width) };
            through::upload(link, stream, to.place(0, 0, shape), bytes, is_synchronous)
        }
        true => {
            let at = std::ptr::with_exposed_provenance_mut::<u8>(to.address as usize);
            // SAFETY: as above; the program leaves it to the copy.
            let bytes = unsafe { std::slice::from_raw_parts_mut(at, width) };
            let place = from.place(0, 0, shape);
            let read = |_, chunk: Chunk<'_>| chunk.read(bytes).is_ok();
            through::download(link, stream, &[place], read).map(|count| count == 1)
        }
    }
}

/// A copy of rows from wherever to wherever. `is_synchronous`: of a function that returns
/// when it has copied, so that what is done from then on, in whichever stream, finds the
/// bytes.
///
/// # Safety
/// A side in host memory is memory of the program with these rows.
pub(crate) unsafe fn copy_rows(
    link: &'static Link,
    stream: u32,
    (to, from): (Side, Side),
    shape: Shape,
    is_synchronous: bool,
) -> Answer {
    if shape.width == 0 || shape.height == 0 {
        return Ok(());
    }
    let (to, from) = (of_its_address(link, to)?, of_its_address(link, from)?);
    // So that no sum below overflows.
    for side in [to, from] {
        let last = side.pitch.checked_mul(shape.height);
        let end = last.and_then(|last| last.checked_add(side.address)?.checked_add(shape.width));
        end.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    }
    // SAFETY: this function's promise.
    if unsafe { in_order(link, stream, (to, from), shape, is_synchronous) }? {
        return Ok(());
    }
    let device = if to.on_device { to } else { from };
    let is_large = shape.width.saturating_mul(shape.height) > SMALL
        && to.on_device != from.on_device
        && link.state.holds(&device.place(0, 0, shape));
    if is_large {
        // SAFETY: this function's promise.
        return unsafe { large(link, stream, to, from, shape) };
    }
    match (to.on_device, from.on_device) {
        (true, true) => {
            let (to, from) = (to.place(0, 0, shape), from.place(0, 0, shape));
            let cannot_fail = link.state.holds(&to) && link.state.holds(&from);
            let request = Request::Copy { stream, to, from };
            link.state.order.put(link, request, cannot_fail).map(drop)
        }
        // SAFETY: this function's promise.
        (true, false) => unsafe { upload(link, stream, to, from, shape) },
        // SAFETY: this function's promise.
        (false, true) => unsafe { download(link, stream, to, from, shape) },
        (false, false) => {
            settle(link, stream)?;
            for row in 0..shape.height {
                let at = |side: Side| {
                    let address = side.address + row * side.pitch;
                    std::ptr::with_exposed_provenance_mut::<u8>(address as usize)
                };
                // SAFETY: rows of the program's memory, which may overlap.
                unsafe { std::ptr::copy(at(from), at(to), shape.width as usize) };
            }
            Ok(())
        }
    }
}

/// One side of the 2-D and 3-D structs.
pub(crate) struct End {
    kind: CUmemorytype,
    host: *const c_void,
    device: CUdeviceptr,
    x: usize,
    y: usize,
    z: usize,
    pitch: usize,
    height: usize,
}

impl End {
    /// The side for one slice of a copy of so many bytes and rows.
    pub(crate) fn slice(&self, link: &Link, slice: u64, shape: Shape) -> Result<Side, CUresult> {
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        let (base, on_device) = match self.kind {
            CUmemorytype::CU_MEMORYTYPE_HOST => (exposed(self.host), false),
            CUmemorytype::CU_MEMORYTYPE_DEVICE => (self.device, true),
            CUmemorytype::CU_MEMORYTYPE_UNIFIED => (self.device, link.state.is_device(self.device)),
            CUmemorytype::CU_MEMORYTYPE_ARRAY => {
                link.say("arrays are not supported for tenants; the copy fails with CUDA_ERROR_NOT_SUPPORTED");
                return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
            }
            _ => return Err(invalid),
        };
        let or = |given: usize, packed: u64| if given == 0 { packed } else { given as u64 };
        let pitch = or(
            self.pitch,
            shape.width.checked_add(self.x as u64).ok_or(invalid)?,
        );
        let height = or(
            self.height,
            shape.height.checked_add(self.y as u64).ok_or(invalid)?,
        );
        let slices = (self.z as u64).checked_add(slice).ok_or(invalid)?;
        let address = height
            .checked_mul(slices)
            .and_then(|rows| rows.checked_add(self.y as u64)?.checked_mul(pitch))
            .and_then(|bytes| bytes.checked_add(self.x as u64)?.checked_add(base));
        Ok(Side {
            address: address.ok_or(invalid)?,
            pitch,
            on_device,
        })
    }
}

/// The copy that a struct describes.
fn shape_2d(link: &Link, c: &CUDA_MEMCPY2D) -> Result<Transfer, CUresult> {
    let to = End {
        kind: c.dstMemoryType,
        host: c.dstHost,
        device: c.dstDevice,
        x: c.dstXInBytes,
        y: c.dstY,
        z: 0,
        pitch: c.dstPitch,
        height: 0,
    };
    let from = End {
        kind: c.srcMemoryType,
        host: c.srcHost,
        device: c.srcDevice,
        x: c.srcXInBytes,
        y: c.srcY,
        z: 0,
        pitch: c.srcPitch,
        height: 0,
    };
    let shape = Shape {
        width: c.WidthInBytes as u64,
        height: c.Height as u64,
    };
    Transfer::new(link, &to, &from, shape, 1)
}

/// The copy that a struct describes.
pub(crate) fn shape_3d(link: &Link, c: &CUDA_MEMCPY3D) -> Result<Transfer, CUresult> {
    let to = End {
        kind: c.dstMemoryType,
        host: c.dstHost,
        device: c.dstDevice,
        x: c.dstXInBytes,
        y: c.dstY,
        z: c.dstZ,
        pitch: c.dstPitch,
        height: c.dstHeight,
    };
    let from = End {
        kind: c.srcMemoryType,
        host: c.srcHost,
        device: c.srcDevice,
        x: c.srcXInBytes,
        y: c.srcY,
        z: c.srcZ,
        pitch: c.srcPitch,
        height: c.srcHeight,
    };
    let shape = Shape {
        width: c.WidthInBytes as u64,
        height: c.Height as u64,
    };
    Transfer::new(link, &to, &from, shape, c.Depth as u64)
}

/// The copy of memory in one piece; `None` as a side's kind lets the address tell.
fn linear(
    link: &Link,
    to: (u64, Option<bool>),
    from: (u64, Option<bool>),
    size: usize,
) -> Transfer {
    let side = |(address, on_device): (u64, Option<bool>)| {
        Side::linear(
            address,
            on_device.unwrap_or_else(|| link.state.is_device(address)),
        )
    };
    Transfer::linear(side(to), side(from), size as u64)
}

/// The copy between devices, of which there is one.
fn without_peers(c: &CUDA_MEMCPY3D_PEER) -> CUDA_MEMCPY3D {
    CUDA_MEMCPY3D {
        srcXInBytes: c.srcXInBytes,
        srcY: c.srcY,
        srcZ: c.srcZ,
        srcLOD: c.srcLOD,
        srcMemoryType: c.srcMemoryType,
        srcHost: c.srcHost,
        srcDevice: c.srcDevice,
        srcArray: c.srcArray,
        srcPitch: c.srcPitch,
        srcHeight: c.srcHeight,
        dstXInBytes: c.dstXInBytes,
        dstY: c.dstY,
        dstZ: c.dstZ,
        dstLOD: c.dstLOD,
        dstMemoryType: c.dstMemoryType,
        dstHost: c.dstHost,
        dstDevice: c.dstDevice,
        dstArray: c.dstArray,
        dstPitch: c.dstPitch,
        dstHeight: c.dstHeight,
        WidthInBytes: c.WidthInBytes,
        Height: c.Height,
        Depth: c.Depth,
        ..CUDA_MEMCPY3D::zeroed()
    }
}

/// Device memory.
const DEVICE: Option<bool> = Some(true);
/// The program's memory.
const HOST: Option<bool> = Some(false);

/// The stream of a call without one.
fn own(link: &'static Link, default: u64) -> Result<u32, CUresult> {
    pick(link, CUstream::NULL, default)
}

per_thread_functions! { link, default, register_copies;
    fn cuMemcpy | cuMemcpy_ptds(to: CUdeviceptr, from: CUdeviceptr, size: usize) {
        copy_now(link, own(link, default)?, linear(link, (to, None), (from, None), size))
    }
    fn cuMemcpyAsync | cuMemcpyAsync_ptsz(to: CUdeviceptr, from: CUdeviceptr, size: usize, stream: CUstream) {
        copy_in(link, pick(link, stream, default)?, linear(link, (to, None), (from, None), size))
    }
    fn cuMemcpyHtoD_v2 | cuMemcpyHtoD_v2_ptds(to: CUdeviceptr, from: *const c_void, size: usize) {
        copy_now(link, own(link, default)?, linear(link, (to, DEVICE), (exposed(from), HOST), size))
    }
    fn cuMemcpyDtoH_v2 | cuMemcpyDtoH_v2_ptds(to: *mut c_void, from: CUdeviceptr, size: usize) {
        copy_now(link, own(link, default)?, linear(link, (exposed(to), HOST), (from, DEVICE), size))
    }
    fn cuMemcpyDtoD_v2 | cuMemcpyDtoD_v2_ptds(to: CUdeviceptr, from: CUdeviceptr, size: usize) {
        copy_now(link, own(link, default)?, linear(link, (to, DEVICE), (from, DEVICE), size))
    }
    fn cuMemcpyHtoDAsync_v2 | cuMemcpyHtoDAsync_v2_ptsz(to: CUdeviceptr, from: *const c_void, size: usize, stream: CUstream) {
        copy_in(link, pick(link, stream, default)?, linear(link, (to, DEVICE), (exposed(from), HOST), size))
    }
    fn cuMemcpyDtoHAsync_v2 | cuMemcpyDtoHAsync_v2_ptsz(to: *mut c_void, from: CUdeviceptr, size: usize, stream: CUstream) {
        copy_in(link, pick(link, stream, default)?, linear(link, (exposed(to), HOST), (from, DEVICE), size))
    }
    fn cuMemcpyDtoDAsync_v2 | cuMemcpyDtoDAsync_v2_ptsz(to: CUdeviceptr, from: CUdeviceptr, size: usize, stream: CUstream) {
        copy_in(link, pick(link, stream, default)?, linear(link, (to, DEVICE), (from, DEVICE), size))
    }
    fn cuMemcpy2D_v2 | cuMemcpy2D_v2_ptds(copy: *const CUDA_MEMCPY2D) {
        copy_now(link, own(link, default)?, shape_2d(link, &get(copy)?)?)
    }
    fn cuMemcpy2DUnaligned_v2 | cuMemcpy2DUnaligned_v2_ptds(copy: *const CUDA_MEMCPY2D) {
        copy_now(link, own(link, default)?, shape_2d(link, &get(copy)?)?)
    }
    fn cuMemcpy2DAsync_v2 | cuMemcpy2DAsync_v2_ptsz(copy: *const CUDA_MEMCPY2D, stream: CUstream) {
        copy_in(link, pick(link, stream, default)?, shape_2d(link, &get(copy)?)?)
    }
    fn cuMemcpy3D_v2 | cuMemcpy3D_v2_ptds(copy: *const CUDA_MEMCPY3D) {
        copy_now(link, own(link, default)?, shape_3d(link, &get(copy)?)?)
    }
    fn cuMemcpy3DAsync_v2 | cuMemcpy3DAsync_v2_ptsz(copy: *const CUDA_MEMCPY3D, stream: CUstream) {
        copy_in(link, pick(link, stream, default)?, shape_3d(link, &get(copy)?)?)
    }
    fn cuMemcpyPeer | cuMemcpyPeer_ptds(to: CUdeviceptr, _target: CUcontext, from: CUdeviceptr, _source: CUcontext, size: usize) {
        copy_now(link, own(link, default)?, linear(link, (to, DEVICE), (from, DEVICE), size))
    }
    fn cuMemcpyPeerAsync | cuMemcpyPeerAsync_ptsz(to: CUdeviceptr, _target: CUcontext, from: CUdeviceptr, _source: CUcontext, size: usize, stream: CUstream) {
        copy_in(link, pick(link, stream, default)?, linear(link, (to, DEVICE), (from, DEVICE), size))
    }
    fn cuMemcpy3DPeer | cuMemcpy3DPeer_ptds(copy: *const CUDA_MEMCPY3D_PEER) {
        copy_now(link, own(link, default)?, shape_3d(link, &without_peers(&get(copy)?))?)
    }
    fn cuMemcpy3DPeerAsync | cuMemcpy3DPeerAsync_ptsz(copy: *const CUDA_MEMCPY3D_PEER, stream: CUstream) {
        copy_in(link, pick(link, stream, default)?, shape_3d(link, &without_peers(&get(copy)?))?)
    }
    fn cuMemcpyBatchAsync_v2 | cuMemcpyBatchAsync_v2_ptsz(
        to: *mut CUdeviceptr, from: *mut CUdeviceptr, sizes: *mut usize, count: usize, _attributes: *mut CUmemcpyAttributes,
        _indices: *mut usize, _attribute_count: usize, stream: CUstream,
    ) {
        let (to, from, sizes) = (list(to, count), list(from, count), list(sizes, count));
        for ((to, from), size) in to.iter().zip(from).zip(sizes) {
            copy_in(link, pick(link, stream, default)?, linear(link, (*to, None), (*from, None), *size))?;
        }
        Ok(())
    }
}

/// A memset of rows: the first byte and the pitch, the value and its bytes, and
/// how many elements and rows.
fn fill(
    link: &'static Link,
    stream: u32,
    (address, pitch): (u64, usize),
    (value, element): (u32, u32),
    (width, height): (usize, usize),
) -> Answer {
    let fill = Fill {
        address,
        pitch: pitch as u64,
        element,
        value,
        width: width as u64,
        height: height as u64,
    };
    fill_in(link, stream, fill)
}

per_thread_functions! { link, default, register_fills;
    fn cuMemsetD8_v2 | cuMemsetD8_v2_ptds(to: CUdeviceptr, value: u8, count: usize) {
        fill(link, own(link, default)?, (to, 0), (value.into(), 1), (count, 1))
    }
    fn cuMemsetD16_v2 | cuMemsetD16_v2_ptds(to: CUdeviceptr, value: u16, count: usize) {
        fill(link, own(link, default)?, (to, 0), (value.into(), 2), (count, 1))
    }
    fn cuMemsetD32_v2 | cuMemsetD32_v2_ptds(to: CUdeviceptr, value: u32, count: usize) {
        fill(link, own(link, default)?, (to, 0), (value, 4), (count, 1))
    }
    fn cuMemsetD2D8_v2 | cuMemsetD2D8_v2_ptds(to: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize) {
        fill(link, own(link, default)?, (to, pitch), (value.into(), 1), (width, height))
    }
    fn cuMemsetD2D16_v2 | cuMemsetD2D16_v2_ptds(to: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize) {
        fill(link, own(link, default)?, (to, pitch), (value.into(), 2), (width, height))
    }
    fn cuMemsetD2D32_v2 | cuMemsetD2D32_v2_ptds(to: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize) {
        fill(link, own(link, default)?, (to, pitch), (value, 4), (width, height))
    }
    fn cuMemsetD8Async | cuMemsetD8Async_ptsz(to: CUdeviceptr, value: u8, count: usize, stream: CUstream) {
        fill(link, pick(link, stream, default)?, (to, 0), (value.into(), 1), (count, 1))
    }
    fn cuMemsetD16Async | cuMemsetD16Async_ptsz(to: CUdeviceptr, value: u16, count: usize, stream: CUstream) {
        fill(link, pick(link, stream, default)?, (to, 0), (value.into(), 2), (count, 1))
    }
    fn cuMemsetD32Async | cuMemsetD32Async_ptsz(to: CUdeviceptr, value: u32, count: usize, stream: CUstream) {
        fill(link, pick(link, stream, default)?, (to, 0), (value, 4), (count, 1))
    }
    fn cuMemsetD2D8Async | cuMemsetD2D8Async_ptsz(to: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize, stream: CUstream) {
        fill(link, pick(link, stream, default)?, (to, pitch), (value.into(), 1), (width, height))
    }
    fn cuMemsetD2D16Async | cuMemsetD2D16Async_ptsz(to: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize, stream: CUstream) {
        fill(link, pick(link, stream, default)?, (to, pitch), (value.into(), 2), (width, height))
    }
    fn cuMemsetD2D32Async | cuMemsetD2D32Async_ptsz(to: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize, stream: CUstream) {
        fill(link, pick(link, stream, default)?, (to, pitch), (value, 4), (width, height))
    }
}

/// Enters this file's functions into the table.
pub(crate) fn register(api: &mut driver::Api) {
    register_copies(api);
    register_fills(api);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_where_its_address_says() {
        let place = |address, on_device, is_devices| {
            let side = Side::linear(address, on_device);
            placed(side, is_devices).map(|side| side.on_device)
        };
        assert_eq!(place(1 << 40, false, false), Ok(false));
        assert_eq!(place(1 << 40, false, true), Ok(true));
        assert_eq!(place(1 << 40, true, true), Ok(true));
        let null = Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        assert_eq!(place(0, false, false), null);
        assert_eq!(place(100, false, false), null);
        // The manager says what is wrong with it.
        assert_eq!(place(0, true, false), Ok(true));
    }
}
