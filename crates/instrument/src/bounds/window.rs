//! State spaces with addresses of their own: shared, local, constant,
//! parameters. Decides which of them an access is in, the policy for a failed
//! check, and the name of the object that the access was meant for.

use super::plan::{Base, Source};
use analysis::{Analysis, Code, Definition, Nameable, Origin, Place, Referent, RootId};
use analysis::{SymbolId, SymbolSpace, ValueId};
use model::{AllocationKind, Neighbour, Space, StaticObject};
use ptx::table::Predication;
use ptx::{Mnemonic, Modifier, Statement};

/// A state space with addresses of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Window {
    /// Shared memory of the block.
    Shared,
    /// Shared memory of all blocks of the cluster.
    Cluster,
    /// Local memory of the thread.
    Local,
    /// Constant memory of the module.
    Constant,
    /// Parameters of the entry.
    Parameter,
}

impl Window {
    /// The space that an instruction names.
    pub(super) fn of(space: ptx::table::Space) -> Option<Window> {
        match space {
            ptx::table::Space::Shared => Some(Window::Shared),
            ptx::table::Space::SharedCluster => Some(Window::Cluster),
            ptx::table::Space::Local => Some(Window::Local),
            ptx::table::Space::Const => Some(Window::Constant),
            ptx::table::Space::Param => Some(Window::Parameter),
            ptx::table::Space::Global | ptx::table::Space::Generic | ptx::table::Space::Tensor => {
                None
            }
        }
    }

    /// Whether a symbol is in the space.
    pub(super) fn holds(self, space: SymbolSpace) -> bool {
        matches!(
            (self, space),
            (Window::Shared | Window::Cluster, SymbolSpace::Shared)
                | (Window::Local, SymbolSpace::Local)
                | (Window::Constant, SymbolSpace::Const)
                | (Window::Parameter, SymbolSpace::EntryParameter { .. })
        )
    }

    /// The space that a symbol is in.
    pub(super) fn of_symbol(space: SymbolSpace) -> Option<Window> {
        [
            Window::Shared,
            Window::Local,
            Window::Constant,
            Window::Parameter,
        ]
        .into_iter()
        .find(|window| window.holds(space))
    }

    /// The space that an access names.
    pub(super) fn space(self) -> Space {
        match self {
            Window::Shared => Space::Shared,
            Window::Cluster => Space::SharedCluster,
            Window::Local => Space::Local,
            Window::Constant => Space::Const,
            Window::Parameter => Space::Param,
        }
    }

    /// The name of the space in `cvta`.
    pub(super) fn modifier(self) -> &'static str {
        match self {
            Window::Shared => "shared",
            Window::Cluster => "shared::cluster",
            Window::Local => "local",
            Window::Constant => "const",
            Window::Parameter => "param",
        }
    }
}

/// The policy for an access that fails its check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailurePolicy {
    /// Its address is replaced by a sink's: global and generic addresses, unless
    /// `skipped` settles that they are skipped, too.
    Redirected,
    /// The access is skipped; the result of a read is zero.
    Skipped,
    /// The whole instruction is skipped if any of its accesses fails: in this
    /// lane, or in all lanes of the warp if they must execute it together.
    Stopped,
    /// The access is made, and recorded: other blocks wait for its completion
    /// and cannot be signalled otherwise.
    Recorded,
}

/// The policy for an instruction's accesses; `in_window` for those that name a
/// space with addresses of its own. No instruction that is skipped has two
/// accesses in such spaces.
pub(super) fn failure_policy(predication: Predication, in_window: bool) -> FailurePolicy {
    match predication {
        Predication::Whole | Predication::Warp => FailurePolicy::Stopped,
        _ if !in_window => FailurePolicy::Redirected,
        Predication::Lane => FailurePolicy::Skipped,
        Predication::Never => FailurePolicy::Recorded,
    }
}

/// The variable whose address a `mapa` maps to another block, and whether the
/// operand is an address in shared memory (not a generic one).
pub(super) fn mapped_place(analysis: &Analysis<'_, '_>, value: ValueId) -> Option<(RootId, bool)> {
    let Definition::Instruction { instruction, .. } = analysis.ssa.value(value)?.definition else {
        return None;
    };
    let operand = analysis
        .code
        .references_of(instruction as usize)
        .iter()
        .find(|r| r.operand == 1)?;
    let Referent::Wide(_) = operand.referent else {
        return None;
    };
    let Origin::Pointer { root, .. } = analysis.provenance.origin(operand.value) else {
        return None;
    };
    let place = analysis.place(root)?;
    let opcode = &analysis.code.instructions[instruction as usize]
        .instruction
        .opcode;
    (place.space == SymbolSpace::Shared).then_some((root, opcode.has(Modifier::SharedCluster)))
}

