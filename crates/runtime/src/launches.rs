//! The launch decision, and the recent launches that findings refer to.

use crate::functions::Function;
use crate::stacks::Stack;
use instrument::EntryPlan;
use model::Extent;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;

/// Bytes of the launch parameter: a `LaunchHeader` and `LaunchBounds` each.
/// Eight pointers fit without an allocation.
pub type LaunchParameter = SmallVec<[u8; 136]>;

/// What to launch.
#[derive(Clone, Debug)]
pub enum LaunchDecision {
    /// The program's kernel as it is.
    Original,
    /// The instrumented copy.
    Checked {
        /// Handle of the copy.
        function: u64,
        /// What goes into [`EntryPlan::launch_parameter`]; empty in lookup
        /// mode.
        launch_parameter: LaunchParameter,
        /// The kernel's plan, with its parameter layout.
        plan: Arc<EntryPlan>,
    },
}

/// A pointer parameter at a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    /// Byte offset in the parameter block.
    pub offset: u32,
    /// Its value.
    pub pointer: u64,
    /// The allocation it belongs to; zeros if none.
    pub bounds: Extent,
}

/// A launch that ran with checks.
#[derive(Debug)]
pub(crate) struct Launch {
    pub id: u64,
    pub function: Arc<Function>,
    pub roots: SmallVec<[Root; 8]>,
    pub stack: Stack,
}

/// Launches remembered; at most two launches a microsecond leave the watcher
/// enough time at this length.
const REMEMBERED: usize = 1 << 15;

/// The recent launches by ordinal.
pub(crate) struct Launches {
    slots: Box<[Mutex<Option<Arc<Launch>>>]>,
}

impl Launches {
    pub fn new() -> Launches {
        Launches {
            slots: (0..REMEMBERED).map(|_| Mutex::new(None)).collect(),
        }
    }

    pub fn remember(&self, launch: Launch) {
        let slot = launch.id as usize % REMEMBERED;
        let old = self.slots[slot].lock().replace(Arc::new(launch));
        // Dropped after the lock is free.
        drop(old);
    }

    /// The launch with this ordinal, unless it is too long ago.
    pub fn get(&self, id: u64) -> Option<Arc<Launch>> {
        let launch = self.slots[id as usize % REMEMBERED].lock().clone();
        launch.filter(|launch| launch.id == id)
    }
}
