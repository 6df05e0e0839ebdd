//! Values of registers as sums: follows each to its definition, or to the phi
//! that joins several.

use super::form::{Atom, Condition, ConditionId, Form, FormId, Forms, Special, wrap};
use super::instructions::integer;
use super::interval::{Relation, View, Width};
use crate::cfg::BlockId;
use crate::code::Referent;
use crate::function::Analysis;
use crate::names::{Class, Register, SymbolSpace};
use crate::registers::{Reaching, Registers};
use ptx::{Instruction, Mnemonic, Modifier, Opcode, OperandKind};
use rustc_hash::FxHashMap;

/// Definitions followed one inside the other before one is taken as anything.
const DEEPEST: u32 = 160;

/// The values of a function as sums.
pub(crate) struct Expand<'x, 'm, 'a> {
    pub(crate) analysis: &'x Analysis<'m, 'a>,
    pub(crate) registers: Registers,
    pub(crate) forms: Forms,
    values: FxHashMap<Reaching, FormId>,
    predicates: FxHashMap<Reaching, ConditionId>,
    depth: u32,
}

impl<'x, 'm, 'a> Expand<'x, 'm, 'a> {
    pub(crate) fn of(analysis: &'x Analysis<'m, 'a>) -> Option<Self> {
        Some(Expand {
            analysis,
            registers: Registers::of(&analysis.code, &analysis.cfg, &analysis.dominators)?,
            forms: Forms::default(),
            values: FxHashMap::default(),
            predicates: FxHashMap::default(),
            depth: 0,
        })
    }

    pub(super) fn instruction(&self, index: u32) -> &'m Instruction<'a> {
        self.analysis.code.instructions[index as usize].instruction
    }

    fn register(&self, at: u32, name: &str) -> Option<Register> {
        self.analysis.code.register(at as usize, name)
    }

    /// What a register holds before an instruction.
    pub(crate) fn before(&mut self, register: Register, at: u32) -> Reaching {
        let analysis = self.analysis;
        self.registers
            .before(&analysis.cfg, &analysis.dominators, register, at)
    }

    /// What a register holds when control leaves a block.
    pub(crate) fn at_end(&mut self, register: Register, block: BlockId) -> Reaching {
        let analysis = self.analysis;
        self.registers
            .at_end(&analysis.cfg, &analysis.dominators, register, block)
    }

    /// The address in operand `operand`, without the operand's own constant.
    pub(crate) fn address(&mut self, at: u32, operand: usize) -> Option<FormId> {
        let OperandKind::Address(address) = &self.instruction(at).operands.get(operand)?.kind
        else {
            return None;
        };
        let name = address.base?;
        if let Some(register) = self.register(at, name) {
            let Class::Bits(_) = self.registers.class(register) else {
                return None;
            };
            let reaching = self.before(register, at);
            return Some(self.value(reaching));
        }
        let symbol = self.symbol(at, operand)?;
        Some(self.forms.atom_form(Atom::Symbol(symbol.0), 64))
    }

    fn symbol(&self, at: u32, operand: usize) -> Option<(crate::names::SymbolId, i64)> {
        self.analysis
            .code
            .references_of(at as usize)
            .iter()
            .find_map(|reference| match reference.referent {
                Referent::Symbol(id, offset) if usize::from(reference.operand) == operand => {
                    Some((id, offset))
                }
                _ => None,
            })
    }

    fn width(&self, register: Register) -> Width {
        match self.registers.class(register) {
            Class::Bits(width) => width,
            _ => 64,
        }
    }

    /// The value of a register, as a sum of the register's width.
    pub(crate) fn value(&mut self, reaching: Reaching) -> FormId {
        if let Some(form) = self.values.get(&reaching) {
            return *form;
        }
        let (Reaching::Write(register, _)
        | Reaching::Phi(register, _)
        | Reaching::Undefined(register)) = reaching;
        let width = self.width(register);
        let form = if self.depth >= DEEPEST {
            self.forms.atom_form(Atom::Opaque(reaching), width)
        } else {
            self.depth += 1;
            let form = match reaching {
                Reaching::Write(register, index) => self.written(register, index, width),
                Reaching::Phi(register, block) => self.phi(register, block, width),
                Reaching::Undefined(_) => self.forms.atom_form(Atom::Opaque(reaching), width),
            };
            self.depth -= 1;
            form
        };
        self.values.insert(reaching, form);
        form
    }

