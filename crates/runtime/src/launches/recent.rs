//! The newest launches: the kernels that could have been running when the
//! device reports that one has failed.
//!
//! Every launch that is not listed writes here, so a launch costs a few stores and no
//! lock. A slot that is written while it is read may name a newer launch than it should:
//! that one could have been running just as well. Launches that were listed are kept as
//! their lists.

use super::list::Listed;
use crate::functions::Counted;
use crate::streams::StreamName;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Launches that are remembered: of those that were listed, and of the others.
const SLOTS: u64 = 256;
/// Set in a slot's number when its launch is known to have ended.
const OVER: u64 = 1 << 63;

/// A launch that may still be running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecentLaunch {
    /// Handle of the program's kernel; 0 for a graph.
    pub function: u64,
    /// The context that was current.
    pub context: u64,
    /// Where it went.
    pub stream: StreamName,
    /// Its ordinal, if it has one; else 0.
    pub launch: u64,
    /// How it was counted; `None` for a graph.
    pub counted: Option<Counted>,
}

/// A line of the cache each: between two launches the driver displaces what lay
/// there, and a launch is to miss but one.
#[derive(Default)]
#[repr(align(64))]
struct Slot {
    /// Number of the launch plus one, and whether it is over; 0: being written.
    number: AtomicU64,
    function: AtomicU64,
    context: AtomicU64,
    /// Kind and handle of the stream, see [`packed`].
    stream: [AtomicU64; 2],
    launch: AtomicU64,
    counted: AtomicU64,
}

/// See the module's header.
pub(crate) struct Recent {
    next: AtomicU64,
    /// All launches before this one are over.
    first: AtomicU64,
    slots: Box<[Slot]>,
    lists: Mutex<Lists>,
}

/// Launches that were listed, none of which is over.
#[derive(Default)]
struct Lists {
    /// With the number that the next launch had that was not listed.
    all: VecDeque<(u64, Arc<Listed>)>,
    /// Launches in these.
    launches: usize,
}

impl Lists {
    fn add(&mut self, before: u64, listed: Arc<Listed>) {
        self.launches += listed.len();
        self.all.push_back((before, listed));
        // The newest ones stay, however they are divided.
        while let Some((_, oldest)) = self.all.front()
            && self.launches - oldest.len() >= SLOTS as usize
        {
            self.launches -= oldest.len();
            self.all.pop_front();
        }
    }

    /// Forgets the lists of which this is true.
    fn forget(&mut self, which: impl Fn(&Listed) -> bool) {
        self.all.retain(|(_, listed)| !which(listed));
        self.launches = self.all.iter().map(|(_, listed)| listed.len()).sum();
    }
}

impl Default for Recent {
    fn default() -> Recent {
        Recent {
            next: AtomicU64::new(0),
            first: AtomicU64::new(0),
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
            lists: Mutex::default(),
        }
    }
}

impl Recent {
    fn slot(&self, number: u64) -> &Slot {
        &self.slots[(number % SLOTS) as usize]
    }

    /// A launch was made.
    pub fn add(&self, launch: RecentLaunch) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let slot = self.slot(number);
        slot.number.store(0, Ordering::Relaxed);
        slot.function.store(launch.function, Ordering::Relaxed);
        slot.context.store(launch.context, Ordering::Relaxed);
        let [kind, handle] = packed(launch.stream);
        slot.stream[0].store(kind, Ordering::Relaxed);
        slot.stream[1].store(handle, Ordering::Relaxed);
        slot.launch.store(launch.launch, Ordering::Relaxed);
        let counted = launch.counted.map_or(0, |counted| 1 + counted.code());
        slot.counted.store(counted, Ordering::Relaxed);
        slot.number.store(number + 1, Ordering::Release);
    }

    /// Launches were listed that were made since the lists before.
    pub fn add_list(&self, listed: Arc<Listed>) {
        let before = self.next.load(Ordering::Relaxed);
        self.lists.lock().add(before, listed);
    }

    /// The numbers that may belong to launches which are not over.
    fn open(&self) -> std::ops::Range<u64> {
        let next = self.next.load(Ordering::Acquire);
        let oldest = next.saturating_sub(SLOTS);
        self.first.load(Ordering::Relaxed).max(oldest)..next
    }

    fn read(&self, number: u64) -> Option<RecentLaunch> {
        let slot = self.slot(number);
        if slot.number.load(Ordering::Acquire) != number + 1 {
            return None;
        }
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Some(RecentLaunch {
            function: load(&slot.function),
            context: load(&slot.context),
            stream: unpacked(
                [load(&slot.stream[0]), load(&slot.stream[1])],
                load(&slot.context),
            ),
            launch: load(&slot.launch),
            counted: load(&slot.counted)
                .checked_sub(1)
                .and_then(Counted::from_code),
        })
    }

    /// Launches have ended, because the host has waited for their context or stream.
    pub fn over(&self, which: impl Fn(u64, StreamName) -> bool) {
        self.lists
            .lock()
            .forget(|listed| which(listed.begun.context, listed.begun.target.name));
        let which = |launch: RecentLaunch| which(launch.context, launch.stream);
        let open = self.open();
        let mut first = open.start;
        for number in open {
            let slot = self.slot(number);
            if self.read(number).is_some_and(which) {
                // A newer launch may have taken the slot meanwhile.
                let _ = slot.number.compare_exchange(
                    number + 1,
                    (number + 1) | OVER,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
            }
            if first == number && slot.number.load(Ordering::Relaxed) == (number + 1) | OVER {
                first = number + 1;
            }
        }
        self.first.fetch_max(first, Ordering::Relaxed);
    }

    /// Launches of a context that may not have ended, oldest first.
    pub fn outstanding(&self, context: u64) -> Vec<RecentLaunch> {
        let mut found: Vec<(u64, RecentLaunch)> = self
            .open()
            .filter_map(|number| Some((number, self.read(number)?)))
            .filter(|(_, launch)| launch.context == context)
            .collect();
        // Those of lists come before the launch that was made next.
        let mut all = Vec::new();
        for (before, listed) in &self.lists.lock().all {
            let begun = listed.begun;
            if begun.context != context {
                continue;
            }
            let from = found.partition_point(|(number, _)| number < before);
            all.extend(found.drain(..from).map(|(_, launch)| launch));
            listed.each(|launch, function, counted| {
                all.push(RecentLaunch {
                    function: function.handle,
                    context,
                    stream: begun.target.name,
                    launch,
                    counted: Some(counted),
                });
            });
        }
        all.extend(found.into_iter().map(|(_, launch)| launch));
        all
    }
}

