//! Decides, for one function, which accesses share a check, which bounds each
//! check uses, and which roots and shadow registers that needs. Writes no text.

use super::aligned::Aligned;
use super::demand::About;
use super::grouping::Key;
use super::indirect::Through;
use super::limits::Limit;
use super::strings::CheckedPrint;
use super::window::{self, FailurePolicy, Window};
use crate::error::Error;
use crate::output::LaunchIndex;
use crate::sites::Sites;
use analysis::{
    Analysis, Code, Lost, ModuleSymbols, Nameable, Place, Register, Return, Root, RootId, Stored,
    SymbolId, Texts, ValueId,
};
use model::layout::LaunchBounds;
use model::layout::shadow::Encoding;
use model::{Checked, KernelCoverage, SiteId};
use ptx::table::Extent;
use ptx::{Mnemonic, Modifier, OperandKind, Span};
use rustc_hash::{FxHashMap, FxHashSet};

/// The source of a check's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// Registers or constants of this root.
    Root(RootId),
    /// Shadow registers of this register.
    Shadow(Register),
    /// A variable that the instruction names, of this declared size.
    Declared(u64),
    /// The launch's dynamic shared memory, which the instruction names.
    Dynamic,
    /// All of the block's shared memory.
    Block,
    /// Looked up from the address itself.
    Weak,
    /// Shadow memory of the address itself.
    Byte,
}

/// The address that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Base {
    /// A register with its current value.
    Register(ValueId),
    /// A variable.
    Symbol(SymbolId),
}

/// Accesses that share one check.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) base: Base,
    pub(super) source: Source,
    /// The bounds that a proof compares with: the source, unless that is the
    /// address itself.
    pub(super) proves: Source,
    /// The members name this space; `None` for global and generic ones.
    pub(super) window: Option<Window>,
    /// The address, and all arithmetic that computed it, has 64 bits, although
    /// the space's addresses have 32.
    pub(super) is_wide: bool,
    /// If the source's bounds are empty, those of the address itself are used
    /// (see [`analysis::Origin`]).
    pub(super) in_doubt: bool,
    /// Lowest constant offset.
    pub(super) low: i64,
    /// Bytes from that offset on.
    pub(super) extent: Extent,
    /// Some member writes: writes and atomics use another sink than reads.
    pub(super) writes: bool,
    /// Alignment of the widest member, and the offset it holds at.
    pub(super) alignment: (u64, i64),
    /// The alignment that all members need, and the offset at which it applies.
    pub(super) needs: (u64, i64),
    /// How the alignment is ensured.
    pub(super) aligned: Aligned,
    pub(super) site: SiteId,
    /// An earlier group with the same verdict: it has the same address under
    /// the same guard in the same block, over the same bytes, but the other
    /// sink. (`y[i] += x` reads and writes one address.)
    pub(super) twin: Option<u32>,
    /// Number of the predicate that keeps this group's verdict for later uses.
    pub(super) keeps: Option<u32>,
    /// Only this many lanes use their addresses.
    pub(super) lanes: u32,
    /// Some member's address is replaced by a sink's where the check fails.
    pub(super) redirects: bool,
    /// Its members, at global or generic addresses, are skipped where the check
    /// fails.
    pub(super) skips: bool,
    /// Some member's instruction is skipped where the check fails.
    pub(super) stops: bool,
}

/// One access of an instruction, in text order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub(super) instruction: u32,
    pub(super) operand: usize,
    pub(super) group: u32,
    pub(super) leads: bool,
    pub(super) policy: FailurePolicy,
}

