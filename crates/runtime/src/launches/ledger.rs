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

use crate::functions::{Counted, Function};
use crate::moment::Moment;
use crate::spread;
use crate::streams::{StreamName, Where};
use driver::SupportStream;
use model::UncheckedReason;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Launches in a list, at most.
const MOST: usize = 32;
/// A list of launches should not grow older: checks wait for it. (A step of training in
/// PyTorch launches a kernel each 25 µs; settling a list takes 0.7.)
const AGE: Duration = Duration::from_millis(1);

/// Places of a thread for kernels. (A step of training in PyTorch launches some fifty.)
const PLACES: usize = 64;
/// Kernels of a place, in one line of the cache; with more, they displace each other.
const WAYS: usize = 4;
/// Kernels that a thread knows at a time.
const KERNELS: usize = 1024;

/// A kernel that may be listed, and why none of its launches is checked.
#[derive(Debug)]
struct Known {
    function: Arc<Function>,
    reason: UncheckedReason,
}

/// Kernels that a thread has launched; lists name them by their places here.
type Kernels = Mutex<Vec<Known>>;

/// Launches, by the places of their kernels.
type Items = SmallVec<[u32; MOST]>;

/// Where the launches of a list went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub name: StreamName,
    /// As the program names it.
    pub stream: SupportStream,
}

impl Target {
    /// The target of what goes there, if it is a stream.
    #[inline]
    pub fn of(place: Where) -> Option<Target> {
        match place {
            Where::Stream {
                name,
                handle,
                per_thread,
            } => Some(Target {
                name,
                stream: SupportStream::Program { handle, per_thread },
            }),
            Where::Graph | Where::Unknown => None,
        }
    }
}

/// What is common to the launches of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub target: Target,
    pub context: u64,
    /// When the first one was made.
    pub since: Instant,
    /// Whether it is verified afterwards what they did.
    pub is_verified: bool,
}

/// Launches that were made one after the other by one thread, in one stream.
#[derive(Debug)]
pub(crate) struct Listed {
    pub begun: Begun,
    /// The ordinal of the first, whose successors the others have; 0: they have none.
    first: u64,
    items: Items,
    kernels: Arc<Kernels>,
}

impl Listed {
    /// How many launches there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Calls a function with each launch, oldest first: its ordinal, its kernel, and
    /// how it is counted.
    pub fn each(&self, mut act: impl FnMut(u64, &Arc<Function>, Counted)) {
        let kernels = self.kernels.lock();
        for (place, item) in (0..).zip(&self.items) {
            let Some(known) = kernels.get(*item as usize) else {
                debug_assert!(false, "kernels are not removed from a list's");
                continue;
            };
            let counted = match self.begun.is_verified {
                true => Counted::Verified(known.reason),
                false => Counted::Unchecked(known.reason),
            };
            let ordinal = if self.first == 0 {
                0
            } else {
                self.first + place
            };
            act(ordinal, &known.function, counted);
        }
    }
}

/// The launches of a thread that are not settled, all in one stream.
pub(super) struct List {
    begun: Option<Begun>,
    items: Items,
    /// Launches that the list may hold, as fast as they come.
    most: usize,
    kernels: Arc<Kernels>,
}

impl Default for List {
    fn default() -> List {
        List {
            begun: None,
            items: SmallVec::new(),
            most: 1,
            kernels: Arc::default(),
        }
    }
}

impl List {
    /// Takes its launches out. `first`: the ordinals of so many launches.
    pub fn take(&mut self, first: impl FnOnce(u64) -> u64) -> Option<Listed> {
        let begun = self.begun.take()?;
        let items = std::mem::take(&mut self.items);
        let first = match begun.is_verified {
            true => first(items.len() as u64),
            false => 0,
        };
        Some(Listed {
            begun,
            first,
            items,
            kernels: self.kernels.clone(),
        })
    }

    /// Where a kernel is among those it knows; `None`: there is no room for it. (The
    /// next moment makes some.)
    fn place_of(&self, function: &Arc<Function>, reason: UncheckedReason) -> Option<u32> {
        let mut kernels = self.kernels.lock();
        let mut known = kernels.iter();
        let known = known.position(|known| Arc::ptr_eq(&known.function, function));
        let place = match known {
            Some(place) => place,
            None if kernels.len() >= KERNELS => return None,
            None => {
                kernels.push(Known {
                    function: function.clone(),
                    reason,
                });
                kernels.len() - 1
            }
        };
        u32::try_from(place).ok()
    }

    /// It was full at this time, which began at that: says how many launches the next
    /// may hold.
    fn was_full(&mut self, since: Instant, now: Instant) {
        let each = now.saturating_duration_since(since) / self.most as u32;
        let fit = AGE.as_nanos() / each.as_nanos().max(1);
        self.most = usize::try_from(fit).unwrap_or(MOST).clamp(1, MOST);
    }
}

