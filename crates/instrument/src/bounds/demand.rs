//! Whose bounds a function needs: those of roots, and those that travel with
//! a register because only the execution tells which root it is.

use super::plan::{Base, Plan, Source};
use super::source::has_bounds;
use super::window::{Nameable, mapped_place};
use analysis::{Analysis, Definition, Expr, Leader, Origin, Packed, Root, RootId, Term, ValueId};

/// What a plan is about.
#[derive(Clone, Copy)]
pub(super) struct About<'x, 'm, 'a> {
    pub(super) analysis: &'x Analysis<'m, 'a>,
    pub(super) nameable: &'x Nameable<'x, 'a>,
}

impl Plan {
    /// Notes what the groups are held to.
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
                _ => {}
            }
        }
        self.need_carried(about, carried);
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
                    for term in carried(about.analysis, expr) {
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

/// The operands of a definition that its bounds come from: one, or two that
/// the execution decides between.
pub(super) fn carried(analysis: &Analysis<'_, '_>, expr: Expr) -> Vec<Term> {
    let origin = |term| analysis.provenance.origin_of(term);
    match expr {
        Expr::Copy(a)
        | Expr::Window(a, _)
        | Expr::Resize(a)
        | Expr::Narrow(a)
        | Expr::Shuffle(a) => {
            vec![a]
        }
        Expr::Sure(a, root) => match origin(a) {
            Origin::Integer | Origin::Opaque => vec![Term::Root(root)],
            _ => vec![a],
        },
        Expr::Select(a, b) | Expr::Choose(a, b) => vec![a, b],
        Expr::Subtract(a, _) => vec![a],
        // The result is one of several at most where an operand is.
        Expr::Packed(root) | Expr::Cut(_, _, root) => vec![Term::Root(root)],
        Expr::Unpack(a, b, root, how) => {
            let (first, second) = (origin(a), origin(b));
            let fresh = origin(Term::Root(root)).doubted();
            match first.unpack(second, fresh, how == Packed::Summed) {
                made if made == fresh => vec![Term::Root(root)],
                made if made == first => vec![a],
                made if made == second => vec![b],
                _ => Vec::new(),
            }
        }
        Expr::Bits(_) => Vec::new(),
        Expr::Add(a, b) | Expr::Combine(a, b) | Expr::Mask(a, b) => {
            match Leader::of(origin(a), origin(b)) {
                Leader::First | Leader::FirstInDoubt => vec![a],
                Leader::Second | Leader::SecondInDoubt => vec![b],
                Leader::Either => vec![a, b],
                Leader::Neither => Vec::new(),
            }
        }
    }
}
