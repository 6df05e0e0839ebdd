//! Arguments of the driver API's functions, as C passes them: what a device that
//! is not the real driver reads and writes.

use crate::sys::CUresult;
use std::ffi::c_void;

/// What a function gives before it becomes a CUresult.
pub type Answer = Result<(), CUresult>;

/// Writes an answer. Null is INVALID_VALUE.
///
/// # Safety
/// `to` is null or valid for a write.
pub unsafe fn put<T>(to: *mut T, value: T) -> Answer {
    if to.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, so valid by the caller's promise.
    unsafe { to.write(value) };
    Ok(())
}

/// Writes an answer that the program may not need: null is skipped.
///
/// # Safety
/// `to` is null or valid for a write.
pub unsafe fn put_if<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: not null, so valid by the caller's promise.
        unsafe { to.write(value) };
    }
}

/// Reads a struct. Null is INVALID_VALUE.
///
/// # Safety
/// `from` is null or points to an initialized T.
pub unsafe fn get<T: Copy>(from: *const T) -> Result<T, CUresult> {
    if from.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, so valid by the caller's promise.
    Ok(unsafe { from.read() })
}

/// Reads a name. Null, or no UTF-8, is INVALID_VALUE.
///
/// # Safety
/// `from` is null or a C string that stays as it is while the answer is in use.
pub unsafe fn name<'a>(from: *const std::ffi::c_char) -> Result<&'a str, CUresult> {
    if from.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, so a C string by the caller's promise.
    let text = unsafe { std::ffi::CStr::from_ptr(from) };
    text.to_str()
        .map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)
}

/// A list that C gives as pointer and count; null is an empty one.
///
/// # Safety
/// `from` is null or points to `count` initialized values that stay as they
/// are while the answer is in use.
pub unsafe fn list<'a, T>(from: *const T, count: usize) -> &'a [T] {
    if from.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: by the caller's promise.
    unsafe { std::slice::from_raw_parts(from, count) }
}

/// Writes a list the way the graph queries do: with a null array only the
/// count; else `*count` values, those beyond the list null, and the count.
///
/// # Safety
/// `count` is null or valid; `to` is null or has room for `*count` values.
pub unsafe fn put_list<T: Copy>(to: *mut T, count: *mut usize, values: &[T], rest: T) -> Answer {
    if count.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if !to.is_null() {
        // SAFETY: not null, so valid by the caller's promise.
        let room = unsafe { count.read() };
        for index in 0..room {
            // SAFETY: below the room that the caller promises.
            unsafe {
                to.add(index)
                    .write(values.get(index).copied().unwrap_or(rest))
            };
        }
    }
    // SAFETY: not null, so valid by the caller's promise.
    unsafe { count.write(values.len()) };
    Ok(())
}

/// `CU_LAUNCH_PARAM_END`, `_BUFFER_POINTER`, `_BUFFER_SIZE`
const EXTRA_END: usize = 0;
const EXTRA_BUFFER: usize = 1;
const EXTRA_SIZE: usize = 2;

/// Reads the parameters of a launch into one block of `bytes` bytes; `places` are
/// the offset and the bytes of each.
///
/// # Safety
/// `each` is null or points to one pointer a parameter, each to that many
/// bytes; `extra` is null or a list as cuLaunchKernel documents it.
pub unsafe fn parameters(
    places: &[(u32, u32)],
    bytes: u32,
    each: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result<Vec<u8>, CUresult> {
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    let mut block = vec![0u8; bytes as usize];
    if !each.is_null() {
        if !extra.is_null() {
            return Err(invalid);
        }
        for (index, (offset, size)) in places.iter().enumerate() {
            // SAFETY: one pointer a parameter.
            let from = unsafe { *each.add(index) };
            if from.is_null() {
                return Err(invalid);
            }
            let to = &mut block[*offset as usize..(*offset + *size) as usize];
            // SAFETY: the parameter's bytes; `to` is ours and as long.
            unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.as_mut_ptr(), to.len()) };
        }
        return Ok(block);
    }
    if extra.is_null() {
        return if block.is_empty() {
            Ok(block)
        } else {
            Err(invalid)
        };
    }
    let (mut buffer, mut size, mut at) = (std::ptr::null::<u8>(), 0usize, 0usize);
    loop {
        // SAFETY: keys and values alternate until the end key.
        let key = unsafe { *extra.add(at) } as usize;
        if key == EXTRA_END {
            break;
        }
        // SAFETY: a key that is not the end has a value.
        let value = unsafe { *extra.add(at + 1) };
        match key {
            EXTRA_BUFFER => buffer = value.cast(),
            EXTRA_SIZE if !value.is_null() => {
                // SAFETY: the size's value points to a size_t.
                size = unsafe { value.cast::<usize>().read() };
            }
            _ => return Err(invalid),
        }
        at += 2;
    }
    if buffer.is_null() || size < block.len() {
        return if block.is_empty() {
            Ok(block)
        } else {
            Err(invalid)
        };
    }
    // SAFETY: the buffer has `size` bytes, and the block no more.
    unsafe { std::ptr::copy_nonoverlapping(buffer, block.as_mut_ptr(), block.len()) };
    Ok(block)
}
