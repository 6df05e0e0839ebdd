//! The launch decision, and the recent launches that findings refer to.

use crate::functions::Function;
use crate::recent::Recent;
use host::stacks::{self, Stack};
use instrument::EntryPlan;
use model::{Extent, Rule, Settings};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes of the launch parameter: a `LaunchHeader` and `LaunchBounds` each.
/// Eight pointers fit without an allocation.
pub type LaunchParameter = SmallVec<[u8; 136]>;

/// What to launch.
#[derive(Clone, Debug)]
pub enum LaunchDecision {
    /// The program's kernel as it is.
    Original,
    /// The program's kernel as it is: it was shown to be in bounds, or has no
    /// access that can be out of them.
    Proved,
    /// The program's kernel as it is: the functions that it calls have checks.
    InPlace,
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

impl LaunchDecision {
    /// The launch's ordinal, if it is a checked one with bounds; else 0.
    pub(crate) fn ordinal(&self) -> u64 {
        let LaunchDecision::Checked {
            launch_parameter, ..
        } = self
        else {
            return 0;
        };
        let ordinal = launch_parameter.first_chunk::<8>();
        ordinal.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

/// A pointer parameter at a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    /// Byte offset in the parameter block.
    pub offset: u32,
    /// Its value.
    pub pointer: u64,
    /// The allocation it belongs to; zeros if none that may be used here.
    pub bounds: Extent,
    /// Why its allocation may not be used here, if that is known.
    pub wrong: Option<Rule>,
}

/// A launch that ran with checks.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub id: u64,
    pub function: Arc<Function>,
    pub roots: Roots,
    pub stack: Stack,
    /// It was proved in bounds, and is checked all the same.
    pub proved: bool,
}

/// The pointer parameters of a launch; most kernels have no more than four.
pub(crate) type Roots = SmallVec<[Root; 4]>;

/// Launches remembered. Records are drained every 20 ms, so a program must
/// make more than one launch a microsecond to outrun it.
const REMEMBERED: usize = 1 << 15;
/// Slots made at a time: short programs need few.
const CHUNK: usize = 1 << 9;

type Slot = Mutex<Option<Launch>>;

/// The recent launches by ordinal. Launches lie in the slots themselves, one
/// after the other: the launch path then writes memory in order and neither
/// allocates nor waits for the cache.
pub(crate) struct Launches {
    settings: Arc<Settings>,
    /// The ordinal of the newest.
    newest: AtomicU64,
    chunks: Box<[OnceLock<Box<[Slot]>>]>,
    /// Those that may be running, with and without ordinals.
    recent: Recent,
}

impl Launches {
    pub fn new(settings: Arc<Settings>) -> Launches {
        Launches {
            settings,
            newest: AtomicU64::new(0),
            chunks: (0..REMEMBERED / CHUNK).map(|_| OnceLock::new()).collect(),
            recent: Recent::default(),
        }
    }

    /// Those that may be running.
    pub fn recent(&self) -> &Recent {
        &self.recent
    }

    /// The ordinal of a launch that begins.
    pub fn next(&self) -> u64 {
        self.newest.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The ordinal of the newest launch; 0 if there was none.
    pub fn newest(&self) -> u64 {
        self.newest.load(Ordering::Relaxed)
    }

    /// The call stack of a launch, for as many as are kept of those that
    /// `captured` counts.
    pub fn capture_stack(&self, captured: &AtomicU32) -> Stack {
        let kept = self.settings.launch_backtraces;
        let is_kept = captured.load(Ordering::Relaxed) < kept
            && captured.fetch_add(1, Ordering::Relaxed) < kept;
        match is_kept {
            true => stacks::capture(self.settings.num_callers_host),
            false => None,
        }
    }

    pub fn remember(&self, launch: Launch) {
        let index = launch.id as usize % REMEMBERED;
        let chunk = self.chunks[index / CHUNK]
            .get_or_init(|| (0..CHUNK).map(|_| Mutex::new(None)).collect());
        let old = chunk[index % CHUNK].lock().replace(launch);
        // Dropped after the lock is free.
        drop(old);
    }

    /// The launch with this ordinal, unless it is too long ago.
    pub fn get(&self, id: u64) -> Option<Launch> {
        let index = id as usize % REMEMBERED;
        let slot = &self.chunks[index / CHUNK].get()?[index % CHUNK];
        slot.lock()
            .as_ref()
            .filter(|launch| launch.id == id)
            .cloned()
    }
}
