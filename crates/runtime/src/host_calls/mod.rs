//! Copies and memsets by the host, checked against the bounds of the memory that their
//! pointers belong to before they are made.
//!
//! What is certain is reported, and nothing else: memory that Ringfence does
//! not know may be the program's own, and is the driver's to judge. A call
//! that passes costs one search of the registry for each side.
//!
//! Memory that is allocated and freed in streams is also checked against their order,
//! as far as it is known when the call comes to its turn.

mod copies;

pub use copies::{Position, Shape, Touched};

use crate::allocations::{Allocations, is_seen_by_the_host};
use crate::env::Env;
use crate::findings::HostError;
use crate::frees::Frees;
use crate::maps;
use crate::memory::{Holding, Memory};
use crate::protection::Protections;
use crate::reporter::Reporter;
use crate::streams::{StreamUse, Streams, UseOrder, User};
use heap::{Entry, Quarantine, Registry};
use host::Stack;
use model::layout::placed::is_placed;
use model::{AllocationKind, ApiErrors, DeviceAddress, Extent, Rule};
use report::count;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};

/// What the call says about a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Memory that the device knows.
    Device,
    /// The program's memory, which may be pinned.
    Host,
    /// Either; the address decides.
    Any,
}

/// What the call does there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

/// One side of a copy, or the target of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// The bytes.
    pub touched: Touched,
    /// Where they are, by the call's word.
    pub place: Place,
    /// What happens to them.
    pub effect: Effect,
}

/// When a call does its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// After all that was put into streams before.
    Last,
    /// In its turn in a stream.
    InStream(StreamUse),
    /// Another time, or that is not known.
    Unknown,
}

/// What to do with a call.
#[must_use]
#[derive(Debug)]
pub enum CallDecision {
    /// Make it.
    Make,
    /// Do not make it, and answer that a value is invalid. It has been
    /// reported.
    Refuse,
    /// Make it. If the device refuses it, tell with
    /// [`HostCalls::refused`]: then this is why.
    Doubt(Box<Doubt>),
}

/// A call that names memory which is not known.
#[derive(Debug)]
pub struct Doubt {
    function: &'static str,
    side: Side,
    wrong: Wrong,
}

/// What is wrong with a side.
#[derive(Clone, Copy, Debug)]
struct Wrong {
    rule: Rule,
    address: DeviceAddress,
    bounds: Extent,
}

/// What the registry alone can say about a side.
enum Known {
    Good,
    Wrong(Wrong, AllocationKind),
    /// Not in the registry.
    Unknown,
}

/// The services that checks of calls use.
pub(crate) struct Below {
    pub env: Arc<Env>,
    pub memory: Arc<Memory>,
    pub allocations: Arc<Allocations>,
    pub streams: Arc<Streams>,
    pub reporter: Arc<Reporter>,
    pub protections: Arc<Protections>,
    pub frees: Arc<Frees>,
}

/// See the module's header.
pub struct HostCalls {
    below: Below,
    /// Copies and memsets that were checked.
    calls: AtomicU64,
}

impl HostCalls {
    pub(crate) fn new(below: Below) -> HostCalls {
        HostCalls {
            below,
            calls: AtomicU64::new(0),
        }
    }

    /// Copies and memsets that were checked.
    pub(crate) fn checked(&self) -> u64 {
        self.calls.load(atomic::Ordering::Relaxed)
    }

    /// Holds a copy or set to the memory that it names. Call it before the
    /// call is made, and do what it answers.
    pub fn check(&self, function: &'static str, when: When, sides: &[Side]) -> CallDecision {
        if !self.below.env.settings().check {
            return CallDecision::Make;
        }
        // Those that leave their allocation are made all the same.
        if self.below.env.settings().api_errors != ApiErrors::Refuse {
            self.below.protections.before_unchecked();
        }
        let orders = self.call_orders(function, when, sides);
        if self.below.env.settings().api_errors == ApiErrors::Off {
            return CallDecision::Make;
        }
        self.calls.fetch_add(1, atomic::Ordering::Relaxed);
        let in_order = orders.iter().all(|order| *order == UseOrder::Right);
        let good = in_order
            && self.below.memory.look(|registry, quarantine, _| {
                sides
                    .iter()
                    .all(|side| matches!(known(registry, quarantine, side), Known::Good))
            });
        if good {
            CallDecision::Make
        } else {
            self.judge_call(function, &orders, sides)
        }
    }

