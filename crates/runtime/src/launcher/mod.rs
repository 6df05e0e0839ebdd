//! Launches: what is launched for the program, and what protections add.

mod listed;
mod repeats;
mod ticket;

pub use repeats::{Argument, Repeat};
pub use ticket::Ticket;

use crate::checked_copies::Copies;
use crate::env::Env;
use crate::functions::{Counted, Function};
use crate::kernel::Kernel;
use crate::launches::Launches;
use crate::lookups::Lookups;
use crate::memory::Memory;
use crate::modules::Modules;
use crate::protection::Protections;
use crate::records::Records;
use crate::request::{Accounted, LaunchDecision, LaunchRequest, Submitted, Unchecked};
use crate::streams::{self, StreamName, StreamUse, Streams, Where};
use crate::window::LaunchWindow;
use model::UncheckedReason;
use model::layout::shadow::LAUNCH_WINDOW;
use std::sync::Arc;

/// The services that launches use.
pub(crate) struct Below {
    pub env: Arc<Env>,
    pub memory: Arc<Memory>,
    pub modules: Arc<Modules>,
    pub launches: Arc<Launches>,
    pub streams: Arc<Streams>,
    pub lookups: Arc<Lookups>,
    pub records: Arc<Records>,
    pub copies: Arc<Copies>,
    pub protections: Arc<Protections>,
}

/// See the module's header.
pub struct Launcher {
    /// No other launcher of the process has it.
    number: u64,
    /// Launches that repeat a proved one need not be decided about: no protection
    /// follows them, and they are not counted to find those that are to be checked.
    repeats: bool,
    /// The same of kernels that are never checked, whose launches may be listed.
    lists: bool,
    memory: Arc<Memory>,
    env: Arc<Env>,
    modules: Arc<Modules>,
    launches: Arc<Launches>,
    streams: Arc<Streams>,
    lookups: Arc<Lookups>,
    records: Arc<Records>,
    copies: Arc<Copies>,
    protections: Arc<Protections>,
    window: LaunchWindow,
}

impl Launcher {
    pub(crate) fn new(below: Below) -> Launcher {
        let settings = below.env.settings();
        let window = LaunchWindow::new(settings.launch_skip, settings.launch_count);
        let repeats = window.is_open() && !below.protections.follow(Unchecked::Nothing);
        Launcher {
            number: repeats::number(),
            repeats,
            lists: repeats && below.protections.may_settle_later(),
            memory: below.memory,
            window,
            env: below.env.clone(),
            modules: below.modules,
            launches: below.launches,
            streams: below.streams,
            lookups: below.lookups,
            records: below.records,
            copies: below.copies,
            protections: below.protections,
        }
    }

    /// Whether anything is checked at all.
    fn checks(&self) -> bool {
        self.env.settings().check
    }

    /// Decides what is launched, if not the program's kernel as it is, and counts
    /// it.
    #[inline]
    fn decide(&self, request: &LaunchRequest<'_>, decision: &mut LaunchDecision) -> Accounted {
        let function = request.kernel.as_ref().map(|Kernel(function)| function);
        let mut accounted = match function {
            None => self.unknown(),
            Some(function) => match self.protections.decide(function, request, decision) {
                Some(accounted) => accounted,
                None => {
                    self.protections.extend(function, request, decision);
                    self.as_it_is(function)
                }
            },
        };
        if accounted.unchecked != Unchecked::Nothing {
            let is_verified = self.protections.before_unchecked();
            count_verified(is_verified, function, &mut accounted);
        }
        accounted
    }

    /// A kernel of which nothing is known.
    fn unknown(&self) -> Accounted {
        self.modules.count_unknown(UncheckedReason::LaunchPath);
        self.streams.ordered(streams::Ordering::Everything);
        Accounted::unchecked(UncheckedReason::LaunchPath)
    }

    /// A kernel that no protection decides about: what is found afterwards is
    /// what there is.
    fn as_it_is(&self, function: &Function) -> Accounted {
        if !self.checks() || function.excluded || !self.window.admits() {
            function.counts.unchecked(UncheckedReason::Excluded);
            return Accounted {
                counted: Counted::Unchecked(UncheckedReason::Excluded),
                unchecked: Unchecked::Ignored,
            };
        }
        function.counts.checked();
        Accounted {
            counted: Counted::Checked,
            unchecked: Unchecked::ByArguments,
        }
    }

