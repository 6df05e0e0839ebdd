//! Amounts as Kubernetes writes them: a number with a suffix.

/// Suffixes for powers of 1024, the largest first.
const BINARY: [(&str, u32); 6] = [
    ("Ei", 60),
    ("Pi", 50),
    ("Ti", 40),
    ("Gi", 30),
    ("Mi", 20),
    ("Ki", 10),
];

/// Suffixes for powers of 1000.
const DECIMAL: [(&str, u32); 6] = [
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

/// A text that is no amount of bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no number of whole bytes as Kubernetes writes it, such as 4Gi")]
pub struct QuantityError(String);

/// How an amount of bytes is written: with the largest suffix that leaves a whole
/// number, as the API server writes it.
pub fn written(bytes: u64) -> String {
    let suffix = BINARY
        .iter()
        .find(|(_, bits)| bytes != 0 && bytes.trailing_zeros() >= *bits);
    match suffix {
        Some((suffix, bits)) => format!("{}{suffix}", bytes >> bits),
        None => bytes.to_string(),
    }
}

/// The amount of bytes that a text is: digits, perhaps a fraction, and a suffix or an
/// exponent of ten.
///
/// # Errors
///
/// It is no such text, or not a whole number of bytes below 2^63.
pub fn quantity(text: &str) -> Result<u64, QuantityError> {
    parse(text).ok_or_else(|| QuantityError(text.to_owned()))
}

fn parse(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let digits: u128 = format!("0{whole}{fraction}").parse().ok()?;
    let factor = factor(suffix)?;
    let divisor = 10u128.checked_pow(fraction.len().try_into().ok()?)?;
    let scaled = digits.checked_mul(factor)?;
    let bytes = scaled / divisor;
    (scaled % divisor == 0 && bytes < 1 << 63).then_some(bytes as u64)
}

fn factor(suffix: &str) -> Option<u128> {
    if suffix.is_empty() {
        return Some(1);
    }
    let of = |table: &[(&str, u32)]| {
        let found = table.iter().find(|(name, _)| *name == suffix);
        found.map(|(_, power)| *power)
    };
    if let Some(bits) = of(&BINARY) {
        return Some(1 << bits);
    }
    if let Some(power) = of(&DECIMAL) {
        return Some(10u128.pow(power));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let exponent = exponent.strip_prefix('+').unwrap_or(exponent);
    let is_number = exponent.bytes().all(|byte| byte.is_ascii_digit());
    let power = is_number.then(|| exponent.parse().ok()).flatten()?;
    10u128.checked_pow(power)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_are_read_as_kubernetes_writes_them() {
        for (text, bytes) in [
            ("0", 0),
            ("64Mi", 64 << 20),
            ("4Gi", 4 << 30),
            ("1.5Gi", 3 << 29),
            (".5Ki", 512),
            ("2.", 2),
            ("2G", 2_000_000_000),
            ("12e3", 12_000),
            ("1E+2", 100),
            ("1E", 1_000_000_000_000_000_000),
            ("8589934592", 8 << 30),
        ] {
            assert_eq!(quantity(text), Ok(bytes), "{text}");
        }
        for text in [
            "", ".", "Gi", "-1", "1gi", "1 Gi", "0.1", "1m", "8Ei", "1e99", "1e", "1e-1", "1.2.3",
            "1Gi1", "1e+", "١",
        ] {
            assert_eq!(quantity(text), Err(QuantityError(text.into())), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(bytes in 0u64..1 << 63, shift in 0u32..63) {
            for bytes in [bytes, bytes >> shift << shift] {
                prop_assert_eq!(quantity(&written(bytes)), Ok(bytes));
            }
        }

        #[test]
        fn no_text_breaks_it(text in ".{0,40}", digits in "[0-9.eEKMGi+]{0,60}") {
            let _ = (quantity(&text), quantity(&digits));
        }
    }
}
