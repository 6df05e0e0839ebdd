//! The low bits of registers: what an address is congruent to modulo a small
//! power of two, as far as the text of a function tells. Whether an access is
//! aligned depends on nothing else.
//!
//! The answer for a register covers all its definitions, wherever they stand:
//! compilers give most registers one, and the step of a loop is a multiple of
//! what the loop accesses. The analysis is optimistic: a register has no value
//! until one of its definitions has, and loses bits until nothing changes.

use crate::Analysis;
use crate::code::{Code, Referent};
use crate::names::SymbolSpace;
use crate::ranges::registers::{Class, Register, Registers, Write};
use ptx::{Instruction, OperandKind, Type};

/// Low bits that are followed. No instruction asks for more than 128 bytes.
const MOST_BITS: u8 = 8;
/// Rounds over the definitions of a function after which nothing is known.
const MOST_ROUNDS: usize = 32;

/// What a value is congruent to, modulo two to the power of `bits`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LowBits {
    /// It is congruent to the pointer at this offset of the parameters, plus
    /// `rest`; `None`: to `rest`.
    pub parameter: Option<u32>,
    /// Bits that are known.
    pub bits: u8,
    /// Less than two to the power of `bits`.
    pub rest: u8,
}

impl LowBits {
    /// Nothing is known.
    pub const UNKNOWN: LowBits = LowBits {
        parameter: None,
        bits: 0,
        rest: 0,
    };

    fn new(parameter: Option<u32>, bits: u8, rest: u64) -> LowBits {
        let bits = bits.min(MOST_BITS);
        if bits == 0 {
            return LowBits::UNKNOWN;
        }
        LowBits {
            parameter,
            bits,
            rest: (rest & ((1 << bits) - 1)) as u8,
        }
    }

    /// Of a number.
    pub fn constant(value: i64) -> LowBits {
        LowBits::new(None, MOST_BITS, value as u64)
    }

    /// Of a multiple of `alignment`.
    fn multiple_of(alignment: u32) -> LowBits {
        LowBits::new(None, alignment.trailing_zeros() as u8, 0)
    }

    /// The residue modulo `alignment`, a power of two, if that many bits are
    /// known: of the value itself or, with a parameter, of what is added to
    /// that.
    pub fn modulo(self, alignment: u64) -> Option<u64> {
        (alignment.trailing_zeros() <= u32::from(self.bits))
            .then(|| u64::from(self.rest) & (alignment - 1))
    }

    /// Low bits of `rest` that are zero; all that are followed where it is 0.
    fn zeros(self) -> u8 {
        match self.rest {
            0 => self.bits,
            rest => rest.trailing_zeros() as u8,
        }
    }

    /// The same for who has no use for a parameter's value.
    fn number(self) -> LowBits {
        match self.parameter {
            None => self,
            Some(_) => LowBits::UNKNOWN,
        }
    }

    fn join(self, other: LowBits) -> LowBits {
        if self.parameter != other.parameter {
            return LowBits::UNKNOWN;
        }
        let agree = (self.rest ^ other.rest).trailing_zeros() as u8;
        let bits = self.bits.min(other.bits).min(agree);
        LowBits::new(self.parameter, bits, self.rest.into())
    }

    fn add(self, other: LowBits) -> LowBits {
        let parameter = match (self.parameter, other.parameter) {
            (one, None) | (None, one) => one,
            _ => return LowBits::UNKNOWN,
        };
        let sum = u64::from(self.rest) + u64::from(other.rest);
        LowBits::new(parameter, self.bits.min(other.bits), sum)
    }

    fn subtract(self, other: LowBits) -> LowBits {
        let parameter = match (self.parameter, other.parameter) {
            (one, None) => one,
            (one, other) if one == other => None,
            _ => return LowBits::UNKNOWN,
        };
        let difference = u64::from(self.rest).wrapping_sub(other.rest.into());
        LowBits::new(parameter, self.bits.min(other.bits), difference)
    }

    /// `(a + 2^m x)(b + 2^n y)` is `ab` and multiples of `2^m b`, `2^n a`,
    /// `2^(m + n)`.
    fn multiply(self, other: LowBits) -> LowBits {
        let (this, other) = (self.number(), other.number());
        let bits = (this.bits + other.zeros()).min(other.bits + this.zeros());
        let product = u64::from(this.rest) * u64::from(other.rest);
        LowBits::new(None, bits, product)
    }

