//! The guard on the CPU device, beside kernels that overwrite canaries. The
//! table is written by the tests themselves.

use driver::Driver;
use model::layout::canary::CanaryRecord;
use model::{DeviceAddress, Relation, Rule};
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use support::guarded::{Bench, PATTERN, lock};

mod support;

static BENCH: LazyLock<Mutex<Bench>> =
    LazyLock::new(|| Mutex::new(Bench::new(Duration::from_millis(20))));

fn bench() -> MutexGuard<'static, Bench> {
    lock(&BENCH)
}

#[test]
fn a_write_past_the_end_is_found_while_the_kernel_runs() {
    let mut bench = bench();
    let (gate, buffer) = (bench.words(), bench.buffer(1000));
    let whole = bench.buffer(64);
    let stream = bench.device.stream_create(1, 0).unwrap();
    bench.launch(buffer.base + buffer.size + 3, gate, stream);
    let finding = bench.finding(buffer).expect("the guard sees it");
    let run = finding.kernel_run().unwrap();
    let watched = run.watched.clone().expect("seen by the guard");
    assert_eq!(finding.rule, Rule::CanaryOverwritten);
    assert_eq!(run.kernel, "victim");
    assert_eq!(
        (
            run.overwritten.bytes,
            run.overwritten.farthest,
            &run.overwritten.found[..]
        ),
        (1, 3, &[65][..])
    );
    assert_eq!(
        finding.intended.unwrap().relation,
        Relation::After(3),
        "the distance"
    );
    assert_eq!(watched.running.len(), 1);
    assert_eq!(watched.running[0].unfinished, Some(true));
    assert_ne!(watched.device_time, 0);
    bench.open(gate);
    bench.synchronize();
    // It was set right.
    let mut byte = [0];
    let place = buffer.base + buffer.size + 3;
    bench.device.read(DeviceAddress(place), &mut byte).unwrap();
    assert_ne!(byte[0], 65);
    bench.remove(buffer.slot);
    bench.remove(whole.slot);
}

#[test]
fn what_was_written_just_before_the_end_is_found_by_the_synchronization() {
    let mut bench = bench();
    let (gate, buffer) = (bench.words(), bench.buffer(320));
    bench.open(gate);
    let stream = bench.device.stream_create(1, 0).unwrap();
    bench.launch(buffer.base - 2, gate, stream);
    bench.synchronize();
    let found = bench.findings().into_iter().any(|finding| {
        let kernel = finding.kernel_run().map(|run| run.kernel.clone());
        let victim = kernel.as_deref() == Some("victim");
        victim
            && finding.intended.is_some_and(|near| {
                near.allocation.extent.base == DeviceAddress(buffer.base)
                    && near.relation == Relation::Before(2)
            })
    });
    assert!(found, "reported before the synchronization returns");
    bench.remove(buffer.slot);
}

#[test]
fn a_wait_for_the_device_that_nobody_pauses_for_ends_with_the_slice() {
    let mut bench = bench();
    let (gate, buffer) = (bench.words(), bench.buffer(512));
    let stream = bench.device.stream_create(1, 0).unwrap();
    bench.open(gate);
    bench.launch(buffer.base, gate, stream);
    let began = Instant::now();
    bench.device.synchronize().unwrap();
    assert!(began.elapsed() < Duration::from_secs(10));
    bench.synchronize();
    bench.remove(buffer.slot);
}

#[test]
fn kernels_that_outlast_slices_stay_watched() {
    let mut bench = bench();
    let (gate, first) = (bench.words(), bench.buffer(128));
    let stream = bench.device.stream_create(1, 0).unwrap();
    bench.launch(first.base, gate, stream);
    // Several slices of 20 ms.
    std::thread::sleep(Duration::from_millis(120));
    let place = DeviceAddress(first.base + first.size);
    bench.device.write(place, &[7]).unwrap();
    assert!(bench.finding(first).is_some());
    bench.open(gate);
    bench.synchronize();
    bench.remove(first.slot);
}

#[test]
fn what_belongs_to_another_context_is_not_read() {
    let mut bench = bench();
    let (gate, buffer) = (bench.words(), bench.buffer(128));
    bench.remove(buffer.slot);
    let record = CanaryRecord {
        base: 0x1000,
        size: 64,
        serial: 1,
        before: 64,
        after: 64,
        pattern: PATTERN,
        context: 0xdead,
        check: 0,
    };
    bench.enter(buffer.slot, record.sealed());
    let torn = CanaryRecord {
        size: 65,
        context: bench.device.current_context(),
        ..record.sealed()
    };
    let other = bench.buffer(64);
    bench.enter(other.slot, torn);
    let stream = bench.device.stream_create(1, 0).unwrap();
    bench.launch(buffer.base, gate, stream);
    std::thread::sleep(Duration::from_millis(30));
    bench.open(gate);
    // Reading there would have been a fault of the device.
    bench.synchronize();
    bench.remove(buffer.slot);
    bench.remove(other.slot);
}
