//! What is put into streams, and what graphs are made of.

use crate::call::{self, Call};
use crate::convert::Answer;
use crate::event;
use crate::graph::Graph;
use crate::graph::memory::GraphMemory;
use crate::launch::{self, Launch};
use crate::link::Link;
use crate::pool;
use crate::transfer::{self, Fill, Transfer};
use std::sync::Arc;

/// A piece of work. Handles are the program's, and mean what they mean when the
/// work is done.
#[derive(Clone)]
pub(crate) enum Work {
    /// Only its place in the order matters.
    Empty,
    Kernel(Arc<Launch>),
    Copy(Transfer),
    Fill(Fill),
    /// A function of the program.
    Call(Call),
    /// Records an event.
    Record(u64),
    /// Waits for an event.
    Wait(u64),
    /// A child graph, which may still change.
    Child(Arc<Graph>),
    /// The nodes of a graph, in an order that respects their edges.
    Sequence(Arc<Vec<Work>>),
    /// An allocation node.
    Allocate(Arc<GraphMemory>),
    /// A node that frees an address, of a graph or from outside.
    Release(u64, Option<Arc<GraphMemory>>),
}

impl Work {
    /// Puts it into a stream, behind what is there.
    pub(crate) fn put(&self, link: &'static Link, stream: u32) -> Answer {
        match self {
            // Instantiating a graph makes sequences of child graphs.
            Work::Empty | Work::Child(_) => Ok(()),
            Work::Kernel(launch) => launch::put(link, stream, launch),
            Work::Copy(transfer) => transfer::put_late(link, stream, *transfer),
            Work::Fill(fill) => transfer::put_fill(link, stream, fill),
            Work::Call(call) => call::put(link, stream, *call),
            Work::Record(event) => event::put_record(link, *event, stream),
            Work::Wait(event) => {
                let event = link.state.event(*event)?;
                link.state.order.await_event(link, event, stream)
            }
            Work::Sequence(all) => all.iter().try_for_each(|work| work.put(link, stream)),
            Work::Allocate(memory) => {
                memory.allocated_in(stream);
                Ok(())
            }
            Work::Release(_, Some(memory)) => {
                memory.freed();
                Ok(())
            }
            Work::Release(address, None) => pool::free_behind(link, *address, stream),
        }
    }
}
