//! PTX in, findings out, in one process: instrumented by the runtime, executed
//! by the CPU device, drained and put into words. Each kernel has a bad launch
//! and a good one on the same buffers.

use driver::Driver;
use emulate::Device;
use emulate::device::Launch;
use model::{
    AccessKind, AllocationKind, DeviceAccess, DeviceAddress, Extent, Finding, HostFrame, Prove,
    Relation, Rule, Settings,
};
use runtime::{ModulePart, ModulePlan, Prepared, Runtime};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

#[path = "slice/fields.rs"]
mod fields;
#[path = "slice/random.rs"]
mod random;
mod support;

const PTX: &str = include_str!("slice.ptx");

/// The metadata lies at fixed addresses, so a process has one device.
struct Slice {
    device: Arc<Device>,
    runtime: Arc<Runtime>,
    module: u64,
    session: tempfile::TempDir,
}

static SLICE: LazyLock<Mutex<Slice>> = LazyLock::new(|| Mutex::new(Slice::new()));

impl Slice {
    fn new() -> Slice {
        let device = support::device(2, 1);
        let session = tempfile::tempdir().unwrap();
        let settings = Settings {
            session: Some(session.path().to_path_buf()),
            log_file: Some(session.path().join("log").display().to_string()),
            // What is proved runs checked; a finding there is an error.
            prove: Prove::Verify,
            ..Settings::default()
        };
        let driver: Arc<dyn Driver> = device.clone();
        let runtime = Runtime::new(settings, driver).unwrap();
        let mut slice = Slice {
            device,
            runtime,
            module: 0,
            session,
        };
        slice.load();
        slice
    }

    /// Loads the module, as the shim does; contexts take modules with them.
    fn load(&mut self) {
        self.module = self.load_text(PTX);
    }

    fn load_text(&self, text: &str) -> u64 {
        self.load_planned(text).0
    }

    fn load_planned(&self, text: &str) -> (u64, Arc<ModulePlan>) {
        let prepared = self.runtime.modules().prepare(&[ModulePart::Ptx(text)]);
        let Prepared::Instrumented { ptx, plan } = prepared else {
            panic!("not instrumented: {:?}", prepared.plan().unchecked());
        };
        let parts: Vec<&str> = ptx.iter().map(String::as_str).collect();
        let module = self.device.load_module(&parts).unwrap();
        self.runtime.modules().loaded(module, plan.clone());
        for name in plan.variables() {
            let extent = self.device.variable(module, name).unwrap();
            self.runtime.allocations().variable_resolved(name, extent);
        }
        (module, plan)
    }

    /// A buffer of bytes, the program's size registered, the padded one asked
    /// for.
    fn buffer(&self, size: u64) -> u64 {
        let kind = AllocationKind::Device;
        let base = self
            .device
            .allocate(self.runtime.allocations().padded_size(size), kind, 0)
            .unwrap();
        self.runtime
            .allocations()
            .allocated(kind, Extent { base, size });
        base.0
    }

    fn read(&self, address: u64, words: usize) -> Vec<u32> {
        let mut bytes = vec![0; words * 4];
        Driver::read(&*self.device, DeviceAddress(address), &mut bytes).unwrap();
        bytes
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect()
    }

    /// Launches a kernel on `threads` threads in blocks of at most 32, as the
    /// shim does, and waits. Returns the findings that are new.
    fn launch(&self, kernel: &str, threads: u32, parameters: &[u64]) -> Vec<Finding> {
        let shape = Launch {
            grid: [threads.div_ceil(32), 1, 1],
            block: [threads.min(32), 1, 1],
            ..Launch::default()
        };
        self.launch_in(self.module, kernel, shape, parameters)
    }

    /// As [`Slice::launch`], of any module and shape.
    fn launch_in(
        &self,
        module: u64,
        kernel: &str,
        shape: Launch,
        parameters: &[u64],
    ) -> Vec<Finding> {
        let before = self.findings().len();
        let bytes: Vec<u8> = parameters
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        support::launch(&self.device, &self.runtime, module, kernel, shape, &bytes);
        self.findings().split_off(before)
    }

    fn findings(&self) -> Vec<Finding> {
        support::findings(self.session.path())
    }
}

fn with(test: impl FnOnce(&mut Slice)) {
    let mut slice = SLICE.lock().unwrap_or_else(PoisonError::into_inner);
    support::make_current(&slice.device);
    test(&mut slice);
}

fn names(frames: &[HostFrame]) -> String {
    let names: Vec<&str> = frames.iter().map(|frame| frame.function.as_str()).collect();
    names.join("\n")
}

fn access(finding: &Finding) -> &DeviceAccess {
    finding.access().expect("a kernel did it")
}

fn one(findings: Vec<Finding>) -> Finding {
    assert_eq!(findings.len(), 1, "{findings:#?}");
    findings.into_iter().next().unwrap()
}

