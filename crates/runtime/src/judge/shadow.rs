//! What a failed check against shadow memory means: decided by the address, and
//! by the buffer that it is in or beside.

use super::{Violation, global};
use crate::plan::PartPlan;
use model::layout::Record;
use model::{DeviceAddress, Extent, Provenance, Rule, SiteId};

/// What is at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Around {
    /// A live buffer, or one of its redzones.
    Buffer(Extent),
    /// Bytes of a live buffer that the program has declared not to be accessed.
    Poisoned(Extent),
    /// That they were not to be accessed, the program has taken back.
    Unpoisoned(Extent),
    /// Memory that was freed, or one of its redzones.
    Freed,
    /// A block of the device heap that a kernel has freed, perhaps since.
    FreedBlock(Extent),
    /// Nothing that is known.
    Nothing,
}

/// Whether shadow memory decided about a record's check.
pub(crate) fn is_by_address(part: &PartPlan, record: &Record) -> bool {
    let mut sites = part.group(SiteId(record.site));
    sites.any(|site| site.provenance == Provenance::Shadow)
}

/// The accesses of a record's check that break a rule: those with a byte that
/// is not in a live buffer, or poisoned. If there is none, the memory was freed or
/// poisoned when it was accessed, and is not any more.
pub(crate) fn by_address<'a>(
    part: &'a PartPlan,
    record: &Record,
    around: &dyn Fn(DeviceAddress) -> Around,
) -> Vec<Violation<'a>> {
    let all = || part.group(SiteId(record.site));
    let of = |site, freed_since: bool| violation(site, record.address, around, freed_since);
    let found: Vec<_> = all().filter_map(|site| of(site, false)).collect();
    match found.is_empty() {
        true => all().take(1).filter_map(|site| of(site, true)).collect(),
        false => found,
    }
}

fn violation<'a>(
    site: &'a model::AccessSite,
    address: u64,
    around: &dyn Fn(DeviceAddress) -> Around,
    freed_since: bool,
) -> Option<Violation<'a>> {
    let address = DeviceAddress(address.wrapping_add_signed(site.offset));
    let bytes = u64::from(site.width.max(1));
    let last = DeviceAddress(address.0.wrapping_add(bytes - 1));
    let nothing = Extent {
        base: DeviceAddress(0),
        size: 0,
    };
    let holds = |extent: Extent| {
        let offset = address.0.wrapping_sub(extent.base.0);
        offset < extent.size && extent.size - offset >= bytes
    };
    let states = [around(address), around(last)];
    let buffer = states.iter().find_map(|state| match state {
        Around::Buffer(extent)
        | Around::Poisoned(extent)
        | Around::Unpoisoned(extent)
        | Around::FreedBlock(extent) => Some(*extent),
        Around::Freed | Around::Nothing => None,
    });
    // What leaves a block was wrong before the block was freed, too.
    let is_freed = states.iter().any(|state| match state {
        Around::Freed => true,
        Around::FreedBlock(extent) => holds(*extent),
        _ => false,
    });
    let is_poisoned = states.iter().any(|state| match state {
        Around::Poisoned(_) => true,
        Around::Unpoisoned(_) => freed_since,
        _ => false,
    });
    let (rule, bounds) = match buffer {
        Some(extent) if is_poisoned && holds(extent) => (Rule::UseAfterPoison, extent),
        _ if freed_since || is_freed => (Rule::UseAfterFree, nothing),
        // How far it goes, only the device knew.
        Some(extent) if holds(extent) && !site.width_at_run_time => return None,
        Some(extent) => (global(site.kind), extent),
        None => (Rule::InvalidPointer, nothing),
    };
    Some(Violation {
        site,
        rule,
        address,
        bounds,
        pointer: (bounds.size == 0).then_some(address),
        window: None,
        looked_up: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{AccessKind, AccessSite};

    const BUFFER: Extent = Extent {
        base: DeviceAddress(0x1000),
        size: 100,
    };

    const BLOCK: Extent = Extent {
        base: DeviceAddress(0x4000),
        size: 72,
    };

    fn judged(sites: &[AccessSite], address: u64) -> Vec<(u32, Rule)> {
        let part = PartPlan::new(1, sites.to_vec());
        let record = Record {
            address,
            site: 1,
            ..Record::default()
        };
        let around = |address: DeviceAddress| match address.0 {
            0x1008..0x1010 => Around::Poisoned(BUFFER),
            0x1010..0x1018 => Around::Unpoisoned(BUFFER),
            0xe00..0x1200 => Around::Buffer(BUFFER),
            0x2000..0x3000 => Around::Freed,
            0x4000..0x4100 => Around::FreedBlock(BLOCK),
            _ => Around::Nothing,
        };
        let found = by_address(&part, &record, &around);
        found.iter().map(|v| (v.site.id.0, v.rule)).collect()
    }

    #[test]
    fn the_accesses_of_a_group_are_judged_one_by_one() {
        let site = |id, kind, offset| AccessSite {
            kind,
            ..crate::tests::fake::site(id, 1, offset, Provenance::Shadow)
        };
        let sites = [site(1, AccessKind::Read, 0), site(2, AccessKind::Write, 4)];
        let (read, write) = (Rule::GlobalOutOfBoundsRead, Rule::GlobalOutOfBoundsWrite);
        assert_eq!(judged(&sites, 0x1000 + 96), [(2, write)]);
        assert_eq!(judged(&sites, 0x1000 + 98), [(1, read), (2, write)]);
        assert_eq!(judged(&sites, 0x1000 - 4), [(1, read)]);
        let freed = Rule::UseAfterFree;
        assert_eq!(judged(&sites, 0x2010), [(1, freed), (2, freed)]);
        // Freed then, and given out again since.
        assert_eq!(judged(&sites, 0x1000), [(1, freed)]);
        let poison = Rule::UseAfterPoison;
        assert_eq!(judged(&sites, 0x1004), [(2, poison)]);
        assert_eq!(judged(&sites, 0x1006), [(1, poison), (2, poison)]);
        // Poisoned then, and not any more.
        assert_eq!(judged(&sites, 0x1010), [(1, poison)]);
        // In a block that was freed, and past its end, which was wrong before that.
        assert_eq!(judged(&sites, 0x4000), [(1, freed), (2, freed)]);
        assert_eq!(judged(&sites, 0x4000 + 68), [(1, freed), (2, write)]);
        let invalid = Rule::InvalidPointer;
        assert_eq!(judged(&sites, 0x9000), [(1, invalid), (2, invalid)]);
    }
}
