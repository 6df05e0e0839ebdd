//! The protocol of host and guard, run in every order that the memory model
//! allows: the host's half is the code of this module, the guard's is
//! `device/guard.cu` written over again, round by round. A test compares the
//! steps of each function with the device's source.
//!
//! Memory of the program is a flag that says whether it was given back; a
//! guard that reads it after that has broken the protocol. Who gives it back
//! does so as `device/canary.cu` retires a record.

use self::steps::Source;
use super::machine::{Machine, State};
use super::words::{Words, stop};
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;
use model::layout::guard::{ENDED, STOP};

#[path = "../../../heap/src/steps.rs"]
mod steps;

/// Everything that the parties share.
struct World {
    stop: AtomicU64,
    ended: AtomicU64,
    /// The table of canaries: one record, there or not.
    record: AtomicBool,
    /// Warps that read what the record names.
    pins: AtomicU32,
    /// The buffer that it stands for was given back to the device.
    given_back: AtomicBool,
    machine: Mutex<Machine>,
    /// The program's stray write, and whether the guard has seen it.
    written: AtomicBool,
    seen: AtomicBool,
}

impl Words for World {
    fn load(&self, offset: u64) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    fn store(&self, offset: u64, value: u64) {
        self.word(offset).store(value, Ordering::Release);
    }
}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World {
            stop: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            record: AtomicBool::new(true),
            pins: AtomicU32::new(0),
            given_back: AtomicBool::new(false),
            machine: Mutex::new(Machine::default()),
            written: AtomicBool::new(false),
            seen: AtomicBool::new(false),
        })
    }

    fn word(&self, offset: u64) -> &AtomicU64 {
        match offset {
            STOP => &self.stop,
            ENDED => &self.ended,
            _ => unreachable!("not in the model"),
        }
    }

    /// `__ringfence_guard`, with at most so many rounds as its time. `fences`:
    /// as it is.
    fn guard(&self, slice: u64, rounds: u32, fences: bool) {
        for round in 1.. {
            let last = self.stop.load(Ordering::Relaxed) >= slice || round >= rounds;
            if fences {
                fence(Ordering::SeqCst);
            }
            self.walk(fences);
            if last {
                break;
            }
            thread::yield_now();
        }
        fence(Ordering::SeqCst);
        self.ended.store(slice, Ordering::Relaxed);
    }

    /// One walk over the table.
    fn walk(&self, fences: bool) {
        self.pins.fetch_add(1, Ordering::Relaxed);
        if fences {
            fence(Ordering::SeqCst);
        }
        self.verify();
        if fences {
            fence(Ordering::SeqCst);
        }
        self.pins.fetch_sub(1, Ordering::Relaxed);
    }

    /// Reads the record, and what it names.
    fn verify(&self) {
        let relaxed = Ordering::Relaxed;
        if self.record.load(relaxed) {
            if self.written.load(relaxed) {
                self.seen.store(true, relaxed);
            }
            assert!(
                !self.given_back.load(relaxed),
                "the guard read memory that was given back"
            );
        }
    }

    fn ended(&self) -> u64 {
        self.load(ENDED)
    }

    /// `Watching::pause`.
    fn pause(&self) {
        let mut machine = self.machine.lock().expect("no thread panics");
        stop(self, machine.pause());
    }

    /// `Watching::start`: the number that was given out.
    fn start(&self) -> Option<u64> {
        let ended = self.ended();
        let mut machine = self.machine.lock().expect("no thread panics");
        machine.begin_slice(1, ended)
    }

    fn taken(&self) {
        let mut machine = self.machine.lock().expect("no thread panics");
        machine.slice_launched();
    }

    fn retire(&self) {
        self.record.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        while self.pins.load(Ordering::Relaxed) != 0 {
            thread::yield_now();
        }
    }

    /// The program frees the buffer: its record is retired first.
    fn free(&self) {
        self.retire();
        self.given_back.store(true, Ordering::Relaxed);
    }
}

/// How the device's sources write the steps of the protocol.
const DEVICE_STEPS: &[(&str, &str)] = &[
    ("host_word(lane<3?lane*8:0)", "load stop"),
    ("system_fence()", "fence"),
    ("full_fence()", "fence"),
    ("walk(round,", "walk"),
    ("tell_host(RF_ENDED,", "store ended"),
    ("atomicAdd(CANARY_PINS+slot,1)", "pin"),
    ("atomicSub(CANARY_PINS+slot,1)", "unpin"),
    ("verify_long(", "verify"),
    ("changed_slots(", "verify"),
    ("atomicExch((u64*)&CANARY_TABLE[slot].check,0ull)", "retire"),
    ("*(volatile u32*)(CANARY_PINS+slot)", "load pins"),
    // What reports say, and how often there was a round.
    ("host_word(RF_EPOCH)", ""),
    ("host_word(RF_FOUND)", ""),
    ("host_word(RF_VERIFIED)", ""),
    ("tell_host(RF_BEGUN,", ""),
    ("tell_host(RF_TIME,", ""),
    ("tell_host(RF_EPOCH,", ""),
    ("tell_host(RF_VERIFIED,", ""),
];

