//! Instantiated graphs, and what their nodes were last planned for.

use driver::sys::CUcontext;
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
    /// Whether a launch of the graph executes it.
    pub enabled: bool,
}

/// An instantiated graph.
pub struct Executable {
    /// Its nodes that can be planned again.
    pub nodes: Vec<Node>,
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
        }
    }

    /// A graph owns something of the program's.
    pub fn set_owner(&self, graph: u64) {
        self.owners.lock().insert(graph);
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
