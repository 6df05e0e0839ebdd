//! What a protection adds to a run, event by event.
//!
//! The runtime knows no protection by name but where it makes the list of those
//! that are active ([`Protections`]). It calls each of them at every event, but
//! for the most frequent ones: at which of these a protection acts it says
//! beforehand ([`ActsAt`]), so that a launch costs nothing for those that do not.
//!
//! A new protection is a file with an implementation of [`Protection`], and a
//! line where the list is made.

use crate::functions::Function;
use crate::memory::Holding;
use crate::prepare::Wanted;
use crate::request::{Accounted, LaunchDecision, LaunchRequest, Submitted, Unchecked};
use crate::streams::{StreamName, StreamUse, Where};
use heap::{Entry, Held};
use host::Stack;
use model::layout::Record;
use model::{Coverage, DeviceAddress, ElsewhereReason, Extent};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

/// At which events a protection acts, of those that are too frequent to call
/// protections that do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ActsAt {
    /// Launches, before: [`Protection::decide`].
    pub decisions: bool,
    /// Launches that no protection decides, before: [`Protection::extend`].
    pub extensions: bool,
    /// Each launch, after: [`Protection::submitted`].
    pub launches: bool,
    /// What may write where nothing is checked: [`Protection::before_unchecked`]
    /// and, of launches that are verified, [`Protection::submitted`] or
    /// [`Protection::settled`].
    pub unchecked: bool,
    /// New memory, and parts of it: [`Protection::allocated`], [`Protection::part`].
    pub allocations: bool,
    /// Memory that is asked for: [`Protection::place`].
    pub placements: bool,
}

/// Memory that the program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementRequest {
    /// Bytes.
    pub size: u64,
    /// It is allocated in stream order.
    pub in_stream_order: bool,
    /// Why it cannot be placed, if that is known.
    pub obstacle: Option<ElsewhereReason>,
}

/// Where a protection has placed an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The program's first byte.
    pub base: DeviceAddress,
    /// Bytes before it that nothing else uses, and that its canaries or redzones are
    /// to lie in: a multiple of 16. Those of redzones need not be mapped.
    pub before: u64,
    /// The same, after the program's last byte; they end at a multiple of 16.
    pub after: u64,
}

/// What is needed before an allocation is freed for the host and all streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BeforeFree {
    /// Nothing.
    #[default]
    Nothing,
    /// The device is idle.
    Idle,
    /// What protections do when the program waits for the device is done, and
    /// the device is idle. Memory that stays in the quarantine then needs nothing
    /// else until it is given back: [`Leaves::Held`].
    Verified,
}

/// How an allocation leaves the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// The host has waited for all kernels.
    Now,
    /// The same, and its memory is kept until [`Protection::releasing`].
    Held,
    /// In its turn in a stream.
    InStream(StreamUse),
    /// While a stream of the program is captured, which waiting for the device
    /// would end; in its turn in a stream, if one is named.
    InCapture(Option<StreamUse>),
}

/// What a protection adds at each event; nothing, where it does not say. Methods
/// may be called from any thread.
pub(crate) trait Protection: Send + Sync {
    /// What is to be done to modules that are loaded.
    fn wants(&self) -> Wanted {
        Wanted::Look
    }

    /// At which of the most frequent events it acts; asked once.
    fn acts_at(&self) -> ActsAt {
        ActsAt::default()
    }

    /// Makes memory that the program asks for; `None`: the driver does.
    fn place(&self, _request: &PlacementRequest) -> Option<Placement> {
        None
    }

    /// Memory of the program is elsewhere, for this reason, that this would
    /// otherwise have placed.
    fn elsewhere(&self, _reason: ElsewhereReason) {}

    /// Whether this allocation was placed by [`Protection::place`], and not given
    /// back.
    fn has_placed(&self, _entry: &Entry<Stack>) -> bool {
        false
    }

    /// Takes the memory of such an allocation away, after
    /// [`Protection::freed`]. Returns whether it was one; else the driver frees it.
    fn give_back(&self, _entry: &Entry<Stack>, _how: Leaves) -> bool {
        false
    }

    /// The program needs memory: gives back what was freed and is kept still, if
    /// anything is. May wait for kernels.
    fn make_room(&self) -> bool {
        false
    }

    /// Decides how a kernel is launched, and counts it. The first protection that
    /// does is the last one that is asked. `decision`, which is large, is the
    /// program's kernel as it is.
    fn decide(
        &self,
        _function: &Arc<Function>,
        _request: &LaunchRequest<'_>,
        _decision: &mut LaunchDecision,
    ) -> Option<Accounted> {
        None
    }

    /// Adds to a launch that no protection has decided.
    fn extend(
        &self,
        _function: &Arc<Function>,
        _request: &LaunchRequest<'_>,
        _decision: &mut LaunchDecision,
    ) {
    }

