//! From a violation, or a call that the host made, to findings: how it lies
//! relative to allocations, and what was counted before. Which rule an access of
//! a kernel breaks is decided in [`crate::judge`].

use crate::judge::Violation;
use crate::judge::spaces;
use crate::launches::Launch;
use crate::memory::PendingFree;
use crate::roots::JUST_OUTSIDE;
use heap::canary::Side;
use heap::{Entry, Redzones, Registry};
use host::stacks::{self, Stack};
use model::layout::placed::{MAPPING_GRANULE, PLACED_RESERVED, is_placed};
use model::layout::{Record, THREAD_Z_MASK, UNBOUNDED};
use model::{
    Allocation, AllocationKind, DeviceAccess, DeviceAddress, Extent, Finding, HostCall,
    NearestAllocation, Provenance, Relation, Rule, SiteId, Subject, ThreadCoordinates,
};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Addresses below this are taken for null pointers with an offset: nothing
/// is near them.
const NULL_PAGE: u64 = 4096;

/// What identifies a finding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// An access of the source: module, its first site, rule.
    Access(u64, SiteId, Rule),
    /// A call by the host: driver function, rule, and where it was made.
    Call(String, Rule, Stack),
    /// A canary, seen by the guard: serial of the allocation, and side.
    Watched(u64, Side),
    /// An overwritten canary: the kernel's name, the argument's number, and
    /// whether it is the one before its buffer.
    Canary(String, Option<u32>, bool),
    /// A canary of a block of the device heap: the call that allocated it, and
    /// which canary.
    Block((u32, u32), Side),
    /// A kernel that failed: its number.
    Failure(u64),
    /// A leak: where the allocation was made, or its serial if that is unknown.
    Leak(Result<Arc<host::stacks::Captured>, u64>),
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    id: u64,
    occurrences: u64,
}

/// What was found, and how often.
#[derive(Default)]
pub(crate) struct Findings {
    seen: Mutex<FxHashMap<Key, Seen>>,
}

impl Findings {
    /// Counts an error. `Some(id)` if it is the first of its kind.
    pub fn count(&self, key: Key) -> Option<u64> {
        let mut seen = self.seen.lock();
        let next = seen.len() as u64 + 1;
        let entry = seen.entry(key).or_insert(Seen {
            id: next,
            occurrences: 0,
        });
        entry.occurrences += 1;
        (entry.occurrences == 1).then_some(entry.id)
    }

    /// Number and occurrences of every finding.
    pub fn occurrences(&self) -> Vec<(u64, u64)> {
        let mut all: Vec<(u64, u64)> = self
            .seen
            .lock()
            .values()
            .map(|seen| (seen.id, seen.occurrences))
            .collect();
        all.sort_unstable();
        all
    }
}

/// An allocation as a finding names it, its stacks not resolved yet.
pub(crate) struct Near {
    allocation: Allocation,
    stack: Stack,
    freed: Option<Stack>,
    redzones: Redzones,
}

impl Near {
    fn live(entry: &Entry<Stack>) -> Near {
        Near {
            allocation: entry.allocation.clone(),
            stack: entry.note.clone(),
            freed: None,
            redzones: entry.owner.redzones,
        }
    }

    fn freed(freed: &heap::Freed<Stack>) -> Near {
        Near {
            allocation: freed.entry.allocation.clone(),
            stack: freed.entry.note.clone(),
            freed: Some(freed.note.clone()),
            redzones: freed.entry.owner.redzones,
        }
    }

    /// What is in no registry, and was freed.
    pub fn gone(allocation: Allocation, stack: Stack, freed: Stack) -> Near {
        Near {
            allocation,
            stack,
            freed: Some(freed),
            redzones: Redzones::default(),
        }
    }

    /// Its canaries.
    pub fn redzones(&self) -> Redzones {
        self.redzones
    }

    /// As a finding names it whose relation to it is known.
    pub fn at(self, relation: Relation, callers: u32) -> NearestAllocation {
        let base = self.allocation.extent.base;
        NearestAllocation {
            relation,
            ..self.resolve(base, callers)
        }
    }

    pub fn resolve(self, address: DeviceAddress, callers: u32) -> NearestAllocation {
        NearestAllocation {
            relation: relation(self.allocation.extent, address),
            allocated_at: stacks::resolve(&self.stack, callers, None),
            freed: self.freed.is_some(),
            freed_at: self
                .freed
                .map(|stack| stacks::resolve(&stack, callers, None))
                .unwrap_or_default(),
            allocation: self.allocation,
        }
    }
}

