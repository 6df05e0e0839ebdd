//! `printf` as device code has it: formats, what they read, and what they print
//! (CUDA C++ Programming Guide, "Formatted Output"; C11, 7.21.6.1).

mod format;
mod strings;

pub use format::{Conversion, Field, Piece, Pieces, Size, pieces};
pub use strings::{Most, Printed, PrintedString, printed};

/// The value of a conversion.
pub enum Argument {
    /// Of text.
    None,
    /// Of a number, as its bits.
    Bits(u64),
    /// Of `%s`, what it points to; `None` for null.
    Text(Option<Vec<u8>>),
}

/// Bytes that a width or a precision adds at most.
const WIDEST: u64 = 1 << 12;

impl Piece<'_> {
    /// Appends what it prints. `star` is the value of a width that is an
    /// argument.
    pub fn write(&self, star: Option<i32>, argument: &Argument, out: &mut Vec<u8>) {
        match self {
            Piece::Text(text) | Piece::Unknown(text) => out.extend_from_slice(text),
            Piece::Conversion(conversion) => conversion.write(star, argument, out),
        }
    }
}

impl Conversion<'_> {
    fn write(&self, star: Option<i32>, argument: &Argument, out: &mut Vec<u8>) {
        let mut left = self.flags.contains(&b'-');
        let width = match self.width {
            Field::Number(n) => n,
            Field::Star => {
                let n = star.unwrap_or(0);
                left |= n < 0;
                n.unsigned_abs().into()
            }
        };
        let width = width.min(WIDEST) as usize;
        let precision = self.precision.map(|n| n.min(WIDEST) as usize);
        let bits = match argument {
            Argument::Bits(bits) => *bits,
            _ => 0,
        };
        match self.kind {
            b'c' => pad(out, "", &[bits as u8], width, left, false),
            b's' => {
                let text: &[u8] = match argument {
                    Argument::Text(Some(text)) => text,
                    Argument::Text(None) => b"(null)",
                    _ => b"",
                };
                let most = self.precision.unwrap_or(u64::MAX);
                let most = usize::try_from(most).unwrap_or(usize::MAX);
                pad(out, "", &text[..text.len().min(most)], width, left, false);
            }
            kind => {
                let number = Number {
                    flags: self.flags,
                    precision,
                    size: self.size,
                };
                let (prefix, digits, zeros) = number.digits(kind, bits);
                let zeros = zeros && self.flags.contains(&b'0');
                pad(out, prefix, digits.as_bytes(), width, left, zeros);
            }
        }
    }
}

/// How a number is to be written.
struct Number<'p> {
    flags: &'p [u8],
    precision: Option<usize>,
    size: Size,
}

impl Number<'_> {
    /// Prefix (sign, 0x), digits, and whether zeros may pad them.
    fn digits(&self, kind: u8, bits: u64) -> (&'static str, String, bool) {
        let precision = self.precision;
        match kind {
            b'd' | b'i' => {
                let value = match self.size {
                    Size::Long => bits as i64,
                    Size::Short => i64::from(bits as i16),
                    Size::Int => i64::from(bits as i32),
                };
                let digits = value.unsigned_abs().to_string();
                (
                    self.sign(value < 0),
                    least_digits(digits, precision),
                    precision.is_none(),
                )
            }
            b'u' | b'x' | b'X' | b'o' => {
                let value = match self.size {
                    Size::Long => bits,
                    Size::Short => bits & 0xffff,
                    Size::Int => bits & 0xffff_ffff,
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
            b'p' if bits == 0 => ("", "(nil)".into(), false),
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

    /// Every conversion gets the same bits.
    fn one(format: &str, bits: u64) -> String {
        let mut out = Vec::new();
        for piece in pieces(format.as_bytes()) {
            let argument = match &piece {
                Piece::Conversion(_) => Argument::Bits(bits),
                _ => Argument::None,
            };
            piece.write(None, &argument, &mut out);
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
        assert_eq!(one("%hd %hu", 0x1_ffff), "-1 65535");
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
    fn pointers_and_strings_that_are_null() {
        assert_eq!(one("%p", 0x7f00), "0x7f00");
        assert_eq!(one("[%p|%8p|%-8p]", 0), "[(nil)|   (nil)|(nil)   ]");
        let text = |format: &str, text: Option<&str>| {
            let mut out = Vec::new();
            for piece in pieces(format.as_bytes()) {
                let argument = Argument::Text(text.map(|text| text.as_bytes().to_vec()));
                piece.write(Some(-9), &argument, &mut out);
            }
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text("[%s|%8s]", None), "[(null)|  (null)]");
        assert_eq!(
            text("[%.2s|%5.3s|%*s]", Some("abcd")),
            "[ab|  abc|abcd     ]"
        );
    }

    #[test]
    fn what_the_driver_does_not_know_prints_as_it_stands() {
        for format in [
            "100%", "%y", "%hhd", "%zu", "%jd", "%td", "%Lf", "%.*f", "%*.*s", "%I64d", "%qd",
            "%'d", "%n", "%llld", "%-08.3", "%5%%",
        ] {
            let expected = format.replace("%%", "%");
            assert_eq!(one(format, 7), expected, "{format}");
        }
        assert_eq!(one("%hhd %d %zu %u", 7), "%hhd 7 %zu 7");
    }
}
