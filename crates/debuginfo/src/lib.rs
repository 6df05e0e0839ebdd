//! Debug information in PTX: names, places and types of variables.
//!
//! `nvcc -G` writes DWARF as text: `.section .debug_info { .b8 … }`, with
//! labels in place of addresses. The module `sections` turns that into bytes
//! again, the gimli crate reads them, and [`DebugInfo`] keeps what bounds and
//! reports need. A program built with `-lineinfo` has lines only, and so an
//! empty [`DebugInfo`].
//!
//! The text is input of the program: whatever it contains, the result is an
//! error or an incomplete [`DebugInfo`], never a panic.

mod entries;
mod sections;
mod types;

pub use types::{Member, Type, TypeId, TypeKind, Types};

use rustc_hash::FxHashMap;

/// Why debug information could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A statement in a section is not data.
    #[error("line {line} of the PTX: `{text}` is no data of a debug section")]
    Statement {
        /// Line, from 1.
        line: u32,
        /// The statement.
        text: String,
    },
    /// The bytes are not DWARF.
    #[error("the debug sections do not hold DWARF: {0}")]
    Dwarf(#[from] gimli::Error),
}

/// What the debug information of a module contains.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DebugInfo {
    /// Types, shared by all variables.
    pub types: Types,
    /// By the function's name in PTX.
    pub functions: FxHashMap<String, Vec<Local>>,
    /// Variables with an address of their own, by their name in PTX:
    /// global, constant and shared ones.
    pub variables: FxHashMap<String, Variable>,
}

/// A variable with an address of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Name as the author wrote it, without scopes.
    pub name: String,
    /// Its type.
    pub ty: Option<TypeId>,
}

/// A parameter or local variable of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// Name as the author wrote it.
    pub name: String,
    /// Its type.
    pub ty: Option<TypeId>,
    /// It is a parameter.
    pub is_parameter: bool,
    /// Where it is kept.
    pub place: Place,
    /// Bytes of the PTX text in which it is in scope, by labels; `None` where
    /// the information does not say.
    pub scope: Option<(u32, u32)>,
}

/// Where a variable is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At a symbol of the text plus an offset in bytes: a local depot, a
    /// parameter of an entry.
    Symbol {
        /// The symbol.
        name: String,
        /// Bytes from its start.
        offset: u64,
    },
    /// In a register.
    Register(String),
    /// In changing places, or nowhere.
    Elsewhere,
}

/// An object in a function's frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameObject {
    /// The frame's symbol, `__local_depot0`.
    pub frame: String,
    /// Bytes from its start.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Name as the author wrote it.
    pub name: String,
    /// Its type.
    pub ty: TypeId,
}

impl DebugInfo {
    /// Reads the debug information of a module; empty if it has none.
    ///
    /// # Errors
    ///
    /// The sections hold something other than DWARF.
    pub fn of(module: &ptx::Module<'_>) -> Result<DebugInfo, Error> {
        let Some(sections) = sections::Sections::of(module)? else {
            return Ok(DebugInfo::default());
        };
        entries::read(&sections)
    }

    /// Whether there is anything in it.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.variables.is_empty()
    }

    /// The objects in the frame of a function whose places and sizes are
    /// known, by offset.
    pub fn frame_objects(&self, function: &str) -> Vec<FrameObject> {
        let locals = self.functions.get(function).map_or(&[][..], Vec::as_slice);
        let mut objects: Vec<FrameObject> = locals
            .iter()
            .filter_map(|local| {
                let Place::Symbol { name, offset } = &local.place else {
                    return None;
                };
                // Parameters of entries lie at symbols, too.
                if !name.contains("__local_depot") {
                    return None;
                }
                let ty = local.ty?;
                Some(FrameObject {
                    frame: name.clone(),
                    offset: *offset,
                    size: self.types.size(ty).filter(|size| *size > 0)?,
                    name: local.name.clone(),
                    ty,
                })
            })
            .collect();
        objects.sort_by(|a, b| (a.offset, a.size, &a.name).cmp(&(b.offset, b.size, &b.name)));
        objects
    }

    /// The parameter of an entry that is kept at a symbol, for its type.
    pub fn parameter(&self, function: &str, symbol: &str) -> Option<&Local> {
        self.functions.get(function)?.iter().find(|local| {
            local.is_parameter
                && matches!(&local.place, Place::Symbol { name, offset: 0 } if name == symbol)
        })
    }
}
