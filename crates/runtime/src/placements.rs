//! Where buffers of the program lie, and what surrounds them: memory that a
//! protection makes in place of the driver, or the driver's own, with canaries or
//! redzones. Who allocates for the program asks here first.

use crate::canaries::Fill;
use crate::env::Env;
use crate::failures::Failures;
use crate::protection::{Placement, PlacementRequest, Protections};
use crate::redzones::Surroundings;
use heap::Owner;
use model::{AllocationKind, ElsewhereReason};
use std::sync::Arc;

/// See the module's header.
pub struct Placements {
    env: Arc<Env>,
    failures: Arc<Failures>,
    protections: Arc<Protections>,
    surroundings: Surroundings,
}

impl Placements {
    pub(crate) fn new(
        env: Arc<Env>,
        failures: Arc<Failures>,
        protections: Arc<Protections>,
        surroundings: Surroundings,
    ) -> Placements {
        Placements {
            env,
            failures,
            protections,
            surroundings,
        }
    }

    /// Memory that a protection makes for the program; `None`: the driver is to
    /// make it. So it is after a kernel has failed: the program's own call then
    /// returns the kernel's error, and calls that map memory do not (H200,
    /// driver 580).
    pub fn place(&self, request: &PlacementRequest) -> Option<Placement> {
        if self.failures.any_stands() && self.failures.stands(self.env.driver().current_context()) {
            return None;
        }
        self.protections.place(request)
    }

    /// The program has a buffer of so many bytes that [`Placements::place`] made.
    pub fn placed(
        &self,
        kind: AllocationKind,
        size: u64,
        owner: Owner,
        placement: &Placement,
        fill: Fill,
    ) {
        self.surroundings.placed(kind, size, owner, placement, fill);
    }

    /// Whether a protection may make memory of the program.
    pub fn are_made(&self) -> bool {
        self.protections.place_any()
    }

    /// Memory of the program lies elsewhere than protections would have placed
    /// it: counts it.
    pub fn elsewhere(&self, reason: ElsewhereReason) {
        self.protections.elsewhere(reason);
    }

    /// What surrounds memory that the driver makes.
    pub fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }
}
