//! The protection by unmapped pages: each buffer lies at addresses that nothing
//! else has, and ends (or starts) where no memory is mapped. An access beyond it,
//! read or write, stops the kernel, and so does one to memory that was freed:
//! its addresses are not given out again while others are left. Nothing is
//! instrumented, so it works for code of every kind.
//!
//! * [`physical`] maps memory for a buffer, and takes it away again;
//! * [`later`] takes it away when a stream has come to that;
//! * [`protection`] says at which events of a run all that happens.
//!
//! The driver maps whole granules of 2 MiB, and all of a physical allocation. So a
//! buffer whose end is to be exact has granules of its own; small buffers share
//! one when the budget (`--pages-budget`) is spent, each at addresses of its own.
//! What of its granules a buffer does not use holds canaries beside it.
//!
//! What goes wrong here never becomes an error of the program: a buffer that
//! cannot be placed is the driver's own, and is counted.

mod later;
mod physical;
mod protection;

use crate::env::Env;
use crate::turn::Turn;
use driver::DriverError;
use heap::placed::{Ranges, Sample, Side};
use later::Leaving;
use model::layout::placed::{MAPPING_GRANULE, PLACED_BASE, PLACED_RESERVED};
use model::{DeviceAddress, ElsewhereReason, Extent, PagesCoverage, PagesPlace};
use parking_lot::Mutex;
use physical::{Placed, Shared};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// All addresses that buffers get.
const ALL: Extent = Extent {
    base: DeviceAddress(PLACED_BASE),
    size: PLACED_RESERVED,
};

/// See the module's header.
pub(crate) struct Pages {
    env: Arc<Env>,
    side: Side,
    /// What a buffer's address is a multiple of.
    align: u64,
    /// Most bytes of canary on either side of a buffer.
    canary: u64,
    turn: Turn,
    /// Whether the addresses are reserved, and the device's memory is known.
    opened: OnceLock<bool>,
    /// Some buffer was placed.
    any: AtomicBool,
    /// Never locked while the driver is called.
    state: Mutex<State>,
}

struct State {
    ranges: Ranges,
    /// Once the device's memory is known.
    sample: Option<Sample>,
    /// What buffers share, by context.
    shared: FxHashMap<u64, Shared>,
    /// By the program's address.
    live: BTreeMap<u64, Placed>,
    /// Freed, and still mapped.
    leaving: Vec<Leaving>,
    counts: PagesCoverage,
    /// Bytes of buffers now, and of device memory for them.
    bytes: u64,
    memory: u64,
}

impl Pages {
    pub fn new(env: Arc<Env>) -> Pages {
        let settings = env.settings();
        Pages {
            side: match settings.pages_place {
                PagesPlace::End => Side::End,
                PagesPlace::Start => Side::Start,
            },
            align: settings.pages_align,
            canary: settings.canary_size.next_multiple_of(16),
            turn: Turn::default(),
            opened: OnceLock::new(),
            any: AtomicBool::new(false),
            state: Mutex::new(State {
                ranges: Ranges::new(ALL, MAPPING_GRANULE),
                sample: None,
                shared: FxHashMap::default(),
                live: BTreeMap::new(),
                leaving: Vec::new(),
                counts: PagesCoverage::default(),
                bytes: 0,
                memory: 0,
            }),
            env,
        }
    }

    /// Reserves the addresses, once. Returns whether buffers can be placed.
    fn open(&self) -> bool {
        if let Some(opened) = self.opened.get() {
            return *opened;
        }
        let Some(_turn) = self.turn.take() else {
            return false;
        };
        if let Some(opened) = self.opened.get() {
            return *opened;
        }
        let driver = self.env.driver();
        let total = driver
            .reserve_fixed(ALL)
            .and_then(|()| driver.total_memory());
        match total {
            Ok(total) => {
                let settings = self.env.settings();
                let seed = heap::canary::seed(settings);
                let budget = settings.pages_budget.of(total);
                self.state.lock().sample = Some(Sample::new(seed, budget));
            }
            Err(ref error) => self.env.error(
                &format!(
                    "no buffer can be placed at unmapped pages: {error}. The program runs with the driver's own \
                     allocations; --protect bounds,canary checks it without unmapped pages"
                ),
                false,
            ),
        }
        *self.opened.get_or_init(|| total.is_ok())
    }

    /// Whether some buffer was placed.
    fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    fn elsewhere(&self, reason: ElsewhereReason) {
        let counts = &mut self.state.lock().counts;
        *counts.elsewhere.entry(reason).or_default() += 1;
    }

    /// What the driver refused.
    fn refused(&self, error: &DriverError) {
        // In a context that has failed, the program's own call fails.
        if error.is_sticky() {
            return;
        }
        if error.code == driver::sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return self.elsewhere(ElsewhereReason::OutOfMemory);
        }
        self.env.error(
            &format!("a buffer is not at unmapped pages: {error}"),
            false,
        );
        self.elsewhere(ElsewhereReason::Refused);
    }
}
