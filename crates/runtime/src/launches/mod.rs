//! The recent launches, which findings refer to.

mod handed;
mod ledger;
mod list;
mod recent;
mod thread_cache;

pub(crate) use list::{Begun, Listed, Target};
pub(crate) use recent::RecentLaunch;
pub use thread_cache::{Listing, Made, undecided};

use crate::env::Env;
use crate::functions::{Counted, Function, Proved};
use crate::moment::Moment;
use crate::roots::Roots;
use crate::streams::{StreamName, Where};
use handed::Handed;
use host::Stack;
use ledger::Ledger;
use list::List;
use model::{SiteId, UncheckedReason};
use parking_lot::Mutex;
use recent::Recent;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

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
    /// Those that are not accounted for yet, by thread.
    ledger: Ledger,
    /// Those that are to be verified, and canaries have not taken over.
    handed: Mutex<Handed>,
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
            ledger: Ledger::default(),
            handed: Mutex::default(),
            in_graphs: Mutex::default(),
        }
    }

    /// Those that may be running, with all that the threads have listed.
    pub fn recent(&self) -> &Recent {
        self.settle();
        &self.recent
    }

    /// Launches of a kernel are never checked, for this reason, and are listed by the
    /// calling thread from here on. `found`: when that was found, and whether launches
    /// were verified afterwards at that time.
    pub fn learn(&self, function: &Arc<Function>, reason: UncheckedReason, found: (Moment, bool)) {
        self.ledger
            .learn(function, reason, found, |list| self.settle_list(list));
    }

    /// Whether all call stacks were taken that are kept of launches which `captured`
    /// counts.
    pub fn has_stacks(&self, captured: &AtomicU32) -> bool {
        captured.load(Ordering::Relaxed) >= self.kept
    }

    /// Lists a launch that [`undecided`] has left. `None`: it cannot be listed;
    /// `true`: launches in this stream wait in [`Launches::take_handed`] to be verified.
    pub fn list(&self, listing: Listing, place: Where, now: Instant) -> Option<bool> {
        let target = Target::of(place)?;
        let context = target.name.context_or_current(self.env.driver());
        self.ledger.list(listing, (target, context), now, |list| {
            self.settle_list(list)
        })
    }

    /// Accounts for all that the threads have listed.
    pub fn settle(&self) {
        self.ledger.each(|list| self.settle_list(list));
    }

    fn settle_list(&self, list: &mut List) {
        let ordinals = |count| self.newest.fetch_add(count, Ordering::Relaxed) + 1;
        let Some(listed) = list.take(ordinals) else {
            return;
        };
        listed.count();
        let listed = Arc::new(listed);
        self.recent.add_list(listed.clone());
        if listed.begun.is_verified {
            self.handed.lock().add(listed);
        }
    }

    /// Gives what was settled and is to be verified, each launch once, oldest first.
    pub fn take_handed(&self, take: impl FnMut(Arc<Listed>)) {
        self.handed.lock().take(take);
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

    /// The ordinal of a launch that begins. The calling thread's launches before it
    /// have theirs.
    pub fn next(&self) -> u64 {
        self.ledger.own(|list| self.settle_list(list));
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
