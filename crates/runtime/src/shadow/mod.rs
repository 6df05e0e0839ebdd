//! The protection by shadow memory: buffers of the program have redzones, and
//! shadow bytes say which memory kernels may access.
//!
//! Of the driver's own addresses, only memory that Ringfence asked for, and that
//! the driver does not have back, is ever not addressable: the redzones of live
//! buffers, and freed buffers while the quarantine keeps them. So no other memory of
//! the program can raise an alarm. It is made addressable before the driver gets it
//! back. Of the addresses that Ringfence gives out itself (`pages`), nothing is
//! addressable but live buffers.
//!
//! Changes are collected, and written before the next launch of checked code:
//! kernels that run already see the memory as addressable until then.

mod poisoned;
mod protection;
mod window;

use crate::allocations::Allocations;
use crate::canaries::CanaryPlan;
use crate::env::Env;
use crate::memory::Memory;
use crate::metadata::Metadata;
use crate::turn::Turn;
use driver::{DriverError, Element, Store, SupportStream};
use heap::shadow::{ALIGNMENT, RedzoneRule, Run, run_of, runs};
use heap::{Owner, Redzones};
use model::layout::placed::is_placed;
use model::layout::shadow::{Encoding, SHADOW_PIECES};
use model::{AllocationKind, BareReason, DeviceAddress, Extent, ShadowCoverage, ShadowLoads};
use parking_lot::Mutex;
use poisoned::Poisoned;
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
    loads: ShadowLoads,
    rule: RedzoneRule,
    turn: Turn,
    state: Mutex<State>,
    /// There are changes that are not on the device, or not all of which are yet. Set
    /// under the lock of the state, or before a flush.
    is_pending: AtomicBool,
    /// Nothing is covered any more.
    failed: AtomicBool,
    /// Some bytes of live buffers are poisoned.
    has_poison: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Buffers with redzones, live or held, by the first byte of the redzone
    /// before them.
    placed: BTreeMap<u64, Placed>,
    window: Window,
    /// Pieces of placed allocations that are covered, from the first one on.
    own: u32,
    pending: Vec<Change>,
    poisoned: Poisoned,
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

