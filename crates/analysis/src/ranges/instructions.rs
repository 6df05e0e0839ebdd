//! From instructions to affine expressions: one row an [`Operation`]. The
//! result of an operation without a row is [`Symbolic::Opaque`].

use super::affine::{AffineId, Symbolic};
use super::expand::Expand;
use crate::code::{Reference, Referent, ValueId};
use crate::operation::{Binary, Operation, Part, View, Width, integer};
use ptx::{Mnemonic, Modifier, OperandKind};

impl Expand<'_, '_, '_> {
    /// The value that an instruction writes to one of its destinations.
    pub(super) fn definition(
        &mut self,
        (at, write): (u32, Reference),
        width: Width,
        value: ValueId,
    ) -> Option<AffineId> {
        let instruction = self.instruction(at);
        let opcode = &instruction.opcode;
        if opcode.mnemonic() == Mnemonic::Ld {
            return self.load((at, write), width, value);
        }
        if write.operand != 0
            || !matches!(instruction.operands.first()?.kind, OperandKind::Name(_))
            || opcode.has(Modifier::Cc)
        {
            return None;
        }
        let (operation, view, bits) = Operation::of(opcode)?;
        match operation {
            Operation::Convert => self.converted(at, width),
            Operation::Space => self.moved_between_spaces(at, width),
            Operation::Multiply(part) if bits <= width => {
                self.product(at, part, (view, bits), width)
            }
            Operation::MultiplyAdd(part) if bits <= width => {
                let product = self.product(at, part, (view, bits), width)?;
                let c = self.operand(at, 3, width)?;
                Some(self.sum(product, c, 1))
            }
            Operation::Field(View::Signed) => None,
            _ if bits == width => self.computed(at, operation, width),
            _ => None,
        }
    }

    /// `cvta`
    fn moved_between_spaces(&mut self, at: u32, width: Width) -> Option<AffineId> {
        let opcode = &self.instruction(at).opcode;
        let affine = self.operand(at, 1, width)?;
        // (Global addresses are the same in the generic space.)
        if opcode.has(Modifier::Global) {
            return Some(affine);
        }
        self.between_spaces(affine, opcode)
    }

    /// The product of the first two operands.
    fn product(
        &mut self,
        at: u32,
        part: Part,
        (view, bits): (View, Width),
        width: Width,
    ) -> Option<AffineId> {
        let (a, b) = (self.operand(at, 1, bits)?, self.operand(at, 2, bits)?);
        let whole = |this: &mut Self| {
            let a = this.extended(view, a, bits, bits * 2);
            let b = this.extended(view, b, bits, bits * 2);
            this.binary(Binary::Multiply, a, b)
        };
        match part {
            Part::Wide if width == bits * 2 => Some(whole(self)),
            Part::Low if width == bits => Some(self.binary(Binary::Multiply, a, b)),
            Part::High if width == bits && bits <= 32 => {
                let product = whole(self);
                let by = self.expressions.constant(i128::from(bits), 32);
                let high = self.binary(Binary::ShiftRight(view), product, by);
                Some(self.truncated(high, bits))
            }
            _ => None,
        }
    }

    /// Arithmetic whose first operand is as wide as its result.
    fn computed(&mut self, at: u32, operation: Operation, width: Width) -> Option<AffineId> {
        let a = self.operand(at, 1, width)?;
        Some(match operation {
            Operation::Copy => a,
            Operation::Negate => self.scaled(a, -1),
            Operation::Not => {
                let minus_one = self.expressions.constant(-1, width);
                self.sum(minus_one, a, -1)
            }
            Operation::Absolute => self
                .expressions
                .symbolic_affine(Symbolic::Absolute(a), width),
            Operation::Add | Operation::Subtract => {
                let b = self.operand(at, 2, width)?;
                let by = if operation == Operation::Add { 1 } else { -1 };
                self.sum(a, b, by)
            }
            Operation::Binary(binary) => {
                let bits = match binary {
                    Binary::ShiftLeft | Binary::ShiftRight(_) => 32,
                    _ => width,
                };
                let b = self.operand(at, 2, bits)?;
                self.binary(binary, a, b)
            }
            Operation::Select => {
                let b = self.operand(at, 2, width)?;
                let condition = self.predicate_operand(at, 3)?;
                self.expressions
                    .symbolic_affine(Symbolic::Select(condition, a, b), width)
            }
            Operation::Field(View::Unsigned) => self.field(at, a, width)?,
            _ => return None,
        })
    }

    /// `bfe` of unsigned numbers.
    fn field(&mut self, at: u32, a: AffineId, width: Width) -> Option<AffineId> {
        let place = self.operand(at, 2, 32)?;
        let count = self.operand(at, 3, 32)?;
        let count = self.expressions.affine(count).as_constant()?;
        if !(0..64).contains(&self.expressions.affine(place).as_constant()?) {
            return None;
        }
        if !(1..i64::from(width)).contains(&count) {
            return None;
        }
        let shifted = self.binary(Binary::ShiftRight(View::Unsigned), a, place);
        Some(self.low_bits(shifted, count as u32, width))
    }

    /// `cvt` between integers.
    fn converted(&mut self, at: u32, width: Width) -> Option<AffineId> {
        let mut types = self.instruction(at).opcode.types();
        let (to, from) = (types.next()?, types.next()?);
        let ((to_view, to_bits), (from_view, from_bits)) = (integer(to)?, integer(from)?);
        let source = self.operand(at, 1, from_bits)?;
        let value = if to_bits < from_bits {
            self.truncated(source, to_bits)
        } else {
            self.extended(from_view, source, from_bits, to_bits)
        };
        // A wider register holds the result extended as its type says.
        (to_bits <= width).then(|| self.extended(to_view, value, to_bits, width))
    }

    /// `ld`: a parameter, or any value of its type.
    fn load(
        &mut self,
        (at, write): (u32, Reference),
        width: Width,
        value: ValueId,
    ) -> Option<AffineId> {
        let instruction = self.instruction(at);
        let opcode = &instruction.opcode;
        let (view, bits) = integer(opcode.types().last()?)?;
        if bits > width {
            return None;
        }
        let address = instruction
            .operands
            .iter()
            .position(|operand| matches!(operand.kind, OperandKind::Address(_)))?;
        let reads_parameter = opcode.has(Modifier::Param) || opcode.has(Modifier::ParamEntry);
        if reads_parameter
            && let Some(reference) = self.analysis.code.address_of(at as usize, address)
            && let Referent::Symbol(symbol, offset) = reference.referent
            && self.analysis.code.function.is_entry
            && let bytes = u64::from(bits / 8)
            && let Some(offset) = offset.checked_add(i64::from(write.element) * bytes as i64)
            && let Some(offset) =
                self.analysis.code.symbols[symbol.0 as usize].parameter_place(offset, bytes)
        {
            let parameter = Symbolic::Parameter {
                offset,
                bytes: bits / 8,
            };
            let affine = self.expressions.symbolic_affine(parameter, bits);
            return Some(self.extended(view, affine, bits, width));
        }
        // Memory may hold any value of the type.
        let (low, high) = match (view, bits) {
            (_, 32..) => return None,
            (View::Signed, bits) => (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1),
            (View::Unsigned, bits) => (0, (1i64 << bits) - 1),
        };
        if bits == width {
            return None;
        }
        Some(
            self.expressions
                .symbolic_affine(Symbolic::Between(value, low, high), width),
        )
    }
}