    /// Something is about to run, or has been handed out, that may write
    /// anywhere. Whether, at this time, it is verified afterwards what a launch
    /// did: it is counted so then. Not called for each launch of a kernel that is
    /// never checked: when the answer changes, or there is something to do, a
    /// protection says [`moment_over`](crate::moment::moment_over).
    fn before_unchecked(&self) -> bool {
        false
    }

    /// The device took a launch.
    fn submitted(&self, _launch: &Submitted<'_>) {}

    /// Whether launches that may have written anywhere may be settled some time after
    /// they were made ([`Protection::settled`]); asked once.
    fn may_settle_later(&self) -> bool {
        true
    }

    /// Launches that may have written anywhere were settled together; the last one is in
    /// this stream.
    fn settled(&self, _stream: StreamName, _now: Instant) {}

    /// The device refused the launch of a kernel, by the program's handle.
    fn refused(&self, _function: u64) {}

    /// A graph is about to be launched.
    fn graph_launching(&self) {}

    /// A graph was launched.
    fn graph_submitted(&self, _place: Where) {}

    /// The program has new memory, or memory that has another extent now.
    fn allocated(&self, _extent: Extent) {}

    /// The program declares bytes of an allocation as not to be accessed, or takes
    /// that back. Asked of those that act at allocations.
    fn part(&self, _extent: Extent, _is_addressable: bool) {}

    /// What it needs before an allocation is freed other than in stream order.
    /// `holding`: how its memory can be kept, if it can.
    fn before_free(&self, _entry: &Entry<Stack>, _holding: Option<&Holding>) -> BeforeFree {
        BeforeFree::Nothing
    }

    /// An allocation is not the program's any more.
    fn freed(&self, _entry: &Entry<Stack>, _how: Leaves) {}

    /// The driver did not free it after all.
    fn not_freed(&self, _entry: &Entry<Stack>) {}

    /// Memory that was kept is about to be given back.
    fn releasing(&self, _held: &[Held<Holding>]) {}

    /// Whether, at this time, it does something before the host waits.
    fn acts_before_waits(&self) -> bool {
        false
    }

    /// The host is about to wait: for a stream, or (`None`) for everything in
    /// the current context.
    fn before_wait(&self, _stream: Option<StreamName>) {}

    /// The host has waited.
    fn waited(&self, _stream: Option<StreamName>) {}

    /// The program has waited for its kernels; their records are read next.
    fn synchronized(&self) {}

    /// A stream is about to be destroyed.
    fn stream_ending(&self, _stream: StreamName) {}

    /// A context is gone, and with it these allocations.
    fn context_gone(&self, _context: u64, _theirs: &[Entry<Stack>]) {}

    /// A context was destroyed or reset. What Ringfence keeps on the device may
    /// be gone with it.
    fn context_destroyed(&self) {}

    /// The device has left a record. Whether it was this protection's: else the
    /// next one is asked.
    fn record(&self, _record: &Record) -> bool {
        false
    }

    /// The program's exit handlers are about to run.
    fn exit_begins(&self) {}

    /// The process is about to end.
    fn finish(&self) {}

    /// Adds what it has to say to what was checked.
    fn add_to(&self, _coverage: &mut Coverage) {}
}

/// The protections that are active.
pub(crate) struct Protections {
    all: Box<[Arc<dyn Protection>]>,
    placing: Box<[Arc<dyn Protection>]>,
    deciding: Box<[Arc<dyn Protection>]>,
    extending: Box<[Arc<dyn Protection>]>,
    following: Box<[Arc<dyn Protection>]>,
    before_unchecked: Box<[Arc<dyn Protection>]>,
    /// Those of them that do not follow each launch.
    after_unchecked: Box<[Arc<dyn Protection>]>,
    /// Whether one of them acts at new memory.
    hears_of_memory: bool,
}

impl Protections {
    /// They are asked in this order.
    pub fn new(all: Vec<Arc<dyn Protection>>) -> Protections {
        let those = |act: fn(ActsAt) -> bool| {
            let chosen = all.iter().filter(|one| act(one.acts_at()));
            chosen.cloned().collect()
        };
        Protections {
            placing: those(|at| at.placements),
            deciding: those(|at| at.decisions),
            extending: those(|at| at.extensions),
            following: those(|at| at.launches),
            before_unchecked: those(|at| at.unchecked),
            after_unchecked: those(|at| at.unchecked && !at.launches),
            hears_of_memory: all.iter().any(|one| one.acts_at().allocations),
            all: all.into(),
        }
    }

    /// Calls each of them.
    pub fn each(&self, mut act: impl FnMut(&dyn Protection)) {
        self.all.iter().for_each(|one| act(&**one));
    }

