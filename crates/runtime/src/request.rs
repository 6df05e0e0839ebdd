//! What the program asks to be launched, and what is decided about it.

use crate::functions::{Build, Counted, Function};
use crate::kernel::Kernel;
use crate::streams::{StreamUse, Where};
use instrument::{EntryPlan, LaunchShape};
use model::UncheckedReason;
use smallvec::SmallVec;
use std::sync::Arc;

/// What the program asks to be launched.
pub struct LaunchRequest<'a> {
    /// Handle of the program's kernel.
    pub function: u64,
    /// The kernel ([`Modules::kernel_to_launch`](crate::Modules::kernel_to_launch));
    /// `None` if the handle is not known.
    pub kernel: Option<Kernel>,
    /// Its grid and block.
    pub shape: &'a LaunchShape,
    /// The stream; needed only while [`Streams::are_tracked`](crate::Streams::are_tracked).
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

/// Bytes of the launch parameter: a `LaunchHeader`, `LaunchBounds` each, and limits.
/// Five pointers with one limit each fit without an allocation.
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
    /// An instrumented copy.
    Checked {
        /// Which.
        build: Build,
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

/// What of a launch is not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unchecked {
    /// Nothing: each access is checked or was proved.
    Nothing,
    /// Something, and nothing looks for what it may have done.
    Ignored,
    /// Its writes, which go to what its arguments say, where it is known that
    /// they go nowhere else.
    ByArguments,
    /// It may write anywhere.
    Anything,
}

impl Unchecked {
    /// Whether it is looked for afterwards what the launch may have done.
    pub fn is_verified(self) -> bool {
        matches!(self, Unchecked::ByArguments | Unchecked::Anything)
    }
}

/// How a launch was counted, and what of it is not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accounted {
    /// How it was counted.
    pub counted: Counted,
    /// What of it is not checked.
    pub unchecked: Unchecked,
}

impl Accounted {
    /// The program's kernel as it is, of which nothing is checked.
    pub fn unchecked(reason: UncheckedReason) -> Accounted {
        Accounted {
            counted: Counted::Unchecked(reason),
            unchecked: Unchecked::Anything,
        }
    }
}

/// A launch that the device took.
pub(crate) struct Submitted<'a> {
    /// The kernel, if it is known.
    pub function: Option<&'a Arc<Function>>,
    /// Its number, or 0 if it has none.
    pub ordinal: u64,
    /// Where it went.
    pub place: Where,
    /// What of it is not checked.
    pub unchecked: Unchecked,
    /// Reads so many bytes, up to eight, at an offset of its parameters.
    pub read: &'a dyn Fn(u32, u8) -> Option<u64>,
}
