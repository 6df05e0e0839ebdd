//! Questions to the platform.

use crate::sys::*;
use std::ffi::c_void;
use std::mem::{MaybeUninit, size_of};

/// Queries the platform: `one`, `list` or `text`, and a clGet…Info with its
/// first arguments.
macro_rules! ask {
    ($how:ident, $name:ident($($argument:expr),* $(,)?)) => {
        $crate::platform::ask::$how(|size, value, needed| {
            $crate::platform::call!($name($($argument,)* size, value, needed))
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

/// Queries one value: `ask` is a clGet…Info without its first arguments.
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

/// Queries a list of values; empty if the query fails.
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

/// Queries a text.
pub fn text(ask: impl Fn(usize, *mut c_void, *mut usize) -> cl_int) -> Option<String> {
    let bytes: Vec<u8> = list(ask);
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers as a clGet…Info does.
    fn answers(bytes: &[u8]) -> impl Fn(usize, *mut c_void, *mut usize) -> cl_int + use<'_> {
        move |size, value, needed| {
            if !value.is_null() {
                if size < bytes.len() {
                    return CL_INVALID_VALUE;
                }
                // SAFETY: there is room.
                unsafe {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), bytes.len());
                }
            }
            if !needed.is_null() {
                // SAFETY: the caller's place.
                unsafe { *needed = bytes.len() };
            }
            CL_SUCCESS
        }
    }

    #[test]
    fn answers_are_read_as_what_they_are() {
        assert_eq!(one::<u32>(answers(&7u32.to_ne_bytes())), Some(7));
        assert_eq!(one::<u32>(answers(&[0; 8])), None, "too long");
        let both = [1u32.to_ne_bytes(), 2u32.to_ne_bytes()].concat();
        assert_eq!(list::<u32>(answers(&both)), [1, 2]);
        assert_eq!(list::<u32>(answers(&[])), [0; 0]);
        assert_eq!(text(answers(b"name\0")).as_deref(), Some("name"));
        assert_eq!(text(answers(b"name")), None, "without an end");
    }

    #[test]
    fn a_refusal_is_no_answer() {
        let refuses = |_, _, _| CL_INVALID_VALUE;
        assert_eq!(one::<u32>(refuses), None);
        assert_eq!(list::<u32>(refuses), [0; 0]);
        assert_eq!(text(refuses), None);
    }
}
