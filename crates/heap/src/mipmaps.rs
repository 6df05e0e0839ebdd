//! Canaries of mipmaps: an image of several levels, each half as large as the
//! one before, of which each gets canaries of its own.
//!
//! A level cannot be padded alone: the platform halves the whole image. An
//! image that gains `m << (n - 1)` pixels gains `m << (n - 1 - i)` at level `i`
//! of `n`, so every level has at least `m`. An image of one level is a
//! [`Grown`] one. Plain data, as in [`crate::canary`].

use crate::canary::{Key, PERIOD};
use crate::image_canary::{Grown, MARGIN, PixelDamage};
use crate::pieces::{Answer, Piece};

/// The padded levels of a mipmap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    whole: [u64; 3],
    levels: Vec<Level>,
    bytes: u64,
}

/// One level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// The level, grown.
    pub grown: Grown,
    /// Where the bytes of its strips start among those of all levels; a
    /// multiple of what patterns repeat after.
    pub offset: u64,
}

/// Which dimensions an image has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimensions {
    /// How many.
    pub count: usize,
    /// Whether the last counts the images of an array, which all levels have.
    pub layers: bool,
}

/// A side of a level.
fn halved(side: u64, level: u32) -> u64 {
    (side >> level).max(1)
}

impl Levels {
    /// An image of these pixels with this many levels. `None`: no image can
    /// have that size, or that many levels.
    pub fn around(
        size: [u64; 3],
        dimensions: Dimensions,
        pixel: u64,
        count: u32,
    ) -> Option<Levels> {
        let last = count.checked_sub(1).filter(|last| *last < 32)?;
        let is_halved = |index: usize| index < dimensions.count - usize::from(dimensions.layers);
        if !(1..=3).contains(&dimensions.count) {
            return None;
        }
        let mut whole = size;
        for (index, side) in whole.iter_mut().enumerate().take(dimensions.count) {
            // At least one pixel at the last level, at least the usual at the
            // first.
            let margin = match is_halved(index) {
                true => (MARGIN[index] >> last).max(1) << last,
                false => MARGIN[index],
            };
            *side = side.checked_add(margin)?;
        }
        let mut levels = Vec::new();
        let mut bytes = 0u64;
        for level in 0..count {
            let (mut own, mut margins) = (size, [0; 3]);
            for index in 0..dimensions.count {
                let grown = match is_halved(index) {
                    true => {
                        own[index] = halved(size[index], level);
                        halved(whole[index], level)
                    }
                    false => whole[index],
                };
                margins[index] = grown.checked_sub(own[index])?;
            }
            let grown = Grown::with_margins(own, dimensions.count, pixel, margins)?;
            let offset = bytes;
            let end = offset.checked_add(grown.canary_bytes())?;
            bytes = end.checked_next_multiple_of(PERIOD)?;
            levels.push(Level { grown, offset });
        }
        Some(Levels {
            whole,
            levels,
            bytes,
        })
    }

    /// Pixels of the first level with its padding.
    pub fn whole(&self) -> [u64; 3] {
        self.whole
    }

    /// The levels, the largest first.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Bytes of the strips of all levels.
    pub fn canary_bytes(&self) -> u64 {
        self.bytes
    }

    /// What is wrong with the strips, whose bytes were read one level after the
    /// other, by level.
    pub fn verify(&self, key: &Key, bytes: &[u8]) -> Vec<PixelDamage> {
        let damage = |level: &Level| {
            let from = usize::try_from(level.offset).ok()?;
            level.grown.verify(key, bytes.get(from..)?)
        };
        self.levels.iter().filter_map(damage).collect()
    }

    /// All strips in pieces, level by level; `None`: they are too large for it.
    pub fn pieces(&self, key: &Key, argument: u32) -> Option<Vec<Piece>> {
        let mut all = Vec::new();
        for level in &self.levels {
            for mut piece in level.grown.pieces(key, argument)?.into_iter().flatten() {
                piece.offset += level.offset;
                all.push(piece);
            }
        }
        Some(all)
    }

