//! Launches that a thread has made and that are not accounted for yet.
//!
//! A program that launches kernels without PTX makes many launches of which all
//! that matters is the kernel: they may write anywhere. The thread writes a word for
//! each into a list of its own. They are counted, become recent launches and are handed
//! to canaries together: between two launches the driver displaces what lay in the first caches
//! (measured on an H200: the way through all services took 500 ns there), so what all
//! launches share is to be touched rarely.
//!
//! A list is *settled*, which does that, when it is full, when the stream changes, and
//! before anything reads counts, recent launches, or which canaries are to be verified:
//! then the lists of all threads are.
//!
//! Which kernels may be listed is valid for one [`Moment`].

use super::list::{List, Target};
use super::thread_cache::{Listing, ThreadCache};
use crate::functions::Function;
use crate::moment::Moment;
use model::UncheckedReason;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The lists of all threads.
pub(super) struct Ledger {
    /// No others of the process have it.
    number: u64,
    /// As many as there were threads at a time.
    all: Mutex<Vec<&'static ThreadCache>>,
}

/// The number of the next ledger.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            all: Mutex::default(),
        }
    }
}

impl Ledger {
    /// The calling thread may list launches of a kernel, as long as the moment lasts;
    /// `is_verified`: launches are verified afterwards as long. `settle` is called with
    /// what was listed in an earlier moment.
    pub fn learn(
        &self,
        function: &Arc<Function>,
        reason: UncheckedReason,
        found: (Moment, bool),
        settle: impl FnOnce(&mut List),
    ) {
        let cache = ThreadCache::own(self.number).or_else(|| {
            let cache = self.add();
            cache.give(self.number).then_some(cache)
        });
        if let Some(cache) = cache {
            cache.learn(function, reason, found, settle);
        }
    }

