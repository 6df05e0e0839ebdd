//! From the records of checks that failed to findings.

use crate::allocations::Allocations;
use crate::device_heap::DeviceHeap;
use crate::env::Env;
use crate::findings::{self, Key};
use crate::judge::{self, Around, InHeap, Snapshot, Violation};
use crate::launches::{Launch, Launches};
use crate::memory::Memory;
use crate::modules::Modules;
use crate::plan::PartPlan;
use crate::reporter::Reporter;
use crate::roots::Root;
use crate::shadow::{Poisoning, Shadow};
use heap::Registry;
use host::Stack;
use model::layout::Record;
use model::layout::shadow::MIN_REDZONE;
use model::{DeviceAddress, Extent, Finding};
use std::sync::Arc;

/// The services that findings of failed checks use.
pub(crate) struct Below {
    pub env: Arc<Env>,
    pub memory: Arc<Memory>,
    pub allocations: Arc<Allocations>,
    pub modules: Arc<Modules>,
    pub launches: Arc<Launches>,
    pub heap: Arc<DeviceHeap>,
    pub reporter: Arc<Reporter>,
    pub shadow: Arc<Shadow>,
}

/// See the module's header.
pub(crate) struct Violations {
    env: Arc<Env>,
    memory: Arc<Memory>,
    allocations: Arc<Allocations>,
    modules: Arc<Modules>,
    launches: Arc<Launches>,
    heap: Arc<DeviceHeap>,
    reporter: Arc<Reporter>,
    shadow: Arc<Shadow>,
}

impl judge::Memory for Violations {
    fn in_heap(&self, address: DeviceAddress) -> InHeap {
        if !self.heap.holds(address) {
            return InHeap::Elsewhere;
        }
        match self.heap.block_at(address) {
            None => InHeap::Nothing,
            Some(block) => InHeap::Block {
                live: block.live,
                size: block.extent.size,
            },
        }
    }

    fn was_freed(&self, address: DeviceAddress) -> bool {
        self.memory.was_freed(address)
    }

    fn was_taken_back(&self, address: DeviceAddress) -> bool {
        self.memory
            .read(|registry| registry.freed_block(address).is_some())
    }

    fn is_just_outside(&self, address: DeviceAddress) -> bool {
        self.memory
            .read(|registry| findings::meant_for(registry, address).is_some())
    }

    fn parent_of(&self, part: Extent) -> Option<Extent> {
        self.memory.read(|registry| {
            let parent = registry
                .was_part(part)
                .then(|| registry.holding(part.base))?;
            Some(parent?.allocation.extent)
        })
    }
}

/// Whether an address is in a buffer, or in what is at least its redzone.
fn is_beside(buffer: Extent, address: DeviceAddress) -> bool {
    let first = buffer.base.0.saturating_sub(MIN_REDZONE);
    let end = buffer
        .base
        .0
        .saturating_add(buffer.size)
        .saturating_add(MIN_REDZONE);
    (first..end).contains(&address.0)
}

impl Violations {
    pub fn new(below: Below) -> Violations {
        Violations {
            env: below.env,
            memory: below.memory,
            allocations: below.allocations,
            modules: below.modules,
            launches: below.launches,
            heap: below.heap,
            reporter: below.reporter,
            shadow: below.shadow,
        }
    }

    /// What is at an address that shadow memory says is not addressable, for a
    /// launch with these pointers. A buffer that was live when the kernel was
    /// launched is not said to be freed: the host may have freed it since, in
    /// stream order, before the kernel's records were read.
    fn around(&self, address: DeviceAddress, roots: &[Root]) -> Around {
        let live = |is_it: &dyn Fn(Extent) -> bool| {
            let bounds = roots.iter().map(|root| root.bounds);
            bounds
                .filter(|bounds| bounds.size > 0)
                .find(|bounds| is_it(*bounds))
        };
        if self.heap.holds(address) {
            return match self.heap.block_beside(address) {
                Some(block) if block.live => Around::Buffer(block.extent),
                Some(block) => Around::FreedBlock(block.extent),
                None => Around::Nothing,
            };
        }
        match self.shadow.at(address) {
            Some(placed) if placed.is_held => match live(&|bounds| bounds == placed.extent) {
                Some(extent) => Around::Buffer(extent),
                None => Around::Freed,
            },
            Some(placed) => match self.shadow.poison_at(address) {
                Poisoning::Never => Around::Buffer(placed.extent),
                Poisoning::Before => Around::Unpoisoned(placed.extent),
                // A block that its pool took back.
                Poisoning::Now if judge::Memory::was_taken_back(self, address) => Around::Freed,
                Poisoning::Now => Around::Poisoned(placed.extent),
            },
            None if self.memory.was_freed(address) => {
                match live(&|bounds| is_beside(bounds, address)) {
                    Some(extent) => Around::Buffer(extent),
                    None => Around::Freed,
                }
            }
            None => Around::Nothing,
        }
    }

