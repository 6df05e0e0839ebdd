//! Findings outside global memory: in shared, local, constant and parameter
//! memory, and in regions that the program declares. The host knows no
//! allocations there; site and record tell all.

use super::Violation;
use model::layout::{
    ENDED, Record, WINDOW_CONSTANT, WINDOW_LOCAL, WINDOW_PARAMETER, WINDOW_SHARED, WINDOW_SHIFT,
};
use model::{
    AccessKind, AccessSite, Allocation, AllocationKind, DeviceAddress, Extent, Rule, Space,
};

/// What the access was meant for, if that is not in global memory.
pub(crate) fn of(site: &AccessSite, record: &Record) -> Option<AllocationKind> {
    if let Some(object) = &site.object
        && !is_beyond_field(site, record)
    {
        return Some(object.kind);
    }
    match site.space {
        Space::Shared | Space::SharedCluster => Some(AllocationKind::Shared),
        Space::Local => Some(AllocationKind::Local),
        Space::Const => Some(AllocationKind::Constant),
        Space::Param => Some(AllocationKind::Parameter),
        Space::Global => None,
        Space::Generic => window_of(record),
    }
}

/// The window of the generic address space that a record's base lies in.
fn window_of(record: &Record) -> Option<AllocationKind> {
    match (record.thread & !ENDED) >> WINDOW_SHIFT {
        WINDOW_SHARED => Some(AllocationKind::Shared),
        WINDOW_LOCAL => Some(AllocationKind::Local),
        WINDOW_CONSTANT => Some(AllocationKind::Constant),
        WINDOW_PARAMETER => Some(AllocationKind::Parameter),
        _ => None,
    }
}

/// The space that an access is reported in: of a generic one, that of what it
/// was meant for.
pub(crate) fn of_access(named: Space, meant: Option<AllocationKind>, record: &Record) -> Space {
    // A region is part of something.
    let meant = match meant {
        Some(AllocationKind::Region) => window_of(record),
        other => other,
    };
    match (named, meant) {
        (Space::Generic, Some(AllocationKind::Shared | AllocationKind::DynamicShared)) => {
            Space::Shared
        }
        (Space::Generic, Some(AllocationKind::Local)) => Space::Local,
        (Space::Generic, Some(AllocationKind::Constant)) => Space::Const,
        (Space::Generic, Some(AllocationKind::Parameter)) => Space::Param,
        _ => named,
    }
}

/// Whether an access to a field was checked against what the field is part of, because
/// the field itself did not lie within that.
fn is_beyond_field(site: &AccessSite, record: &Record) -> bool {
    site.object.as_ref().is_some_and(|object| {
        object.kind == AllocationKind::Region && object.size.is_some_and(|size| size != record.size)
    })
}

/// The address that a site accesses, from that of a record, as the program's
/// arithmetic meant it. If that was of 32 bits, in a space with addresses of its
/// own, it wraps: the address is near its base, not 4 GiB away. What was computed
/// in 64 is what it is.
pub(crate) fn address_of(site: &AccessSite, recorded: u64, base: DeviceAddress) -> DeviceAddress {
    let address = recorded.wrapping_add_signed(site.offset);
    match site.space {
        Space::Generic | Space::Global => DeviceAddress(address),
        _ if site.is_wide || (recorded | base.0) >> 32 != 0 => DeviceAddress(address),
        _ => {
            let distance = address.wrapping_sub(base.0) as u32 as i32;
            DeviceAddress(base.0.wrapping_add_signed(i64::from(distance)))
        }
    }
}

/// Size of what the access was checked against. Records leave out what the site says.
pub(crate) fn size(site: &AccessSite, record: &Record) -> u64 {
    match site.object.as_ref().and_then(|object| object.size) {
        Some(size) if !is_beyond_field(site, record) => size,
        _ => record.size,
    }
}

