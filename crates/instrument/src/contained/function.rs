//! The functions of a module: their statements, calls and accesses.

use super::dominance::Dominance;
use super::frames;
use super::intro::Sequences;
use super::invariants::{Invariants, Walked};
use super::known::{Known, Registers, Rows, Space as Within};
use super::names::{Outside, halved};
use super::variables::Variables;
use super::{Errors, lanes, rows};
use model::layout::fence::{self as layout, EXTENT, REACH, ROOM, STACK};
use ptx::table::{Access, Extent, Info, Role, Space};
use ptx::{
    Address, Block, Function, Instruction, Mnemonic, Modifier, Module, OperandKind, Span,
    Statement, VariableSpace,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::Cell;
use std::rc::Rc;

/// The functions of a module, by name.
pub(super) struct Functions<'a> {
    defined: FxHashSet<&'a str>,
    /// Those that get the address of the frames.
    with_frames: FxHashSet<&'a str>,
}

/// Directives that only describe how a kernel is launched.
const DIRECTIVES: &[&str] = &[
    ".maxntid",
    ".reqntid",
    ".minnctapersm",
    ".maxnctapersm",
    ".maxnreg",
];

/// Instructions that do something else than compute from their operands, and
/// are allowed.
const ALLOWED: &[Mnemonic] = &[
    Mnemonic::Ld,
    Mnemonic::Ldu,
    Mnemonic::St,
    Mnemonic::Atom,
    Mnemonic::Red,
    Mnemonic::Createpolicy,
    Mnemonic::Cp,
    Mnemonic::Mbarrier,
    Mnemonic::Ldmatrix,
    Mnemonic::Stmatrix,
    Mnemonic::Movmatrix,
    Mnemonic::Mma,
    Mnemonic::Wmma,
    Mnemonic::Cvta,
    Mnemonic::Isspacep,
    Mnemonic::Bra,
    Mnemonic::Brx,
    Mnemonic::Call,
    Mnemonic::Ret,
    Mnemonic::Exit,
    Mnemonic::Bar,
    Mnemonic::Barrier,
    Mnemonic::Vote,
    Mnemonic::Shfl,
    Mnemonic::Match,
    Mnemonic::Redux,
    Mnemonic::Elect,
    Mnemonic::Activemask,
    Mnemonic::Membar,
    Mnemonic::Fence,
    Mnemonic::Nanosleep,
];

/// Special registers that may be read (PTX ISA, chapter 10).
const SPECIAL: &[&str] = &[
    "%tid",
    "%ntid",
    "%ctaid",
    "%nctaid",
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%smid",
    "%nsmid",
    "%gridid",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
    "%clock",
    "%clock_hi",
    "%clock64",
    "%globaltimer",
    "%globaltimer_lo",
    "%globaltimer_hi",
    "%total_smem_size",
    "%dynamic_smem_size",
];