/// What the program has declared about a byte of a live buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poisoning {
    /// It may be accessed.
    Never,
    /// It was not to be accessed at some time.
    Before,
    /// It is not to be accessed.
    Now,
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
    /// These bytes of a buffer were poisoned, or are not any more.
    Poison(Extent),
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
            loads: settings.shadow_loads,
            rule,
            env: below.env,
            memory: below.memory,
            allocations: below.allocations,
            metadata: below.metadata,
            turn: Turn::default(),
            state: Mutex::default(),
            is_pending: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            has_poison: AtomicBool::new(false),
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
            true => self.place(placed, Some(placed.redzones())),
            false => self.bare(BareReason::Unprotected),
        }
    }

    /// The program has a buffer at addresses of its own, with redzones of so many
    /// bytes, which are addresses without memory.
    pub(crate) fn placed(
        &self,
        kind: AllocationKind,
        extent: Extent,
        owner: Owner,
        (before, after): (u64, u64),
    ) {
        self.allocations.insert(kind, extent, owner);
        let placed = Placed {
            start: extent.base.0 - before,
            end: extent.end().0 + after,
            extent,
            is_held: false,
            context: owner.context,
        };
        self.place(placed, Some(0));
    }

    /// The memory of such a buffer is about to be taken away. No kernel may use it
    /// that should not fail.
    pub(crate) fn taken_away(&self, base: DeviceAddress) {
        if let Some(placed) = self.of(base) {
            self.hold(placed);
        }
    }

    /// `new`: it was not there before, and its redzones take so many bytes of
    /// memory.
    fn place(&self, placed: Placed, new: Option<u64>) {
        let mut state = self.state.lock();
        if let Some(redzones) = new {
            state.counts.buffers += 1;
            state.counts.memory += placed.extent.size;
            state.counts.bytes += redzones;
        }
        // Freed buffers whose addresses are given out again.
        let range = state.placed.range(..placed.end).rev();
        let range = range.take_while(|(_, old)| old.end > placed.start);
        let stale: Vec<u64> = range.map(|(start, _)| *start).collect();
        for start in stale {
            state.placed.remove(&start);
        }
        state.placed.insert(placed.start, placed);
        state.poisoned.forget(placed.extent);
        state.pending.push(Change::Buffer(placed));
        self.is_pending.store(true, Ordering::Release);
    }

    /// The buffer with redzones that holds an address, redzones included.
    pub(crate) fn at(&self, address: DeviceAddress) -> Option<Placed> {
        let state = self.state.lock();
        let (_, placed) = state.placed.range(..=address.0).next_back()?;
        (address.0 < placed.end).then_some(*placed)
    }

    /// What the program has declared about a byte of a live buffer.
    pub(crate) fn poison_at(&self, address: DeviceAddress) -> Poisoning {
        let state = self.state.lock();
        match (
            state.poisoned.now().holds(address),
            state.poisoned.was(address),
        ) {
            (true, _) => Poisoning::Now,
            (_, true) => Poisoning::Before,
            _ => Poisoning::Never,
        }
    }

    /// The program declares bytes of a buffer as not to be accessed, or takes that
    /// back. Of memory that is not covered it may say what it likes.
    fn mark(&self, extent: Extent, is_addressable: bool) {
        if self.at(extent.base).is_none_or(|placed| placed.is_held) {
            return;
        }
        let mut state = self.state.lock();
        let changed = match is_addressable {
            true if state.poisoned.remove(extent) => vec![extent],
            true => Vec::new(),
            false => state.poisoned.add(extent),
        };
        self.poison_changed(&mut state, &changed);
    }

    /// Whether bytes of live buffers are poisoned, of which bounds know nothing.
    #[inline]
    pub(crate) fn has_poison(&self) -> bool {
        self.has_poison.load(Ordering::Acquire)
    }

    fn poison_changed(&self, state: &mut State, parts: &[Extent]) {
        let has_poison = !state.poisoned.now().is_empty();
        if self.has_poison.swap(has_poison, Ordering::AcqRel) != has_poison {
            // Proofs know nothing of poison.
            self.memory.doubt_proofs();
        }
        if !parts.is_empty() {
            state
                .pending
                .extend(parts.iter().copied().map(Change::Poison));
            self.is_pending.store(true, Ordering::Release);
        }
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
        state.poisoned.forget(held.extent);
        state.pending.push(Change::Freed(held));
        self.is_pending.store(true, Ordering::Release);
    }

    /// A stream frees a buffer at addresses of its own. Kernels that the stream executes
    /// before this may still use it; to those behind, nothing of it is addressable.
    fn freed_in(&self, placed: Placed, stream: SupportStream) {
        // What is written later would make it addressable again.
        self.flush();
        let is_covered = || self.state.lock().placed.contains_key(&placed.start);
        let Some(encoding) = self.encoding.filter(|_| is_covered()) else {
            return;
        };
        if self.failed.load(Ordering::Acquire) {
            return;
        }
        let run = run_of(encoding, placed.range(encoding), false);
        let (at, element) = (DeviceAddress(run.at), Element::Byte(run.value));
        let driver = self.env.driver();
        if let Err(error) = driver.fill_in_stream(at, element, run.count, stream) {
            let message =
                format!("uses of memory that was freed in stream order may not be found: {error}");
            self.env.error(&message, false);
        }
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
                state.poisoned.forget(placed.extent);
                state.pending.push(Change::Gone(*placed));
            }
        }
        self.is_pending.store(true, Ordering::Release);
        self.flush();
    }

    /// Writes what changed to the device. When this returns, all that changed before is
    /// there, also what another thread was writing: a kernel that is launched then may use
    /// a buffer whose shadow that thread writes.
    fn flush(&self) {
        if !self.is_pending.load(Ordering::Acquire) {
            return;
        }
        let (Some(encoding), Some(_turn)) = (self.encoding, self.turn.take()) else {
            return;
        };
        let changes = std::mem::take(&mut self.state.lock().pending);
        if let Err(message) = self.write(encoding, &changes) {
            self.fail(&message);
        }
        let state = self.state.lock();
        if state.pending.is_empty() {
            self.is_pending.store(false, Ordering::Release);
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
        let _ = self.metadata.set_shadow_window([0; 2]);
    }

    fn write(&self, encoding: Encoding, changes: &[Change]) -> Result<(), String> {
        self.metadata.attach()?;
        let text = |error: DriverError| error.to_string();
        if self.loads != ShadowLoads::Auto {
            // Then no bounds are passed, which could decide in place of shadow memory.
            self.metadata.note_poison().map_err(text)?;
        }
        if self.loads == ShadowLoads::Never {
            let message = "checks load no shadow memory (--shadow-loads never), so they find nothing in global memory";
            self.env.error(message, false);
        }
        if self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        for change in changes {
            let placed = match change {
                Change::Buffer(placed) | Change::Freed(placed) | Change::Gone(placed) => placed,
                Change::Poison(part) => {
                    self.metadata.note_poison().map_err(text)?;
                    self.store(&self.shadow_of_part(encoding, *part))
                        .map_err(text)?;
                    continue;
                }
            };
            let range = placed.range(encoding);
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
                Change::Gone(_) | Change::Poison(_) => {
                    self.store(&[run_of(encoding, range, true)]).map_err(text)?
                }
            }
        }
        Ok(())
    }

    /// The shadow of a part of a live buffer, poison included.
    fn shadow_of_part(&self, encoding: Encoding, part: Extent) -> Vec<Run> {
        let state = self.state.lock();
        let below = state.placed.range(..=part.base.0).next_back();
        let live = below.filter(|(_, placed)| !placed.is_held && placed.extent.contains(part.base));
        let poison = state.poisoned.now();
        live.map(|(_, placed)| poison.runs(encoding, placed.extent, part))
            .unwrap_or_default()
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
        if is_placed(range.0) {
            return self.cover_own(encoding, *pieces.end());
        }
        let old = self.state.lock().window;
        if old.covers(&pieces) {
            if grow {
                self.state.lock().window.uses(&pieces);
            }
            return Ok(true);
        }
        let Some(new) = old.grown(encoding, &pieces).filter(|_| grow) else {
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
        let mut state = self.state.lock();
        state.window = new;
        let words = state.count_pieces(encoding);
        drop(state);
        self.set_covered(words)?;
        Ok(true)
    }

    /// Tells kernels which units are covered.
    fn set_covered(&self, words: [u64; 2]) -> Result<(), DriverError> {
        match self.loads {
            ShadowLoads::Never => Ok(()),
            _ => self.metadata.set_shadow_window(words),
        }
    }

    /// Makes sure that placed allocations have shadow memory up to a piece.
    fn cover_own(&self, encoding: Encoding, last: u64) -> Result<bool, DriverError> {
        let first = encoding.first_placed();
        let own = self.state.lock().own;
        let Ok(wanted) = u32::try_from(last + 1 - first) else {
            return Ok(false);
        };
        if wanted <= own {
            return Ok(true);
        }
        if wanted > SHADOW_PIECES {
            return Ok(false);
        }
        for piece in own..wanted {
            // Where nothing is live, nothing is addressable: zero is right.
            let at = window::shadow_of_piece(first as u32 + piece);
            let mapped = self
                .env
                .driver()
                .map_fixed(DeviceAddress(at), window::GRANULE);
            mapped?;
            let mut state = self.state.lock();
            state.own = piece + 1;
            let words = state.count_pieces(encoding);
            drop(state);
            self.set_covered(words)?;
        }
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

impl State {
    /// Counts the shadow memory that is mapped. Returns the words that check code
    /// reads.
    fn count_pieces(&mut self, encoding: Encoding) -> [u64; 2] {
        let pieces = u64::from(self.window.len()) + u64::from(self.own);
        self.counts.shadow = pieces * window::GRANULE;
        let own = encoding.covered_units(self.own);
        [self.window.words(encoding), own.into()]
    }
}

impl Placed {
    /// Ringfence gave the addresses out itself.
    fn is_at_own_addresses(&self) -> bool {
        is_placed(self.extent.base.0)
    }

    /// The addresses whose shadow is the buffer's.
    fn range(&self, encoding: Encoding) -> (u64, u64) {
        // What lies between placed buffers never is addressable.
        match self.is_at_own_addresses() {
            true => (
                self.extent.base.0,
                self.extent.end().0.next_multiple_of(encoding.block()),
            ),
            false => (self.start, self.end),
        }
    }

    /// Bytes of redzone.
    fn redzones(&self) -> u64 {
        self.end - self.start - self.extent.size
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
