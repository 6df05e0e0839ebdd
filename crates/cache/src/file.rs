//! The bytes of a file: what names it, and its contents.
//!
//! ```text
//!  0  8   RFcache1
//!  8  32  key
//! 40  8   bytes of the contents
//! 48  32  hash of key and contents
//! 80      contents
//! ```

use crate::key::Key;

/// Begins each file, and ends with the version of this form.
const MAGIC: &[u8; 8] = b"RFcache1";

/// Bytes before the contents.
pub const HEADER: usize = 80;

/// What is wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It is none.
    #[error("it does not begin as a file of the cache does")]
    Form,
    /// It is that of another key.
    #[error("it is another key's")]
    Key,
    /// It ends before or after its end.
    #[error("its length is not what it says")]
    Length,
    /// Its contents have changed.
    #[error("its contents are not those that were written")]
    Contents,
}

/// The bytes before these contents.
pub fn written(key: &Key, contents: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..40].copy_from_slice(key.bytes());
    header[40..48].copy_from_slice(&(contents.len() as u64).to_le_bytes());
    header[48..].copy_from_slice(hash(key, contents).as_bytes());
    header
}

/// The contents in a file's bytes.
///
/// # Errors
///
/// See [`Damage`].
pub fn read<'b>(key: &Key, bytes: &'b [u8]) -> Result<&'b [u8], Damage> {
    let (header, contents) = bytes.split_at_checked(HEADER).ok_or(Damage::Form)?;
    if header[..8] != *MAGIC {
        return Err(Damage::Form);
    }
    if header[8..40] != *key.bytes() {
        return Err(Damage::Key);
    }
    if header[40..48] != (contents.len() as u64).to_le_bytes() {
        return Err(Damage::Length);
    }
    match header[48..] == *hash(key, contents).as_bytes() {
        true => Ok(contents),
        false => Err(Damage::Contents),
    }
}

fn hash(key: &Key, contents: &[u8]) -> blake3::Hash {
    blake3::keyed_hash(key.bytes(), contents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(key: &Key, contents: &[u8]) -> Vec<u8> {
        [&written(key, contents)[..], contents].concat()
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(contents: Vec<u8>, name: Vec<u8>) {
            let key = Key::of("test").and(&name).key();
            let file = file(&key, &contents);
            prop_assert_eq!(read(&key, &file), Ok(&contents[..]));
            prop_assert_eq!(read(&Key::of("other").key(), &file), Err(Damage::Key));
        }

        #[test]
        fn any_change_is_found(
            contents in prop::collection::vec(any::<u8>(), 0..200),
            at: prop::sample::Index,
            change in 1u8..,
            end: prop::sample::Index,
            more: u8,
        ) {
            let key = Key::of("test").key();
            let file = file(&key, &contents);
            let mut changed = file.clone();
            let at = at.index(file.len());
            changed[at] ^= change;
            let expected = match at {
                0..8 => Damage::Form,
                8..40 => Damage::Key,
                40..48 => Damage::Length,
                _ => Damage::Contents,
            };
            prop_assert_eq!(read(&key, &changed), Err(expected));
            let end = end.index(file.len());
            let short = if end < HEADER { Damage::Form } else { Damage::Length };
            prop_assert_eq!(read(&key, &file[..end]), Err(short));
            let longer = [&file[..], &[more]].concat();
            prop_assert_eq!(read(&key, &longer), Err(Damage::Length));
        }

        #[test]
        fn no_bytes_break_it(bytes: Vec<u8>) {
            prop_assert!(read(&Key::of("test").key(), &bytes).is_err());
        }
    }
}
