//! The rings as pure data: any sequence of frames arrives as it was sent, and
//! any content of the memory is a frame or an error.

use proptest::prelude::*;
use ring::frames::{Area, Consumer, Corrupt, Producer, Progress, PushError};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

struct Memory {
    tail: AtomicU64,
    head: AtomicU64,
    data: Vec<AtomicU64>,
}

#[derive(Clone)]
struct Words(Arc<Memory>);

impl Area for Words {
    type Cell = AtomicU64;

    fn tail(&self) -> &AtomicU64 {
        &self.0.tail
    }

    fn head(&self) -> &AtomicU64 {
        &self.0.head
    }

    fn data(&self) -> &[AtomicU64] {
        &self.0.data
    }
}

fn words(count: usize) -> Words {
    Words(Arc::new(Memory {
        tail: AtomicU64::new(0),
        head: AtomicU64::new(0),
        data: (0..count).map(|_| AtomicU64::new(0)).collect(),
    }))
}

proptest! {
    /// Against a queue: frames of all lengths, taken at any time, in rings of
    /// several sizes, many times around.
    #[test]
    fn frames_arrive_whole_and_in_order(
        size in 1u32..7,
        steps in prop::collection::vec((any::<bool>(), 0usize..300, any::<u8>()), 1..300),
    ) {
        let area = words(1 << size);
        let (mut producer, mut consumer) = (Producer::new(area.clone()), Consumer::new(area));
        let (mut queue, mut used) = (VecDeque::new(), 0);
        let mut frame = Vec::new();
        for (send, length, byte) in steps {
            if send {
                let sent: Vec<u8> = (0..length).map(|at| byte.wrapping_add(at as u8)).collect();
                let needed = 1 + length.div_ceil(8);
                // In three parts, which need not be words.
                let (a, rest) = sent.split_at(length * usize::from(byte) / 256);
                let (b, c) = rest.split_at(rest.len() / 3);
                match producer.try_push(&[a, b, c]) {
                    Ok(true) => {
                        used += needed;
                        prop_assert!(used <= 1 << size);
                        queue.push_back(sent);
                    }
                    Ok(false) => prop_assert!(used + needed > 1 << size),
                    Err(PushError::TooLarge { size, limit }) => {
                        prop_assert_eq!(size, length);
                        prop_assert!(length > limit && limit == producer.max_frame());
                    }
                    Err(error) => panic!("{error}"),
                }
            } else {
                let there = consumer.try_pop(&mut frame, 0).unwrap();
                prop_assert_eq!(there, !queue.is_empty());
                if let Some(expected) = queue.pop_front() {
                    prop_assert_eq!(&frame, &expected);
                    used -= 1 + expected.len().div_ceil(8);
                }
            }
        }
    }

    /// Any words at any time: a frame within the limit, nothing, or an error
    /// that stays. All ends, because each frame moves on by at least a word.
    #[test]
    fn any_content_is_a_frame_or_an_error(
        rounds in prop::collection::vec(
            (prop::collection::vec(any_word(), 16), any_word(), any_word()), 1..20),
    ) {
        let area = words(16);
        let (mut producer, mut consumer) = (Producer::new(area.clone()), Consumer::new(area.clone()));
        let mut frame = Vec::new();
        for (data, tail, head) in rounds {
            for (cell, word) in area.0.data.iter().zip(data) {
                cell.store(word, Relaxed);
            }
            // Near to where they were, or anywhere.
            let place = |cell: &AtomicU64, word: u64| {
                let near = cell.load(Relaxed).wrapping_add(word);
                cell.store(if word < 32 { near } else { word }, Relaxed);
            };
            place(&area.0.tail, tail);
            place(&area.0.head, head);
            let mut taken = 0;
            let end = loop {
                match consumer.try_pop(&mut frame, 0) {
                    Ok(true) => {
                        taken += 1;
                        prop_assert!(frame.len() <= consumer.max_frame());
                        prop_assert!(taken <= 16);
                    }
                    end => break end,
                }
            };
            if end.is_err() {
                area.0.tail.store(0, Relaxed);
                prop_assert_eq!(consumer.try_pop(&mut frame, 0), end);
            }
            let sent = producer.try_push(&[b"frame"]);
            if sent.is_err() {
                area.0.head.store(0, Relaxed);
                prop_assert_eq!(producer.try_push(&[]), sent);
            }
        }
    }
}

