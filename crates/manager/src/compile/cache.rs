//! What was compiled, by what it was compiled from. A module's bytes decide it:
//! pass, verifier, driver and device are those of this process and do not change
//! while it lives. Only the manager writes it, and what it holds is code: variables
//! and constants are made anew by every tenant that loads it.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// What is kept, with the bytes that it takes.
pub(super) trait Sized64 {
    /// Bytes, about.
    fn bytes(&self) -> u64;
}

/// Results, those that were used last.
pub(super) struct Cache<T> {
    /// Bytes at most.
    limit: u64,
    state: Mutex<State<T>>,
}

struct State<T> {
    /// By the bytes themselves: nobody can make two modules that are taken for each
    /// other.
    entries: HashMap<Arc<[u8]>, Entry<T>>,
    bytes: u64,
    clock: u64,
}

struct Entry<T> {
    value: Arc<T>,
    used: u64,
}

impl<T: Sized64> Cache<T> {
    /// One of so many bytes.
    pub(super) fn new(limit: u64) -> Cache<T> {
        Cache {
            limit,
            state: Mutex::new(State {
                entries: HashMap::new(),
                bytes: 0,
                clock: 0,
            }),
        }
    }

    /// What these bytes were compiled to.
    pub(super) fn get(&self, code: &[u8]) -> Option<Arc<T>> {
        let mut state = self.state.lock();
        state.clock += 1;
        let clock = state.clock;
        let entry = state.entries.get_mut(code)?;
        entry.used = clock;
        Some(Arc::clone(&entry.value))
    }

    /// Keeps a result, in the place of those that were not used for longest. What
    /// would take more than a quarter of all is not kept: one tenant shall not drive
    /// everybody's out at once.
    pub(super) fn put(&self, code: Arc<[u8]>, value: &Arc<T>) {
        let bytes = code.len() as u64 + value.bytes();
        if bytes > self.limit / 4 {
            return;
        }
        let mut state = self.state.lock();
        let State {
            entries,
            bytes: taken,
            clock,
        } = &mut *state;
        *clock += 1;
        let entry = Entry {
            value: Arc::clone(value),
            used: *clock,
        };
        *taken += bytes;
        if let Some(before) = entries.insert(Arc::clone(&code), entry) {
            *taken -= code.len() as u64 + before.value.bytes();
        }
        while *taken > self.limit {
            let oldest = entries.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(code, _)| Arc::clone(code)) else {
                break;
            };
            if let Some(entry) = entries.remove(&oldest) {
                *taken -= oldest.len() as u64 + entry.value.bytes();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Sized64 for u64 {
        fn bytes(&self) -> u64 {
            *self
        }
    }

    #[test]
    fn what_was_not_used_for_longest_goes() {
        let cache = Cache::new(100);
        let put = |code: &[u8], bytes: u64| cache.put(code.into(), &Arc::new(bytes));
        for code in [b"a", b"b", b"c", b"d"] {
            put(code, 24);
        }
        assert!(cache.get(b"a").is_some());
        put(b"e", 24);
        assert!(cache.get(b"b").is_none(), "nobody has used it");
        for code in [b"a", b"c", b"d", b"e"] {
            assert!(cache.get(code).is_some());
        }
        // The same again takes no more.
        put(b"e", 24);
        assert!(cache.get(b"a").is_some() && cache.get(b"c").is_some());
        put(b"f", 25);
        assert!(cache.get(b"f").is_none(), "too large with its code");
        assert_eq!(cache.state.lock().bytes, 100);
    }
}
