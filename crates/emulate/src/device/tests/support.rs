//! Kernels of Ringfence's own beside those of the program.

use super::{KERNELS, Rig};
use driver::{Driver, SupportKernel, SupportLaunch, SupportStream};
use std::time::Duration;

fn parameters(pointer: u64, add: u32) -> Vec<u8> {
    let mut block = pointer.to_le_bytes().to_vec();
    block.extend(add.to_le_bytes());
    block
}

fn kernel(rig: &Rig, name: &str) -> SupportKernel {
    let module = rig.device.load_support(KERNELS).expect("it loads");
    assert_eq!(rig.device.load_support(KERNELS), Ok(module));
    rig.device
        .support_kernel(module, name)
        .expect("a kernel of it")
}

fn add(rig: &Rig, data: u64, by: u32, stream: SupportStream) {
    let launch = SupportLaunch {
        blocks: 1,
        threads: 32,
        parameters: &parameters(data, by),
        stream,
        // The kernel does, in a way: here nothing starts early.
        waits_itself: true,
    };
    let kernel = kernel(rig, "add");
    rig.device.launch_support(kernel, &launch).expect("it runs");
}

#[test]
fn in_a_stream_of_the_program_they_run_after_what_is_there() {
    let rig = Rig::new();
    let (gate, data) = (rig.words(1), rig.words(32));
    let stream = rig.device.stream_create(1, 0).expect("a stream");
    rig.device
        .launch(rig.spin(gate), stream)
        .expect("it waits for the host");
    add(
        &rig,
        data,
        3,
        SupportStream::Program {
            handle: stream,
            per_thread: false,
        },
    );
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(rig.word(data), 0);
    // Its own streams do not wait.
    let other = rig.words(32);
    add(&rig, other, 4, SupportStream::Own);
    rig.device.wait_for_own().expect("it is done");
    assert_eq!(rig.word(other), 4);
    add(&rig, other, 5, SupportStream::Guard);
    rig.device
        .write(model::DeviceAddress(gate), &[1, 0, 0, 0])
        .expect("the gate opens");
    rig.device.synchronize().expect("all is done");
    assert_eq!((rig.word(data), rig.word(other)), (3, 9));
}

#[test]
fn in_a_captured_stream_they_become_nodes() {
    let rig = Rig::new();
    let data = rig.words(32);
    let stream = rig.device.stream_create(1, 0).expect("a stream");
    rig.device
        .stream_begin_capture(stream, 0)
        .expect("captures");
    add(
        &rig,
        data,
        2,
        SupportStream::Program {
            handle: stream,
            per_thread: false,
        },
    );
    // Not in the program's streams, nothing is captured.
    let other = rig.words(32);
    add(&rig, other, 7, SupportStream::Own);
    rig.device.wait_for_own().expect("it is done");
    let graph = rig.device.stream_end_capture(stream).expect("a graph");
    assert_eq!((rig.word(data), rig.word(other)), (0, 7));
    let executable = rig
        .device
        .graph_instantiate(graph, 0)
        .expect("instantiated");
    for _ in 0..2 {
        rig.device
            .graph_launch(executable, stream)
            .expect("launched");
    }
    rig.device.synchronize().expect("done");
    assert_eq!(rig.word(data), 4);
}

#[test]
fn what_is_wrong_is_said() {
    let rig = Rig::new();
    let module = rig.device.load_support(KERNELS).expect("it loads");
    let error = rig.device.support_kernel(module, "nobody").unwrap_err();
    assert_eq!(error.call, "cuModuleGetFunction");
    let kernel = kernel(&rig, "add");
    let launch = SupportLaunch {
        blocks: 1,
        threads: 32,
        parameters: &[0; 3],
        stream: SupportStream::Own,
        waits_itself: false,
    };
    let error = rig.device.launch_support(kernel, &launch).unwrap_err();
    assert_eq!(error.call, "cuLaunchKernel");
    let error = rig.device.load_support("nonsense").unwrap_err();
    assert!(!error.message.is_empty());
}
