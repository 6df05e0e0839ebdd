//! From records to findings.

use super::fake::{Bench, CONTEXT, Fake, KERNEL, MODULE, NAME, extent, module, record};
use crate::{CallDecision, Effect, FreeCall, FreeRequest, Owner, Place, Side, Touched, When};
use driver::sys::CUresult;
use model::layout::{RING_CAPACITY, Record};
use model::{
    AllocationKind, DeviceAddress, LeakCheck, Provenance, Relation, Rule, Settings, Subject,
    ThreadCoordinates,
};
use std::time::{Duration, Instant};

const A: u64 = 0x7f00_0000_0000;
const B: u64 = 0x7f00_0000_1000;

#[test]
fn a_write_past_the_end_is_one_finding_with_everything_known_about_it() {
    let bench = Bench::new();
    bench
        .runtime
        .allocations()
        .allocated(AllocationKind::Device, extent(A, 64));
    bench
        .runtime
        .allocations()
        .allocated(AllocationKind::Device, extent(B, 64));
    bench.launch(A, B);
    // Sites 1 and 2 share the check: at 60 only the second runs over the end.
    assert!(bench.device.leave(record(1, A + 60, 1)));
    assert!(bench.device.leave(record(1, A + 60, 1)));
    bench.runtime.synchronized();
    bench.runtime.ending().finish();

    let process = bench.process();
    assert_eq!(process.findings.len(), 1);
    let finding = &process.findings[0];
    assert_eq!(finding.rule, Rule::GlobalOutOfBoundsWrite);
    let access = finding.access().unwrap();
    assert_eq!(
        (access.ptx_line, access.width, finding.address),
        (22, 4, DeviceAddress(A + 64))
    );
    assert_eq!(
        (access.kernel.as_str(), access.launch, finding.occurrences),
        (NAME, 1, 2)
    );
    assert_eq!(
        access.thread,
        ThreadCoordinates {
            block: [7, 6, 5],
            thread: [3, 2, 1]
        }
    );
    let intended = finding.intended.as_ref().unwrap();
    assert_eq!(intended.allocation.extent, extent(A, 64));
    assert_eq!(
        (intended.allocation.serial, intended.relation),
        (1, Relation::After(0))
    );
    assert!(
        intended
            .allocated_at
            .iter()
            .any(|frame| frame.function.contains("a_write_past_the_end"))
    );
    assert!(!access.launched_at.is_empty());
    assert_eq!(finding.nearest, None);
    assert!(process.complete);
    assert!(
        bench
            .log()
            .contains("Invalid __global__ write of size 4 bytes")
    );
}

#[test]
fn what_is_out_of_bounds_is_not_also_misaligned() {
    let bench = Bench::new();
    let pair = [A, B];
    for base in pair {
        let extent = extent(base, 64);
        bench
            .runtime
            .allocations()
            .allocated(AllocationKind::Device, extent);
    }
    bench.launch(A, B);
    // Both of sites 1 and 2, which share a check; site 3 of the other buffer
    // ends past it.
    assert!(bench.device.leave(record(1, A + 6, 1)));
    assert!(bench.device.leave(record(3, B + 62, 1)));
    bench.runtime.synchronized();
    bench.runtime.ending().finish();

    let found: Vec<_> = bench
        .process()
        .findings
        .iter()
        .map(|finding| {
            (
                finding.rule,
                finding.address,
                finding.access().unwrap().alignment,
            )
        })
        .collect();
    let misaligned = |at| (Rule::MisalignedAccess, DeviceAddress(at), Some(4));
    let outside = (Rule::GlobalOutOfBoundsRead, DeviceAddress(B + 62), None);
    assert_eq!(found, [misaligned(A + 6), misaligned(A + 10), outside]);
}

#[test]
fn the_buffer_that_was_hit_is_named_beside_the_intended_one() {
    let bench = Bench::new();
    bench
        .runtime
        .allocations()
        .allocated(AllocationKind::Device, extent(A, 64));
    bench
        .runtime
        .allocations()
        .allocated(AllocationKind::Device, extent(B, 64));
    bench.launch(A, A);
    bench.device.leave(record(3, B + 8, 1));
    bench.runtime.synchronized();
    let finding = bench.process().findings.remove(0);
    assert_eq!(finding.rule, Rule::GlobalOutOfBoundsRead);
    assert_eq!(
        finding.intended.unwrap().relation,
        Relation::After(B + 8 - A - 64)
    );
    let nearest = finding.nearest.unwrap();
    assert_eq!(
        (nearest.allocation.serial, nearest.relation),
        (2, Relation::Inside(8))
    );
}

