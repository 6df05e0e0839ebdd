//! Instantiated graphs, and what their nodes were last planned for.

use driver::sys::{CUcontext, CUgraphNodeType};
use model::layout::shadow::LAUNCH_WINDOW;
use model::{DeviceAddress, Extent};
use parking_lot::Mutex;
use runtime::{Belongs, EntryPlan, LaunchShape, Side};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A kernel as its node has it, with the program's own function.
pub struct KernelNode {
    /// Handle.
    pub function: u64,
    /// Whether the handle is a kernel of a library.
    pub is_kernel: bool,
    /// Where it runs.
    pub context: CUcontext,
    /// Blocks, threads and dynamic shared memory.
    pub shape: LaunchShape,
    /// What is known of the kernel.
    pub plan: Arc<EntryPlan>,
    /// Its parameters.
    pub block: Vec<u8>,
}

/// What a node does.
pub enum Work {
    /// Launches a kernel.
    Kernel(Box<KernelNode>),
    /// Copies or sets memory.
    Call(Vec<Side>),
}

/// A node that can be planned again.
pub struct Node {
    /// In the graph that was instantiated.
    pub handle: u64,
    /// What it does.
    pub work: Work,
    /// Pointers, and what they belonged to when the node was last planned.
    pub uses: Vec<(u64, Option<Belongs>)>,
    /// Where shadow memory was then, if it is a kernel's
    /// ([`runtime::Launcher::shadow_window`]).
    pub window: [u8; LAUNCH_WINDOW as usize],
    /// Whether a launch of the graph executes it.
    pub enabled: bool,
    /// Whether it is to be planned before it is launched, whatever its pointers
    /// belong to: it was made some time before, and one of them belongs to
    /// nothing.
    pub doubtful: bool,
}

/// A graph within an instantiated graph.
pub struct Child {
    /// Its node, in the graph that was instantiated.
    pub handle: u64,
    /// A copy of it, which is Ringfence's own.
    pub copy: u64,
    /// Nodes of the copy, and of graphs within it, that can be planned again.
    pub nodes: Vec<Node>,
}

/// How the nodes of a graph hang together, in the device's order.
pub struct Shape {
    /// The nodes.
    pub handles: Vec<u64>,
    /// What kind each is of.
    pub kinds: Vec<CUgraphNodeType>,
    /// From which node to which.
    pub edges: Vec<(usize, usize)>,
}

impl Shape {
    /// The nodes of this graph by those of another of the same shape; `None` if
    /// it has another one.
    pub fn pairs(&self, other: &Shape) -> Option<HashMap<u64, u64>> {
        let is_same = self.kinds == other.kinds && self.edges == other.edges;
        let pairs = other.handles.iter().zip(&self.handles);
        is_same.then(|| pairs.map(|(other, own)| (*other, *own)).collect())
    }
}

/// An instantiated graph.
pub struct Executable {
    /// Its nodes that can be planned again.
    pub nodes: Vec<Node>,
    /// The graphs within it that can be planned again.
    pub children: Vec<Child>,
    /// How the nodes of the graph that was instantiated hang together.
    pub shape: Option<Shape>,
    /// Of the memory that the nodes were last planned for.
    pub generation: u64,
    /// The graph whose nodes' handles are needed.
    pub graph: Option<u64>,
    /// The memory that a launch allocates and frees.
    pub memory: Arc<GraphMemory>,
}

/// Memory that a launch of a graph allocates, and such that it frees.
#[derive(Default)]
pub struct GraphMemory {
    /// Allocated.
    pub allocates: Vec<Extent>,
    /// Freed, whichever graph has allocated it.
    pub frees: Vec<DeviceAddress>,
}

/// A graph that is needed.
#[derive(Default)]
struct Needed {
    /// By so many executables.
    by: usize,
    /// The program has destroyed it.
    destroyed: bool,
}

/// What becomes of a graph that the program destroys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destroyed {
    /// It is destroyed.
    Now,
    /// It is needed, and destroyed later.
    Later,
    /// The program has destroyed it before.
    Before,
}

