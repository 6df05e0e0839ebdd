//! What the linker of the CPU device makes of several PTX texts: they stay text,
//! so that they can be read, and checked, as others are when they are loaded.

use std::ffi::c_void;

/// Head of a linked image: this, the count of texts as u64, and each with its
/// length as u64 before it.
const HEAD: [u8; 8] = *b"\x01RFLINK\x01";

/// Packs texts into one image.
pub fn pack(texts: &[String]) -> Vec<u8> {
    let mut image = HEAD.to_vec();
    image.extend((texts.len() as u64).to_le_bytes());
    for text in texts {
        image.extend((text.len() as u64).to_le_bytes());
        image.extend(text.as_bytes());
    }
    image
}

/// The texts of a linked image; `None` if it is another one, or they are none.
///
/// # Safety
/// `image` is what cuModuleLoadData and cuLibraryLoadData take, in memory that
/// stays as it is while the texts are in use.
pub unsafe fn texts<'a>(image: *const c_void) -> Option<Vec<&'a str>> {
    if image.is_null() {
        return None;
    }
    let image: *const u8 = image.cast();
    // SAFETY: every image has four bytes, and one that starts like a linked one
    // has the rest.
    let is_linked = unsafe {
        image.cast::<[u8; 4]>().read() == HEAD[..4] && image.cast::<[u8; 8]>().read() == HEAD
    };
    if !is_linked {
        return None;
    }
    // SAFETY: `pack` wrote the count after the head.
    let count = unsafe { image.add(HEAD.len()).cast::<u64>().read_unaligned() };
    let mut texts = Vec::new();
    let mut offset = HEAD.len() + 8;
    for _ in 0..count {
        // SAFETY: `pack` wrote the length here and that many bytes after it.
        let bytes = unsafe {
            let length = image.add(offset).cast::<u64>().read_unaligned() as usize;
            std::slice::from_raw_parts(image.add(offset + 8), length)
        };
        offset += 8 + bytes.len();
        texts.push(std::str::from_utf8(bytes).ok()?);
    }
    Some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        let all = [String::from(".version 7.0"), String::new()];
        let image = pack(&all);
        // SAFETY: what `pack` made.
        let texts = unsafe { texts(image.as_ptr().cast()) };
        assert_eq!(texts.as_deref(), Some(&[".version 7.0", ""][..]));
    }
}
