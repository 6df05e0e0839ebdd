//! Canaries of images: an image is padded in each of its dimensions, and the
//! padding is filled with a known pattern.
//!
//! A [`Grown`] image divides the padding into [`Strip`]s, boxes that do not
//! overlap, one for each dimension: the first holds what lies past the end of
//! the rows, the second what lies below the last row, the third what lies
//! behind the last slice. The pattern is that of [`Key`] over all strips, one
//! after the other. Plain data, as in [`crate::canary`].

use crate::canary::Key;

/// Pixels that an image gains in each dimension.
pub(crate) const MARGIN: [u64; 3] = [64, 16, 4];

/// An image with canaries past the end of each dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grown {
    /// Pixels of the image, 1 in the dimensions that it lacks.
    size: [u64; 3],
    /// Bytes of a pixel.
    pixel: u64,
    strips: Vec<Strip>,
}

/// A box of pixels that hold canaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strip {
    /// First pixel.
    pub origin: [u64; 3],
    /// Pixels in each dimension.
    pub region: [u64; 3],
    /// Where its bytes start among those of all strips.
    pub offset: u64,
    /// How many they are.
    pub bytes: u64,
    /// The dimension past whose end it lies.
    dimension: usize,
}

/// What was overwritten of an image's canaries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PixelDamage {
    /// The pixel that is nearest to the image, of those past the end of its
    /// first dimension that has any.
    pub pixel: [u64; 3],
    /// Bytes from the end of that dimension up to it.
    pub nearest: u64,
    /// The same for the pixel that is farthest.
    pub farthest: u64,
    /// Bytes that changed, in all dimensions.
    pub bytes: u64,
    /// What the nearest pixel held, at most 16 bytes.
    pub found: Vec<u8>,
}

impl Grown {
    /// An image of these pixels, of which `dimensions` are its own. `None`: no
    /// image can have that size or that number of dimensions.
    pub fn around(size: [u64; 3], dimensions: usize, pixel: u64) -> Option<Grown> {
        Grown::with_margins(size, dimensions, pixel, MARGIN)
    }

    /// The same with this many more pixels in each dimension.
    pub(crate) fn with_margins(
        size: [u64; 3],
        dimensions: usize,
        pixel: u64,
        margins: [u64; 3],
    ) -> Option<Grown> {
        if !(1..=3).contains(&dimensions) || size.contains(&0) || pixel == 0 {
            return None;
        }
        let mut strips = Vec::new();
        let mut offset = 0u64;
        let mut whole = size;
        for (side, margin) in whole.iter_mut().zip(margins).take(dimensions) {
            *side = side.checked_add(margin)?;
        }
        let pixels = whole
            .iter()
            .try_fold(1u64, |all, side| all.checked_mul(*side))?;
        pixels.checked_mul(pixel)?;
        for dimension in (0..dimensions).filter(|dimension| margins[*dimension] > 0) {
            let mut origin = [0; 3];
            origin[dimension] = size[dimension];
            let mut region = size;
            region[dimension] = margins[dimension];
            // The corners belong to the lower dimension.
            let higher = dimension + 1..dimensions;
            region[higher.clone()].copy_from_slice(&whole[higher]);
            let pixels = region
                .iter()
                .try_fold(1u64, |all, side| all.checked_mul(*side))?;
            let bytes = pixels.checked_mul(pixel)?;
            strips.push(Strip {
                origin,
                region,
                offset,
                bytes,
                dimension,
            });
            offset = offset.checked_add(bytes)?;
        }
        Some(Grown {
            size,
            pixel,
            strips,
        })
    }

    /// Pixels with all that was gained.
    pub fn whole(&self) -> [u64; 3] {
        let mut whole = self.size;
        for strip in &self.strips {
            whole[strip.dimension] += strip.region[strip.dimension];
        }
        whole
    }

    /// Pixels of the image itself.
    pub fn size(&self) -> [u64; 3] {
        self.size
    }

    /// The strips; together they are the padding.
    pub fn strips(&self) -> &[Strip] {
        &self.strips
    }

    /// Bytes of all strips.
    pub fn canary_bytes(&self) -> u64 {
        self.strips.iter().map(|strip| strip.bytes).sum()
    }

    /// What is wrong with the strips, whose bytes were read one strip after the
    /// other, each pixel by pixel and row by row; `None` if they are intact.
    pub fn verify(&self, key: &Key, bytes: &[u8]) -> Option<PixelDamage> {
        let mut found: Option<PixelDamage> = None;
        let mut dimension = None;
        for strip in &self.strips {
            let from = usize::try_from(strip.offset).ok()?;
            let to = from.checked_add(usize::try_from(strip.bytes).ok()?)?;
            let own = bytes.get(from..to)?;
            for (index, byte) in (0..strip.bytes).zip(own) {
                if *byte == key.at(strip.offset + index) {
                    continue;
                }
                let pixel = strip.pixel(index / self.pixel);
                let distance = self.distance(strip, pixel);
                let start = (index / self.pixel * self.pixel) as usize;
                let end = start + self.pixel.min(16) as usize;
                let known = found.get_or_insert_with(|| PixelDamage {
                    pixel,
                    nearest: u64::MAX,
                    farthest: distance,
                    bytes: 0,
                    found: Vec::new(),
                });
                known.bytes += 1;
                known.farthest = known.farthest.max(distance);
                // Strips are in the order of their dimensions.
                if distance < known.nearest
                    && *dimension.get_or_insert(strip.dimension) == strip.dimension
                {
                    known.pixel = pixel;
                    known.nearest = distance;
                    known.found = own[start..end].to_vec();
                }
            }
        }
        found
    }