/// The allocations that an error has to do with.
#[derive(Default)]
pub(crate) struct Context {
    pub intended: Option<Near>,
    pub nearest: Option<Near>,
}

/// Looks the allocations of a violation up. Calls no driver.
pub(crate) fn context(
    violation: &Violation<'_>,
    registry: &Registry<Stack>,
    pending: &FxHashMap<u64, PendingFree>,
) -> Context {
    let bounds = violation.bounds;
    if let Some(kind) = violation.window {
        let (intended, nearest) = spaces::allocations(violation, kind);
        let near = |allocation| Near {
            allocation,
            stack: None,
            freed: None,
            redzones: Redzones::default(),
        };
        let mut context = with_nearest(Some(near(intended)), violation.address, registry);
        if kind != AllocationKind::Region {
            context.nearest = nearest.map(near);
        }
        return context;
    }
    let intended = if bounds.size == 0 {
        // What streams free is in the registry until they were waited for.
        let in_stream_order = || {
            let entry = registry.find(violation.pointer?)?;
            let pending = pending.get(&entry.allocation.extent.base.0);
            let unordered = violation.rule != Rule::InvalidPointer;
            unordered.then(|| Near {
                freed: pending.map(|pending| pending.stack.clone()),
                ..Near::live(entry)
            })
        };
        let freed = || {
            violation
                .pointer
                .and_then(|pointer| registry.freed(pointer))
                .or_else(|| registry.freed(violation.address))
                .map(Near::freed)
        };
        // A block that its pool took back, not the pool that is there still.
        let taken_back = || {
            let block = registry.freed_block(violation.pointer.unwrap_or(violation.address))?;
            (violation.rule == Rule::UseAfterFree).then(|| Near::freed(block))
        };
        let outside = || {
            let is_outside = violation.looked_up
                && !matches!(violation.rule, Rule::InvalidPointer | Rule::UseAfterFree);
            let entry = meant_for(registry, violation.pointer?)?;
            is_outside.then(|| Near::live(entry))
        };
        outside()
            .or_else(taken_back)
            .or_else(in_stream_order)
            .or_else(freed)
    } else if bounds.size >= UNBOUNDED {
        // Checked against no bounds, but misaligned.
        None
    } else {
        let same = registry
            .part(bounds)
            .or_else(|| {
                registry
                    .at(bounds.base)
                    .filter(|entry| entry.allocation.extent == bounds)
            })
            .map(Near::live);
        // Its bounds are those that it had when it was accessed: if it was freed
        // since, that has nothing to do with this.
        let freed_since = || {
            let freed = Near::freed(registry.freed_extent(bounds)?);
            Some(Near {
                freed: None,
                ..freed
            })
        };
        same.or_else(freed_since).or_else(|| {
            let kind = match violation.site.provenance {
                Provenance::Variable => AllocationKind::Variable,
                _ => AllocationKind::Foreign,
            };
            let allocation = Allocation {
                extent: bounds,
                kind,
                serial: 0,
                name: None,
            };
            Some(Near {
                redzones: Redzones::default(),
                allocation,
                stack: None,
                freed: None,
            })
        })
    };
    with_nearest(intended, violation.address, registry)
}

/// Looks the allocations up that a call by the host has to do with: `pointer`
/// is what the program passed, `address` the byte in question, `pending` the
/// frees in stream order that the device may not have reached.
pub(crate) fn call_context(
    pointer: DeviceAddress,
    address: DeviceAddress,
    registry: &Registry<Stack>,
    pending: &FxHashMap<u64, PendingFree>,
) -> Context {
    let live = |entry: &Entry<Stack>| Near {
        freed: pending
            .get(&entry.allocation.extent.base.0)
            .filter(|pending| pending.serial == entry.allocation.serial)
            .map(|pending| pending.stack.clone()),
        ..Near::live(entry)
    };
    let intended = registry
        .find_part(pointer)
        .or_else(|| registry.beside(pointer))
        .or_else(|| registry.beside(address))
        .map(live)
        .or_else(|| registry.freed(pointer).map(Near::freed));
    with_nearest(intended, address, registry)
}

