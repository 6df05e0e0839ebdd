//! Operands of instructions.

use crate::cursor::{Cursor, Step};
use crate::number::{self, Float};
use crate::{Address, Operand, OperandKind, Span, TokenKind};

const OPERAND_HELP: &str =
    "Write a register, name, number, `[address]`, `{vector}` or `(list)`, and separate operands by commas.";
const ADDRESS_HELP: &str = "Write `[name]`, `[name+4]`, `[name+-4]`, or `[name, {x, y}]` for tensors and textures.";

impl<'a> Cursor<'a> {
    /// `a, b, c` up to, not including, `close`.
    pub fn operands(&mut self, close: u8, context: &str) -> Step<Vec<Operand<'a>>> {
        let mut list = Vec::new();
        self.operands_into(&mut list, close, context)?;
        Ok(list)
    }

    /// Like [`Cursor::operands`], into a vector that exists.
    pub fn operands_into(&mut self, list: &mut Vec<Operand<'a>>, close: u8, context: &str) -> Step<()> {
        if self.at(close) {
            return Ok(());
        }
        loop {
            list.push(self.operand()?);
            if !self.eat(b',') {
                break;
            }
        }
        if self.at(close) {
            return Ok(());
        }
        Err(self.unexpected(&format!("`,` or `{}`", close as char), context, closing_help(close)))
    }

    /// One operand.
    #[inline]
    pub fn operand(&mut self) -> Step<Operand<'a>> {
        let start = self.token.start;
        let kind = match self.token.kind {
            TokenKind::Word => self.name_operand()?,
            TokenKind::Punct(b'[') => self.address()?,
            TokenKind::Integer | TokenKind::Float | TokenKind::Punct(b'-' | b'+' | b'~') => self.number_operand()?,
            TokenKind::Punct(b'{') => OperandKind::Vector(self.nested(b'}', "in a vector")?),
            TokenKind::Punct(b'(') => OperandKind::List(self.nested(b')', "in a list")?),
            TokenKind::Punct(b'!') => {
                self.bump();
                let (name, _) = self.word("a predicate", "after `!`", "Negate a predicate register: `!%p1`.")?;
                OperandKind::Not(name)
            }
            TokenKind::String => {
                let text = self.text();
                self.bump();
                OperandKind::Text(text)
            }
            _ => return Err(self.unexpected("an operand", "in an instruction", OPERAND_HELP)),
        };
        Ok(Operand { kind, span: self.since(start) })
    }

    /// A name, `a|b`, `a+4`, or the sink `_`.
    #[inline]
    fn name_operand(&mut self) -> Step<OperandKind<'a>> {
        let name = self.text();
        self.bump();
        Ok(match self.token.kind {
            TokenKind::Punct(b'|') => {
                self.bump();
                let help = "Write two registers, or `_` for one that is not wanted: `%r1|%p1`.";
                let (other, _) = self.word("a register", "after `|`", help)?;
                OperandKind::Pair(name, other)
            }
            TokenKind::Punct(b'+' | b'-') => match self.offset_terms() {
                Some(offset) => OperandKind::NameOffset(name, offset),
                None => return Err(self.unexpected("an integer", "after a sign", OPERAND_HELP)),
            },
            _ if name == "_" => OperandKind::Sink,
            _ => OperandKind::Name(name),
        })
    }

    /// `+4`, `+-4`, `-4`, `+4+4`: the sum. Stops before what does not fit;
    /// `None` if a sign is not followed by an integer.
    fn offset_terms(&mut self) -> Option<i64> {
        let mut sum = 0i64;
        while let TokenKind::Punct(sign @ (b'+' | b'-')) = self.token.kind {
            let mut negative = sign == b'-';
            self.bump();
            while let TokenKind::Punct(inner @ (b'+' | b'-')) = self.token.kind {
                negative ^= inner == b'-';
                self.bump();
            }
            if self.token.kind != TokenKind::Integer {
                return None;
            }
            let value = number::integer(self.text())? as i64;
            self.bump();
            sum = sum.wrapping_add(if negative { value.wrapping_neg() } else { value });
        }
        Some(sum)
    }

    /// A number with signs before it.
    fn number_operand(&mut self) -> Step<OperandKind<'a>> {
        let (mut negative, mut inverted) = (false, false);
        while let TokenKind::Punct(sign @ (b'-' | b'+' | b'~')) = self.token.kind {
            match sign {
                b'-' => negative ^= true,
                b'~' => inverted ^= true,
                _ => {}
            }
            self.bump();
        }
        let text = self.text();
        let kind = match self.token.kind {
            TokenKind::Integer => number::integer(text).map(|bits| {
                let value = if negative { (bits as i64).wrapping_neg() } else { bits as i64 };
                OperandKind::Integer(if inverted { !value } else { value })
            }),
            TokenKind::Float if !inverted => number::float(text).map(|value| match value {
                Float::Single(bits) => OperandKind::F32(bits ^ (u32::from(negative) << 31)),
                Float::Double(bits) => OperandKind::F64(bits ^ (u64::from(negative) << 63)),
            }),
            _ => return Err(self.unexpected("a number", "after a sign", "Only numbers can be signed: use `neg` or `not`.")),
        };
        let Some(kind) = kind else {
            let message = format!("malformed number `{}`", text.chars().take(40).collect::<String>());
            let help = "Numbers are decimal, 0x hexadecimal, 0 octal, 0b binary, 1.5, 0f and 8 or 0d and 16 hex digits.";
            return Err(self.fail(message, self.span(), help));
        };
        self.bump();
        Ok(kind)
    }

    /// `{ … }` or `( … )` with operands inside.
    fn nested(&mut self, close: u8, context: &str) -> Step<Vec<Operand<'a>>> {
        self.enter()?;
        self.bump();
        let list = self.operands(close, context);
        self.leave();
        let list = list?;
        self.bump();
        Ok(list)
    }

    /// `[base + offset, coordinates]`, and `.unified` after it.
    fn address(&mut self) -> Step<OperandKind<'a>> {
        self.bump();
        let start = self.token.start;
        let (base, base_span, offset) = match self.token.kind {
            TokenKind::Word => {
                let (name, span) = (self.text(), self.span());
                self.bump();
                if matches!(self.token.kind, TokenKind::Punct(b'+' | b'-')) {
                    let Some(offset) = self.offset_terms() else {
                        return Err(self.unexpected("an integer", "in an address", ADDRESS_HELP));
                    };
                    (Some(name), span, offset)
                } else {
                    (Some(name), span, 0)
                }
            }
            TokenKind::Integer | TokenKind::Punct(b'-') => match self.number_operand()? {
                OperandKind::Integer(value) => {
                    let Some(more) = self.offset_terms() else {
                        return Err(self.unexpected("an integer", "in an address", ADDRESS_HELP));
                    };
                    (None, Span { start, end: start }, value.wrapping_add(more))
                }
                _ => return Err(self.unexpected("an integer", "in an address", ADDRESS_HELP)),
            },
            _ => return Err(self.unexpected("a name or number", "in an address", ADDRESS_HELP)),
        };
        let coordinates = if self.eat(b',') {
            self.enter()?;
            let list = self.operands(b']', "in an address");
            self.leave();
            list?
        } else {
            Vec::new()
        };
        self.expect(b']', "after an address", ADDRESS_HELP)?;
        while self.token.kind == TokenKind::Directive {
            self.bump();
        }
        Ok(OperandKind::Address(Address { base, base_span, offset, coordinates }))
    }
}

fn closing_help(close: u8) -> &'static str {
    match close {
        b';' => "Separate operands by commas and end the instruction with `;`.",
        b'}' => "Close the vector with `}`.",
        b')' => "Close the list with `)`.",
        _ => "Close the address with `]`.",
    }
}
