//! A model of the device heap's records (`device/records.cuh`, and the scanner
//! in `device/heap_guard.cuh`; `docs/watch-records.md` says why it holds): the
//! same steps in the same order on the host, where loom runs them in every
//! order that a bounded number of preemptions gives, and with every value that
//! the memory model allows a load to return. A `__threadfence` is a fence here
//! and every other access is relaxed, even to data that a lock protects:
//! without the fences that order it, loom finds a load that returns a stale
//! value.
//!
//! The functions have the names of the device functions, and a test compares
//! the steps of each with the device's source.

use crate::steps::Source;
use loom::sync::Arc;
use loom::sync::atomic::Ordering::{AcqRel, Relaxed};
use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
use loom::thread;

/// Two segments: small enough for an exhaustive search.
const SEGMENT: u32 = 2;
const SLOTS: u32 = 2 * SEGMENT;
const EMPTY: u32 = 0;
const EXPIRED: u32 = 1;
/// The least handle.
const FIRST_HANDLE: u32 = 2;

const LIVE: u32 = 1;
const FREED: u32 = 2;
const FREEING: u32 = 3;

/// What `free` adds to a block's canary.
const FREE_KEY: u32 = 1 << 16;
/// Slots that the scanner keeps open: a fifth of them.
const WANTED: i32 = SLOTS.div_ceil(5) as i32;

struct Block {
    state: AtomicU32,
    /// Canaries and header: written by the thread that allocates, marked by the
    /// one that frees, read by the one that scans.
    content: AtomicU32,
    /// How often the scanner gave it back.
    given_back: AtomicU32,
}

struct Ring {
    word: AtomicU64,
    lock: AtomicU32,
    /// Only the holder of the lock touches it.
    first: AtomicU32,
    slots: Vec<AtomicU32>,
    blocks: Vec<Block>,
}

fn limit(word: u64) -> u32 {
    word as u32
}

fn handed_out(word: u64) -> u32 {
    (word >> 32) as u32
}

fn room(word: u64) -> i32 {
    limit(word).wrapping_sub(handed_out(word)) as i32
}

impl Ring {
    /// A ring whose numbers start at `start`: they wrap around.
    fn new(blocks: usize, start: u32) -> Arc<Ring> {
        let word = u64::from(start) << 32 | u64::from(start.wrapping_add(SLOTS));
        Arc::new(Ring {
            word: AtomicU64::new(word),
            lock: AtomicU32::new(0),
            first: AtomicU32::new(start),
            slots: (0..SLOTS).map(|_| AtomicU32::new(EMPTY)).collect(),
            blocks: (0..blocks)
                .map(|_| Block {
                    state: AtomicU32::new(0),
                    content: AtomicU32::new(0),
                    given_back: AtomicU32::new(0),
                })
                .collect(),
        })
    }

    fn slot(&self, number: u32) -> &AtomicU32 {
        &self.slots[(number % SLOTS) as usize]
    }

    fn block(&self, handle: u32) -> &Block {
        &self.blocks[(handle - FIRST_HANDLE) as usize]
    }

    /// `reserve`, for one.
    fn reserve(&self) -> Option<u32> {
        if room(self.word.load(Relaxed)) <= 0 {
            return None;
        }
        let word = self.word.fetch_add(1 << 32, Relaxed);
        (room(word) > 0).then(|| handed_out(word))
    }

    /// A slot. A thread that gets none does the scanner's work.
    fn reserve_slot(&self) -> u32 {
        loop {
            match self.reserve() {
                Some(number) => return number,
                None if self.scan() => {}
                None => thread::yield_now(),
            }
        }
    }

    fn publish(&self, number: u32, handle: u32) {
        self.slot(number).store(handle, Relaxed);
    }

    /// Slot, block, fence, record.
    fn malloc(&self, block: u32) {
        let handle = FIRST_HANDLE + block;
        let number = self.reserve_slot();
        let block = self.block(handle);
        block.content.store(handle, Relaxed);
        block.state.store(LIVE, Relaxed);
        fence(AcqRel);
        self.publish(number, handle);
    }

    /// Whether this thread was the one that freed it.
    fn free(&self, block: u32) -> bool {
        let block = self.block(FIRST_HANDLE + block);
        if block.state.load(Relaxed) != LIVE
            || block
                .state
                .compare_exchange(LIVE, FREEING, Relaxed, Relaxed)
                .is_err()
        {
            return false;
        }
        block.content.fetch_xor(FREE_KEY, Relaxed);
        fence(AcqRel);
        block.state.store(FREED, Relaxed);
        true
    }