    /// A block for the calling thread: one that another thread has left, or a new one.
    fn add(&self) -> &'static ThreadCache {
        let mut all = self.all.lock();
        if let Some(left) = all.iter().find(|cache| cache.take()) {
            return left;
        }
        let cache = ThreadCache::new();
        all.push(cache);
        cache
    }

    /// Lists a launch that [`undecided`] has left. `settle` is called with the list
    /// of another stream, and with one that is full. `None`: the thread does not know the
    /// kernel any more; `true`: the list was full, and its launches are to be verified.
    pub fn list(
        &self,
        listing: Listing,
        (target, context): (Target, u64),
        now: Instant,
        settle: impl Fn(&mut List),
    ) -> Option<bool> {
        ThreadCache::own(self.number)?.add(listing, (target, context), now, settle)
    }

    /// Does something with the list of the calling thread.
    pub fn own(&self, act: impl FnOnce(&mut List)) {
        if let Some(cache) = ThreadCache::own(self.number) {
            act(&mut cache.list());
        }
    }

    /// Does something with each list, also those of threads that have ended.
    pub fn each(&self, mut act: impl FnMut(&mut List)) {
        let all = self.all.lock();
        all.iter().for_each(|cache| act(&mut cache.list()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::function;
    use crate::launches::list::{AGE, KERNELS, MOST};
    use crate::launches::thread_cache::{Made, undecided};
    use crate::moment::of_one_test::ends_moments_alone;
    use crate::streams::{StreamName, Where};
    use std::time::Duration;

    const NAME: StreamName = StreamName::Made(7);
    const PLACE: Where = Where::Stream {
        name: NAME,
        handle: 7,
        per_thread: false,
    };

    /// What was settled, by kernel.
    type Settled = Mutex<Vec<u64>>;

    fn settle(settled: &Settled, list: &mut List) {
        if let Some(listed) = list.take(|_| 1) {
            listed.each(|_, function, _| settled.lock().push(function.handle));
        }
    }

    fn learn(ledger: &Ledger, settled: &Settled, handle: u64, moment: Moment) {
        let kernel = Arc::new(function(handle, "k", 1));
        ledger.learn(&kernel, UncheckedReason::NoPtx, (moment, true), |list| {
            settle(settled, list);
        });
    }

    /// Lists a launch at this time; whether one of the thread's own kernel.
    fn make(ledger: &Ledger, settled: &Settled, handle: u64, now: Instant) -> bool {
        let target = Target::of(PLACE).unwrap();
        match undecided(handle, || Some(PLACE)) {
            Some(Made::Listed) => true,
            Some(Made::Left(listing, _)) => ledger
                .list(listing, (target, 1), now, |list| settle(settled, list))
                .is_some(),
            Some(Made::Refused(_)) | None => false,
        }
    }

    #[test]
    fn lists_are_as_long_as_launches_come_fast() {
        ends_moments_alone();
        let (ledger, settled) = (Ledger::default(), Settled::default());
        learn(&ledger, &settled, 5, Moment::now());
        let start = Instant::now();
        assert!(make(&ledger, &settled, 5, start));
        assert_eq!(settled.lock().len(), 1, "nothing is known of its speed yet");
        let fast = start + Duration::from_micros(5);
        ledger.own(|list| list.was_full(start, fast));
        for made in 1..MOST {
            assert!(make(&ledger, &settled, 5, fast));
            assert_eq!(settled.lock().len(), 1, "{made} wait");
        }
        assert!(make(&ledger, &settled, 5, fast));
        assert_eq!(settled.lock().len(), 1 + MOST);
        ledger.own(|list| list.was_full(start, start + AGE * MOST as u32));
        ledger.own(|list| assert_eq!(list.most, 1));
        ledger.own(|list| list.was_full(start, start));
        ledger.own(|list| assert_eq!(list.most as usize, MOST));
    }

    #[test]
    fn what_a_thread_leaves_behind_is_found_once() {
        ends_moments_alone();
        let (ledger, settled) = (Ledger::default(), Settled::default());
        std::thread::scope(|scope| {
            // Joined: a scope ends before what its threads own is dropped.
            let thread = scope.spawn(|| {
                ends_moments_alone();
                learn(&ledger, &settled, 3, Moment::now());
                ledger.own(|list| list.most = MOST as u32);
                make(&ledger, &settled, 3, Instant::now())
            });
            assert!(thread.join().unwrap());
        });
        assert!(settled.lock().is_empty());
        ledger.each(|list| settle(&settled, list));
        assert_eq!(*settled.lock(), [3]);
        ledger.each(|list| settle(&settled, list));
        assert_eq!(*settled.lock(), [3]);
    }

    #[test]
    fn threads_take_the_lists_of_those_that_have_ended() {
        ends_moments_alone();
        let (ledger, settled) = (Ledger::default(), Settled::default());
        let lists = || ledger.all.lock().len();
        let launch = |handle| {
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    ends_moments_alone();
                    learn(&ledger, &settled, handle, Moment::now());
                    ledger.own(|list| list.most = MOST as u32);
                    make(&ledger, &settled, handle, Instant::now())
                });
                assert!(thread.join().unwrap());
            });
        };
        launch(1);
        launch(2);
        assert_eq!(lists(), 2, "what the first has left is not settled yet");
        ledger.each(|list| settle(&settled, list));
        launch(3);
        launch(4);
        ledger.each(|list| settle(&settled, list));
        assert_eq!((lists(), settled.lock().len()), (2, 4));
        let mut handles = settled.lock().clone();
        handles.sort_unstable();
        assert_eq!(handles, [1, 2, 3, 4]);
    }

    #[test]
    fn lists_of_others_are_not_a_threads_own() {
        ends_moments_alone();
        let (one, other, settled) = (Ledger::default(), Ledger::default(), Settled::default());
        let moment = Moment::now();
        learn(&one, &settled, 1, moment);
        one.own(|list| list.most = MOST as u32);
        assert!(make(&one, &settled, 1, Instant::now()));
        other.own(|_| panic!("it has none"));
        learn(&other, &settled, 2, moment);
        one.own(|_| panic!("the thread has the other's"));
        assert!(
            !make(&other, &settled, 1, Instant::now()),
            "it is not known there"
        );
        one.each(|list| settle(&settled, list));
        assert_eq!(*settled.lock(), [1]);
    }

    #[test]
    fn kernels_are_told_apart_however_many_there_are() {
        ends_moments_alone();
        let (ledger, settled) = (Ledger::default(), Settled::default());
        for handle in 1..KERNELS as u64 + 10 {
            // (There are others with each moment.)
            crate::moment::moment_over();
            learn(&ledger, &settled, handle, Moment::now());
            assert!(make(&ledger, &settled, handle, Instant::now()));
        }
        ledger.each(|list| settle(&settled, list));
        assert_eq!(
            *settled.lock(),
            (1..KERNELS as u64 + 10).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_handle_of_another_kernel_is_not_taken_for_the_old_one() {
        ends_moments_alone();
        let (ledger, settled) = (Ledger::default(), Settled::default());
        learn(&ledger, &settled, 1, Moment::now());
        crate::moment::kernels_changed();
        assert!(undecided(1, || Some(PLACE)).is_none());
        learn(&ledger, &settled, 2, Moment::now());
        assert!(!make(&ledger, &settled, 1, Instant::now()));
    }
}