    /// A record of a check that failed.
    pub fn record(&self, record: &Record) {
        let Some(part) = self.modules.part(record.module) else {
            let message = format!(
                "a record names module {:#018x}, which was not loaded through Ringfence (the program may have written \
                 over the record ring); it is ignored",
                record.module
            );
            self.env.error(&message, false);
            return;
        };
        let launch = self.launches.get(record.launch);
        let launch = launch.as_ref();
        let snapshot = Snapshot {
            roots: launch.map(|launch| launch.roots.as_slice()),
            memory: self,
        };
        let violations = match judge::is_by_address(&part, record) {
            true => {
                let roots = snapshot.roots.unwrap_or_default();
                judge::by_address(&part, record, &|address| self.around(address, roots))
            }
            false => judge::judge(&part, record, snapshot),
        };
        if violations.is_empty() {
            let message = format!(
                "the check of site {} in module {:#018x} failed at {:#x}, but none of its accesses lies outside the \
                 bounds {:#x} + {}: this is an error of Ringfence, please report it",
                record.site, record.module, record.address, record.base, record.size
            );
            self.env.error(&message, false);
        }
        // A proof says nothing of frees.
        let contradicts = |launch: &&Launch| {
            let mut accesses = violations.iter().filter(|one| !one.site.is_free());
            accesses.any(|violation| launch.is_proved(violation.site.group))
        };
        if let Some(launch) = launch.filter(contradicts) {
            let message = format!(
                "in a launch of {}, an access was proved to be in bounds, but the check of site {} in module {:#018x} failed at \
                 {:#x}: this is an error of Ringfence, please report it, and run with --prove off until it is mended",
                launch.function.name, record.site, record.module, record.address
            );
            self.env.error(&message, true);
        }
        for violation in &violations {
            self.found(&part, record, launch, violation);
        }
    }

    fn found(
        &self,
        part: &Arc<PartPlan>,
        record: &Record,
        launch: Option<&Launch>,
        violation: &Violation<'_>,
    ) {
        if self.is_of_missed_call(violation) {
            return;
        }
        let site = part.first_like(violation.site.id);
        let key = Key::Access(part.tag, site, violation.rule);
        let Some(id) = self.reporter.count(key) else {
            return;
        };
        let address = violation.address;
        let context = self
            .memory
            .look(|registry, _, pending| match violation.site.is_free() {
                true => findings::call_context(address, address, registry, pending),
                false => findings::context(violation, registry, pending),
            });
        let mut finding = self.put_together(violation, context, record, part, launch);
        self.heap.add_blocks(violation, &mut finding);
        self.reporter.publish(id, &finding);
    }

    /// Whether an access was found wrong because Ringfence missed the call that
    /// allocated its memory, which is said: the device knows what the registry
    /// knows, and the driver knows more.
    fn is_of_missed_call(&self, violation: &Violation<'_>) -> bool {
        let address = violation.address;
        let is_candidate = violation.bounds.size == 0
            && violation.looked_up
            && !violation.site.is_free()
            && !self.heap.holds(address);
        let is_registered = || {
            let holding = |registry: &Registry<Stack>| registry.holding(address).is_some();
            self.memory.read(holding)
        };
        if !is_candidate || is_registered() {
            return false;
        }
        let Some(extent) = self.allocations.ask_driver(address) else {
            return false;
        };
        let message = format!(
            "memory at {} ({} bytes) was allocated by a call that Ringfence does not hook; an access to it was \
             held back before that was known, so results of this run may be wrong",
            extent.base, extent.size
        );
        self.env.error(&message, false);
        true
    }

    fn put_together(
        &self,
        violation: &Violation<'_>,
        context: findings::Context,
        record: &Record,
        part: &PartPlan,
        launch: Option<&Launch>,
    ) -> Finding {
        let kernel = launch
            .is_none()
            .then(|| self.modules.only_user_of(part.tag))
            .flatten();
        let callers = self.env.callers();
        findings::finding(violation, context, record, launch, kernel, callers)
    }
}
