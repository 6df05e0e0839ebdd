//! Buffers at unmapped pages: what is mapped when, and what is found.

use super::fake::{Bench, CONTEXT, COPY, Fake, NAME, extent, module};
use crate::{
    FreeCall, FreeRequest, Owner, Placement, PlacementRequest, StreamName, StreamUse, Where,
};
use driver::sys::CUresult;
use driver::{DeviceFailure, FailedKernel, FailedThread};
use model::layout::placed::{MAPPING_GRANULE, PLACED_BASE};
use model::{
    AllocationKind, DeviceAddress, ElsewhereReason, Finding, MemoryBudget, PagesCoverage,
    PagesPlace, Protections, Relation, Rule, Settings, Stopped, ThreadCoordinates,
};
use std::sync::atomic::Ordering;

const MIB: u64 = 1 << 20;
const STREAM: StreamUse = StreamUse {
    name: StreamName::Made(5),
    context: CONTEXT,
    blocking: true,
};

fn settings() -> Settings {
    Settings {
        protect: Protections {
            bounds: false,
            canary: false,
            watch: false,
            shadow: false,
            pages: true,
        },
        seed: 1,
        ..Settings::default()
    }
}

fn bench(settings: Settings, total: u64) -> Bench {
    let device = Fake::default();
    device.vmm.lock().total = total;
    Bench::with(settings, device, module(false))
}

/// Allocates as the shim does, but for canaries.
fn allocate(bench: &Bench, size: u64) -> Option<Placement> {
    let placement = bench.runtime.placements().place(&PlacementRequest {
        size,
        in_stream_order: false,
        obstacle: None,
    })?;
    let owner = Owner {
        context: CONTEXT,
        ..Owner::default()
    };
    let kind = AllocationKind::Device;
    let allocations = bench.runtime.allocations();
    allocations.allocated_by(kind, extent(placement.base.0, size), owner);
    Some(placement)
}

fn free_by(bench: &Bench, address: DeviceAddress, call: FreeCall, capturing: bool) -> CUresult {
    let request = FreeRequest {
        function: "cuMemFree_v2",
        call,
        address,
        capturing,
    };
    // Of a free during a capture the driver says whether the capture allows it.
    let forward = |address| match capturing {
        true => CUresult::CUDA_ERROR_INVALID_VALUE,
        false => panic!("the driver is asked to free {address}"),
    };
    bench.runtime.frees().free(request, &forward)
}

fn free(bench: &Bench, address: DeviceAddress) -> CUresult {
    free_by(bench, address, FreeCall::Free, false)
}

fn counts(bench: &Bench) -> PagesCoverage {
    let coverage = bench.runtime.ending().coverage();
    coverage.pages.expect("buffers were asked for")
}

#[test]
fn each_end_lies_at_an_unmapped_page() {
    let bench = bench(settings(), 1 << 40);
    for size in [1, 511, 512, 1000, MIB, 2 * MIB, 2 * MIB + 1, 100 << 30] {
        let placement = allocate(&bench, size).unwrap();
        let base = placement.base.0;
        let end = base + size + placement.after;
        let vmm = bench.device.vmm.lock();
        assert!(base >= PLACED_BASE && base.is_multiple_of(512));
        assert!(placement.after < 512 && end.is_multiple_of(MAPPING_GRANULE));
        assert!(vmm.holds(base) && vmm.holds(end - 1) && !vmm.holds(end));
        let start = end - (size + placement.after).next_multiple_of(MAPPING_GRANULE);
        assert!(vmm.holds(base - placement.before) && !vmm.holds(start - 1));
    }
    let counts = counts(&bench);
    assert_eq!((counts.exact, counts.shared, counts.reused), (8, 0, 0));
    assert_eq!(counts.memory, bench.device.vmm.lock().used());
}

