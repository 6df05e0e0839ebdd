//! Handshakes that work, and every way in which a peer can break one.

mod support;

use ring::{ExchangeError, HandshakeError, LayoutError, MemfdError, accept, connect};
use rustix::fs::MemfdFlags;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use support::{LONG, hello, layout, receive, send, welcome};

const SHORT: Duration = Duration::from_millis(100);

/// What a manager says to a client that does this.
fn accepted(client: impl FnOnce(&UnixStream)) -> Result<(), HandshakeError> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    client(&theirs);
    let result = accept(ours, &layout(), LONG).map(drop);
    drop(theirs);
    result
}

/// What a client says to a manager that answers this, and closes.
fn connected(bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), HandshakeError> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    send(&theirs, bytes, descriptors);
    theirs.shutdown(std::net::Shutdown::Write).unwrap();
    connect(ours, LONG).map(drop)
}

#[test]
fn both_ends_know_each_other_and_the_sizes() {
    let (manager, client) = support::pair(&layout());
    assert_eq!(manager.layout(), client.layout());
    assert_eq!(manager.layout(), &layout());
    let own = manager.peer().credentials();
    assert_eq!(own.pid, Some(std::process::id()));
    assert_eq!(own.uid, rustix::process::geteuid().as_raw());
    assert_eq!(own.gid, rustix::process::getegid().as_raw());
    assert_eq!(manager.peer().is_gone(), Ok(false));
    assert_eq!(client.peer().is_gone(), Ok(false));
    drop(client);
    assert_eq!(manager.peer().is_gone(), Ok(true));
}

#[test]
fn single_bytes_are_enough() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let client = std::thread::spawn(move || {
        let mut theirs = theirs;
        for byte in hello() {
            theirs.write_all(&[byte]).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        receive(&theirs)
    });
    let manager = accept(ours, &layout(), LONG).unwrap();
    let (bytes, descriptors) = client.join().unwrap();
    assert_eq!(bytes, welcome(0, [8 << 10, 8 << 10, 64 << 10]));
    assert_eq!(descriptors.len(), 1);
    drop(manager);
}

