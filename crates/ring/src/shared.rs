//! What the halves of one connection share within this process.

use crate::bell;
use crate::error::Error;
use crate::frames::Area;
use crate::layout::{Direction, Layout};
use crate::mapping::Mapping;
use crate::peer::Peer;
use crate::wait::{Futex, Link};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Which end of the connection this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It made the memory.
    Manager,
    /// It connected.
    Client,
}

impl Side {
    /// Where its frames go.
    pub(crate) fn sends(self) -> Direction {
        match self {
            Side::Manager => Direction::Replies,
            Side::Client => Direction::Requests,
        }
    }

    /// Where the frames that it receives come from.
    pub(crate) fn receives(self) -> Direction {
        match self {
            Side::Manager => Direction::Requests,
            Side::Client => Direction::Replies,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub mapping: Mapping,
    pub layout: Layout,
    pub link: Link,
    pub side: Side,
    /// The peer wrote what no correct peer writes.
    pub broken: AtomicBool,
    /// The process that made this: a child of it has a copy.
    pub process: u32,
}

impl Shared {
    pub fn new(mapping: Mapping, layout: Layout, peer: Peer, side: Side) -> Shared {
        Shared {
            mapping,
            layout,
            link: Link {
                peer,
                interrupted: AtomicBool::new(false),
            },
            side,
            broken: AtomicBool::new(false),
            process: std::process::id(),
        }
    }

    /// Notes if an error says that the peer broke a ring.
    pub fn noted(&self, error: Error) -> Error {
        if matches!(error, Error::Corrupt(_)) {
            self.broken.store(true, Ordering::Relaxed);
        }
        error
    }

    pub fn bell(&self, place: usize) -> Futex<'_> {
        Futex(&self.mapping.bells()[place])
    }

    /// Ends all waits in this process, now and later.
    pub fn interrupt(&self) {
        self.link.interrupted.store(true, Ordering::Relaxed);
        bell::ring(&self.bell(self.side.receives().data_bell()));
        bell::ring(&self.bell(self.side.sends().room_bell()));
    }
}

impl Drop for Shared {
    /// Closes the connection, and wakes the peer, so that it notices at once.
    /// In a child of the process that connected, only the child's copy ends.
    ///
    /// A client may keep the memory for as long as it likes, and connect again
    /// and again. So the manager, on whose account it was made, discards it: the
    /// staging area always, all of it if nobody reads the last replies.
    fn drop(&mut self) {
        if std::process::id() != self.process {
            return;
        }
        let over = self.broken.load(Ordering::Relaxed) || self.link.peer.is_gone().unwrap_or(true);
        // An error says that it is closed already.
        let _ = self.link.peer.socket().shutdown(Shutdown::Both);
        bell::ring(&self.bell(self.side.sends().data_bell()));
        bell::ring(&self.bell(self.side.receives().room_bell()));
        if self.side == Side::Manager {
            let from = if over { 0 } else { self.layout.staging_start() };
            // It cannot fail for a mapping of this kind; if it does, the memory
            // is freed when the client unmaps it.
            let _ = self.mapping.discard(from);
        }
    }
}

/// One ring in the shared memory.
#[derive(Debug)]
pub(crate) struct Lane {
    pub shared: Arc<Shared>,
    pub direction: Direction,
}

impl Area for Lane {
    type Cell = AtomicU64;

    fn tail(&self) -> &AtomicU64 {
        &self.shared.mapping.words()[self.direction.tail()]
    }

    fn head(&self) -> &AtomicU64 {
        &self.shared.mapping.words()[self.direction.head()]
    }

    fn data(&self) -> &[AtomicU64] {
        &self.shared.mapping.words()[self.shared.layout.ring_words(self.direction)]
    }
}

impl Lane {
    /// What the receiver sleeps on.
    pub fn data_bell(&self) -> Futex<'_> {
        self.shared.bell(self.direction.data_bell())
    }

    /// What the sender sleeps on.
    pub fn room_bell(&self) -> Futex<'_> {
        self.shared.bell(self.direction.room_bell())
    }
}
