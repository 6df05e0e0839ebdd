//! The device's lookup, written in Rust over simulated device memory, is
//! compared with a linear search after every write.

use super::*;
use model::DeviceAddress;
use proptest::prelude::*;
use std::collections::HashMap;

/// Device memory: what was mapped, and the words that were written.
#[derive(Default)]
struct Memory {
    mapped: Vec<(u64, u64)>,
    words: HashMap<u64, u32>,
}

impl Memory {
    fn new() -> Memory {
        Memory {
            mapped: vec![(REGION_TABLE, REGION_COUNT * 8)],
            words: HashMap::new(),
        }
    }

    fn check(&self, address: u64, size: u64) {
        let inside =
            |(base, length): &(u64, u64)| address >= *base && address + size <= base + length;
        // Neighbouring mappings are contiguous; a write may span two.
        let mapped = self.mapped.iter().any(inside)
            || (address..address + size).step_by(4).all(|word| {
                self.mapped
                    .iter()
                    .any(|(base, length)| word >= *base && word < base + length)
            });
        assert!(mapped, "{address:#x} + {size} is not mapped");
    }

    fn apply(&mut self, update: &TableUpdate) {
        match update {
            TableUpdate::Write { address, bytes } => {
                self.check(*address, bytes.len() as u64);
                for (index, word) in bytes.chunks_exact(4).enumerate() {
                    let value = u32::from_le_bytes(word.try_into().unwrap());
                    self.words.insert(address + 4 * index as u64, value);
                }
            }
            TableUpdate::Fill {
                address,
                value,
                count,
            } => {
                self.check(*address, count * 4);
                for index in 0..*count {
                    self.words.insert(address + 4 * index, *value);
                }
            }
            TableUpdate::Map { address, size } => {
                assert_eq!((address % MAP_GRANULE, size % MAP_GRANULE), (0, 0));
                let overlaps = |(base, length): &(u64, u64)| {
                    address < &(base + length) && *base < address + size
                };
                assert!(
                    !self.mapped.iter().any(overlaps),
                    "{address:#x} mapped twice"
                );
                self.mapped.push((*address, *size));
            }
        }
    }

    fn u32(&self, address: u64) -> u32 {
        self.check(address, 4);
        self.words.get(&address).copied().unwrap_or(0)
    }

    fn u64(&self, address: u64) -> u64 {
        u64::from(self.u32(address)) | u64::from(self.u32(address + 4)) << 32
    }

    /// What a kernel does; `None` is a miss.
    fn lookup(&self, pointer: u64) -> Option<(u64, u64)> {
        let region = self.u64(REGION_TABLE + (pointer >> REGION_SHIFT) * 8);
        let index = if region == 0 {
            0
        } else if region & REGION_IS_EXTENT != 0 {
            region as u32
        } else {
            self.u32(region + ((pointer >> GRANULE_SHIFT) & (LEAF_ENTRIES - 1)) * 4)
        };
        if index == 0 {
            return None;
        }
        let entry = EXTENT_TABLE + u64::from(index) * ENTRY_SIZE;
        let (base, size) = (self.u64(entry), self.u64(entry + 8));
        (pointer.wrapping_sub(base) <= size).then_some((base, size))
    }
}

fn extent(base: u64, size: u64) -> Extent {
    Extent {
        base: DeviceAddress(base),
        size,
    }
}

/// The result that a lookup must give, where that is exact.
fn expected(live: &[Extent], pointer: u64) -> Option<Extent> {
    let holding = live
        .iter()
        .find(|extent| extent.contains(DeviceAddress(pointer)));
    holding
        .or_else(|| live.iter().find(|extent| extent.end().0 == pointer))
        .copied()
}

fn shares_a_granule(live: &[Extent], pointer: u64) -> bool {
    let granule = pointer >> GRANULE_SHIFT;
    let touches = |extent: &&Extent| {
        extent.base.0 >> GRANULE_SHIFT <= granule
            && (extent.end().0 - 1) >> GRANULE_SHIFT >= granule
    };
    live.iter().filter(touches).count() > 1
}

