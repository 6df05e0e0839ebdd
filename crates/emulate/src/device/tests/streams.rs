//! Order within and between streams.

use super::Rig;
use driver::sys::CUresult;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const NON_BLOCKING: u32 = 1;

#[test]
fn a_kernel_that_waits_holds_up_only_its_stream() {
    let rig = Rig::new();
    let device = &rig.device;
    let (flag, data) = (rig.words(1), rig.words(32));
    let waiting = device.stream_create(NON_BLOCKING, 0).expect("a stream");
    let other = device.stream_create(NON_BLOCKING, 0).expect("a stream");
    device.launch(rig.spin(flag), waiting).expect("launched");
    assert_eq!(
        device.stream_query(waiting),
        Err(CUresult::CUDA_ERROR_NOT_READY)
    );
    device.launch(rig.add(data, 3), other).expect("launched");
    device.stream_synchronize(other).expect("goes on");
    assert_eq!(rig.word(data), 3);
    // Loading, allocating and freeing do not wait either.
    let more = rig.words(1 << 20);
    device.load_module(&[super::KERNELS]).expect("loads");
    rig.free(more).expect("frees");
    rig.set_word(flag, 1);
    device.stream_synchronize(waiting).expect("released");
}

#[test]
fn the_legacy_stream_waits_for_blocking_ones_and_they_for_it() {
    let rig = Rig::new();
    let device = &rig.device;
    let (flag, data) = (rig.words(1), rig.words(32));
    let blocking = device.stream_create(0, 0).expect("a stream");
    device.launch(rig.spin(flag), blocking).expect("launched");
    device
        .launch(rig.add(data, 1), 0)
        .expect("queued behind the other stream");
    let second = device.stream_create(0, 0).expect("a stream");
    device
        .launch(rig.add(data, 10), second)
        .expect("queued behind the legacy stream");
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(rig.word(data), 0);
    assert_eq!(device.stream_query(0), Err(CUresult::CUDA_ERROR_NOT_READY));
    assert_eq!(
        device.stream_query(second),
        Err(CUresult::CUDA_ERROR_NOT_READY)
    );
    rig.set_word(flag, 1);
    device.synchronize().expect("all done");
    assert_eq!(rig.word(data), 11);
}

#[test]
fn a_free_in_stream_order_waits_for_what_its_stream_waits_for() {
    let rig = Rig::new();
    let device = &rig.device;
    let flag = rig.words(1);
    let blocking = device.stream_create(0, 0).expect("a stream");
    for (user, freed_in) in [(0, blocking), (blocking, 0)] {
        rig.set_word(flag, 0);
        let data = device.allocate_async(128, freed_in).expect("memory");
        device.launch(rig.spin(flag), user).expect("launched");
        device.launch(rig.add(data.0, 1), user).expect("launched");
        device.free_async(data, freed_in).expect("freed");
        rig.set_word(flag, 1);
        device.synchronize().expect("the memory was still there");
    }
}

#[test]
fn events_order_streams_and_take_times() {
    let rig = Rig::new();
    let device = &rig.device;
    let (flag, data) = (rig.words(1), rig.words(32));
    let [first, second] =
        [(); 2].map(|()| device.stream_create(NON_BLOCKING, 0).expect("a stream"));
    let [start, end] = [(); 2].map(|()| device.event_create(0).expect("an event"));
    device.event_record(start, first).expect("recorded");
    device.launch(rig.spin(flag), first).expect("launched");
    device.event_record(end, first).expect("recorded");
    assert_eq!(device.event_query(end), Err(CUresult::CUDA_ERROR_NOT_READY));
    assert_eq!(
        device.event_elapsed(start, end),
        Err(CUresult::CUDA_ERROR_NOT_READY)
    );
    device.stream_wait_event(second, end).expect("waits");
    device.launch(rig.add(data, 1), second).expect("launched");
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(rig.word(data), 0);
    rig.set_word(flag, 1);
    device.stream_synchronize(second).expect("released");
    assert_eq!(rig.word(data), 1);
    device.event_synchronize(end).expect("recorded");
    assert!(device.event_elapsed(start, end).expect("both recorded") >= 10.0);
    let untimed = device.event_create(2).expect("an event");
    device.event_record(untimed, first).expect("recorded");
    assert_eq!(
        device.event_elapsed(start, untimed),
        Err(CUresult::CUDA_ERROR_INVALID_HANDLE)
    );
    device
        .event_query(device.event_create(0).expect("an event"))
        .expect("never recorded counts as done");
}

#[test]
fn host_functions_run_in_order() {
    let rig = Rig::new();
    let device = &rig.device;
    let flag = rig.words(1);
    let stream = device.stream_create(NON_BLOCKING, 0).expect("a stream");
    let seen = Arc::new(AtomicU32::new(0));
    device.launch(rig.spin(flag), stream).expect("launched");
    let mark = seen.clone();
    device
        .host_function(stream, Arc::new(move || mark.store(1, Ordering::SeqCst)))
        .expect("queued");
    assert_eq!(seen.load(Ordering::SeqCst), 0);
    rig.set_word(flag, 1);
    device.stream_synchronize(stream).expect("released");
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

#[test]
fn a_stream_in_memory_operation_waits_for_the_value() {
    let rig = Rig::new();
    let device = &rig.device;
    let (flag, data) = (rig.words(1), rig.words(32));
    let [first, second] =
        [(); 2].map(|()| device.stream_create(NON_BLOCKING, 0).expect("a stream"));
    device
        .stream_wait_value(first, flag, 7, false, 1)
        .expect("waits for equality");
    device.launch(rig.add(data, 1), first).expect("launched");
    device
        .stream_write_value(second, flag, 6, false)
        .expect("written");
    device.stream_synchronize(second).expect("done");
    assert_eq!(
        device.stream_query(first),
        Err(CUresult::CUDA_ERROR_NOT_READY)
    );
    device
        .stream_write_value(second, flag, 7, false)
        .expect("written");
    device.stream_synchronize(first).expect("goes on");
    assert_eq!(rig.word(data), 1);
}

#[test]
fn a_destroyed_stream_finishes_its_work() {
    let rig = Rig::new();
    let device = &rig.device;
    let data = rig.words(32);
    let stream = device.stream_create(NON_BLOCKING, 0).expect("a stream");
    for _ in 0..50 {
        device.launch(rig.add(data, 1), stream).expect("launched");
    }
    device.stream_destroy(stream).expect("destroyed");
    assert_eq!(
        device.stream_query(stream),
        Err(CUresult::CUDA_ERROR_INVALID_HANDLE)
    );
    device.synchronize().expect("done");
    assert_eq!(rig.word(data), 50);
    assert_eq!(
        device.stream_destroy(0),
        Err(CUresult::CUDA_ERROR_INVALID_HANDLE)
    );
}

#[test]
fn dropping_the_device_ends_a_kernel_that_never_ends() {
    let rig = Rig::new();
    let flag = rig.words(1);
    let stream = rig.device.stream_create(NON_BLOCKING, 0).expect("a stream");
    rig.device.launch(rig.spin(flag), stream).expect("launched");
    let ticket = rig
        .device
        .state
        .stream(stream)
        .expect("the stream")
        .newest();
    drop(rig);
    if let Some(ticket) = ticket {
        ticket.wait();
    }
}
