//! Texture and surface objects over linear and pitched memory and over arrays.
//!
//! An object is the address of a description in device memory, which the
//! engine reads when a kernel fetches: a handle that is none faults as a wild
//! pointer does.

use crate::device::basics::Result;
use crate::device::objects::arena;
use crate::device::objects::memory::Allocation;
use crate::device::objects::texture::{Described, Sampler, Texture, channel_bytes};
use crate::device::state::Device;
use crate::engine::ops::image::MOST_LEVELS;
use driver::sys::{CUfilter_mode, CUresult};
use model::AllocationKind;

impl Device {
    /// `cuTexObjectCreate`
    pub fn texture_create(&self, texture: &Texture) -> Result<u64> {
        const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
        self.enter()?;
        let element = channel_bytes(texture.format).ok_or(CUresult::CUDA_ERROR_NOT_SUPPORTED)?;
        let levels = texture.levels.len() as u64;
        if !matches!(texture.channels, 1 | 2 | 4) || levels == 0 || levels > MOST_LEVELS {
            return Err(INVALID);
        }
        let sampler = &texture.sampler;
        let blends_integers = sampler.filter == CUfilter_mode::CU_TR_FILTER_MODE_LINEAR
            && !texture.is_float()
            && (sampler.integers || element == 4);
        if blends_integers {
            return Err(INVALID);
        }
        for plane in &texture.levels {
            let row = plane
                .width
                .checked_mul(element * u64::from(texture.channels))
                .ok_or(INVALID)?;
            // Alignments as CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT and
            // _TEXTURE_PITCH_ALIGNMENT have them.
            let misaligned = !plane.address.is_multiple_of(arena::ALIGNMENT)
                || plane.height > 0 && (plane.pitch < row || !plane.pitch.is_multiple_of(32));
            if misaligned || plane.width == 0 {
                return Err(INVALID);
            }
            let below = |count: u64, step: u64| step.checked_mul(count.max(1) - 1);
            let size = below(plane.height, plane.pitch)
                .and_then(|bytes| bytes.checked_add(below(plane.depth, plane.slice)?))
                .and_then(|bytes| bytes.checked_add(row))
                .ok_or(INVALID)?;
            self.check_device_range(plane.address, size)?;
        }
        let description = texture.description();
        let handle = self.allocate(description.len() as u64, AllocationKind::Foreign, 0)?;
        self.state
            .memory
            .write(handle.0, &description)
            .map_err(|_| CUresult::CUDA_ERROR_UNKNOWN)?;
        Ok(handle.0)
    }

    /// Keeps what an object was made of.
    pub fn texture_describe(&self, object: u64, described: Described) {
        self.state.described.lock().insert(object, described);
    }

    /// `cuTexObjectGetResourceDesc`, `cuTexObjectGetTextureDesc`
    pub fn texture_described(&self, object: u64) -> Result<Described> {
        let described = self.state.described.lock();
        let found = described.get(&object).copied();
        found.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    /// A texture of an array.
    pub fn array_texture(&self, array: u64, sampler: Sampler) -> Result<Texture> {
        let (shape, plane) = self.array_plane(array)?;
        Ok(Texture {
            levels: vec![plane],
            format: shape.format,
            channels: shape.channels,
            sampler,
        })
    }

    /// A texture of a mipmapped array.
    pub fn mipmap_texture(&self, mipmap: u64, sampler: Sampler) -> Result<Texture> {
        let arrays = self.mipmap_levels(mipmap)?;
        let first = *arrays.first().ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let planes = arrays
            .iter()
            .map(|array| Ok(self.array_plane(*array)?.1))
            .collect::<Result<Vec<_>>>()?;
        Ok(Texture {
            levels: planes,
            ..self.array_texture(first, sampler)?
        })
    }

    /// `cuSurfObjectCreate`: an array as it is.
    pub fn surface_create(&self, array: u64) -> Result<u64> {
        self.texture_create(&self.array_texture(array, Sampler::POINT)?)
    }

    /// `cuTexObjectDestroy`, `cuSurfObjectDestroy`
    pub fn texture_destroy(&self, handle: u64) -> Result<()> {
        self.enter()?;
        self.remove(handle, |a: &Allocation| a.kind == AllocationKind::Foreign)?;
        self.state.described.lock().remove(&handle);
        Ok(())
    }
}