impl<'a> Functions<'a> {
    /// Of a module; functions that call themselves are errors.
    pub(super) fn of(module: &Module<'a>, errors: &mut Errors<'_>) -> Functions<'a> {
        let functions = || {
            module
                .functions()
                .filter(|function| function.body.is_some())
        };
        let callable = || functions().filter(|function| !function.is_entry);
        let with_frames = callable().filter(|function| frames::takes(function));
        let found = Functions {
            defined: callable().map(|function| function.name).collect(),
            with_frames: with_frames.map(|function| function.name).collect(),
        };
        if found.defined.len() != callable().count() {
            errors.at(Span::default(), "a function is defined twice");
        }
        let (bounded, _) = bounded(functions());
        for function in functions().filter(|function| !bounded.contains(function.name)) {
            errors.at(
                function.name_span,
                "its calls lead to itself, or to what is not known",
            );
        }
        found
    }

    /// Judges one function; if it may access shared memory, answers how many bytes of
    /// it each block must have. `sequences` says which accesses are contained, because the
    /// sequence that they are in is known.
    pub(super) fn judge(
        &self,
        function: &Function<'a>,
        variables: &Rc<Variables<'a>>,
        sequences: &Sequences<'a>,
        errors: &mut Errors<'_>,
    ) -> Option<u64> {
        let linkage = function.linkage;
        // (What is declared and not defined is never called.)
        let is_own = matches!(linkage, ptx::Linkage::Local | ptx::Linkage::Visible);
        if function.body.is_some() && !is_own {
            errors.at(function.name_span, "a function of another file");
        }
        for directive in &function.directives {
            if !DIRECTIVES.contains(&directive.name) {
                errors.at(
                    directive.span,
                    format!("`{}` is not allowed", directive.name),
                );
            }
        }
        let mut body = Body {
            variables: Variables::in_function(variables),
            registers: Registers::default(),
            declared: FxHashSet::default(),
            families: Vec::new(),
            definitions: FxHashMap::default(),
            labels: FxHashSet::default(),
            tables: FxHashMap::default(),
            is_head: true,
            functions: self,
            sequences,
            accesses_shared: false,
            moving: FxHashMap::default(),
            room: Cell::new(0),
            errors,
        };
        for parameter in function.parameters.iter().chain(&function.returns) {
            body.declare(parameter);
            body.variables.add(parameter);
            let is_addressable = function.is_entry && parameter.space == VariableSpace::Param;
            if is_addressable && !body.variables.add_parameter(parameter) {
                let message = format!("`{}` is declared more than once", parameter.name);
                body.errors.at(parameter.span, message);
            }
        }
        for (depth, statement) in function.statements() {
            if let Statement::Variable(variable) = statement {
                body.declare(variable);
                body.own_scope(variable, depth);
            }
            if let Statement::Label(label) = statement {
                body.labels.insert(label.name);
            }
            if let Statement::Targets(targets) = statement {
                let count = targets.names.len();
                if body.tables.insert(targets.label, count).is_some() {
                    body.errors.at(targets.span, "a second table of this name");
                }
            }
            if let Statement::Instruction(instruction) = statement {
                for name in written(instruction) {
                    *body.definitions.entry(name).or_default() += 1;
                }
            }
        }
        if frames::takes(function) {
            match body.definitions.contains_key(STACK) {
                true => body
                    .errors
                    .at(function.name_span, "it writes the address of the frames"),
                false => body.registers.give(STACK, Known::Frames),
            }
        }
        body.names_are_apart(function);
        body.walk(function);
        for callee in calls(function).flatten() {
            if !self.defined.contains(callee) {
                let span = function.name_span;
                body.errors.at(
                    span,
                    format!("it calls `{callee}`, which is not a function of the module"),
                );
            }
        }
        body.accesses_shared.then_some(body.room.get())
    }
}

/// The functions whose calls end: each of which all callees are among them. And how many
/// steps it took to find them.
fn bounded<'f, 'a: 'f>(
    functions: impl Iterator<Item = &'f Function<'a>>,
) -> (FxHashSet<&'a str>, usize) {
    let mut callers: FxHashMap<&str, Vec<&'a str>> = FxHashMap::default();
    // How many of its calls lead to what is not known to end.
    let mut open: FxHashMap<&str, usize> = FxHashMap::default();
    let mut ready = Vec::new();
    for function in functions {
        let mut count = 0;
        for callee in calls(function) {
            count += 1;
            if let Some(callee) = callee {
                callers.entry(callee).or_default().push(function.name);
            }
        }
        match count {
            0 => ready.push(function.name),
            count => *open.entry(function.name).or_default() += count,
        }
    }
    let (mut bounded, mut steps) = (FxHashSet::default(), 0);
    while let Some(name) = ready.pop() {
        steps += 1;
        if !bounded.insert(name) {
            continue;
        }
        for caller in callers.get(name).into_iter().flatten() {
            steps += 1;
            if let Some(count) = open.get_mut(caller) {
                *count -= 1;
                if *count == 0 {
                    ready.push(caller);
                }
            }
        }
    }
    (bounded, steps)
}