/// How this file writes them.
const MODEL_STEPS: &[(&str, &str)] = &[
    ("self.stop.load(", "load stop"),
    ("fence(Ordering::SeqCst)", "fence"),
    ("self.walk(", "walk"),
    ("self.ended.store(", "store ended"),
    ("self.pins.fetch_add(", "pin"),
    ("self.pins.fetch_sub(", "unpin"),
    ("self.verify()", "verify"),
    ("self.record.store(", "retire"),
    ("self.pins.load(", "load pins"),
];

#[test]
fn the_model_takes_the_steps_of_the_device() {
    let text = [
        include_str!("../../../../device/canary.cu"),
        include_str!("../../../../device/guard.cu"),
    ]
    .concat();
    let device = Source {
        text: &text,
        keyword: "",
        operations: &[
            "atomic",
            "volatile",
            "load_now(",
            "host_word(",
            "tell_host(",
            "asm",
            "__threadfence",
        ],
        steps: DEVICE_STEPS,
    };
    let model = Source {
        text: include_str!("model.rs"),
        keyword: "fn ",
        operations: &[".load(", ".store(", ".fetch_", ".swap(", "fence("],
        steps: MODEL_STEPS,
    };
    for (theirs, ours) in [
        ("__ringfence_guard", "guard"),
        ("walk", "walk"),
        ("retire", "retire"),
    ] {
        assert_eq!(model.steps_of(ours), device.steps_of(theirs), "{ours}");
    }
}

fn explore(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

#[test]
fn memory_is_given_back_only_when_the_guard_is_done_with_it() {
    explore(|| {
        let world = World::new();
        let slice = world.start().expect("it is off");
        let guard = {
            let world = world.clone();
            thread::spawn(move || world.guard(slice, 2, true))
        };
        world.taken();
        world.free();
        guard.join().expect("the guard keeps the protocol");
    });
}

#[test]
fn the_next_slice_does_not_read_what_the_one_before_let_go() {
    explore(|| {
        let world = World::new();
        let first = world.start().expect("it is off");
        world.taken();
        let device = {
            let world = world.clone();
            // In stream order, as the driver runs them.
            thread::spawn(move || {
                world.guard(first, 1, true);
                if let Some(second) = world.start() {
                    world.taken();
                    world.guard(second, 1, true);
                }
            })
        };
        world.free();
        device.join().expect("the guard keeps the protocol");
    });
}

#[test]
fn a_pause_ends_the_guard_even_while_another_thread_restarts_it() {
    explore(|| {
        let world = World::new();
        let restarter = {
            let world = world.clone();
            thread::spawn(move || {
                let slice = world.start();
                if let Some(slice) = slice {
                    world.taken();
                    // Without a stop it would go on for ever.
                    world.guard(slice, u32::MAX, true);
                }
            })
        };
        world.pause();
        // What waits for the whole device does this.
        restarter.join().expect("the guard keeps the protocol");
        let state = world.machine.lock().expect("free").state(world.ended());
        assert!(matches!(state, State::Off | State::Paused), "{state:?}");
        assert!(world.start().is_none(), "while a call pauses it");
        assert!(world.machine.lock().expect("free").resume());
        assert!(world.start().is_some());
    });
}

#[test]
fn what_was_written_before_a_pause_is_found_by_its_end() {
    explore(|| {
        let world = World::new();
        let slice = world.start().expect("it is off");
        let guard = {
            let world = world.clone();
            thread::spawn(move || world.guard(slice, u32::MAX, true))
        };
        world.taken();
        // The kernel has ended: the program's streams were waited for.
        world.written.store(true, Ordering::Relaxed);
        world.pause();
        guard.join().expect("the guard keeps the protocol");
        assert!(world.seen.load(Ordering::Relaxed));
    });
}

#[test]
fn the_model_sees_a_guard_that_forgets_its_fences() {
    let broken = std::panic::catch_unwind(|| {
        explore(|| {
            let world = World::new();
            let guard = {
                let world = world.clone();
                thread::spawn(move || world.guard(1, 1, false))
            };
            world.free();
            guard.join().expect("the guard keeps the protocol");
        });
    });
    assert!(broken.is_err());
}