    fn lock(&self) -> bool {
        if self.lock.load(Relaxed) != 0
            || self.lock.compare_exchange(0, 1, Relaxed, Relaxed).is_err()
        {
            return false;
        }
        fence(AcqRel);
        true
    }

    fn unlock(&self) {
        fence(AcqRel);
        self.lock.store(0, Relaxed);
    }

    /// A pass of the scanner: verifies every record and releases what was
    /// freed. Returns whether no other scanner was running.
    fn scan(&self) -> bool {
        if !self.lock() {
            return false;
        }
        let (mut first, end) = (self.first.load(Relaxed), self.end());
        let mut number = first;
        while number != end {
            let length = end.wrapping_sub(number).min(SEGMENT);
            let mut expired = true;
            for i in 0..length {
                expired &= self.scan_slot(number.wrapping_add(i));
            }
            if expired && length == SEGMENT && number == first {
                self.recycle();
                first = first.wrapping_add(SEGMENT);
            }
            number = number.wrapping_add(length);
        }
        self.make_slots();
        self.unlock();
        true
    }

    fn make_slots(&self) {
        for _ in 0..8 {
            if room(self.word.load(Relaxed)) >= WANTED || !self.compact() {
                break;
            }
        }
    }

    fn end(&self) -> u32 {
        let word = self.word.load(Relaxed);
        if room(word) < 0 {
            limit(word)
        } else {
            handed_out(word)
        }
    }

    fn scan_slot(&self, number: u32) -> bool {
        let slot = self.slot(number);
        let handle = slot.load(Relaxed);
        if handle == EXPIRED {
            return true;
        }
        if handle == EMPTY {
            return false;
        }
        fence(AcqRel);
        if !self.verify(handle) {
            return false;
        }
        slot.store(EXPIRED, Relaxed);
        self.block(handle).given_back.fetch_add(1, Relaxed);
        true
    }

    /// Whether the block was freed.
    fn verify(&self, handle: u32) -> bool {
        let block = self.block(handle);
        let state = block.state.load(Relaxed);
        assert_ne!(state, 0, "a record of a block that does not exist");
        fence(AcqRel);
        let content = block.content.load(Relaxed);
        assert_eq!(
            content & !FREE_KEY,
            handle,
            "a block read before it was whole"
        );
        assert!(
            state != FREED || content & FREE_KEY != 0,
            "a block that is freed, and its canary does not say so"
        );
        state == FREED
    }