    /// What the answers show, strip by strip and level by level.
    pub fn damage(&self, strips: &[Vec<(Piece, Answer)>]) -> Vec<PixelDamage> {
        let mut rest = strips;
        let mut all = Vec::new();
        for level in &self.levels {
            let own = level.grown.strips().len().min(rest.len());
            let (these, others) = rest.split_at(own);
            all.extend(level.grown.damage(these));
            rest = others;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn levels() -> impl Strategy<Value = ([u64; 3], Dimensions, u32)> {
        let sides = [1u64..200, 1u64..100, 1u64..20];
        (sides, 1usize..4, any::<bool>(), 1u32..8).prop_map(|(mut size, count, layers, levels)| {
            for side in &mut size[count..] {
                *side = 1;
            }
            let layers = layers && count > 1;
            (size, Dimensions { count, layers }, levels)
        })
    }

    proptest! {
        #[test]
        fn every_level_is_what_the_platform_makes_of_the_whole(
            (size, dimensions, count) in levels(),
        ) {
            let all = Levels::around(size, dimensions, 4, count).unwrap();
            prop_assert_eq!(all.levels().len(), count as usize);
            let mut end = 0;
            for (level, known) in (0..).zip(all.levels()) {
                for index in 0..dimensions.count {
                    let layers = dimensions.layers && index == dimensions.count - 1;
                    let halved = |side: u64| if layers { side } else { (side >> level).max(1) };
                    prop_assert_eq!(known.grown.size()[index], halved(size[index]));
                    prop_assert_eq!(known.grown.whole()[index], halved(all.whole()[index]));
                    // A canary in each dimension, at least as large as it would be
                    // without levels at the first.
                    let gained = known.grown.whole()[index] - known.grown.size()[index];
                    prop_assert!(gained >= 1 || halved(size[index]) > size[index] >> level);
                    prop_assert!(level > 0 || gained >= MARGIN[index]);
                }
                prop_assert!(known.offset >= end && known.offset % PERIOD == 0);
                end = known.offset + known.grown.canary_bytes();
            }
            prop_assert!(all.canary_bytes() >= end && all.canary_bytes() < end + PERIOD);
        }

        #[test]
        fn damage_is_found_at_its_level(
            (size, dimensions, count) in levels(),
            at in any::<prop::sample::Index>(),
        ) {
            let all = Levels::around(size, dimensions, 4, count).unwrap();
            let key = Key::derive(7, 1);
            let mut bytes = vec![0; all.canary_bytes() as usize];
            for level in all.levels() {
                key.fill(0, &mut bytes[level.offset as usize..]);
            }
            prop_assert!(all.verify(&key, &bytes).is_empty());
            let hit = at.index(all.levels().len());
            let level = &all.levels()[hit];
            prop_assume!(level.grown.canary_bytes() > 0);
            bytes[level.offset as usize] ^= 0xff;
            let found = all.verify(&key, &bytes);
            prop_assert_eq!(found.len(), 1);
            prop_assert_eq!(found[0].bytes, 1);
            let expected = level.grown.verify(&key, &bytes[level.offset as usize..]).unwrap();
            prop_assert_eq!(&found[0], &expected);
            // Pieces lie where the strips of their level do.
            let pieces = all.pieces(&key, 0).unwrap();
            prop_assert!(pieces.iter().any(|piece| piece.offset == level.offset && piece.before == 0));
        }
    }

    #[test]
    fn one_level_is_an_image() {
        let dimensions = Dimensions {
            count: 2,
            layers: false,
        };
        let one = Levels::around([50, 20, 1], dimensions, 16, 1).unwrap();
        let grown = Grown::around([50, 20, 1], 2, 16).unwrap();
        assert_eq!(one.whole(), grown.whole());
        assert_eq!(one.levels(), [Level { grown, offset: 0 }]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let two = Dimensions {
            count: 2,
            layers: false,
        };
        assert!(Levels::around([8, 8, 1], two, 4, 0).is_none());
        assert!(Levels::around([8, 8, 1], two, 4, 40).is_none());
        let none = Dimensions {
            count: 0,
            layers: false,
        };
        assert!(Levels::around([8, 8, 1], none, 4, 1).is_none());
        assert!(Levels::around([u64::MAX, 8, 1], two, 4, 2).is_none());
    }
}
