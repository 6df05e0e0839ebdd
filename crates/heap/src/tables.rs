//! The lookup tables of `model::layout` as a sequence of writes.
//!
//! Kernels may run while the tables change, so every sequence keeps each lookup
//! of an allocation that stays live right after *each* write: an extent entry
//! is complete before any table refers to it, a leaf is filled before its
//! region points at it, and the number of a removed extent is reused only after
//! thousands of others.
//!
//! A region (64 MiB) is in one of three states. It starts empty; while one
//! extent alone touches it, its entry is that extent; from the second on it
//! has a leaf, which it keeps: taking a leaf back could not be made safe
//! against a kernel that has just read its address.
//!
//! A granule (256 bytes) resolves to the extent that has bytes in it, else to
//! the one that ends exactly where the granule begins (a pointer one past the
//! end is legal). Where several have bytes in one granule, as small module
//! variables do, it resolves to a *shared* extent over all of them: lookups in
//! that granule are then less exact, and never a false alarm.
//!
//! Where the device may access the host's memory without registration (*open*
//! tables), an address outside all extents may be memory of the program from
//! malloc: such addresses resolve to one extent without bounds. Freed memory
//! resolves to nothing until it is reused.
//!
//! Parts that the program declared take precedence. In the granules that a pool
//! fills, its blocks resolve as extents do elsewhere, and the rest resolves to
//! nothing. The granules that a region fills resolve to the region; a granule
//! that it shares with the rest of its allocation resolves to the allocation.

use crate::parts::{Layer, PartEdit};
use model::layout::{
    EXTENT_TABLE, EXTENT_TABLE_RESERVED, ExtentEntry, GRANULE_SHIFT, LEAF_ENTRIES, LEAVES,
    LEAVES_RESERVED, REGION_COUNT, REGION_IS_EXTENT, REGION_SHIFT, REGION_TABLE, UNBOUNDED,
};
use model::{DeviceAddress, Extent};
use std::collections::{BTreeMap, VecDeque};

/// A change of device memory. The updates of one list are applied in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableUpdate {
    /// Copy bytes to an address.
    Write {
        /// First byte.
        address: u64,
        /// What to store.
        bytes: Vec<u8>,
    },
    /// Store a `u32` repeatedly.
    Fill {
        /// First byte, a multiple of four.
        address: u64,
        /// What to store.
        value: u32,
        /// How many times.
        count: u64,
    },
    /// Map zero-filled device memory.
    Map {
        /// First byte, a multiple of 2 MiB.
        address: u64,
        /// Bytes, a multiple of 2 MiB.
        size: u64,
    },
}

/// The tables cannot take an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TablesError {
    /// The extent does not lie in the 47-bit address space.
    #[error(
        "{base:#x} + {size} bytes lies outside the 47-bit address space that the lookup tables cover"
    )]
    OutsideAddressSpace {
        /// First byte.
        base: u64,
        /// Length in bytes.
        size: u64,
    },
    /// The reserved address range of the extent table or the leaves is used
    /// up.
    #[error("the {table} is full: more allocations are live than its address range can hold")]
    Full {
        /// Which table.
        table: &'static str,
    },
}

/// Bytes that the driver maps at a time.
const MAP_GRANULE: u64 = 2 << 20;
const ENTRY_SIZE: u64 = size_of::<ExtentEntry>() as u64;
const LEAF_SIZE: u64 = LEAF_ENTRIES * 4;
/// How many extents are removed before a number is reused.
const RETIRED: usize = 4096;
/// Bytes from address 0 on that no program can map (`vm.mmap_min_addr`).
const NULL_PAGES: u64 = 1 << 16;
const GRANULE: u64 = 1 << GRANULE_SHIFT;
const REGION_GRANULES: u64 = LEAF_ENTRIES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Region {
    Only(u32),
    Leaf(u64),
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    base: u64,
    end: u64,
    index: u32,
}

/// The extent for one granule that several claims share.
#[derive(Clone, Copy, Debug)]
struct Shared {
    base: u64,
    end: u64,
    index: u32,
}

