//! Links PTX modules into a [`Program`]: resolves names among the parts, lays
//! out variables, writes initializers, and has every function decoded.

use super::decode::{Decoder, FunctionSymbols};
use super::fault::LoadError;
use super::initializer::{self, Scalar};
use super::ops::special::RESERVED_SHARED;
use super::program::{
    Code, Entry, FUNCTION_ADDRESSES, FunctionInfo, Parameter, Program, ProgramInfo, Variable,
};
use crate::mapping::{GRANULE, Memory, SHARED_WINDOW};
use ptx::{Function, Item, Linkage, Module, Position, Statement, Type, VariableSpace};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// What a file-scope name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Global {
    /// Index of a function.
    Function(u32),
    /// Address in `.global` or `.const`.
    Memory { address: u64, is_const: bool },
    /// Offset in shared memory.
    Shared(u32),
    /// Start of dynamic shared memory.
    DynamicShared,
}

/// A function to decode.
pub(crate) struct Definition<'a> {
    pub part: usize,
    pub function: &'a Function<'a>,
}

/// Names of all parts.
#[derive(Default)]
pub(crate) struct Names<'a> {
    pub shared_by_all: FxHashMap<&'a str, Global>,
    pub by_part: Vec<FxHashMap<&'a str, Global>>,
}

impl Names<'_> {
    /// What a name means in a part.
    pub fn find(&self, part: usize, name: &str) -> Option<Global> {
        self.by_part[part]
            .get(name)
            .or_else(|| self.shared_by_all.get(name))
            .copied()
    }
}

/// A variable that gets memory.
struct Placed<'a> {
    part: usize,
    variable: &'a ptx::Variable<'a>,
    offset: u64,
    size: u64,
}

/// A file-scope shared variable.
struct SharedVariable<'a> {
    part: usize,
    name: &'a str,
    is_local: bool,
    size: u32,
    alignment: u32,
}

/// Variables are kept this far apart, so that one that is overrun is not
/// another one's start.
const VARIABLE_ALIGNMENT: u64 = 256;

impl Program {
    /// Link modules into a program. Its variables are mapped in `memory`.
    /// What this device cannot execute faults when it is reached, not here.
    pub fn link(modules: &[Module<'_>], memory: &Arc<Memory>) -> Result<Program, LoadError> {
        Linker {
            modules,
            memory,
            names: Names::default(),
            definitions: Vec::new(),
            exported: FxHashMap::default(),
            shared: Vec::new(),
            segments: Vec::new(),
        }
        .run()
    }
}

struct Linker<'a> {
    modules: &'a [Module<'a>],
    memory: &'a Arc<Memory>,
    names: Names<'a>,
    definitions: Vec<Definition<'a>>,
    exported: FxHashMap<String, Variable>,
    /// Until they are placed, [`Global::Shared`] is a position in this list.
    shared: Vec<SharedVariable<'a>>,
    segments: Vec<u64>,
}

impl<'a> Linker<'a> {
    fn malformed(&self, part: usize, offset: u32, message: String) -> LoadError {
        LoadError::Malformed {
            part,
            line: Position::of(self.modules[part].source, offset).line,
            message,
        }
    }

    /// Define a name; false if another part's definition stands.
    fn define(
        &mut self,
        part: usize,
        linkage: Linkage,
        name: &'a str,
        meaning: Global,
    ) -> Result<bool, LoadError> {
        if linkage == Linkage::Local {
            if self.names.by_part[part].insert(name, meaning).is_some() {
                return Err(LoadError::Duplicate { name: name.into() });
            }
            return Ok(true);
        }
        if self.names.shared_by_all.contains_key(name) {
            return match linkage {
                Linkage::Weak | Linkage::Common => Ok(false),
                _ => Err(LoadError::Duplicate { name: name.into() }),
            };
        }
        self.names.shared_by_all.insert(name, meaning);
        Ok(true)
    }