    /// How the use of each side's memory is ordered with its allocation and
    /// free; empty where that does not matter.
    fn call_orders(
        &self,
        function: &'static str,
        when: When,
        sides: &[Side],
    ) -> SmallVec<[UseOrder; 4]> {
        if !self.below.streams.are_tracked() || when == When::Unknown {
            return SmallVec::new();
        }
        // What the registry does not know may be anybody's by now.
        let addresses: SmallVec<[DeviceAddress; 4]> = self.below.memory.read(|registry| {
            let used = |side: &Side| {
                let pointer = DeviceAddress(side.touched.pointer);
                let is_used = side.place != Place::Host
                    && !side.touched.is_empty()
                    && registry.find(pointer).is_some();
                // Nothing is at the other address.
                if is_used { pointer } else { DeviceAddress(0) }
            };
            sides.iter().map(used).collect()
        });
        match when {
            When::InStream(stream) => {
                let signals = sides.iter().any(|side| self.signals(side));
                let user = User::Call(function);
                self.below.streams.used(stream, &user, signals, addresses)
            }
            _ => self.below.streams.used_after_all(addresses),
        }
    }

    /// Whether the host may learn from what is written there that it was, or
    /// even waits for it: a copy to memory that is not page-locked is done
    /// when the call returns.
    fn signals(&self, side: &Side) -> bool {
        let seen = |entry: &Entry<Stack>| is_seen_by_the_host(entry.allocation.kind);
        let pointer = DeviceAddress(side.touched.pointer);
        let by_host = || {
            self.below
                .memory
                .read(|registry| registry.find(pointer).is_none_or(seen))
        };
        side.effect == Effect::Write && (side.place == Place::Host || by_host())
    }

    #[cold]
    fn judge_call(
        &self,
        function: &'static str,
        orders: &[UseOrder],
        sides: &[Side],
    ) -> CallDecision {
        let mut decision = CallDecision::Make;
        for (index, side) in sides.iter().enumerate() {
            let unordered = match orders.get(index) {
                None | Some(UseOrder::Right) => None,
                Some(UseOrder::Freed) => Some(Rule::UseAfterFree),
                Some(UseOrder::Wrong(rule)) => Some(*rule),
            };
            if let Some(rule) = unordered {
                let pointer = DeviceAddress(side.touched.pointer);
                let wrong = Wrong {
                    rule,
                    address: side.touched.first(),
                    bounds: nothing(pointer),
                };
                self.report_copy(function, side, &wrong);
                if self.below.env.settings().api_errors == ApiErrors::Refuse {
                    decision = CallDecision::Refuse;
                }
                continue;
            }
            let known = self
                .below
                .memory
                .look(|registry, quarantine, _| known(registry, quarantine, side));
            let wrong = match known {
                Known::Good => continue,
                Known::Wrong(wrong, kind) if self.still_there(wrong.bounds, kind) => wrong,
                Known::Wrong(..) => continue,
                Known::Unknown => match self.unknown(side) {
                    Unknown::Good => continue,
                    Unknown::Wrong(wrong) => wrong,
                    Unknown::Doubt(wrong) => {
                        if matches!(decision, CallDecision::Make) {
                            let side = *side;
                            let doubt = Doubt {
                                function,
                                side,
                                wrong,
                            };
                            decision = CallDecision::Doubt(Box::new(doubt));
                        }
                        continue;
                    }
                },
            };
            self.report_copy(function, side, &wrong);
            if self.below.env.settings().api_errors == ApiErrors::Refuse {
                decision = CallDecision::Refuse;
            } else {
                // The device is to see what it would have seen.
                self.below
                    .frees
                    .give_up(DeviceAddress(side.touched.pointer));
            }
        }
        decision
    }

