//! Registers that may be read before they are written: what an earlier kernel
//! left would be in them. They are zero from the head of the body on, or from
//! their declaration. (Where a register is written after all, ptxas drops that.)

use super::refuse::Refusals;
use super::shared::Groups;
use crate::patch::{Patch, line};
use analysis::{Analysis, Code, Role};
use ptx::{
    Function, Instruction, Mnemonic, Modifier, OperandKind, Statement, Type, Variable,
    VariableSpace,
};
use rustc_hash::FxHashSet;

/// What a function reads and may not have written.
#[derive(Default)]
pub(super) struct Unwritten<'a> {
    /// Names of registers.
    names: FxHashSet<&'a str>,
    /// The carry flag.
    carry: bool,
}

/// A set of registers by number; the carry flag comes last.
type Set = Vec<u64>;

fn insert(set: &mut [u64], register: usize) {
    set[register / 64] |= 1 << (register % 64);
}

fn contains(set: &[u64], register: usize) -> bool {
    set[register / 64] >> (register % 64) & 1 != 0
}

/// Finds them, of the original code.
pub(super) fn find<'a>(analysis: &Analysis<'_, 'a>, groups: &Groups) -> Unwritten<'a> {
    let (code, cfg) = (&analysis.code, &analysis.cfg);
    let count = code.registers() as usize;
    let words = (count + 1).div_ceil(64);
    let all: Set = vec![u64::MAX; words];
    let mut ends = vec![all.clone(); cfg.blocks.len()];
    let mut out = Unwritten::default();
    // The analysis ends: sets only become smaller.
    let mut changed = true;
    while changed {
        changed = false;
        for &block in &cfg.order {
            let mut written = before(analysis, block, &ends, &all);
            for index in cfg.instructions(block) {
                writes(code, groups, index, &mut written);
            }
            let end = &mut ends[block.0 as usize];
            if *end != written {
                *end = written;
                changed = true;
            }
        }
    }
    for &block in &cfg.order {
        let mut written = before(analysis, block, &ends, &all);
        for index in cfg.instructions(block) {
            reads(code, groups, index, &written, &mut out);
            writes(code, groups, index, &mut written);
        }
    }
    out
}

/// What is written where a block begins.
fn before(analysis: &Analysis<'_, '_>, block: analysis::BlockId, ends: &[Set], all: &[u64]) -> Set {
    let cfg = &analysis.cfg;
    let mut written = all.to_vec();
    if cfg.order.first() == Some(&block) {
        written.fill(0);
    }
    for predecessor in &cfg.blocks[block.0 as usize].predecessors {
        if !cfg.is_reachable(*predecessor) {
            continue;
        }
        for (word, other) in written.iter_mut().zip(&ends[predecessor.0 as usize]) {
            *word &= other;
        }
    }
    written
}

/// Whether an instruction surely happens where control reaches it: a fence makes
/// an access in shared memory depend on how much of it there is, unless it is in a
/// group.
pub(super) fn is_sure(instruction: &Instruction<'_>) -> bool {
    let is_shared = |info: &ptx::table::Info| {
        let mut accesses = info.accesses.iter();
        accesses.any(|access| access.space == ptx::table::Space::Shared)
    };
    let has_address = instruction.address_operand().is_some();
    instruction.guard.is_none()
        && !(has_address && ptx::table::classify(instruction).is_none_or(|info| is_shared(&info)))
}

fn writes(code: &Code<'_, '_>, groups: &Groups, index: usize, written: &mut [u64]) {
    let instruction = code.instructions[index].instruction;
    if !is_sure(instruction) && !groups.holds(index) {
        return;
    }
    for reference in code.references_of(index) {
        if let (Role::Write, Some(register)) =
            (role(instruction, reference), reference.referent.register())
            && !is_component(instruction, reference)
        {
            insert(written, register.0 as usize);
        }
    }
    if instruction.opcode.has(Modifier::Cc) {
        insert(written, code.registers() as usize);
    }
}

fn reads<'a>(
    code: &Code<'_, 'a>,
    groups: &Groups,
    index: usize,
    written: &[u64],
    out: &mut Unwritten<'a>,
) {
    let instruction = code.instructions[index].instruction;
    for reference in code.references_of(index) {
        let Some(register) = reference.referent.register() else {
            continue;
        };
        let is_written = role(instruction, reference) == Role::Write;
        // (What shows that a wait has succeeded is read by a look behind it.)
        let is_looked_at = instruction.opcode.has(Modifier::TryWait) && !groups.holds(index);
        if (!is_written || is_looked_at) && !contains(written, register.0 as usize) {
            out.names.extend(name_of(instruction, reference));
        }
    }
    let extended = [Mnemonic::Addc, Mnemonic::Subc, Mnemonic::Madc];
    if extended.contains(&instruction.opcode.mnemonic())
        && !contains(written, code.registers() as usize)
    {
        out.carry = true;
    }
}

