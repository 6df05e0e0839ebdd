//! The runtime of one process: what the shim's hooks call.
//!
//! It makes the services, lower ones first, each from those that it uses, and
//! the list of the protections that are active; it connects the two. Its own
//! procedures are those that go across all services.

use crate::allocations::Allocations;
use crate::bounds::{self, Bounds};
use crate::canaries::{self, Canaries};
use crate::checked_copies::{self, Copies};
use crate::deep_stacks::DeepStacks;
use crate::device_heap::DeviceHeap;
use crate::ending::{self, Ending};
use crate::env::{Env, StartError};
use crate::failures::Failures;
use crate::frees::{self, Frees};
use crate::guarded::{Guarded, HeapCanaries};
use crate::host_calls::{self, HostCalls};
use crate::host_waits::{self, HostWaits};
use crate::launcher::{self, Launcher, Ticket};
use crate::launches::Launches;
use crate::lookups::Lookups;
use crate::memory::Memory;
use crate::metadata::Metadata;
use crate::modules::Modules;
use crate::pages::{self, Pages};
use crate::placements::Placements;
use crate::prepare::Wanted;
use crate::protection::{Protection, Protections};
use crate::records::{Reader, Records};
use crate::redzones::Surroundings;
use crate::reporter::Reporter;
use crate::request::LaunchRequest;
use crate::shadow::{self, Shadow};
use crate::streams::Streams;
use crate::violations::{self, Violations};
use crate::watch::{self, Watch};
use driver::Driver;
use model::Settings;
use model::layout::Record;
use std::sync::Arc;

/// What Ringfence knows and does in one process. All methods may be called
/// from any thread.
pub struct Runtime {
    env: Arc<Env>,
    memory: Arc<Memory>,
    streams: Arc<Streams>,
    metadata: Arc<Metadata>,
    lookups: Arc<Lookups>,
    allocations: Arc<Allocations>,
    deep_stacks: Arc<DeepStacks>,
    modules: Arc<Modules>,
    launches: Arc<Launches>,
    reporter: Arc<Reporter>,
    records: Arc<Records>,
    /// Makes findings of what the device records.
    _reader: Arc<dyn Reader>,
    device_heap: Arc<DeviceHeap>,
    failures: Arc<Failures>,
    watch: Arc<Watch>,
    canaries: Arc<Canaries>,
    placements: Placements,
    protections: Arc<Protections>,
    frees: Arc<Frees>,
    host_calls: Arc<HostCalls>,
    host_waits: HostWaits,
    launcher: Launcher,
    ending: Arc<Ending>,
}

/// The services below the protections.
struct Base {
    env: Arc<Env>,
    memory: Arc<Memory>,
    streams: Arc<Streams>,
    metadata: Arc<Metadata>,
    lookups: Arc<Lookups>,
    allocations: Arc<Allocations>,
    deep_stacks: Arc<DeepStacks>,
    modules: Arc<Modules>,
    launches: Arc<Launches>,
    reporter: Arc<Reporter>,
    records: Arc<Records>,
    device_heap: Arc<DeviceHeap>,
    failures: Arc<Failures>,
    watch: Arc<Watch>,
    canaries: Arc<Canaries>,
    shadow: Arc<Shadow>,
    copies: Arc<Copies>,
}

