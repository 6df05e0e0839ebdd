//! Both ends in one process: waiting, back-pressure, endings, staging.

mod support;

use ring::{ALIGN, Error, StagingError};
use std::thread;
use std::time::{Duration, Instant};
use support::{LONG, layout, pair};

const SHORT: Duration = Duration::from_millis(50);

#[test]
fn frames_go_in_both_directions() {
    let (mut manager, mut client) = pair(&layout());
    let mut frame = Vec::new();
    for length in [0, 1, 7, 8, 9, 64, client.sender.max_frame()] {
        let sent: Vec<u8> = (0..length).map(|at| at as u8).collect();
        client.sender.send(&sent, Some(LONG)).unwrap();
        manager.receiver.receive(&mut frame, Some(LONG)).unwrap();
        assert_eq!(frame, sent);
        manager.sender.try_send(&frame[length / 2..]).unwrap();
        client.receiver.receive(&mut frame, Some(LONG)).unwrap();
        assert_eq!(frame, sent[length / 2..]);
    }
    assert_eq!(manager.receiver.try_receive(&mut frame), Ok(false));
}

/// Many frames of both kinds of waiting: both sides sleep at once, or spin.
fn stream(spin: Duration, frames: u32) {
    let (mut manager, mut client) = pair(&layout());
    for spinning in [
        client.sender.spin(),
        client.receiver.spin(),
        manager.receiver.spin(),
        manager.sender.spin(),
    ] {
        spinning.set_limit(spin);
    }
    let sender = thread::spawn(move || {
        for number in 0..frames {
            let frame = vec![number as u8; 1000 + number as usize % 100];
            client.sender.send(&frame, Some(LONG)).unwrap();
        }
        client
    });
    let mut frame = Vec::new();
    for number in 0..frames {
        manager.receiver.receive(&mut frame, Some(LONG)).unwrap();
        assert_eq!(frame, vec![number as u8; 1000 + number as usize % 100]);
    }
    drop(sender.join().unwrap());
    let end = manager.receiver.receive(&mut frame, Some(LONG));
    assert_eq!(end, Err(Error::Gone));
}

#[test]
fn sleeping_sides_wake_each_other() {
    stream(Duration::ZERO, 2_000);
}

#[test]
fn spinning_sides_see_each_other() {
    stream(Duration::from_millis(1), 20_000);
}

#[test]
fn a_full_ring_is_named_or_waited_for() {
    let (mut manager, mut client) = pair(&layout());
    let mut sent = 0;
    let full = loop {
        match manager.sender.try_send(&[7; 1000]) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full, Error::Full);
    assert_eq!(sent, 8192 / 1008);
    let start = Instant::now();
    let late = manager.sender.send(&[7; 1000], Some(SHORT));
    assert_eq!(late, Err(Error::TimedOut(SHORT)));
    assert!(start.elapsed() >= SHORT);
    let reader = thread::spawn(move || {
        thread::sleep(SHORT);
        let mut frame = Vec::new();
        client.receiver.receive(&mut frame, Some(LONG)).unwrap();
        client
    });
    manager.sender.send(&[7; 1000], Some(LONG)).unwrap();
    assert_eq!(manager.sender.try_send(&[7; 1000]), Err(Error::Full));
    drop(reader.join().unwrap());

    let limit = manager.sender.max_frame();
    let (size, error) = (limit + 1, |size| Error::TooLarge { size, limit });
    let large = vec![0; size];
    assert_eq!(manager.sender.try_send(&large), Err(error(size)));
    assert_eq!(manager.sender.send(&large, None), Err(error(size)));
}

#[test]
fn a_wait_ends_with_its_time() {
    let (mut manager, client) = pair(&layout());
    let mut frame = Vec::new();
    for time in [Duration::ZERO, SHORT] {
        let start = Instant::now();
        let late = manager.receiver.receive(&mut frame, Some(time));
        assert_eq!(late, Err(Error::TimedOut(time)));
        assert!(start.elapsed() >= time);
    }
    drop(client);
}

#[test]
fn an_interrupt_ends_waits_now_and_later() {
    let (mut manager, _client) = pair(&layout());
    let interrupt = manager.interrupt();
    let other = thread::spawn(move || {
        thread::sleep(SHORT);
        interrupt.interrupt();
        interrupt
    });
    let mut frame = Vec::new();
    let ended = manager.receiver.receive(&mut frame, None);
    assert_eq!(ended, Err(Error::Interrupted));
    let ended = manager.receiver.receive(&mut frame, None);
    assert_eq!(ended, Err(Error::Interrupted));
    manager.sender.try_send(b"works").unwrap();
    let interrupt = other.join().unwrap();
    drop(manager);
    interrupt.interrupt();
}

