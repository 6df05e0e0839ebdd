//! Reads the process's own memory by a system call: an address that is not
//! mapped gives an error and no fault.

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use std::io::IoSliceMut;

/// Fills `into` from an address; false if not all of it can be read.
pub(super) fn read(address: usize, into: &mut [u8]) -> bool {
    let len = into.len();
    let from = RemoteIoVec { base: address, len };
    process_vm_readv(Pid::this(), &mut [IoSliceMut::new(into)], &[from]) == Ok(len)
}

/// The word at an address.
pub(super) fn word(address: usize) -> Option<usize> {
    let mut bytes = [0; size_of::<usize>()];
    read(address, &mut bytes).then_some(usize::from_ne_bytes(bytes))
}

/// A number of bytes from an address.
pub(super) fn bytes(address: usize, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len];
    read(address, &mut bytes).then_some(bytes)
}

/// What was read of one structure.
pub(super) struct Block<'b>(pub(super) &'b [u8]);

impl Block<'_> {
    fn at<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.0.get(offset..offset.checked_add(N)?)?.try_into().ok()
    }

    pub(super) fn byte(&self, offset: usize) -> Option<u8> {
        self.0.get(offset).copied()
    }

    pub(super) fn int(&self, offset: usize) -> Option<i32> {
        self.at(offset).map(i32::from_ne_bytes)
    }

    pub(super) fn word(&self, offset: usize) -> Option<usize> {
        self.at(offset).map(usize::from_ne_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_mapped_is_no_fault() {
        let known = 0x1234_5678_usize;
        assert_eq!(word(std::ptr::from_ref(&known) as usize), Some(known));
        for address in [0, 8, usize::MAX - 7, usize::MAX, 1 << 47] {
            assert_eq!(word(address), None, "{address:#x}");
        }
        let mut some = [0; 64];
        assert!(!read(0, &mut some));
        assert_eq!(Block(&some).word(60), None);
        assert_eq!(Block(&some).word(usize::MAX), None);
        assert_eq!(Block(&some).byte(63), Some(0));
    }
}
