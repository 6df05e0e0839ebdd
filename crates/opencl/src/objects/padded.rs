//! Padded images: larger images that take the place of the program's while a
//! kernel runs. Canaries fill the strips by which they are larger.

use crate::objects::written::Written;
use crate::platform::handles::MemObject;
use crate::sys::*;
use heap::canary::Key;
use heap::mipmaps::Levels;
use std::sync::OnceLock;

/// A padded image of one of the program's.
pub struct PaddedImage {
    pub image: MemObject,
    pub levels: Levels,
    /// Which number of an origin is the level.
    dimensions: usize,
    pub key: Key,
    /// All strips as they must be.
    intact: Box<[u8]>,
    context: usize,
    pub written: Written,
    /// A buffer for the strips, once the device's checker needed one.
    strips: OnceLock<Option<MemObject>>,
}

/// The strips of some levels as they must be; `None`: there is no room for
/// them.
pub fn intact(levels: &Levels, key: &Key) -> Option<Box<[u8]>> {
    let mut intact = Vec::new();
    let bytes = usize::try_from(levels.canary_bytes()).ok()?;
    intact.try_reserve_exact(bytes).ok()?;
    intact.resize(bytes, 0);
    // Every level's pattern starts anew, at a multiple of what it repeats
    // after.
    key.fill(0, &mut intact);
    Some(intact.into_boxed_slice())
}

impl PaddedImage {
    /// An image with these dimensions, levels and strips, of which none is
    /// written so far.
    pub fn new(
        (context, image): (cl_context, MemObject),
        (levels, dimensions): (Levels, usize),
        (key, intact): (Key, Box<[u8]>),
    ) -> PaddedImage {
        PaddedImage {
            image,
            levels,
            dimensions,
            key,
            intact,
            context: context as usize,
            written: Written::default(),
            strips: OnceLock::new(),
        }
    }

    /// All strips as they must be.
    pub fn intact(&self) -> &[u8] {
        &self.intact
    }

    /// Bytes of all strips.
    pub fn canary_bytes(&self) -> usize {
        self.intact.len()
    }

    /// Where something starts at a level.
    pub fn origin(&self, at: [u64; 3], level: usize) -> [usize; 4] {
        let [x, y, z] = at.map(|at| at as usize);
        let mut origin = [x, y, z, 0];
        if level > 0 {
            origin[self.dimensions] = level;
        }
        origin
    }

    /// Memory objects that it has.
    pub fn objects(&self) -> u32 {
        1 + u32::from(matches!(self.strips.get(), Some(Some(_))))
    }

    /// A buffer that holds all strips, one after the other. `None`: the
    /// platform gives none.
    pub fn strips(&self) -> Option<cl_mem> {
        let context = self.context as cl_context;
        let make = || MemObject::buffer(context, CL_MEM_READ_WRITE, self.intact.len());
        self.strips.get_or_init(make).as_ref().map(MemObject::raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::fake::Fake;
    use heap::mipmaps::Dimensions;

    fn padded(fake: &Fake, levels: u32) -> PaddedImage {
        let dimensions = Dimensions {
            count: 2,
            layers: false,
        };
        let levels = Levels::around([8, 8, 1], dimensions, 4, levels).unwrap();
        let key = Key::of_byte(0xab);
        let strips = intact(&levels, &key).unwrap();
        let image = MemObject::buffer(fake.context, 0, 8).unwrap();
        PaddedImage::new((fake.context, image), (levels, 2), (key, strips))
    }

    #[test]
    fn a_level_is_the_number_behind_the_dimensions() {
        let fake = Fake::new();
        let image = padded(&fake, 2);
        assert_eq!(image.origin([1, 2, 0], 0), [1, 2, 0, 0]);
        assert_eq!(image.origin([1, 2, 0], 1), [1, 2, 1, 0]);
    }

    #[test]
    fn a_buffer_for_the_strips_is_made_once_and_counted() {
        let fake = Fake::new();
        let image = padded(&fake, 1);
        assert!(image.canary_bytes() > 0);
        assert!(image.intact().iter().all(|byte| *byte == 0xab));
        assert_eq!(image.objects(), 1);
        let strips = image.strips().unwrap();
        assert_eq!(image.strips(), Some(strips));
        assert_eq!((image.objects(), fake.mems()), (2, 2));
        drop(image);
        assert_eq!(fake.mems(), 0);
    }
}
