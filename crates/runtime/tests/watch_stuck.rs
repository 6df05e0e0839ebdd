//! The net under calls that the guard is not paused for: a thread that is stuck
//! in one goes on long before the guard's slice is over, and the guard comes
//! back.

use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use support::guarded::{Bench, lock};

mod support;

/// Longer than anybody waits.
const SLICE: Duration = Duration::from_secs(60);

static BENCH: LazyLock<Mutex<Bench>> = LazyLock::new(|| Mutex::new(Bench::new(SLICE)));

fn bench() -> MutexGuard<'static, Bench> {
    lock(&BENCH)
}

/// A call of the program's that waits for the guard, too.
fn wait_for_everything(bench: &Bench) {
    let _inside = bench.runtime.watch().enter();
    bench.device.synchronize().unwrap();
}

#[test]
fn a_thread_that_waits_for_the_guard_goes_on() {
    let mut bench = bench();
    let (done, gate) = (bench.words(), bench.words());
    let buffer = bench.buffer(128);
    let stream = bench.device.stream_create(1, 0).unwrap();
    bench.open(done);
    bench.launch(buffer.base, done, stream);
    let began = Instant::now();
    wait_for_everything(&bench);
    assert!(began.elapsed() < SLICE / 4, "{:?}", began.elapsed());
    // It watches again: this kernel stays until the finding is there.
    bench.launch(buffer.base + buffer.size, gate, stream);
    assert!(bench.finding(buffer).is_some());
    bench.open(gate);
    bench.synchronize();
    bench.remove(buffer.slot);
}

#[test]
fn what_the_program_does_when_it_is_through_is_seen() {
    let mut bench = bench();
    let gate = bench.words();
    bench.open(gate);
    let stream = bench.device.stream_create(1, 0).unwrap();
    for _ in 0..8 {
        let buffer = bench.buffer(128);
        bench.launch(buffer.base, gate, stream);
        wait_for_everything(&bench);
        // The guard would have stayed away a moment longer.
        bench.launch_kernel(bench.late, buffer.base + buffer.size, gate, stream);
        bench.synchronize();
        let reported = bench
            .reported(buffer)
            .expect("reported before the wait returned");
        assert_eq!(reported.kernel_run().unwrap().kernel, "late");
        bench.remove(buffer.slot);
    }
}
