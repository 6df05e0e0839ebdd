//! Canaries cut into pieces, one for each work-group of a kernel, and the
//! answers that the groups write.
//!
//! A kernel that verifies canaries gets a [`Piece`] for each group and writes
//! an [`Answer`] for each, both as plain bytes of the layout below. The answers
//! add up to what the host would find by reading the canaries itself; only
//! `found` may be shorter, because it ends with its piece.

use crate::canary::{Damage, Key, Layout, PERIOD, SHOWN, Side};
use crate::image_canary::{Grown, PixelDamage};

/// Bytes of a piece at most.
const LENGTH: u64 = 16 << 10;

/// Part of a canary. The pattern is that of `key` over the offsets in the
/// memory that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it starts in that memory.
    pub offset: u64,
    /// What it must hold.
    pub key: Key,
    /// Bytes.
    pub length: u32,
    /// Number of the kernel's argument that is that memory.
    pub argument: u32,
    /// Bytes of its canary that lie before it.
    pub before: u32,
    /// A byte with the index `i` in its canary lies `i / unit % rows` away
    /// from what the canary guards, in steps.
    pub unit: u32,
    /// See `unit`.
    pub rows: u32,
    /// Findings are numbered from a multiple of this on, counted as `before`.
    pub grain: u32,
}

impl Piece {
    /// Bytes of a piece as the device reads it.
    pub const BYTES: usize = 48;

    /// As the device reads it.
    pub fn to_bytes(&self) -> [u8; Piece::BYTES] {
        let mut bytes = [0; Piece::BYTES];
        let numbers = [
            self.length,
            self.argument,
            self.before,
            self.unit,
            self.rows,
            self.grain,
        ];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..24].copy_from_slice(self.key.bytes());
        for (place, number) in bytes[24..].chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }
}

/// The result of scanning a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Bytes that changed; with none, the other fields are undefined.
    pub changed: u32,
    /// Steps to the nearest of them.
    pub nearest: u32,
    /// Index in the canary of the first that is so near.
    pub first: u32,
    /// Steps to the farthest.
    pub farthest: u32,
    /// What was found at `first`, or at the multiple of the grain before it;
    /// past the piece's end 0.
    pub found: [u8; SHOWN],
}

impl Answer {
    /// Bytes of an answer as the device writes it.
    pub const BYTES: usize = 32;

    /// From what the device wrote. Too few bytes are no answer.
    pub fn from_bytes(bytes: &[u8]) -> Option<Answer> {
        let number = |at: usize| {
            let bytes = bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        Some(Answer {
            changed: number(0)?,
            nearest: number(4)?,
            first: number(8)?,
            farthest: number(12)?,
            found: bytes.get(16..Answer::BYTES)?.try_into().ok()?,
        })
    }
}

/// The combined answers for one canary: the first of the nearest changed bytes,
/// and the end of the piece that holds it.
struct Joined {
    changed: u64,
    farthest: u32,
    nearest: u32,
    first: u32,
    end: u32,
    found: [u8; SHOWN],
}

fn join(answers: &[(Piece, Answer)]) -> Option<Joined> {
    let hit = answers.iter().filter(|(_, answer)| answer.changed > 0);
    let (piece, best) = hit
        .clone()
        .min_by_key(|(_, answer)| (answer.nearest, answer.first))?;
    Some(Joined {
        changed: hit
            .clone()
            .map(|(_, answer)| u64::from(answer.changed))
            .sum(),
        farthest: hit.map(|(_, answer)| answer.farthest).max()?,
        nearest: best.nearest,
        first: best.first,
        end: piece.before + piece.length,
        found: best.found,
    })
}

/// Cuts `length` bytes; a piece starts at multiples of `grain`.
fn cut(whole: Piece, length: u64) -> Option<Vec<Piece>> {
    let length = u32::try_from(length).ok()?;
    let step = (LENGTH / u64::from(whole.grain)).max(1) * u64::from(whole.grain);
    let step = u32::try_from(step).ok()?;
    let mut pieces = Vec::new();
    let mut before = 0;
    while before < length {
        let own = step.min(length - before);
        pieces.push(Piece {
            offset: whole.offset + u64::from(before),
            length: own,
            before,
            ..whole
        });
        before += own;
    }
    Some(pieces)
}

impl Layout {
    /// Both canaries in pieces, those of the one before the buffer first;
    /// `None`: they are too large for it.
    pub fn pieces(&self, key: &Key, argument: u32) -> Option<[Vec<Piece>; 2]> {
        let side = |side| {
            let whole = Piece {
                offset: self.canary(side),
                key: *key,
                length: 0,
                argument,
                before: 0,
                unit: 1,
                rows: u32::MAX,
                grain: 1,
            };
            cut(whole, self.length())
        };
        Some([side(Side::Before)?, side(Side::After)?])
    }