/// Whom a function calls: `None` for a call through a pointer.
fn calls<'f, 'a>(function: &'f Function<'a>) -> impl Iterator<Item = Option<&'a str>> + 'f {
    let calls = function
        .instructions()
        .filter(|instruction| instruction.opcode.mnemonic() == Mnemonic::Call);
    calls.map(|call| call.called_function().map(|(_, name)| name))
}

/// The registers that an instruction writes, as far as its operands name them.
fn written<'a>(instruction: &Instruction<'a>) -> Vec<&'a str> {
    let mut out = Vec::new();
    let info = ptx::table::classify(instruction);
    for (index, operand) in instruction.operands.iter().enumerate() {
        let role = match &info {
            Some(info) => info.roles.get(index).copied(),
            // Refused elsewhere; until then it may write anything.
            None => Some(Role::Both),
        };
        if matches!(role, Some(Role::Destination | Role::Both)) {
            operand.names(&mut |name| out.push(name));
        }
    }
    // What a call returns in registers.
    if instruction.opcode.mnemonic() == Mnemonic::Call
        && let Some(OperandKind::List(_)) = instruction.operands.first().map(|o| &o.kind)
    {
        instruction.operands[0].names(&mut |name| out.push(name));
    }
    out
}

/// One body.
struct Body<'x, 't, 'a> {
    variables: Variables<'a>,
    registers: Registers<'a>,
    /// Registers, and the families that they are members of.
    declared: FxHashSet<&'a str>,
    families: Vec<(&'a str, u32)>,
    /// How many instructions write each register.
    definitions: FxHashMap<&'a str, u32>,
    labels: FxHashSet<&'a str>,
    /// Tables of labels: how many each holds. Names are those of one table.
    tables: FxHashMap<&'a str, usize>,
    /// No scope was seen so far.
    is_head: bool,
    functions: &'x Functions<'a>,
    sequences: &'x Sequences<'a>,
    accesses_shared: bool,
    /// Instructions that move an address in the partition through a loop whose passes are
    /// counted: how far, and what the address was a multiple of before.
    moving: FxHashMap<u32, (i64, u32)>,
    /// Bytes of shared memory that are taken for granted.
    room: Cell<u64>,
    errors: &'x mut Errors<'t>,
}

impl<'a> Body<'_, '_, 'a> {
    fn declare(&mut self, variable: &ptx::Variable<'a>) {
        let span = variable.span;
        if variable.has_attributes {
            let message = format!("`{}` has attributes", variable.name);
            self.errors.at(span, message);
        }
        let is_new = match variable.space {
            VariableSpace::Reg => match variable.range {
                Some(count) => {
                    let is_new = !self.families.iter().any(|(name, _)| *name == variable.name);
                    self.families.push((variable.name, count));
                    // The same in another scope is another register.
                    is_new || !variable.name.starts_with(OWN)
                }
                None => self.declared.insert(variable.name) || !variable.name.starts_with(OWN),
            },
            VariableSpace::Local | VariableSpace::Shared => self.variables.add(variable),
            // Where its scope begins: many have the same name, but none that of a
            // variable.
            VariableSpace::Param => !self.variables.has(variable.name),
            _ => {
                self.errors.at(span, "a declaration that is not allowed");
                true
            }
        };
        if !is_new {
            let message = format!("`{}` is declared more than once", variable.name);
            self.errors.at(span, message);
        }
        if variable.initializer.is_some() {
            self.errors.at(span, "an initializer in a function");
        }
    }

    /// A register of a fence's, declared in a scope, would be another one under
    /// the same name: what is known of the outer one says nothing of it.
    fn own_scope(&mut self, variable: &ptx::Variable<'a>, depth: usize) {
        let is_own = variable.space == VariableSpace::Reg && variable.name.starts_with(OWN);
        if is_own && depth > 0 {
            self.errors
                .at(variable.span, "a register of a fence's in a scope");
        }
    }

