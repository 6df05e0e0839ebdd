//! What streams execute, and the graphs that are made of it.

use super::copy::{Copy, Fill};
use super::event::Event;
use super::graph_memory::GraphMemory;
use super::launch::KernelCall;
use crate::device::core::Core;
use crate::engine::Contained;
use driver::graphs::{self, Shape};
use driver::sys::CUresult;
use parking_lot::Mutex;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A node of a graph.
pub(crate) struct Node {
    pub handle: u64,
    pub work: Work,
    pub after: BTreeSet<usize>,
    /// False once destroyed: indices of the others must not move.
    pub alive: bool,
}

/// A graph.
pub(crate) struct Graph {
    pub handle: u64,
    pub nodes: Mutex<Vec<Node>>,
    /// Values of conditional nodes, by address, with what each launch of the
    /// graph sets them to.
    pub values: Mutex<Vec<(u64, Option<u32>)>>,
    /// References to user objects that the graph holds, by object.
    pub objects: Mutex<BTreeMap<u64, u32>>,
}

impl Graph {
    /// Nodes that the given ones depend on, with themselves.
    pub fn ancestors(&self, of: &[usize]) -> BTreeSet<usize> {
        let nodes = self.nodes.lock();
        let mut found = BTreeSet::new();
        let mut open: Vec<usize> = of.to_vec();
        while let Some(index) = open.pop() {
            if found.insert(index)
                && let Some(node) = nodes.get(index)
            {
                open.extend(&node.after);
            }
        }
        found
    }

    /// Handles of nodes.
    pub fn handles(&self, indices: &[usize]) -> Vec<u64> {
        let nodes = self.nodes.lock();
        indices
            .iter()
            .filter_map(|index| nodes.get(*index))
            .map(|node| node.handle)
            .collect()
    }

    /// Live nodes in an order that respects the edges; `None` if they form a
    /// cycle.
    pub(crate) fn sorted(&self) -> Option<Vec<(u64, Work)>> {
        let nodes = self.nodes.lock();
        let order = graphs::order(&nodes)?;
        let all = order.iter().map(|index| &nodes[*index]);
        Some(all.map(|node| (node.handle, node.work.clone())).collect())
    }

    /// How its nodes stand among each other; `None` if there is a cycle, also within a
    /// child graph.
    pub(crate) fn shape(&self) -> Option<Vec<Shape>> {
        graphs::shape(&self.nodes.lock(), |node| match &node.work {
            Work::Child(graph) => graph.shape(),
            _ => Some(Vec::new()),
        })
    }
}

impl graphs::Node for Node {
    fn is_alive(&self) -> bool {
        self.alive
    }

    fn after(&self) -> &BTreeSet<usize> {
        &self.after
    }
}

/// A function of the program that the device calls. The layer that passed it
/// reads back what it was made of ([`Device::node_host`](crate::device::Device::node_host)).
pub trait HostFunction: Any + Send + Sync {
    /// Calls it.
    fn call(&self);
}

impl<F: Fn() + Send + Sync + 'static> HostFunction for F {
    fn call(&self) {
        self();
    }
}

/// A piece of work. Cheap to clone: graphs execute theirs many times.
#[derive(Clone)]
pub(crate) enum Work {
    /// Only its place in the order matters.
    Nothing,
    Kernel(Arc<KernelCall>),
    Copy(Copy),
    /// Bytes taken from pageable memory when the call was made.
    Upload {
        to: u64,
        bytes: Arc<[u8]>,
    },
    Fill(Fill),
    /// A function of the program.
    Host(Arc<dyn HostFunction>),
    /// `cuEventRecord`: the stamp that belongs to that call.
    Stamp(Arc<std::sync::OnceLock<Instant>>),
    /// An event-record node of a graph.
    Record(Arc<Event>),
    /// An event-wait node of a graph.
    Await(Arc<Event>),
    /// `cuStreamWriteValue32`, `64`
    WriteValue {
        to: u64,
        value: u64,
        wide: bool,
    },
    /// `cuStreamWaitValue32`, `64`
    WaitValue {
        at: u64,
        value: u64,
        wide: bool,
        relation: WaitRelation,
    },
    /// A child graph, which may still change.
    Child(Arc<Graph>),
    /// The nodes of a graph, in an order that respects their edges.
    Sequence(Arc<Vec<Work>>),
    /// An allocation node.
    Allocate(Arc<GraphMemory>),
    /// A node that frees an address, of a graph or from outside.
    Release(u64, Option<Arc<GraphMemory>>),
    /// A conditional node, whose graphs may still change.
    Conditional(Arc<Conditional>),
    /// A conditional node of an executable graph.
    Branch(Arc<Branch>),
}

/// Which of its graphs a conditional node executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The first if the value is not 0, else the second.
    If,
    /// The first, again and again while the value is not 0.
    While,
    /// The one at the value's position.
    Switch,
}

/// A conditional node.
pub(crate) struct Conditional {
    /// Address of the 32-bit value, which kernels set.
    pub value: u64,
    pub condition: Condition,
    pub graphs: Vec<Arc<Graph>>,
}

/// A conditional node with its graphs as they were when the whole graph was
/// instantiated.
pub(crate) struct Branch {
    pub value: u64,
    pub condition: Condition,
    pub bodies: Vec<Vec<Work>>,
}

