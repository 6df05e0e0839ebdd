//! Host time that the runtime adds to one launch and to one allocation, over a
//! device that is asked for nothing once it is set up. Prints one JSON object;
//! times in nanoseconds.

#[allow(dead_code, reason = "what only tests ask of it")]
#[path = "../src/tests/fake/device.rs"]
mod device;

use device::Fake;
use heap::Owner;
use model::{AllocationKind, DeviceAddress, Extent, Protections, Prove, Settings};
use runtime::{
    EntryPlan, Fill, FreeCall, FreeRequest, KernelCopies, LaunchDecision, LaunchRequest,
    LaunchShape, ModulePart, Resolved, Runtime, StreamName, Ticket, Where, undecided,
};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

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
    runtime_with(Settings {
        launch_backtraces,
        prove,
        ..Settings::default()
    })
}

fn runtime_with(settings: Settings) -> Arc<Runtime> {
    let runtime = Runtime::new(settings, Arc::new(Fake::default())).expect("no files are opened");
    let prepared = runtime.modules().prepare(&[ModulePart::Ptx(PTX)]);
    runtime.modules().loaded(1, prepared.plan().clone());
    runtime.modules().resolved(resolved("k"));
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

/// The kernel, under the handle that [`begin`] launches.
fn resolved(name: &str) -> Resolved<'_> {
    Resolved {
        handle: 2,
        in_library: false,
        module: 1,
        name,
        copies: KernelCopies {
            checked: Some(3),
            residual: None,
        },
    }
}

/// A launch of the kernel.
fn begin<'a>(
    runtime: &'a Runtime,
    shape: &'a LaunchShape,
    read: &'a dyn Fn(&EntryPlan, u32, u8) -> Option<u64>,
) -> Ticket<'a> {
    let function = black_box(2);
    runtime.begin_launch(LaunchRequest {
        function,
        kernel: runtime.modules().kernel_to_launch(function),
        shape,
        stream: None,
        read,
    })
}

fn launch(runtime: &Runtime, round: u64, allocations: u64, proved: bool) {
    let read = |_: &EntryPlan, offset: u32, _: u8| {
        Some(BASE + (round * 7 + u64::from(offset) * 13) % allocations * STRIDE + 16)
    };
    let ticket = begin(runtime, &SHAPE, &read);
    let is_original = !matches!(black_box(ticket.decision()), LaunchDecision::Checked { .. });
    ticket.submitted(Where::Unknown);
    // A slow machine may have no time for each proof.
    assert!(proved || !is_original);
}

/// What canaries alone add before a launch, after it, and before and after the
/// host waits for it, each with the time that taking the time takes.
fn canaries(results: &mut Vec<String>, launch_backtraces: u32, name: &str) {
    const ROUNDS: u64 = 10_000;
    let runtime = runtime_with(Settings {
        protect: Protections {
            bounds: false,
            canary: true,
            watch: false,
            shadow: false,
            pages: false,
        },
        launch_backtraces,
        ..Settings::default()
    });
    let plan = runtime.canaries().plans(4096, true)[0];
    for index in 0..4 {
        let extent = Extent {
            base: DeviceAddress(BASE + index * STRIDE + plan.start()),
            size: 4096,
        };
        let kind = AllocationKind::Device;
        runtime
            .canaries()
            .allocated(kind, extent, Owner::default(), &plan, Fill::Now);
    }
    let read = |_: &EntryPlan, offset: u32, _: u8| {
        Some(BASE + u64::from(offset / 8) * STRIDE + plan.start())
    };
    let stream = StreamName::Made(7);
    let place = Where::Stream {
        name: stream,
        handle: 7,
        per_thread: false,
    };
    let mut best = [f64::INFINITY; 4];
    for _ in 0..5 {
        let mut sums = [0; 4];
        for _ in 0..ROUNDS {
            let mut times = [Instant::now(); 5];
            let ticket = begin(&runtime, &SHAPE, &read);
            times[1] = Instant::now();
            ticket.submitted(place);
            times[2] = Instant::now();
            runtime.host_waits().before(Some(stream));
            times[3] = Instant::now();
            runtime.host_waits().waited_for(stream);
            times[4] = Instant::now();
            for (sum, pair) in sums.iter_mut().zip(times.windows(2)) {
                *sum += (pair[1] - pair[0]).as_nanos();
            }
        }
        for (best, sum) in best.iter_mut().zip(sums) {
            *best = best.min(sum as f64 / ROUNDS as f64);
        }
    }
    let what = ["plan", "launched", "before_wait", "after_wait"];
    for (what, time) in what.iter().zip(best) {
        results.push(format!("\"canary_{what}{name}\": {time:.0}"));
    }
}

/// Launches of a kernel without PTX, as libraries have them, among buffers with
/// canaries; the host waits after every hundred.
fn unchecked(results: &mut Vec<String>) {
    let runtime = Runtime::new(Settings::default(), Arc::new(Fake::default()));
    let runtime = runtime.expect("no files are opened");
    let prepared = runtime.modules().prepare(&[ModulePart::Elf(b"\x7fELF")]);
    runtime.modules().loaded(1, prepared.plan().clone());
    runtime.modules().resolved(Resolved {
        copies: KernelCopies::default(),
        ..resolved("k")
    });
    let plan = runtime.canaries().plans(4096, true)[0];
    for index in 0..100 {
        let extent = Extent {
            base: DeviceAddress(BASE + index * STRIDE + plan.start()),
            size: 4096,
        };
        let kind = AllocationKind::Device;
        runtime
            .canaries()
            .allocated(kind, extent, Owner::default(), &plan, Fill::Now);
    }
    let stream = StreamName::Made(7);
    let place = Where::Stream {
        name: stream,
        handle: 7,
        per_thread: false,
    };
    let read = |_: &EntryPlan, _: u32, _: u8| None;
    let time = nanoseconds(100_000, |round| {
        match undecided(black_box(2), || Some(place)) {
            Some(made) => runtime.launcher().unlisted(made),
            None => {
                let ticket = begin(&runtime, &SHAPE, &read);
                ticket.keep(true);
                ticket.submitted(place);
            }
        }
        if round % 100 == 99 {
            runtime.host_waits().before(Some(stream));
            runtime.host_waits().waited_for(stream);
        }
    });
    results.push(format!("\"unchecked_launch\": {time:.0}"));
}

