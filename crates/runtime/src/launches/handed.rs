//! Launches that are to be verified and were not taken over yet.

use super::list::Listed;
use std::collections::VecDeque;
use std::sync::Arc;

/// Launches kept, at most, where nothing takes them over.
const KEPT: usize = 1 << 11;

/// See the module's header.
#[derive(Default)]
pub(super) struct Handed {
    lists: VecDeque<Arc<Listed>>,
    /// Launches in these.
    launches: usize,
}

impl Handed {
    /// Adds launches. Those are forgotten for which there is no room.
    pub fn add(&mut self, listed: Arc<Listed>) {
        self.launches += listed.len();
        self.lists.push_back(listed);
        while self.launches > KEPT
            && let Some(old) = self.lists.pop_front()
        {
            self.launches -= old.len();
        }
    }

    /// Gives all that there is, oldest first.
    pub fn take(&mut self, take: impl FnMut(Arc<Listed>)) {
        self.launches = 0;
        self.lists.drain(..).for_each(take);
    }
}
