//! The protection by shadow memory: buffers of the program have redzones, and
//! shadow bytes say which memory kernels may access.
//!
//! Only memory that Ringfence asked the driver for, and that the driver does not
//! have back, is ever not addressable: the redzones of live buffers, and freed
//! buffers while the quarantine keeps them. So no other memory of the program can
//! raise an alarm. It is made addressable before the driver gets it back.
//!
//! Changes are collected, and written before the next launch of checked code:
//! kernels that run already see the memory as addressable until then.

mod protection;
mod window;

use crate::allocations::Allocations;
use crate::canaries::CanaryPlan;
use crate::env::Env;
use crate::memory::Memory;
use crate::metadata::Metadata;
use crate::turn::Turn;
use driver::{DriverError, Store};
use heap::shadow::{ALIGNMENT, RedzoneRule, Run, run_of, runs};
use heap::{Owner, Redzones};
use model::layout::shadow::Encoding;
use model::{AllocationKind, BareReason, DeviceAddress, Extent, ShadowCoverage};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use window::Window;

/// Shadow bytes up to this many are written one by one; more of the same are
/// filled in.
const WRITTEN: u64 = 4096;

/// The services that shadow memory uses.
pub(crate) struct Below {
    pub env: Arc<Env>,
    pub memory: Arc<Memory>,
    pub allocations: Arc<Allocations>,
    pub metadata: Arc<Metadata>,
}

/// See the module's header.
pub struct Shadow {
    env: Arc<Env>,
    memory: Arc<Memory>,
    allocations: Arc<Allocations>,
    metadata: Arc<Metadata>,
    /// The encoding, if there is to be shadow memory.
    encoding: Option<Encoding>,
    rule: RedzoneRule,
    turn: Turn,
    state: Mutex<State>,
    /// There are changes that are not on the device.
    is_pending: AtomicBool,
    /// Nothing is covered any more.
    failed: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Buffers with redzones, live or held, by the first byte of the redzone
    /// before them.
    placed: BTreeMap<u64, Placed>,
    window: Window,
    pending: Vec<Change>,
    counts: ShadowCoverage,
}

/// A buffer with redzones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// The first byte of the redzone before it.
    pub start: u64,
    /// The end of the redzone behind it.
    pub end: u64,
    /// The program's bytes.
    pub extent: Extent,
    /// It was freed.
    pub is_held: bool,
    /// The context that it belongs to, as a handle.
    context: u64,
}

/// A change of shadow memory.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// A buffer is there, with its redzones.
    Buffer(Placed),
    /// It was freed.
    Freed(Placed),
    /// All of it is addressable.
    Gone(Placed),
}

impl Shadow {
    pub(crate) fn new(below: Below) -> Arc<Shadow> {
        let settings = below.env.settings();
        let is_wanted = settings.check && settings.protect.shadow;
        let rule = RedzoneRule {
            percent: settings.redzone_percent,
            min: settings.redzone_min,
            max: settings.redzone_max,
        };
        Arc::new(Shadow {
            encoding: is_wanted.then_some(settings.shadow_encoding),
            rule,
            env: below.env,
            memory: below.memory,
            allocations: below.allocations,
            metadata: below.metadata,
            turn: Turn::default(),
            state: Mutex::default(),
            is_pending: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        })
    }

    /// Whether there is to be shadow memory.
    pub(crate) fn is_wanted(&self) -> bool {
        self.encoding.is_some()
    }

    /// What to ask the driver for, so that a buffer of so many bytes has
    /// redzones; `None`: it gets none.
    pub(crate) fn plan(&self, size: u64) -> Option<CanaryPlan> {
        if !self.is_wanted() || size == 0 || self.failed.load(Ordering::Relaxed) {
            return None;
        }
        CanaryPlan::redzoned(self.rule.place(size)?)
    }

    /// Bytes of redzone that a buffer has on either side at least; 0: none.
    pub(crate) fn redzone(&self, size: u64) -> u64 {
        match self.plan(size) {
            Some(_) => self.rule.bytes(size),
            None => 0,
        }
    }

