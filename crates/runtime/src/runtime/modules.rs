//! Modules and kernels: what is loaded for them, and the handles that the
//! program gets.

use super::Runtime;
use crate::functions::{Counts, Function};
use crate::kernel::{Kernel, Resolved};
use crate::plan::{ModulePart, ModulePlan, Prepared};
use crate::prepare::{self, Wanted};
use crate::proof::Answers;
use crate::seen::Seen;
use model::{DeviceKind, UncheckedReason};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

impl Runtime {
    /// Decides what to load for a module. Several parts are linked together
    /// (`nvcc -rdc=true`).
    pub fn prepare_module(&self, parts: &[ModulePart<'_>]) -> Prepared {
        let capability = self
            .driver
            .compute_capability()
            .map_err(|error| error.to_string());
        let launches_itself = self.driver.kind() == DeviceKind::Cpu;
        let wanted = Wanted::by(&self.settings);
        let prepared = prepare::prepare(parts, capability, launches_itself, wanted);
        if let Some((UncheckedReason::NotInstrumentable | UncheckedReason::Failed, message)) =
            prepared.plan().unchecked()
        {
            self.output
                .error(&format!("a module runs without checks: {message}"), false);
        }
        prepared
    }

    /// The driver has loaded a prepared module under this handle.
    pub fn module_loaded(&self, module: u64, plan: Arc<ModulePlan>) {
        for part in &plan.parts {
            self.findings.add_part(part);
        }
        if plan.uses_device_malloc() {
            self.metadata.allow_misses();
        }
        self.modules.write().insert(module, plan);
    }

    /// The driver refused the instrumented text; the original will be loaded
    /// under the same plan.
    pub fn module_rejected(&self, plan: &ModulePlan, message: &str) {
        plan.reject(message.to_string());
        self.output.error(
            &format!("the driver refused the instrumented form of a module, which runs without checks: {message}"),
            false,
        );
    }

    /// The program is about to unload a module.
    pub fn module_unloading(&self, module: u64) {
        self.functions.unload(module);
        self.modules.write().remove(&module);
    }

    /// The plan of a loaded module.
    pub fn module_plan(&self, module: u64) -> Option<Arc<ModulePlan>> {
        self.modules.read().get(&module).cloned()
    }

    /// The program got a handle of a kernel.
    pub fn kernel_resolved(&self, resolved: Resolved<'_>) {
        let Resolved {
            handle,
            in_library,
            module,
            name,
            copy: checked,
        } = resolved;
        // Programs resolve a kernel again and again; its counts must stay.
        if self.functions.knows(handle, module, name, checked) {
            return;
        }
        let plan = self.module_plan(module);
        let entry = plan.as_ref().and_then(|plan| plan.entry(name).cloned());
        let excluded = !self.settings.selects_kernel(name, &report::demangle(name));
        self.functions.insert(Function {
            handle,
            in_library,
            name: name.to_string(),
            module,
            checked,
            entry,
            plan,
            excluded,
            checked_threads: AtomicU32::new(0),
            limit_known: AtomicBool::new(false),
            stacks: AtomicU32::new(0),
            answers: Answers::default(),
            seen: Seen::default(),
            counts: Counts::default(),
        });
    }

    /// The kernel that the program has this handle of.
    #[inline]
    pub fn kernel(&self, handle: u64) -> Option<Kernel> {
        self.functions.get(handle).map(Kernel)
    }

    /// The program's handle of the kernel that this instrumented copy is of.
    pub fn original_of(&self, copy: u64) -> Option<u64> {
        self.functions.of_copy(copy)
    }

    /// Every kernel of a library.
    pub fn library_kernels(&self) -> Vec<Kernel> {
        let kernels = self.functions.of_libraries().into_iter();
        kernels.map(Kernel).collect()
    }

    /// The name of a kernel.
    pub(crate) fn name_of(&self, function: u64) -> Option<String> {
        self.functions
            .get(function)
            .map(|function| function.name.clone())
    }
}