#[test]
fn a_write_past_the_end_goes_to_the_sink_and_is_reported() {
    with(|slice| {
        let (a, b) = (slice.buffer(64 * 4), slice.buffer(64 * 4));
        assert_eq!(slice.launch("fill", 64, &[a, 7]), []);
        assert_eq!(slice.launch("fill", 64, &[b, 9]), []);
        let finding = one(slice.launch("fill", 96, &[a, 8]));
        assert_eq!(
            (finding.rule, access(&finding).width),
            (Rule::GlobalOutOfBoundsWrite, 4)
        );
        assert_eq!(
            finding.address.0,
            a + 256 + (u64::from(access(&finding).thread.thread[0]) * 4)
        );
        assert_eq!(access(&finding).thread.block, [2, 0, 0]);
        assert_eq!(
            access(&finding).source.as_ref().map(|source| source.line),
            Some(12)
        );
        let intended = finding.intended.as_ref().unwrap();
        assert_eq!(
            intended.allocation.extent,
            Extent {
                base: DeviceAddress(a),
                size: 256
            }
        );
        assert!(
            names(&intended.allocated_at).contains("buffer"),
            "{:?}",
            intended.allocated_at
        );
        assert!(
            names(&access(&finding).launched_at).contains("launch"),
            "{:?}",
            access(&finding).launched_at
        );
        // What is in bounds was done, what is not changed no memory.
        assert_eq!(slice.read(a, 64), [8; 64]);
        assert_eq!(slice.read(b, 64), [9; 64]);
    });
}

#[test]
fn an_access_into_another_live_buffer_names_both() {
    with(|slice| {
        let (a, b) = (slice.buffer(16), slice.buffer(16));
        Driver::fill(&*slice.device, DeviceAddress(b), 0, 4).unwrap();
        let finding = one(slice.launch("store_at", 1, &[a, b.wrapping_sub(a)]));
        assert_eq!(finding.intended.unwrap().allocation.extent.base.0, a);
        let nearest = finding.nearest.unwrap();
        assert_eq!(
            (nearest.allocation.extent.base.0, nearest.relation),
            (b, Relation::Inside(0))
        );
        assert_eq!(slice.read(b, 1), [0]);
        assert_eq!(slice.launch("store_at", 1, &[a, 12]), []);
        assert_eq!(slice.launch("store_at", 1, &[a + 12, 0]), []);
    });
}

#[test]
fn pointers_loaded_from_memory_are_looked_up() {
    with(|slice| {
        let (table, data) = (slice.buffer(16), slice.buffer(8));
        let words: Vec<u8> = [data, 0]
            .iter()
            .flat_map(|word: &u64| word.to_le_bytes())
            .collect();
        Driver::write(&*slice.device, DeviceAddress(table), &words).unwrap();
        assert_eq!(slice.launch("through_table", 1, &[table, 4]), []);
        let finding = one(slice.launch("through_table", 1, &[table, 8]));
        assert_eq!(
            (finding.rule, access(&finding).kind),
            (Rule::GlobalOutOfBoundsAtomic, AccessKind::Atomic)
        );
        let intended = finding.intended.as_ref().unwrap();
        assert_eq!(
            (intended.allocation.extent.base.0, intended.relation),
            (data, Relation::After(0))
        );
        // The second entry of the table is null.
        let finding = one(slice.launch("through_table", 1, &[table + 8, 0]));
        assert_eq!(finding.rule, Rule::InvalidPointer);
        // A freed buffer is no longer found, and its history is.
        slice.runtime.allocations().freeing(DeviceAddress(data));
        slice.device.free(DeviceAddress(data)).unwrap();
        slice.launch("through_table", 1, &[table, 0]);
    });
}

#[test]
fn device_functions_and_variables_are_checked() {
    with(|slice| {
        let a = slice.buffer(32);
        assert_eq!(slice.launch("calls", 8, &[a]), []);
        let finding = one(slice.launch("calls", 9, &[a]));
        // Which of the kernels called it, the record does not say.
        assert_eq!(access(&finding).function, "load");
        assert_eq!(finding.rule, Rule::GlobalOutOfBoundsRead);
        assert_eq!(slice.launch("variable", 4, &[]), []);
        let finding = one(slice.launch("variable", 5, &[]));
        let intended = finding.intended.unwrap().allocation;
        assert_eq!(
            (intended.kind, intended.name.as_deref()),
            (AllocationKind::Variable, Some("table"))
        );
    });
}

#[test]
fn vectors_and_groups_are_exact_at_the_edge() {
    with(|slice| {
        let a = slice.buffer(32);
        assert_eq!(slice.launch("vector", 2, &[a]), []);
        let finding = one(slice.launch("vector", 2, &[a + 16]));
        assert_eq!(
            (access(&finding).width, access(&finding).kind),
            (16, AccessKind::Read)
        );
        assert_eq!(slice.launch("pair", 1, &[a + 24]), []);
        let finding = one(slice.launch("pair", 1, &[a + 28]));
        assert_eq!((finding.address.0, access(&finding).width), (a + 32, 4));
    });
}

#[test]
fn freed_and_null_parameters() {
    with(|slice| {
        let a = slice.buffer(128);
        slice.runtime.allocations().freeing(DeviceAddress(a));
        slice.device.free(DeviceAddress(a)).unwrap();
        let finding = one(slice.launch("freed", 1, &[a, 64]));
        assert_eq!(finding.rule, Rule::UseAfterFree);
        let intended = finding.intended.as_ref().unwrap();
        assert!(intended.freed && !intended.freed_at.is_empty());
        assert_eq!(intended.relation, Relation::Inside(64));
        let coverage = slice.runtime.ending().coverage();
        assert_eq!(coverage.kernels["freed"].checked, 1);
        assert!(
            coverage
                .kernels
                .values()
                .all(|kernel| kernel.unchecked.is_empty())
        );
    });
}

#[test]
fn findings_arrive_after_the_context_was_reset() {
    with(|slice| {
        slice.device.primary_reset().unwrap();
        slice.runtime.context_gone(None);
        let context = slice.device.primary_retain().unwrap();
        slice.device.context_set(context).unwrap();
        slice.load();
        let a = slice.buffer(16);
        let finding = one(slice.launch("after_reset", 5, &[a]));
        assert_eq!(finding.address.0, a + 16);
    });
}