    fn shift_left(self, by: Option<i64>) -> LowBits {
        let this = self.number();
        match by {
            Some(by @ 0..64) => {
                LowBits::new(None, this.bits + by as u8, u64::from(this.rest) << by)
            }
            // What is a multiple stays one.
            _ => LowBits::new(None, this.zeros(), 0),
        }
    }

    fn shift_right(self, by: Option<i64>) -> LowBits {
        match (self.parameter, by) {
            (None, Some(by @ 0..64)) => LowBits::new(
                None,
                self.bits.saturating_sub(by as u8),
                u64::from(self.rest) >> by,
            ),
            _ => LowBits::UNKNOWN,
        }
    }

    /// A bit of `and` is known where both are, or one is known to be zero.
    fn and(self, other: LowBits) -> LowBits {
        let ones = (1u64 << MOST_BITS) - 1;
        for (value, mask) in [(self, other), (other, self)] {
            if mask == LowBits::new(None, MOST_BITS, ones) {
                return value;
            }
        }
        let known = |side: LowBits, bit: u8| side.parameter.is_none() && bit < side.bits;
        let zero = |side: LowBits, bit: u8| known(side, bit) && side.rest >> bit & 1 == 0;
        let bits = (0..MOST_BITS)
            .take_while(|&bit| {
                (known(self, bit) && known(other, bit)) || zero(self, bit) || zero(other, bit)
            })
            .count() as u8;
        let both = (0..bits).filter(|&bit| !zero(self, bit) && !zero(other, bit));
        LowBits::new(None, bits, both.map(|bit| 1u64 << bit).sum())
    }

    fn combine(self, other: LowBits, with: fn(u64, u64) -> u64) -> LowBits {
        for (value, zero) in [(self, other), (other, self)] {
            if zero == LowBits::constant(0) {
                return value;
            }
        }
        if self.parameter.is_some() || other.parameter.is_some() {
            return LowBits::UNKNOWN;
        }
        let rest = with(self.rest.into(), other.rest.into());
        LowBits::new(None, self.bits.min(other.bits), rest)
    }

    /// The remainder of a division by a constant differs from the value by a
    /// multiple of the constant.
    fn remainder(self, by: Option<i64>) -> LowBits {
        match by {
            Some(by) if by != 0 && self.parameter.is_none() => {
                let bits = self.bits.min(by.trailing_zeros() as u8);
                LowBits::new(None, bits, self.rest.into())
            }
            _ => LowBits::UNKNOWN,
        }
    }
}

/// The low bits of all registers of a function.
#[derive(Debug, Default)]
pub(crate) struct Alignments<'a> {
    /// `None`: its registers cannot be told apart.
    registers: Option<Registers<'a>>,
    /// By register; `None`: nothing writes it.
    known: Vec<Option<LowBits>>,
}

impl<'a> Alignments<'a> {
    pub(crate) fn of(analysis: &Analysis<'_, 'a>) -> Self {
        let code = &analysis.code;
        let Some(registers) = Registers::of(code, &analysis.cfg, &analysis.dominators) else {
            return Alignments::default();
        };
        let mut writes: Vec<(Register, Write)> = registers
            .all_writes()
            .filter(|(register, _)| matches!(registers.class(*register), Class::Bits(_)))
            .collect();
        writes.sort_by_key(|(_, write)| write.instruction);
        let mut known: Vec<Option<LowBits>> = vec![None; registers.len()];
        for _ in 0..MOST_ROUNDS {
            let mut changed = false;
            for (register, write) in &writes {
                let new = Definition {
                    code,
                    registers: &registers,
                    known: &known,
                    at: write.instruction,
                };
                let Some(new) = new.written(write) else {
                    continue;
                };
                let slot = &mut known[register.0 as usize];
                let joined = slot.map_or(new, |old| old.join(new));
                changed |= *slot != Some(joined);
                *slot = Some(joined);
            }
            if !changed {
                return Alignments {
                    registers: Some(registers),
                    known,
                };
            }
        }
        Alignments::default()
    }