    /// A buffer that has no redzones where others have.
    pub(crate) fn bare(&self, reason: BareReason) {
        if self.is_wanted() {
            *self.state.lock().counts.bare.entry(reason).or_default() += 1;
        }
    }

    /// The program has a buffer for which the driver was asked by a plan; the
    /// extent is the program's.
    pub(crate) fn allocated(
        &self,
        kind: AllocationKind,
        extent: Extent,
        mut owner: Owner,
        plan: &CanaryPlan,
    ) {
        owner.redzones = plan.redzones(None).unwrap_or_default();
        let placed = placed(extent, owner.redzones, owner.context);
        self.allocations.insert(kind, extent, owner);
        match placed.start.is_multiple_of(ALIGNMENT) {
            true => self.place(placed, true),
            false => self.bare(BareReason::Unprotected),
        }
    }

    fn place(&self, placed: Placed, is_new: bool) {
        let mut state = self.state.lock();
        if is_new {
            state.counts.buffers += 1;
            state.counts.memory += placed.extent.size;
            state.counts.bytes += placed.end - placed.start - placed.extent.size;
        }
        state.placed.insert(placed.start, placed);
        state.pending.push(Change::Buffer(placed));
        self.is_pending.store(true, Ordering::Release);
    }

    /// The buffer with redzones that holds an address, redzones included.
    pub(crate) fn at(&self, address: DeviceAddress) -> Option<Placed> {
        let state = self.state.lock();
        let (_, placed) = state.placed.range(..=address.0).next_back()?;
        (address.0 < placed.end).then_some(*placed)
    }

    /// The buffer at the program's address.
    fn of(&self, base: DeviceAddress) -> Option<Placed> {
        self.at(base).filter(|placed| placed.extent.base == base)
    }

    /// The quarantine keeps a buffer: nothing of it is addressable.
    fn hold(&self, placed: Placed) {
        let held = Placed {
            is_held: true,
            ..placed
        };
        let mut state = self.state.lock();
        state.placed.insert(held.start, held);
        state.pending.push(Change::Freed(held));
        self.is_pending.store(true, Ordering::Release);
    }

    /// The driver gets the memory of buffers back: all of it is addressable,
    /// before this returns.
    fn give_back(&self, buffers: &[Placed]) {
        if buffers.is_empty() {
            return;
        }
        {
            let mut state = self.state.lock();
            for placed in buffers {
                state.placed.remove(&placed.start);
                state.pending.push(Change::Gone(*placed));
            }
        }
        self.is_pending.store(true, Ordering::Release);
        self.flush();
    }

    /// Writes what changed to the device.
    fn flush(&self) {
        if !self.is_pending.load(Ordering::Acquire) {
            return;
        }
        let (Some(encoding), Some(_turn)) = (self.encoding, self.turn.take()) else {
            return;
        };
        let changes = {
            let mut state = self.state.lock();
            self.is_pending.store(false, Ordering::Release);
            std::mem::take(&mut state.pending)
        };
        if let Err(message) = self.write(encoding, &changes) {
            self.fail(&message);
        }
    }

    /// No address is covered from now on.
    fn fail(&self, message: &str) {
        if self.failed.swap(true, Ordering::AcqRel) {
            return;
        }
        let message = format!(
            "shadow memory cannot be kept up to date: {message}. No access is checked against it from here on"
        );
        self.env.error(&message, true);
        // Where not even this can be written, no kernel can run.
        let _ = self.metadata.set_shadow_window(0);
    }

