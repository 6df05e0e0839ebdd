//! Frames in a ring of words, with one sender and one receiver.
//!
//! Positions count words since the ring was made; a position's place in the
//! ring is its low bits. A frame is a header word (its length in bytes in the
//! low half, zero in the high half) and its bytes in whole words, padded with
//! zeros. It may wrap around at any word.
//!
//! The other side may write anything anywhere at any time. Therefore:
//!
//! * each side keeps its own position in its own memory and only publishes it;
//! * the other side's position and a frame's header are loaded once, and what
//!   was loaded is validated: a position may only move forward, and only within
//!   the ring;
//! * a frame is copied once, and only the copy is used;
//! * places in the ring are masked, so that no value of any word leads outside;
//! * after the first contradiction nothing is read any more: every later call
//!   returns the same error.
//!
//! Words are loaded and stored one by one, as relaxed atomics: concurrent
//! stores by the other side give any value, but no undefined behaviour. The
//! acquire load of a position makes the words before it visible.
//!
//! The code is generic over the words, so that loom can run it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a word.
const WORD: usize = 8;

/// A shared word of 64 bits.
pub trait Cell {
    /// An atomic load.
    fn load(&self, order: Ordering) -> u64;
    /// An atomic store.
    fn store(&self, value: u64, order: Ordering);
}

impl Cell for AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }

    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }
}

/// The shared words of one ring, all zero when it is made.
pub trait Area {
    /// Of which kind its words are.
    type Cell: Cell;
    /// The sender's position. Only the sender stores it.
    fn tail(&self) -> &Self::Cell;
    /// The receiver's position. Only the receiver stores it.
    fn head(&self) -> &Self::Cell;
    /// What holds the frames: a power of two of words, at least two, always the
    /// same.
    fn data(&self) -> &[Self::Cell];
}

/// What the other side wrote that no correct peer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Corrupt {
    /// The receiver's position is not between where it was and the sender's.
    #[error("the receiver's position is {head}, which is not between {last} and {tail}")]
    Head {
        /// What was loaded.
        head: u64,
        /// The last valid position.
        last: u64,
        /// The sender's position.
        tail: u64,
    },
    /// The sender's position is not between where it was and the ring's end.
    #[error("the sender's position is {tail}, which is not between {last} and {end}")]
    Tail {
        /// What was loaded.
        tail: u64,
        /// The last valid position.
        last: u64,
        /// The last position that leaves no frame overwritten.
        end: u64,
    },
    /// The high half of a frame's header is not zero.
    #[error("the frame header {0:#018x} has reserved bits")]
    Reserved(u64),
    /// A frame is larger than the limit.
    #[error("a frame of {length} bytes, where {limit} is the limit")]
    TooLarge {
        /// Bytes by its header.
        length: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// A frame is longer than what was published.
    #[error("a frame of {length} bytes, of which only {published} are published")]
    PastEnd {
        /// Bytes by its header.
        length: u64,
        /// Bytes behind the header and before the sender's position.
        published: u64,
    },
}

/// Why a frame was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// It can never be sent.
    #[error("a frame of {size} bytes, where {limit} is the limit")]
    TooLarge {
        /// Its bytes.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The other side broke the ring.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
}

/// What a look at the other side's position showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is what was waited for.
    Ready,
    /// Not yet, but the other side moved.
    Moved,
    /// Nothing changed.
    Still,
}

/// Largest frame in a ring of so many words, in bytes: half of the ring with
/// its header, so that one frame can be written while another is read.
fn max_frame(words: usize) -> usize {
    ((words / 2 - 1) * WORD).min(u32::MAX as usize)
}

/// Words of a frame with its header.
fn words_of(length: usize) -> u64 {
    1 + length.div_ceil(WORD) as u64
}

/// Bytes of a frame of these parts.
pub(crate) fn length_of(parts: &[&[u8]]) -> usize {
    parts
        .iter()
        .map(|part| part.len())
        .fold(0, usize::saturating_add)
}

/// The cells from a position on, in one or two pieces.
fn pieces<C>(data: &[C], position: u64, words: usize) -> (&[C], &[C]) {
    let start = position as usize & (data.len() - 1);
    let first = words.min(data.len() - start);
    (&data[start..start + first], &data[..words - first])
}

/// Puts bytes together to words, and stores these in one or two pieces of a
/// ring.
struct Writer<'c, C> {
    first: &'c [C],
    second: &'c [C],
    /// Bytes that are no whole word yet, from the lowest on.
    carry: u64,
    /// How many, in bits: less than 64.
    bits: u32,
}