/// What is done with a register; the results of a call are written.
fn role(instruction: &Instruction<'_>, reference: &analysis::Reference) -> Role {
    let is_list = |operand: &ptx::Operand<'_>| matches!(operand.kind, OperandKind::List(_));
    let is_result = instruction.opcode.mnemonic() == Mnemonic::Call
        && reference.operand == 0
        && instruction.operands.first().is_some_and(is_list);
    if is_result {
        Role::Write
    } else {
        reference.role
    }
}

fn is_component(instruction: &Instruction<'_>, reference: &analysis::Reference) -> bool {
    name_of(instruction, reference).is_some_and(|name| name.contains('.'))
}

/// The name that a reference is of.
fn name_of<'a>(instruction: &Instruction<'a>, reference: &analysis::Reference) -> Option<&'a str> {
    if reference.operand == analysis::GUARD {
        return instruction.guard.map(|guard| guard.register);
    }
    let operand = instruction.operands.get(usize::from(reference.operand))?;
    let kind = match &operand.kind {
        OperandKind::Vector(list) | OperandKind::List(list) => {
            &list.get(usize::from(reference.element))?.kind
        }
        kind => kind,
    };
    match kind {
        OperandKind::Name(name) | OperandKind::NameOffset(name, _) | OperandKind::Not(name) => {
            Some(name)
        }
        OperandKind::Pair(first, second) => Some(match reference.element {
            0 => first,
            _ => second,
        }),
        OperandKind::Address(address) => address.base,
        _ => None,
    }
}

impl<'a> Unwritten<'a> {
    /// Leaves out a register that is given a first value in another way.
    pub(super) fn leave_out(&mut self, name: &str) {
        self.names.remove(name);
    }

    /// Sets those that are declared before the head of the body ends.
    pub(super) fn head(
        &self,
        function: &Function<'a>,
        head_at: u32,
        refusals: &mut Refusals<'_>,
        out: &mut String,
    ) {
        for (depth, statement) in function.statements() {
            if let Statement::Variable(variable) = statement
                && depth == 0
                && variable.span.end <= head_at
            {
                self.set(variable, refusals, out);
            }
        }
        if self.carry {
            line!(out, "mov.u32 %__rf_phase, 0;");
            line!(out, "add.cc.u32 %__rf_phase, %__rf_phase, 0;");
        }
    }

    /// Sets those of a declaration that stands later, or in a scope.
    pub(super) fn later(
        &self,
        (depth, head_at): (usize, u32),
        variable: &Variable<'a>,
        refusals: &mut Refusals<'_>,
        patch: &mut Patch,
    ) {
        if depth == 0 && variable.span.end <= head_at {
            return;
        }
        let mut text = String::new();
        self.set(variable, refusals, &mut text);
        if !text.is_empty() {
            patch.insert(variable.span.end, |out| {
                out.push_str("\n\t");
                out.push_str(&text);
            });
        }
    }

    fn set(&self, variable: &Variable<'a>, refusals: &mut Refusals<'_>, out: &mut String) {
        if variable.space != VariableSpace::Reg || self.names.is_empty() {
            return;
        }
        let mut names: Vec<String> = Vec::new();
        match variable.range {
            None => {
                let has = |name: &&&str| {
                    name.split('.').next() == Some(variable.name) || **name == variable.name
                };
                names.extend(
                    self.names
                        .iter()
                        .find(has)
                        .map(|_| variable.name.to_owned()),
                );
            }
            Some(count) => {
                let number = |name: &&str| name.strip_prefix(variable.name)?.parse::<u32>().ok();
                let mut numbers: Vec<u32> = self.names.iter().filter_map(number).collect();
                numbers.sort_unstable();
                numbers.dedup();
                let numbers = numbers.into_iter().filter(|number| *number < count);
                names.extend(numbers.map(|number| format!("{}{number}", variable.name)));
            }
        }
        for name in names {
            match (variable.ty, variable.ty.bytes(), variable.vector) {
                (Type::Pred, _, 1) => line!(out, "mov.pred {name}, 0;"),
                (_, bytes @ (2 | 4 | 8), 1) => line!(out, "mov.b{} {name}, 0;", 8 * bytes),
                _ => refusals.add(
                    variable.span,
                    format!("`{name}` may be read before it is written"),
                ),
            }
        }
    }
}
