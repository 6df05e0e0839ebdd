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
use crate::spread;
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

/// Kernels that a thread remembers at a time.
const KERNELS: usize = 256;
/// Of these, how many are found without a search.
const FOUND: usize = 64;

/// Kernels that a thread has launched; lists name them by their places here.
pub(super) type Kernels = Mutex<Vec<Arc<Function>>>;

/// A launch that may have written anywhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Which of the thread's kernels.
    kernel: u32,
    /// Its ordinal.
    pub launch: u64,
}

impl Item {
    /// The kernel.
    pub fn kernel<'a>(&self, kernels: &'a [Arc<Function>]) -> Option<&'a Arc<Function>> {
        kernels.get(self.kernel as usize)
    }
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
pub(super) struct Batch {
    begun: Option<Begun>,
    items: Vec<Item>,
    /// Launches that the list may hold, as fast as they come.
    most: usize,
    kernels: Arc<Kernels>,
    /// Some of them: the kernel's address, and its place. `kernels` keeps each, so that
    /// no other gets its address.
    found: [(usize, u32); FOUND],
}

impl Default for Batch {
    fn default() -> Batch {
        Batch {
            begun: None,
            items: Vec::with_capacity(MOST),
            most: 1,
            kernels: Arc::default(),
            found: [(0, 0); FOUND],
        }
    }
}

impl Batch {
    /// Whether it has launches of this stream.
    pub fn is_for(&self, target: Target) -> bool {
        self.begun.is_some_and(|begun| begun.target == target)
    }

    /// What its launches have in common; `None` if it has none.
    pub fn begun(&self) -> Option<Begun> {
        self.begun
    }

    /// How many launches it has.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Adds the first launch. Whether it is full.
    pub fn begin(&mut self, begun: Begun, function: &Arc<Function>, launch: u64) -> bool {
        debug_assert!(self.items.is_empty());
        self.begun = Some(begun);
        self.add(function, launch)
    }

    /// Adds a launch. Whether it is full.
    pub fn add(&mut self, function: &Arc<Function>, launch: u64) -> bool {
        let kernel = self.place_of(function);
        self.items.push(Item { kernel, launch });
        self.items.len() >= self.most
    }

    /// Where a kernel is among the thread's. (Its count of users, which all threads
    /// share, is left alone where it has been seen before.)
    fn place_of(&mut self, function: &Arc<Function>) -> u32 {
        let address = Arc::as_ptr(function) as usize;
        let found = &mut self.found[spread::place(address as u64, FOUND)];
        if found.0 != address {
            let mut kernels = self.kernels.lock();
            let known = kernels.iter().position(|one| Arc::ptr_eq(one, function));
            let place = known.unwrap_or_else(|| {
                kernels.push(function.clone());
                kernels.len() - 1
            });
            *found = (address, place as u32);
        }
        found.1
    }

    /// Its launches, oldest first, and the kernels that they name. It goes on empty, in
    /// the memory of `spare`.
    pub fn take(&mut self, spare: Vec<Item>) -> (Vec<Item>, Arc<Kernels>) {
        self.begun = None;
        let kernels = Arc::clone(&self.kernels);
        let count = kernels.lock().len();
        if count >= KERNELS {
            self.kernels = Arc::default();
            self.found = [(0, 0); FOUND];
        }
        (std::mem::replace(&mut self.items, spare), kernels)
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
    use crate::functions::tests::function;

    const TARGET: Target = Target {
        name: StreamName::Made(7),
        stream: SupportStream::Own,
    };

    fn begin_with(batch: &mut Batch, function: &Arc<Function>, launch: u64) -> bool {
        let begun = Begun {
            target: TARGET,
            context: 1,
            since: Instant::now(),
        };
        batch.begin(begun, function, launch)
    }

    fn begin(batch: &mut Batch, launch: u64) -> bool {
        begin_with(batch, &Arc::new(function(1, "k", 1)), launch)
    }

    fn launches(batch: &mut Batch) -> Vec<u64> {
        let (items, _) = batch.take(Vec::new());
        items.iter().map(|item| item.launch).collect()
    }

    #[test]
    fn lists_are_as_long_as_launches_come_fast() {
        let mut batch = Batch::default();
        let (start, kernel) = (Instant::now(), Arc::new(function(1, "k", 1)));
        assert!(begin(&mut batch, 1), "nothing is known of its speed yet");
        assert_eq!(launches(&mut batch), [1]);
        batch.was_full(start, start + Duration::from_micros(5));
        for launch in 1..MOST as u64 {
            let full = match launch {
                1 => begin(&mut batch, launch),
                _ => batch.add(&kernel, launch),
            };
            assert!(!full);
        }
        assert!(batch.add(&kernel, MOST as u64));
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
            assert!(batch.is_for(TARGET));
            found.extend(launches(batch));
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
        one.each(|batch| assert_eq!(launches(batch), [1]));
    }

    #[test]
    fn kernels_are_told_apart_however_many_there_are() {
        let mut batch = Batch::default();
        let all: Vec<_> = (0..KERNELS as u64 + 10)
            .map(|handle| Arc::new(function(handle, &format!("k{handle}"), 1)))
            .collect();
        for _ in 0..2 {
            for one in &all {
                begin_with(&mut batch, one, one.handle);
                let (items, kernels) = batch.take(Vec::new());
                let kernels = kernels.lock();
                let named = items[0].kernel(&kernels).expect("it is remembered");
                assert!(Arc::ptr_eq(named, one) && kernels.len() <= KERNELS);
            }
        }
    }
}
