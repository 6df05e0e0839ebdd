//! One row for each verdict.

use super::*;
use crate::tests::fake::site;
use model::layout::heap::{FREE_INSIDE, FREE_NOTHING};
use model::layout::{WINDOW_LOCAL, WINDOW_PARAMETER, WINDOW_SHARED, WINDOW_SHIFT};
use model::{Space, StaticObject};

/// A buffer of 64 bytes.
const BUFFER: u64 = 0x7000_0000;
/// A part of it that was declared: its first 32 bytes.
const PART: u64 = 32;
/// Memory that was freed.
const FREED: u64 = 0x7100_0000;
/// A block that a declared pool took back.
const TAKEN_BACK: u64 = 0x7200_0000;
/// Addresses in the device heap: a live block, one of no bytes, a freed one,
/// and one where no block is.
const LIVE: u64 = 0x7300_0000;
const EMPTY: u64 = 0x7300_1000;
const EMPTY_AND_FREED: u64 = 0x7300_1800;
const DEAD: u64 = 0x7300_2000;
const NO_BLOCK: u64 = 0x7300_3000;
/// Nothing was ever there.
const NOWHERE: u64 = 0x7f00_0000;

struct Known;

impl Memory for Known {
    fn in_heap(&self, address: DeviceAddress) -> InHeap {
        match address.0 {
            LIVE => InHeap::Block {
                live: true,
                size: 16,
            },
            EMPTY => InHeap::Block {
                live: true,
                size: 0,
            },
            EMPTY_AND_FREED => InHeap::Block {
                live: false,
                size: 0,
            },
            DEAD => InHeap::Block {
                live: false,
                size: 16,
            },
            NO_BLOCK => InHeap::Nothing,
            _ => InHeap::Elsewhere,
        }
    }

    fn was_freed(&self, address: DeviceAddress) -> bool {
        address.0 == FREED
    }

    fn was_taken_back(&self, address: DeviceAddress) -> bool {
        address.0 == TAKEN_BACK
    }

    fn is_just_outside(&self, address: DeviceAddress) -> bool {
        address.0 == BUFFER + 64 || address.0 == EMPTY + 16
    }

    fn parent_of(&self, part: Extent) -> Option<Extent> {
        (part == extent(BUFFER, PART)).then(|| extent(BUFFER, 64))
    }
}

fn extent(base: u64, size: u64) -> Extent {
    Extent {
        base: DeviceAddress(base),
        size,
    }
}

/// An access of four bytes, found by a lookup.
fn access(kind: AccessKind) -> AccessSite {
    AccessSite {
        kind,
        ..site(1, 1, 0, Provenance::Lookup)
    }
}

/// A check that failed at an address, against these bounds.
fn record(address: u64, bounds: Extent) -> Record {
    Record {
        address,
        base: bounds.base.0,
        size: bounds.size,
        site: 1,
        launch: 9,
        ..Record::default()
    }
}

/// What a lookup that found nothing leaves.
fn nothing(address: u64) -> Record {
    record(address, extent(address, 0))
}

fn in_window(window: u32, record: Record) -> Record {
    Record {
        thread: window << WINDOW_SHIFT,
        ..record
    }
}

