//! What the `printf` of fenced kernels left in a tenant's memory
//! ([`crate::layout::tenant`]), as text. The tenant can have written anything
//! there: no number in it is believed, and no address in it is followed.

use crate::layout::tenant::{PRINT_ARGUMENTS, PRINT_FORMAT, PrintHead};
use crate::printf::{self, Argument, Piece};

/// Bytes of the records at the beginning of `bytes`, each of a length that one
/// can have. What is in them is not looked at.
pub fn whole(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some(total) = total(rest) {
        rest = &rest[total..];
    }
    bytes.len() - rest.len()
}

/// Bytes of the record that `bytes` begin with.
fn total(bytes: &[u8]) -> Option<usize> {
    let total = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    let is_one = total.is_multiple_of(8) && (size_of::<PrintHead>()..=bytes.len()).contains(&total);
    is_one.then_some(total)
}

/// The records from the first byte on; `None` for what is in the place of one. It
/// ends where a record is not finished.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = Option<Record<'_>>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let is_unfinished = rest.first_chunk().is_none_or(|total| *total == [0; 4]);
        if is_unfinished {
            return None;
        }
        let (record, behind) = match total(rest) {
            Some(total) => rest.split_at(total),
            None => (rest, &[][..]),
        };
        rest = behind;
        Some(Record::of(record))
    })
}

/// The parts of one record.
#[derive(Debug)]
pub struct Record<'r> {
    format: &'r [u8],
    arguments: &'r [u8],
    strings: &'r [u8],
}

impl<'r> Record<'r> {
    /// All of `bytes` as a record.
    fn of(bytes: &'r [u8]) -> Option<Self> {
        let (head, mut rest) = bytes.split_first_chunk::<{ size_of::<PrintHead>() }>()?;
        let word = |at: usize| {
            let word = head[at..at + 4].try_into().unwrap_or_default();
            u32::from_le_bytes(word)
        };
        let [total, format, arguments, strings] = [word(0), word(4), word(8), word(12)];
        if total as usize != bytes.len() || format > PRINT_FORMAT || arguments > PRINT_ARGUMENTS {
            return None;
        }
        let mut part = |length: u32| {
            let part = rest.get(..length as usize)?;
            rest = rest.get(part.len().next_multiple_of(8)..)?;
            Some(part)
        };
        Some(Record {
            format: part(format)?,
            arguments: part(arguments)?,
            strings: part(strings)?,
        })
    }

    /// Appends its text.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut arguments = Arguments {
            bytes: self.arguments,
            at: 0,
        };
        let mut strings = self.strings;
        for piece in printf::pieces(self.format) {
            let Piece::Conversion(conversion) = &piece else {
                piece.write(None, &Argument::None, out);
                continue;
            };
            let star = conversion.has_star().then(|| arguments.take(4) as i32);
            let bits = arguments.take(conversion.bytes() as usize);
            let argument = match conversion.is_string() {
                true => Argument::Text(string(bits, &mut strings)),
                false => Argument::Bits(bits),
            };
            piece.write(star, &argument, out);
        }
    }
}

/// The next string, for a pointer of these bits.
fn string(bits: u64, strings: &mut &[u8]) -> Option<Vec<u8>> {
    let end = strings.iter().position(|byte| *byte == 0);
    let (text, rest) = strings.split_at(end.unwrap_or(strings.len()));
    *strings = rest.get(1..).unwrap_or_default();
    (bits != 0).then(|| text.to_vec())
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

    /// The text of all records, and how many were none.
    fn text(bytes: &[u8]) -> (String, usize) {
        let (mut out, mut dropped) = (Vec::new(), 0);
        for record in records(bytes) {
            match record {
                Some(record) => record.write(&mut out),
                None => dropped += 1,
            }
        }
        (String::from_utf8_lossy(&out).into_owned(), dropped)
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
        let expected = ("7 seven 2.5 (null)|100%\n".to_owned(), 0);
        assert_eq!(text(&all), expected);
        // Behind the last there is nothing.
        let length = all.len();
        all.extend([0; 64]);
        assert_eq!((whole(&all), text(&all)), (length, expected));
    }

    #[test]
    fn a_conversion_that_there_is_not_takes_no_argument() {
        let mut arguments = 3i32.to_le_bytes().to_vec();
        arguments.resize(8, 0);
        arguments.extend(0x3000u64.to_le_bytes());
        let all = record("%zd %.*s %d %s", &arguments, b"four\0");
        assert_eq!(text(&all), ("%zd %.*s 3 four".to_owned(), 0));
    }

    #[test]
    fn what_a_tenant_writes_there_is_bounded() {
        let wide = record(&"%9999d".repeat(600), &[], &[]);
        assert_eq!(text(&wide).0.len(), 600 << 12);
        // Longer than any format of a kernel.
        let (long, dropped) = text(&record(&"%9999d".repeat(60_000), &[], &[]));
        assert_eq!((long.len(), dropped), (0, 1));
        let mut cut = record("%s%s%s%d", &[1; 9], b"no end");
        assert_eq!(&text(&cut).0[..6], "no end");
        cut.extend(record("next", &[], &[]));
        for (at, byte, behind) in [
            (0, 255, ""),
            (1, 255, ""),
            (0, 1, ""),
            (4, 255, "next"),
            (8, 255, "next"),
            (12, 255, "next"),
        ] {
            let old = std::mem::replace(&mut cut[at], byte);
            assert_eq!(text(&cut), (behind.to_owned(), 1), "{at}");
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
            assert!(whole(&bytes) <= bytes.len());
            assert!(text(&bytes).0.len() < 1 << 19, "{bytes:?}");
        }
    }
}
