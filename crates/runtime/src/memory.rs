//! The allocation registry of the process, its quarantine, and the changes
//! that the device's lookup tables have not seen yet.
//!
//! A free in stream order is *pending* at first: for the host the memory is
//! freed, but kernels launched before may still look it up, so it stays in the
//! registry until the program has waited for its stream.

use crate::live::Live;
use crate::streams::StreamName;
use driver::Release;
use heap::{Entry, Held, Layer, Owner, PartEdit, PartError, Quarantine, Registry, Reshaped};
use host::Stack;
use model::{AllocationKind, DeviceAddress, Extent};
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Freed allocations that findings can still name.
const HISTORY: usize = 1 << 14;
/// The same, where their addresses are not used again.
const LONG_HISTORY: usize = 1 << 17;
/// Allocations in the quarantine: fewer, so that the history still knows each.
const QUARANTINED: usize = 1 << 12;

/// What it takes to give quarantined memory back, and what it counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holding {
    /// The call.
    pub release: Release,
    /// Whether it is memory of the device.
    pub on_device: bool,
    /// The pool that it came from; 0 if none.
    pub pool: u64,
    /// The slot of its canaries, if their record may still be in the table.
    pub slot: Option<u32>,
}

/// A free in stream order that its stream may not have reached.
#[derive(Clone, Debug)]
pub(crate) struct PendingFree {
    /// The allocation.
    pub serial: u64,
    /// The stream that frees it.
    pub stream: StreamName,
    /// That stream's context.
    pub context: u64,
    /// Where the program freed it.
    pub stack: Stack,
    /// Kernels that the stream executes behind the free do not find it any more.
    pub is_hidden: bool,
}

/// A change of the live allocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// An extent went live.
    Insert {
        /// Its bytes.
        extent: Extent,
        /// Its allocation's serial.
        serial: u64,
    },
    /// The extent that starts at this address is gone.
    Remove {
        /// First byte.
        base: u64,
    },
    /// These bytes were freed, and are not the host's.
    Dead(Extent),
    /// Mapped memory grew, shrank or was split.
    Reshape(Reshaped),
    /// A declared part came or went.
    Part(PartEdit),
}

struct State {
    registry: Registry<Stack>,
    quarantine: Quarantine<Holding>,
    /// By base.
    pending: FxHashMap<u64, PendingFree>,
    /// `None` until some module needs lookups; until then the registry itself
    /// is the change.
    changes: Option<Vec<Change>>,
    /// Blocks were taken back that kernels may still use.
    unsettled: bool,
    /// Reserved addresses: ends by first address. Only what is mapped there is
    /// anybody's.
    reservations: BTreeMap<u64, u64>,
}

/// See the module's header.
pub(crate) struct Memory {
    state: RwLock<State>,
    changed: AtomicBool,
    /// Counts changes.
    generation: AtomicU64,
    live: Live,
}

impl State {
    fn remove(&mut self, base: DeviceAddress, stack: Stack) -> bool {
        let removed = self.registry.remove(base, stack);
        let dead = removed.map(|freed| dead_bytes(&freed.entry));
        self.parts_changed();
        if let (Some(dead), Some(changes)) = (dead, &mut self.changes) {
            changes.push(Change::Remove { base: base.0 });
            changes.extend(dead.map(Change::Dead));
        }
        dead.is_some()
    }

    /// Completes the pending free of what starts at `base`, if it is still that.
    fn complete(&mut self, base: u64) -> bool {
        let Some(pending) = self.pending.remove(&base) else {
            return false;
        };
        let base = DeviceAddress(base);
        let same = self
            .registry
            .at(base)
            .is_some_and(|entry| entry.allocation.serial == pending.serial);
        same && self.remove(base, pending.stack)
    }

    fn reservation_of(&self, address: DeviceAddress) -> Option<Extent> {
        let (base, end) = self.reservations.range(..=address.0).next_back()?;
        (address.0 < *end).then_some(Extent {
            base: DeviceAddress(*base),
            size: end - base,
        })
    }