#[test]
fn what_was_sent_before_the_end_is_received() {
    let (mut manager, mut client) = pair(&layout());
    client.sender.send(b"one", None).unwrap();
    client.sender.send(b"two", None).unwrap();
    drop(client);
    let mut frame = Vec::new();
    for expected in [b"one", b"two"] {
        manager.receiver.receive(&mut frame, None).unwrap();
        assert_eq!(frame, expected);
    }
    let ended = manager.receiver.receive(&mut frame, None);
    assert_eq!(ended, Err(Error::Gone));
    // Sending waits for a peer only where the ring is full.
    while manager.sender.send(&[0; 1000], None) != Err(Error::Gone) {}
}

#[test]
fn an_end_is_open_while_a_part_of_it_is() {
    let (mut manager, client) = pair(&layout());
    let ring::Endpoint {
        sender,
        receiver,
        staging,
        ..
    } = client;
    let mut frame = Vec::new();
    drop((sender, receiver));
    let open = manager.receiver.receive(&mut frame, Some(SHORT));
    assert_eq!(open, Err(Error::TimedOut(SHORT)));
    drop(staging);
    let ended = manager.receiver.receive(&mut frame, None);
    assert_eq!(ended, Err(Error::Gone));
}

#[test]
fn bulk_data_is_seen_by_the_other_side() {
    let (manager, client) = pair(&layout());
    let mut chunks = ring::Chunks::new(client.staging.size());
    for length in [0, 1, 7, 8, 9, 4096, 5000] {
        let bytes: Vec<u8> = (0..length).map(|at| at as u8 ^ 0x5a).collect();
        let offset = chunks.take(length).unwrap();
        let ours = client.staging.chunk(offset, length).unwrap();
        ours.write(&bytes).unwrap();
        let theirs = manager.staging.chunk(offset, length).unwrap();
        let mut copy = vec![0; bytes.len()];
        theirs.read(&mut copy).unwrap();
        assert_eq!(copy, bytes);
        assert_ne!(ours.words().as_ptr(), theirs.words().as_ptr());
        let chunk = bytes.len();
        let wrong = Err(StagingError::Length {
            bytes: chunk + 1,
            chunk,
        });
        assert_eq!(ours.write(&vec![0; chunk + 1]), wrong);
        assert_eq!(ours.read(&mut vec![0; chunk + 1]), wrong);
    }
}

#[test]
fn chunks_outside_the_area_are_refused() {
    let (manager, _client) = pair(&layout());
    let staging = &manager.staging;
    let size = staging.size();
    for (offset, length) in [(0, size), (size, 0), (size - ALIGN, ALIGN), (64, 1)] {
        assert_eq!(
            staging.chunk(offset, length).unwrap().length(),
            length as usize
        );
    }
    for (offset, length) in [
        (0, size + 1),
        (size, 1),
        (size - ALIGN, ALIGN + 1),
        (size + ALIGN, 0),
        (0, u64::MAX),
        (u64::MAX - 63, 64),
        (u64::MAX - 63, u64::MAX),
    ] {
        assert_eq!(
            staging.chunk(offset, length).err(),
            Some(StagingError::Outside {
                offset,
                length,
                size
            })
        );
    }
    for offset in [1, 8, 63, u64::MAX] {
        let error = staging.chunk(offset, 1).err();
        assert_eq!(error, Some(StagingError::Misaligned(offset)));
    }
}

/// Both ends as channels of messages.
fn channels(limit: usize) -> (ring::Channel, ring::Channel) {
    let (manager, client) = pair(&layout());
    let channel = |end| {
        let mut channel = ring::Channel::new(end, limit);
        channel.set_patience(Some(LONG));
        channel.set_stall(LONG);
        channel
    };
    (channel(manager), channel(client))
}

#[test]
fn messages_may_be_larger_than_the_ring() {
    let (mut manager, mut client) = channels(100_000);
    // A frame has 4088 bytes, and the first 8 bytes less for the message.
    let lengths = [
        0, 1, 8, 4079, 4080, 4081, 4088, 8168, 8169, 8192, 50_000, 100_000,
    ];
    let echo = thread::spawn(move || {
        let mut message = Vec::new();
        for _ in lengths {
            manager.receive(&mut message).unwrap();
            let (one, two) = message.split_at(message.len() / 3);
            manager.send(&[two, &[], one]).unwrap();
        }
        manager
    });
    let mut answer = Vec::new();
    for length in lengths {
        let sent: Vec<u8> = (0..length).map(|at| (at * 7 / 5) as u8).collect();
        let (one, two) = sent.split_at(length / 3);
        client.send(&[one, two]).unwrap();
        client.receive(&mut answer).unwrap();
        assert_eq!(answer, [two, one].concat(), "{length} bytes");
    }
    let limit = 100_000;
    assert_eq!(
        client.send(&[&vec![0; limit], b"x"]),
        Err(Error::TooLarge {
            size: limit + 1,
            limit
        })
    );
    client.send(&[b"still works"]).unwrap();
    drop(echo.join().unwrap());
}