fn check_all(memory: &Memory, live: &[Extent]) {
    for extent in live {
        let (base, end) = (extent.base.0, extent.end().0);
        for pointer in [base, base + 1, base + extent.size / 2, end - 1, end] {
            let Some(expected) = expected(live, pointer) else {
                continue;
            };
            let answer = memory.lookup(pointer);
            if shares_a_granule(live, pointer) {
                // Never a false alarm: the result spans at least the right
                // extent.
                let (base, size) = answer.unwrap_or_else(|| panic!("{pointer:#x} not found"));
                assert!(base <= expected.base.0 && expected.end().0 <= base + size);
            } else if pointer != expected.end().0
                || expected.end().0 % GRANULE != 0
                || answer.is_some()
            {
                assert_eq!(
                    answer,
                    Some((expected.base.0, expected.size)),
                    "pointer {pointer:#x}"
                );
            } else {
                // One past the end, and the next granule has other owners: a miss needs one.
                assert!(
                    live.iter()
                        .any(|other| other.base.0 >> GRANULE_SHIFT == pointer >> GRANULE_SHIFT)
                );
            }
        }
    }
}

struct Harness {
    tables: Tables,
    memory: Memory,
    live: Vec<Extent>,
    serial: u64,
}

impl Harness {
    fn new() -> Harness {
        Harness {
            tables: Tables::new(),
            memory: Memory::new(),
            live: Vec::new(),
            serial: 0,
        }
    }

    /// Applies the updates; after each, every extent that is live before and
    /// after the change must be found.
    fn apply(&mut self, updates: &[TableUpdate]) {
        for update in updates {
            self.memory.apply(update);
            for extent in &self.live {
                for pointer in [extent.base.0, extent.end().0 - 1] {
                    let (base, size) = self
                        .memory
                        .lookup(pointer)
                        .unwrap_or_else(|| panic!("{pointer:#x} lost"));
                    assert!(base <= extent.base.0 && extent.end().0 <= base + size);
                }
            }
        }
    }

    fn insert(&mut self, new: Extent) {
        self.serial += 1;
        let mut updates = Vec::new();
        self.tables.insert(new, self.serial, &mut updates).unwrap();
        self.apply(&updates);
        self.live.push(new);
        check_all(&self.memory, &self.live);
    }

    fn remove(&mut self, base: u64) {
        self.live.retain(|extent| extent.base.0 != base);
        let mut updates = Vec::new();
        self.tables.remove(base, &mut updates).unwrap();
        self.apply(&updates);
        check_all(&self.memory, &self.live);
    }
}

const REGION: u64 = 1 << REGION_SHIFT;

impl Harness {
    /// Replaces the extents that start at `gone`; `stays` must be found after
    /// each write.
    fn replace(&mut self, gone: &[u64], new: &[Extent], stays: &[Extent]) {
        let others = |extent: &Extent| !gone.contains(&extent.base.0);
        let rest: Vec<Extent> = self.live.iter().copied().filter(others).collect();
        let news: Vec<(Extent, u64)> = new.iter().map(|extent| (*extent, 1)).collect();
        let mut updates = Vec::new();
        self.tables.replace(gone, &news, &mut updates).unwrap();
        for update in &updates {
            self.memory.apply(update);
            for extent in rest.iter().chain(stays) {
                for pointer in [extent.base.0, extent.end().0 - 1] {
                    let found = self.memory.lookup(pointer);
                    let (base, size) = found.unwrap_or_else(|| panic!("{pointer:#x} lost"));
                    assert!(base <= extent.base.0 && extent.end().0 <= base + size);
                }
            }
        }
        self.live = rest;
        self.live.extend(new);
        check_all(&self.memory, &self.live);
    }
}

#[test]
fn one_extent_over_many_regions_needs_no_leaf() {
    let mut harness = Harness::new();
    harness.insert(extent(0x7000_0000_0000, 5 * REGION));
    assert_eq!(harness.tables.mapped_leaves, 0);
    assert_eq!(
        harness.memory.lookup(0x7000_0000_0000 + 5 * REGION),
        Some((0x7000_0000_0000, 5 * REGION))
    );
    assert_eq!(
        harness.memory.lookup(0x7000_0000_0000 + 5 * REGION + 1),
        None
    );
    harness.insert(extent(0x7000_0000_0000 + 5 * REGION + 512, 64));
    assert!(harness.tables.mapped_leaves > 0);
    harness.remove(0x7000_0000_0000);
    assert_eq!(harness.memory.lookup(0x7000_0000_0000), None);
}

