//! Launches of kernels that are never checked: made without a decision when they
//! come again, and taken over by canaries together.

use super::fake::{Bench, CONTEXT, Fake, extent, module, resolved};
use crate::canaries::history::Reach;
use crate::moment::of_one_test::ends_moments_alone;
use crate::{Fill, ModulePlan, StreamName, Where, moment_over, undecided};
use heap::Owner;
use model::{AllocationKind, DeviceAddress, Settings, UncheckedReason};
use std::sync::Arc;

const CLOSED: u64 = 0x12;
const FUNCTION: u64 = 0x32;
const OTHER: u64 = 0x33;
const NAMES: [&str; 2] = ["gemm", "other"];
const BUFFER: u64 = 0x7000_0000_0200;

fn stream(handle: u64) -> Where {
    Where::Stream {
        name: StreamName::Made(handle),
        handle,
        per_thread: false,
    }
}

/// A buffer with canaries, and kernels without PTX (a budget of 0 makes the first check
/// and those before waits, whatever the time), of whose launches no call stack is
/// taken: nothing but the kernel tells them apart.
fn bench(budget: u32) -> Bench {
    bench_with(Settings {
        canary_budget: budget,
        launch_backtraces: 0,
        ..Settings::default()
    })
}

fn bench_with(settings: Settings) -> Bench {
    ends_moments_alone();
    let bench = Bench::with(settings, Fake::default(), module(false));
    let reason = UncheckedReason::NoPtx;
    let plan = Arc::new(ModulePlan::original(reason, String::new()));
    let modules = bench.runtime.modules();
    modules.loaded(CLOSED, plan);
    for (handle, name) in [FUNCTION, OTHER].into_iter().zip(NAMES) {
        modules.resolved(resolved(handle, CLOSED, name, None));
    }
    let plan = bench.runtime.canaries().plans(64, true)[0];
    let owner = Owner {
        context: CONTEXT,
        ..Owner::default()
    };
    bench.runtime.canaries().allocated(
        AllocationKind::Device,
        extent(BUFFER, 64),
        owner,
        &plan,
        Fill::Now,
    );
    bench
}

/// Launches a kernel as the hook does; whether without a decision.
fn launch(bench: &Bench, function: u64, place: Where) -> bool {
    if let Some(made) = undecided(function, || Some(place)) {
        bench.runtime.launcher().unlisted(made);
        return true;
    }
    let ticket = bench.begin_of(function, &|_, _, _| None);
    ticket.keep(true);
    ticket.submitted(place);
    false
}

fn checks(bench: &Bench) -> usize {
    bench.device.early.lock().len()
}

/// Launches that a check can mean, oldest first.
fn candidates(bench: &Bench, check: u64) -> Vec<String> {
    let allocations = bench.runtime.allocations();
    let serial = allocations
        .belongs_to(DeviceAddress(BUFFER))
        .unwrap()
        .serial;
    let found = bench.runtime.canaries().candidates(check, Some(0), serial);
    let names = found.iter().rev().map(|launched| {
        assert!(matches!(launched.reach, Reach::All));
        launched.kernels[0].name.clone()
    });
    names.collect()
}

#[test]
fn a_launch_of_a_kernel_that_is_never_checked_needs_no_decision_again() {
    let bench = bench(1);
    assert!(!launch(&bench, FUNCTION, stream(5)));
    assert!(launch(&bench, FUNCTION, stream(6)));
    let refused = undecided(FUNCTION, || None).expect("it was made before");
    bench.runtime.launcher().unlisted(refused);
    assert!(!launch(&bench, OTHER, stream(5)));
    assert!(launch(&bench, FUNCTION, stream(5)));
    let coverage = bench.runtime.ending().coverage();
    let kernel = &coverage.kernels[NAMES[0]];
    // The refused one could not have been checked either, and was not verified.
    assert_eq!(kernel.unchecked[&UncheckedReason::NoPtx], 4);
    assert_eq!(kernel.verified, 3);
}

#[test]
fn all_of_the_budget_makes_a_check_of_each_launch() {
    let bench = bench(100);
    for _ in 0..4 {
        assert!(!launch(&bench, FUNCTION, stream(5)));
    }
    assert_eq!(checks(&bench), 4);
}

#[test]
fn the_first_launches_are_decided_about_while_they_have_call_stacks() {
    let settings = Settings {
        launch_backtraces: 2,
        ..Settings::default()
    };
    let bench = bench_with(settings);
    let decided = (0..4).map(|_| !launch(&bench, FUNCTION, stream(5)));
    // (The second one takes the last stack.)
    assert_eq!(decided.collect::<Vec<_>>(), [true, true, true, false]);
}

#[test]
fn what_a_thread_knows_is_so_for_a_moment() {
    let bench = bench(0);
    launch(&bench, FUNCTION, stream(5));
    launch(&bench, OTHER, stream(5));
    assert!(launch(&bench, FUNCTION, stream(5)));
    moment_over();
    assert!(!launch(&bench, FUNCTION, stream(5)));
    // The kernels are the same: one decision is enough.
    assert!(launch(&bench, OTHER, stream(5)));
    // A buffer is to get canaries before anything runs.
    let plan = bench.runtime.canaries().plans(64, true)[0];
    bench.runtime.canaries().allocated(
        AllocationKind::Device,
        extent(BUFFER + 0x1000, 64),
        Owner {
            context: CONTEXT,
            ..Owner::default()
        },
        &plan,
        Fill::Now,
    );
    assert!(!launch(&bench, OTHER, stream(5)));
    let coverage = bench.runtime.ending().coverage();
    let of = |name: &str| coverage.kernels[name].unchecked[&UncheckedReason::NoPtx];
    assert_eq!((of(NAMES[0]), of(NAMES[1])), (3, 3));
}