    /// No name is that of a register and of a variable, or of a special register:
    /// in some scope it would stand for the other.
    fn names_are_apart(&mut self, function: &Function<'a>) {
        let singles = self.declared.iter().copied();
        let mut twice: Vec<&str> = singles.filter(|name| self.variables.has(name)).collect();
        for (prefix, _) in &self.families {
            let named = self.variables.beginning_with(prefix);
            twice.extend(named.filter(|name| self.is_register(name)));
        }
        let special = SPECIAL.iter().copied();
        twice.extend(special.filter(|name| self.is_register(name)));
        for name in twice {
            let message = format!("`{name}` is the name of a register, too");
            self.errors.at(function.name_span, message);
        }
    }

    fn is_register(&self, name: &str) -> bool {
        let in_family = |(prefix, count): &(&str, u32)| {
            let digits = name.strip_prefix(prefix);
            digits.is_some_and(|digits| digits.parse::<u32>().is_ok_and(|number| number < *count))
        };
        self.declared.contains(name) || self.families.iter().any(in_family)
    }

    /// Walks over the body until invariants are found in which it is judged.
    fn walk(&mut self, function: &Function<'a>) {
        let Some(block) = &function.body else {
            return;
        };
        let mut written_at: FxHashMap<&'a str, Vec<u32>> = FxHashMap::default();
        for (number, instruction) in function.instructions().enumerate() {
            for name in written(instruction) {
                written_at.entry(name).or_default().push(number as u32);
            }
        }
        let outside = Outside::of(function);
        let written_at = written_at.into_iter();
        self.registers.invariants = Invariants::new(
            Dominance::of(function),
            written_at.filter(|(name, _)| outside.declares_once(name)),
        );
        let errors = self.errors.list.len();
        loop {
            self.registers.restart();
            self.moving.clear();
            self.is_head = true;
            self.block(block);
            match self.registers.invariants.walked() {
                Walked::Done => return,
                Walked::Again => {
                    self.errors.list.truncate(errors);
                    self.accesses_shared = false;
                }
                Walked::Endless => {
                    let message = "it is too intricate to be judged";
                    return self.errors.at(function.name_span, message);
                }
            }
        }
    }

    fn block(&mut self, block: &Block<'a>) {
        let outer = self.variables.parameters();
        for statement in &block.statements {
            match statement {
                Statement::Label(_) => self.registers.forget(),
                Statement::Block(inner) => {
                    // Names mean something else inside.
                    self.jump();
                    self.block(inner);
                    self.jump();
                }
                Statement::Instruction(instruction) => {
                    self.instruction(instruction);
                    self.registers.here += 1;
                }
                Statement::Variable(variable) if variable.space == VariableSpace::Param => {
                    self.variables.add(variable);
                }
                Statement::Variable(_) | Statement::Loc(_) => {}
                Statement::Pragma(span) | Statement::Other(span) => {
                    self.errors.at(*span, "a directive that is not allowed");
                }
                Statement::Targets(targets) => {
                    let is_label = |name: &&str| self.labels.contains(name);
                    if !targets.names.iter().all(is_label) {
                        self.errors.at(targets.span, "a target that is no label");
                    }
                }
                Statement::CallPrototype(prototype) => {
                    self.errors
                        .at(prototype.span, "a prototype of calls through pointers");
                }
            }
        }
        self.variables.leave(outer);
    }

    /// Code before and after may not follow each other.
    fn jump(&mut self) {
        self.is_head = false;
        self.registers.forget();
    }

