//! Texture objects over linear and pitched memory.
//!
//! An object is the address of a description in device memory, which the
//! engine reads when a kernel fetches: a handle that is none faults as a wild
//! pointer does.

use super::memory::Allocation;
use super::{Device, Result};
use crate::engine::ops::texture::{flags, words};
use driver::sys::{CUaddress_mode, CUarray_format, CUfilter_mode, CUresult};
use model::AllocationKind;

/// What a texture object shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texture {
    /// First byte.
    pub address: u64,
    /// Texels of a row.
    pub width: u64,
    /// Rows; 0 for linear memory.
    pub height: u64,
    /// Bytes from row to row.
    pub pitch: u64,
    /// Type of a channel.
    pub format: CUarray_format,
    /// Channels of a texel: 1, 2 or 4.
    pub channels: u32,
    /// What coordinates outside mean, for x and y.
    pub modes: [CUaddress_mode; 2],
    /// Whether texels are blended.
    pub filter: CUfilter_mode,
    /// Whether coordinates go from 0 to 1.
    pub normalized: bool,
    /// Whether integers stay integers.
    pub integers: bool,
}

impl Texture {
    fn element(&self) -> Option<u64> {
        use CUarray_format as F;
        Some(match self.format {
            F::CU_AD_FORMAT_UNSIGNED_INT8 | F::CU_AD_FORMAT_SIGNED_INT8 => 1,
            F::CU_AD_FORMAT_UNSIGNED_INT16
            | F::CU_AD_FORMAT_SIGNED_INT16
            | F::CU_AD_FORMAT_HALF => 2,
            F::CU_AD_FORMAT_UNSIGNED_INT32
            | F::CU_AD_FORMAT_SIGNED_INT32
            | F::CU_AD_FORMAT_FLOAT => 4,
            _ => return None,
        })
    }

    fn is_float(&self) -> bool {
        matches!(
            self.format,
            CUarray_format::CU_AD_FORMAT_FLOAT | CUarray_format::CU_AD_FORMAT_HALF
        )
    }

    fn description(&self) -> Vec<u8> {
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let mode =
            |axis: usize| u64::from(self.modes[axis].0 & 0xf) << (flags::MODE as usize + 4 * axis);
        let mut list = [0u64; words::COUNT];
        for (index, value) in [
            (words::ADDRESS, self.address),
            (words::WIDTH, self.width),
            (words::HEIGHT, self.height),
            (words::PITCH, self.pitch),
            (words::FORMAT, u64::from(self.format.0)),
            (words::CHANNELS, u64::from(self.channels)),
            (
                words::FLAGS,
                flag(self.normalized, flags::NORMALIZED)
                    | flag(self.integers && !self.is_float(), flags::INTEGERS)
                    | flag(
                        self.filter == CUfilter_mode::CU_TR_FILTER_MODE_LINEAR,
                        flags::LINEAR,
                    )
                    | mode(0)
                    | mode(1),
            ),
        ] {
            list[index as usize] = value;
        }
        list.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

impl Device {
    /// `cuTexObjectCreate`
    pub fn texture_create(&self, texture: &Texture) -> Result<u64> {
        const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
        let element = texture
            .element()
            .ok_or(CUresult::CUDA_ERROR_NOT_SUPPORTED)?;
        if !matches!(texture.channels, 1 | 2 | 4) || texture.width == 0 {
            return Err(INVALID);
        }
        let row = texture
            .width
            .checked_mul(element * u64::from(texture.channels))
            .ok_or(INVALID)?;
        let blends_integers = texture.filter == CUfilter_mode::CU_TR_FILTER_MODE_LINEAR
            && !texture.is_float()
            && (texture.integers || element == 4);
        // Alignments as CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT and
        // _TEXTURE_PITCH_ALIGNMENT have them.
        let misaligned = !texture.address.is_multiple_of(super::arena::ALIGNMENT)
            || texture.height > 0 && (texture.pitch < row || !texture.pitch.is_multiple_of(32));
        if misaligned || blends_integers {
            return Err(INVALID);
        }
        let size = match texture.height {
            0 => row,
            height => texture
                .pitch
                .checked_mul(height - 1)
                .and_then(|bytes| bytes.checked_add(row))
                .ok_or(INVALID)?,
        };
        self.check_device_range(texture.address, size)?;
        let description = texture.description();
        let handle = self.allocate(description.len() as u64, AllocationKind::Foreign, 0)?;
        self.state
            .memory
            .write(handle.0, &description)
            .map_err(|_| CUresult::CUDA_ERROR_UNKNOWN)?;
        Ok(handle.0)
    }

    /// `cuTexObjectDestroy`
    pub fn texture_destroy(&self, handle: u64) -> Result<()> {
        self.enter()?;
        self.remove(handle, |a: &Allocation| a.kind == AllocationKind::Foreign)
    }
}
