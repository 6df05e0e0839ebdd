//! The parts of the session, each by itself.

#[allow(dead_code, reason = "what is not tested here is used in the library")]
#[path = "../src/positions.rs"]
mod positions;
#[allow(
    dead_code,
    unused_imports,
    reason = "what is not tested here is used in the library"
)]
#[path = "../src/state/mod.rs"]
mod state;
#[path = "../src/hooks/waves.rs"]
mod waves;

use driver::sys::{CUcontext, CUevent, CUgraphNodeType};
use model::{DeviceKind, Ran};
use runtime::Layer;
use state::{
    Captures, Destroyed, Executable, Guard, Heaps, Named, Node, Pending, Replays, Row, Shape,
    TimedKernel, Times, Work,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use waves::takes_a_wave_more;

#[test]
fn captures_end_as_often_as_they_begin() {
    let captures = Captures::default();
    assert!(!captures.is_active());
    // The same handle in two threads.
    captures.begin(2, || true);
    captures.begin(2, || true);
    captures.end(7);
    captures.end(2);
    assert!(captures.is_active());
    captures.end(2);
    assert!(!captures.is_active());
}

#[test]
fn there_is_no_leave_while_a_stream_is_captured() {
    let captures = Captures::default();
    assert!(captures.outside().is_some());
    captures.begin(1, || false);
    assert!(captures.outside().is_some());
    captures.begin(1, || true);
    assert!(captures.outside().is_none());
    captures.end(1);
    assert!(captures.outside().is_some());
}

#[test]
fn a_capture_begins_behind_a_short_call() {
    let captures = Captures::default();
    let is_over = AtomicBool::new(false);
    let leave = captures.outside();
    assert!(leave.is_some());
    thread::scope(|scope| {
        let begins = scope.spawn(|| {
            let mut was_over = false;
            captures.begin(1, || {
                was_over = is_over.load(Ordering::SeqCst);
                true
            });
            was_over
        });
        thread::sleep(Duration::from_millis(1));
        is_over.store(true, Ordering::SeqCst);
        drop(leave);
        assert!(begins.join().is_ok_and(|was_over| was_over));
    });
    assert!(captures.outside().is_none());
}

#[test]
fn a_capture_begins_beside_a_long_call() {
    let captures = Captures::default();
    let leave = captures.outside();
    let mut began = false;
    captures.begin(1, || {
        began = true;
        true
    });
    assert!(began && leave.is_some());
}

#[test]
fn a_function_is_named_once() {
    let named = Named::default();
    assert!(named.is_first(3));
    assert!(!named.is_first(3));
    assert!(named.is_first(4));
    assert!(!named.is_first(positions::COUNT));
}

#[test]
fn a_heap_decides_what_its_regions_are() {
    let heaps = Heaps::new();
    heaps.add_heap(100, Layer::Block);
    heaps.add_region(100, 110);
    heaps.add_region(100, 120);
    // A heap that was not declared.
    heaps.add_region(0, 500);
    assert_eq!(heaps.layer(100), Layer::Block);
    assert_eq!(heaps.layer(0), Layer::Region);
    assert_eq!(heaps.heap_of(110), Some(100));
    // The region is another heap's now.
    heaps.add_region(0, 110);
    assert_eq!(heaps.heap_of(110), Some(0));
    assert_eq!(heaps.clear(100), [(Layer::Block, 120)]);
    assert_eq!(heaps.remove_region(120), None);
    assert_eq!(heaps.remove_region(110), Some(Layer::Region));
    assert_eq!(heaps.remove_heap(100), Some(Layer::Block));
    assert_eq!(heaps.remove_heap(100), None);
    assert_eq!(heaps.heaps(), [0]);
}

#[test]
fn the_guard_forgets_kernels_when_code_goes() {
    let guard = Guard::default();
    assert!(guard.is_first(1));
    assert!(!guard.is_first(1));
    assert!(guard.needs_more_local(8));
    assert!(!guard.needs_more_local(8));
    let shape = (1, 32, 0);
    assert_eq!(guard.places(shape, || 4), 4);
    assert_eq!(guard.places(shape, || 5), 4);
    assert_eq!(guard.multiprocessors(|| Some(132)), Some(132));
    guard.forget_kernels();
    assert!(guard.is_first(1));
    assert!(guard.needs_more_local(8));
    assert_eq!(guard.places(shape, || 5), 5);
    assert_eq!(guard.multiprocessors(|| None), Some(132), "of the device");
}

/// An instantiated graph with one node, which needs a graph.
fn executable(graph: Option<u64>) -> Executable {
    let node = Node {
        handle: 9,
        work: Work::Call(Vec::new()),
        uses: Vec::new(),
        window: Default::default(),
        enabled: true,
        doubtful: false,
    };
    Executable {
        nodes: vec![node],
        children: Vec::new(),
        shape: None,
        generation: 1,
        graph,
        memory: std::sync::Arc::default(),
    }
}

#[test]
fn a_graph_stays_as_long_as_an_executable_needs_it() {
    let replays = Replays::default();
    assert_eq!(replays.destroying(5), Destroyed::Now, "nothing needs it");
    replays.add(50, executable(Some(5)));
    replays.add(51, executable(Some(5)));
    assert_eq!(replays.destroying(5), Destroyed::Later);
    assert_eq!(replays.destroying(5), Destroyed::Before);
    assert!(!replays.release(5), "the other needs it");
    assert!(replays.release(5));
    assert!(!replays.release(5));
    // A graph that nothing needs any more is the program's to destroy.
    replays.add(52, executable(Some(6)));
    assert!(!replays.release(6));
    assert_eq!(replays.destroying(6), Destroyed::Now);
}

#[test]
fn a_graph_that_owns_something_is_destroyed_at_once() {
    let replays = Replays::default();
    replays.add(50, executable(Some(5)));
    replays.set_owner(5);
    assert_eq!(replays.destroying(5), Destroyed::Now);
    let known = replays.remove(50).expect("still launched");
    assert_eq!(known.graph, None);
    assert_eq!(known.nodes.len(), 1, "a copy needs no handle");
}

#[test]
fn a_stale_executable_is_taken_by_one_launch() {
    let replays = Replays::default();
    replays.add(50, executable(None));
    assert!(replays.take_stale(50, 1).is_none(), "not stale");
    let taken = replays.take_stale(50, 2).expect("stale");
    assert!(replays.take_stale(50, 2).is_none(), "another has it");
    replays.put_back(
        50,
        Executable {
            generation: 2,
            ..taken
        },
    );
    assert!(replays.take_stale(50, 2).is_none());
    replays.forget_node(9);
    let taken = replays.take_stale(50, 3).expect("stale");
    assert!(taken.nodes.is_empty());
    // Destroyed meanwhile: it does not come back.
    assert!(replays.remove(50).is_none());
    replays.put_back(50, taken);
    assert!(!replays.contains(50));
}

/// Nodes of a graph are those of another if both hang together alike.
#[test]
fn nodes_of_graphs_of_one_shape_are_paired() {
    let copy = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY;
    let kernel = CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL;
    let shape = |first: u64, kinds: [CUgraphNodeType; 3], edges: &[(usize, usize)]| Shape {
        handles: (first..first + 3).collect(),
        kinds: kinds.to_vec(),
        edges: edges.to_vec(),
    };
    let kinds = [copy, kernel, kernel];
    let own = shape(10, kinds, &[(0, 1), (0, 2)]);
    let pairs = own.pairs(&shape(20, kinds, &[(0, 1), (0, 2)]));
    let pairs = pairs.expect("the same shape");
    assert_eq!(pairs.len(), 3);
    assert!((0..3).all(|n| pairs.get(&(20 + n)) == Some(&(10 + n))));
    assert!(own.pairs(&shape(20, kinds, &[(0, 1), (1, 2)])).is_none());
    let others = [kernel, copy, kernel];
    assert!(own.pairs(&shape(20, others, &[(0, 1), (0, 2)])).is_none());
}

fn pending(row: Row) -> Pending {
    Pending {
        events: (CUevent(1), CUevent(2)),
        context: CUcontext(3),
        row,
    }
}

#[test]
fn times_are_kept_by_kernel_and_events_are_used_again() {
    let times = Times::default();
    let kernel = |name: &str| TimedKernel {
        name: name.into(),
        ran: Ran::Checked,
        registers: Some(8),
        local_bytes: None,
    };
    assert!(times.kernel(7, Ran::Checked).is_none());
    let first = times.add_kernel(7, kernel("a"), Some(10));
    // The same kernel, loaded again under another handle.
    let again = times.add_kernel(8, kernel("a"), Some(5));
    let other = times.add_kernel(9, kernel("b"), None);
    assert!(times.kernel(7, Ran::Checked).is_some());
    assert!(times.take_events(CUcontext(3)).is_none());
    for (row, time) in [(first, 1.0), (again, 3.0), (other, 40.0)] {
        times.ended(&pending(row), Some(time));
    }
    times.ended(&pending(other), None);
    assert_eq!(
        times.take_events(CUcontext(3)),
        Some((CUevent(1), CUevent(2)))
    );
    assert_eq!(times.take_all_events(CUcontext(3)).len(), 3);
    times.ended(&pending(times.graph(70)), Some(5.0));
    times.count_captured();
    times.launched(pending(first));
    let all = times.of_process(DeviceKind::Cpu, String::new());
    let rows: Vec<_> = all
        .kernels
        .iter()
        .map(|kernel| {
            (
                kernel.name.as_str(),
                kernel.times.launches,
                kernel.times.total_us,
            )
        })
        .collect();
    assert_eq!(rows, [("b", 1, 40.0), ("a", 2, 4.0)]);
    assert_eq!(all.graphs.len(), 1);
    assert_eq!(all.memory_used, Some(10));
    assert_eq!((all.captured, all.not_timed), (1, 2), "one is pending");
    times.forget_kernels();
    assert!(times.kernel(7, Ran::Checked).is_none());
}

#[test]
fn launches_made_meanwhile_come_after_those_that_were_looked_at() {
    let times = Times::default();
    let read_now: Vec<bool> = (0..320)
        .map(|index| times.launched(pending(Row::Kernel(index))))
        .collect();
    let expected: Vec<bool> = (1..=320)
        .map(|count| count == 256 || count == 320)
        .collect();
    assert_eq!(read_now, expected);
    let mut taken = times.take_pending();
    assert_eq!(taken.len(), 320);
    taken.truncate(1);
    times.launched(pending(Row::Kernel(1000)));
    times.put_back(taken);
    let rows: Vec<usize> = times
        .take_pending()
        .iter()
        .map(|launch| match launch.row {
            Row::Kernel(row) | Row::Graph(row) => row,
        })
        .collect();
    assert_eq!(rows, [0, 1000]);
}

#[test]
fn grids_that_just_fit() {
    // 132 multiprocessors with 8 blocks each have 1056 places.
    assert!(!takes_a_wave_more(1048, 8, 132), "beside one that is full");
    assert!(takes_a_wave_more(1049, 8, 132));
    assert!(takes_a_wave_more(1056, 8, 132));
    assert!(!takes_a_wave_more(1057, 8, 132), "two waves in any case");
    assert!(takes_a_wave_more(2112, 8, 132));
    assert!(!takes_a_wave_more(2110, 8, 132));
    assert!(takes_a_wave_more(8 * 1056, 8, 132));
    assert!(!takes_a_wave_more(9 * 1056, 8, 132), "a ninth more");
    assert!(!takes_a_wave_more(1056, 0, 132), "not known");
    assert!(takes_a_wave_more(1, 1, 1));
}