    /// A phi, or what it is if all that it chooses from is the same.
    fn phi(&mut self, register: Register, block: BlockId, width: Width) -> FormId {
        let own = self
            .forms
            .atom_form(Atom::Phi(Reaching::Phi(register, block)), width);
        let analysis = self.analysis;
        let position = |block: BlockId| analysis.cfg.position[block.0 as usize];
        let predecessors = &analysis.cfg.blocks[block.0 as usize].predecessors;
        let goes_back = predecessors
            .iter()
            .any(|&from| analysis.cfg.is_reachable(from) && position(from) >= position(block));
        if goes_back {
            return own;
        }
        let mut same = None;
        for &from in predecessors {
            if !analysis.cfg.is_reachable(from) {
                continue;
            }
            let reaching = self.at_end(register, from);
            let form = self.value(reaching);
            if *same.get_or_insert(form) != form {
                return own;
            }
        }
        same.unwrap_or(own)
    }

    fn written(&mut self, register: Register, index: u32, width: Width) -> FormId {
        let write = self.registers.write(register, index);
        let opaque = Atom::Opaque(Reaching::Write(register, index));
        let instruction = self.instruction(write.instruction);
        if write.unknown {
            return self.forms.atom_form(opaque, width);
        }
        let new = self
            .definition(write, width, Reaching::Write(register, index))
            .unwrap_or_else(|| self.forms.atom_form(opaque, width));
        let Some(guard) = instruction.guard else {
            return new;
        };
        let before = self.before(register, write.instruction);
        let old = self.value(before);
        let condition = self.guard(write.instruction, guard.register, guard.negated);
        self.forms
            .atom_form(Atom::Select(condition, new, old), width)
    }

    /// What the guard of an instruction says when the instruction executes.
    pub(crate) fn guard(&mut self, at: u32, name: &str, negated: bool) -> ConditionId {
        let condition = self.predicate(at, name);
        if negated {
            self.forms.keep_condition(Condition::Not(condition))
        } else {
            condition
        }
    }

    fn unknown_condition(&mut self) -> ConditionId {
        self.forms.keep_condition(Condition::Unknown)
    }

    /// A predicate register as an instruction reads it.
    fn predicate(&mut self, at: u32, name: &str) -> ConditionId {
        match self.register(at, name) {
            Some(register) if self.registers.class(register) == Class::Predicate => {
                let reaching = self.before(register, at);
                self.condition(reaching)
            }
            _ => self.unknown_condition(),
        }
    }

    fn condition(&mut self, reaching: Reaching) -> ConditionId {
        if let Some(condition) = self.predicates.get(&reaching) {
            return *condition;
        }
        let condition = match reaching {
            Reaching::Write(register, index) if self.depth < DEEPEST => {
                self.depth += 1;
                let condition = self.comparison(register, index);
                self.depth -= 1;
                condition
            }
            _ => None,
        };
        let condition = condition.unwrap_or_else(|| self.unknown_condition());
        self.predicates.insert(reaching, condition);
        condition
    }

    pub(super) fn predicate_operand(&mut self, at: u32, operand: usize) -> Option<ConditionId> {
        match &self.instruction(at).operands.get(operand)?.kind {
            OperandKind::Name(name) => Some(self.predicate(at, name)),
            OperandKind::Not(name) => {
                let condition = self.predicate(at, name);
                Some(self.forms.keep_condition(Condition::Not(condition)))
            }
            _ => None,
        }
    }

