//! What is launched to verify canaries, and when what is gathered.

use super::fake::{Bench, CONTEXT, Fake, NAME as KERNEL_NAME, extent, module, resolved};
use crate::canaries::history::Reach;
use crate::{Fill, FreeCall, FreeRequest, ModulePlan, StreamName, StreamUse, Where};
use driver::sys::CUresult;
use heap::Owner;
use model::layout::canary::{CANARY_PINS, CANARY_TABLE};
use model::{AllocationKind, DeviceAddress, Protections, Settings};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const ANALYSED: u64 = 0x11;
const FUNCTION: u64 = 0x31;
const BUFFER: u64 = 0x7000_0000_0200;
const NAME: StreamName = StreamName::Made(5);
const PLACE: Where = Where::Stream {
    name: NAME,
    handle: 5,
    per_thread: false,
};

/// A buffer with canaries, and a check after every launch.
fn bench(device: Fake) -> Bench {
    let settings = Settings {
        protect: Protections {
            bounds: false,
            canary: true,
            watch: false,
            shadow: false,
            pages: false,
        },
        canary_budget: 100,
        ..Settings::default()
    };
    let bench = Bench::with(settings, device, module(false));
    // As it is prepared without bounds: its own kernels, whose writes are known.
    let plan = Arc::new(ModulePlan::analysed(vec![module(false)]));
    bench.runtime.modules().loaded(ANALYSED, plan);
    bench
        .runtime
        .modules()
        .resolved(resolved(FUNCTION, ANALYSED, KERNEL_NAME, None));
    let plan = bench.runtime.canaries().plans(64, true)[0];
    bench.runtime.canaries().allocated(
        AllocationKind::Device,
        extent(BUFFER, 64),
        Owner::default(),
        &plan,
        Fill::Now,
    );
    bench
}

fn launch(bench: &Bench) {
    bench
        .begin_of(FUNCTION, &|_, _, _| Some(BUFFER))
        .submitted(PLACE);
}

/// The number of the buffer.
fn serial(bench: &Bench) -> u64 {
    let allocations = bench.runtime.allocations();
    let known = allocations.belongs_to(DeviceAddress(BUFFER));
    known.expect("it is known").serial
}

/// Whether the checks so far may start early.
fn early(bench: &Bench) -> Vec<bool> {
    bench.device.early.lock().clone()
}

/// The canaries' writes so far: those into the table.
fn records(bench: &Bench) -> usize {
    let writes = bench.device.writes.lock();
    let in_table = |address: &&u64| (CANARY_TABLE..CANARY_PINS).contains(*address);
    writes.iter().filter(in_table).count()
}

#[test]
fn canaries_are_made_together_before_something_that_is_not_checked() {
    let bench = bench(Fake::default());
    let plan = bench.runtime.canaries().plans(64, true)[0];
    let allocate = |at: u64| {
        let owner = Owner {
            context: CONTEXT,
            ..Owner::default()
        };
        let extent = extent(BUFFER + at, 64);
        let kind = AllocationKind::Device;
        bench
            .runtime
            .canaries()
            .allocated(kind, extent, owner, &plan, Fill::Now);
        extent.base
    };
    let free = |address| {
        let request = FreeRequest {
            function: "cuMemFree_v2",
            call: FreeCall::Free,
            address,
            capturing: false,
        };
        assert_eq!(
            bench
                .runtime
                .frees()
                .free(request, &|_| CUresult::CUDA_SUCCESS),
            CUresult::CUDA_SUCCESS
        );
    };
    // One that is gone before anything runs costs nothing.
    let (first, second) = (allocate(0x10000), allocate(0x20000));
    free(first);
    assert_eq!((records(&bench), bench.device.support.lock().len()), (0, 0));
    launch(&bench);
    assert_eq!(records(&bench), 2);
    launch(&bench);
    assert_eq!(records(&bench), 2);
    // Memory that the host writes to itself has them at once.
    bench.runtime.canaries().allocated(
        AllocationKind::Managed,
        extent(BUFFER + 0x30000, 64),
        Owner::default(),
        &plan,
        Fill::Now,
    );
    assert_eq!(records(&bench), 3);
    // The last look at one that had them.
    let checks = bench.device.support.lock().len();
    free(second);
    assert_eq!(bench.device.support.lock().len(), checks + 1);
}

