//! Arrays in shared and local memory whose addresses a function keeps in memory: in
//! tables of pointers, in structs, in variables of a frame. What it loads may point
//! into them.

use crate::code::{Code, ValueId};
use crate::function::Analysis;
use crate::names::SymbolSpace;
use crate::objects::Place;
use crate::origin::{Origin, Root, RootId};
use crate::roles::Role;
use crate::visible::Nameable;
use ptx::Mnemonic;
use rustc_hash::FxHashSet;

/// More than these are not told apart: code that compares with each would cost more
/// than it finds.
const MOST: usize = 16;

impl Analysis<'_, '_> {
    /// The places of these arrays: all, or none where one cannot be named or where they
    /// are too many. A pointer that was kept and points into none of them may still
    /// point to the end of one.
    pub fn kept_places(&self, nameable: &Nameable<'_, '_>) -> Vec<Place> {
        let roots = (0..self.provenance.roots.len() as u32).map(RootId);
        let places: Vec<(RootId, Place)> = roots
            .filter_map(|root| Some((root, self.array(root)?)))
            .collect();
        if places.is_empty() {
            return Vec::new();
        }
        let mut kept = FxHashSet::default();
        let mut may_be_any = false;
        for value in stored(&self.code) {
            match self.provenance.origin(value) {
                Origin::Pointer { root, .. } => {
                    kept.insert(self.whole_of(root));
                }
                Origin::Several { .. } => may_be_any = true,
                _ => {}
            }
        }
        let places = places.into_iter();
        let kept: Vec<Place> = places
            .filter(|(root, _)| may_be_any || kept.contains(root))
            .map(|(_, place)| place)
            .collect();
        let can_name = |place: &Place| nameable.holds(&self.code, place.symbol);
        match kept.len() <= MOST && kept.iter().all(can_name) {
            true => kept,
            false => Vec::new(),
        }
    }

    /// The place of a root, if it is one in shared or local memory that is no frame of
    /// several objects and whose size the text has.
    fn array(&self, root: RootId) -> Option<Place> {
        let place = self.place(root)?;
        let is_frame = matches!(self.provenance.root(root)?, Root::Whole { symbol }
            if self.frames.iter().any(|table| table.frame == symbol));
        let is_own = matches!(place.space, SymbolSpace::Shared | SymbolSpace::Local);
        (is_own && !is_frame && place.size.is_some_and(|size| size > 0)).then_some(place)
    }

    /// What a field is part of; else the root itself.
    fn whole_of(&self, mut root: RootId) -> RootId {
        // As often as there are roots: it ends, whatever they refer to.
        for _ in 0..self.provenance.roots.len() {
            match self.provenance.root(root) {
                Some(Root::Field { parent, .. }) => root = parent,
                _ => break,
            }
        }
        root
    }
}

/// What is stored, exchanged, or passed to a function, which may store it.
fn stored(code: &Code<'_, '_>) -> impl Iterator<Item = ValueId> {
    let instructions = code.instructions.iter().enumerate();
    let stores = instructions.filter(|(_, inst)| {
        let mnemonic = inst.instruction.opcode.mnemonic();
        matches!(mnemonic, Mnemonic::St | Mnemonic::Atom)
    });
    stores
        .flat_map(|(index, _)| code.references_of(index))
        .filter(|reference| reference.role == Role::Read)
        .map(|reference| reference.value)
}