    fn comparison(&mut self, register: Register, index: u32) -> Option<ConditionId> {
        let write = self.registers.write(register, index);
        let at = write.instruction;
        let instruction = self.instruction(at);
        if write.unknown || instruction.guard.is_some() {
            return None;
        }
        let opcode = &instruction.opcode;
        match opcode.mnemonic() {
            Mnemonic::Setp => {
                let (view, width) = integer(opcode.types().last()?)?;
                let relation = opcode.modifiers().iter().find_map(|m| relation(*m, view))?;
                let a = self.operand(at, 1, width)?;
                let b = self.operand(at, 2, width)?;
                let mut condition = self
                    .forms
                    .keep_condition(Condition::Compare(relation, a, b));
                if write.element == 1 {
                    condition = self.forms.keep_condition(Condition::Not(condition));
                }
                let combined = opcode
                    .modifiers()
                    .iter()
                    .find(|m| matches!(m, Modifier::And | Modifier::Or | Modifier::Xor));
                match (combined, instruction.operands.len()) {
                    (None, 3) => Some(condition),
                    (Some(Modifier::And), 4) => {
                        let other = self.predicate_operand(at, 3)?;
                        Some(self.forms.keep_condition(Condition::And(condition, other)))
                    }
                    (Some(Modifier::Or), 4) => {
                        let other = self.predicate_operand(at, 3)?;
                        Some(self.forms.keep_condition(Condition::Or(condition, other)))
                    }
                    _ => None,
                }
            }
            Mnemonic::And => {
                let (a, b) = (
                    self.predicate_operand(at, 1)?,
                    self.predicate_operand(at, 2)?,
                );
                Some(self.forms.keep_condition(Condition::And(a, b)))
            }
            Mnemonic::Or => {
                let (a, b) = (
                    self.predicate_operand(at, 1)?,
                    self.predicate_operand(at, 2)?,
                );
                Some(self.forms.keep_condition(Condition::Or(a, b)))
            }
            Mnemonic::Not => {
                let a = self.predicate_operand(at, 1)?;
                Some(self.forms.keep_condition(Condition::Not(a)))
            }
            Mnemonic::Mov => self.predicate_operand(at, 1),
            _ => None,
        }
    }

    /// A source operand, as a sum of `width` bits.
    pub(crate) fn operand(&mut self, at: u32, operand: usize, width: Width) -> Option<FormId> {
        match &self.instruction(at).operands.get(operand)?.kind {
            OperandKind::Integer(value) => Some(self.forms.constant(i128::from(*value), width)),
            OperandKind::Name(name) => {
                if let Some(register) = self.register(at, name) {
                    let Class::Bits(own) = self.registers.class(register) else {
                        return None;
                    };
                    let reaching = self.before(register, at);
                    let value = self.value(reaching);
                    return match own {
                        _ if own == width => Some(value),
                        _ if own > width => Some(self.truncated(value, width)),
                        _ => None,
                    };
                }
                if let Some((symbol, offset)) = self.symbol(at, operand) {
                    return self.address_of(symbol, offset, width);
                }
                if *name == "WARP_SZ" {
                    return Some(self.forms.constant(32, width));
                }
                let special = special(name)?;
                let form = self.forms.atom_form(Atom::Special(special), 32);
                match width {
                    32 => Some(form),
                    _ if width < 32 => Some(self.truncated(form, width)),
                    _ => Some(
                        self.forms
                            .atom_form(Atom::Extend(View::Unsigned, 32, form), width),
                    ),
                }
            }
            OperandKind::NameOffset(..) => {
                let (symbol, offset) = self.symbol(at, operand)?;
                self.address_of(symbol, offset, width)
            }
            _ => None,
        }
    }

    fn address_of(
        &mut self,
        symbol: crate::names::SymbolId,
        offset: i64,
        width: Width,
    ) -> Option<FormId> {
        if self.analysis.code.symbols[symbol.0 as usize].space == SymbolSpace::Other {
            return None;
        }
        let base = self.forms.atom_form(Atom::Symbol(symbol), width);
        let offset = Form::constant(i128::from(offset), width);
        let sum = self.forms.form(base).plus(&offset, 1);
        Some(self.forms.keep(sum))
    }

    /// How a variable's address looks in its own space, or in the generic
    /// one. In the latter, what is global is where it is.
    pub(crate) fn address_atom(&self, symbol: crate::names::SymbolId, generic: bool) -> Atom {
        match self.analysis.code.symbols[symbol.0 as usize].space {
            SymbolSpace::Global => Atom::Symbol(symbol),
            _ if generic => Atom::Generic(symbol),
            _ => Atom::Symbol(symbol),
        }
    }