/// Whoever leaves something undone as long as messages come does it before it waits: also
/// for the rest of a message.
#[test]
fn who_waits_is_told_before() {
    let (mut manager, mut client) = channels(100_000);
    let mut message = Vec::new();
    let mut receive = |manager: &mut ring::Channel| {
        let mut waits = 0;
        manager
            .receive_with(&mut message, &mut || waits += 1)
            .unwrap();
        (message.len(), waits)
    };
    client.send(&[b"one"]).unwrap();
    client.send(&[b"three"]).unwrap();
    assert_eq!(receive(&mut manager), (3, 0));
    assert_eq!(receive(&mut manager), (5, 0));
    // More than the ring holds.
    let sender = thread::spawn(move || {
        client.send(&[&vec![7; 50_000]]).unwrap();
        thread::sleep(Duration::from_millis(50));
        client.send(&[b"later"]).unwrap();
        client
    });
    thread::sleep(Duration::from_millis(20));
    let (length, waits) = receive(&mut manager);
    assert_eq!(length, 50_000);
    assert!(waits > 0);
    assert_eq!(receive(&mut manager), (5, 1));
    drop(sender.join().unwrap());
}

#[test]
fn messages_that_are_none_are_named() {
    let announced = |length: u64, more: &[u8]| [&length.to_le_bytes()[..], more].concat();
    let limit = 1000;
    // What a peer sends as frames, and what the channel says.
    let receives = |frames: &[&[u8]]| {
        let (manager, mut client) = pair(&layout());
        let mut manager = ring::Channel::new(manager, limit);
        manager.set_patience(Some(SHORT));
        manager.set_stall(SHORT);
        for frame in frames {
            client.sender.send(frame, None).unwrap();
        }
        let mut message = Vec::new();
        let result = manager.receive(&mut message);
        if result.is_err() && result != Err(Error::TimedOut(SHORT)) {
            client.sender.send(&announced(0, &[]), None).unwrap();
            assert_eq!(manager.receive(&mut message), result, "it stays broken");
        }
        result.map(|()| message)
    };
    let part = |got, missing| Err(Error::Part { got, missing });
    assert_eq!(receives(&[&announced(3, b"abc")]), Ok(b"abc".to_vec()));
    assert_eq!(
        receives(&[&announced(5, b"ab"), b"c", b"de"]),
        Ok(b"abcde".to_vec())
    );
    assert_eq!(receives(&[]), Err(Error::TimedOut(SHORT)));
    let half = receives(&[&announced(5, b"ab")]);
    assert!(matches!(half, Err(Error::TimedOut(_))), "{half:?}");
    assert_eq!(receives(&[b"1234567"]), part(7, 8));
    assert_eq!(receives(&[&announced(3, b"abcd")]), part(4, 3));
    assert_eq!(receives(&[&announced(5, b"ab"), b"cdef"]), part(4, 3));
    assert_eq!(receives(&[&announced(5, b"ab"), b"c", b""]), part(0, 2));
    for length in [limit as u64 + 1, u64::MAX] {
        let too_large = Err(Error::Message { length, limit });
        assert_eq!(receives(&[&announced(length, b"")]), too_large);
    }
}

#[test]
fn a_peer_that_stalls_ends_the_channel_and_one_that_is_silent_does_not() {
    let (manager, mut client) = pair(&layout());
    let mut manager = ring::Channel::new(manager, 100_000);
    manager.set_patience(Some(SHORT));
    manager.set_stall(SHORT);
    let mut message = Vec::new();
    let silent = Err(Error::TimedOut(SHORT));
    assert_eq!(manager.receive(&mut message), silent);
    client.sender.send(&3u64.to_le_bytes(), None).unwrap();
    client.sender.send(b"abc", None).unwrap();
    assert_eq!(manager.receive(&mut message), Ok(()));
    assert_eq!(message, b"abc");

    // Half of a message, and then nothing: the rest is never taken for another.
    client.sender.send(&3u64.to_le_bytes(), None).unwrap();
    let stalled = manager.receive(&mut message).unwrap_err();
    assert!(matches!(stalled, Error::TimedOut(_)));
    client.sender.send(b"abc", None).unwrap();
    assert_eq!(manager.receive(&mut message), Err(stalled));

    // Nobody takes the second half of what is sent.
    let (manager, _client) = pair(&layout());
    let mut manager = ring::Channel::new(manager, 100_000);
    manager.set_stall(SHORT);
    let stalled = manager.send(&[&[1; 50_000]]).unwrap_err();
    assert!(matches!(stalled, Error::TimedOut(_)));
    assert_eq!(manager.send(&[b"x"]), Err(stalled));
}