    /// The device refused a call that was made in doubt.
    pub fn refused(&self, doubt: &Doubt) {
        self.report_copy(doubt.function, &doubt.side, &doubt.wrong);
    }

    /// Whether what the registry believes is true: memory goes with its
    /// context, and through calls that are not hooked.
    fn still_there(&self, bounds: Extent, kind: AllocationKind) -> bool {
        use AllocationKind::{Device, Foreign, Host, HostRegistered, Managed, Pool};
        match kind {
            Device | Managed | Host | HostRegistered | Pool | Foreign => {
                let there = self.below.env.driver().allocation_of(bounds.base);
                there.is_some_and(|extent| extent.contains(bounds.base))
            }
            // The driver has no better word on the others: their extents are
            // the program's, or those of code that is loaded.
            _ => true,
        }
    }

    fn unknown(&self, side: &Side) -> Unknown {
        let pointer = DeviceAddress(side.touched.pointer);
        let freed = self.below.memory.read(|registry| {
            registry
                .freed(pointer)
                .map(|freed| freed.entry.allocation.extent)
        });
        let address = side.touched.first();
        if self.below.allocations.pool_of(pointer).is_some() {
            let taken_back = self.below.memory.read(|registry| {
                let freed = registry.freed_block(pointer)?;
                Some(freed.entry.allocation.extent)
            });
            return Unknown::Wrong(match taken_back {
                Some(bounds) => Wrong {
                    rule: Rule::UseAfterFree,
                    address,
                    bounds,
                },
                None => Wrong {
                    rule: Rule::InvalidPointer,
                    address,
                    bounds: nothing(pointer),
                },
            });
        }
        let Some(extent) = self.below.allocations.ask_driver(pointer) else {
            let stale = freed.map(|bounds| Wrong {
                rule: Rule::UseAfterFree,
                address,
                bounds,
            });
            // What was freed may be the program's own memory by now.
            let certain = |stale: &Wrong| {
                let own = || {
                    self.below.memory.is_held(pointer)
                        || is_placed(pointer.0)
                        || !maps::is_accessible(pointer.0)
                };
                stale.bounds.contains(pointer) && own()
            };
            return match (side.place, stale) {
                (_, Some(stale)) if certain(&stale) => Unknown::Wrong(stale),
                (Place::Any | Place::Host, _) => Unknown::Good,
                (Place::Device, Some(stale)) => Unknown::Doubt(stale),
                (Place::Device, None) => Unknown::Doubt(Wrong {
                    rule: Rule::InvalidPointer,
                    address,
                    bounds: nothing(pointer),
                }),
            };
        };
        match side.touched.first_outside(extent) {
            Some(address) => Unknown::Wrong(Wrong {
                rule: rule(side.effect),
                address,
                bounds: extent,
            }),
            None => Unknown::Good,
        }
    }

    fn report_copy(&self, function: &'static str, side: &Side, wrong: &Wrong) {
        self.below.reporter.host_error(HostError {
            rule: wrong.rule,
            function,
            detail: detail(side, wrong),
            width: Some(side.touched.bytes()),
            pointer: DeviceAddress(side.touched.pointer),
            address: wrong.address,
        });
    }
}

enum Unknown {
    Good,
    Wrong(Wrong),
    Doubt(Wrong),
}

fn nothing(pointer: DeviceAddress) -> Extent {
    Extent {
        base: pointer,
        size: 0,
    }
}

fn rule(effect: Effect) -> Rule {
    match effect {
        Effect::Read => Rule::CopyOutOfBoundsRead,
        Effect::Write => Rule::CopyOutOfBoundsWrite,
    }
}

