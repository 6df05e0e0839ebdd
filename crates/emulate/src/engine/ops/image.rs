//! What texture and surface objects describe, and how their texels are read
//! and written.
//!
//! An object is the address of a description in device memory, which the
//! device writes when the object is made: words of 64 bits, first those of
//! [`words`], then for each mipmap level those of [`level`].

use crate::engine::access::{load_one, store_one};
use crate::engine::context::Context;
use crate::engine::decode::SpaceTag;
use crate::engine::warp::Warp;
use crate::mapping::{AccessFault, Plain};
use std::sync::Arc;

/// Words of a description, by position.
pub(crate) mod words {
    /// `CUarray_format`.
    pub const FORMAT: u64 = 0;
    /// Channels of a texel.
    pub const CHANNELS: u64 = 1;
    /// The flags of [`super::flags`].
    pub const FLAGS: u64 = 2;
    /// How many levels follow.
    pub const LEVELS: u64 = 3;
    /// Border color: two channels a word, as floats.
    pub const BORDER: u64 = 4;
    /// Smallest and largest level of detail, as floats.
    pub const CLAMP: u64 = 6;
    /// What is added to the level of detail, a float.
    pub const BIAS: u64 = 7;
    /// How many there are.
    pub const COUNT: usize = 8;
}

/// Words of a level, by position.
pub(crate) mod level {
    /// First byte of the memory.
    pub const ADDRESS: usize = 0;
    /// Texels of a row.
    pub const WIDTH: usize = 1;
    /// Rows; 0 for memory without rows.
    pub const HEIGHT: usize = 2;
    /// Slices, layers or faces; 0 for memory without them.
    pub const DEPTH: usize = 3;
    /// Bytes from row to row.
    pub const PITCH: usize = 4;
    /// Bytes from slice to slice.
    pub const SLICE: usize = 5;
    /// How many there are.
    pub const COUNT: usize = 6;
}

/// Bits of a description's flags.
pub(crate) mod flags {
    /// Coordinates from 0 to 1.
    pub const NORMALIZED: u64 = 1;
    /// Integers stay integers.
    pub const INTEGERS: u64 = 2;
    /// Linear filtering.
    pub const LINEAR: u64 = 4;
    /// Linear filtering between levels.
    pub const LINEAR_LEVELS: u64 = 8;
    /// Colors are stored as sRGB.
    pub const SRGB: u64 = 16;
    /// Address mode of x; those of y and z follow four bits further each.
    pub const MODE: u32 = 8;
}

/// Most levels that an object has: those of 32,768 texels.
pub(crate) const MOST_LEVELS: u64 = 16;

/// One level of an image.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level {
    pub address: u64,
    pub width: u64,
    pub height: u64,
    pub depth: u64,
    pub pitch: u64,
    pub slice: u64,
}

/// What a lane reads from or writes to.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub format: u64,
    pub channels: u64,
    pub flags: u64,
    pub border: [f32; 4],
    pub clamp: [f32; 2],
    pub bias: f32,
    pub levels: Vec<Level>,
}

/// One texel: the bits of four channels.
pub(super) type Texel = [u32; 4];

/// The kind of memory that descriptions and texels are in.
const SPACE: SpaceTag = SpaceTag::Global;

fn halves(word: u64) -> [f32; 2] {
    [
        f32::from_bits(word as u32),
        f32::from_bits((word >> 32) as u32),
    ]
}

impl Image {
    /// The image of an object, as the last instruction found it if it used the
    /// same: objects do not change while a kernel runs.
    pub fn of(
        warp: &mut Warp,
        context: &mut Context<'_>,
        lane: usize,
        object: u64,
    ) -> Result<Arc<Image>, AccessFault> {
        if let Some((known, image)) = &context.image
            && *known == object
        {
            return Ok(image.clone());
        }
        let image = Arc::new(Image::read(warp, context, lane, object)?);
        context.image = Some((object, image.clone()));
        Ok(image)
    }

    /// The description that an object names.
    fn read(
        warp: &mut Warp,
        context: &mut Context<'_>,
        lane: usize,
        object: u64,
    ) -> Result<Image, AccessFault> {
        let mut word = |index: u64| {
            let at = object.wrapping_add(8 * index);
            load_one::<u64>(warp, context, SPACE, lane, at)
        };
        let [r, g] = halves(word(words::BORDER)?);
        let [b, a] = halves(word(words::BORDER + 1)?);
        let count = word(words::LEVELS)?.clamp(1, MOST_LEVELS);
        let mut levels = Vec::with_capacity(count as usize);
        for index in 0..count {
            let mut list = [0; level::COUNT];
            for (position, value) in list.iter_mut().enumerate() {
                *value = word(words::COUNT as u64 + index * level::COUNT as u64 + position as u64)?;
            }
            levels.push(Level {
                address: list[level::ADDRESS],
                width: list[level::WIDTH],
                height: list[level::HEIGHT],
                depth: list[level::DEPTH],
                pitch: list[level::PITCH],
                slice: list[level::SLICE],
            });
        }
        Ok(Image {
            format: word(words::FORMAT)?,
            channels: word(words::CHANNELS)?.min(4),
            flags: word(words::FLAGS)?,
            border: [r, g, b, a],
            clamp: halves(word(words::CLAMP)?),
            bias: halves(word(words::BIAS)?)[0],
            levels,
        })
    }

