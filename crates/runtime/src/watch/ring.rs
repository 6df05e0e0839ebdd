//! The ring in which the guard leaves what it found (`model::layout::guard`).

use super::words::Words;
use model::layout::guard::{CONSUMED, FINDINGS, GUARD_FINDINGS, GuardFinding};

const SIZE: u64 = size_of::<GuardFinding>() as u64;

/// The finding of this number, from 1, if it is there.
pub(crate) fn read(words: &impl Words, number: u64) -> Option<GuardFinding> {
    let place = FINDINGS + (number - 1) % GUARD_FINDINGS * SIZE;
    // Loaded first: what was written before it is complete.
    if words.load(place) != number {
        return None;
    }
    let word = |index: u64| words.load(place + 8 * index);
    Some(GuardFinding {
        sequence: number,
        base: word(1),
        size: word(2),
        serial: word(3),
        side: word(4),
        lowest: word(5),
        highest: word(6),
        changed: word(7),
        content: [word(8), word(9)],
        time: word(10),
        epoch: word(11),
        reserved: [0; 4],
    })
}

/// Gives the guard the room of findings up to this number.
pub(crate) fn consumed(words: &impl Words, number: u64) {
    words.store(CONSUMED, number);
}

const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(GuardFinding, base) == 8);
    assert!(offset_of!(GuardFinding, content) == 64);
    assert!(offset_of!(GuardFinding, epoch) == 88);
};