/// The rule that an access outside such an object of so many bytes breaks.
pub(crate) fn rule(kind: AllocationKind, access: AccessKind, size: u64) -> Rule {
    use AccessKind::{Atomic, Read, Write};
    match (kind, access) {
        // The device found a local pointer that points into no live frame.
        (AllocationKind::Local, _) if size == 0 => Rule::UseAfterScope,
        (AllocationKind::Local, Read) => Rule::LocalOutOfBoundsRead,
        (AllocationKind::Local, Write) => Rule::LocalOutOfBoundsWrite,
        (AllocationKind::Local, Atomic) => Rule::LocalOutOfBoundsAtomic,
        (AllocationKind::Constant, _) => Rule::ConstantOutOfBoundsRead,
        (AllocationKind::Parameter, _) => Rule::ParameterOutOfBoundsRead,
        (AllocationKind::Region, Read) => Rule::IntraAllocationOutOfBoundsRead,
        (AllocationKind::Region, Write) => Rule::IntraAllocationOutOfBoundsWrite,
        (AllocationKind::Region, Atomic) => Rule::IntraAllocationOutOfBoundsAtomic,
        (_, Read) => Rule::SharedOutOfBoundsRead,
        (_, Write) => Rule::SharedOutOfBoundsWrite,
        (_, Atomic) => Rule::SharedOutOfBoundsAtomic,
    }
}

/// The object that an access was meant for, and the neighbour that it hit.
pub(crate) fn allocations(
    violation: &Violation<'_>,
    kind: AllocationKind,
) -> (Allocation, Option<Allocation>) {
    let object = violation
        .site
        .object
        .as_deref()
        .filter(|object| object.kind == kind);
    let allocation = |extent, name: Option<String>| Allocation {
        extent,
        kind,
        serial: 0,
        name,
    };
    let intended = allocation(violation.bounds, object.and_then(|o| o.name.clone()));
    let base = violation.bounds.base.0;
    let hit = object.and_then(|object| {
        let mut neighbours = object.neighbours.iter().map(|neighbour| {
            let extent = Extent {
                base: DeviceAddress(base.wrapping_add_signed(neighbour.offset)),
                size: neighbour.size,
            };
            allocation(extent, neighbour.name.clone())
        });
        neighbours.find(|neighbour| neighbour.extent.contains(violation.address))
    });
    (intended, hit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fake;
    use model::Provenance;

    #[test]
    fn only_arithmetic_of_32_bits_wraps() {
        let site = |space, offset, is_wide| AccessSite {
            space,
            is_wide,
            ..fake::site(1, 1, offset, Provenance::Unknown)
        };
        let past = |space, address, offset| {
            address_of(&site(space, offset, false), address, DeviceAddress(64)).0
        };
        let at = |space, address| past(space, address, 0);
        assert_eq!(at(Space::Shared, 72), 72);
        assert_eq!(at(Space::Shared, 0xffff_fff8), (-8i64) as u64);
        // Computed in 64 bits: far behind its base, or before it.
        assert_eq!(at(Space::Const, (1 << 32) + 72), (1 << 32) + 72);
        assert_eq!(at(Space::Const, (-8i64) as u64), (-8i64) as u64);
        assert_eq!(at(Space::Generic, 0xffff_fff8), 0xffff_fff8);
        // The immediate offset of an access wraps with its register.
        assert_eq!(past(Space::Shared, 0xffff_fff8, 80), 72);
        assert_eq!(past(Space::Shared, 1 << 32, 80), (1 << 32) + 80);
        // Computed in 64 bits, of which the upper ones get set by the offset only.
        let wide = site(Space::Local, 80, true);
        let address = address_of(&wide, 0xffff_fff8, DeviceAddress(64));
        assert_eq!(address.0, (1 << 32) + 72);
    }

    #[test]
    fn a_generic_access_is_in_the_space_of_what_it_was_meant_for() {
        let record = |window: u32| Record {
            thread: window << WINDOW_SHIFT | 5,
            ..Record::default()
        };
        let region = Some(AllocationKind::Region);
        for (window, space) in [
            (0, Space::Generic),
            (WINDOW_SHARED, Space::Shared),
            (WINDOW_LOCAL, Space::Local),
        ] {
            let of_region = of_access(Space::Generic, region, &record(window));
            assert_eq!(of_region, space);
        }
        let constant = Some(AllocationKind::Constant);
        let shared = record(WINDOW_SHARED);
        assert_eq!(of_access(Space::Generic, constant, &shared), Space::Const);
        assert_eq!(of_access(Space::Local, region, &shared), Space::Local);
    }
}
