//! Queries of the tree that several readers need.

use crate::{
    Address, Block, File, Function, Instruction, Item, Mnemonic, Module, Operand, OperandKind,
    Position, Span, Statement, Variable,
};

impl<'a> Module<'a> {
    /// The architecture that `.target` names: 90 for `sm_90` and `sm_90a`; 0 if
    /// it names none.
    pub fn architecture(&self) -> u32 {
        let number = |word: &&str| {
            let digits = word.strip_prefix("sm_")?;
            let end = digits
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(digits.len());
            digits[..end].parse().ok()
        };
        self.target.iter().find_map(number).unwrap_or(0)
    }

    /// All functions, declared and defined, in order.
    pub fn functions(&self) -> impl Iterator<Item = &Function<'a>> {
        self.items.iter().filter_map(|item| match item {
            Item::Function(function) => Some(function),
            _ => None,
        })
    }

    /// All variables at file scope, in order.
    pub fn variables(&self) -> impl Iterator<Item = &Variable<'a>> {
        self.items.iter().filter_map(|item| match item {
            Item::Variable(variable) => Some(variable),
            _ => None,
        })
    }

    /// All `.file` directives, in order.
    pub fn files(&self) -> impl Iterator<Item = &File<'a>> {
        self.items.iter().filter_map(|item| match item {
            Item::File(file) => Some(file),
            _ => None,
        })
    }

    /// Name of the file that a `.loc` numbers.
    pub fn file_name(&self, index: u32) -> Option<&'a str> {
        self.files()
            .find(|file| file.index == index)
            .map(|file| file.name)
    }
}

impl<'a> Function<'a> {
    /// All statements of the body in the order of the text, nested ones after
    /// the scope that holds them. Empty for a declaration.
    pub fn statements(&self) -> Statements<'_, 'a> {
        match &self.body {
            Some(body) => body.walk(),
            None => Statements { stack: Vec::new() },
        }
    }

    /// All instructions of the body in the order of the text, whatever scope
    /// they are in.
    pub fn instructions(&self) -> impl Iterator<Item = &Instruction<'a>> {
        self.statements()
            .filter_map(|(_, statement)| match statement {
                Statement::Instruction(instruction) => Some(instruction),
                _ => None,
            })
    }
}

impl<'a> Instruction<'a> {
    /// The function that a call names, and which operand names it.
    pub fn called_function(&self) -> Option<(usize, &'a str)> {
        if self.opcode.mnemonic() != Mnemonic::Call {
            return None;
        }
        let (place, name) = self.first_name()?;
        (!name.starts_with('%')).then_some((place, name))
    }

    /// Of a call through a pointer, which operand is the register, and the name
    /// of the prototype or of the list of targets.
    pub fn called_pointer(&self) -> Option<(usize, &'a str)> {
        if self.opcode.mnemonic() != Mnemonic::Call {
            return None;
        }
        let (place, register) = self.first_name()?;
        match self.operands.get(place + 1..)?.last()?.kind {
            OperandKind::Name(label) if register.starts_with('%') => Some((place, label)),
            _ => None,
        }
    }

    fn first_name(&self) -> Option<(usize, &'a str)> {
        let operands = self.operands.iter().enumerate();
        let mut names = operands.filter_map(|(place, operand)| match operand.kind {
            OperandKind::Name(name) => Some((place, name)),
            _ => None,
        });
        names.next()
    }
}

impl<'a> Block<'a> {
    /// All statements in the order of the text, nested ones after the scope
    /// that holds them.
    pub fn walk(&self) -> Statements<'_, 'a> {
        Statements {
            stack: vec![self.statements.iter()],
        }
    }
}

/// Statements of a body with the depth of their scope: 0 for those of the
/// body itself.
#[derive(Clone, Debug)]
pub struct Statements<'t, 'a> {
    stack: Vec<std::slice::Iter<'t, Statement<'a>>>,
}

impl<'t, 'a> Iterator for Statements<'t, 'a> {
    type Item = (usize, &'t Statement<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let depth = self.stack.len().checked_sub(1)?;
            match self.stack[depth].next() {
                Some(statement) => {
                    if let Statement::Block(block) = statement {
                        self.stack.push(block.statements.iter());
                    }
                    return Some((depth, statement));
                }
                None => {
                    self.stack.pop();
                }
            }
        }
    }
}

