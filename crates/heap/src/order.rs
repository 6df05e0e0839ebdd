//! Which operations of streams happen before which, as far as the program has
//! ordered them: vector clocks, one for each stream, one for each recorded
//! event, and one for the host.
//!
//! A call that is not modelled must be reported as
//! [`StreamOrder::everything_so_far`]: an order that is assumed too strong
//! misses errors, one that is assumed too weak causes false alarms. For the
//! same reason all threads of the host share one clock.

use std::collections::BTreeMap;

/// Streams that are distinguished before the order starts afresh.
const STREAMS: usize = 1 << 10;

/// An operation in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    epoch: u64,
    stream: usize,
    at: u64,
}

impl Point {
    /// Whether both are in the same stream.
    pub fn is_in_stream_of(self, other: Point) -> bool {
        (self.epoch, self.stream) == (other.epoch, other.stream)
    }
}

/// How a stream is ordered with the others of its group (its context).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// The legacy default stream: its operations wait for all streams of the
    /// group that are not `No`, and those for it.
    Legacy,
    /// Ordered with the legacy default stream.
    Yes,
    /// With none.
    No,
}

/// Number of operations by stream that have happened.
type Clock = Vec<u64>;

#[derive(Clone, Debug)]
struct Stream {
    group: u64,
    blocking: Blocking,
    /// What happens before its next operation, its own included.
    seen: Clock,
    /// Operations so far.
    count: u64,
}

/// The happens-before relation. Streams are identified by names `K`, events by
/// handle.
#[derive(Clone, Debug)]
pub struct StreamOrder<K> {
    names: BTreeMap<K, usize>,
    streams: Vec<Stream>,
    events: BTreeMap<u64, Clock>,
    /// What has happened before the host's next operation.
    host: Clock,
    epoch: u64,
}

impl<K: Ord + Copy> Default for StreamOrder<K> {
    fn default() -> Self {
        StreamOrder {
            names: BTreeMap::new(),
            streams: Vec::new(),
            events: BTreeMap::new(),
            host: Clock::new(),
            epoch: 0,
        }
    }
}

fn join(clock: &mut Clock, other: &[u64]) {
    if clock.len() < other.len() {
        clock.resize(other.len(), 0);
    }
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}

impl<K: Ord + Copy> StreamOrder<K> {
    fn index(&mut self, name: K, group: u64, blocking: Blocking) -> usize {
        if let Some(index) = self.names.get(&name) {
            return *index;
        }
        if self.streams.len() >= STREAMS {
            // What happened before is ordered before everything that follows.
            *self = StreamOrder {
                epoch: self.epoch + 1,
                ..StreamOrder::default()
            };
        }
        self.streams.push(Stream {
            group,
            blocking,
            seen: Clock::new(),
            count: 0,
        });
        let index = self.streams.len() - 1;
        self.names.insert(name, index);
        index
    }

    /// An operation is put into a stream.
    pub fn enqueue(&mut self, name: K, group: u64, blocking: Blocking) -> Point {
        let index = self.index(name, group, blocking);
        let mut seen = std::mem::take(&mut self.streams[index].seen);
        join(&mut seen, &self.host);
        for other in &self.streams {
            let ordered = matches!(
                (blocking, other.blocking),
                (Blocking::Legacy, Blocking::Yes) | (Blocking::Yes, Blocking::Legacy)
            );
            if ordered && other.group == group {
                join(&mut seen, &other.seen);
            }
        }
        if seen.len() <= index {
            seen.resize(index + 1, 0);
        }
        let stream = &mut self.streams[index];
        stream.count += 1;
        seen[index] = stream.count;
        stream.seen = seen;
        Point {
            epoch: self.epoch,
            stream: index,
            at: stream.count,
        }
    }

    /// Whether `first` happens before `then`, the latest operation of its
    /// stream.
    pub fn is_before(&self, first: Point, then: Point) -> bool {
        if first.epoch != self.epoch || then.epoch != self.epoch {
            return first.epoch < then.epoch || then.epoch != self.epoch;
        }
        let seen = &self.streams[then.stream].seen;
        seen.get(first.stream).is_some_and(|seen| *seen >= first.at)
    }

    /// An event is recorded in a stream.
    pub fn record(&mut self, event: u64, name: K, group: u64, blocking: Blocking) {
        let point = self.enqueue(name, group, blocking);
        let seen = self.streams[point.stream].seen.clone();
        self.events.insert(event, seen);
    }

    /// A stream waits for an event. An unknown one may be recorded behind any
    /// operation.
    pub fn wait(&mut self, event: u64, name: K, group: u64, blocking: Blocking) {
        let point = self.enqueue(name, group, blocking);
        let clock = self.event(event);
        join(&mut self.streams[point.stream].seen, &clock);
    }

    fn event(&self, event: u64) -> Clock {
        match self.events.get(&event) {
            Some(clock) => clock.clone(),
            None => self.now(),
        }
    }

    fn now(&self) -> Clock {
        self.streams.iter().map(|stream| stream.count).collect()
    }

    /// An event was destroyed, or recorded in a way that is not modelled.
    pub fn forget_event(&mut self, event: u64) {
        self.events.remove(&event);
    }

    /// All events are recorded in ways that are not modelled.
    pub fn forget_events(&mut self) {
        self.events.clear();
    }

    /// A stream was destroyed; its name may be reused for another.
    pub fn forget_stream(&mut self, name: K) {
        self.names.remove(&name);
    }

    /// The host has waited for a stream.
    pub fn host_waited(&mut self, name: K) {
        if let Some(index) = self.names.get(&name) {
            join(&mut self.host, &self.streams[*index].seen);
        }
    }