#[inline]
fn known(registry: &Registry<Stack>, quarantine: &Quarantine<Holding>, side: &Side) -> Known {
    let touched = &side.touched;
    if touched.is_empty() {
        return Known::Good;
    }
    // One past the end of pinned memory the program may have other memory of
    // its own.
    let find = |pointer| match side.place {
        Place::Device => registry.find_part(pointer),
        Place::Host | Place::Any => registry.holding_part(pointer),
    };
    let (mut touched, mut found) = (*touched, find(DeviceAddress(touched.pointer)));
    if found.is_none() && touched.offset != 0 {
        // A pointer that lies outside, and bytes that need not.
        touched = touched.from_first();
        found = find(DeviceAddress(touched.pointer));
    }
    let pointer = DeviceAddress(touched.pointer);
    let Some(entry) = found else {
        if let Some((wrong, kind)) = nobodys(registry, side) {
            return Known::Wrong(wrong, kind);
        }
        let stale = || registry.may_be_freed(pointer) || registry.pool_at(pointer).is_some();
        return match side.place {
            // The addresses of the quarantine are in no other use, those of a
            // pool and of placed memory neither.
            Place::Host
                if quarantine.find(pointer).is_none()
                    && registry.pool_at(pointer).is_none()
                    && !is_placed(pointer.0) =>
            {
                Known::Good
            }
            Place::Any if !stale() => Known::Good,
            _ => Known::Unknown,
        };
    };
    let bounds = entry.allocation.extent;
    if touched.lies_in(bounds) {
        return Known::Good;
    }
    let kind = entry.allocation.kind;
    match touched.first_outside(bounds) {
        None => Known::Good,
        Some(address) => {
            let rule = rule(side.effect);
            Known::Wrong(
                Wrong {
                    rule,
                    address,
                    bounds,
                },
                kind,
            )
        }
    }
}

/// Bytes of canaries and padding, which belong to no allocation, that a side touches
/// whose pointer leads to no allocation.
fn nobodys(registry: &Registry<Stack>, side: &Side) -> Option<(Wrong, AllocationKind)> {
    let first = side.touched.first();
    let end = first.0.saturating_add(side.touched.span().unwrap_or(0));
    let zones = registry.redzones(first.0, end);
    let hit = |(zone, entry): (Extent, _)| Some((side.touched.first_inside(zone)?, entry));
    let (address, entry) = zones.filter_map(hit).min_by_key(|(address, _)| address.0)?;
    let entry: &Entry<Stack> = entry;
    let wrong = Wrong {
        rule: rule(side.effect),
        address,
        bounds: entry.allocation.extent,
    };
    Some((wrong, entry.allocation.kind))
}

/// What the call was to do, in one line.
fn detail(side: &Side, wrong: &Wrong) -> String {
    let touched = &side.touched;
    let verb = match side.effect {
        Effect::Read => "reads",
        Effect::Write => "writes",
    };
    let first = touched.first();
    let rows = touched.height.saturating_mul(touched.depth);
    let what = if rows == 1 {
        format!("{verb} {} at {first}", count(touched.bytes(), "byte"))
    } else {
        let mut text = format!(
            "{verb} {} of {} at {first}, {} apart",
            count(rows, "row"),
            count(touched.width, "byte"),
            count(touched.pitch, "byte"),
        );
        if touched.depth > 1 {
            text += &format!(", {} to a slice", count(touched.height, "row"));
        }
        text
    };
    let left = wrong.bounds.end().0.saturating_sub(first.0);
    match wrong.rule {
        Rule::UseAfterFree => format!("{what}, which was freed"),
        Rule::InvalidPointer => format!("{what}, where nothing is allocated"),
        Rule::UseBeforeAllocation => {
            format!("{what}, which is allocated in another stream that nothing orders before this")
        }
        Rule::StreamOrderRace => {
            format!("{what}, which is freed in another stream that nothing orders after this")
        }
        // A canary or padding is where it starts.
        _ if first < wrong.bounds.base => format!(
            "{what}, which starts {} before the allocation",
            count(wrong.bounds.base.0 - first.0, "byte")
        ),
        _ if first > wrong.bounds.end() => format!(
            "{what}, which starts {} past the end of the allocation",
            count(first.0 - wrong.bounds.end().0, "byte")
        ),
        _ => format!(
            "{what}, where {} are left of the allocation",
            count(left, "byte")
        ),
    }
}