/// A call of a checked copy, which takes the bounds of its arguments.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) instruction: u32,
    /// The first of the stores of its arguments, else the call itself.
    pub(super) first: u32,
    /// Position of the callee's name.
    pub(super) name_at: u32,
    /// It goes through a pointer.
    pub(super) through: Option<Through>,
    /// The address that is called follows the bounds.
    pub(super) takes_called: bool,
    /// Position for one more argument, and the text before and after it.
    pub(super) argument_at: (u32, &'static str, &'static str),
    /// The values whose bounds are passed, in the callee's order.
    pub(super) passed: Vec<Stored>,
    /// Position of the result's name.
    pub(super) result: Option<Span>,
    /// Bytes of the result with the bounds after it; 0 if it has none.
    pub(super) result_bytes: u32,
    pub(super) result_alignment: u32,
    /// Loads of the result: instructions, and the positions of its name in
    /// them.
    pub(super) loads: Vec<(u32, Span)>,
}

/// Bounds that a call returns with its result.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResultBounds {
    /// Index in [`Plan::calls`].
    pub(super) call: u32,
    /// Bytes from the start of the result to the base.
    pub(super) at: u32,
}

/// Bounds that a copy returns after its result.
#[derive(Clone, Debug, Default)]
pub(super) struct ReturnedBounds {
    /// Offsets in the result whose bounds are returned, in order.
    pub(super) offsets: Vec<u32>,
    /// Bytes of the result before the bounds.
    pub(super) from: u32,
    /// The stores of the values that have these bounds, in text order.
    pub(super) stores: Vec<Return>,
}

impl ReturnedBounds {
    /// Bytes from the start of the result to the base for the value at an
    /// offset.
    pub(super) fn place(&self, offset: u32) -> Option<u32> {
        let index = self.offsets.iter().position(|&o| o == offset)?;
        Some(self.from + index as u32 * size_of::<LaunchBounds>() as u32)
    }

    /// Bytes of the result with all bounds; 0 if there are none.
    pub(super) fn bytes(&self) -> u32 {
        match self.offsets.len() {
            0 => 0,
            returned => self.from + (returned * size_of::<LaunchBounds>()) as u32,
        }
    }
}

/// A check that compares an index.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByIndex {
    /// The place of its range among [`Plan::launch_indices`].
    pub(super) range: u32,
    /// The instruction that has the index as its second operand.
    pub(super) read_at: u32,
}

/// The plan for one function.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) groups: Vec<Group>,
    pub(super) accesses: Vec<Planned>,
    /// Parameter offsets whose bounds are needed, in the launch parameter's
    /// order.
    pub(super) roots: Vec<u32>,
    /// For a function that calls through pointers may reach: the address that
    /// was called follows the bounds.
    pub(super) takes_called: bool,
    /// All roots whose bounds are needed, with generic (or global) bases.
    pub(super) needed: FxHashSet<RootId>,
    /// Variables whose addresses are needed in their own space.
    pub(super) needed_in_space: FxHashSet<RootId>,
    /// The same, in 64 bits.
    pub(super) needed_in_space_wide: FxHashSet<RootId>,
    /// Values that must set the shadow of their register.
    pub(super) shadowed: FxHashSet<ValueId>,
    /// Registers that have a shadow.
    pub(super) shadow_registers: Vec<Register>,
    /// Some record needs the bounds it was checked against.
    pub(super) records_bounds: bool,
    /// There is a launch parameter. The caller sets this.
    pub(super) launch: bool,
    /// The limits that it carries, if it is an entry's.
    pub(super) launch_limits: Vec<Limit>,
    /// And the ranges of indices.
    pub(super) launch_indices: Vec<LaunchIndex>,
    /// The groups whose checks compare an index.
    pub(super) by_index: FxHashMap<u32, ByIndex>,
    /// Calls of checked copies, in order.
    pub(super) calls: Vec<Call>,
    /// The values that calls of checked copies return with bounds.
    pub(super) result_bounds: FxHashMap<ValueId, ResultBounds>,
    /// The bounds that the function itself returns, if it is a copy.
    pub(super) returned_bounds: ReturnedBounds,
    /// Calls of `printf` with strings that are checked, in order.
    pub(super) prints: Vec<CheckedPrint>,
    pub(super) coverage: KernelCoverage,
    /// Why the bounds of a site are unknown, for sites that are checked by
    /// their address alone.
    pub(super) lost: Vec<(SiteId, Lost)>,
    /// The only live local memory that a pointer which first appears here can
    /// point to, where that is certain.
    pub(super) own_frame: Option<window::OwnFrame>,
    /// The function's arrays that pointers which are kept in memory may point into.
    pub(super) kept: Vec<Place>,
    /// Number of predicates that keep verdicts for twins.
    pub(super) kept_verdicts: u32,
    /// Checks are against shadow memory.
    pub(super) shadow: Option<Encoding>,
    /// The launch parameter has the window of shadow memory.
    pub(super) takes_window: bool,
    /// Addresses may be of the device heap, where shadow memory decides about others. The
    /// caller sets this.
    pub(super) asks_heap: bool,
}

