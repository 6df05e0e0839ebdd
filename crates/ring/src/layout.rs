//! Where the parts of the shared memory lie.
//!
//! ```text
//! page 0    bells: four words of 32 bits, 128 bytes apart
//! page 1    positions: four words of 64 bits, 128 bytes apart; the notice
//! page 2    the request ring: what the client sends
//!   …       the reply ring: what the manager sends
//!   …       the staging area: bulk data, in both directions
//! ```
//!
//! A bell is only ever accessed as a word of 32 bits, and everything else only
//! as words of 64 bits: accesses of different sizes to one place would be
//! undefined behaviour where they race.

use std::ops::Range;

/// What every part is a multiple of, in bytes: the host's page.
pub const PAGE: u64 = 4096;
/// Bytes between words that different sides write: two cache lines, because
/// processors fetch lines in pairs.
const APART: u64 = 128;
/// Smallest ring, in bytes.
pub const MIN_RING: u64 = PAGE;
/// Largest ring, in bytes.
pub const MAX_RING: u64 = 64 << 20;
/// Largest staging area, in bytes.
pub const MAX_STAGING: u64 = 64 << 30;
/// Bytes of a word of the shared memory.
pub(crate) const WORD: u64 = 8;
/// The notice: its place among the words of 64 bits behind page 0.
pub(crate) const NOTICE: usize = (4 * APART / WORD) as usize;

/// Which way the frames of a ring go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the manager.
    Requests,
    /// From the manager to the client.
    Replies,
}

impl Direction {
    fn index(self) -> u64 {
        match self {
            Direction::Requests => 0,
            Direction::Replies => 1,
        }
    }

    /// The bell on which the receiver sleeps until there is a frame: its place
    /// among the words of 32 bits of page 0.
    pub(crate) fn data_bell(self) -> usize {
        (2 * self.index() * APART / 4) as usize
    }

    /// The bell on which the sender sleeps until there is room.
    pub(crate) fn room_bell(self) -> usize {
        ((2 * self.index() + 1) * APART / 4) as usize
    }

    /// The sender's position: its place among the words of 64 bits behind
    /// page 0.
    pub(crate) fn tail(self) -> usize {
        (2 * self.index() * APART / WORD) as usize
    }

    /// The receiver's position.
    pub(crate) fn head(self) -> usize {
        ((2 * self.index() + 1) * APART / WORD) as usize
    }
}

/// The sizes of the parts, all in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    request: u64,
    reply: u64,
    staging: u64,
}

/// A size that a part cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A ring is no power of two, too small or too large.
    #[error("a ring of {0} bytes: a ring is a power of two from {MIN_RING} to {MAX_RING} bytes")]
    Ring(u64),
    /// The staging area is too large, or not a multiple of a page.
    #[error(
        "a staging area of {0} bytes: it is a multiple of {PAGE} bytes and at most {MAX_STAGING}"
    )]
    Staging(u64),
}

impl Layout {
    /// A layout with rings for requests and replies, each a power of two from
    /// [`MIN_RING`] to [`MAX_RING`] bytes, and a staging area of any number of
    /// pages up to [`MAX_STAGING`] bytes, or none.
    ///
    /// # Errors
    ///
    /// If a size is not possible.
    pub fn new(request: u64, reply: u64, staging: u64) -> Result<Layout, LayoutError> {
        for ring in [request, reply] {
            if !ring.is_power_of_two() || !(MIN_RING..=MAX_RING).contains(&ring) {
                return Err(LayoutError::Ring(ring));
            }
        }
        if !staging.is_multiple_of(PAGE) || staging > MAX_STAGING {
            return Err(LayoutError::Staging(staging));
        }
        Ok(Layout {
            request,
            reply,
            staging,
        })
    }

    /// Bytes of a ring.
    pub fn ring(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Requests => self.request,
            Direction::Replies => self.reply,
        }
    }

    /// Bytes of the staging area.
    pub fn staging(&self) -> u64 {
        self.staging
    }

    /// Where the staging area starts, in bytes.
    pub(crate) fn staging_start(&self) -> u64 {
        self.size() - self.staging
    }

    /// Bytes of the whole.
    pub fn size(&self) -> u64 {
        2 * PAGE + self.request + self.reply + self.staging
    }

    /// A ring's place among the words of 64 bits behind page 0.
    pub(crate) fn ring_words(&self, direction: Direction) -> Range<usize> {
        let start = match direction {
            Direction::Requests => PAGE,
            Direction::Replies => PAGE + self.request,
        };
        words(start, self.ring(direction))
    }

    /// The staging area's place among the words of 64 bits behind page 0.
    pub(crate) fn staging_words(&self) -> Range<usize> {
        words(self.staging_start() - PAGE, self.staging)
    }
}

fn words(start: u64, size: u64) -> Range<usize> {
    (start / WORD) as usize..((start + size) / WORD) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_fill_the_whole() {
        let layout = Layout::new(64 << 10, 4096, 3 * PAGE).unwrap();
        let requests = layout.ring_words(Direction::Requests);
        let replies = layout.ring_words(Direction::Replies);
        let staging = layout.staging_words();
        assert_eq!(requests.start as u64 * WORD, PAGE);
        assert_eq!(requests.len() as u64 * WORD, 64 << 10);
        assert_eq!(requests.end, replies.start);
        assert_eq!(replies.end, staging.start);
        assert_eq!(PAGE + staging.end as u64 * WORD, layout.size());
    }

    #[test]
    fn no_two_words_share_a_pair_of_lines_and_all_lie_in_their_page() {
        let (requests, replies) = (Direction::Requests, Direction::Replies);
        let apart = |places: [usize; 4], size: u64| {
            let mut bytes = places.map(|place| place as u64 * size);
            bytes.sort_unstable();
            assert!(bytes.windows(2).all(|pair| pair[1] - pair[0] >= APART));
            assert!(bytes[3] + size <= PAGE);
        };
        let bells = [requests, replies].map(|d| [d.data_bell(), d.room_bell()]);
        apart([bells[0][0], bells[0][1], bells[1][0], bells[1][1]], 4);
        let positions = [requests, replies].map(|d| [d.tail(), d.head()]);
        apart(
            [
                positions[0][0],
                positions[0][1],
                positions[1][0],
                positions[1][1],
            ],
            8,
        );
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        for good in [MIN_RING, MAX_RING] {
            assert!(Layout::new(good, good, 0).is_ok());
        }
        for bad in [0, 1, 2048, 4097, 12288, MAX_RING * 2, u64::MAX, 1 << 63] {
            assert_eq!(Layout::new(bad, PAGE, 0), Err(LayoutError::Ring(bad)));
            assert_eq!(Layout::new(PAGE, bad, 0), Err(LayoutError::Ring(bad)));
        }
        assert!(Layout::new(PAGE, PAGE, MAX_STAGING).is_ok());
        for bad in [1, PAGE - 1, MAX_STAGING + PAGE, u64::MAX] {
            assert_eq!(Layout::new(PAGE, PAGE, bad), Err(LayoutError::Staging(bad)));
        }
    }
}