/// How far an address is from a placed allocation, as the choice between two of them
/// has it.
fn distance(extent: Extent, address: DeviceAddress) -> u64 {
    match relation(extent, address) {
        Relation::Inside(_) => 0,
        // A byte past the end is nearer than none. The gap behind an allocation is
        // its own, but for what another has before it.
        Relation::After(bytes) => bytes + 1,
        Relation::Before(bytes) if bytes > MAPPING_GRANULE / 2 => bytes + PLACED_RESERVED,
        Relation::Before(bytes) => bytes,
    }
}

/// The live placed allocation that is nearest to an address.
fn live_placed(address: DeviceAddress, registry: &Registry<Stack>) -> Option<&Entry<Stack>> {
    let neighbours = registry.neighbours(address);
    let both = neighbours.below.into_iter().chain(neighbours.above);
    both.filter(|entry| is_placed(entry.allocation.extent.base.0))
        .min_by_key(|entry| distance(entry.allocation.extent, address))
}

/// How far an address is from the nearest live placed allocation.
pub(crate) fn distance_to_placed(address: DeviceAddress, registry: &Registry<Stack>) -> u64 {
    let nearest = live_placed(address, registry);
    nearest.map_or(u64::MAX, |entry| distance(entry.allocation.extent, address))
}

/// The allocation that an address is beside, or in, of those that lie at
/// addresses of their own ([`model::layout::placed`]): freed ones too, because
/// their addresses are not given out again. `None`: it is none of these
/// addresses.
pub(crate) fn placed_near(
    address: DeviceAddress,
    registry: &Registry<Stack>,
    pending: &FxHashMap<u64, PendingFree>,
) -> Option<Near> {
    if !is_placed(address.0) {
        return None;
    }
    let distance = |extent: Extent| distance(extent, address);
    let live = live_placed(address, registry);
    let freed = registry
        .all_freed()
        .filter(|freed| is_placed(freed.entry.allocation.extent.base.0))
        // The latest of several at one address.
        .rev()
        .min_by_key(|freed| distance(freed.entry.allocation.extent));
    let of_live = |entry: &Entry<Stack>| Near {
        freed: pending
            .get(&entry.allocation.extent.base.0)
            .map(|pending| pending.stack.clone()),
        ..Near::live(entry)
    };
    match (live, freed) {
        (Some(entry), Some(freed)) => {
            let is_nearer =
                distance(freed.entry.allocation.extent) < distance(entry.allocation.extent);
            Some(match is_nearer {
                true => Near::freed(freed),
                false => of_live(entry),
            })
        }
        (live, freed) => live.map(of_live).or_else(|| freed.map(Near::freed)),
    }
}

fn with_nearest(
    intended: Option<Near>,
    address: DeviceAddress,
    registry: &Registry<Stack>,
) -> Context {
    let other = |entry: &&Entry<Stack>| {
        intended
            .as_ref()
            .is_none_or(|near| near.allocation.extent.base != entry.allocation.extent.base)
    };
    let hit = registry.holding_part(address).filter(other);
    let nearest = match (hit, &intended) {
        (Some(entry), _) => Some(Near::live(entry)),
        (None, None) if address.0 >= NULL_PAGE => nearest(registry, address).map(Near::live),
        (None, _) => None,
    };
    Context { intended, nearest }
}

/// The live allocation that a pointer which lies in none was most likely
/// computed from.
pub(crate) fn meant_for(
    registry: &Registry<Stack>,
    pointer: DeviceAddress,
) -> Option<&Entry<Stack>> {
    let is_outside = pointer.0 >= NULL_PAGE && registry.holding(pointer).is_none();
    is_outside
        .then(|| registry.just_outside(pointer, JUST_OUTSIDE))
        .flatten()
}

/// Bytes from an address to an allocation that may have to do with it. What is
/// farther away is only there by chance.
const NEAR: u64 = 1 << 30;

/// The closer one of the neighbours, if it is near.
fn nearest(registry: &Registry<Stack>, address: DeviceAddress) -> Option<&Entry<Stack>> {
    let neighbours = registry.neighbours(address);
    let distance = |entry: &&Entry<Stack>| match relation(entry.allocation.extent, address) {
        Relation::Inside(_) => 0,
        Relation::After(bytes) | Relation::Before(bytes) => bytes,
    };
    neighbours
        .below
        .into_iter()
        .chain(neighbours.above)
        .filter(|entry| distance(entry) <= NEAR)
        .min_by_key(distance)
}