    /// The host has waited for an event.
    pub fn host_waited_for_event(&mut self, event: u64) {
        let clock = self.event(event);
        join(&mut self.host, &clock);
    }

    /// Whatever is ordered before the stream's latest operation is now ordered
    /// before the host's next one.
    pub fn host_learns(&mut self, point: Point) {
        if point.epoch == self.epoch {
            join(&mut self.host, &self.streams[point.stream].seen);
        }
    }

    /// Everything so far is ordered before everything that follows: the host
    /// has synchronized with the whole device, or made a call that is not
    /// modelled.
    pub fn everything_so_far(&mut self) {
        self.host = self.now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEGACY: u8 = 0;

    fn kind(stream: u8) -> Blocking {
        match stream {
            LEGACY => Blocking::Legacy,
            1 | 2 => Blocking::Yes,
            _ => Blocking::No,
        }
    }

    #[test]
    fn streams_are_ordered_by_events_the_host_and_the_legacy_stream_only() {
        let mut order = StreamOrder::default();
        let first = order.enqueue(3u8, 0, Blocking::No);
        let other = order.enqueue(4, 0, Blocking::No);
        assert!(!order.is_before(first, other));
        order.record(9, 3, 0, Blocking::No);
        let late = order.enqueue(3, 0, Blocking::No);
        order.wait(9, 4, 0, Blocking::No);
        let other = order.enqueue(4, 0, Blocking::No);
        assert!(order.is_before(first, other) && !order.is_before(late, other));
        order.host_waited(3);
        let other = order.enqueue(4, 0, Blocking::No);
        assert!(order.is_before(late, other));

        let blocking = order.enqueue(1, 0, Blocking::Yes);
        let elsewhere = order.enqueue(7, 1, Blocking::Legacy);
        assert!(!order.is_before(blocking, elsewhere));
        let legacy = order.enqueue(0, 0, Blocking::Legacy);
        assert!(order.is_before(blocking, legacy));
        let second = order.enqueue(2, 0, Blocking::Yes);
        assert!(order.is_before(legacy, second) && order.is_before(blocking, second));
    }

    #[test]
    fn what_is_not_known_orders_everything() {
        let mut order = StreamOrder::default();
        let first = order.enqueue(3u8, 0, Blocking::No);
        order.wait(77, 4, 0, Blocking::No);
        let other = order.enqueue(4, 0, Blocking::No);
        assert!(order.is_before(first, other));
        let first = order.enqueue(3, 0, Blocking::No);
        order.everything_so_far();
        let other = order.enqueue(5, 0, Blocking::No);
        assert!(order.is_before(first, other));
    }

    #[test]
    fn a_handle_that_is_used_again_is_another_stream() {
        let mut order = StreamOrder::default();
        let first = order.enqueue(3u32, 0, Blocking::No);
        order.forget_stream(3);
        let second = order.enqueue(3, 0, Blocking::No);
        assert!(!order.is_before(first, second));
        for name in 0..2 * STREAMS as u32 {
            order.enqueue(name, 0, Blocking::No);
            order.forget_stream(name);
        }
        let last = order.enqueue(3, 0, Blocking::No);
        assert!(order.is_before(first, last));
    }

    proptest! {
        /// Against a graph of operations in which paths are searched.
        #[test]
        fn agrees_with_paths_through_a_graph(
            operations in prop::collection::vec((0u8..7, 0u8..5, 0u64..3), 1..40),
        ) {
            let mut order = StreamOrder::default();
            // Predecessors of each node; nodes are operations, or the host's.
            let mut before: Vec<Vec<usize>> = Vec::new();
            let mut last: BTreeMap<u8, usize> = BTreeMap::new();
            let mut host: Option<usize> = None;
            let mut events: BTreeMap<u64, usize> = BTreeMap::new();
            let mut points: Vec<(Point, usize)> = Vec::new();
            for (what, stream, event) in operations {
                if what == 5 || what == 6 {
                    // The host waits for an event that is known, or a stream.
                    let node = match what {
                        5 => events.get(&event).copied(),
                        _ => last.get(&stream).copied(),
                    };
                    if let Some(node) = node {
                        if what == 5 {
                            order.host_waited_for_event(event);
                        } else {
                            order.host_waited(stream);
                        }
                        before.push(host.into_iter().chain([node]).collect());
                        host = Some(before.len() - 1);
                    }
                    continue;
                }
                if what == 4 && !events.contains_key(&event) {
                    continue;
                }
                let ordered = |other: u8| match (kind(stream), kind(other)) {
                    (Blocking::Legacy, Blocking::Yes) | (Blocking::Yes, Blocking::Legacy) => true,
                    _ => other == stream,
                };
                let mut predecessors: Vec<usize> =
                    last.iter().filter(|(other, _)| ordered(**other)).map(|(_, node)| *node).collect();
                predecessors.extend(host);
                if what == 4 {
                    predecessors.push(events[&event]);
                }
                before.push(predecessors);
                let node = before.len() - 1;
                last.insert(stream, node);
                match what {
                    3 => {
                        order.record(event, stream, 0, kind(stream));
                        events.insert(event, node);
                    }
                    4 => order.wait(event, stream, 0, kind(stream)),
                    _ => {
                        let point = order.enqueue(stream, 0, kind(stream));
                        let mut reached = vec![false; before.len()];
                        let mut open = vec![node];
                        while let Some(next) = open.pop() {
                            if !std::mem::replace(&mut reached[next], true) {
                                open.extend(&before[next]);
                            }
                        }
                        for (first, first_node) in &points {
                            prop_assert_eq!(order.is_before(*first, point), reached[*first_node]);
                        }
                        points.push((point, node));
                    }
                }
            }
        }
    }
}
