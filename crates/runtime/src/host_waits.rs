//! What the program waits for: what was under way is over then.

use crate::env::Env;
use crate::launches::Launches;
use crate::memory::Memory;
use crate::protection::Protections;
use crate::streams::{Ordering, StreamName, Streams};
use std::sync::Arc;

/// The services that waits use.
pub(crate) struct Below {
    pub env: Arc<Env>,
    pub memory: Arc<Memory>,
    pub launches: Arc<Launches>,
    pub streams: Arc<Streams>,
    pub protections: Arc<Protections>,
}

/// See the module's header.
pub struct HostWaits {
    below: Below,
}

impl HostWaits {
    pub(crate) fn new(below: Below) -> HostWaits {
        HostWaits { below }
    }

    /// Whether [`HostWaits::before`] need be called at this time.
    pub fn acts_before(&self) -> bool {
        self.below.protections.any(|one| one.acts_before_waits())
    }

    /// The host is about to wait: for a stream, or (`None`) for everything in
    /// the current context.
    pub fn before(&self, stream: Option<StreamName>) {
        self.below.protections.each(|one| one.before_wait(stream));
    }

    /// The program has waited for a stream.
    pub fn waited_for(&self, stream: StreamName) {
        let below = &self.below;
        below
            .memory
            .complete_frees(|pending| pending.stream == stream);
        below.launches.recent().over(|_, of| of == stream);
        below.streams.ordered(Ordering::HostWaited(stream));
        below.protections.each(|one| one.waited(Some(stream)));
    }

    /// The program has waited for the legacy default stream of the current
    /// context, and perhaps for more.
    pub fn waited_for_legacy(&self) {
        let context = self.below.env.driver().current_context();
        let legacy = StreamName::Legacy { context };
        let recent = self.below.launches.recent();
        recent.over(|_, of| of == legacy);
    }

    /// The program has waited for all that was put into the streams of a
    /// context; kernels of other contexts may still run.
    pub fn waited_for_context(&self, context: u64) {
        let below = &self.below;
        below
            .memory
            .complete_frees(|pending| pending.context == context);
        below.launches.recent().over(|of, _| of == context);
        below.streams.ordered(Ordering::Everything);
        below.memory.settle_parts(context);
        below.protections.each(|one| one.waited(None));
    }
}
