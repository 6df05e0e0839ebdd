//! From what the device has recorded, and what the host is about to do wrong, to
//! findings.

use super::Runtime;
use crate::drain::Mode;
use crate::findings::{self, HostError, Key, Violation};
use crate::launches::Launch;
use crate::plan::PartPlan;
use host::stacks;
use model::layout::Record;
use model::layout::records::HEAP_RECORD;
use model::{Finding, Rule, SiteId};
use std::sync::Arc;

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
        let Some(part) = self.findings.part(record.module) else {
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
        let free = part
            .group(SiteId(record.site))
            .next()
            .filter(|site| site.is_free());
        if let Some(site) = free {
            self.wrong_free(&part, site, record, launch);
            return;
        }
        let mut violations = findings::violations(&part, record, launch);
        if violations.is_empty() {
            let message = format!(
                "the check of site {} in module {:#018x} failed at {:#x}, but none of its accesses lies outside the \
                 bounds {:#x} + {}: this is an error of Ringfence, please report it",
                record.site, record.module, record.address, record.base, record.size
            );
            self.output.error(&message, false);
        }
        if let Some(launch) = launch
            && launch.proved
            && !violations.is_empty()
        {
            let message = format!(
                "a launch of {} was proved to be in bounds, but the check of site {} in module {:#018x} failed at \
                 {:#x}: this is an error of Ringfence, please report it, and run with --prove off until it is mended",
                launch.function.name, record.site, record.module, record.address
            );
            self.output.error(&message, true);
        }
        for violation in &mut violations {
            violation.rule = self.heap_rule(violation);
            let pointer = violation.pointer.unwrap_or(violation.address);
            if violation.rule == Rule::InvalidPointer && self.memory.was_freed(pointer) {
                violation.rule = Rule::UseAfterFree;
            }
            self.memory
                .read(|registry| findings::narrow(violation, registry));
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
        let in_heap = self.is_in_heap(violation.address);
        if violation.bounds.size == 0 && violation.looked_up && !in_heap {
            // The device knows what the registry knows. If the driver knows
            // more, the program did nothing wrong and Ringfence missed a call.
            let registered = self
                .memory
                .read(|registry| registry.holding(violation.address).is_some());
            if !registered && let Some(extent) = self.ask_driver(violation.address) {
                let message = format!(
                    "memory at {} ({} bytes) was allocated by a call that Ringfence does not hook; an access to it was \
                     held back before that was known, so results of this run may be wrong",
                    extent.base, extent.size
                );
                self.output.error(&message, false);
                return;
            }
        }
        let key = Key::Access(part.tag, violation.site.id, violation.rule);
        let Some(id) = self.findings.count(key) else {
            return;
        };
        let context = self
            .memory
            .look(|registry, _, leaving| findings::context(violation, registry, leaving));
        let mut finding = self.put_together(violation, context, record, part, launch);
        self.add_blocks(violation, &mut finding);
        self.publish(id, &finding);
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
            .then(|| self.functions.only_user_of(part.tag))
            .flatten();
        let callers = self.settings.num_callers_host;
        findings::finding(violation, context, record, launch, kernel, callers)
    }

    /// The host is about to make a call that breaks a rule. Call it on the
    /// program's thread: its stack tells one such call from another.
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