    /// Of the register or variable that the address in an operand is based
    /// on, without the operand's own constant.
    pub(crate) fn of_address(&self, code: &Code<'_, 'a>, at: u32, operand: usize) -> LowBits {
        let instruction = code.instructions[at as usize].instruction;
        let Some(OperandKind::Address(address)) =
            instruction.operands.get(operand).map(|o| &o.kind)
        else {
            return LowBits::UNKNOWN;
        };
        let (Some(registers), Some(name)) = (&self.registers, address.base) else {
            return LowBits::UNKNOWN;
        };
        let definition = Definition {
            code,
            registers,
            known: &self.known,
            at,
        };
        definition.named(name, operand).unwrap_or(LowBits::UNKNOWN)
    }
}

/// One instruction that writes registers.
struct Definition<'x, 'm, 'a> {
    code: &'x Code<'m, 'a>,
    registers: &'x Registers<'a>,
    known: &'x [Option<LowBits>],
    at: u32,
}

impl<'a> Definition<'_, '_, 'a> {
    fn instruction(&self) -> &Instruction<'a> {
        self.code.instructions[self.at as usize].instruction
    }

    /// What a register or variable holds; `None`: nothing yet.
    fn named(&self, name: &str, operand: usize) -> Option<LowBits> {
        let scope = self.code.instructions[self.at as usize].scope;
        if let Some(register) = self.registers.named(scope, name) {
            return match self.registers.class(register) {
                Class::Bits(_) => self.known[register.0 as usize],
                _ => Some(LowBits::UNKNOWN),
            };
        }
        let references = self.code.references_of(self.at as usize);
        let symbol = references
            .iter()
            .find_map(|reference| match reference.referent {
                Referent::Symbol(id, _) if usize::from(reference.operand) == operand => Some(id),
                _ => None,
            });
        Some(symbol.map_or(LowBits::UNKNOWN, |id| {
            let symbol = &self.code.symbols[id.0 as usize];
            LowBits::multiple_of(symbol.alignment)
        }))
    }

    fn operand(&self, index: usize) -> Option<LowBits> {
        match self.instruction().operands.get(index).map(|o| &o.kind) {
            Some(OperandKind::Integer(value)) => Some(LowBits::constant(*value)),
            Some(OperandKind::Name(name)) => self.named(name, index),
            Some(OperandKind::NameOffset(name, offset)) => {
                Some(self.named(name, index)?.add(LowBits::constant(*offset)))
            }
            _ => Some(LowBits::UNKNOWN),
        }
    }

    fn constant(&self, index: usize) -> Option<i64> {
        match self.instruction().operands.get(index)?.kind {
            OperandKind::Integer(value) => Some(value),
            _ => None,
        }
    }

    /// What a write leaves; `None`: it depends on what has no value yet.
    fn written(&self, write: &Write) -> Option<LowBits> {
        let instruction = self.instruction();
        let opcode = &instruction.opcode;
        let unknown = Some(LowBits::UNKNOWN);
        if write.unknown {
            return unknown;
        }
        if opcode.base() == "ld" {
            return Some(self.parameter(write).unwrap_or(LowBits::UNKNOWN));
        }
        let is_one = matches!(
            instruction.operands.first().map(|o| &o.kind),
            Some(OperandKind::Name(_))
        );
        if write.operand != 0 || !is_one || !opcode.types().all(is_integer) || opcode.has("sat") {
            return unknown;
        }
        let is_whole = !opcode.has("hi");
        match opcode.base() {
            "mov" | "cvta" => self.operand(1),
            "cvt" => self.operand(1),
            "add" => Some(self.operand(1)?.add(self.operand(2)?)),
            "sub" => Some(self.operand(1)?.subtract(self.operand(2)?)),
            "mul" if is_whole => Some(self.operand(1)?.multiply(self.operand(2)?)),
            "mad" if is_whole => {
                let product = self.operand(1)?.multiply(self.operand(2)?);
                Some(product.add(self.operand(3)?))
            }
            "shl" => Some(self.operand(1)?.shift_left(self.constant(2))),
            "shr" => Some(self.operand(1)?.shift_right(self.constant(2))),
            "and" => Some(self.operand(1)?.and(self.operand(2)?)),
            "or" => Some(self.operand(1)?.combine(self.operand(2)?, |a, b| a | b)),
            "xor" => Some(self.operand(1)?.combine(self.operand(2)?, |a, b| a ^ b)),
            "neg" => Some(LowBits::constant(0).subtract(self.operand(1)?)),
            "not" => Some(LowBits::constant(-1).subtract(self.operand(1)?)),
            "rem" => Some(self.operand(1)?.remainder(self.constant(2))),
            // One of the two; what has no value yet adds nothing.
            "selp" | "min" | "max" => match (self.operand(1), self.operand(2)) {
                (Some(a), Some(b)) => Some(a.join(b)),
                (one, other) => one.or(other),
            },
            _ => unknown,
        }
    }

    /// Eight bytes of the parameters.
    fn parameter(&self, write: &Write) -> Option<LowBits> {
        let instruction = self.instruction();
        let opcode = &instruction.opcode;
        let is_wide = opcode.types().last().is_some_and(|ty| ty.bytes() == 8);
        let element = match instruction.operands.first()?.kind {
            OperandKind::Name(_) => 0,
            OperandKind::Vector(_) => u32::from(write.element),
            _ => return None,
        };
        let reference = self.code.address_of(self.at as usize, 1)?;
        let Referent::Symbol(id, offset) = reference.referent else {
            return None;
        };
        let start = match self.code.symbols[id.0 as usize].space {
            SymbolSpace::EntryParameter { offset, .. } | SymbolSpace::Argument { offset } => offset,
            _ => return None,
        };
        let offset = u32::try_from(offset).ok()?.checked_add(start)?;
        let parameter = offset.checked_add(8 * element)?;
        is_wide.then_some(LowBits::new(Some(parameter), MOST_BITS, 0))
    }
}

