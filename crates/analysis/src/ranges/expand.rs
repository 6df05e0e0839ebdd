//! Values of registers as affine expressions: follows each register to its
//! definition, or to the phi that joins several definitions.

use super::affine::{Affine, AffineId, Condition, ConditionId, Expressions, Special, Symbolic};
use super::relation::Relation;
use crate::cfg::BlockId;
use crate::code::{Reference, Referent, ValueId};
use crate::function::Analysis;
use crate::names::{Class, SymbolId, SymbolSpace};
use crate::operation::{Binary, View, Width, as_read, integer, wrap};
use crate::roles::Role;
use crate::ssa::Definition;
use ptx::{Instruction, Mnemonic, Modifier, Opcode, OperandKind};
use rustc_hash::FxHashMap;

/// Nested definitions that are followed. The next one is an opaque symbol.
const DEEPEST: u32 = 160;

/// The values of a function as affine expressions.
pub(crate) struct Expand<'x, 'm, 'a> {
    pub(crate) analysis: &'x Analysis<'m, 'a>,
    pub(crate) expressions: Expressions,
    values: FxHashMap<ValueId, AffineId>,
    predicates: FxHashMap<ValueId, ConditionId>,
    depth: u32,
}

impl<'x, 'm, 'a> Expand<'x, 'm, 'a> {
    /// `None` for functions with registers as parameters.
    pub(crate) fn of(analysis: &'x Analysis<'m, 'a>) -> Option<Self> {
        (!analysis.code.has_registers_as_parameters()).then(|| Expand {
            analysis,
            expressions: Expressions::default(),
            values: FxHashMap::default(),
            predicates: FxHashMap::default(),
            depth: 0,
        })
    }

    pub(super) fn instruction(&self, index: u32) -> &'m Instruction<'a> {
        self.analysis.code.instructions[index as usize].instruction
    }

    pub(super) fn definition_of(&self, value: ValueId) -> Definition {
        self.analysis.ssa.values[value.0 as usize].definition
    }

    /// The value of a register that an instruction reads, and its bits.
    fn read(&self, reference: &Reference) -> Option<(ValueId, Width)> {
        let register = reference.referent.register()?;
        let Class::Bits(width) = self.analysis.code.class(register) else {
            return None;
        };
        let is_read = matches!(reference.role, Role::Read | Role::Address);
        (is_read && reference.value != ValueId::NONE).then_some((reference.value, width))
    }

    /// A phi's argument for the edge from a block, as an affine expression.
    pub(crate) fn argument(&mut self, phi: ValueId, from: BlockId) -> Option<AffineId> {
        let analysis = self.analysis;
        let value = analysis.ssa.phi_argument(&analysis.cfg, phi, from)?;
        Some(self.value(value))
    }

    /// The address in operand `operand`, without the operand's own constant.
    pub(crate) fn address(&mut self, at: u32, operand: usize) -> Option<AffineId> {
        let OperandKind::Address(address) = &self.instruction(at).operands.get(operand)?.kind
        else {
            return None;
        };
        address.base?;
        let reference = *self.analysis.code.named(at as usize, operand)?;
        match reference.referent {
            Referent::Symbol(symbol, _) => Some(
                self.expressions
                    .symbolic_affine(Symbolic::Symbol(symbol), 64),
            ),
            Referent::Wide(_) | Referent::Other(_) => {
                let (value, _) = self.read(&reference)?;
                Some(self.value(value))
            }
        }
    }

    /// The value of a register, as an expression of the register's width.
    pub(crate) fn value(&mut self, value: ValueId) -> AffineId {
        if let Some(affine) = self.values.get(&value) {
            return *affine;
        }
        let register = self.analysis.ssa.values[value.0 as usize].register;
        let width = match self.analysis.code.class(register) {
            Class::Bits(width) => width,
            _ => 64,
        };
        let affine = if self.depth >= DEEPEST {
            self.expressions
                .symbolic_affine(Symbolic::Opaque(value), width)
        } else {
            self.depth += 1;
            let affine = match self.definition_of(value) {
                Definition::Instruction { .. } => self.written(value, width),
                Definition::Phi { .. } => self.phi(value, width),
                Definition::Undefined => self
                    .expressions
                    .symbolic_affine(Symbolic::Opaque(value), width),
            };
            self.depth -= 1;
            affine
        };
        self.values.insert(value, affine);
        affine
    }