/// Granules `first..=last` and the extent that they resolve to.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u64,
    last: u64,
    base: u64,
    end: u64,
    /// `None`: several claims share this (single) granule.
    index: Option<u32>,
}

/// The state of the lookup tables after all updates that were returned.
#[derive(Clone, Debug)]
pub struct Tables {
    claims: BTreeMap<u64, Claim>,
    /// Ends of pools by base.
    pools: BTreeMap<u64, u64>,
    blocks: BTreeMap<u64, Claim>,
    parts: BTreeMap<u64, Claim>,
    /// Ends of removed blocks that kernels may still use, by base.
    limbo: BTreeMap<u64, u64>,
    shared: BTreeMap<u64, Shared>,
    regions: BTreeMap<u64, Region>,
    /// Number of the extent of the host's memory, in open tables.
    open: Option<u32>,
    /// Ranges of granules that resolve to nothing in open tables: from the
    /// first to the last granule. They do not touch each other.
    dead: BTreeMap<u64, u64>,
    next_index: u32,
    retired: VecDeque<u32>,
    mapped_entries: u64,
    next_leaf: u64,
    mapped_leaves: u64,
}

impl Default for Tables {
    fn default() -> Self {
        Tables::new()
    }
}

impl Tables {
    /// Tables without an extent. The region table itself must be mapped and
    /// zero; everything else is mapped by updates.
    pub fn new() -> Tables {
        Tables {
            claims: BTreeMap::new(),
            pools: BTreeMap::new(),
            blocks: BTreeMap::new(),
            parts: BTreeMap::new(),
            limbo: BTreeMap::new(),
            shared: BTreeMap::new(),
            regions: BTreeMap::new(),
            open: None,
            dead: BTreeMap::new(),
            // Extent 0 means "none" in a leaf.
            next_index: 1,
            retired: VecDeque::new(),
            mapped_entries: 0,
            next_leaf: 0,
            mapped_leaves: 0,
        }
    }

    /// Opens the tables, to which nothing has been added yet; appends the
    /// writes. Null pointers with an offset still resolve to nothing.
    ///
    /// # Errors
    ///
    /// As [`Tables::insert`].
    pub fn open(&mut self, out: &mut Vec<TableUpdate>) -> Result<(), TablesError> {
        self.map_leaves(1, out)?;
        let index = self.new_extent(
            ExtentEntry {
                base: 0,
                size: UNBOUNDED,
                ..ExtentEntry::default()
            },
            out,
        )?;
        self.open = Some(index);
        let value = u64::from(index) | REGION_IS_EXTENT;
        out.push(write_region(0, &vec![value; REGION_COUNT as usize]));
        self.dead(
            Extent {
                base: DeviceAddress(0),
                size: NULL_PAGES,
            },
            out,
        )
    }

    /// An extent was freed, and its addresses are not the host's: they resolve
    /// to nothing. In tables that are not open this is so anyway.
    ///
    /// # Errors
    ///
    /// As [`Tables::insert`].
    pub fn dead(&mut self, extent: Extent, out: &mut Vec<TableUpdate>) -> Result<(), TablesError> {
        if self.open.is_none() {
            return Ok(());
        }
        let end = end_of(extent)?;
        let (first, last) = (extent.base.0 >> GRANULE_SHIFT, (end - 1) >> GRANULE_SHIFT);
        self.map_leaves(2, out)?;
        self.revive(first, last);
        self.dead.insert(first, last);
        let mut nobodys = Vec::new();
        for region in first / REGION_GRANULES..=last / REGION_GRANULES {
            let (from, to) = granules(region);
            match self.regions.get(&region).copied() {
                Some(Region::Leaf(leaf)) => {
                    self.paint(first.max(from), last.min(to), leaf, true, out)?;
                }
                // All of it resolves to an extent.
                Some(Region::Only(_)) => {}
                None if first <= from && to <= last => nobodys.push(region),
                None => self.take_region(region, out)?,
            }
        }
        write_region_runs(&nobodys, 0, out);
        Ok(())
    }