    fn instruction(&mut self, instruction: &Instruction<'a>) {
        let opcode = &instruction.opcode;
        let mnemonic = opcode.mnemonic();
        let Some(info) = ptx::table::classify(instruction) else {
            self.errors
                .at(instruction.span, format!("`{}` is not known", opcode.text));
            return;
        };
        let is_allowed = mnemonic.is_plain() || ALLOWED.contains(&mnemonic);
        // (A policy for caches could be any number.)
        if !is_allowed || opcode.has(Modifier::L2CacheHint) {
            self.errors.at(
                instruction.span,
                format!("`{}` is not allowed", opcode.text),
            );
        }
        self.special_registers(instruction);
        let limits = self.sequences.limits.get(&instruction.span.start);
        for (register, most) in limits.into_iter().flatten() {
            self.registers.limit(register, *most);
        }
        let is_exempt = self.sequences.exempt.contains(&instruction.span.start);
        if let Err(message) = lanes::judge(instruction, &self.registers)
            && !is_exempt
        {
            self.errors.at(instruction.span, message);
        }
        self.other_addresses(instruction, &info);
        if mnemonic == Mnemonic::Barrier && opcode.has(Modifier::Cluster) {
            self.errors
                .at(instruction.span, "a barrier of several blocks");
        }
        let is_judged = self.registers.invariants.is_judged() && !is_exempt;
        for access in info.accesses.iter().filter(|_| is_judged) {
            self.accesses_shared |= self.is_in_shared(instruction, access);
            if let Err(message) = self.access(instruction, &info, access) {
                self.errors.at(instruction.span, message);
            }
        }
        if !self.passes_frames(instruction) {
            self.errors
                .at(instruction.span, "a call that does not pass the frames");
        }
        if mnemonic == Mnemonic::Exit {
            self.registers.leave(instruction.guard);
        }
        if mnemonic == Mnemonic::Brx && !self.is_bounded(instruction) {
            self.errors
                .at(instruction.span, "a jump whose index is not bounded");
        }
        self.results(instruction, is_exempt);
        self.enter(instruction);
    }

    /// Takes in that a loop is entered whose passes are counted: a register that is an
    /// address in the partition is near it all through the loop.
    fn enter(&mut self, branch: &Instruction<'a>) {
        let sequences = self.sequences;
        for moving in sequences
            .entries
            .get(&branch.span.start)
            .into_iter()
            .flatten()
        {
            if let Known::Address(multiple) = self.registers.known(moving.register) {
                self.moving.insert(moving.at, (moving.way, multiple));
            }
        }
    }

    /// What an instruction makes of the registers that it writes.
    fn results(&mut self, instruction: &Instruction<'a>, is_exempt: bool) {
        // It is executed once, before what follows in the text.
        let at = instruction.span.start;
        let is_head = self.is_head && at < self.sequences.head_end && !is_exempt;
        let written = written(instruction);
        let is_name = matches!(
            (&written[..], instruction.operands.first().map(|o| &o.kind)),
            ([_], Some(OperandKind::Name(_)))
        );
        let is_always = instruction.guard.is_none();
        let made: Vec<Known> = match (is_name, halved(instruction)) {
            (true, _) => vec![self.result(instruction)],
            (false, Some(wide)) => vec![self.registers.known(wide).low_half(), Known::Nothing],
            (false, None) => vec![Known::Nothing; written.len()],
        };
        for (name, known) in written.into_iter().zip(made) {
            self.registers.invariants.make(name, known);
            let now = match is_always {
                true => known,
                false => self.registers.known(name).join(known),
            };
            self.registers.set(name, now);
            let is_only = self.definitions.get(name) == Some(&1);
            if is_head && is_only && is_name && is_always && name.starts_with(OWN) {
                self.registers.fix(name);
            }
        }
    }

    /// What an instruction makes of the only register that it writes.
    fn result(&self, instruction: &Instruction<'a>) -> Known {
        match self.moving.get(&instruction.span.start) {
            Some((way, multiple)) => self.registers.moved(instruction, *way, *multiple),
            None => self.registers.result(instruction, &self.variables),
        }
    }

    /// Addresses that the instruction table knows no access of: of `createpolicy`,
    /// to which they are numbers.
    fn other_addresses(&mut self, instruction: &Instruction<'a>, info: &Info) {
        let is_number = instruction.opcode.mnemonic() == Mnemonic::Createpolicy;
        for (index, _) in instruction.addresses() {
            let is_access = info.accesses.iter().any(|access| access.operand == index);
            if !is_access && !is_number {
                self.errors
                    .at(instruction.span, "an address that is not understood");
            }
        }
    }