/// Numbers near the edges are more frequent.
fn any_word() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..32,
        2 => 0u64..200,
        1 => (0u32..64).prop_map(|bit| 1 << bit),
        1 => any::<u64>(),
    ]
}

/// A ring of 16 words with one frame of three bytes.
fn one_frame() -> (Words, Consumer<Words>) {
    let area = words(16);
    assert_eq!(
        Producer::new(area.clone()).try_push(&[b"a", b"bc"]),
        Ok(true)
    );
    (area.clone(), Consumer::new(area))
}

#[test]
fn each_contradiction_is_named() {
    let mut frame = Vec::new();
    let (_, mut good) = one_frame();
    assert_eq!(good.try_pop(&mut frame, 0), Ok(true));
    assert_eq!(frame, b"abc");

    let bad = |change: fn(&Memory), expected: Corrupt| {
        let (area, mut consumer) = one_frame();
        change(&area.0);
        let mut frame = b"before".to_vec();
        assert_eq!(consumer.try_pop(&mut frame, 0), Err(expected));
        assert_eq!(frame, b"before", "nothing was copied");
        assert_eq!(consumer.ready(), Err(expected), "it stays broken");
    };
    bad(
        |memory| memory.tail.store(17, Relaxed),
        Corrupt::Tail {
            tail: 17,
            last: 0,
            end: 16,
        },
    );
    bad(
        |memory| memory.tail.store(u64::MAX, Relaxed),
        Corrupt::Tail {
            tail: u64::MAX,
            last: 0,
            end: 16,
        },
    );
    bad(
        |memory| memory.data[0].store(1 << 32 | 3, Relaxed),
        Corrupt::Reserved(1 << 32 | 3),
    );
    bad(
        |memory| memory.data[0].store(57, Relaxed),
        Corrupt::TooLarge {
            length: 57,
            limit: 56,
        },
    );
    bad(
        |memory| memory.data[0].store(9, Relaxed),
        Corrupt::PastEnd {
            length: 9,
            published: 8,
        },
    );
}

#[test]
fn a_position_never_moves_backwards() {
    let (area, mut consumer) = one_frame();
    let mut frame = Vec::new();
    assert_eq!(consumer.try_pop(&mut frame, 0), Ok(true));
    area.0.tail.store(1, Relaxed);
    assert_eq!(
        consumer.try_pop(&mut frame, 0),
        Err(Corrupt::Tail {
            tail: 1,
            last: 2,
            end: 18
        })
    );
}

#[test]
fn what_the_receiver_says_is_between_where_it_was_and_where_the_sender_is() {
    // Two frames of seven words and a header: full.
    let full = || {
        let area = words(16);
        let mut producer = Producer::new(area.clone());
        for _ in 0..2 {
            assert_eq!(producer.try_push(&[&[1; 56]]), Ok(true));
        }
        assert_eq!(producer.try_push(&[]), Ok(false));
        (area, producer)
    };
    for (good, progress) in [
        (0, Progress::Still),
        (1, Progress::Ready),
        (16, Progress::Ready),
    ] {
        let (area, mut producer) = full();
        area.0.head.store(good, Relaxed);
        assert_eq!(producer.room(0), Ok(progress));
    }
    let (area, mut producer) = full();
    area.0.head.store(3, Relaxed);
    assert_eq!(producer.room(56), Ok(Progress::Moved));
    assert_eq!(producer.room(56), Ok(Progress::Still));
    for bad in [2, 17, u64::MAX] {
        area.0.head.store(bad, Relaxed);
        let expected = PushError::Corrupt(Corrupt::Head {
            head: bad,
            last: 3,
            tail: 16,
        });
        let (again, mut fresh) = full();
        again.0.head.store(3, Relaxed);
        assert_eq!(fresh.room(56), Ok(Progress::Moved));
        again.0.head.store(bad, Relaxed);
        assert_eq!(fresh.room(56), Err(expected));
        assert_eq!(fresh.try_push(&[]), Err(expected), "it stays broken");
    }
}
