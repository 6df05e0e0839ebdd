//! What a failed check means: from a record that a kernel left to the rules that
//! its accesses break.
//!
//! [`judge`] is the only place where the rule of a device access is decided. It
//! decides from the record, the sites that share the check, and [`Snapshot`]:
//! it changes nothing, and asks nothing else. The rules, in the order in which
//! they are considered:
//!
//! | what is true | rule |
//! | --- | --- |
//! | a call of `free`: of a block that was freed / of anything else | `double-free` / `invalid-free` |
//! | inside its bounds, and not aligned | `misaligned-access` |
//! | checked against an object outside global memory | that of its state space, or of a declared region |
//! | no bounds, into the device heap: block of no bytes / block / no block | out of bounds / `use-after-free` / `invalid-pointer` |
//! | no bounds, into memory that was freed, or a block that its pool took back | `use-after-free` |
//! | no bounds, an argument that the launch found to be wrong | what the launch found |
//! | no bounds, a pointer that was looked up and an access just outside an allocation | out of bounds in global memory |
//! | no bounds, any other pointer | `invalid-pointer` |
//! | outside a declared part, and inside the allocation that holds the part | `intra-allocation-out-of-bounds` |
//! | else | out of bounds in global memory |

mod shadow;
pub(crate) mod spaces;

pub(crate) use shadow::{Around, by_address, is_by_address};

use crate::plan::PartPlan;
use crate::roots::Root;
use model::layout::Record;
use model::layout::heap::{FREE_AGAIN, STATE_SHIFT};
use model::{
    AccessKind, AccessSite, AllocationKind, DeviceAddress, Extent, Provenance, Rule, SiteId,
};

/// One access that breaks a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Violation<'a> {
    pub site: &'a AccessSite,
    pub rule: Rule,
    /// First byte accessed.
    pub address: DeviceAddress,
    /// What it was checked against; zeros if the pointer points into nothing.
    pub bounds: Extent,
    /// The pointer as it was before the kernel computed with it, if known.
    pub pointer: Option<DeviceAddress>,
    /// What it was meant for, if that is not in global memory.
    pub window: Option<AllocationKind>,
    /// The bounds come from a lookup on the device, not from the host.
    pub looked_up: bool,
}

/// What lies at an address of the device heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InHeap {
    /// The address is not in the device heap.
    Elsewhere,
    /// No block.
    Nothing,
    /// A block.
    Block {
        /// It has not been freed.
        live: bool,
        /// Bytes, as the kernel asked for them.
        size: u64,
    },
}

/// What is known of memory when a record is read. Each method is one question
/// about an address or an extent.
pub(crate) trait Memory {
    /// What the device heap has there.
    fn in_heap(&self, address: DeviceAddress) -> InHeap;
    /// Whether nothing live is there, and something was that was freed; frees in
    /// stream order that the device may not have reached included.
    fn was_freed(&self, address: DeviceAddress) -> bool;
    /// Whether a declared pool took the block back that was there.
    fn was_taken_back(&self, address: DeviceAddress) -> bool;
    /// Whether the address is in no live allocation, and so near to one that a
    /// pointer to it was most likely computed from that one.
    fn is_just_outside(&self, address: DeviceAddress) -> bool;
    /// The allocation that holds a part which the program declared, if the
    /// extent is or was such a part.
    fn parent_of(&self, part: Extent) -> Option<Extent>;
}

/// What a record is judged by.
#[derive(Clone, Copy)]
pub(crate) struct Snapshot<'a> {
    /// The pointer parameters of the launch; `None` if it is not remembered, or
    /// if the record names none.
    pub roots: Option<&'a [Root]>,
    /// The memory.
    pub memory: &'a dyn Memory,
}

/// The accesses of a record's check that break a rule. Empty if the record
/// contradicts itself or names no site of the text.
pub(crate) fn judge<'a>(
    part: &'a PartPlan,
    record: &Record,
    snapshot: Snapshot<'_>,
) -> Vec<Violation<'a>> {
    part.group(SiteId(record.site))
        .filter_map(|site| match site.is_free() {
            true => Some(wrong_free(site, record)),
            false => violation(site, record, snapshot),
        })
        .collect()
}

/// A call of `free` that the device found to be wrong.
fn wrong_free<'a>(site: &'a AccessSite, record: &Record) -> Violation<'a> {
    let address = DeviceAddress(record.address);
    Violation {
        site,
        rule: match record.size >> STATE_SHIFT {
            FREE_AGAIN => Rule::DoubleFree,
            _ => Rule::InvalidFree,
        },
        address,
        bounds: Extent {
            base: DeviceAddress(record.base),
            size: record.size & ((1 << STATE_SHIFT) - 1),
        },
        pointer: Some(address),
        window: None,
        looked_up: true,
    }
}

