//! What an earlier kernel left is never read: registers, parameters of calls,
//! shared and local memory are written before they are read, in the same launch.
//!
//! **Argument.**
//!
//! * *Registers*: a forward analysis over the control-flow graph keeps, for each
//!   place, the registers that every path to it has written. A write under a
//!   guard does not count, nor does one to a part of a vector. Each register
//!   that an instruction reads, also as its guard, is among them. The carry flag
//!   is a register.
//! * *Parameters of functions*: where a call stands, and where a function
//!   returns, each byte that goes along was stored since the last label, branch
//!   or call, by a store without a guard. What a function reads of its
//!   parameters is therefore written; so is what its caller reads of the results.
//! * *Shared memory*: in each kernel that accesses any, itself or by what it
//!   calls, the threads of a block clear all of it and meet at a barrier, before
//!   the first access ([`super::idiom`]). The size that the device has
//!   for a block is a multiple of 16 bytes (PTX ISA, `%total_smem_size`).
//! * *Local memory*: each byte of a variable is stored in the head of its body,
//!   before any other access there.
//!
//! What ptxas adds of its own (spilled registers, return addresses) it writes
//! before it reads it. The host clears global memory, and gives each kernel all
//! of its parameters.

use super::Errors;
use super::flow::Flow;
use super::intro::Intro;
use ptx::table::Extent;
use ptx::{
    Address, Block, Function, Instruction, Mnemonic, OperandKind, Statement, Variable,
    VariableSpace,
};
use rustc_hash::FxHashMap;

/// Judges registers and local memory.
pub(super) fn judge<'a>(
    function: &Function<'a>,
    flow: &Flow<'_, 'a>,
    intro: &Intro<'a>,
    errors: &mut Errors<'_>,
) {
    registers(function, flow, errors);
    for (_, statement) in function.statements() {
        let Statement::Variable(variable) = statement else {
            continue;
        };
        let is_local = variable.space == VariableSpace::Local;
        if is_local && !intro.covers(variable.name, variable.size().unwrap_or(u64::MAX)) {
            let message = format!("`{}` is not cleared before its first use", variable.name);
            errors.at(variable.span, message);
        }
    }
    if let Some(body) = &function.body {
        let mut parameters = Parameters {
            function,
            stored: FxHashMap::default(),
            sizes: Vec::new(),
            errors,
        };
        for variable in &function.returns {
            parameters.declare(variable);
        }
        parameters.block(body);
        if !parameters.sizes.is_empty() && ends_open(body) {
            parameters.returns(function.name_span);
        }
    }
}

/// Whether control may reach the end of a body, where it returns.
fn ends_open(body: &Block<'_>) -> bool {
    let last = body
        .statements
        .iter()
        .rev()
        .find_map(|statement| match statement {
            Statement::Instruction(instruction) => Some(instruction),
            _ => None,
        });
    let ends = [Mnemonic::Ret, Mnemonic::Exit, Mnemonic::Trap, Mnemonic::Bra];
    !last.is_some_and(|last| last.guard.is_none() && ends.contains(&last.opcode.mnemonic()))
}

/// A set of registers.
#[derive(Clone, PartialEq)]
struct Set(Vec<u64>);

impl Set {
    fn new(count: u32, value: bool) -> Set {
        let word = if value { u64::MAX } else { 0 };
        Set(vec![word; (count as usize).div_ceil(64)])
    }

    fn insert(&mut self, register: u32) {
        if let Some(word) = self.0.get_mut(register as usize / 64) {
            *word |= 1 << (register % 64);
        }
    }

    fn contains(&self, register: u32) -> bool {
        let word = self.0.get(register as usize / 64);
        word.is_some_and(|word| word >> (register % 64) & 1 != 0)
    }

    /// Keeps what the other has, too; answers whether something went.
    fn intersect(&mut self, other: &Set) -> bool {
        let mut changed = false;
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            changed |= *word & !other != 0;
            *word &= other;
        }
        changed
    }
}

/// A body whose registers, times its blocks, are more than this is not judged:
/// the analysis would take too much memory.
const LARGEST_TABLE: u64 = 1 << 31;

