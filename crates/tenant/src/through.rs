//! Copies between memory that the manager does not share and the device, in the order
//! of a stream: through a chunk of the staging area, from or to which the device copies
//! when it is the copy's turn. So nobody waits for an upload, and a download follows the
//! kernels before it without the host between.
//!
//! A chunk that is uploaded from is lent to the copy's stream, until that is known to be
//! idle ([`crate::ahead`]), or to have come past it ([`crate::reach`]).

use crate::ahead::Ahead;
use crate::link::{Link, Wire};
use crate::reach;
use driver::sys::CUresult;
use protocol::{Chunk, Chunks, DEFAULT_STREAM, Frame, Place, Request};
use std::collections::BTreeMap;

/// Bytes at the start of the staging area for such chunks; large copies have the rest of
/// what is copied through.
pub(crate) const AREA: u64 = 2 << 20;
/// Bytes of a copy at most.
pub(crate) const MOST: u64 = 512 << 10;

/// The chunks.
pub(crate) struct Through {
    chunks: Chunks,
    /// By stream: the offsets of those that its copies use.
    lent: BTreeMap<u32, Vec<u64>>,
    /// A copy found no chunk free.
    was_full: bool,
}

impl Through {
    /// None is used.
    pub(crate) fn new() -> Through {
        Through {
            chunks: Chunks::new(AREA),
            lent: BTreeMap::new(),
            was_full: false,
        }
    }

    /// A request with a reply was answered: takes back what was lent to streams that are
    /// idle now.
    pub(crate) fn answered(&mut self, request: &Request, ahead: &Ahead) {
        // Its number may be given to another stream at once. What is left in it the manager
        // puts before the default stream.
        if let Request::StreamDestroy { stream } = request {
            let lent = self.take_lent(*stream);
            self.lend(DEFAULT_STREAM, lent);
        }
        let is_idle = |stream: &u32| !ahead.is_busy(*stream);
        let idle: Vec<u32> = self.lent.keys().copied().filter(is_idle).collect();
        for stream in idle {
            let lent = self.take_lent(stream);
            self.give_back(lent);
        }
    }

    /// What was lent to a stream, which has to be given back or lent again.
    pub(crate) fn take_lent(&mut self, stream: u32) -> Vec<u64> {
        self.lent.remove(&stream).unwrap_or_default()
    }

    /// Lends chunks to a stream.
    pub(crate) fn lend(&mut self, stream: u32, chunks: Vec<u64>) {
        if !chunks.is_empty() {
            self.lent.entry(stream).or_default().extend(chunks);
        }
    }

    /// Nothing uses these chunks any more.
    pub(crate) fn give_back(&mut self, chunks: Vec<u64>) {
        for offset in chunks {
            // (Each was taken once.)
            let _ = self.chunks.give_back(offset);
        }
    }
}

/// Puts a copy of so many bytes into a stream; the offset of its chunk, `None` where it was
/// not put in. `write` fills the chunk before; whether it could.
fn put(
    link: &Link,
    wire: &mut Wire,
    bytes: u64,
    write: impl FnOnce(Chunk<'_>) -> bool,
    request: impl FnOnce(u64) -> Request,
) -> Result<Option<u64>, CUresult> {
    let Some(channel) = wire.channel.as_mut().filter(|channel| !channel.is_held()) else {
        return Ok(None);
    };
    let Some(offset) = wire.through.chunks.take(bytes) else {
        wire.through.was_full = true;
        return Ok(None);
    };
    let is_written = channel.staging().chunk(offset, bytes).is_ok_and(write);
    let request = request(offset);
    if !is_written || !wire.ahead.may_send(&request) {
        wire.through.give_back(vec![offset]);
        return Ok(None);
    }
    match Frame::send_quietly(channel, &request, &[]) {
        Ok(()) => Ok(Some(offset)),
        Err(error) => {
            link.lose(&error.to_string());
            Err(CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE)
        }
    }
}

/// If no chunk was left, looks once which of the streams that have some are idle: the
/// program may never ask about them.
pub(crate) fn reclaim(link: &Link) {
    let streams: Vec<u32> = {
        let through = &mut link.channel.lock().through;
        match std::mem::take(&mut through.was_full) {
            true => through.lent.keys().copied().collect(),
            false => return,
        }
    };
    for stream in streams {
        // (What has failed the program's next call tells.)
        let _ = link.is_over(&Request::StreamQuery { stream });
    }
}

/// Puts an upload of at most [`MOST`] bytes into a stream; `false`: it was not put in.
/// Before an upload that `is_synchronous`, CUDA waits for what is in the stream, which the
/// program may rely on: it is put in only where nothing is there to wait for.
pub(crate) fn upload(
    link: &Link,
    stream: u32,
    to: Place,
    bytes: &[u8],
    is_synchronous: bool,
) -> Result<bool, CUresult> {
    if !link.state.holds(&to) || !link.may_send() {
        return Ok(false);
    }
    let wire = &mut *link.channel.lock();
    if is_synchronous && !wire.ahead.has_uploads_alone() {
        return Ok(false);
    }
    let write = |chunk: Chunk<'_>| chunk.write(bytes).is_ok();
    let request = |offset| Request::WriteBehind { stream, to, offset };
    let offset = put(link, wire, bytes.len() as u64, write, request)?;
    if let Some(offset) = offset {
        wire.through.lend(stream, vec![offset]);
    }
    Ok(offset.is_some())
}

/// Puts a download of at most [`MOST`] bytes into a stream; the offset of its chunk, `None`
/// where it was not put in.
fn put_download(link: &Link, stream: u32, from: Place) -> Result<Option<u64>, CUresult> {
    if !link.state.holds(&from) || !link.may_send() {
        return Ok(None);
    }
    let request = |offset| Request::ReadBehind {
        stream,
        from,
        offset,
    };
    let bytes = from.width * from.height;
    put(link, &mut link.channel.lock(), bytes, |_| true, request)
}

/// Downloads at most [`MOST`] bytes of each place behind what is in a stream, and waits for
/// it. `read` takes the bytes of one after the other, and says whether it could; how many were
/// downloaded, from the first one on.
pub(crate) fn download(
    link: &'static Link,
    stream: u32,
    places: &[Place],
    mut read: impl FnMut(usize, Chunk<'_>) -> bool,
) -> Result<usize, CUresult> {
    let mut chunks = Vec::new();
    let mut over = Ok(());
    for place in places {
        match put_download(link, stream, *place) {
            Ok(Some(offset)) => chunks.push(offset),
            Ok(None) => break,
            Err(error) => {
                over = Err(error);
                break;
            }
        }
    }
    if chunks.is_empty() {
        return over.map(|()| 0);
    }
    let over = over.and_then(|()| reach::stream(link, stream).map(drop));
    let wire = &mut *link.channel.lock();
    if over.is_err() {
        // (The copies may still be made.)
        wire.through.lend(stream, chunks);
        return over.map(|()| 0);
    }
    let gone = CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE;
    let channel = wire.channel.as_ref().ok_or(gone)?;
    for (index, (offset, place)) in chunks.iter().zip(places).enumerate() {
        let chunk = channel.staging().chunk(*offset, place.width * place.height);
        let is_read = chunk.is_ok_and(|chunk| read(index, chunk));
        is_read.then_some(()).ok_or(gone)?;
    }
    let count = chunks.len();
    wire.through.give_back(chunks);
    Ok(count)
}