    /// Granules that resolved to nothing may resolve to an extent again.
    fn revive(&mut self, first: u64, last: u64) {
        let overlapping: Vec<(u64, u64)> = self
            .dead
            .range(..=last)
            .rev()
            .take_while(|(_, end)| **end >= first)
            .map(|(start, end)| (*start, *end))
            .collect();
        for (start, end) in overlapping {
            self.dead.remove(&start);
            if start < first {
                self.dead.insert(start, first - 1);
            }
            if end > last {
                self.dead.insert(last + 1, end);
            }
        }
    }

    /// Gives a region a leaf, which is filled before the region points at it.
    fn take_region(&mut self, region: u64, out: &mut Vec<TableUpdate>) -> Result<(), TablesError> {
        let leaf = self.take_leaf();
        self.regions.insert(region, Region::Leaf(leaf));
        let (first, last) = granules(region);
        self.paint(first, last, leaf, false, out)?;
        out.push(write_region(region, &[leaf]));
        Ok(())
    }

    /// Whether an extent can be a region's only one. In open tables it must
    /// fill the region: the rest resolves to the host.
    fn may_be_alone(&self, claim: &Claim, region: u64) -> bool {
        let fills =
            claim.base <= region << REGION_SHIFT && (region + 1) << REGION_SHIFT <= claim.end;
        self.open.is_none() || fills
    }

    /// The entry of a region that no extent has touched.
    fn untouched(&self, region: u64) -> u64 {
        let Some(index) = self.open else { return 0 };
        let (first, last) = granules(region);
        let nobodys = self.dead.range(..=first).next_back();
        match nobodys.is_some_and(|(_, end)| *end >= last) {
            true => 0,
            false => u64::from(index) | REGION_IS_EXTENT,
        }
    }

    /// Adds an extent that overlaps none of those present; appends the
    /// writes.
    ///
    /// # Errors
    ///
    /// The extent lies outside the address space, or a table is full. Then
    /// the writes appended so far are harmless and the extent is not found by
    /// lookups.
    pub fn insert(
        &mut self,
        extent: Extent,
        serial: u64,
        out: &mut Vec<TableUpdate>,
    ) -> Result<(), TablesError> {
        let (base, size) = (extent.base.0, extent.size);
        let end = end_of(extent)?;
        self.reserve_leaves(base, end, out)?;
        let index = self.new_extent(
            ExtentEntry {
                base,
                size,
                serial,
                reserved: 0,
            },
            out,
        )?;
        let claim = Claim { base, end, index };
        self.claims.insert(base, claim);
        self.revive(base >> GRANULE_SHIFT, (end - 1) >> GRANULE_SHIFT);

        let mut only = Vec::new();
        for region in base >> REGION_SHIFT..=end >> REGION_SHIFT {
            match self.regions.get(&region).copied() {
                None if self.may_be_alone(&claim, region) => {
                    self.regions.insert(region, Region::Only(index));
                    only.push(region);
                }
                None | Some(Region::Only(_)) => self.take_region(region, out)?,
                Some(Region::Leaf(leaf)) => self.paint_claim(base, end, region, leaf, out)?,
            }
        }
        write_region_runs(&only, u64::from(index) | REGION_IS_EXTENT, out);
        Ok(())
    }

    /// Where the size of the extent that starts at `base` is, if there is one: with a
    /// size of zero there, accesses to it are out of bounds.
    pub fn size_at(&self, base: u64) -> Option<u64> {
        let claim = self.claims.get(&base)?;
        let entry = EXTENT_TABLE + u64::from(claim.index) * ENTRY_SIZE;
        Some(entry + std::mem::offset_of!(ExtentEntry, size) as u64)
    }