/// The object that a check compares an access with.
pub(super) fn object_of(
    analysis: &Analysis<'_, '_>,
    source: Source,
    base: Base,
) -> Option<StaticObject> {
    let place = match (source, base) {
        (Source::Root(root), _) => analysis.place(root).or_else(|| {
            let root = analysis.provenance.root(root)?;
            let analysis::Root::Mapped { value } = root else {
                return None;
            };
            analysis.place(mapped_place(analysis, value)?.0)
        }),
        (Source::Declared(_) | Source::Dynamic, Base::Symbol(symbol)) => {
            let declared = analysis.code.symbols[symbol.0 as usize];
            Some(Place {
                symbol,
                space: declared.space,
                start: 0,
                size: declared.size,
            })
        }
        _ => None,
    };
    if let Source::Root(root) = source
        && let Some(analysis::Root::Field { value, .. }) = analysis.provenance.root(root)
        && let Some(field) = analysis.provenance.field(value)
    {
        return Some(StaticObject {
            kind: AllocationKind::Region,
            name: Some(field.name.clone()),
            size: Some(field.bytes),
            neighbours: Vec::new(),
        });
    }
    let Some(place) = place else {
        let declared = matches!(source, Source::Root(root)
            if matches!(analysis.provenance.root(root), Some(analysis::Root::Declared { .. })));
        return declared.then_some(StaticObject {
            kind: AllocationKind::Region,
            name: None,
            size: None,
            neighbours: Vec::new(),
        });
    };
    let symbol = &analysis.code.symbols[place.symbol.0 as usize];
    let kind = match (place.space, place.size) {
        (SymbolSpace::Shared, Some(_)) => AllocationKind::Shared,
        (SymbolSpace::Shared, None) => AllocationKind::DynamicShared,
        (SymbolSpace::Local, _) => AllocationKind::Local,
        (SymbolSpace::Const, _) => AllocationKind::Constant,
        (SymbolSpace::EntryParameter { .. }, _) => AllocationKind::Parameter,
        _ => return None,
    };
    if kind != AllocationKind::Local {
        return Some(StaticObject {
            kind,
            name: Some(symbol.name.to_owned()),
            size: place.size,
            neighbours: Vec::new(),
        });
    }
    // A pointer to the frame as a whole points to no object of it.
    let is_part = place.size != symbol.size;
    let frames = analysis.frames.iter().filter(|_| is_part);
    let table = frames.into_iter().find(|t| t.frame == place.symbol);
    let own = table.and_then(|table| table.at(place.start));
    let neighbours = table
        .into_iter()
        .flat_map(|table| &table.objects)
        .filter(|object| object.offset != place.start)
        .map(|object| Neighbour {
            offset: i64::from(object.offset) - i64::from(place.start),
            size: u64::from(object.size),
            name: object.name.clone(),
        });
    Some(StaticObject {
        kind,
        name: own.and_then(|object| object.name.clone()),
        size: place.size,
        neighbours: neighbours.collect(),
    })
}

/// Local memory of an entry or another function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnFrame {
    /// The frame and its bytes; `None` if there is none.
    pub(super) frame: Option<(SymbolId, u64)>,
}

/// The frame of an entry that calls functions. Since nothing called the entry,
/// its frame is the only live local memory between its calls. `None` where this
/// is uncertain or does not matter.
pub(super) fn own_frame(code: &Code<'_, '_>, nameable: &Nameable<'_, '_>) -> Option<OwnFrame> {
    let has = |mnemonic: Mnemonic| {
        code.instructions
            .iter()
            .any(|inst| inst.instruction.opcode.mnemonic() == mnemonic)
    };
    if !code.function.is_entry || !has(Mnemonic::Call) || has(Mnemonic::Alloca) {
        return None;
    }
    frame(code, nameable)
}

/// The frame of a function, if it has at most one frame and the frame can be
/// named.
pub(super) fn frame(code: &Code<'_, '_>, nameable: &Nameable<'_, '_>) -> Option<OwnFrame> {
    let mut variables = code.function.statements().filter_map(|(_, s)| match s {
        Statement::Variable(variable) if variable.space == ptx::VariableSpace::Local => {
            Some(variable)
        }
        _ => None,
    });
    let Some(variable) = variables.next() else {
        return Some(OwnFrame { frame: None });
    };
    if variables.next().is_some() {
        return None;
    }
    let symbol = code
        .symbols
        .iter()
        .position(|s| s.name == variable.name && s.space == SymbolSpace::Local)?;
    let id = SymbolId(symbol as u32);
    let size = code.symbols[symbol].size?;
    nameable.holds(code, id).then_some(OwnFrame {
        frame: Some((id, size)),
    })
}
