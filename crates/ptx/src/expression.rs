//! Constant expressions (PTX ISA, 4.5 "Constants" and 4.6 "Constant
//! Expressions"): C operators over 64-bit integers, and arithmetic on
//! double-precision numbers. ptxas takes them wherever it takes a number
//! (measured), though compilers hardly write them.

use crate::TokenKind;
use crate::cursor::{Cursor, Step};
use crate::number::{self, Float};

const HELP: &str = "Write a number, or a constant expression like `(4*8)+1`.";

/// Value of a constant expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Constant {
    Signed(i64),
    Unsigned(u64),
    /// `0f…`: takes no part in arithmetic.
    Single(u32),
    Double(f64),
}

impl Constant {
    /// The 64 bits of an integer.
    pub fn bits(self) -> Option<i64> {
        match self {
            Constant::Signed(value) => Some(value),
            Constant::Unsigned(value) => Some(value as i64),
            Constant::Single(_) | Constant::Double(_) => None,
        }
    }
}

impl<'a> Cursor<'a> {
    /// A whole constant expression.
    pub fn constant(&mut self) -> Step<Constant> {
        let condition = self.binary(0)?;
        if !self.at(b'?') {
            return Ok(condition);
        }
        let condition = self.integer_of(condition)?;
        self.enter()?;
        self.bump();
        let branches = self.branches();
        self.leave();
        let (yes, no) = branches?;
        Ok(if condition != 0 { yes } else { no })
    }

    fn branches(&mut self) -> Step<(Constant, Constant)> {
        let yes = self.constant()?;
        self.expect(b':', "in a conditional expression", HELP)?;
        Ok((yes, self.constant()?))
    }

