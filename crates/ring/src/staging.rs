//! The staging area: bulk data beside the rings.
//!
//! A message names data by offset and length. The manager validates both
//! ([`Staging::chunk`]) and then copies the bytes once, or lets the device copy
//! them. What is copied may change while it is, so the manager never interprets
//! bytes in the area, only a copy of them. Which chunks are in use is known to
//! the client alone ([`crate::Chunks`]): chunks that overlap harm only the
//! client that named them.

use crate::mapping;
use crate::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// What offsets are multiples of, in bytes: a cache line.
pub const ALIGN: u64 = 64;
const WORD: usize = size_of::<AtomicU64>();

/// Why a chunk cannot be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StagingError {
    /// It is not in the area.
    #[error("the chunk {offset:#x}+{length:#x} is not within the staging area of {size:#x} bytes")]
    Outside {
        /// Its first byte.
        offset: u64,
        /// Its bytes.
        length: u64,
        /// Bytes of the area.
        size: u64,
    },
    /// It starts between two multiples of [`ALIGN`].
    #[error("the chunk at {0:#x} does not start at a multiple of {ALIGN} bytes")]
    Misaligned(u64),
    /// It is shorter or longer than what is copied.
    #[error("{bytes} bytes are copied from or to a chunk of {chunk}")]
    Length {
        /// Bytes to copy.
        bytes: usize,
        /// Bytes of the chunk.
        chunk: usize,
    },
}

/// The area.
#[derive(Clone, Debug)]
pub struct Staging {
    shared: Arc<Shared>,
}

impl Staging {
    pub(crate) fn new(shared: Arc<Shared>) -> Staging {
        Staging { shared }
    }

    /// All of it, for a driver that the memory is made known to. The peer may
    /// change it at any time.
    pub fn words(&self) -> &[AtomicU64] {
        &self.shared.mapping.words()[self.shared.layout.staging_words()]
    }

    /// Its bytes.
    pub fn size(&self) -> u64 {
        self.shared.layout.staging()
    }

    /// Takes memory for part of it, bytes from its start, on the account of this
    /// process.
    ///
    /// # Errors
    ///
    /// There is none left.
    pub fn allocate(&self, range: std::ops::Range<u64>) -> std::io::Result<()> {
        let start = self.shared.layout.staging_start();
        self.shared
            .mapping
            .allocate(start + range.start..start + range.end)
    }

    /// Part of it: `length` bytes from `offset` on, which is a multiple of
    /// [`ALIGN`].
    ///
    /// # Errors
    ///
    /// If it is misaligned or not within the area.
    pub fn chunk(&self, offset: u64, length: u64) -> Result<Chunk<'_>, StagingError> {
        let size = self.size();
        if !offset.is_multiple_of(ALIGN) {
            return Err(StagingError::Misaligned(offset));
        }
        if offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(StagingError::Outside {
                offset,
                length,
                size,
            });
        }
        let (start, length) = (offset as usize / WORD, length as usize);
        // The area ends with a whole word.
        let words = &self.words()[start..start + length.div_ceil(WORD)];
        Ok(Chunk { words, length })
    }
}

/// A valid part of the staging area.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'s> {
    words: &'s [AtomicU64],
    length: usize,
}

impl AsRef<[AtomicU64]> for Staging {
    fn as_ref(&self) -> &[AtomicU64] {
        self.words()
    }
}

impl Chunk<'_> {
    /// Its bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The words that hold it, for a driver that copies from or to them. The
    /// peer may change the bytes meanwhile.
    pub fn words(&self) -> &[AtomicU64] {
        self.words
    }

    /// Copies all of its bytes, each once.
    ///
    /// # Errors
    ///
    /// If `bytes` has another length.
    pub fn read(&self, bytes: &mut [u8]) -> Result<(), StagingError> {
        self.same_length(bytes.len())?;
        mapping::load(self.words, bytes);
        Ok(())
    }

    /// Replaces all of its bytes. Up to seven bytes behind them may become zero.
    ///
    /// # Errors
    ///
    /// If `bytes` has another length.
    pub fn write(&self, bytes: &[u8]) -> Result<(), StagingError> {
        self.same_length(bytes.len())?;
        mapping::store(self.words, bytes);
        Ok(())
    }

    fn same_length(&self, bytes: usize) -> Result<(), StagingError> {
        let chunk = self.length;
        match bytes == chunk {
            true => Ok(()),
            false => Err(StagingError::Length { bytes, chunk }),
        }
    }
}