    fn write(&self, encoding: Encoding, changes: &[Change]) -> Result<(), String> {
        self.metadata.attach()?;
        if self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let text = |error: DriverError| error.to_string();
        for change in changes {
            let (Change::Buffer(placed) | Change::Freed(placed) | Change::Gone(placed)) = change;
            let range = (placed.start, placed.end);
            let is_gone = matches!(change, Change::Gone(_));
            if !self.cover(encoding, range, !is_gone).map_err(text)? {
                if matches!(change, Change::Buffer(_)) {
                    self.state.lock().placed.remove(&placed.start);
                    self.bare(BareReason::FarAway);
                }
                continue;
            }
            match change {
                Change::Buffer(placed) => {
                    let body = (placed.extent.base.0, placed.extent.size);
                    self.store(&runs(encoding, range, body)).map_err(text)?;
                }
                Change::Freed(_) => {
                    self.store(&[run_of(encoding, range, false)])
                        .map_err(text)?;
                }
                Change::Gone(_) => self.store(&[run_of(encoding, range, true)]).map_err(text)?,
            }
        }
        Ok(())
    }

    /// Makes sure that a range has shadow memory; whether it has. `grow`: else
    /// only if it has some.
    fn cover(
        &self,
        encoding: Encoding,
        range: (u64, u64),
        grow: bool,
    ) -> Result<bool, DriverError> {
        let pieces = window::pieces(encoding, range);
        let old = self.state.lock().window;
        if old.covers(&pieces) {
            if grow {
                self.state.lock().window.uses(&pieces);
            }
            return Ok(true);
        }
        let Some(new) = old.grown(&pieces).filter(|_| grow) else {
            return Ok(false);
        };
        let driver = self.env.driver();
        for piece in new.beyond(&old) {
            let at = window::shadow_of_piece(piece);
            driver.map_fixed(DeviceAddress(at), window::GRANULE)?;
            // Memory of which nothing is known is addressable.
            let word = u32::from_le_bytes([encoding.whole(); 4]);
            driver.fill(DeviceAddress(at), word, window::GRANULE / 4)?;
        }
        self.metadata.set_shadow_window(new.words())?;
        let mut state = self.state.lock();
        state.window = new;
        state.counts.shadow = u64::from(new.len()) * window::GRANULE;
        Ok(true)
    }

    /// Writes runs that follow each other.
    fn store(&self, runs: &[Run]) -> Result<(), DriverError> {
        let driver = self.env.driver();
        let (Some(first), total) = (runs.first(), runs.iter().map(|run| run.count).sum::<u64>())
        else {
            return Ok(());
        };
        if total <= WRITTEN {
            let mut bytes = Vec::with_capacity(total as usize);
            for run in runs {
                bytes.resize(bytes.len() + run.count as usize, run.value);
            }
            return driver.write(DeviceAddress(first.at), &bytes);
        }
        let patterns: Vec<[u8; 4]> = runs.iter().map(|run| [run.value; 4]).collect();
        let mut stores = Vec::with_capacity(3 * runs.len());
        let mut long: Vec<(u64, Vec<u8>)> = Vec::new();
        for run in runs.iter().filter(|run| run.count <= WRITTEN) {
            long.push((run.at, vec![run.value; run.count as usize]));
        }
        for (at, bytes) in &long {
            stores.push(Store::Bytes(DeviceAddress(*at), bytes));
        }
        for (run, pattern) in runs.iter().zip(&patterns) {
            if run.count <= WRITTEN {
                continue;
            }
            let (from, to) = (run.at.next_multiple_of(4), (run.at + run.count) & !3);
            let (head, tail) = ((from - run.at) as usize, (run.at + run.count - to) as usize);
            stores.push(Store::Bytes(DeviceAddress(run.at), &pattern[..head]));
            stores.push(Store::Bytes(DeviceAddress(to), &pattern[..tail]));
            stores.push(Store::Fill {
                address: DeviceAddress(from),
                value: u32::from_le_bytes(*pattern),
                count: (to - from) / 4,
            });
        }
        stores.retain(|store| !matches!(store, Store::Bytes(_, [])));
        driver.store_all(&stores)
    }
}

fn placed(extent: Extent, redzones: Redzones, context: u64) -> Placed {
    Placed {
        start: extent.base.0 - u64::from(redzones.before),
        end: extent.end().0 + u64::from(redzones.after),
        extent,
        is_held: false,
        context,
    }
}