/// Where a thread finds a kernel's place among those it knows.
#[derive(Clone, Copy)]
struct Slot {
    /// The program's handle.
    handle: u64,
    kernel: u32,
}

/// What a thread knows of kernels, and its list.
struct Own {
    /// Of which ledger it is.
    number: u64,
    /// While this lasts, what it knows is so.
    moment: Moment,
    /// Whether launches are verified at that time.
    is_verified: bool,
    places: [Place; PLACES],
    /// `None` until there is a kernel.
    list: Option<Arc<Mutex<List>>>,
}

/// The kernels of a place.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Place([Slot; WAYS]);

/// A slot of no kernel.
const FREE: Slot = Slot {
    handle: 0,
    kernel: 0,
};
/// A place of none.
const EMPTY: Place = Place([FREE; WAYS]);

thread_local! {
    static OWN: RefCell<Own> = const {
        RefCell::new(Own {
            number: 0,
            moment: Moment::NEVER,
            is_verified: false,
            places: [EMPTY; PLACES],
            list: None,
        })
    };
}

impl Own {
    #[inline]
    fn kernel(&self, handle: u64) -> Option<u32> {
        let Place(slots) = &self.places[spread::place(handle, PLACES)];
        let is_its = |slot: &&Slot| slot.handle == handle && handle != 0;
        slots.iter().find(is_its).map(|slot| slot.kernel)
    }
}

/// Notes where a kernel is found.
fn put(places: &mut [Place; PLACES], handle: u64, kernel: u32) {
    let Place(slots) = &mut places[spread::place(handle, PLACES)];
    let is_its = |slot: &Slot| slot.handle == handle;
    let its = slots.iter().position(is_its);
    // The oldest is the last one.
    let way = its.unwrap_or(WAYS - 1);
    slots[..=way].rotate_right(1);
    slots[0] = Slot { handle, kernel };
}

/// A launch about to be made, of a kernel of which none is checked: it needs no
/// decision, and is listed when the device has taken it.
#[derive(Clone, Copy, Debug)]
#[must_use = "the launch is made or refused"]
pub struct Listing {
    handle: u64,
}

/// Whether a launch of a kernel, by the program's handle, needs no decision, because
/// the calling thread may list it.
#[inline]
pub fn listing(handle: u64) -> Option<Listing> {
    // (None in a thread that ends.)
    let may = OWN.try_with(|own| {
        let own = own.try_borrow().ok()?;
        (own.kernel(handle).is_some() && own.moment.lasts()).then_some(Listing { handle })
    });
    may.ok().flatten()
}

impl Listing {
    /// The program's handle of the kernel.
    pub fn handle(self) -> u64 {
        self.handle
    }

    /// The device took the launch. Whether it is listed; if not, because there is no
    /// list of this stream that has room for another one, the launcher does it.
    #[inline]
    pub fn made(self, place: Where) -> bool {
        let listed = OWN.try_with(|own| {
            let own = own.try_borrow().ok()?;
            let kernel = own.kernel(self.handle)?;
            let mut list = own.list.as_ref()?.lock();
            let target = Target::of(place)?;
            let is_its = list.begun.is_some_and(|begun| begun.target == target);
            if !is_its || list.items.len() + 1 >= list.most {
                return None;
            }
            list.items.push(kernel);
            Some(())
        });
        listed.ok().flatten().is_some()
    }
}

