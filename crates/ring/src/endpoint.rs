//! One end of a connection: a sender, a receiver and the staging area, which
//! may go to different threads.
//!
//! While frames come and go, no call enters the kernel. The connection closes
//! when its parts were all dropped; what was sent before can still be received.

use crate::bell;
use crate::error::Error;
use crate::frames::{Consumer, Producer, length_of};
use crate::layout::{Layout, NOTICE};
use crate::mapping::Mapping;
use crate::peer::Peer;
use crate::shared::{Lane, Shared, Side};
use crate::staging::Staging;
use crate::wait::{Spin, wait};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// One end of a connection.
#[derive(Debug)]
pub struct Endpoint {
    /// Sends requests (client) or replies (manager).
    pub sender: Sender,
    /// Receives replies (client) or requests (manager).
    pub receiver: Receiver,
    /// Bulk data.
    pub staging: Staging,
    shared: Weak<Shared>,
}

impl Endpoint {
    pub(crate) fn new(mapping: Mapping, layout: Layout, peer: Peer, side: Side) -> Endpoint {
        let shared = Arc::new(Shared::new(mapping, layout, peer, side));
        let lane = |direction| Lane {
            shared: Arc::clone(&shared),
            direction,
        };
        Endpoint {
            sender: Sender {
                producer: Producer::new(lane(side.sends())),
                spin: Spin::new(),
            },
            receiver: Receiver {
                consumer: Consumer::new(lane(side.receives())),
                spin: Spin::new(),
            },
            staging: Staging::new(Arc::clone(&shared)),
            shared: Arc::downgrade(&shared),
        }
    }

    /// Who is at the other end.
    pub fn peer(&self) -> &Peer {
        self.sender.peer()
    }

    /// The sizes of the shared memory.
    pub fn layout(&self) -> &Layout {
        &self.sender.producer.area().shared.layout
    }

    /// A word that one side sets and the other looks at now and then: at first 0. It
    /// comes with no frame and in no order with them, and either side may write
    /// anything into it.
    pub fn notice(&self) -> u64 {
        self.words()[NOTICE].load(Ordering::Relaxed)
    }

    /// Sets the word of [`Endpoint::notice`].
    pub fn set_notice(&self, notice: u64) {
        self.words()[NOTICE].store(notice, Ordering::Relaxed);
    }

    fn words(&self) -> &[AtomicU64] {
        self.sender.producer.area().shared.mapping.words()
    }

    /// Ends this end's waits, from any thread.
    pub fn interrupt(&self) -> Interrupt {
        Interrupt {
            shared: self.shared.clone(),
        }
    }
}

/// Ends the waits of one end, from any thread of its process. It does not keep
/// the connection open.
#[derive(Clone, Debug)]
pub struct Interrupt {
    shared: Weak<Shared>,
}

impl Interrupt {
    /// Every wait ends with [`Error::Interrupted`], now and later; calls that
    /// need not wait still work.
    pub fn interrupt(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.interrupt();
        }
    }
}

/// The half that sends.
#[derive(Debug)]
pub struct Sender {
    producer: Producer<Lane>,
    spin: Spin,
}

impl Sender {
    /// Sends a frame; waits for room while the ring is full, without end if
    /// there is no `timeout`.
    ///
    /// # Errors
    ///
    /// All but [`Error::Full`]. Nothing of the frame was sent.
    pub fn send(&mut self, frame: &[u8], timeout: Option<Duration>) -> Result<(), Error> {
        self.send_parts(&[frame], timeout)
    }

    /// As [`Sender::send`], for a frame that the parts make together.
    ///
    /// # Errors
    ///
    /// As [`Sender::send`].
    pub fn send_parts(&mut self, parts: &[&[u8]], timeout: Option<Duration>) -> Result<(), Error> {
        match self.try_send_parts(parts) {
            Err(Error::Full) => {}
            result => return result,
        }
        let length = length_of(parts);
        // The bell belongs to the same memory as the producer, which `ready`
        // changes.
        let shared = Arc::clone(&self.producer.area().shared);
        let bell = shared.bell(self.producer.area().direction.room_bell());
        let producer = &mut self.producer;
        let ready = || Ok(producer.room(length)?);
        wait(&mut self.spin, &bell, &shared.link, timeout, ready)
            .map_err(|error| shared.noted(error))?;
        self.try_send_parts(parts)
    }

