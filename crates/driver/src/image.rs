//! Code that a program hands to the driver as a bare pointer: what it is, and
//! where it ends.

use crate::linked;
use fatbin::ModulePart;
use std::ffi::{CStr, c_void};

/// Reads the parts of an image; none if it is nothing that is known. What cannot
/// be read is left out, and `say` gets the reason.
///
/// # Safety
/// `image` is what a program passes to cuModuleLoadData or cuLibraryLoadData:
/// a fat binary or its wrapper, an ELF file, NUL-terminated text, or what the
/// linker of the CPU device made, in memory
/// that stays as it is while the parts are in use.
pub unsafe fn parts<'a>(
    image: *const c_void,
    say: &mut dyn FnMut(&fatbin::Error),
) -> Vec<ModulePart<'a>> {
    if image.is_null() {
        return Vec::new();
    }
    // SAFETY: every form of image has at least four bytes (the shortest text
    // that PTX can be starts with `.version`), not necessarily aligned.
    let magic = unsafe { image.cast::<u32>().read_unaligned() };
    match magic {
        fatbin::WRAPPER_MAGIC => {
            // SAFETY: a wrapper by its magic.
            unsafe { wrapper(image, say) }
        }
        fatbin::CONTAINER_MAGIC => {
            // SAFETY: a container by its magic.
            unsafe { container(image, say) }.into_iter().collect()
        }
        ELF_MAGIC => {
            // SAFETY: an ELF file by its magic.
            unsafe { elf(image.cast()) }.into_iter().collect()
        }
        _ => {
            // SAFETY: as this function's.
            if let Some(texts) = unsafe { linked::texts(image) } {
                return texts.into_iter().map(ModulePart::Ptx).collect();
            }
            // SAFETY: neither of the binary forms, so NUL-terminated text.
            let text = unsafe { CStr::from_ptr(image.cast()) };
            text.to_str().map(ModulePart::Ptx).into_iter().collect()
        }
    }
}

/// The parts of a file's content.
pub fn parts_of_file(bytes: &[u8]) -> Vec<ModulePart<'_>> {
    let magic = bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    match magic {
        Some(fatbin::CONTAINER_MAGIC) => vec![ModulePart::Fatbin(bytes)],
        Some(ELF_MAGIC) => vec![ModulePart::Elf(bytes)],
        _ => {
            let text = bytes.split(|byte| *byte == 0).next().unwrap_or(bytes);
            std::str::from_utf8(text)
                .map(ModulePart::Ptx)
                .into_iter()
                .collect()
        }
    }
}

const ELF_MAGIC: u32 = u32::from_le_bytes(*b"\x7fELF");

/// `__fatBinC_Wrapper_t`; see cuda-facts, "Fat binaries".
#[repr(C)]
struct Wrapper {
    magic: u32,
    version: u32,
    data: *const c_void,
    /// Version 1: a file name. Version 2: containers to link, ended by null.
    more: *const *const c_void,
}

/// # Safety
/// `image` points to a wrapper.
unsafe fn wrapper<'a>(
    image: *const c_void,
    say: &mut dyn FnMut(&fatbin::Error),
) -> Vec<ModulePart<'a>> {
    // SAFETY: a wrapper has these 24 bytes.
    let wrapper = unsafe { image.cast::<Wrapper>().read_unaligned() };
    let mut parts = Vec::new();
    if wrapper.version == 2 && !wrapper.more.is_null() {
        let mut member = wrapper.more;
        loop {
            // SAFETY: the list ends with a null, which ends this loop.
            let container = unsafe { *member };
            if container.is_null() {
                break;
            }
            // SAFETY: members of the list are containers.
            parts.extend(unsafe { self::container(container, say) });
            // SAFETY: not yet at the end.
            member = unsafe { member.add(1) };
        }
    }
    // Linked code is what the members become; where there is none (all builds
    // with one file and without -rdc) it is the code itself.
    if parts.is_empty() && !wrapper.data.is_null() {
        // SAFETY: the wrapper's data is a container.
        parts.extend(unsafe { container(wrapper.data, say) });
    }
    parts
}

