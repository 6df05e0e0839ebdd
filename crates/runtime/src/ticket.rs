//! A launch, from the program's call to the device's answer.
//!
//! [`Runtime::begin_launch`] decides what is launched, and counts it. The
//! [`Ticket`] that it returns is consumed by what became of the launch:
//! [`Ticket::submitted`] or [`Ticket::refused`]. If the device refuses a checked
//! copy, [`Ticket::fall_back`] makes it a launch of the program's own kernel.

use crate::canaries::{LaunchTrace, Where};
use crate::functions::Counted;
use crate::kernel::Kernel;
use crate::launches::LaunchDecision;
use crate::runtime::Runtime;
use crate::streams::StreamUse;
use instrument::{EntryPlan, LaunchShape};
use model::{Ran, UncheckedReason};

/// What the program asks to be launched.
pub struct LaunchRequest<'a> {
    /// Handle of the program's kernel.
    pub function: u64,
    /// The kernel ([`Modules::kernel`](crate::Modules::kernel)); `None` if the handle is not known.
    pub kernel: Option<Kernel>,
    /// Its grid and block.
    pub shape: &'a LaunchShape,
    /// The stream; needed only while [`Runtime::tracks_streams`].
    pub stream: Option<StreamUse>,
    /// Reads so many bytes, up to eight, at an offset of the parameter block,
    /// which is laid out so; `None` if they are not there.
    pub read: &'a dyn Fn(&EntryPlan, u32, u8) -> Option<u64>,
}

impl LaunchRequest<'_> {
    /// So many bytes, up to eight, at an offset of the parameter block. `None`
    /// if they are not there, or the layout is not known.
    pub(crate) fn read(&self, offset: u32, size: u8) -> Option<u64> {
        let entry = self.kernel.as_ref()?.entry()?;
        (self.read)(entry, offset, size)
    }
}

/// A launch that the device has not answered yet.
#[must_use = "the launch is submitted or refused"]
pub struct Ticket<'a> {
    runtime: &'a Runtime,
    request: LaunchRequest<'a>,
    decision: LaunchDecision,
    trace: Option<LaunchTrace>,
    counted: Counted,
    /// The device refused the checked copy for this reason.
    fell_back: Option<UncheckedReason>,
}

impl Runtime {
    /// Decides what is launched for the program. Call it for every launch, and
    /// launch what [`Ticket::decision`] says.
    pub fn begin_launch<'a>(&'a self, request: LaunchRequest<'a>) -> Ticket<'a> {
        let (decision, trace, counted) = self.plan_launch(&request);
        Ticket {
            runtime: self,
            request,
            decision,
            trace,
            counted,
            fell_back: None,
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
            _ if !self.runtime.settings.check => Ran::Native,
            LaunchDecision::Original => Ran::Unchecked,
            LaunchDecision::Proved => Ran::Proved,
            LaunchDecision::InPlace | LaunchDecision::Checked { .. } => Ran::Checked,
        }
    }

    /// The device refused the checked copy; the program's kernel is launched
    /// instead, which is not checked.
    pub fn fall_back(&mut self, reason: UncheckedReason) {
        self.runtime.before_unchecked();
        self.decision = LaunchDecision::Original;
        self.fell_back = Some(reason);
    }

    /// The device took the launch. `place` is where it went.
    pub fn submitted(mut self, place: Where) {
        if let Some(reason) = self.fell_back {
            (self.trace, self.counted) = self.runtime.count_fallback(self.request.function, reason);
        }
        let (runtime, function) = (self.runtime, self.request.function);
        let ordinal = self.decision.ordinal();
        match place {
            Where::Stream { name, .. } => {
                runtime.launch_made(function, self.counted, name, ordinal);
            }
            Where::Graph => runtime.graph_kernel(function),
            Where::Unknown => {}
        }
        if let Some(trace) = self.trace {
            let read = |offset, size| self.request.read(offset, size);
            runtime.launched(trace, ordinal, place, &read);
        }
    }

    /// The device refused the launch: nothing ran, so nothing was checked.
    pub fn refused(self) {
        self.runtime
            .launch_refused(self.request.function, self.counted);
    }
}
