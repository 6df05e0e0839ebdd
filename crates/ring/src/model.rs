//! The rings and the bells under loom: the code of `frames.rs` and `bell.rs`
//! itself, over loom's atomics, in every order that few preemptions make, and
//! with every value that the memory model allows a load to return. A sleep that
//! nobody ends is a deadlock, which loom reports.

use crate::bell::{self, ASLEEP, Bell, Slept};
use crate::frames::{Area, Cell, Consumer, Producer, Progress};
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

impl Cell for AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }

    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }
}

/// A bell, and the kernel's queue of those that sleep on it.
struct Queue {
    word: AtomicU32,
    /// The lock under which the kernel compares the word and queues.
    lock: Mutex<()>,
    asleep: Condvar,
}

/// One side's use of a bell; a fence can be left out.
struct Side<'q> {
    queue: &'q Queue,
    fenced: bool,
}

impl Bell for Side<'_> {
    type Time = ();

    fn load(&self) -> u32 {
        self.queue.word.load(Ordering::Relaxed)
    }

    fn store(&self, value: u32) {
        self.queue.word.store(value, Ordering::Relaxed);
    }

    fn fence(&self) {
        if self.fenced {
            fence(Ordering::SeqCst);
        }
    }

    fn sleep(&self, (): ()) -> Slept {
        let lock = self.queue.lock.lock().unwrap();
        if self.load() == ASLEEP {
            drop(self.queue.asleep.wait(lock).unwrap());
        }
        Slept::Woken
    }

    fn wake(&self) {
        let lock = self.queue.lock.lock().unwrap();
        self.queue.asleep.notify_one();
        drop(lock);
    }
}

struct Memory {
    tail: AtomicU64,
    head: AtomicU64,
    data: Vec<AtomicU64>,
    data_bell: Queue,
    room_bell: Queue,
}

impl Memory {
    fn new(words: usize) -> Arc<Memory> {
        let queue = || Queue {
            word: AtomicU32::new(0),
            lock: Mutex::new(()),
            asleep: Condvar::new(),
        };
        Arc::new(Memory {
            tail: AtomicU64::new(0),
            head: AtomicU64::new(0),
            data: (0..words).map(|_| AtomicU64::new(0)).collect(),
            data_bell: queue(),
            room_bell: queue(),
        })
    }
}

impl Area for Arc<Memory> {
    type Cell = AtomicU64;

    fn tail(&self) -> &AtomicU64 {
        &self.tail
    }

    fn head(&self) -> &AtomicU64 {
        &self.head
    }

    fn data(&self) -> &[AtomicU64] {
        &self.data
    }
}

/// Which fences are there.
#[derive(Clone, Copy)]
struct Fences {
    sleeper: bool,
    ringer: bool,
}

const BOTH: Fences = Fences {
    sleeper: true,
    ringer: true,
};

/// Sleeps until there is what is waited for.
fn wait(queue: &Queue, fences: Fences, mut ready: impl FnMut() -> Progress) {
    let side = Side {
        queue,
        fenced: fences.sleeper,
    };
    let mut ready = || Ok::<_, ()>((ready() == Progress::Ready).then_some(()));
    while bell::sleep(&side, (), &mut ready).unwrap().is_err() {}
}

fn ring(queue: &Queue, fences: Fences) {
    bell::ring(&Side {
        queue,
        fenced: fences.ringer,
    });
}

/// Sends frames of the given bytes through a ring of so many words, both sides
/// sleeping at once where they would wait.
fn exchange(words: usize, frames: &'static [&'static [u8]], fences: Fences) {
    let memory = Memory::new(words);
    let theirs = Arc::clone(&memory);
    let sender = thread::spawn(move || {
        let mut producer = Producer::new(Arc::clone(&theirs));
        for frame in frames {
            while !producer.try_push(&[frame]).unwrap() {
                wait(&theirs.room_bell, fences, || {
                    producer.room(frame.len()).unwrap()
                });
            }
            ring(&theirs.data_bell, fences);
        }
    });
    let mut consumer = Consumer::new(Arc::clone(&memory));
    let mut frame = Vec::new();
    for expected in frames {
        while !consumer.try_pop(&mut frame, 0).unwrap() {
            wait(&memory.data_bell, fences, || consumer.ready().unwrap());
        }
        ring(&memory.room_bell, fences);
        assert_eq!(frame, *expected);
    }
    assert!(!consumer.try_pop(&mut frame, 0).unwrap());
    sender.join().unwrap();
}