impl<'c, C: Cell> Writer<'c, C> {
    fn new(first: &'c [C], second: &'c [C]) -> Writer<'c, C> {
        Writer {
            first,
            second,
            carry: 0,
            bits: 0,
        }
    }

    fn store(&mut self, word: u64) {
        if self.first.is_empty() {
            std::mem::swap(&mut self.first, &mut self.second);
        }
        // The pieces have room for all parts.
        if let Some((cell, rest)) = self.first.split_first() {
            cell.store(word, Ordering::Relaxed);
            self.first = rest;
        }
    }

    /// Whole words, while none is begun.
    fn words(&mut self, words: &[[u8; WORD]]) {
        let (one, two) = words.split_at(words.len().min(self.first.len()));
        for (cell, word) in self.first.iter().zip(one) {
            cell.store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
        self.first = &self.first[one.len()..];
        for word in two {
            self.store(u64::from_le_bytes(*word));
        }
    }

    fn part(&mut self, part: &[u8]) {
        let (words, rest) = part.as_chunks::<WORD>();
        if self.bits == 0 {
            self.words(words);
        } else {
            for word in words {
                let word = u64::from_le_bytes(*word);
                self.store(self.carry | word << self.bits);
                self.carry = word >> (64 - self.bits);
            }
        }
        for byte in rest {
            self.carry |= u64::from(*byte) << self.bits;
            self.bits += 8;
            if self.bits == 64 {
                self.store(self.carry);
                (self.carry, self.bits) = (0, 0);
            }
        }
    }

    fn all(mut self, parts: &[&[u8]]) {
        for part in parts {
            self.part(part);
        }
        if self.bits > 0 {
            self.store(self.carry);
        }
    }
}

/// Loads bytes from cells, each word once.
fn copy_out<C: Cell>(cells: &[C], bytes: &mut [u8]) {
    let (words, rest) = bytes.as_chunks_mut::<WORD>();
    for (cell, word) in cells.iter().zip(&mut *words) {
        *word = cell.load(Ordering::Relaxed).to_le_bytes();
    }
    if !rest.is_empty() {
        let word = cells[words.len()].load(Ordering::Relaxed).to_le_bytes();
        rest.copy_from_slice(&word[..rest.len()]);
    }
}

/// The side that sends.
#[derive(Debug)]
pub struct Producer<A> {
    area: A,
    /// Own position.
    tail: u64,
    /// The receiver's last valid position: at most `tail`, at least `tail`
    /// less the ring's words.
    head: u64,
    broken: Option<Corrupt>,
}

impl<A: Area> Producer<A> {
    /// The sender of a new ring.
    pub fn new(area: A) -> Producer<A> {
        let words = area.data().len();
        assert!(words >= 2 && words.is_power_of_two());
        Producer {
            area,
            tail: 0,
            head: 0,
            broken: None,
        }
    }

    /// The ring.
    pub fn area(&self) -> &A {
        &self.area
    }

    /// Largest frame, in bytes.
    pub fn max_frame(&self) -> usize {
        max_frame(self.area.data().len())
    }

    fn fits(&self, words: u64) -> bool {
        self.area.data().len() as u64 - self.tail.wrapping_sub(self.head) >= words
    }

    /// Whether a frame of so many bytes has room. The receiver's position is
    /// loaded only if the last known one leaves none.
    ///
    /// # Errors
    ///
    /// [`PushError::TooLarge`], and what the receiver did wrong.
    pub fn room(&mut self, size: usize) -> Result<Progress, PushError> {
        if let Some(corrupt) = self.broken {
            return Err(corrupt.into());
        }
        let limit = self.max_frame();
        if size > limit {
            return Err(PushError::TooLarge { size, limit });
        }
        let words = words_of(size);
        if self.fits(words) {
            return Ok(Progress::Ready);
        }
        let head = self.area.head().load(Ordering::Acquire);
        if self.tail.wrapping_sub(head) > self.tail.wrapping_sub(self.head) {
            let corrupt = Corrupt::Head {
                head,
                last: self.head,
                tail: self.tail,
            };
            self.broken = Some(corrupt);
            return Err(corrupt.into());
        }
        let moved = head != self.head;
        self.head = head;
        Ok(match (self.fits(words), moved) {
            (true, _) => Progress::Ready,
            (false, true) => Progress::Moved,
            (false, false) => Progress::Still,
        })
    }

