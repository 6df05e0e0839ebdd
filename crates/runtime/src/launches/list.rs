//! Launches that one thread has made one after the other in one stream.

use crate::functions::{Counted, Function};
use crate::streams::{StreamName, Where};
use driver::SupportStream;
use model::UncheckedReason;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Launches in a list, at most. (In training with PyTorch, on an H200's host, a list took
/// 3,700 cycles to settle and some 4,000 to begin.)
pub(super) const MOST: usize = 128;
/// A list of launches should not grow older: checks that are made while the host goes on
/// wait for it.
pub(super) const AGE: Duration = Duration::from_millis(4);
/// Kernels that a thread knows at a time.
pub(super) const KERNELS: usize = 1024;

/// A kernel that may be listed, and why none of its launches is checked.
#[derive(Debug)]
struct Known {
    function: Arc<Function>,
    reason: UncheckedReason,
    /// Launches in the list that is being counted; else 0.
    launches: u64,
}

impl Known {
    fn counted(&self, is_verified: bool) -> Counted {
        match is_verified {
            true => Counted::Verified(self.reason),
            false => Counted::Unchecked(self.reason),
        }
    }
}

/// Kernels that a thread has launched; lists name them by their places here.
type Kernels = Mutex<Vec<Known>>;

/// Where the launches of a list went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub name: StreamName,
    /// As the program names it.
    pub stream: SupportStream,
}

impl PartialEq for Target {
    /// In one piece, as each launch asks.
    #[inline(always)]
    fn eq(&self, other: &Target) -> bool {
        self.stream == other.stream && self.name == other.name
    }
}

impl Target {
    /// The target of what goes there, if it is a stream.
    #[inline]
    pub fn of(place: Where) -> Option<Target> {
        match place {
            Where::Stream {
                name,
                handle,
                per_thread,
            } => Some(Target {
                name,
                stream: SupportStream::Program { handle, per_thread },
            }),
            Where::Graph | Where::Unknown => None,
        }
    }
}

/// What is common to the launches of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub target: Target,
    pub context: u64,
    /// When the first one was made.
    pub since: Instant,
    /// Whether it is verified afterwards what they did.
    pub is_verified: bool,
}

/// Launches that were made one after the other by one thread, in one stream.
#[derive(Debug)]
pub(crate) struct Listed {
    pub begun: Begun,
    /// The ordinal of the first, whose successors the others have; 0: they have none.
    first: u64,
    /// The places of their kernels.
    items: Box<[u16]>,
    kernels: Arc<Kernels>,
}

impl Listed {
    /// How many launches there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Counts its launches.
    pub fn count(&self) {
        let mut kernels = self.kernels.lock();
        for item in &self.items {
            if let Some(known) = kernels.get_mut(usize::from(*item)) {
                known.launches += 1;
            }
        }
        // Each kernel once: what counts it is not in the caches.
        for item in &self.items {
            if let Some(known) = kernels.get_mut(usize::from(*item))
                && let launches @ 1.. = std::mem::take(&mut known.launches)
            {
                let counted = known.counted(self.begun.is_verified);
                known.function.counts.count_all(counted, launches);
            }
        }
    }

    /// Calls a function with each launch, oldest first: its ordinal, its kernel, and
    /// how it is counted.
    pub fn each(&self, mut act: impl FnMut(u64, &Arc<Function>, Counted)) {
        let kernels = self.kernels.lock();
        for (place, item) in (0..).zip(&self.items) {
            let Some(known) = kernels.get(usize::from(*item)) else {
                debug_assert!(false, "kernels are not removed from a list's");
                continue;
            };
            let counted = known.counted(self.begun.is_verified);
            let ordinal = if self.first == 0 {
                0
            } else {
                self.first + place
            };
            act(ordinal, &known.function, counted);
        }
    }
}

/// Launches, by the places of their kernels.
#[derive(Debug)]
struct Items {
    count: u32,
    places: [u16; MOST],
}

impl Items {
    const NONE: Items = Items {
        count: 0,
        places: [0; MOST],
    };

    /// Adds one, if there is room for it.
    #[inline]
    fn add(&mut self, kernel: u16) {
        if let Some(place) = self.places.get_mut(self.count as usize) {
            *place = kernel;
            self.count += 1;
        }
    }