    /// A phi, or its argument if all its arguments are the same.
    fn phi(&mut self, phi: ValueId, width: Width) -> AffineId {
        let own = self.expressions.symbolic_affine(Symbolic::Phi(phi), width);
        let analysis = self.analysis;
        let block = analysis.ssa.values[phi.0 as usize].block;
        let position = |block: BlockId| analysis.cfg.position[block.0 as usize];
        let predecessors = &analysis.cfg.blocks[block.0 as usize].predecessors;
        let goes_back = predecessors
            .iter()
            .any(|&from| analysis.cfg.is_reachable(from) && position(from) >= position(block));
        if goes_back {
            return own;
        }
        let mut same = None;
        for &argument in analysis.ssa.phi_arguments(phi) {
            if argument == ValueId::NONE {
                continue;
            }
            let affine = self.value(argument);
            if *same.get_or_insert(affine) != affine {
                return own;
            }
        }
        same.unwrap_or(own)
    }

    fn written(&mut self, value: ValueId, width: Width) -> AffineId {
        let Definition::Instruction {
            instruction: at,
            reference,
            old,
        } = self.definition_of(value)
        else {
            return self
                .expressions
                .symbolic_affine(Symbolic::Opaque(value), width);
        };
        let write = self.analysis.code.references[reference as usize];
        if write.role == Role::Unknown {
            return self
                .expressions
                .symbolic_affine(Symbolic::Opaque(value), width);
        }
        let new = self
            .definition((at, write), width, value)
            .unwrap_or_else(|| {
                self.expressions
                    .symbolic_affine(Symbolic::Opaque(value), width)
            });
        let (Some(old), Some(guard)) = (old, self.instruction(at).guard) else {
            return new;
        };
        let old = self.value(old);
        let condition = self.guard(at, guard.negated);
        self.expressions
            .symbolic_affine(Symbolic::Select(condition, new, old), width)
    }

    /// The condition that the guard of an executed instruction implies.
    pub(crate) fn guard(&mut self, at: u32, negated: bool) -> ConditionId {
        let condition = self.predicate(self.analysis.code.guard(at as usize));
        if negated {
            self.expressions.keep_condition(Condition::Not(condition))
        } else {
            condition
        }
    }

    fn unknown_condition(&mut self) -> ConditionId {
        self.expressions.keep_condition(Condition::Unknown)
    }

    /// A predicate register as an instruction reads it.
    fn predicate(&mut self, reference: Option<&Reference>) -> ConditionId {
        let code = &self.analysis.code;
        let value = reference.filter(|reference| {
            let register = reference.referent.register();
            register.is_some_and(|register| code.class(register) == Class::Predicate)
                && matches!(reference.role, Role::Read | Role::Guard)
        });
        match value {
            Some(read) if read.value != ValueId::NONE => self.condition(read.value),
            _ => self.unknown_condition(),
        }
    }

    fn condition(&mut self, value: ValueId) -> ConditionId {
        if let Some(condition) = self.predicates.get(&value) {
            return *condition;
        }
        let condition = match self.definition_of(value) {
            Definition::Instruction {
                instruction,
                reference,
                old: None,
            } if self.depth < DEEPEST => {
                self.depth += 1;
                let write = self.analysis.code.references[reference as usize];
                let condition = self.comparison(instruction, write);
                self.depth -= 1;
                condition
            }
            _ => None,
        };
        let condition = condition.unwrap_or_else(|| self.unknown_condition());
        self.predicates.insert(value, condition);
        condition
    }

    pub(super) fn predicate_operand(&mut self, at: u32, operand: usize) -> Option<ConditionId> {
        let is_negated = match &self.instruction(at).operands.get(operand)?.kind {
            OperandKind::Name(_) => false,
            OperandKind::Not(_) => true,
            _ => return None,
        };
        let condition = self.predicate(self.analysis.code.named(at as usize, operand));
        match is_negated {
            true => Some(self.expressions.keep_condition(Condition::Not(condition))),
            false => Some(condition),
        }
    }

