//! Descriptors that one process of a manager sends another.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{ErrorKind, IoSlice, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// The most that are sent at a time.
const MOST: usize = 5;

/// Sends some, behind what was written before, and with their count.
///
/// # Errors
///
/// The system's; there are more than [`MOST`].
pub(crate) fn send(to: &UnixStream, all: &[BorrowedFd<'_>]) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if all.len() > MOST || !control.push(SendAncillaryMessage::ScmRights(all)) {
        return Err(ErrorKind::InvalidInput.into());
    }
    let count = [all.len() as u8];
    sendmsg(
        to,
        &[IoSlice::new(&count)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Receives those that were sent together.
///
/// # Errors
///
/// The system's; `UnexpectedEof`, if the other side is gone; `InvalidData`, if not all
/// came.
pub(crate) fn receive(from: &UnixStream) -> Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut count = [0];
    let mut bytes = [IoSliceMut::new(&mut count)];
    let received = recvmsg(from, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let mut all = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            all.extend(rights);
        }
    }
    match all.len() == usize::from(count[0]) {
        true => Ok(all),
        // This process may open no more.
        false => Err(ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    #[test]
    fn what_is_sent_is_the_same_socket() {
        let (here, there) = UnixStream::pair().unwrap();
        let (mut one, two) = UnixStream::pair().unwrap();
        send(&here, &[two.as_fd(), here.as_fd()]).unwrap();
        let mut got = receive(&there).unwrap();
        assert_eq!(got.len(), 2);
        let mut two = UnixStream::from(got.swap_remove(0));
        two.write_all(b"a").unwrap();
        let mut byte = [0];
        one.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"a");
    }

    #[test]
    fn who_is_gone_sends_nothing() {
        let (here, there) = UnixStream::pair().unwrap();
        drop(there);
        let error = receive(&here).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        let six = vec![here.as_fd(); MOST + 1];
        assert_eq!(
            send(&here, &six).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }
}
