//! Bytes of arguments and of results that a program leaves out: padding of
//! structures. They are zero, so that nobody reads what was there before.
//!
//! Programs store all other bytes in the same straight piece of code in which
//! the call or the return stands. Where they do not, it is not known what goes
//! along, and the module is refused.

use crate::patch::{Patch, line};
use ptx::table::{Extent, Space};
use ptx::{
    Block, Function, Instruction, Mnemonic, OperandKind, Statement, Variable, VariableSpace,
};
use rustc_hash::FxHashMap;

/// Most bytes of a parameter (PTX ISA, 5.1.6.1: 32,764).
const LARGEST: u64 = 1 << 15;

/// What one instruction needs before it.
#[derive(Default)]
pub(super) struct Padding {
    /// By the number of the instruction: bytes to be cleared.
    clear: FxHashMap<usize, Vec<(String, u64)>>,
    /// Instructions that read or pass on what may not be written: the name.
    pub(super) unwritten: Vec<(usize, String)>,
}

impl Padding {
    /// Clears what an instruction would pass on.
    pub(super) fn before(&self, index: usize, instruction: &Instruction<'_>, patch: &mut Patch) {
        let Some(bytes) = self.clear.get(&index) else {
            return;
        };
        patch.insert(instruction.span.start, |out| {
            for (name, at) in bytes {
                line!(out, "st.param.b8 [{name}+{at}], 0;");
            }
        });
    }
}

/// A parameter of a call, or a result.
struct Parameter<'a> {
    name: &'a str,
    /// Its number among all declarations, in the order of the text.
    number: usize,
    size: usize,
    /// An array, of which single bytes may be stored.
    has_bytes: bool,
    /// Bytes that were stored since the last label, branch or call.
    now: Vec<bool>,
}

struct Walk<'a> {
    parameters: Vec<Parameter<'a>>,
    /// The number of the instruction.
    index: usize,
    /// The number of the next declaration.
    next: usize,
    /// Results of the function, which are the first parameters.
    results: usize,
    /// Bytes that are stored anywhere, by number of the declaration: known when
    /// the function is walked for the second time.
    ever: Vec<Vec<bool>>,
    padding: Padding,
}

/// Finds what a function leaves out.
pub(super) fn find(function: &Function<'_>) -> Padding {
    let mut walk = Walk {
        parameters: Vec::new(),
        index: 0,
        next: 0,
        results: 0,
        ever: Vec::new(),
        padding: Padding::default(),
    };
    let Some(body) = &function.body else {
        return walk.padding;
    };
    for _ in 0..2 {
        walk.padding = Padding::default();
        (walk.index, walk.next) = (0, 0);
        for variable in &function.returns {
            walk.declare(variable);
        }
        walk.results = walk.parameters.len();
        walk.block(body);
        walk.parameters.clear();
    }
    walk.padding
}

impl<'a> Walk<'a> {
    fn declare(&mut self, variable: &Variable<'a>) {
        if variable.space != VariableSpace::Param {
            return;
        }
        let size = variable.size().unwrap_or(0).min(LARGEST) as usize;
        let number = self.next;
        self.next += 1;
        if self.ever.len() == number {
            self.ever.push(vec![false; size]);
        }
        self.parameters.push(Parameter {
            name: variable.name,
            number,
            size,
            has_bytes: !variable.dimensions.is_empty(),
            now: vec![false; size],
        });
    }

    fn forget(&mut self) {
        for parameter in &mut self.parameters {
            parameter.now.fill(false);
        }
    }

    fn block(&mut self, block: &Block<'a>) {
        let outer = self.parameters.len();
        for statement in &block.statements {
            match statement {
                Statement::Label(_) => self.forget(),
                Statement::Block(inner) => self.block(inner),
                Statement::Variable(variable) => self.declare(variable),
                Statement::Instruction(instruction) => {
                    self.instruction(instruction);
                    self.index += 1;
                }
                _ => {}
            }
        }
        self.parameters.truncate(outer);
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.parameters.iter().rposition(|p| p.name == name)
    }

    /// Bytes of a parameter are stored, surely or perhaps.
    fn store(&mut self, at: usize, (from, to): (usize, usize), is_sure: bool) {
        let parameter = &mut self.parameters[at];
        let to = to.min(parameter.size);
        let from = from.min(to);
        self.ever[parameter.number][from..to].fill(true);
        if is_sure {
            parameter.now[from..to].fill(true);
        }
    }

    fn instruction(&mut self, instruction: &Instruction<'a>) {
        let is_sure = instruction.guard.is_none();
        match instruction.opcode.mnemonic() {
            Mnemonic::St => {
                if let Some((name, from, to)) = place(instruction)
                    && let Some(at) = self.find(name)
                {
                    self.store(at, (from, to), is_sure);
                }
            }
            Mnemonic::Ld => {
                if let Some((name, from, to)) = place(instruction)
                    && let Some(at) = self.find(name)
                {
                    let read = self.parameters[at].now.get(from..to);
                    if !read.is_some_and(|bytes| bytes.iter().all(|byte| *byte)) {
                        self.padding.unwritten.push((self.index, name.to_owned()));
                    }
                }
            }
            Mnemonic::Call => self.call(instruction),
            Mnemonic::Ret => {
                for at in 0..self.results {
                    self.passes(at);
                }
            }
            Mnemonic::Bra | Mnemonic::Brx if is_sure => self.forget(),
            _ => {}
        }
    }

    fn call(&mut self, call: &Instruction<'a>) {
        let mut names = Vec::new();
        for operand in call.operands.iter().skip(1) {
            if matches!(operand.kind, OperandKind::List(_)) {
                operand.names(&mut |name| names.push(name));
            }
        }
        for name in names {
            if let Some(at) = self.find(name) {
                self.passes(at);
            }
        }
        self.forget();
        let results = call.operands.first().map(|operand| &operand.kind);
        if let (Some(OperandKind::List(results)), None) = (results, call.guard) {
            for result in results {
                let mut names = Vec::new();
                result.names(&mut |name| names.push(name));
                for name in names {
                    if let Some(at) = self.find(name) {
                        self.store(at, (0, usize::MAX), true);
                    }
                }
            }
        }
    }

    /// A parameter goes to another function.
    fn passes(&mut self, at: usize) {
        let parameter = &self.parameters[at];
        let ever = &self.ever[parameter.number];
        let mut clear = Vec::new();
        for at in (0..parameter.size).filter(|at| !parameter.now[*at]) {
            if ever[at] || !parameter.has_bytes {
                let found = (self.index, parameter.name.to_owned());
                self.padding.unwritten.push(found);
                return;
            }
            clear.push((parameter.name.to_owned(), at as u64));
        }
        if !clear.is_empty() {
            self.padding
                .clear
                .entry(self.index)
                .or_default()
                .extend(clear);
        }
    }
}

/// Which bytes of which parameter an instruction accesses by its name.
fn place<'a>(instruction: &Instruction<'a>) -> Option<(&'a str, usize, usize)> {
    let (_, address) = instruction.address_operand()?;
    let info = ptx::table::classify(instruction)?;
    let access = info.accesses.first()?;
    let Extent::Bytes(bytes) = ptx::table::extent(instruction, access, false)? else {
        return None;
    };
    let from = u64::try_from(address.offset).ok()?.min(LARGEST);
    let to = from.saturating_add(bytes).min(LARGEST);
    (access.space == Space::Param).then_some((address.base?, from as usize, to as usize))
}