impl Base {
    fn new(settings: Settings, driver: Arc<dyn Driver>) -> Result<Base, StartError> {
        let env = Env::new(settings, driver)?;
        let settings = env.settings();
        let quarantine = match settings.check {
            true => settings.quarantine_size,
            false => 0,
        };
        let keeps_addresses = pages::Kind::of(settings).is_some();
        let memory = Arc::new(Memory::new(quarantine, keeps_addresses));
        let streams = Arc::new(Streams::default());
        let metadata = Arc::new(Metadata::new(env.clone()));
        let lookups = Lookups::new(env.clone(), memory.clone(), metadata.clone());
        let lookups = Arc::new(lookups);
        let allocations = Allocations::new(
            env.clone(),
            memory.clone(),
            streams.clone(),
            lookups.clone(),
        );
        let allocations = Arc::new(allocations);
        let deep_stacks = Arc::new(DeepStacks::new(env.clone()));
        let launches = Arc::new(Launches::new(env.clone()));
        let modules = Modules::new(env.clone(), metadata.clone(), launches.clone())?;
        let modules = Arc::new(modules);
        let reporter = Arc::new(Reporter::new(env.clone(), memory.clone()));
        let records = Records::new(env.clone(), metadata.clone());
        let device_heap = Arc::new(DeviceHeap::new(
            env.clone(),
            metadata.clone(),
            modules.clone(),
            launches.clone(),
            reporter.clone(),
        ));
        let failures = Arc::new(Failures::new(
            env.clone(),
            memory.clone(),
            modules.clone(),
            launches.clone(),
            records.clone(),
            reporter.clone(),
        ));
        let watch = Watch::new(watch::Below {
            env: env.clone(),
            memory: memory.clone(),
            metadata: metadata.clone(),
            modules: modules.clone(),
            launches: launches.clone(),
            reporter: reporter.clone(),
            records: records.clone(),
        });
        let canaries = Arc::new(Canaries::new(canaries::Below {
            env: env.clone(),
            memory: memory.clone(),
            allocations: allocations.clone(),
            metadata: metadata.clone(),
            launches: launches.clone(),
            reporter: reporter.clone(),
            records: records.clone(),
            watch: watch.clone(),
        }));
        let shadow = Shadow::new(shadow::Below {
            env: env.clone(),
            memory: memory.clone(),
            allocations: allocations.clone(),
            metadata: metadata.clone(),
        });
        let copies = Arc::new(Copies::new(checked_copies::Below {
            env: env.clone(),
            metadata: metadata.clone(),
            lookups: lookups.clone(),
            deep_stacks: deep_stacks.clone(),
            launches: launches.clone(),
            records: records.clone(),
        }));
        Ok(Base {
            env,
            memory,
            streams,
            metadata,
            lookups,
            allocations,
            deep_stacks,
            modules,
            launches,
            reporter,
            records,
            device_heap,
            failures,
            watch,
            canaries,
            shadow,
            copies,
        })
    }

    /// The protections that are active, after these. A new one has its line here.
    fn protections(&self, mut active: Vec<Arc<dyn Protection>>) -> Protections {
        if self.shadow.is_wanted() {
            active.push(self.shadow.clone());
        }
        if self.env.settings().protect.instruments() {
            active.push(Arc::new(self.bounds()));
        }
        if self.canaries.are_wanted() {
            active.push(self.canaries.clone());
        }
        if self.watch.is_wanted() {
            active.push(Arc::new(self.guarded()));
        }
        if let Some(kind) = pages::Kind::of(self.env.settings()) {
            let pages = Pages::new(self.env.clone(), self.shadow.clone(), kind);
            active.push(Arc::new(pages));
        }
        Protections::new(active)
    }

    fn bounds(&self) -> Bounds {
        Bounds::new(bounds::Below {
            env: self.env.clone(),
            memory: self.memory.clone(),
            allocations: self.allocations.clone(),
            streams: self.streams.clone(),
            records: self.records.clone(),
            heap: self.device_heap.clone(),
            copies: self.copies.clone(),
            shadow: self.shadow.clone(),
        })
    }

    fn guarded(&self) -> Guarded {
        let heap_canaries = HeapCanaries::new(
            self.env.clone(),
            self.metadata.clone(),
            self.launches.clone(),
            self.reporter.clone(),
            self.watch.clone(),
            self.device_heap.clone(),
        );
        Guarded::new(
            self.watch.clone(),
            heap_canaries,
            self.copies.clone(),
            self.records.clone(),
        )
    }

