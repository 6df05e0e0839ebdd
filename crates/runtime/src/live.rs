//! A memo, for each thread, of live allocations that it has asked about lately.
//!
//! Frameworks ask the driver about pointers more often than they launch kernels
//! (Triton: about each argument), and most of these lie in few allocations. What all
//! threads share, the registry of allocations and its lock, is then not touched. An
//! entry is valid for one generation of the allocations.

use model::{DeviceAddress, Extent};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Allocations that a thread remembers.
const PLACES: usize = 4;

#[derive(Clone, Copy)]
struct Known {
    /// Of which allocations.
    owner: u64,
    generation: u64,
    extent: Extent,
    context: u64,
}

struct Memo {
    known: [Option<Known>; PLACES],
    /// Which is displaced next.
    turn: usize,
}

thread_local! {
    static MEMO: RefCell<Memo> = const {
        RefCell::new(Memo { known: [None; PLACES], turn: 0 })
    };
}

/// The number of the next owner.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Which allocations entries are of.
pub(crate) struct Live(u64);

impl Default for Live {
    fn default() -> Live {
        Live(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Live {
    /// What the thread remembers of a live allocation that holds the byte at an
    /// address: the context that was given to [`Live::remember`].
    #[inline]
    pub fn holds(&self, generation: u64, address: DeviceAddress) -> Option<u64> {
        // (Nothing is remembered in a thread that ends.)
        let held = MEMO.try_with(|memo| {
            let memo = memo.try_borrow().ok()?;
            let mut known = memo.known.iter().flatten();
            let known = known.find(|known| {
                known.owner == self.0
                    && known.generation == generation
                    && known.extent.contains(address)
            });
            known.map(|known| known.context)
        });
        held.ok().flatten()
    }

    /// An allocation was live in this generation. `context`: what it is of, if its
    /// memory is the device's and was made by cuMemAlloc, else 0.
    pub fn remember(&self, generation: u64, extent: Extent, context: u64) {
        let _ = MEMO.try_with(|memo| {
            let mut memo = memo.try_borrow_mut().ok()?;
            let place = memo.turn % PLACES;
            memo.turn = place + 1;
            memo.known[place] = Some(Known {
                owner: self.0,
                generation,
                extent,
                context,
            });
            Some(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(base: u64) -> Extent {
        Extent {
            base: DeviceAddress(base),
            size: 0x100,
        }
    }

    #[test]
    fn allocations_are_remembered_for_their_generation_and_owner() {
        let (one, other) = (Live::default(), Live::default());
        one.remember(3, extent(0x1000), 9);
        assert_eq!(one.holds(3, DeviceAddress(0x10ff)), Some(9));
        assert!(one.holds(3, DeviceAddress(0x1100)).is_none());
        assert!(one.holds(4, DeviceAddress(0x1000)).is_none());
        assert!(other.holds(3, DeviceAddress(0x1000)).is_none());
    }

    #[test]
    fn the_newest_displace_the_oldest() {
        let live = Live::default();
        for base in 1..=PLACES as u64 + 1 {
            live.remember(1, extent(base << 12), 0);
        }
        let holds = |base: u64| live.holds(1, DeviceAddress(base << 12)).is_some();
        assert!(!holds(1) && (2..=PLACES as u64 + 1).all(holds));
    }
}
