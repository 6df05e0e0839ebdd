//! From what the device has recorded, and what the host is about to do wrong, to
//! findings.

use super::Runtime;
use crate::drain::Mode;
use crate::findings::{self, HostError, Key};
use crate::judge::{self, InHeap, Memory, Snapshot, Violation};
use crate::launches::Launch;
use crate::plan::PartPlan;
use heap::Registry;
use host::stacks::{self, Stack};
use model::layout::Record;
use model::layout::records::HEAP_RECORD;
use model::{DeviceAddress, Extent, Finding};
use std::sync::Arc;

impl Memory for Runtime {
    fn in_heap(&self, address: DeviceAddress) -> InHeap {
        if !self.is_in_heap(address) {
            return InHeap::Elsewhere;
        }
        match self.block_at(address) {
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

    fn parent_of(&self, part: Extent) -> Option<Extent> {
        self.memory.read(|registry| {
            let parent = registry
                .was_part(part)
                .then(|| registry.holding(part.base))?;
            Some(parent?.allocation.extent)
        })
    }
}

impl Runtime {
    /// What the watcher does at each tick.
    pub(crate) fn glance(&self) {
        self.run_drain(Mode::Glance);
    }

    /// Reads what the device has recorded.
    pub(crate) fn read_records(&self) {
        self.run_drain(Mode::Wait);
    }

    /// Something that may record was launched.
    pub(crate) fn watch_records(&self) {
        self.watcher.launched(&self.me);
    }

    pub(super) fn run_drain(&self, mode: Mode) {
        if let Some(ring) = self.metadata.ring() {
            self.drain
                .run(ring, &*self.driver, mode, |record| self.handle(record));
        }
    }

    fn handle(&self, record: &Record) {
        if record.module == model::layout::canary::CANARY_RECORD {
            return self.canary_found(record);
        }
        if record.module == HEAP_RECORD && self.is_of_watched_heap(record) {
            return self.block_overwritten(record);
        }
        let Some(part) = self.modules.part(record.module) else {
            let message = format!(
                "a record names module {:#018x}, which was not loaded through Ringfence (the program may have written \
                 over the record ring); it is ignored",
                record.module
            );
            self.output.error(&message, false);
            return;
        };
        let launch = self.launches.get(record.launch);
        let launch = launch.as_ref();
        let snapshot = Snapshot {
            roots: launch.map(|launch| launch.roots.as_slice()),
            memory: self,
        };
        let violations = judge::judge(&part, record, snapshot);
        if violations.is_empty() {
            let message = format!(
                "the check of site {} in module {:#018x} failed at {:#x}, but none of its accesses lies outside the \
                 bounds {:#x} + {}: this is an error of Ringfence, please report it",
                record.site, record.module, record.address, record.base, record.size
            );
            self.output.error(&message, false);
        }
        // A proof says nothing of frees.
        let is_access = |violation: &Violation<'_>| !violation.site.is_free();
        if let Some(launch) = launch
            && launch.proved
            && violations.iter().any(is_access)
        {
            let message = format!(
                "a launch of {} was proved to be in bounds, but the check of site {} in module {:#018x} failed at \
                 {:#x}: this is an error of Ringfence, please report it, and run with --prove off until it is mended",
                launch.function.name, record.site, record.module, record.address
            );
            self.output.error(&message, true);
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
        let key = Key::Access(part.tag, violation.site.id, violation.rule);
        let Some(id) = self.findings.count(key) else {
            return;
        };
        let address = violation.address;
        let context = self
            .memory
            .look(|registry, _, leaving| match violation.site.is_free() {
                true => findings::call_context(address, address, registry, leaving),
                false => findings::context(violation, registry, leaving),
            });
        let mut finding = self.put_together(violation, context, record, part, launch);
        self.add_blocks(violation, &mut finding);
        self.publish(id, &finding);
    }

    /// Whether an access was found wrong because Ringfence missed the call that
    /// allocated its memory, which is said: the device knows what the registry
    /// knows, and the driver knows more.
    fn is_of_missed_call(&self, violation: &Violation<'_>) -> bool {
        let address = violation.address;
        let is_candidate = violation.bounds.size == 0
            && violation.looked_up
            && !violation.site.is_free()
            && !self.is_in_heap(address);
        let is_registered = || {
            let holding = |registry: &Registry<Stack>| registry.holding(address).is_some();
            self.memory.read(holding)
        };
        if !is_candidate || is_registered() {
            return false;
        }
        let Some(extent) = self.ask_driver(address) else {
            return false;
        };
        let message = format!(
            "memory at {} ({} bytes) was allocated by a call that Ringfence does not hook; an access to it was \
             held back before that was known, so results of this run may be wrong",
            extent.base, extent.size
        );
        self.output.error(&message, false);
        true
    }

    pub(crate) fn put_together(
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
        let callers = self.settings.num_callers_host;
        findings::finding(violation, context, record, launch, kernel, callers)
    }

    /// The host is about to make a call that breaks a rule. Call it on the
    /// program's thread: its stack distinguishes one such call from another.
    pub fn host_error(&self, error: HostError) {
        let callers = self.settings.num_callers_host;
        let stack = stacks::capture(callers);
        let Some(id) = self.findings.count(error.key(&stack)) else {
            return;
        };
        let context = self.memory.look(|registry, _, leaving| {
            findings::call_context(error.pointer, error.address, registry, leaving)
        });
        self.publish(id, &error.finding(context, &stack, callers));
    }
}
