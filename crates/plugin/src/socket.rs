//! Sockets in folders that the kubelet clears when it starts.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tokio::net::UnixListener;

/// Which file a socket is: a number may be used again, a time of change is not.
pub(crate) type Identity = (u64, u64, i64, i64);

/// Which file is at a path; `None` if there is none.
pub(crate) fn identity(path: &Path) -> Option<Identity> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

/// A new socket, in the place of one that was left there.
///
/// # Errors
///
/// It cannot be made, or what is there cannot be removed.
pub(crate) fn bind(path: &Path) -> std::io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(path)
}