fn is_integer(ty: Type) -> bool {
    matches!(
        ty,
        Type::B8
            | Type::U8
            | Type::S8
            | Type::B16
            | Type::U16
            | Type::S16
            | Type::B32
            | Type::U32
            | Type::S32
            | Type::B64
            | Type::U64
            | Type::S64
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModuleSymbols;

    /// The low bits of the address of the last access.
    fn of(body: &str) -> LowBits {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n\
             .global .align 16 .b8 table[64];\n\
             .visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n)\n{{\n\
             .reg .pred %p<4>;\n.reg .b32 %r<10>;\n.reg .b64 %rd<10>;\n\
             ld.param.u64 %rd1, [p];\nld.param.u64 %rd2, [q];\nld.param.u32 %r1, [n];\nmov.u32 %r2, %tid.x;\n\
             {body}\nst.global.u32 [%rd9], %r1;\nret;\n}}\n"
        );
        let module = ptx::parse(&text).unwrap();
        let symbols = ModuleSymbols::of(&module);
        let function = module.functions().next().unwrap();
        let analysis = Analysis::of(&symbols, function).unwrap();
        let last = analysis
            .code
            .instructions
            .iter()
            .rposition(|inst| inst.instruction.opcode.base() == "st")
            .unwrap();
        analysis.low_bits(last as u32, 0)
    }

    fn low(parameter: Option<u32>, bits: u8, rest: u8) -> LowBits {
        LowBits {
            parameter,
            bits,
            rest,
        }
    }

    #[test]
    fn a_scaled_index_keeps_the_alignment_of_its_pointer() {
        let scaled =
            "mul.wide.s32 %rd3, %r2, 4;\nadd.s64 %rd4, %rd2, %rd3;\nadd.s64 %rd9, %rd4, 2;";
        assert_eq!(of(scaled), low(Some(8), 2, 2));
        let twice = "shl.b32 %r3, %r2, 2;\nmul.wide.s32 %rd3, %r3, 4;\nadd.s64 %rd9, %rd1, %rd3;";
        assert_eq!(of(twice), low(Some(0), 4, 0));
        let by_bytes = "cvt.u64.u32 %rd3, %r2;\nadd.s64 %rd9, %rd1, %rd3;";
        assert_eq!(of(by_bytes), LowBits::UNKNOWN);
        let odd = "mad.lo.s32 %r3, %r2, 12, 4;\ncvt.s64.s32 %rd3, %r3;\nadd.s64 %rd9, %rd1, %rd3;";
        assert_eq!(of(odd), low(Some(0), 2, 0));
    }

    #[test]
    fn a_scaled_parameter_is_a_multiple() {
        let text = |scaled: &str| format!("{scaled}\nadd.s64 %rd9, %rd1, %rd3;");
        assert_eq!(of(&text("shl.b64 %rd3, %rd2, 2;")), low(Some(0), 2, 0));
        assert_eq!(of(&text("mul.lo.s64 %rd3, %rd2, 24;")), low(Some(0), 3, 0));
        assert_eq!(of(&text("mov.b64 %rd3, %rd2;")), LowBits::UNKNOWN);
    }

    #[test]
    fn variables_are_aligned_as_declared() {
        let text = "mul.wide.s32 %rd3, %r2, 32;\nmov.u64 %rd4, table+8;\nadd.s64 %rd9, %rd4, %rd3;";
        assert_eq!(of(text), low(None, 4, 8));
    }

    #[test]
    fn masks_clear_bits() {
        assert_eq!(of("and.b64 %rd9, %rd1, -16;"), low(None, 4, 0));
        assert_eq!(
            of("and.b64 %rd3, %rd1, -16;\nor.b64 %rd9, %rd3, 4;"),
            low(None, 4, 4)
        );
        assert_eq!(
            of("and.b64 %rd9, %rd1, 72057594037927935;"),
            low(Some(0), 8, 0)
        );
    }

    #[test]
    fn a_loop_loses_what_its_step_does_not_keep() {
        let with_step = |step: &str| {
            format!(
                "mov.b64 %rd9, %rd1;\nmov.u32 %r3, 0;\n$loop:\nadd.s64 %rd9, %rd9, {step};\nadd.s32 %r3, %r3, 1;\n\
                 setp.lt.s32 %p1, %r3, %r1;\n@%p1 bra $loop;"
            )
        };
        assert_eq!(of(&with_step("8")), low(Some(0), 3, 0));
        assert_eq!(of(&with_step("1")), LowBits::UNKNOWN);
    }

    #[test]
    fn of_two_pointers_nothing_is_known() {
        let text = "setp.lt.s32 %p1, %r1, %r2;\nselp.b64 %rd9, %rd1, %rd2, %p1;";
        assert_eq!(of(text), LowBits::UNKNOWN);
    }

    /// Every operation against all small numbers that its operands stand for.
    #[test]
    fn operations_hold_for_all_that_they_stand_for() {
        let numbers: Vec<LowBits> = (0..=4u8)
            .flat_map(|bits| (0..1u64 << bits).map(move |rest| LowBits::new(None, bits, rest)))
            .collect();
        let members = |of: LowBits| {
            (0u64..64).filter(move |n| n & ((1 << of.bits) - 1) == u64::from(of.rest))
        };
        type Rule = (fn(LowBits, LowBits) -> LowBits, fn(u64, u64) -> u64);
        let rules: [Rule; 6] = [
            (LowBits::add, u64::wrapping_add),
            (LowBits::subtract, u64::wrapping_sub),
            (LowBits::multiply, u64::wrapping_mul),
            (LowBits::and, |a, b| a & b),
            (|a, b| a.combine(b, |a, b| a | b), |a, b| a | b),
            (|a, b| a.combine(b, |a, b| a ^ b), |a, b| a ^ b),
        ];
        for &a in &numbers {
            for &b in &numbers {
                for (abstracted, exact) in rules {
                    let result = abstracted(a, b);
                    for x in members(a) {
                        for y in members(b) {
                            let value = exact(x, y) & ((1 << result.bits) - 1);
                            assert_eq!(value, u64::from(result.rest), "{a:?} {b:?} {x} {y}");
                        }
                    }
                }
            }
            for by in 0..4 {
                let (left, right) = (a.shift_left(Some(by)), a.shift_right(Some(by)));
                for x in members(a) {
                    assert_eq!(x << by & ((1 << left.bits) - 1), u64::from(left.rest));
                    assert_eq!(x >> by & ((1 << right.bits) - 1), u64::from(right.rest));
                }
            }
        }
    }
}