/// A stream as two words.
fn packed(stream: StreamName) -> [u64; 2] {
    match stream {
        StreamName::Legacy { .. } => [0, 0],
        StreamName::PerThread { thread, .. } => [1, thread],
        StreamName::Made(handle) => [2, handle],
    }
}

fn unpacked([kind, handle]: [u64; 2], context: u64) -> StreamName {
    match kind {
        0 => StreamName::Legacy { context },
        1 => StreamName::PerThread {
            context,
            thread: handle,
        },
        _ => StreamName::Made(handle),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::Function;
    use crate::functions::tests::function;
    use crate::launches::list::{Begun, List, Target};
    use driver::SupportStream;
    use model::{KernelCoverage, UncheckedReason};
    use std::time::Instant;

    fn launch(function: u64, stream: StreamName) -> RecentLaunch {
        RecentLaunch {
            function,
            context: 7,
            stream,
            launch: function + 1,
            counted: Some(Counted::Unchecked(UncheckedReason::Registers)),
        }
    }

    #[test]
    fn launches_of_streams_that_were_waited_for_are_over() {
        let recent = Recent::default();
        let streams = [
            StreamName::Made(5),
            StreamName::Legacy { context: 7 },
            StreamName::PerThread {
                context: 7,
                thread: 3,
            },
        ];
        let all: Vec<RecentLaunch> = (1..).zip(streams).map(|(n, s)| launch(n, s)).collect();
        for launch in &all {
            recent.add(*launch);
        }
        assert_eq!(recent.outstanding(7), all);
        assert_eq!(recent.outstanding(8), []);
        recent.over(|_, stream| stream == StreamName::Legacy { context: 7 });
        assert_eq!(recent.outstanding(7), [all[0], all[2]]);
        recent.over(|context, _| context == 7);
        assert_eq!(recent.outstanding(7), []);
        assert!(recent.open().is_empty());
    }

    #[test]
    fn the_newest_are_kept() {
        let recent = Recent::default();
        for function in 0..3 * SLOTS {
            recent.add(launch(function, StreamName::Made(1)));
        }
        let kept = recent.outstanding(7);
        assert_eq!(kept.len() as u64, SLOTS);
        assert_eq!(kept[0].function, 2 * SLOTS);
    }

    /// A list of launches of these kernels, in a stream of context 7.
    fn listed(kernels: &[&Arc<Function>], stream: u64) -> Arc<Listed> {
        let mut list = List::default();
        list.most = 100;
        let begun = Begun {
            target: Target {
                name: StreamName::Made(stream),
                stream: SupportStream::Program {
                    handle: stream,
                    per_thread: false,
                },
            },
            context: 7,
            since: Instant::now(),
            is_verified: true,
        };
        for kernel in kernels {
            let place = list.place_of(kernel, UncheckedReason::NoPtx).unwrap();
            list.add(place, begun, |_| {});
        }
        Arc::new(list.take(|_| 1).unwrap())
    }

    #[test]
    fn launches_of_lists_have_their_place_among_others() {
        let recent = Recent::default();
        let [one, two] = [1, 2].map(|handle| Arc::new(function(handle, "k", 1)));
        let alone = |function| recent.add(launch(function, StreamName::Made(5)));
        let outstanding = || {
            let all = recent.outstanding(7);
            all.iter().map(|launch| launch.function).collect::<Vec<_>>()
        };
        alone(10);
        recent.add_list(listed(&[&one, &two, &one], 6));
        alone(11);
        recent.add_list(listed(&[&two], 5));
        assert_eq!(outstanding(), [10, 1, 2, 1, 11, 2]);
        assert_eq!(recent.outstanding(8), []);
        recent.over(|_, stream| stream == StreamName::Made(5));
        assert_eq!(outstanding(), [1, 2, 1]);
        recent.over(|context, _| context == 7);
        assert!(outstanding().is_empty());
    }

    #[test]
    fn the_newest_lists_are_kept() {
        let recent = Recent::default();
        let kernel = Arc::new(function(1, "k", 1));
        for _ in 0..100 {
            recent.add_list(listed(&[&kernel; 7], 6));
        }
        let kept = recent.outstanding(7).len();
        assert!(
            (SLOTS as usize..SLOTS as usize + 7).contains(&kept),
            "{kept}"
        );
    }

    #[test]
    fn each_launch_of_a_list_is_counted_once() {
        let [one, two] = [1, 2].map(|handle| Arc::new(function(handle, "k", 1)));
        let list = listed(&[&one, &two, &one, &one], 6);
        for expected in [[3, 1], [6, 2]] {
            list.count();
            let counted = |function: &Arc<Function>| {
                let mut coverage = KernelCoverage::default();
                function.counts.add_to(&mut coverage);
                coverage.verified
            };
            assert_eq!([&one, &two].map(counted), expected);
        }
    }
}
