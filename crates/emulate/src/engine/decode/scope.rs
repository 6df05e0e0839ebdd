//! Names inside a function.

use super::Decoder;
use crate::engine::inst::Class;
use crate::engine::link::Global;
use rustc_hash::FxHashMap;

/// What a name means inside a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symbol {
    Register {
        class: Class,
        slot: u32,
    },
    /// Bytes of the local frame: `.local` variables, parameters of a `.func`,
    /// temporaries of a call.
    Frame {
        offset: u32,
        size: u32,
    },
    /// Offset in the entry's parameter block.
    EntryParameter(u32),
    /// Offset in shared memory.
    Shared(u32),
    DynamicShared,
    /// Address of a `.global` or `.const` variable.
    Memory {
        address: u64,
    },
    Function(u32),
}

/// One `{ … }`.
#[derive(Default)]
pub(crate) struct Scope<'a> {
    pub names: FxHashMap<&'a str, Symbol>,
    /// `%r<n>`: class and count; slots are assigned on first use.
    pub ranges: FxHashMap<&'a str, (Class, u32)>,
    /// Components of vector registers.
    pub components: FxHashMap<(&'a str, u32), (Class, u32)>,
    pub labels: FxHashMap<&'a str, u32>,
    pub targets: FxHashMap<&'a str, Vec<&'a str>>,
}

impl<'a> Decoder<'a> {
    /// What a name means here; `None` if it is not declared.
    pub fn find(&mut self, name: &'a str) -> Option<Symbol> {
        for depth in (0..self.scopes.len()).rev() {
            if let Some(&symbol) = self.scopes[depth].names.get(name) {
                return Some(symbol);
            }
            if let Some((class, index)) = self.in_range(depth, name) {
                let slot = self.register(class);
                let _ = index;
                let symbol = Symbol::Register { class, slot };
                self.scopes[depth].names.insert(name, symbol);
                return Some(symbol);
            }
            if let Some((base, component)) = name.rsplit_once('.') {
                let component = match component {
                    "x" | "r" => 0,
                    "y" | "g" => 1,
                    "z" | "b" => 2,
                    "w" | "a" => 3,
                    _ => continue,
                };
                if let Some(&(class, slot)) = self.scopes[depth].components.get(&(base, component))
                {
                    return Some(Symbol::Register { class, slot });
                }
            }
        }
        Some(match self.names.find(self.part, name)? {
            Global::Function(index) => Symbol::Function(index),
            Global::Memory { address, .. } => Symbol::Memory { address },
            Global::Shared(offset) => Symbol::Shared(offset),
            Global::DynamicShared => Symbol::DynamicShared,
        })
    }

    /// `%r17` of `%r<20>`.
    fn in_range(&self, depth: usize, name: &str) -> Option<(Class, u32)> {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        for length in 1..=digits {
            let (prefix, index) = name.split_at(name.len() - length);
            if let Some(&(class, count)) = self.scopes[depth].ranges.get(prefix)
                && let Ok(index) = index.parse::<u32>()
                && index < count
                && (length == 1 || !name[name.len() - length..].starts_with('0'))
            {
                return Some((class, index));
            }
        }
        None
    }
}
