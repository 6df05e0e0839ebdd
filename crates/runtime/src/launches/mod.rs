//! The recent launches, which findings refer to.

mod recent;

pub(crate) use recent::RecentLaunch;

use crate::env::Env;
use crate::functions::{Counted, Function, Proved};
use crate::roots::Roots;
use crate::streams::StreamName;
use host::Stack;
use model::SiteId;
use parking_lot::Mutex;
use recent::Recent;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A launch that ran with checks.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub id: u64,
    pub function: Arc<Function>,
    pub roots: Roots,
    pub stack: Stack,
    /// What was proved of it, and is checked all the same.
    pub proved: Proved,
}

impl Launch {
    /// Whether the accesses of a group were proved in bounds; `group` is the site
    /// that leads it.
    pub fn is_proved(&self, group: SiteId) -> bool {
        match self.proved {
            Proved::Nothing => false,
            Proved::Everything => true,
            Proved::Part => {
                let entry = self.function.entry.as_ref();
                let residual = entry.and_then(|entry| entry.residual.as_ref());
                residual.is_some_and(|residual| residual.elides(group))
            }
        }
    }
}

/// Launches remembered. Records are drained every 20 ms, so a program must
/// make more than one launch a microsecond to outrun it.
const REMEMBERED: usize = 1 << 15;
/// Kernels of graphs that are remembered.
const GRAPH_KERNELS: usize = 32;
/// Slots made at a time: short programs need few.
const CHUNK: usize = 1 << 9;

type Slot = Mutex<Option<Launch>>;

/// The recent launches by ordinal. Launches lie in the slots themselves, one
/// after the other: the launch path then writes memory in order and neither
/// allocates nor waits for the cache.
pub(crate) struct Launches {
    env: Arc<Env>,
    /// How many call stacks of launches are kept of what counts them.
    kept: u32,
    /// The ordinal of the newest.
    newest: AtomicU64,
    chunks: Box<[OnceLock<Box<[Slot]>>]>,
    /// Those that may be running, with and without ordinals.
    recent: Recent,
    /// Kernels that became nodes of graphs, by the program's handles.
    in_graphs: Mutex<Vec<u64>>,
}

impl Launches {
    pub fn new(env: Arc<Env>) -> Launches {
        Launches {
            kept: env.settings().launch_backtraces,
            env,
            newest: AtomicU64::new(0),
            chunks: (0..REMEMBERED / CHUNK).map(|_| OnceLock::new()).collect(),
            recent: Recent::default(),
            in_graphs: Mutex::default(),
        }
    }

    /// Those that may be running.
    pub fn recent(&self) -> &Recent {
        &self.recent
    }

    /// A kernel was launched in this stream. `launch` is its ordinal, or 0.
    pub fn made(&self, function: u64, counted: Counted, stream: StreamName, launch: u64) {
        self.recent.add(RecentLaunch {
            function,
            context: stream.context_or_current(self.env.driver()),
            stream,
            launch,
            counted: Some(counted),
        });
    }

    /// A kernel became a node of a graph.
    pub fn graph_kernel(&self, function: u64) {
        let mut known = self.in_graphs.lock();
        if known.len() < GRAPH_KERNELS && !known.contains(&function) {
            known.push(function);
        }
    }

    /// A graph was launched.
    pub fn graph_made(&self, stream: StreamName) {
        self.recent.add(RecentLaunch {
            function: 0,
            context: stream.context_or_current(self.env.driver()),
            stream,
            launch: 0,
            counted: None,
        });
    }

    /// Kernels that became nodes of graphs, by the program's handles.
    pub fn in_graphs(&self) -> Vec<u64> {
        self.in_graphs.lock().clone()
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
        let is_kept = captured.load(Ordering::Relaxed) < self.kept
            && captured.fetch_add(1, Ordering::Relaxed) < self.kept;
        match is_kept {
            true => self.env.stack(),
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
