//! Copies between memory that the manager does not share and the device, in the order
//! of a stream: through a chunk of the staging area, from or to which the device copies
//! when it is the copy's turn. So nobody waits for an upload, and a download follows the
//! kernels before it without the host between.
//!
//! A chunk that is uploaded from is lent to the copy's stream, until that is known to be
//! idle ([`crate::ahead`]).

use crate::ahead::Ahead;
use crate::link::{Link, Wire};
use driver::sys::CUresult;
use protocol::{Chunk, Chunks, DEFAULT_STREAM, Frame, Place, Request};
use std::collections::BTreeMap;

/// Bytes at the start of the staging area for such chunks; large copies have the rest of
/// what is copied through.
pub(crate) const AREA: u64 = 2 << 20;
/// Bytes of an upload at most.
pub(crate) const UPLOAD: u64 = 512 << 10;
/// Bytes of a download at most.
pub(crate) const DOWNLOAD: u64 = 64 << 10;

/// The chunks.
pub(crate) struct Through {
    chunks: Chunks,
    /// By stream: the offsets of those that its copies use.
    lent: BTreeMap<u32, Vec<u64>>,
}

impl Through {
    /// None is used.
    pub(crate) fn new() -> Through {
        Through {
            chunks: Chunks::new(AREA),
            lent: BTreeMap::new(),
        }
    }

    /// A request with a reply was answered: takes back what was lent to streams that are
    /// idle now.
    pub(crate) fn answered(&mut self, request: &Request, ahead: &Ahead) {
        // Its number may be given to another stream at once. What is left in it the manager
        // puts before the default stream.
        if let Request::StreamDestroy { stream } = request
            && let Some(offsets) = self.lent.remove(stream)
        {
            self.lent.entry(DEFAULT_STREAM).or_default().extend(offsets);
        }
        let chunks = &mut self.chunks;
        self.lent.retain(|stream, offsets| {
            let is_busy = ahead.is_busy(*stream);
            if !is_busy {
                for offset in offsets.drain(..) {
                    // (Each was taken once.)
                    let _ = chunks.give_back(offset);
                }
            }
            is_busy
        });
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
        return Ok(None);
    };
    let is_written = channel.staging().chunk(offset, bytes).is_ok_and(write);
    let request = request(offset);
    if !is_written || !wire.ahead.may_send(&request) {
        // (It was taken just now.)
        let _ = wire.through.chunks.give_back(offset);
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

/// Puts an upload of at most [`UPLOAD`] bytes into a stream; `false`: it was not put in.
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
        wire.through.lent.entry(stream).or_default().push(offset);
    }
    Ok(offset.is_some())
}

/// Downloads at most [`DOWNLOAD`] bytes behind what is in a stream, and waits for it;
/// `false`: nothing was done.
pub(crate) fn download(
    link: &Link,
    stream: u32,
    from: Place,
    bytes: &mut [u8],
) -> Result<bool, CUresult> {
    let length = bytes.len() as u64;
    if !link.state.holds(&from) || !link.may_send() {
        return Ok(false);
    }
    let request = |offset| Request::ReadBehind {
        stream,
        from,
        offset,
    };
    let offset = put(link, &mut link.channel.lock(), length, |_| true, request)?;
    let Some(offset) = offset else {
        return Ok(false);
    };
    let over = link.done(&Request::StreamQuery { stream });
    let gone = CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE;
    let wire = &mut *link.channel.lock();
    if let Err(error) = over {
        // (The copy may still be made.)
        wire.through.lent.entry(stream).or_default().push(offset);
        return Err(error);
    }
    let channel = wire.channel.as_ref().ok_or(gone)?;
    let chunk = channel.staging().chunk(offset, length);
    let is_read = chunk.is_ok_and(|chunk| chunk.read(bytes).is_ok());
    // (It was taken above.)
    let _ = wire.through.chunks.give_back(offset);
    is_read.then_some(true).ok_or(gone)
}