    /// Removes the extent that starts at `base`, if there is one; appends the
    /// writes.
    ///
    /// # Errors
    ///
    /// A granule now needs a shared extent and the extent table is full.
    pub fn remove(&mut self, base: u64, out: &mut Vec<TableUpdate>) -> Result<(), TablesError> {
        let Some(claim) = self.claims.remove(&base) else {
            return Ok(());
        };
        let mut only = Vec::new();
        let mut result = Ok(());
        for region in claim.base >> REGION_SHIFT..=claim.end >> REGION_SHIFT {
            match self.regions.get(&region).copied() {
                Some(Region::Only(index)) if index == claim.index => {
                    self.regions.remove(&region);
                    only.push((region, self.untouched(region)));
                }
                Some(Region::Leaf(leaf)) => {
                    result = result.and(self.paint_claim(claim.base, claim.end, region, leaf, out));
                }
                Some(Region::Only(_)) | None => {}
            }
        }
        write_regions(&only, out);
        self.retired.push_back(claim.index);
        result
    }

    /// Replaces extents by others that lie where they did, or beside them:
    /// memory that grew, shrank or was split. Lookups in bytes that stay live
    /// find an extent that holds them at any time. Appends the writes.
    ///
    /// # Errors
    ///
    /// As [`Tables::insert`].
    pub fn replace(
        &mut self,
        gone: &[u64],
        new: &[(Extent, u64)],
        out: &mut Vec<TableUpdate>,
    ) -> Result<(), TablesError> {
        let mut added = Vec::with_capacity(new.len());
        for (extent, serial) in new {
            let (base, size) = (extent.base.0, extent.size);
            let end = end_of(*extent)?;
            let entry = ExtentEntry {
                base,
                size,
                serial: *serial,
                reserved: 0,
            };
            let index = self.new_extent(entry, out)?;
            added.push(Claim { base, end, index });
        }
        let removed: Vec<Claim> = gone
            .iter()
            .filter_map(|base| self.claims.remove(base))
            .collect();
        self.claims
            .extend(added.iter().map(|claim| (claim.base, *claim)));
        let mut regions: Vec<u64> = removed
            .iter()
            .chain(&added)
            .flat_map(|claim| claim.base >> REGION_SHIFT..=claim.end >> REGION_SHIFT)
            .collect();
        regions.sort_unstable();
        regions.dedup();
        for claim in &added {
            self.revive(
                claim.base >> GRANULE_SHIFT,
                (claim.end - 1) >> GRANULE_SHIFT,
            );
        }
        let crowded = |region: &&u64| {
            let is_leaf = matches!(self.regions.get(*region), Some(Region::Leaf(_)));
            let mut touching = self.touching(**region);
            let first = touching.next();
            let shared = touching.next().is_some();
            !is_leaf && first.is_some_and(|claim| shared || !self.may_be_alone(claim, **region))
        };
        let needed = regions.iter().filter(crowded).count() as u64;
        if let Err(error) = self.map_leaves(needed, out) {
            for claim in &added {
                self.claims.remove(&claim.base);
            }
            self.claims
                .extend(removed.into_iter().map(|claim| (claim.base, claim)));
            return Err(error);
        }
        let span = removed.iter().chain(&added);
        let (base, end) = span.fold((u64::MAX, 0), |(base, end), claim| {
            (base.min(claim.base), end.max(claim.end))
        });
        let mut only = Vec::new();
        for region in regions {
            if let Some(Region::Leaf(leaf)) = self.regions.get(&region).copied() {
                self.paint_claim(base, end, region, leaf, out)?;
                continue;
            }
            let (first, second) = {
                let mut touching = self.touching(region);
                (touching.next().copied(), touching.next().copied())
            };
            match (first, second) {
                (None, _) => {
                    self.regions.remove(&region);
                    only.push((region, self.untouched(region)));
                }
                (Some(claim), None) if self.may_be_alone(&claim, region) => {
                    self.regions.insert(region, Region::Only(claim.index));
                    only.push((region, u64::from(claim.index) | REGION_IS_EXTENT));
                }
                (Some(_), _) => self.take_region(region, out)?,
            }
        }
        write_regions(&only, out);
        self.retired.extend(removed.iter().map(|claim| claim.index));
        Ok(())
    }