    fn run(mut self) -> Result<Program, LoadError> {
        self.names.by_part = self.modules.iter().map(|_| FxHashMap::default()).collect();
        let modules = self.modules;
        let (mut global, mut constant) = (Vec::new(), Vec::new());
        let (mut global_size, mut constant_size) = (0u64, 0u64);
        // Strong definitions first, so that weak ones give way to them.
        for weak in [false, true] {
            for (part, module) in modules.iter().enumerate() {
                for item in &module.items {
                    match item {
                        Item::Function(function)
                            if function.body.is_some() && is_weak(function.linkage) == weak =>
                        {
                            let index = self.definitions.len() as u32;
                            if self.define(
                                part,
                                function.linkage,
                                function.name,
                                Global::Function(index),
                            )? {
                                self.definitions.push(Definition { part, function });
                            }
                        }
                        Item::Variable(variable) if is_weak(variable.linkage) == weak => {
                            self.variable(
                                part,
                                variable,
                                &mut [
                                    (&mut global, &mut global_size),
                                    (&mut constant, &mut constant_size),
                                ],
                            )?;
                        }
                        _ => {}
                    }
                }
            }
        }
        let shared_ends = self.place_shared();
        let global_base = self.segment(global_size)?;
        let constant_base = self.segment(constant_size)?;
        for (list, base, is_const) in [
            (&global, global_base, false),
            (&constant, constant_base, true),
        ] {
            for placed in list {
                let name = placed.variable.name;
                let address = base + placed.offset;
                let meaning = Global::Memory { address, is_const };
                let table = if placed.variable.linkage == Linkage::Local {
                    &mut self.names.by_part[placed.part]
                } else {
                    &mut self.names.shared_by_all
                };
                table.insert(name, meaning);
                self.exported.entry(name.into()).or_insert(Variable {
                    address,
                    size: placed.size,
                    is_const,
                });
            }
        }
        for (list, base) in [(&global, global_base), (&constant, constant_base)] {
            for placed in list {
                self.initialize(placed, base)?;
            }
        }
        self.decode(&shared_ends, (constant_base, constant_base + constant_size))
    }

