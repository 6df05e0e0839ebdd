//! Texture and surface objects over linear and pitched memory and over arrays.
//!
//! An object is the address of a description in device memory, which the
//! engine reads when a kernel fetches: a handle that is none faults as a wild
//! pointer does.

use crate::engine::ops::image::{flags, level, words};
use driver::sys::{
    CUDA_RESOURCE_DESC, CUDA_TEXTURE_DESC, CUaddress_mode, CUarray_format, CUfilter_mode,
};

/// What a texture or surface object was made of, in the program's words.
pub type Described = (CUDA_RESOURCE_DESC, CUDA_TEXTURE_DESC);

/// Texels in memory: one level of a texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plane {
    /// First byte.
    pub address: u64,
    /// Texels of a row.
    pub width: u64,
    /// Rows; 0 for linear memory.
    pub height: u64,
    /// Slices, layers or faces; 0 for memory without them.
    pub depth: u64,
    /// Bytes from row to row.
    pub pitch: u64,
    /// Bytes from slice to slice.
    pub slice: u64,
}

/// What a texture object shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Texture {
    /// Levels, finest first; one but for mipmapped arrays.
    pub levels: Vec<Plane>,
    /// Type of a channel.
    pub format: CUarray_format,
    /// Channels of a texel: 1, 2 or 4.
    pub channels: u32,
    /// How it is sampled.
    pub sampler: Sampler,
}

/// How a texture is sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// What coordinates outside mean, for x, y and z.
    pub modes: [CUaddress_mode; 3],
    /// Whether texels are blended.
    pub filter: CUfilter_mode,
    /// Whether levels are blended.
    pub levels: CUfilter_mode,
    /// Whether coordinates go from 0 to 1.
    pub normalized: bool,
    /// Whether integers stay integers.
    pub integers: bool,
    /// Whether colors are stored as sRGB.
    pub srgb: bool,
    /// What is beyond the edge.
    pub border: [f32; 4],
    /// Smallest and largest level of detail.
    pub clamp: [f32; 2],
    /// What is added to the level of detail.
    pub bias: f32,
}

impl Sampler {
    /// The nearest texel, by indices of texels.
    pub const POINT: Sampler = Sampler {
        modes: [CUaddress_mode::CU_TR_ADDRESS_MODE_CLAMP; 3],
        filter: CUfilter_mode::CU_TR_FILTER_MODE_POINT,
        levels: CUfilter_mode::CU_TR_FILTER_MODE_POINT,
        normalized: false,
        integers: true,
        srgb: false,
        border: [0.0; 4],
        clamp: [0.0; 2],
        bias: 0.0,
    };
}

/// Bytes of a channel of a format; `None` for formats that are not supported.
pub(crate) fn channel_bytes(format: CUarray_format) -> Option<u64> {
    use CUarray_format as F;
    Some(match format {
        F::CU_AD_FORMAT_UNSIGNED_INT8 | F::CU_AD_FORMAT_SIGNED_INT8 => 1,
        F::CU_AD_FORMAT_UNSIGNED_INT16 | F::CU_AD_FORMAT_SIGNED_INT16 | F::CU_AD_FORMAT_HALF => 2,
        F::CU_AD_FORMAT_UNSIGNED_INT32 | F::CU_AD_FORMAT_SIGNED_INT32 | F::CU_AD_FORMAT_FLOAT => 4,
        _ => return None,
    })
}

impl Texture {
    pub(crate) fn is_float(&self) -> bool {
        matches!(
            self.format,
            CUarray_format::CU_AD_FORMAT_FLOAT | CUarray_format::CU_AD_FORMAT_HALF
        )
    }

    pub(crate) fn description(&self) -> Vec<u8> {
        let sampler = &self.sampler;
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let linear = |mode| mode == CUfilter_mode::CU_TR_FILTER_MODE_LINEAR;
        let mode = |axis: usize| {
            u64::from(sampler.modes[axis].0 & 0xf) << (flags::MODE as usize + 4 * axis)
        };
        let pair = |low: f32, high: f32| u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32;
        let [r, g, b, a] = sampler.border;
        let mut list = vec![0u64; words::COUNT];
        for (index, value) in [
            (words::FORMAT, u64::from(self.format.0)),
            (words::CHANNELS, u64::from(self.channels)),
            (
                words::FLAGS,
                flag(sampler.normalized, flags::NORMALIZED)
                    | flag(sampler.integers && !self.is_float(), flags::INTEGERS)
                    | flag(linear(sampler.filter), flags::LINEAR)
                    | flag(linear(sampler.levels), flags::LINEAR_LEVELS)
                    | flag(sampler.srgb, flags::SRGB)
                    | mode(0)
                    | mode(1)
                    | mode(2),
            ),
            (words::LEVELS, self.levels.len() as u64),
            (words::BORDER, pair(r, g)),
            (words::BORDER + 1, pair(b, a)),
            (words::CLAMP, pair(sampler.clamp[0], sampler.clamp[1])),
            (words::BIAS, pair(sampler.bias, 0.0)),
        ] {
            list[index as usize] = value;
        }
        for plane in &self.levels {
            let mut words = [0; level::COUNT];
            words[level::ADDRESS] = plane.address;
            words[level::WIDTH] = plane.width;
            words[level::HEIGHT] = plane.height;
            words[level::DEPTH] = plane.depth;
            words[level::PITCH] = plane.pitch;
            words[level::SLICE] = plane.slice;
            list.extend(words);
        }
        list.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}