/// All instantiated graphs, and the graphs that they need.
#[derive(Default)]
pub struct Replays {
    /// By handle; `None` while one is being looked at.
    executables: Mutex<HashMap<u64, Option<Executable>>>,
    graphs: Mutex<HashMap<u64, Needed>>,
    /// Graphs that own something of the program's, which is to be given back
    /// when the program destroys the graph.
    owners: Mutex<HashSet<u64>>,
}

impl Replays {
    /// A graph was instantiated.
    pub fn add(&self, executable: u64, made: Executable) {
        if let Some(graph) = made.graph {
            self.graphs.lock().entry(graph).or_default().by += 1;
        }
        self.executables.lock().insert(executable, Some(made));
    }

    /// Whether an instantiated graph is known.
    pub fn contains(&self, executable: u64) -> bool {
        self.executables.lock().contains_key(&executable)
    }

    /// An instantiated graph is destroyed.
    pub fn remove(&self, executable: u64) -> Option<Executable> {
        self.executables.lock().remove(&executable).flatten()
    }

    /// Takes an instantiated graph out if its nodes were planned for other
    /// memory than there is now.
    pub fn take_stale(&self, executable: u64, generation: u64) -> Option<Executable> {
        let mut all = self.executables.lock();
        let place = all.get_mut(&executable)?;
        if place.as_ref()?.generation == generation {
            return None;
        }
        place.take()
    }

    /// Ends what [`Replays::take_stale`] began, unless the graph was destroyed
    /// meanwhile.
    pub fn put_back(&self, executable: u64, renewed: Executable) {
        if let Some(place) = self.executables.lock().get_mut(&executable) {
            *place = Some(renewed);
        }
    }

    /// Changes what is known of an instantiated graph.
    pub fn change(&self, executable: u64, change: impl FnOnce(&mut Executable)) {
        if let Some(Some(known)) = self.executables.lock().get_mut(&executable) {
            change(known);
        }
    }

    /// A node is destroyed.
    pub fn forget_node(&self, node: u64) {
        for executable in self.executables.lock().values_mut().flatten() {
            executable.nodes.retain(|known| known.handle != node);
            let of_node = |child: &&mut Child| child.handle == node;
            for child in executable.children.iter_mut().filter(of_node) {
                child.nodes.clear();
            }
        }
    }

    /// A graph owns something of the program's.
    pub fn set_owner(&self, graph: u64) {
        self.owners.lock().insert(graph);
    }

    /// Whether some graph owns something of the program's.
    pub fn has_owners(&self) -> bool {
        !self.owners.lock().is_empty()
    }

    /// A graph is not needed any more, by one. Whether it is to be destroyed,
    /// because the program has done so and nothing needs it.
    pub fn release(&self, graph: u64) -> bool {
        let mut graphs = self.graphs.lock();
        let Some(needed) = graphs.get_mut(&graph) else {
            return false;
        };
        needed.by = needed.by.saturating_sub(1);
        (needed.by == 0)
            .then(|| graphs.remove(&graph))
            .flatten()
            .is_some_and(|needed| needed.destroyed)
    }

    /// The program destroys a graph.
    pub fn destroying(&self, graph: u64) -> Destroyed {
        let owns = self.owners.lock().remove(&graph);
        let mut graphs = self.graphs.lock();
        if owns {
            if graphs.remove(&graph).is_some() {
                drop(graphs);
                self.give_up(graph);
            }
            return Destroyed::Now;
        }
        let Some(needed) = graphs.get_mut(&graph) else {
            return Destroyed::Now;
        };
        match std::mem::replace(&mut needed.destroyed, true) {
            false => Destroyed::Later,
            true => Destroyed::Before,
        }
    }

    /// The handles of a graph's nodes are not good any more: its kernels cannot
    /// be planned again.
    fn give_up(&self, graph: u64) {
        for executable in self.executables.lock().values_mut().flatten() {
            if executable.graph == Some(graph) {
                executable.graph = None;
                executable
                    .nodes
                    .retain(|node| matches!(node.work, Work::Call(_)));
            }
        }
    }
}
