//! Canaries: how memory gets them, how a kernel gets memory that has them, and
//! the scans that show whether they are intact.

pub mod backing;
pub mod blocks;
pub mod checker;
pub mod contexts;
pub mod flags;
pub mod padded;
pub mod reach;
pub mod rounds;
pub mod scan;
pub mod staging;

use crate::canaries::contexts::Context;
use crate::findings::Report;
use crate::objects::ByHandle;
use crate::sys::*;
use heap::canary::Keys;
use model::{CanaryChecker, Note, Settings};
use std::sync::Arc;

/// Canaries where larger ones do not fit.
const LEAST: u64 = 64;

/// What all canaries of a process share.
pub struct Canaries {
    /// What they hold.
    pub keys: Keys,
    /// Bytes of each.
    size: u64,
    /// Who scans them.
    pub checker: CanaryChecker,
    contexts: ByHandle<Arc<Context>>,
    pub report: Arc<dyn Report>,
}

impl Canaries {
    /// As the settings say.
    pub fn of(settings: &Settings, report: Arc<dyn Report>) -> Canaries {
        Canaries {
            keys: Keys::of(settings),
            size: settings.canary_size,
            checker: settings.canary_checker,
            contexts: ByHandle::default(),
            report,
        }
    }

    /// Tries canaries as large as the settings say, and then the least; the
    /// summary says if it had to be those.
    pub fn sized<T>(&self, make: impl Fn(u64) -> Option<T>) -> Option<T> {
        if let Some(made) = make(self.size) {
            return Some(made);
        }
        if self.size <= LEAST {
            return None;
        }
        let made = make(LEAST)?;
        self.report.note(Note::SmallerCanaries);
        Some(made)
    }

    /// What is known of a context.
    pub fn context(&self, context: cl_context) -> Arc<Context> {
        match self.known(context) {
            Some(known) => known,
            None => self.add_context(context),
        }
    }

    /// A context that was seen before.
    pub fn known(&self, context: cl_context) -> Option<Arc<Context>> {
        self.contexts.lock().get(&(context as usize)).cloned()
    }

    /// Adds a context. A handle may be that of a context that is gone: what was
    /// known of it is replaced.
    pub fn add_context(&self, context: cl_context) -> Arc<Context> {
        let known = Arc::new(Context::of(context));
        let before = self.contexts.lock().insert(context as usize, known.clone());
        // What it holds is released without the lock.
        drop(before);
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::testing::{Keeper, Kept};

    fn canaries(size: u64) -> (Canaries, Arc<Keeper>) {
        let keeper = Arc::new(Keeper::default());
        let settings = Settings {
            canary_size: size,
            ..Settings::default()
        };
        (Canaries::of(&settings, keeper.clone()), keeper)
    }

    #[test]
    fn smaller_canaries_are_tried_and_said() {
        let (canaries, keeper) = canaries(4096);
        assert_eq!(canaries.sized(Some), Some(4096));
        assert_eq!(keeper.take(), []);
        let fits = |most: u64| move |size: u64| (size <= most).then_some(size);
        assert_eq!(canaries.sized(fits(100)), Some(64));
        assert_eq!(keeper.take(), [Kept::Note(Note::SmallerCanaries)]);
        assert_eq!(canaries.sized(fits(10)), None);
        assert_eq!(keeper.take(), []);
    }

    #[test]
    fn the_least_canaries_are_tried_once() {
        let (canaries, keeper) = canaries(LEAST);
        let tries = std::cell::Cell::new(0);
        let made: Option<()> = canaries.sized(|_| {
            tries.set(tries.get() + 1);
            None
        });
        assert_eq!((made, tries.get()), (None, 1));
        assert_eq!(keeper.take(), []);
    }
}