    fn reshaped(&mut self, reshaped: Reshaped) {
        self.parts_changed();
        if let Some(changes) = &mut self.changes {
            changes.push(Change::Reshape(reshaped));
        }
    }

    /// Hands on what happened to declared parts: before the change of the
    /// allocation that they went with.
    fn parts_changed(&mut self) {
        let edits = self.registry.take_part_edits();
        if let Some(changes) = &mut self.changes {
            changes.extend(edits.into_iter().map(Change::Part));
        }
    }
}

impl Memory {
    /// `quarantine`: bytes of freed memory that may be kept. `remembers`: freed
    /// allocations can still be told by their addresses long after.
    pub fn new(quarantine: u64, remembers: bool) -> Memory {
        let state = State {
            registry: Registry::new(match remembers {
                true => LONG_HISTORY,
                false => HISTORY,
            }),
            quarantine: Quarantine::new(quarantine, QUARANTINED),
            pending: FxHashMap::default(),
            changes: None,
            unsettled: false,
            reservations: BTreeMap::new(),
        };
        Memory {
            state: RwLock::new(state),
            changed: AtomicBool::new(true),
            generation: AtomicU64::new(0),
            live: Live::default(),
        }
    }

    /// Something came or went. To be called with the lock held.
    fn touch(&self) {
        self.changed.store(true, Ordering::Release);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// What was proved of launches may not be true any more.
    pub fn doubt_proofs(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Another number whenever something came or went.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Addresses were reserved, in which memory may be mapped.
    pub fn reserve(&self, extent: Extent) {
        if let Some(end) = extent.base.0.checked_add(extent.size) {
            let reservations = &mut self.state.write().reservations;
            reservations.insert(extent.base.0, end);
        }
    }

    /// The reservation that starts here is no more.
    pub fn unreserve(&self, base: DeviceAddress) -> Option<Extent> {
        let end = self.state.write().reservations.remove(&base.0)?;
        Some(Extent {
            base,
            size: end - base.0,
        })
    }

    /// The reservation that holds an address.
    pub fn reservation_of(&self, address: DeviceAddress) -> Option<Extent> {
        self.state.read().reservation_of(address)
    }

    /// Memory was mapped.
    pub fn map(&self, extent: Extent, owner: Owner, stack: Stack) {
        let mut state = self.state.write();
        let reservation = state.reservation_of(extent.base).unwrap_or(extent);
        if let Some(reshaped) = state.registry.map(extent, reservation, owner, stack) {
            state.reshaped(reshaped);
            self.touch();
        }
    }

    /// Memory was unmapped.
    pub fn unmap(&self, extent: Extent, stack: Stack) {
        let mut state = self.state.write();
        let reshaped = state.registry.unmap(extent, stack);
        state.reshaped(reshaped);
        self.touch();
    }

    /// Host memory was registered.
    pub fn register(&self, extent: Extent, owner: Owner, stack: Stack) {
        let mut state = self.state.write();
        if let Some(reshaped) = state.registry.register(extent, owner, stack) {
            state.quarantine.forget_overlapping(extent);
            state.reshaped(reshaped);
            self.touch();
        }
    }

    /// The piece of registered host memory that starts at `base` is to be
    /// unregistered. Returns it, for [`Memory::register`] in case that fails.
    pub fn unregister(&self, base: DeviceAddress, stack: Stack) -> Option<Entry<Stack>> {
        let mut state = self.state.write();
        let (piece, reshaped) = state.registry.unregister(base, stack)?;
        state.reshaped(reshaped);
        self.touch();
        Some(piece)
    }

    pub fn insert(&self, kind: AllocationKind, extent: Extent, name: Option<String>, stack: Stack) {
        self.insert_owned(kind, extent, name, Owner::default(), stack);
    }

    /// As [`Memory::insert`]. Returns the serial, if there are bytes in it.
    pub fn insert_owned(
        &self,
        kind: AllocationKind,
        extent: Extent,
        name: Option<String>,
        owner: Owner,
        stack: Stack,
    ) -> Option<u64> {
        let mut state = self.state.write();
        let state = &mut *state;
        // A free that was pending here is complete, or the address were not free.
        if !state.pending.is_empty() && extent.base.0.checked_add(extent.size).is_some() {
            let left: Vec<u64> = state
                .pending
                .keys()
                .copied()
                .filter(|base| {
                    let old = state.registry.at(DeviceAddress(*base));
                    let old = old.map(|entry| entry.allocation.extent);
                    old.is_some_and(|old| old.base < extent.end() && extent.base < old.end())
                })
                .collect();
            for base in left {
                state.complete(base);
            }
        }
        let inserted = state
            .registry
            .insert_owned(kind, extent, name, owner, stack)?;
        state.quarantine.forget_overlapping(extent);
        state.parts_changed();
        if let Some(changes) = &mut state.changes {
            changes.extend(
                inserted
                    .displaced
                    .iter()
                    .map(|old| Change::Remove { base: old.base.0 }),
            );
            changes.push(Change::Insert {
                extent,
                serial: inserted.serial,
            });
        }
        self.touch();
        Some(inserted.serial)
    }

    /// Returns whether an allocation started there.
    pub fn remove(&self, base: DeviceAddress, stack: Stack) -> bool {
        let mut state = self.state.write();
        state.pending.remove(&base.0);
        let removed = state.remove(base, stack);
        if removed {
            self.touch();
        }
        removed
    }

    /// Removes the allocation with this serial, which starts at `base`, and
    /// puts it into the quarantine if it can be held. Returns what is to be
    /// given back for that, or `None` if another thread was faster.
    pub fn retire(
        &self,
        base: DeviceAddress,
        serial: u64,
        stack: Stack,
        cost: u64,
        holding: Option<Holding>,
    ) -> Option<Vec<Held<Holding>>> {
        let mut state = self.state.write();
        let extent = state
            .registry
            .at(base)
            .filter(|entry| entry.allocation.serial == serial)?
            .allocation
            .extent;
        if state.pending.contains_key(&base.0) || !state.remove(base, stack) {
            return None;
        }
        self.touch();
        let mut out = Vec::new();
        if let Some(holding) = holding {
            state.quarantine.hold(extent, cost, holding);
            out = state.quarantine.surplus();
        }
        Some(out)
    }

    /// As [`Memory::retire`], for a free in stream order: the allocation stays
    /// until [`Memory::complete_frees`].
    pub fn free_in_stream(
        &self,
        base: DeviceAddress,
        pending: PendingFree,
        cost: u64,
        holding: Option<Holding>,
    ) -> Option<Vec<Held<Holding>>> {
        let mut state = self.state.write();
        let extent = state
            .registry
            .at(base)
            .filter(|entry| entry.allocation.serial == pending.serial)?
            .allocation
            .extent;
        if state.pending.contains_key(&base.0) {
            return None;
        }
        state.pending.insert(base.0, pending);
        self.generation.fetch_add(1, Ordering::Release);
        let mut out = Vec::new();
        if let Some(holding) = holding {
            state.quarantine.hold(extent, cost, holding);
            out = state.quarantine.surplus();
        }
        Some(out)
    }

    /// A free that [`Memory::retire`] or [`Memory::leave`] recorded did not
    /// happen after all.
    pub fn restore(&self, base: DeviceAddress, serial: u64) {
        let mut state = self.state.write();
        let state = &mut *state;
        if state
            .pending
            .get(&base.0)
            .is_some_and(|pending| pending.serial == serial)
        {
            state.pending.remove(&base.0);
            self.generation.fetch_add(1, Ordering::Release);
            return;
        }
        if state.registry.restore(serial)
            && let Some(entry) = state.registry.at(base)
        {
            if let Some(changes) = &mut state.changes {
                changes.push(Change::Insert {
                    extent: entry.allocation.extent,
                    serial,
                });
            }
            self.touch();
        }
    }

    /// The program has waited for the streams that `waited` admits: what they
    /// were to free is free.
    pub fn complete_frees(&self, waited: impl Fn(&PendingFree) -> bool) {
        if self.state.read().pending.is_empty() {
            return;
        }
        let mut state = self.state.write();
        let bases: Vec<u64> = state
            .pending
            .iter()
            .filter(|(_, pending)| waited(pending))
            .map(|(base, _)| *base)
            .collect();
        for base in bases {
            if state.complete(base) {
                self.touch();
            }
        }
    }

    /// The starts of what a stream frees that kernels which it executes behind that
    /// find still. They are to be hidden from them now.
    pub fn hide_freed_in(&self, stream: StreamName) -> Vec<u64> {
        let is_it = |pending: &PendingFree| pending.stream == stream && !pending.is_hidden;
        if !self.state.read().pending.values().any(is_it) {
            return Vec::new();
        }
        let mut state = self.state.write();
        let freed = state
            .pending
            .iter_mut()
            .filter(|(_, pending)| is_it(pending));
        let hidden = freed.map(|(base, pending)| {
            pending.is_hidden = true;
            *base
        });
        hidden.collect()
    }

    /// A context is gone and all that belongs to it. Returns what was live.
    pub fn context_gone(&self, context: u64, stack: &Stack) -> Vec<Entry<Stack>> {
        let mut state = self.state.write();
        state
            .quarantine
            .drop_matching(|held| held.note.release.context == context);
        let theirs: Vec<Entry<Stack>> = state
            .registry
            .iter()
            .filter(|entry| entry.owner.context == context && goes_with_context(entry))
            .cloned()
            .collect();
        let mut live = Vec::new();
        for entry in theirs {
            let base = entry.allocation.extent.base;
            if !state.complete(base.0) {
                state.remove(base, stack.clone());
                live.push(entry);
            }
            self.touch();
        }
        live
    }

    /// Whether an extent of the driver's is that of an allocation, or of freed
    /// memory that is held, with its canaries.
    pub fn is_around(&self, extent: Extent) -> bool {
        let state = self.state.read();
        let last = DeviceAddress(extent.end().0.saturating_sub(1));
        let inside = |base: DeviceAddress| extent.base <= base && base < extent.end();
        let live = state.registry.neighbours(last).below.is_some_and(|entry| {
            inside(entry.allocation.extent.base) && entry.owner.redzones.bytes() > 0
        });
        live || state
            .quarantine
            .iter()
            .any(|held| inside(held.extent.base) && held.note.release.address == extent.base)
    }

    /// What the driver calls the allocation that starts at an address.
    pub fn driver_address(&self, base: DeviceAddress) -> DeviceAddress {
        let state = self.state.read();
        let before = state
            .registry
            .at(base)
            .map_or(0, |entry| entry.owner.redzones.before.into());
        DeviceAddress(base.0 - before)
    }

    /// Whether memory of this cost would be held.
    pub fn holds(&self, cost: u64) -> bool {
        self.state.read().quarantine.accepts(cost)
    }

    /// Whether freed memory that is still the driver's holds the address, or
    /// ends there.
    pub fn is_held(&self, address: DeviceAddress) -> bool {
        let state = self.state.read();
        state.registry.find(address).is_none() && state.quarantine.find(address).is_some()
    }

    /// The context of the live allocation by cuMemAlloc that holds an address, if the
    /// calling thread remembers one ([`Memory::is_hidden`]).
    #[inline]
    pub fn remembered(&self, address: DeviceAddress) -> Option<u64> {
        let context = self.live.holds(self.generation(), address);
        context.filter(|context| *context != 0)
    }

    /// Whether only the driver has memory at an address: freed memory that is kept,
    /// canaries and padding.
    #[inline]
    pub fn is_hidden(&self, address: DeviceAddress) -> bool {
        // Read before the registry is: what changes meanwhile makes it differ.
        let generation = self.generation();
        if self.live.holds(generation, address).is_some() {
            return false;
        }
        let state = self.state.read();
        match state.registry.find(address) {
            Some(entry) if entry.allocation.extent.contains(address) => {
                let is_device = entry.allocation.kind == AllocationKind::Device;
                let context = if is_device { entry.owner.context } else { 0 };
                self.live
                    .remember(generation, entry.allocation.extent, context);
                false
            }
            Some(_) => state.registry.beside(address).is_some(),
            None => {
                state.quarantine.find(address).is_some() || state.registry.beside(address).is_some()
            }
        }
    }

    /// Whether the address belonged to memory that was freed and not given out
    /// again.
    pub fn was_freed(&self, address: DeviceAddress) -> bool {
        let state = self.state.read();
        match state.registry.find(address) {
            Some(entry) => state.pending.contains_key(&entry.allocation.extent.base.0),
            None => {
                state.quarantine.find(address).is_some() || state.registry.freed(address).is_some()
            }
        }
    }

    /// Takes what matches out of the quarantine, to be given back and then
    /// reported to [`Memory::released`].
    pub fn take_held(&self, matches: impl Fn(&Held<Holding>) -> bool) -> Vec<Held<Holding>> {
        self.state.write().quarantine.take(matches)
    }

    /// The driver has this memory again.
    pub fn released(&self, held: &Held<Holding>) {
        let mut state = self.state.write();
        state.quarantine.released(held);
    }

    /// Bytes that the quarantine keeps from the driver, of what matches.
    pub fn held_bytes(&self, counts: impl Fn(&Held<Holding>) -> u64) -> u64 {
        self.state.read().quarantine.iter().map(counts).sum()
    }

    /// Reads all that is known about an address. The closure must not call
    /// the driver.
    pub fn look<R>(
        &self,
        look: impl FnOnce(&Registry<Stack>, &Quarantine<Holding>, &FxHashMap<u64, PendingFree>) -> R,
    ) -> R {
        let state = self.state.read();
        look(&state.registry, &state.quarantine, &state.pending)
    }

    /// Declares a part of an allocation.
    ///
    /// # Errors
    ///
    /// It does not lie where such a part can.
    pub fn declare_part(
        &self,
        layer: Layer,
        extent: Extent,
        name: Option<String>,
        stack: Stack,
    ) -> Result<(), PartError> {
        let mut state = self.state.write();
        state.registry.declare(layer, extent, name, stack)?;
        state.parts_changed();
        self.touch();
        Ok(())
    }

    /// Names the part or allocation that starts at `base`, if there is one.
    pub fn rename(&self, base: DeviceAddress, name: String) -> bool {
        self.state.write().registry.rename(base, name)
    }

    /// The end of a declared part. Returns whether there is one.
    pub fn release_part(&self, layer: Layer, base: DeviceAddress, stack: Stack) -> bool {
        let mut state = self.state.write();
        let found = state.registry.release(layer, base, stack);
        state.parts_changed();
        state.unsettled |= found;
        self.touch();
        found
    }

    /// No kernel is running in this context that was launched before. Where
    /// there are others, their kernels may.
    pub fn settle_parts(&self, context: u64) {
        {
            let state = self.state.read();
            let elsewhere = |entry: &Entry<Stack>| ![0, context].contains(&entry.owner.context);
            if !state.unsettled || state.registry.iter().any(elsewhere) {
                return;
            }
        }
        let mut state = self.state.write();
        state.unsettled = false;
        if let Some(changes) = &mut state.changes {
            changes.push(Change::Part(PartEdit::Settle));
            self.touch();
        }
    }

    /// Reads the registry. The closure must not call the driver.
    pub fn read<R>(&self, look: impl FnOnce(&Registry<Stack>) -> R) -> R {
        look(&self.state.read().registry)
    }

    /// Whether [`Memory::take_changes`] would return any.
    pub fn changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }

    /// The changes since the last call; at the first call, everything that is
    /// live. What was inserted and removed in between is left out.
    pub fn take_changes(&self) -> Vec<Change> {
        let mut state = self.state.write();
        self.changed.store(false, Ordering::Release);
        match state.changes.replace(Vec::new()) {
            Some(changes) => net(changes),
            None => {
                let live = state.registry.iter().map(|entry| Change::Insert {
                    extent: entry.allocation.extent,
                    serial: entry.allocation.serial,
                });
                let parts = state.registry.part_edits().into_iter().map(Change::Part);
                let freed = state.registry.freed_entries().filter_map(dead_bytes);
                freed.map(Change::Dead).chain(live).chain(parts).collect()
            }
        }
    }
}

/// The bytes of a freed allocation that cannot be the host's own.
fn dead_bytes(entry: &Entry<Stack>) -> Option<Extent> {
    use AllocationKind::{Device, Managed, Pool};
    let kind = entry.allocation.kind;
    matches!(kind, Device | Managed | Pool).then_some(entry.allocation.extent)
}

/// Pools and mapped memory outlive contexts.
fn goes_with_context(entry: &Entry<Stack>) -> bool {
    matches!(
        entry.allocation.kind,
        AllocationKind::Device
            | AllocationKind::Managed
            | AllocationKind::Host
            | AllocationKind::HostRegistered
    )
}

/// Drops pairs of an insertion and its removal.
fn net(changes: Vec<Change>) -> Vec<Change> {
    let mut kept: Vec<Option<Change>> = Vec::with_capacity(changes.len());
    let mut inserted: rustc_hash::FxHashMap<u64, usize> = rustc_hash::FxHashMap::default();
    for change in changes {
        match change {
            Change::Insert { extent, .. } => {
                inserted.insert(extent.base.0, kept.len());
                kept.push(Some(change));
            }
            Change::Part(_) | Change::Dead(_) => kept.push(Some(change)),
            Change::Reshape(ref reshaped) => {
                // What it took in must be there when it does.
                for base in &reshaped.gone {
                    inserted.remove(base);
                }
                kept.push(Some(change));
            }
            Change::Remove { base } => match inserted.remove(&base) {
                Some(index) => kept[index] = None,
                None => kept.push(Some(change)),
            },
        }
    }
    kept.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(base: u64) -> Extent {
        Extent {
            base: DeviceAddress(base),
            size: 16,
        }
    }

    #[test]
    fn what_mapped_memory_took_in_is_inserted_before() {
        let memory = Memory::new(0, false);
        memory.take_changes();
        let none = Owner::default;
        memory.reserve(Extent {
            base: DeviceAddress(0x100),
            size: 0x100,
        });
        memory.insert(AllocationKind::Mapped, extent(0x100), None, None);
        memory.map(extent(0x110), none(), None);
        memory.remove(DeviceAddress(0x100), None);
        let changes = memory.take_changes();
        let whole = Extent {
            size: 32,
            ..extent(0x100)
        };
        assert_eq!(
            changes,
            [
                Change::Insert {
                    extent: extent(0x100),
                    serial: 1
                },
                Change::Reshape(Reshaped {
                    gone: vec![0x100],
                    new: vec![(whole, 1)]
                }),
                Change::Remove { base: 0x100 },
            ]
        );
        assert_eq!(memory.reservation_of(DeviceAddress(0x200)), None);
        assert!(memory.unreserve(DeviceAddress(0x100)).is_some());
        assert_eq!(memory.reservation_of(DeviceAddress(0x180)), None);
    }

    #[test]
    fn the_first_changes_are_all_that_lives_and_later_ones_are_net() {
        let memory = Memory::new(0, false);
        for base in [0x100, 0x200, 0x300] {
            memory.insert(AllocationKind::Device, extent(base), None, None);
        }
        assert!(memory.remove(DeviceAddress(0x200), None));
        let first = memory.take_changes();
        assert_eq!(
            first,
            [
                Change::Dead(extent(0x200)),
                Change::Insert {
                    extent: extent(0x100),
                    serial: 1
                },
                Change::Insert {
                    extent: extent(0x300),
                    serial: 3
                }
            ]
        );
        assert!(!memory.changed());
        memory.insert(AllocationKind::Device, extent(0x400), None, None);
        memory.remove(DeviceAddress(0x400), None);
        memory.remove(DeviceAddress(0x100), None);
        memory.insert(AllocationKind::Device, extent(0x100), None, None);
        assert!(memory.changed());
        let second = memory.take_changes();
        assert_eq!(
            second,
            [
                Change::Dead(extent(0x400)),
                Change::Remove { base: 0x100 },
                Change::Dead(extent(0x100)),
                Change::Insert {
                    extent: extent(0x100),
                    serial: 5
                }
            ]
        );
        assert!(!memory.remove(DeviceAddress(0x999), None));
    }
}
