//! Launches of kernels that are never checked: they need no decision when they come
//! again, and are listed ([`Launches`](crate::launches::Launches)).

use super::Launcher;
use crate::functions::Counted;
use crate::kernel::Kernel;
use crate::launches::{Listing, Made};
use crate::moment::Moment;
use crate::request::LaunchRequest;
use crate::streams::Where;
use model::UncheckedReason;
use std::time::Instant;

impl Launcher {
    /// The calling thread may list launches of a kernel, if none of them is ever
    /// checked, as long as the moment lasts at which one was counted so.
    pub(super) fn learn(&self, request: &LaunchRequest<'_>, counted: Counted, moment: Moment) {
        let (reason, is_verified) = match counted {
            Counted::Unchecked(reason) => (reason, false),
            Counted::Verified(reason) => (reason, true),
            _ => return,
        };
        let Some(Kernel(function)) = &request.kernel else {
            return;
        };
        // Where streams are tracked, their launches are followed one by one; of those
        // that are verified, the first ones have call stacks.
        let may = self.lists
            && !self.streams.are_tracked()
            && function.never_checked() == Some(reason)
            && (!is_verified || self.launches.has_stacks(&function.stacks));
        if may {
            self.launches.learn(function, reason, (moment, is_verified));
        }
    }

    /// Sees to a launch that needed no decision and is not listed.
    #[cold]
    pub fn unlisted(&self, made: Made) {
        match made {
            Made::Listed => {}
            Made::Left(listing, place) => self.list(listing, place),
            Made::Refused(listing) => self.listing_refused(listing),
        }
    }

    /// The device took a launch that is not listed yet. `place` is where it went.
    fn list(&self, listing: Listing, place: Where) {
        let now = Instant::now();
        match self.launches.list(listing, place, now) {
            Some(true) => {
                if let Where::Stream { name, .. } = place {
                    self.protections.settled(name, now);
                }
            }
            Some(false) => {}
            // Not a launch into a stream, or the calling thread has forgotten the kernel
            // since.
            None => self.unhooked(listing.handle(), UncheckedReason::LaunchPath),
        }
    }

    /// The device refused a launch that was to be listed: nothing ran.
    fn listing_refused(&self, listing: Listing) {
        let handle = listing.handle();
        if let Some(Kernel(function)) = self.modules.kernel(handle)
            && let Some(reason) = function.never_checked()
        {
            // That it could not have been checked stays to be said.
            function.counts.unchecked(reason);
        }
        self.protections.each(|one| one.refused(handle));
    }
}