    /// Whether an instruction, if it calls a function that gets the address of the
    /// frames, passes it.
    fn passes_frames(&self, instruction: &Instruction<'a>) -> bool {
        let Some((callee, name)) = instruction.called_function() else {
            return true;
        };
        if !self.functions.with_frames.contains(name) {
            return true;
        }
        let passed = frames::passed(instruction, callee);
        passed.is_some_and(|register| self.registers.known(register) == Known::Frames)
    }

    /// Whether an access may be one in shared memory.
    fn is_in_shared(&self, instruction: &Instruction<'a>, access: &Access) -> bool {
        let operand = instruction.operands.get(access.operand);
        let base = match operand.map(|operand| &operand.kind) {
            Some(OperandKind::Address(address)) => address.base,
            _ => None,
        };
        match access.space {
            Space::Shared | Space::SharedCluster => true,
            Space::Generic => {
                let known = base.map_or(Known::Nothing, |base| self.registers.known(base));
                known.near().is_none() && !matches!(known, Known::Variable(_))
            }
            _ => false,
        }
    }

    /// Whether a jump by a table stays in it.
    fn is_bounded(&self, instruction: &Instruction<'a>) -> bool {
        let [index, table] = &instruction.operands[..] else {
            return false;
        };
        let (OperandKind::Name(index), OperandKind::Name(table)) = (&index.kind, &table.kind)
        else {
            return false;
        };
        match (self.registers.known(index), self.tables.get(table)) {
            (Known::Index { most, .. }, Some(count)) => most < *count as u64,
            _ => false,
        }
    }