#[test]
fn each_start_lies_at_an_unmapped_page_if_that_is_asked_for() {
    let settings = Settings {
        pages_place: PagesPlace::Start,
        ..settings()
    };
    let bench = bench(settings, 1 << 40);
    for size in [1, 1000, 3 * MIB] {
        let placement = allocate(&bench, size).unwrap();
        assert_eq!(placement.before, 0);
        assert!(placement.base.0.is_multiple_of(MAPPING_GRANULE));
        assert!((placement.base.0 + size + placement.after).is_multiple_of(16));
        let vmm = bench.device.vmm.lock();
        assert!(!vmm.holds(placement.base.0 - 1));
        assert!(vmm.holds(placement.base.0 + size + placement.after - 1));
    }
}

#[test]
fn nothing_is_placed_after_a_kernel_has_failed() {
    let bench = bench(settings(), 1 << 40);
    assert!(allocate(&bench, MIB).is_some());
    let failed = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
    let failures = bench.runtime.failures();
    failures.kernel_failed(failed, "cuCtxSynchronize");
    // The program's own call returns the error.
    assert_eq!(allocate(&bench, MIB), None);
    bench.runtime.context_gone(Some(CONTEXT));
    assert!(allocate(&bench, MIB).is_some());
}

#[test]
fn an_alignment_of_one_leaves_no_byte() {
    let settings = Settings {
        pages_align: 1,
        ..settings()
    };
    let bench = bench(settings, 1 << 30);
    let placement = allocate(&bench, 1001).unwrap();
    let end = placement.base.0 + 1001;
    assert!(end.is_multiple_of(MAPPING_GRANULE) && placement.after == 0);
    // Canaries begin at multiples of 16.
    assert_eq!(placement.before, 0);
}

#[test]
fn freed_memory_goes_back_and_its_addresses_stay_away() {
    let bench = bench(settings(), 64 * MIB);
    let mut seen = Vec::new();
    for _ in 0..1000 {
        let placement = allocate(&bench, 20 * MIB).expect("there is memory");
        assert!(!seen.contains(&placement.base));
        seen.push(placement.base);
        assert_eq!(free(&bench, placement.base), CUresult::CUDA_SUCCESS);
        assert_eq!(bench.device.vmm.lock().used(), 0);
    }
    let counts = counts(&bench);
    assert_eq!((counts.exact, counts.memory), (1000, 20 * MIB));
    assert_eq!(counts.reused, 0);
    // The driver has nothing there, and refuses a second free.
    let request = FreeRequest {
        function: "cuMemFree_v2",
        call: FreeCall::Free,
        address: seen[500],
        capturing: false,
    };
    let refuse = |_| CUresult::CUDA_ERROR_INVALID_VALUE;
    assert_eq!(
        bench.runtime.frees().free(request, &refuse),
        refuse(DeviceAddress(0))
    );
    let findings = bench.process().findings;
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].rule, Rule::DoubleFree);
    let freed = findings[0].intended.as_ref().unwrap();
    assert!(freed.freed && freed.allocation.extent.base == seen[500]);
}

#[test]
fn what_the_budget_does_not_pay_for_shares_pages() {
    let settings = Settings {
        pages_budget: MemoryBudget::Bytes(8 * MIB),
        ..settings()
    };
    let bench = bench(settings, 64 * MIB);
    let all: Vec<Placement> = (0..2000)
        .map(|_| allocate(&bench, 600).expect("there is memory"))
        .collect();
    let mut pages: Vec<u64> = all
        .iter()
        .map(|placement| placement.base.0 / MAPPING_GRANULE)
        .collect();
    pages.sort_unstable();
    pages.dedup();
    // Each has addresses of its own, and a granule without anything beside it.
    assert_eq!(pages.len(), 2000);
    assert!(pages.windows(2).all(|pair| pair[1] > pair[0] + 1));
    let before = counts(&bench);
    assert!(before.exact >= 2 && before.exact <= 4, "{before:?}");
    assert_eq!(before.exact + before.shared, 2000);
    assert_eq!(before.seed, 1);
    assert!(before.memory <= 16 * MIB && before.memory == bench.device.vmm.lock().used());
    for placement in &all {
        assert!(placement.before >= 16 && placement.after >= 16);
        assert_eq!(free(&bench, placement.base), CUresult::CUDA_SUCCESS);
    }
    let vmm = bench.device.vmm.lock();
    assert_eq!((vmm.used(), vmm.mapped.len()), (0, 0));
}

