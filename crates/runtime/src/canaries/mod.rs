//! Canaries around the program's allocations: bytes before and after each that
//! nothing may write, verified by a kernel of Ringfence's own in stream order
//! (`device/canary.cu`), so that kernels without PTX are watched, too.
//!
//! * [`place`] decides how much is asked of the driver and makes the canaries;
//! * [`later`] puts that off until something runs that could write to them;
//! * [`table`] is the device's table of them, and which slot is whose;
//! * [`pending`] keeps which launches wait for a check, and when one is due;
//! * [`checks`] decides when canaries are verified, and launches that, after the
//!   program's kernel is on its way: before, the device waits for the host;
//! * [`retire`] is the last look before a buffer goes;
//! * [`history`] finds which launches a check that shows damage can mean;
//! * [`found`] turns what a check reports into findings;
//! * [`protection`] says at which events of a run all that happens.
//!
//! The program sees the address behind the canary before its buffer; the
//! driver's own is `base - Redzones::before` (`Allocations::driver_address`). A
//! record leaves the device's table before its memory leaves the program, in
//! the order of the stream that frees it or, where the host waits, before the
//! host goes on.

mod checks;
mod found;
pub(crate) mod history;
mod later;
mod pending;
mod place;
mod protection;
mod retire;
mod table;

pub use place::{CanaryPlan, Fill};

use crate::allocations::Allocations;
use crate::env::Env;
use crate::launches::Launches;
use crate::memory::Memory;
use crate::metadata::Metadata;
use crate::records::Records;
use crate::reporter::Reporter;
use crate::turn::Turn;
use crate::watch::Watch;
use checks::Checks;
use driver::{HostMapping, SupportKernel};
use heap::canary::Keys;
use later::Later;
use model::CanaryCoverage;
use parking_lot::Mutex;
use retire::Retiring;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use table::Table;

/// The kernels, in one context.
#[derive(Clone, Copy, Debug)]
struct Kernels {
    check: SupportKernel,
    /// It waits itself for what is before it.
    check_waits: bool,
    fill: SupportKernel,
}

/// See the module's header.
pub struct Canaries {
    env: Arc<Env>,
    memory: Arc<Memory>,
    allocations: Arc<Allocations>,
    metadata: Arc<Metadata>,
    launches: Arc<Launches>,
    reporter: Arc<Reporter>,
    records: Arc<Records>,
    watch: Arc<Watch>,
    /// Allocations get canaries.
    wanted: bool,
    /// Bytes on either side, at least.
    size: u64,
    head: bool,
    keys: Keys,
    /// Launches are followed by checks only where the guard cannot watch them.
    watch_first: bool,
    /// Some buffer has canaries.
    active: AtomicBool,
    /// They cannot be made; why was said.
    failed: AtomicBool,
    /// A context was destroyed, and with it perhaps what the device sees of the
    /// host's memory.
    doubtful: AtomicBool,
    turn: Turn,
    kernels: Mutex<FxHashMap<u64, Kernels>>,
    stamps: OnceLock<HostMapping>,
    table: Mutex<Table>,
    later: Later,
    retiring: Retiring,
    checks: Checks,
    counts: Mutex<CanaryCoverage>,
}

/// The services that canaries use.
pub(crate) struct Below {
    pub env: Arc<Env>,
    pub memory: Arc<Memory>,
    pub allocations: Arc<Allocations>,
    pub metadata: Arc<Metadata>,
    pub launches: Arc<Launches>,
    pub reporter: Arc<Reporter>,
    pub records: Arc<Records>,
    pub watch: Arc<Watch>,
}

impl Canaries {
    pub(crate) fn new(below: Below) -> Canaries {
        let settings = below.env.settings();
        let protect = settings.protect;
        Canaries {
            // Under pages they lie in what is left of a buffer's pages.
            wanted: settings.check && (protect.canary || protect.watch || protect.pages),
            size: settings.canary_size.next_multiple_of(16),
            head: settings.canary_head,
            keys: Keys::of(settings),
            watch_first: protect.watch && !protect.canary,
            active: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            doubtful: AtomicBool::new(false),
            turn: Turn::default(),
            kernels: Mutex::default(),
            stamps: OnceLock::new(),
            table: Mutex::default(),
            later: Later::default(),
            retiring: Retiring::default(),
            checks: Checks::new(settings.canary_budget),
            counts: Mutex::default(),
            env: below.env.clone(),
            memory: below.memory,
            allocations: below.allocations,
            metadata: below.metadata,
            launches: below.launches,
            reporter: below.reporter,
            records: below.records,
            watch: below.watch,
        }
    }

    /// Whether allocations get canaries.
    pub(crate) fn are_wanted(&self) -> bool {
        self.wanted
    }

    /// A context was destroyed.
    fn doubt(&self) {
        self.doubtful.store(true, Ordering::Release);
    }

    /// What there is to say at the end; `None`: there were none.
    fn coverage(&self) -> Option<CanaryCoverage> {
        let counts = self.counts.lock().clone();
        (counts.buffers > 0).then(|| self.checks.add_to(self, counts))
    }
}
