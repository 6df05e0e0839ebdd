//! When the guard is launched, and what is said when it cannot be.

use super::fake::{Bench, CONTEXT, Fake, KERNEL, module};
use crate::{StreamName, Waits, Watch, WatchedLaunch};
use driver::SupportStream;
use driver::sys::CUresult;
use model::{Protections, Settings};

const LAUNCH: WatchedLaunch = WatchedLaunch {
    name: StreamName::Made(5),
    stream: SupportStream::Program {
        handle: 5,
        per_thread: false,
    },
    context: CONTEXT,
    function: Some(KERNEL),
};

fn bench() -> Bench {
    let settings = Settings {
        protect: Protections {
            bounds: true,
            canary: false,
            watch: true,
            shadow: false,
            pages: false,
        },
        ..Settings::default()
    };
    Bench::with(settings, Fake::default(), module(false))
}

/// Numbers of the slices that were launched.
fn slices(bench: &Bench) -> Vec<u64> {
    let launched = bench.device.support.lock();
    let number = |block: &Vec<u8>| u64::from_le_bytes(block[..8].try_into().unwrap());
    launched.iter().map(number).collect()
}

fn launch(watch: &Watch) {
    watch.launching(&LAUNCH);
    watch.launched(&LAUNCH);
}

#[test]
fn it_starts_when_there_is_something_to_look_at() {
    let bench = bench();
    let watch = bench.runtime.watch();
    launch(watch);
    assert_eq!(slices(&bench), [0; 0]);
    // With the first buffer, so that it is warm when kernels come.
    watch.table_slots(3);
    assert_eq!(slices(&bench), [1]);
    launch(watch);
    watch.table_slots(4);
    assert_eq!(slices(&bench), [1], "it is there already");
    let parameters = bench.device.support.lock()[0].clone();
    assert_eq!(parameters.len(), 32);
    assert_eq!(parameters[8..16], CONTEXT.to_le_bytes());
}

#[test]
fn while_somebody_pauses_it_does_not_come_back() {
    let bench = bench();
    let watch = bench.runtime.watch();
    watch.table_slots(1);
    launch(watch);
    let outer = watch.pause(Waits::ForAll);
    let inner = watch.pause(Waits::Perhaps);
    launch(watch);
    drop(inner);
    launch(watch);
    assert_eq!(slices(&bench), [1]);
    // The program has been launching: it is there before the next kernel.
    drop(outer);
    assert_eq!(slices(&bench), [1, 2]);
    // It has not since, and nothing runs there any more.
    drop(watch.pause(Waits::ForAll));
    assert_eq!(slices(&bench), [1, 2]);
    launch(watch);
    assert_eq!(slices(&bench), [1, 2, 3]);
    drop(watch.pause_for_good(CONTEXT));
    assert_eq!(slices(&bench), [1, 2, 3], "the context may be gone");
}

#[test]
fn a_guard_that_cannot_stay_is_told_of_once() {
    let bench = bench();
    *bench.device.refusal.lock() = CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    let watch = bench.runtime.watch();
    assert!(!watch.is_off());
    watch.table_slots(1);
    launch(watch);
    launch(watch);
    assert!(watch.is_off());
    let log = bench.log();
    assert_eq!(log.matches("cannot stay on the device").count(), 1, "{log}");
    assert!(
        log.contains("canaries are looked at after launches"),
        "{log}"
    );
}

#[test]
fn a_context_that_failed_is_the_programs_affair() {
    let bench = bench();
    *bench.device.refusal.lock() = CUresult::CUDA_ERROR_LAUNCH_FAILED;
    let watch = bench.runtime.watch();
    watch.table_slots(1);
    launch(watch);
    assert!(!watch.is_off());
    assert_eq!(bench.log(), "");
    // The program resets the device, and goes on.
    *bench.device.refusal.lock() = CUresult::CUDA_SUCCESS;
    launch(watch);
    assert_eq!(slices(&bench), [0; 0], "nothing works in that context");
    watch.context_gone(CONTEXT);
    launch(watch);
    assert_eq!(slices(&bench), [2]);
}

#[test]
fn another_context_than_the_one_that_failed_is_watched() {
    let bench = bench();
    let watch = bench.runtime.watch();
    watch.table_slots(1);
    assert_eq!(slices(&bench), [1]);
    *bench.device.refusal.lock() = CUresult::CUDA_ERROR_LAUNCH_FAILED;
    drop(watch.pause(Waits::Perhaps));
    launch(watch);
    *bench.device.refusal.lock() = CUresult::CUDA_SUCCESS;
    let elsewhere = WatchedLaunch {
        context: CONTEXT + 1,
        ..LAUNCH
    };
    watch.launching(&elsewhere);
    watch.launched(&elsewhere);
    assert_eq!(slices(&bench), [1, 3]);
    assert!(!watch.is_off());
    assert_eq!(bench.log(), "");
}