/// The slots that the records of checks name which take records out, by check.
fn taken_out(bench: &Bench) -> Vec<Vec<u32>> {
    let word = |bytes: &[u8], at: usize| {
        let bytes: [u8; 4] = bytes[at..at + 4].try_into().unwrap();
        u32::from_le_bytes(bytes)
    };
    // `layout::canary::CheckParameters`.
    let retires = |bytes: &&Vec<u8>| word(bytes, 24) == 1;
    let slots = |bytes: &Vec<u8>| {
        let count = word(bytes, 20) as usize;
        (0..count).map(|at| word(bytes, 32 + 4 * at)).collect()
    };
    let launched = bench.device.support.lock();
    launched.iter().filter(retires).map(slots).collect()
}

#[test]
fn freed_buffers_that_are_held_leave_the_table_together() {
    let settings = Settings {
        canary_budget: 100,
        ..Settings::default()
    };
    let bench = Bench::with(settings, Fake::default(), module(false));
    let runtime = &bench.runtime;
    let plan = runtime.canaries().plans(64, true)[0];
    let owner = Owner {
        context: CONTEXT,
        ..Owner::default()
    };
    let buffers: Vec<DeviceAddress> = (0..11)
        .map(|at| {
            let extent = extent(BUFFER + at * 0x10000, 64);
            let kind = AllocationKind::Device;
            runtime
                .canaries()
                .allocated(kind, extent, owner, &plan, Fill::Now);
            extent.base
        })
        .collect();
    let free = |address: &DeviceAddress| {
        let request = FreeRequest {
            function: "cuMemFree_v2",
            call: FreeCall::Free,
            address: *address,
            capturing: false,
        };
        assert_eq!(
            runtime.frees().free(request, &|_| panic!("it is held")),
            CUresult::CUDA_SUCCESS
        );
    };
    // A kernel that nothing is known of may have written to all of them.
    bench.begin_of(0xdead, &|_, _, _| None).submitted(PLACE);
    let waits = || bench.device.own_waits.load(Ordering::Relaxed);
    let before = waits();
    buffers[..10].iter().for_each(free);
    let taken = taken_out(&bench);
    assert_eq!((taken.len(), taken[0].len(), waits()), (1, 8, before));
    // Memory goes back only when nothing reads it any more.
    assert!(bench.runtime.frees().empty_quarantine());
    let taken = taken_out(&bench);
    assert_eq!((taken.len(), taken[1].len()), (2, 2));
    assert!(waits() > before);
    assert_eq!(bench.device.released.lock().len(), 10);
    let mut slots: Vec<u32> = taken.into_iter().flatten().collect();
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(slots.len(), 10);
    // A slot of a context that is gone is emptied by the host.
    free(&buffers[10]);
    runtime.context_gone(Some(CONTEXT));
    assert_eq!(taken_out(&bench).len(), 2);
}

#[test]
fn what_findings_need_is_gathered_when_the_kernel_is_on_its_way() {
    let bench = bench(Fake::default());
    let reads = Cell::new(0);
    let read = |_: &crate::EntryPlan, _, _| {
        reads.set(reads.get() + 1);
        Some(BUFFER)
    };
    let ticket = bench.begin_of(FUNCTION, &read);
    assert_eq!(reads.get(), 0);
    ticket.submitted(PLACE);
    assert!(reads.get() > 0);
    let serial = serial(&bench);
    let found = bench.runtime.canaries().candidates(1, Some(0), serial);
    assert_eq!(found.len(), 1);
    assert!(
        matches!(&found[0].reach, Reach::Named(named) if named.iter().all(|(_, slot, _)| *slot == 0))
    );
    assert!(found[0].stack.is_some());
    assert_eq!(found[0].kernels.len(), 1);
}

#[test]
fn checks_may_start_early_until_the_program_starts_kernels_early_itself() {
    let bench = bench(Fake::default());
    launch(&bench);
    launch(&bench);
    assert_eq!(early(&bench), [true, true]);
    bench.runtime.canaries().kernels_start_early();
    launch(&bench);
    assert_eq!(early(&bench), [true, true, false]);
}

#[test]
fn the_last_look_at_a_buffer_is_after_everything() {
    let bench = bench(Fake::default());
    launch(&bench);
    let stream = StreamUse {
        name: NAME,
        context: CONTEXT,
        blocking: true,
    };
    let request = FreeRequest {
        function: "cuMemFreeAsync",
        call: FreeCall::FreeAsync { stream },
        address: DeviceAddress(BUFFER),
        capturing: false,
    };
    let done = CUresult::CUDA_SUCCESS;
    assert_eq!(bench.runtime.frees().free(request, &|_| done), done);
    assert_eq!(early(&bench), [true, false]);
}

#[test]
fn on_older_devices_checks_do_not_wait_themselves() {
    let bench = bench(Fake {
        is_old: true,
        ..Fake::default()
    });
    launch(&bench);
    assert_eq!(early(&bench), [false]);
}
