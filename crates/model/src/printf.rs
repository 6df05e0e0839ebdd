//! `printf` formats, as device code uses them (C11, 7.21.6.1).

/// Text, or one conversion.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Printed as it stands.
    Text(Vec<u8>),
    /// `%…`
    Conversion {
        /// `-`, `+`, ` `, `#`, `0`.
        flags: Vec<u8>,
        /// Least number of bytes.
        width: Field,
        /// Behind the point.
        precision: Option<Field>,
        /// `l`, `ll`, `z`, `j`, `t`.
        long: bool,
        /// `h`: 2 bytes, `hh`: 1.
        short: u8,
        /// The letter that ends it.
        kind: u8,
    },
}

/// A width or a precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field {
    /// In the format.
    Number(usize),
    /// An argument.
    Star,
}

/// The value of a conversion.
pub enum Argument {
    /// Of text.
    None,
    /// Of a number, as its bits.
    Bits(u64),
    /// Of `%s`, what it points to.
    Text(Vec<u8>),
}

/// Split a format.
pub fn parse(format: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut text = Vec::new();
    let mut i = 0;
    while i < format.len() {
        if format[i] != b'%' {
            text.push(format[i]);
            i += 1;
            continue;
        }
        let start = i;
        i += 1;
        if format.get(i) == Some(&b'%') {
            text.push(b'%');
            i += 1;
            continue;
        }
        let mut flags = Vec::new();
        while let Some(&f) = format.get(i).filter(|f| b"-+ #0".contains(f)) {
            flags.push(f);
            i += 1;
        }
        let field = |i: &mut usize| {
            if format.get(*i) == Some(&b'*') {
                *i += 1;
                return Field::Star;
            }
            let mut number = 0usize;
            while let Some(d) = format.get(*i).filter(|d| d.is_ascii_digit()) {
                number = (number * 10 + usize::from(d - b'0')).min(1 << 12);
                *i += 1;
            }
            Field::Number(number)
        };
        let width = field(&mut i);
        let precision = if format.get(i) == Some(&b'.') {
            i += 1;
            Some(field(&mut i))
        } else {
            None
        };
        let (mut long, mut short) = (false, 0);
        while let Some(&l) = format.get(i).filter(|l| b"hlLjzt".contains(l)) {
            match l {
                b'h' if short == 2 => short = 1,
                b'h' => short = 2,
                _ => long = true,
            }
            i += 1;
        }
        match format.get(i) {
            Some(&kind) if b"diouxXeEfFgGaAcsp".contains(&kind) => {
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                pieces.push(Piece::Conversion {
                    flags,
                    width,
                    precision,
                    long,
                    short,
                    kind,
                });
                i += 1;
            }
            // No conversion: printed as it stands.
            _ => text.extend_from_slice(&format[start..i]),
        }
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    pieces
}

impl Piece {
    /// How many `*` it takes.
    pub fn stars(&self) -> usize {
        match self {
            Piece::Text(_) => 0,
            Piece::Conversion {
                width, precision, ..
            } => usize::from(*width == Field::Star) + usize::from(*precision == Some(Field::Star)),
        }
    }

    /// Bytes of its argument.
    pub fn size(&self) -> Option<u32> {
        match self {
            Piece::Text(_) => None,
            Piece::Conversion { kind, long, .. } => Some(match kind {
                b'e' | b'E' | b'f' | b'F' | b'g' | b'G' | b'a' | b'A' | b's' | b'p' => 8,
                b'c' => 4,
                _ if *long => 8,
                _ => 4,
            }),
        }
    }

    /// Whether its argument points to a string.
    pub fn is_string(&self) -> bool {
        matches!(self, Piece::Conversion { kind: b's', .. })
    }

    /// Most bytes that a string may print; `None` if all of it may.
    pub fn longest(&self, stars: [Option<i32>; 2]) -> Option<u64> {
        match self {
            Piece::Text(_) => None,
            Piece::Conversion {
                precision, width, ..
            } => match precision.as_ref()? {
                Field::Number(most) => Some(*most as u64),
                // A width before it takes the first star.
                Field::Star => {
                    let star = stars[usize::from(*width == Field::Star)]?;
                    u64::try_from(star).ok()
                }
            },
        }
    }

    /// Append what it prints.
    pub fn write(&self, stars: [Option<i32>; 2], argument: &Argument, out: &mut Vec<u8>) {
        let (flags, width, precision, long, short, kind) = match self {
            Piece::Text(text) => return out.extend_from_slice(text),
            Piece::Conversion {
                flags,
                width,
                precision,
                long,
                short,
                kind,
            } => (flags, width, precision, *long, *short, *kind),
        };
        let mut stars = stars.into_iter().flatten();
        let mut left = flags.contains(&b'-');
        let width = match width {
            Field::Number(n) => *n,
            Field::Star => {
                let n = stars.next().unwrap_or(0);
                left |= n < 0;
                (n.unsigned_abs() as usize).min(1 << 12)
            }
        };
        let precision = match precision {
            None => None,
            Some(Field::Number(n)) => Some(*n),
            Some(Field::Star) => usize::try_from(stars.next().unwrap_or(0))
                .ok()
                .map(|n| n.min(1 << 12)),
        };
        let bits = match argument {
            Argument::Bits(bits) => *bits,
            _ => 0,
        };
        match kind {
            b'c' => pad(out, "", &[bits as u8], width, left, false),
            b's' => {
                let text = match argument {
                    Argument::Text(text) => {
                        &text[..text.len().min(precision.unwrap_or(usize::MAX))]
                    }
                    _ => b"",
                };
                pad(out, "", text, width, left, false);
            }
            _ => {
                let number = Number {
                    flags,
                    precision,
                    long,
                    short,
                };
                let (prefix, digits, zeros) = number.digits(kind, bits);
                let zeros = zeros && flags.contains(&b'0');
                pad(out, prefix, digits.as_bytes(), width, left, zeros);
            }
        }
    }
}

/// How a number is to be written.
struct Number<'p> {
    flags: &'p [u8],
    precision: Option<usize>,
    long: bool,
    short: u8,
}