#[test]
fn small_ones_share_where_memory_is_short_and_large_ones_are_the_drivers() {
    let settings = Settings {
        pages_budget: MemoryBudget::Percent(100),
        ..settings()
    };
    let bench = bench(settings, 8 * MIB);
    for _ in 0..3 {
        allocate(&bench, 1000).unwrap();
    }
    // The last piece is not given to one alone.
    let left = || 8 * MIB - bench.device.vmm.lock().used();
    assert_eq!(left(), 2 * MIB);
    assert_eq!(allocate(&bench, 3 * MIB), None);
    assert_eq!(counts(&bench).elsewhere[&ElsewhereReason::OutOfMemory], 1);
    while left() > 0 {
        allocate(&bench, 1000).unwrap();
    }
    assert!(counts(&bench).exact >= 3);
    // The driver answers these itself.
    assert_eq!(allocate(&bench, 0), None);
    assert_eq!(counts(&bench).elsewhere.values().sum::<u64>(), 1);
}

#[test]
fn a_device_without_virtual_memory_management_is_the_drivers_own() {
    let bench = bench(settings(), 0);
    assert_eq!(allocate(&bench, 1000), None);
    assert_eq!(allocate(&bench, 3 * MIB), None);
    assert_eq!(counts(&bench).elsewhere[&ElsewhereReason::Refused], 2);
    assert!(bench.log().contains("no buffer can be placed"));
}

#[test]
fn memory_that_a_stream_frees_goes_when_the_stream_has_come_there() {
    let bench = bench(settings(), 64 * MIB);
    let [a, b] = [(); 2].map(|()| allocate(&bench, 20 * MIB).unwrap().base);
    let in_stream = FreeCall::FreeAsync { stream: STREAM };
    bench.device.behind.store(true, Ordering::Relaxed);
    assert_eq!(free_by(&bench, a, in_stream, false), CUresult::CUDA_SUCCESS);
    let is_there = |address: DeviceAddress| bench.device.vmm.lock().holds(address.0);
    assert!(is_there(a));
    bench.runtime.host_waits().waited_for(STREAM.name);
    assert!(is_there(a));
    bench.device.behind.store(false, Ordering::Relaxed);
    allocate(&bench, 100).unwrap();
    assert!(!is_there(a));
    // While a stream is captured, nothing can be waited for.
    assert_eq!(
        free_by(&bench, b, FreeCall::Free, true),
        CUresult::CUDA_SUCCESS
    );
    assert!(is_there(b));
    // What began before the free does not count.
    bench.runtime.host_waits().waited_for_context(CONTEXT);
    assert!(is_there(b));
    assert!(bench.runtime.host_waits().acts_before());
    bench.runtime.host_waits().before(None);
    bench.runtime.host_waits().waited_for_context(CONTEXT);
    assert!(!is_there(b));
}

#[test]
fn a_free_that_a_capture_forbids_is_not_made() {
    let bench = bench(settings(), 64 * MIB);
    let a = allocate(&bench, 20 * MIB).unwrap().base;
    let request = FreeRequest {
        function: "cuMemFree_v2",
        call: FreeCall::Free,
        address: a,
        capturing: true,
    };
    let answer = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    let forward = |_| answer;
    assert_eq!(bench.runtime.frees().free(request, &forward), answer);
    bench.runtime.host_waits().before(None);
    bench.runtime.host_waits().waited_for_context(CONTEXT);
    assert!(bench.device.vmm.lock().holds(a.0));
    assert_eq!(free(&bench, a), CUresult::CUDA_SUCCESS);
}

#[test]
fn memory_that_is_needed_is_waited_for() {
    let bench = bench(settings(), 64 * MIB);
    let a = allocate(&bench, 40 * MIB).unwrap().base;
    assert_eq!(
        free_by(&bench, a, FreeCall::Free, true),
        CUresult::CUDA_SUCCESS
    );
    assert!(allocate(&bench, 40 * MIB).is_some());
    assert!(!bench.device.vmm.lock().holds(a.0));
    assert!(!bench.runtime.frees().empty_quarantine());
}

