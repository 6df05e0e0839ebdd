//! The bounds that an address must be checked against: those of the object that
//! it was derived from, by the analysis of the program.

use super::checks::{Input, State, Text};
use super::facts::{constant_size, has_bounds, is_found_on_device, is_of_text, reaches};
use super::verdicts::Verdict;
use super::written::{number, root};
use crate::protocol::family::{IN_SPACE, IN_SPACE_WIDE, SHADOW_BASE, SHADOW_SIZE};
use crate::protocol::register::{BLOCK, DYNAMIC, WEAK_BASE, WEAK_SIZE};
use analysis::{
    Origin, Reference, Referent, Register, Root, RootId, SymbolId, SymbolSpace, ValueId,
};
use ptx::table::Space;

/// Whose bounds an address must be checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Those of a root.
    Root(RootId),
    /// Those that travel with a register.
    Carried(Register, ValueId),
    /// A variable's that the instruction names, of this size.
    Symbol(u64),
    /// The launch's dynamic shared memory, which the instruction names.
    Dynamic,
    /// All shared memory of the block.
    Block,
    /// The bounds found by looking up the address itself.
    Found,
    /// None: shadow memory decides.
    Shadow,
}

/// The bounds for a check, and whether the address itself is looked up if they
/// are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owed {
    pub(super) extent: Extent,
    pub(super) in_doubt: bool,
}

/// The bounds of a global or generic address; `None` if it lies in memory that
/// is not protected.
pub(super) fn of_address(
    input: &Input<'_, '_, '_>,
    reference: &Reference,
    is_generic: bool,
) -> Option<Owed> {
    let analysis = input.analysis;
    let certain = |extent| Owed {
        extent,
        in_doubt: false,
    };
    match reference.referent {
        Referent::Symbol(id, _) => {
            let symbol = &analysis.code.symbols[id.0 as usize];
            let extent = symbol.size.map_or(Extent::Found, Extent::Symbol);
            (symbol.space == SymbolSpace::Global).then_some(certain(extent))
        }
        Referent::Other(_) => None,
        Referent::Wide(register) => {
            let origin = analysis.provenance.origin(reference.value);
            let in_doubt = origin.is_in_doubt();
            let extent = match origin {
                Origin::Several { .. } => Extent::Carried(register, reference.value),
                Origin::Pointer { root, .. } if has_bounds(analysis, &input.nameable, root) => {
                    Extent::Root(root)
                }
                Origin::Pointer { root, .. } => match analysis.provenance.root(root) {
                    Some(Root::ParameterWindow | Root::System) => return None,
                    Some(Root::Whole { symbol }) if is_parameter(input, symbol) => return None,
                    Some(Root::Variable { .. } | Root::Field { .. }) => Extent::Found,
                    Some(_) if is_generic => return None,
                    _ => Extent::Found,
                },
                _ => Extent::Found,
            };
            Some(Owed {
                extent,
                in_doubt: in_doubt && extent != Extent::Found,
            })
        }
    }
}

/// That shadow memory decides, unless an address is in a space that has none, or of an
/// object whose bounds the text has.
pub(super) fn of_shadow(
    input: &Input<'_, '_, '_>,
    reference: &Reference,
    is_generic: bool,
) -> Option<Owed> {
    let owed = of_address(input, reference, is_generic);
    let is_of_text = |owed: &Owed| match owed.extent {
        Extent::Symbol(_) => true,
        Extent::Root(root) => !owed.in_doubt && is_of_text(input.analysis, &input.nameable, root),
        _ => false,
    };
    if let Some(owed) = owed.filter(is_of_text) {
        return Some(owed);
    }
    let has_one = match reference.referent {
        Referent::Symbol(id, _) => {
            input.analysis.code.symbols[id.0 as usize].space == SymbolSpace::Global
        }
        Referent::Other(_) => false,
        Referent::Wide(_) => true,
    };
    has_one.then_some(Owed {
        extent: Extent::Shadow,
        in_doubt: false,
    })
}

fn is_parameter(input: &Input<'_, '_, '_>, symbol: SymbolId) -> bool {
    let space = input.analysis.code.symbols[symbol.0 as usize].space;
    matches!(space, SymbolSpace::EntryParameter { .. })
}

/// The bounds of an address in a space of its own; `None` if nothing is known
/// of it.
pub(super) fn in_window(
    input: &Input<'_, '_, '_>,
    reference: &Reference,
    space: Space,
) -> Option<Extent> {
    let analysis = input.analysis;
    let block = (space == Space::Shared && !input.has_clusters).then_some(Extent::Block);
    match reference.referent {
        Referent::Symbol(id, _) => {
            let symbol = &analysis.code.symbols[id.0 as usize];
            if !reaches(space, symbol.space) || space == Space::Param {
                return None;
            }
            match symbol.size {
                Some(size) => Some(Extent::Symbol(size)),
                None => (symbol.space == SymbolSpace::Shared).then_some(Extent::Dynamic),
            }
        }
        Referent::Other(_) => None,
        Referent::Wide(register) => match analysis.provenance.origin(reference.value) {
            origin if origin.is_in_doubt() => block,
            Origin::Several { .. } => Some(Extent::Carried(register, reference.value)),
            Origin::Pointer { root, .. } => {
                let kind = analysis.provenance.root(root);
                let place = analysis.place(root);
                let is_global = kind.is_some_and(Root::is_global);
                if input.shadow.is_some() && !is_of_text(analysis, &input.nameable, root) {
                    return block;
                }
                if !is_global && has_bounds(analysis, &input.nameable, root) {
                    let is_elsewhere = place.is_some_and(|place| !reaches(space, place.space));
                    return (!is_elsewhere).then_some(Extent::Root(root));
                }
                match is_found_on_device(analysis, kind) {
                    true => Some(Extent::Root(root)),
                    false => block,
                }
            }
            _ => block,
        },
    }
}