    /// The condition that an executed instruction writes to a predicate.
    fn comparison(&mut self, at: u32, write: Reference) -> Option<ConditionId> {
        let instruction = self.instruction(at);
        let opcode = &instruction.opcode;
        match opcode.mnemonic() {
            Mnemonic::Setp => {
                let (view, width) = integer(opcode.types().last()?)?;
                let relation = opcode.modifiers().iter().find_map(|m| relation(*m, view))?;
                let a = self.operand(at, 1, width)?;
                let b = self.operand(at, 2, width)?;
                let mut condition = self
                    .expressions
                    .keep_condition(Condition::Compare(relation, a, b));
                if write.element == 1 {
                    condition = self.expressions.keep_condition(Condition::Not(condition));
                }
                let combined = opcode
                    .modifiers()
                    .iter()
                    .find(|m| matches!(m, Modifier::And | Modifier::Or | Modifier::Xor));
                match (combined, instruction.operands.len()) {
                    (None, 3) => Some(condition),
                    (Some(Modifier::And), 4) => {
                        let other = self.predicate_operand(at, 3)?;
                        Some(
                            self.expressions
                                .keep_condition(Condition::And(condition, other)),
                        )
                    }
                    (Some(Modifier::Or), 4) => {
                        let other = self.predicate_operand(at, 3)?;
                        Some(
                            self.expressions
                                .keep_condition(Condition::Or(condition, other)),
                        )
                    }
                    _ => None,
                }
            }
            Mnemonic::And => {
                let (a, b) = (
                    self.predicate_operand(at, 1)?,
                    self.predicate_operand(at, 2)?,
                );
                Some(self.expressions.keep_condition(Condition::And(a, b)))
            }
            Mnemonic::Or => {
                let (a, b) = (
                    self.predicate_operand(at, 1)?,
                    self.predicate_operand(at, 2)?,
                );
                Some(self.expressions.keep_condition(Condition::Or(a, b)))
            }
            Mnemonic::Not => {
                let a = self.predicate_operand(at, 1)?;
                Some(self.expressions.keep_condition(Condition::Not(a)))
            }
            Mnemonic::Mov => self.predicate_operand(at, 1),
            _ => None,
        }
    }

    /// A source operand, as an expression of `width` bits.
    pub(crate) fn operand(&mut self, at: u32, operand: usize, width: Width) -> Option<AffineId> {
        match &self.instruction(at).operands.get(operand)?.kind {
            OperandKind::Integer(value) => {
                Some(self.expressions.constant(i128::from(*value), width))
            }
            OperandKind::Name(name) => {
                if let Some(named) = self.analysis.code.named(at as usize, operand) {
                    if let Referent::Symbol(symbol, offset) = named.referent {
                        return self.address_of(symbol, offset, width);
                    }
                    let (value, own) = self.read(named)?;
                    let value = self.value(value);
                    return match own {
                        _ if own == width => Some(value),
                        _ if own > width => Some(self.truncated(value, width)),
                        _ => None,
                    };
                }
                if *name == "WARP_SZ" {
                    return Some(self.expressions.constant(32, width));
                }
                let special = special(name)?;
                let affine = self
                    .expressions
                    .symbolic_affine(Symbolic::Special(special), 32);
                match width {
                    32 => Some(affine),
                    _ if width < 32 => Some(self.truncated(affine, width)),
                    _ => Some(
                        self.expressions
                            .symbolic_affine(Symbolic::Extend(View::Unsigned, 32, affine), width),
                    ),
                }
            }
            OperandKind::NameOffset(..) => {
                let named = self.analysis.code.named(at as usize, operand)?;
                match named.referent {
                    Referent::Symbol(symbol, offset) => self.address_of(symbol, offset, width),
                    Referent::Wide(_) | Referent::Other(_) => None,
                }
            }
            _ => None,
        }
    }

    fn address_of(&mut self, symbol: SymbolId, offset: i64, width: Width) -> Option<AffineId> {
        if self.analysis.code.symbols[symbol.0 as usize].space == SymbolSpace::Other {
            return None;
        }
        let base = self
            .expressions
            .symbolic_affine(Symbolic::Symbol(symbol), width);
        let offset = Affine::constant(i128::from(offset), width);
        let sum = self.expressions.affine(base).plus(&offset, 1);
        Some(self.expressions.keep(sum))
    }

    /// The symbol for a variable's address in its own space or in the generic
    /// one. A global variable has the same address in both.
    pub(crate) fn address_symbolic(&self, symbol: SymbolId, generic: bool) -> Symbolic {
        match self.analysis.code.symbols[symbol.0 as usize].space {
            SymbolSpace::Global => Symbolic::Symbol(symbol),
            _ if generic => Symbolic::Generic(symbol),
            _ => Symbolic::Symbol(symbol),
        }
    }