    fn recycle(&self) {
        let first = self.first.load(Relaxed);
        for i in 0..SEGMENT {
            self.slot(first.wrapping_add(i)).store(EMPTY, Relaxed);
        }
        let first = first.wrapping_add(SEGMENT);
        self.first.store(first, Relaxed);
        fence(AcqRel);
        let end = first.wrapping_add(SLOTS);
        let mut word = self.word.load(Relaxed);
        loop {
            let taken = if room(word) < 0 {
                limit(word)
            } else {
                handed_out(word)
            };
            let next = u64::from(taken) << 32 | u64::from(end);
            match self.word.compare_exchange(word, next, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    fn compact(&self) -> bool {
        let (first, end) = (self.first.load(Relaxed), self.end());
        if end.wrapping_sub(first) < 2 * SEGMENT {
            return false;
        }
        let mut hole = first.wrapping_add(SEGMENT);
        for i in 0..SEGMENT {
            let from = self.slot(first.wrapping_add(i));
            let handle = from.load(Relaxed);
            if handle == EXPIRED {
                continue;
            }
            if handle == EMPTY {
                return false;
            }
            while hole != end && self.slot(hole).load(Relaxed) != EXPIRED {
                hole = hole.wrapping_add(1);
            }
            if hole == end {
                return false;
            }
            self.slot(hole).store(handle, Relaxed);
            from.store(EXPIRED, Relaxed);
        }
        self.recycle();
        true
    }

    /// What is recorded, when all threads have ended.
    fn records(&self) -> Vec<u32> {
        let (first, end) = (self.first.load(Relaxed), self.end());
        let mut handles = Vec::new();
        let mut number = first;
        while number != end {
            let handle = self.slot(number).load(Relaxed);
            assert_ne!(handle, EMPTY, "a slot handed out and never written");
            if handle != EXPIRED {
                handles.push(handle - FIRST_HANDLE);
            }
            number = number.wrapping_add(1);
        }
        handles.sort_unstable();
        handles
    }

    fn given_back(&self, block: u32) -> u32 {
        self.block(FIRST_HANDLE + block).given_back.load(Relaxed)
    }
}

/// How the device's source writes the steps of the protocol.
const DEVICE_STEPS: &[(&str, &str)] = &[
    ("load(&ring->word)", "load word"),
    ("atomicAdd(&ring->word,", "add to word"),
    ("atomicCAS(&ring->word,", "swap word"),
    ("load(&ring->lock)", "load lock"),
    ("atomicCAS(&ring->lock,", "swap lock"),
    ("store(&ring->lock,", "store lock"),
    ("load(&ring->first)", "load first"),
    ("store(&ring->first,", "store first"),
    ("load(slot(", "load slot"),
    ("load(place)", "load slot"),
    ("load(from)", "load slot"),
    ("store(slot(", "store slot"),
    ("store(place,", "store slot"),
    ("store(from,", "store slot"),
    ("load(&head->word)", "load state"),
    ("atomicCAS(&head->word,", "swap state"),
    ("store(&head->word,", "store state"),
    ("head[0]=", "store state"),
    ("place_canaries(", "store content"),
    ("atomicXor((u64*)(base-HEAD)", "change content"),
    ("word_at(", "load content"),
    ("__threadfence()", "fence"),
    ("reserve(", "reserve"),
    ("reserve_slot(", "reserve slot"),
    ("publish(", "publish"),
    ("lock(", "lock"),
    ("unlock(", "unlock"),
    ("end_of(", "end"),
    ("scan_slot(", "scan slot"),
    ("make_slots(", "make slots"),
    ("__ringfence_heap_scan(", "scan"),
    ("__ringfence_heap_verify(", "verify"),
    ("__ringfence_records_recycle(", "recycle"),
    ("__ringfence_records_compact(", "compact"),
    // In `free`, only without a guard.
    ("else __ringfence_heap_hold(", ""),
    ("__ringfence_heap_hold(", "give back"),
    // The model scans whole rings, of one length.
    ("load(&ring->cursor)", ""),
    ("store(&ring->cursor,", ""),
    ("load(&WATCH->slots)", ""),
    // Whether a scan is worth while, and what reports say.
    ("load(&WATCH->freed)", ""),
    ("store(&WATCH->freed,", ""),
    ("load(&CHUNK[chunk].", ""),
    ("load(&head->allocated", ""),
    ("store(&head->allocated_launch,", ""),
    ("store(&head->freed", ""),
    ("load((u64*)RF_MISS_SIZE)", ""),
];

/// How this file writes them.
const MODEL_STEPS: &[(&str, &str)] = &[
    ("self.word.load(", "load word"),
    ("self.word.fetch_add(", "add to word"),
    ("self.word.compare_exchange(", "swap word"),
    ("self.lock.load(", "load lock"),
    ("self.lock.compare_exchange(", "swap lock"),
    ("self.lock.store(", "store lock"),
    ("self.first.load(", "load first"),
    ("self.first.store(", "store first"),
    ("self.slot(hole).load(", "load slot"),
    ("slot.load(", "load slot"),
    ("from.load(", "load slot"),
    ("self.slot(number).store(", "store slot"),
    ("self.slot(hole).store(", "store slot"),
    ("self.slot(first.wrapping_add(i)).store(", "store slot"),
    ("slot.store(", "store slot"),
    ("from.store(", "store slot"),
    ("block.state.load(", "load state"),
    ("block.state.compare_exchange(", "swap state"),
    ("block.state.store(", "store state"),
    ("block.content.store(", "store content"),
    ("block.content.fetch_xor(", "change content"),
    ("block.content.load(", "load content"),
    ("fence(AcqRel)", "fence"),
    ("self.reserve()", "reserve"),
    ("self.reserve_slot()", "reserve slot"),
    ("self.publish(", "publish"),
    ("self.lock()", "lock"),
    ("self.unlock()", "unlock"),
    ("self.end()", "end"),
    ("self.scan_slot(", "scan slot"),
    ("self.make_slots()", "make slots"),
    ("self.scan()", "scan"),
    ("self.verify(", "verify"),
    ("self.recycle()", "recycle"),
    ("self.compact()", "compact"),
    ("self.block(handle).given_back.fetch_add(", "give back"),
];

/// The device's functions, each beside the model's: the same steps in the same
/// order.
#[test]
fn the_model_takes_the_steps_of_the_device() {
    let text = [
        include_str!("../../../device/heap.cu"),
        include_str!("../../../device/records.cuh"),
        include_str!("../../../device/heap_guard.cuh"),
    ]
    .concat();
    let device = Source {
        text: &text,
        keyword: "",
        operations: &["load(", "store(", "atomic", "__threadfence", "word_at("],
        steps: DEVICE_STEPS,
    };
    let model = Source {
        text: include_str!("records.rs"),
        keyword: "fn ",
        operations: &[
            ".load(",
            ".store(",
            ".fetch_",
            ".compare_exchange(",
            ".swap(",
            "fence(",
        ],
        steps: MODEL_STEPS,
    };
    for (theirs, ours) in [
        ("reserve", "reserve"),
        ("publish", "publish"),
        ("lock", "lock"),
        ("unlock", "unlock"),
        ("end_of", "end"),
        ("__ringfence_records_recycle", "recycle"),
        ("__ringfence_records_compact", "compact"),
        ("make_slots", "make_slots"),
        ("__ringfence_heap_verify", "verify"),
        ("scan_slot", "scan_slot"),
        ("__ringfence_heap_scan", "scan"),
        ("reserve_slot", "reserve_slot"),
        ("__ringfence_malloc", "malloc"),
        ("__ringfence_free", "free"),
    ] {
        assert_eq!(model.steps_of(ours), device.steps_of(theirs), "{ours}");
    }
}

/// Runs a scenario in every order with a limited number of preemptions.
fn check(preemptions: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(scenario);
}

#[test]
fn a_record_is_seen_whole_and_stays_until_its_block_is_freed() {
    check(3, || {
        let ring = Ring::new(2, 0);
        let inserters: Vec<_> = (0..2)
            .map(|block| {
                let ring = ring.clone();
                thread::spawn(move || ring.malloc(block))
            })
            .collect();
        ring.scan();
        for inserter in inserters {
            inserter.join().unwrap();
        }
        ring.scan();
        assert_eq!(ring.records(), [0, 1]);
        assert_eq!((ring.given_back(0), ring.given_back(1)), (0, 0));
    });
}

#[test]
fn a_block_is_freed_once_and_given_back_once() {
    check(3, || {
        let ring = Ring::new(1, 0);
        ring.malloc(0);
        let frees: Vec<_> = (0..2)
            .map(|_| {
                let ring = ring.clone();
                thread::spawn(move || ring.free(0))
            })
            .collect();
        ring.scan();
        let freed = frees
            .into_iter()
            .map(|free| u32::from(free.join().unwrap()))
            .sum::<u32>();
        assert_eq!(freed, 1, "a double free was missed, or counted twice");
        ring.scan();
        assert_eq!(ring.given_back(0), 1);
        assert_eq!(ring.records(), []);
    });
}

/// Numbers wrap around; there are two segments, and the first was freed. The
/// last thread finds no slot; it reclaims the first segment, or waits for the
/// thread that does.
#[test]
fn slots_are_taken_back_while_others_are_handed_out() {
    check(2, || {
        let ring = Ring::new(5, u32::MAX - 2 * SEGMENT + 1);
        for block in 0..3 {
            ring.malloc(block);
        }
        ring.free(0);
        ring.free(1);
        let inserters: Vec<_> = (3..5)
            .map(|block| {
                let ring = ring.clone();
                thread::spawn(move || ring.malloc(block))
            })
            .collect();
        ring.scan();
        for inserter in inserters {
            inserter.join().unwrap();
        }
        ring.scan();
        assert_eq!(ring.records(), [2, 3, 4]);
        assert_eq!((ring.given_back(0), ring.given_back(1)), (1, 1));
    });
}

/// The first segment holds a record that lives, a later one a hole: the record
/// moves, while its block is freed and another is recorded.
#[test]
fn a_record_that_moves_is_neither_lost_nor_there_twice() {
    check(2, || {
        let ring = Ring::new(5, 0);
        for block in 0..4 {
            ring.malloc(block);
        }
        ring.free(0);
        ring.free(2);
        let inserter = {
            let ring = ring.clone();
            thread::spawn(move || ring.malloc(4))
        };
        let free = {
            let ring = ring.clone();
            thread::spawn(move || assert!(ring.free(1)))
        };
        ring.scan();
        inserter.join().unwrap();
        free.join().unwrap();
        ring.scan();
        assert_eq!(ring.records(), [3, 4]);
        let given_back: Vec<u32> = (0..5).map(|block| ring.given_back(block)).collect();
        assert_eq!(given_back, [1, 1, 1, 0, 0]);
    });
}

/// Two scanners, neither of which waits: a thread that is short of slots, and
/// the guard.
#[test]
fn two_scanners_do_not_disturb_each_other() {
    check(3, || {
        let ring = Ring::new(3, 0);
        for block in 0..2 {
            ring.malloc(block);
            ring.free(block);
        }
        let other = {
            let ring = ring.clone();
            thread::spawn(move || {
                ring.scan();
                ring.malloc(2);
            })
        };
        ring.scan();
        other.join().unwrap();
        ring.scan();
        assert_eq!(ring.records(), [2]);
        assert_eq!((ring.given_back(0), ring.given_back(1)), (1, 1));
    });
}
