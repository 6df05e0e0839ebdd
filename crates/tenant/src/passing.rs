//! Copies between host and device while other threads of the program keep the stream busy,
//! so that it may never be idle.

use crate::copy::{Shape, Side, gather, pieces, scatter};
use crate::link::Link;
use crate::reach;
use crate::through::{self, MOST};
use driver::sys::CUresult;
use protocol::{Chunk, Place};

/// Tries to put something into a stream until it can be, or that is of no use now, because
/// all chunks of the staging area are with other streams.
fn with_room(
    link: &'static Link,
    stream: u32,
    mut attempt: impl FnMut() -> Result<bool, CUresult>,
) -> Result<bool, CUresult> {
    if attempt()? {
        return Ok(true);
    }
    through::reclaim(link);
    if attempt()? {
        return Ok(true);
    }
    reach::stream(link, stream)?;
    attempt()
}

/// Copies a piece of rows in the order of its stream, which other threads keep busy, when
/// what was in it is over; waits for it. `false`: not all of it could be put in.
///
/// # Safety
/// The side that is not on the device is host memory with these rows.
pub(crate) unsafe fn in_passing(
    link: &'static Link,
    stream: u32,
    (to, from): (Side, Side),
    (row, byte, whole): (u64, u64, Shape),
) -> Result<bool, CUresult> {
    let smaller = pieces(whole, MOST);
    let smaller = smaller.map(|(down, right, part)| (row + down, byte + right, part));
    let mut bytes = Vec::new();
    if !from.on_device {
        for piece in smaller {
            // SAFETY: this function's promise.
            unsafe { gather(from, piece, &mut bytes) };
            let place = to.place(piece.0, piece.1, piece.2);
            let upload = || through::upload(link, stream, place, &bytes, false);
            if !with_room(link, stream, upload)? {
                return Ok(false);
            }
        }
        return reach::stream(link, stream).map(|_| true);
    }
    let smaller: Vec<_> = smaller.collect();
    let place = |(row, byte, part): &(u64, u64, Shape)| from.place(*row, *byte, *part);
    let places: Vec<Place> = smaller.iter().map(place).collect();
    let mut done = 0;
    while done < places.len() {
        let first = done;
        let download = || {
            let read = |index: usize, chunk: Chunk<'_>| {
                bytes.resize(chunk.length(), 0);
                let is_read = chunk.read(&mut bytes).is_ok();
                // SAFETY: as above.
                unsafe { scatter(to, smaller[first + index], &bytes) };
                is_read
            };
            done = first + through::download(link, stream, &places[first..], read)?;
            Ok(done > first)
        };
        if !with_room(link, stream, download)? {
            return Ok(false);
        }
    }
    Ok(true)
}
