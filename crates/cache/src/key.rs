//! Keys.

use std::fmt;

/// Names the use of the hash, so that it is no other program's.
const CONTEXT: &str = "ringfence 2026-11 key of a cached result";

/// What tells results apart: a hash of all that decides one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key([u8; 32]);

/// A key that is being made.
pub struct KeyOf(blake3::Hasher);

impl Key {
    /// Begins the key of a kind of result, of this build of Ringfence.
    pub fn of(kind: &str) -> KeyOf {
        KeyOf(blake3::Hasher::new_derive_key(CONTEXT))
            .and(env!("CARGO_PKG_VERSION").as_bytes())
            .and(env!("RINGFENCE_SOURCES").as_bytes())
            .and(kind.as_bytes())
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// From its bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Key {
        Key(bytes)
    }
}

impl KeyOf {
    /// Adds a part. Parts are told apart: `ab` and `c` are not `a` and `bc`.
    #[must_use]
    pub fn and(mut self, part: &[u8]) -> KeyOf {
        self.0.update(&(part.len() as u64).to_le_bytes());
        self.0.update(part);
        self
    }

    /// The key.
    pub fn key(self) -> Key {
        Key(*self.0.finalize().as_bytes())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_apart_what_they_are_made_of() {
        let keys = [
            Key::of("a").key(),
            Key::of("b").key(),
            Key::of("a").and(b"").key(),
            Key::of("a").and(b"").and(b"").key(),
            Key::of("a").and(b"bc").key(),
            Key::of("a").and(b"b").and(b"c").key(),
            Key::of("ab").and(b"c").key(),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(key), "{at}");
        }
        assert_eq!(keys[0], Key::of("a").key());
        assert_eq!(keys[0].to_string().len(), 64);
    }
}