/// # Safety
/// `pointer` points to a container, or to something that its first 16 bytes
/// show not to be one.
unsafe fn container<'a>(
    pointer: *const c_void,
    say: &mut dyn FnMut(&fatbin::Error),
) -> Option<ModulePart<'a>> {
    let pointer: *const u8 = pointer.cast();
    // SAFETY: a container has a header of 16 bytes.
    let header = unsafe {
        pointer
            .cast::<[u8; fatbin::CONTAINER_HEADER_SIZE]>()
            .read_unaligned()
    };
    match fatbin::container_size(&header) {
        Ok(size) => {
            // SAFETY: the header says how long it is, and the driver, for
            // which it was made, trusts it too.
            Some(ModulePart::Fatbin(unsafe {
                std::slice::from_raw_parts(pointer, size as usize)
            }))
        }
        Err(error) => {
            say(&error);
            None
        }
    }
}

/// A table of an ELF64 file: where its header says at which offset it is, how large an
/// entry is, and how many there are.
struct TableOf {
    offset: usize,
    entry_size: usize,
    count: usize,
}

/// The tables of segments and of sections. Compilers put them last, nvlink the segments
/// behind the sections.
const TABLES: [TableOf; 2] = [
    TableOf {
        offset: 32,
        entry_size: 54,
        count: 56,
    },
    TableOf {
        offset: 40,
        entry_size: 58,
        count: 60,
    },
];
const ELF_HEADER_SIZE: usize = 64;

/// Bytes of an ELF64 file, by its header; `None` if that cannot be.
fn elf_size(header: &[u8; ELF_HEADER_SIZE]) -> Option<usize> {
    let u16_at = |at: usize| u64::from(u16::from_le_bytes([header[at], header[at + 1]]));
    let mut end = 0;
    for table in &TABLES {
        let offset = u64::from_le_bytes(*header[table.offset..].first_chunk()?);
        let size = u16_at(table.entry_size) * u16_at(table.count);
        end = end.max(offset.checked_add(size)?);
    }
    let size = usize::try_from(end).ok()?;
    (ELF_HEADER_SIZE..1 << 32).contains(&size).then_some(size)
}

/// # Safety
/// `pointer` points to a complete ELF64 file.
unsafe fn elf<'a>(pointer: *const u8) -> Option<ModulePart<'a>> {
    // SAFETY: the header of an ELF64 file has 64 bytes.
    let header = unsafe { pointer.cast::<[u8; ELF_HEADER_SIZE]>().read_unaligned() };
    let size = elf_size(&header)?;
    // SAFETY: a complete file reaches to the end of its tables.
    Some(ModulePart::Elf(unsafe {
        std::slice::from_raw_parts(pointer, size)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with these tables: offset, size of an entry, count.
    fn header(segments: (u64, u16, u16), sections: (u64, u16, u16)) -> [u8; ELF_HEADER_SIZE] {
        let mut header = [0; ELF_HEADER_SIZE];
        for (table, (offset, size, count)) in TABLES.iter().zip([segments, sections]) {
            header[table.offset..][..8].copy_from_slice(&offset.to_le_bytes());
            header[table.entry_size..][..2].copy_from_slice(&size.to_le_bytes());
            header[table.count..][..2].copy_from_slice(&count.to_le_bytes());
        }
        header
    }

    #[test]
    fn a_file_ends_behind_the_last_of_its_tables() {
        // As nvcc 13 writes a cubin for sm_90.
        let cubin = header((5184, 56, 4), (4224, 64, 15));
        assert_eq!(elf_size(&cubin), Some(5184 + 4 * 56));
        assert_eq!(elf_size(&header((64, 56, 4), (4224, 64, 15))), Some(5184));
        assert_eq!(elf_size(&header((0, 0, 0), (4224, 64, 15))), Some(5184));
    }

    #[test]
    fn sizes_that_cannot_be_are_none() {
        assert_eq!(elf_size(&header((0, 0, 0), (0, 0, 0))), None);
        assert_eq!(elf_size(&header((u64::MAX, 56, 4), (64, 64, 1))), None);
        assert_eq!(elf_size(&header((1 << 40, 56, 4), (64, 64, 1))), None);
    }
}
