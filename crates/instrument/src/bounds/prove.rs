//! Whether a launch can be proved in bounds as a whole, so that the original
//! runs, or at least for some accesses (`residual`): turns a plan's groups into
//! questions for [`analysis::Program`].

use super::aligned::Aligned;
use super::callees::{Done, may_call};
use super::plan::{Base, Group, Plan, Planned, Source};
use crate::output::{Obstacle, Reason};
use analysis::{Alignment, Analysis, Bounds, Program, Query, Root, SymbolId, Unprovable};
use ptx::LineIndex;
use ptx::table::Extent;
use rustc_hash::FxHashMap;

/// Functions of the CUDA runtime that access no memory of the program's except
/// the arguments that they read.
const HARMLESS: [&str; 2] = ["vprintf", "__assertfail"];

/// The program that proves all checks of a kernel, or the obstacle.
pub(super) fn proof(
    analysis: &Analysis<'_, '_>,
    plan: &Plan,
    lines: &LineIndex<'_>,
) -> Result<Program, Obstacle> {
    let obstacle = |reason, instruction: Option<u32>| {
        let line = instruction.map(|index| {
            let span = analysis.code.instructions[index as usize].instruction.span;
            lines.line_of(span.start)
        });
        Err(Obstacle { reason, line })
    };
    if plan.is_empty() {
        return obstacle(Reason::NoChecks, None);
    }
    if !plan.coverage.unchecked_sites.is_empty() {
        return obstacle(Reason::Unchecked, None);
    }
    if !plan.launch {
        return obstacle(Reason::Parameters, None);
    }
    if let Some(print) = plan.prints.first() {
        return obstacle(Reason::Extent, Some(print.instruction));
    }
    let mut queries = Vec::with_capacity(plan.groups.len());
    for access in plan.accesses.iter().filter(|access| access.leads) {
        match query(analysis, plan, access) {
            Ok(query) => queries.push(query),
            Err(reason) => return obstacle(reason, Some(access.instruction)),
        }
    }
    Program::of(analysis, &queries).or_else(|(index, unprovable)| {
        let instruction = index.map(|index| queries[index].instruction);
        let reason = match unprovable {
            Unprovable::Address => Reason::Address,
            Unprovable::Buffer => Reason::Buffer,
            Unprovable::Size => Reason::Size,
        };
        obstacle(reason, instruction)
    })
}

/// What must hold for the group of an access, so that it needs no check; or why
/// that cannot be said.
pub(super) fn query(
    analysis: &Analysis<'_, '_>,
    plan: &Plan,
    leader: &Planned,
) -> Result<Query, Reason> {
    let group = &plan.groups[leader.group as usize];
    let held = held(analysis, group).ok_or(Reason::Buffer)?;
    let bytes = bytes(group).ok_or(Reason::Extent)?;
    Ok(Query {
        instruction: leader.instruction,
        operand: leader.operand,
        symbol: held.symbol,
        generic: group.window.is_none(),
        low: group.low.saturating_sub(held.start.into()),
        bytes,
        bounds: held.bounds,
        alignment: alignment(group),
    })
}

/// The bounds that a group's addresses are checked against.
struct Held {
    bounds: Bounds,
    /// The variable that the bounds belong to, if they are not a buffer's.
    symbol: Option<SymbolId>,
    /// Bytes from the symbol's address to where the bounds start.
    start: u32,
}

/// The bounds that must contain a group's addresses.
fn held(analysis: &Analysis<'_, '_>, group: &Group) -> Option<Held> {
    let of_symbol = |symbol, bounds, start| Held {
        bounds,
        symbol: Some(symbol),
        start,
    };
    match group.proves {
        Source::Root(root) => match analysis.provenance.root(root)? {
            Root::KernelParameter { offset } => Some(Held {
                bounds: Bounds::Parameter(offset),
                symbol: None,
                start: 0,
            }),
            Root::Variable { symbol } => {
                let size = analysis.code.symbols[symbol.0 as usize].size?;
                Some(of_symbol(symbol, Bounds::Bytes(size), 0))
            }
            Root::Whole { .. } | Root::Part { .. } => {
                let place = analysis.place(root)?;
                let bounds = place.size.map_or(Bounds::DynamicShared, Bounds::Bytes);
                Some(of_symbol(place.symbol, bounds, place.start))
            }
            _ => None,
        },
        Source::Dynamic => match group.base {
            Base::Symbol(symbol) => Some(of_symbol(symbol, Bounds::DynamicShared, 0)),
            Base::Register(_) => None,
        },
        Source::Shadow(_) if group.window.is_none() && analysis.code.function.is_entry => {
            Some(Held {
                bounds: Bounds::Choice,
                symbol: None,
                start: 0,
            })
        }
        // (A constant address within a variable needs no check; this one is
        // outside.)
        Source::Declared(_) | Source::Block | Source::Shadow(_) | Source::Weak | Source::Byte => {
            None
        }
    }
}

fn alignment(group: &Group) -> Alignment {
    let (bytes, at) = group.needs;
    match group.aligned {
        Aligned::Known => Alignment::Known,
        Aligned::ByLimit(pointer) => Alignment::Parameter {
            offset: pointer.parameter,
            residue: pointer.residue,
            bytes: pointer.bytes,
        },
        Aligned::Tested => Alignment::Address { at, bytes },
    }
}

fn bytes(group: &Group) -> Option<u64> {
    match group.extent {
        Extent::Bytes(bytes) | Extent::BytesUnless(bytes, _) => Some(bytes),
        Extent::Operand(_) | Extent::Steps { .. } => None,
    }
}

/// Whether a kernel may call a function with checks of its own. Those are
/// executed even if the kernel's accesses are proved, and need the launch's
/// number.
pub(super) fn calls_checks(kernel: &Done, functions: &FxHashMap<String, Done>) -> bool {
    may_call(kernel, functions, |name, callee| match callee {
        Some(callee) => callee.has_checks,
        None => !HARMLESS.contains(&name),
    })
}
