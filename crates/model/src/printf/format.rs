//! The one parser of formats. What it takes for a conversion is what NVIDIA's
//! driver takes for one (H200, driver 580): of the sizes there are `h`, `l` and
//! `ll`. A conversion that the driver does not have is printed as it stands and
//! takes no argument, so that those behind it get others than in C: so it is
//! with the sizes `hh`, `z`, `j`, `t`, `L`, `I`, `q`, the flag `'` and the
//! precision `.*`. `device/tenant.cu` does the same on the device.

/// A part of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<'f> {
    /// Printed as it stands.
    Text(&'f [u8]),
    /// The beginning of a conversion that there is not, up to the byte that is
    /// wrong: printed as it stands.
    Unknown(&'f [u8]),
    /// `%…`
    Conversion(Conversion<'f>),
}

/// What begins with `%`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion<'f> {
    /// `-`, `+`, ` `, `#`, `0`.
    pub flags: &'f [u8],
    /// Least number of bytes.
    pub width: Field,
    /// Behind the point.
    pub precision: Option<u64>,
    /// Before the letter.
    pub size: Size,
    /// The letter that ends it.
    pub kind: u8,
}

/// A width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// In the format; 0 if there is none.
    Number(u64),
    /// An argument.
    Star,
}

/// How large an integer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Nothing.
    Int,
    /// `h`
    Short,
    /// `l`, `ll`
    Long,
}

/// The parts of a format, one after the other.
#[derive(Clone, Debug)]
pub struct Pieces<'f> {
    rest: &'f [u8],
}

/// The parts of a format, without its terminator. Any bytes have an answer.
pub fn pieces(format: &[u8]) -> Pieces<'_> {
    Pieces { rest: format }
}

impl<'f> Pieces<'f> {
    /// What was not looked at yet.
    pub fn rest(&self) -> &'f [u8] {
        self.rest
    }

    fn take(&mut self, bytes: usize) -> &'f [u8] {
        let (taken, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.rest = rest;
        taken
    }
}

impl<'f> Iterator for Pieces<'f> {
    type Item = Piece<'f>;

    fn next(&mut self) -> Option<Piece<'f>> {
        match self.rest {
            [] => None,
            [b'%', b'%', ..] => {
                self.take(1);
                Some(Piece::Text(self.take(1)))
            }
            [b'%', ..] => Some(match conversion(self.rest) {
                Ok((conversion, length)) => {
                    self.take(length);
                    Piece::Conversion(conversion)
                }
                Err(length) => Piece::Unknown(self.take(length)),
            }),
            text => {
                let end = text.iter().position(|byte| *byte == b'%');
                Some(Piece::Text(self.take(end.unwrap_or(text.len()))))
            }
        }
    }
}

/// Reads a conversion and its length; else how many bytes are before the one that
/// is wrong.
fn conversion(format: &[u8]) -> Result<(Conversion<'_>, usize), usize> {
    let run = |from: usize, is_in: fn(u8) -> bool| {
        let rest = format.get(from..).unwrap_or_default();
        rest.iter().take_while(|byte| is_in(**byte)).count()
    };
    let mut at = 1;
    let length = run(at, |byte| b"-+ #0".contains(&byte));
    let flags = &format[at..at + length];
    at += length;
    let digits = |at: &mut usize| {
        let length = run(*at, |byte| byte.is_ascii_digit());
        let number = number(&format[*at..*at + length]);
        *at += length;
        number
    };
    let width = if format.get(at) == Some(&b'*') {
        at += 1;
        Field::Star
    } else {
        Field::Number(digits(&mut at))
    };
    let mut precision = None;
    if format.get(at) == Some(&b'.') {
        at += 1;
        precision = Some(digits(&mut at));
    }
    let size = match format.get(at..) {
        Some([b'h', ..]) => (Size::Short, 1),
        Some([b'l', b'l', ..]) => (Size::Long, 2),
        Some([b'l', ..]) => (Size::Long, 1),
        _ => (Size::Int, 0),
    };
    at += size.1;
    let kind = format.get(at).copied();
    let kind = kind.filter(|kind| b"diouxXeEfFgGaAcsp".contains(kind));
    let kind = kind.ok_or(at)?;
    let conversion = Conversion {
        flags,
        width,
        precision,
        size: size.0,
        kind,
    };
    Ok((conversion, at + 1))
}

fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0u64, |number, digit| {
        number
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    })
}

impl Conversion<'_> {
    /// Bytes of its argument.
    pub fn bytes(&self) -> u32 {
        match self.kind {
            b'd' | b'i' | b'o' | b'u' | b'x' | b'X' if self.size != Size::Long => 4,
            b'c' => 4,
            _ => 8,
        }
    }

    /// Whether the width is an argument, of 4 bytes, before its own.
    pub fn has_star(&self) -> bool {
        self.width == Field::Star
    }

    /// Whether its argument points to a string.
    pub fn is_string(&self) -> bool {
        self.kind == b's'
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_the_format() {
        let all: Vec<Piece<'_>> = pieces(b"a%%%-5.2lld%zx").collect();
        let conversion = Conversion {
            flags: b"-",
            width: Field::Number(5),
            precision: Some(2),
            size: Size::Long,
            kind: b'd',
        };
        let expected = [
            Piece::Text(b"a"),
            Piece::Text(b"%"),
            Piece::Conversion(conversion),
            Piece::Unknown(b"%"),
            Piece::Text(b"zx"),
        ];
        assert_eq!(all, expected);
        // What is wrong is looked at again.
        let all: Vec<Piece<'_>> = pieces(b"%.%d").collect();
        assert_eq!(all[0], Piece::Unknown(b"%."));
        assert!(matches!(&all[1], Piece::Conversion(c) if c.bytes() == 4 && !c.has_star()));
        let all: Vec<Piece<'_>> = pieces(b"%*ld").collect();
        assert!(matches!(&all[..], [Piece::Conversion(c)] if c.bytes() == 8 && c.has_star()));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_have_an_answer(format in "[%sdlh*.0-9-]{0,64}|.{0,64}") {
            let mut left = format.len();
            let mut all = pieces(format.as_bytes());
            while all.next().is_some() {
                assert!(all.rest().len() < left, "{format}");
                left = all.rest().len();
            }
            assert_eq!(left, 0);
        }
    }
}
