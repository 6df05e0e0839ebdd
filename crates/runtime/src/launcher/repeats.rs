//! Launches that repeat one of the same thread.
//!
//! Programs launch most kernels in loops. A launch that was proved in bounds, of
//! the same kernel in the same shape with the same pointers, needs no decision:
//! the program's kernel runs. Between two launches the driver displaces what
//! lay in the first caches (measured on an H100: the way through all services took
//! 230 ns there, and 60 where nothing displaces it), so what decides lies together
//! here, and is compared before anything else is looked at.
//!
//! What is kept of a launch is valid for one generation of the allocations,
//! which changes with everything that can change a proof, and while the kernel is
//! loaded.

use super::Launcher;
use crate::functions::{Counted, Function};
use crate::request::LaunchRequest;
use crate::seen::shape_words;
use crate::spread;
use crate::streams::Where;
use instrument::{EntryPlan, LaunchShape};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Places of a thread for kernels; more than [`WAYS`] that share one displace each
/// other. (A step of training in PyTorch launches some fifty.)
const PLACES: usize = 256;
/// Launches kept in a place: programs swap two buffers.
const WAYS: usize = 2;

/// Where a launch passes a value that decides about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Which of the kernel's parameters.
    pub parameter: u16,
    /// From which byte of it.
    pub within: u16,
    /// How many bytes, one to eight.
    pub bytes: u8,
}

/// A value that decides, and between which values nothing changes.
#[derive(Clone, Copy, Debug)]
struct Decides {
    argument: Argument,
    least: u64,
    most: u64,
}

/// A launch that was proved, and needs no decision when it comes again.
#[derive(Debug)]
struct Kept {
    /// Of which launcher.
    owner: u64,
    function: Arc<Function>,
    shape: [u64; 4],
    /// The generation of the allocations.
    generation: u64,
    values: SmallVec<[Decides; 6]>,
}

impl Kept {
    fn covers(
        &self,
        launcher: &Launcher,
        shape: &LaunchShape,
        read: &impl Fn(Argument) -> Option<u64>,
    ) -> bool {
        self.owner == launcher.number
            && !self.function.counts.are_closed()
            && self.shape == shape_words(shape)
            && self.generation == launcher.memory.generation()
            && self.values.iter().all(|value| {
                let word = read(value.argument);
                word.is_some_and(|word| value.least <= word && word <= value.most)
            })
    }
}

/// The ways of a place, of which kernels they are, and which of them is displaced
/// next.
#[derive(Default)]
struct Place {
    handles: [u64; WAYS],
    ways: [Option<Box<Kept>>; WAYS],
    turn: u8,
}

thread_local! {
    static KEPT: RefCell<[Place; PLACES]> = const {
        RefCell::new([const { Place { handles: [0; WAYS], ways: [const { None }; WAYS], turn: 0 } }; PLACES])
    };
}

/// Where a thread keeps launches of a kernel.
fn place(handle: u64) -> usize {
    spread::place(handle, PLACES)
}

/// The number of the next launcher.
static LAUNCHERS: AtomicU64 = AtomicU64::new(1);

/// A number that no other launcher of the process has.
pub(super) fn number() -> u64 {
    LAUNCHERS.fetch_add(1, Ordering::Relaxed)
}

/// A launch of the program's kernel as it is, which repeats one that needed no
/// checks.
#[must_use = "the launch is submitted or refused"]
pub struct Repeat<'a> {
    launcher: &'a Launcher,
    kept: Box<Kept>,
    handle: u64,
    way: usize,
}

