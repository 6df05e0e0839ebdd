//! The live allocations of the process, by address.
//!
//! A lookup is on the path of every kernel launch: it is one search in an
//! ordered map. Live extents never overlap: what the driver allocates replaces
//! the entries that overlap it.

use crate::parts::{Answer, Layer, PartEdit, PartError, Parts};
use model::{Allocation, AllocationKind, DeviceAddress, Extent};
use std::collections::{BTreeMap, VecDeque};

/// The owner of an allocation, as the driver's handles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The context that owns it; 0 if that is not known, or if the program does
    /// not free it (memory of a module, a graph or another interface).
    pub context: u64,
    /// The memory pool that it was allocated from; 0 if none.
    pub pool: u64,
    /// Canaries around it.
    pub redzones: Redzones,
}

/// Canaries around an allocation: bytes that the driver allocated beside those
/// of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Redzones {
    /// Bytes before it: the driver's own address is lower by this.
    pub before: u32,
    /// Bytes after it.
    pub after: u32,
    /// Its place in the device's table of canaries; `None` if they are not
    /// verified.
    pub slot: Option<u32>,
}

impl Redzones {
    /// Bytes that canaries take.
    pub fn bytes(&self) -> u64 {
        u64::from(self.before) + u64::from(self.after)
    }
}

/// A live allocation with a note of its creator (the runtime keeps the host
/// call stack there).
#[derive(Clone, Debug)]
pub struct Entry<T> {
    /// The allocation.
    pub allocation: Allocation,
    /// Whose it is.
    pub owner: Owner,
    /// The note given to [`Registry::insert`].
    pub note: T,
}

/// Bytes that become live, alone or as part of what lies beside them.
struct New<T> {
    kind: AllocationKind,
    extent: Extent,
    owner: Owner,
    note: T,
}

/// An allocation that was freed, with a note about the free.
#[derive(Clone, Debug)]
pub struct Freed<T> {
    /// The allocation as it was.
    pub entry: Entry<T>,
    /// The note given to [`Registry::remove`].
    pub note: T,
}

/// Outcome of an insertion.
#[derive(Clone, Debug)]
pub struct Inserted {
    /// Order of creation in the process, from 1.
    pub serial: u64,
    /// Removed extents that the new one overlaps: they were freed by calls that
    /// are not hooked.
    pub displaced: Vec<Extent>,
}

/// What mapping or unmapping did to the live allocations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reshaped {
    /// First bytes of the allocations that changed.
    pub gone: Vec<u64>,
    /// What is there instead, with serials.
    pub new: Vec<(Extent, u64)>,
}

/// The live allocations next to an address that none of them holds.
#[derive(Clone, Debug)]
pub struct Neighbours<'a, T> {
    /// The nearest that ends at or before the address.
    pub below: Option<&'a Entry<T>>,
    /// The nearest that starts after the address.
    pub above: Option<&'a Entry<T>>,
}

/// Live allocations, and a bounded history of freed ones.
#[derive(Clone, Debug)]
pub struct Registry<T> {
    live: BTreeMap<u64, Entry<T>>,
    /// Pieces of host memory as they were registered: ends by base.
    pieces: BTreeMap<u64, u64>,
    parts: Parts<T>,
    /// Changes of the parts since the last call that returned them.
    edits: Vec<PartEdit>,
    freed: VecDeque<Freed<T>>,
    /// Bases of freed allocations, and how many of them have it.
    freed_bases: BTreeMap<u64, u32>,
    /// Bytes of the largest allocation that was ever freed.
    largest_freed: u64,
    history: usize,
    serial: u64,
}

impl<T: Clone> Registry<T> {
    /// An empty registry that keeps the `history` latest freed allocations.
    pub fn new(history: usize) -> Registry<T> {
        Registry {
            live: BTreeMap::new(),
            pieces: BTreeMap::new(),
            parts: Parts::default(),
            edits: Vec::new(),
            freed: VecDeque::new(),
            freed_bases: BTreeMap::new(),
            largest_freed: 0,
            history,
            serial: 0,
        }
    }

