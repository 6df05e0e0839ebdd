//! Which copy of a kernel runs, of one that reads through indices in memory: the
//! residual one where all else is proved, the checked one where it is not. What
//! is found does not depend on that.

use driver::Driver;
use emulate::Device;
use emulate::device::Launch;
use model::layout::{CHECKED_PREFIX, RESIDUAL_PREFIX};
use model::{AllocationKind, DeviceAddress, Extent, Ran, Rule, Settings};
use runtime::{
    Build, EntryPlan, KernelCopies, LaunchDecision, LaunchRequest, LaunchShape, ModulePart,
    Prepared, Resolved, Runtime, Where,
};
use std::sync::Arc;

mod support;

/// `if (t < n) y[t] = x[index[t]];`
const PTX: &str = "\
.version 7.8
.target sm_75
.address_size 64
.visible .entry gather(.param .u64 x, .param .u64 index, .param .u64 y, .param .u32 n)
{
.reg .pred %p<2>;
.reg .b32 %r<6>;
.reg .b64 %rd<10>;
ld.param.u64 %rd1, [x];
ld.param.u64 %rd2, [index];
ld.param.u64 %rd3, [y];
ld.param.u32 %r1, [n];
mov.u32 %r3, %tid.x;
setp.ge.u32 %p1, %r3, %r1;
@%p1 bra $end;
mul.wide.u32 %rd4, %r3, 4;
add.s64 %rd5, %rd2, %rd4;
ld.global.u32 %r4, [%rd5];
mul.wide.u32 %rd6, %r4, 4;
add.s64 %rd7, %rd1, %rd6;
ld.global.u32 %r5, [%rd7];
add.s64 %rd9, %rd3, %rd4;
st.global.u32 [%rd9], %r5;
$end:
ret;
}
";

const SHAPE: LaunchShape = LaunchShape {
    grid: [1; 3],
    block: [32, 1, 1],
    shared: 0,
};

struct Test {
    device: Arc<Device>,
    runtime: Arc<Runtime>,
    session: tempfile::TempDir,
    kernel: u64,
    copies: KernelCopies,
    /// What the last launch left in the last buffer.
    output: Vec<u8>,
}

impl Test {
    fn new() -> Test {
        let device = support::device(1, 1);
        let session = tempfile::tempdir().unwrap();
        let settings = Settings {
            session: Some(session.path().to_path_buf()),
            log_file: Some(session.path().join("log").display().to_string()),
            ..Settings::default()
        };
        let runtime = Runtime::new(settings, device.clone() as Arc<dyn Driver>).unwrap();
        let prepared = runtime.modules().prepare(&[ModulePart::Ptx(PTX)]);
        let Prepared::Instrumented { ptx, plan } = prepared else {
            panic!("not instrumented");
        };
        let module = device.load_module(&[ptx[0].as_str()]).unwrap();
        runtime.modules().loaded(module, plan);
        let kernel = device.function(module, "gather").unwrap();
        let copy = |prefix: &str| device.function(module, &format!("{prefix}gather")).ok();
        let copies = KernelCopies {
            checked: copy(CHECKED_PREFIX),
            residual: copy(RESIDUAL_PREFIX),
        };
        assert!(copies.checked.is_some() && copies.residual.is_some());
        runtime.modules().resolved(Resolved {
            handle: kernel,
            in_library: false,
            module,
            name: "gather",
            copies,
        });
        Test {
            device,
            runtime,
            session,
            kernel,
            copies,
            output: Vec::new(),
        }
    }

    /// A buffer of words.
    fn buffer(&self, words: &[u32]) -> u64 {
        let kind = AllocationKind::Device;
        let size = 4 * words.len() as u64;
        let padded = self.runtime.allocations().padded_size(size);
        let base = self.device.allocate(padded, kind, 0).unwrap();
        let extent = Extent { base, size };
        self.runtime.allocations().allocated(kind, extent);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Driver::write(&*self.device, base, &bytes).unwrap();
        base.0
    }

