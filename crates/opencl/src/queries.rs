//! Questions to the platform, and the program's questions whose answers must
//! not show that Ringfence is there.

use crate::blocks::Memory;
use crate::buffers::Place;
use crate::layer;
use crate::sys::*;
use crate::table::call;
use std::ffi::c_void;
use std::mem::{MaybeUninit, size_of};

/// Asks the platform: `one`, `list` or `text`, and a clGet…Info with its first
/// arguments.
macro_rules! ask {
    ($how:ident, $name:ident($($argument:expr),* $(,)?)) => {
        $crate::queries::$how(|size, value, needed| {
            $crate::table::call!($name($($argument,)* size, value, needed))
        })
    };
}
pub(crate) use ask;

/// A value that any bytes are valid for.
///
/// # Safety
///
/// That is so.
pub unsafe trait Plain: Copy {}
// SAFETY: integers and pointers.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: as above.
unsafe impl Plain for usize {}
// SAFETY: as above.
unsafe impl<T> Plain for *mut T {}

/// Asks for one value: `ask` is a clGet…Info without its first arguments.
pub fn one<T: Plain>(ask: impl FnOnce(usize, *mut c_void, *mut usize) -> cl_int) -> Option<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let code = ask(
        size_of::<T>(),
        value.as_mut_ptr().cast(),
        std::ptr::null_mut(),
    );
    // SAFETY: zeroed or written by the platform; any bytes are valid.
    (code == CL_SUCCESS).then(|| unsafe { value.assume_init() })
}

/// Asks for a list of values; empty if the platform does not answer.
pub fn list<T: Plain>(ask: impl Fn(usize, *mut c_void, *mut usize) -> cl_int) -> Vec<T> {
    let mut bytes = 0;
    if ask(0, std::ptr::null_mut(), &raw mut bytes) != CL_SUCCESS {
        return Vec::new();
    }
    let count = bytes / size_of::<T>();
    let mut values: Vec<T> = Vec::with_capacity(count);
    let size = count * size_of::<T>();
    if ask(size, values.as_mut_ptr().cast(), std::ptr::null_mut()) != CL_SUCCESS {
        return Vec::new();
    }
    // SAFETY: the platform wrote that many values; any bytes are valid.
    unsafe { values.set_len(count) };
    values
}

/// Asks for a text.
pub fn text(ask: impl Fn(usize, *mut c_void, *mut usize) -> cl_int) -> Option<String> {
    let bytes: Vec<u8> = list(ask);
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// Answers a question of the program's as OpenCL does.
///
/// # Safety
///
/// `value` is null or has room for `size` bytes; `size_ret` is null or may be
/// written.
pub unsafe fn answer(
    bytes: &[u8],
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    if !value.is_null() {
        if size < bytes.len() {
            return CL_INVALID_VALUE;
        }
        // SAFETY: there is room, as just compared.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), bytes.len()) };
    }
    if !size_ret.is_null() {
        // SAFETY: as this function's contract says.
        unsafe { *size_ret = bytes.len() };
    }
    CL_SUCCESS
}

pub unsafe extern "C" fn mem_object_info(
    object: cl_mem,
    name: cl_mem_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    let known = layer::get().and_then(|layer| layer.buffer(object as usize));
    if name == CL_MEM_MAP_COUNT
        && let Some(Place::Block(block)) = known.as_deref().map(|buffer| &buffer.place)
        && let Memory::Buffer(whole) = block.memory
    {
        // Some platforms count the maps of a part at the whole.
        let count = |object| {
            let count: Option<cl_uint> = ask!(one, clGetMemObjectInfo(object, CL_MEM_MAP_COUNT));
            count.unwrap_or(0)
        };
        let maps = count(object).max(count(whole as cl_mem));
        // SAFETY: what a program passes to clGetMemObjectInfo.
        return unsafe { answer(&maps.to_ne_bytes(), size, value, size_ret) };
    }
    if name == CL_MEM_PROPERTIES && known.as_ref().is_some_and(|buffer| buffer.properties) {
        // SAFETY: what a program passes to clGetMemObjectInfo.
        return unsafe { answer(&0u64.to_ne_bytes(), size, value, size_ret) };
    }
    if name == CL_MEM_USES_SVM_POINTER && known.is_some() {
        // The platform's own allocation starts before the program's.
        let host: Option<usize> = ask!(one, clGetMemObjectInfo(object, CL_MEM_HOST_PTR));
        let shared = layer::get()
            .zip(host)
            .and_then(|(layer, host)| Some((layer.svm_at(host)?, host)));
        if shared.is_some_and(|(shared, host)| shared.handle == host) {
            let yes: cl_bool = 1;
            // SAFETY: what a program passes to clGetMemObjectInfo.
            return unsafe { answer(&yes.to_ne_bytes(), size, value, size_ret) };
        }
    }
    let shown = known.and_then(|buffer| {
        let (associated, origin) = match &buffer.place {
            Place::Block(_) => (0, 0),
            Place::Part { parent, origin } => (parent.handle, *origin),
            _ => {
                let (parent, _) = buffer.staged()?;
                let associated = name == CL_MEM_ASSOCIATED_MEMOBJECT;
                return associated.then(|| parent.handle.to_ne_bytes());
            }
        };
        match name {
            CL_MEM_FLAGS => Some(buffer.flags.to_ne_bytes()),
            CL_MEM_ASSOCIATED_MEMOBJECT => Some(associated.to_ne_bytes()),
            CL_MEM_OFFSET => Some(origin.to_ne_bytes()),
            _ => None,
        }
    });
    match shown {
        // SAFETY: what a program passes to clGetMemObjectInfo.
        Some(bytes) => unsafe { answer(&bytes, size, value, size_ret) },
        None => call!(clGetMemObjectInfo(object, name, size, value, size_ret)),
    }
}

/// An image that stands for a buffer is made of the program's in its eyes.
pub unsafe extern "C" fn image_info(
    image: cl_mem,
    name: cl_image_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    if name == CL_IMAGE_BUFFER
        && let Some(buffer) = layer::get().and_then(|layer| layer.buffer(image as usize))
        && let Some((parent, _)) = buffer.staged()
    {
        // SAFETY: what a program passes to clGetImageInfo.
        return unsafe { answer(&parent.handle.to_ne_bytes(), size, value, size_ret) };
    }
    call!(clGetImageInfo(image, name, size, value, size_ret))
}
