//! That a GPU has one manager: two in one machine would each give out all of its
//! memory. A manager holds a name that no other process of the machine (of its network
//! namespace) can have at the same time, and that goes with it.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// The device, until this is dropped.
pub(crate) struct Ownership(#[expect(dead_code, reason = "held, not used")] UnixListener);

/// Takes the device with this identifier; `None` if another manager has it.
///
/// # Errors
///
/// The system's.
pub(crate) fn take(uuid: &[u8; 16]) -> std::io::Result<Option<Ownership>> {
    let mut name = String::from("ringfence-manager-");
    for byte in uuid {
        name += &format!("{byte:02x}");
    }
    let address = SocketAddr::from_abstract_name(name)?;
    match UnixListener::bind_addr(&address) {
        Ok(listener) => Ok(Some(Ownership(listener))),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_one_manager() {
        let uuid = [rustix::process::getpid().as_raw_nonzero().get() as u8; 16];
        let first = take(&uuid).unwrap().expect("nobody has it");
        assert!(take(&uuid).unwrap().is_none());
        let mut other = uuid;
        other[15] ^= 1;
        assert!(take(&other).unwrap().is_some());
        drop(first);
        assert!(take(&uuid).unwrap().is_some(), "it goes with its owner");
    }
}