    pub fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// Bytes of a channel.
    fn channel_bytes(&self) -> u64 {
        match self.format {
            1 | 8 => 1,
            2 | 9 | 16 => 2,
            _ => 4,
        }
    }

    /// The texel's bits as `tex` gives them. A channel that is not stored is 0,
    /// and alpha is 1 where the channels are fractions or floats.
    pub fn texel(
        &self,
        warp: &mut Warp,
        context: &mut Context<'_>,
        lane: usize,
        level: &Level,
        [x, y, z]: [u64; 3],
    ) -> Result<Texel, AccessFault> {
        let bytes = self.channel_bytes();
        let first = level.at([x.wrapping_mul(bytes * self.channels), y, z]);
        let mut texel = [0; 4];
        for (channel, value) in texel.iter_mut().enumerate().take(self.channels as usize) {
            let at = first.wrapping_add(bytes * channel as u64);
            let raw = match bytes {
                1 => u32::from(load_one::<u8>(warp, context, SPACE, lane, at)?),
                2 => u32::from(load_one::<u16>(warp, context, SPACE, lane, at)?),
                _ => load_one::<u32>(warp, context, SPACE, lane, at)?,
            };
            *value = self.convert(raw, channel);
        }
        Ok(texel)
    }

    /// Whether a fetch gives floats.
    pub fn gives_floats(&self) -> bool {
        match self.format {
            16 | 32 => true,
            1 | 2 | 8 | 9 => !self.has(flags::INTEGERS),
            _ => false,
        }
    }

    /// What is beyond the edge where the address mode is border.
    pub fn border(&self) -> Texel {
        if self.gives_floats() {
            self.border.map(f32::to_bits)
        } else {
            self.border.map(|value| value as i32 as u32)
        }
    }

    /// A channel as it is stored, to a register: integers are extended, or
    /// become fractions of their range; floats become single precision.
    fn convert(&self, raw: u32, channel: usize) -> u32 {
        let fraction = !self.has(flags::INTEGERS);
        let signed = |value: i32, range: f32| {
            if fraction {
                (value as f32 / range).max(-1.0).to_bits()
            } else {
                value as u32
            }
        };
        let unsigned = |range: f32| {
            if fraction {
                (raw as f32 / range).to_bits()
            } else {
                raw
            }
        };
        match self.format {
            1 if fraction && self.has(flags::SRGB) && channel < 3 => {
                linear_light(raw as f32 / 255.0).to_bits()
            }
            1 => unsigned(255.0),
            2 => unsigned(65535.0),
            8 => signed(i32::from(raw as u8 as i8), 127.0),
            9 => signed(i32::from(raw as u16 as i16), 32767.0),
            16 => half::f16::from_bits(raw as u16).to_f32().to_bits(),
            // 32-bit integers have no fractions.
            _ => raw,
        }
    }
}

/// IEC 61966-2-1: what a stored color value stands for.
fn linear_light(stored: f32) -> f32 {
    if stored <= 0.04045 {
        stored / 12.92
    } else {
        ((stored + 0.055) / 1.055).powf(2.4)
    }
}

impl Level {
    /// Address of a byte of a row of a slice.
    fn at(&self, [byte, y, z]: [u64; 3]) -> u64 {
        self.address
            .wrapping_add(z.wrapping_mul(self.slice))
            .wrapping_add(y.wrapping_mul(self.pitch))
            .wrapping_add(byte)
    }

    /// Texels, rows and slices, each at least one.
    pub fn sizes(&self) -> [u64; 3] {
        [self.width, self.height, self.depth].map(|size| size.max(1))
    }
}

impl Image {
    /// Bytes of a texel.
    pub fn texel_bytes(&self) -> u64 {
        self.channel_bytes() * self.channels
    }

    /// One element of a surface at a byte of a row.
    pub fn surface_load<T: Plain>(
        &self,
        warp: &mut Warp,
        context: &mut Context<'_>,
        lane: usize,
        at: [u64; 3],
    ) -> Result<T, AccessFault> {
        load_one(warp, context, SPACE, lane, self.levels[0].at(at))
    }

    /// Writes one element of a surface at a byte of a row.
    pub fn surface_store<T: Plain>(
        &self,
        warp: &mut Warp,
        context: &mut Context<'_>,
        lane: usize,
        at: [u64; 3],
        value: T,
    ) -> Result<(), AccessFault> {
        store_one(warp, context, SPACE, lane, self.levels[0].at(at), value)
    }
}
