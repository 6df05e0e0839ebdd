//! OpenCL's C types: those generated from the headers, and the structs.

#[rustfmt::skip]
#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    dead_code,
    clippy::type_complexity,
    reason = "as the headers have it"
)]
mod generated;

pub(crate) use generated::functions;
pub use generated::*;

/// `cl_image_format`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cl_image_format {
    /// `CL_RGBA` and the like.
    pub image_channel_order: cl_uint,
    /// `CL_FLOAT` and the like.
    pub image_channel_data_type: cl_uint,
}

/// `cl_image_desc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cl_image_desc {
    /// `CL_MEM_OBJECT_IMAGE2D` and the like.
    pub image_type: cl_uint,
    /// Pixels.
    pub image_width: usize,
    /// Rows.
    pub image_height: usize,
    /// Slices.
    pub image_depth: usize,
    /// Images of an array.
    pub image_array_size: usize,
    /// Bytes from row to row.
    pub image_row_pitch: usize,
    /// Bytes from slice to slice.
    pub image_slice_pitch: usize,
    /// Mipmap levels.
    pub num_mip_levels: cl_uint,
    /// Samples.
    pub num_samples: cl_uint,
    /// Buffer or image that it is made of.
    pub mem_object: cl_mem,
}

/// `cl_buffer_region`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cl_buffer_region {
    /// First byte.
    pub origin: usize,
    /// Bytes.
    pub size: usize,
}

/// No, as a `cl_bool`: the headers have no plain number for it.
pub const FALSE: cl_bool = 0;