#[test]
fn truncated_hellos_are_counted() {
    for length in 0..hello().len() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&hello()[..length]).unwrap();
        drop(theirs);
        match accept(ours, &layout(), LONG).map(drop) {
            Err(HandshakeError::Exchange(ExchangeError::Truncated { got, expected })) => {
                assert_eq!((got, expected), (length, 16));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_client_that_is_slow_ends_with_the_time() {
    // All but the last byte, one by one: each would begin the time anew if it
    // were counted for each.
    let (ours, theirs) = UnixStream::pair().unwrap();
    let client = std::thread::spawn(move || {
        let mut theirs = theirs;
        for byte in &hello()[..15] {
            std::thread::sleep(SHORT / 4);
            if theirs.write_all(&[*byte]).is_err() {
                break;
            }
        }
        theirs
    });
    let start = Instant::now();
    let result = accept(ours, &layout(), SHORT).map(drop);
    assert!(matches!(
        result,
        Err(HandshakeError::Exchange(ExchangeError::TimedOut(SHORT)))
    ));
    assert!(start.elapsed() >= SHORT);
    client.join().unwrap();
}

#[test]
fn garbage_and_other_versions_are_refused() {
    assert!(accepted(|client| send(client, &hello(), &[])).is_ok());
    let with = |at: usize, value: u8| {
        let mut bytes = hello();
        bytes[at] = value;
        accepted(move |client| send(client, &bytes, &[]))
    };
    for at in (0..8).chain(12..16) {
        assert!(matches!(with(at, 0xff), Err(HandshakeError::NotRings)));
    }
    assert!(matches!(
        with(8, 2),
        Err(HandshakeError::Version { theirs: 2 })
    ));

    // The client of another version is told.
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut bytes = hello();
    bytes[8] = 2;
    send(&theirs, &bytes, &[]);
    assert!(accept(ours, &layout(), LONG).is_err());
    let (answer, descriptors) = receive(&theirs);
    assert_eq!(answer, welcome(1, [8 << 10, 8 << 10, 64 << 10]));
    assert!(descriptors.is_empty());
}

#[test]
fn descriptors_of_clients_are_never_taken() {
    let null = std::fs::File::open("/dev/null").unwrap();
    for count in [1, 2, 3, 253] {
        let flood = vec![null.as_fd(); count];
        let result = accepted(|client| send(client, &hello(), &flood));
        assert!(matches!(
            result,
            Err(HandshakeError::Exchange(ExchangeError::Descriptors {
                expected: 0
            }))
        ));
        // Also with a later byte.
        let result = accepted(|client| {
            send(client, &hello()[..5], &[]);
            send(client, &hello()[5..], &flood);
        });
        assert!(result.is_err());
    }
}

/// Memory as a manager makes it, of any size, with or without seals.
fn memory(size: u64, sealed: bool) -> OwnedFd {
    use rustix::fs::SealFlags;
    let file = rustix::fs::memfd_create(c"test", MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&file, size).unwrap();
    if sealed {
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals).unwrap();
    }
    file
}

#[test]
fn managers_that_answer_wrongly_are_named() {
    let sizes = [4096, 4096, 0];
    let good = memory(4 * 4096, true);
    let bytes = welcome(0, sizes);
    assert!(connected(&bytes, &[good.as_fd()]).is_ok());

    for length in 0..bytes.len() {
        let descriptors = [good.as_fd()];
        let descriptors = if length == 0 { &[][..] } else { &descriptors };
        let (ours, theirs) = UnixStream::pair().unwrap();
        if length > 0 {
            send(&theirs, &bytes[..length], descriptors);
        }
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(matches!(
            connect(ours, LONG).map(drop),
            Err(HandshakeError::Exchange(ExchangeError::Truncated { got, expected: 40 })) if got == length
        ));
    }
    assert!(matches!(
        connected(&bytes, &[]),
        Err(HandshakeError::NoMemory)
    ));
    for count in [2, 3, 100] {
        let surplus = vec![good.as_fd(); count];
        assert!(matches!(
            connected(&bytes, &surplus),
            Err(HandshakeError::Exchange(ExchangeError::Descriptors {
                expected: 1
            }))
        ));
    }
    assert!(matches!(
        connected(&welcome(2, sizes), &[]),
        Err(HandshakeError::Refused)
    ));
    assert!(matches!(
        connected(&welcome(7, sizes), &[good.as_fd()]),
        Err(HandshakeError::Status(7))
    ));
    assert!(matches!(
        connected(&welcome(0, [4096, 4097, 0]), &[good.as_fd()]),
        Err(HandshakeError::Layout(LayoutError::Ring(4097)))
    ));
    assert!(matches!(
        connected(&welcome(0, [4096, 4096, 4096]), &[good.as_fd()]),
        Err(HandshakeError::Memory(MemfdError::Size { .. }))
    ));
    let open = memory(4 * 4096, false);
    assert!(matches!(
        connected(&bytes, &[open.as_fd()]),
        Err(HandshakeError::Memory(MemfdError::NotSealed))
    ));
    let mut other = welcome(1, sizes);
    other[8] = 9;
    assert!(matches!(
        connected(&other, &[]),
        Err(HandshakeError::Version { theirs: 9 })
    ));
    assert!(matches!(
        connected(&[b'x'; 40], &[]),
        Err(HandshakeError::NotRings)
    ));
}

#[test]
fn a_manager_that_does_not_answer_ends_with_the_time() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let result = connect(ours, SHORT).map(drop);
    assert!(matches!(
        result,
        Err(HandshakeError::Exchange(ExchangeError::TimedOut(SHORT)))
    ));
    drop(theirs);
}
