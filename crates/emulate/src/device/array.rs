//! CUDA arrays and mipmapped arrays: memory of texels that only copies,
//! textures and surfaces reach. Rows follow one another at a pitch, and layers,
//! faces and slices at a distance of all rows.

use super::memory::Allocation;
use super::texture::{Plane, channel_bytes};
use super::{Device, Result, Side};
use driver::sys::{CUDA_ARRAY3D_CUBEMAP, CUDA_ARRAY3D_LAYERED, CUarray_format, CUresult};
use model::AllocationKind;

/// Largest extent of an array in each direction, in texels.
const MOST_TEXELS: u64 = 1 << 17;

/// Rows start at multiples of this, as the pitch of textures must.
const ROW_ALIGNMENT: u64 = 32;

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
    shape: ArrayShape,
    plane: Plane,
    /// It is a level of this mipmapped array, which frees it.
    mipmap: u64,
}

/// A mipmapped array: its levels, finest first.
pub(crate) struct Mipmap {
    levels: Vec<u64>,
}

impl ArrayShape {
    /// Bytes of a texel.
    fn texel(&self) -> Result<u64> {
        let bytes = channel_bytes(self.format).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        match self.channels {
            1 | 2 | 4 => Ok(bytes * u64::from(self.channels)),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// What cuArray3DCreate refuses.
    fn check(&self) -> Result<()> {
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
    fn level(&self, level: u32) -> ArrayShape {
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

impl Device {
    /// `cuArray3DCreate`, `cuArrayCreate`
    pub fn array_create(&self, shape: ArrayShape) -> Result<u64> {
        self.enter()?;
        self.array_of(shape, 0)
    }

    fn array_of(&self, shape: ArrayShape, mipmap: u64) -> Result<u64> {
        shape.check()?;
        let pitch = (shape.width * shape.texel()?).next_multiple_of(ROW_ALIGNMENT);
        let slice = pitch * shape.height.max(1);
        let size = slice
            .checked_mul(shape.depth.max(1))
            .ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        let base = self.allocate(size, AllocationKind::Foreign, 0)?;
        let array = Array {
            shape,
            plane: Plane {
                address: base.0,
                width: shape.width,
                height: shape.height,
                depth: shape.depth,
                pitch,
                slice,
            },
            mipmap,
        };
        let handle = self.handle();
        self.state.arrays.write().insert(handle, array);
        Ok(handle)
    }

    fn array(&self, handle: u64) -> Result<Array> {
        self.state
            .arrays
            .read()
            .get(&handle)
            .copied()
            .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    /// `cuArray3DGetDescriptor`
    pub fn array_shape(&self, handle: u64) -> Result<ArrayShape> {
        Ok(self.array(handle)?.shape)
    }

    /// The memory of an array, as textures and surfaces see it.
    pub(crate) fn array_plane(&self, handle: u64) -> Result<(ArrayShape, Plane)> {
        let array = self.array(handle)?;
        Ok((array.shape, array.plane))
    }

    /// `cuArrayDestroy`
    pub fn array_destroy(&self, handle: u64) -> Result<()> {
        self.enter()?;
        if self.array(handle)?.mipmap != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        self.array_release(handle)
    }

    fn array_release(&self, handle: u64) -> Result<()> {
        let array = self
            .state
            .arrays
            .write()
            .remove(&handle)
            .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        self.remove(array.plane.address, |a: &Allocation| {
            a.kind == AllocationKind::Foreign
        })
    }

    /// A box of an array as a side of a copy: it starts at byte `x` of row `y`
    /// of slice `z`, and must lie inside.
    pub fn array_side(&self, handle: u64, at: [u64; 3], size: [u64; 3]) -> Result<Side> {
        let Array { shape, plane, .. } = self.array(handle)?;
        let limits = [
            shape.width * shape.texel()?,
            shape.height.max(1),
            shape.depth.max(1),
        ];
        let inside = at
            .iter()
            .zip(size)
            .zip(limits)
            .all(|((at, size), limit)| at.checked_add(size).is_some_and(|end| end <= limit));
        if !inside {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        Ok(Side {
            address: plane.address + at[2] * plane.slice + at[1] * plane.pitch + at[0],
            pitch: plane.pitch,
            slice: plane.slice,
            device: Some(true),
        })
    }

    /// `cuMipmappedArrayCreate`; more levels than there can be are not made.
    pub fn mipmap_create(&self, shape: ArrayShape, levels: u32) -> Result<u64> {
        self.enter()?;
        shape.check()?;
        let largest = [shape.width, shape.height, shape.level(0).depth]
            .into_iter()
            .take(if shape.has(CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP) {
                2
            } else {
                3
            })
            .max()
            .unwrap_or(1);
        if levels == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let levels = levels.min(1 + largest.ilog2());
        let handle = self.handle();
        let mut made = Vec::new();
        for level in 0..levels {
            match self.array_of(shape.level(level), handle) {
                Ok(array) => made.push(array),
                Err(error) => {
                    for array in made {
                        self.array_release(array)?;
                    }
                    return Err(error);
                }
            }
        }
        self.state
            .mipmaps
            .write()
            .insert(handle, Mipmap { levels: made });
        Ok(handle)
    }

    /// The levels of a mipmapped array, finest first.
    pub fn mipmap_levels(&self, handle: u64) -> Result<Vec<u64>> {
        self.state
            .mipmaps
            .read()
            .get(&handle)
            .map(|mipmap| mipmap.levels.clone())
            .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    /// `cuMipmappedArrayDestroy`
    pub fn mipmap_destroy(&self, handle: u64) -> Result<()> {
        self.enter()?;
        let mipmap = self
            .state
            .mipmaps
            .write()
            .remove(&handle)
            .ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?;
        mipmap
            .levels
            .into_iter()
            .try_for_each(|array| self.array_release(array))
    }
}