    /// Sends a frame if there is room, and never waits.
    ///
    /// # Errors
    ///
    /// [`Error::Full`], [`Error::TooLarge`] or [`Error::Corrupt`]. That the
    /// peer is gone is not noticed.
    pub fn try_send(&mut self, frame: &[u8]) -> Result<(), Error> {
        self.try_send_parts(&[frame])
    }

    /// As [`Sender::try_send`], for a frame that the parts make together.
    ///
    /// # Errors
    ///
    /// As [`Sender::try_send`].
    pub fn try_send_parts(&mut self, parts: &[&[u8]]) -> Result<(), Error> {
        match self.producer.try_push(parts) {
            Ok(true) => {}
            Ok(false) => return Err(Error::Full),
            Err(error) => return Err(self.producer.area().shared.noted(error.into())),
        }
        bell::ring(&self.producer.area().data_bell());
        Ok(())
    }

    /// Largest frame, in bytes.
    pub fn max_frame(&self) -> usize {
        self.producer.max_frame()
    }

    /// How long it spins before it sleeps.
    pub fn spin(&mut self) -> &mut Spin {
        &mut self.spin
    }

    /// Who receives.
    pub fn peer(&self) -> &Peer {
        &self.producer.area().shared.link.peer
    }
}

/// The half that receives.
#[derive(Debug)]
pub struct Receiver {
    consumer: Consumer<Lane>,
    spin: Spin,
}

impl Receiver {
    /// Replaces `frame` by the next frame; waits for one, without end if there
    /// is no `timeout`. Frames that the peer sent before it ended are received
    /// first.
    ///
    /// # Errors
    ///
    /// All but [`Error::Full`] and [`Error::TooLarge`].
    pub fn receive(&mut self, frame: &mut Vec<u8>, timeout: Option<Duration>) -> Result<(), Error> {
        self.receive_after(frame, 0, timeout)
    }

    /// As [`Receiver::receive`], behind the first `kept` bytes of `frame`.
    pub(crate) fn receive_after(
        &mut self,
        frame: &mut Vec<u8>,
        kept: usize,
        timeout: Option<Duration>,
    ) -> Result<(), Error> {
        if self.take(frame, kept)? {
            return Ok(());
        }
        let shared = Arc::clone(&self.consumer.area().shared);
        let bell = shared.bell(self.consumer.area().direction.data_bell());
        let consumer = &mut self.consumer;
        let ready = || Ok(consumer.ready()?);
        wait(&mut self.spin, &bell, &shared.link, timeout, ready)
            .map_err(|error| shared.noted(error))?;
        let received = self.take(frame, kept)?;
        debug_assert!(received, "a frame that was there is gone");
        Ok(())
    }

    /// Replaces `frame` by the next frame if there is one, and never waits;
    /// whether there was one.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`]. That the peer is gone is not noticed.
    pub fn try_receive(&mut self, frame: &mut Vec<u8>) -> Result<bool, Error> {
        self.take(frame, 0)
    }

    fn take(&mut self, frame: &mut Vec<u8>, kept: usize) -> Result<bool, Error> {
        match self.consumer.try_pop(frame, kept) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(corrupt) => return Err(self.consumer.area().shared.noted(corrupt.into())),
        }
        bell::ring(&self.consumer.area().room_bell());
        Ok(true)
    }

    /// Largest frame, in bytes.
    pub fn max_frame(&self) -> usize {
        self.consumer.max_frame()
    }

    /// How long it spins before it sleeps.
    pub fn spin(&mut self) -> &mut Spin {
        &mut self.spin
    }

    /// Who sends.
    pub fn peer(&self) -> &Peer {
        &self.consumer.area().shared.link.peer
    }
}
