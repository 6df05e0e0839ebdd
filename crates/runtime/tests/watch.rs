//! The guard on the CPU device, beside kernels that overwrite canaries. The
//! table is written by the tests themselves.

use driver::{Driver, SupportStream};
use emulate::Device;
use emulate::device::Launch;
use model::layout::canary::{CANARY_PINS, CANARY_TABLE, CanaryRecord};
use model::{
    AllocationKind, DeviceAddress, Extent, Finding, Protections, Relation, Rule, Settings,
};
use runtime::{Owner, Runtime, StreamName, Waits, WatchedLaunch};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

mod support;

/// Bytes of a canary in these tests.
const CANARY: u64 = 256;
const PATTERN: [u64; 2] = [0x1122_3344_5566_7788, 0x99aa_bbcc_ddee_ff02];

/// Stores a byte at a place, and stays until a word is not zero.
const VICTIM: &str = r#"
.version 7.8
.target sm_75
.address_size 64
.visible .entry victim(.param .u64 place, .param .u64 gate)
{
    .reg .pred %q;
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [place];
    ld.param.u64 %rd2, [gate];
    mov.u32 %r1, 65;
    st.global.u8 [%rd1], %r1;
again:
    ld.volatile.global.u32 %r2, [%rd2];
    setp.eq.u32 %q, %r2, 0;
    @%q bra again;
    ret;
}
"#;

/// The table lies at a fixed address, so a process has one.
struct Bench {
    device: Arc<Device>,
    runtime: Arc<Runtime>,
    victim: u64,
    session: tempfile::TempDir,
    slots: u64,
}

static BENCH: LazyLock<Mutex<Bench>> = LazyLock::new(|| Mutex::new(Bench::new()));

/// A buffer with canaries, and its slot.
#[derive(Clone, Copy)]
struct Buffer {
    base: u64,
    size: u64,
    slot: u64,
}

impl Bench {
    fn new() -> Bench {
        let device = support::device(2, 3);
        let session = tempfile::tempdir().unwrap();
        let settings = Settings {
            protect: Protections {
                bounds: true,
                canary: false,
                watch: true,
            },
            watch_slice: Duration::from_millis(20),
            session: Some(session.path().to_path_buf()),
            log_file: Some(session.path().join("log").display().to_string()),
            ..Settings::default()
        };
        let runtime = Runtime::new(settings, device.clone()).unwrap();
        for at in [CANARY_TABLE, CANARY_PINS & !((2 << 20) - 1)] {
            device.map_fixed(DeviceAddress(at), 2 << 20).unwrap();
        }
        let module = device.load_support(VICTIM).unwrap().handle;
        let victim = device.function(module, "victim").unwrap();
        runtime.function_resolved(victim, module, "victim", None);
        Bench {
            device,
            runtime,
            victim,
            session,
            slots: 0,
        }
    }

    fn allocate(&self, size: u64) -> u64 {
        let kind = AllocationKind::Device;
        self.device.allocate(size, kind, 0).unwrap().0
    }

    /// Words that are zero.
    fn words(&self) -> u64 {
        let words = self.allocate(256);
        self.device.write(DeviceAddress(words), &[0; 256]).unwrap();
        words
    }

    /// A buffer of the program with canaries, in a slot of its own.
    fn buffer(&mut self, size: u64) -> Buffer {
        let start = self.allocate(size + 2 * CANARY);
        let buffer = Buffer {
            base: start + CANARY,
            size,
            slot: self.slots,
        };
        let context = self.device.current_context();
        let extent = Extent {
            base: DeviceAddress(buffer.base),
            size,
        };
        let owner = Owner {
            context,
            ..Owner::default()
        };
        self.runtime
            .allocated_by(AllocationKind::Device, extent, owner);
        let pattern: Vec<u8> = PATTERN.iter().flat_map(|word| word.to_le_bytes()).collect();
        // Sizes in these tests are multiples of the pattern's period, or not:
        // the byte at an address is that at the address modulo 16.
        let canary = |at: u64| -> Vec<u8> {
            (at..at + CANARY)
                .map(|address| pattern[(address % 16) as usize])
                .collect()
        };
        for at in [start, buffer.base + size] {
            self.device.write(DeviceAddress(at), &canary(at)).unwrap();
        }
        let record = CanaryRecord {
            base: buffer.base,
            size,
            serial: 100 + buffer.slot,
            before: CANARY as u32,
            after: CANARY as u32,
            pattern: PATTERN,
            context,
            check: 0,
        };
        self.slots += 1;
        self.runtime.watch().table_slots(self.slots);
        self.enter(buffer.slot, record.sealed());
        buffer
    }

    fn enter(&self, slot: u64, record: CanaryRecord) {
        let words = [
            record.base,
            record.size,
            record.serial,
            u64::from(record.before) | u64::from(record.after) << 32,
            record.pattern[0],
            record.pattern[1],
            record.context,
            record.check,
        ];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let place = DeviceAddress(CANARY_TABLE + slot * 64);
        self.device.write(place, &bytes).unwrap();
    }

    fn remove(&self, slot: u64) {
        self.enter(slot, CanaryRecord::default());
    }

    fn watched(&self, stream: u64) -> WatchedLaunch {
        WatchedLaunch {
            name: StreamName::Made(stream),
            stream: SupportStream::Program {
                handle: stream,
                per_thread: false,
            },
            context: self.device.current_context(),
            function: Some(self.victim),
        }
    }

