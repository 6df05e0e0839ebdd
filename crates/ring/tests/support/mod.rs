//! The other side of the handshake and of the memory, written by hand: what a
//! hostile peer can do, and a second description of the format.

#![allow(dead_code, reason = "each test program uses a part")]

use ring::{Endpoint, Layout};
use rustix::fs::FallocateFlags;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Long enough for everything that should work on a busy machine.
pub const LONG: Duration = Duration::from_secs(60);

/// Rings of 8 KiB, and 64 KiB of staging.
pub fn layout() -> Layout {
    Layout::new(8 << 10, 8 << 10, 64 << 10).unwrap()
}

/// Both ends of a connection, manager first, in one process.
pub fn pair(layout: &Layout) -> (Endpoint, Endpoint) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let client = std::thread::spawn(|| ring::connect(theirs, LONG).unwrap());
    let manager = ring::accept(ours, layout, LONG).unwrap();
    (manager, client.join().unwrap())
}

/// The client's message.
pub fn hello() -> Vec<u8> {
    [&b"RF-RING\0"[..], &1u32.to_le_bytes(), &[0; 4]].concat()
}

/// The manager's message.
pub fn welcome(status: u32, sizes: [u64; 3]) -> Vec<u8> {
    let mut bytes = [&b"RF-RING\0"[..], &1u32.to_le_bytes()].concat();
    bytes.extend(status.to_le_bytes());
    bytes.extend(sizes.into_iter().flat_map(u64::to_le_bytes));
    bytes
}

/// Sends bytes, with descriptors.
pub fn send(socket: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = vec![MaybeUninit::uninit(); 4096];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
    }
    let flags = SendFlags::NOSIGNAL;
    let sent = rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags);
    assert_eq!(sent, Ok(bytes.len()));
}

/// Receives what there is, up to 64 bytes, and its descriptors.
pub fn receive(socket: &UnixStream) -> (Vec<u8>, Vec<OwnedFd>) {
    let mut space = vec![MaybeUninit::uninit(); 4096];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = vec![0; 64];
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = rustix::net::recvmsg(socket, &mut slices, &mut control, flags).unwrap();
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = message {
            descriptors.extend(more);
        }
    }
    bytes.truncate(got.bytes);
    (bytes, descriptors)
}

/// Numbers that look random (xorshift64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A client that writes whatever it likes into the memory.
pub struct Vandal {
    pub socket: UnixStream,
    pub file: OwnedFd,
    size: u64,
    random: Random,
}

/// The bells, one after the other.
pub const BELLS: [u64; 4] = [0, 128, 256, 384];
/// The positions: sender and receiver of requests, sender and receiver of
/// replies.
pub const POSITIONS: [u64; 4] = [4096, 4224, 4352, 4480];
/// Where the request ring starts.
pub const REQUESTS: u64 = 8192;

impl Vandal {
    /// A correct handshake.
    pub fn connect(socket: UnixStream, seed: u64) -> Vandal {
        send(&socket, &hello(), &[]);
        let (bytes, mut descriptors) = receive(&socket);
        assert_eq!(bytes.len(), 40);
        assert_eq!(descriptors.len(), 1);
        let file = descriptors.remove(0);
        let size = rustix::fs::fstat(&file).unwrap().st_size as u64;
        Vandal {
            socket,
            file,
            size,
            random: Random(seed | 1),
        }
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        assert_eq!(rustix::io::pwrite(&self.file, bytes, at), Ok(bytes.len()));
    }

    pub fn word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        assert_eq!(rustix::io::pread(&self.file, &mut bytes, at), Ok(8));
        u64::from_le_bytes(bytes)
    }

    fn number(&mut self) -> u64 {
        match self.random.below(5) {
            0 => 0,
            1 => u64::MAX,
            2 => self.random.below(2048),
            3 => 1 << self.random.below(64),
            _ => self.random.next(),
        }
    }

    /// One act.
    pub fn act(&mut self) {
        let which = self.random.below(4) as usize;
        match self.random.below(100) {
            // A position that may be right, so that frames are read.
            0..30 => {
                let near = self.word(POSITIONS[which]);
                let near = near.wrapping_add(self.random.below(6));
                self.write(POSITIONS[which], &near.to_le_bytes());
            }
            30..33 => {
                let number = self.number();
                self.write(POSITIONS[which], &number.to_le_bytes());
            }
            33..50 => {
                let number = self.number();
                let value = (number as u32).to_le_bytes();
                self.write(BELLS[which], &value);
            }
            // Bytes anywhere behind the positions.
            50..75 => {
                let number = self.number().to_le_bytes();
                let length = 1 + self.random.below(8) as usize;
                let at = REQUESTS + self.random.below(self.size - REQUESTS - 8);
                self.write(at, &number[..length]);
            }
            // Lengths that may be right, where headers may be.
            75..97 => {
                let at = REQUESTS + 8 * self.random.below(16);
                let length = self.random.below(64);
                self.write(at, &length.to_le_bytes());
            }
            97 => {
                let page: Vec<u8> = (0..4096).map(|_| self.random.next() as u8).collect();
                let at = 4096 * self.random.below(self.size / 4096);
                self.write(at, &page);
            }
            // Pages that are no longer there.
            _ => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let at = 4096 * self.random.below(self.size / 4096);
                rustix::fs::fallocate(&self.file, flags, at, 4096).unwrap();
            }
        }
    }
}

/// What a manager's end met while a vandal was at work.
#[derive(Debug, Default)]
pub struct Met {
    pub sessions: u64,
    pub frames: u64,
    pub corrupt: u64,
    pub gone: u64,
}

/// Uses a manager's end as a manager does, until it ends or the time is over.
/// Every error must be one that a peer can cause.
pub fn endure(mut end: Endpoint, time: Duration, met: &mut Met) {
    use ring::Error;
    let start = std::time::Instant::now();
    let mut frame = Vec::new();
    let limit = end.receiver.max_frame();
    met.sessions += 1;
    while start.elapsed() < time {
        let received = end
            .receiver
            .receive(&mut frame, Some(Duration::from_millis(1)));
        let sent = end.sender.try_send(&frame[..frame.len().min(64)]);
        if received.is_ok() {
            met.frames += 1;
            assert!(frame.len() <= limit);
            // What the frame says lies anywhere.
            let number = |at: usize| {
                let bytes = frame.get(at..at + 8).map(|b| b.try_into().unwrap());
                u64::from_le_bytes(bytes.unwrap_or([0; 8]))
            };
            if let Ok(chunk) = end.staging.chunk(number(0), number(8)) {
                let mut copy = vec![0; chunk.length()];
                chunk.read(&mut copy).unwrap();
                chunk.write(&copy).unwrap();
            }
        }
        for error in [received.err(), sent.err()].into_iter().flatten() {
            match error {
                Error::TimedOut(_) | Error::Full => {}
                Error::Corrupt(_) => {
                    met.corrupt += 1;
                    return;
                }
                Error::Gone => {
                    met.gone += 1;
                    return;
                }
                other => panic!("{other}"),
            }
        }
    }
}
