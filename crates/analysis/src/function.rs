//! Everything that is found out about one function.

use crate::alignment::{Alignments, LowBits};
use crate::cfg::Cfg;
use crate::code::{Code, ValueId};
use crate::dominators::Dominators;
use crate::names::{ModuleSymbols, SymbolSpace};
use crate::objects::{ObjectTable, Place};
use crate::origin::{Root, RootId};
use crate::provenance::Provenance;
use crate::ssa::Ssa;
use crate::uses::{Use, Uses};
use debuginfo::DebugInfo;
use std::sync::OnceLock;

/// Everything the crate finds out about one function.
#[derive(Debug)]
pub struct Analysis<'m, 'a> {
    /// The flat body.
    pub code: Code<'m, 'a>,
    /// Its control flow.
    pub cfg: Cfg,
    /// Its dominator tree.
    pub dominators: Dominators,
    /// Values of registers.
    pub ssa: Ssa,
    /// The origins of those values.
    pub provenance: Provenance,
    /// What the frames in local memory hold.
    pub frames: Vec<ObjectTable>,
    /// The low bits of its addresses, computed on first use.
    alignments: OnceLock<Alignments>,
    /// The uses of values, computed on first use.
    uses: OnceLock<Uses>,
}

impl<'m, 'a> Analysis<'m, 'a> {
    /// Analyses `function`; `None` for a declaration without a body.
    pub fn of(module: &ModuleSymbols<'a>, function: &'m ptx::Function<'a>) -> Option<Self> {
        let code = Code::of(module, function)?;
        let cfg = Cfg::of(&code);
        let dominators = Dominators::of(&cfg);
        let mut code = code;
        let ssa = Ssa::of(&mut code, &cfg, &dominators);
        let none = DebugInfo::default();
        let types = if module.has_fields {
            &module.debug
        } else {
            &none
        };
        let provenance = Provenance::of(&code, &dominators, &ssa, types);
        let mut frames = ObjectTable::of(&code, &provenance.roots);
        ObjectTable::refine_all(&mut frames, &code, &module.debug);
        Some(Analysis {
            frames,
            code,
            cfg,
            dominators,
            ssa,
            provenance,
            alignments: OnceLock::new(),
            uses: OnceLock::new(),
        })
    }

    /// The uses of a value: instructions, phis, and memory that it may be
    /// stored in.
    pub fn uses(&self, value: ValueId) -> &[Use] {
        self.uses
            .get_or_init(|| Uses::of(&self.code, &self.ssa))
            .of_value(value)
    }

    /// The low bits of what the address in an operand is based on, without
    /// the operand's own constant.
    pub fn low_bits(&self, instruction: u32, operand: usize) -> LowBits {
        self.alignments
            .get_or_init(|| Alignments::of(&self.code, &self.cfg, &self.ssa))
            .of_address(instruction, operand)
    }

    /// The place that a root is the address of, if it is one in a window.
    pub fn place(&self, root: RootId) -> Option<Place> {
        let (symbol, start) = match self.provenance.root(root)? {
            Root::Whole { symbol } => (symbol, 0),
            Root::Part { symbol, start } => (symbol, start),
            _ => return None,
        };
        let declared = self.code.symbols[symbol.0 as usize];
        let object = self
            .frames
            .iter()
            .find(|table| table.frame == symbol)
            .and_then(|table| table.at(start));
        let size = match self.provenance.root(root)? {
            Root::Part { .. } => object.map(|object| u64::from(object.size)),
            _ => declared.size,
        };
        if size.is_none() && declared.space != SymbolSpace::Shared {
            return None;
        }
        Some(Place {
            symbol,
            space: declared.space,
            start,
            size,
        })
    }
}