impl Launcher {
    /// Whether a launch repeats one of the calling thread that was kept
    /// ([`Ticket::keep`](super::Ticket::keep)): then it is made as it is. `read`
    /// reads an argument; `None` if it cannot.
    #[inline]
    pub fn repeats(
        &self,
        handle: u64,
        shape: &LaunchShape,
        read: impl Fn(Argument) -> Option<u64>,
    ) -> Option<Repeat<'_>> {
        let found = KEPT.try_with(|kept| {
            let mut kept = kept.try_borrow_mut().ok()?;
            let place = &mut kept[place(handle)];
            for (way, one) in place.ways.iter_mut().enumerate() {
                let is_it = place.handles[way] == handle
                    && one
                        .as_ref()
                        .is_some_and(|kept| kept.covers(self, shape, &read));
                if is_it {
                    return Some((one.take()?, way));
                }
            }
            None
        });
        // (None in a thread that ends.)
        let (kept, way) = found.ok().flatten()?;
        Some(Repeat {
            launcher: self,
            kept,
            handle,
            way,
        })
    }

    /// Keeps a launch that was proved, if it was so for what is known of it.
    pub(super) fn keep(&self, request: &LaunchRequest<'_>) {
        if let Some(kept) = self.kept(request) {
            put(request.function, kept);
        }
    }

    fn kept(&self, request: &LaunchRequest<'_>) -> Option<Kept> {
        if !self.repeats || self.streams.are_tracked() {
            return None;
        }
        let function = &request.kernel.as_ref()?.0;
        let entry = function.entry.as_deref()?;
        let generation = self.memory.generation();
        let mut values = SmallVec::new();
        function.seen.covering(
            generation,
            request.shape,
            |offset, bytes| (request.read)(entry, offset, bytes),
            |(offset, bytes), (least, most)| {
                let argument = argument(entry, offset, bytes)?;
                values.push(Decides {
                    argument,
                    least,
                    most,
                });
                Some(())
            },
        )?;
        Some(Kept {
            owner: self.number,
            function: function.clone(),
            shape: shape_words(request.shape),
            generation,
            values,
        })
    }
}

/// Keeps a launch of the calling thread, in place of an older one.
fn put(handle: u64, kept: Kept) {
    let old = KEPT.try_with(|all| {
        let mut all = all.try_borrow_mut().ok()?;
        let place = &mut all[place(handle)];
        let free = place.ways.iter().position(Option::is_none);
        let way = free.unwrap_or(usize::from(place.turn) % WAYS);
        place.turn = way as u8 + 1;
        place.handles[way] = handle;
        place.ways[way].replace(Box::new(kept))
    });
    // Dropped when the places can be used again.
    drop(old);
}

/// Where a value at an offset of the parameters is passed.
fn argument(entry: &EntryPlan, offset: u32, bytes: u8) -> Option<Argument> {
    let holds = |slot: &instrument::ParameterSlot| {
        slot.offset <= offset && offset + u32::from(bytes) <= slot.offset + slot.size
    };
    let index = entry.parameters.iter().position(holds)?;
    let within = offset - entry.parameters[index].offset;
    Some(Argument {
        parameter: index.try_into().ok()?,
        within: within.try_into().ok()?,
        bytes: (1..=8).contains(&bytes).then_some(bytes)?,
    })
}

impl Repeat<'_> {
    /// The device took the launch. `place` is where it went.
    #[inline]
    pub fn submitted(self, place: Where) {
        self.kept.function.counts.count(Counted::Proved);
        self.launcher.made(self.handle, Counted::Proved, 0, place);
        self.put_back();
    }

    /// The device refused the launch: nothing ran, so nothing was checked.
    pub fn refused(self) {
        self.kept.function.counts.count(Counted::Proved);
        self.launcher.refused(self.handle, Counted::Proved);
        self.put_back();
    }

    #[inline]
    fn put_back(self) {
        let Repeat {
            kept, way, handle, ..
        } = self;
        // What took its place meanwhile is as good.
        let _old = KEPT.try_with(|all| {
            let Ok(mut all) = all.try_borrow_mut() else {
                return Some(kept);
            };
            let place = &mut all[place(handle)];
            place.handles[way] = handle;
            place.ways[way].replace(kept)
        });
    }
}