#[test]
fn a_neighbour_that_starts_at_the_end_takes_the_granule_and_gives_it_back() {
    let mut harness = Harness::new();
    harness.insert(extent(0x1000_0000, 0x200));
    harness.insert(extent(0x1000_0200, 0x100));
    assert_eq!(
        harness.memory.lookup(0x1000_0200),
        Some((0x1000_0200, 0x100))
    );
    harness.remove(0x1000_0200);
    assert_eq!(
        harness.memory.lookup(0x1000_0200),
        Some((0x1000_0000, 0x200))
    );
}

#[test]
fn variables_that_share_a_granule_are_answered_together_there_only() {
    let mut harness = Harness::new();
    harness.insert(extent(0x1000_0000, 4));
    harness.insert(extent(0x1000_0008, 4));
    harness.insert(extent(0x1000_0010, 0x1000));
    assert_eq!(
        harness.memory.lookup(0x1000_0002),
        Some((0x1000_0000, 0x1010))
    );
    assert_eq!(
        harness.memory.lookup(0x1000_0400),
        Some((0x1000_0010, 0x1000))
    );
    harness.remove(0x1000_0008);
    harness.remove(0x1000_0010);
    assert_eq!(harness.memory.lookup(0x1000_0002), Some((0x1000_0000, 4)));
}

#[test]
fn extents_outside_the_address_space_are_refused_whole() {
    let mut tables = Tables::new();
    for (base, size) in [
        (1 << 47, 16),
        ((1 << 47) - 16, 16),
        (u64::MAX, 2),
        (0x1000, 0),
    ] {
        let mut updates = Vec::new();
        assert!(
            tables.insert(extent(base, size), 1, &mut updates).is_err(),
            "{base:#x}"
        );
        assert!(updates.is_empty());
    }
}