#[test]
fn memory_of_a_context_goes_with_it() {
    let bench = bench(settings(), 64 * MIB);
    let first = allocate(&bench, 20 * MIB).unwrap().base;
    let second = allocate(&bench, 1000).unwrap().base;
    free_by(&bench, second, FreeCall::Free, true);
    bench.runtime.context_gone(Some(CONTEXT));
    assert_eq!(bench.device.vmm.lock().used(), 0);
    let next = allocate(&bench, 20 * MIB).unwrap().base;
    assert!(next > first && next > second);
}

/// What is reported when a kernel could not access an address.
fn fault(bench: &Bench, address: u64) -> Finding {
    fault_of(bench, address, Vec::new())
}

fn fault_of(bench: &Bench, address: u64, threads: Vec<FailedThread>) -> Finding {
    let place = Where::Stream {
        name: STREAM.name,
        handle: 5,
        per_thread: false,
    };
    bench.begin(0, 0, |ticket| ticket.submitted(place));
    *bench.device.failed.lock() = Some(DeviceFailure {
        code: CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
        kernel: Some(FailedKernel {
            function: COPY,
            name: NAME.into(),
            stopped: Stopped {
                detail: "not mapped".into(),
                thread: ThreadCoordinates {
                    block: [0; 3],
                    thread: [0; 3],
                },
                source: None,
                ptx_line: 1,
                instruction: "ld.global.u32".into(),
            },
            address,
            threads,
        }),
        detail: "not mapped".into(),
        device_lacks: false,
    });
    let failures = bench.runtime.failures();
    failures.kernel_failed(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, "cuCtxSynchronize");
    let mut findings = bench.process().findings;
    assert_eq!(findings.len(), 1);
    findings.remove(0)
}

#[test]
fn a_fault_names_the_buffer_and_the_distance() {
    let bench = bench(settings(), 64 * MIB);
    let [_, b, _] = [(); 3].map(|()| allocate(&bench, 4096).unwrap().base);
    let finding = fault(&bench, b.0 + 4096 + 12);
    assert_eq!(finding.rule, Rule::KernelFailed);
    let near = finding.intended.unwrap();
    assert_eq!(near.allocation.extent, extent(b.0, 4096));
    assert_eq!((near.relation, near.freed), (Relation::After(12), false));
    assert!(!near.allocated_at.is_empty());
}

#[test]
fn a_fault_names_what_was_freed_long_ago() {
    let bench = bench(settings(), 64 * MIB);
    let old = allocate(&bench, 4096).unwrap().base;
    free(&bench, old);
    for _ in 0..20_000 {
        let other = allocate(&bench, 4096).unwrap().base;
        free(&bench, other);
    }
    allocate(&bench, 4096).unwrap();
    let near = fault(&bench, old.0 + 8).intended.unwrap();
    assert_eq!(near.allocation.extent, extent(old.0, 4096));
    assert_eq!((near.relation, near.freed), (Relation::Inside(8), true));
    assert!(!near.freed_at.is_empty());
}

#[test]
fn a_fault_elsewhere_names_no_buffer() {
    let bench = bench(settings(), 64 * MIB);
    allocate(&bench, 4096).unwrap();
    assert_eq!(fault(&bench, 16).intended, None);
}

#[test]
fn of_the_addresses_in_a_core_dump_the_one_counts_that_nothing_has() {
    let bench = bench(settings(), 64 * MIB);
    let base = allocate(&bench, 4096).unwrap().base.0;
    let thread = |number: u32, address| FailedThread {
        thread: ThreadCoordinates {
            block: [3, 0, 0],
            thread: [number, 0, 0],
        },
        address,
    };
    let threads = vec![
        thread(0, base),
        thread(1, 0x10),
        thread(2, base + 4096),
        thread(3, base + 4100),
    ];
    let finding = fault_of(&bench, 0, threads);
    assert_eq!(finding.address.0, base + 4096);
    let near = finding.intended.as_ref().unwrap();
    assert_eq!(near.relation, Relation::After(0));
    let stopped = finding.failure().unwrap().stopped.as_ref().unwrap();
    assert_eq!(
        (stopped.thread.block, stopped.thread.thread),
        ([3, 0, 0], [2, 0, 0])
    );
}
