//! Slices that are over at once: what kernels do at their very end is found all
//! the same, and reported before a wait for them returns.

use driver::{Driver, SupportStream};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;
use support::guarded::{Bench, lock};

mod support;

static BENCH: LazyLock<Mutex<Bench>> =
    LazyLock::new(|| Mutex::new(Bench::new(Duration::from_nanos(1))));

/// Longer than the supervisor takes from one look to the next.
const TICKS: Duration = Duration::from_millis(5);

/// Runs kernels that overwrite a canary at their end. They run for so long, and
/// are over for so long when the host waits for them.
fn all_are_found(running: Duration, over: Duration) {
    let mut bench = lock(&BENCH);
    let stream = bench.device.stream_create(1, 0).unwrap();
    for number in 0..20 {
        let (gate, buffer) = (bench.words(), bench.buffer(128));
        let place = buffer.base + buffer.size;
        // What the guard is there for when it begins to watch is over.
        std::thread::sleep(TICKS);
        bench.launch_kernel(bench.late, place, gate, stream);
        std::thread::sleep(running);
        bench.open(gate);
        let stream = SupportStream::Program {
            handle: stream,
            per_thread: false,
        };
        while !over.is_zero() && !bench.device.is_idle(stream).unwrap() {
            std::thread::yield_now();
        }
        std::thread::sleep(over);
        bench.synchronize();
        let reported = bench.reported(buffer);
        let run = reported.and_then(|finding| finding.kernel_run().cloned());
        let kernel = run
            .unwrap_or_else(|| panic!("kernel {number} was not seen"))
            .kernel;
        assert_eq!(kernel, "late");
        bench.remove(buffer.slot);
    }
}

#[test]
fn by_the_last_round_before_a_wait() {
    all_are_found(Duration::ZERO, Duration::ZERO);
}

#[test]
fn where_the_supervisor_had_started_slices_meanwhile() {
    all_are_found(TICKS, Duration::ZERO);
}

#[test]
fn by_the_supervisor_after_the_end() {
    all_are_found(TICKS, TICKS);
}

#[test]
fn between_two_looks_of_the_supervisor() {
    all_are_found(Duration::ZERO, Duration::from_micros(300));
}
