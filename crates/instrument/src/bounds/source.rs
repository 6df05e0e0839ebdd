//! The bounds that an access is checked against, by the origin of its address.

use super::plan::{Base, Planner, Source};
use super::window::{Window, mapped_place, object_of};
use analysis::SymbolSpace;
use analysis::{Analysis, Nameable, Origin, Reference, Referent, Root, RootId, SymbolId};
use model::{Provenance, Space};

impl Planner<'_, '_, '_> {
    /// The bounds that an address is checked against; `None` if it is in a
    /// space that this protection does not cover.
    pub(super) fn source(&self, reference: &Reference, generic: bool) -> Option<(Base, Source)> {
        let provenance = &self.analysis.provenance;
        match reference.referent {
            Referent::Symbol(id, _) => {
                let symbol = &self.analysis.code.symbols[id.0 as usize];
                match symbol.space {
                    SymbolSpace::Global => {}
                    _ => return None,
                }
                Some((
                    Base::Symbol(id),
                    symbol.size.map_or(Source::Weak, Source::Declared),
                ))
            }
            Referent::Other(_) => None,
            Referent::Wide(register) => {
                let base = Base::Register(reference.value);
                let source = match provenance.origin(reference.value) {
                    Origin::Pointer { root, .. } => match provenance.root(root) {
                        Some(Root::Variable { symbol })
                            if !self.nameable.holds(&self.analysis.code, symbol) =>
                        {
                            Source::Weak
                        }
                        Some(Root::Field { .. }) if !self.has_bounds(root) => Source::Weak,
                        Some(root_kind) if root_kind.is_global() => Source::Root(root),
                        Some(_) if self.has_bounds(root) => Source::Root(root),
                        // Parameters are global memory, too.
                        Some(Root::ParameterWindow | Root::System) => return None,
                        Some(Root::Whole { symbol }) if self.is_of_parameters(symbol) => {
                            return None;
                        }
                        Some(_) if generic => return None,
                        _ => Source::Weak,
                    },
                    Origin::Several { .. } => Source::Shadow(register),
                    _ => Source::Weak,
                };
                Some((base, source))
            }
        }
    }

    /// Whether an address is of an object in a space of its own that check code cannot
    /// name, as those that inline assembly declares in a scope.
    pub(super) fn is_of_unnamed(&self, reference: &Reference) -> bool {
        let Origin::Pointer { root, .. } = self.analysis.provenance.origin(reference.value) else {
            return false;
        };
        match self.analysis.place(root) {
            Some(place) => !self.is_of_parameters(place.symbol) && !self.has_bounds(root),
            None => false,
        }
    }

    /// Whether a symbol is a parameter of the entry.
    fn is_of_parameters(&self, symbol: SymbolId) -> bool {
        let symbol = &self.analysis.code.symbols[symbol.0 as usize];
        Window::of_symbol(symbol.space) == Some(Window::Parameter)
    }

    /// An address that is checked by its shadow, although its bounds are not
    /// known; `None` if it is in no space that may have one.
    pub(super) fn by_address(&self, reference: &Reference) -> Option<(Base, Source)> {
        self.plan.shadow?;
        match reference.referent {
            Referent::Wide(_) => Some((Base::Register(reference.value), Source::Weak)),
            Referent::Symbol(..) | Referent::Other(_) => None,
        }
    }

    /// Whether a global or generic address is checked by its shadow: where that
    /// decides, any but that of an object whose bounds the text has, which lies
    /// among others in memory that is addressable as a whole.
    pub(super) fn is_by_address(&self, (base, source): (Base, Source)) -> bool {
        self.plan.shadow.is_some()
            && match source {
                Source::Declared(_) => false,
                Source::Root(root) => {
                    !is_of_text(self.analysis, self.nameable, root)
                        || self.is_in_doubt(base, source)
                }
                _ => true,
            }
    }

    /// The bounds for an address in a space of its own.
    pub(super) fn source_in(
        &self,
        reference: &Reference,
        window: Window,
    ) -> Option<(Base, Source)> {
        let provenance = &self.analysis.provenance;
        match reference.referent {
            Referent::Symbol(id, _) => {
                let symbol = &self.analysis.code.symbols[id.0 as usize];
                let source = match (symbol.size, window) {
                    _ if !window.holds(symbol.space) => return None,
                    // Parameters have constant addresses here.
                    (_, Window::Parameter) => return None,
                    (Some(size), _) => Source::Declared(size),
                    (None, Window::Shared | Window::Cluster) => Source::Dynamic,
                    (None, _) => return None,
                };
                Some((Base::Symbol(id), source))
            }
            Referent::Other(_) => None,
            Referent::Wide(register) => {
                let otherwise =
                    (window == Window::Shared && !self.has_clusters).then_some(Source::Block);
                let source = match provenance.origin(reference.value) {
                    // No address in a window is empty.
                    origin if origin.is_in_doubt() => otherwise?,
                    Origin::Pointer { root, .. } if self.has_bounds(root) => {
                        match self.analysis.place(root) {
                            Some(place) if !window.holds(place.space) => {
                                return None;
                            }
                            _ => Source::Root(root),
                        }
                    }
                    Origin::Pointer { root, .. }
                        if is_found_on_device(self.analysis, provenance.root(root))
                            && self.plan.shadow.is_none() =>
                    {
                        Source::Root(root)
                    }
                    Origin::Several { .. } => Source::Shadow(register),
                    _ => otherwise?,
                };
                Some((Base::Register(reference.value), source))
            }
        }
    }

    /// Whether the bounds of an address may be those of another pointer than
    /// its source's.
    pub(super) fn is_in_doubt(&self, base: Base, source: Source) -> bool {
        match (base, source) {
            (Base::Register(value), Source::Root(_) | Source::Shadow(_)) => {
                self.analysis.provenance.origin(value).is_in_doubt()
            }
            _ => false,
        }
    }

    /// Whether an address in shared, local, constant or parameter space has 64
    /// bits, and so has every step from the variable's own address to it. Then
    /// truncated bits are an error. An address that was generic in between has
    /// other upper bits.
    pub(super) fn is_wide(&self, source: Source, base: Base) -> bool {
        let (Source::Root(root), Base::Register(value)) = (source, base) else {
            return false;
        };
        self.analysis.place(root).is_some() && self.analysis.is_wide(value)
    }

    /// The object that a field is part of; any other root is its own.
    fn whole(&self, mut root: RootId) -> RootId {
        while let Some(Root::Field { parent, .. }) = self.analysis.provenance.root(root)
            && parent < root
        {
            root = parent;
        }
        root
    }

    /// Whether accesses like this one are to be checked.
    pub(super) fn is_asked_for(&self, source: Source, window: Option<Window>) -> bool {
        let space = match (window, source) {
            (Some(window), _) => window.space(),
            (None, Source::Root(root)) => self
                .analysis
                .place(self.whole(root))
                .and_then(|place| Window::of_symbol(place.space))
                .map_or(Space::Global, Window::space),
            (None, _) => Space::Global,
        };
        match space {
            Space::Shared | Space::SharedCluster => self.checked.shared,
            Space::Local => self.checked.local,
            Space::Const => self.checked.constant,
            Space::Param => self.checked.parameter,
            Space::Global | Space::Generic => self.checked.global,
        }
    }

    /// Whether a root that is not in global memory has bounds.
    pub(super) fn has_bounds(&self, root: RootId) -> bool {
        has_bounds(self.analysis, self.nameable, root)
    }

    /// The object that a site's address was derived from, if it is in a space
    /// of its own.
    pub(super) fn object(&self, source: Source, base: Base) -> Option<Box<model::StaticObject>> {
        object_of(self.analysis, source, base).map(Box::new)
    }

    pub(super) fn provenance(&self, source: Source, base: Base) -> Provenance {
        match source {
            // The address of a variable that another file declares.
            Source::Weak if matches!(base, Base::Symbol(_)) => Provenance::Lookup,
            Source::Weak | Source::Byte => Provenance::Unknown,
            Source::Block => Provenance::Unknown,
            Source::Declared(_) | Source::Dynamic => Provenance::Variable,
            Source::Shadow(_) => Provenance::Several,
            Source::Root(root) => match self.analysis.provenance.root(root) {
                Some(Root::KernelParameter { offset }) if self.analysis.code.function.is_entry => {
                    Provenance::KernelParameter { offset }
                }
                Some(Root::Variable { .. } | Root::Whole { .. } | Root::Part { .. }) => {
                    Provenance::Variable
                }
                _ => Provenance::Lookup,
            },
        }
    }
}