    fn special_registers(&mut self, instruction: &Instruction<'a>) {
        let mut wrong = Vec::new();
        for operand in &instruction.operands {
            let mut visit = |name: &'a str| {
                let bare = name.split('.').next().unwrap_or(name);
                let is_special = name.starts_with('%') && !self.is_register(name);
                if is_special && !self.is_register(bare) && !SPECIAL.contains(&bare) {
                    wrong.push(name);
                }
            };
            match &operand.kind {
                OperandKind::Text(text) if text.starts_with('%') => visit(text),
                _ => operand.names(&mut visit),
            }
        }
        for name in wrong {
            self.errors
                .at(instruction.span, format!("it reads `{name}`"));
        }
    }

    fn access(
        &self,
        instruction: &Instruction<'a>,
        info: &Info,
        access: &Access,
    ) -> Result<(), String> {
        let Some(OperandKind::Address(address)) = instruction
            .operands
            .get(access.operand)
            .map(|operand| &operand.kind)
        else {
            return Err("an address that is not in brackets".to_owned());
        };
        if !address.coordinates.is_empty() {
            return Err("an address with coordinates".to_owned());
        }
        let rows = rows::of(instruction, access, &self.registers);
        let bytes = match rows {
            Some((_, bytes)) => Some(bytes),
            None => bytes_of(instruction, access),
        };
        let bytes = bytes.ok_or("a number of bytes that is not in the text")?;
        if !rows::are_aligned(instruction, access, &self.registers) {
            return Err("rows that are not aligned".to_owned());
        }
        let Some(base) = address.base else {
            return Err("an address that is a number".to_owned());
        };
        let place = Place {
            bytes,
            rows: rows.map(|(rows, _)| rows),
            alignment: access.alignment,
            offset: address.offset,
        };
        let is_right = if self.is_register(base) {
            self.by_register(instruction, info, access.space, base, place)
        } else {
            self.by_name(access.space, address, place)
        };
        match is_right {
            true => Ok(()),
            false => Err(format!("`[{base}]` is not contained")),
        }
    }

    /// An access by a variable's name.
    fn by_name(&self, space: Space, address: &Address<'a>, place: Place) -> bool {
        let name = address.base.unwrap_or_default();
        let inside = |size: u64, alignment: u32| {
            u64::try_from(place.offset)
                .ok()
                .and_then(|at| at.checked_add(place.bytes))
                .is_some_and(|end| end <= size)
                && alignment >= place.alignment
                && place.offset % i64::from(place.alignment) == 0
        };
        match space {
            Space::Param => {
                let size = self.variables.parameter(name);
                size.is_some_and(|size| inside(size, place.alignment))
            }
            Space::Shared => match self.variables.shared(name) {
                Some((Some(size), alignment)) => inside(size, alignment),
                _ => false,
            },
            Space::Local | Space::Const => {
                if space == Space::Const && name == layout::VARIABLE {
                    let size = u64::from(layout::VARIABLES) + 8 * self.variables.in_table() as u64;
                    return inside(size, 8);
                }
                let within = match space {
                    Space::Local => Within::Local,
                    _ => Within::Const,
                };
                let number = self.variables.number(name);
                number
                    .and_then(|number| self.variables.get(number))
                    .is_some_and(|v| v.space == within && inside(v.size, v.alignment))
            }
            _ => false,
        }
    }

    /// An access by a register.
    fn by_register(
        &self,
        instruction: &Instruction<'a>,
        info: &Info,
        space: Space,
        base: &str,
        place: Place,
    ) -> bool {
        let known = self.registers.known(base);
        match (space, known) {
            (Space::Global, _) => self.in_partition(known, place),
            (
                Space::Generic,
                Known::Generic {
                    room,
                    multiple,
                    is_local,
                },
            ) if !info.is_shared_only => {
                let is_inside = place.bytes <= room && place.alignment <= multiple;
                place.offset == 0 && is_inside && !(is_local && never_local(instruction))
            }
            (Space::Generic, Known::GenericOf { rows, multiple }) if !info.is_shared_only => {
                let is_inside = place.rows == Some(rows) && place.bytes <= EXTENT;
                place.offset == 0 && is_inside && place.alignment <= multiple
            }
            (Space::Generic, _) => !info.is_shared_only && self.in_partition(known, place),
            (
                Space::Shared,
                Known::SharedOf {
                    rows,
                    multiple,
                    is_generic: false,
                },
            ) => {
                let has_room = instruction.guard.is_some_and(|guard| {
                    !guard.negated && self.registers.known(guard.register) == Known::RoomOf(rows)
                });
                place.offset == 0
                    && place.rows == Some(rows)
                    && place.alignment <= multiple
                    && has_room
            }
            (
                Space::Shared,
                Known::Shared {
                    bytes,
                    multiple,
                    is_generic: false,
                },
            ) => {
                let room = match instruction.guard {
                    Some(guard) if !guard.negated => match self.registers.known(guard.register) {
                        Known::Room(room) => room,
                        _ => 0,
                    },
                    _ => 0,
                };
                let end = u64::try_from(place.offset)
                    .ok()
                    .and_then(|at| at.checked_add(place.bytes));
                end.is_some_and(|end| end <= bytes)
                    && place.offset % i64::from(place.alignment) == 0
                    && place.alignment <= multiple
                    && (room.max(self.registers.room) >= bytes || self.has_room(bytes))
            }
            (
                Space::Local | Space::Const | Space::Param,
                Known::InVariable {
                    space: within,
                    room,
                    multiple,
                    is_generic: false,
                },
            ) => {
                let is_same = match within {
                    Within::Local => space == Space::Local,
                    Within::Const => space == Space::Const,
                    Within::Param => space == Space::Param,
                };
                is_same && place.offset == 0 && place.bytes <= room && place.alignment <= multiple
            }
            _ => false,
        }
    }

    /// Takes for granted that a block has so many bytes of shared memory, if that is
    /// allowed.
    fn has_room(&self, bytes: u64) -> bool {
        let is_allowed = bytes <= ROOM;
        if is_allowed {
            self.room.set(self.room.get().max(bytes));
        }
        is_allowed
    }

    /// An access in global memory.
    fn in_partition(&self, known: Known, place: Place) -> bool {
        let is_aligned = place.offset % i64::from(place.alignment) == 0;
        if let Some(near) = known.near() {
            let reach = REACH as i64;
            let is_within = |end: i64| {
                let at = end.checked_add(place.offset);
                at.is_some_and(|at| -reach <= at && at <= reach)
            };
            return is_within(near.least)
                && is_within(near.most)
                && place.bytes <= EXTENT
                && place.alignment <= near.multiple
                && is_aligned;
        }
        match known {
            Known::Variable(index) => {
                let Some((size, alignment)) = self.variables.global(index) else {
                    return false;
                };
                let end = u64::try_from(place.offset)
                    .ok()
                    .and_then(|at| at.checked_add(place.bytes));
                end.is_some_and(|end| end <= size) && place.alignment <= alignment && is_aligned
            }
            _ => false,
        }
    }
}