impl Number<'_> {
    /// Prefix (sign, 0x), digits, and whether zeros may pad them.
    fn digits(&self, kind: u8, bits: u64) -> (&'static str, String, bool) {
        let precision = self.precision;
        match kind {
            b'd' | b'i' => {
                let value = match (self.long, self.short) {
                    (true, _) => bits as i64,
                    (_, 2) => i64::from(bits as i16),
                    (_, 1) => i64::from(bits as i8),
                    _ => i64::from(bits as i32),
                };
                let digits = value.unsigned_abs().to_string();
                (
                    self.sign(value < 0),
                    least_digits(digits, precision),
                    precision.is_none(),
                )
            }
            b'u' | b'x' | b'X' | b'o' => {
                let value = match (self.long, self.short) {
                    (true, _) => bits,
                    (_, 2) => bits & 0xffff,
                    (_, 1) => bits & 0xff,
                    _ => bits & 0xffff_ffff,
                };
                let digits = match kind {
                    b'u' => value.to_string(),
                    b'x' => format!("{value:x}"),
                    b'X' => format!("{value:X}"),
                    _ => format!("{value:o}"),
                };
                let prefix = match kind {
                    b'x' if self.alternate() && value != 0 => "0x",
                    b'X' if self.alternate() && value != 0 => "0X",
                    b'o' if self.alternate() => "0",
                    _ => "",
                };
                (prefix, least_digits(digits, precision), precision.is_none())
            }
            b'p' => ("0x", format!("{bits:x}"), false),
            _ => {
                let x = f64::from_bits(bits);
                let digits = float(x.abs(), kind, precision, self.alternate());
                (self.sign(x.is_sign_negative()), digits, x.is_finite())
            }
        }
    }

    fn sign(&self, negative: bool) -> &'static str {
        if negative {
            "-"
        } else if self.flags.contains(&b'+') {
            "+"
        } else if self.flags.contains(&b' ') {
            " "
        } else {
            ""
        }
    }

    fn alternate(&self) -> bool {
        self.flags.contains(&b'#')
    }
}

fn least_digits(digits: String, precision: Option<usize>) -> String {
    match precision {
        Some(0) if digits == "0" => String::new(),
        Some(least) => format!("{digits:0>least$}"),
        None => digits,
    }
}

fn pad(out: &mut Vec<u8>, prefix: &str, body: &[u8], width: usize, left: bool, zeros: bool) {
    let fill = width.saturating_sub(prefix.len() + body.len());
    if !left && !zeros {
        out.resize(out.len() + fill, b' ');
    }
    out.extend_from_slice(prefix.as_bytes());
    if !left && zeros {
        out.resize(out.len() + fill, b'0');
    }
    out.extend_from_slice(body);
    if left {
        out.resize(out.len() + fill, b' ');
    }
}

/// `1.5e+00`: Rust writes exponents without sign and padding.
fn exponent(x: f64, precision: usize, alternate: bool) -> String {
    let text = format!("{x:.precision$e}");
    let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let point = if alternate && precision == 0 { "." } else { "" };
    format!(
        "{mantissa}{point}e{}{:02}",
        if power < 0 { '-' } else { '+' },
        power.abs()
    )
}

