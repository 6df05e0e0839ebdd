//! What was loaded and made for kernels of Ringfence's own.

use super::ticket::Ticket;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What was loaded and made for kernels of Ringfence's own.
#[derive(Default)]
pub(crate) struct Support {
    /// Modules by the place of their text. All contexts share them.
    pub modules: FxHashMap<usize, u64>,
    /// Streams by context, and whether they are for kernels that stay.
    pub streams: FxHashMap<(u64, bool), u64>,
    pub events: FxHashMap<u64, Vec<Arc<Ticket>>>,
}
