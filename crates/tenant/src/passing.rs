//! Copies between host and device while other threads of the program keep the stream busy,
//! so that it may never be idle.

use crate::convert::Answer;
use crate::copy::{Shape, Side, gather, pieces, scatter};
use crate::link::Link;
use crate::reach;
use crate::through::{self, MOST};
use protocol::{Chunk, Place};

/// Copies a piece of rows in the order of its stream, which other threads keep busy, when
/// what was in it is over; waits for it.
///
/// # Safety
/// The side that is not on the device is host memory with these rows.
pub(crate) unsafe fn in_passing(
    link: &'static Link,
    stream: u32,
    (to, from): (Side, Side),
    (row, byte, whole): (u64, u64, Shape),
) -> Answer {
    let smaller = pieces(whole, MOST);
    let smaller = smaller.map(|(down, right, part)| (row + down, byte + right, part));
    let mut bytes = Vec::new();
    if !from.on_device {
        for piece in smaller {
            // SAFETY: this function's promise.
            unsafe { gather(from, piece, &mut bytes) };
            let place = to.place(piece.0, piece.1, piece.2);
            while !through::upload(link, stream, place, &bytes, false)? {
                // (Then there are chunks again.)
                reach::stream(link, stream)?;
            }
        }
        return reach::stream(link, stream).map(drop);
    }
    let smaller: Vec<_> = smaller.collect();
    let place = |(row, byte, part): &(u64, u64, Shape)| from.place(*row, *byte, *part);
    let places: Vec<Place> = smaller.iter().map(place).collect();
    let mut done = 0;
    while done < places.len() {
        let read = |index: usize, chunk: Chunk<'_>| {
            bytes.resize(chunk.length(), 0);
            let is_read = chunk.read(&mut bytes).is_ok();
            // SAFETY: as above.
            unsafe { scatter(to, smaller[done + index], &bytes) };
            is_read
        };
        match through::download(link, stream, &places[done..], read)? {
            0 => drop(reach::stream(link, stream)?),
            more => done += more,
        }
    }
    Ok(())
}
