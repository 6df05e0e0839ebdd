//! Decodes functions into flat instructions.
//!
//! [`Decoder`] walks a function's statements, keeps its scopes, registers and
//! labels, and asks the families in [`super::ops`] for each instruction. An
//! instruction that no family supports is decoded to one that faults when it is
//! executed; what PTX does not allow is a [`LoadError`].

mod operands;
mod scope;

pub(crate) use operands::{Address, Ins, SpaceTag, space_of as space};
pub(crate) use scope::{Scope, Symbol};

use super::fault::LoadError;
use super::inst::{Class, Counts, Handler, Inst, NONE};
use super::link::{Definition, Names};
use super::ops;
use super::program::{CallSite, Code, FunctionCode, Location, Place, ProgramInfo, SourcePlace};
use ptx::{Block, Function, Module, Statement, Type, Variable, VariableSpace};
use rustc_hash::FxHashMap;
use std::num::NonZeroU32;

/// Why an instruction cannot be decoded.
#[derive(Clone, Debug)]
pub(crate) enum Problem {
    /// PTX that this device does not execute: a fault when it is reached.
    Unsupported(String),
    /// No PTX: the module does not load.
    Malformed(String),
}

pub(crate) fn unsupported<T>(what: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::Unsupported(what.into()))
}

pub(crate) fn malformed<T>(what: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::Malformed(what.into()))
}

/// What linking needs of a decoded function.
pub(crate) struct FunctionSymbols {
    pub shared_end: u32,
    pub local_size: u32,
    pub registers: u32,
}

/// Indices of constants that exist already.
#[derive(Default)]
struct Constants {
    pred: FxHashMap<u32, u32>,
    b16: FxHashMap<u16, u32>,
    b32: FxHashMap<u32, u32>,
    b64: FxHashMap<u64, u32>,
}

/// A jump whose target is not decoded yet.
enum Fixup {
    /// `imm` of an instruction.
    Branch { inst: usize, label: u32 },
    /// An element of a list.
    Table {
        list: usize,
        element: usize,
        label: u32,
    },
}

/// Decodes a program's functions into flat instructions.
pub(crate) struct Decoder<'a> {
    pub names: &'a Names<'a>,
    pub out: Code,
    info: ProgramInfo,
    opcode_ids: FxHashMap<&'a str, u32>,
    line_starts: Vec<Vec<u32>>,
    /// Parts of a later version of PTX than the tables know.
    later: Vec<bool>,
    /// By part and the number in its `.file`: index into the program's files.
    files: Vec<FxHashMap<u32, u32>>,
    constants: Constants,
    // Of the function being decoded:
    pub part: usize,
    pub in_entry: bool,
    pub scopes: Vec<Scope<'a>>,
    pub counts: Counts,
    local_size: u32,
    shared_end: u32,
    /// Program counters of labels.
    labels: Vec<Option<u32>>,
    fixups: Vec<Fixup>,
    guard: u32,
    place: SourcePlace,
}