#[test]
fn launches_have_their_places_among_those_that_are_not_listed() {
    let bench = bench(0);
    launch(&bench, FUNCTION, stream(5));
    launch(&bench, OTHER, stream(5));
    for _ in 0..3 {
        assert!(launch(&bench, OTHER, stream(5)));
    }
    moment_over();
    assert!(!launch(&bench, FUNCTION, stream(5)));
    bench.runtime.host_waits().before(None);
    let allocations = bench.runtime.allocations();
    let serial = allocations
        .belongs_to(DeviceAddress(BUFFER))
        .unwrap()
        .serial;
    let found = bench.runtime.canaries().candidates(2, Some(0), serial);
    let numbered = found
        .iter()
        .rev()
        .map(|launched| (launched.launch, launched.kernels[0].name.as_str()));
    let other = (2..6).map(|ordinal| (ordinal, NAMES[1]));
    let expected: Vec<_> = other.chain([(6, NAMES[0])]).collect();
    assert_eq!(numbered.collect::<Vec<_>>(), expected);
}

#[test]
fn it_is_decided_about_again_when_the_module_is_gone() {
    let bench = bench(0);
    launch(&bench, FUNCTION, stream(5));
    assert!(launch(&bench, FUNCTION, stream(5)));
    let modules = bench.runtime.modules();
    modules.unloading(CLOSED);
    assert!(!launch(&bench, FUNCTION, stream(5)), "it is unknown");
    let reason = UncheckedReason::NoPtx;
    modules.loaded(
        CLOSED,
        Arc::new(ModulePlan::original(reason, String::new())),
    );
    modules.resolved(resolved(FUNCTION, CLOSED, "another", None));
    assert!(!launch(&bench, FUNCTION, stream(5)));
    assert!(launch(&bench, FUNCTION, stream(5)));
    let coverage = bench.runtime.ending().coverage();
    let count = |name: &str| coverage.kernels[name].unchecked[&reason];
    assert_eq!((count(NAMES[0]), count("another")), (2, 2));
}

#[test]
fn what_was_gathered_is_checked_before_the_host_waits() {
    let bench = bench(0);
    // The first is followed at once: no check was ever made.
    for _ in 0..10 {
        launch(&bench, FUNCTION, stream(5));
    }
    launch(&bench, OTHER, stream(5));
    assert_eq!(checks(&bench), 1);
    let waits = bench.runtime.host_waits();
    waits.before(Some(StreamName::Made(6)));
    assert_eq!(checks(&bench), 1, "nothing is in that stream");
    waits.before(Some(StreamName::Made(5)));
    assert_eq!(checks(&bench), 2);
    let mut expected = vec![NAMES[0]; 9];
    expected.push(NAMES[1]);
    assert_eq!(candidates(&bench, 2), expected);
    waits.before(Some(StreamName::Made(5)));
    assert_eq!(checks(&bench), 2, "each is verified once");
}

#[test]
fn each_stream_has_its_check_and_threads_leave_none_behind() {
    let bench = bench(0);
    launch(&bench, FUNCTION, stream(5));
    assert_eq!(checks(&bench), 1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for handle in [5, 6, 5] {
                launch(&bench, OTHER, stream(handle));
            }
        });
    });
    let waits = bench.runtime.host_waits();
    waits.before(None);
    assert_eq!(checks(&bench), 3);
    let all = |check| candidates(&bench, check).len();
    // Launches of the other stream may be meant, too: nothing orders the two.
    assert!((2..=3).contains(&all(2)) && (1..=3).contains(&all(3)));
    let coverage = bench.runtime.ending().coverage();
    assert_eq!(coverage.kernels[NAMES[1]].verified, 3);
}

#[test]
fn a_stream_that_ends_leaves_nothing_to_check() {
    let bench = bench(0);
    for _ in 0..3 {
        launch(&bench, FUNCTION, stream(5));
    }
    let before = checks(&bench);
    bench.runtime.frees().stream_ending(5);
    assert_eq!(checks(&bench), before + 1);
    bench.runtime.host_waits().before(None);
    assert_eq!(checks(&bench), before + 1);
}

#[test]
fn a_wait_ends_what_was_gathered_before_it() {
    let bench = bench(0);
    let waits = bench.runtime.host_waits();
    launch(&bench, FUNCTION, stream(5));
    launch(&bench, FUNCTION, stream(5));
    waits.before(Some(StreamName::Made(5)));
    waits.waited_for(StreamName::Made(5));
    launch(&bench, OTHER, stream(5));
    waits.before(Some(StreamName::Made(5)));
    let last = checks(&bench) as u64;
    assert_eq!(candidates(&bench, last), [NAMES[1]]);
}
