//! The file that is the shared memory: made and sized by the manager, and
//! sealed, so that its size never changes for anyone.
//!
//! A client can punch holes into it. Then its pages read as zero, for both
//! sides, and no access faults, because the size is the same.

use crate::layout::Layout;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The seals that the file has: its size is fixed, and no seal can be added
/// (one against writing would stop the other side).
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// Why a descriptor is not the shared memory of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemfdError {
    /// A seal is missing, or it is no file of this kind.
    #[error("the shared memory is not sealed against changes of its size")]
    NotSealed,
    /// It has another size.
    #[error("the shared memory has {actual} bytes instead of {expected}")]
    Size {
        /// Its bytes.
        actual: u64,
        /// Bytes of the layout.
        expected: u64,
    },
    /// A system call failed.
    #[error("{call} failed for the shared memory: {errno}")]
    System {
        /// Which.
        call: &'static str,
        /// Its error.
        errno: Errno,
    },
}

fn failed(call: &'static str) -> impl Fn(Errno) -> MemfdError {
    move |errno| MemfdError::System { call, errno }
}

/// A new file for a layout: all zero, sealed, closed on exec. Memory is taken for the
/// rings; for the staging area when it is asked for
/// ([`Staging::allocate`](crate::Staging::allocate)).
///
/// # Errors
///
/// If there are no descriptors or there is no memory.
pub fn create(layout: &Layout) -> Result<OwnedFd, MemfdError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Since Linux 6.3: it can never be executed. Older kernels do not know the
    // flag.
    let file = rustix::fs::memfd_create(c"ringfence-ring", flags | MemfdFlags::NOEXEC_SEAL)
        .or_else(|errno| match errno {
            Errno::INVAL => rustix::fs::memfd_create(c"ringfence-ring", flags),
            errno => Err(errno),
        })
        .map_err(failed("memfd_create"))?;
    rustix::fs::ftruncate(&file, layout.size()).map_err(failed("ftruncate"))?;
    // Memory that is missing is an error now, and not a signal later.
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, layout.staging_start())
        .map_err(failed("fallocate"))?;
    rustix::fs::fcntl_add_seals(&file, SEALS).map_err(failed("fcntl(F_ADD_SEALS)"))?;
    Ok(file)
}

/// Checks that a descriptor is such a file.
///
/// # Errors
///
/// How it differs.
pub fn verify(file: BorrowedFd<'_>, layout: &Layout) -> Result<(), MemfdError> {
    // Files that cannot be sealed answer EINVAL.
    let seals = rustix::fs::fcntl_get_seals(file).map_err(|errno| match errno {
        Errno::INVAL => MemfdError::NotSealed,
        errno => failed("fcntl(F_GET_SEALS)")(errno),
    })?;
    if !seals.contains(SEALS) {
        return Err(MemfdError::NotSealed);
    }
    let actual = rustix::fs::fstat(file).map_err(failed("fstat"))?.st_size as u64;
    let expected = layout.size();
    if actual != expected {
        return Err(MemfdError::Size { actual, expected });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn the_staging_area_takes_memory_when_it_is_asked_for() {
        let layout = Layout::new(4096, 4096, 1 << 20).unwrap();
        let file = create(&layout).unwrap();
        let taken = || 512 * rustix::fs::fstat(&file).unwrap().st_blocks as u64;
        assert_eq!(taken(), layout.staging_start());
        let mapping = crate::mapping::Mapping::new(file.as_fd(), &layout).unwrap();
        let start = layout.staging_start();
        mapping.allocate(start + 4096..start + 3 * 4096).unwrap();
        assert_eq!(taken(), start + 2 * 4096);
    }

    #[test]
    fn the_size_is_fixed_and_seals_are_final() {
        let layout = Layout::new(4096, 4096, 4096).unwrap();
        let file = create(&layout).unwrap();
        assert_eq!(verify(file.as_fd(), &layout), Ok(()));
        for size in [0, layout.size() - 1, layout.size() + 1] {
            assert_eq!(rustix::fs::ftruncate(&file, size), Err(Errno::PERM));
        }
        assert_eq!(
            rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE),
            Err(Errno::PERM)
        );
        let flags = rustix::io::fcntl_getfd(&file).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }

    #[test]
    fn what_is_not_sealed_or_of_another_size_is_refused() {
        let layout = Layout::new(4096, 4096, 4096).unwrap();
        let larger = Layout::new(4096, 4096, 8192).unwrap();
        let file = create(&layout).unwrap();
        let (actual, expected) = (layout.size(), larger.size());
        assert_eq!(
            verify(file.as_fd(), &larger),
            Err(MemfdError::Size { actual, expected })
        );
        let open = rustix::fs::memfd_create(c"open", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&open, layout.size()).unwrap();
        let not_sealed = Err(MemfdError::NotSealed);
        assert_eq!(verify(open.as_fd(), &layout), not_sealed);
        let some = SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&open, some).unwrap();
        assert_eq!(verify(open.as_fd(), &layout), not_sealed);
        let null = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(verify(null.as_fd(), &layout), not_sealed);
    }
}
