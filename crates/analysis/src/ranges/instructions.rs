//! From instructions to sums: one row an instruction. What has no row is
//! [`Atom::Opaque`], never a guess.

use super::expand::Expand;
use super::form::{Atom, FormId, wrap};
use super::interval::{View, Width};
use crate::code::Referent;
use crate::names::SymbolSpace;
use crate::registers::{Reaching, Write};
use crate::roles::Role;
use ptx::{Mnemonic, Modifier, OperandKind, Type};

impl Expand<'_, '_, '_> {
    /// What an instruction writes to one of its destinations.
    pub(super) fn definition(
        &mut self,
        write: Write,
        width: Width,
        place: Reaching,
    ) -> Option<FormId> {
        let at = write.instruction;
        let instruction = self.instruction(at);
        let opcode = &instruction.opcode;
        if opcode.mnemonic() == Mnemonic::Ld {
            return self.load(write, width, place);
        }
        if write.operand != 0
            || !matches!(instruction.operands.first()?.kind, OperandKind::Name(_))
            || opcode.has_any(&[Modifier::Cc, Modifier::Sat, Modifier::Relu])
        {
            return None;
        }
        if opcode.mnemonic() == Mnemonic::Cvt {
            return self.converted(at, width);
        }
        let (view, bits) = integer(opcode.types().next()?)?;
        match opcode.mnemonic() {
            Mnemonic::Cvta => self.moved_between_spaces(at, width),
            Mnemonic::Mul | Mnemonic::Mad if bits <= width => {
                self.multiplied(at, (view, bits), width)
            }
            _ if bits == width => self.computed(at, view, width),
            _ => None,
        }
    }

    /// `cvta`
    fn moved_between_spaces(&mut self, at: u32, width: Width) -> Option<FormId> {
        let opcode = &self.instruction(at).opcode;
        let form = self.operand(at, 1, width)?;
        // (The global window of the generic space is all of it.)
        if opcode.has(Modifier::Global) {
            return Some(form);
        }
        self.between_spaces(form, opcode)
    }

    /// `mul`, `mad`
    fn multiplied(&mut self, at: u32, (view, bits): (View, Width), width: Width) -> Option<FormId> {
        let opcode = &self.instruction(at).opcode;
        let (a, b) = (self.operand(at, 1, bits)?, self.operand(at, 2, bits)?);
        let product = if opcode.has(Modifier::Wide) && width == bits * 2 {
            let a = self.extended(view, a, bits, width);
            let b = self.extended(view, b, bits, width);
            self.product(a, b)
        } else if opcode.has(Modifier::Lo) && bits == width {
            self.product(a, b)
        } else if opcode.has(Modifier::Hi) && bits == width && bits <= 32 {
            let a = self.extended(view, a, bits, bits * 2);
            let b = self.extended(view, b, bits, bits * 2);
            let product = self.product(a, b);
            let by = self.forms.constant(i128::from(bits), 32);
            let shifted = Atom::ShiftRight(view, product, by);
            let high = self.forms.atom_form(shifted, bits * 2);
            self.truncated(high, bits)
        } else {
            return None;
        };
        if opcode.mnemonic() == Mnemonic::Mul {
            return Some(product);
        }
        let c = self.operand(at, 3, width)?;
        Some(self.sum(product, c, 1))
    }

    /// Arithmetic whose operands are as wide as its result.
    fn computed(&mut self, at: u32, view: View, width: Width) -> Option<FormId> {
        match self.instruction(at).opcode.mnemonic() {
            Mnemonic::Mov => self.operand(at, 1, width),
            Mnemonic::Neg => {
                let a = self.operand(at, 1, width)?;
                Some(self.scaled(a, -1))
            }
            Mnemonic::Not => {
                let a = self.operand(at, 1, width)?;
                let minus_one = self.forms.constant(-1, width);
                Some(self.sum(minus_one, a, -1))
            }
            Mnemonic::Abs => {
                let a = self.operand(at, 1, width)?;
                Some(self.forms.atom_form(Atom::Absolute(a), width))
            }
            Mnemonic::Shl => self.shifted_left(at, width),
            Mnemonic::Shr => {
                let (a, by) = (self.operand(at, 1, width)?, self.operand(at, 2, 32)?);
                Some(self.forms.atom_form(Atom::ShiftRight(view, a, by), width))
            }
            Mnemonic::Selp => {
                let (a, b) = self.two_operands(at, width)?;
                let condition = self.predicate_operand(at, 3)?;
                Some(self.forms.atom_form(Atom::Select(condition, a, b), width))
            }
            Mnemonic::Bfe if view == View::Unsigned => self.field(at, width),
            _ => self.combined(at, view, width),
        }
    }

    /// Arithmetic of two operands.
    fn combined(&mut self, at: u32, view: View, width: Width) -> Option<FormId> {
        let atom: fn(View, FormId, FormId) -> Atom = match self.instruction(at).opcode.mnemonic() {
            Mnemonic::Add => {
                let (a, b) = self.two_operands(at, width)?;
                return Some(self.sum(a, b, 1));
            }
            Mnemonic::Sub => {
                let (a, b) = self.two_operands(at, width)?;
                return Some(self.sum(a, b, -1));
            }
            Mnemonic::And => {
                let (a, b) = self.two_operands(at, width)?;
                return Some(self.masked(a, b));
            }
            Mnemonic::Or => |_, a, b| Atom::Or(a, b),
            Mnemonic::Xor => |_, a, b| Atom::Xor(a, b),
            Mnemonic::Div => Atom::Divide,
            Mnemonic::Rem => Atom::Remainder,
            Mnemonic::Min => Atom::Minimum,
            Mnemonic::Max => Atom::Maximum,
            _ => return None,
        };
        let (a, b) = self.two_operands(at, width)?;
        Some(self.forms.atom_form(atom(view, a, b), width))
    }

    fn two_operands(&mut self, at: u32, width: Width) -> Option<(FormId, FormId)> {
        Some((self.operand(at, 1, width)?, self.operand(at, 2, width)?))
    }

    /// `shl`
    fn shifted_left(&mut self, at: u32, width: Width) -> Option<FormId> {
        let (a, by) = (self.operand(at, 1, width)?, self.operand(at, 2, 32)?);
        match self.forms.form(by).as_constant() {
            Some(by @ 0..64) if by < i64::from(width) => {
                let factor = wrap(1 << by, width);
                Some(self.scaled(a, factor))
            }
            Some(_) => Some(self.forms.constant(0, width)),
            None => Some(self.forms.atom_form(Atom::ShiftLeft(a, by), width)),
        }
    }

    /// `bfe` of unsigned numbers.
    fn field(&mut self, at: u32, width: Width) -> Option<FormId> {
        let a = self.operand(at, 1, width)?;
        let place = self.operand(at, 2, 32)?;
        let count = self.operand(at, 3, 32)?;
        let count = self.forms.form(count).as_constant()?;
        if !(0..64).contains(&self.forms.form(place).as_constant()?) {
            return None;
        }
        if !(1..i64::from(width)).contains(&count) {
            return None;
        }
        let shifted = Atom::ShiftRight(View::Unsigned, a, place);
        let shifted = self.forms.atom_form(shifted, width);
        Some(self.low_bits(shifted, count as u32, width))
    }

    /// `cvt` between integers.
    fn converted(&mut self, at: u32, width: Width) -> Option<FormId> {
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

    /// `ld`: of a parameter, or of anything of its type.
    fn load(&mut self, write: Write, width: Width, place: Reaching) -> Option<FormId> {
        let (at, element) = (write.instruction, write.element);
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
            && let Some(reference) = self
                .analysis
                .code
                .references_of(at as usize)
                .iter()
                .find(|r| r.role == Role::Address && usize::from(r.operand) == address)
            && let Referent::Symbol(symbol, offset) = reference.referent
            && let SymbolSpace::EntryParameter { offset: start, .. } =
                self.analysis.code.symbols[symbol.0 as usize].space
        {
            let offset = i64::from(start)
                .checked_add(offset)?
                .checked_add(i64::from(element) * i64::from(bits / 8))?;
            let offset = u32::try_from(offset).ok()?;
            let parameter = Atom::Parameter {
                offset,
                bytes: bits / 8,
            };
            let form = self.forms.atom_form(parameter, bits);
            return Some(self.extended(view, form, bits, width));
        }
        // What memory holds may be anything of its type.
        let (low, high) = match (view, bits) {
            (_, 32..) => return None,
            (View::Signed, bits) => (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1),
            (View::Unsigned, bits) => (0, (1i64 << bits) - 1),
        };
        if bits == width {
            return None;
        }
        Some(self.forms.atom_form(Atom::Between(place, low, high), width))
    }
}

/// How an instruction of this type reads its operands; `None` for what is no
/// integer.
pub(super) fn integer(ty: Type) -> Option<(View, Width)> {
    Some(match ty {
        Type::S8 => (View::Signed, 8),
        Type::S16 => (View::Signed, 16),
        Type::S32 => (View::Signed, 32),
        Type::S64 => (View::Signed, 64),
        Type::B8 | Type::U8 => (View::Unsigned, 8),
        Type::B16 | Type::U16 => (View::Unsigned, 16),
        Type::B32 | Type::U32 => (View::Unsigned, 32),
        Type::B64 | Type::U64 => (View::Unsigned, 64),
        _ => return None,
    })
}