    /// The extents that have bytes in a region, or end where it begins.
    fn touching(&self, region: u64) -> impl Iterator<Item = &Claim> {
        let past = (region + 1) << REGION_SHIFT;
        self.claims
            .range(..past)
            .rev()
            .map(|(_, claim)| claim)
            .take_while(move |claim| claim.end >> REGION_SHIFT >= region)
    }

    /// Applies a change of the declared parts; appends the writes.
    ///
    /// # Errors
    ///
    /// As [`Tables::insert`].
    pub fn edit(&mut self, edit: &PartEdit, out: &mut Vec<TableUpdate>) -> Result<(), TablesError> {
        match *edit {
            PartEdit::Insert {
                layer,
                extent,
                serial,
            } => self.insert_part(layer, extent, serial, out),
            PartEdit::Limbo { extent } => {
                let end = self.limbo.entry(extent.base.0).or_default();
                *end = extent.end().0.max(*end);
                self.repaint(extent.base.0, extent.end().0, out)
            }
            PartEdit::Settle => {
                let mut result = Ok(());
                for (base, end) in std::mem::take(&mut self.limbo) {
                    result = result.and(self.repaint(base, end, out));
                }
                result
            }
            PartEdit::Remove { layer, base } => {
                let (end, index) = match layer {
                    Layer::Pool => (self.pools.remove(&base), None),
                    Layer::Block => claim_end(self.blocks.remove(&base)),
                    Layer::Region => claim_end(self.parts.remove(&base)),
                };
                let Some(end) = end else { return Ok(()) };
                let result = self.repaint(base, end, out);
                self.retired.extend(index);
                result
            }
        }
    }

    fn insert_part(
        &mut self,
        layer: Layer,
        extent: Extent,
        serial: u64,
        out: &mut Vec<TableUpdate>,
    ) -> Result<(), TablesError> {
        let (base, size) = (extent.base.0, extent.size);
        let end = end_of(extent)?;
        self.reserve_leaves(base, end, out)?;
        if layer == Layer::Pool {
            self.pools.insert(base, end);
        } else {
            let entry = ExtentEntry {
                base,
                size,
                serial,
                reserved: 0,
            };
            let index = self.new_extent(entry, out)?;
            let claims = match layer {
                Layer::Block => &mut self.blocks,
                _ => &mut self.parts,
            };
            claims.insert(base, Claim { base, end, index });
        }
        self.repaint(base, end, out)
    }

    /// Writes what `base..=end` resolves to. A region with one extent gets a
    /// leaf first. Regions that no extent has touched stay as they are: a part
    /// lies in an extent.
    fn repaint(
        &mut self,
        base: u64,
        end: u64,
        out: &mut Vec<TableUpdate>,
    ) -> Result<(), TablesError> {
        for region in base >> REGION_SHIFT..=end >> REGION_SHIFT {
            match self.regions.get(&region).copied() {
                None => {}
                Some(Region::Only(_)) => self.take_region(region, out)?,
                Some(Region::Leaf(leaf)) => self.paint_claim(base, end, region, leaf, out)?,
            }
        }
        Ok(())
    }

    /// Rewrites the granules of `base..=end` that lie in one region.
    fn paint_claim(
        &mut self,
        base: u64,
        end: u64,
        region: u64,
        leaf: u64,
        out: &mut Vec<TableUpdate>,
    ) -> Result<(), TablesError> {
        let region_first = region * REGION_GRANULES;
        let first = (base >> GRANULE_SHIFT).max(region_first);
        let last = (end >> GRANULE_SHIFT).min(region_first + REGION_GRANULES - 1);
        self.paint(first, last, leaf, true, out)
    }