    /// Sends a frame, which the parts make together, if it has room; whether it
    /// had.
    ///
    /// # Errors
    ///
    /// As [`Producer::room`].
    pub fn try_push(&mut self, parts: &[&[u8]]) -> Result<bool, PushError> {
        let length = length_of(parts);
        if self.room(length)? != Progress::Ready {
            return Ok(false);
        }
        let data = self.area.data();
        // `room` limits the length to 32 bits.
        let (header, _) = pieces(data, self.tail, 1);
        header[0].store(length as u64, Ordering::Relaxed);
        let words = words_of(length);
        let (first, second) = pieces(data, self.tail.wrapping_add(1), words as usize - 1);
        Writer::new(first, second).all(parts);
        self.tail = self.tail.wrapping_add(words);
        self.area.tail().store(self.tail, Ordering::Release);
        Ok(true)
    }
}

/// The side that receives.
#[derive(Debug)]
pub struct Consumer<A> {
    area: A,
    /// Own position.
    head: u64,
    /// The sender's last valid position: at least `head`, at most `head` and
    /// the ring's words.
    tail: u64,
    broken: Option<Corrupt>,
}

impl<A: Area> Consumer<A> {
    /// The receiver of a new ring.
    pub fn new(area: A) -> Consumer<A> {
        let words = area.data().len();
        assert!(words >= 2 && words.is_power_of_two());
        Consumer {
            area,
            head: 0,
            tail: 0,
            broken: None,
        }
    }

    /// The ring.
    pub fn area(&self) -> &A {
        &self.area
    }

    /// Largest frame, in bytes.
    pub fn max_frame(&self) -> usize {
        max_frame(self.area.data().len())
    }

    /// Whether a frame is there. The sender's position is loaded only if all
    /// known frames were taken.
    ///
    /// # Errors
    ///
    /// What the sender did wrong.
    pub fn ready(&mut self) -> Result<Progress, Corrupt> {
        if let Some(corrupt) = self.broken {
            return Err(corrupt);
        }
        if self.tail != self.head {
            return Ok(Progress::Ready);
        }
        // All known frames were taken: `tail` is `head`, and any forward step
        // within the ring is valid.
        let tail = self.area.tail().load(Ordering::Acquire);
        let words = self.area.data().len() as u64;
        if tail.wrapping_sub(self.head) > words {
            return Err(self.breaks(Corrupt::Tail {
                tail,
                last: self.tail,
                end: self.head.wrapping_add(words),
            }));
        }
        self.tail = tail;
        Ok(match tail == self.head {
            true => Progress::Still,
            false => Progress::Ready,
        })
    }

    fn breaks(&mut self, corrupt: Corrupt) -> Corrupt {
        self.broken = Some(corrupt);
        corrupt
    }

    /// Takes the next frame, if there is one, and puts a copy of it behind the
    /// first `kept` bytes of `frame`, in the place of what is there; whether
    /// there was one. The copy has at most [`Consumer::max_frame`] bytes. If
    /// there is no frame, `frame` is unchanged.
    ///
    /// # Errors
    ///
    /// What the sender did wrong.
    pub fn try_pop(&mut self, frame: &mut Vec<u8>, kept: usize) -> Result<bool, Corrupt> {
        if self.ready()? != Progress::Ready {
            return Ok(false);
        }
        let data = self.area.data();
        let published = self.tail.wrapping_sub(self.head) - 1;
        let header = pieces(data, self.head, 1).0[0].load(Ordering::Relaxed);
        let (length, limit) = (header & u64::from(u32::MAX), self.max_frame() as u64);
        if length != header {
            return Err(self.breaks(Corrupt::Reserved(header)));
        }
        if length > limit {
            return Err(self.breaks(Corrupt::TooLarge { length, limit }));
        }
        let words = words_of(length as usize);
        if words - 1 > published {
            let published = published * WORD as u64;
            return Err(self.breaks(Corrupt::PastEnd { length, published }));
        }
        // Only what a longer frame needs more than the last one is cleared.
        frame.resize(kept + length as usize, 0);
        let (first, second) = pieces(data, self.head.wrapping_add(1), words as usize - 1);
        let copy = &mut frame[kept..];
        let (one, two) = copy.split_at_mut((length as usize).min(first.len() * WORD));
        copy_out(first, one);
        copy_out(second, two);
        self.head = self.head.wrapping_add(words);
        self.area.head().store(self.head, Ordering::Release);
        Ok(true)
    }
}
