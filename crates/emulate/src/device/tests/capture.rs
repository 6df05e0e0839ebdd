//! Graphs, captured and built by hand.

use super::Rig;
use crate::device::{Fill, GraphNode, NodeKind};
use driver::sys::CUresult;

#[test]
fn a_capture_records_and_each_launch_executes() {
    let rig = Rig::new();
    let device = &rig.device;
    let data = rig.words(32);
    let [stream, side] = [(); 2].map(|()| device.stream_create(1, 0).expect("a stream"));
    let [fork, join] = [(); 2].map(|()| device.event_create(0).expect("an event"));
    device.stream_begin_capture(stream, 0).expect("captures");
    device.launch(rig.add(data, 1), stream).expect("a node");
    device.event_record(fork, stream).expect("a mark");
    device
        .stream_wait_event(side, fork)
        .expect("joins the capture");
    device.launch(rig.add(data, 10), side).expect("a node");
    device.event_record(join, side).expect("a mark");
    device.stream_wait_event(stream, join).expect("joins");
    let info = device
        .stream_capture_info(stream)
        .expect("a stream")
        .expect("captured");
    assert!(info.valid && info.dependencies.len() == 2);
    let graph = device.stream_end_capture(stream).expect("a graph");
    assert_eq!(device.stream_capture_info(side).expect("a stream"), None);
    device.synchronize().expect("nothing ran");
    assert_eq!(rig.word(data), 0);
    assert_eq!(device.graph_nodes(graph).expect("a graph").len(), 2);
    assert_eq!(device.graph_edges(graph).expect("a graph").len(), 1);
    let executable = device.graph_instantiate(graph, 0).expect("instantiated");
    device.graph_destroy(graph).expect("no longer needed");
    for _ in 0..3 {
        device.graph_launch(executable, stream).expect("launched");
    }
    device.stream_synchronize(stream).expect("done");
    assert_eq!(rig.word(data), 33);
    device.executable_destroy(executable).expect("destroyed");
}

#[test]
fn what_the_modes_of_captures_and_threads_forbid() {
    const GLOBAL: u32 = 0;
    const THREAD_LOCAL: u32 = 1;
    const RELAXED: u32 = 2;
    let rig = Rig::new();
    let device = &rig.device;
    let [stream, other] = [(); 2].map(|()| device.stream_create(0, 0).expect("a stream"));
    let event = device.event_create(0).expect("an event");
    let context = device.context_current().expect("a context");
    device.event_record(event, other).expect("recorded");
    device.stream_synchronize(other).expect("done");
    let refused = Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    // Capture, thread, whether the call comes from another thread; forbidden?
    let table = [
        (GLOBAL, GLOBAL, false, true),
        (GLOBAL, GLOBAL, true, true),
        (GLOBAL, THREAD_LOCAL, false, true),
        (GLOBAL, THREAD_LOCAL, true, false),
        (GLOBAL, RELAXED, false, false),
        (THREAD_LOCAL, GLOBAL, false, true),
        (THREAD_LOCAL, GLOBAL, true, false),
        (RELAXED, GLOBAL, false, false),
        (RELAXED, GLOBAL, true, false),
    ];
    for (capture, thread, elsewhere, forbidden) in table {
        let calls: [&(dyn Fn() -> crate::device::Result<()> + Sync); 4] = [
            &|| device.apart_from_strict_captures(),
            &|| device.stream_synchronize(other),
            &|| device.stream_query(other),
            &|| device.event_query(event),
        ];
        for call in calls {
            device.stream_begin_capture(stream, capture).expect("begun");
            let asked = || {
                device.context_set(context).expect("current");
                let before = device.exchange_capture_mode(thread).expect("a mode");
                let answer = call();
                let own = device.exchange_capture_mode(before).expect("a mode");
                assert_eq!(own, thread);
                answer
            };
            let answer = match elsewhere {
                true => std::thread::scope(|scope| scope.spawn(asked).join()).expect("ran"),
                false => asked(),
            };
            let case = (capture, thread, elsewhere);
            assert_eq!(answer, if forbidden { refused } else { Ok(()) }, "{case:?}");
            assert_eq!(
                device.stream_end_capture(stream).is_err(),
                forbidden,
                "{case:?}"
            );
        }
    }
    assert!(device.exchange_capture_mode(3).is_err());
    // An event that stands for a place in a capture, until the capture ends.
    device.stream_begin_capture(stream, RELAXED).expect("begun");
    device.event_record(event, stream).expect("a mark");
    let answers = [(); 2].map(|()| device.event_query(event));
    assert_eq!(answers, [Err(CUresult::CUDA_ERROR_CAPTURED_EVENT); 2]);
    let ended = device.stream_end_capture(stream);
    assert_eq!(ended, Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
    let answer = device.event_query(event);
    assert_eq!(answer, Err(CUresult::CUDA_ERROR_INVALID_VALUE));
}

#[test]
fn what_may_not_be_done_while_capturing() {
    let rig = Rig::new();
    let device = &rig.device;
    let data = rig.words(32);
    let [stream, side] = [(); 2].map(|()| device.stream_create(0, 0).expect("a stream"));
    assert_eq!(
        device.stream_begin_capture(0, 0),
        Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    );
    device.stream_begin_capture(stream, 0).expect("captures");
    assert_eq!(
        device.stream_begin_capture(stream, 0),
        Err(CUresult::CUDA_ERROR_ILLEGAL_STATE)
    );
    assert_eq!(
        device.stream_end_capture(side),
        Err(CUresult::CUDA_ERROR_ILLEGAL_STATE)
    );
    // The legacy stream would have to wait for it.
    assert_eq!(
        device.launch(rig.add(data, 1), 0),
        Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
    );
    assert_eq!(
        device.launch(rig.add(data, 1), stream),
        Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
    );
    assert_eq!(
        device.stream_end_capture(stream),
        Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
    );
    // Waiting for the stream ends a capture too.
    device.stream_begin_capture(stream, 2).expect("captures");
    assert_eq!(
        device.stream_synchronize(stream),
        Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    );
    assert_eq!(
        device.stream_end_capture(stream),
        Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
    );
    // A branch that is not joined.
    let fork = device.event_create(0).expect("an event");
    device.stream_begin_capture(stream, 2).expect("captures");
    device.event_record(fork, stream).expect("a mark");
    device
        .stream_wait_event(side, fork)
        .expect("joins the capture");
    device.launch(rig.add(data, 1), side).expect("a node");
    assert_eq!(
        device.stream_end_capture(side),
        Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)
    );
    device
        .stream_begin_capture(stream, 2)
        .expect_err("still captured");
    assert!(device.stream_end_capture(stream).is_err());
    device
        .launch(rig.add(data, 1), stream)
        .expect("executes again");
    device.synchronize().expect("done");
    assert_eq!(rig.word(data), 1);
}