#[test]
fn numbers_of_removed_extents_are_used_again_late() {
    let mut harness = Harness::new();
    for _ in 0..3 * RETIRED {
        harness.insert(extent(0x1000_0000, 64));
        harness.remove(0x1000_0000);
    }
    assert!(u64::from(harness.tables.next_index) <= RETIRED as u64 + 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lookups_are_right_after_every_write(
        operations in prop::collection::vec(
            (0u8..4, 0u64..24, prop::sample::select(vec![1u64, 4, 60, 256, 512, 300, 4096, REGION, REGION + 256, 3 * REGION - 256])),
            1..24,
        ),
        stride in prop::sample::select(vec![16u64, 256, 512, 4096, REGION / 2, REGION]),
    ) {
        let mut harness = Harness::new();
        for (operation, slot, size) in operations {
            let new = extent(0x5000_0000_0000 - 4 * stride + slot * stride, size);
            if operation == 0 {
                harness.remove(new.base.0);
            } else if harness.live.iter().all(|old| old.end() <= new.base || new.end() <= old.base) {
                harness.insert(new);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Memory that is mapped and unmapped in pieces, beside other memory.
    #[test]
    fn what_stays_is_found_while_memory_grows_and_shrinks(
        piece in prop::sample::select(vec![0x20_0000u64, REGION / 2, REGION, REGION + 0x20_0000]),
        operations in prop::collection::vec((any::<bool>(), 0u64..8), 1..24),
        neighbours in any::<bool>(),
    ) {
        let start = 0x5000_0000_0000u64;
        let mut harness = Harness::new();
        if neighbours {
            harness.insert(extent(start - 0x1000, 0x1000));
            harness.insert(extent(start + 8 * piece, 100));
        }
        let mut mapped = [false; 8];
        let runs = |mapped: &[bool; 8]| {
            let mut runs: Vec<Extent> = Vec::new();
            for at in (0..8).filter(|at| mapped[*at]) {
                let base = start + at as u64 * piece;
                match runs.last_mut() {
                    Some(last) if last.end().0 == base => last.size += piece,
                    _ => runs.push(extent(base, piece)),
                }
            }
            runs
        };
        for (map, at) in operations {
            let before = runs(&mapped);
            let at = at as usize;
            if mapped[at] == map {
                continue;
            }
            let mut kept = mapped;
            kept[at] = false;
            mapped[at] = map;
            let after = runs(&mapped);
            let changed = |old: &&Extent| !after.contains(old);
            let gone: Vec<u64> = before.iter().filter(changed).map(|old| old.base.0).collect();
            let new: Vec<Extent> = after.iter().copied().filter(|new| !before.contains(new)).collect();
            // What is live before and after, in the smaller pieces.
            let stays = if map { before.clone() } else { runs(&kept) };
            harness.replace(&gone, &new, &stays);
        }
    }
}

/// Granules resolve to the blocks; those between them that lie fully in the
/// pool resolve to nothing.
fn check_blocks(memory: &Memory, parent: Extent, pool: Extent, blocks: &[Extent], exact: bool) {
    let pool_granules = pool.base.0.div_ceil(GRANULE)..if pool.end() == parent.end() {
        pool.end().0.div_ceil(GRANULE)
    } else {
        pool.end().0 / GRANULE
    };
    let touching = |granule: u64| {
        let touches = |block: &&Extent| {
            block.base.0 / GRANULE <= granule && (block.end().0 - 1) / GRANULE >= granule
        };
        blocks.iter().filter(touches).count()
    };
    for block in blocks {
        for pointer in [
            block.base.0,
            block.base.0 + block.size / 2,
            block.end().0 - 1,
        ] {
            let (base, size) = memory
                .lookup(pointer)
                .unwrap_or_else(|| panic!("{pointer:#x} of a live block is not found"));
            assert!(base <= block.base.0 && block.end().0 <= base + size);
            let granule = pointer / GRANULE;
            if exact && pool_granules.contains(&granule) && touching(granule) == 1 {
                assert_eq!((base, size), (block.base.0, block.size), "{pointer:#x}");
            }
        }
    }
    if exact {
        for granule in pool_granules.clone() {
            let ends_here = |block: &Extent| block.end().0 == granule * GRANULE;
            if touching(granule) == 0 && !blocks.iter().any(ends_here) {
                assert_eq!(memory.lookup(granule * GRANULE + 8), None, "{granule:#x}");
            }
        }
        // Outside the pool, the allocation answers.
        if pool.base.0 / GRANULE > parent.base.0 / GRANULE {
            let answer = memory.lookup(parent.base.0);
            assert_eq!(answer, Some((parent.base.0, parent.size)));
        }
    }
}

proptest! {
    #[test]
    fn blocks_of_a_pool_are_right_after_every_write(
        (before, after) in (0u64..700, 0u64..700),
        size in 0x4000u64..0x8000,
        operations in prop::collection::vec((any::<bool>(), 0u64..96, 1u64..1500, any::<bool>()), 1..40),
    ) {
        // The allocation lies across the border of two regions.
        let border = 0x7f12_4000_0000u64;
        let parent = extent(border - 0x2000, before + size + after);
        let pool = extent(parent.base.0 + before, size);
        let (mut tables, mut memory) = (Tables::new(), Memory::new());
        let mut out = Vec::new();
        tables.insert(parent, 1, &mut out).unwrap();
        let declared = PartEdit::Insert { layer: Layer::Pool, extent: pool, serial: 0 };
        tables.edit(&declared, &mut out).unwrap();
        out.iter().for_each(|update| memory.apply(update));
        let mut blocks: Vec<Extent> = Vec::new();
        for (insert, slot, length, aligned) in operations {
            out.clear();
            let step = if aligned { 256 } else { 100 };
            let start = if aligned { pool.base.0.next_multiple_of(256) } else { pool.base.0 };
            let block = extent(start + slot * step, length);
            let mut staying = blocks.clone();
            if insert {
                let free = blocks.iter().all(|old| old.end() <= block.base || block.end() <= old.base);
                if !free || block.end() > pool.end() {
                    continue;
                }
                let edit = PartEdit::Insert { layer: Layer::Block, extent: block, serial: 7 };
                tables.edit(&edit, &mut out).unwrap();
                blocks.push(block);
            } else {
                let Some(gone) = blocks.iter().position(|old| old.base == block.base) else { continue };
                blocks.remove(gone);
                staying.remove(gone);
                let edit = PartEdit::Remove { layer: Layer::Block, base: block.base.0 };
                tables.edit(&edit, &mut out).unwrap();
            }
            for update in &out {
                memory.apply(update);
                check_blocks(&memory, parent, pool, &staying, false);
            }
            check_blocks(&memory, parent, pool, &blocks, true);
        }
        out.clear();
        for block in blocks {
            tables.edit(&PartEdit::Remove { layer: Layer::Block, base: block.base.0 }, &mut out).unwrap();
        }
        tables.edit(&PartEdit::Remove { layer: Layer::Pool, base: pool.base.0 }, &mut out).unwrap();
        out.iter().for_each(|update| memory.apply(update));
        for offset in (0..parent.size).step_by(100) {
            prop_assert_eq!(memory.lookup(parent.base.0 + offset), Some((parent.base.0, parent.size)));
        }
    }
}

#[test]
fn a_region_answers_in_the_granules_that_it_fills() {
    let parent = extent(0x7f00_0000_0000, 0x1000);
    let region = extent(parent.base.0 + 0x180, 0x400);
    let (mut tables, mut memory) = (Tables::new(), Memory::new());
    let mut out = Vec::new();
    tables.insert(parent, 1, &mut out).unwrap();
    let insert = PartEdit::Insert {
        layer: Layer::Region,
        extent: region,
        serial: 2,
    };
    tables.edit(&insert, &mut out).unwrap();
    out.iter().for_each(|update| memory.apply(update));
    let answer = |memory: &Memory, offset: u64| memory.lookup(parent.base.0 + offset);
    let (whole, part) = (
        Some((parent.base.0, parent.size)),
        Some((region.base.0, region.size)),
    );
    assert_eq!(answer(&memory, 0x100), whole);
    assert_eq!(answer(&memory, 0x190), whole);
    assert_eq!(answer(&memory, 0x200), part);
    assert_eq!(answer(&memory, 0x4ff), part);
    assert_eq!(answer(&memory, 0x500), whole);
    out.clear();
    let remove = PartEdit::Remove {
        layer: Layer::Region,
        base: region.base.0,
    };
    tables.edit(&remove, &mut out).unwrap();
    out.iter().for_each(|update| memory.apply(update));
    assert_eq!(answer(&memory, 0x200), whole);
}

#[test]
fn a_block_that_kernels_may_still_use_is_its_allocations_until_it_settles() {
    let parent = extent(0x7f00_0000_0000, 0x1000);
    let (mut tables, mut memory) = (Tables::new(), Memory::new());
    let mut out = Vec::new();
    tables.insert(parent, 1, &mut out).unwrap();
    let insert = |layer, offset, size| PartEdit::Insert {
        layer,
        extent: extent(parent.base.0 + offset, size),
        serial: 0,
    };
    let block = extent(parent.base.0 + 0x200, 0x100);
    tables
        .edit(&insert(Layer::Pool, 0, 0x1000), &mut out)
        .unwrap();
    tables
        .edit(&insert(Layer::Block, 0x200, 0x100), &mut out)
        .unwrap();
    out.iter().for_each(|update| memory.apply(update));
    out.clear();
    let remove = PartEdit::Remove {
        layer: Layer::Block,
        base: block.base.0,
    };
    tables
        .edit(&PartEdit::Limbo { extent: block }, &mut out)
        .unwrap();
    tables.edit(&remove, &mut out).unwrap();
    tables
        .edit(&insert(Layer::Block, 0x200, 0x300), &mut out)
        .unwrap();
    for update in &out {
        memory.apply(update);
        // Right for the old block and for the new one.
        let (base, size) = memory.lookup(block.base.0 + 8).expect("found");
        assert!(base <= block.base.0 && base + size >= block.end().0);
    }
    assert_eq!(
        memory.lookup(block.base.0),
        Some((parent.base.0, parent.size))
    );
    assert_eq!(
        memory.lookup(block.base.0 + 0x100),
        Some((block.base.0, 0x300))
    );
    out.clear();
    tables.edit(&PartEdit::Settle, &mut out).unwrap();
    out.iter().for_each(|update| memory.apply(update));
    assert_eq!(memory.lookup(block.base.0), Some((block.base.0, 0x300)));
}

#[test]
fn open_tables_answer_for_the_host_but_not_where_something_was_freed() {
    let (mut tables, mut memory) = (Tables::new(), Memory::new());
    let mut out = Vec::new();
    let all = Some((0, UNBOUNDED));
    let mut step = |tables: &mut Tables, change: &dyn Fn(&mut Tables, &mut Vec<TableUpdate>)| {
        change(tables, &mut out);
        for update in out.drain(..) {
            memory.apply(&update);
        }
        let words = memory.words.clone();
        let mapped = memory.mapped.clone();
        Memory { mapped, words }
    };
    let base = 0x7000_0000_0000u64;
    let region = 1u64 << REGION_SHIFT;
    let now = step(&mut tables, &|tables, out| tables.open(out).unwrap());
    assert_eq!((now.lookup(0), now.lookup(0xffff)), (None, None));
    assert_eq!((now.lookup(0x1_0000), now.lookup(base)), (all, all));

    // An extent in a region, and one that fills the next and more.
    let small = extent(base + 0x1000, 0x800);
    let large = extent(base + region, 2 * region + 0x100);
    let now = step(&mut tables, &|tables, out| {
        tables.insert(small, 1, out).unwrap();
        tables.insert(large, 2, out).unwrap();
    });
    assert_eq!(
        now.lookup(small.base.0 + 5),
        Some((small.base.0, small.size))
    );
    assert_eq!((now.lookup(base), now.lookup(base + 0x2000)), (all, all));
    let inside = Some((large.base.0, large.size));
    assert_eq!(
        (now.lookup(base + region), now.lookup(base + 2 * region)),
        (inside, inside)
    );
    assert_eq!(now.lookup(base + 3 * region + 0xff), inside);
    assert_eq!(now.lookup(base + 3 * region + 0x200), all);

    // Freed memory resolves to nothing until it is reused.
    let now = step(&mut tables, &|tables, out| {
        for freed in [small, large] {
            tables.remove(freed.base.0, out).unwrap();
            tables.dead(freed, out).unwrap();
        }
    });
    for address in [
        base + 0x1000,
        base + region,
        base + 2 * region,
        base + 3 * region,
    ] {
        assert_eq!(now.lookup(address), None, "{address:#x}");
    }
    assert_eq!(
        (now.lookup(base), now.lookup(base + 3 * region + 0x100)),
        (all, all)
    );
    let again = extent(base + 2 * region + 0x400, 0x100);
    let now = step(&mut tables, &|tables, out| {
        tables.insert(again, 3, out).unwrap()
    });
    assert_eq!(now.lookup(again.base.0), Some((again.base.0, again.size)));
    assert_eq!(
        (now.lookup(base + 2 * region), now.lookup(base + region)),
        (None, None)
    );
    // Host memory that is unregistered is the host's.
    let now = step(&mut tables, &|tables, out| {
        tables.remove(again.base.0, out).unwrap()
    });
    assert_eq!(now.lookup(again.base.0), all);
    let grown = extent(base + 8 * region + 0x200, 0x300);
    let now = step(&mut tables, &|tables, out| {
        tables.replace(&[], &[(grown, 4)], out).unwrap();
    });
    assert_eq!(now.lookup(grown.base.0), Some((grown.base.0, grown.size)));
    assert_eq!(
        (now.lookup(base + 8 * region), now.lookup(base + 9 * region)),
        (all, all)
    );
    let now = step(&mut tables, &|tables, out| {
        tables.replace(&[grown.base.0], &[], out).unwrap();
    });
    assert_eq!(now.lookup(grown.base.0), all);
}