    /// Writes what granules `first..=last`, all of one region, resolve to, into
    /// its leaf. `clear`: also write those that resolve to nothing (a new leaf
    /// is zero).
    fn paint(
        &mut self,
        first: u64,
        last: u64,
        leaf: u64,
        clear: bool,
        out: &mut Vec<TableUpdate>,
    ) -> Result<(), TablesError> {
        let fill = |first: u64, last: u64, value: u32, out: &mut Vec<TableUpdate>| {
            let address = leaf + (first % REGION_GRANULES) * 4;
            out.push(TableUpdate::Fill {
                address,
                value,
                count: last - first + 1,
            });
        };
        let clear = clear || self.open.is_some();
        let mut next = first;
        for run in self.runs(first, last) {
            if clear && run.first > next {
                self.fill_between(next, run.first - 1, fill, out);
            }
            let index = match run.index {
                Some(index) => {
                    // No longer shared: only its first and last granule can have been.
                    for granule in [run.first, run.last] {
                        if let Some(old) = self.shared.remove(&granule) {
                            self.retired.push_back(old.index);
                        }
                    }
                    index
                }
                None => self.share(run, out)?,
            };
            fill(run.first, run.last, index, out);
            next = run.last + 1;
        }
        if clear && next <= last {
            self.fill_between(next, last, fill, out);
        }
        Ok(())
    }

    /// Writes what granules without an extent resolve to: nothing, or the host.
    fn fill_between(
        &self,
        first: u64,
        last: u64,
        fill: impl Fn(u64, u64, u32, &mut Vec<TableUpdate>),
        out: &mut Vec<TableUpdate>,
    ) {
        let Some(host) = self.open else {
            return fill(first, last, 0, out);
        };
        let dead = self.dead.range(..=last).rev();
        let mut dead: Vec<(u64, u64)> = dead
            .take_while(|(_, end)| **end >= first)
            .map(|(start, end)| (*start, *end))
            .collect();
        dead.reverse();
        let mut next = first;
        for (start, end) in dead {
            let (start, end) = (start.max(first), end.min(last));
            if start > next {
                fill(next, start - 1, host, out);
            }
            fill(start, end, 0, out);
            next = end + 1;
        }
        if next <= last {
            fill(next, last, host, out);
        }
    }

    /// The extent for a granule that several claims share.
    fn share(&mut self, run: Run, out: &mut Vec<TableUpdate>) -> Result<u32, TablesError> {
        let old = self.shared.get(&run.first).copied();
        if let Some(old) = old
            && (old.base, old.end) == (run.base, run.end)
        {
            return Ok(old.index);
        }
        let entry = ExtentEntry {
            base: run.base,
            size: run.end - run.base,
            serial: 0,
            reserved: 0,
        };
        let index = self.new_extent(entry, out)?;
        self.shared.insert(
            run.first,
            Shared {
                base: run.base,
                end: run.end,
                index,
            },
        );
        self.retired.extend(old.map(|old| old.index));
        Ok(index)
    }

    /// What granules `first..=last` resolve to, in order; granules in between
    /// are unclaimed.
    fn runs(&self, first: u64, last: u64) -> Vec<Run> {
        let mut runs = Self::runs_of(&self.claims, first, last);
        let past = (last + 1) << GRANULE_SHIFT;
        for (base, end) in self.pools.range(..past) {
            if let Some((from, to)) = self.filled(*base, *end, first, last) {
                overlay(&mut runs, from, to, Self::runs_of(&self.blocks, from, to));
            }
        }
        for claim in self.parts.range(..past).map(|(_, claim)| claim) {
            if let Some((from, to)) = self.filled(claim.base, claim.end, first, last) {
                let run = Run {
                    first: from,
                    last: to,
                    base: claim.base,
                    end: claim.end,
                    index: Some(claim.index),
                };
                overlay(&mut runs, from, to, vec![run]);
            }
        }
        for (base, end) in self.limbo.range(..past) {
            let (from, to) = (
                (base >> GRANULE_SHIFT).max(first),
                ((end - 1) >> GRANULE_SHIFT).min(last),
            );
            if from <= to {
                overlay(&mut runs, from, to, Self::runs_of(&self.claims, from, to));
            }
        }
        runs
    }

    /// The granules of `first..=last` that a part fills, apart from bytes that
    /// belong to no extent.
    fn filled(&self, base: u64, end: u64, first: u64, last: u64) -> Option<(u64, u64)> {
        let from = base.div_ceil(GRANULE).max(first);
        let to = if self.ends_an_extent(base, end) {
            end.div_ceil(GRANULE)
        } else {
            end / GRANULE
        };
        let to = to.checked_sub(1)?.min(last);
        (from <= to).then_some((from, to))
    }

