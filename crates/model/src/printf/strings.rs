//! What device-side `printf` reads: a call of `vprintf(format, arguments)`
//! finds its arguments in memory, one after the other, each promoted as C's
//! variable arguments are and aligned to its size (PTX interoperability guide,
//! "System Calls").
//!
//! A conversion that the driver does not have takes no argument, so that
//! `printf("%zd %s", n, s)` stops the kernel (H200, driver 580). What another
//! driver does with it is not known.

use super::format::{Conversion, Piece, Size, pieces};

/// One `%s` of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintedString {
    /// Bytes from the start of the arguments to the pointer.
    pub at: u32,
    /// How much of the string is read.
    pub most: Most,
}

/// How many bytes of a string are read at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Most {
    /// All up to its terminator.
    All,
    /// A constant: `%.5s`.
    Bytes(u64),
}

/// What a format reads of the arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// The strings, in order.
    pub strings: Vec<PrintedString>,
    /// Bytes of all arguments that are known.
    pub bytes: u32,
    /// There may be more strings: behind a conversion that is not known, or of
    /// wide characters.
    pub is_cut_off: bool,
}

/// Longest field that counts: what follows a longer one is not known.
const MOST_BYTES: u32 = 1 << 16;

/// Reads a format, without its terminator. Any bytes have an answer.
pub fn printed(format: &[u8]) -> Printed {
    let mut printed = Printed::default();
    let mut all = pieces(format);
    loop {
        let from = all.rest();
        match all.next() {
            None => return printed,
            Some(Piece::Text(_)) => continue,
            Some(Piece::Conversion(conversion)) => {
                printed.add(&conversion);
                if printed.bytes <= MOST_BYTES {
                    continue;
                }
            }
            Some(Piece::Unknown(_)) => {}
        }
        printed.is_cut_off |= may_have_strings(&from[1..]);
        return printed;
    }
}

/// Whether there may be a string in a conversion that is not known, or behind
/// it.
fn may_have_strings(format: &[u8]) -> bool {
    let mut conversions = format.split(|&byte| byte == b'%');
    let unknown = conversions.next().unwrap_or_default();
    let mut word = unknown.split(|byte| byte.is_ascii_whitespace());
    let is_in = |text: &[u8]| text.contains(&b's');
    word.next().is_some_and(is_in) || conversions.any(is_in)
}

impl Printed {
    /// Adds the arguments of a conversion.
    fn add(&mut self, conversion: &Conversion<'_>) {
        if conversion.has_star() {
            self.take(4);
        }
        let at = self.take(conversion.bytes());
        if !conversion.is_string() {
            return;
        }
        if conversion.size == Size::Long {
            self.is_cut_off = true;
            return;
        }
        let most = conversion.precision.map_or(Most::All, Most::Bytes);
        self.strings.push(PrintedString { at, most });
    }

    /// The place of the next argument, which has this size.
    fn take(&mut self, bytes: u32) -> u32 {
        let at = self.bytes.next_multiple_of(bytes);
        self.bytes = at + bytes;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(format: &str) -> Vec<(u32, Most)> {
        let printed = printed(format.as_bytes());
        assert!(!printed.is_cut_off, "{format}");
        let strings = printed.strings.iter();
        strings.map(|string| (string.at, string.most)).collect()
    }

    #[test]
    fn arguments_are_aligned_to_their_size() {
        assert_eq!(strings("%s"), [(0, Most::All)]);
        assert_eq!(strings("%d %s"), [(8, Most::All)]);
        assert_eq!(strings("%d%d%s"), [(8, Most::All)]);
        assert_eq!(
            strings("%d %f %c %s|%hu %lu %s"),
            [(24, Most::All), (48, Most::All)]
        );
        assert_eq!(strings("%p%lx%lld%f%a%s"), [(40, Most::All)]);
        assert_eq!(strings("100%% %5d %-+ #08.3f %s"), [(16, Most::All)]);
    }

    #[test]
    fn widths_take_arguments() {
        assert_eq!(strings("%*s"), [(8, Most::All)]);
        assert_eq!(
            strings("%.5s%.s%10.3s"),
            [
                (0, Most::Bytes(5)),
                (8, Most::Bytes(0)),
                (16, Most::Bytes(3))
            ]
        );
        let most = Most::Bytes(u64::MAX);
        assert_eq!(strings("%.99999999999999999999999s"), [(0, most)]);
    }

    #[test]
    fn what_follows_an_unknown_conversion_is_not_known() {
        for (format, known, is_cut_off) in [
            ("%s %y %s", 1, true),
            ("%n%s", 0, true),
            ("%.-1s", 0, true),
            ("%d %hhd %s", 0, true),
            ("%s %.*s", 1, true),
            ("%*.*s", 0, true),
            ("%zu bytes of %s", 0, true),
            ("%zu bytes", 0, false),
            ("%'d%s", 0, true),
            ("%s %", 1, false),
            ("%d%\n seconds", 0, false),
        ] {
            let printed = printed(format.as_bytes());
            assert_eq!(printed.is_cut_off, is_cut_off, "{format}");
            assert_eq!(printed.strings.len(), known, "{format}");
        }
        // A wide string has a known place, and an end that is not known.
        let wide = printed(b"%ls %s");
        assert!(wide.is_cut_off);
        assert_eq!(
            wide.strings[..],
            [PrintedString {
                at: 8,
                most: Most::All
            }]
        );
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_have_an_answer(format in "[%sdlh*.0-9-]{0,64}|.{0,64}") {
            let printed = printed(format.as_bytes());
            for string in &printed.strings {
                assert!(string.at % 8 == 0 && string.at + 8 <= printed.bytes);
            }
        }
    }
}
