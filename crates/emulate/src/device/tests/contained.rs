//! Streams of programs that share the device with others.

use super::Rig;
use crate::device::{Contained, GraphNode, Launch};
use driver::sys::CUresult;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MOST: u32 = 0x7fff_ffff;

/// A device, a contained stream, what its kernels end by, and the word for that.
fn contained() -> (Rig, u64, Arc<Contained>, u64) {
    let rig = Rig::new();
    let stream = rig.device.stream_create(1, 0).expect("a stream");
    let word = rig.words(1);
    let ends = Arc::new(rig.device.contained(word));
    let added = rig.device.stream_contain(stream, Arc::clone(&ends));
    added.expect("contained");
    (rig, stream, ends, word)
}

/// Of the largest grid, the blocks that have begun end by themselves, and no other
/// one begins.
#[test]
fn blocks_that_have_not_begun_are_dropped() {
    let (rig, stream, _, ended) = contained();
    let go_on = rig.words(1);
    let device = &rig.device;
    for _ in 0..3 {
        let launch = Launch {
            grid: [MOST, 1, 1],
            ..rig.spin(go_on)
        };
        device.launch(launch, stream).expect("launched");
    }
    std::thread::sleep(Duration::from_millis(20));
    rig.set_word(ended, 1);
    assert_eq!(
        device.stream_query(stream),
        Err(CUresult::CUDA_ERROR_NOT_READY),
        "a block that has begun goes on"
    );
    rig.set_word(go_on, 1);
    let start = Instant::now();
    device.stream_synchronize(stream).expect("over");
    assert!(start.elapsed() < Duration::from_secs(30));
    // Kernels run again once the word is cleared; until then none does.
    let data = rig.words(32);
    device.launch(rig.add(data, 3), stream).expect("launched");
    device.stream_synchronize(stream).expect("over");
    assert_eq!(rig.word(data), 0);
    rig.set_word(ended, 0);
    device.launch(rig.add(data, 3), stream).expect("launched");
    device.stream_synchronize(stream).expect("over");
    assert_eq!(rig.word(data), 3);
}

/// A kernel of a graph, too, ends by what its stream's kernels end by.
#[test]
fn kernels_of_a_graph_are_contained_by_the_stream_that_it_is_put_into() {
    let (rig, stream, ends, word) = contained();
    let device = &rig.device;
    let data = rig.words(8);
    let meet = Launch {
        grid: [8, 1, 1],
        ..rig.launch("meet", 32, &data.to_le_bytes())
    };
    let graph = device.graph_create().expect("a graph");
    let first = device.graph_add(graph, &GraphNode::Kernel(meet), &[]);
    let add = GraphNode::Kernel(rig.add(data, 3));
    let first = first.expect("added");
    device.graph_add(graph, &add, &[first]).expect("added");
    let executable = device.graph_instantiate(graph, 0).expect("an executable");
    device.graph_launch(executable, stream).expect("launched");
    device.stream_synchronize(stream).expect("no error");
    assert!(ends.take_deadlock());
    assert_eq!(rig.word(data), 4);
    rig.set_word(word, 1);
    device.graph_launch(executable, stream).expect("launched");
    device.stream_synchronize(stream).expect("no error");
    assert_eq!(rig.word(data), 4, "no block began");
    // In another stream it is an error of the context.
    rig.set_word(word, 0);
    device.graph_launch(executable, 0).expect("launched");
    assert_eq!(
        device.synchronize(),
        Err(CUresult::CUDA_ERROR_LAUNCH_TIMEOUT)
    );
}

#[test]
fn a_deadlock_ends_its_own_block_alone() {
    let (rig, stream, ends, _) = contained();
    let device = &rig.device;
    let data = rig.words(8);
    let launch = Launch {
        grid: [8, 1, 1],
        ..rig.launch("meet", 32, &data.to_le_bytes())
    };
    device.launch(launch.clone(), stream).expect("launched");
    device.stream_synchronize(stream).expect("no error");
    assert!(ends.take_deadlock());
    assert!(!ends.take_deadlock(), "told once");
    // Blocks of odd numbers wait for threads that there are not.
    for block in 0..8 {
        assert_eq!(rig.word(data + 4 * block), u32::from(block % 2 == 0));
    }
    assert_eq!(rig.host.reports.lock().len(), 0);
    // In another stream it is an error of the context.
    device.launch(launch, 0).expect("launched");
    assert_eq!(
        device.synchronize(),
        Err(CUresult::CUDA_ERROR_LAUNCH_TIMEOUT)
    );
    assert!(!ends.take_deadlock());
}