    /// The damage that the answers for all pieces of a canary show, if any.
    pub fn damage(&self, side: Side, answers: &[(Piece, Answer)]) -> Option<Damage> {
        let joined = join(answers)?;
        let (first, last) = (u64::from(joined.first), u64::from(joined.farthest));
        let shown = (last + 1).min(u64::from(joined.end)).saturating_sub(first);
        let shown = shown.min(SHOWN as u64) as usize;
        let (nearest, farthest) = self.distances(side, first, last);
        Some(Damage {
            side,
            nearest,
            farthest,
            bytes: joined.changed,
            found: joined.found[..shown].to_vec(),
        })
    }
}

impl Grown {
    /// The strips in pieces, as their bytes lie one after the other; `None`:
    /// they are too large for it.
    pub fn pieces(&self, key: &Key, argument: u32) -> Option<Vec<Vec<Piece>>> {
        let strip = |strip: &crate::image_canary::Strip| {
            let (unit, rows) = self.steps(strip);
            let whole = Piece {
                offset: strip.offset,
                key: *key,
                length: 0,
                argument,
                before: 0,
                unit: u32::try_from(unit).ok()?,
                rows: u32::try_from(rows).ok()?,
                grain: u32::try_from(self.pixel()).ok()?,
            };
            cut(whole, strip.bytes)
        };
        self.strips().iter().map(strip).collect()
    }

    /// The damage that the answers for all pieces of each strip show, if any.
    pub fn damage(&self, answers: &[Vec<(Piece, Answer)>]) -> Option<PixelDamage> {
        let mut damage: Option<PixelDamage> = None;
        for (strip, answers) in self.strips().iter().zip(answers) {
            let Some(joined) = join(answers) else {
                continue;
            };
            let farthest = self.away(strip, u64::from(joined.farthest));
            let shown = self.pixel().min(SHOWN as u64) as usize;
            let known = damage.get_or_insert_with(|| PixelDamage {
                pixel: self.pixel_at(strip, u64::from(joined.first)),
                nearest: self.away(strip, u64::from(joined.nearest)),
                farthest: 0,
                bytes: 0,
                found: joined.found[..shown].to_vec(),
            });
            known.bytes += joined.changed;
            known.farthest = known.farthest.max(farthest);
        }
        damage
    }
}

/// Offsets in a pattern repeat after this many bytes, which the device reads
/// at once.
const _: () = assert!(PERIOD == 16);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the kernel does, one piece after the other.
    fn device(memory: &mut [u8], piece: &Piece) -> Answer {
        let start = piece.offset as usize;
        let own = &mut memory[start..start + piece.length as usize];
        let key = |index: usize| piece.key.at(piece.offset + index as u64);
        let steps = |index: usize| (piece.before + index as u32) / piece.unit % piece.rows;
        let hit: Vec<usize> = (0..own.len())
            .filter(|index| own[*index] != key(*index))
            .collect();
        let nearest = hit
            .iter()
            .map(|index| steps(*index))
            .min()
            .unwrap_or(u32::MAX);
        let first = hit.iter().find(|index| steps(**index) == nearest);
        let first = first.map_or(u32::MAX, |index| piece.before + *index as u32);
        let mut found = [0; SHOWN];
        if !hit.is_empty() {
            let from = (first / piece.grain * piece.grain - piece.before) as usize;
            for (place, byte) in found.iter_mut().zip(&own[from..]) {
                *place = *byte;
            }
        }
        let answer = Answer {
            changed: hit.len() as u32,
            nearest,
            first,
            farthest: hit.iter().map(|index| steps(*index)).max().unwrap_or(0),
            found,
        };
        for index in hit {
            own[index] = key(index);
        }
        answer
    }

    fn ask(memory: &mut [u8], pieces: &[Piece]) -> Vec<(Piece, Answer)> {
        let mut answer = |piece: &Piece| (*piece, device(memory, piece));
        pieces.iter().map(&mut answer).collect()
    }

