//! A body as a list of instructions: where control may go from each, which
//! registers it reads, and which it surely writes. Names are resolved by scope.
//!
//! A branch whose label is not found makes the text one that is not contained;
//! an operand without a role is read.

use super::idiom;
use ptx::table::Role;
use ptx::{Block, Function, Instruction, Mnemonic, Modifier, OperandKind, Statement};
use ptx::{Variable, VariableSpace};
use rustc_hash::FxHashMap;

/// The carry flag, which extended-precision instructions pass on, as a register
/// (PTX ISA, 9.7.2).
const CARRY: u32 = 0;

/// One instruction.
pub(super) struct Step<'m, 'a> {
    pub(super) instruction: &'m Instruction<'a>,
    scope: usize,
    /// Registers that it reads.
    pub(super) reads: Vec<u32>,
    /// Registers that it writes whenever it is executed.
    pub(super) writes: Vec<u32>,
    /// Where control may go: indices of instructions, of which the last may be
    /// one past the end.
    pub(super) next: Vec<usize>,
    /// It also goes to a label that is not found.
    pub(super) is_lost: bool,
    /// A label that something names is directly before it.
    pub(super) has_label: bool,
    /// It goes to where threads retire, if they must end: for all else, it exits.
    pub(super) retires: bool,
}

