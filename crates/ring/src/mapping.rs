//! The shared memory, mapped into this process. This is the crate's only module
//! with `unsafe`.
//!
//! The other process may write any byte at any time. Rust has no word for
//! stores of another process; they act as atomic stores of some value by a
//! thread that is not ours. So this module never hands out a reference to plain
//! memory, only to atomics, for which every value is valid and whose loads may
//! return anything at any time. A place is accessed with one size only: as
//! words of 32 bits in page 0, of 64 bits behind it (`layout.rs`); but for bulk
//! data, which a string instruction copies, and of which nothing is read that
//! another thread of this process writes.

#![allow(unsafe_code)]

use crate::layout::{Layout, PAGE};
use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const WORD: usize = size_of::<AtomicU64>();

/// Memory that another process can write.
#[derive(Debug)]
pub struct Mapping {
    /// Stays mapped, at the same place and with the same size, while this
    /// lives.
    pages: MmapRaw,
}

impl Mapping {
    /// Maps all of a memory file, readable and writable. The file must be
    /// sealed against shrinking (`memfd.rs` checks it): an access behind its
    /// end would end the process.
    pub(crate) fn new(file: BorrowedFd<'_>, layout: &Layout) -> std::io::Result<Mapping> {
        let size = usize::try_from(layout.size()).map_err(std::io::Error::other)?;
        let pages = MmapOptions::new().len(size).map_raw(file.as_raw_fd())?;
        Ok(Mapping { pages })
    }

    /// Takes memory for the pages of a range that have none: where there is none left,
    /// that is an error now, and not a signal at the first access. (Linux before 5.14
    /// takes it then all the same.)
    pub(crate) fn allocate(&self, range: Range<u64>) -> std::io::Result<()> {
        let (start, end) = (range.start as usize, range.end as usize);
        let bytes = end.min(self.pages.len()).saturating_sub(start);
        match self.pages.advise_range(Advice::PopulateWrite, start, bytes) {
            Err(error) if error.kind() != std::io::ErrorKind::InvalidInput => Err(error),
            _ => Ok(()),
        }
    }

    /// Gives the memory of all pages from an offset on back to the system, for
    /// all processes that have it mapped. What is read there afterwards is zero;
    /// a page that is written gets new memory, on the account of the process
    /// that writes.
    pub(crate) fn discard(&self, offset: u64) -> std::io::Result<()> {
        let offset = (offset as usize).min(self.pages.len());
        let bytes = self.pages.len() - offset;
        // SAFETY: MADV_REMOVE changes the bytes of these pages to zero, as the
        // peer could do at any time, and leaves them mapped. There are no
        // references to them but to atomics.
        unsafe {
            self.pages
                .unchecked_advise_range(UncheckedAdvice::Remove, offset, bytes)
        }
    }

    /// The words of 32 bits of page 0.
    pub(crate) fn bells(&self) -> &[AtomicU32] {
        let count = PAGE as usize / size_of::<AtomicU32>();
        // SAFETY: `pages` starts at a page's first byte, is mapped readable and
        // writable, and is no smaller than a page (`Layout::size`); it stays
        // mapped while `self` is borrowed. `AtomicU32` is valid with any bytes
        // and allows changes behind shared references. Page 0 is accessed here
        // alone, so there is no access of another size.
        unsafe { std::slice::from_raw_parts(self.pages.as_mut_ptr().cast(), count) }
    }

    /// The words of 64 bits behind page 0.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        let behind = self.pages.len() - PAGE as usize;
        let count = behind / size_of::<AtomicU64>();
        // SAFETY: as in `bells`, for the `behind` bytes from page 1 on: `add`
        // stays in the mapping, which is larger than a page.
        unsafe {
            let start = self.pages.as_mut_ptr().add(PAGE as usize);
            std::slice::from_raw_parts(start.cast(), count)
        }
    }
}

/// Stores bytes in words, of which there are enough.
///
/// By one string instruction where there is one: it stores whole lines, and does
/// not load them first, as a loop over atomics does.
pub(crate) fn store(words: &[AtomicU64], bytes: &[u8]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if size_of_val(words) >= bytes.len() {
        let to = words.as_ptr().cast_mut().cast::<u8>();
        // SAFETY: `bytes.len()` bytes are readable at `bytes`, and writable at `to`:
        // the words hold as many, and atomics may be written behind shared
        // references. The processor stores each byte once, as relaxed atomic stores
        // would; nothing in Rust is told of the order. The two do not overlap:
        // `bytes` is no memory that another process can write.
        unsafe { copy(to, bytes.as_ptr(), bytes.len()) };
        return;
    }
    for (word, bytes) in words.iter().zip(bytes.chunks(WORD)) {
        let mut whole = [0; WORD];
        whole[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
    }
}

/// Loads bytes from words, of which there are enough, each once.
pub(crate) fn load(words: &[AtomicU64], bytes: &mut [u8]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if size_of_val(words) >= bytes.len() {
        // SAFETY: as in `store`, the other way around.
        unsafe { copy(bytes.as_mut_ptr(), words.as_ptr().cast(), bytes.len()) };
        return;
    }
    for (word, bytes) in words.iter().zip(bytes.chunks_mut(WORD)) {
        let whole = word.load(Ordering::Relaxed).to_le_bytes();
        bytes.copy_from_slice(&whole[..bytes.len()]);
    }
}

/// `rep movsb`.
///
/// # Safety
///
/// So many bytes are readable at `from` and writable at `to`, and the two do not
/// overlap.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: this function's promise. The direction flag is clear (System V ABI).
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") bytes => _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack, preserves_flags)
        );
    }
}