/// A magnitude by `%e`, `%f`, `%g`, `%a`.
fn float(x: f64, kind: u8, precision: Option<usize>, alternate: bool) -> String {
    let text = if x.is_nan() {
        "nan".to_string()
    } else if x.is_infinite() {
        "inf".to_string()
    } else {
        match kind.to_ascii_lowercase() {
            b'f' => {
                let precision = precision.unwrap_or(6);
                format!(
                    "{x:.precision$}{}",
                    if alternate && precision == 0 { "." } else { "" }
                )
            }
            b'e' => exponent(x, precision.unwrap_or(6), alternate),
            b'a' => hexadecimal(x, precision),
            _ => {
                // C11: %e with P−1 if the exponent is below −4 or at least P.
                let significant = precision.unwrap_or(6).max(1);
                let rounded = format!("{x:.*e}", significant - 1);
                let power: i32 = rounded
                    .split_once('e')
                    .and_then(|(_, p)| p.parse().ok())
                    .unwrap_or(0);
                let text = if power < -4 || power >= significant as i32 {
                    exponent(x, significant - 1, alternate)
                } else {
                    format!("{x:.*}", (significant as i32 - 1 - power).max(0) as usize)
                };
                if alternate {
                    text
                } else {
                    without_trailing_zeros(&text)
                }
            }
        }
    };
    if kind.is_ascii_uppercase() {
        text.to_uppercase()
    } else {
        text
    }
}

fn without_trailing_zeros(text: &str) -> String {
    let (mantissa, rest) = match text.find('e') {
        Some(i) => text.split_at(i),
        None => (text, ""),
    };
    let mantissa = if mantissa.contains('.') {
        mantissa.trim_end_matches('0').trim_end_matches('.')
    } else {
        mantissa
    };
    format!("{mantissa}{rest}")
}

/// `0x1.8p+0`
fn hexadecimal(x: f64, precision: Option<usize>) -> String {
    let bits = x.to_bits();
    let (mut fraction, biased) = (bits & ((1 << 52) - 1), (bits >> 52) & 0x7ff);
    let (mut lead, power) = if biased == 0 {
        (0, if fraction == 0 { 0 } else { -1022 })
    } else {
        (1u64, biased as i64 - 1023)
    };
    let digits = match precision {
        Some(digits) if digits < 13 => {
            // Round to nearest, ties to even.
            let shift = 52 - 4 * digits as u32;
            let whole = lead << 52 | fraction;
            let (kept, cut) = (whole >> shift, whole & ((1 << shift) - 1));
            let half = 1u64 << (shift - 1);
            let kept = kept + u64::from(cut > half || cut == half && kept & 1 != 0);
            lead = kept >> (4 * digits);
            fraction = if digits == 0 {
                0
            } else {
                kept & ((1 << (4 * digits)) - 1)
            };
            if digits == 0 {
                String::new()
            } else {
                format!(".{fraction:0digits$x}")
            }
        }
        Some(digits) => format!(".{fraction:013x}{}", "0".repeat(digits - 13)),
        None => {
            let text = format!("{fraction:013x}");
            let text = text.trim_end_matches('0');
            if text.is_empty() {
                String::new()
            } else {
                format!(".{text}")
            }
        }
    };
    format!(
        "0x{lead}{digits}p{}{}",
        if power < 0 { '-' } else { '+' },
        power.abs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(format: &str, bits: u64) -> String {
        let mut out = Vec::new();
        for piece in parse(format.as_bytes()) {
            let argument = if piece.size().is_some() {
                Argument::Bits(bits)
            } else {
                Argument::None
            };
            piece.write([None; 2], &argument, &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_as_c_prints_them() {
        assert_eq!(one("[%5d]", -42i32 as u32 as u64), "[  -42]");
        assert_eq!(one("[%-5d]%%", 42), "[42   ]%");
        assert_eq!(one("%05d", -42i32 as u32 as u64), "-0042");
        assert_eq!(one("%+d", 42), "+42");
        assert_eq!(one("%.4d", 42), "0042");
        assert_eq!(one("%u", u64::MAX), "4294967295");
        assert_eq!(one("%llu", u64::MAX), "18446744073709551615");
        assert_eq!(one("%ld", u64::MAX), "-1");
        assert_eq!(one("%#x %X", 255), "0xff FF");
        assert_eq!(one("%hhd", 0x1ff), "-1");
    }

    #[test]
    fn floats_as_c_prints_them() {
        let f = |format: &str, x: f64| one(format, x.to_bits());
        assert_eq!(f("%f", 1.5), "1.500000");
        assert_eq!(f("%.2f", -2.345), "-2.35");
        assert_eq!(f("%8.3f|", 2.71728), "   2.717|");
        assert_eq!(f("%e", 12345.678), "1.234568e+04");
        assert_eq!(f("%g", 100000.0), "100000");
        assert_eq!(f("%g", 1e6), "1e+06");
        assert_eq!(f("%g", 0.0001), "0.0001");
        assert_eq!(f("%g", 0.00001), "1e-05");
        assert_eq!(f("%G", f64::INFINITY), "INF");
        assert_eq!(f("%a", 1.5), "0x1.8p+0");
        assert_eq!(f("%08.2f", -1.5), "-0001.50");
    }

    #[test]
    fn odd_formats_print_as_they_stand() {
        assert_eq!(one("100%", 0), "100%");
        assert_eq!(one("%y", 0), "%y");
    }
}