    /// Number of live allocations.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether there is no live allocation.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// The live allocations by address.
    pub fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        self.live.values()
    }

    /// Registers an allocation. Returns `None`, changing nothing, if it is
    /// empty or does not lie below 2^64.
    pub fn insert(
        &mut self,
        kind: AllocationKind,
        extent: Extent,
        name: Option<String>,
        note: T,
    ) -> Option<Inserted> {
        self.insert_owned(kind, extent, name, Owner::default(), note)
    }

    /// As [`Registry::insert`], of a known owner.
    pub fn insert_owned(
        &mut self,
        kind: AllocationKind,
        extent: Extent,
        name: Option<String>,
        owner: Owner,
        note: T,
    ) -> Option<Inserted> {
        let end = extent.base.0.checked_add(extent.size)?;
        if extent.size == 0 {
            return None;
        }
        let displaced = self.displace(extent.base, end);
        self.serial += 1;
        let allocation = Allocation {
            extent,
            kind,
            serial: self.serial,
            name,
        };
        self.live.insert(
            extent.base.0,
            Entry {
                allocation,
                owner,
                note,
            },
        );
        Some(Inserted {
            serial: self.serial,
            displaced,
        })
    }

    /// Takes out what has bytes in `base..end`: the driver has allocated them
    /// again.
    fn displace(&mut self, base: DeviceAddress, end: u64) -> Vec<Extent> {
        let stale: Vec<u64> = self
            .live
            .range(..end)
            .rev()
            .take_while(|(_, entry)| entry.allocation.extent.end() > base)
            .map(|(base, _)| *base)
            .collect();
        let displaced: Vec<Extent> = stale
            .into_iter()
            .filter_map(|base| self.live.remove(&base))
            .map(|entry| entry.allocation.extent)
            .collect();
        for old in &displaced {
            self.clear_pieces(*old);
            self.clear_parts(*old);
        }
        displaced
    }

    fn clear_pieces(&mut self, extent: Extent) {
        let gone = self.pieces.range(extent.base.0..extent.end().0);
        let gone: Vec<u64> = gone.map(|(base, _)| *base).collect();
        for base in gone {
            self.pieces.remove(&base);
        }
    }

    /// Host memory was registered. Pieces without a gap between them are one
    /// allocation: programs register one block of theirs piece by piece. `None`,
    /// and nothing changed, if it is empty or does not lie below 2^64.
    pub fn register(&mut self, extent: Extent, owner: Owner, note: T) -> Option<Reshaped> {
        let end = extent.base.0.checked_add(extent.size)?;
        if extent.size == 0 {
            return None;
        }
        let displaced = self.displace(extent.base, end);
        let mut reshaped = Reshaped::default();
        reshaped.gone.extend(displaced.iter().map(|old| old.base.0));
        self.pieces.insert(extent.base.0, end);
        let is_piece = |entry: &&Entry<T>| {
            entry.allocation.kind == AllocationKind::HostRegistered && entry.owner == owner
        };
        let below = self.live.range(..extent.base.0).next_back();
        let below = below
            .map(|(_, entry)| entry)
            .filter(is_piece)
            .filter(|entry| entry.allocation.extent.end() == extent.base)
            .map(|entry| entry.allocation.extent.base.0);
        let above = self.live.get(&end).filter(is_piece);
        let above = above.map(|entry| entry.allocation.extent.base.0);
        let piece = New {
            kind: AllocationKind::HostRegistered,
            extent,
            owner,
            note,
        };
        self.join(piece, [below, above], &mut reshaped);
        Some(reshaped)
    }

    /// The piece of registered host memory that starts at `base` is
    /// unregistered and added to the freed ones; those beside it stay. Also
    /// returns the piece as it was. `None` if none starts there.
    pub fn unregister(&mut self, base: DeviceAddress, note: T) -> Option<(Entry<T>, Reshaped)> {
        let extent = self.piece(base).filter(|piece| piece.base == base)?;
        let mut entry = self.find(base)?.clone();
        entry.allocation.extent = extent;
        let reshaped = self.cut_out(AllocationKind::HostRegistered, extent, note);
        self.pieces.remove(&base.0);
        Some((entry, reshaped))
    }

    /// The piece of registered host memory that holds an address.
    pub fn piece(&self, address: DeviceAddress) -> Option<Extent> {
        let (base, end) = self.pieces.range(..=address.0).next_back()?;
        (address.0 < *end).then_some(Extent {
            base: DeviceAddress(*base),
            size: end - base,
        })
    }

    /// Moves the live allocation that starts at `base` to the freed ones.
    /// Returns `None` if none starts there.
    pub fn remove(&mut self, base: DeviceAddress, note: T) -> Option<&Freed<T>> {
        let entry = self.live.remove(&base.0)?;
        self.clear_pieces(entry.allocation.extent);
        self.clear_parts(entry.allocation.extent);
        self.remember(Freed { entry, note });
        self.freed.back()
    }

    /// Memory was mapped inside a reservation. What is mapped next to each
    /// other there is one allocation: programs grow buffers this way. `None`,
    /// and nothing changed, if it is empty or does not lie below 2^64.
    pub fn map(
        &mut self,
        extent: Extent,
        reservation: Extent,
        owner: Owner,
        note: T,
    ) -> Option<Reshaped> {
        let end = extent.base.0.checked_add(extent.size)?;
        if extent.size == 0 {
            return None;
        }
        // If entries overlap what the driver maps, they are outdated.
        let mut reshaped = self.unmap(extent, note.clone());
        let is_run = |entry: &&Entry<T>| entry.allocation.kind == AllocationKind::Mapped;
        let below = self.live.range(..extent.base.0).next_back();
        let below = below
            .map(|(_, entry)| entry)
            .filter(is_run)
            .filter(|entry| entry.allocation.extent.end() == extent.base)
            .filter(|_| reservation.base < extent.base)
            .map(|entry| entry.allocation.extent.base.0);
        let above = self
            .live
            .get(&end)
            .filter(is_run)
            .filter(|_| end < reservation.base.0.saturating_add(reservation.size))
            .map(|entry| entry.allocation.extent.base.0);
        let mapped = New {
            kind: AllocationKind::Mapped,
            extent,
            owner,
            note,
        };
        self.join(mapped, [below, above], &mut reshaped);
        Some(reshaped)
    }

    /// Makes one live allocation of new bytes and of those that start at
    /// `beside`, below and above them.
    fn join(&mut self, new: New<T>, beside: [Option<u64>; 2], reshaped: &mut Reshaped) {
        let end = new.extent.end().0;
        let joined: Vec<Entry<T>> = beside
            .into_iter()
            .flatten()
            .filter_map(|base| self.live.remove(&base))
            .collect();
        reshaped
            .gone
            .extend(joined.iter().map(|entry| entry.allocation.extent.base.0));
        reshaped
            .new
            .retain(|(new, _)| !joined.iter().any(|old| old.allocation.extent == *new));
        let start = joined.iter().map(|entry| entry.allocation.extent.base);
        let last = joined.iter().map(|entry| entry.allocation.extent.end().0);
        let base = start.fold(new.extent.base, Ord::min);
        let whole = Extent {
            base,
            size: last.fold(end, Ord::max) - base.0,
        };
        // It is the one that was there first.
        let mut entry = match joined.into_iter().next() {
            Some(entry) => entry,
            None => {
                self.serial += 1;
                let allocation = Allocation {
                    extent: whole,
                    kind: new.kind,
                    serial: self.serial,
                    name: None,
                };
                Entry {
                    allocation,
                    owner: new.owner,
                    note: new.note,
                }
            }
        };
        entry.allocation.extent = whole;
        reshaped.new.push((whole, entry.allocation.serial));
        self.live.insert(base.0, entry);
    }

    /// Memory was unmapped: it is added to the freed ones, while memory mapped
    /// beside it stays.
    pub fn unmap(&mut self, extent: Extent, note: T) -> Reshaped {
        self.cut_out(AllocationKind::Mapped, extent, note)
    }

    /// Removes bytes from the live allocations of a kind, and adds them to the
    /// freed ones.
    fn cut_out(&mut self, kind: AllocationKind, extent: Extent, note: T) -> Reshaped {
        let mut reshaped = Reshaped::default();
        let end = extent.base.0.saturating_add(extent.size);
        let touched: Vec<u64> = self
            .live
            .range(..end)
            .rev()
            .take_while(|(_, entry)| entry.allocation.extent.end() > extent.base)
            .filter(|(_, entry)| entry.allocation.kind == kind)
            .map(|(base, _)| *base)
            .collect();
        for base in touched.into_iter().rev() {
            let Some(entry) = self.live.remove(&base) else {
                continue;
            };
            let whole = entry.allocation.extent;
            reshaped.gone.push(whole.base.0);
            let cut = |from: u64, to: u64| Extent {
                base: DeviceAddress(from),
                size: to.saturating_sub(from),
            };
            let piece = cut(whole.base.0.max(extent.base.0), whole.end().0.min(end));
            let gone = self.parts.cut(piece);
            self.parts_gone(gone);
            let rest = [
                cut(whole.base.0, piece.base.0),
                cut(piece.end().0, whole.end().0),
            ];
            let mut serial = entry.allocation.serial;
            for extent in rest {
                if extent.size == 0 {
                    continue;
                }
                if reshaped.new.last().is_some_and(|(_, last)| *last == serial) {
                    // Two that are apart are two.
                    self.serial += 1;
                    serial = self.serial;
                }
                let mut rest = entry.clone();
                rest.allocation.extent = extent;
                rest.allocation.serial = serial;
                reshaped.new.push((extent, serial));
                self.live.insert(extent.base.0, rest);
            }
            let mut entry = entry;
            entry.allocation.extent = piece;
            self.remember(Freed {
                entry,
                note: note.clone(),
            });
        }
        reshaped
    }

    fn remember(&mut self, freed: Freed<T>) {
        if self.freed.len() >= self.history.max(1)
            && let Some(oldest) = self.freed.pop_front()
        {
            self.forget_base(oldest.entry.allocation.extent.base);
        }
        let extent = freed.entry.allocation.extent;
        *self.freed_bases.entry(extent.base.0).or_default() += 1;
        self.largest_freed = self.largest_freed.max(extent.size);
        self.freed.push_back(freed);
    }

    fn forget_base(&mut self, base: DeviceAddress) {
        if let Some(count) = self.freed_bases.get_mut(&base.0) {
            *count -= 1;
            if *count == 0 {
                self.freed_bases.remove(&base.0);
            }
        }
    }

    /// Whether [`Registry::freed`] may find the address: cheap, with no false
    /// negatives.
    pub fn may_be_freed(&self, address: DeviceAddress) -> bool {
        let lowest = address.0.saturating_sub(self.largest_freed);
        self.freed_bases.range(lowest..=address.0).next().is_some()
    }

    fn clear_parts(&mut self, extent: Extent) {
        let gone = self.parts.clear(extent);
        self.parts_gone(gone);
    }

    fn parts_gone(&mut self, gone: Vec<(Layer, u64)>) {
        let removals = gone
            .into_iter()
            .map(|(layer, base)| PartEdit::Remove { layer, base });
        self.edits.extend(removals);
    }

    /// Declares a part of a live allocation and removes the parts that it
    /// overlaps. Returns the serial; 0 for a pool.
    ///
    /// # Errors
    ///
    /// Such a part cannot lie there.
    pub fn declare(
        &mut self,
        layer: Layer,
        extent: Extent,
        name: Option<String>,
        note: T,
    ) -> Result<u64, PartError> {
        let (base, size) = (extent.base.0, extent.size);
        let end = base.checked_add(size).filter(|_| size != 0);
        let parent = self.holding(extent.base);
        if parent.is_none_or(|parent| end.is_none_or(|end| parent.allocation.extent.end().0 < end))
        {
            return Err(PartError::NoAllocation { base, size });
        }
        let mut serial = 0;
        let gone = if layer == Layer::Pool {
            self.parts.add_pool(extent)?
        } else {
            serial = self.serial + 1;
            let allocation = Allocation {
                extent,
                kind: AllocationKind::Region,
                serial,
                name,
            };
            let owner = Owner::default();
            let entry = Entry {
                allocation,
                owner,
                note,
            };
            let gone = self.parts.add(layer, entry)?;
            self.serial = serial;
            gone
        };
        self.parts_gone(gone);
        self.edits.push(PartEdit::Insert {
            layer,
            extent,
            serial,
        });
        Ok(serial)
    }

    /// Names the declared part that starts at `base`, else the allocation.
    /// Returns whether there is one.
    pub fn rename(&mut self, base: DeviceAddress, name: String) -> bool {
        let part = self.parts.at_mut(base);
        let Some(entry) = part.or_else(|| self.live.get_mut(&base.0)) else {
            return false;
        };
        entry.allocation.name = Some(name);
        true
    }

    /// The end of the part of this kind that starts at `base`; a pool's blocks
    /// go with it. Blocks and regions are added to the freed ones. Returns
    /// whether there is one.
    pub fn release(&mut self, layer: Layer, base: DeviceAddress, note: T) -> bool {
        if layer == Layer::Pool {
            let gone = self.parts.remove_pool(base);
            let found = gone.is_some();
            self.parts_gone(gone.unwrap_or_default());
            return found;
        }
        let Some(entry) = self.parts.remove(layer, base) else {
            return false;
        };
        if layer == Layer::Block {
            let extent = entry.allocation.extent;
            self.edits.push(PartEdit::Limbo { extent });
        }
        self.remember(Freed { entry, note });
        self.parts_gone(vec![(layer, base.0)]);
        true
    }

    /// What a pointer points into: the declared part, else the allocation
    /// ([`Registry::find`]). In a pool, outside its blocks: nothing.
    #[inline]
    pub fn find_part(&self, address: DeviceAddress) -> Option<&Entry<T>> {
        match self.parts.answer(address) {
            Answer::Allocation => self.find(address),
            Answer::Part(entry) => Some(entry),
            Answer::NoOwner => None,
        }
    }

    /// As [`Registry::find_part`], if it holds the byte at `address`.
    pub fn holding_part(&self, address: DeviceAddress) -> Option<&Entry<T>> {
        self.find_part(address)
            .filter(|entry| entry.allocation.extent.contains(address))
    }

    /// The block of a live allocation's pool that held the address, and was
    /// taken back last.
    pub fn freed_block(&self, address: DeviceAddress) -> Option<&Freed<T>> {
        let parent = self.find(address)?;
        self.pool_at(address)?;
        self.freed(address).filter(|freed| {
            let allocation = &freed.entry.allocation;
            allocation.kind == AllocationKind::Region
                && allocation.serial > parent.allocation.serial
        })
    }

    /// The pool that holds an address.
    pub fn pool_at(&self, address: DeviceAddress) -> Option<Extent> {
        self.parts.pool(address)
    }

    /// The declared part of this kind that starts at an address.
    pub fn part_at(&self, layer: Layer, base: DeviceAddress) -> Option<Extent> {
        self.parts.at(layer, base)
    }

    /// The declared block or region with exactly this extent.
    pub fn part(&self, extent: Extent) -> Option<&Entry<T>> {
        self.parts.exactly(extent)
    }

    /// Whether a block or region has, or had last, exactly this extent.
    pub fn was_part(&self, extent: Extent) -> bool {
        let is_part = |freed: &Freed<T>| freed.entry.allocation.kind == AllocationKind::Region;
        self.part(extent).is_some() || self.freed_extent(extent).is_some_and(is_part)
    }

    /// Every declared part, as if it were declared now.
    pub fn part_edits(&self) -> Vec<PartEdit> {
        self.parts
            .iter()
            .map(|(layer, extent, serial)| PartEdit::Insert {
                layer,
                extent,
                serial,
            })
            .collect()
    }

    /// Changes of the declared parts since the last call. Apply them before the
    /// change of the allocation that caused them.
    pub fn take_part_edits(&mut self) -> Vec<PartEdit> {
        std::mem::take(&mut self.edits)
    }

    /// Undoes the free of the allocation with this serial, which the driver
    /// refused: it is live again, unless its addresses were reused meanwhile.
    /// Returns whether it is.
    pub fn restore(&mut self, serial: u64) -> bool {
        let is_it = |freed: &Freed<T>| freed.entry.allocation.serial == serial;
        let Some(position) = self.freed.iter().rposition(is_it) else {
            return false;
        };
        let extent = self.freed[position].entry.allocation.extent;
        let taken = self
            .live
            .range(..extent.end().0)
            .next_back()
            .is_some_and(|(_, entry)| entry.allocation.extent.end() > extent.base);
        if taken {
            return false;
        }
        if let Some(freed) = self.freed.remove(position) {
            self.forget_base(extent.base);
            self.live.insert(extent.base.0, freed.entry);
        }
        true
    }

    /// The live allocation that a pointer belongs to: the one that holds the
    /// address, else the one that it is one past the end of.
    #[inline]
    pub fn find(&self, address: DeviceAddress) -> Option<&Entry<T>> {
        let (_, entry) = self.live.range(..=address.0).next_back()?;
        // Live extents do not overlap, so an allocation that holds the address
        // has the greatest base not above it.
        let offset = address.0 - entry.allocation.extent.base.0;
        (offset <= entry.allocation.extent.size).then_some(entry)
    }

    /// The live allocation that holds the byte at `address`.
    pub fn holding(&self, address: DeviceAddress) -> Option<&Entry<T>> {
        self.find(address)
            .filter(|entry| entry.allocation.extent.contains(address))
    }

    /// The live allocation with this base.
    pub fn at(&self, base: DeviceAddress) -> Option<&Entry<T>> {
        self.live.get(&base.0)
    }

    /// The nearest live allocations on both sides of an address.
    pub fn neighbours(&self, address: DeviceAddress) -> Neighbours<'_, T> {
        let below = self
            .live
            .range(..=address.0)
            .next_back()
            .map(|(_, entry)| entry);
        let above = self
            .live
            .range(address.0..)
            .find(|(base, _)| **base > address.0)
            .map(|(_, entry)| entry);
        Neighbours { below, above }
    }

    /// The live allocation whose canaries or padding hold the address: bytes
    /// that were allocated with it and that the program may not use.
    pub fn beside(&self, address: DeviceAddress) -> Option<&Entry<T>> {
        let near = self.neighbours(address);
        let after = |entry: &&Entry<T>| {
            let distance = address.0.checked_sub(entry.allocation.extent.end().0);
            distance.is_some_and(|distance| distance < entry.owner.redzones.after.into())
        };
        let before = |entry: &&Entry<T>| {
            let distance = entry.allocation.extent.base.0 - address.0;
            distance <= entry.owner.redzones.before.into()
        };
        near.below.filter(after).or(near.above.filter(before))
    }

    /// Canaries and padding with bytes in `from..to`, by address, each with its
    /// allocation; at most those of the allocations that start before `to`, the
    /// one below them and the one above.
    pub fn redzones(&self, from: u64, to: u64) -> impl Iterator<Item = (Extent, &Entry<T>)> {
        let first = self.live.range(..from).next_back();
        let last = self.live.range(to..).next();
        let within = self.live.range(from..to.max(from));
        let entries = first.into_iter().chain(within).chain(last);
        let sides = |entry: &'_ Entry<T>| {
            let (extent, redzones) = (entry.allocation.extent, entry.owner.redzones);
            let before = Extent {
                base: DeviceAddress(extent.base.0 - u64::from(redzones.before)),
                size: redzones.before.into(),
            };
            let after = Extent {
                base: extent.end(),
                size: redzones.after.into(),
            };
            [before, after]
        };
        entries
            .flat_map(move |(_, entry)| sides(entry).map(|extent| (extent, entry)))
            .filter(move |(extent, _)| {
                extent.size != 0 && extent.base.0 < to && extent.end().0 > from
            })
    }

    /// For a pointer that lies in no allocation, the live allocation that it
    /// was most likely computed from: the one whose canaries or padding hold
    /// it, or that is at most `near` bytes away; the nearer one of two. C
    /// forbids such pointers, but programs use them, above all `p - 1` for
    /// arrays that they index from 1. Freed memory is not considered.
    pub fn just_outside(&self, address: DeviceAddress, near: u64) -> Option<&Entry<T>> {
        let neighbours = self.neighbours(address);
        let past = |entry: &Entry<T>| address.0.checked_sub(entry.allocation.extent.end().0);
        let below = neighbours.below.and_then(|entry| {
            let distance = past(entry)?;
            let reach = near.max(entry.owner.redzones.after.into());
            (distance <= reach).then_some((distance, entry))
        });
        let above = neighbours.above.and_then(|entry| {
            let distance = entry.allocation.extent.base.0 - address.0;
            let reach = near.max(entry.owner.redzones.before.into());
            (distance <= reach).then_some((distance, entry))
        });
        let nearest = match (below, above) {
            (Some(below), Some(above)) if below.0 < above.0 => below.1,
            (_, Some((_, above))) => above,
            (below, None) => below?.1,
        };
        // A newer allocation shows that the memory of a freed one was reused.
        let is_stale = self.beside(address).is_none()
            && self.freed(address).is_some_and(|freed| {
                let old = freed.entry.allocation.extent;
                let new = nearest.allocation.extent;
                old.end() <= new.base || new.end() <= old.base
            });
        (!is_stale).then_some(nearest)
    }

    /// The latest freed allocation that held the address, or that it was one
    /// past the end of.
    pub fn freed(&self, address: DeviceAddress) -> Option<&Freed<T>> {
        if !self.may_be_freed(address) {
            return None;
        }
        let offset =
            |freed: &Freed<T>| address.0.wrapping_sub(freed.entry.allocation.extent.base.0);
        let size = |freed: &Freed<T>| freed.entry.allocation.extent.size;
        let newest_first = || self.freed.iter().rev();
        newest_first()
            .find(|freed| offset(freed) < size(freed))
            .or_else(|| newest_first().find(|freed| offset(freed) == size(freed)))
    }

    /// The kept freed allocations, the latest last.
    pub fn freed_entries(&self) -> impl Iterator<Item = &Entry<T>> {
        self.freed.iter().map(|freed| &freed.entry)
    }

    /// The kept freed allocations, the latest last, with the notes about their
    /// frees.
    pub fn all_freed(&self) -> impl DoubleEndedIterator<Item = &Freed<T>> {
        self.freed.iter()
    }

    /// The latest freed allocation with exactly this extent.
    pub fn freed_extent(&self, extent: Extent) -> Option<&Freed<T>> {
        self.freed
            .iter()
            .rev()
            .find(|freed| freed.entry.allocation.extent == extent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent(base: u64, size: u64) -> Extent {
        Extent {
            base: DeviceAddress(base),
            size,
        }
    }

    fn registry(extents: &[(u64, u64)]) -> Registry<()> {
        let mut registry = Registry::new(4);
        for (base, size) in extents {
            registry.insert(AllocationKind::Device, extent(*base, *size), None, ());
        }
        registry
    }

    #[test]
    fn a_pointer_one_past_the_end_belongs_unless_another_starts_there() {
        let registry = registry(&[(0x100, 0x100), (0x200, 0x10)]);
        let base = |address| {
            registry
                .find(DeviceAddress(address))
                .map(|entry| entry.allocation.extent.base.0)
        };
        assert_eq!(base(0x1ff), Some(0x100));
        assert_eq!(base(0x200), Some(0x200));
        assert_eq!(base(0x210), Some(0x200));
        assert_eq!(base(0x211), None);
        assert_eq!(base(0xff), None);
        assert!(registry.holding(DeviceAddress(0x210)).is_none());
    }

    #[test]
    fn canaries_and_padding_are_nobodys_and_lead_to_their_allocation() {
        let mut registry: Registry<()> = Registry::new(4);
        let mut add = |base, size, before, after| {
            let redzones = Redzones {
                before,
                after,
                slot: None,
            };
            let owner = Owner {
                redzones,
                ..Owner::default()
            };
            registry.insert_owned(AllocationKind::Device, extent(base, size), None, owner, ());
        };
        add(0x1200, 0x100, 0x200, 0x40);
        add(0x1540, 0x100, 0x200, 1);
        let base = |entry: Option<&Entry<()>>| entry.map(|entry| entry.allocation.extent.base.0);
        let beside = |address| base(registry.beside(DeviceAddress(address)));
        assert_eq!(beside(0xfff), None);
        assert_eq!(
            (beside(0x1000), beside(0x11ff)),
            (Some(0x1200), Some(0x1200))
        );
        assert_eq!((beside(0x1200), beside(0x12ff)), (None, None));
        assert_eq!(
            (beside(0x1300), beside(0x133f)),
            (Some(0x1200), Some(0x1200))
        );
        assert_eq!(
            (beside(0x1340), beside(0x153f)),
            (Some(0x1540), Some(0x1540))
        );
        assert_eq!((beside(0x1640), beside(0x1641)), (Some(0x1540), None));
        let zones = |from, to| -> Vec<(u64, u64)> {
            let zones = registry.redzones(from, to);
            zones.map(|(zone, _)| (zone.base.0, zone.size)).collect()
        };
        assert_eq!(zones(0xf00, 0x1000), []);
        assert_eq!(zones(0xf00, 0x1001), [(0x1000, 0x200)]);
        assert_eq!(zones(0x1210, 0x1300), []);
        assert_eq!(zones(0x1210, 0x1541), [(0x1300, 0x40), (0x1340, 0x200)]);
        // The nearer one is returned; far from both, none.
        let outside = |address| base(registry.just_outside(DeviceAddress(address), 0x10));
        assert_eq!(
            (outside(0x1302), outside(0x153c)),
            (Some(0x1200), Some(0x1540))
        );
        assert_eq!((outside(0xff0), outside(0x1650)), (None, Some(0x1540)));
        assert_eq!(outside(0x1651), None);
    }

    #[test]
    fn the_driver_is_believed_when_extents_collide() {
        let mut registry = registry(&[(0x100, 0x100), (0x200, 0x100), (0x300, 0x100)]);
        let inserted = registry
            .insert(AllocationKind::Foreign, extent(0x180, 0x100), None, ())
            .unwrap();
        assert_eq!(
            inserted.displaced,
            [extent(0x200, 0x100), extent(0x100, 0x100)]
        );
        assert_eq!(registry.len(), 2);
    }

    #[test]
    fn freed_allocations_are_remembered_newest_first_up_to_the_bound() {
        let mut registry = Registry::new(2);
        for (serial, base) in [0x100u64, 0x200, 0x300, 0x100].into_iter().enumerate() {
            registry
                .insert(AllocationKind::Device, extent(base, 0x80), None, serial)
                .unwrap();
            registry.remove(DeviceAddress(base), serial + 100).unwrap();
        }
        assert!(registry.remove(DeviceAddress(0x100), 0).is_none());
        assert_eq!(registry.freed(DeviceAddress(0x110)).unwrap().note, 103);
        assert_eq!(registry.freed(DeviceAddress(0x380)).unwrap().entry.note, 2);
        assert!(registry.freed(DeviceAddress(0x200)).is_none());
    }

    #[test]
    fn a_free_that_failed_is_undone_unless_the_address_is_taken() {
        let mut registry = registry(&[(0x100, 0x40), (0x200, 0x40)]);
        registry.remove(DeviceAddress(0x100), ()).unwrap();
        registry.remove(DeviceAddress(0x200), ()).unwrap();
        registry.insert(AllocationKind::Device, extent(0x220, 8), None, ());
        assert!(registry.restore(1));
        assert!(!registry.restore(1) && !registry.restore(2));
        assert_eq!(
            registry.at(DeviceAddress(0x100)).unwrap().allocation.serial,
            1
        );
        assert!(registry.freed(DeviceAddress(0x100)).is_none());
    }

    #[test]
    fn what_is_mapped_side_by_side_is_one_allocation_within_its_reservation() {
        let mut registry = registry(&[(0x800, 0x800)]);
        let reservation = extent(0x1000, 0x4000);
        let mut map = |base| {
            let owner = Owner::default();
            registry
                .map(extent(base, 0x1000), reservation, owner, ())
                .unwrap()
        };
        // Memory that ends where the reservation starts belongs to another one.
        assert_eq!(map(0x1000).new, [(extent(0x1000, 0x1000), 2)]);
        let grown = map(0x2000);
        assert_eq!(grown.gone, [0x1000]);
        assert_eq!(grown.new, [(extent(0x1000, 0x2000), 2)]);
        assert_eq!(map(0x4000).new, [(extent(0x4000, 0x1000), 3)]);
        let joined = map(0x3000);
        assert_eq!(joined.gone, [0x1000, 0x4000]);
        assert_eq!(joined.new, [(extent(0x1000, 0x4000), 2)]);
        // Next to it, but another reservation's.
        let beside = extent(0x5000, 0x1000);
        let other = registry.map(beside, beside, Owner::default(), ()).unwrap();
        assert_eq!(other.gone, []);

        registry
            .declare(Layer::Region, extent(0x1100, 0x80), None, ())
            .unwrap();
        registry
            .declare(Layer::Pool, extent(0x2800, 0x1000), None, ())
            .unwrap();
        registry
            .declare(Layer::Block, extent(0x2900, 0x80), None, ())
            .unwrap();
        let split = registry.unmap(extent(0x3000, 0x1000), ());
        assert_eq!(split.gone, [0x1000]);
        let (left, right) = (extent(0x1000, 0x2000), extent(0x4000, 0x1000));
        assert_eq!(split.new[0], (left, 2));
        assert_eq!(split.new[1].0, right);
        assert!(split.new[1].1 > 3);
        // Names go to the part, where there is one.
        assert!(registry.rename(DeviceAddress(0x1100), "part".into()));
        assert!(registry.rename(DeviceAddress(0x1000), "whole".into()));
        assert!(!registry.rename(DeviceAddress(0x1001), "nothing".into()));
        let name = |entry: &Entry<()>| entry.allocation.name.clone();
        let part = registry.part(extent(0x1100, 0x80)).and_then(name);
        assert_eq!(part.as_deref(), Some("part"));
        let whole = registry.at(DeviceAddress(0x1000)).and_then(name);
        assert_eq!(whole.as_deref(), Some("whole"));
        // Parts of the bytes that stay are kept; the pool is removed, because a
        // part of it was freed.
        assert!(registry.part(extent(0x1100, 0x80)).is_some());
        assert!(registry.pool_at(DeviceAddress(0x2800)).is_none());
        assert!(registry.part(extent(0x2900, 0x80)).is_none());
        assert!(registry.holding(DeviceAddress(0x3800)).is_none());
        let freed = registry.freed(DeviceAddress(0x3800)).unwrap();
        assert_eq!(freed.entry.allocation.extent, extent(0x3000, 0x1000));
        assert_eq!(
            registry.unmap(extent(0x3000, 0x1000), ()),
            Reshaped::default()
        );
    }

    #[test]
    fn pieces_that_are_registered_side_by_side_are_one_allocation() {
        let mut registry = registry(&[(0x5000, 0x1000)]);
        let mine = Owner {
            context: 7,
            ..Owner::default()
        };
        let mut register =
            |base, owner| registry.register(extent(base, 0x1000), owner, ()).unwrap();
        // The last one first, and a gap that is filled later.
        assert_eq!(register(0x4000, mine).new, [(extent(0x4000, 0x1000), 2)]);
        assert_eq!(register(0x1000, mine).new, [(extent(0x1000, 0x1000), 3)]);
        assert_eq!(register(0x2000, mine).new, [(extent(0x1000, 0x2000), 3)]);
        let joined = register(0x3000, mine);
        assert_eq!(joined.gone, [0x1000, 0x4000]);
        assert_eq!(joined.new, [(extent(0x1000, 0x4000), 3)]);
        // Another context's is another's.
        assert_eq!(register(0x6000, Owner::default()).gone, []);
        let piece = |registry: &Registry<()>, address| registry.piece(DeviceAddress(address));
        assert_eq!(piece(&registry, 0x2fff), Some(extent(0x2000, 0x1000)));
        assert_eq!(piece(&registry, 0x5000), None);
        assert!(registry.unregister(DeviceAddress(0x2800), ()).is_none());
        let (entry, split) = registry.unregister(DeviceAddress(0x2000), ()).unwrap();
        assert_eq!(entry.allocation.extent, extent(0x2000, 0x1000));
        assert_eq!(split.gone, [0x1000]);
        assert_eq!(split.new[0], (extent(0x1000, 0x1000), 3));
        assert_eq!(split.new[1].0, extent(0x3000, 0x2000));
        assert_eq!(piece(&registry, 0x2800), None);
        assert!(registry.holding(DeviceAddress(0x2800)).is_none());
        assert!(registry.freed(DeviceAddress(0x2800)).is_some());
        assert!(registry.unregister(DeviceAddress(0x2000), ()).is_none());
        let (_, last) = registry.unregister(DeviceAddress(0x1000), ()).unwrap();
        assert_eq!((last.gone, last.new), (vec![0x1000], vec![]));
        // What is displaced takes its pieces with it.
        registry.insert(AllocationKind::Device, extent(0x3800, 0x100), None, ());
        assert_eq!(
            (piece(&registry, 0x3000), piece(&registry, 0x4000)),
            (None, None)
        );
    }

    #[test]
    fn blocks_of_a_pool_own_their_addresses_and_the_rest_is_nobodys() {
        let mut registry = registry(&[(0x1000, 0x1000)]);
        let owner = |registry: &Registry<()>, address| {
            registry
                .find_part(DeviceAddress(address))
                .map(|entry| entry.allocation.extent)
        };
        registry
            .declare(Layer::Pool, extent(0x1000, 0x1000), None, ())
            .unwrap();
        registry
            .declare(Layer::Block, extent(0x1100, 0x80), None, ())
            .unwrap();
        registry
            .declare(Layer::Block, extent(0x1180, 0x80), None, ())
            .unwrap();
        assert_eq!(owner(&registry, 0x1000), None);
        assert_eq!(owner(&registry, 0x117f), Some(extent(0x1100, 0x80)));
        assert_eq!(owner(&registry, 0x1180), Some(extent(0x1180, 0x80)));
        assert_eq!(owner(&registry, 0x1200), Some(extent(0x1180, 0x80)));
        assert_eq!(owner(&registry, 0x1201), None);
        // One past the pool is one past the allocation.
        assert_eq!(owner(&registry, 0x2000), Some(extent(0x1000, 0x1000)));
        assert!(!registry.release(Layer::Region, DeviceAddress(0x1180), ()));
        assert!(registry.release(Layer::Block, DeviceAddress(0x1180), ()));
        assert!(!registry.release(Layer::Block, DeviceAddress(0x1180), ()));
        assert_eq!(owner(&registry, 0x1190), None);
        assert!(registry.freed(DeviceAddress(0x1190)).is_some());
        assert!(registry.release(Layer::Pool, DeviceAddress(0x1000), ()));
        assert_eq!(owner(&registry, 0x1100), Some(extent(0x1000, 0x1000)));
        let edits = registry.take_part_edits();
        assert_eq!(edits.len(), 7);
        assert!(registry.part_edits().is_empty());
    }

    #[test]
    fn parts_lie_in_allocations_and_go_with_them() {
        let mut registry = registry(&[(0x1000, 0x1000)]);
        let (pool, block, region) = (Layer::Pool, Layer::Block, Layer::Region);
        for (layer, base, size) in [
            (region, 0x900, 0x80),
            (region, 0x1f00, 0x200),
            (region, 0x1000, 0),
            (region, u64::MAX, 2),
            (block, 0x1000, 0x80),
        ] {
            assert!(
                registry
                    .declare(layer, extent(base, size), None, ())
                    .is_err()
            );
        }
        registry
            .declare(region, extent(0x1000, 0x80), None, ())
            .unwrap();
        registry
            .declare(region, extent(0x1040, 0x80), None, ())
            .unwrap();
        // The later one displaces what it overlaps.
        assert!(registry.part(extent(0x1000, 0x80)).is_none());
        assert!(registry.part(extent(0x1040, 0x80)).is_some());
        registry
            .declare(pool, extent(0x1800, 0x100), None, ())
            .unwrap();
        assert!(
            registry
                .declare(region, extent(0x17f0, 0x20), None, ())
                .is_err()
        );
        assert!(
            registry
                .declare(block, extent(0x18f0, 0x20), None, ())
                .is_err()
        );
        registry.remove(DeviceAddress(0x1000), ()).unwrap();
        assert!(registry.part_edits().is_empty());
        assert!(registry.pool_at(DeviceAddress(0x1800)).is_none());
    }

    #[test]
    fn empty_and_wrapping_extents_are_not_registered() {
        let registry = registry(&[(0x100, 0), (u64::MAX - 1, 8)]);
        assert!(registry.is_empty());
    }

    proptest! {
        #[test]
        fn lookups_agree_with_a_linear_search(
            operations in prop::collection::vec((any::<bool>(), 0u64..64, 1u64..40), 1..60),
            address in 0u64..1100,
        ) {
            let mut registry = Registry::new(8);
            let mut naive: Vec<Extent> = Vec::new();
            for (insert, slot, size) in operations {
                let new = extent(16 * slot + 16, size);
                if insert {
                    registry.insert(AllocationKind::Device, new, None, ());
                    naive.retain(|old| old.end() <= new.base || new.end() <= old.base);
                    naive.push(new);
                } else {
                    let removed = registry.remove(new.base, ()).is_some();
                    prop_assert_eq!(removed, naive.iter().any(|old| old.base == new.base));
                    naive.retain(|old| old.base != new.base);
                }
            }
            let address = DeviceAddress(address);
            let holding = naive.iter().find(|old| old.contains(address)).copied();
            let expected = holding.or_else(|| naive.iter().find(|old| old.end() == address).copied());
            prop_assert_eq!(registry.find(address).map(|entry| entry.allocation.extent), expected);
            let neighbours = registry.neighbours(address);
            let below = naive.iter().filter(|old| old.base <= address).max_by_key(|old| old.base).copied();
            let above = naive.iter().filter(|old| old.base > address).min_by_key(|old| old.base).copied();
            prop_assert_eq!(neighbours.below.map(|entry| entry.allocation.extent), below);
            prop_assert_eq!(neighbours.above.map(|entry| entry.allocation.extent), above);
        }
    }
}
