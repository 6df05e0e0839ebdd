//! Instrumented copies of kernels: what they need on the device, and how they
//! are launched.

use crate::allocations::is_user_address;
use crate::deep_stacks::DeepStacks;
use crate::env::Env;
use crate::functions::{Build, Function, Proved};
use crate::launches::{Launch, Launches};
use crate::lookups::Lookups;
use crate::metadata::Metadata;
use crate::plan::ModulePlan;
use crate::records::Records;
use crate::request::{LaunchDecision, LaunchParameter};
use crate::roots::{Root, Roots};
use crate::streams::StreamUse;
use instrument::{EntryPlan, LaunchIndex, LaunchShape};
use model::UncheckedReason;
use model::layout::shadow::LAUNCH_WINDOW;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The services that copies use.
pub(crate) struct Below {
    pub env: Arc<Env>,
    pub metadata: Arc<Metadata>,
    pub lookups: Arc<Lookups>,
    pub deep_stacks: Arc<DeepStacks>,
    pub launches: Arc<Launches>,
    pub records: Arc<Records>,
}

/// See the module's header.
pub(crate) struct Copies {
    below: Below,
}

impl Copies {
    pub fn new(below: Below) -> Copies {
        Copies { below }
    }

    /// Where shadow memory is, as the launch parameter says it.
    pub fn shadow_window(&self) -> [u8; LAUNCH_WINDOW as usize] {
        self.below.metadata.shadow_window()
    }

    /// Whether a copy of a kernel can be launched with blocks of this shape.
    pub fn fits(function: &Function, build: Build, shape: &LaunchShape) -> bool {
        let limit = function.most_threads[build as usize].load(Ordering::Relaxed);
        let sides = shape.block.iter();
        let threads = sides.fold(1u32, |threads, side| threads.saturating_mul(*side));
        limit == 0 || threads <= limit
    }

    /// Launches a copy of a kernel, as a launch of its own number.
    pub fn launch(
        &self,
        function: &Arc<Function>,
        shape: &LaunchShape,
        (build, copy): (Build, u64),
        roots: Roots,
        proved: Proved,
    ) -> Result<LaunchDecision, UncheckedReason> {
        let entry = function
            .entry
            .as_ref()
            .ok_or(UncheckedReason::NotInstrumentable)?;
        if !Copies::fits(function, build, shape) {
            return Err(UncheckedReason::Registers);
        }
        let id = self.below.launches.next();
        let launch_parameter = match entry.launch_parameter {
            Some(_) => {
                let window = entry.takes_window.then(|| self.shadow_window());
                launch_parameter(id, &roots, entry, window.as_ref())
            }
            None => LaunchParameter::new(),
        };
        let stack = self.below.launches.capture_stack(&function.stacks);
        self.below.launches.remember(Launch {
            id,
            function: function.clone(),
            roots,
            stack,
            proved,
        });
        self.below.records.expect();
        Ok(LaunchDecision::Checked {
            build,
            function: copy,
            launch_parameter,
            plan: entry.clone(),
        })
    }

    /// What code of the module needs on the device before it runs, in this stream if
    /// that is known.
    pub fn make_ready(
        &self,
        plan: &ModulePlan,
        stream: Option<StreamUse>,
    ) -> Result<(), UncheckedReason> {
        if let Err(message) = self.below.metadata.attach() {
            self.below.env.error(&message, true);
            return Err(UncheckedReason::Failed);
        }
        if plan.stack_is_unknown()
            && let Err(error) = self.below.deep_stacks.make_room()
        {
            let message = format!(
                "there is no room for deeper stacks ({error}): recursive kernels may fail where they would not without checks"
            );
            self.below.env.error(&message, false);
        }
        if plan.uses_device_heap()
            && let Err(message) = self.below.metadata.attach_heap()
        {
            self.below.env.error(&message, false);
        }
        if plan.uses_lookups() {
            self.below.lookups.launching(stream);
        }
        if let Err(error) = self.below.metadata.publish_miss_size() {
            self.below.env.error(&error.to_string(), true);
            return Err(UncheckedReason::Failed);
        }
        Ok(())
    }
}

/// Number, bounds, limits and ranges of indices of a launch; and where shadow memory is, where it decides. The
/// bounds are a shortcut then, which leaves out what they do not show to be addressable.
fn launch_parameter(
    id: u64,
    roots: &[Root],
    entry: &EntryPlan,
    window: Option<&[u8; LAUNCH_WINDOW as usize]>,
) -> LaunchParameter {
    let (limits, indices) = (&entry.limits, &entry.indices);
    let of_roots = 16 * roots.len();
    let of_limits = 8 * (limits.len() + indices.len());
    let of_window = window.map_or(0, |window| window.len());
    let mut bytes = LaunchParameter::with_capacity(8 + of_roots + of_limits + of_window);
    let is_poisoned = window.is_some_and(Metadata::says_poisoned);
    let size_of = |root: &Root| match window {
        Some(_) if is_poisoned || !root.is_lasting => 0,
        _ => root.bounds.size,
    };
    bytes.extend_from_slice(&id.to_le_bytes());
    for root in roots {
        // Functions that the kernel calls know the pointer from nowhere else.
        let base = match root.bounds.size {
            0 if is_user_address(root.pointer) => root.pointer,
            _ => root.bounds.base.0,
        };
        bytes.extend_from_slice(&base.to_le_bytes());
        bytes.extend_from_slice(&size_of(root).to_le_bytes());
    }
    for limit in limits {
        let root = roots.get(limit.root as usize);
        let value = root.map_or(0, |root| limit.value(root.pointer, size_of(root)));
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    for index in indices {
        let root = roots.get(index.root as usize);
        let range = root.map_or(LaunchIndex::NONE, |root| {
            index.range(root.pointer, (root.bounds.base.0, size_of(root)))
        });
        bytes.extend_from_slice(&range.from.to_le_bytes());
        bytes.extend_from_slice(&range.span.to_le_bytes());
    }
    if let Some(window) = window {
        bytes.extend_from_slice(window);
    }
    bytes
}