    fn reader(&self, protections: &Arc<Protections>) -> Arc<dyn Reader> {
        Arc::new(Readers {
            protections: protections.clone(),
            violations: Violations::new(violations::Below {
                env: self.env.clone(),
                memory: self.memory.clone(),
                allocations: self.allocations.clone(),
                modules: self.modules.clone(),
                launches: self.launches.clone(),
                heap: self.device_heap.clone(),
                reporter: self.reporter.clone(),
                shadow: self.shadow.clone(),
            }),
        })
    }

    fn frees(&self, protections: &Arc<Protections>) -> Frees {
        Frees::new(frees::Below {
            env: self.env.clone(),
            memory: self.memory.clone(),
            allocations: self.allocations.clone(),
            streams: self.streams.clone(),
            reporter: self.reporter.clone(),
            records: self.records.clone(),
            watch: self.watch.clone(),
            protections: protections.clone(),
        })
    }

    fn host_calls(&self, protections: &Arc<Protections>, frees: &Arc<Frees>) -> HostCalls {
        HostCalls::new(host_calls::Below {
            env: self.env.clone(),
            memory: self.memory.clone(),
            allocations: self.allocations.clone(),
            streams: self.streams.clone(),
            reporter: self.reporter.clone(),
            protections: protections.clone(),
            frees: frees.clone(),
        })
    }

    fn host_waits(&self, protections: &Arc<Protections>) -> HostWaits {
        HostWaits::new(host_waits::Below {
            env: self.env.clone(),
            memory: self.memory.clone(),
            launches: self.launches.clone(),
            streams: self.streams.clone(),
            protections: protections.clone(),
        })
    }

    fn placements(&self, protections: &Arc<Protections>) -> Placements {
        Placements::new(
            self.env.clone(),
            self.failures.clone(),
            protections.clone(),
            Surroundings::new(
                self.allocations.clone(),
                self.canaries.clone(),
                self.shadow.clone(),
            ),
        )
    }

    fn launcher(&self, protections: &Arc<Protections>) -> Launcher {
        Launcher::new(launcher::Below {
            env: self.env.clone(),
            memory: self.memory.clone(),
            modules: self.modules.clone(),
            launches: self.launches.clone(),
            streams: self.streams.clone(),
            lookups: self.lookups.clone(),
            records: self.records.clone(),
            copies: self.copies.clone(),
            protections: protections.clone(),
        })
    }
}

/// Makes findings of records: a protection that knows a record as its own, else
/// the sites of checks.
struct Readers {
    protections: Arc<Protections>,
    violations: Violations,
}

impl Reader for Readers {
    fn record(&self, record: &Record) {
        if !self.protections.any(|one| one.record(record)) {
            self.violations.record(record);
        }
    }
}

impl Runtime {
    /// Starts the runtime over a device. Nothing is mapped yet.
    ///
    /// # Errors
    ///
    /// A file that the settings name cannot be written.
    pub fn new(settings: Settings, driver: Arc<dyn Driver>) -> Result<Arc<Runtime>, StartError> {
        Runtime::with(settings, driver, Vec::new())
    }

    /// As [`Runtime::new`], with these protections beside those of the settings.
    pub(crate) fn with(
        settings: Settings,
        driver: Arc<dyn Driver>,
        more: Vec<Arc<dyn Protection>>,
    ) -> Result<Arc<Runtime>, StartError> {
        let base = Base::new(settings, driver)?;
        let protections = Arc::new(base.protections(more));
        let reader = base.reader(&protections);
        let frees = Arc::new(base.frees(&protections));
        let host_calls = Arc::new(base.host_calls(&protections, &frees));
        let ending = Arc::new(Ending::new(ending::Below {
            env: base.env.clone(),
            memory: base.memory.clone(),
            modules: base.modules.clone(),
            frees: frees.clone(),
            host_calls: host_calls.clone(),
            records: base.records.clone(),
            reporter: base.reporter.clone(),
            failures: base.failures.clone(),
            heap: base.device_heap.clone(),
            protections: protections.clone(),
        }));
        // Lower services call what stands above them only through these.
        base.allocations.connect(&protections);
        base.records.connect(Arc::downgrade(&reader));
        base.modules.want(match base.env.settings().check {
            true => protections.wanted(),
            false => Wanted::Nothing,
        });
        let at_halt = Arc::downgrade(&ending);
        base.reporter.before_halt(move || {
            if let Some(ending) = at_halt.upgrade() {
                ending.leave_totals();
            }
        });
        Ok(Arc::new(Runtime {
            host_waits: base.host_waits(&protections),
            placements: base.placements(&protections),
            launcher: base.launcher(&protections),
            env: base.env,
            memory: base.memory,
            streams: base.streams,
            metadata: base.metadata,
            lookups: base.lookups,
            allocations: base.allocations,
            deep_stacks: base.deep_stacks,
            modules: base.modules,
            launches: base.launches,
            reporter: base.reporter,
            records: base.records,
            _reader: reader,
            device_heap: base.device_heap,
            failures: base.failures,
            watch: base.watch,
            canaries: base.canaries,
            protections,
            frees,
            host_calls,
            ending,
        }))
    }

