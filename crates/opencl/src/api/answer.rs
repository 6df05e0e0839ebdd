//! Answers to the program's questions.

use crate::sys::*;
use std::ffi::c_void;

/// Answers a query by the program as OpenCL does.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_needs_room_for_all_of_it() {
        let mut value = [9u8; 4];
        let mut needed = 0;
        let place = value.as_mut_ptr().cast();
        // SAFETY: room for four bytes, and for a number.
        unsafe {
            assert_eq!(answer(&[1, 2], 1, place, &raw mut needed), CL_INVALID_VALUE);
            assert_eq!(needed, 0);
            assert_eq!(answer(&[1, 2], 4, place, &raw mut needed), CL_SUCCESS);
            assert_eq!((value, needed), ([1, 2, 9, 9], 2));
            needed = 0;
            let none = std::ptr::null_mut();
            assert_eq!(answer(&[1, 2], 0, none, &raw mut needed), CL_SUCCESS);
            assert_eq!(needed, 2);
        }
    }
}