    /// An address in a variable, converted to or from the generic space. The
    /// address window's base is unknown, so the two addresses are different
    /// symbols.
    pub(super) fn between_spaces(
        &mut self,
        affine: AffineId,
        opcode: &Opcode<'_>,
    ) -> Option<AffineId> {
        let to_generic = !opcode.has(Modifier::To);
        let mut converted = self.expressions.affine(affine).clone();
        let (old, symbol) = converted.terms.iter().find_map(|&(symbolic, factor)| {
            let symbol = match self.expressions.symbolic(symbolic).0 {
                Symbolic::Symbol(symbol) if to_generic => symbol,
                Symbolic::Generic(symbol) if !to_generic => symbol,
                _ => return None,
            };
            let is_meant = match self.analysis.code.symbols[symbol.0 as usize].space {
                SymbolSpace::Shared => {
                    opcode.has(Modifier::Shared) || opcode.has(Modifier::SharedCta)
                }
                SymbolSpace::Local => opcode.has(Modifier::Local),
                SymbolSpace::Const => opcode.has(Modifier::Const),
                SymbolSpace::EntryParameter { .. } => {
                    opcode.has(Modifier::Param) || opcode.has(Modifier::ParamEntry)
                }
                _ => false,
            };
            (factor == 1 && is_meant).then_some((symbolic, symbol))
        })?;
        // The conversion of an address outside its window is no translation.
        let is_within = converted.terms.len() == 1 && (0..1 << 31).contains(&converted.constant);
        if to_generic && !is_within {
            return None;
        }
        converted.terms.retain(|(symbolic, _)| *symbolic != old);
        let new = self
            .expressions
            .symbolic_affine(self.address_symbolic(symbol, to_generic), converted.width);
        let sum = self.expressions.affine(new).plus(&converted, 1);
        Some(self.expressions.keep(sum))
    }

    /// The low bits of an expression.
    pub(super) fn truncated(&mut self, affine: AffineId, width: Width) -> AffineId {
        let wide = self.expressions.affine(affine).clone();
        let mut low = Affine::constant(i128::from(wide.constant), width);
        for &(symbolic, factor) in &wide.terms {
            let part = match self.expressions.symbolic(symbolic) {
                (Symbolic::Extend(_, from, inner), _) if from >= width => {
                    let inner = if from == width {
                        inner
                    } else {
                        self.truncated(inner, width)
                    };
                    self.expressions.affine(inner).clone()
                }
                _ => {
                    let mut one = Affine::constant(0, width);
                    one.terms.push((symbolic, 1));
                    one
                }
            };
            low = low.plus(&part, wrap(i128::from(factor), width));
        }
        self.expressions.keep(low)
    }

    pub(super) fn sum(&mut self, a: AffineId, b: AffineId, by: i64) -> AffineId {
        let sum = self
            .expressions
            .affine(a)
            .plus(self.expressions.affine(b), by);
        self.expressions.keep(sum)
    }

    pub(super) fn scaled(&mut self, a: AffineId, by: i64) -> AffineId {
        let product = self.expressions.affine(a).times(by);
        self.expressions.keep(product)
    }

    pub(super) fn extended(&mut self, view: View, a: AffineId, from: Width, to: Width) -> AffineId {
        if from == to {
            return a;
        }
        if let Some(value) = self.expressions.affine(a).as_constant() {
            let value = as_read(value.into(), view, from);
            return self.expressions.constant(value, to);
        }
        self.expressions
            .symbolic_affine(Symbolic::Extend(view, from, a), to)
    }

    /// The result of a binary operation; a constant if both operands are.
    pub(super) fn binary(&mut self, binary: Binary, a: AffineId, b: AffineId) -> AffineId {
        let width = self.expressions.affine(a).width;
        let constants = (
            self.expressions.affine(a).as_constant(),
            self.expressions.affine(b).as_constant(),
        );
        if let (Some(a), Some(b)) = constants
            && let Some(value) = binary.fold(a, b, width)
        {
            return self.expressions.constant(value.into(), width);
        }
        match (binary, constants) {
            (Binary::Multiply, (Some(factor), _)) => self.scaled(b, factor),
            (Binary::Multiply, (_, Some(factor))) => self.scaled(a, factor),
            (Binary::And, (Some(mask), _)) => self.masked(b, mask),
            (Binary::And, (_, Some(mask))) => self.masked(a, mask),
            (Binary::ShiftLeft, (_, Some(by))) => {
                let factor = binary.fold(1, by, width).unwrap_or(0);
                self.scaled(a, factor)
            }
            (Binary::Multiply, _) => self.multiple(a, b, width),
            (Binary::And, _) => {
                let symbolic = Symbolic::Binary(binary, a.min(b), a.max(b));
                self.expressions.symbolic_affine(symbolic, width)
            }
            _ => self
                .expressions
                .symbolic_affine(Symbolic::Binary(binary, a, b), width),
        }
    }

