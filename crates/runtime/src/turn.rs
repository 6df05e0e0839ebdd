//! Exclusive turns without a held lock.

use parking_lot::{Condvar, Mutex};
use std::thread::ThreadId;

/// Lets one thread at a time do something that calls the driver. Unlike a
/// mutex it notices when the same thread comes again (the driver may call
/// back into the program, and the program into us) and refuses the inner turn
/// instead of deadlocking.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    owner: Mutex<Option<ThreadId>>,
    free: Condvar,
}

/// A turn that is being taken; ends when dropped.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    turn: &'a Turn,
}

impl Turn {
    /// Waits for the turn. `None` if this thread is in it already.
    pub fn take(&self) -> Option<Taken<'_>> {
        let me = std::thread::current().id();
        let mut owner = self.owner.lock();
        while let Some(other) = *owner {
            if other == me {
                return None;
            }
            self.free.wait(&mut owner);
        }
        *owner = Some(me);
        Some(Taken { turn: self })
    }

    /// Takes the turn if it is free.
    pub fn try_take(&self) -> Option<Taken<'_>> {
        let mut owner = self.owner.lock();
        if owner.is_some() {
            return None;
        }
        *owner = Some(std::thread::current().id());
        Some(Taken { turn: self })
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.turn.owner.lock() = None;
        self.turn.free.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::Turn;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn the_same_thread_is_refused_and_others_wait() {
        let turn = Turn::default();
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _taken = turn.take().expect("another thread's turn is waited for");
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        assert!(turn.take().is_none());
                        assert!(turn.try_take().is_none());
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(turn.try_take().is_some());
    }
}
