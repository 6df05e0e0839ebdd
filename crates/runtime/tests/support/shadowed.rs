//! Shadow memory on the CPU device: loads of each width at every place around
//! buffers of many sizes, against an oracle that knows each byte. A load that
//! fails its check gets zero; no byte of the memory is zero.

use driver::Driver;
use emulate::Device;
use emulate::device::Launch;
use model::layout::shadow::Encoding;
use model::{
    AllocationKind, DeviceAddress, Extent, Protections, Prove, Rule, Settings, ShadowLoads,
};
use runtime::{Fill, FreeCall, FreeRequest, ModulePart, Owner, Prepared, Runtime};
use std::fmt::Write;
use std::sync::Arc;

/// The loads of a kernel: its name, the instructions from the address in `%rd4`
/// to a value in `%rd5`, and the bytes that they read, from where to where.
const LOADS: [(&str, &str, i64, i64, u64); 13] = [
    ("byte", "ld.global.u8 %rd5, [%rd4];", 0, 1, 1),
    ("half", "ld.global.u16 %rd5, [%rd4];", 0, 2, 2),
    ("word", "ld.u32 %rd5, [%rd4];", 0, 4, 4),
    ("long", "ld.global.u64 %rd5, [%rd4];", 0, 8, 8),
    (
        "vector",
        "ld.global.v2.u64 {%rd5, %rd6}, [%rd4]; and.b64 %rd5, %rd5, %rd6;",
        0,
        16,
        16,
    ),
    // Accesses that share a check, in one block or two.
    (
        "neighbours",
        "ld.global.u32 %rd5, [%rd4+-4]; ld.global.u32 %rd6, [%rd4]; and.b64 %rd5, %rd5, %rd6; \
         ld.global.u32 %rd6, [%rd4+4]; and.b64 %rd5, %rd5, %rd6;",
        -4,
        8,
        4,
    ),
    (
        "bytes",
        "ld.global.u8 %rd5, [%rd4]; ld.global.u8 %rd6, [%rd4+1]; and.b64 %rd5, %rd5, %rd6; \
         ld.global.u8 %rd6, [%rd4+2]; and.b64 %rd5, %rd5, %rd6;",
        0,
        3,
        1,
    ),
    (
        "far",
        "ld.global.u8 %rd5, [%rd4]; ld.global.u8 %rd6, [%rd4+100]; and.b64 %rd5, %rd5, %rd6;",
        0,
        101,
        1,
    ),
    // Most of a block, whose middle is not read; with an alignment, and without.
    (
        "wide",
        "ld.global.u32 %rd5, [%rd4]; ld.global.u32 %rd6, [%rd4+60]; and.b64 %rd5, %rd5, %rd6; \
         ld.global.v2.u32 {%rd6, %rd7}, [%rd4+112]; and.b64 %rd5, %rd5, %rd6; and.b64 %rd5, %rd5, %rd7;",
        0,
        120,
        8,
    ),
    (
        "whole",
        "ld.global.u8 %rd5, [%rd4]; ld.global.u8 %rd6, [%rd4+64]; and.b64 %rd5, %rd5, %rd6; \
         ld.global.u8 %rd6, [%rd4+127]; and.b64 %rd5, %rd5, %rd6;",
        0,
        128,
        1,
    ),
    // Accesses with a check each.
    (
        "two",
        "add.s64 %rd7, %rd4, 1; ld.global.u8 %rd5, [%rd4]; ld.global.u8 %rd6, [%rd7]; and.b64 %rd5, %rd5, %rd6;",
        0,
        2,
        1,
    ),
    (
        "several",
        "add.s64 %rd7, %rd4, 4; add.s64 %rd8, %rd7, 4; setp.ne.s64 %p1, %rd4, 0; ld.global.u32 %rd5, [%rd4]; \
         mov.b64 %rd6, 0; @%p1 ld.global.u32 %rd6, [%rd7]; and.b64 %rd5, %rd5, %rd6; ld.global.u32 %rd7, [%rd8]; \
         and.b64 %rd5, %rd5, %rd7;",
        0,
        12,
        4,
    ),
    (
        "guarded",
        "setp.ne.s64 %p1, %rd4, 0; mov.b64 %rd5, 1; @%p1 ld.global.u8 %rd5, [%rd4]; @!%p1 ld.global.u8 %rd5, [%rd4];",
        0,
        1,
        1,
    ),
];

/// Sizes whose ends lie everywhere in blocks.
const SIZES: [u64; 17] = [
    1, 2, 3, 100, 127, 128, 129, 130, 255, 256, 257, 258, 384, 385, 513, 1000, 5000,
];

