//! Buffers at addresses that nothing else has, and that are not given out again
//! while others are left: a use after free is found however late, although the
//! memory of a freed buffer goes back to the device at once. Three protections have
//! such buffers ([`Kind`]):
//!
//! * by unmapped pages: each buffer ends (or starts) where no memory is mapped. An
//!   access beyond it, read or write, stops the kernel, and so does one to memory
//!   that was freed. Nothing is instrumented, so it works for code of every kind;
//! * by shadow memory: large buffers, whose redzones are addresses without memory,
//!   and small ones in stream order;
//! * any, with `--keep-addresses`: large buffers.
//!
//! * [`physical`] maps memory for a buffer, and takes it away again;
//! * [`slabs`] divides memory among small buffers with redzones;
//! * [`later`] takes it away when a stream has come to that;
//! * [`protection`] says at which events of a run all that happens.
//!
//! The driver maps whole granules of 2 MiB, and all of a physical allocation. So a
//! buffer whose end is to be exact has granules of its own; small buffers share
//! one when the budget (`--pages-budget`) is spent, each at addresses of its own.
//! What of its granules a buffer does not use holds canaries beside it.
//!
//! What goes wrong here never becomes an error of the program: a buffer that
//! cannot be placed is the driver's own.

mod later;
mod physical;
mod protection;
mod slabs;

use crate::env::Env;
use crate::shadow::Shadow;
use crate::turn::Turn;
use driver::DriverError;
use heap::placed::{Ranges, Sample, Side};
use heap::shadow::{ALIGNMENT, RedzoneRule};
use later::Leaving;
use model::layout::placed::{MAPPING_GRANULE, PLACED_BASE, PLACED_RESERVED};
use model::layout::shadow::{Encoding, SHADOW_PIECES};
use model::{DeviceAddress, ElsewhereReason, Extent, PagesCoverage, PagesPlace, Settings};
use parking_lot::Mutex;
use physical::{Placed, Shared};
use rustc_hash::FxHashMap;
use slabs::Small;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Buffers above this have granules of their own: it costs no more than the
/// driver's own allocation, which for these is of whole granules, too (measured
/// on driver 580).
const ALWAYS_OWN: u64 = MAPPING_GRANULE / 2;
/// Most bytes of unmapped addresses after a buffer.
const LARGEST_GAP: u64 = 1 << 30;

/// Bytes of addresses for buffers with redzones, on a device with so much memory:
/// all of them have shadow memory in the end, which so takes [`Encoding::most_percent`]
/// of the device's at most.
fn span(encoding: Encoding, total: u64) -> u64 {
    let covered = u64::from(SHADOW_PIECES) << encoding.piece_shift();
    let most = (total / 100).saturating_mul(encoding.most_percent());
    let wanted = most.saturating_mul(encoding.block());
    let piece = 1 << encoding.piece_shift();
    wanted
        .next_multiple_of(piece)
        .min(covered)
        .min(PLACED_RESERVED)
}

/// All addresses that buffers get.
const ALL: Extent = Extent {
    base: DeviceAddress(PLACED_BASE),
    size: PLACED_RESERVED,
};

/// Which buffers are placed, and what lies beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All buffers, at unmapped pages.
    Unmapped,
    /// Large buffers, and those in stream order, between redzones.
    Redzones(RedzoneRule),
    /// Large buffers, with canaries of so many bytes before and after them.
    Kept { before: u64, after: u64 },
}

impl Kind {
    /// What the settings ask for, if anything.
    pub fn of(settings: &Settings) -> Option<Kind> {
        let protect = settings.protect;
        let canary = match protect.canary || protect.watch {
            true => settings.canary_size.next_multiple_of(ALIGNMENT),
            false => 0,
        };
        match () {
            () if !settings.check => None,
            () if protect.pages => Some(Kind::Unmapped),
            () if protect.shadow => Some(Kind::Redzones(RedzoneRule {
                percent: settings.redzone_percent,
                min: settings.redzone_min,
                // They take addresses, and no memory.
                max: settings.redzone_max.max(LARGEST_GAP),
            })),
            () if settings.keep_addresses => Some(Kind::Kept {
                before: if settings.canary_head { canary } else { 0 },
                after: canary,
            }),
            () => None,
        }
    }
}

/// See the module's header.
pub(crate) struct Pages {
    env: Arc<Env>,
    /// Keeps what was freed from being accessed.
    shadow: Arc<Shadow>,
    kind: Kind,
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
    small: Small,
    counts: PagesCoverage,
    /// Bytes of buffers now, and of device memory for them.
    bytes: u64,
    memory: u64,
}

impl Pages {
    pub fn new(env: Arc<Env>, shadow: Arc<Shadow>, kind: Kind) -> Pages {
        let settings = env.settings();
        Pages {
            shadow,
            kind,
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
                small: Small::default(),
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
                let mut state = self.state.lock();
                state.sample = Some(Sample::new(seed, budget));
                if matches!(self.kind, Kind::Redzones(_)) {
                    let size = span(settings.shadow_encoding, total);
                    state.ranges = Ranges::new(Extent { size, ..ALL }, MAPPING_GRANULE);
                }
            }
            Err(ref error) => self.env.error(
                &format!(
                    "no buffer can be placed at addresses of its own: {error}. The program runs with the driver's \
                     own allocations; --protect bounds,canary --keep-addresses off checks it with these"
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
        // Other protections count what they do not cover themselves.
        if self.kind != Kind::Unmapped {
            return;
        }
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
            &format!("a buffer is not at addresses of its own: {error}"),
            false,
        );
        self.elsewhere(ElsewhereReason::Refused);
    }
}
