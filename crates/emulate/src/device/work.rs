//! What streams execute.

use super::State;
use super::copy::{Copy, Fill};
use super::event::Event;
use super::graph::Graph;
use super::graph_memory::GraphMemory;
use super::launch::KernelCall;
use driver::sys::CUresult;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    Host(Arc<dyn Fn() + Send + Sync>),
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
    fn run(&self, state: &Arc<State>) {
        loop {
            let value = match state.memory.view().load::<u32>(self.value) {
                Ok(value) => value,
                Err(error) => {
                    return state.fail(
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
            if repeats && value == 0 || state.check().is_err() {
                return;
            }
            for work in self.bodies.get(position).into_iter().flatten() {
                work.run(state);
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
    /// Executes it on this thread. In a context that has failed, only stamps
    /// and host functions still happen: waiting threads must go on.
    pub fn run(&self, state: &Arc<State>) {
        let failed = state.check().is_err();
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
            Work::Host(function) if !failed => function(),
            Work::Kernel(call) if failed => call.not_run(state),
            Work::Sequence(nodes) => nodes.iter().for_each(|node| node.run(state)),
            _ if failed => {}
            Work::Host(_) => {}
            Work::Kernel(call) => call.run(state),
            Work::Copy(copy) => {
                if let Err(error) = copy.run(&state.memory, &*state.host) {
                    state.fail(
                        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
                        &format!("copy on the CPU device: {error}"),
                    );
                }
            }
            Work::Upload { to, bytes } => {
                if let Err(error) = state.memory.write(*to, bytes) {
                    state.fail(
                        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
                        &format!("copy on the CPU device: {error}"),
                    );
                }
            }
            Work::Fill(fill) => {
                if let Err(error) = fill.run(&state.memory) {
                    state.fail(
                        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
                        &format!("memset on the CPU device: {error}"),
                    );
                }
            }
            Work::WriteValue { to, value, wide } => {
                let stored = if *wide {
                    state.memory.view().store::<u64>(*to, *value)
                } else {
                    state.memory.view().store::<u32>(*to, *value as u32)
                };
                if let Err(error) = stored {
                    state.fail(
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
            } => wait_value(state, *at, *value, *wide, *relation),
            Work::Branch(branch) => branch.run(state),
            Work::Allocate(memory) => memory.set_live(true),
            Work::Release(_, Some(memory)) => memory.set_live(false),
            Work::Release(_, None) => {}
            // Instantiating a graph makes branches of them.
            Work::Conditional(_) => {}
        }
    }
}

fn wait_value(state: &Arc<State>, at: u64, value: u64, wide: bool, relation: WaitRelation) {
    let cancel = state.cancel();
    let mut pause = Duration::from_micros(1);
    while !cancel.load(std::sync::atomic::Ordering::Acquire) {
        // A fresh view each time: it must not hold back changes to the map.
        let now = if wide {
            state.memory.view().load::<u64>(at)
        } else {
            state.memory.view().load::<u32>(at).map(u64::from)
        };
        match now {
            Ok(now) if relation.holds(now, value, wide) => return,
            Ok(_) => {}
            Err(error) => {
                state.fail(
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
