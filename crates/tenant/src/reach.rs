//! Waits for the work that is in streams when the wait begins, as CUDA does.
//!
//! The manager says whether a stream is idle, which it may never be while other threads
//! of the program put more in. Where they do, an event behind the work tells when it is
//! over.

use crate::ahead::Ahead;
use crate::convert::Answer;
use crate::link::{Link, Patience};
use crate::managed;
use crate::order::fence;
use driver::sys::CUresult;
use protocol::{DEFAULT_STREAM, Reply, Request};
use std::time::Duration;

/// How long only the manager is asked: most work is over by then, and an event takes a
/// few messages.
const SOON: Duration = Duration::from_micros(200);

/// What is there when a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// Nothing.
    Idle,
    /// What other threads have put in meanwhile.
    Later,
}

/// Waits for what is in a stream, and for what that comes behind.
pub(crate) fn stream(link: &'static Link, stream: u32) -> Result<Reached, CUresult> {
    wait(link, &Request::StreamQuery { stream }, |_| vec![stream])
}

/// Waits for what is in all streams.
pub(crate) fn all(link: &'static Link) -> Result<Reached, CUresult> {
    wait(link, &Request::Synchronize, Ahead::busy)
}

/// Gives device memory back, when all is over that may use it.
pub(crate) fn free(link: &'static Link, address: u64) -> Answer {
    match wait(link, &Request::Free { address }, Ahead::busy)? {
        Reached::Idle => Ok(()),
        // Nothing that came later may use it: it goes behind a stream that nothing is in.
        Reached::Later => {
            let stream = managed::own_stream(link).unwrap_or(DEFAULT_STREAM);
            link.done(&Request::FreeBehind { address, stream })
        }
    }
}

/// Asks until it is done; where others keep these streams busy, until what is in them is
/// over.
fn wait(
    link: &'static Link,
    request: &Request,
    streams: impl FnOnce(&Ahead) -> Vec<u32>,
) -> Result<Reached, CUresult> {
    let puts = || link.channel.lock().ahead.puts(request.stream());
    let (patience, before) = (Patience::new(), puts());
    loop {
        match link.ask(request, &[], |_| {})? {
            Reply::Done => return Ok(Reached::Idle),
            Reply::Busy => {}
            _ => return Err(link.astray()),
        }
        if patience.has_lasted(SOON) && puts() != before {
            break;
        }
        patience.pause();
    }
    let streams = streams(&link.channel.lock().ahead);
    for one in streams {
        match past(link, one) {
            // Another thread has destroyed it: the default stream comes behind its work.
            Err(CUresult::CUDA_ERROR_INVALID_HANDLE) => past(link, DEFAULT_STREAM)?,
            // No event is left.
            Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY) => {
                link.done(request)?;
                return Ok(Reached::Idle);
            }
            answer => answer?,
        }
    }
    Ok(Reached::Later)
}

/// Waits for an event behind what is in a stream.
fn past(link: &'static Link, stream: u32) -> Answer {
    let (patience, mut is_over) = (Patience::new(), fence(stream, false));
    let lent = link.channel.lock().through.take_lent(stream);
    let answer = loop {
        match is_over(link) {
            Ok(true) => break Ok(()),
            Ok(false) => patience.pause(),
            Err(error) => break Err(error),
        }
    };
    let mut wire = link.channel.lock();
    match answer {
        Ok(()) => wire.through.give_back(lent),
        Err(_) => wire.through.lend(stream, lent),
    }
    answer
}