fn check(preemptions: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(scenario);
}

#[test]
fn frames_arrive_whole_and_no_wake_up_is_lost() {
    check(3, || exchange(4, &[b"a", b"bcdefghi"], BOTH));
}

#[test]
fn a_full_ring_holds_the_sender_up_and_wakes_it() {
    check(3, || exchange(2, &[b"", b"", b""], BOTH));
}

/// A queue of the kernel that only notes what happens: who sleeps goes on, and
/// it is judged at the end whether it would have been woken.
#[derive(Default)]
struct Noted {
    asleep: bool,
    woken: bool,
}

struct OneSleep<'n> {
    word: &'n AtomicU32,
    noted: &'n Mutex<Noted>,
    fenced: bool,
    /// This side sleeps: it stores nothing any more.
    sleeps: std::cell::Cell<bool>,
}

impl Bell for OneSleep<'_> {
    type Time = ();

    fn load(&self) -> u32 {
        self.word.load(Ordering::Relaxed)
    }

    fn store(&self, value: u32) {
        if !self.sleeps.get() {
            self.word.store(value, Ordering::Relaxed);
        }
    }

    fn fence(&self) {
        if self.fenced {
            fence(Ordering::SeqCst);
        }
    }

    fn sleep(&self, (): ()) -> Slept {
        let mut noted = self.noted.lock().unwrap();
        noted.asleep = self.load() == ASLEEP;
        self.sleeps.set(noted.asleep);
        Slept::Woken
    }

    fn wake(&self) {
        let mut noted = self.noted.lock().unwrap();
        noted.woken |= noted.asleep;
    }
}

/// One frame, sent while the receiver goes to sleep.
fn one_wake_up(fences: Fences) {
    let memory = Memory::new(2);
    let bell = Arc::new((AtomicU32::new(0), Mutex::new(Noted::default())));
    let (theirs, their_bell) = (Arc::clone(&memory), Arc::clone(&bell));
    let sender = thread::spawn(move || {
        assert_eq!(Producer::new(theirs).try_push(&[]), Ok(true));
        bell::ring(&OneSleep {
            word: &their_bell.0,
            noted: &their_bell.1,
            fenced: fences.ringer,
            sleeps: false.into(),
        });
    });
    let mut consumer = Consumer::new(memory);
    let side = OneSleep {
        word: &bell.0,
        noted: &bell.1,
        fenced: fences.sleeper,
        sleeps: false.into(),
    };
    let ready = || Ok::<_, ()>((consumer.ready().unwrap() == Progress::Ready).then_some(()));
    // Whatever it says: the sleep was not a real one.
    let _ = bell::sleep(&side, (), ready).unwrap();
    sender.join().unwrap();
    let noted = bell.1.lock().unwrap();
    let lost = noted.asleep && !noted.woken;
    drop(noted);
    assert!(!lost, "a wake-up is lost");
}

#[test]
fn a_side_that_goes_to_sleep_is_woken() {
    check(3, || one_wake_up(BOTH));
}

/// Whether loom finds a wake-up that is lost.
fn loses(fences: Fences) -> bool {
    std::panic::catch_unwind(|| check(3, move || one_wake_up(fences))).is_err()
}

#[test]
fn each_fence_is_needed() {
    assert!(loses(Fences {
        sleeper: false,
        ..BOTH
    }));
    assert!(loses(Fences {
        ringer: false,
        ..BOTH
    }));
}
