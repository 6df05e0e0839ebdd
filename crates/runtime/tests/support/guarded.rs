//! The guard on the CPU device: buffers with canaries, whose table is written
//! by hand, and a kernel that overwrites some.

use driver::{Driver, SupportStream};
use emulate::Device;
use emulate::device::Launch;
use model::layout::canary::{CANARY_PINS, CANARY_TABLE, CanaryRecord};
use model::{AllocationKind, DeviceAddress, Extent, Finding, Protections, Settings};
use runtime::{KernelCopies, Owner, Resolved, Runtime, StreamName, Waits, WatchedLaunch};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a canary in these tests.
const CANARY: u64 = 256;
/// One period of their content.
pub const PATTERN: [u64; 2] = [0x1122_3344_5566_7788, 0x99aa_bbcc_ddee_ff02];

/// `victim` stores a byte at a place, and stays until a word is not zero; `late`
/// the other way round.
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
.visible .entry late(.param .u64 place, .param .u64 gate)
{
    .reg .pred %q;
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [place];
    ld.param.u64 %rd2, [gate];
    mov.u32 %r1, 65;
again:
    ld.volatile.global.u32 %r2, [%rd2];
    setp.eq.u32 %q, %r2, 0;
    @%q bra again;
    st.global.u8 [%rd1], %r1;
    ret;
}
"#;

/// The runtime with a guard, over the CPU device. The table lies at a fixed
/// address, so a process has one.
pub struct Bench {
    pub device: Arc<Device>,
    pub runtime: Arc<Runtime>,
    pub victim: u64,
    pub late: u64,
    pub session: tempfile::TempDir,
    pub slots: u64,
}

/// The process's bench, for one test at a time.
pub fn lock(bench: &'static Mutex<Bench>) -> MutexGuard<'static, Bench> {
    let bench = bench.lock().unwrap_or_else(PoisonError::into_inner);
    super::make_current(&bench.device);
    bench
}

/// A buffer with canaries, and its slot.
#[derive(Clone, Copy)]
pub struct Buffer {
    pub base: u64,
    pub size: u64,
    pub slot: u64,
}

impl Bench {
    pub fn new(slice: Duration) -> Bench {
        let device = super::device(2, 3);
        let session = tempfile::tempdir().unwrap();
        let settings = Settings {
            protect: Protections {
                bounds: true,
                canary: false,
                watch: true,
                shadow: false,
                pages: false,
            },
            watch_slice: slice,
            session: Some(session.path().to_path_buf()),
            log_file: Some(session.path().join("log").display().to_string()),
            ..Settings::default()
        };
        let runtime = Runtime::new(settings, device.clone()).unwrap();
        for at in [CANARY_TABLE, CANARY_PINS & !((2 << 20) - 1)] {
            device.map_fixed(DeviceAddress(at), 2 << 20).unwrap();
        }
        let module = device.load_support(VICTIM).unwrap().handle;
        let [victim, late] = ["victim", "late"].map(|name| {
            let function = device.function(module, name).unwrap();
            runtime.modules().resolved(Resolved {
                handle: function,
                in_library: false,
                module,
                name,
                copies: KernelCopies::default(),
            });
            function
        });
        Bench {
            device,
            runtime,
            victim,
            late,
            session,
            slots: 0,
        }
    }

    pub fn allocate(&self, size: u64) -> u64 {
        let kind = AllocationKind::Device;
        self.device.allocate(size, kind, 0).unwrap().0
    }

    /// Words that are zero.
    pub fn words(&self) -> u64 {
        let words = self.allocate(256);
        self.device.write(DeviceAddress(words), &[0; 256]).unwrap();
        words
    }

    /// A buffer of the program with canaries, in a slot of its own.
    pub fn buffer(&mut self, size: u64) -> Buffer {
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
            .allocations()
            .allocated_by(AllocationKind::Device, extent, owner);
        let pattern: Vec<u8> = PATTERN.iter().flat_map(|word| word.to_le_bytes()).collect();
        // The byte at an address is that at the address modulo 16.
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

    pub fn enter(&self, slot: u64, record: CanaryRecord) {
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

    pub fn remove(&self, slot: u64) {
        self.enter(slot, CanaryRecord::default());
    }

    pub fn watched(&self, function: u64, stream: u64) -> WatchedLaunch {
        WatchedLaunch {
            name: StreamName::Made(stream),
            stream: SupportStream::Program {
                handle: stream,
                per_thread: false,
            },
            context: self.device.current_context(),
            function: Some(function),
        }
    }

    /// Launches the victim as the shim does.
    pub fn launch(&self, place: u64, gate: u64, stream: u64) {
        self.launch_kernel(self.victim, place, gate, stream);
    }

    pub fn launch_kernel(&self, function: u64, place: u64, gate: u64, stream: u64) {
        let watched = self.watched(function, stream);
        self.runtime.watch().launching(&watched);
        let mut parameters = place.to_le_bytes().to_vec();
        parameters.extend(gate.to_le_bytes());
        let launch = Launch {
            function,
            grid: [1; 3],
            block: [1; 3],
            parameters,
            ..Launch::default()
        };
        self.device.launch(launch, stream).unwrap();
        self.runtime.watch().launched(&watched);
    }

    pub fn open(&self, gate: u64) {
        self.device
            .write(DeviceAddress(gate), &1u32.to_le_bytes())
            .unwrap();
    }

    pub fn findings(&self) -> Vec<Finding> {
        super::findings(self.session.path())
    }

    /// The finding of a buffer, if it was reported.
    pub fn reported(&self, buffer: Buffer) -> Option<Finding> {
        self.findings().into_iter().find(|finding| {
            finding
                .intended
                .as_ref()
                .is_some_and(|near| near.allocation.extent.base == DeviceAddress(buffer.base))
        })
    }

    /// Waits for the finding of a buffer.
    pub fn finding(&self, buffer: Buffer) -> Option<Finding> {
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end {
            let found = self.reported(buffer);
            if found.is_some() {
                return found;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    pub fn synchronize(&self) {
        let _paused = self.runtime.watch().pause(Waits::ForAll);
        self.device.synchronize().unwrap();
    }
}
