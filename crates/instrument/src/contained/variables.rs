//! Names at file scope and in a function, and what is declared under each.

use super::frames::Frames;
use super::known::Space as Within;
use model::layout::fence as layout;
use ptx::VariableSpace;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A variable in local or constant memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variable {
    pub(super) space: Within,
    pub(super) size: u64,
    pub(super) alignment: u32,
}

/// Declarations of a file; or of a function, and those of its file. (A file may have
/// many of both: those of the file are in memory once.)
#[derive(Debug, Default)]
pub(super) struct Variables<'a> {
    file: Option<Rc<Variables<'a>>>,
    /// In local and constant memory.
    list: Vec<Variable>,
    /// The place of each in the list.
    numbers: FxHashMap<&'a str, usize>,
    /// In global memory, in the order of the table: bytes and alignment.
    global: Vec<(u64, u32)>,
    /// In shared memory: bytes, if the text has them, and alignment.
    shared: FxHashMap<&'a str, (Option<u64>, u32)>,
    /// Parameters and temporaries of calls, the innermost scope last: bytes.
    parameters: Vec<(&'a str, u64)>,
    names: BTreeSet<&'a str>,
    /// The variable that holds all frames, if kernels declare one.
    pub(super) frames: Option<Frames>,
}

impl<'a> Variables<'a> {
    /// None, but the name of the table is in use.
    pub(super) fn new() -> Self {
        let mut none = Variables::default();
        none.names.insert(layout::VARIABLE);
        none
    }

    /// Those of a function in a file.
    pub(super) fn in_function(file: &Rc<Variables<'a>>) -> Self {
        Variables {
            file: Some(Rc::clone(file)),
            frames: file.frames,
            ..Variables::default()
        }
    }

    /// Adds a variable; false if its name is in use.
    pub(super) fn add(&mut self, variable: &ptx::Variable<'a>) -> bool {
        let alignment = variable.alignment().max(1);
        let size = variable.size();
        match variable.space {
            VariableSpace::Global => self.global.push((size.unwrap_or(0), alignment)),
            VariableSpace::Shared => {
                let is_own = matches!(
                    variable.linkage,
                    ptx::Linkage::Local | ptx::Linkage::Visible
                );
                let size = size.filter(|_| is_own);
                self.shared.insert(variable.name, (size, alignment));
            }
            VariableSpace::Local | VariableSpace::Const => {
                let space = match variable.space {
                    VariableSpace::Local => Within::Local,
                    _ => Within::Const,
                };
                self.list(variable.name, space, size.unwrap_or(0), alignment);
            }
            VariableSpace::Param => {
                self.parameters.push((variable.name, size.unwrap_or(0)));
                return true;
            }
            VariableSpace::Reg | VariableSpace::Sreg | VariableSpace::Tex => return true,
        }
        self.takes(variable.name)
    }

    /// Takes in a parameter of a kernel, of which code may take the address.
    pub(super) fn add_parameter(&mut self, parameter: &ptx::Variable<'a>) -> bool {
        let alignment = parameter.alignment().max(1);
        let size = parameter.size().unwrap_or(0);
        self.list(parameter.name, Within::Param, size, alignment);
        self.takes(parameter.name)
    }

    fn list(&mut self, name: &'a str, space: Within, size: u64, alignment: u32) {
        // (Of two of a name, which is an error, the first counts.)
        self.numbers.entry(name).or_insert(self.list.len());
        self.list.push(Variable {
            space,
            size,
            alignment,
        });
    }

    fn takes(&mut self, name: &'a str) -> bool {
        !self.has(name) && self.names.insert(name)
    }

    /// Whether a name is that of a variable.
    pub(super) fn has(&self, name: &str) -> bool {
        let in_file = || self.file.as_ref().is_some_and(|file| file.has(name));
        self.names.contains(name) || in_file()
    }

    /// The names of variables that begin so.
    pub(super) fn beginning_with(&self, prefix: &'a str) -> impl Iterator<Item = &'a str> + '_ {
        let file = self.file.iter().map(|file| &file.names);
        let all = file.chain([&self.names]);
        all.flat_map(move |names| {
            let from = names.range(prefix..).copied();
            from.take_while(move |name| name.starts_with(prefix))
        })
    }

    /// Variables in the table.
    pub(super) fn in_table(&self) -> usize {
        self.file.as_ref().map_or(0, |file| file.in_table()) + self.global.len()
    }

    /// Bytes and alignment of the variable at a place of the table.
    pub(super) fn global(&self, index: usize) -> Option<(u64, u32)> {
        let before = self.file.as_ref().map_or(0, |file| file.in_table());
        match index.checked_sub(before) {
            Some(own) => self.global.get(own).copied(),
            None => self.file.as_ref()?.global(index),
        }
    }

    /// Bytes, if the text has them, and alignment of a variable in shared memory.
    pub(super) fn shared(&self, name: &str) -> Option<(Option<u64>, u32)> {
        let own = self.shared.get(name).copied();
        own.or_else(|| self.file.as_ref()?.shared(name))
    }

    /// The number of a variable in local or constant memory.
    pub(super) fn number(&self, name: &str) -> Option<usize> {
        let of_file = self.file.as_ref().and_then(|file| file.number(name));
        of_file.or_else(|| Some(self.before() + self.numbers.get(name)?))
    }

    fn before(&self) -> usize {
        self.file.as_ref().map_or(0, |file| file.list.len())
    }

    /// The variable of this number.
    pub(super) fn get(&self, number: usize) -> Option<Variable> {
        match number.checked_sub(self.before()) {
            Some(own) => self.list.get(own).copied(),
            None => self.file.as_ref()?.get(number),
        }
    }

    /// How many parameters and temporaries are declared.
    pub(super) fn parameters(&self) -> usize {
        self.parameters.len()
    }

    /// Ends scopes: so many parameters and temporaries are left.
    pub(super) fn leave(&mut self, parameters: usize) {
        self.parameters.truncate(parameters);
    }

    /// Bytes of a parameter or temporary.
    pub(super) fn parameter(&self, name: &str) -> Option<u64> {
        let mut innermost_first = self.parameters.iter().rev();
        let found = innermost_first.find(|(parameter, _)| *parameter == name);
        found.map(|(_, size)| *size)
    }
}
