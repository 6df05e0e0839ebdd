//! Memory that belongs to graphs: allocation and free nodes, added or captured.
//!
//! The address is fixed when the node is made; here the memory is taken then,
//! too. It goes when no graph holds the node any more, unless the program still
//! has what a launch allocated: then the program frees it.

use super::INVALID;
use crate::event;
use crate::link::{self, Link};
use crate::memory::allocate;
use crate::work::Work;
use driver::sys::CUresult;
use parking_lot::Mutex;
use protocol::Request;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The memory of an allocation node.
pub(crate) struct GraphMemory {
    pub(super) address: u64,
    pub(super) size: u64,
    /// A launch allocated it, and nothing freed it since.
    is_live: AtomicBool,
    /// The streams in which launches use it.
    streams: Mutex<BTreeSet<u32>>,
}

impl GraphMemory {
    /// The node is put into a stream.
    pub(crate) fn allocated_in(&self, stream: u32) {
        self.streams.lock().insert(stream);
        self.is_live.store(true, Ordering::Release);
    }

    /// A node that frees it is put into a stream, or the program frees it.
    pub(crate) fn freed(&self) {
        self.is_live.store(false, Ordering::Release);
    }

    /// A launch allocated it, and nothing freed it since.
    pub(super) fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Acquire)
    }
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        let Some(link) = link::get() else { return };
        link.state.graphs.memory.lock().remove(&self.address);
        // What is live the program frees as it frees all other memory. After a
        // reset the memory is gone already.
        let is_known = || {
            let mut known = link.state.allocations.lock();
            known.remove(&self.address).is_some()
        };
        if !*self.is_live.get_mut() && is_known() {
            let streams = std::mem::take(self.streams.get_mut()).into_iter();
            let standing = |stream| link.state.standing_for(stream);
            let mut streams: BTreeSet<u32> = streams.map(standing).collect();
            let stream = streams.pop_last().unwrap_or(0);
            let address = self.address;
            let request = Request::FreeBehind { address, stream };
            // Where one fails, the connection is lost, and the memory with it.
            let _ = streams
                .into_iter()
                .try_for_each(|other| event::follow(link, stream, other))
                .and_then(|()| link.state.order.put_last(link, request));
        }
    }
}

/// Memory for an allocation node, and what the node does.
pub(crate) fn allocation(link: &'static Link, size: u64) -> Result<(u64, Work), CUresult> {
    let address = allocate(link, size)?;
    let memory = Arc::new(GraphMemory {
        address,
        size,
        is_live: AtomicBool::new(false),
        streams: Mutex::default(),
    });
    let known = Arc::downgrade(&memory);
    link.state.graphs.memory.lock().insert(address, known);
    Ok((address, Work::Allocate(memory)))
}

/// The memory of a graph at an address, if it is one's.
fn find(link: &Link, address: u64) -> Option<Arc<GraphMemory>> {
    link.state.graphs.memory.lock().get(&address)?.upgrade()
}

/// What a node does that frees an address.
pub(crate) fn release(link: &Link, address: u64) -> Result<Work, CUresult> {
    match find(link, address) {
        Some(memory) => Ok(Work::Release(address, Some(memory))),
        None if link.state.allocations.lock().contains_key(&address) => {
            Ok(Work::Release(address, None))
        }
        None => Err(INVALID),
    }
}

/// The program frees what a launch has allocated. Whether the address is a
/// graph's, which keeps the memory.
pub(crate) fn free(link: &Link, address: u64) -> bool {
    let memory = find(link, address);
    if let Some(memory) = &memory {
        memory.freed();
    }
    memory.is_some()
}