const THREADS: usize = 64;

fn text() -> String {
    let mut text = ".version 7.0\n.target sm_75\n.address_size 64\n".to_owned();
    for (name, load, ..) in LOADS {
        // The address is in the table, or its distance from a parameter is.
        let of_parameter = "ld.param.u64 %rd7, [base]; add.s64 %rd4, %rd7, %rd4;";
        for (suffix, found) in [("", ""), (OF_PARAMETER, of_parameter)] {
            let _ = write!(
                text,
                ".visible .entry {name}{suffix}(.param .u64 at, .param .u64 out, .param .u64 base)\n{{\n\
                 .reg .pred %p<2>; .reg .b32 %r<3>; \
                 .reg .b64 %rd<9>;\nld.param.u64 %rd1, [at]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; \
                 mul.wide.u32 %rd3, %r1, 8; add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;\n\
                 ld.global.u64 %rd4, [%rd1];\n{found}\n{load}\nst.global.u64 [%rd2], %rd5; ret;\n}}\n"
            );
        }
    }
    text
}

/// Ends the names of kernels whose addresses are a parameter and a distance.
const OF_PARAMETER: &str = "_of_parameter";

struct Buffer {
    start: u64,
    end: u64,
    extent: Extent,
    is_live: bool,
}

struct World {
    device: Arc<Device>,
    runtime: Arc<Runtime>,
    module: u64,
    session: tempfile::TempDir,
    /// Checks load shadow memory.
    finds: bool,
    buffers: Vec<Buffer>,
}

impl World {
    fn new(encoding: Encoding, loads: ShadowLoads) -> World {
        let device = super::device(2, 7);
        let session = tempfile::tempdir().unwrap();
        let mut settings = Settings {
            session: Some(session.path().to_path_buf()),
            log_file: Some(session.path().join("log").display().to_string()),
            prove: Prove::Off,
            shadow_encoding: encoding,
            shadow_loads: loads,
            ..Settings::default()
        };
        settings.protect = Protections {
            bounds: false,
            canary: false,
            watch: false,
            shadow: true,
            pages: false,
        };
        let runtime = Runtime::new(settings, device.clone()).unwrap();
        let text = text();
        let prepared = runtime.modules().prepare(&[ModulePart::Ptx(&text)]);
        let Prepared::Instrumented { ptx, plan } = prepared else {
            panic!("not instrumented: {:?}", prepared.plan().unchecked());
        };
        let module = device.load_module(&[ptx[0].as_str()]).unwrap();
        runtime.modules().loaded(module, plan);
        World {
            device,
            runtime,
            module,
            session,
            finds: loads != ShadowLoads::Never,
            buffers: Vec::new(),
        }
    }

    /// A buffer as the shim makes it, all of whose memory is filled.
    fn buffer(&mut self, size: u64) -> u64 {
        let plans = self
            .runtime
            .placements()
            .surroundings()
            .plans(size, true, Fill::Now);
        let plan = plans[0];
        let kind = AllocationKind::Device;
        let start = self.device.allocate(plan.total(), kind, 0).unwrap();
        let filled = vec![0xa5; plan.total() as usize];
        self.device.write(start, &filled).unwrap();
        let extent = Extent {
            base: DeviceAddress(start.0 + plan.start()),
            size,
        };
        let owner = Owner {
            context: self.device.current_context(),
            ..Owner::default()
        };
        let surroundings = self.runtime.placements().surroundings();
        surroundings.allocated(kind, extent, owner, &plan, Fill::Now);
        self.buffers.push(Buffer {
            start: start.0,
            end: start.0 + plan.total(),
            extent,
            is_live: true,
        });
        extent.base.0
    }

    fn free(&mut self, number: usize) {
        let buffer = &mut self.buffers[number];
        buffer.is_live = false;
        let request = FreeRequest {
            function: "cuMemFree_v2",
            call: FreeCall::Free,
            address: buffer.extent.base,
            capturing: false,
        };
        let frees = self.runtime.frees();
        frees.free(request, &|_| panic!("the quarantine keeps it"));
    }

    /// Byte by byte.
    fn is_legal(&self, from: u64, to: u64) -> bool {
        (from..to).all(|byte| {
            let buffer = self
                .buffers
                .iter()
                .find(|buffer| (buffer.start..buffer.end).contains(&byte));
            buffer.is_some_and(|buffer| {
                buffer.is_live && byte.wrapping_sub(buffer.extent.base.0) < buffer.extent.size
            })
        })
    }

