//! CUDA arrays and mipmapped arrays: the shapes of memory of texels.

use super::texture::{Plane, channel_bytes};
use crate::device::basics::Result;
use driver::sys::{CUDA_ARRAY3D_CUBEMAP, CUDA_ARRAY3D_LAYERED, CUarray_format, CUresult};

/// Largest extent of an array in each direction, in texels.
const MOST_TEXELS: u64 = 1 << 17;

/// Rows start at multiples of this, as the pitch of textures must.
pub(crate) const ROW_ALIGNMENT: u64 = 32;

/// What an array holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayShape {
    /// Texels of a row.
    pub width: u64,
    /// Rows; 0 for an array without rows.
    pub height: u64,
    /// Slices, layers or faces; 0 for an array without them.
    pub depth: u64,
    /// Type of a channel.
    pub format: CUarray_format,
    /// Channels of a texel: 1, 2 or 4.
    pub channels: u32,
    /// `CUDA_ARRAY3D_*`
    pub flags: u32,
}

/// An array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array {
    pub shape: ArrayShape,
    pub plane: Plane,
    /// It is a level of this mipmapped array, which frees it.
    pub mipmap: u64,
}

/// A mipmapped array: its levels, finest first.
pub(crate) struct Mipmap {
    pub levels: Vec<u64>,
}

impl ArrayShape {
    /// Bytes of a texel.
    pub(crate) fn texel(&self) -> Result<u64> {
        let bytes = channel_bytes(self.format).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        match self.channels {
            1 | 2 | 4 => Ok(bytes * u64::from(self.channels)),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    pub(crate) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// What cuArray3DCreate refuses.
    pub(crate) fn check(&self) -> Result<()> {
        let (cube, layered) = (
            self.has(CUDA_ARRAY3D_CUBEMAP),
            self.has(CUDA_ARRAY3D_LAYERED),
        );
        let sizes = [self.width, self.height, self.depth];
        let fits = self.width > 0 && sizes.iter().all(|size| *size <= MOST_TEXELS);
        // Rows may lack only where slices do too, or where they are layers.
        let whole = self.height > 0 || self.depth == 0 || (layered && !cube);
        let faces = !cube
            || self.width == self.height
                && self.depth.is_multiple_of(6)
                && self.depth > 0
                && (layered || self.depth == 6);
        if fits && whole && faces && (!layered || self.depth > 0) {
            Ok(())
        } else {
            Err(CUresult::CUDA_ERROR_INVALID_VALUE)
        }
    }

    /// The shape of a level: halved per level, but for layers and faces.
    pub(crate) fn level(&self, level: u32) -> ArrayShape {
        let half = |size: u64| if size == 0 { 0 } else { (size >> level).max(1) };
        let stays = self.has(CUDA_ARRAY3D_LAYERED) || self.has(CUDA_ARRAY3D_CUBEMAP);
        ArrayShape {
            width: half(self.width),
            height: half(self.height),
            depth: if stays { self.depth } else { half(self.depth) },
            ..*self
        }
    }
}