fn violation<'a>(
    site: &'a AccessSite,
    record: &Record,
    snapshot: Snapshot<'_>,
) -> Option<Violation<'a>> {
    let window = spaces::of(site, record);
    let root = root_of(site, record, snapshot.roots);
    let bounds = root.map_or_else(
        || Extent {
            base: DeviceAddress(record.base),
            size: spaces::size(site, record),
        },
        |root| root.bounds,
    );
    let address = spaces::address_of(site, record.address, bounds.base);
    let offset = address.0.wrapping_sub(bounds.base.0);
    // How much such an access covers, only the device knew.
    let inside = !site.width_at_run_time
        && offset < bounds.size
        && bounds.size - offset >= u64::from(site.width);
    // Of a size that only the device knew, what starts inside and misaligned
    // is taken for misaligned.
    let starts_inside = offset < bounds.size;
    let misaligned =
        site.is_misaligned_at(address.0) && (inside || (site.width_at_run_time && starts_inside));
    // A launch that is forgotten leaves no bounds to check the access against:
    // the device found it wrong, and that stands.
    if inside && !misaligned {
        return None;
    }
    let pointer = match root {
        Some(root) => Some(DeviceAddress(root.pointer)),
        // A lookup that finds nothing answers the pointer itself as the base.
        None => (bounds.size == 0 && bounds.base.0 != 0).then_some(bounds.base),
    };
    // Whether bounds of no bytes say that the pointer has none.
    let is_known =
        root.is_some() || record.base != 0 || snapshot.roots.is_some() || record.launch == 0;
    let rule = match window {
        _ if misaligned => Rule::MisalignedAccess,
        Some(window) => spaces::rule(window, site.kind, bounds.size),
        None if bounds.size == 0 => {
            let found = root.and_then(|root| root.wrong);
            let otherwise = match is_known {
                true => found.unwrap_or(Rule::InvalidPointer),
                false => global(site.kind),
            };
            let pointer = pointer.unwrap_or(address);
            let rule = without_bounds(site.kind, pointer, otherwise, snapshot);
            // Of an argument, the launch has decided what it was meant for.
            let is_looked_up = root.is_none() && rule == Rule::InvalidPointer;
            let in_heap = snapshot.memory.in_heap(pointer) != InHeap::Elsewhere;
            let is_outside = |address| snapshot.memory.is_just_outside(address);
            match is_looked_up && !in_heap && is_outside(pointer) && is_outside(address) {
                true => global(site.kind),
                false => rule,
            }
        }
        None => outside_global(site, address, bounds, snapshot),
    };
    Some(Violation {
        site,
        rule,
        // What must be aligned is the address that the instruction names.
        address: match misaligned {
            true => DeviceAddress(address.0.wrapping_sub(site.skipped.into())),
            false => address,
        },
        bounds,
        pointer,
        window,
        looked_up: root.is_none() && window.is_none(),
    })
}

/// The launch's argument that a site's pointer came from.
fn root_of<'a>(site: &AccessSite, record: &Record, roots: Option<&'a [Root]>) -> Option<&'a Root> {
    let mut roots = roots?.iter();
    match site.provenance {
        Provenance::KernelParameter { offset } => roots.find(|root| root.offset == offset),
        // A function that the kernel passed a pointer to which the launch had
        // found to be wrong.
        _ => roots
            .find(|root| root.wrong.is_some() && record.size == 0 && root.pointer == record.base),
    }
}

/// The rule of an access through a pointer that points into nothing live.
fn without_bounds(
    kind: AccessKind,
    pointer: DeviceAddress,
    otherwise: Rule,
    snapshot: Snapshot<'_>,
) -> Rule {
    let rule = match snapshot.memory.in_heap(pointer) {
        InHeap::Elsewhere => otherwise,
        InHeap::Nothing => Rule::InvalidPointer,
        // `malloc(0)` gives a block without bytes. It may have been freed since.
        InHeap::Block { size: 0, .. } => global(kind),
        // When the device looked there was no live block: what is there now, if
        // it is live, came later.
        InHeap::Block { .. } => Rule::UseAfterFree,
    };
    let was_freed = rule == Rule::InvalidPointer && snapshot.memory.was_freed(pointer);
    match was_freed || snapshot.memory.was_taken_back(pointer) {
        true => Rule::UseAfterFree,
        false => rule,
    }
}

/// The rule of an access outside its bounds in global memory.
fn outside_global(
    site: &AccessSite,
    address: DeviceAddress,
    bounds: Extent,
    snapshot: Snapshot<'_>,
) -> Rule {
    let stays_in = |parent: Extent| {
        let offset = address.0.wrapping_sub(parent.base.0);
        offset < parent.size && parent.size - offset >= u64::from(site.width)
    };
    match snapshot.memory.parent_of(bounds) {
        Some(parent) if stays_in(parent) => {
            spaces::rule(AllocationKind::Region, site.kind, bounds.size)
        }
        _ => global(site.kind),
    }
}

fn global(kind: AccessKind) -> Rule {
    match kind {
        AccessKind::Read => Rule::GlobalOutOfBoundsRead,
        AccessKind::Write => Rule::GlobalOutOfBoundsWrite,
        AccessKind::Atomic => Rule::GlobalOutOfBoundsAtomic,
    }
}

#[cfg(test)]
mod tests;
