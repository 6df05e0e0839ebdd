//! Consumes the record ring.
//!
//! Protocol (`model::layout::Record`): the device takes a number, drops the
//! record if the ring is full, else fills the slot and stores `number + 1`
//! last. The host consumes slots in order. A number whose record was dropped
//! leaves its slot without the awaited sequence; a record being written looks
//! the same for a moment. They are distinguished by time: a slot that stays
//! unfilled for [`STUCK`], although the device has taken later numbers, is
//! skipped and counted as dropped. Only the thread whose turn it is consumes.

use crate::turn::Turn;
use driver::{Driver, HostMapping};
use model::DeviceAddress;
use model::layout::{RING_BASE, RING_CAPACITY, RING_HEAD, RING_RECORDS, RING_TAIL, Record};
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// How long a record may take from its number to its sequence.
const STUCK: Duration = Duration::from_millis(5);
/// Records consumed before the device is notified.
const PUBLISH: u64 = 512;
const RECORD_SIZE: u64 = size_of::<Record>() as u64;

#[derive(Clone, Copy, Debug, Default)]
struct State {
    consumed: u64,
    dropped: u64,
    /// The number that did not come, and since when.
    stuck: Option<(u64, Instant)>,
}

/// See the module's header.
#[derive(Default)]
pub(super) struct Drain {
    turn: Turn,
    state: Mutex<State>,
}

/// How a drain goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Come back later if another thread is at it.
    Glance,
    /// Wait for a thread that is at it.
    Wait,
    /// As `Wait`; no kernel runs any more, so what is missing was dropped.
    Last,
}

impl Drain {
    /// Records that the ring could not hold, as far as seen.
    pub fn dropped(&self) -> u64 {
        self.state.lock().dropped
    }

    /// Hands every complete record to `handle`, in order.
    pub fn run(
        &self,
        ring: HostMapping,
        driver: &dyn Driver,
        mode: Mode,
        mut handle: impl FnMut(&Record),
    ) {
        let turn = if mode == Mode::Glance {
            self.turn.try_take()
        } else {
            self.turn.take()
        };
        let Some(_turn) = turn else { return };
        // Only this thread changes the state now; the lock is for readers.
        let mut state = *self.state.lock();
        loop {
            let before = state.consumed;
            while let Some(record) = complete(ring, state.consumed) {
                handle(&record);
                state.consumed += 1;
                if state.consumed.is_multiple_of(PUBLISH) {
                    ring.store_u64_release(RING_TAIL - RING_BASE, state.consumed);
                }
            }
            if state.consumed != before {
                ring.store_u64_release(RING_TAIL - RING_BASE, state.consumed);
            }
            if !skip_dropped(&mut state, ring, driver, mode) {
                break;
            }
        }
        *self.state.lock() = state;
    }
}

fn complete(ring: HostMapping, number: u64) -> Option<Record> {
    let offset = RING_RECORDS - RING_BASE + (number % RING_CAPACITY) * RECORD_SIZE;
    ring.read_record(offset)
        .filter(|record| record.sequence == number + 1)
}

/// Moves past records that will never come. Returns whether it did.
fn skip_dropped(state: &mut State, ring: HostMapping, driver: &dyn Driver, mode: Mode) -> bool {
    // Before the ring was full once, nothing can have been dropped, and the
    // device need not be asked.
    if state.consumed < RING_CAPACITY {
        return false;
    }
    let mut head = [0; 8];
    if driver.read(DeviceAddress(RING_HEAD), &mut head).is_err() {
        // At exit the driver may be gone; what it has left is all we get.
        return false;
    }
    let head = u64::from_le_bytes(head);
    if head <= state.consumed {
        state.stuck = None;
        return false;
    }
    let since = match state.stuck {
        Some((number, since)) if number == state.consumed => since,
        _ => {
            let now = Instant::now();
            state.stuck = Some((state.consumed, now));
            now
        }
    };
    if mode != Mode::Last && since.elapsed() < STUCK {
        return false;
    }
    let next = (state.consumed..head.min(state.consumed + RING_CAPACITY))
        .find(|number| complete(ring, *number).is_some())
        .unwrap_or(head);
    state.dropped += next - state.consumed;
    state.consumed = next;
    state.stuck = None;
    ring.store_u64_release(RING_TAIL - RING_BASE, state.consumed);
    true
}