    /// Launches the victim as the shim does.
    fn launch(&self, place: u64, gate: u64, stream: u64) {
        let watched = self.watched(stream);
        self.runtime.watch().launching(&watched);
        let mut parameters = place.to_le_bytes().to_vec();
        parameters.extend(gate.to_le_bytes());
        let launch = Launch {
            function: self.victim,
            grid: [1; 3],
            block: [1; 3],
            parameters,
            ..Launch::default()
        };
        self.device.launch(launch, stream).unwrap();
        self.runtime.watch().launched(&watched);
    }

    fn open(&self, gate: u64) {
        self.device
            .write(DeviceAddress(gate), &1u32.to_le_bytes())
            .unwrap();
    }

    fn findings(&self) -> Vec<Finding> {
        support::findings(self.session.path())
    }

    /// Waits for the finding of a buffer.
    fn finding(&self, buffer: Buffer) -> Option<Finding> {
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end {
            let found = self.findings().into_iter().find(|finding| {
                finding
                    .intended
                    .as_ref()
                    .is_some_and(|near| near.allocation.extent.base == DeviceAddress(buffer.base))
            });
            if found.is_some() {
                return found;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    fn synchronize(&self) {
        let _paused = self.runtime.watch().pause(Waits::ForAll);
        self.device.synchronize().unwrap();
    }
}

fn bench() -> std::sync::MutexGuard<'static, Bench> {
    let bench = BENCH.lock().unwrap_or_else(PoisonError::into_inner);
    support::make_current(&bench.device);
    bench
}

#[test]
fn a_write_past_the_end_is_found_while_the_kernel_runs() {
    let mut bench = bench();
    let (gate, buffer) = (bench.words(), bench.buffer(1000));
    let whole = bench.buffer(64);
    let stream = bench.device.stream_create(1, 0).unwrap();
    bench.launch(buffer.base + buffer.size + 3, gate, stream);
    let finding = bench.finding(buffer).expect("the guard sees it");
    let run = finding.kernel_run().unwrap();
    let watched = run.watched.clone().expect("seen by the guard");
    assert_eq!(finding.rule, Rule::CanaryOverwritten);
    assert_eq!(run.kernel, "victim");
    assert_eq!(
        (
            run.overwritten.bytes,
            run.overwritten.farthest,
            &run.overwritten.found[..]
        ),
        (1, 3, &[65][..])
    );
    assert_eq!(
        finding.intended.unwrap().relation,
        Relation::After(3),
        "the distance"
    );
    assert_eq!(watched.running.len(), 1);
    assert_eq!(watched.running[0].unfinished, Some(true));
    assert_ne!(watched.device_time, 0);
    bench.open(gate);
    bench.synchronize();
    // It was set right.
    let mut byte = [0];
    let place = buffer.base + buffer.size + 3;
    bench.device.read(DeviceAddress(place), &mut byte).unwrap();
    assert_ne!(byte[0], 65);
    bench.remove(buffer.slot);
    bench.remove(whole.slot);
}

#[test]
fn what_was_written_just_before_the_end_is_found_by_the_synchronization() {
    let mut bench = bench();
    let (gate, buffer) = (bench.words(), bench.buffer(320));
    bench.open(gate);
    let stream = bench.device.stream_create(1, 0).unwrap();
    bench.launch(buffer.base - 2, gate, stream);
    bench.synchronize();
    let found = bench.findings().into_iter().any(|finding| {
        let kernel = finding.kernel_run().map(|run| run.kernel.clone());
        let victim = kernel.as_deref() == Some("victim");
        victim
            && finding.intended.is_some_and(|near| {
                near.allocation.extent.base == DeviceAddress(buffer.base)
                    && near.relation == Relation::Before(2)
            })
    });
    assert!(found, "told before the synchronization returns");
    bench.remove(buffer.slot);
}

#[test]
fn a_wait_for_the_device_that_nobody_pauses_for_ends_with_the_slice() {
    let mut bench = bench();
    let (gate, buffer) = (bench.words(), bench.buffer(512));
    let stream = bench.device.stream_create(1, 0).unwrap();
    bench.open(gate);
    bench.launch(buffer.base, gate, stream);
    let began = Instant::now();
    bench.device.synchronize().unwrap();
    assert!(began.elapsed() < Duration::from_secs(10));
    bench.synchronize();
    bench.remove(buffer.slot);
}

#[test]
fn kernels_that_outlast_slices_stay_watched() {
    let mut bench = bench();
    let (gate, first) = (bench.words(), bench.buffer(128));
    let stream = bench.device.stream_create(1, 0).unwrap();
    bench.launch(first.base, gate, stream);
    // Several slices of 20 ms.
    std::thread::sleep(Duration::from_millis(120));
    let place = DeviceAddress(first.base + first.size);
    bench.device.write(place, &[7]).unwrap();
    assert!(bench.finding(first).is_some());
    bench.open(gate);
    bench.synchronize();
    bench.remove(first.slot);
}

#[test]
fn what_belongs_to_another_context_is_not_read() {
    let mut bench = bench();
    let (gate, buffer) = (bench.words(), bench.buffer(128));
    bench.remove(buffer.slot);
    let record = CanaryRecord {
        base: 0x1000,
        size: 64,
        serial: 1,
        before: 64,
        after: 64,
        pattern: PATTERN,
        context: 0xdead,
        check: 0,
    };
    bench.enter(buffer.slot, record.sealed());
    let torn = CanaryRecord {
        size: 65,
        context: bench.device.current_context(),
        ..record.sealed()
    };
    let other = bench.buffer(64);
    bench.enter(other.slot, torn);
    let stream = bench.device.stream_create(1, 0).unwrap();
    bench.launch(buffer.base, gate, stream);
    std::thread::sleep(Duration::from_millis(30));
    bench.open(gate);
    // Reading there would have been a fault of the device.
    bench.synchronize();
    bench.remove(buffer.slot);
    bench.remove(other.slot);
}