impl State {
    /// Base and size of a root, as generic addresses; the size is in its
    /// register unless the module's text has it. Notes that they are used.
    pub(super) fn root_bounds(&mut self, id: RootId, input: &Input<'_, '_, '_>) -> (Text, Text) {
        self.roots.used.insert(id.0);
        let (base, size) = root(id.0);
        let known = constant_size(input.analysis, id);
        (base, known.map_or(size, |size| size.to_string()))
    }

    /// Whether a pair is the bounds that travel with a register, which then
    /// must be kept wherever a value of it is made.
    fn are_carried(&mut self, (register, value): (Register, ValueId), pair: (&str, &str)) -> bool {
        let numbers = (number(pair.0, SHADOW_BASE), number(pair.1, SHADOW_SIZE));
        let (Some(base), Some(size)) = numbers else {
            return false;
        };
        let is_it = base == size && self.roots.carries(base, register);
        self.roots.carried.extend(is_it.then_some(value));
        is_it
    }

    /// Whether a pair is the required generic bounds. Constant sizes may be
    /// smaller: they are limits then.
    pub(super) fn are_bounds(
        &mut self,
        extent: Extent,
        (base, size): (&str, &str),
        input: &Input<'_, '_, '_>,
    ) -> bool {
        match extent {
            Extent::Root(id) => {
                let is_it = base == root(id.0).0;
                is_it && fits(size, &self.root_bounds(id, input).1)
            }
            Extent::Carried(register, value) => self.are_carried((register, value), (base, size)),
            _ => false,
        }
    }

    /// The same, and nothing less.
    pub(super) fn are_whole_bounds(
        &mut self,
        extent: Extent,
        pair: (&str, &str),
        input: &Input<'_, '_, '_>,
    ) -> bool {
        self.is_whole(extent, pair.1, input) && self.are_bounds(extent, pair, input)
    }

    /// Whether a size is all of a constant one.
    fn is_whole(&self, extent: Extent, size: &str, input: &Input<'_, '_, '_>) -> bool {
        let known = match extent {
            Extent::Root(id) => constant_size(input.analysis, id),
            Extent::Symbol(size) => Some(size),
            _ => None,
        };
        known.is_none_or(|known| size == known.to_string())
    }

    /// Whether a verdict checks a global or generic address against the
    /// required bounds.
    pub(super) fn is_checked_against(
        &mut self,
        verdict: &Verdict,
        owed: Owed,
        input: &Input<'_, '_, '_>,
    ) -> bool {
        if owed.extent == Extent::Shadow {
            return verdict.blocks.is_some() || verdict.is_noted && self.twice.is_first();
        }
        let pair = (verdict.distance.base.as_str(), verdict.size.as_str());
        if verdict.count.is_some() && !self.is_whole(owed.extent, pair.1, input) {
            return false;
        }
        let is_found = pair == (WEAK_BASE, WEAK_SIZE);
        match (owed.extent, &verdict.found) {
            (Extent::Symbol(size), _) => {
                pair.0 == verdict.distance.pointer && fits(pair.1, &size.to_string())
            }
            (Extent::Found, Some(found)) => {
                is_found && found.instead_of.is_none() && found.is_of(verdict)
            }
            (extent, Some(found)) if owed.in_doubt => {
                let instead_of = found.instead_of.clone();
                is_found
                    && found.is_of(verdict)
                    && instead_of
                        .is_some_and(|(base, size)| self.are_bounds(extent, (&base, &size), input))
            }
            (extent, _) => !owed.in_doubt && self.are_bounds(extent, pair, input),
        }
    }

    /// The same, of an address in a space of its own.
    pub(super) fn is_held_in_window(
        &mut self,
        verdict: &Verdict,
        extent: Extent,
        is_wide: bool,
        input: &Input<'_, '_, '_>,
    ) -> bool {
        let pair = (verdict.distance.base.as_str(), verdict.size.as_str());
        if verdict.count.is_some() && !self.is_whole(extent, pair.1, input) {
            return false;
        }
        match extent {
            Extent::Shadow => false,
            Extent::Symbol(size) => {
                verdict.symbol.is_some()
                    && pair.0 == verdict.distance.pointer
                    && fits(pair.1, &size.to_string())
            }
            Extent::Dynamic => {
                verdict.symbol.is_some() && pair.0 == verdict.distance.pointer && pair.1 == DYNAMIC
            }
            Extent::Block => pair == ("0", BLOCK),
            Extent::Root(id) if input.analysis.place(id).is_some() => {
                let family = if is_wide { IN_SPACE_WIDE } else { IN_SPACE };
                let size = constant_size(input.analysis, id);
                self.roots.used_in_space.insert((is_wide, id.0));
                number(pair.0, family) == Some(id.0)
                    && match size {
                        Some(size) => fits(pair.1, &size.to_string()),
                        None => pair.1 == DYNAMIC,
                    }
            }
            Extent::Root(_) | Extent::Carried(..) => self.are_bounds(extent, pair, input),
            Extent::Found => false,
        }
    }
}

/// Whether a size is another's register, or a constant that is not greater.
fn fits(size: &str, own: &str) -> bool {
    match (size.parse::<u64>(), own.parse::<u64>()) {
        (Ok(size), Ok(own)) => size <= own,
        _ => size == own,
    }
}
