//! Operands of instructions.

use crate::cursor::{Cursor, Step};
use crate::expression::Constant;
use crate::{Address, Operand, OperandKind, Span, TokenKind};

const OPERAND_HELP: &str = "Write a register, name, number, `[address]`, `{vector}` or `(list)`, and separate operands by commas.";
const ADDRESS_HELP: &str =
    "Write `[name]`, `[name+4]`, `[name+-4]`, or `[name, {x, y}]` for tensors and textures.";

impl<'a> Cursor<'a> {
    /// `a, b, c` up to, not including, `close`, into `list`.
    pub fn operands(&mut self, list: &mut Vec<Operand<'a>>, close: u8, context: &str) -> Step<()> {
        if self.at(close) {
            return Ok(());
        }
        loop {
            list.push(self.operand(close)?);
            if !self.eat(b',') {
                break;
            }
        }
        if self.at(close) {
            return Ok(());
        }
        Err(self.unfinished(
            &format!("`,` or `{}`", close as char),
            context,
            closing_help(close),
        ))
    }

    /// One operand of a list that `close` ends.
    #[inline]
    fn operand(&mut self, close: u8) -> Step<Operand<'a>> {
        let start = self.token.start;
        let kind = match self.token.kind {
            TokenKind::Word => self.name_operand()?,
            TokenKind::Punct(b'[') => self.address()?,
            TokenKind::Integer | TokenKind::Float | TokenKind::Punct(b'-' | b'+' | b'~') => {
                self.number()?
            }
            TokenKind::Punct(b'{') => OperandKind::Vector(self.nested(b'}', "in a vector")?),
            TokenKind::Punct(b'(') => self.parenthesis()?,
            TokenKind::Punct(b'!') => self.negated()?,
            TokenKind::String => {
                let text = self.text();
                self.bump();
                OperandKind::Text(text)
            }
            _ => {
                let what = if close == b';' {
                    "an operand or `;`"
                } else {
                    "an operand"
                };
                return Err(self.unfinished(what, "in an instruction", OPERAND_HELP));
            }
        };
        Ok(Operand {
            kind,
            span: self.since(start),
        })
    }

    /// A name, `a|b`, `a+4`, `a[4]`, or the sink `_`.
    #[inline]
    fn name_operand(&mut self) -> Step<OperandKind<'a>> {
        let name = self.text();
        let start = self.token.start;
        self.bump();
        Ok(match self.token.kind {
            TokenKind::Punct(b'|') => {
                self.bump();
                let help = "Write two registers, or `_` for one that is not needed: `%r1|%p1`.";
                let (other, _) = self.word("a register", "after `|`", help)?;
                OperandKind::Pair(name, other)
            }
            TokenKind::Punct(b'+') => OperandKind::NameOffset(name, self.offset()?),
            TokenKind::Punct(b'[') => {
                self.bump();
                self.constant()?;
                self.expect(b']', "after an index", "Write `name[4]`.")?;
                OperandKind::Text(self.slice(start, self.previous_end))
            }
            TokenKind::Directive if is_component(self.text()) => {
                self.bump();
                OperandKind::Text(self.slice(start, self.previous_end))
            }
            _ if name == "_" => OperandKind::Sink,
            _ => OperandKind::Name(name),
        })
    }

    /// `+` and an integer expression: an offset.
    fn offset(&mut self) -> Step<i64> {
        self.bump();
        let at = self.span();
        match self.constant()?.bits() {
            Some(offset) => Ok(offset),
            None => Err(self.fail("offset that is no integer".to_string(), at, ADDRESS_HELP)),
        }
    }

    /// A constant expression.
    fn number(&mut self) -> Step<OperandKind<'a>> {
        Ok(match self.constant()? {
            Constant::Signed(value) => OperandKind::Integer(value),
            Constant::Unsigned(value) => OperandKind::Integer(value as i64),
            Constant::Single(bits) => OperandKind::F32(bits),
            Constant::Double(value) => OperandKind::F64(value.to_bits()),
        })
    }

    /// `!%p`, or the constant `!4`.
    fn negated(&mut self) -> Step<OperandKind<'a>> {
        let rest = self.source[self.token.end as usize..].trim_start();
        if rest.starts_with(|c: char| c.is_ascii_digit() || c == '(') {
            return self.number();
        }
        self.bump();
        let (name, _) = self.word(
            "a predicate",
            "after `!`",
            "Negate a predicate register: `!%p1`.",
        )?;
        Ok(OperandKind::Not(name))
    }

    /// `(a, b)` of a call; elsewhere a constant expression.
    fn parenthesis(&mut self) -> Step<OperandKind<'a>> {
        if !self.in_call {
            self.number()
        } else {
            Ok(OperandKind::List(self.nested(b')', "in a list")?))
        }
    }

    /// `{ … }` or `( … )` with operands inside.
    fn nested(&mut self, close: u8, context: &str) -> Step<Vec<Operand<'a>>> {
        self.enter()?;
        self.bump();
        let mut list = Vec::new();
        let result = self.operands(&mut list, close, context);
        self.leave();
        result?;
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
                let offset = if self.at(b'+') { self.offset()? } else { 0 };
                (Some(name), span, offset)
            }
            TokenKind::Integer | TokenKind::Punct(b'-' | b'(' | b'~') => {
                let Some(value) = self.constant()?.bits() else {
                    return Err(self.unexpected("an integer", "in an address", ADDRESS_HELP));
                };
                (None, Span { start, end: start }, value)
            }
            _ => return Err(self.unexpected("a name or number", "in an address", ADDRESS_HELP)),
        };
        let mut coordinates = Vec::new();
        if self.eat(b',') {
            self.enter()?;
            let result = self.operands(&mut coordinates, b']', "in an address");
            self.leave();
            result?;
        }
        self.expect(b']', "after an address", ADDRESS_HELP)?;
        if self.at_directive(".unified") {
            self.bump();
        }
        Ok(OperandKind::Address(Address {
            base,
            base_span,
            offset,
            coordinates,
        }))
    }
}

/// `%tid .x`: a component with a blank before its dot.
fn is_component(text: &str) -> bool {
    matches!(
        text,
        ".x" | ".y"
            | ".z"
            | ".w"
            | ".r"
            | ".g"
            | ".b"
            | ".a"
            | ".b0"
            | ".b1"
            | ".b2"
            | ".b3"
            | ".h0"
            | ".h1"
    )
}

fn closing_help(close: u8) -> &'static str {
    match close {
        b';' => "Separate operands by commas and end the instruction with `;`.",
        b'}' => "Close the vector with `}`.",
        b')' => "Close the list with `)`.",
        _ => "Close the address with `]`.",
    }
}
