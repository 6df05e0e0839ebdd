//! Launches of programs that share the device with others who do not trust them.
//!
//! Their kernels end once a word is set (`model::layout::fence::stop`): blocks that
//! have not begun by then do not begin, as each would only find the word set. And
//! where all threads of a block wait for each other for ever, the block alone
//! ends; for other programs that is an error of the context. Each has its share of the
//! [processors](super::processors), however many kernels it has.

use super::processors::{Executing, Processors, Share};
use crate::mapping::View;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the launches of one such program share.
#[derive(Debug)]
pub struct Contained {
    word: u64,
    is_deadlocked: AtomicBool,
    share: Share,
}

impl Contained {
    /// With the address of a 32-bit word, not zero where kernels are to end; of the
    /// processors, it has the share of one among all such programs.
    pub(crate) fn new(word: u64, processors: &Arc<Processors>) -> Contained {
        Contained {
            word,
            is_deadlocked: AtomicBool::new(false),
            share: processors.share(),
        }
    }

    /// Whether a block has ended since the last call because all of its threads
    /// waited for each other.
    pub fn take_deadlock(&self) -> bool {
        // (Mostly it is not, and then nobody else shall wait for the line.)
        self.is_deadlocked.load(Ordering::Acquire)
            && self.is_deadlocked.swap(false, Ordering::AcqRel)
    }

    /// Waits until it is the turn of a thread that executes a kernel.
    pub(crate) fn execute(&self) -> Executing<'_> {
        self.share.execute()
    }

    pub(crate) fn deadlocked(&self) {
        self.is_deadlocked.store(true, Ordering::Release);
    }

    /// Whether kernels are to end. A word that is not there ends nothing.
    pub(crate) fn is_ended(&self, view: &mut View<'_>) -> bool {
        view.load::<u32>(self.word).is_ok_and(|word| word != 0)
    }
}
