//! Large copies between host and device: through memory that the manager shares,
//! several pieces under way at a time, so that this process and the device copy
//! at the same time.

use crate::convert::Answer;
use crate::link::Link;
use crate::through::AREA;
use driver::sys::CUresult;
use protocol::{COPIED_THROUGH, Chunk, Chunks, Frame, Reply, Request};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// Bytes of a piece at most.
pub(crate) const PIECE: u64 = 2 << 20;

/// One copy, in pieces.
pub(crate) trait Pieces {
    /// How many.
    fn count(&self) -> usize;
    /// Bytes of one.
    fn bytes(&self, index: usize) -> u64;
    /// Where its bytes are in the area, if they are there already.
    fn place(&self, index: usize) -> Option<u64>;
    /// What is asked for with one, whose bytes are at this offset of the area.
    fn request(&self, index: usize, offset: u64) -> Request;
    /// Called before one is asked for whose bytes are elsewhere.
    fn before(&mut self, index: usize, chunk: Chunk<'_>);
    /// Called when it is done.
    fn after(&mut self, index: usize, chunk: Chunk<'_>);
}

/// Pieces under way.
const DEPTH: usize = 4;

/// Copies the pieces from the first one on, in order; how many are done before
/// one that other work must be over for.
pub(crate) fn run(link: &Link, first: usize, pieces: &mut dyn Pieces) -> Result<usize, CUresult> {
    let gone = CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE;
    if link.is_lost.load(Ordering::Acquire) {
        return Err(gone);
    }
    // Held for all of it: replies come in the order of requests.
    let mut wire = link.channel.lock();
    let wire = &mut *wire;
    let channel = wire.channel.as_mut().ok_or(gone)?;
    let staging = channel.staging().clone();
    let lost = |why: &dyn std::fmt::Display| {
        link.lose(&why.to_string());
        gone
    };
    // (Behind those of `through`.)
    let mut chunks = Chunks::new(staging.size().min(COPIED_THROUGH).saturating_sub(AREA));
    let mut under_way = VecDeque::new();
    let (mut next, mut done) = (first, first);
    let mut ended: Option<Answer> = None;
    loop {
        while ended.is_none() && next < pieces.count() && under_way.len() < DEPTH {
            let bytes = pieces.bytes(next);
            let place = pieces.place(next);
            let Some(offset) = place.or_else(|| Some(AREA + chunks.take(bytes)?)) else {
                break;
            };
            if place.is_none() {
                let chunk = staging.chunk(offset, bytes).map_err(|error| lost(&error))?;
                pieces.before(next, chunk);
            }
            let request = pieces.request(next, offset);
            Frame::send(channel, &request, &[]).map_err(|error| lost(&error))?;
            under_way.push_back((next, offset, request));
            next += 1;
        }
        let Some((index, offset, request)) = under_way.pop_front() else {
            break;
        };
        let is_taken = pieces.place(index).is_none();
        let reply = wire.frame.receive::<Reply>(channel);
        let reply = reply.map_err(|error| lost(&error))?;
        wire.ahead.answered(&request, &reply);
        match reply {
            Reply::Done if ended.is_none() => {
                if is_taken {
                    let chunk = staging.chunk(offset, pieces.bytes(index));
                    pieces.after(index, chunk.map_err(|error| lost(&error))?);
                }
                done = index + 1;
            }
            Reply::Done => {}
            Reply::Busy => {
                ended.get_or_insert(Ok(()));
            }
            Reply::Failed { code, message } => {
                if !matches!(ended, Some(Err(_))) {
                    link.note(code);
                    link.explain(code, &message);
                    ended = Some(Err(CUresult(code)));
                }
            }
            Reply::Refused(why) => return Err(lost(&why)),
            _ => return Err(lost(&"an answer does not fit its question")),
        }
        if is_taken {
            chunks
                .give_back(offset - AREA)
                .map_err(|error| lost(&error))?;
        }
    }
    ended.unwrap_or(Ok(())).map(|()| done)
}
