//! Values of number tokens (PTX ISA, 4.5 "Constants").

/// Value of an integer token: decimal, `0x`, `0b`, octal with a leading `0`,
/// each with an optional `U`. `None` if it is malformed or passes 64 bits.
pub(crate) fn integer(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    if let [digit] = bytes
        && digit.is_ascii_digit()
    {
        return Some(u64::from(digit - b'0'));
    }
    let text = text.strip_suffix(['U', 'u']).unwrap_or(text);
    let (digits, radix) = match bytes {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', b'b' | b'B', ..] => (&text[2..], 2),
        [b'0', _, ..] if text.len() > 1 => (&text[1..], 8),
        _ => (text, 10),
    };
    // `from_str_radix` would take a sign; a token has none.
    u64::from_str_radix(digits, radix).ok()
}

/// A floating-point literal, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float {
    Single(u32),
    Double(u64),
}

/// Value of a float token: `0f` and 8 hex digits, `0d` and 16, or a decimal,
/// which PTX evaluates in double precision.
pub(crate) fn float(text: &str) -> Option<Float> {
    match text.as_bytes() {
        [b'0', b'f' | b'F', digits @ ..] if digits.len() == 8 => {
            u32::from_str_radix(&text[2..], 16).ok().map(Float::Single)
        }
        [b'0', b'd' | b'D', digits @ ..] if digits.len() == 16 => {
            u64::from_str_radix(&text[2..], 16).ok().map(Float::Double)
        }
        [b'0', b'f' | b'F' | b'd' | b'D', ..] => None,
        _ => text
            .parse::<f64>()
            .ok()
            .map(|value| Float::Double(value.to_bits())),
    }
}
