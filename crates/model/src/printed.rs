//! What the `printf` of fenced kernels left in a tenant's memory
//! ([`crate::layout::tenant`]), as text. The tenant can have written anything
//! there: no number in it is believed, and no address in it is followed.

use crate::layout::tenant::PrintHead;
use crate::printf::{self, Argument};

/// The text of all records from the first on, at most about `most` bytes of it.
/// It ends where a record is not finished, or is none.
pub fn text(records: &[u8], most: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = records;
    while out.len() < most {
        let Some(record) = Record::of(rest) else {
            break;
        };
        record.write(most, &mut out);
        rest = &rest[record.total..];
    }
    out
}

/// The parts of one record.
struct Record<'r> {
    total: usize,
    format: &'r [u8],
    arguments: &'r [u8],
    strings: &'r [u8],
}

impl<'r> Record<'r> {
    fn of(bytes: &'r [u8]) -> Option<Self> {
        let head = bytes.get(..size_of::<PrintHead>())?;
        let word = |at: usize| {
            let word = head[at..at + 4].try_into().unwrap_or_default();
            u32::from_le_bytes(word) as usize
        };
        let total = word(0);
        let mut rest = bytes.get(size_of::<PrintHead>()..total)?;
        if !total.is_multiple_of(8) {
            return None;
        }
        let mut part = |length: usize| {
            let part = rest.get(..length)?;
            rest = rest.get(length.next_multiple_of(8)..)?;
            Some(part)
        };
        Some(Record {
            total,
            format: part(word(4))?,
            arguments: part(word(8))?,
            strings: part(word(12))?,
        })
    }

    fn write(&self, most: usize, out: &mut Vec<u8>) {
        let mut arguments = Arguments {
            bytes: self.arguments,
            at: 0,
        };
        let mut strings = self.strings;
        for piece in printf::parse(self.format) {
            if out.len() >= most {
                return;
            }
            let mut stars = [None; 2];
            for star in stars.iter_mut().take(piece.stars()) {
                *star = Some(arguments.take(4) as i32);
            }
            let argument = match piece.size() {
                None => Argument::None,
                Some(size) => {
                    let bits = arguments.take(size as usize);
                    if piece.is_string() {
                        Argument::Text(string(bits, &mut strings))
                    } else {
                        Argument::Bits(bits)
                    }
                }
            };
            piece.write(stars, &argument, out);
        }
    }
}

/// The next string, for a pointer of these bits.
fn string(bits: u64, strings: &mut &[u8]) -> Vec<u8> {
    let end = strings.iter().position(|byte| *byte == 0);
    let (text, rest) = strings.split_at(end.unwrap_or(strings.len()));
    *strings = rest.get(1..).unwrap_or_default();
    match bits {
        0 => b"(null)".to_vec(),
        _ => text.to_vec(),
    }
}

/// Arguments one after the other, each aligned to its size (PTX interoperability
/// guide, "System Calls").
struct Arguments<'r> {
    bytes: &'r [u8],
    at: usize,
}

impl Arguments<'_> {
    /// The next one, of so many bytes; zero behind the last.
    fn take(&mut self, size: usize) -> u64 {
        self.at = self.at.next_multiple_of(size);
        let mut word = [0; 8];
        if let Some(bytes) = self.bytes.get(self.at..self.at + size) {
            word[..size].copy_from_slice(bytes);
        }
        self.at += size;
        u64::from_le_bytes(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(format: &str, arguments: &[u8], strings: &[u8]) -> Vec<u8> {
        let mut out = vec![0; 16];
        for (at, part) in [(4, format.as_bytes()), (8, arguments), (12, strings)] {
            out[at..at + 4].copy_from_slice(&(part.len() as u32).to_le_bytes());
            out.extend(part);
            out.resize(out.len().next_multiple_of(8), 0);
        }
        let total = out.len() as u32;
        out[..4].copy_from_slice(&total.to_le_bytes());
        out
    }

    #[test]
    fn records_are_text() {
        let mut arguments = 7u32.to_le_bytes().to_vec();
        arguments.resize(8, 0);
        arguments.extend(0x3000u64.to_le_bytes());
        arguments.extend(2.5f64.to_le_bytes());
        arguments.extend(0u64.to_le_bytes());
        let mut all = record("%d %s %.1f %s|", &arguments, b"seven\0\0");
        all.extend(record("100%%\n", &[], &[]));
        assert_eq!(text(&all, 1 << 10), b"7 seven 2.5 (null)|100%\n");
        // Behind the last there is nothing.
        all.extend([0; 64]);
        assert_eq!(text(&all, 1 << 10), b"7 seven 2.5 (null)|100%\n");
    }

    #[test]
    fn what_a_tenant_writes_there_is_bounded() {
        let wide = record(&"%4000d".repeat(600), &[], &[]);
        let long = text(&wide.repeat(50), 10_000);
        assert!((10_000..20_000).contains(&long.len()), "{}", long.len());
        let mut cut = record("%s%s%s%d", &[1; 9], b"no end");
        assert_eq!(&text(&cut, 100)[..6], b"no end");
        for (at, byte) in [(0, 255), (4, 255), (8, 255), (12, 255), (1, 1), (0, 1)] {
            let old = std::mem::replace(&mut cut[at], byte);
            assert_eq!(text(&cut, 100), b"", "{at}");
            cut[at] = old;
        }
    }

    #[test]
    fn any_bytes_have_an_answer() {
        let mut state = 0x9e37_79b9_u64;
        let mut next = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let letters = b"%*.0159dshlqfaxcp\0\xff";
        for _ in 0..20_000 {
            let mut bytes = Vec::new();
            for _ in 0..4 {
                bytes.extend((next(100) as u32 & !3).to_le_bytes());
            }
            for _ in 0..next(200) {
                bytes.push(letters[next(letters.len() as u64) as usize]);
            }
            let out = text(&bytes, 1000);
            assert!(out.len() < 1000 + (1 << 13), "{bytes:?}");
        }
    }
}