#[test]
fn a_freed_pointer_is_traced_to_its_allocation_and_free() {
    let bench = Bench::new();
    bench
        .runtime
        .allocations()
        .allocated(AllocationKind::Device, extent(A, 64));
    bench.runtime.allocations().freeing(DeviceAddress(A));
    bench.launch(A, 0);
    bench.device.leave(record(1, A + 8, 1));
    bench.device.leave(record(3, 0, 1));
    bench.runtime.synchronized();
    let findings = bench.process().findings;
    // Both members of the group are wrong, and the null pointer.
    assert_eq!(findings.len(), 3);
    let rules: Vec<Rule> = findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(
        rules,
        [Rule::UseAfterFree, Rule::UseAfterFree, Rule::InvalidPointer]
    );
    let freed = findings[0].intended.as_ref().unwrap();
    assert!(freed.freed && !freed.freed_at.is_empty());
    assert_eq!(freed.relation, Relation::Inside(8));
    assert_eq!(
        (&findings[2].intended, &findings[2].nearest),
        (&None, &None)
    );
    assert!(bench.log().contains("is a null pointer"));
}

#[test]
fn records_of_device_functions_carry_their_bounds_and_find_their_kernel() {
    let mut with_function = module(true);
    with_function.sites[3].function = "_Z4loadPf".into();
    let bench = Bench::with(Settings::default(), Fake::default(), with_function);
    bench
        .runtime
        .allocations()
        .allocated(AllocationKind::Device, extent(A, 64));
    bench.launch(A, A);
    bench.device.leave(Record {
        base: A,
        size: 64,
        ..record(4, A + 62, 0)
    });
    // A lookup that found nothing answers the pointer and size 0. (Nearer than
    // that it would be out of bounds.)
    let far = B + 4096;
    bench.device.leave(Record {
        base: far,
        size: 0,
        ..record(4, far + 4, 0)
    });
    bench.runtime.synchronized();
    let findings = bench.process().findings;
    assert_eq!(findings.len(), 2);
    let access = findings[0].access().unwrap();
    assert_eq!(
        (access.kernel.as_str(), access.function.as_str()),
        (NAME, "_Z4loadPf")
    );
    assert_eq!(
        findings[0].intended.as_ref().unwrap().relation,
        Relation::Inside(62)
    );
    assert_eq!(findings[1].rule, Rule::InvalidPointer);
    assert_eq!(
        findings[1].nearest.as_ref().unwrap().relation,
        Relation::After(far + 4 - A - 64)
    );
}

/// What lies gigabytes away is named by chance.
#[test]
fn nothing_that_is_far_away_is_the_nearest() {
    let nearest = |address| {
        let bench = Bench::with(Settings::default(), Fake::default(), module(true));
        let allocations = bench.runtime.allocations();
        allocations.allocated(AllocationKind::Device, extent(A, 64));
        bench.launch(A, A);
        bench.device.leave(Record {
            base: address,
            size: 0,
            ..record(4, address, 0)
        });
        bench.runtime.synchronized();
        let finding = bench.process().findings.remove(0);
        assert_eq!(finding.rule, Rule::InvalidPointer);
        finding.nearest.is_some()
    };
    assert_eq!([A + (1 << 30), A + (3 << 30)].map(nearest), [true, false]);
}

#[test]
fn what_the_driver_knows_is_no_finding_but_said() {
    let device = Fake::default();
    device.foreign.lock().0.push(extent(B, 64));
    let bench = Bench::with(Settings::default(), device, module(true));
    bench.launch(0, 0);
    bench.device.leave(Record {
        base: B,
        size: 0,
        ..record(4, B + 4, 1)
    });
    bench.runtime.synchronized();
    let process = bench.process();
    assert!(process.findings.is_empty());
    assert!(
        process.errors[0].contains("does not hook"),
        "{:?}",
        process.errors
    );
}