    /// Whether the part ends where its extent does, and no other extent starts
    /// in the same granule.
    fn ends_an_extent(&self, base: u64, end: u64) -> bool {
        let holds = self.claims.range(..=base).next_back();
        let next = end.next_multiple_of(GRANULE);
        holds.is_some_and(|(_, claim)| claim.end == end)
            && self.claims.range(end..next).next().is_none()
    }

    /// As [`Tables::runs`], of one layer.
    fn runs_of(all: &BTreeMap<u64, Claim>, first: u64, last: u64) -> Vec<Run> {
        let past = (last + 1) << GRANULE_SHIFT;
        let mut claims: Vec<Claim> = all
            .range(..past)
            .rev()
            .map(|(_, claim)| *claim)
            .take_while(|claim| claim.end >> GRANULE_SHIFT >= first)
            .collect();
        claims.reverse();

        let mut hard: Vec<Run> = Vec::with_capacity(claims.len());
        for claim in &claims {
            let mut run = Run {
                first: claim.base >> GRANULE_SHIFT,
                last: (claim.end - 1) >> GRANULE_SHIFT,
                base: claim.base,
                end: claim.end,
                index: Some(claim.index),
            };
            if let Some(previous) = hard
                .last_mut()
                .filter(|previous| previous.last == run.first)
            {
                if previous.first == previous.last {
                    previous.end = claim.end;
                    previous.index = None;
                } else {
                    previous.last -= 1;
                    let shared = Run {
                        first: run.first,
                        last: run.first,
                        base: previous.base,
                        end: claim.end,
                        index: None,
                    };
                    hard.push(shared);
                }
                run.first += 1;
            }
            if run.first <= run.last {
                hard.push(run);
            }
        }

        let mut runs: Vec<Run> = Vec::with_capacity(hard.len() + 1);
        let mut rest = claims
            .iter()
            .filter(|claim| claim.end % GRANULE == 0)
            .peekable();
        let mut hard = hard.into_iter().peekable();
        loop {
            // A granule resolves to a claim that ends at its start if no claim
            // has bytes in it.
            let soft = rest.peek().map(|claim| claim.end >> GRANULE_SHIFT);
            match (hard.peek(), soft) {
                (Some(run), Some(granule)) if granule >= run.first => {
                    if granule <= run.last {
                        rest.next();
                    } else {
                        runs.extend(hard.next());
                    }
                }
                (_, Some(granule)) => {
                    let claim = rest.next().expect("peeked");
                    let index = Some(claim.index);
                    runs.push(Run {
                        first: granule,
                        last: granule,
                        base: claim.base,
                        end: claim.end,
                        index,
                    });
                }
                (Some(_), None) => runs.extend(hard.next()),
                (None, None) => break,
            }
        }
        runs.retain_mut(|run| {
            run.first = run.first.max(first);
            run.last = run.last.min(last);
            run.first <= run.last
        });
        runs
    }

    /// A number for an extent, and the writes that make its entry.
    fn new_extent(
        &mut self,
        entry: ExtentEntry,
        out: &mut Vec<TableUpdate>,
    ) -> Result<u32, TablesError> {
        let reusable = if self.retired.len() > RETIRED {
            self.retired.pop_front()
        } else {
            None
        };
        let index = match reusable {
            Some(index) => index,
            None => {
                if u64::from(self.next_index) * ENTRY_SIZE >= EXTENT_TABLE_RESERVED {
                    return Err(TablesError::Full {
                        table: "extent table",
                    });
                }
                self.next_index += 1;
                self.next_index - 1
            }
        };
        let address = EXTENT_TABLE + u64::from(index) * ENTRY_SIZE;
        while address >= EXTENT_TABLE + self.mapped_entries {
            out.push(TableUpdate::Map {
                address: EXTENT_TABLE + self.mapped_entries,
                size: MAP_GRANULE,
            });
            self.mapped_entries += MAP_GRANULE;
        }
        let bytes = [entry.base, entry.size, entry.serial, entry.reserved]
            .map(u64::to_le_bytes)
            .concat();
        out.push(TableUpdate::Write { address, bytes });
        Ok(index)
    }