    /// Something is about to run, or has been handed out, that may write
    /// anywhere.
    pub fn before_unchecked(&self) {
        self.protections.before_unchecked();
    }

    /// The device refused a checked copy for this reason, and the program's
    /// kernel was launched instead: counts it so, and no longer as it was.
    fn fell_back(
        &self,
        function: u64,
        counted: Counted,
        (reason, is_verified): (UncheckedReason, bool),
    ) -> Accounted {
        let mut accounted = Accounted::unchecked(reason);
        if let Some(Kernel(function)) = self.modules.kernel(function) {
            function.counts.take_back(counted);
            function.counts.unchecked(reason);
            count_verified(is_verified, Some(&function), &mut accounted);
        } else {
            accounted.unchecked = Unchecked::Ignored;
        }
        accounted
    }

    /// The device took a launch of a kernel, by the program's handle.
    #[inline]
    fn made(&self, function: u64, counted: Counted, ordinal: u64, place: Where) {
        match place {
            Where::Stream { name, .. } => {
                self.launches.made(function, counted, name, ordinal);
            }
            Where::Graph => self.launches.graph_kernel(function),
            Where::Unknown => {}
        }
    }

    /// The device refused a launch: nothing ran, so nothing was checked.
    fn refused(&self, function: u64, counted: Counted) {
        if let Some(Kernel(known)) = self.modules.kernel(function) {
            match counted {
                Counted::Checked | Counted::Residual | Counted::Proved => {
                    known.counts.take_back(counted)
                }
                // That it could not have been checked stays to be said.
                Counted::Unchecked(_) => {}
                Counted::Verified(reason) => {
                    known.counts.take_back(counted);
                    known.counts.unchecked(reason);
                }
            }
        }
        self.protections.each(|one| one.refused(function));
    }

    /// A kernel was launched by a call that no [`Ticket`] is for.
    pub fn unhooked(&self, function: u64, reason: UncheckedReason) {
        let is_verified = self.protections.before_unchecked();
        let kernel = self.modules.kernel(function);
        let function = kernel.as_ref().map(|Kernel(function)| function);
        let mut accounted = Accounted::unchecked(reason);
        match function {
            Some(function) => function.counts.unchecked(reason),
            None => self.modules.count_unknown(reason),
        }
        count_verified(is_verified, function, &mut accounted);
        self.protections.submitted(&Submitted {
            function,
            ordinal: 0,
            place: Where::Unknown,
            unchecked: accounted.unchecked,
            read: &|_, _| None,
        });
        // The kernel itself is the program's own; functions that are checked in
        // place are so all the same, and allocations go to our heap.
        // Failure to get ready is said there.
        let plan = function.and_then(|function| function.plan.as_ref());
        if let Some(plan) = plan.filter(|plan| plan.changes_originals()) {
            let _ = self.copies.make_ready(plan, None);
            self.records.expect();
        }
    }

    /// The program is about to launch a graph, into this stream if that is known, and
    /// not captured.
    pub fn graph_launching(&self, stream: Option<StreamUse>) {
        self.protections.before_unchecked();
        self.protections.each(|one| one.graph_launching());
        self.lookups.graph_launching(stream);
    }

    /// What launches of checked kernels are told of shadow memory, where they are told
    /// something. A kernel of a graph that was told something else is planned anew.
    pub fn shadow_window(&self) -> [u8; LAUNCH_WINDOW as usize] {
        self.copies.shadow_window()
    }

    /// The program has launched a graph into this stream, which is not captured.
    pub fn graph_made(&self, stream: StreamName) {
        self.launches.graph_made(stream);
    }

    /// The program has launched a graph, or put it into another.
    pub fn graph_launched(&self, place: Where) {
        self.protections.each(|one| one.graph_submitted(place));
    }
}

/// Counts a launch as verified, if it is, and was counted as unchecked.
#[inline]
fn count_verified(is_verified: bool, function: Option<&Arc<Function>>, accounted: &mut Accounted) {
    if !is_verified {
        accounted.unchecked = Unchecked::Ignored;
    } else if accounted.unchecked.is_verified()
        && let (Some(function), Counted::Unchecked(reason)) = (function, accounted.counted)
    {
        function.counts.verified();
        accounted.counted = Counted::Verified(reason);
    }
}
