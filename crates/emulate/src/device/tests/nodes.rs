//! What the nodes of graphs say about themselves.

use super::Rig;
use crate::device::{GraphNode, HostFunction, NodeKind};
use driver::sys::CUresult;
use std::any::Any;
use std::sync::Arc;

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

/// A function with a name of its own.
struct Named(u32);

impl HostFunction for Named {
    fn call(&self) {}
}

#[test]
fn a_host_node_gives_back_its_function_also_in_a_clone() {
    let rig = Rig::new();
    let device = &rig.device;
    let graph = device.graph_create().expect("a graph");
    let add = |number| {
        let node = GraphNode::Host(Arc::new(Named(number)));
        device.graph_add(graph, &node, &[]).expect("added")
    };
    let (first, second) = (add(1), add(2));
    let number = |node| {
        let function = device.node_host(node)?;
        let any: &dyn Any = &*function;
        Ok(any.downcast_ref::<Named>().map(|named| named.0))
    };
    assert_eq!(number(first), Ok(Some(1)));
    assert_eq!(number(second), Ok(Some(2)));
    let set = GraphNode::Host(Arc::new(Named(3)));
    device.node_set(first, &set).expect("of the same kind");
    assert_eq!(number(first), Ok(Some(3)));
    let clone = device.graph_clone(graph).expect("cloned");
    let twin = device.node_in_clone(second, clone).expect("there");
    assert_eq!(number(twin), Ok(Some(2)));
    device.graph_remove(first).expect("removed");
    assert_eq!(number(first), Err(INVALID));
}

#[test]
fn event_nodes_name_their_events() {
    let rig = Rig::new();
    let device = &rig.device;
    let graph = device.graph_create().expect("a graph");
    let [first, second] = [(); 2].map(|()| device.event_create(0).expect("an event"));
    let add = |node| device.graph_add(graph, &node, &[]).expect("added");
    let (record, wait) = (add(GraphNode::Record(first)), add(GraphNode::Wait(second)));
    assert_eq!(device.node_recorded(record), Ok(first));
    assert_eq!(device.node_awaited(wait), Ok(second));
    assert_eq!(device.node_recorded(wait), Err(INVALID));
    assert_eq!(device.node_awaited(record), Err(INVALID));
    device
        .node_set(record, &GraphNode::Record(second))
        .expect("an event");
    assert_eq!(device.node_recorded(record), Ok(second));
}

#[test]
fn an_allocation_node_names_its_memory() {
    let rig = Rig::new();
    let device = &rig.device;
    let graph = device.graph_create().expect("a graph");
    let (node, address) = device.graph_add_allocation(graph, &[], 96).expect("added");
    assert_eq!(device.node_allocation(node), Ok((address, 96)));
    let free = device
        .graph_add_release(graph, &[node], address)
        .expect("added");
    assert_eq!(device.node_allocation(free), Err(INVALID));
    assert_eq!(device.node_release(free), Ok(address));
}

#[test]
fn a_child_node_has_a_graph_of_its_own() {
    let rig = Rig::new();
    let device = &rig.device;
    let data = rig.words(32);
    let inner = device.graph_create().expect("a graph");
    device
        .graph_add(inner, &GraphNode::Kernel(rig.add(data, 1)), &[])
        .expect("added");
    let outer = device.graph_create().expect("a graph");
    let node = device
        .graph_add(outer, &GraphNode::Child(inner), &[])
        .expect("added");
    assert_eq!(device.node_kind(node), Ok(NodeKind::Child));
    let own = device.node_child(node).expect("a graph");
    assert_ne!(own, inner);
    // What is added to the original is not the node's, what is added to the
    // node's own graph is.
    let ten = GraphNode::Kernel(rig.add(data, 10));
    device.graph_add(inner, &ten, &[]).expect("added");
    let hundred = GraphNode::Kernel(rig.add(data, 100));
    device.graph_add(own, &hundred, &[]).expect("added");
    let executable = device.graph_instantiate(outer, 0).expect("instantiated");
    device.graph_launch(executable, 0).expect("launched");
    device.synchronize().expect("done");
    assert_eq!(rig.word(data), 101);
    // A clone has a copy of that, too.
    let clone = device.graph_clone(outer).expect("cloned");
    let twin = device.node_in_clone(node, clone).expect("there");
    let copy = device.node_child(twin).expect("a graph");
    assert_ne!(copy, own);
    device.graph_destroy(outer).expect("destroyed");
    assert_eq!(device.graph_nodes(own), Err(INVALID));
    assert_eq!(device.graph_nodes(copy).map(|nodes| nodes.len()), Ok(2));
    device
        .executable_set(executable, node, &GraphNode::Child(inner))
        .expect("a child");
    device.graph_launch(executable, 0).expect("launched");
    device.synchronize().expect("done");
    assert_eq!(rig.word(data), 112);
}
