//! Launches that are made without a decision, because they repeat one.

use super::fake::{Bench, COPY, Fake, KERNEL, MODULE, NAME, SHAPE, extent, resolved};
use crate::{Argument, LaunchShape, ModulePlan, Where};
use instrument::{EntryPlan, Instrumented};
use model::{AllocationKind, DeviceAddress, Prove, Settings};
use std::sync::Arc;

const A: u64 = 0x7f00_0000_0000;
const B: u64 = 0x7f00_0000_1000;
const C: u64 = 0x7f00_0000_2000;

/// A kernel of two pointers and a number, the index into what the first points to.
fn module() -> Instrumented {
    let ptx = format!(
        ".version 7.0\n.target sm_75\n.address_size 64\n\
         .visible .entry {NAME}(.param .u64 in, .param .u64 out, .param .u32 i)\n{{\n\
         .reg .b64 %rd<8>;\n.reg .b32 %r<2>;\n.reg .f32 %f<2>;\n\
         ld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\nld.param.u32 %r1, [i];\n\
         mul.wide.u32 %rd3, %r1, 4;\nadd.s64 %rd4, %rd1, %rd3;\nld.global.f32 %f1, [%rd4];\n\
         st.global.f32 [%rd2], %f1;\nret;\n}}\n"
    );
    instrument::instrument(&ptx, &instrument::Options::default()).expect("valid PTX")
}

fn bench(settings: Settings) -> Bench {
    let bench = Bench::with(settings, Fake::default(), module());
    for (base, size) in [(A, 1000), (B, 64)] {
        let allocations = bench.runtime.allocations();
        allocations.allocated(AllocationKind::Device, extent(base, size));
    }
    bench
}

/// Launches the kernel as the hook does; whether without a decision.
fn launch_of(bench: &Bench, shape: &LaunchShape, values: [u64; 3]) -> bool {
    let value = |argument: Argument| {
        assert_eq!(argument.within, 0);
        values.get(usize::from(argument.parameter)).copied()
    };
    if let Some(repeat) = bench.runtime.launcher().repeats(KERNEL, shape, value) {
        repeat.submitted(Where::Unknown);
        return true;
    }
    let read = |_: &EntryPlan, offset, _| values.get(offset as usize / 8).copied();
    let ticket = bench.runtime.begin_launch(crate::LaunchRequest {
        function: KERNEL,
        kernel: bench.runtime.modules().kernel_to_launch(KERNEL),
        shape,
        stream: None,
        read: &read,
    });
    ticket.keep(true);
    ticket.submitted(Where::Unknown);
    false
}

fn launch(bench: &Bench, values: [u64; 3]) -> bool {
    launch_of(bench, &SHAPE, values)
}

/// Whether the third launch of these in a row repeats the one before it.
fn settles(bench: &Bench, values: [u64; 3]) -> bool {
    for _ in 0..2 {
        assert!(!launch(bench, values));
    }
    launch(bench, values)
}

fn proved(bench: &Bench) -> u64 {
    bench.runtime.ending().coverage().kernels[NAME].proved
}

#[test]
fn a_launch_repeats_one_with_all_that_decides() {
    let bench = bench(Settings::default());
    assert!(settles(&bench, [A, B, 5]));
    assert_eq!(proved(&bench), 3, "repeated launches are counted");
    let wide = LaunchShape {
        block: [512, 1, 1],
        ..SHAPE
    };
    assert!(!launch_of(&bench, &wide, [A, B, 5]));
    for other in [[A + 4, B, 5], [A, B + 4, 5], [A, B, 250]] {
        assert!(!launch(&bench, other), "{other:x?}");
    }
    let checked = bench.runtime.ending().coverage().kernels[NAME].checked;
    assert_eq!(checked, 1, "index 250 is out of bounds");
}

#[test]
fn two_launches_in_turn_are_both_kept() {
    let bench = bench(Settings::default());
    let turns = [[A, B, 5], [A + 16, B, 5]];
    for _ in 0..4 {
        for values in turns {
            launch(&bench, values);
        }
    }
    assert!(turns.iter().all(|values| launch(&bench, *values)));
}

#[test]
fn what_is_allocated_or_freed_ends_it() {
    let bench = bench(Settings::default());
    assert!(settles(&bench, [A, B, 5]));
    let allocations = bench.runtime.allocations();
    allocations.allocated(AllocationKind::Device, extent(C, 64));
    assert!(settles(&bench, [A, B, 5]));
    allocations.freeing(DeviceAddress(B));
    assert!(!launch(&bench, [A, B, 5]));
    let checked = bench.runtime.ending().coverage().kernels[NAME].checked;
    assert_eq!(checked, 1, "its store is into freed memory");
}

#[test]
fn another_kernel_with_the_handle_is_another_kernel() {
    let bench = bench(Settings::default());
    assert!(settles(&bench, [A, B, 5]));
    let modules = bench.runtime.modules();
    modules.unloading(MODULE);
    modules.loaded(MODULE, Arc::new(ModulePlan::instrumented(vec![module()])));
    modules.resolved(resolved(KERNEL, MODULE, NAME, Some(COPY)));
    assert!(settles(&bench, [A, B, 5]));
    assert_eq!(proved(&bench), 6);
}

#[test]
fn runtimes_of_one_thread_are_told_apart() {
    let first = bench(Settings::default());
    assert!(settles(&first, [A, B, 5]));
    let second = bench(Settings::default());
    assert!(settles(&second, [A, B, 5]));
}

#[test]
fn each_thread_repeats_its_own() {
    let bench = bench(Settings::default());
    assert!(settles(&bench, [A, B, 5]));
    std::thread::scope(|scope| {
        let other = || (launch(&bench, [A, B, 5]), launch(&bench, [A, B, 5]));
        let repeated = scope.spawn(other).join().unwrap();
        assert_eq!(repeated, (false, true));
    });
    assert_eq!(proved(&bench), 5);
}

#[test]
fn a_refused_repetition_is_not_counted_and_may_come_again() {
    let bench = bench(Settings::default());
    assert!(settles(&bench, [A, B, 5]));
    let value = |argument: Argument| [A, B, 5].get(usize::from(argument.parameter)).copied();
    let repeat = bench.runtime.launcher().repeats(KERNEL, &SHAPE, value);
    repeat.expect("it was kept").refused();
    assert_eq!(proved(&bench), 3);
    assert!(launch(&bench, [A, B, 5]));
}

#[test]
fn nothing_is_repeated_where_each_launch_is_to_be_decided() {
    for settings in [
        Settings {
            prove: Prove::Verify,
            ..Settings::default()
        },
        Settings {
            prove: Prove::Off,
            ..Settings::default()
        },
        Settings {
            launch_skip: 1,
            ..Settings::default()
        },
    ] {
        let bench = bench(settings);
        for _ in 0..5 {
            assert!(!launch(&bench, [A, B, 5]));
        }
    }
    let bench = bench(Settings::default());
    assert!(settles(&bench, [A, B, 5]));
    let unreadable = |_: Argument| None;
    let launcher = bench.runtime.launcher();
    assert!(launcher.repeats(KERNEL, &SHAPE, unreadable).is_none());
}
