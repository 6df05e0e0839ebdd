//! Large copies between host and device, as pieces of the staging area.

use crate::convert::Answer;
use crate::copy::{Shape, Side, of_its_address, pieces, settle};
use crate::link::Link;
use crate::passing::in_passing;
use crate::pinned::left_in_unit;
use crate::reach::Reached;
use crate::staged::{self, PIECE, Pieces};
use protocol::{Chunk, Request, STAGING_ALIGN as ALIGN};

/// A large copy between host and device.
struct Large {
    stream: u32,
    host: Side,
    device: Side,
    is_upload: bool,
    /// First row, first byte, shape of each piece.
    pieces: Vec<(u64, u64, Shape)>,
    /// Where the pieces are in the staging area, as far as they are.
    places: Vec<Option<u64>>,
    /// A piece whose rows are apart in host memory.
    gathered: Vec<u8>,
}

impl Large {
    /// Where a piece is in host memory, if it is there in one piece.
    fn host_bytes(&self, index: usize) -> Option<(u64, usize)> {
        let (row, byte, shape) = self.pieces[index];
        let is_whole = shape.height == 1 || self.host.pitch == shape.width;
        let at = self.host.address + row * self.host.pitch + byte;
        is_whole.then_some((at, (shape.width * shape.height) as usize))
    }

    /// The rows of a piece in host memory, as first bytes.
    fn rows(&self, index: usize) -> impl Iterator<Item = usize> + use<> {
        let (row, byte, shape) = self.pieces[index];
        let host = self.host;
        (row..row + shape.height).map(move |row| (host.address + row * host.pitch + byte) as usize)
    }
}

impl Pieces for Large {
    fn count(&self) -> usize {
        self.pieces.len()
    }

    fn bytes(&self, index: usize) -> u64 {
        let (_, _, shape) = self.pieces[index];
        shape.width * shape.height
    }

    fn place(&self, index: usize) -> Option<u64> {
        self.places.get(index).copied().flatten()
    }

    fn request(&self, index: usize, offset: u64) -> Request {
        let (row, byte, shape) = self.pieces[index];
        let place = self.device.place(row, byte, shape);
        let stream = self.stream;
        match self.is_upload {
            true => Request::WriteStaged {
                stream,
                to: place,
                offset,
            },
            false => Request::ReadStaged {
                stream,
                from: place,
                offset,
            },
        }
    }

    fn before(&mut self, index: usize, chunk: Chunk<'_>) {
        if !self.is_upload {
            return;
        }
        let result = match self.host_bytes(index) {
            Some((at, bytes)) => {
                let at = std::ptr::with_exposed_provenance::<u8>(at as usize);
                // SAFETY: `large` was promised that the host side is memory of
                // the program with these rows.
                chunk.write(unsafe { std::slice::from_raw_parts(at, bytes) })
            }
            None => {
                self.gathered.clear();
                let width = self.pieces[index].2.width as usize;
                for at in self.rows(index) {
                    let at = std::ptr::with_exposed_provenance::<u8>(at);
                    // SAFETY: as above, one of the rows.
                    let row = unsafe { std::slice::from_raw_parts(at, width) };
                    self.gathered.extend_from_slice(row);
                }
                chunk.write(&self.gathered)
            }
        };
        debug_assert!(result.is_ok(), "a chunk is as long as its piece");
    }

    fn after(&mut self, index: usize, chunk: Chunk<'_>) {
        if self.is_upload {
            return;
        }
        let result = match self.host_bytes(index) {
            Some((at, bytes)) => {
                let at = std::ptr::with_exposed_provenance_mut::<u8>(at as usize);
                // SAFETY: as in `before`; the program leaves it to the copy.
                chunk.read(unsafe { std::slice::from_raw_parts_mut(at, bytes) })
            }
            None => {
                let width = self.pieces[index].2.width as usize;
                self.gathered.resize(chunk.length(), 0);
                let result = chunk.read(&mut self.gathered);
                for (at, row) in self.rows(index).zip(self.gathered.chunks_exact(width)) {
                    let at = std::ptr::with_exposed_provenance_mut::<u8>(at);
                    // SAFETY: as in `before`, one of the rows; `row` is ours.
                    unsafe { std::ptr::copy_nonoverlapping(row.as_ptr(), at, width) };
                }
                result
            }
        };
        debug_assert!(result.is_ok(), "a chunk is as long as its piece");
    }
}

