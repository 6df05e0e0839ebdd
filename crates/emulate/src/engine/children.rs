//! Launches by kernels (CUDA programming guide, "CUDA Dynamic Parallelism").
//!
//! What a grid launches, copies and fills is queued while the grid runs and
//! executed after its end, in the order of the calls. That order is one that
//! the programming model allows: a grid is over only when what it launched is,
//! and nothing promises that a child starts before its parent's end.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// How deep launches nest at most (CUDA programming guide, "Nesting depth").
pub(crate) const DEEPEST: u32 = 24;

/// Grids that may be pending for one parent (`cudaLimitDevRuntimePendingLaunchCount`
/// is 2,048 by default; launches beyond it are slower on a GPU, not refused).
const MOST_PENDING: usize = 1 << 20;

/// A grid that a kernel launches.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    /// Index of the entry's function.
    pub function: u32,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic_shared: u32,
    pub parameters: Vec<u8>,
}

/// What a kernel asked for.
#[derive(Clone, Debug)]
pub(crate) enum Child {
    Grid(Grid),
    Copy { to: u64, from: u64, size: u64 },
    Fill { to: u64, value: u8, size: u64 },
}

/// What one grid asked for.
#[derive(Default)]
pub(crate) struct Children {
    /// Levels of launches above this grid.
    pub depth: u32,
    /// Parameter buffers that were handed out, by address.
    prepared: Mutex<FxHashMap<u64, Grid>>,
    /// In order of the calls.
    queued: Mutex<Vec<Child>>,
    /// What runs after the grid and everything in `queued`.
    tail: Mutex<Vec<Child>>,
}

impl Children {
    pub fn at_depth(depth: u32) -> Children {
        Children {
            depth,
            ..Children::default()
        }
    }

    /// Records which launch a parameter buffer belongs to.
    pub fn prepare(&self, buffer: u64, grid: Grid) {
        self.prepared.lock().insert(buffer, grid);
    }

    /// What a parameter buffer is for; it is used once.
    pub fn take(&self, buffer: u64) -> Option<Grid> {
        self.prepared.lock().remove(&buffer)
    }

    /// Queues work; false if too much is pending.
    pub fn queue(&self, child: Child, tail: bool) -> bool {
        let list = if tail { &self.tail } else { &self.queued };
        let mut list = list.lock();
        if list.len() >= MOST_PENDING {
            return false;
        }
        list.push(child);
        true
    }

    /// What was queued, then what runs last.
    pub fn into_lists(self) -> (Vec<Child>, Vec<Child>) {
        (self.queued.into_inner(), self.tail.into_inner())
    }
}
