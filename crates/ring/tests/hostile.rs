//! A peer that writes anything into the memory while the manager uses it.

mod support;

use ring::{Corrupt, Error, accept};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::{BELLS, LONG, Met, POSITIONS, REQUESTS, Vandal, endure, layout};

/// A manager's end and a vandal.
fn vandal(seed: u64) -> (ring::Endpoint, Vandal) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let client = thread::spawn(move || Vandal::connect(theirs, seed));
    let manager = accept(ours, &layout(), LONG).unwrap();
    (manager, client.join().unwrap())
}

#[test]
fn nothing_that_is_written_meanwhile_does_harm() {
    let start = Instant::now();
    let mut met = Met::default();
    while start.elapsed() < Duration::from_secs(3) || met.sessions < 20 {
        let (manager, mut vandal) = vandal(0x9e37_79b9 * (met.sessions + 1));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let writer = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                vandal.act();
            }
        });
        endure(manager, Duration::from_millis(200), &mut met);
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    }
    // Frames were read between the writes, and contradictions were found.
    assert!(met.frames > 0 && met.corrupt > 0, "{met:?}");
}

#[test]
fn what_was_copied_does_not_change() {
    let (mut manager, vandal) = vandal(1);
    vandal.write(REQUESTS, &3u64.to_le_bytes());
    vandal.write(REQUESTS + 8, b"abc");
    vandal.write(POSITIONS[0], &2u64.to_le_bytes());
    let mut frame = Vec::new();
    manager.receiver.receive(&mut frame, Some(LONG)).unwrap();
    vandal.write(REQUESTS + 8, b"xyz");
    assert_eq!(frame, b"abc");

    vandal.write(POSITIONS[0], &1u64.to_le_bytes());
    let corrupt = Error::Corrupt(Corrupt::Tail {
        tail: 1,
        last: 2,
        end: 1026,
    });
    let result = manager.receiver.receive(&mut frame, Some(LONG));
    assert_eq!(result, Err(corrupt));
    vandal.write(POSITIONS[0], &2u64.to_le_bytes());
    let result = manager.receiver.try_receive(&mut frame);
    assert_eq!(result, Err(corrupt));
}

/// Processor time of the calling thread.
fn used() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A peer that ends every sleep at once costs little: the waiting side sleeps
/// where it cannot be woken.
#[test]
fn bells_without_cause_do_not_keep_a_side_awake() {
    let (mut manager, vandal) = vandal(2);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let ringer = thread::spawn(move || {
        let mut rung = 0u64;
        while !stopped.load(Ordering::Relaxed) {
            vandal.write(BELLS[0], &(2 + rung as u32).to_le_bytes());
            rung += 1;
        }
        rung
    });
    let (start, before) = (Instant::now(), used());
    let mut frame = Vec::new();
    let time = Duration::from_secs(1);
    let late = manager.receiver.receive(&mut frame, Some(time));
    assert_eq!(late, Err(Error::TimedOut(time)));
    assert!(start.elapsed() >= time);
    let used = used() - before;
    stop.store(true, Ordering::Relaxed);
    assert!(ringer.join().unwrap() > 1000);
    assert!(used < time / 4, "{used:?} of {time:?} awake");
}

#[test]
fn bells_are_rung_only_for_those_who_sleep() {
    let (mut manager, vandal) = vandal(3);
    for value in [0u32, 2, u32::MAX] {
        vandal.write(BELLS[2], &value.to_le_bytes());
        manager.sender.try_send(b"frame").unwrap();
        assert_eq!(vandal.word(BELLS[2]) as u32, value);
    }
    vandal.write(BELLS[2], &1u32.to_le_bytes());
    manager.sender.try_send(b"frame").unwrap();
    assert_eq!(vandal.word(BELLS[2]) as u32, 0, "cleared, and woken");
}

/// Bytes that a file has memory for.
fn held(vandal: &Vandal) -> u64 {
    512 * rustix::fs::fstat(&vandal.file).unwrap().st_blocks as u64
}

/// A client that keeps the memory keeps none of the manager's.
#[test]
fn memory_goes_back_when_the_connection_ends() {
    let (whole, area) = (layout().size(), layout().staging());
    // The manager ends it: its last replies can be read.
    let (mut manager, vandal_1) = vandal(4);
    assert_eq!(held(&vandal_1), whole - area);
    manager.staging.allocate(0..area).unwrap();
    assert_eq!(held(&vandal_1), whole);
    manager.sender.try_send(b"the last reply").unwrap();
    drop(manager);
    assert_eq!(held(&vandal_1), whole - area);
    assert_eq!(vandal_1.word(2 * 4096 + 8192), 14);

    // The client ended it.
    let (manager, vandal_2) = vandal(5);
    vandal_2.socket.shutdown(std::net::Shutdown::Both).unwrap();
    drop(manager);
    assert_eq!(held(&vandal_2), 0);

    // The client broke it.
    let (mut manager, vandal_3) = vandal(6);
    vandal_3.write(POSITIONS[0], &u64::MAX.to_le_bytes());
    assert!(manager.receiver.try_receive(&mut Vec::new()).is_err());
    drop(manager);
    assert_eq!(held(&vandal_3), 0);
}