    /// Maps what an insertion of `base..=end` will need, before anything is
    /// changed: every region that another extent holds alone gets a leaf.
    fn reserve_leaves(
        &mut self,
        base: u64,
        end: u64,
        out: &mut Vec<TableUpdate>,
    ) -> Result<(), TablesError> {
        let needed = self
            .regions
            .range(base >> REGION_SHIFT..=end >> REGION_SHIFT)
            .filter(|(_, region)| matches!(region, Region::Only(_)))
            .count() as u64;
        // At its ends, where it does not fill a region.
        let ends = if self.open.is_some() { 2 } else { 0 };
        self.map_leaves(needed + ends, out)
    }

    /// Maps the memory that this many more leaves need.
    fn map_leaves(&mut self, needed: u64, out: &mut Vec<TableUpdate>) -> Result<(), TablesError> {
        let bytes = (self.next_leaf + needed) * LEAF_SIZE;
        if bytes > LEAVES_RESERVED {
            return Err(TablesError::Full { table: "leaf area" });
        }
        while self.mapped_leaves < bytes {
            out.push(TableUpdate::Map {
                address: LEAVES + self.mapped_leaves,
                size: MAP_GRANULE,
            });
            self.mapped_leaves += MAP_GRANULE;
        }
        Ok(())
    }

    fn take_leaf(&mut self) -> u64 {
        self.next_leaf += 1;
        LEAVES + (self.next_leaf - 1) * LEAF_SIZE
    }
}

/// The first and the last granule of a region.
fn granules(region: u64) -> (u64, u64) {
    let first = region * REGION_GRANULES;
    (first, first + REGION_GRANULES - 1)
}

/// One past the last address of an extent that the tables can hold.
fn end_of(extent: Extent) -> Result<u64, TablesError> {
    let (base, size) = (extent.base.0, extent.size);
    base.checked_add(size)
        .filter(|end| size != 0 && end >> REGION_SHIFT < REGION_COUNT)
        .ok_or(TablesError::OutsideAddressSpace { base, size })
}

fn claim_end(claim: Option<Claim>) -> (Option<u64>, Option<u32>) {
    (claim.map(|claim| claim.end), claim.map(|claim| claim.index))
}

/// Replaces the entries of granules `first..=last` in `runs`.
fn overlay(runs: &mut Vec<Run>, first: u64, last: u64, with: Vec<Run>) {
    let mut all = Vec::with_capacity(runs.len() + with.len() + 1);
    for run in runs.iter() {
        if run.first < first {
            let last = run.last.min(first - 1);
            all.push(Run { last, ..*run });
        }
    }
    all.extend(with);
    for run in runs.iter() {
        if run.last > last {
            let first = run.first.max(last + 1);
            all.push(Run { first, ..*run });
        }
    }
    *runs = all;
}

fn write_region(region: u64, values: &[u64]) -> TableUpdate {
    let bytes = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    TableUpdate::Write {
        address: REGION_TABLE + region * 8,
        bytes,
    }
}

/// Writes the entries of ascending regions, neighbours of one value at once.
fn write_regions(entries: &[(u64, u64)], out: &mut Vec<TableUpdate>) {
    for same in entries.chunk_by(|a, b| a.1 == b.1) {
        let regions: Vec<u64> = same.iter().map(|(region, _)| *region).collect();
        write_region_runs(&regions, same[0].1, out);
    }
}

/// Writes `value` to the entries of ascending `regions`, neighbours at once.
fn write_region_runs(regions: &[u64], value: u64, out: &mut Vec<TableUpdate>) {
    for run in regions.chunk_by(|a, b| a + 1 == *b) {
        out.push(write_region(run[0], &vec![value; run.len()]));
    }
}

#[cfg(test)]
mod tests;
