//! Initializers of module variables: `{1, 0f3F800000, generic(p)+8, f}`.

/// One scalar of an initializer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar<'a> {
    /// An integer.
    Integer(u64),
    /// A decimal floating-point number.
    Real(f64),
    /// `0f…`
    Single(u32),
    /// `0d…`
    Double(u64),
    /// Address of a symbol plus an offset; the value is `(address >> shift) & 0xff` if a byte is asked for.
    Symbol {
        /// Its name.
        name: &'a str,
        /// `generic(name)`.
        generic: bool,
        /// Added to the address.
        offset: i64,
        /// `0xFF00(name)`: bits to take, shifted down to bit 0.
        mask: Option<u64>,
    },
}

/// A scalar and its byte offset.
pub(crate) type Placed<'a> = (u64, Scalar<'a>);

/// A number as PTX writes it.
pub(crate) fn number(text: &str) -> Option<Scalar<'static>> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hex = |d: &str| u64::from_str_radix(d, 16).ok();
    if let Some(rest) = digits.strip_prefix("0f").or(digits.strip_prefix("0F")) {
        return Some(Scalar::Single(hex(rest)? as u32));
    }
    if let Some(rest) = digits.strip_prefix("0d").or(digits.strip_prefix("0D")) {
        return Some(Scalar::Double(hex(rest)?));
    }
    let whole = digits.strip_suffix('U').unwrap_or(digits);
    let value = if let Some(rest) = whole.strip_prefix("0x").or(whole.strip_prefix("0X")) {
        hex(rest)
    } else if let Some(rest) = whole.strip_prefix("0b").or(whole.strip_prefix("0B")) {
        u64::from_str_radix(rest, 2).ok()
    } else if whole.len() > 1 && whole.starts_with('0') && whole.bytes().all(|b| b.is_ascii_digit())
    {
        u64::from_str_radix(whole, 8).ok()
    } else {
        whole.parse().ok()
    };
    match value {
        Some(value) => Some(Scalar::Integer(if negative {
            value.wrapping_neg()
        } else {
            value
        })),
        None if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') => digits
            .parse::<f64>()
            .ok()
            .map(|x| Scalar::Real(if negative { -x } else { x })),
        None => None,
    }
}

/// Parse an initializer for elements of `element` bytes in an array of
/// `dimensions` (outermost first; an open one counts as 0).
pub(crate) fn parse<'a>(
    text: &'a str,
    element: u64,
    dimensions: &[u64],
) -> Result<Vec<Placed<'a>>, String> {
    let mut out = Vec::new();
    let mut rest = text
        .trim()
        .trim_start_matches('=')
        .trim()
        .trim_end_matches(';')
        .trim();
    value(&mut rest, element, dimensions, 0, &mut out)?;
    if rest.trim().is_empty() {
        Ok(out)
    } else {
        Err(format!("text after the initializer: {}", rest.trim()))
    }
}

fn value<'a>(
    rest: &mut &'a str,
    element: u64,
    dimensions: &[u64],
    at: u64,
    out: &mut Vec<Placed<'a>>,
) -> Result<u64, String> {
    *rest = rest.trim_start();
    let Some(inner) = rest.strip_prefix('{') else {
        out.push((at, scalar(rest)?));
        return Ok(at + element);
    };
    *rest = inner;
    let inner_dimensions = dimensions.get(1..).unwrap_or(&[]);
    let row: u64 = inner_dimensions.iter().product::<u64>() * element;
    let mut next = at;
    loop {
        *rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('}') {
            *rest = after;
            return Ok(next);
        }
        if rest.starts_with('{') {
            value(rest, element, inner_dimensions, next, out)?;
            next += row.max(element);
        } else {
            next = value(rest, element, inner_dimensions, next, out)?;
        }
        *rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix(',') {
            *rest = after;
        } else if !rest.starts_with('}') {
            return Err("initializer without its closing brace".into());
        }
    }
}

/// Text up to the next comma or closing brace outside parentheses.
fn scalar<'a>(rest: &mut &'a str) -> Result<Scalar<'a>, String> {
    let mut depth = 0;
    let end = rest
        .char_indices()
        .find(|&(_, c)| {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            depth == 0 && matches!(c, ',' | '}' | '{')
        })
        .map_or(rest.len(), |(i, _)| i);
    let (text, after) = rest.split_at(end);
    *rest = after;
    let text = text.trim();
    if let Some(number) = number(text) {
        return Ok(number);
    }
    let bad = || format!("initializer {text} is neither a number nor a symbol");
    let (head, offset) = match text.rfind(['+', '-']).filter(|&i| i > 0) {
        Some(i) if number(text[i + 1..].trim()).is_some() => {
            let Some(Scalar::Integer(magnitude)) = number(text[i + 1..].trim()) else {
                return Err(bad());
            };
            let offset = if text.as_bytes()[i] == b'-' {
                (magnitude as i64).wrapping_neg()
            } else {
                magnitude as i64
            };
            (text[..i].trim(), offset)
        }
        _ => (text, 0),
    };
    if let Some(open) = head.find('(') {
        let name = head[open + 1..].strip_suffix(')').ok_or_else(bad)?.trim();
        return match head[..open].trim() {
            "generic" => Ok(Scalar::Symbol {
                name,
                generic: true,
                offset,
                mask: None,
            }),
            mask => {
                let Some(Scalar::Integer(mask)) = number(mask) else {
                    return Err(bad());
                };
                let (name, generic) = match name.strip_prefix("generic(") {
                    Some(inner) => (inner.strip_suffix(')').unwrap_or(inner), true),
                    None => (name, false),
                };
                let (name, inner_offset) = match name.split_once('+') {
                    Some((n, o)) => match number(o.trim()) {
                        Some(Scalar::Integer(o)) => (n.trim(), o as i64),
                        _ => return Err(bad()),
                    },
                    None => (name, 0),
                };
                Ok(Scalar::Symbol {
                    name,
                    generic,
                    offset: offset + inner_offset,
                    mask: Some(mask),
                })
            }
        };
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%');
    if head.is_empty() || !head.chars().all(is_name) {
        return Err(bad());
    }
    Ok(Scalar::Symbol {
        name: head,
        generic: false,
        offset,
        mask: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_matrix_start_at_their_own_place() {
        let placed = parse("= {{1, 2}, {3}, {-4, 0x10}}", 4, &[3, 2]).unwrap();
        let places: Vec<_> = placed.iter().map(|(at, s)| (*at, s.clone())).collect();
        assert_eq!(
            places,
            [
                (0, Scalar::Integer(1)),
                (4, Scalar::Integer(2)),
                (8, Scalar::Integer(3)),
                (16, Scalar::Integer(-4i64 as u64)),
                (20, Scalar::Integer(16)),
            ]
        );
    }

    #[test]
    fn symbols_carry_offset_and_mask() {
        let placed = parse("{generic(q)+8, 0xFF00(f), g}", 8, &[3]).unwrap();
        assert_eq!(
            placed[0].1,
            Scalar::Symbol {
                name: "q",
                generic: true,
                offset: 8,
                mask: None
            }
        );
        assert_eq!(
            placed[1].1,
            Scalar::Symbol {
                name: "f",
                generic: false,
                offset: 0,
                mask: Some(0xff00)
            }
        );
        assert_eq!(
            placed[2].1,
            Scalar::Symbol {
                name: "g",
                generic: false,
                offset: 0,
                mask: None
            }
        );
        assert!(parse("{1, 2", 4, &[2]).is_err());
        assert!(parse("{a b}", 4, &[2]).is_err());
    }
}