    /// Whether this is true of one of them.
    pub fn any(&self, is_true: impl Fn(&dyn Protection) -> bool) -> bool {
        self.all.iter().any(|one| is_true(&**one))
    }

    /// What is to be done to modules: the most that one of them asks for.
    pub fn wanted(&self) -> Wanted {
        let wants = self.all.iter().map(|one| one.wants());
        wants.fold(Wanted::Look, Wanted::or)
    }

    /// [`Protection::place`], by the first one that does.
    pub fn place(&self, request: &PlacementRequest) -> Option<Placement> {
        self.placing.iter().find_map(|one| one.place(request))
    }

    /// Whether some protection places memory.
    pub fn place_any(&self) -> bool {
        !self.placing.is_empty()
    }

    /// [`Protection::elsewhere`].
    pub fn elsewhere(&self, reason: ElsewhereReason) {
        self.placing.iter().for_each(|one| one.elsewhere(reason));
    }

    /// [`Protection::has_placed`].
    pub fn have_placed(&self, entry: &Entry<Stack>) -> bool {
        self.placing.iter().any(|one| one.has_placed(entry))
    }

    /// [`Protection::give_back`].
    pub fn give_back(&self, entry: &Entry<Stack>, how: Leaves) -> bool {
        self.placing.iter().any(|one| one.give_back(entry, how))
    }

    /// [`Protection::make_room`], by all.
    pub fn make_room(&self) -> bool {
        let made = self.placing.iter().map(|one| one.make_room());
        made.fold(false, |any, one| any | one)
    }

    /// [`Protection::decide`].
    #[inline]
    pub fn decide(
        &self,
        function: &Arc<Function>,
        request: &LaunchRequest<'_>,
        decision: &mut LaunchDecision,
    ) -> Option<Accounted> {
        let mut deciding = self.deciding.iter();
        deciding.find_map(|one| one.decide(function, request, decision))
    }

    /// [`Protection::extend`].
    #[inline]
    pub fn extend(
        &self,
        function: &Arc<Function>,
        request: &LaunchRequest<'_>,
        decision: &mut LaunchDecision,
    ) {
        for one in &self.extending {
            one.extend(function, request, decision);
        }
    }

    /// [`Protection::before_unchecked`].
    #[inline]
    pub fn before_unchecked(&self) -> bool {
        let mut is_verified = false;
        for one in &self.before_unchecked {
            is_verified |= one.before_unchecked();
        }
        is_verified
    }

    /// Whether some protection follows a launch of which this is not checked.
    #[inline]
    pub fn follow(&self, unchecked: Unchecked) -> bool {
        unchecked.is_verified() || !self.following.is_empty()
    }

    /// [`Protection::submitted`].
    pub fn submitted(&self, launch: &Submitted<'_>) {
        for one in &self.following {
            one.submitted(launch);
        }
        if launch.unchecked.is_verified() {
            for one in &self.after_unchecked {
                one.submitted(launch);
            }
        }
    }

    /// [`Protection::may_settle_later`], of all.
    pub fn may_settle_later(&self) -> bool {
        let mut all = self.all.iter();
        all.all(|one| one.may_settle_later())
    }

    /// [`Protection::settled`].
    pub fn settled(&self, stream: StreamName, now: Instant) {
        for one in &self.after_unchecked {
            one.settled(stream, now);
        }
    }

    /// What is needed before an allocation is freed.
    pub fn before_free(&self, entry: &Entry<Stack>, holding: Option<&Holding>) -> BeforeFree {
        let needs = self.all.iter().map(|one| one.before_free(entry, holding));
        needs.max().unwrap_or_default()
    }
}

/// From the allocations, which protections use, to the protections that act at
/// new memory, once the runtime has connected them. It does not keep them alive.
#[derive(Default)]
pub(crate) struct Listeners(OnceLock<Weak<Protections>>);

impl Listeners {
    /// Says which protections there are, once.
    pub fn connect(&self, protections: &Arc<Protections>) {
        if protections.hears_of_memory {
            self.0.get_or_init(|| Arc::downgrade(protections));
        }
    }

    /// [`Protection::allocated`].
    #[inline]
    pub fn allocated(&self, extent: Extent) {
        self.each(|one| one.allocated(extent));
    }

    /// [`Protection::part`].
    pub fn part(&self, extent: Extent, is_addressable: bool) {
        self.each(|one| one.part(extent, is_addressable));
    }

    #[inline]
    fn each(&self, act: impl FnMut(&Arc<dyn Protection>)) {
        if let Some(protections) = self.0.get().and_then(Weak::upgrade) {
            let all = protections.all.iter();
            all.filter(|one| one.acts_at().allocations).for_each(act);
        }
    }
}