    /// An address of a variable, or some way into it, converted to or from
    /// the generic space. Where the window lies there is not known, so that
    /// the two have nothing in common.
    pub(super) fn between_spaces(&mut self, form: FormId, opcode: &Opcode<'_>) -> Option<FormId> {
        let to_generic = !opcode.has(Modifier::To);
        let mut converted = self.forms.form(form).clone();
        let (old, symbol) = converted.terms.iter().find_map(|&(atom, factor)| {
            let symbol = match self.forms.atom(atom).0 {
                Atom::Symbol(symbol) if to_generic => symbol,
                Atom::Generic(symbol) if !to_generic => symbol,
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
            (factor == 1 && is_meant).then_some((atom, symbol))
        })?;
        // Outside of its window an address is not moved, but bent.
        let is_within = converted.terms.len() == 1 && (0..1 << 31).contains(&converted.constant);
        if to_generic && !is_within {
            return None;
        }
        converted.terms.retain(|(atom, _)| *atom != old);
        let new = self
            .forms
            .atom_form(self.address_atom(symbol, to_generic), converted.width);
        let sum = self.forms.form(new).plus(&converted, 1);
        Some(self.forms.keep(sum))
    }

    /// The low bits of a sum.
    pub(super) fn truncated(&mut self, form: FormId, width: Width) -> FormId {
        let wide = self.forms.form(form).clone();
        let mut low = Form::constant(i128::from(wide.constant), width);
        for &(atom, factor) in &wide.terms {
            let part = match self.forms.atom(atom) {
                (Atom::Extend(_, from, inner), _) if from >= width => {
                    let inner = if from == width {
                        inner
                    } else {
                        self.truncated(inner, width)
                    };
                    self.forms.form(inner).clone()
                }
                _ => {
                    let mut one = Form::constant(0, width);
                    one.terms.push((atom, 1));
                    one
                }
            };
            low = low.plus(&part, wrap(i128::from(factor), width));
        }
        self.forms.keep(low)
    }

    pub(super) fn sum(&mut self, a: FormId, b: FormId, by: i64) -> FormId {
        let sum = self.forms.form(a).plus(self.forms.form(b), by);
        self.forms.keep(sum)
    }

    pub(super) fn scaled(&mut self, a: FormId, by: i64) -> FormId {
        let product = self.forms.form(a).times(by);
        self.forms.keep(product)
    }

    pub(super) fn extended(&mut self, view: View, a: FormId, from: Width, to: Width) -> FormId {
        if from == to {
            return a;
        }
        if let Some(value) = self.forms.form(a).as_constant() {
            let value = match view {
                View::Signed => i128::from(value),
                View::Unsigned => i128::from(value) & ((1 << from) - 1),
            };
            return self.forms.constant(value, to);
        }
        self.forms.atom_form(Atom::Extend(view, from, a), to)
    }

    pub(super) fn product(&mut self, a: FormId, b: FormId) -> FormId {
        let width = self.forms.form(a).width;
        match (
            self.forms.form(a).as_constant(),
            self.forms.form(b).as_constant(),
        ) {
            (Some(factor), _) => self.scaled(b, factor),
            (_, Some(factor)) => self.scaled(a, factor),
            _ => self
                .forms
                .atom_form(Atom::Multiply(a.min(b), a.max(b)), width),
        }
    }

    /// `a & b`. A mask that clears low bits is what is left after the low
    /// bits are taken away, so that `x - (x & -16)` comes out as `x & 15`.
    pub(super) fn masked(&mut self, a: FormId, b: FormId) -> FormId {
        let width = self.forms.form(a).width;
        let (value, mask) = match (
            self.forms.form(a).as_constant(),
            self.forms.form(b).as_constant(),
        ) {
            (_, Some(mask)) => (a, mask),
            (Some(mask), _) => (b, mask),
            _ => {
                return self.forms.atom_form(Atom::And(a.min(b), a.max(b)), width);
            }
        };
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
        let mask = self.forms.constant(i128::from(mask), width);
        self.forms.atom_form(Atom::And(value, mask), width)
    }

    /// The low `bits` of a value: terms with larger factors have no part in
    /// them.
    pub(super) fn low_bits(&mut self, value: FormId, bits: u32, width: Width) -> FormId {
        if bits == 0 {
            return self.forms.constant(0, width);
        }
        if bits >= u32::from(width) {
            return value;
        }
        let mut form = self.forms.form(value).clone();
        form.terms
            .retain(|(_, factor)| factor.trailing_zeros() < bits);
        let mask = ((1i128 << bits) - 1) as i64;
        form.constant &= mask;
        let constant = form.as_constant();
        if let Some(constant) = constant {
            return self.forms.constant(i128::from(constant), width);
        }
        let form = self.forms.keep(form);
        let mask = self.forms.constant(i128::from(mask), width);
        self.forms.atom_form(Atom::And(form, mask), width)
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