    /// Loads at addresses, from a parameter on if one is given, with what each must get.
    fn load(
        &self,
        (table, out): (u64, u64),
        (load, base): (usize, Option<u64>),
        addresses: &[u64],
    ) {
        let (name, _, from, to, _) = LOADS[load];
        let name = match base {
            Some(_) => format!("{name}{OF_PARAMETER}"),
            None => name.to_owned(),
        };
        let base = base.unwrap_or(0);
        let distances = addresses.iter().map(|at| at.wrapping_sub(base));
        let mut bytes: Vec<u8> = distances.flat_map(u64::to_le_bytes).collect();
        bytes.resize(8 * THREADS, 0);
        self.device.write(DeviceAddress(table), &bytes).unwrap();
        self.device
            .write(DeviceAddress(out), &[0xff; 8 * THREADS])
            .unwrap();
        let shape = Launch {
            grid: [1, 1, 1],
            block: [addresses.len() as u32, 1, 1],
            ..Launch::default()
        };
        let parameters = [table, out, base].map(u64::to_le_bytes).concat();
        super::launch(
            &self.device,
            &self.runtime,
            self.module,
            &name,
            shape,
            &parameters,
        );
        let mut got = vec![0; 8 * THREADS];
        self.device.read(DeviceAddress(out), &mut got).unwrap();
        for (at, got) in addresses.iter().zip(got.chunks_exact(8)) {
            let first = at.wrapping_add_signed(from);
            let legal = !self.finds || self.is_legal(first, at.wrapping_add_signed(to));
            let passed = got.iter().any(|byte| *byte != 0);
            assert_eq!(passed, legal, "{name} at {at:#x}");
        }
    }

    /// Loads around both edges of a buffer.
    fn around(&self, buffers: (u64, u64), number: usize) {
        let Buffer {
            start, end, extent, ..
        } = self.buffers[number];
        for (load, &(_, _, from, to, alignment)) in LOADS.iter().enumerate() {
            let near = |edge: u64| (edge - 272..edge + 272).step_by(alignment as usize);
            let align = |edge: u64| edge & !(alignment - 1);
            let edges = [align(extent.base.0), align(extent.end().0)];
            let mut addresses: Vec<u64> = edges.into_iter().flat_map(near).collect();
            addresses.retain(|at| {
                start <= at.wrapping_add_signed(from) && at.wrapping_add_signed(to) <= end
            });
            addresses.sort_unstable();
            addresses.dedup();
            // In the bounds of the parameter's own buffer shadow memory is not asked; where
            // those of another one are passed, it is.
            let bases = [None, Some(extent.base.0), Some(buffers.0)];
            for base in bases {
                for some in addresses.chunks(THREADS) {
                    self.load(buffers, (load, base), some);
                }
            }
        }
    }
}

/// All loads, around all sizes, of live and freed buffers. Where checks load no shadow
/// memory, all of them pass.
pub fn loads_get_what_the_oracle_says(encoding: Encoding, loads: ShadowLoads) {
    let mut world = World::new(encoding, loads);
    let buffers = (
        world.buffer(8 * THREADS as u64),
        world.buffer(8 * THREADS as u64),
    );
    for size in SIZES {
        world.buffer(size);
    }
    let own = 2..2 + SIZES.len();
    own.clone().for_each(|number| world.around(buffers, number));
    for number in own.clone().step_by(2) {
        world.free(number);
    }
    own.clone().for_each(|number| world.around(buffers, number));
    world.runtime.ending().end();
    let (findings, said) = super::reported(world.session.path());
    let says = |text: &&String| text.contains("--shadow-loads never");
    assert_eq!(said.iter().filter(says).count(), said.len());
    assert_eq!(said.is_empty(), world.finds);
    let has = |rule| findings.iter().any(|finding| finding.rule == rule);
    assert_eq!(has(Rule::GlobalOutOfBoundsRead), world.finds);
    assert_eq!(has(Rule::UseAfterFree), world.finds);
    let known = [Rule::GlobalOutOfBoundsRead, Rule::UseAfterFree];
    assert!(findings.iter().all(|finding| known.contains(&finding.rule)));
    let coverage = world.runtime.ending().coverage();
    let shadow = coverage.shadow.expect("shadow memory");
    assert_eq!(shadow.buffers as usize, 2 + SIZES.len());
    assert!(shadow.shadow > 0 && shadow.bare.is_empty());
    assert!(world.runtime.frees().empty_quarantine());
}
