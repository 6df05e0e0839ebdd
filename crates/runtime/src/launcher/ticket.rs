//! A launch, from the program's call to the device's answer.
//!
//! [`Runtime::begin_launch`](crate::Runtime::begin_launch) decides what is
//! launched, and counts it. The [`Ticket`] that it returns is consumed by what
//! became of the launch: [`Ticket::submitted`] or [`Ticket::refused`]. If the
//! device refuses a checked copy, [`Ticket::fall_back`] makes it a launch of the
//! program's own kernel.

use super::Launcher;
use crate::functions::{self, Build, Counted};
use crate::kernel::Kernel;
use crate::moment::Moment;
use crate::request::{Accounted, LaunchDecision, LaunchRequest, Submitted, Unchecked};
use crate::streams::Where;
use model::{Ran, UncheckedReason};

/// A launch that the device has not answered yet.
#[must_use = "the launch is submitted or refused"]
pub struct Ticket<'a> {
    launcher: &'a Launcher,
    request: LaunchRequest<'a>,
    decision: LaunchDecision,
    accounted: Accounted,
    /// When it was decided.
    moment: Moment,
    /// The device refused the checked copy for this reason; whether what the
    /// program's kernel does is verified.
    fell_back: Option<(UncheckedReason, bool)>,
}

impl Launcher {
    /// As [`Runtime::begin_launch`](crate::Runtime::begin_launch).
    pub(crate) fn begin<'a>(&'a self, request: LaunchRequest<'a>) -> Ticket<'a> {
        let moment = Moment::now();
        let mut decision = LaunchDecision::Original;
        let accounted = self.decide(&request, &mut decision);
        // Only a checked launch has more than a tag, whose copying takes as long
        // as all else here: each arm makes the ticket where it goes.
        match decision {
            LaunchDecision::Original => Ticket {
                launcher: self,
                request,
                decision: LaunchDecision::Original,
                accounted,
                moment,
                fell_back: None,
            },
            LaunchDecision::Proved => Ticket {
                launcher: self,
                request,
                decision: LaunchDecision::Proved,
                accounted,
                moment,
                fell_back: None,
            },
            decision => Ticket {
                launcher: self,
                request,
                decision,
                accounted,
                moment,
                fell_back: None,
            },
        }
    }
}

impl Ticket<'_> {
    /// What to launch.
    pub fn decision(&self) -> &LaunchDecision {
        &self.decision
    }

    /// What of the program runs then.
    pub fn ran(&self) -> Ran {
        match self.decision {
            _ if !self.launcher.checks() => Ran::Native,
            LaunchDecision::Original => Ran::Unchecked,
            LaunchDecision::Proved => Ran::Proved,
            LaunchDecision::Checked {
                build: Build::Residual,
                ..
            } => Ran::Residual,
            LaunchDecision::InPlace | LaunchDecision::Checked { .. } => Ran::Checked,
        }
    }

    /// Another launch of the calling thread like this one may be made without a
    /// decision: one that was proved in bounds, if it is the same
    /// ([`Launcher::repeats`]), and any of a kernel that is never checked, if
    /// `may_list`: no stream is captured ([`undecided`](crate::undecided)). To be called only
    /// where nothing but this launcher follows launches.
    pub fn keep(&self, may_list: bool) {
        match (&self.decision, self.accounted) {
            (
                LaunchDecision::Proved,
                Accounted {
                    counted: Counted::Proved,
                    unchecked: Unchecked::Nothing,
                },
            ) => self.launcher.keep(&self.request),
            (LaunchDecision::Original, Accounted { counted, .. })
                if may_list && self.fell_back.is_none() =>
            {
                self.launcher.learn(&self.request, counted, self.moment);
            }
            _ => {}
        }
    }

    /// The device refused the checked copy; the program's kernel is launched
    /// instead, which is not checked.
    pub fn fall_back(&mut self, reason: UncheckedReason) {
        let is_verified = self.launcher.protections.before_unchecked();
        self.decision = LaunchDecision::Original;
        self.fell_back = Some((reason, is_verified));
    }

    /// The device took the launch. `place` is where it went.
    pub fn submitted(mut self, place: Where) {
        let (launcher, function) = (self.launcher, self.request.function);
        if let Some((reason, is_verified)) = self.fell_back {
            self.accounted =
                launcher.fell_back(function, self.accounted.counted, (reason, is_verified));
        }
        let Accounted { counted, unchecked } = self.accounted;
        let ordinal = self.decision.ordinal();
        launcher.made(function, counted, ordinal, place);
        if launcher.protections.follow(unchecked) {
            let kernel = self.request.kernel.as_ref();
            launcher.protections.submitted(&Submitted {
                function: kernel.map(|Kernel(function)| function),
                ordinal,
                place,
                unchecked,
                read: &|offset, size| self.request.read(offset, size),
            });
        }
        if let Some(Kernel(function)) = self.request.kernel {
            functions::put_back(function);
        }
    }

    /// The device refused the launch: nothing ran, so nothing was checked.
    pub fn refused(self) {
        self.launcher
            .refused(self.request.function, self.accounted.counted);
    }
}
