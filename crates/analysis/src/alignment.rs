//! The low bits of registers: the residue of an address modulo a small power of
//! two, as far as the text of a function determines it. Whether an access is
//! aligned depends on nothing else.
//!
//! The result for an address covers all definitions that reach it, because a
//! register may hold an index at one place and a pointer at another. The
//! analysis is optimistic: a value has no low bits until one of its operands
//! has, and loses bits until nothing changes. The step of a loop is mostly a
//! multiple of the size that the loop accesses. Only values that addresses
//! depend on are analysed.

use crate::cfg::Cfg;
use crate::code::{Code, Reference, Referent, ValueId};
use crate::names::Class;
use crate::operation::{Binary, Operation, Part, View, integer};
use crate::roles::Role;
use crate::ssa::{Definition, Ssa};
use ptx::{Mnemonic, OperandKind};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Low bits that are followed. No instruction needs an alignment above 128
/// bytes.
const MOST_BITS: u8 = 8;

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

    /// The same, if the parameter's value is not used.
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

    /// What an operation makes of the rests.
    fn folded(self, binary: Binary, other: u64, bits: u8) -> LowBits {
        // Low bits depend on low bits only, however wide the register is; the
        // rests are small enough to be shifted as numbers of any kind.
        let rest = binary.fold(self.rest.into(), other as i64, 64);
        LowBits::new(None, bits, rest.unwrap_or(0) as u64)
    }

    /// What an operation makes of two values.
    fn binary(self, binary: Binary, other: LowBits) -> LowBits {
        match binary {
            Binary::Multiply => self.multiply(other),
            Binary::And => self.and(other),
            Binary::Or | Binary::Xor => self.combine(other, binary),
            _ => LowBits::UNKNOWN,
        }
    }

    /// What an operation makes of a value and a constant, if that is one.
    fn with_constant(self, binary: Binary, by: Option<i64>) -> LowBits {
        match binary {
            Binary::ShiftLeft => self.shift_left(by),
            Binary::ShiftRight(_) => self.shift_right(by),
            Binary::Remainder(_) => self.remainder(by),
            _ => LowBits::UNKNOWN,
        }
    }

    /// `(a + 2^m x)(b + 2^n y)` is `ab` and multiples of `2^m b`, `2^n a`,
    /// `2^(m + n)`.
    fn multiply(self, other: LowBits) -> LowBits {
        let (this, other) = (self.number(), other.number());
        let bits = (this.bits + other.zeros()).min(other.bits + this.zeros());
        this.folded(Binary::Multiply, other.rest.into(), bits)
    }

    fn shift_left(self, by: Option<i64>) -> LowBits {
        let this = self.number();
        match by {
            Some(by @ 0..64) => this.folded(Binary::ShiftLeft, by as u64, this.bits + by as u8),
            // What is a multiple stays one.
            _ => LowBits::new(None, this.zeros(), 0),
        }
    }

    fn shift_right(self, by: Option<i64>) -> LowBits {
        match (self.parameter, by) {
            (None, Some(by @ 0..64)) => {
                let bits = self.bits.saturating_sub(by as u8);
                self.folded(Binary::ShiftRight(View::Unsigned), by as u64, bits)
            }
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
        self.folded(Binary::And, other.rest.into(), bits)
    }

    /// `or`, `xor`
    fn combine(self, other: LowBits, binary: Binary) -> LowBits {
        for (value, zero) in [(self, other), (other, self)] {
            if zero == LowBits::constant(0) {
                return value;
            }
        }
        if self.parameter.is_some() || other.parameter.is_some() {
            return LowBits::UNKNOWN;
        }
        self.folded(binary, other.rest.into(), self.bits.min(other.bits))
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
    pub(crate) fn of(code: &Code<'_, '_>, cfg: &Cfg, ssa: &Ssa) -> Self {
        if code.has_registers_as_parameters() {
            return Alignments::default();
        }
        let mut solver = Solver {
            code,
            ssa,
            values: Vec::new(),
            numbers: vec![NONE; ssa.values.len()],
            pending: Vec::new(),
        };
        let mut addresses = Vec::new();
        for (at, inst) in code.instructions.iter().enumerate() {
            if !cfg.is_reachable(cfg.block_of[at]) {
                continue;
            }
            let operands = inst.instruction.operands.iter().enumerate();
            for (operand, _) in operands.filter(|(_, o)| matches!(o.kind, OperandKind::Address(_)))
            {
                if let (Some(base), Ok(place)) = (code.named(at, operand), u8::try_from(operand)) {
                    addresses.push(((at as u32, place), solver.named(base)));
                }
            }
        }
        solver.expand();
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

/// How a value is computed from others.
#[derive(Debug)]
enum Step {
    /// It is one of these: a copy, a choice, a phi.
    OneOf(SmallVec<[Input; 2]>),
    Add([Input; 2]),
    Subtract([Input; 2]),
    MultiplyAdd([Input; 3]),
    Binary(Binary, [Input; 2]),
    /// By a constant, if it is one.
    WithConstant(Binary, Input, Option<i64>),
    /// A field of bits: first bit and length, if they are constants.
    Field(Input, Option<(i64, i64)>),
}

impl Step {
    fn inputs(&self) -> &[Input] {
        match self {
            Step::OneOf(inputs) => inputs,
            Step::Add(two) | Step::Subtract(two) | Step::Binary(_, two) => two,
            Step::MultiplyAdd(three) => three,
            Step::WithConstant(_, one, _) | Step::Field(one, _) => std::slice::from_ref(one),
        }
    }

    /// What it makes of values; `None`: it depends on what holds nothing yet.
    fn apply(&self, held: &[Option<LowBits>]) -> Option<LowBits> {
        let of = |input: &Input| input.low_bits(held);
        match self {
            // What holds nothing yet adds nothing.
            Step::OneOf(inputs) => inputs.iter().filter_map(of).reduce(LowBits::join),
            Step::Add([a, b]) => Some(of(a)?.add(of(b)?)),
            Step::Subtract([a, b]) => Some(of(a)?.subtract(of(b)?)),
            Step::MultiplyAdd([a, b, c]) => Some(of(a)?.multiply(of(b)?).add(of(c)?)),
            Step::Binary(binary, [a, b]) => Some(of(a)?.binary(*binary, of(b)?)),
            Step::WithConstant(binary, value, by) => Some(of(value)?.with_constant(*binary, *by)),
            Step::Field(value, field) => Some(of(value)?.field(*field)),
        }
    }
}

const NONE: u32 = u32::MAX;

/// Finds the values that addresses depend on, and then their low bits.
struct Solver<'x, 'm, 'a> {
    code: &'x Code<'m, 'a>,
    ssa: &'x Ssa,
    values: Vec<Step>,
    /// The step of each value of the function, if it was asked for.
    numbers: Vec<u32>,
    /// Values whose steps are still to be found, last first.
    pending: Vec<(u32, ValueId)>,
}

impl Solver<'_, '_, '_> {
    /// Finds the steps of all values that were asked for.
    fn expand(&mut self) {
        while let Some((number, value)) = self.pending.pop() {
            let step = match self.ssa.values[value.0 as usize].definition {
                Definition::Instruction {
                    instruction,
                    reference,
                    old,
                } => {
                    let reference = self.code.references[reference as usize];
                    let step = self.written(instruction as usize, &reference);
                    self.unless_kept(step, old)
                }
                Definition::Phi { .. } => {
                    let arguments = self.ssa.phi_arguments(value).iter();
                    // (Predecessors that are never reached have no argument.)
                    let arguments = arguments.filter(|&&value| value != ValueId::NONE);
                    Step::OneOf(arguments.map(|&value| self.input(value)).collect())
                }
                Definition::Undefined => Step::OneOf(SmallVec::new()),
            };
            self.values[number as usize] = step;
        }
    }

    /// A predicated instruction may leave what was there before.
    fn unless_kept(&mut self, step: Step, old: Option<ValueId>) -> Step {
        let Some(old) = old.map(|old| self.input(old)) else {
            return step;
        };
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
            let Some(new) = self.values[at].apply(&held) else {
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

    fn input(&mut self, value: ValueId) -> Input {
        match self.ssa.value(value).map(|value| value.definition) {
            None => return UNKNOWN,
            Some(Definition::Undefined) => return Input::Nothing,
            Some(_) => {}
        }
        let number = &mut self.numbers[value.0 as usize];
        if *number == NONE {
            *number = self.values.len() as u32;
            self.values.push(Step::OneOf(SmallVec::new()));
            self.pending.push((*number, value));
        }
        Input::Value(*number, 0)
    }

    /// What a register or variable holds before an instruction.
    fn named(&mut self, reference: &Reference) -> Input {
        match reference.referent {
            Referent::Wide(register) | Referent::Other(register) => {
                match self.code.class(register) {
                    Class::Bits(_) if matches!(reference.role, Role::Read | Role::Address) => {
                        self.input(reference.value)
                    }
                    _ => UNKNOWN,
                }
            }
            Referent::Symbol(id, _) => {
                let symbol = &self.code.symbols[id.0 as usize];
                Input::Known(LowBits::multiple_of(symbol.alignment))
            }
        }
    }

    fn operand(&mut self, at: usize, index: usize) -> Input {
        let code = self.code;
        let operands = &code.instructions[at].instruction.operands;
        let plus = match operands.get(index).map(|operand| &operand.kind) {
            Some(OperandKind::Integer(value)) => return Input::Known(LowBits::constant(*value)),
            Some(OperandKind::NameOffset(_, offset)) => *offset,
            // A register from parts: the first is the lowest.
            Some(OperandKind::Name(_) | OperandKind::Vector(_)) => 0,
            _ => return UNKNOWN,
        };
        match code.named(at, index).map(|named| self.named(named)) {
            Some(Input::Known(low)) => Input::Known(low.add(LowBits::constant(plus))),
            Some(Input::Value(value, 0)) => Input::Value(value, plus),
            Some(other) => other,
            None => UNKNOWN,
        }
    }

    /// How a written value is computed from the operands.
    fn written(&mut self, at: usize, write: &Reference) -> Step {
        let instruction = self.code.instructions[at].instruction;
        let opcode = &instruction.opcode;
        let constant = |index: usize| self.code.constant(at, index);
        let unknown = || Step::OneOf(SmallVec::from_slice(&[UNKNOWN]));
        if write.role == Role::Unknown {
            return unknown();
        }
        if opcode.mnemonic() == Mnemonic::Ld {
            let parameter = self.parameter(at, write).unwrap_or(LowBits::UNKNOWN);
            return Step::OneOf(SmallVec::from_slice(&[Input::Known(parameter)]));
        }
        let is_lowest = match instruction.operands.first().map(|o| &o.kind) {
            Some(OperandKind::Name(_)) => true,
            Some(OperandKind::Vector(_)) => {
                opcode.mnemonic() == Mnemonic::Mov && write.element == 0
            }
            _ => false,
        };
        let has_integers = || opcode.types().all(|ty| integer(ty).is_some());
        if write.operand != 0 || !is_lowest || !has_integers() {
            return unknown();
        }
        let Some((operation, ..)) = Operation::of(opcode) else {
            return unknown();
        };
        let two = |this: &mut Self| [this.operand(at, 1), this.operand(at, 2)];
        match operation {
            Operation::Copy | Operation::Space | Operation::Convert => {
                Step::OneOf(SmallVec::from_slice(&[self.operand(at, 1)]))
            }
            Operation::Add => Step::Add(two(self)),
            Operation::Subtract => Step::Subtract(two(self)),
            Operation::Multiply(Part::Low | Part::Wide) => {
                Step::Binary(Binary::Multiply, two(self))
            }
            Operation::MultiplyAdd(Part::Low | Part::Wide) => {
                let [a, b] = two(self);
                Step::MultiplyAdd([a, b, self.operand(at, 3)])
            }
            Operation::Binary(
                binary @ (Binary::ShiftLeft | Binary::ShiftRight(_) | Binary::Remainder(_)),
            ) => Step::WithConstant(binary, self.operand(at, 1), constant(2)),
            Operation::Select | Operation::Binary(Binary::Minimum(_) | Binary::Maximum(_)) => {
                Step::OneOf(SmallVec::from_buf(two(self)))
            }
            Operation::Binary(binary @ (Binary::And | Binary::Or | Binary::Xor)) => {
                Step::Binary(binary, two(self))
            }
            Operation::Field(_) => Step::Field(self.operand(at, 1), constant(2).zip(constant(3))),
            Operation::Negate | Operation::Not => {
                let from = if operation == Operation::Negate {
                    0
                } else {
                    -1
                };
                let from = Input::Known(LowBits::constant(from));
                Step::Subtract([from, self.operand(at, 1)])
            }
            Operation::Absolute
            | Operation::Binary(_)
            | Operation::Multiply(Part::High)
            | Operation::MultiplyAdd(Part::High) => unknown(),
        }
    }

    /// Eight bytes of the parameters.
    fn parameter(&self, at: usize, write: &Reference) -> Option<LowBits> {
        let instruction = self.code.instructions[at].instruction;
        let opcode = &instruction.opcode;
        let is_wide = opcode.types().last().is_some_and(|ty| ty.bytes() == 8);
        let element = match instruction.operands.first()?.kind {
            OperandKind::Name(_) => 0,
            OperandKind::Vector(_) => u32::from(write.element),
            _ => return None,
        };
        let reference = self.code.address_of(at, 1)?;
        let Referent::Symbol(id, offset) = reference.referent else {
            return None;
        };
        let offset = offset.checked_add(i64::from(8 * element))?;
        let parameter = self.code.symbols[id.0 as usize].parameter_place(offset, 8)?;
        is_wide.then_some(LowBits::new(Some(parameter), MOST_BITS, 0))
    }
}

const UNKNOWN: Input = Input::Known(LowBits::UNKNOWN);

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

    /// Tests every operation with all small numbers that its operands
    /// represent.
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
            (|a, b| a.combine(b, Binary::Or), |a, b| a | b),
            (|a, b| a.combine(b, Binary::Xor), |a, b| a ^ b),
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