fn registers(function: &Function<'_>, flow: &Flow<'_, '_>, errors: &mut Errors<'_>) {
    let count = flow.steps.len();
    // Blocks: from each of these instructions to before the next.
    let mut begins = vec![false; count + 1];
    begins[0] = true;
    for (index, step) in flow.steps.iter().enumerate() {
        if step.next != [index + 1] {
            begins[index + 1] = true;
            step.next.iter().for_each(|next| begins[*next] = true);
        }
    }
    let blocks = begins.iter().filter(|begins| **begins).count() as u64;
    if blocks.saturating_mul(u64::from(flow.registers)) > LARGEST_TABLE {
        errors.at(function.name_span, "it has too many registers and branches");
        return;
    }
    // What is written where a block begins; `None` where nothing leads so far.
    let mut before: FxHashMap<usize, Set> = FxHashMap::default();
    let mut first = Set::new(flow.registers, false);
    flow.assigned
        .iter()
        .for_each(|register| first.insert(*register));
    before.insert(0, first);
    let mut work = vec![0];
    while let Some(block) = work.pop() {
        let Some(mut written) = before.get(&block).cloned() else {
            continue;
        };
        let mut at = block;
        while let Some(step) = flow.steps.get(at) {
            step.writes
                .iter()
                .for_each(|register| written.insert(*register));
            at += 1;
            if begins[at] {
                break;
            }
        }
        let Some(last) = at.checked_sub(1).and_then(|last| flow.steps.get(last)) else {
            continue;
        };
        for &next in &last.next {
            let changed = match before.get_mut(&next) {
                Some(known) => known.intersect(&written),
                None => {
                    before.insert(next, written.clone());
                    true
                }
            };
            if changed {
                work.push(next);
            }
        }
    }
    for (block, mut written) in before {
        for at in block..count {
            let step = &flow.steps[at];
            let unwritten = step
                .reads
                .iter()
                .any(|register| !written.contains(*register));
            let returns = step.instruction.opcode.mnemonic() == Mnemonic::Ret;
            let unreturned = returns && flow.returned.iter().any(|r| !written.contains(*r));
            if unwritten || unreturned {
                let message = "it reads a register that may not be written";
                errors.at(step.instruction.span, message);
            }
            step.writes
                .iter()
                .for_each(|register| written.insert(*register));
            if begins[at + 1] {
                break;
            }
        }
        // Where a body ends, it returns.
        if block == count && flow.returned.iter().any(|r| !written.contains(*r)) {
            errors.at(
                function.name_span,
                "it returns a register that may not be written",
            );
        }
    }
}

/// Stores to parameters of calls and to results, in a straight piece of code.
struct Parameters<'x, 't, 'f, 'a> {
    function: &'f Function<'a>,
    /// Bytes that were stored, by name.
    stored: FxHashMap<&'a str, Vec<bool>>,
    /// Parameters that are declared, the innermost scope last: bytes.
    sizes: Vec<(&'a str, u64)>,
    errors: &'x mut Errors<'t>,
}

impl<'a> Parameters<'_, '_, '_, 'a> {
    fn declare(&mut self, variable: &Variable<'a>) {
        if variable.space == VariableSpace::Param {
            // What lies under the name from now on is another one.
            self.stored.remove(variable.name);
            self.sizes
                .push((variable.name, variable.size().unwrap_or(u64::MAX)));
        }
    }

    fn block(&mut self, block: &Block<'a>) {
        let outer = self.sizes.len();
        for statement in &block.statements {
            match statement {
                Statement::Label(_) => self.stored.clear(),
                Statement::Block(inner) => {
                    self.block(inner);
                }
                Statement::Variable(variable) => self.declare(variable),
                Statement::Instruction(instruction) => self.instruction(instruction),
                _ => {}
            }
        }
        for (name, _) in self.sizes.drain(outer..) {
            self.stored.remove(name);
        }
    }

