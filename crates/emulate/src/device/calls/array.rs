//! CUDA arrays and mipmapped arrays: memory of texels that only copies,
//! textures and surfaces reach. Rows follow one another at a pitch, and layers,
//! faces and slices at a distance of all rows.

use crate::device::basics::Result;
use crate::device::objects::array::{Array, ArrayShape, Mipmap, ROW_ALIGNMENT};
use crate::device::objects::copy::Side;
use crate::device::objects::memory::Allocation;
use crate::device::objects::texture::Plane;
use crate::device::state::Device;
use driver::sys::{CUDA_ARRAY3D_CUBEMAP, CUDA_ARRAY3D_LAYERED, CUresult};
use model::AllocationKind;

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