    proptest! {
        #[test]
        fn the_device_finds_around_buffers_what_the_host_finds(
            size in 0u64..1000,
            wanted in prop_oneof![16u64..300, 16_000u64..40_000],
            seed in any::<u64>(),
            writes in prop::collection::vec((any::<prop::sample::Index>(), 1usize..40, any::<u8>()), 0..4),
        ) {
            let layout = Layout::around(size, wanted, 128).unwrap();
            let key = Key::derive(seed, 3);
            let mut memory = vec![0; layout.total() as usize];
            key.fill(0, &mut memory);
            for (at, length, byte) in writes {
                let at = at.index(memory.len());
                let end = (at + length).min(memory.len());
                memory[at..end].fill(byte);
            }
            let read = memory.clone();
            let pieces = layout.pieces(&key, 7).unwrap();
            for (side, pieces) in [Side::Before, Side::After].into_iter().zip(&pieces) {
                let from = layout.canary(side) as usize;
                let host = layout.verify(&key, side, &read[from..from + layout.length() as usize]);
                let mut device = layout.damage(side, &ask(&mut memory, pieces));
                if let (Some(host), Some(device)) = (&host, &mut device) {
                    prop_assert!(host.found.starts_with(&device.found));
                    prop_assert!(!device.found.is_empty());
                    device.found.clone_from(&host.found);
                }
                prop_assert_eq!(host, device);
                // It was repaired.
                prop_assert_eq!(layout.damage(side, &ask(&mut memory, pieces)), None);
            }
        }

        #[test]
        fn the_device_finds_around_images_what_the_host_finds(
            size in [1u64..40, 1u64..20, 1u64..8],
            dimensions in 1usize..4,
            pixel in prop::sample::select(vec![1u64, 2, 3, 4, 8, 16]),
            seed in any::<u64>(),
            writes in prop::collection::vec((any::<prop::sample::Index>(), 1usize..40, any::<u8>()), 0..4),
        ) {
            let mut size = size;
            for side in &mut size[dimensions..] {
                *side = 1;
            }
            let grown = Grown::around(size, dimensions, pixel).unwrap();
            let key = Key::derive(seed, 3);
            let mut memory = vec![0; grown.canary_bytes() as usize];
            key.fill(0, &mut memory);
            for (at, length, byte) in writes {
                let at = at.index(memory.len());
                let end = (at + length).min(memory.len());
                memory[at..end].fill(byte);
            }
            let host = grown.verify(&key, &memory);
            let pieces = grown.pieces(&key, 0).unwrap();
            let answers: Vec<_> = pieces.iter().map(|pieces| ask(&mut memory, pieces)).collect();
            prop_assert_eq!(grown.damage(&answers), host);
            prop_assert_eq!(grown.verify(&key, &memory), None);
        }
    }

    #[test]
    fn pieces_and_answers_are_plain_bytes() {
        let layout = Layout::around(100, 40_000, 128).unwrap();
        let [before, after] = layout.pieces(&Key::of_byte(0xc2), 5).unwrap();
        assert_eq!(before.len(), 3);
        assert_eq!(before[1].before, 16 << 10);
        assert_eq!(before[2].length, 40_000 - (32 << 10));
        assert_eq!(after[0].offset, layout.start() + 100);
        let bytes = after[1].to_bytes();
        assert_eq!(
            bytes[..8],
            (layout.start() + 100 + (16 << 10)).to_le_bytes()
        );
        assert_eq!(bytes[8..24], [0xc2; 16]);
        assert_eq!(bytes[24..28], (16u32 << 10).to_le_bytes());
        assert_eq!(bytes[28..32], 5u32.to_le_bytes());
        let mut answer = [0; Answer::BYTES];
        answer[0] = 2;
        answer[12] = 9;
        answer[16] = 3;
        let answer = Answer::from_bytes(&answer).unwrap();
        assert_eq!(
            (answer.changed, answer.farthest, answer.found[0]),
            (2, 9, 3)
        );
        assert_eq!(Answer::from_bytes(&[0; 31]), None);
    }

    #[test]
    fn what_is_too_large_for_a_kernel_is_left_to_the_host() {
        let grown = Grown::around([1 << 20, 1 << 20, 1], 2, 16).unwrap();
        assert!(grown.pieces(&Key::of_byte(1), 0).is_some());
        let grown = Grown::around([1 << 30, 4, 4], 3, 16).unwrap();
        assert_eq!(grown.pieces(&Key::of_byte(1), 0), None);
    }
}
