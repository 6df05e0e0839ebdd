//! What a thread has at hand for launches that need no decision, and how it makes them.
//!
//! Each line of the cache that such a launch touches was displaced by the driver since the
//! one before, and each look at what belongs to a thread is a call of the loader's. So
//! what it compares lies together, and a thread looks once.

use super::list::{Begun, KERNELS, List, Target};
use crate::functions::Function;
use crate::moment::Moment;
use crate::spread;
use crate::streams::Where;
use model::UncheckedReason;
use parking_lot::{Mutex, MutexGuard};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::time::Instant;

/// Places of a thread for kernels. (A step of training in PyTorch launches some fifty.)
const PLACES: usize = 64;
/// Kernels of a place, in one line of the cache; with more, they displace each other.
const WAYS: usize = 4;

/// What a thread knows of kernels, and its list. What each launch compares is in the
/// first line of the cache. It stays, so that a thread refers to it without counting: one
/// that ends leaves it to another one.
#[repr(C, align(64))]
pub(super) struct ThreadCache {
    /// The number of a [`Moment`]: while it lasts, what the thread knows is so.
    moment: AtomicU64,
    list: Mutex<List>,
    places: [Place; PLACES],
    /// The kernels that there were at the moment.
    kernels: AtomicU64,
    /// Launches are verified at that time.
    is_verified: AtomicBool,
    /// A thread has it.
    is_owned: AtomicBool,
}

// (The list lies behind its lock.)
const _: () = assert!(std::mem::offset_of!(ThreadCache, list) + 8 + List::COMPARED <= 64);

/// Where a thread finds a kernel's place among those it knows.
struct Slot {
    /// The program's handle; 0: it is free.
    handle: AtomicU64,
    kernel: AtomicU16,
}

/// The kernels of a place.
#[repr(align(64))]
struct Place([Slot; WAYS]);

impl Place {
    const fn free() -> Place {
        Place(
            [const {
                Slot {
                    handle: AtomicU64::new(0),
                    kernel: AtomicU16::new(0),
                }
            }; WAYS],
        )
    }
}

impl Slot {
    #[inline(always)]
    fn get(&self) -> (u64, u16) {
        (
            self.handle.load(Ordering::Relaxed),
            self.kernel.load(Ordering::Relaxed),
        )
    }

    fn set(&self, (handle, kernel): (u64, u16)) {
        self.handle.store(handle, Ordering::Relaxed);
        self.kernel.store(kernel, Ordering::Relaxed);
    }
}

thread_local! {
    /// What the thread knows, and the ledger that it belongs to. (It needs no
    /// destructor: with one, each access would check whether that has run.)
    static OWN: Cell<Option<(&'static ThreadCache, u64)>> = const { Cell::new(None) };
    /// Leaves it when the thread ends.
    static LEAVING: Leaving = const { Leaving };
}

/// See [`LEAVING`].
struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        leave();
    }
}

/// The calling thread leaves what it knows to another one.
fn leave() {
    if let Some((cache, _)) = OWN.take() {
        cache.moment.store(0, Ordering::Relaxed);
        cache.is_owned.store(false, Ordering::Release);
    }
}

