//! Numbers that look random, and frames with other bytes.

use anyhow::{Context, Result};
use protocol::{Channel, ChannelError, Frame, Request};
use std::time::Duration;

/// xorshift64
pub struct Random(pub u64);

impl Random {
    /// The next one.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// One below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// A channel that keeps what is sent.
#[derive(Default)]
struct Kept(Vec<u8>);

impl Channel for Kept {
    fn send(&mut self, parts: &[&[u8]]) -> Result<(), ChannelError> {
        self.0 = parts.concat();
        Ok(())
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> Result<(), ChannelError> {
        frame.clone_from(&self.0);
        Ok(())
    }

    fn set_patience(&mut self, _patience: Option<Duration>) -> Result<(), ChannelError> {
        Ok(())
    }
}

/// The name of a request's type.
pub fn kind(request: &Request) -> String {
    let text = match request {
        // (Their text is long.)
        Request::Launch { .. } => "Launch".into(),
        Request::Hello(_) => "Hello".into(),
        other => format!("{other:?}"),
    };
    let name = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    name.into_iter().next().unwrap_or_default().to_owned()
}

/// The bytes of a frame.
///
/// # Errors
///
/// The message is too large for one.
pub fn frame_of(request: &Request, payload: &[u8]) -> Result<Vec<u8>> {
    let mut kept = Kept::default();
    Frame::send(&mut kept, request, payload)?;
    Ok(kept.0)
}

/// Another frame of the same type: a few bytes of its message are others, are
/// gone or are new, behind the byte that says which type it is; and a few of its
/// payload.
///
/// # Errors
///
/// The message is too large for a frame.
pub fn mutated(request: &Request, payload: &[u8], random: &mut Random) -> Result<Vec<u8>> {
    let frame = frame_of(request, payload)?;
    let (head, rest) = frame.split_first_chunk::<4>().context("a frame")?;
    let length = u32::from_le_bytes(*head) as usize;
    let (message, payload) = rest.split_at(length);
    let (mut message, mut payload) = (message.to_vec(), payload.to_vec());
    for _ in 0..1 + random.below(3) {
        change(&mut message, 1, random);
    }
    for _ in 0..random.below(3) {
        change(&mut payload, 0, random);
    }
    let head = (message.len() as u32).to_le_bytes();
    Ok([&head[..], &message, &payload].concat())
}

/// Changes something from a byte on.
fn change(bytes: &mut Vec<u8>, from: usize, random: &mut Random) {
    if bytes.len() <= from {
        return;
    }
    let at = from + random.below(bytes.len() - from);
    match random.below(8) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.next() as u8,
        2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
        3 => bytes[at] = bytes[at].wrapping_add(1),
        4 => bytes[at] = bytes[at].wrapping_sub(1),
        5 => {
            bytes.remove(at);
        }
        6 => bytes.insert(at, random.next() as u8),
        _ => {
            let other = from + random.below(bytes.len() - from);
            bytes.swap(at, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_mutated_messages_are_messages_of_the_same_type() {
        let request = Request::EventElapsed {
            start: 300,
            end: 70_000,
        };
        assert_eq!(kind(&request), "EventElapsed");
        assert_eq!(kind(&Request::Synchronize), "Synchronize");
        let mut random = Random(7);
        let mut others = 0;
        for _ in 0..200 {
            let bytes = mutated(&request, &[], &mut random).unwrap();
            if let Ok((found, _)) = Frame::parse::<Request>(bytes) {
                assert_eq!(kind(&found), "EventElapsed");
                others += u32::from(found != request);
            }
        }
        assert!(others > 50, "{others}");
    }
}
