//! Kinds of nodes, and graphs that are ready to launch.

use super::copy::{Copy, Fill};
use super::launch::Launch;
use super::ticket::Ticket;
use super::user_objects::Held;
use super::work::{Branch, Graph, HostFunction, Work};
use driver::graphs::Shape;
use parking_lot::Mutex;
use std::sync::Arc;

/// A graph made ready to launch.
pub(crate) struct Executable {
    pub nodes: Mutex<Vec<Step>>,
    /// Sets the values of conditional nodes.
    pub first: Vec<Work>,
    /// How its nodes depend on each other.
    pub shape: Vec<Shape>,
    /// As the program gave them.
    pub flags: u64,
    /// References to user objects.
    pub held: Arc<Held>,
    /// Its newest launch, which the next one comes behind.
    pub last: Mutex<Option<Arc<Ticket>>>,
}

/// A node of an executable graph, in order.
pub(crate) struct Step {
    pub node: u64,
    pub work: Work,
    /// `cuGraphNodeSetEnabled`
    pub enabled: bool,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A kernel.
    Kernel,
    /// A copy.
    Copy,
    /// A memset.
    Fill,
    /// A function of the host.
    Host,
    /// A graph within.
    Child,
    /// Nothing.
    Empty,
    /// Records an event.
    Record,
    /// Waits for an event.
    Wait,
    /// Writes or waits for a value in memory.
    Value,
    /// Executes one of several graphs, or one again and again.
    Conditional,
    /// Allocates memory.
    Allocate,
    /// Frees memory.
    Release,
}

/// A node to add.
#[derive(Clone)]
pub enum GraphNode {
    /// A kernel; its parameters are copied now.
    Kernel(Launch),
    /// A copy.
    Copy(Copy),
    /// A memset.
    Fill(Fill),
    /// A function of the host.
    Host(Arc<dyn HostFunction>),
    /// Another graph, copied now.
    Child(u64),
    /// Records an event.
    Record(u64),
    /// Waits for an event.
    Wait(u64),
    /// Nothing.
    Empty,
}

/// The work of an executable graph, with all graphs of child and conditional
/// nodes as they are now; `None` if one of them has a cycle.
pub(crate) fn settled(work: Work) -> Option<Work> {
    let all = |graph: &Graph| {
        let nodes = graph.sorted()?.into_iter();
        nodes
            .map(|(_, work)| settled(work))
            .collect::<Option<Vec<_>>>()
    };
    Some(match work {
        Work::Child(graph) => Work::Sequence(Arc::new(all(&graph)?)),
        Work::Conditional(node) => {
            let bodies = node.graphs.iter().map(|graph| all(graph));
            Work::Branch(Arc::new(Branch {
                value: node.value,
                condition: node.condition,
                bodies: bodies.collect::<Option<Vec<_>>>()?,
            }))
        }
        work => work,
    })
}

/// New parameters of a kernel node leave its attributes as they are.
pub(crate) fn keep_attributes(old: &Work, new: &GraphNode) -> GraphNode {
    match (old, new) {
        (Work::Kernel(old), GraphNode::Kernel(new)) => GraphNode::Kernel(Launch {
            cluster: old.launch.cluster,
            cooperative: old.launch.cooperative,
            ..new.clone()
        }),
        _ => new.clone(),
    }
}

/// The graphs that belong to a node, by handle.
pub(crate) fn graphs_of(work: &Work) -> Vec<u64> {
    match work {
        Work::Child(graph) => vec![graph.handle],
        Work::Conditional(node) => node.graphs.iter().map(|graph| graph.handle).collect(),
        _ => Vec::new(),
    }
}

pub(crate) fn kind(work: &Work) -> NodeKind {
    match work {
        Work::Kernel(_) => NodeKind::Kernel,
        Work::Copy(_) | Work::Upload { .. } => NodeKind::Copy,
        Work::Fill(_) => NodeKind::Fill,
        Work::Host(_) => NodeKind::Host,
        Work::Child(_) | Work::Sequence(_) => NodeKind::Child,
        Work::Record(_) | Work::Stamp(_) => NodeKind::Record,
        Work::Await(_) => NodeKind::Wait,
        Work::WriteValue { .. } | Work::WaitValue { .. } => NodeKind::Value,
        Work::Conditional(_) | Work::Branch(_) => NodeKind::Conditional,
        Work::Allocate(_) => NodeKind::Allocate,
        Work::Release(..) => NodeKind::Release,
        Work::Nothing => NodeKind::Empty,
    }
}
