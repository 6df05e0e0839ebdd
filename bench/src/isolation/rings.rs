//! A tenant that writes what it likes into the memory that it shares with the
//! manager, by the format alone (`crates/ring`).

use super::mutate::Random;
use super::neighbour::Neighbour;
use super::raw::{greet, hello};
use super::{Bench, Made};
use anyhow::{Context, Result, ensure};
use protocol::{Reply, Request};
use rustix::fs::FallocateFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::io::{IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Connections of one attack.
const CONNECTIONS: u64 = 60;
/// Acts of a connection.
const ACTS: usize = 400;

/// Where the bells are, and the positions of both ends of both rings.
const BELLS: [u64; 4] = [0, 128, 256, 384];
const POSITIONS: [u64; 4] = [4096, 4224, 4352, 4480];
/// Where the ring of requests begins.
const REQUESTS: u64 = 8192;

struct Vandal {
    /// Kept open.
    _socket: UnixStream,
    file: OwnedFd,
    size: u64,
    random: Random,
}

impl Vandal {
    /// A correct handshake.
    fn connect(manager: &Path, seed: u64) -> Result<Vandal> {
        let (channel, reply) = greet(manager, &Request::Hello(hello(0)))?;
        ensure!(matches!(reply, Reply::Welcome(_)), "{reply:?}");
        let mut socket = channel.into_socket();
        let first = [&b"RF-RING\0"[..], &1_u32.to_le_bytes(), &[0; 4]].concat();
        socket.write_all(&first)?;
        let mut space = [MaybeUninit::uninit(); 256];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 64];
        let mut slices = [IoSliceMut::new(&mut bytes)];
        rustix::net::recvmsg(&socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        let file = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        let file = file.context("the manager shares no memory")?;
        let size = rustix::fs::fstat(&file)?.st_size as u64;
        Ok(Vandal {
            _socket: socket,
            file,
            size,
            random: Random(seed | 1),
        })
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        let _ = rustix::io::pwrite(&self.file, bytes, at);
    }

    fn word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        let _ = rustix::io::pread(&self.file, &mut bytes, at);
        u64::from_le_bytes(bytes)
    }

    fn number(&mut self) -> u64 {
        match self.random.below(5) {
            0 => 0,
            1 => u64::MAX,
            2 => self.random.below(2048) as u64,
            3 => 1 << self.random.below(64),
            _ => self.random.next(),
        }
    }

    /// One act.
    fn act(&mut self) {
        let which = self.random.below(4);
        let number = self.number();
        match self.random.below(100) {
            // A position that may be right, so that frames are read.
            0..30 => {
                let step = self.random.below(6) as u64 * 8;
                let near = self.word(POSITIONS[which]).wrapping_add(step);
                self.write(POSITIONS[which], &near.to_le_bytes());
            }
            30..33 => self.write(POSITIONS[which], &number.to_le_bytes()),
            33..50 => self.write(BELLS[which], &(number as u32).to_le_bytes()),
            // Bytes anywhere behind the positions.
            50..75 => {
                let at = REQUESTS + self.random.next() % (self.size - REQUESTS - 8);
                self.write(at, &number.to_le_bytes());
            }
            // Lengths that may be right, where headers may be.
            _ => {
                let at = REQUESTS + 8 * self.random.below(16) as u64;
                let length = self.random.below(64) as u64;
                self.write(at, &length.to_le_bytes());
            }
        }
    }
}

/// Positions, lengths, bells and bytes that are wrong.
///
/// # Errors
///
/// The manager takes no tenant.
pub fn corrupted(bench: &Bench<'_>, _neighbour: &mut Neighbour) -> Result<Made> {
    let mut made = Made::default();
    for seed in 0..CONNECTIONS {
        let mut vandal = Vandal::connect(&bench.manager.socket(), seed * 77 + 1)?;
        for _ in 0..ACTS {
            vandal.act();
            made.attempts += 1;
        }
    }
    Ok(made)
}

/// Pages are taken out of the memory, and it is made smaller.
///
/// # Errors
///
/// The manager takes no tenant.
pub fn punched(bench: &Bench<'_>, _neighbour: &mut Neighbour) -> Result<Made> {
    let mut made = Made::default();
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for seed in 0..CONNECTIONS {
        let mut vandal = Vandal::connect(&bench.manager.socket(), seed + 5)?;
        for _ in 0..20 {
            let pages = vandal.size / 4096;
            let at = 4096 * (vandal.random.next() % pages);
            let _ = rustix::fs::fallocate(&vandal.file, flags, at, 4096);
            let _ = rustix::fs::ftruncate(&vandal.file, at);
            vandal.act();
            made.attempts += 1;
        }
    }
    Ok(made)
}

/// Ends in the middle of the first message, of the handshake, and of a frame in
/// the ring.
///
/// # Errors
///
/// The manager takes no tenant.
pub fn half_a_message(bench: &Bench<'_>, _neighbour: &mut Neighbour) -> Result<Made> {
    let mut made = Made::default();
    let socket = bench.manager.socket();
    let hello = super::mutate::frame_of(&Request::Hello(hello(0)), &[])?;
    let whole = [&(hello.len() as u32).to_le_bytes()[..], &hello].concat();
    for length in 0..whole.len() {
        let mut stream = UnixStream::connect(&socket)?;
        stream.write_all(&whole[..length])?;
        made.attempts += 1;
    }
    for rest in 1..40 {
        let vandal = Vandal::connect(&socket, rest)?;
        // A frame that is longer than what stands there.
        vandal.write(REQUESTS, &(rest * 9).to_le_bytes());
        vandal.write(POSITIONS[0], &(8 + rest).to_le_bytes());
        vandal.write(BELLS[0], &1_u32.to_le_bytes());
        made.attempts += 1;
    }
    Ok(made)
}
