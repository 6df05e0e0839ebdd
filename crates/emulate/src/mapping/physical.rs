//! Physical memory: pages that can be mapped at several addresses at once
//! (`cuMemCreate`). They lie in one file in memory, so that any number of
//! mappings needs one descriptor; pages that nobody has touched take no memory.

use super::{GRANULE, MapError, Memory, Owner};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};

/// Physical memory of a device.
#[derive(Default)]
pub struct Pages {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Made at first use.
    file: Option<File>,
    /// Bytes of the file.
    end: u64,
    /// Parts of the file that nobody has, by offset, with their lengths. They
    /// do not touch each other, and hold zeros.
    free: BTreeMap<u64, u64>,
}

/// A file in memory.
fn anonymous_file() -> std::io::Result<File> {
    // SAFETY: a C string, and flags that memfd_create(2) lists.
    let descriptor = unsafe { libc::memfd_create(c"ringfence".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: just made, and nobody else has it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

impl Pages {
    /// Takes zeroed pages: their place, for [`Memory::attach`]. `size` is a
    /// multiple of [`GRANULE`].
    pub fn take(&self, size: u64) -> Result<u64, MapError> {
        if size == 0 || !size.is_multiple_of(GRANULE) {
            return Err(MapError::Invalid { address: 0, size });
        }
        let no_memory = |error: std::io::Error| MapError::NoMemory {
            size,
            errno: error.raw_os_error().unwrap_or(0),
        };
        let mut inner = self.inner.lock();
        let fits = inner.free.iter().find(|(_, length)| **length >= size);
        if let Some((&offset, &length)) = fits {
            inner.free.remove(&offset);
            if length > size {
                inner.free.insert(offset + size, length - size);
            }
            return Ok(offset);
        }
        if inner.file.is_none() {
            inner.file = Some(anonymous_file().map_err(no_memory)?);
        }
        let offset = inner.end;
        let end = offset.checked_add(size).ok_or(MapError::Invalid {
            address: offset,
            size,
        })?;
        if let Some(file) = &inner.file {
            file.set_len(end).map_err(no_memory)?;
        }
        inner.end = end;
        Ok(offset)
    }

    /// Gives pages back that [`Pages::take`] gave; no mapping has them any more.
    /// What they held is gone.
    pub fn give_back(&self, offset: u64, size: u64) {
        let mut inner = self.inner.lock();
        let Some(file) = &inner.file else { return };
        // SAFETY: changes a file that is ours; no memory of a Rust object is
        // part of it.
        let done = unsafe {
            libc::fallocate(
                file.as_raw_fd(),
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                offset as libc::off_t,
                size as libc::off_t,
            )
        };
        if done != 0 {
            // They still hold what they held: never handed out again.
            return;
        }
        let (mut start, mut end) = (offset, offset + size);
        if let Some((&before, &length)) = inner.free.range(..offset).next_back()
            && before + length == start
        {
            inner.free.remove(&before);
            start = before;
        }
        if let Some(length) = inner.free.remove(&end) {
            end += length;
        }
        inner.free.insert(start, end - start);
    }
}

/// Makes a large range of attached pages zero by giving the pages up, so that
/// cleared memory takes none. `false`: nothing was done. The caller has checked
/// that all of it may be written, under the lock that it still holds.
pub(super) fn give_up(address: u64, size: u64) -> bool {
    if size < GRANULE || !(address | size).is_multiple_of(GRANULE) {
        return false;
    }
    let at = std::ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: the range is mapped memory that the caller may write, and that no
    // reference exists into; afterwards it reads as zeros, as if they had been
    // written (madvise(2)). Other mappings than of shared files are refused.
    let done = unsafe { libc::madvise(at, size as usize, libc::MADV_REMOVE) };
    done == 0
}

impl Memory {
    /// Puts pages in the place of `address .. address + size`, which lies in one
    /// mapping and may not be accessed ([`super::Protection::None`]).
    pub fn attach(
        &self,
        address: u64,
        size: u64,
        pages: &Pages,
        offset: u64,
    ) -> Result<(), MapError> {
        let inner = pages.inner.lock();
        let file = inner.file.as_ref();
        let file = file.ok_or(MapError::NotMapped { address })?.as_raw_fd();
        self.replace(address, size, libc::MAP_SHARED, file, offset)
    }

    /// Puts zeroed pages of the mapping's own in the place of those that were
    /// attached.
    pub fn detach(&self, address: u64, size: u64) -> Result<(), MapError> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        self.replace(address, size, flags, -1, 0)
    }

    fn replace(
        &self,
        address: u64,
        size: u64,
        flags: i32,
        file: i32,
        offset: u64,
    ) -> Result<(), MapError> {
        let mut regions = self.regions.write();
        let Some((_, region)) = regions.at(address) else {
            return Err(MapError::NotMapped { address });
        };
        if region.owner != Owner::Mapped
            || size == 0
            || !(address | size).is_multiple_of(GRANULE)
            || address.checked_add(size).is_none_or(|end| end > region.end)
        {
            return Err(MapError::Invalid { address, size });
        }
        regions.changes += 1;
        let at = std::ptr::with_exposed_provenance_mut(address as usize);
        // SAFETY: the range lies in a mapping of ours, by the checks above; no
        // View accesses it, because the write lock is held, and no reference
        // into it ever existed.
        let made = unsafe {
            libc::mmap(
                at,
                size as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                flags | libc::MAP_FIXED | libc::MAP_NORESERVE,
                file,
                offset as libc::off_t,
            )
        };
        if made == libc::MAP_FAILED {
            let errno = std::io::Error::last_os_error().raw_os_error();
            return Err(MapError::NoMemory {
                size,
                errno: errno.unwrap_or(0),
            });
        }
        Ok(())
    }
}
