//! Which bounds a function needs: those of roots, and those in shadow
//! registers, for registers whose root is only known at run time.

use super::plan::{Base, Plan, Source};
use super::source::{has_bounds, is_of_text};
use super::window::mapped_place;
use analysis::{Analysis, Definition, Nameable, Origin, Root, RootId, Term, ValueId};

/// The function that a plan is for.
#[derive(Clone, Copy)]
pub(super) struct About<'x, 'm, 'a> {
    pub(super) analysis: &'x Analysis<'m, 'a>,
    pub(super) nameable: &'x Nameable<'x, 'a>,
}

impl Plan {
    /// Notes the bounds that the groups are checked against.
    pub(super) fn need_for_groups(&mut self, about: About<'_, '_, '_>) {
        let mut carried = Vec::new();
        for index in 0..self.groups.len() {
            let group = &self.groups[index];
            match (group.source, group.base, group.window.is_some()) {
                (Source::Root(root), _, true) if about.analysis.place(root).is_some() => {
                    match group.is_wide {
                        true => self.needed_in_space_wide.insert(root),
                        false => self.needed_in_space.insert(root),
                    };
                }
                (Source::Root(root), ..) => self.need_root(about, root),
                (Source::Shadow(_), Base::Register(value), _) => carried.push(value),
                (Source::Byte, ..) => self.prove_by(about, index),
                _ => {}
            }
        }
        self.need_carried(about, carried);
    }

    /// Notes the parameter whose bounds a proof needs, and the shortcut of checks
    /// ([`Plan::near`]).
    fn prove_by(&mut self, about: About<'_, '_, '_>, group: usize) {
        let Source::Root(root) = self.groups[group].proves else {
            return;
        };
        if let Some(Root::KernelParameter { offset }) = about.analysis.provenance.root(root)
            && about.analysis.code.function.is_entry
            && !self.roots.contains(&offset)
        {
            self.roots.push(offset);
            self.needed.insert(root);
        }
    }

    /// Notes that the bounds of a value are needed, if it has any.
    pub(super) fn need_value(&mut self, about: About<'_, '_, '_>, value: ValueId) {
        match about.analysis.provenance.origin(value) {
            Origin::Pointer { root, .. } => self.need_root(about, root),
            Origin::Several { .. } => self.need_carried(about, vec![value]),
            _ => {}
        }
    }

    fn need_carried(&mut self, about: About<'_, '_, '_>, mut stack: Vec<ValueId>) {
        let Analysis {
            ssa, provenance, ..
        } = about.analysis;
        while let Some(id) = stack.pop() {
            let Some(value) = ssa.value(id) else { continue };
            if !self.shadowed.insert(id) {
                continue;
            }
            if let Err(place) = self.shadow_registers.binary_search(&value.register) {
                self.shadow_registers.insert(place, value.register);
            }
            match value.definition {
                Definition::Undefined => {}
                Definition::Phi { .. } => stack.extend(ssa.phi_arguments(id)),
                Definition::Instruction { old, .. } => {
                    stack.extend(old);
                    let Some(expr) = provenance.expr(id) else {
                        continue;
                    };
                    for term in about.analysis.carried(expr) {
                        match (provenance.origin_of(term), term) {
                            (Origin::Pointer { root, .. }, _) => self.need_root(about, root),
                            (Origin::Several { .. }, Term::Value(value)) => stack.push(value),
                            _ => {}
                        }
                    }
                }
            }
        }
    }

    fn need_root(&mut self, about: About<'_, '_, '_>, root: RootId) {
        let About { analysis, nameable } = about;
        let Some(kind) = analysis.provenance.root(root) else {
            return;
        };
        let can_be_had = match kind {
            _ if self.shadow.is_some() => is_of_text(analysis, nameable, root),
            Root::Variable { symbol } => nameable.holds(&analysis.code, symbol),
            _ => kind.is_global() || has_bounds(analysis, nameable, root),
        };
        if !can_be_had || !self.needed.insert(root) {
            return;
        }
        match kind {
            Root::KernelParameter { offset } => self.roots.push(offset),
            Root::Field { parent, .. } => self.need_root(about, parent),
            Root::Mapped { value } => {
                if let Some((place, in_space)) = mapped_place(analysis, value) {
                    if in_space {
                        self.needed_in_space.insert(place);
                    } else {
                        self.needed.insert(place);
                    }
                }
            }
            _ => {}
        }
    }
}