impl ThreadCache {
    /// One that the calling thread will have.
    pub fn new() -> &'static ThreadCache {
        Box::leak(Box::new(ThreadCache {
            moment: AtomicU64::new(0),
            list: Mutex::default(),
            places: [const { Place::free() }; PLACES],
            kernels: AtomicU64::new(0),
            is_verified: AtomicBool::new(false),
            is_owned: AtomicBool::new(true),
        }))
    }

    /// The calling thread's, if it is of the ledger of this number.
    pub fn own(ledger: u64) -> Option<&'static ThreadCache> {
        OWN.get()
            .and_then(|(cache, of)| (of == ledger).then_some(cache))
    }

    /// Takes a block that no thread has, once its list is settled. Whether it was taken.
    pub fn take(&self) -> bool {
        self.list().is_empty() && !self.is_owned.swap(true, Ordering::AcqRel)
    }

    /// Gives it to the calling thread, in the ledger of this number; `false`: the thread
    /// ends, and would not leave it to another one.
    pub fn give(&'static self, ledger: u64) -> bool {
        leave();
        let lives = LEAVING.try_with(|_| ()).is_ok();
        if lives {
            OWN.set(Some((self, ledger)));
        } else {
            self.is_owned.store(false, Ordering::Release);
        }
        lives
    }

    /// The launches that are not settled.
    #[inline(always)]
    pub fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock()
    }

    /// The thread may list launches of a kernel, as long as the moment lasts;
    /// `is_verified`: launches are verified afterwards as long. `settle` is called with
    /// what was listed in an earlier moment.
    pub fn learn(
        &self,
        function: &Arc<Function>,
        reason: UncheckedReason,
        (moment, is_verified): (Moment, bool),
        settle: impl FnOnce(&mut List),
    ) {
        let mut list = self.list();
        if self.moment.load(Ordering::Relaxed) != moment.number() {
            settle(&mut list);
            let known = self.kernels.swap(moment.kernels(), Ordering::Relaxed);
            if known != moment.kernels() || list.kernels() >= KERNELS {
                list.forget_kernels();
                let slots = self.places.iter().flat_map(|Place(slots)| slots);
                slots.for_each(|slot| slot.set((0, 0)));
            }
            self.moment.store(moment.number(), Ordering::Relaxed);
            self.is_verified.store(is_verified, Ordering::Relaxed);
        }
        if let Some(kernel) = list.place_of(function, reason) {
            self.put(function.handle, kernel);
        }
    }

    /// Lists a launch that was made now and that [`undecided`] has left: [`List::add`].
    /// `None`: the thread does not know the kernel any more.
    pub fn add(
        &self,
        listing: Listing,
        (target, context): (Target, u64),
        now: Instant,
        settle: impl Fn(&mut List),
    ) -> Option<bool> {
        let kernel = self.kernel(listing.handle)?;
        let begun = Begun {
            target,
            context,
            since: now,
            is_verified: self.is_verified.load(Ordering::Relaxed),
        };
        Some(self.list().add(kernel, begun, settle))
    }

    #[inline(always)]
    fn kernel(&self, handle: u64) -> Option<u16> {
        let Place(slots) = &self.places[spread::place(handle, PLACES)];
        for slot in slots {
            let (its, kernel) = slot.get();
            if its == handle && handle != 0 {
                return Some(kernel);
            }
        }
        None
    }

    /// Notes where a kernel is found.
    fn put(&self, handle: u64, kernel: u16) {
        let Place(slots) = &self.places[spread::place(handle, PLACES)];
        let its = slots.iter().position(|slot| slot.get().0 == handle);
        // The oldest is the last one.
        for older in (1..=its.unwrap_or(WAYS - 1)).rev() {
            slots[older].set(slots[older - 1].get());
        }
        slots[0].set((handle, kernel));
    }
}

/// A launch of a kernel of which none is checked, that is not listed yet.
#[derive(Clone, Copy, Debug)]
#[must_use = "the launch is listed or refused"]
pub struct Listing {
    handle: u64,
}

impl Listing {
    /// The program's handle of the kernel.
    pub fn handle(self) -> u64 {
        self.handle
    }
}

/// What became of a launch that needed no decision.
#[derive(Debug)]
pub enum Made {
    /// It is listed.
    Listed,
    /// It went there, and the launcher has to list it: there is no list of this stream
    /// that has room for another one.
    Left(Listing, Where),
    /// The device refused it.
    Refused(Listing),
}

/// Makes a launch of a kernel, by the program's handle, that needs no decision, because
/// the calling thread may list it; `None`: it does, and was not made. `make` answers
/// where the launch went, unless the device refused it.
///
/// (All at once: each look at what belongs to a thread costs a call of the loader's.)
#[inline(always)]
pub fn undecided(handle: u64, make: impl FnOnce() -> Option<Where>) -> Option<Made> {
    let (cache, _) = OWN.get()?;
    let moment = cache.moment.load(Ordering::Relaxed);
    let kernel = cache.kernel(handle)?;
    if !Moment::is_present(moment) {
        return None;
    }
    let listing = Listing { handle };
    let Some(place) = make() else {
        return Some(Made::Refused(listing));
    };
    // (The device may have called what has launched something, too.)
    let is_same = cache.moment.load(Ordering::Relaxed) == moment;
    let target = Target::of(place).filter(|_| is_same);
    Some(match target {
        Some(target) if cache.list().add_to(target, kernel) => Made::Listed,
        _ => Made::Left(listing, place),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::function;
    use crate::moment::of_one_test::ends_moments_alone;

    #[test]
    fn kernels_that_share_a_place_are_all_known() {
        ends_moments_alone();
        let (cache, moment) = (ThreadCache::new(), Moment::now());
        let learn = |handle| {
            let kernel = Arc::new(function(handle, "k", 1));
            cache.learn(&kernel, UncheckedReason::NoPtx, (moment, true), |_| {});
        };
        let place = |handle: &u64| spread::place(*handle, PLACES) == 0;
        let all: Vec<u64> = (1..).filter(place).take(WAYS + 1).collect();
        all.iter().copied().for_each(learn);
        let is_known = |handle: &u64| cache.kernel(*handle).is_some();
        assert!(!is_known(&all[0]), "the oldest is displaced");
        assert!(all[1..].iter().all(is_known));
        learn(all[WAYS]);
        assert!(all[1..].iter().all(is_known), "none is there twice");
    }
}