pub(crate) fn relation(extent: Extent, address: DeviceAddress) -> Relation {
    // Arrays in shared memory may begin at zero.
    let offset = address.0.wrapping_sub(extent.base.0) as i64;
    if offset < 0 {
        Relation::Before(offset.unsigned_abs())
    } else if extent.contains(address) {
        Relation::Inside(offset as u64)
    } else {
        Relation::After(offset as u64 - extent.size)
    }
}

/// Puts a finding together; resolves stacks, which is slow.
pub(crate) fn finding(
    violation: &Violation<'_>,
    context: Context,
    record: &Record,
    launch: Option<&Launch>,
    kernel: Option<String>,
    callers: u32,
) -> Finding {
    let site = violation.site;
    let thread = record.thread;
    let near = |near: Near| near.resolve(violation.address, callers);
    Finding {
        rule: violation.rule,
        address: violation.address,
        subject: Subject::Access(DeviceAccess {
            kind: site.kind,
            space: spaces::of_access(site.space, violation.window, record),
            width: site.width,
            width_at_run_time: site.width_at_run_time,
            alignment: (violation.rule == Rule::MisalignedAccess).then_some(site.alignment),
            kernel: launch
                .map(|launch| launch.function.name.clone())
                .or(kernel)
                .unwrap_or_default(),
            function: site.function.clone(),
            source: site.source.clone(),
            ptx_line: site.ptx_line,
            instruction: site.instruction.clone(),
            thread: ThreadCoordinates {
                block: [
                    record.block_x,
                    record.block_yz & 0xffff,
                    record.block_yz >> 16,
                ],
                thread: [
                    thread & 0x3ff,
                    (thread >> 10) & 0x3ff,
                    (thread >> 20) & THREAD_Z_MASK,
                ],
            },
            launch: record.launch,
            launched_at: launch
                .map(|launch| stacks::resolve(&launch.stack, callers, Some(&launch.function.name)))
                .unwrap_or_default(),
        }),
        intended: context.intended.map(near),
        nearest: context.nearest.map(near),
        occurrences: 1,
    }
}

/// An error in a call that the host is about to make.
#[derive(Clone, Debug)]
pub(crate) struct HostError {
    /// Which rule the call breaks.
    pub rule: Rule,
    /// The driver function, as it is exported.
    pub function: &'static str,
    /// What the call was to do, in one line for people; may be empty.
    pub detail: String,
    /// Bytes that it was to read or write; `None` for a free.
    pub width: Option<u64>,
    /// The pointer that the program passed.
    pub pointer: DeviceAddress,
    /// The first byte in question.
    pub address: DeviceAddress,
}

impl HostError {
    pub(crate) fn key(&self, stack: &Stack) -> Key {
        Key::Call(self.function.to_string(), self.rule, stack.clone())
    }

    /// Puts the finding together; resolves stacks, which is slow.
    pub(crate) fn finding(self, context: Context, stack: &Stack, callers: u32) -> Finding {
        let near = |near: Near| near.resolve(self.address, callers);
        Finding {
            rule: self.rule,
            address: self.address,
            intended: context.intended.map(near),
            nearest: context.nearest.map(near),
            subject: Subject::Call(HostCall {
                function: self.function.to_string(),
                detail: self.detail,
                width: self.width,
                called_at: stacks::resolve(stack, callers, None),
            }),
            occurrences: 1,
        }
    }
}

impl Key {
    /// The key of an allocation that leaked.
    pub fn leak(entry: &Entry<Stack>) -> Key {
        Key::Leak(entry.note.clone().ok_or(entry.allocation.serial))
    }
}

/// The allocation with this extent and serial, live or freed.
pub(crate) fn near(registry: &Registry<Stack>, extent: Extent, serial: u64) -> Option<Near> {
    let live = registry.at(extent.base);
    if let Some(entry) = live.filter(|entry| entry.allocation.serial == serial) {
        return Some(Near::live(entry));
    }
    registry
        .freed_extent(extent)
        .filter(|freed| freed.entry.allocation.serial == serial)
        .map(Near::freed)
}

/// The finding of an allocation that leaked.
pub(crate) fn leak(entry: &Entry<Stack>, callers: u32) -> Finding {
    let address = entry.allocation.extent.base;
    Finding {
        rule: Rule::MemoryLeak,
        address,
        subject: Subject::Leak,
        intended: Some(Near::live(entry).resolve(address, callers)),
        nearest: None,
        occurrences: 1,
    }
}