/// Whether the module's text has the bounds of a root, wherever it lies, so that nothing
/// is looked up.
pub(super) fn is_of_text(
    analysis: &Analysis<'_, '_>,
    nameable: &Nameable<'_, '_>,
    root: RootId,
) -> bool {
    match analysis.provenance.root(root) {
        Some(Root::Variable { symbol }) => {
            nameable.holds(&analysis.code, symbol)
                && super::emit::constant_size(analysis, root).is_some()
        }
        Some(Root::Field { .. }) => false,
        _ => has_bounds(analysis, nameable, root),
    }
}

/// Whether a root that is not in global memory has bounds.
pub(super) fn has_bounds(
    analysis: &Analysis<'_, '_>,
    nameable: &Nameable<'_, '_>,
    root: RootId,
) -> bool {
    match analysis.provenance.root(root) {
        Some(Root::Whole { symbol } | Root::Part { symbol, .. }) => {
            analysis.place(root).is_some() && nameable.holds(&analysis.code, symbol)
        }
        Some(Root::Declared { .. } | Root::Alloca { .. }) => true,
        Some(Root::Field { parent, .. }) => match analysis.provenance.root(parent) {
            Some(Root::Variable { symbol }) => nameable.holds(&analysis.code, symbol),
            Some(kind) if kind.is_global() => true,
            // A field of an element of another field: the other one has the
            // lower number.
            Some(Root::Field { .. }) if parent >= root => false,
            _ => has_bounds(analysis, nameable, parent),
        },
        Some(Root::Mapped { value }) => mapped_place(analysis, value)
            .is_some_and(|(place, _)| has_bounds(analysis, nameable, place)),
        _ => false,
    }
}

/// Whether a root may be in any space, with bounds that are only known at run
/// time: from a lookup, or passed by a caller.
pub(super) fn is_found_on_device(analysis: &Analysis<'_, '_>, root: Option<Root>) -> bool {
    match root {
        Some(Root::Lookup { .. }) => true,
        Some(Root::KernelParameter { .. }) => !analysis.code.function.is_entry,
        _ => false,
    }
}
