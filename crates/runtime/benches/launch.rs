//! Host time that the runtime adds to one launch and to one allocation, over a
//! device that costs nothing. Prints one JSON object; times in nanoseconds.

use driver::{
    Driver, DriverError, HostMapping, Mark, SupportKernel, SupportLaunch, SupportModule,
    SupportStream,
};
use model::{AllocationKind, DeviceAddress, DeviceKind, Extent, Prove, Settings};
use runtime::{LaunchDecision, LaunchShape, ModulePart, Prepared, Runtime};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

struct Nothing;

impl Driver for Nothing {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cpu
    }

    fn name(&self) -> String {
        "nothing".into()
    }

    fn version(&self) -> u32 {
        13000
    }

    fn compute_capability(&self) -> Result<u32, DriverError> {
        Ok(90)
    }

    fn map_fixed(&self, _: DeviceAddress, _: u64) -> Result<(), DriverError> {
        Ok(())
    }

    fn map_host_fixed(&self, base: DeviceAddress, size: u64) -> Result<HostMapping, DriverError> {
        let words: Vec<AtomicU64> = (0..size / 8).map(|_| AtomicU64::new(0)).collect();
        let mapping = HostMapping::from_words(Extent { base, size }, words.leak());
        mapping.ok_or(DriverError {
            call: "map_host_fixed",
            code: 1,
            message: "sizes differ".into(),
        })
    }

    fn restore_host(&self, _: HostMapping) -> Result<(), DriverError> {
        Ok(())
    }

    fn write(&self, _: DeviceAddress, _: &[u8]) -> Result<(), DriverError> {
        Ok(())
    }

    fn fill(&self, _: DeviceAddress, _: u32, _: u64) -> Result<(), DriverError> {
        Ok(())
    }

    fn read(&self, _: DeviceAddress, bytes: &mut [u8]) -> Result<(), DriverError> {
        bytes.fill(0);
        Ok(())
    }

    fn load_support(&self, _: &'static str) -> Result<SupportModule, DriverError> {
        Ok(SupportModule { handle: 1 })
    }

    fn support_kernel(&self, _: SupportModule, _: &str) -> Result<SupportKernel, DriverError> {
        Ok(SupportKernel { handle: 1 })
    }

    fn launch_support(&self, _: SupportKernel, _: &SupportLaunch<'_>) -> Result<(), DriverError> {
        Ok(())
    }

    fn wait_for_own(&self) -> Result<(), DriverError> {
        Ok(())
    }

    fn with_context(
        &self,
        _: u64,
        work: &mut dyn FnMut() -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        work()
    }

    fn mark(&self, _: SupportStream) -> Result<Mark, DriverError> {
        Ok(Mark { handle: 1 })
    }

    fn wait_for_mark(&self, _: Mark) -> Result<(), DriverError> {
        Ok(())
    }

    fn is_over(&self, _: Mark) -> Result<bool, DriverError> {
        Ok(true)
    }

    fn forget_mark(&self, _: Mark) {}

    fn is_idle(&self, _: SupportStream) -> Result<bool, DriverError> {
        Ok(true)
    }

    fn allocation_of(&self, _: DeviceAddress) -> Option<Extent> {
        None
    }

    fn current_context(&self) -> u64 {
        1
    }

    fn settle(&self, _: u64) -> Result<(), DriverError> {
        Ok(())
    }

    fn release(&self, _: &driver::Release) -> Result<(), DriverError> {
        Ok(())
    }
}

const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n\
    .visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n{\n.reg .b64 %rd<5>;\n.reg .f32 %f<4>;\n\
    ld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [b];\nld.param.u64 %rd3, [c];\nld.param.u64 %rd4, [d];\n\
    ld.global.f32 %f1, [%rd1];\nld.global.f32 %f2, [%rd2];\nld.global.f32 %f3, [%rd3];\nst.global.f32 [%rd4], %f1;\nret;\n}\n";

const BASE: u64 = 0x7000_0000_0000;
const STRIDE: u64 = 1 << 20;
const SHAPE: LaunchShape = LaunchShape {
    grid: [1; 3],
    block: [256, 1, 1],
    shared: 0,
};

fn runtime(launch_backtraces: u32, prove: Prove) -> Arc<Runtime> {
    let settings = Settings {
        launch_backtraces,
        prove,
        ..Settings::default()
    };
    let runtime = Runtime::new(settings, Arc::new(Nothing)).expect("no files are opened");
    let Prepared::Instrumented { plan, .. } = runtime.prepare_module(&[ModulePart::Ptx(PTX)])
    else {
        panic!("the bench's kernel is instrumented");
    };
    runtime.module_loaded(1, plan);
    runtime.function_resolved(2, 1, "k", Some(3));
    runtime
}

fn nanoseconds(rounds: u64, mut work: impl FnMut(u64)) -> f64 {
    (0..5)
        .map(|_| {
            let start = Instant::now();
            (0..rounds).for_each(&mut work);
            start.elapsed().as_nanos() as f64 / rounds as f64
        })
        .fold(f64::INFINITY, f64::min)
}

fn launch(runtime: &Runtime, round: u64, allocations: u64, proved: bool) {
    let read = |offset: u32, _: u8| {
        Some(BASE + (round * 7 + u64::from(offset) * 13) % allocations * STRIDE + 16)
    };
    let decision = runtime.plan_launch(black_box(2), &SHAPE, &read);
    let is_original = matches!(black_box(decision), LaunchDecision::Original);
    assert_eq!(is_original, proved);
}

fn main() {
    let mut results = Vec::new();
    for allocations in [10, 1000, 100_000] {
        for (prove, name) in [(Prove::Off, "launch"), (Prove::On, "proved_launch")] {
            let runtime = runtime(0, prove);
            for index in 0..allocations {
                let extent = Extent {
                    base: DeviceAddress(BASE + index * STRIDE),
                    size: 4096,
                };
                runtime.allocated(AllocationKind::Device, extent);
            }
            let time = nanoseconds(100_000, |round| {
                launch(&runtime, round, allocations, prove == Prove::On);
            });
            results.push(format!(
                "\"{name}_4_pointers_{allocations}_allocations\": {time:.0}"
            ));
        }
    }
    let runtime = runtime(u32::MAX, Prove::Off);
    let extent = Extent {
        base: DeviceAddress(BASE),
        size: 4096,
    };
    runtime.allocated(AllocationKind::Device, extent);
    results.push(format!(
        "\"launch_with_backtrace\": {:.0}",
        nanoseconds(20_000, |round| launch(&runtime, round, 1, false))
    ));
    let time = nanoseconds(20_000, |_| {
        runtime.freeing(extent.base);
        runtime.allocated(AllocationKind::Device, extent);
    });
    results.push(format!("\"allocation_and_free\": {time:.0}"));
    println!("{{ {} }}", results.join(", "));
}