impl Plan {
    pub(super) fn of<'a>(
        about: About<'_, '_, 'a>,
        (checked, shadow): (Checked, Option<Encoding>),
        (symbols, texts): (&ModuleSymbols<'a>, &Texts<'a>),
        sites: &mut Sites<'_>,
    ) -> Result<Plan, Error> {
        let About { analysis, nameable } = about;
        let mut planner = Planner {
            analysis,
            nameable,
            checked,
            symbols,
            texts,
            has_clusters: analysis.code.instructions.iter().any(|inst| {
                let opcode = &inst.instruction.opcode;
                opcode.mnemonic() == Mnemonic::Mapa || opcode.has(Modifier::SharedCluster)
            }),
            plan: Plan {
                takes_window: shadow.is_some() && analysis.code.function.is_entry,
                shadow,
                ..Plan::default()
            },
            open: FxHashMap::default(),
        };
        planner.accesses(sites)?;
        planner.plan.settle_alignment(analysis);
        planner.plan.settle_skipped(analysis);
        planner.plan.settle_twins();
        planner.plan.own_frame = window::own_frame(&analysis.code, nameable);
        planner.plan.kept = analysis.kept_places(nameable);
        planner.plan.need_for_groups(about);
        planner.plan.need_for_strings(about);
        Ok(planner.plan)
    }

    /// A group may grow until its block ends. Only then it is known which
    /// groups cover the same bytes.
    fn settle_twins(&mut self) {
        let mut kept = 0;
        for index in 0..self.groups.len() {
            let Some(twin) = self.groups[index].twin else {
                continue;
            };
            let (group, other) = (&self.groups[index], &self.groups[twin as usize]);
            let same = group.low == other.low
                && group.extent == other.extent
                && group.needs == other.needs
                && group.source == other.source;
            // The first of a chain keeps the verdict for all.
            let first = other.twin.unwrap_or(twin);
            self.groups[index].twin = same.then_some(first);
            if same {
                self.groups[first as usize].keeps.get_or_insert_with(|| {
                    kept += 1;
                    kept - 1
                });
            }
        }
        // Members are skipped by their group's verdict, wherever they are.
        for index in 0..self.groups.len() {
            let group = &self.groups[index];
            if group.window.is_none() && !group.stops && !group.skips {
                continue;
            }
            let owner = group.twin.map_or(index, |twin| twin as usize);
            self.groups[owner].keeps.get_or_insert_with(|| {
                kept += 1;
                kept - 1
            });
        }
        self.kept_verdicts = kept;
    }

    /// Whether the function needs bounds in shared, local, constant or
    /// parameter space.
    pub(super) fn has_windows(&self, analysis: &Analysis<'_, '_>) -> bool {
        let is_in_window = |root: &RootId| {
            let root = analysis.provenance.root(*root);
            root.is_some_and(Root::is_in_window)
        };
        !self.needed_in_space.is_empty()
            || !self.needed_in_space_wide.is_empty()
            || self.groups.iter().any(|group| group.window.is_some())
            || self.needed.iter().any(is_in_window)
    }

    /// Leaves out the checks of these groups. What other checks may need stays.
    pub(super) fn elide(&mut self, groups: &[bool]) {
        self.accesses
            .retain(|access| !groups[access.group as usize]);
    }

    /// The groups whose checks are written, by number.
    pub(super) fn checked_groups(&self) -> impl Iterator<Item = &Group> {
        let leaders = self.accesses.iter().filter(|access| access.leads);
        leaders.map(|leader| &self.groups[leader.group as usize])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.accesses.is_empty() && self.prints.is_empty()
    }
}