/// A body.
pub(super) struct Flow<'m, 'a> {
    pub(super) steps: Vec<Step<'m, 'a>>,
    /// Registers; they are numbered from 0.
    pub(super) registers: u32,
    /// Those that hold a value where the function begins: parameters.
    pub(super) assigned: Vec<u32>,
    /// Those that must hold one where it returns.
    pub(super) returned: Vec<u32>,
    /// Variables in local memory: bytes and alignment.
    pub(super) locals: FxHashMap<&'a str, (u64, u32)>,
    /// Parameters in memory.
    parameters: Vec<&'a str>,
    labels: FxHashMap<(usize, &'a str), usize>,
    tables: FxHashMap<(usize, &'a str), &'m [&'a str]>,
    /// The scope around each.
    parents: Vec<usize>,
    registers_of: Vec<Scope<'a>>,
}

/// The registers that a scope declares.
#[derive(Default)]
struct Scope<'a> {
    single: FxHashMap<&'a str, u32>,
    families: Vec<(&'a str, u32, u32)>,
}

impl<'m, 'a> Flow<'m, 'a> {
    /// Of a function with a body.
    pub(super) fn of(
        function: &'m Function<'a>,
        body: &'m Block<'a>,
        source: &str,
    ) -> Flow<'m, 'a> {
        let mut flow = Flow {
            steps: Vec::new(),
            registers: CARRY + 1,
            assigned: Vec::new(),
            returned: Vec::new(),
            locals: FxHashMap::default(),
            parameters: Vec::new(),
            labels: FxHashMap::default(),
            tables: FxHashMap::default(),
            parents: vec![0],
            registers_of: vec![Scope::default()],
        };
        let in_registers = |variable: &&Variable<'_>| variable.space == VariableSpace::Reg;
        for variable in function.parameters.iter().filter(in_registers) {
            let register = flow.declare(variable, 0);
            flow.assigned.push(register);
        }
        for variable in function.returns.iter().filter(in_registers) {
            let register = flow.declare(variable, 0);
            flow.returned.push(register);
        }
        let in_memory = |variable: &&Variable<'_>| variable.space == VariableSpace::Param;
        let parameters = function.parameters.iter().filter(in_memory);
        flow.parameters = parameters.map(|variable| variable.name).collect();
        flow.block(body, 0);
        for index in 0..flow.steps.len() {
            (flow.steps[index].next, flow.steps[index].is_lost) = flow.next_of(index);
        }
        for target in flow.targets() {
            if let Some(step) = flow.steps.get_mut(target) {
                step.has_label = true;
            }
        }
        for index in 0..flow.steps.len() {
            if idiom::retires(&flow, index, source) {
                let step = &mut flow.steps[index];
                (step.next, step.retires) = (vec![index + 1], true);
            }
        }
        flow
    }

    /// Whether instructions are in one scope, where a name is one register.
    pub(super) fn is_one_scope(&self, indices: std::ops::Range<usize>) -> bool {
        let mut scopes = self.steps[indices].iter().map(|step| step.scope);
        let first = scopes.next();
        scopes.all(|scope| Some(scope) == first)
    }

    /// Where the labels stand that an instruction or a table names. (Others are
    /// debug information's, such as the one before a function's first line.)
    fn targets(&self) -> Vec<usize> {
        let mut targets = Vec::new();
        let mut named = |scope: usize, name: &'a str| targets.extend(self.label(scope, name));
        for step in &self.steps {
            for operand in &step.instruction.operands {
                operand.names(&mut |name: &'a str| named(step.scope, name));
            }
        }
        for ((scope, _), names) in &self.tables {
            names.iter().for_each(|name| named(*scope, name));
        }
        targets
    }

    /// The instruction behind the label that a name stands for in a scope.
    fn label(&self, scope: usize, name: &str) -> Option<usize> {
        self.outward(scope, |scope| self.labels.get(&(scope, name)).copied())
    }

    /// The register that a name stands for at an instruction.
    pub(super) fn register(&self, index: usize, name: &str) -> Option<u32> {
        self.resolve(self.steps[index].scope, name)
    }

    /// Whether a name is that of a parameter in memory.
    pub(super) fn is_parameter(&self, name: &str) -> bool {
        self.parameters.contains(&name)
    }

    fn declare(&mut self, variable: &Variable<'a>, scope: usize) -> u32 {
        let first = self.registers;
        let declared = &mut self.registers_of[scope];
        match variable.range {
            Some(count) => {
                declared.families.push((variable.name, first, count));
                self.registers = first.saturating_add(count);
            }
            None => {
                declared.single.insert(variable.name, first);
                self.registers = first.saturating_add(1);
            }
        }
        first
    }

    fn block(&mut self, block: &'m Block<'a>, scope: usize) {
        for statement in &block.statements {
            let here = self.steps.len();
            match statement {
                Statement::Label(label) => {
                    self.labels.insert((scope, label.name), here);
                }
                Statement::Variable(variable) if variable.space == VariableSpace::Reg => {
                    self.declare(variable, scope);
                }
                Statement::Variable(variable) if variable.space == VariableSpace::Local => {
                    let size = variable.size().unwrap_or(0);
                    self.locals
                        .insert(variable.name, (size, variable.alignment()));
                }
                Statement::Targets(targets) => {
                    self.tables.insert((scope, targets.label), &targets.names);
                }
                Statement::Block(inner) => {
                    let child = self.parents.len();
                    self.parents.push(scope);
                    self.registers_of.push(Scope::default());
                    self.block(inner, child);
                }
                Statement::Instruction(instruction) => self.instruction(instruction, scope),
                _ => {}
            }
        }
    }

    fn resolve(&self, mut scope: usize, name: &str) -> Option<u32> {
        // (A component of a vector stands for the vector.)
        let names = [Some(name), name.rsplit_once('.').map(|(bare, _)| bare)];
        loop {
            for name in names.into_iter().flatten() {
                let declared = &self.registers_of[scope];
                if let Some(register) = declared.single.get(name) {
                    return Some(*register);
                }
                let member = declared.families.iter().find_map(|(prefix, first, count)| {
                    let digits = name.strip_prefix(prefix)?;
                    let number: u32 = digits.parse().ok()?;
                    // (`%r01` is another name than `%r1`.)
                    let is_member = number < *count && digits == number.to_string();
                    is_member.then(|| first + number)
                });
                if member.is_some() {
                    return member;
                }
            }
            if scope == 0 {
                return None;
            }
            scope = self.parents[scope];
        }
    }

    fn instruction(&mut self, instruction: &'m Instruction<'a>, scope: usize) {
        let info = ptx::table::classify(instruction);
        let opcode = &instruction.opcode;
        let is_call = opcode.mnemonic() == Mnemonic::Call;
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for (index, operand) in instruction.operands.iter().enumerate() {
            let role = info
                .as_ref()
                .and_then(|info| info.roles.get(index).copied());
            let returns = is_call && index == 0 && matches!(operand.kind, OperandKind::List(_));
            let is_address = matches!(operand.kind, OperandKind::Address(_));
            let is_written = (role == Some(Role::Destination) || returns) && !is_address;
            operand.names(&mut |name: &'a str| {
                if let Some(register) = self.resolve(scope, name) {
                    match is_written {
                        // One component of a vector leaves the others.
                        true if name.contains('.') => {}
                        true => writes.push(register),
                        false => reads.push(register),
                    }
                }
            });
        }
        if let Some(guard) = instruction.guard {
            // It may not be executed.
            writes.clear();
            reads.extend(self.resolve(scope, guard.register));
        }
        let extended = [Mnemonic::Addc, Mnemonic::Subc, Mnemonic::Madc];
        if extended.contains(&opcode.mnemonic()) {
            reads.push(CARRY);
        }
        if opcode.has(Modifier::Cc) && instruction.guard.is_none() {
            writes.push(CARRY);
        }
        self.steps.push(Step {
            instruction,
            scope,
            reads,
            writes,
            next: Vec::new(),
            is_lost: false,
            has_label: false,
            retires: false,
        });
    }

    /// Where control may go from an instruction; and whether to a label that is
    /// not found, too.
    fn next_of(&self, index: usize) -> (Vec<usize>, bool) {
        let Step {
            instruction, scope, ..
        } = &self.steps[index];
        let is_guarded = instruction.guard.is_some();
        let name = |number: usize| match instruction.operands.get(number)?.kind {
            OperandKind::Name(name) => Some(name),
            _ => None,
        };
        let one = |name: &str| self.label(*scope, name);
        let (found, falls_through): (Option<Vec<usize>>, bool) = match instruction.opcode.mnemonic()
        {
            Mnemonic::Bra => (name(0).and_then(one).map(|to| vec![to]), is_guarded),
            Mnemonic::Brx => {
                let names = name(1).and_then(|name| self.table(*scope, name));
                let found = names.and_then(|names| names.iter().map(|name| one(name)).collect());
                (found, is_guarded)
            }
            Mnemonic::Ret | Mnemonic::Exit | Mnemonic::Trap => (Some(Vec::new()), is_guarded),
            _ => (Some(Vec::new()), true),
        };
        let is_lost = found.is_none();
        let mut next = found.unwrap_or_default();
        if falls_through {
            next.push(index + 1);
        }
        next.sort_unstable();
        next.dedup();
        (next, is_lost)
    }

    fn table(&self, scope: usize, name: &str) -> Option<&'m [&'a str]> {
        self.outward(scope, |scope| self.tables.get(&(scope, name)).copied())
    }

    fn outward<T>(&self, mut scope: usize, find: impl Fn(usize) -> Option<T>) -> Option<T> {
        loop {
            let found = find(scope);
            if found.is_some() || scope == 0 {
                return found;
            }
            scope = self.parents[scope];
        }
    }
}