/// The lists of all threads.
pub(super) struct Ledger {
    /// No others of the process have it.
    number: u64,
    all: Mutex<Vec<Arc<Mutex<List>>>>,
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
        (moment, is_verified): (Moment, bool),
        settle: impl FnOnce(&mut List),
    ) {
        let _ = OWN.try_with(|own| {
            let Ok(mut own) = own.try_borrow_mut() else {
                return;
            };
            let own = &mut *own;
            if own.number != self.number {
                own.number = self.number;
                own.list = None;
                own.moment = Moment::NEVER;
            }
            let list = own.list.get_or_insert_with(|| self.add());
            let mut list = list.lock();
            if own.moment != moment {
                settle(&mut list);
                let count = list.kernels.lock().len();
                if !own.moment.has_kernels_of(moment) || count >= KERNELS {
                    list.kernels = Arc::default();
                    own.places = [EMPTY; PLACES];
                }
                (own.moment, own.is_verified) = (moment, is_verified);
            }
            if let Some(kernel) = list.place_of(function, reason) {
                put(&mut own.places, function.handle, kernel);
            }
        });
    }

    fn add(&self) -> Arc<Mutex<List>> {
        let list = Arc::<Mutex<List>>::default();
        self.all.lock().push(list.clone());
        list
    }

    /// Lists a launch that [`Listing::made`] does not. `settle` is called with the list
    /// of another stream, and with one that is full. `None`: the thread does not know the
    /// kernel any more; `true`: the list was full, and its launches are to be verified.
    pub fn list(
        &self,
        listing: Listing,
        (target, context): (Target, u64),
        now: Instant,
        settle: impl Fn(&mut List),
    ) -> Option<bool> {
        let listed = OWN.try_with(|own| {
            let own = own.try_borrow().ok()?;
            let kernel = own.kernel(listing.handle)?;
            let mut list = own.list.as_ref()?.lock();
            let of_target = list.begun.filter(|begun| begun.target == target);
            let begun = of_target.unwrap_or_else(|| {
                settle(&mut list);
                Begun {
                    target,
                    context,
                    since: now,
                    is_verified: own.is_verified,
                }
            });
            list.begun = Some(begun);
            list.items.push(kernel);
            if list.items.len() < list.most {
                return Some(false);
            }
            settle(&mut list);
            list.was_full(begun.since, now);
            Some(begun.is_verified)
        });
        listed.ok().flatten()
    }

    /// Does something with the list of the calling thread.
    pub fn own(&self, act: impl FnOnce(&mut List)) {
        let _ = OWN.try_with(|own| {
            let Ok(own) = own.try_borrow() else {
                return;
            };
            if let Some(list) = own.list.as_ref().filter(|_| own.number == self.number) {
                act(&mut list.lock());
            }
        });
    }

    /// Does something with each list. Those of threads that have ended are forgotten
    /// then.
    pub fn each(&self, mut act: impl FnMut(&mut List)) {
        self.all.lock().retain(|list| {
            act(&mut list.lock());
            Arc::strong_count(list) > 1
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::function;

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
        let listing = Listing { handle };
        let target = Target::of(PLACE).unwrap();
        listing.made(PLACE)
            || ledger
                .list(listing, (target, 1), now, |list| settle(settled, list))
                .is_some()
    }

    #[test]
    fn lists_are_as_long_as_launches_come_fast() {
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
        ledger.own(|list| list.was_full(start, start + Duration::from_millis(1) * MOST as u32));
        ledger.own(|list| assert_eq!(list.most, 1));
        ledger.own(|list| list.was_full(start, start));
        ledger.own(|list| assert_eq!(list.most, MOST));
    }

    #[test]
    fn what_a_thread_leaves_behind_is_found_once() {
        let (ledger, settled) = (Ledger::default(), Settled::default());
        std::thread::scope(|scope| {
            // Joined: a scope ends before what its threads own is dropped.
            let thread = scope.spawn(|| {
                learn(&ledger, &settled, 3, Moment::now());
                ledger.own(|list| list.most = MOST);
                make(&ledger, &settled, 3, Instant::now())
            });
            assert!(thread.join().unwrap());
        });
        assert!(settled.lock().is_empty());
        ledger.each(|list| settle(&settled, list));
        assert_eq!(*settled.lock(), [3]);
        ledger.each(|_| panic!("it is forgotten"));
    }

    #[test]
    fn lists_of_others_are_not_a_threads_own() {
        let (one, other, settled) = (Ledger::default(), Ledger::default(), Settled::default());
        let moment = Moment::now();
        learn(&one, &settled, 1, moment);
        one.own(|list| list.most = MOST);
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
    fn kernels_that_share_a_place_are_all_known() {
        let (ledger, settled) = (Ledger::default(), Settled::default());
        let moment = Moment::now();
        let place = |handle: &u64| spread::place(*handle, PLACES) == 0;
        let all: Vec<u64> = (1..).filter(place).take(WAYS + 1).collect();
        for handle in &all {
            learn(&ledger, &settled, *handle, moment);
        }
        let is_known = |handle: &u64| OWN.with(|own| own.borrow().kernel(*handle).is_some());
        assert!(!is_known(&all[0]), "the oldest is displaced");
        assert!(all[1..].iter().all(is_known));
        learn(&ledger, &settled, all[WAYS], moment);
        assert!(all[1..].iter().all(is_known), "none is there twice");
    }

    #[test]
    fn a_handle_of_another_kernel_is_not_taken_for_the_old_one() {
        let (ledger, settled) = (Ledger::default(), Settled::default());
        learn(&ledger, &settled, 1, Moment::now());
        crate::moment::kernels_changed();
        assert!(listing(1).is_none());
        learn(&ledger, &settled, 2, Moment::now());
        assert!(!make(&ledger, &settled, 1, Instant::now()));
    }
}