    fn instruction(&mut self, instruction: &Instruction<'a>) {
        match instruction.opcode.mnemonic() {
            Mnemonic::St if instruction.guard.is_none() => {
                if let Some((name, from, to)) = self.place(instruction) {
                    let stored = self.stored.entry(name).or_default();
                    if stored.len() < to {
                        stored.resize(to, false);
                    }
                    stored[from..to].fill(true);
                }
            }
            Mnemonic::Ld => {
                if let Some((name, from, to)) = self.place(instruction) {
                    let stored = self.stored.get(name).and_then(|bytes| bytes.get(from..to));
                    if !stored.is_some_and(|bytes| bytes.iter().all(|byte| *byte)) {
                        let message = format!("`{name}` is read before it is written");
                        self.errors.at(instruction.span, message);
                    }
                }
            }
            Mnemonic::Call => {
                self.call(instruction);
                self.stored.clear();
                self.results(instruction);
            }
            Mnemonic::Ret => {
                self.returns(instruction.span);
                // (Under a guard, the code behind it may return, too.)
                if instruction.guard.is_none() {
                    self.stored.clear();
                }
            }
            Mnemonic::Bra | Mnemonic::Brx if instruction.guard.is_none() => self.stored.clear(),
            _ => {}
        }
    }

    /// Which bytes of which parameter an instruction accesses by its name: first
    /// and one past the last.
    fn place(&self, instruction: &Instruction<'a>) -> Option<(&'a str, usize, usize)> {
        let (_, Address { base, offset, .. }) = instruction.address_operand()?;
        let name = (*base)?;
        let (_, size) = self
            .sizes
            .iter()
            .rev()
            .find(|(declared, _)| *declared == name)?;
        let info = ptx::table::classify(instruction)?;
        let access = info.accesses.first()?;
        let is_param = access.space == ptx::table::Space::Param;
        let extent = ptx::table::extent(instruction, access, false)?;
        let (true, Extent::Bytes(bytes)) = (is_param, extent) else {
            return None;
        };
        let from = u64::try_from(*offset).ok()?;
        let to = from.saturating_add(bytes).min(*size).min(LARGEST);
        (from < to).then_some((name, from as usize, to as usize))
    }

    /// The callee has stored what it returns.
    fn results(&mut self, call: &Instruction<'a>) {
        let Some(OperandKind::List(results)) = call.operands.first().map(|operand| &operand.kind)
        else {
            return;
        };
        if call.guard.is_some() {
            return;
        }
        for result in results {
            result.names(&mut |name| {
                let declared = self
                    .sizes
                    .iter()
                    .rev()
                    .find(|(declared, _)| *declared == name);
                if let Some((_, size)) = declared {
                    self.stored
                        .insert(name, vec![true; (*size).min(LARGEST) as usize]);
                }
            });
        }
    }

    /// All arguments are stored. (Those in registers are read like others.)
    fn call(&mut self, call: &Instruction<'a>) {
        let lists = call.operands.iter().enumerate().skip(1);
        let lists = lists.filter_map(|(_, operand)| match &operand.kind {
            OperandKind::List(list) => Some(list),
            _ => None,
        });
        let mut missing = Vec::new();
        for operand in lists.flatten() {
            operand.names(&mut |name| {
                let mut declared = self.sizes.iter().rev();
                if let Some((_, size)) = declared.find(|(declared, _)| *declared == name)
                    && !self.is_stored(name, *size)
                {
                    missing.push(name);
                }
            });
        }
        for name in missing {
            let message = format!("`{name}` is passed before all of it is stored");
            self.errors.at(call.span, message);
        }
    }

    fn returns(&mut self, place: ptx::Span) {
        for variable in &self.function.returns {
            let is_parameter = variable.space == VariableSpace::Param;
            if is_parameter && !self.is_stored(variable.name, variable.size().unwrap_or(u64::MAX)) {
                let message = format!("`{}` is returned before all of it is stored", variable.name);
                self.errors.at(place, message);
            }
        }
    }

    fn is_stored(&self, name: &str, size: u64) -> bool {
        let stored = self.stored.get(name);
        size == 0
            || stored
                .is_some_and(|bytes| bytes.len() as u64 == size && bytes.iter().all(|byte| *byte))
    }
}

/// Parameters have at most so many bytes (PTX ISA, 5.1.6.1: 32,764).
const LARGEST: u64 = 1 << 15;