    /// Operators that bind at least as tightly as `least`. Recursion is as
    /// deep as there are levels of precedence.
    fn binary(&mut self, least: u8) -> Step<Constant> {
        let mut left = self.unary()?;
        while let Some((operator, precedence)) = self.operator() {
            if precedence < least {
                break;
            }
            let at = self.span();
            for _ in 0..operator.len() {
                self.bump();
            }
            let right = self.binary(precedence + 1)?;
            left = match combine(operator, left, right) {
                Some(value) => value,
                None => {
                    let message = format!("`{operator}` has no value for these operands");
                    return Err(self.fail(
                        message,
                        at,
                        "Divide by something else than zero; mix no floats and bits.",
                    ));
                }
            };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Step<Constant> {
        match self.token.kind {
            TokenKind::Integer => {
                let text = self.text();
                let Some(value) = number::integer(text) else {
                    return Err(self.malformed());
                };
                self.bump();
                Ok(match i64::try_from(value) {
                    Ok(value) if !text.ends_with(['U', 'u']) => Constant::Signed(value),
                    _ => Constant::Unsigned(value),
                })
            }
            TokenKind::Float => {
                let Some(value) = number::float(self.text()) else {
                    return Err(self.malformed());
                };
                self.bump();
                Ok(match value {
                    Float::Single(bits) => Constant::Single(bits),
                    Float::Double(bits) => Constant::Double(f64::from_bits(bits)),
                })
            }
            TokenKind::Word if self.text() == "WARP_SZ" => {
                self.bump();
                Ok(Constant::Signed(32))
            }
            TokenKind::Punct(operator @ (b'-' | b'+' | b'!' | b'~' | b'(')) => {
                self.enter()?;
                self.bump();
                let value = self.prefixed(operator);
                self.leave();
                value
            }
            _ => Err(self.unexpected("a number", "in a constant expression", HELP)),
        }
    }

    /// What follows a sign, or an open parenthesis: a cast or an expression.
    fn prefixed(&mut self, operator: u8) -> Step<Constant> {
        if operator == b'(' {
            let cast = match self.token.kind {
                TokenKind::Directive => self.text(),
                _ => "",
            };
            if !cast.is_empty() {
                self.bump();
                self.expect(b')', "after a cast", "Write `(.s64)` or `(.u64)`.")?;
                let value = self.unary()?;
                let bits = self.integer_of(value)?;
                return Ok(if cast == ".u64" {
                    Constant::Unsigned(bits as u64)
                } else {
                    Constant::Signed(bits)
                });
            }
            let value = self.constant()?;
            self.expect(b')', "in a constant expression", "Close the parenthesis.")?;
            return Ok(value);
        }
        let value = self.unary()?;
        Ok(match (operator, value) {
            (b'+', value) => value,
            (b'-', Constant::Signed(value)) => Constant::Signed(value.wrapping_neg()),
            (b'-', Constant::Unsigned(value)) => Constant::Unsigned(value.wrapping_neg()),
            (b'-', Constant::Double(value)) => Constant::Double(-value),
            (b'-', Constant::Single(bits)) => Constant::Single(bits ^ (1 << 31)),
            (b'~', Constant::Unsigned(value)) => Constant::Unsigned(!value),
            (b'~', value) => Constant::Signed(!self.integer_of(value)?),
            (_, value) => Constant::Signed(i64::from(self.integer_of(value)? == 0)),
        })
    }

    fn integer_of(&mut self, value: Constant) -> Step<i64> {
        match value.bits() {
            Some(bits) => Ok(bits),
            None => {
                let at = self.span();
                Err(self.fail(
                    "floating-point number where an integer is needed".to_string(),
                    at,
                    HELP,
                ))
            }
        }
    }

    #[cold]
    fn malformed(&mut self) -> crate::cursor::Failed {
        let message = format!(
            "malformed number `{}`",
            self.text().chars().take(40).collect::<String>()
        );
        let help = "Numbers are decimal, 0x hexadecimal, 0 octal, 0b binary, 1.5, 0f and 8 or 0d and 16 hex digits.";
        self.fail(message, self.span(), help)
    }

    /// The binary operator ahead, with its precedence.
    #[inline]
    fn operator(&self) -> Option<(&'static str, u8)> {
        let first = match self.token.kind {
            TokenKind::Punct(first) => first,
            // A lone `%` is a remainder: registers have a name.
            TokenKind::Word if self.text() == "%" => b'%',
            _ => return None,
        };
        let second = self
            .source
            .as_bytes()
            .get(self.token.end as usize)
            .copied()
            .unwrap_or(0);
        Some(match (first, second) {
            (b'|', b'|') => ("||", 0),
            (b'&', b'&') => ("&&", 1),
            (b'|', _) => ("|", 2),
            (b'^', _) => ("^", 3),
            (b'&', _) => ("&", 4),
            (b'=', b'=') => ("==", 5),
            (b'!', b'=') => ("!=", 5),
            (b'<', b'<') => ("<<", 7),
            (b'>', b'>') => (">>", 7),
            (b'<', b'=') => ("<=", 6),
            (b'>', b'=') => (">=", 6),
            (b'<', _) => ("<", 6),
            (b'>', _) => (">", 6),
            (b'+', _) => ("+", 8),
            (b'-', _) => ("-", 8),
            (b'*', _) => ("*", 9),
            (b'/', _) => ("/", 9),
            (b'%', _) => ("%", 9),
            _ => return None,
        })
    }
}

/// One operation; `None` where it has no value. Integers wrap at 64 bits, and
/// an unsigned operand makes the operation unsigned.
fn combine(operator: &str, left: Constant, right: Constant) -> Option<Constant> {
    if let (Constant::Double(a), Constant::Double(b)) = (left, right) {
        return Some(Constant::Double(match operator {
            "+" => a + b,
            "-" => a - b,
            "*" => a * b,
            "/" => a / b,
            _ => return None,
        }));
    }
    let (a, b) = (left.bits()?, right.bits()?);
    let truth = |value: bool| Some(Constant::Signed(i64::from(value)));
    let shift = b as u32 & 63;
    let is_unsigned =
        matches!(left, Constant::Unsigned(_)) || matches!(right, Constant::Unsigned(_));
    match operator {
        "||" => return truth(a != 0 || b != 0),
        "&&" => return truth(a != 0 && b != 0),
        "==" => return truth(a == b),
        "!=" => return truth(a != b),
        // Shifts take the type of what is shifted.
        "<<" | ">>" => {
            return Some(match (operator, left) {
                ("<<", Constant::Unsigned(value)) => Constant::Unsigned(value << shift),
                ("<<", _) => Constant::Signed(a << shift),
                (_, Constant::Unsigned(value)) => Constant::Unsigned(value >> shift),
                _ => Constant::Signed(a >> shift),
            });
        }
        // Unsigned whatever the operands, as ptxas has it (measured).
        "%" => return (a as u64).checked_rem(b as u64).map(Constant::Unsigned),
        _ => {}
    }
    if is_unsigned {
        let (a, b) = (a as u64, b as u64);
        return Some(Constant::Unsigned(match operator {
            "<" => return truth(a < b),
            ">" => return truth(a > b),
            "<=" => return truth(a <= b),
            ">=" => return truth(a >= b),
            "+" => a.wrapping_add(b),
            "-" => a.wrapping_sub(b),
            "*" => a.wrapping_mul(b),
            "/" => a.checked_div(b)?,
            "&" => a & b,
            "|" => a | b,
            "^" => a ^ b,
            _ => return None,
        }));
    }
    Some(Constant::Signed(match operator {
        "<" => return truth(a < b),
        ">" => return truth(a > b),
        "<=" => return truth(a <= b),
        ">=" => return truth(a >= b),
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" if b == 0 => return None,
        "/" => a.wrapping_div(b),
        "&" => a & b,
        "|" => a | b,
        "^" => a ^ b,
        _ => return None,
    }))
}
