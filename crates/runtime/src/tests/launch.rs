//! Launch decisions and what reaches the device before a launch.

use super::fake::{Bench, COPY, Fake, KERNEL, MODULE, NAME, extent, module};
use crate::{Build, LaunchDecision};
use model::layout::{CONTROL_BASE, MISS_SIZE, REGION_SHIFT, REGION_TABLE, UNBOUNDED};
use model::{AllocationKind, DeviceAddress, Settings};
use std::sync::atomic::{AtomicU64, Ordering};

const A: u64 = 0x7f00_0000_0000;
const B: u64 = 0x7f00_0000_1000;

fn words(decision: &LaunchDecision) -> Vec<u64> {
    let LaunchDecision::Checked {
        function,
        launch_parameter,
        plan,
        ..
    } = decision
    else {
        panic!("not checked: {decision:?}");
    };
    assert_eq!((*function, plan.name.as_str()), (COPY, NAME));
    launch_parameter
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

fn is_original(decision: &LaunchDecision) -> bool {
    !matches!(decision, LaunchDecision::Checked { .. })
}

#[test]
fn bounds_of_interior_and_past_the_end_pointers_travel_with_the_launch() {
    let bench = Bench::new();
    bench
        .runtime
        .allocations()
        .allocated(AllocationKind::Device, extent(A, 1000));
    bench
        .runtime
        .allocations()
        .allocated(AllocationKind::Managed, extent(B, 64));
    assert_eq!(words(&bench.launch(A + 16, B + 64)), [1, A, 1000, B, 64]);
    // What points into nothing says where to; what lies just outside is meant
    // for what is there.
    assert_eq!(words(&bench.launch(0, B + 5000)), [2, 0, 0, B + 5000, 0]);
    bench.runtime.allocations().freeing(DeviceAddress(B));
    assert_eq!(words(&bench.launch(A, B)), [3, A, 1000, B, 0]);
    assert_eq!(words(&bench.launch(A - 4, A + 1001)), [4, A, 1000, A, 1000]);
    assert_eq!(
        bench
            .runtime
            .allocations()
            .extent_of(DeviceAddress(A + 999)),
        Some(extent(A, 1000))
    );
    assert_eq!(
        bench
            .runtime
            .allocations()
            .extent_of(DeviceAddress(A + 1000)),
        None
    );
}

#[test]
fn metadata_is_mapped_at_the_first_checked_launch_and_not_before() {
    let bench = Bench::new();
    assert!(bench.device.mapped.lock().is_empty());
    bench.launch(0, 0);
    bench.launch(0, 0);
    let mapped: Vec<u64> = bench
        .device
        .mapped
        .lock()
        .iter()
        .map(|(address, _)| *address)
        .collect();
    assert_eq!(mapped, [CONTROL_BASE, REGION_TABLE]);
}

#[test]
fn lookup_tables_are_written_only_for_modules_that_read_them() {
    let entry = REGION_TABLE + (A >> REGION_SHIFT) * 8;
    let plain = Bench::new();
    plain
        .runtime
        .allocations()
        .allocated(AllocationKind::Device, extent(A, 64));
    plain.launch(A, A);
    assert!(plain.device.writes.lock().is_empty());

    let lookups = Bench::with(Settings::default(), Fake::default(), module(true));
    lookups
        .runtime
        .allocations()
        .allocated(AllocationKind::Device, extent(A, 64));
    assert_eq!(lookups.device.u64(entry), 0);
    lookups.launch(A, A);
    assert_ne!(lookups.device.u64(entry), 0);
    // A kernel may run that is handed the new allocation through memory.
    lookups
        .runtime
        .allocations()
        .allocated(AllocationKind::Device, extent(B, 64));
    let leaf = lookups.device.u64(entry);
    assert!(leaf != 0 && leaf >> 63 == 0);
    lookups.runtime.synchronized();
    lookups.runtime.allocations().freeing(DeviceAddress(A));
    lookups.runtime.allocations().freeing(DeviceAddress(B));
    let writes = lookups.device.writes.lock().len();
    lookups.launch(0, 0);
    assert!(lookups.device.writes.lock().len() > writes);
}

#[test]
fn allocations_that_only_the_driver_knows_are_asked_for_once() {
    let device = Fake::default();
    device.foreign.lock().0.push(extent(A, 128));
    let bench = Bench::with(Settings::default(), device, module(false));
    assert_eq!(words(&bench.launch(A + 4, 0)), [1, A, 128, 0, 0]);
    assert_eq!(words(&bench.launch(A + 8, 0)), [2, A, 128, 0, 0]);
    assert_eq!(bench.device.foreign.lock().1, 1);
}

#[test]
fn device_malloc_lets_failed_lookups_pass() {
    let mut with_malloc = module(false);
    with_malloc.entries[0].uses_device_malloc = true;
    let bench = Bench::with(Settings::default(), Fake::default(), with_malloc);
    assert_eq!(bench.device.u64(MISS_SIZE), 0);
    bench.launch(0, 0);
    assert_eq!(bench.device.u64(MISS_SIZE), UNBOUNDED);
}

#[test]
fn filters_limits_and_unknown_handles_run_the_original() {
    let excluded = Settings {
        kernel_name_exclude: Some("scale(float*".into()),
        ..Settings::default()
    };
    assert!(is_original(
        &Bench::with(excluded, Fake::default(), module(false)).launch(0, 0)
    ));

    let window = Settings {
        launch_skip: 1,
        launch_count: 1,
        ..Settings::default()
    };
    let bench = Bench::with(window, Fake::default(), module(false));
    let originals: Vec<bool> = (0..3).map(|_| is_original(&bench.launch(0, 0))).collect();
    assert_eq!(originals, [true, false, true]);

    let bench = Bench::new();
    bench
        .runtime
        .modules()
        .kernel(KERNEL)
        .unwrap()
        .set_limit(Build::Checked, 255);
    assert!(is_original(&bench.launch(0, 0)));
    bench
        .runtime
        .modules()
        .kernel(KERNEL)
        .unwrap()
        .set_limit(Build::Checked, 256);
    assert!(!is_original(&bench.launch(0, 0)));
    let unknown = bench.begin_of(0x99, &|_, _, _| Some(0));
    assert!(is_original(unknown.decision()));
    unknown.refused();
    let unreadable = bench.begin_of(KERNEL, &|_, _, _| None);
    assert!(is_original(unreadable.decision()));
    unreadable.refused();

    bench.runtime.modules().unloading(MODULE);
    assert!(is_original(&bench.launch(0, 0)));
}

#[test]
fn an_address_range_that_is_taken_is_one_fatal_error() {
    let device = Fake {
        taken: Some(REGION_TABLE),
        ..Fake::default()
    };
    let bench = Bench::with(Settings::default(), device, module(false));
    assert!(is_original(&bench.launch(0, 0)));
    assert!(is_original(&bench.launch(0, 0)));
    let process = bench.process();
    assert!(process.failed);
    assert_eq!(process.errors.len(), 1);
    assert!(
        process.errors[0].contains("0x200010000000"),
        "{}",
        process.errors[0]
    );
    assert_eq!(bench.log().lines().count(), 1);
}

#[test]
fn metadata_that_a_context_took_with_it_is_an_error_and_no_crash() {
    let bench = Bench::new();
    assert!(!is_original(&bench.launch(0, 0)));
    bench.runtime.context_gone(None);
    assert!(!is_original(&bench.launch(0, 0)));
    assert!(!is_original(&bench.launch(0, 0)));
    assert_eq!(bench.device.restored.load(Ordering::Relaxed), 1);
    bench.device.lost.store(true, Ordering::Relaxed);
    bench.runtime.context_gone(None);
    assert!(is_original(&bench.launch(0, 0)));
    assert!(is_original(&bench.launch(0, 0)));
    let process = bench.process();
    assert!(process.failed);
    assert!(
        process.errors[0].contains("cudaDeviceReset"),
        "{:?}",
        process.errors
    );
}

#[test]
fn a_launch_waits_for_tables_that_another_thread_is_writing() {
    let bench = Bench::with(Settings::default(), Fake::default(), module(true));
    bench.launch(0, 0);
    let entry = |base: u64| REGION_TABLE + (base >> REGION_SHIFT) * 8;
    let next = AtomicU64::new(1);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let base = A + (next.fetch_add(1, Ordering::Relaxed) << REGION_SHIFT);
                    bench
                        .runtime
                        .allocations()
                        .allocated(AllocationKind::Device, extent(base, 64));
                    bench.launch(base, 0);
                    assert_ne!(bench.device.u64(entry(base)), 0);
                    // Ends the flushes at allocation, so that launches do it.
                    bench.runtime.synchronized();
                }
            });
        }
    });
}

