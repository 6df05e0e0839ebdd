//! Messages between the manager and its workers: the length of a message and that
//! of a payload, then both. What a worker sends is hostile: lengths are compared
//! with limits before memory is taken, and memory is taken as bytes arrive.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{Error, ErrorKind, Read, Result, Write};

/// Bytes that memory is taken for at a time.
const STEP: usize = 1 << 20;

/// The longest message and payload that are read.
#[derive(Clone, Copy)]
pub(super) struct Longest {
    pub(super) message: u64,
    pub(super) payload: u64,
}

/// Sends a message and a payload.
pub(super) fn write<M: Serialize>(to: &mut dyn Write, message: &M, payload: &[u8]) -> Result<()> {
    let message = postcard::to_allocvec(message).map_err(Error::other)?;
    to.write_all(&(message.len() as u64).to_le_bytes())?;
    to.write_all(&(payload.len() as u64).to_le_bytes())?;
    to.write_all(&message)?;
    to.write_all(payload)
}

/// Reads a message and a payload.
pub(super) fn read<M: DeserializeOwned>(
    from: &mut dyn Read,
    longest: Longest,
) -> Result<(M, Vec<u8>)> {
    let mut lengths = [0; 16];
    from.read_exact(&mut lengths)?;
    let (message, payload) = lengths.split_at(8);
    let length = |bytes: &[u8], longest: u64| {
        let length = u64::from_le_bytes(bytes.try_into().map_err(Error::other)?);
        match length <= longest {
            true => Ok(length as usize),
            false => Err(Error::new(ErrorKind::FileTooLarge, "it is too long")),
        }
    };
    let (message, payload) = (
        length(message, longest.message)?,
        length(payload, longest.payload)?,
    );
    let bytes = exactly(from, message)?;
    let (value, rest) = postcard::take_from_bytes(&bytes)
        .map_err(|_| Error::new(ErrorKind::InvalidData, "it cannot be read"))?;
    if !rest.is_empty() {
        return Err(Error::new(ErrorKind::InvalidData, "bytes follow it"));
    }
    Ok((value, exactly(from, payload)?))
}

fn exactly(from: &mut dyn Read, length: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let at = bytes.len();
        bytes.resize(length.min(at + STEP), 0);
        from.read_exact(&mut bytes[at..])?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Longest = Longest {
        message: 100,
        payload: 10,
    };

    #[test]
    fn what_was_written_is_read() {
        let mut bytes = Vec::new();
        write(&mut bytes, &("abc", 7u32), b"payload").unwrap();
        let read = read::<(String, u32)>(&mut &bytes[..], LONGEST).unwrap();
        assert_eq!(read, (("abc".into(), 7), b"payload".to_vec()));
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        let written = |payload: &[u8]| {
            let mut bytes = Vec::new();
            write(&mut bytes, &7u32, payload).unwrap();
            bytes
        };
        let kind = |bytes: &[u8]| read::<u32>(&mut &*bytes, LONGEST).unwrap_err().kind();
        let good = written(b"");
        for end in 0..good.len() {
            assert_eq!(kind(&good[..end]), ErrorKind::UnexpectedEof);
        }
        assert_eq!(kind(&written(&[0; 11])), ErrorKind::FileTooLarge);
        let mut long = good.clone();
        long[0..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(kind(&long), ErrorKind::FileTooLarge);
        let mut trailing = good;
        trailing[0] += 1;
        trailing.push(0);
        assert_eq!(kind(&trailing), ErrorKind::InvalidData);
    }
}