    /// Takes all of them out.
    fn take(&mut self) -> Box<[u16]> {
        let count = std::mem::take(&mut self.count);
        self.places.get(..count as usize).unwrap_or(&[]).into()
    }
}

/// The launches of a thread that are not settled, all in one stream.
#[repr(C)]
pub(super) struct List {
    /// `None`: there are none.
    target: Option<Target>,
    /// Launches that the list may hold, as fast as they come.
    pub(super) most: u32,
    items: Items,
    /// See [`Begun`].
    context: u64,
    since: Option<Instant>,
    is_verified: bool,
    kernels: Arc<Kernels>,
}

impl Default for List {
    fn default() -> List {
        List {
            target: None,
            most: 1,
            items: Items::NONE,
            context: 0,
            since: None,
            is_verified: false,
            kernels: Arc::default(),
        }
    }
}

impl List {
    /// Where what a launch compares ends.
    pub const COMPARED: usize = std::mem::offset_of!(List, items) + size_of::<u32>();

    pub fn is_empty(&self) -> bool {
        self.target.is_none()
    }

    /// Adds a launch, if the list is of this stream and has room for another one. Whether
    /// it was added.
    #[inline(always)]
    pub fn add_to(&mut self, target: Target, kernel: u16) -> bool {
        let fits = self.target == Some(target) && self.items.count + 1 < self.most;
        if fits {
            self.items.add(kernel);
        }
        fits
    }

    /// Adds a launch, as the first one of a list if the list is another stream's, which
    /// then is settled before, and settles a list that is full. Whether it was full, and
    /// its launches are to be verified.
    pub fn add(&mut self, kernel: u16, begun: Begun, settle: impl Fn(&mut List)) -> bool {
        let now = begun.since;
        let own = self.begun().filter(|own| own.target == begun.target);
        let begun = own.unwrap_or_else(|| {
            settle(self);
            begun
        });
        self.begin(begun);
        self.items.add(kernel);
        if self.items.count < self.most {
            return false;
        }
        settle(self);
        self.was_full(begun.since, now);
        begun.is_verified
    }

    /// How many kernels it can name.
    pub fn kernels(&self) -> usize {
        self.kernels.lock().len()
    }

    /// Forgets the kernels. (Those that took its launches out know them still.)
    pub fn forget_kernels(&mut self) {
        self.kernels = Arc::default();
    }

    /// Takes its launches out. `first`: the ordinals of so many launches.
    pub fn take(&mut self, first: impl FnOnce(u64) -> u64) -> Option<Listed> {
        let begun = self.begun()?;
        self.target = None;
        let items = self.items.take();
        let first = match begun.is_verified {
            true => first(items.len() as u64),
            false => 0,
        };
        Some(Listed {
            begun,
            first,
            items,
            kernels: self.kernels.clone(),
        })
    }

    /// What is common to its launches, if there are any.
    fn begun(&self) -> Option<Begun> {
        Some(Begun {
            target: self.target?,
            context: self.context,
            since: self.since?,
            is_verified: self.is_verified,
        })
    }

    /// Begins with launches of which this is common.
    fn begin(&mut self, begun: Begun) {
        self.target = Some(begun.target);
        self.context = begun.context;
        self.since = Some(begun.since);
        self.is_verified = begun.is_verified;
    }

    /// Where a kernel is among those it knows; `None`: there is no room for it. (The
    /// next moment makes some.)
    pub fn place_of(&self, function: &Arc<Function>, reason: UncheckedReason) -> Option<u16> {
        let mut kernels = self.kernels.lock();
        let mut known = kernels.iter();
        let known = known.position(|known| Arc::ptr_eq(&known.function, function));
        let place = match known {
            Some(place) => place,
            None if kernels.len() >= KERNELS => return None,
            None => {
                kernels.push(Known {
                    function: function.clone(),
                    reason,
                    launches: 0,
                });
                kernels.len() - 1
            }
        };
        u16::try_from(place).ok()
    }

    /// It was full at this time, which began at that: says how many launches the next
    /// may hold.
    pub(super) fn was_full(&mut self, since: Instant, now: Instant) {
        let each = now.saturating_duration_since(since) / self.most;
        let fit = AGE.as_nanos() / each.as_nanos().max(1);
        self.most = u32::try_from(fit)
            .unwrap_or(MOST as u32)
            .clamp(1, MOST as u32);
    }
}
