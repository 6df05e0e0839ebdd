//! What surrounds buffers of the program: canaries or redzones, whichever the
//! active protection has. Who asks the driver for memory asks here for how much.

use crate::allocations::Allocations;
use crate::canaries::{Canaries, CanaryPlan, Fill};
use crate::protection::Placement;
use crate::shadow::Shadow;
use heap::Owner;
use model::{AllocationKind, BareReason, Extent};
use smallvec::SmallVec;
use std::sync::Arc;

/// See the module's header.
pub struct Surroundings {
    allocations: Arc<Allocations>,
    canaries: Arc<Canaries>,
    shadow: Arc<Shadow>,
}

impl Surroundings {
    pub(crate) fn new(
        allocations: Arc<Allocations>,
        canaries: Arc<Canaries>,
        shadow: Arc<Shadow>,
    ) -> Surroundings {
        Surroundings {
            allocations,
            canaries,
            shadow,
        }
    }

    /// What to ask the driver for; the next if there is no memory for the one
    /// before. None: nothing surrounds the buffer. `head`: the program may be
    /// given another address than the driver's.
    pub fn plans(&self, size: u64, head: bool, fill: Fill) -> SmallVec<[CanaryPlan; 2]> {
        if !self.shadow.is_wanted() {
            return self.canaries.plans(size, head);
        }
        // The bytes of a pool may still be another buffer's, in stream order.
        if !head || fill != Fill::Now {
            self.shadow.bare(BareReason::InStreamOrder);
            return SmallVec::new();
        }
        self.shadow.plan(size).into_iter().collect()
    }

    /// How many bytes are wanted on either side of a buffer of so many; 0: none.
    pub fn bytes(&self, size: u64) -> u64 {
        match self.shadow.is_wanted() {
            true => self.shadow.redzone(size),
            false => self.canaries.size(),
        }
    }

    /// Whether there is something before buffers, too.
    pub fn has_head(&self, canary_head: bool) -> bool {
        canary_head || self.shadow.is_wanted()
    }

    /// The program has a buffer for which the driver was asked by a plan; the
    /// extent is the program's.
    pub fn allocated(
        &self,
        kind: AllocationKind,
        extent: Extent,
        owner: Owner,
        plan: &CanaryPlan,
        fill: Fill,
    ) {
        match self.shadow.is_wanted() {
            true => self.shadow.allocated(kind, extent, owner, plan),
            false => self.canaries.allocated(kind, extent, owner, plan, fill),
        }
    }

    /// The program has a buffer of so many bytes that a protection has placed.
    pub(crate) fn placed(
        &self,
        kind: AllocationKind,
        size: u64,
        owner: Owner,
        placement: &Placement,
        fill: Fill,
    ) {
        let Placement {
            base,
            before,
            after,
        } = *placement;
        let extent = Extent { base, size };
        if self.shadow.is_wanted() {
            return self.shadow.placed(kind, extent, owner, (before, after));
        }
        match CanaryPlan::between(before, size, after) {
            Some(plan) => self.canaries.allocated(kind, extent, owner, &plan, fill),
            None => self.allocations.allocated_by(kind, extent, owner),
        }
    }

    /// A buffer that nothing surrounds where others have canaries or redzones.
    pub fn bare(&self, reason: BareReason) {
        self.canaries.bare(reason);
        self.shadow.bare(reason);
    }
}