    fn variable(
        &mut self,
        part: usize,
        variable: &'a ptx::Variable<'a>,
        segments: &mut [(&mut Vec<Placed<'a>>, &mut u64); 2],
    ) -> Result<(), LoadError> {
        let is_const = match variable.space {
            VariableSpace::Global | VariableSpace::Tex => false,
            VariableSpace::Const => true,
            VariableSpace::Shared => {
                if variable.linkage == Linkage::Extern {
                    self.names.by_part[part].insert(variable.name, Global::DynamicShared);
                    return Ok(());
                }
                let size = variable.size().and_then(|s| u32::try_from(s).ok());
                let size = size.ok_or_else(|| {
                    self.malformed(
                        part,
                        variable.span.start,
                        format!("shared variable {} has no size", variable.name),
                    )
                })?;
                let position = self.shared.len() as u32;
                if self.define(
                    part,
                    variable.linkage,
                    variable.name,
                    Global::Shared(position),
                )? {
                    self.shared.push(SharedVariable {
                        part,
                        name: variable.name,
                        is_local: variable.linkage == Linkage::Local,
                        size,
                        alignment: variable.alignment().max(1),
                    });
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        if variable.linkage == Linkage::Extern {
            return Ok(());
        }
        let size = match variable.size() {
            Some(size) => size,
            None => self.open_size(part, variable)?,
        };
        if !self.define(
            part,
            variable.linkage,
            variable.name,
            Global::Memory {
                address: 0,
                is_const,
            },
        )? {
            return Ok(());
        }
        let (list, end) = &mut segments[usize::from(is_const)];
        let offset =
            end.next_multiple_of(u64::from(variable.alignment().max(1)).max(VARIABLE_ALIGNMENT));
        **end = offset + size;
        list.push(Placed {
            part,
            variable,
            offset,
            size,
        });
        Ok(())
    }

    /// Gives each file-scope shared variable its offset, and each function the
    /// end of those that it can reach. Kernels that reach none in common share
    /// the space: in a program of many kernels it would not do for all.
    fn place_shared(&mut self) -> Vec<u32> {
        let reached = reach_shared(&self.definitions, &self.names, self.shared.len());
        let mut ends = vec![RESERVED_SHARED; self.definitions.len()];
        for (position, variable) in self.shared.iter().enumerate() {
            let users = || {
                let uses = |index: &usize| reached[*index].contains(&(position as u32));
                (0..reached.len()).filter(uses)
            };
            let start = users().map(|index| ends[index]).max();
            let start = start.unwrap_or(RESERVED_SHARED);
            let offset = start.next_multiple_of(variable.alignment);
            for index in users() {
                ends[index] = offset + variable.size;
            }
            let table = if variable.is_local {
                &mut self.names.by_part[variable.part]
            } else {
                &mut self.names.shared_by_all
            };
            table.insert(variable.name, Global::Shared(offset));
        }
        ends
    }

    /// Size of an array whose length its initializer gives.
    fn open_size(&self, part: usize, variable: &ptx::Variable<'_>) -> Result<u64, LoadError> {
        let element = u64::from(variable.ty.bytes()) * u64::from(variable.vector);
        let Some(span) = variable.initializer else {
            return Ok(0);
        };
        let placed = initializer::parse(span.text(self.modules[part].source), element, &[0])
            .map_err(|m| self.malformed(part, span.start, m))?;
        Ok(placed.last().map_or(0, |(at, _)| at + element))
    }

    fn segment(&mut self, size: u64) -> Result<u64, LoadError> {
        if size == 0 {
            return Ok(0);
        }
        let base = self.memory.map(size.next_multiple_of(GRANULE), GRANULE)?;
        self.segments.push(base);
        Ok(base)
    }

    fn initialize(&self, placed: &Placed<'_>, base: u64) -> Result<(), LoadError> {
        let (variable, part) = (placed.variable, placed.part);
        let Some(span) = variable.initializer else {
            return Ok(());
        };
        let fail = |m: String| self.malformed(part, span.start, m);
        let width = variable.ty.bytes() as usize;
        let mut dimensions: Vec<u64> = variable.dimensions.iter().map(|d| d.unwrap_or(0)).collect();
        if variable.vector > 1 {
            dimensions.push(u64::from(variable.vector));
        }
        let values = initializer::parse(
            span.text(self.modules[part].source),
            width as u64,
            &dimensions,
        )
        .map_err(fail)?;
        for (offset, scalar) in values {
            let bits = match scalar {
                Scalar::Integer(value) if variable.ty == Type::F32 => {
                    u64::from((value as i64 as f32).to_bits())
                }
                Scalar::Integer(value) if variable.ty == Type::F64 => {
                    (value as i64 as f64).to_bits()
                }
                Scalar::Integer(value) => value,
                Scalar::Real(x) if variable.ty == Type::F64 => x.to_bits(),
                Scalar::Real(x) => u64::from((x as f32).to_bits()),
                Scalar::Single(bits) => u64::from(bits),
                Scalar::Double(bits) if variable.ty == Type::F32 => {
                    u64::from((f64::from_bits(bits) as f32).to_bits())
                }
                Scalar::Double(bits) => bits,
                Scalar::Symbol {
                    name,
                    generic,
                    offset,
                    mask,
                } => {
                    let value = match self
                        .names
                        .find(part, name)
                        .ok_or_else(|| LoadError::Undefined { name: name.into() })?
                    {
                        Global::Function(index) => FUNCTION_ADDRESSES + 16 * u64::from(index),
                        Global::Memory { address, .. } => address,
                        Global::Shared(at) if generic => SHARED_WINDOW + u64::from(at),
                        Global::Shared(at) => u64::from(at),
                        Global::DynamicShared => {
                            return Err(fail(format!(
                                "the address of {name} is not known before a launch"
                            )));
                        }
                    };
                    let value = value.wrapping_add_signed(offset);
                    mask.map_or(value, |mask| {
                        if mask == 0 {
                            0
                        } else {
                            (value & mask) >> mask.trailing_zeros()
                        }
                    })
                }
            };
            if offset + width as u64 > placed.size {
                return Err(fail(format!("too many values for {}", variable.name)));
            }
            self.memory.write(
                base + placed.offset + offset,
                &bits.to_le_bytes()[..width.min(8)],
            )?;
        }
        Ok(())
    }

    fn decode(
        mut self,
        shared_ends: &[u32],
        constant_range: (u64, u64),
    ) -> Result<Program, LoadError> {
        let definitions = std::mem::take(&mut self.definitions);
        let shared_size = shared_ends.iter().copied().max();
        let shared_size = shared_size.unwrap_or(RESERVED_SHARED);
        let mut decoder = Decoder::new(self.modules, &self.names, definitions.len());
        // Shared variables of device functions are placed before those of
        // entries: an entry's own variables begin where those of the functions
        // that it can call end.
        let mut shared_of_functions = shared_size;
        for (index, definition) in definitions
            .iter()
            .enumerate()
            .filter(|(_, d)| !d.function.is_entry)
        {
            shared_of_functions = decoder
                .function(index as u32, definition, shared_of_functions)?
                .shared_end;
        }
        let function_shared = shared_of_functions > shared_size;
        let mut entries = FxHashMap::default();
        for (index, definition) in definitions
            .iter()
            .enumerate()
            .filter(|(_, d)| d.function.is_entry)
        {
            let start = if function_shared {
                shared_of_functions
            } else {
                shared_ends[index]
            };
            let symbols = decoder.function(index as u32, definition, start)?;
            let entry = self.entry(index as u32, definition, &symbols);
            entries.insert(entry.name.clone(), entry);
        }
        let (mut code, mut info): (Code, ProgramInfo) = decoder.finish();
        code.constant_range = constant_range;
        info.functions = definitions
            .iter()
            .map(|d| FunctionInfo {
                name: d.function.name.to_string(),
            })
            .collect();
        Ok(Program {
            code,
            info,
            entries,
            variables: std::mem::take(&mut self.exported),
            memory: self.memory.clone(),
            segments: std::mem::take(&mut self.segments),
        })
    }

    fn entry(&self, index: u32, definition: &Definition<'_>, symbols: &FunctionSymbols) -> Entry {
        let function = definition.function;
        let mut offset = 0u32;
        let mut parameters = Vec::new();
        for parameter in &function.parameters {
            let align = parameter.alignment().max(1);
            offset = offset.next_multiple_of(align);
            let size = parameter.size().unwrap_or(0) as u32;
            parameters.push(Parameter {
                name: parameter.name.to_string(),
                offset,
                size,
                align,
            });
            offset += size;
        }
        let triple = |name: &str| {
            let directive = function.directives.iter().find(|d| d.name == name)?;
            let mut numbers = directive
                .arguments
                .split(',')
                .map(|n| n.trim().parse::<u32>().unwrap_or(1));
            Some([
                numbers.next()?,
                numbers.next().unwrap_or(1),
                numbers.next().unwrap_or(1),
            ])
        };
        let required_block = triple(".reqntid");
        Entry {
            name: function.name.to_string(),
            parameters,
            parameter_bytes: offset,
            static_shared: symbols.shared_end - RESERVED_SHARED,
            local: symbols.local_size,
            registers: symbols.registers,
            max_threads: triple(".maxntid")
                .or(required_block)
                .map(|[x, y, z]| x * y * z),
            required_block,
            required_cluster: triple(".reqnctapercluster"),
            target: self.modules[definition.part].architecture(),
            function: index,
        }
    }
}

impl Drop for Linker<'_> {
    fn drop(&mut self) {
        // Segments that belong to no program after an error.
        for &segment in &self.segments {
            let _ = self.memory.unmap(segment);
        }
    }
}

fn is_weak(linkage: Linkage) -> bool {
    matches!(linkage, Linkage::Weak | Linkage::Common)
}

/// For each function, the file-scope shared variables that it may touch, itself
/// or through calls, by position. Names must still mean positions.
fn reach_shared(
    definitions: &[Definition<'_>],
    names: &Names<'_>,
    variables: usize,
) -> Vec<FxHashSet<u32>> {
    let mut reached = vec![FxHashSet::default(); definitions.len()];
    if variables == 0 {
        return reached;
    }
    let mut mentions: Vec<FxHashSet<u32>> = Vec::new();
    for (index, definition) in definitions.iter().enumerate() {
        let mut functions = FxHashSet::default();
        if let Some(body) = &definition.function.body {
            each_name(
                &body.statements,
                &mut |name| match names.find(definition.part, name) {
                    Some(Global::Shared(position)) => {
                        reached[index].insert(position);
                    }
                    Some(Global::Function(callee)) => {
                        functions.insert(callee);
                    }
                    _ => {}
                },
            );
            // An indirect call may reach any function.
            if has_indirect_call(&body.statements) {
                reached[index].extend(0..variables as u32);
            }
        }
        mentions.push(functions);
    }
    loop {
        let mut changed = false;
        for index in 0..reached.len() {
            for &callee in &mentions[index] {
                // A kernel that is launched has shared memory of its own.
                if callee as usize == index || definitions[callee as usize].function.is_entry {
                    continue;
                }
                let more: Vec<u32> = reached[callee as usize]
                    .difference(&reached[index])
                    .copied()
                    .collect();
                changed |= !more.is_empty();
                reached[index].extend(more);
            }
        }
        if !changed {
            return reached;
        }
    }
}

fn has_indirect_call(statements: &[Statement<'_>]) -> bool {
    statements.iter().any(|statement| match statement {
        Statement::CallPrototype(_) => true,
        Statement::Block(block) => has_indirect_call(&block.statements),
        _ => false,
    })
}

fn each_name<'a>(statements: &[Statement<'a>], f: &mut impl FnMut(&'a str)) {
    fn operand<'a>(operand: &ptx::Operand<'a>, f: &mut impl FnMut(&'a str)) {
        use ptx::OperandKind::*;
        match &operand.kind {
            Name(name) | NameOffset(name, _) => f(name),
            Address(address) => {
                if let Some(base) = address.base {
                    f(base);
                }
            }
            Vector(list) | List(list) => list.iter().for_each(|o| self::each_name_operand(o, f)),
            _ => {}
        }
    }
    for statement in statements {
        match statement {
            Statement::Instruction(instruction) => {
                instruction.operands.iter().for_each(|o| operand(o, f))
            }
            Statement::Block(block) => each_name(&block.statements, f),
            _ => {}
        }
    }
}

fn each_name_operand<'a>(operand: &ptx::Operand<'a>, f: &mut impl FnMut(&'a str)) {
    if let ptx::OperandKind::Name(name) | ptx::OperandKind::NameOffset(name, _) = &operand.kind {
        f(name);
    }
}
