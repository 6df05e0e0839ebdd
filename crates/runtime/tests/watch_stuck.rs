//! The net under calls that nobody pauses the guard for: a thread that is stuck
//! in one goes on long before the guard's slice is over, and the guard comes
//! back.

use std::time::{Duration, Instant};
use support::guarded::Bench;

mod support;

/// Longer than anybody waits.
const SLICE: Duration = Duration::from_secs(60);

#[test]
fn a_thread_that_waits_for_the_guard_goes_on() {
    let mut bench = Bench::new(SLICE);
    let (done, gate) = (bench.words(), bench.words());
    let buffer = bench.buffer(128);
    let stream = bench.device.stream_create(1, 0).unwrap();
    bench.open(done);
    bench.launch(buffer.base, done, stream);
    let began = Instant::now();
    {
        let _inside = bench.runtime.watch().enter();
        // Waits for the guard, too.
        bench.device.synchronize().unwrap();
    }
    assert!(began.elapsed() < SLICE / 4, "{:?}", began.elapsed());
    // It watches again: this kernel stays until the finding is there.
    bench.launch(buffer.base + buffer.size, gate, stream);
    assert!(bench.finding(buffer).is_some());
    bench.open(gate);
    bench.synchronize();
}