    /// `a * b`, neither of which is constant. What one factor adds to a multiple of a number
    /// that all threads share is a term of its own, so that the start of the next block is
    /// the start of this one and a block's size: `(x + 1) * n` is `x * n + n`.
    fn multiple(&mut self, a: AffineId, b: AffineId, width: Width) -> AffineId {
        let mut added = Affine::constant(0, width);
        let (mut a, mut b) = (a, b);
        for _ in 0..2 {
            let mut rest = self.expressions.affine(a).clone();
            let constant = std::mem::take(&mut rest.constant);
            if constant != 0 && self.is_shared_number(b) {
                added = added.plus(self.expressions.affine(b), constant);
                a = self.expressions.keep(rest);
            }
            std::mem::swap(&mut a, &mut b);
        }
        let symbolic = Symbolic::Binary(Binary::Multiply, a.min(b), a.max(b));
        let product = self.expressions.symbolic_affine(symbolic, width);
        let sum = added.plus(self.expressions.affine(product), 1);
        self.expressions.keep(sum)
    }

    /// Whether a value is the same number for all threads of a launch.
    pub(super) fn is_shared_number(&self, affine: AffineId) -> bool {
        let expressions = &self.expressions;
        expressions.are_shared(expressions.support(affine))
    }

    /// `a & b`. For a mask that clears low bits, this is `a` minus its low
    /// bits, so that `x - (x & -16)` simplifies to `x & 15`.
    fn masked(&mut self, value: AffineId, mask: i64) -> AffineId {
        let width = self.expressions.affine(value).width;
        let cleared = mask.trailing_zeros();
        if mask < 0 && mask >> cleared == -1 {
            if cleared == 0 {
                return value;
            }
            let low = self.low_bits(value, cleared, width);
            return self.sum(value, low, -1);
        }
        let kept = (!mask).trailing_zeros();
        if mask >= 0 && mask >> kept == 0 {
            return self.low_bits(value, kept, width);
        }
        let mask = self.expressions.constant(i128::from(mask), width);
        self.expressions
            .symbolic_affine(Symbolic::Binary(Binary::And, value, mask), width)
    }

    /// The low `bits` of a value. Terms whose factors are multiples of
    /// `1 << bits` do not affect them.
    pub(super) fn low_bits(&mut self, value: AffineId, bits: u32, width: Width) -> AffineId {
        if bits == 0 {
            return self.expressions.constant(0, width);
        }
        if bits >= u32::from(width) {
            return value;
        }
        let mut affine = self.expressions.affine(value).clone();
        affine
            .terms
            .retain(|(_, factor)| factor.trailing_zeros() < bits);
        let mask = ((1i128 << bits) - 1) as i64;
        affine.constant &= mask;
        let constant = affine.as_constant();
        if let Some(constant) = constant {
            return self.expressions.constant(i128::from(constant), width);
        }
        let affine = self.expressions.keep(affine);
        let mask = self.expressions.constant(i128::from(mask), width);
        self.expressions
            .symbolic_affine(Symbolic::Binary(Binary::And, affine, mask), width)
    }
}

fn relation(modifier: Modifier, view: View) -> Option<Relation> {
    Some(match modifier {
        Modifier::Eq => Relation::Equal,
        Modifier::Ne => Relation::Differs,
        Modifier::Lt => Relation::Less(view),
        Modifier::Le => Relation::AtMost(view),
        Modifier::Gt => Relation::Greater(view),
        Modifier::Ge => Relation::AtLeast(view),
        Modifier::Lo => Relation::Less(View::Unsigned),
        Modifier::Ls => Relation::AtMost(View::Unsigned),
        Modifier::Hi => Relation::Greater(View::Unsigned),
        Modifier::Hs => Relation::AtLeast(View::Unsigned),
        _ => return None,
    })
}

fn special(name: &str) -> Option<Special> {
    let axis = |name: &str| match name.rsplit('.').next() {
        Some("x") => Some(0),
        Some("y") => Some(1),
        Some("z") => Some(2),
        _ => None,
    };
    Some(match name.split('.').next()? {
        "%tid" => Special::Thread(axis(name)?),
        "%ntid" => Special::Threads(axis(name)?),
        "%ctaid" => Special::Block(axis(name)?),
        "%nctaid" => Special::Blocks(axis(name)?),
        "%laneid" => Special::Lane,
        _ => return None,
    })
}