/// The pieces of a copy whose host side is pinned, in one piece: each lies in one
/// unit of the staging area, and begins where the manager copies from or to; but
/// for the first one, which may be copied through.
fn pinned(start: u64, bytes: u64) -> impl Iterator<Item = ((u64, u64, Shape), Option<u64>)> {
    let before = (start.next_multiple_of(ALIGN) - start).min(bytes);
    let width = before;
    let first = (before > 0).then_some(((0, 0, Shape { width, height: 1 }), None));
    let rest = in_units(start + before, bytes - before);
    let rest = rest.map(move |(at, shape)| {
        let at = before + at;
        ((0, at, shape), Some(start + at))
    });
    first.into_iter().chain(rest)
}

/// The pieces of bytes of the staging area that each lie in one unit of it: how far the
/// first byte is from the start, and the bytes.
fn in_units(start: u64, bytes: u64) -> impl Iterator<Item = (u64, Shape)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let left = bytes.checked_sub(at).filter(|left| *left > 0)?;
        let shape = Shape {
            width: left_in_unit(start + at).min(left),
            height: 1,
        };
        let piece = (at, shape);
        at += shape.width;
        Some(piece)
    })
}

/// What puts a copy into a stream whose host side is pinned memory in one piece, which
/// the device copies from or to by itself; `None` for other copies.
pub(crate) fn behind(
    link: &Link,
    stream: u32,
    (to, from): (Side, Side),
    shape: Shape,
) -> Option<Vec<Request>> {
    let to = of_its_address(link, to).ok()?;
    let from = of_its_address(link, from).ok()?;
    let is_upload = to.on_device;
    let (host, device) = if is_upload { (from, to) } else { (to, from) };
    let is_one = shape.height == 1 && host.on_device != device.on_device;
    if !is_one || shape.width == 0 || !link.state.holds(&device.place(0, 0, shape)) {
        return None;
    }
    let start = link.state.pinned.lock().offset(host.address, shape.width)?;
    let requests = in_units(start, shape.width).map(|(at, piece)| {
        let (place, offset) = (device.place(0, at, piece), start + at);
        match is_upload {
            true => Request::WriteBehind {
                stream,
                to: place,
                offset,
            },
            false => Request::ReadBehind {
                stream,
                from: place,
                offset,
            },
        }
    });
    Some(requests.collect())
}

/// Copies through the staging area, or from and to the pinned part of it.
///
/// # Safety
/// The side that is not on the device is host memory with these rows.
pub(crate) unsafe fn large(
    link: &'static Link,
    stream: u32,
    to: Side,
    from: Side,
    shape: Shape,
) -> Answer {
    let is_upload = to.on_device;
    let (host, device) = if is_upload { (from, to) } else { (to, from) };
    let is_packed = |side: Side| side.pitch == shape.width;
    let shape = match shape.height > 1 && is_packed(host) && is_packed(device) {
        true => Shape {
            width: shape.width * shape.height,
            height: 1,
        },
        false => shape,
    };
    let start = match shape.height {
        1 => link.state.pinned.lock().offset(host.address, shape.width),
        _ => None,
    };
    let (pieces, places) = match start {
        Some(start) => pinned(start, shape.width).unzip(),
        None => (pieces(shape, PIECE).collect(), Vec::new()),
    };
    let mut whole = Large {
        stream,
        host,
        device,
        is_upload,
        pieces,
        places,
        gathered: Vec::new(),
    };
    let mut done = staged::run(link, 0, &mut whole)?;
    while done < whole.pieces.len() {
        if settle(link, stream)? == Reached::Later {
            while let Some(piece) = whole.pieces.get(done) {
                // SAFETY: this function's promise.
                if !unsafe { in_passing(link, stream, (to, from), *piece) }? {
                    break;
                }
                done += 1;
            }
        }
        done = staged::run(link, done, &mut whole)?;
    }
    Ok(())
}
