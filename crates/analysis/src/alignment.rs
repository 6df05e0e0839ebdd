//! The low bits of registers: what an address is congruent to modulo a small
//! power of two, as far as the text of a function tells. Whether an access is
//! aligned depends on nothing else.
//!
//! The answer for an address covers the definitions that reach it, so that a
//! register may hold an index here and a pointer there. The analysis is
//! optimistic: a value has no low bits until one that it is made of has, and
//! loses bits until nothing changes; the step of a loop is mostly a multiple of
//! what the loop accesses. Only what addresses depend on is looked at.

use crate::cfg::Cfg;
use crate::code::{Code, Referent};
use crate::dominators::Dominators;
use crate::names::{Class, Register, SymbolSpace};
use crate::registers::{Reaching, Registers, Write};
use ptx::{Mnemonic, Modifier, OperandKind, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Low bits that are followed. No instruction asks for more than 128 bytes.
const MOST_BITS: u8 = 8;
/// Blocks that may be passed on the way to definitions, an instruction.
/// Structured code passes two or three.
const MOST_STEPS: usize = 64;

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

    /// Of an unsigned or signed field: the bits above it are not distinguished.
    fn field(self, field: Option<(i64, i64)>) -> LowBits {
        match field {
            Some((from @ 0..64, bits @ 0..=64)) => {
                let shifted = self.shift_right(Some(from));
                LowBits::new(None, shifted.bits.min(bits as u8), shifted.rest.into())
            }
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

/// The low bits of what the addresses of a function are based on.
#[derive(Debug, Default)]
pub(crate) struct Alignments {
    /// By instruction and operand. What is missing is not known.
    known: FxHashMap<(u32, u8), LowBits>,
}

impl Alignments {
    pub(crate) fn of(code: &Code<'_, '_>, cfg: &Cfg, dominators: &Dominators) -> Self {
        let Some(registers) = Registers::of(code, cfg, dominators) else {
            return Alignments::default();
        };
        let mut solver = Solver {
            code,
            cfg,
            dominators,
            registers,
            values: Vec::new(),
            numbers: FxHashMap::default(),
            pending: Vec::new(),
        };
        let mut addresses = Vec::new();
        for (at, inst) in code.instructions.iter().enumerate() {
            let at = at as u32;
            if !cfg.is_reachable(cfg.block_of[at as usize]) {
                continue;
            }
            for (operand, kind) in inst.instruction.operands.iter().enumerate().take(256) {
                let OperandKind::Address(address) = &kind.kind else {
                    continue;
                };
                if let Some(base) = address.base {
                    let input = solver.named(at, base, operand);
                    addresses.push(((at, operand as u8), input));
                }
            }
        }
        if solver.expand().is_none() {
            return Alignments::default();
        }
        let held = solver.solve();
        let known = addresses
            .into_iter()
            .filter_map(|(place, input)| Some((place, input.low_bits(&held)?)))
            .filter(|(_, low)| *low != LowBits::UNKNOWN)
            .collect();
        Alignments { known }
    }

    /// Of the register or variable that the address in an operand is based
    /// on, without the operand's own constant.
    pub(crate) fn of_address(&self, at: u32, operand: usize) -> LowBits {
        let place = u8::try_from(operand).map(|operand| (at, operand));
        place
            .ok()
            .and_then(|place| self.known.get(&place))
            .copied()
            .unwrap_or(LowBits::UNKNOWN)
    }
}

/// What an operand contributes to a value.
#[derive(Clone, Copy, Debug)]
enum Input {
    /// This.
    Known(LowBits),
    /// A value, plus a constant.
    Value(u32, i64),
    /// A register that nothing has written yet: no run reads it.
    Nothing,
}

impl Input {
    /// `None`: nothing yet.
    fn low_bits(self, held: &[Option<LowBits>]) -> Option<LowBits> {
        match self {
            Input::Known(low) => Some(low),
            Input::Value(value, 0) => held[value as usize],
            Input::Value(value, plus) => Some(held[value as usize]?.add(LowBits::constant(plus))),
            Input::Nothing => None,
        }
    }
}

/// How a value comes from others.
#[derive(Debug)]
enum Step {
    /// It is one of these: a copy, a choice, a phi.
    OneOf(SmallVec<[Input; 2]>),
    Add([Input; 2]),
    Subtract([Input; 2]),
    Multiply([Input; 2]),
    MultiplyAdd([Input; 3]),
    /// By a constant, if it is one.
    ShiftLeft(Input, Option<i64>),
    ShiftRight(Input, Option<i64>),
    /// So many bits from the first given one on.
    Field(Input, Option<(i64, i64)>),
    Remainder(Input, Option<i64>),
    And([Input; 2]),
    Or([Input; 2]),
    Xor([Input; 2]),
}

impl Step {
    fn inputs(&self) -> &[Input] {
        match self {
            Step::OneOf(inputs) => inputs,
            Step::Add(two)
            | Step::Subtract(two)
            | Step::Multiply(two)
            | Step::And(two)
            | Step::Or(two)
            | Step::Xor(two) => two,
            Step::MultiplyAdd(three) => three,
            Step::ShiftLeft(one, _)
            | Step::ShiftRight(one, _)
            | Step::Field(one, _)
            | Step::Remainder(one, _) => std::slice::from_ref(one),
        }
    }

    /// What it makes of values; `None`: it depends on what holds nothing yet.
    fn taken(&self, held: &[Option<LowBits>]) -> Option<LowBits> {
        let of = |input: &Input| input.low_bits(held);
        let both = |two: &[Input; 2], operation: fn(LowBits, LowBits) -> LowBits| {
            Some(operation(of(&two[0])?, of(&two[1])?))
        };
        match self {
            // What holds nothing yet adds nothing.
            Step::OneOf(inputs) => inputs.iter().filter_map(of).reduce(LowBits::join),
            Step::Add(two) => both(two, LowBits::add),
            Step::Subtract(two) => both(two, LowBits::subtract),
            Step::Multiply(two) => both(two, LowBits::multiply),
            Step::MultiplyAdd([a, b, c]) => Some(of(a)?.multiply(of(b)?).add(of(c)?)),
            Step::ShiftLeft(value, by) => Some(of(value)?.shift_left(*by)),
            Step::ShiftRight(value, by) => Some(of(value)?.shift_right(*by)),
            Step::Field(value, field) => Some(of(value)?.field(*field)),
            Step::Remainder(value, by) => Some(of(value)?.remainder(*by)),
            Step::And(two) => both(two, LowBits::and),
            Step::Or(two) => both(two, |a, b| a.combine(b, |a, b| a | b)),
            Step::Xor(two) => both(two, |a, b| a.combine(b, |a, b| a ^ b)),
        }
    }
}

/// Finds the values that addresses depend on, and then their low bits.
struct Solver<'x, 'm, 'a> {
    code: &'x Code<'m, 'a>,
    cfg: &'x Cfg,
    dominators: &'x Dominators,
    registers: Registers,
    values: Vec<Step>,
    numbers: FxHashMap<Reaching, u32>,
    /// Values whose steps are still to be found, last first.
    pending: Vec<(u32, Reaching)>,
}

impl<'a> Solver<'_, '_, 'a> {
    /// Finds the steps of all values that were asked for. `None`: it takes too
    /// long.
    fn expand(&mut self) -> Option<()> {
        let most = MOST_STEPS * self.code.instructions.len() + (1 << 20);
        while let Some((value, reaching)) = self.pending.pop() {
            self.values[value as usize] = match reaching {
                Reaching::Write(register, index) => {
                    let write = self.registers.write(register, index);
                    let mut step = self.written(&write);
                    let before = self.code.instructions[write.instruction as usize];
                    if before.instruction.guard.is_some() {
                        step = self.unless_guarded(step, register, &write);
                    }
                    step
                }
                Reaching::Phi(register, block) => {
                    let cfg = self.cfg;
                    let mut inputs = SmallVec::new();
                    for &from in &cfg.blocks[block.0 as usize].predecessors {
                        if cfg.is_reachable(from) {
                            let held = self.registers.at_end(cfg, self.dominators, register, from);
                            inputs.push(self.input(held));
                        }
                    }
                    Step::OneOf(inputs)
                }
                Reaching::Undefined(_) => Step::OneOf(SmallVec::new()),
            };
            if self.registers.steps() > most {
                return None;
            }
        }
        Some(())
    }

    /// A predicated instruction may leave what was there before.
    fn unless_guarded(&mut self, step: Step, register: Register, write: &Write) -> Step {
        let old = self.before(register, write.instruction);
        match step {
            Step::OneOf(mut inputs) => {
                inputs.push(old);
                Step::OneOf(inputs)
            }
            step => {
                let new = self.values.len() as u32;
                self.values.push(step);
                Step::OneOf(SmallVec::from_buf([Input::Value(new, 0), old]))
            }
        }
    }

    /// The low bits of all values. Each has none until one of its inputs has,
    /// and loses bits until nothing changes.
    fn solve(&self) -> Vec<Option<LowBits>> {
        let mut users: Vec<SmallVec<[u32; 2]>> = vec![SmallVec::new(); self.values.len()];
        for (value, step) in self.values.iter().enumerate() {
            for input in step.inputs() {
                if let Input::Value(from, _) = input {
                    users[*from as usize].push(value as u32);
                }
            }
        }
        let mut held: Vec<Option<LowBits>> = vec![None; self.values.len()];
        // Inputs mostly have higher numbers than what uses them.
        let mut queue: Vec<u32> = (0..self.values.len() as u32).collect();
        let mut is_queued = vec![true; self.values.len()];
        while let Some(value) = queue.pop() {
            let at = value as usize;
            is_queued[at] = false;
            let Some(new) = self.values[at].taken(&held) else {
                continue;
            };
            let joined = held[at].map_or(new, |old| old.join(new));
            if held[at] != Some(joined) {
                held[at] = Some(joined);
                for &user in &users[at] {
                    if !std::mem::replace(&mut is_queued[user as usize], true) {
                        queue.push(user);
                    }
                }
            }
        }
        held
    }

    fn before(&mut self, register: Register, instruction: u32) -> Input {
        let reaching = self
            .registers
            .before(self.cfg, self.dominators, register, instruction);
        self.input(reaching)
    }

    fn input(&mut self, reaching: Reaching) -> Input {
        if let Reaching::Undefined(_) = reaching {
            return Input::Nothing;
        }
        let number = *self.numbers.entry(reaching).or_insert_with(|| {
            let number = self.values.len() as u32;
            self.values.push(Step::OneOf(SmallVec::new()));
            self.pending.push((number, reaching));
            number
        });
        Input::Value(number, 0)
    }

    /// What a register or variable holds before an instruction.
    fn named(&mut self, at: u32, name: &str, operand: usize) -> Input {
        if let Some(register) = self.code.register(at as usize, name) {
            return match self.registers.class(register) {
                Class::Bits(_) => self.before(register, at),
                _ => UNKNOWN,
            };
        }
        let references = self.code.references_of(at as usize);
        let symbol = references
            .iter()
            .find_map(|reference| match reference.referent {
                Referent::Symbol(id, _) if usize::from(reference.operand) == operand => Some(id),
                _ => None,
            });
        symbol.map_or(UNKNOWN, |id| {
            let symbol = &self.code.symbols[id.0 as usize];
            Input::Known(LowBits::multiple_of(symbol.alignment))
        })
    }

    fn operand(&mut self, at: u32, index: usize) -> Input {
        let code = self.code;
        let operands = &code.instructions[at as usize].instruction.operands;
        match operands.get(index).map(|operand| &operand.kind) {
            Some(OperandKind::Integer(value)) => Input::Known(LowBits::constant(*value)),
            Some(OperandKind::Name(name)) => self.named(at, name, index),
            Some(OperandKind::NameOffset(name, offset)) => match self.named(at, name, index) {
                Input::Known(low) => Input::Known(low.add(LowBits::constant(*offset))),
                Input::Value(value, 0) => Input::Value(value, *offset),
                other => other,
            },
            // A register from parts: the first is the lowest.
            Some(OperandKind::Vector(elements)) => match elements.first().map(|e| &e.kind) {
                Some(OperandKind::Name(name)) => self.named(at, name, index),
                _ => UNKNOWN,
            },
            _ => UNKNOWN,
        }
    }

    /// How a write comes from operands.
    fn written(&mut self, write: &Write) -> Step {
        let at = write.instruction;
        let instruction = self.code.instructions[at as usize].instruction;
        let opcode = &instruction.opcode;
        let constant = |index: usize| match instruction.operands.get(index)?.kind {
            OperandKind::Integer(value) => Some(value),
            _ => None,
        };
        let unknown = || Step::OneOf(SmallVec::from_slice(&[UNKNOWN]));
        if write.unknown {
            return unknown();
        }
        if opcode.mnemonic() == Mnemonic::Ld {
            let parameter = self.parameter(write).unwrap_or(LowBits::UNKNOWN);
            return Step::OneOf(SmallVec::from_slice(&[Input::Known(parameter)]));
        }
        let is_lowest = match instruction.operands.first().map(|o| &o.kind) {
            Some(OperandKind::Name(_)) => true,
            Some(OperandKind::Vector(_)) => {
                opcode.mnemonic() == Mnemonic::Mov && write.element == 0
            }
            _ => false,
        };
        if write.operand != 0
            || !is_lowest
            || !opcode.types().all(is_integer)
            || opcode.has(Modifier::Sat)
        {
            return unknown();
        }
        let is_whole = !opcode.has(Modifier::Hi);
        let two = |this: &mut Self| [this.operand(at, 1), this.operand(at, 2)];
        match opcode.mnemonic() {
            Mnemonic::Mov | Mnemonic::Cvta | Mnemonic::Cvt => {
                Step::OneOf(SmallVec::from_slice(&[self.operand(at, 1)]))
            }
            Mnemonic::Add => Step::Add(two(self)),
            Mnemonic::Sub => Step::Subtract(two(self)),
            Mnemonic::Mul if is_whole => Step::Multiply(two(self)),
            Mnemonic::Mad if is_whole => {
                let [a, b] = two(self);
                Step::MultiplyAdd([a, b, self.operand(at, 3)])
            }
            Mnemonic::Shl => Step::ShiftLeft(self.operand(at, 1), constant(2)),
            Mnemonic::Shr => Step::ShiftRight(self.operand(at, 1), constant(2)),
            Mnemonic::Bfe => Step::Field(self.operand(at, 1), constant(2).zip(constant(3))),
            Mnemonic::And => Step::And(two(self)),
            Mnemonic::Or => Step::Or(two(self)),
            Mnemonic::Xor => Step::Xor(two(self)),
            Mnemonic::Neg | Mnemonic::Not => {
                let from = if opcode.mnemonic() == Mnemonic::Neg {
                    0
                } else {
                    -1
                };
                let from = Input::Known(LowBits::constant(from));
                Step::Subtract([from, self.operand(at, 1)])
            }
            Mnemonic::Rem => Step::Remainder(self.operand(at, 1), constant(2)),
            Mnemonic::Selp | Mnemonic::Min | Mnemonic::Max => {
                Step::OneOf(SmallVec::from_buf(two(self)))
            }
            _ => unknown(),
        }
    }

    /// Eight bytes of the parameters.
    fn parameter(&self, write: &Write) -> Option<LowBits> {
        let instruction = self.code.instructions[write.instruction as usize].instruction;
        let opcode = &instruction.opcode;
        let is_wide = opcode.types().last().is_some_and(|ty| ty.bytes() == 8);
        let element = match instruction.operands.first()?.kind {
            OperandKind::Name(_) => 0,
            OperandKind::Vector(_) => u32::from(write.element),
            _ => return None,
        };
        let reference = self.code.address_of(write.instruction as usize, 1)?;
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

const UNKNOWN: Input = Input::Known(LowBits::UNKNOWN);

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
    use crate::{Analysis, ModuleSymbols};

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
            .rposition(|inst| inst.instruction.opcode.mnemonic() == Mnemonic::St)
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
    fn a_register_that_is_used_again_starts_anew() {
        let reused = "mul.wide.s32 %rd9, %r2, 1;\nst.global.u32 [%rd9], %r1;\n\
                      mov.b64 %rd9, %rd1;\nadd.s64 %rd9, %rd9, 16;";
        assert_eq!(of(reused), low(Some(0), 8, 16));
        let after_a_loop = "mov.b64 %rd9, %rd1;\n$loop:\nadd.s64 %rd9, %rd9, 1;\n\
                            setp.lt.s64 %p1, %rd9, %rd2;\n@%p1 bra $loop;\n\
                            add.s64 %rd9, %rd2, 4;";
        assert_eq!(of(after_a_loop), low(Some(8), 8, 4));
    }

    #[test]
    fn a_predicated_instruction_may_leave_what_was_there() {
        let text =
            |second: &str| format!("mov.b64 %rd9, %rd1;\n@%p1 add.s64 %rd9, %rd1, {second};");
        assert_eq!(of(&text("8")), low(Some(0), 3, 0));
        assert_eq!(of(&text("0")), low(Some(0), 8, 0));
        assert_eq!(
            of("mov.b64 %rd9, %rd1;\n@%p1 mov.b64 %rd9, %rd2;"),
            LowBits::UNKNOWN
        );
    }

    #[test]
    fn where_paths_meet_both_count() {
        let text = |other: &str| {
            format!("@%p1 bra $other;\nmov.b64 %rd9, %rd1;\nbra $meet;\n$other:\n{other}\n$meet:")
        };
        assert_eq!(of(&text("add.s64 %rd9, %rd1, 32;")), low(Some(0), 5, 0));
        assert_eq!(of(&text("add.s64 %rd9, %rd2, 32;")), LowBits::UNKNOWN);
    }

    #[test]
    fn parts_of_registers() {
        let packed = "shl.b32 %r3, %r2, 4;\nmov.b64 %rd3, {%r3, %r1};\nadd.s64 %rd9, %rd1, %rd3;";
        assert_eq!(of(packed), low(Some(0), 4, 0));
        let field = "shl.b32 %r3, %r2, 6;\nbfe.u32 %r4, %r3, 2, 20;\ncvt.u64.u32 %rd3, %r4;\n\
                     add.s64 %rd9, %rd1, %rd3;";
        assert_eq!(of(field), low(Some(0), 4, 0));
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