impl Statement<'_> {
    /// Place of the statement. Several names of one declaration share it.
    pub fn span(&self) -> Span {
        match self {
            Statement::Label(label) => label.span,
            Statement::Instruction(instruction) => instruction.span,
            Statement::Variable(variable) => variable.span,
            Statement::Block(block) => block.span,
            Statement::Loc(loc) => loc.span,
            Statement::Pragma(span) | Statement::Other(span) => *span,
            Statement::Targets(targets) => targets.span,
            Statement::CallPrototype(prototype) => prototype.span,
        }
    }
}

impl<'a> Instruction<'a> {
    /// Bracketed operands with their indices, in order.
    pub fn addresses(&self) -> impl Iterator<Item = (usize, &Address<'a>)> {
        self.operands
            .iter()
            .enumerate()
            .filter_map(|(index, operand)| match &operand.kind {
                OperandKind::Address(address) => Some((index, address)),
                _ => None,
            })
    }

    /// The first bracketed operand, with its index.
    pub fn address_operand(&self) -> Option<(usize, &Address<'a>)> {
        self.addresses().next()
    }
}

impl<'a> Operand<'a> {
    /// Calls `visit` with every name the operand mentions: registers, symbols,
    /// labels, also inside vectors, lists, addresses and pairs. Sinks are no
    /// names. For what is kept as text, the part before `[` or `.`.
    pub fn names(&self, visit: &mut impl FnMut(&'a str)) {
        match &self.kind {
            OperandKind::Name(name) | OperandKind::NameOffset(name, _) | OperandKind::Not(name) => {
                visit(name)
            }
            OperandKind::Pair(first, second) => {
                for name in [first, second] {
                    if *name != "_" {
                        visit(name);
                    }
                }
            }
            OperandKind::Vector(list) | OperandKind::List(list) => {
                list.iter().for_each(|item| item.names(visit))
            }
            OperandKind::Address(address) => {
                if let Some(base) = address.base {
                    visit(base);
                }
                address
                    .coordinates
                    .iter()
                    .for_each(|item| item.names(visit));
            }
            OperandKind::Text(text) if !text.starts_with('"') => {
                visit(text.split(['[', '.']).next().unwrap_or(text).trim_end());
            }
            OperandKind::Text(_)
            | OperandKind::Integer(_)
            | OperandKind::F32(_)
            | OperandKind::F64(_)
            | OperandKind::Sink => {}
        }
    }
}

/// Lines of a source, for many questions about positions.
#[derive(Clone, Debug)]
pub struct LineIndex<'a> {
    source: &'a str,
    /// Offset of the first byte of each line.
    starts: Vec<u32>,
}

impl<'a> LineIndex<'a> {
    /// Walks `source` once. Lines that begin beyond 4 GiB are left out.
    pub fn new(source: &'a str) -> Self {
        let newlines = memchr::memchr_iter(b'\n', source.as_bytes());
        let starts = newlines.map_while(|at| u32::try_from(at + 1).ok());
        LineIndex {
            source,
            starts: std::iter::once(0).chain(starts).collect(),
        }
    }

    /// The line of a byte offset.
    pub fn line_of(&self, offset: u32) -> u32 {
        self.starts.partition_point(|start| *start <= offset) as u32
    }

    /// Line and column of a byte offset. One beyond the end counts as the
    /// end, one inside a character as its start.
    pub fn position(&self, offset: u32) -> Position {
        let mut offset = (offset as usize).min(self.source.len());
        while !self.source.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self
            .starts
            .partition_point(|start| *start as usize <= offset);
        let start = self.starts[line - 1] as usize;
        Position {
            line: line as u32,
            column: self.source[start..offset].chars().count() as u32 + 1,
        }
    }

    /// Text of a line, from 1, without its newline; empty if there is none.
    pub fn line(&self, line: u32) -> &'a str {
        let Some(index) = (line as usize)
            .checked_sub(1)
            .filter(|index| *index < self.starts.len())
        else {
            return "";
        };
        let end = self
            .starts
            .get(index + 1)
            .map_or(self.source.len(), |next| *next as usize);
        self.source[self.starts[index] as usize..end].trim_end_matches(['\n', '\r'])
    }
}
