//! A tenant that takes all that it can get, and holds it while the neighbour
//! goes on.

use super::neighbour::Neighbour;
use super::raw::{Raw, hello};
use super::{Bench, Made};
use anyhow::{Context, Result, ensure};
use protocol::{Frame, Reply, Request};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// More than any limit of a manager's.
const MANY: u64 = 100_000;
/// Connections of a flood.
const FLOOD: usize = 600;
/// Requests whose replies nobody reads.
const UNREAD: usize = 30_000;

/// Asks for the same thing until it is refused, and holds it all.
fn until_refused(
    bench: &Bench<'_>,
    neighbour: &mut Neighbour,
    mut ask: impl FnMut(&mut Raw) -> Result<Reply>,
) -> Result<Made> {
    let mut raw = Raw::connect(&bench.manager.socket(), 0)?;
    let mut made = Made::default();
    let mut is_refused = false;
    while !is_refused && made.attempts < MANY {
        made.attempts += 1;
        is_refused = matches!(ask(&mut raw)?, Reply::Failed { .. });
    }
    ensure!(is_refused, "there is no limit");
    neighbour.goes_on(3);
    Ok(made)
}

/// Memory: large pieces, then small ones.
///
/// # Errors
///
/// There is no limit, or the manager does not answer.
pub fn memory(bench: &Bench<'_>, neighbour: &mut Neighbour) -> Result<Made> {
    let sizes = [u64::MAX, 1 << 40, 64 << 20, 1 << 20, 1];
    let mut made = Made::default();
    for size in sizes {
        let one = until_refused(bench, neighbour, |raw| {
            Ok(raw.ask(&Request::Allocate { size }, &[])?)
        })?;
        made.attempts += one.attempts;
    }
    Ok(made)
}

/// Streams.
///
/// # Errors
///
/// As [`memory`].
pub fn streams(bench: &Bench<'_>, neighbour: &mut Neighbour) -> Result<Made> {
    until_refused(bench, neighbour, |raw| {
        Ok(raw.ask(&Request::StreamCreate { is_blocking: true }, &[])?)
    })
}

/// Events.
///
/// # Errors
///
/// As [`memory`].
pub fn events(bench: &Bench<'_>, neighbour: &mut Neighbour) -> Result<Made> {
    until_refused(bench, neighbour, |raw| {
        Ok(raw.ask(&Request::EventCreate { is_timed: true }, &[])?)
    })
}

/// Loaded modules.
///
/// # Errors
///
/// As [`memory`].
pub fn modules(bench: &Bench<'_>, neighbour: &mut Neighbour) -> Result<Made> {
    const SMALL: &[u8] = b".version 8.0\n.target sm_75\n.address_size 64\n\
        .visible .entry nothing(.param .u64 a) { ret; }\n\0";
    until_refused(bench, neighbour, |raw| {
        raw.ask(&Request::Upload, SMALL)?;
        Ok(raw.ask(&Request::Load, &[])?)
    })
}

/// Code that is never loaded.
///
/// # Errors
///
/// As [`memory`].
pub fn code(bench: &Bench<'_>, neighbour: &mut Neighbour) -> Result<Made> {
    let piece = vec![b' '; 1 << 20];
    until_refused(bench, neighbour, |raw| {
        Ok(raw.ask(&Request::Upload, &piece)?)
    })
}

/// Partitions.
///
/// # Errors
///
/// There is no limit.
pub fn tenants(bench: &Bench<'_>, neighbour: &mut Neighbour) -> Result<Made> {
    let mut all = Vec::new();
    while let Ok(raw) = Raw::connect(&bench.manager.socket(), 64 << 20) {
        all.push(raw);
        ensure!(all.len() < 1000, "there is no limit of tenants");
    }
    neighbour.goes_on(3);
    Ok(Made {
        attempts: all.len() as u64 + 1,
        ..Made::default()
    })
}

/// Connections that say nothing, or not all.
///
/// # Errors
///
/// A connection cannot be made at all.
pub fn connections(bench: &Bench<'_>, neighbour: &mut Neighbour) -> Result<Made> {
    let mut all = Vec::new();
    for number in 0..FLOOD {
        let Ok(mut stream) = UnixStream::connect(bench.manager.socket()) else {
            break;
        };
        if number % 2 == 1 {
            let _ = stream.write_all(&[9, 0, 0]);
        }
        all.push(stream);
    }
    neighbour.goes_on(3);
    Ok(Made {
        attempts: all.len() as u64,
        ..Made::default()
    })
}

/// Descriptors with each message.
///
/// # Errors
///
/// A connection cannot be made at all.
pub fn descriptors(bench: &Bench<'_>, neighbour: &mut Neighbour) -> Result<Made> {
    let mut made = Made::default();
    let file = tempfile::tempfile().context("no file")?;
    let files = [file.as_fd(); 200];
    for round in 0..100 {
        let stream = UnixStream::connect(bench.manager.socket())?;
        let mut space = vec![MaybeUninit::uninit(); 8192];
        let mut control = SendAncillaryBuffer::new(&mut space);
        ensure!(
            control.push(SendAncillaryMessage::ScmRights(&files)),
            "no room"
        );
        let hello = super::mutate::frame_of(&Request::Hello(hello(64 << 20)), &[])?;
        let whole = [&(hello.len() as u32).to_le_bytes()[..], &hello].concat();
        let bytes = if round % 2 == 0 {
            &whole[..]
        } else {
            &whole[..5]
        };
        let slices = [IoSlice::new(bytes)];
        if rustix::net::sendmsg(&stream, &slices, &mut control, SendFlags::NOSIGNAL).is_ok() {
            made.attempts += files.len() as u64;
        }
    }
    neighbour.goes_on(3);
    Ok(made)
}

/// Requests whose replies nobody reads.
///
/// # Errors
///
/// The manager takes no tenant.
pub fn unread(bench: &Bench<'_>, neighbour: &mut Neighbour) -> Result<Made> {
    let mut made = Made::default();
    let mut raw = Raw::connect(&bench.manager.socket(), 64 << 20)?;
    for _ in 0..UNREAD {
        Frame::send(&mut raw.channel, &Request::MemoryInfo, &[])?;
        made.attempts += 1;
    }
    // Nor the first one.
    let hello = super::mutate::frame_of(&Request::Hello(hello(64 << 20)), &[])?;
    let whole = [&(hello.len() as u32).to_le_bytes()[..], &hello].concat();
    let mut stream = UnixStream::connect(bench.manager.socket())?;
    stream.write_all(&whole)?;
    neighbour.goes_on(20);
    Ok(made)
}