#[test]
fn a_full_ring_drops_and_later_records_still_arrive() {
    let bench = Bench::new();
    bench
        .runtime
        .allocations()
        .allocated(AllocationKind::Device, extent(A, 64));
    bench.launch(A, A);
    let mut kept = 0;
    for _ in 0..RING_CAPACITY + 100 {
        kept += u64::from(bench.device.leave(record(1, A + 60, 1)));
    }
    // The drain thread may have drained meanwhile.
    assert!(kept >= RING_CAPACITY);
    bench.runtime.synchronized();
    std::thread::sleep(Duration::from_millis(8));
    bench.runtime.synchronized();
    assert!(bench.device.leave(record(3, A + 100, 1)));
    bench.runtime.ending().finish();
    let process = bench.process();
    assert_eq!(process.coverage.dropped_records, RING_CAPACITY + 100 - kept);
    let occurrences: Vec<u64> = process
        .findings
        .iter()
        .map(|finding| finding.occurrences)
        .collect();
    assert_eq!(occurrences, [kept, 1]);
}

#[test]
fn a_kernel_that_never_ends_still_reports() {
    let bench = Bench::new();
    bench
        .runtime
        .allocations()
        .allocated(AllocationKind::Device, extent(A, 64));
    bench.launch(A, A);
    bench.device.leave(record(1, A + 64, 1));
    let start = Instant::now();
    while bench.process().findings.is_empty() {
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "the drain thread did not drain"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_print_limit_silences_the_text_only() {
    let settings = Settings {
        print_limit: 1,
        ..Settings::default()
    };
    let bench = Bench::with(settings, Fake::default(), module(false));
    bench.launch(0, 0);
    bench.device.leave(record(1, 0, 1));
    bench.device.leave(record(3, 0, 1));
    bench.runtime.ending().finish();
    assert_eq!(bench.process().findings.len(), 3);
    let log = bench.log();
    assert_eq!(log.matches("Invalid").count(), 1);
    assert!(log.contains("print limit of 1 reached"));
    assert!(log.contains("2 more findings were not shown"));
}

#[test]
fn suppressed_findings_are_counted_and_not_shown() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "[known]\nrule = invalid-pointer\nkernel = *\n[other]\nobject = table\n";
    std::fs::write(file.path(), text).unwrap();
    let settings = Settings {
        suppressions: Some(file.path().into()),
        gen_suppressions: true,
        ..Settings::default()
    };
    let bench = Bench::with(settings, Fake::default(), module(false));
    bench
        .runtime
        .allocations()
        .allocated(AllocationKind::Device, extent(A, 64));
    bench.launch(A, 0);
    bench.device.leave(record(3, 0, 1));
    bench.device.leave(record(1, A + 60, 1));
    bench.runtime.ending().finish();
    let process = bench.process();
    assert_eq!(process.suppressed.len(), 1);
    assert_eq!(process.suppressed[0].0, "known (line 1)");
    assert_eq!(process.suppressed[0].1.rule, Rule::InvalidPointer);
    assert_eq!(process.findings.len(), 1);
    let log = bench.log();
    assert_eq!(log.matches("Invalid").count(), 1);
    // What follows the finding is an entry that suppresses it.
    let entry: String = log
        .lines()
        .filter(|line| !line.starts_with("=====") && !line.starts_with("ringfence:"))
        .map(|line| line.to_string() + "\n")
        .collect();
    let again = report::Suppressions::parse(&entry).unwrap();
    assert!(again.find(&process.findings[0]).is_some(), "{entry}");
}

#[test]
fn forged_and_contradictory_records_are_said_and_not_believed() {
    let bench = Bench::new();
    bench
        .runtime
        .allocations()
        .allocated(AllocationKind::Device, extent(A, 64));
    bench.launch(A, A);
    bench.device.leave(Record {
        module: 1,
        ..record(1, A, 1)
    });
    bench.device.leave(record(99, A + 64, 1));
    bench.device.leave(record(1, A, 1));
    bench.runtime.synchronized();
    let process = bench.process();
    assert!(process.findings.is_empty());
    assert_eq!(process.errors.len(), 3);
}

#[test]
fn variables_are_named() {
    let mut with_variable = module(false);
    with_variable.sites[2].provenance = Provenance::Variable;
    let bench = Bench::with(Settings::default(), Fake::default(), with_variable);
    bench
        .runtime
        .allocations()
        .variable_resolved("_ZN5table4dataE", extent(B, 16));
    bench.launch(0, 0);
    bench.device.leave(Record {
        base: B,
        size: 16,
        ..record(3, B + 16, 1)
    });
    bench.runtime.modules().unloading(MODULE);
    bench
        .runtime
        .launcher()
        .unhooked(KERNEL, model::UncheckedReason::LaunchPath);
    bench.runtime.synchronized();
    let finding = bench.process().findings.remove(0);
    assert_eq!(
        finding.intended.unwrap().allocation.name.as_deref(),
        Some("_ZN5table4dataE")
    );
}

/// Frees that are wrong, as a hook of the shim reports them.
#[inline(never)]
fn free_again(bench: &Bench) {
    let request = FreeRequest {
        function: "cuMemFree_v2",
        call: FreeCall::Free,
        address: DeviceAddress(A),
        capturing: false,
    };
    let refused = CUresult::CUDA_ERROR_INVALID_VALUE;
    let answer = bench.runtime.frees().free(request, &|_| refused);
    assert_eq!(answer, refused);
}

#[test]
fn calls_of_the_same_place_are_one_finding() {
    let bench = Bench::new();
    bench
        .runtime
        .allocations()
        .allocated(AllocationKind::Device, extent(A, 64));
    bench.runtime.allocations().freeing(DeviceAddress(A));
    for _ in 0..std::hint::black_box(3) {
        free_again(&bench);
    }
    free_again(&bench);
    // A copy to nowhere.
    let side = Side {
        touched: Touched::linear(B, 8),
        place: Place::Device,
        effect: Effect::Write,
    };
    let calls = bench.runtime.host_calls();
    match calls.check("cuMemcpyHtoD_v2", When::Unknown, &[side]) {
        CallDecision::Doubt(doubt) => calls.refused(&doubt),
        decided => panic!("{decided:?}"),
    }
    bench.runtime.ending().finish();
    let findings = bench.process().findings;
    let seen: Vec<u64> = findings.iter().map(|finding| finding.occurrences).collect();
    assert_eq!(seen, [3, 1, 1]);
    let call = findings[0].call().unwrap();
    assert_eq!(call.function, "cuMemFree_v2");
    assert!(
        call.called_at
            .iter()
            .any(|frame| frame.function.contains("free_again"))
    );
    let freed = findings[0].intended.as_ref().unwrap();
    assert!(freed.freed && !freed.freed_at.is_empty() && !freed.allocated_at.is_empty());
    assert_eq!(findings[2].intended, None);
    assert!(
        bench
            .log()
            .contains("Double free by cuMemFree_v2 [double-free]")
    );
}

#[test]
fn leaks_of_the_same_place_are_one_finding() {
    let settings = Settings {
        leak_check: LeakCheck::Full,
        ..Settings::default()
    };
    let bench = Bench::with(settings, Fake::default(), module(false));
    let own = Owner {
        context: CONTEXT,
        ..Owner::default()
    };
    // One place, however the loop is compiled.
    for base in std::hint::black_box(vec![A, B]) {
        bench
            .runtime
            .allocations()
            .allocated_by(AllocationKind::Device, extent(base, 64), own);
    }
    bench
        .runtime
        .allocations()
        .allocated_by(AllocationKind::Device, extent(B + 4096, 32), own);
    bench.runtime.allocations().freeing(DeviceAddress(B + 4096));
    bench
        .runtime
        .allocations()
        .variable_resolved("table", extent(B + 8192, 16));
    // A graph's memory, say.
    bench
        .runtime
        .allocations()
        .allocated(AllocationKind::Pool, extent(B + 16384, 16));
    bench.runtime.ending().finish();
    assert!(bench.process().findings.is_empty());
    bench.runtime.ending().end();
    let findings = bench.process().findings;
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].subject, Subject::Leak);
    assert_eq!((findings[0].address.0, findings[0].occurrences), (A, 2));
    assert!(bench.log().contains("Leak of 64 bytes [memory-leak]"));
}