    /// Bytes from the end of the strip's dimension to a pixel.
    fn distance(&self, strip: &Strip, pixel: [u64; 3]) -> u64 {
        let dimension = strip.dimension;
        self.away(strip, pixel[dimension] - self.size[dimension])
    }

    /// Bytes from the end of the strip's dimension to pixels at this distance
    /// past it.
    pub(crate) fn away(&self, strip: &Strip, past: u64) -> u64 {
        let step: u64 = self.size[..strip.dimension].iter().product();
        past * step * self.pixel
    }

    /// A byte with the index `i` in a strip lies `i / unit % rows` pixels past
    /// the end of the strip's dimension.
    pub(crate) fn steps(&self, strip: &Strip) -> (u64, u64) {
        let lower: u64 = strip.region[..strip.dimension].iter().product();
        (lower * self.pixel, strip.region[strip.dimension])
    }

    /// The pixel that holds the byte with this index in a strip.
    pub(crate) fn pixel_at(&self, strip: &Strip, index: u64) -> [u64; 3] {
        strip.pixel(index / self.pixel)
    }

    /// Bytes of a pixel.
    pub(crate) fn pixel(&self) -> u64 {
        self.pixel
    }
}

impl Strip {
    /// The pixel with this number in the strip.
    fn pixel(&self, number: u64) -> [u64; 3] {
        let [width, height, _] = self.region;
        [
            self.origin[0] + number % width,
            self.origin[1] + number / width % height,
            self.origin[2] + number / width / height,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strips_are_all_that_was_gained_and_each_pixel_once(
            size in [1u64..20, 1u64..20, 1u64..20],
            dimensions in 1usize..4,
        ) {
            let mut size = size;
            for side in &mut size[dimensions..] {
                *side = 1;
            }
            let grown = Grown::around(size, dimensions, 4).unwrap();
            let mut seen = std::collections::BTreeSet::new();
            let mut offset = 0;
            for strip in grown.strips() {
                prop_assert_eq!(strip.offset, offset);
                offset += strip.bytes;
                for number in 0..strip.bytes / 4 {
                    prop_assert!(seen.insert(strip.pixel(number)));
                }
            }
            prop_assert_eq!(grown.canary_bytes(), offset);
            let count = |sides: [u64; 3]| sides.iter().product::<u64>();
            prop_assert_eq!(seen.len() as u64, count(grown.whole()) - count(size));
            let outside = |pixel: &[u64; 3]| pixel.iter().zip(size).any(|(at, end)| *at >= end);
            prop_assert!(seen.iter().all(outside));
        }

        #[test]
        fn a_changed_pixel_is_named(
            size in [1u64..20, 1u64..20, 1u64..20],
            number in any::<usize>(),
            seed in any::<u64>(),
        ) {
            let grown = Grown::around(size, 3, 4).unwrap();
            let key = Key::derive(seed, 1);
            let mut bytes = vec![0; grown.canary_bytes() as usize];
            key.fill(0, &mut bytes);
            prop_assert_eq!(grown.verify(&key, &bytes), None);
            let at = number % (bytes.len() / 4) * 4;
            for byte in &mut bytes[at..at + 4] {
                *byte ^= 0xff;
            }
            let damage = grown.verify(&key, &bytes).unwrap();
            let strip = grown.strips().iter().rfind(|strip| strip.offset <= at as u64).unwrap();
            prop_assert_eq!(damage.pixel, strip.pixel((at as u64 - strip.offset) / 4));
            prop_assert_eq!(damage.bytes, 4);
            prop_assert_eq!(damage.nearest, damage.farthest);
            prop_assert_eq!(damage.found.as_slice(), &bytes[at..at + 4]);
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(Grown::around([u64::MAX, 1, 1], 1, 4).is_none());
        assert!(Grown::around([1 << 40, 1 << 40, 1], 2, 4).is_none());
        assert!(Grown::around([8, 8, 1], 0, 4).is_none());
        assert!(Grown::around([8, 0, 1], 2, 4).is_none());
        assert!(Grown::around([8, 8, 1], 2, 0).is_none());
        // Bytes that are too few are no damage, and no panic.
        let grown = Grown::around([8, 8, 1], 2, 4).unwrap();
        assert_eq!(grown.verify(&Key::of_byte(1), &[]), None);
    }

    #[test]
    fn distances_count_from_the_end_of_their_dimension() {
        let grown = Grown::around([10, 5, 1], 2, 4).unwrap();
        let key = Key::of_byte(0xc2);
        let mut bytes = vec![0xc2; grown.canary_bytes() as usize];
        // Third pixel past the end of the second row, and one row below all.
        let below = grown.strips()[1].offset as usize;
        bytes[(64 + 2) * 4] = 0;
        bytes[below + (10 + 7) * 4] = 0;
        let damage = grown.verify(&key, &bytes).unwrap();
        assert_eq!(damage.pixel, [12, 1, 0]);
        assert_eq!((damage.nearest, damage.farthest), (8, 40));
        bytes[(64 + 2) * 4] = 0xc2;
        let damage = grown.verify(&key, &bytes).unwrap();
        assert_eq!((damage.pixel, damage.nearest), ([7, 6, 0], 40));
    }
}