/// Whether an instruction accesses no local memory: where a generic address of it
/// leads there, the device ends the context (`CUDA_ERROR_INVALID_ADDRESS_SPACE`;
/// PTX ISA, `atom`, and `ld` with an order).
fn never_local(instruction: &Instruction<'_>) -> bool {
    const ORDERS: [Modifier; 4] = [
        Modifier::Relaxed,
        Modifier::Acquire,
        Modifier::Release,
        Modifier::Mmio,
    ];
    let opcode = &instruction.opcode;
    let is_plain = matches!(
        opcode.mnemonic(),
        Mnemonic::Ld | Mnemonic::St | Mnemonic::Ldu
    );
    !is_plain || ORDERS.iter().any(|order| opcode.has(*order))
}

/// The target of an access, beside its register.
#[derive(Clone, Copy)]
struct Place {
    /// At most.
    bytes: u64,
    /// The rows that it has as many bytes as.
    rows: Option<Rows>,
    alignment: u32,
    offset: i64,
}

/// Begins the names of registers that a body computes once.
const OWN: &str = "%__rf_";

/// Bytes of an access, at most.
fn bytes_of(instruction: &Instruction<'_>, access: &Access) -> Option<u64> {
    let opcode = &instruction.opcode;
    if opcode.mnemonic() == Mnemonic::Cp && !opcode.has(Modifier::Mbarrier) {
        return copied(instruction);
    }
    match ptx::table::extent(instruction, access, false)? {
        Extent::Bytes(bytes) => Some(bytes.max(1)),
        Extent::BytesUnless(..) | Extent::Operand(_) | Extent::Steps { .. } => None,
    }
}

/// What `cp.async` copies at most: `cp-size`, an immediate (PTX ISA, 9.7.9.25.3).
/// The last operand only makes it fewer.
fn copied(instruction: &Instruction<'_>) -> Option<u64> {
    match instruction.operands.get(2)?.kind {
        OperandKind::Integer(bytes @ (4 | 8 | 16)) if !instruction.opcode.has(Modifier::Bulk) => {
            Some(bytes as u64)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Callers first, so that a search by passes over the text would take one for each.
    #[test]
    fn calls_are_followed_in_proportion_to_their_number() {
        const FUNCTIONS: usize = 2000;
        let mut text = ".version 8.0\n.target sm_90\n.address_size 64\n".to_owned();
        for number in 0..FUNCTIONS {
            let next = number + 1;
            text += &format!(".func f{number}() {{ call f{next}; call f{next}; ret; }}\n");
        }
        for (last, expected) in [("ret;", FUNCTIONS + 1), ("call f0; ret;", 0)] {
            let text = format!("{text}.func f{FUNCTIONS}() {{ {last} }}\n");
            let module = ptx::parse(&text).unwrap();
            let (found, steps) = bounded(module.functions());
            assert_eq!(found.len(), expected);
            assert!(steps <= 4 * FUNCTIONS, "{steps}");
        }
    }
}
