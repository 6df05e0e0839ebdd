//! Pinned host memory: the part of the memory shared with the manager that
//! nothing is copied through. The device copies from and to it by itself.
//!
//! Where the manager shares none, or all of it is in use, pinned memory is other
//! memory of this process, and its copies go through what is shared.

use crate::link::Link;
use protocol::{COPIED_THROUGH, Chunks, PINNED_UNIT};

/// What sizes are rounded up to, so that each piece begins at a page.
const PAGE: u64 = 4096;

/// The pinned memory of this process.
#[derive(Default)]
pub(crate) enum Pinned {
    /// Not asked for yet.
    #[default]
    Unused,
    /// There is none.
    Missing,
    /// Mapped here.
    Mapped {
        /// First byte.
        base: u64,
        /// Bytes.
        size: u64,
        /// What is in use.
        chunks: Chunks,
    },
}

impl Pinned {
    /// Takes so many bytes: where they begin.
    pub(crate) fn take(&mut self, link: &Link, size: u64) -> Option<u64> {
        if matches!(self, Pinned::Unused) {
            *self = map(link).unwrap_or(Pinned::Missing);
        }
        let Pinned::Mapped { base, chunks, .. } = self else {
            return None;
        };
        let offset = chunks.take(size.checked_next_multiple_of(PAGE)?)?;
        Some(*base + offset)
    }

    /// Gives back what was taken; whether this address was.
    pub(crate) fn give_back(&mut self, address: u64) -> bool {
        match self {
            Pinned::Mapped { base, chunks, .. } => address
                .checked_sub(*base)
                .is_some_and(|offset| chunks.give_back(offset).is_ok()),
            _ => false,
        }
    }

    /// Where in the staging area some bytes are, if all of them are pinned.
    pub(crate) fn offset(&self, address: u64, bytes: u64) -> Option<u64> {
        let Pinned::Mapped { base, size, .. } = self else {
            return None;
        };
        let offset = address.checked_sub(*base)?;
        let end = offset.checked_add(bytes)?;
        (end <= *size).then_some(COPIED_THROUGH + offset)
    }
}

/// Bytes from an offset of the staging area to the end of the unit it is in.
pub(crate) fn left_in_unit(offset: u64) -> u64 {
    PINNED_UNIT - (offset - COPIED_THROUGH) % PINNED_UNIT
}

/// Maps the pinned memory once more, for good: the program's pointers stay valid
/// when the connection ends, and in a forked child.
fn map(link: &Link) -> Option<Pinned> {
    let wire = link.channel.lock();
    let staging = wire.channel.as_ref()?.staging();
    let first = usize::try_from(COPIED_THROUGH).ok()? / size_of::<u64>();
    let words = staging.words().get(first..)?;
    let size = size_of_val(words);
    if size == 0 {
        return None;
    }
    let shared = words.as_ptr().cast_mut().cast();
    // SAFETY: no bytes of the old mapping are taken away: a size of zero maps the
    // pages of a shared mapping a second time (mremap(2)), at a new address.
    let made = unsafe { libc::mremap(shared, 0, size, libc::MREMAP_MAYMOVE) };
    (made != libc::MAP_FAILED).then(|| Pinned::Mapped {
        base: made.expose_provenance() as u64,
        size: size as u64,
        chunks: Chunks::new(size as u64),
    })
}