#[test]
fn graphs_by_hand_copy_parameters_when_added() {
    let rig = Rig::new();
    let device = &rig.device;
    let data = rig.words(32);
    let graph = device.graph_create().expect("a graph");
    let mut launch = rig.add(data, 5);
    let kernel = device
        .graph_add(graph, &GraphNode::Kernel(launch.clone()), &[])
        .expect("added");
    launch.parameters[8] = 100;
    let fill = Fill {
        address: data,
        pitch: 0,
        element: 4,
        value: 1,
        width: 32,
        height: 1,
    };
    let memset = device
        .graph_add(graph, &GraphNode::Fill(fill), &[])
        .expect("added");
    device.graph_edge(memset, kernel, true).expect("an edge");
    assert_eq!(
        device.graph_edge(memset, kernel, true),
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    );
    assert_eq!(device.graph_roots(graph), Ok(vec![memset]));
    assert_eq!(device.node_kind(kernel), Ok(NodeKind::Kernel));
    assert_eq!(device.node_neighbours(kernel, false), Ok(vec![memset]));
    let executable = device.graph_instantiate(graph, 0).expect("instantiated");
    device.graph_launch(executable, 0).expect("launched");
    device.synchronize().expect("done");
    assert_eq!(rig.word(data), 6);
    device
        .executable_set(executable, kernel, &GraphNode::Kernel(rig.add(data, 50)))
        .expect("changed");
    device.graph_launch(executable, 0).expect("launched");
    device.synchronize().expect("done");
    assert_eq!(rig.word(data), 51);
    let clone = device.graph_clone(graph).expect("cloned");
    assert_ne!(device.node_in_clone(kernel, clone).expect("there"), kernel);
    device
        .executable_update(executable, clone)
        .expect("same shape");
    device.graph_launch(executable, 0).expect("launched");
    device.synchronize().expect("done");
    assert_eq!(
        rig.word(data),
        6,
        "the clone's parameters are the first ones"
    );
    device
        .graph_edge(kernel, memset, true)
        .expect("a cycle can be made");
    assert_eq!(
        device.graph_instantiate(graph, 0),
        Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        "but not launched"
    );
    let outer = device.graph_create().expect("a graph");
    device
        .graph_add(outer, &GraphNode::Child(clone), &[])
        .expect("a graph within");
    let executable = device.graph_instantiate(outer, 0).expect("instantiated");
    device.graph_launch(executable, 0).expect("launched");
    device.synchronize().expect("done");
    assert_eq!(rig.word(data), 6);
}

#[test]
fn nodes_can_be_switched_off_and_wait_for_events() {
    let rig = Rig::new();
    let device = &rig.device;
    let (flag, data) = (rig.words(1), rig.words(32));
    let event = device.event_create(0).expect("an event");
    let graph = device.graph_create().expect("a graph");
    let wait = device
        .graph_add(graph, &GraphNode::Wait(event), &[])
        .expect("added");
    let kernel = device
        .graph_add(graph, &GraphNode::Kernel(rig.add(data, 1)), &[wait])
        .expect("added");
    assert_eq!(device.node_kind(wait), Ok(NodeKind::Wait));
    let executable = device.graph_instantiate(graph, 0).expect("instantiated");
    assert_eq!(
        device.executable_enable(executable, wait, false),
        Err(CUresult::CUDA_ERROR_INVALID_VALUE)
    );
    let [first, second] = [(); 2].map(|()| device.stream_create(1, 0).expect("a stream"));
    device.launch(rig.spin(flag), first).expect("launched");
    device.event_record(event, first).expect("recorded");
    device.graph_launch(executable, second).expect("launched");
    assert_eq!(
        device.stream_query(second),
        Err(CUresult::CUDA_ERROR_NOT_READY)
    );
    rig.set_word(flag, 1);
    device.synchronize().expect("done");
    assert_eq!(rig.word(data), 1);
    device
        .executable_enable(executable, kernel, false)
        .expect("off");
    assert_eq!(device.executable_enabled(executable, kernel), Ok(false));
    device.graph_launch(executable, second).expect("launched");
    device.synchronize().expect("done");
    assert_eq!(rig.word(data), 1);
}
