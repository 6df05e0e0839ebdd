//! Any content of a ring, changed between any calls of either side: a frame
//! within the limit, nothing, or an error that stays; no panic, no endless
//! loop. The input is a list of steps: a word is overwritten, a frame is sent,
//! frames are taken.
#![no_main]

use ring::frames::{Area, Consumer, Producer, PushError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of the ring.
const WORDS: usize = 32;

/// The words of the ring, then the positions of sender and receiver.
#[derive(Clone)]
struct Words(Arc<Vec<AtomicU64>>);

impl Area for Words {
    type Cell = AtomicU64;

    fn tail(&self) -> &AtomicU64 {
        &self.0[WORDS]
    }

    fn head(&self) -> &AtomicU64 {
        &self.0[WORDS + 1]
    }

    fn data(&self) -> &[AtomicU64] {
        &self.0[..WORDS]
    }
}

/// A step is nine bytes: what, and a number.
fn steps(bytes: &[u8]) -> impl Iterator<Item = (u8, u64)> {
    bytes.chunks_exact(9).map(|step| {
        let number = step[1..].try_into().map(u64::from_le_bytes);
        (step[0], number.unwrap_or(0))
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let words = Words(Arc::new((0..WORDS + 2).map(|_| AtomicU64::new(0)).collect()));
    let (mut sender, mut receiver) = (Producer::new(words.clone()), Consumer::new(words.clone()));
    let limit = receiver.max_frame();
    let mut frame = Vec::new();
    for (what, number) in steps(bytes) {
        match usize::from(what) {
            at @ 0..34 => words.0[at].store(number, Ordering::Relaxed),
            // A position moves by a little.
            at @ 34..36 => {
                let cell = &words.0[at - 2];
                let moved = cell.load(Ordering::Relaxed).wrapping_add(number % 16);
                cell.store(moved, Ordering::Relaxed);
            }
            36..128 => {
                let size = number as usize % (limit + 2);
                let sent = sender.try_push(&[&vec![what; size]]);
                let too_large = matches!(sent, Err(PushError::TooLarge { .. }));
                assert!(if size > limit { sent.is_err() } else { !too_large });
            }
            _ => {
                // Each frame takes at least a word of those that were published.
                for taken in 0.. {
                    assert!(taken <= WORDS);
                    match receiver.try_pop(&mut frame, 0) {
                        Ok(true) => assert!(frame.len() <= limit),
                        Ok(false) => break,
                        Err(error) => {
                            assert_eq!(receiver.try_pop(&mut frame, 0), Err(error));
                            break;
                        }
                    }
                }
            }
        }
    }
});