/// A stencil over one plane of a volume (27 loads; what nvcc 13.0 makes of it),
/// launched once a plane.
const PLANE: &str = include_str!("plane.ptx");
/// Bytes before the first scalar: two pointers.
const SCALARS: u32 = 16;

/// Launches that differ in one scalar: in order, as a loop makes them, and in no
/// order, so that little helps.
fn planes(results: &mut Vec<String>) {
    const SIDE: u64 = 256;
    let shape = LaunchShape {
        grid: [8, 32, 1],
        block: [32, 8, 1],
        shared: 0,
    };
    for (prove, name) in [(Prove::On, "proved"), (Prove::Off, "checked")] {
        for is_loop in [true, false] {
            let settings = Settings {
                launch_backtraces: 0,
                prove,
                ..Settings::default()
            };
            let runtime = Runtime::new(settings, Arc::new(Fake::default())).expect("opens no file");
            let prepared = runtime.modules().prepare(&[ModulePart::Ptx(PLANE)]);
            runtime.modules().loaded(1, prepared.plan().clone());
            runtime.modules().resolved(resolved("plane"));
            for index in 0..2 {
                let extent = Extent {
                    base: DeviceAddress(BASE + (index << 32)),
                    size: SIDE * SIDE * SIDE * 4,
                };
                runtime
                    .allocations()
                    .allocated(AllocationKind::Device, extent);
            }
            let mut proved = 0u32;
            const ROUNDS: u64 = 20_000;
            let time = nanoseconds(ROUNDS, |round| {
                let z = match is_loop {
                    true => 1 + round % (SIDE - 2),
                    false => round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33,
                };
                let read = |_: &EntryPlan, offset: u32, _: u8| {
                    Some(match offset {
                        0 => BASE,
                        8 => BASE + (1 << 32),
                        SCALARS => z,
                        _ => SIDE,
                    })
                };
                let ticket = begin(&runtime, &shape, &read);
                let is_checked = matches!(ticket.decision(), LaunchDecision::Checked { .. });
                proved += u32::from(!is_checked);
                ticket.submitted(Where::Unknown);
            });
            let order = if is_loop { "in_order" } else { "in_no_order" };
            let share = f64::from(proved) / (5 * ROUNDS) as f64;
            results.push(format!("\"plane_{name}_{order}\": {time:.0}"));
            results.push(format!("\"plane_{name}_{order}_share\": {share:.2}"));
        }
    }
}

/// An allocation with canaries and its free, after which nothing ran: in
/// nanoseconds, and in calls of the driver.
fn allocations(results: &mut Vec<String>) {
    let device = Arc::new(Fake::default());
    let runtime = Runtime::new(Settings::default(), device.clone()).expect("opens no file");
    let plan = runtime.canaries().plans(4096, true)[0];
    let owner = Owner {
        context: device::CONTEXT,
        ..Owner::default()
    };
    let pair = || {
        let extent = Extent {
            base: DeviceAddress(BASE + plan.start()),
            size: 4096,
        };
        let kind = AllocationKind::Device;
        runtime
            .canaries()
            .allocated(kind, extent, owner, &plan, Fill::Now);
        let request = FreeRequest {
            function: "cuMemFree_v2",
            call: FreeCall::Free,
            address: extent.base,
            capturing: false,
        };
        black_box(
            runtime
                .frees()
                .free(request, &|_| driver::sys::CUresult::CUDA_SUCCESS),
        );
    };
    pair();
    let calls = || device.writes.lock().len() + device.support.lock().len();
    let before = calls();
    let time = nanoseconds(20_000, |_| pair());
    let per_pair = (calls() - before) as f64 / 100_000.0;
    results.push(format!("\"canary_allocation_and_free\": {time:.0}"));
    results.push(format!(
        "\"canary_allocation_and_free_driver_calls\": {per_pair:.2}"
    ));
}

fn main() {
    let mut results = Vec::new();
    planes(&mut results);
    unchecked(&mut results);
    allocations(&mut results);
    canaries(&mut results, 0, "");
    canaries(&mut results, u32::MAX, "_with_backtrace");
    for allocations in [10, 1000, 100_000] {
        for (prove, name) in [(Prove::Off, "launch"), (Prove::On, "proved_launch")] {
            let runtime = runtime(0, prove);
            for index in 0..allocations {
                let extent = Extent {
                    base: DeviceAddress(BASE + index * STRIDE),
                    size: 4096,
                };
                runtime
                    .allocations()
                    .allocated(AllocationKind::Device, extent);
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
    runtime
        .allocations()
        .allocated(AllocationKind::Device, extent);
    results.push(format!(
        "\"launch_with_backtrace\": {:.0}",
        nanoseconds(20_000, |round| launch(&runtime, round, 1, false))
    ));
    let time = nanoseconds(20_000, |_| {
        runtime.allocations().freeing(extent.base);
        runtime
            .allocations()
            .allocated(AllocationKind::Device, extent);
    });
    results.push(format!("\"allocation_and_free\": {time:.0}"));
    println!("{{ {} }}", results.join(", "));
}