#[test]
fn a_launch_that_comes_again_is_judged_anew_once_its_memory_changed() {
    const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n\
        .visible .entry _Z5scalePfS_(.param .u64 in, .param .u64 out)\n{\n\
        .reg .b64 %rd<4>;\n.reg .f32 %f<2>;\n\
        ld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\n\
        ld.global.f32 %f1, [%rd1+60];\nst.global.f32 [%rd2], %f1;\nret;\n}\n";
    let module = instrument::instrument(PTX, &instrument::Options::default()).unwrap();
    let bench = Bench::with(Settings::default(), Fake::default(), module);
    let allocate = |base, size| {
        let kind = AllocationKind::Device;
        bench
            .runtime
            .allocations()
            .allocated(kind, extent(base, size));
    };
    allocate(A, 64);
    allocate(B, 64);
    for _ in 0..5 {
        assert!(matches!(bench.launch(A, B), LaunchDecision::Proved));
    }
    // Four bytes less behind the same pointer.
    bench.runtime.allocations().freeing(DeviceAddress(A));
    allocate(A, 60);
    for _ in 0..5 {
        assert_eq!(words(&bench.launch(A, B))[1..3], [A, 60]);
    }
    bench.runtime.allocations().freeing(DeviceAddress(A));
    allocate(A, 64);
    for _ in 0..5 {
        assert!(matches!(bench.launch(A, B), LaunchDecision::Proved));
    }
    // A pointer that never was there, and one beside its allocation.
    assert!(!is_original(&bench.launch(A + 4, B)));
    assert!(!is_original(&bench.launch(0, B)));
}
