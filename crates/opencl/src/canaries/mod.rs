//! Canaries: how they are put around memory, how a kernel gets memory that has
//! them, and the scans that verify them.

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
    /// What scans them.
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

    /// Tries canaries of the size in the settings, then the smallest; the
    /// summary reports the latter.
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

    /// A known context.
    pub fn known(&self, context: cl_context) -> Option<Arc<Context>> {
        self.contexts.lock().get(&(context as usize)).cloned()
    }

    /// Adds a context. The handle may be that of a destroyed context, whose
    /// data it replaces.
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
    use crate::findings::testing::{Kept, Recorder};

    fn canaries(size: u64) -> (Canaries, Arc<Recorder>) {
        let recorder = Arc::new(Recorder::default());
        let settings = Settings {
            canary_size: size,
            ..Settings::default()
        };
        (Canaries::of(&settings, recorder.clone()), recorder)
    }

    #[test]
    fn smaller_canaries_are_tried_and_said() {
        let (canaries, recorder) = canaries(4096);
        assert_eq!(canaries.sized(Some), Some(4096));
        assert_eq!(recorder.take(), []);
        let fits = |most: u64| move |size: u64| (size <= most).then_some(size);
        assert_eq!(canaries.sized(fits(100)), Some(64));
        assert_eq!(recorder.take(), [Kept::Note(Note::SmallerCanaries)]);
        assert_eq!(canaries.sized(fits(10)), None);
        assert_eq!(recorder.take(), []);
    }

    #[test]
    fn the_least_canaries_are_tried_once() {
        let (canaries, recorder) = canaries(LEAST);
        let tries = std::cell::Cell::new(0);
        let made: Option<()> = canaries.sized(|_| {
            tries.set(tries.get() + 1);
            None
        });
        assert_eq!((made, tries.get()), (None, 1));
        assert_eq!(recorder.take(), []);
    }
}