    /// Launches, waits, and says what ran.
    fn launch(&mut self, [x, index, y]: [u64; 3], n: u32) -> (Ran, Option<Build>) {
        let mut arguments: Vec<u8> = [x, index, y]
            .iter()
            .flat_map(|pointer| pointer.to_le_bytes())
            .collect();
        arguments.extend(n.to_le_bytes());
        let mut bytes = arguments.clone();
        let read = |_: &EntryPlan, offset: u32, size: u8| {
            let (at, size) = (offset as usize, usize::from(size));
            let mut bits = [0; 8];
            bits[..size].copy_from_slice(arguments.get(at..at + size)?);
            Some(u64::from_le_bytes(bits))
        };
        let ticket = self.runtime.begin_launch(LaunchRequest {
            function: self.kernel,
            kernel: self.runtime.modules().kernel(self.kernel),
            shape: &SHAPE,
            stream: None,
            read: &read,
        });
        let (ran, decision) = (ticket.ran(), ticket.decision().clone());
        let (function, build) = match decision {
            LaunchDecision::Checked {
                build,
                function,
                launch_parameter,
                plan,
            } => {
                let copies = self.copies;
                let expected = match build {
                    Build::Checked => copies.checked,
                    Build::Residual => copies.residual,
                };
                assert_eq!(Some(function), expected);
                let slot = plan.launch_parameter.unwrap();
                bytes.resize(slot.offset as usize, 0);
                bytes.extend_from_slice(&launch_parameter);
                (function, Some(build))
            }
            _ => (self.kernel, None),
        };
        let launch = Launch {
            function,
            grid: SHAPE.grid,
            block: SHAPE.block,
            parameters: bytes,
            ..Launch::default()
        };
        self.device.launch(launch, 0).unwrap();
        ticket.submitted(Where::Unknown);
        self.device.synchronize().unwrap();
        self.runtime.synchronized();
        self.output.resize(4 * n as usize, 0);
        let y = DeviceAddress(y);
        Driver::read(&*self.device, y, &mut self.output).unwrap();
        (ran, build)
    }

    /// The rules of what was found so far.
    fn found(&self) -> Vec<Rule> {
        let findings = support::findings(self.session.path());
        findings.iter().map(|finding| finding.rule).collect()
    }
}

#[test]
fn the_copy_with_the_fewest_checks_runs_whose_proof_holds() {
    const RESIDUAL: (Ran, Option<Build>) = (Ran::Residual, Some(Build::Residual));
    const CHECKED: (Ran, Option<Build>) = (Ran::Checked, Some(Build::Checked));
    let mut test = Test::new();
    let x: Vec<u32> = (100..120).collect();
    let mut indices: Vec<u32> = (0..24).map(|i| i % 20).collect();
    let x = test.buffer(&x);
    let index = test.buffer(&indices);
    let y = test.buffer(&[0; 24]);
    // Again and again, for all that the index buffer holds: recognised or not.
    for n in [24, 24, 24, 24, 3, 24, 24] {
        assert_eq!(test.launch([x, index, y], n), RESIDUAL, "{n}");
    }
    let expected: Vec<u8> = indices
        .iter()
        .flat_map(|i| (100 + i).to_le_bytes())
        .collect();
    assert_eq!(test.output, expected);
    assert_eq!(test.found(), []);

    // The access that is checked is the one that is wrong: found, and nothing
    // else is.
    indices[7] = 20;
    let wrong = test.buffer(&indices);
    assert_eq!(test.launch([x, wrong, y], 24), RESIDUAL);
    assert_eq!(test.found(), [Rule::GlobalOutOfBoundsRead]);
    let mut without = expected;
    without[28..32].fill(0);
    assert_eq!(test.output, without, "it read zero");

    // One that is proved in other launches: all are checked in this one.
    let short = test.buffer(&[0; 23]);
    assert_eq!(test.launch([x, index, short], 23), RESIDUAL);
    assert_eq!(test.launch([x, index, short], 24), CHECKED);
    let both = [Rule::GlobalOutOfBoundsRead, Rule::GlobalOutOfBoundsWrite];
    assert_eq!(test.found(), both);
    assert_eq!(test.launch([x, index, y], 24), RESIDUAL);

    // Blocks that are too large for it.
    let kernel = test.runtime.modules().kernel(test.kernel).unwrap();
    let asked: Vec<Build> = kernel
        .copies_without_limit()
        .map(|(build, _)| build)
        .collect();
    assert_eq!(asked, [Build::Checked, Build::Residual]);
    assert_eq!(kernel.copies_without_limit().count(), 0);
    kernel.set_limit(Build::Residual, 31);
    assert_eq!(test.launch([x, index, y], 24), CHECKED);
    kernel.set_limit(Build::Checked, 31);
    kernel.set_limit(Build::Residual, 32);
    assert_eq!(test.launch([x, index, y], 24), RESIDUAL);
    kernel.set_limit(Build::Residual, 31);
    assert_eq!(test.launch([x, index, y], 24), (Ran::Unchecked, None));

    let coverage = test.runtime.ending().coverage();
    let kernel = &coverage.kernels["gather"];
    assert_eq!(
        (kernel.proved, kernel.checked, kernel.residual),
        (0, 13, 11)
    );
}