fn rule_of(site: AccessSite, record: &Record, roots: Option<&[Root]>) -> Option<Rule> {
    let part = PartPlan::new(1, vec![site]);
    let snapshot = Snapshot {
        roots,
        memory: &Known,
    };
    let found = judge(&part, record, snapshot);
    assert!(found.len() <= 1);
    found.first().map(|violation| violation.rule)
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table: a row for each verdict")]
fn every_verdict_has_its_row() {
    use AccessKind::{Atomic, Read, Write};
    let buffer = extent(BUFFER, 64);
    let part = extent(BUFFER, PART);
    let in_space = |space, kind| AccessSite {
        space,
        ..access(kind)
    };
    let generic = |kind| in_space(Space::Generic, kind);
    let free = AccessSite {
        width: 0,
        ..access(Write)
    };
    let freed = |verdict: u64| record(LIVE, extent(LIVE, verdict << STATE_SHIFT | 16));
    let of_region = AccessSite {
        object: Some(Box::new(StaticObject {
            kind: AllocationKind::Region,
            name: None,
            size: Some(8),
            neighbours: Vec::new(),
        })),
        ..access(Write)
    };
    let late = |record: Record| Record {
        launch: 0,
        ..record
    };
    let rows = [
        // Global memory, by kind of access.
        (
            access(Read),
            record(BUFFER + 64, buffer),
            Rule::GlobalOutOfBoundsRead,
        ),
        (
            access(Write),
            record(BUFFER + 62, buffer),
            Rule::GlobalOutOfBoundsWrite,
        ),
        (
            access(Atomic),
            record(BUFFER - 4, buffer),
            Rule::GlobalOutOfBoundsAtomic,
        ),
        // Inside, and not aligned: nothing else is said of it.
        (
            access(Read),
            record(BUFFER + 2, buffer),
            Rule::MisalignedAccess,
        ),
        (
            access(Write),
            record(BUFFER + 65, buffer),
            Rule::GlobalOutOfBoundsWrite,
        ),
        // Declared parts.
        (
            access(Read),
            record(BUFFER + 32, part),
            Rule::IntraAllocationOutOfBoundsRead,
        ),
        (
            access(Write),
            record(BUFFER + 60, part),
            Rule::IntraAllocationOutOfBoundsWrite,
        ),
        (
            access(Atomic),
            record(BUFFER + 32, part),
            Rule::IntraAllocationOutOfBoundsAtomic,
        ),
        (
            access(Write),
            record(BUFFER + 64, part),
            Rule::GlobalOutOfBoundsWrite,
        ),
        (
            of_region,
            record(BUFFER + 8, extent(BUFFER, 8)),
            Rule::IntraAllocationOutOfBoundsWrite,
        ),
        // Pointers that point into nothing.
        (access(Write), nothing(NOWHERE), Rule::InvalidPointer),
        (access(Write), late(nothing(0)), Rule::InvalidPointer),
        (
            access(Read),
            nothing(BUFFER + 64),
            Rule::GlobalOutOfBoundsRead,
        ),
        (access(Read), nothing(FREED), Rule::UseAfterFree),
        (access(Read), nothing(TAKEN_BACK), Rule::UseAfterFree),
        // The device heap.
        (access(Write), nothing(EMPTY), Rule::GlobalOutOfBoundsWrite),
        (
            access(Read),
            nothing(EMPTY_AND_FREED),
            Rule::GlobalOutOfBoundsRead,
        ),
        (access(Write), nothing(DEAD), Rule::UseAfterFree),
        (access(Write), nothing(LIVE), Rule::UseAfterFree),
        (access(Write), nothing(NO_BLOCK), Rule::InvalidPointer),
        (
            access(Read),
            record(LIVE + 16, extent(LIVE, 16)),
            Rule::GlobalOutOfBoundsRead,
        ),
        (free.clone(), freed(FREE_AGAIN), Rule::DoubleFree),
        (free.clone(), freed(FREE_INSIDE), Rule::InvalidFree),
        (free, freed(FREE_NOTHING), Rule::InvalidFree),
        // Other state spaces, named by the instruction or found by the address.
        (
            in_space(Space::Shared, Read),
            record(64, extent(0, 64)),
            Rule::SharedOutOfBoundsRead,
        ),
        (
            in_space(Space::SharedCluster, Write),
            record(64, extent(0, 64)),
            Rule::SharedOutOfBoundsWrite,
        ),
        (
            in_space(Space::Shared, Atomic),
            record(64, extent(0, 64)),
            Rule::SharedOutOfBoundsAtomic,
        ),
        (
            in_space(Space::Local, Read),
            record(64, extent(0, 64)),
            Rule::LocalOutOfBoundsRead,
        ),
        (
            in_space(Space::Local, Write),
            record(64, extent(0, 64)),
            Rule::LocalOutOfBoundsWrite,
        ),
        (
            in_space(Space::Local, Atomic),
            record(64, extent(0, 64)),
            Rule::LocalOutOfBoundsAtomic,
        ),
        (
            in_space(Space::Const, Read),
            record(64, extent(0, 64)),
            Rule::ConstantOutOfBoundsRead,
        ),
        (
            in_space(Space::Param, Read),
            record(64, extent(0, 64)),
            Rule::ParameterOutOfBoundsRead,
        ),
        (
            generic(Write),
            in_window(WINDOW_SHARED, record(64, extent(0, 64))),
            Rule::SharedOutOfBoundsWrite,
        ),
        (
            generic(Read),
            in_window(WINDOW_LOCAL, record(64, extent(0, 64))),
            Rule::LocalOutOfBoundsRead,
        ),
        (
            generic(Read),
            in_window(WINDOW_PARAMETER, record(64, extent(0, 64))),
            Rule::ParameterOutOfBoundsRead,
        ),
        (
            generic(Write),
            record(BUFFER + 64, buffer),
            Rule::GlobalOutOfBoundsWrite,
        ),
        // A frame that is gone.
        (
            generic(Write),
            in_window(WINDOW_LOCAL, record(64, extent(64, 0))),
            Rule::UseAfterScope,
        ),
    ];
    for (index, (site, record, rule)) in rows.into_iter().enumerate() {
        assert_eq!(rule_of(site, &record, None), Some(rule), "row {index}");
    }
}

#[test]
fn what_the_launch_found_of_an_argument_stands() {
    let of_argument = |kind| AccessSite {
        kind,
        ..site(1, 1, 0, Provenance::KernelParameter { offset: 8 })
    };
    let root = |pointer, bounds, wrong| {
        [Root {
            offset: 8,
            pointer,
            bounds,
            is_lasting: true,
            wrong,
        }]
    };
    let nowhere = extent(0, 0);
    let judged = |record: &Record, roots: &[Root]| {
        rule_of(of_argument(AccessKind::Write), record, Some(roots))
    };
    // Bounds are those of the launch, whatever the record says.
    let inside = root(BUFFER, extent(BUFFER, 64), None);
    assert_eq!(judged(&record(BUFFER + 8, nowhere), &inside), None);
    assert_eq!(
        judged(&record(BUFFER + 64, nowhere), &inside),
        Some(Rule::GlobalOutOfBoundsWrite)
    );
    let race = root(NOWHERE, nowhere, Some(Rule::StreamOrderRace));
    assert_eq!(
        judged(&record(NOWHERE, nowhere), &race),
        Some(Rule::StreamOrderRace)
    );
    let freed = root(FREED, nowhere, Some(Rule::InvalidPointer));
    assert_eq!(
        judged(&record(FREED + 4, nowhere), &freed),
        Some(Rule::UseAfterFree)
    );
    // The function that it was passed to knows it by its value only.
    let passed = rule_of(access(AccessKind::Write), &nothing(NOWHERE), Some(&race));
    assert_eq!(passed, Some(Rule::StreamOrderRace));
    // A launch that is forgotten: that bounds are missing says nothing.
    let forgotten = Record {
        base: 0,
        ..record(BUFFER, nowhere)
    };
    assert_eq!(
        rule_of(of_argument(AccessKind::Read), &forgotten, None),
        Some(Rule::GlobalOutOfBoundsRead)
    );
}

#[test]
fn what_is_inside_and_aligned_breaks_no_rule() {
    let buffer = extent(BUFFER, 64);
    for offset in [0, 4, 60] {
        let record = record(BUFFER + offset, buffer);
        assert_eq!(rule_of(access(AccessKind::Write), &record, None), None);
    }
    // A size that only the device knew is believed.
    let at_run_time = AccessSite {
        width_at_run_time: true,
        ..access(AccessKind::Read)
    };
    assert_eq!(
        rule_of(at_run_time, &record(BUFFER, buffer), None),
        Some(Rule::GlobalOutOfBoundsRead)
    );
    // A site that the text does not have.
    let unknown = Record {
        site: 7,
        ..record(BUFFER, buffer)
    };
    assert_eq!(rule_of(access(AccessKind::Read), &unknown, None), None);
}