impl Branch {
    pub(crate) fn run(&self, core: &Core) {
        loop {
            let value = match core.memory.view().load::<u32>(self.value) {
                Ok(value) => value,
                Err(error) => {
                    return core.fail(
                        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
                        &format!("conditional node on the CPU device: {error}"),
                    );
                }
            };
            let position = match self.condition {
                Condition::If | Condition::While => usize::from(value == 0),
                Condition::Switch => value as usize,
            };
            let repeats = self.condition == Condition::While;
            if repeats && value == 0 || core.check().is_err() {
                return;
            }
            for work in self.bodies.get(position).into_iter().flatten() {
                work.run(core);
            }
            if !repeats {
                return;
            }
        }
    }
}

/// When `cuStreamWaitValue` goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitRelation {
    /// `(int)(*addr − value) >= 0`
    GreaterEqual,
    /// `*addr == value`
    Equal,
    /// `(*addr & value) != 0`
    And,
    /// `~(*addr | value) != 0`
    Nor,
}

impl WaitRelation {
    fn holds(self, now: u64, value: u64, wide: bool) -> bool {
        match self {
            WaitRelation::GreaterEqual if wide => now.wrapping_sub(value) as i64 >= 0,
            WaitRelation::GreaterEqual => (now as u32).wrapping_sub(value as u32) as i32 >= 0,
            WaitRelation::Equal => now == value,
            WaitRelation::And => now & value != 0,
            WaitRelation::Nor => !(now | value) & if wide { u64::MAX } else { 0xffff_ffff } != 0,
        }
    }
}

impl Work {
    /// Its kernels end as those of a contained stream. (Graphs that hold more than kernels
    /// one behind the other are not put into such streams.)
    pub fn contain(&mut self, contained: &Arc<Contained>) {
        match self {
            Work::Kernel(call) => Arc::make_mut(call).contained = Some(Arc::clone(contained)),
            Work::Sequence(works) => {
                let works = Arc::make_mut(works).iter_mut();
                works.for_each(|work| work.contain(contained));
            }
            _ => {}
        }
    }

    /// Executes it on this thread. In a context that has failed, only stamps
    /// and host functions still happen: waiting threads must go on.
    pub fn run(&self, core: &Core) {
        let failed = core.check().is_err();
        match self {
            Work::Nothing => {}
            Work::Stamp(stamp) => {
                // Set once: the stamp belongs to one record call.
                let _ = stamp.set(Instant::now());
            }
            Work::Record(event) => event.completed_now(),
            Work::Await(event) => {
                if let Some(ticket) = event.ticket() {
                    ticket.wait();
                }
            }
            Work::Host(function) if !failed => function.call(),
            Work::Kernel(call) if failed => call.not_run(core),
            Work::Sequence(nodes) => nodes.iter().for_each(|node| node.run(core)),
            _ if failed => {}
            Work::Host(_) => {}
            Work::Kernel(call) => call.run(core),
            Work::Copy(copy) => {
                if let Err(error) = copy.run(&core.memory, &*core.host) {
                    core.fail(
                        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
                        &format!("copy on the CPU device: {error}"),
                    );
                }
            }
            Work::Upload { to, bytes } => {
                if let Err(error) = core.memory.write(*to, bytes) {
                    core.fail(
                        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
                        &format!("copy on the CPU device: {error}"),
                    );
                }
            }
            Work::Fill(fill) => {
                if let Err(error) = fill.run(&core.memory) {
                    core.fail(
                        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
                        &format!("memset on the CPU device: {error}"),
                    );
                }
            }
            Work::WriteValue { to, value, wide } => {
                let stored = if *wide {
                    core.memory.view().store::<u64>(*to, *value)
                } else {
                    core.memory.view().store::<u32>(*to, *value as u32)
                };
                if let Err(error) = stored {
                    core.fail(
                        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
                        &format!("stream write on the CPU device: {error}"),
                    );
                }
            }
            Work::WaitValue {
                at,
                value,
                wide,
                relation,
            } => wait_value(core, *at, *value, *wide, *relation),
            Work::Branch(branch) => branch.run(core),
            Work::Allocate(memory) => memory.set_live(true),
            Work::Release(_, Some(memory)) => memory.set_live(false),
            Work::Release(_, None) => {}
            // Instantiating a graph makes branches and sequences of them.
            Work::Conditional(_) | Work::Child(_) => {}
        }
    }
}

fn wait_value(core: &Core, at: u64, value: u64, wide: bool, relation: WaitRelation) {
    let cancel = core.cancel();
    let mut pause = Duration::from_micros(1);
    while !cancel.load(std::sync::atomic::Ordering::Acquire) {
        // A fresh view each time: it must not hold back changes to the map.
        let now = if wide {
            core.memory.view().load::<u64>(at)
        } else {
            core.memory.view().load::<u32>(at).map(u64::from)
        };
        match now {
            Ok(now) if relation.holds(now, value, wide) => return,
            Ok(_) => {}
            Err(error) => {
                core.fail(
                    CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
                    &format!("stream wait on the CPU device: {error}"),
                );
                return;
            }
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(1));
    }
}