impl<'a> Decoder<'a> {
    pub fn new(modules: &'a [Module<'a>], names: &'a Names<'a>, functions: usize) -> Decoder<'a> {
        let line_starts = modules
            .iter()
            .map(|m| {
                std::iter::once(0)
                    .chain(
                        m.source
                            .bytes()
                            .enumerate()
                            .filter(|(_, b)| *b == b'\n')
                            .map(|(i, _)| i as u32 + 1),
                    )
                    .collect()
            })
            .collect();
        let mut info = ProgramInfo::default();
        let files = modules
            .iter()
            .map(|module| {
                let add = |file: &ptx::File<'_>| {
                    info.files.push(file.name.to_owned());
                    (file.index, info.files.len() as u32 - 1)
                };
                module.files().map(add).collect()
            })
            .collect();
        Decoder {
            names,
            out: Code {
                functions: vec![FunctionCode::default(); functions],
                ..Code::default()
            },
            info,
            opcode_ids: FxHashMap::default(),
            line_starts,
            later: modules
                .iter()
                .map(|module| module.version > ptx::NEWEST_VERSION)
                .collect(),
            files,
            constants: Constants::default(),
            part: 0,
            in_entry: false,
            scopes: Vec::new(),
            counts: Counts::default(),
            local_size: 0,
            shared_end: 0,
            labels: Vec::new(),
            fixups: Vec::new(),
            guard: NONE,
            place: SourcePlace::default(),
        }
    }

    pub fn finish(self) -> (Code, ProgramInfo) {
        (self.out, self.info)
    }

    fn line(&self, offset: u32) -> u32 {
        self.line_starts[self.part].partition_point(|start| *start <= offset) as u32
    }

    fn error(&self, offset: u32, message: String) -> LoadError {
        LoadError::Malformed {
            part: self.part,
            line: self.line(offset),
            message,
        }
    }

    fn set_place(&mut self, offset: u32, opcode: &'a str) {
        let next = self.info.opcodes.len() as u32;
        let id = *self.opcode_ids.entry(opcode).or_insert(next);
        if id == next {
            self.info.opcodes.push(opcode.to_string());
        }
        self.place = SourcePlace {
            line: self.line(offset),
            opcode: id,
            location: self.place.location,
        };
    }

    /// What follows comes from there; line 0 is code that the compiler made for
    /// the line before it.
    fn set_location(&mut self, loc: &ptx::Loc<'_>) {
        if loc.line == 0 {
            return;
        }
        let files = &self.files[self.part];
        let named = |(file, line, column)| Some((*files.get(&file)?, line, column));
        let at = Some((loc.file, loc.line, loc.column));
        self.place.location = at.and_then(named).and_then(|at| {
            self.info.locations.push(Location {
                at,
                inlined_at: loc.inlined_at.filter(|at| at.1 != 0).and_then(named),
            });
            NonZeroU32::new(self.info.locations.len() as u32)
        });
    }

    /// Decode a function whose own shared variables begin at `shared_start`.
    pub fn function(
        &mut self,
        index: u32,
        definition: &Definition<'a>,
        shared_start: u32,
    ) -> Result<FunctionSymbols, LoadError> {
        let function: &'a Function<'a> = definition.function;
        self.part = definition.part;
        self.in_entry = function.is_entry;
        self.scopes = vec![Scope::default()];
        self.counts = Counts::default();
        self.local_size = 0;
        self.shared_end = shared_start;
        self.labels.clear();
        self.fixups.clear();
        self.place.location = None;
        let start = self.out.code.len() as u32;
        let (mut returns, mut parameters) = (Vec::new(), Vec::new());
        let mut parameter_bytes = 0;
        if function.is_entry {
            let mut offset = 0u32;
            for parameter in &function.parameters {
                offset = offset.next_multiple_of(parameter.alignment().max(1));
                self.scopes[0]
                    .names
                    .insert(parameter.name, Symbol::EntryParameter(offset));
                offset += parameter.size().unwrap_or(0) as u32;
            }
            parameter_bytes = offset;
        } else {
            for (list, places) in [
                (&function.returns, &mut returns),
                (&function.parameters, &mut parameters),
            ] {
                for variable in list {
                    places.push(
                        self.parameter(variable)
                            .map_err(|m| self.error(variable.span.start, m))?,
                    );
                }
            }
        }
        if let Some(body) = &function.body {
            self.block(body)?;
        }
        self.set_place(
            function
                .body
                .as_ref()
                .map_or(function.span.end, |b| b.span.end)
                .saturating_sub(1),
            "ret",
        );
        self.guard = NONE;
        self.emit(ops::control::RET, |_| {});
        self.fix(start, function)?;
        self.out.functions[index as usize] = FunctionCode {
            start,
            counts: self.counts,
            local_size: self.local_size.next_multiple_of(16),
            parameters,
            returns,
            shared_end: self.shared_end,
            is_entry: function.is_entry,
            parameter_bytes,
        };
        Ok(FunctionSymbols {
            shared_end: self.shared_end,
            local_size: self.local_size,
            registers: self.counts.b32 + 2 * self.counts.b64 + self.counts.b16.div_ceil(2),
        })
    }

    fn fix(&mut self, _start: u32, function: &Function<'_>) -> Result<(), LoadError> {
        for fixup in std::mem::take(&mut self.fixups) {
            let label = match fixup {
                Fixup::Branch { label, .. } | Fixup::Table { label, .. } => label,
            };
            let Some(pc) = self.labels[label as usize] else {
                return Err(self.error(
                    function.span.start,
                    format!("a label of {} is used but not placed", function.name),
                ));
            };
            match fixup {
                Fixup::Branch { inst, .. } => self.out.code[inst].imm = u64::from(pc),
                Fixup::Table { list, element, .. } => self.out.lists[list][element] = pc,
            }
        }
        Ok(())
    }

    /// A parameter or return value of a `.func`.
    fn parameter(&mut self, variable: &Variable<'a>) -> Result<Place, String> {
        let scope = self.scopes.len() - 1;
        if variable.space == VariableSpace::Reg {
            let class = Class::of(variable.ty).ok_or("register parameter of no known size")?;
            let slot = self.register(class);
            self.scopes[scope]
                .names
                .insert(variable.name, Symbol::Register { class, slot });
            return Ok(Place::Register { class, slot });
        }
        let size = variable
            .size()
            .and_then(|s| u32::try_from(s).ok())
            .unwrap_or(0);
        let offset = self.frame(size, variable.alignment());
        self.scopes[scope]
            .names
            .insert(variable.name, Symbol::Frame { offset, size });
        Ok(Place::Frame { offset, size })
    }

    /// Bytes of the local frame.
    fn frame(&mut self, size: u32, align: u32) -> u32 {
        let offset = self.local_size.next_multiple_of(align.clamp(1, 16));
        self.local_size = offset + size;
        offset
    }

    /// A new register.
    pub fn register(&mut self, class: Class) -> u32 {
        let count = self.counts.of(class);
        *count += 1;
        *count - 1
    }

    fn block(&mut self, block: &'a Block<'a>) -> Result<(), LoadError> {
        let mut scope = Scope::default();
        for statement in &block.statements {
            match statement {
                Statement::Label(label) => {
                    scope.labels.insert(label.name, self.labels.len() as u32);
                    self.labels.push(None);
                }
                Statement::Targets(targets) => {
                    scope.targets.insert(targets.label, targets.names.clone());
                }
                _ => {}
            }
        }
        self.scopes.push(scope);
        let result = block
            .statements
            .iter()
            .try_for_each(|statement| self.statement(statement));
        self.scopes.pop();
        result
    }

    fn statement(&mut self, statement: &'a Statement<'a>) -> Result<(), LoadError> {
        match statement {
            Statement::Label(label) => {
                let pc = self.out.code.len() as u32;
                if let Some(&id) = self.scopes.last().and_then(|s| s.labels.get(label.name)) {
                    self.labels[id as usize] = Some(pc);
                }
                Ok(())
            }
            Statement::Instruction(instruction) => {
                self.set_place(instruction.opcode.span.start, instruction.opcode.text);
                let before = self.out.code.len();
                let result = self.guard_of(instruction).and_then(|guard| {
                    self.guard = guard;
                    ops::decode(self, &Ins::new(instruction))
                });
                match result {
                    Ok(()) => Ok(()),
                    Err(Problem::Unsupported(message)) => {
                        // Whatever was emitted for it must not run.
                        self.out.code.truncate(before);
                        self.info.places.truncate(before);
                        self.fixups.retain(
                            |f| !matches!(f, Fixup::Branch { inst, .. } if *inst >= before),
                        );
                        self.unsupported(message);
                        Ok(())
                    }
                    Err(Problem::Malformed(message)) => {
                        Err(self.error(instruction.span.start, message))
                    }
                }
            }
            Statement::Variable(variable) => self
                .variable(variable)
                .map_err(|m| self.error(variable.span.start, m)),
            Statement::Block(block) => self.block(block),
            Statement::Loc(loc) => {
                self.set_location(loc);
                Ok(())
            }
            Statement::Pragma(_)
            | Statement::Targets(_)
            | Statement::CallPrototype(_)
            | Statement::Other(_) => Ok(()),
        }
    }

    fn variable(&mut self, variable: &'a Variable<'a>) -> Result<(), String> {
        let scope = self.scopes.len() - 1;
        let size = variable.size().and_then(|s| u32::try_from(s).ok());
        let symbol = match variable.space {
            VariableSpace::Reg | VariableSpace::Sreg => {
                let class = Class::of(variable.ty).ok_or_else(|| {
                    format!("register {} has a type of no register size", variable.name)
                })?;
                if variable.vector > 1 {
                    for (component, _) in (0..variable.vector).zip(["x", "y", "z", "w"]) {
                        let slot = self.register(class);
                        self.scopes[scope]
                            .components
                            .insert((variable.name, component), (class, slot));
                    }
                    return Ok(());
                }
                if let Some(count) = variable.range {
                    self.scopes[scope]
                        .ranges
                        .insert(variable.name, (class, count));
                    return Ok(());
                }
                Symbol::Register {
                    class,
                    slot: self.register(class),
                }
            }
            VariableSpace::Local | VariableSpace::Param => {
                let size = size.ok_or_else(|| format!("variable {} has no size", variable.name))?;
                let offset = self.frame(size, variable.alignment());
                Symbol::Frame { offset, size }
            }
            VariableSpace::Shared => match size {
                Some(size) if variable.linkage != ptx::Linkage::Extern => {
                    let offset = self
                        .shared_end
                        .next_multiple_of(variable.alignment().max(1));
                    self.shared_end = offset + size;
                    Symbol::Shared(offset)
                }
                _ => Symbol::DynamicShared,
            },
            VariableSpace::Global | VariableSpace::Const | VariableSpace::Tex => {
                return Err(format!(
                    "variable {} of this space cannot be declared inside a function",
                    variable.name
                ));
            }
        };
        self.scopes[scope].names.insert(variable.name, symbol);
        Ok(())
    }

    fn guard_of(&mut self, instruction: &ptx::Instruction<'a>) -> Result<u32, Problem> {
        let Some(guard) = instruction.guard else {
            return Ok(NONE);
        };
        match self.find(guard.register) {
            Some(Symbol::Register {
                class: Class::Pred,
                slot,
            }) => Ok(slot << 1 | u32::from(guard.negated)),
            _ => malformed(format!(
                "guard {} is not a predicate register",
                guard.register
            )),
        }
    }

    /// Emit an instruction under the guard of the statement.
    pub fn emit(&mut self, run: Handler, fill: impl FnOnce(&mut Inst)) -> usize {
        let mut inst = Inst {
            run,
            imm: 0,
            guard: self.guard,
            d: NONE,
            a: NONE,
            b: NONE,
            c: NONE,
            e: NONE,
            side: 0,
            counted: true,
        };
        fill(&mut inst);
        self.out.code.push(inst);
        self.info.places.push(self.place);
        self.out.code.len() - 1
    }

    /// Emit an instruction that only prepares operands.
    pub fn emit_helper(&mut self, run: Handler, fill: impl FnOnce(&mut Inst)) {
        let index = self.emit(run, fill);
        self.out.code[index].guard = NONE;
        self.out.code[index].counted = false;
    }

    /// What stands for nothing: no PTX, unless a later version has it.
    pub fn undefined<T>(&self, what: impl Into<String>) -> Result<T, Problem> {
        match self.later.get(self.part) {
            Some(true) => unsupported(what),
            _ => malformed(what),
        }
    }

    fn unsupported(&mut self, message: String) {
        let next = self.info.opcodes.len() as u32;
        self.info.unsupported.push((
            self.part,
            self.place.line,
            format!(
                "{}: {message}",
                self.info.opcodes[self.place.opcode as usize]
            ),
        ));
        self.info.opcodes.push(message);
        self.emit(ops::control::UNSUPPORTED, |i| i.imm = u64::from(next));
    }

    /// Emit a jump to a label.
    pub fn emit_branch(&mut self, run: Handler, label: &str) -> Result<(), Problem> {
        let label = self.label(label)?;
        let inst = self.emit(run, |_| {});
        self.fixups.push(Fixup::Branch { inst, label });
        Ok(())
    }

    /// A list of program counters of labels, filled in at the function's end.
    pub fn label_list(&mut self, names: &[&str]) -> Result<u32, Problem> {
        let list = self.out.lists.len();
        for (element, name) in names.iter().enumerate() {
            let label = self.label(name)?;
            self.fixups.push(Fixup::Table {
                list,
                element,
                label,
            });
        }
        self.out.lists.push(vec![0; names.len()]);
        Ok(list as u32)
    }

    fn label(&self, name: &str) -> Result<u32, Problem> {
        match self.scopes.iter().rev().find_map(|s| s.labels.get(name)) {
            Some(&id) => Ok(id),
            None => malformed(format!("label {name} is not defined")),
        }
    }

    /// Labels of a `.branchtargets`.
    pub fn targets(&self, name: &str) -> Option<Vec<&'a str>> {
        self.scopes
            .iter()
            .rev()
            .find_map(|s| s.targets.get(name))
            .cloned()
    }

    pub fn list(&mut self, slots: Vec<u32>) -> u32 {
        self.out.lists.push(slots);
        self.out.lists.len() as u32 - 1
    }

    pub fn call_site(&mut self, site: CallSite) -> u32 {
        self.out.sites.push(site);
        self.out.sites.len() as u32 - 1
    }
}

/// Class of a type, for instructions that need one.
pub(crate) fn class(ty: Type) -> Result<Class, Problem> {
    Class::of(ty).ok_or_else(|| Problem::Unsupported(format!("{ty:?} values")))
}
