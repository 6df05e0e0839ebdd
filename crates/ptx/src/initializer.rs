//! Values of a variable's initializer (PTX ISA, 5.4.4 "Initializers").

use crate::cursor::{Cursor, Step};
use crate::expression::Constant;
use crate::{Error, Span, TokenKind, Variable};

const HELP: &str =
    "Values are numbers, `{ }` of values, `symbol+4`, `generic(symbol)+4` or `0xFF(symbol)`.";

/// One value of an initializer.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer, as its 64 bits.
    Integer(i64),
    /// `0f…`, as bits.
    F32(u32),
    /// A decimal or `0d…`, as bits.
    F64(u64),
    /// Address of a variable or function.
    Symbol {
        /// Its name.
        name: String,
        /// Added to it.
        offset: i64,
        /// `generic(…)`: as a generic address.
        is_generic: bool,
        /// `0xFF00(…)`: only these bits, shifted down.
        mask: Option<u64>,
    },
    /// `{ … }`
    List(Vec<Value>),
}

impl Variable<'_> {
    /// The initializer's value, `None` without one. `source` is the text of
    /// the module that the variable is from.
    pub fn initial_value(&self, source: &str) -> Result<Option<Value>, Vec<Error>> {
        let Some(Span { start, end }) = self.initializer else {
            return Ok(None);
        };
        let mut cursor = Cursor::within(source, start, end);
        let value = cursor.value();
        if value.is_ok() && !cursor.token.at_end {
            cursor.unexpected("the end", "of an initializer", HELP);
        }
        match value {
            Ok(value) if !cursor.has_errors() => Ok(Some(value)),
            _ => Err(cursor.into_errors()),
        }
    }
}

impl<'a> Cursor<'a> {
    fn value(&mut self) -> Step<Value> {
        match self.token.kind {
            TokenKind::Punct(b'{') => {
                self.enter()?;
                let list = self.values();
                self.leave();
                Ok(Value::List(list?))
            }
            TokenKind::Word if self.text() != "WARP_SZ" => self.symbol(None),
            _ => match self.constant()? {
                Constant::Single(bits) => Ok(Value::F32(bits)),
                Constant::Double(value) => Ok(Value::F64(value.to_bits())),
                // A mask: `0xFF00(symbol)`.
                value if self.at(b'(') => {
                    self.bump();
                    let symbol = self.symbol(value.bits().map(|bits| bits as u64))?;
                    self.expect(b')', "after a symbol", HELP)?;
                    Ok(symbol)
                }
                Constant::Signed(value) => Ok(Value::Integer(value)),
                Constant::Unsigned(value) => Ok(Value::Integer(value as i64)),
            },
        }
    }

    fn values(&mut self) -> Step<Vec<Value>> {
        self.bump();
        let mut list = Vec::new();
        if self.eat(b'}') {
            return Ok(list);
        }
        loop {
            list.push(self.value()?);
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b'}', "after the values", HELP)?;
        Ok(list)
    }

    fn symbol(&mut self, mask: Option<u64>) -> Step<Value> {
        let (mut name, _) = self.word("a symbol", "in an initializer", HELP)?;
        let mut offset = 0;
        let is_generic = name == "generic" && self.eat(b'(');
        if is_generic {
            (name, _) = self.word("a symbol", "after `generic(`", HELP)?;
            offset = self.symbol_offset()?;
            self.expect(b')', "after a symbol", HELP)?;
        }
        offset = self.symbol_offset()?.wrapping_add(offset);
        Ok(Value::Symbol {
            name: name.to_string(),
            offset,
            is_generic,
            mask,
        })
    }

    fn symbol_offset(&mut self) -> Step<i64> {
        if !self.eat(b'+') {
            return Ok(0);
        }
        let at = self.span();
        match self.constant()?.bits() {
            Some(offset) => Ok(offset),
            None => Err(self.fail("offset that is no integer".to_string(), at, HELP)),
        }
    }
}
