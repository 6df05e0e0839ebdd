//! The shape of an image.

use crate::platform::ask::ask;
use crate::sys::*;
use heap::mipmaps::Dimensions;

/// What is known of an image.
#[derive(Clone, Copy)]
pub struct Shape {
    pub kind: u32,
    /// Pixels, and layers of arrays, in the order in which copies take them.
    pub size: [u64; 3],
    pub dimensions: Dimensions,
    /// Bytes of a pixel.
    pub pixel: u64,
    /// Mipmap levels; 1 of an image that is no mipmap.
    pub levels: u32,
}

impl Shape {
    /// `None`: an image of a kind that cannot be grown.
    pub fn of(image: cl_mem) -> Option<Shape> {
        let kind: u32 = ask!(one, clGetMemObjectInfo(image, CL_MEM_TYPE))?;
        let number = |name| -> Option<u64> {
            let number: usize = ask!(one, clGetImageInfo(image, name))?;
            Some(number as u64)
        };
        let levels: Option<u32> = ask!(one, clGetImageInfo(image, CL_IMAGE_NUM_MIP_LEVELS));
        let width = number(CL_IMAGE_WIDTH)?;
        let height = || number(CL_IMAGE_HEIGHT);
        let layers = || number(CL_IMAGE_ARRAY_SIZE);
        let (count, size) = match kind {
            CL_MEM_OBJECT_IMAGE1D | CL_MEM_OBJECT_IMAGE1D_BUFFER => (1, [width, 1, 1]),
            CL_MEM_OBJECT_IMAGE1D_ARRAY => (2, [width, layers()?, 1]),
            CL_MEM_OBJECT_IMAGE2D => (2, [width, height()?, 1]),
            CL_MEM_OBJECT_IMAGE2D_ARRAY => (3, [width, height()?, layers()?]),
            CL_MEM_OBJECT_IMAGE3D => (3, [width, height()?, number(CL_IMAGE_DEPTH)?]),
            _ => return None,
        };
        let arrays = [CL_MEM_OBJECT_IMAGE1D_ARRAY, CL_MEM_OBJECT_IMAGE2D_ARRAY];
        Some(Shape {
            kind,
            size,
            dimensions: Dimensions {
                count,
                layers: arrays.contains(&kind),
            },
            pixel: number(CL_IMAGE_ELEMENT_SIZE)?,
            levels: levels.unwrap_or(0).max(1),
        })
    }

    /// Pixels in the order in which copies take them, and bytes of one. `None`:
    /// copies name a level besides.
    pub fn pixels(&self) -> Option<([u64; 3], u64)> {
        (self.levels == 1).then_some((self.size, self.pixel))
    }

    pub fn bytes(&self) -> u64 {
        let pixels = self.size.iter().copied().fold(1, u64::saturating_mul);
        pixels.saturating_mul(self.pixel)
    }

    /// An image of this kind with other sides.
    pub fn description(&self, size: [u64; 3]) -> cl_image_desc {
        let [width, second, third] = size.map(|side| side as usize);
        let mut description = cl_image_desc {
            image_type: self.kind,
            image_width: width,
            image_height: 0,
            image_depth: 0,
            image_array_size: 0,
            image_row_pitch: 0,
            image_slice_pitch: 0,
            num_mip_levels: if self.levels > 1 { self.levels } else { 0 },
            num_samples: 0,
            mem_object: std::ptr::null_mut(),
        };
        match self.kind {
            CL_MEM_OBJECT_IMAGE1D_ARRAY => description.image_array_size = second,
            CL_MEM_OBJECT_IMAGE2D => description.image_height = second,
            CL_MEM_OBJECT_IMAGE2D_ARRAY => {
                description.image_height = second;
                description.image_array_size = third;
            }
            CL_MEM_OBJECT_IMAGE3D => {
                description.image_height = second;
                description.image_depth = third;
            }
            _ => {}
        }
        description
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(kind: u32, levels: u32) -> Shape {
        Shape {
            kind,
            size: [4, 3, 2],
            dimensions: Dimensions {
                count: 3,
                layers: kind == CL_MEM_OBJECT_IMAGE2D_ARRAY,
            },
            pixel: 16,
            levels,
        }
    }

    #[test]
    fn an_image_is_described_by_the_sides_of_its_kind() {
        let sides = |kind| {
            let d = shape(kind, 1).description([5, 6, 7]);
            assert_eq!(
                (d.image_type, d.image_width, d.num_mip_levels),
                (kind, 5, 0)
            );
            [d.image_height, d.image_depth, d.image_array_size]
        };
        assert_eq!(sides(CL_MEM_OBJECT_IMAGE1D), [0, 0, 0]);
        assert_eq!(sides(CL_MEM_OBJECT_IMAGE1D_ARRAY), [0, 0, 6]);
        assert_eq!(sides(CL_MEM_OBJECT_IMAGE2D), [6, 0, 0]);
        assert_eq!(sides(CL_MEM_OBJECT_IMAGE2D_ARRAY), [6, 0, 7]);
        assert_eq!(sides(CL_MEM_OBJECT_IMAGE3D), [6, 7, 0]);
    }

    #[test]
    fn copies_name_a_level_of_a_mipmap_only() {
        let plain = shape(CL_MEM_OBJECT_IMAGE3D, 1);
        assert_eq!(plain.bytes(), 4 * 3 * 2 * 16);
        assert_eq!(plain.pixels(), Some(([4, 3, 2], 16)));
        let mipmap = shape(CL_MEM_OBJECT_IMAGE3D, 2);
        assert_eq!(mipmap.pixels(), None);
        assert_eq!(mipmap.description([5, 6, 7]).num_mip_levels, 2);
    }
}
