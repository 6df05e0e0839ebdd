//! Launches that a thread has made and canaries have not taken over yet.
//!
//! A program that launches kernels without PTX makes many launches of which all
//! that matters is the kernel and its number: they may write anywhere. Each thread
//! gathers those in a list of its own, and they are taken over together: between
//! two launches the driver displaces what lay in the first caches, so what all
//! launches share is to be touched rarely.
//!
//! Lists are taken over when they are full, when the stream changes, and before
//! anything else is done with what canaries know of launches. A list's lock is
//! taken before that of what canaries know.

use crate::functions::Function;
use crate::streams::StreamName;
use driver::SupportStream;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Launches in a list, at most.
const MOST: usize = 32;
/// A list of launches should not grow older: a check waits for it.
const AGE: Duration = Duration::from_micros(200);

/// A launch that may have written anywhere.
#[derive(Debug)]
pub(super) struct Item {
    /// The kernel, if it is known.
    pub function: Option<Arc<Function>>,
    /// Its ordinal.
    pub launch: u64,
}

/// Where the launches of a list went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub name: StreamName,
    /// As the program names it.
    pub stream: SupportStream,
}

/// What is common to the launches of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub target: Target,
    pub context: u64,
    /// When the first one was made.
    pub since: Instant,
}

/// The launches of a thread, all in one stream.
#[derive(Debug)]
pub(super) struct Batch {
    begun: Option<Begun>,
    items: Vec<Item>,
    /// Launches that the list may hold, as fast as they come.
    most: usize,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch {
            begun: None,
            items: Vec::with_capacity(MOST),
            most: 1,
        }
    }
}

impl Batch {
    /// Whether it has launches of this stream.
    pub fn is_for(&self, target: Target) -> bool {
        self.begun.is_some_and(|begun| begun.target == target)
    }

    /// Adds the first launch. Whether it is full.
    pub fn begin(&mut self, begun: Begun, item: Item) -> bool {
        debug_assert!(self.items.is_empty());
        self.begun = Some(begun);
        self.add(item)
    }

    /// Adds a launch. Whether it is full.
    pub fn add(&mut self, item: Item) -> bool {
        self.items.push(item);
        self.items.len() >= self.most
    }

    /// What is in it, oldest first, which leaves it empty; `None` if nothing is.
    pub fn take(&mut self) -> Option<(Begun, std::vec::Drain<'_, Item>)> {
        let begun = self.begun.take()?;
        Some((begun, self.items.drain(..)))
    }

    /// A list was full at this time, which began at that: says how many launches
    /// the next may hold.
    pub fn was_full(&mut self, since: Instant, now: Instant) {
        let each = now.saturating_duration_since(since) / self.most as u32;
        let fit = AGE.as_nanos() / each.as_nanos().max(1);
        self.most = usize::try_from(fit).unwrap_or(MOST).clamp(1, MOST);
    }
}

/// The lists of all threads.
pub(super) struct Batches {
    /// No others of the process have it.
    number: u64,
    all: Mutex<Vec<Arc<Mutex<Batch>>>>,
}

thread_local! {
    /// The calling thread's, and of which lists it is.
    static OWN: RefCell<Option<(u64, Arc<Mutex<Batch>>)>> = const { RefCell::new(None) };
}

/// The number of the next lists.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Default for Batches {
    fn default() -> Batches {
        Batches {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            all: Mutex::default(),
        }
    }
}

impl Batches {
    /// Does something with the calling thread's list; `None` in a thread that ends.
    pub fn own<R>(&self, act: impl FnOnce(&Mutex<Batch>) -> R) -> Option<R> {
        let own = OWN.try_with(|own| {
            let mut own = own.try_borrow_mut().ok()?;
            if own
                .as_ref()
                .is_none_or(|(number, _)| *number != self.number)
            {
                *own = Some((self.number, self.add()));
            }
            let (_, batch) = own.as_ref()?;
            Some(act(batch))
        });
        own.ok().flatten()
    }

    fn add(&self) -> Arc<Mutex<Batch>> {
        let batch = Arc::<Mutex<Batch>>::default();
        self.all.lock().push(batch.clone());
        batch
    }

    /// Does something with each list that has launches. Lists of threads that have
    /// ended are forgotten then.
    pub fn each(&self, mut act: impl FnMut(&mut Batch)) {
        self.all.lock().retain(|batch| {
            let mut list = batch.lock();
            if list.begun.is_some() {
                act(&mut list);
            }
            Arc::strong_count(batch) > 1
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target = Target {
        name: StreamName::Made(7),
        stream: SupportStream::Own,
    };

    fn item(launch: u64) -> Item {
        Item {
            function: None,
            launch,
        }
    }

    fn begin(batch: &mut Batch, launch: u64) -> bool {
        let begun = Begun {
            target: TARGET,
            context: 1,
            since: Instant::now(),
        };
        batch.begin(begun, item(launch))
    }

    #[test]
    fn lists_are_as_long_as_launches_come_fast() {
        let mut batch = Batch::default();
        let start = Instant::now();
        assert!(begin(&mut batch, 1), "nothing is known of its speed yet");
        assert_eq!(batch.take().map(|(_, items)| items.len()), Some(1));
        batch.was_full(start, start + Duration::from_micros(5));
        for launch in 1..MOST as u64 {
            let full = match launch {
                1 => begin(&mut batch, launch),
                _ => batch.add(item(launch)),
            };
            assert!(!full);
        }
        assert!(batch.add(item(MOST as u64)));
        batch.was_full(start, start + Duration::from_millis(1) * MOST as u32);
        assert_eq!(batch.most, 1);
        batch.was_full(start, start);
        assert_eq!(batch.most, MOST);
    }

    #[test]
    fn what_a_thread_leaves_behind_is_found_once() {
        let batches = Batches::default();
        std::thread::scope(|scope| {
            // Joined: a scope ends before what its threads own is dropped.
            let thread = scope.spawn(|| batches.own(|batch| begin(&mut batch.lock(), 3)));
            assert!(thread.join().is_ok());
        });
        let mut found = Vec::new();
        batches.each(|batch| {
            let (begun, items) = batch.take().expect("not empty");
            assert_eq!(begun.target, TARGET);
            found.extend(items.map(|item| item.launch));
        });
        assert_eq!(found, [3]);
        batches.each(|_| panic!("it was taken"));
        assert!(batches.all.lock().is_empty());
    }

    #[test]
    fn lists_of_others_are_not_a_threads_own() {
        let (one, other) = (Batches::default(), Batches::default());
        one.own(|batch| begin(&mut batch.lock(), 1));
        other.own(|batch| assert!(!batch.lock().is_for(TARGET)));
        one.each(|batch| assert!(batch.take().is_some()));
    }
}