    /// The settings, the device, and where errors are reported.
    #[inline]
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The memory that the program has.
    pub fn allocations(&self) -> &Allocations {
        &self.allocations
    }

    /// The order of streams.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// The stacks of recursive kernels.
    pub fn deep_stacks(&self) -> &DeepStacks {
        &self.deep_stacks
    }

    /// The heap of device-side `malloc`.
    pub fn device_heap(&self) -> &DeviceHeap {
        &self.device_heap
    }

    /// The modules that the program has loaded, and their kernels.
    #[inline]
    pub fn modules(&self) -> &Modules {
        &self.modules
    }

    /// What happens when the device stops a kernel.
    pub fn failures(&self) -> &Failures {
        &self.failures
    }

    /// The guard that watches kernels while they run.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// The canaries around allocations.
    pub fn canaries(&self) -> &Canaries {
        &self.canaries
    }

    /// Where buffers lie, and what surrounds them.
    pub fn placements(&self) -> &Placements {
        &self.placements
    }

    /// Frees by the host.
    pub fn frees(&self) -> &Frees {
        &self.frees
    }

    /// Copies and memsets by the host.
    pub fn host_calls(&self) -> &HostCalls {
        &self.host_calls
    }

    /// What the host waits for.
    pub fn host_waits(&self) -> &HostWaits {
        &self.host_waits
    }

    /// Launches of graphs, and by calls that no [`Ticket`] is for.
    pub fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    /// How the process ends.
    pub fn ending(&self) -> &Ending {
        &self.ending
    }

    /// Decides what is launched for the program. Call it for every launch, and
    /// launch what [`Ticket::decision`] says.
    #[inline]
    pub fn begin_launch<'a>(&'a self, request: LaunchRequest<'a>) -> Ticket<'a> {
        self.ending.launching();
        self.launcher.begin(request)
    }

    /// The program waited for the device: whatever its kernels have found is
    /// reported before this returns.
    pub fn synchronized(&self) {
        self.records.synchronized();
        self.lookups.synchronized();
        self.protections.each(|one| one.synchronized());
        self.records.read();
        self.ending.leave_coverage();
    }

    /// The program has destroyed or reset a context, after
    /// [`Runtime::synchronized`]. `context`: which, if it is known; all that it
    /// allocated is gone with it. What Ringfence keeps on the device may be gone,
    /// too; the next launch finds out.
    pub fn context_gone(&self, context: Option<u64>) {
        if let Some(context) = context {
            let theirs = self.memory.context_gone(context, &self.env.stack());
            self.protections
                .each(|one| one.context_gone(context, &theirs));
            let could_free = |context| self.failures.could_free(context);
            self.reporter.leaks(&theirs, could_free);
            self.failures.context_gone(context);
            self.deep_stacks.context_gone(context);
            let recent = self.launches.recent();
            recent.over(|of, _| of == context);
            self.metadata.forget_heap_of(context);
        }
        self.metadata.doubt();
        self.protections.each(|one| one.context_destroyed());
    }
}