pub(super) struct Planner<'x, 'm, 'a> {
    pub(super) analysis: &'x Analysis<'m, 'a>,
    pub(super) nameable: &'x Nameable<'x, 'a>,
    /// Addresses in shared memory may be another block's.
    pub(super) has_clusters: bool,
    pub(super) checked: Checked,
    pub(super) symbols: &'x ModuleSymbols<'a>,
    pub(super) texts: &'x Texts<'a>,
    pub(super) plan: Plan,
    pub(super) open: FxHashMap<Key<'a>, u32>,
}

impl<'a> Planner<'_, '_, 'a> {
    fn accesses(&mut self, sites: &mut Sites<'_>) -> Result<(), Error> {
        let code = &self.analysis.code;
        for index in 0..code.instructions.len() {
            let block = self.analysis.cfg.block_of[index];
            if self.analysis.cfg.blocks[block.0 as usize].first as usize == index {
                self.open.clear();
            }
            let instruction = code.instructions[index].instruction;
            if let Some(info) = code.info(index) {
                for access in &info.accesses {
                    self.access(index, (info, access), sites)?;
                }
            } else if code.is_unclassified(index)
                && instruction
                    .operands
                    .iter()
                    .any(|o| matches!(o.kind, OperandKind::Address(_)))
            {
                self.unchecked(index);
            }
            if self.plan.shadow.is_none() {
                self.print(index, sites)?;
            }
            self.close(index);
        }
        Ok(())
    }

    /// Ends the groups that may not continue past an instruction: a callee may
    /// end the thread, and a guard may change.
    fn close(&mut self, index: usize) {
        if self.open.is_empty() {
            return;
        }
        let instruction = self.analysis.code.instructions[index].instruction;
        if instruction.opcode.mnemonic() == Mnemonic::Call {
            self.open.clear();
            return;
        }
        let unknown = self.analysis.code.is_unclassified(index);
        let mut close = |name: &str| {
            self.open
                .retain(|key, _| key.guard.is_none_or(|(guard, _, _)| guard != name));
        };
        for (place, operand) in instruction.operands.iter().enumerate() {
            match &operand.kind {
                OperandKind::Name(name) if place == 0 || unknown => close(name),
                OperandKind::Pair(left, right) => {
                    close(left);
                    close(right);
                }
                OperandKind::Vector(elements) | OperandKind::List(elements)
                    if place == 0 || unknown =>
                {
                    for element in elements {
                        if let OperandKind::Name(name) = element.kind {
                            close(name);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn unchecked(&mut self, index: usize) {
        let opcode = self.analysis.code.instructions[index]
            .instruction
            .opcode
            .text;
        self.unchecked_of(opcode);
    }

    pub(super) fn unchecked_of(&mut self, name: &str) {
        match self.plan.coverage.unchecked_sites.get_mut(name) {
            Some(count) => *count += 1,
            None => {
                self.plan
                    .coverage
                    .unchecked_sites
                    .insert(name.to_owned(), 1);
            }
        }
    }
}

/// Names of the called functions, and whether other functions may be called.
pub(super) fn callees(code: &Code<'_, '_>) -> (Vec<String>, bool) {
    let mut names = Vec::new();
    let mut unknown = false;
    for inst in &code.instructions {
        if inst.instruction.opcode.mnemonic() != Mnemonic::Call {
            continue;
        }
        let name = inst
            .instruction
            .operands
            .iter()
            .find_map(|operand| match operand.kind {
                OperandKind::Name(name) => Some(name),
                _ => None,
            });
        match name {
            Some(name) if !name.starts_with('%') => names.push(name.to_owned()),
            _ => unknown = true,
        }
    }
    names.sort_unstable();
    names.dedup();
    (names, unknown)
}
