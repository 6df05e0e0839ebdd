//! Modules and kernels: what is loaded for them, and the handles that the
//! program gets.

use crate::env::{Env, StartError};
use crate::functions::{Counts, Function, Functions};
use crate::kernel::{Kernel, Resolved};
use crate::launches::Launches;
use crate::metadata::Metadata;
use crate::plan::{ModulePart, ModulePlan, PartPlan, Prepared};
use crate::prepare::{self, Wanted};
use crate::proof::Answers;
use crate::seen::Seen;
use cache::Cache;
use model::{Coverage, DeviceKind, UncheckedReason};
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};

/// The modules that the program has loaded, and their kernels. All methods may
/// be called from any thread.
pub struct Modules {
    env: Arc<Env>,
    metadata: Arc<Metadata>,
    /// Their launches are counted in [`Functions`] when they are settled.
    launches: Arc<Launches>,
    /// Where instrumented modules are kept for the next process.
    cache: Option<Cache>,
    /// What is to be done to them.
    wanted: OnceLock<Wanted>,
    /// By handle.
    loaded: RwLock<FxHashMap<u64, Arc<ModulePlan>>>,
    /// The instrumented texts of the process, by tag; those of unloaded modules,
    /// too.
    parts: RwLock<FxHashMap<u64, Arc<PartPlan>>>,
    functions: Functions,
}

impl Modules {
    /// Fails if the folder of `--cache-dir` cannot be used.
    pub(crate) fn new(
        env: Arc<Env>,
        metadata: Arc<Metadata>,
        launches: Arc<Launches>,
    ) -> Result<Modules, StartError> {
        let settings = env.settings();
        let folder = settings.cache_dir.as_deref().filter(|_| settings.check);
        let cache = folder.map(|folder| Cache::open(folder, settings.cache_size));
        Ok(Modules {
            cache: cache.transpose()?,
            env,
            metadata,
            launches,
            wanted: OnceLock::new(),
            loaded: RwLock::default(),
            parts: RwLock::default(),
            functions: Functions::default(),
        })
    }

    /// What the folder of instrumented modules has done, if there is one.
    pub fn cache_counts(&self) -> Option<&cache::Counts> {
        self.cache.as_ref().map(Cache::counts)
    }

    /// Says what is to be done to modules, once.
    pub(crate) fn want(&self, wanted: Wanted) {
        self.wanted.get_or_init(|| wanted);
    }

    /// The instrumented text with this tag.
    pub(crate) fn part(&self, tag: u64) -> Option<Arc<PartPlan>> {
        self.parts.read().get(&tag).cloned()
    }

    /// A part by the low half of its tag, which is all that a block of the
    /// device heap remembers.
    pub(crate) fn part_by_half(&self, half: u32) -> Option<Arc<PartPlan>> {
        let parts = self.parts.read();
        parts.values().find(|part| part.tag as u32 == half).cloned()
    }

    /// The name of a kernel.
    pub(crate) fn name_of(&self, function: u64) -> Option<String> {
        Some(self.kernel(function)?.name().to_owned())
    }

    /// The program's handle of the kernel that a handle means, which may be that
    /// of its instrumented copy.
    pub(crate) fn program_handle(&self, handle: u64) -> Option<u64> {
        self.functions.original(handle)
    }

    /// See [`Functions::only_user_of`].
    pub(crate) fn only_user_of(&self, tag: u64) -> Option<String> {
        self.launches.settle();
        self.functions.only_user_of(tag)
    }

    /// Counts the launch of a handle that is not known.
    pub(crate) fn count_unknown(&self, reason: UncheckedReason) {
        self.functions.count_unknown(reason);
    }

    /// Every kernel that was launched so far.
    pub(crate) fn coverage(&self) -> Coverage {
        self.launches.settle();
        self.functions.coverage()
    }

    /// Decides what to load for a module. Several parts are linked together
    /// (`nvcc -rdc=true`).
    pub fn prepare(&self, parts: &[ModulePart<'_>]) -> Prepared {
        let capability = self
            .env
            .driver()
            .compute_capability()
            .map_err(|error| error.to_string());
        let launches_itself = self.env.driver().kind() == DeviceKind::Cpu;
        let wanted = self.wanted.get().copied().unwrap_or(Wanted::Nothing);
        let prepared = prepare::prepare(
            parts,
            capability,
            launches_itself,
            wanted,
            self.cache.as_ref(),
        );
        if let Some((UncheckedReason::NotInstrumentable | UncheckedReason::Failed, message)) =
            prepared.plan().unchecked()
        {
            self.env
                .error(&format!("a module runs without checks: {message}"), false);
        }
        prepared
    }

    /// The driver has loaded a prepared module under this handle.
    pub fn loaded(&self, module: u64, plan: Arc<ModulePlan>) {
        let mut parts = self.parts.write();
        for part in &plan.parts {
            // The same text loaded twice has the same tag and the same sites.
            parts.entry(part.tag).or_insert_with(|| part.clone());
        }
        drop(parts);
        if plan.uses_device_malloc() {
            self.metadata.allow_misses();
        }
        self.loaded.write().insert(module, plan);
    }

    /// The driver refused the instrumented text; the original will be loaded
    /// under the same plan.
    pub fn rejected(&self, plan: &ModulePlan, message: &str) {
        plan.reject(message.to_string());
        self.env.error(
            &format!("the driver refused the instrumented form of a module, which runs without checks: {message}"),
            false,
        );
    }

    /// The program is about to unload a module.
    pub fn unloading(&self, module: u64) {
        self.launches.settle();
        self.functions.unload(module);
        self.loaded.write().remove(&module);
    }

    /// The plan of a loaded module.
    pub fn plan(&self, module: u64) -> Option<Arc<ModulePlan>> {
        self.loaded.read().get(&module).cloned()
    }

    /// The program got a handle of a kernel.
    pub fn resolved(&self, resolved: Resolved<'_>) {
        let Resolved {
            handle,
            in_library,
            module,
            name,
            copies,
        } = resolved;
        // Programs resolve a kernel again and again; its counts must stay.
        if self.functions.knows(handle, module, name, copies) {
            return;
        }
        let plan = self.plan(module);
        let entry = plan.as_ref().and_then(|plan| plan.entry(name).cloned());
        let excluded = !self
            .env
            .settings()
            .selects_kernel(name, &report::demangle(name));
        // Another kernel may have had this handle.
        self.launches.settle();
        self.functions.insert(Function {
            handle,
            in_library,
            name: name.to_string(),
            module,
            copies,
            entry,
            plan,
            excluded,
            most_threads: Default::default(),
            limit_known: AtomicBool::new(false),
            stacks: AtomicU32::new(0),
            answers: Answers::default(),
            answers_of_part: Answers::default(),
            seen: Seen::default(),
            counts: Counts::default(),
        });
    }

    /// The kernel that the program has this handle of.
    pub fn kernel(&self, handle: u64) -> Option<Kernel> {
        self.functions.get(handle).map(Kernel)
    }

    /// The same, for a launch that begins ([`Runtime::begin_launch`]).
    ///
    /// [`Runtime::begin_launch`]: crate::Runtime::begin_launch
    #[inline]
    pub fn kernel_to_launch(&self, handle: u64) -> Option<Kernel> {
        self.functions.take(handle).map(Kernel)
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
}
