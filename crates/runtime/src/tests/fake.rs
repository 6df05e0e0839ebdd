//! The runtime over a fake device, with a kernel to launch.

mod device;

pub use device::{CONTEXT, Fake};

use crate::protection::Protection;
use crate::{
    KernelCopies, LaunchDecision, LaunchRequest, LaunchShape, ModulePlan, Resolved, Runtime,
    Ticket, Where,
};
use instrument::{EntryPlan, Instrumented, Obstacle, ParameterSlot, Reason};
use model::layout::Record;
use model::{
    AccessKind, AccessSite, DeviceAddress, Extent, KernelCoverage, Provenance, Settings, SiteId,
    SourceLocation, Space,
};
use report::session::{Process, read_processes};
use std::sync::Arc;

pub const TAG: u64 = 0x1234_5678_9abc_def0;
pub const MODULE: u64 = 0x10;
pub const KERNEL: u64 = 0x20;
pub const COPY: u64 = 0x21;
pub const NAME: &str = "_Z5scalePfS_";
/// How kernels are launched here.
pub const SHAPE: LaunchShape = LaunchShape {
    grid: [1; 3],
    block: [256, 1, 1],
    shared: 0,
};

pub fn site(id: u32, group: u32, offset: i64, provenance: Provenance) -> AccessSite {
    AccessSite {
        width_at_run_time: false,
        id: SiteId(id),
        function: NAME.into(),
        kind: AccessKind::Write,
        space: Space::Global,
        width: 4,
        alignment: 4,
        skipped: 0,
        offset,
        is_wide: false,
        group: SiteId(group),
        provenance,
        object: None,
        source: Some(SourceLocation {
            file: "demo.cu".into(),
            line: 10 + id,
            column: 1,
            inlined_at: None,
        }),
        ptx_line: 20 + id,
        instruction: "st.global.f32 [%rd1], %f1;".into(),
    }
}

/// A kernel of two pointers: site 1 and 2 share the check of the first, site 3
/// has the second, site 4 looks its pointer up if `lookups`.
pub fn module(lookups: bool) -> Instrumented {
    let mut sites = vec![
        site(1, 1, 0, Provenance::KernelParameter { offset: 0 }),
        site(2, 1, 4, Provenance::KernelParameter { offset: 0 }),
        site(3, 3, 0, Provenance::KernelParameter { offset: 8 }),
    ];
    sites[2].kind = AccessKind::Read;
    if lookups {
        sites.push(site(4, 4, 0, Provenance::Lookup));
    }
    let entry = EntryPlan {
        takes_window: false,
        name: NAME.into(),
        checked_name: Some(format!("__ringfence_checked_{NAME}")),
        parameters: vec![
            ParameterSlot { offset: 0, size: 8 },
            ParameterSlot { offset: 8, size: 8 },
        ],
        parameter_bytes: 16,
        launch_parameter: Some(ParameterSlot {
            offset: 16,
            size: 40,
        }),
        roots: vec![0, 8],
        limits: Vec::new(),
        indices: Vec::new(),
        coverage: KernelCoverage {
            exact_sites: sites.len() as u32,
            ..KernelCoverage::default()
        },
        uses_device_malloc: false,
        proof: Err(Obstacle {
            reason: Reason::Address,
            line: None,
        }),
        residual: None,
    };
    Instrumented {
        text: String::new(),
        tag: TAG,
        sites,
        lost: Vec::new(),
        entries: vec![entry],
        variables: Vec::new(),
        uses_device_heap: false,
        stack_is_unknown: false,
        device_runtime: None,
        shadow: None,
    }
}

pub struct Bench {
    pub runtime: Arc<Runtime>,
    pub device: Arc<Fake>,
    directory: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Bench {
        Bench::with(Settings::default(), Fake::default(), module(false))
    }

    pub fn with(settings: Settings, device: Fake, module: Instrumented) -> Bench {
        Bench::with_protections(settings, device, module, Vec::new())
    }

    /// With protections that no setting asks for.
    pub fn with_protections(
        mut settings: Settings,
        device: Fake,
        module: Instrumented,
        more: Vec<Arc<dyn Protection>>,
    ) -> Bench {
        let directory = tempfile::tempdir().unwrap();
        settings.session = Some(directory.path().to_path_buf());
        settings.log_file = Some(directory.path().join("log").display().to_string());
        let device = Arc::new(device);
        let runtime = Runtime::with(settings, device.clone(), more).unwrap();
        runtime
            .modules()
            .loaded(MODULE, Arc::new(ModulePlan::instrumented(vec![module])));
        runtime
            .modules()
            .resolved(resolved(KERNEL, MODULE, NAME, Some(COPY)));
        Bench {
            runtime,
            device,
            directory,
        }
    }

    /// Launches the kernel in an unknown stream.
    pub fn launch(&self, first: u64, second: u64) -> LaunchDecision {
        self.begin(first, second, |ticket| {
            let decision = ticket.decision().clone();
            ticket.submitted(Where::Unknown);
            decision
        })
    }

    /// A launch of the kernel with these pointers, and what becomes of it.
    pub fn begin<T>(&self, first: u64, second: u64, end: impl FnOnce(Ticket<'_>) -> T) -> T {
        let read = |_: &EntryPlan, offset, _| match offset {
            0 => Some(first),
            8 => Some(second),
            _ => None,
        };
        end(self.begin_of(KERNEL, &read))
    }

    /// A launch of any kernel.
    pub fn begin_of<'a>(
        &'a self,
        function: u64,
        read: &'a dyn Fn(&EntryPlan, u32, u8) -> Option<u64>,
    ) -> Ticket<'a> {
        self.runtime.begin_launch(LaunchRequest {
            function,
            kernel: self.runtime.modules().kernel_to_launch(function),
            shape: &SHAPE,
            stream: None,
            read,
        })
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    pub fn events(&self) -> String {
        std::fs::read_to_string(
            self.directory
                .path()
                .join(format!("{}.jsonl", std::process::id())),
        )
        .unwrap()
    }

    /// What the command would read.
    pub fn process(&self) -> Process {
        let mut processes = read_processes(&self.events());
        assert_eq!(processes.len(), 1);
        processes.remove(0)
    }
}

/// A function that the program got.
pub fn resolved(handle: u64, module: u64, name: &str, copy: Option<u64>) -> Resolved<'_> {
    Resolved {
        handle,
        in_library: false,
        module,
        name,
        copies: KernelCopies {
            checked: copy,
            residual: None,
        },
    }
}

pub fn extent(base: u64, size: u64) -> Extent {
    Extent {
        base: DeviceAddress(base),
        size,
    }
}

pub fn record(site: u32, address: u64, launch: u64) -> Record {
    Record {
        module: TAG,
        address,
        launch,
        site,
        thread: 3 | 2 << 10 | 1 << 20,
        block_x: 7,
        block_yz: 6 | 5 << 16,
        ..Record::default()
    }
}
