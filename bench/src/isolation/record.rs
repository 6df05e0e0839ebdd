//! What a program asks the manager for, by a manager that passes it on.

use super::raw::greet;
use anyhow::{Context, Result, bail};
use protocol::{ChannelError, Frame, Reply, Request, RingChannel, SocketChannel};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread::JoinHandle;

/// A request as it was sent.
#[derive(Clone)]
pub struct Recorded {
    /// What is asked for.
    pub request: Request,
    /// With it.
    pub payload: Vec<u8>,
}

/// What a session was.
pub struct Session {
    /// First byte of the partition that it had.
    pub base: u64,
    /// All requests, in order.
    pub requests: Vec<Recorded>,
}

/// Listens at `path`, for one program, and passes what it says on to `manager`.
///
/// # Errors
///
/// The socket cannot be made.
pub fn start(path: &Path, manager: &Path) -> Result<JoinHandle<Result<Session>>> {
    let listener = UnixListener::bind(path).context("no socket for the recording")?;
    let manager = manager.to_owned();
    Ok(std::thread::spawn(move || record(&listener, &manager)))
}

fn record(listener: &UnixListener, manager: &Path) -> Result<Session> {
    let (socket, _) = listener.accept()?;
    let mut socket = SocketChannel::new(socket)?;
    let mut frame = Frame::default();
    let first: Request = frame.receive(&mut socket)?;
    let (behind, welcome) = greet(manager, &first)?;
    Frame::send(&mut socket, &welcome, &[])?;
    let Reply::Welcome(welcome) = welcome else {
        bail!("the manager does not take the program: {welcome:?}");
    };
    let mut behind = RingChannel::connect(behind)?;
    let mut rings = RingChannel::accept(socket)?;
    let mut answer = Frame::default();
    let mut session = Session {
        base: welcome.base,
        requests: vec![Recorded {
            request: first,
            payload: Vec::new(),
        }],
    };
    // What streams copy to pinned memory: where, and how many bytes.
    let mut pinned: Vec<(u64, u64)> = Vec::new();
    loop {
        let request: Request = match frame.receive(&mut rings) {
            Ok(request) => request,
            Err(ChannelError::Closed) => return Ok(session),
            Err(error) => return Err(error.into()),
        };
        let payload = frame.payload().to_vec();
        match request {
            Request::WriteStaged { to, offset, .. } | Request::WriteBehind { to, offset, .. } => {
                copy(&rings, &behind, offset, to.width * to.height)?;
            }
            Request::ReadBehind { from, offset, .. } => {
                pinned.push((offset, from.width * from.height));
            }
            _ => {}
        }
        if frame.is_quiet() {
            Frame::send_quietly(&mut behind, &request, &payload)?;
        } else {
            Frame::send(&mut behind, &request, &payload)?;
            let reply: Reply = answer.receive(&mut behind)?;
            if let (Request::ReadStaged { from, offset, .. }, Reply::Done) = (&request, &reply) {
                copy(&behind, &rings, *offset, from.width * from.height)?;
            }
            // (Whatever is over by now, some of them may be.)
            let waits = matches!(
                request,
                Request::Synchronize | Request::StreamQuery { .. } | Request::EventQuery { .. }
            );
            if waits && reply == Reply::Done {
                for (offset, bytes) in &pinned {
                    copy(&behind, &rings, *offset, *bytes)?;
                }
            }
            Frame::send(&mut rings, &reply, answer.payload())?;
        }
        session.requests.push(Recorded { request, payload });
    }
}

/// Copies a part of one staging area to the other.
fn copy(from: &RingChannel, to: &RingChannel, offset: u64, length: u64) -> Result<()> {
    let mut bytes = vec![0; usize::try_from(length)?];
    from.staging().chunk(offset, length)?.read(&mut bytes)?;
    to.staging().chunk(offset, length)?.write(&bytes)?;
    Ok(())
}
