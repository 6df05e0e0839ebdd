//! Judges the accesses of a residual copy that have no checks. What must hold of
//! each is derived here again: its bytes, its bounds and its alignment. There
//! must be launches for which the analysis proves that, and the program that the
//! host asks at a launch must be about at least these bytes.

use super::Errors;
use super::accesses::{Duty, Subject};
use super::checks::{Input, State};
use super::extents::{self, Extent};
use super::facts::is_window;
use crate::output::Residual;
use analysis::{Alignment, Analysis, Bounds, Program, Query, Referent, Root, SymbolId};
use ptx::Span;
use ptx::table::Space;
use rustc_hash::FxHashMap;

/// An access without a check.
pub(super) struct Unchecked {
    /// Its site.
    pub(super) site: u32,
    /// What must be proved of it.
    query: Query,
    /// The constant of its address, and the alignment that it needs.
    needs: (i64, u64),
    span: Span,
}

impl State {
    /// Whether an access of a residual copy is as the source has it. Notes what
    /// must then be proved.
    pub(super) fn is_unchecked(
        &mut self,
        subject: &Subject<'_, '_>,
        duty: &Duty,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) -> bool {
        if !input.is_residual || self.has_verdict(subject, duty, input) {
            return false;
        }
        match query(subject, duty, input) {
            // (It is the loop's own access, too.)
            Some(_) if self.loops.is_in_copy() => {}
            Some((query, needs)) => self.unchecked.push(Unchecked {
                site: self.sites_before + self.sites,
                query,
                needs,
                span: subject.new.span,
            }),
            None => errors.at(
                subject.new.span,
                "an access without a check, whose bounds or size only the device knows",
            ),
        }
        true
    }
}

/// What must be proved of an access, so that it needs no check; the constant of
/// its address, and the alignment that it needs.
fn query(
    subject: &Subject<'_, '_>,
    duty: &Duty,
    input: &Input<'_, '_, '_>,
) -> Option<(Query, (i64, u64))> {
    let analysis = input.analysis;
    let (index, access) = (subject.index, subject.access);
    let reference = analysis.code.address_of(index, access.operand)?;
    let is_generic = access.space == Space::Generic;
    let extent = match duty {
        Duty::InWindow(extent) => *extent,
        // Shadow memory is asked about what has bounds, too.
        Duty::Address(owed) if owed.extent == Extent::Shadow => {
            extents::of_address(input, reference, is_generic)?.extent
        }
        Duty::Address(owed) => owed.extent,
    };
    let of_symbol = |symbol, bounds, start| Some((bounds, Some(symbol), start));
    let (bounds, symbol, start): (Bounds, Option<SymbolId>, u32) = match extent {
        Extent::Root(root) => match analysis.provenance.root(root)? {
            Root::KernelParameter { offset } if analysis.code.function.is_entry => {
                Some((Bounds::Parameter(offset), None, 0))
            }
            Root::Variable { symbol } => {
                let size = analysis.code.symbols[symbol.0 as usize].size?;
                of_symbol(symbol, Bounds::Bytes(size), 0)
            }
            Root::Whole { .. } | Root::Part { .. } => {
                let place = analysis.place(root)?;
                let bounds = place.size.map_or(Bounds::DynamicShared, Bounds::Bytes);
                of_symbol(place.symbol, bounds, place.start)
            }
            _ => None,
        },
        Extent::Dynamic => match reference.referent {
            Referent::Symbol(symbol, _) => of_symbol(symbol, Bounds::DynamicShared, 0),
            _ => None,
        },
        // One of several buffers: the proof asks which it may be.
        Extent::Carried(..) if analysis.code.function.is_entry && !is_window(access.space) => {
            Some((Bounds::Choice, None, 0))
        }
        _ => None,
    }?;
    let (_, offset) = subject.address()?;
    let (skipped, bytes) = subject.used(input)?;
    let needed = match duty {
        Duty::Address(owed) if owed.extent == Extent::Shadow => 1,
        _ => u64::from(access.alignment),
    };
    let query = Query {
        instruction: index as u32,
        operand: access.operand,
        symbol,
        generic: !is_window(access.space),
        low: offset.checked_add(skipped)?.checked_sub(start.into())?,
        bytes: u64::try_from(bytes).ok()?,
        bounds,
        alignment: alignment(analysis, (index, access.operand), (offset, needed)),
    };
    Some((query, (offset, needed)))
}

/// What makes an access aligned whose operand adds `offset`.
fn alignment(
    analysis: &Analysis<'_, '_>,
    (index, operand): (usize, usize),
    (offset, bytes): (i64, u64),
) -> Alignment {
    let low = analysis.low_bits(index as u32, operand);
    let residue = low
        .modulo(bytes)
        .map(|rest| rest.wrapping_add(offset as u64) & (bytes - 1));
    match (low.parameter, residue) {
        _ if bytes == 1 => Alignment::Known,
        (None, Some(0)) => Alignment::Known,
        (Some(parameter), Some(residue)) => Alignment::Parameter {
            offset: parameter,
            residue,
            bytes,
        },
        _ => Alignment::Address { at: offset, bytes },
    }
}

/// Judges the accesses of a body that have no checks. `declared`: what the host
/// gets, if that is to be judged, too.
pub(super) fn judge(
    analysis: &Analysis<'_, '_>,
    unchecked: &[Unchecked],
    declared: Option<&Residual>,
    errors: &mut Errors<'_>,
) {
    let queries: Vec<Query> = unchecked.iter().map(|access| access.query).collect();
    let provable = Program::provable(analysis, &queries);
    for (access, _) in unchecked.iter().zip(provable).filter(|(_, is)| !is) {
        errors.at(
            access.span,
            "an access without a check, of which no launch can be proved",
        );
    }
    let Some(declared) = declared else { return };
    let mut by_block: FxHashMap<u32, Vec<&Query>> = FxHashMap::default();
    for query in &declared.queries {
        if let Some(block) = analysis.cfg.block_of.get(query.instruction as usize) {
            by_block.entry(block.0).or_default().push(query);
        }
    }
    for access in unchecked {
        let block = analysis.cfg.block_of[access.query.instruction as usize];
        let near = by_block.get(&block.0).map_or(&[][..], Vec::as_slice);
        if !near.iter().any(|query| implies(analysis, query, access)) {
            errors.at(
                access.span,
                "an access without a check, which the host does not ask about",
            );
        }
    }
    let is_it = Program::of(analysis, &declared.queries).is_ok_and(|own| own == declared.proof);
    if let (false, Some(access)) = (is_it, unchecked.first()) {
        errors.at(access.span, "the host asks another program");
    }
}

/// Whether an access is in bounds and aligned if the answer to a query of its
/// block is that.
fn implies(analysis: &Analysis<'_, '_>, asked: &Query, access: &Unchecked) -> bool {
    let own = &access.query;
    let address = |query: &Query| {
        let code = &analysis.code;
        let reference = code.address_of(query.instruction as usize, query.operand)?;
        Some(match reference.referent {
            Referent::Symbol(symbol, _) => Err(symbol),
            _ => Ok(reference.value),
        })
    };
    let guard = |query: &Query| {
        let index = query.instruction as usize;
        let guard = analysis.code.instructions.get(index)?.instruction.guard?;
        let value = analysis.code.guard(index).map(|read| read.value);
        Some((value, guard.negated))
    };
    let covers = |asked: &Query| {
        let end = |query: &Query| i128::from(query.low) + i128::from(query.bytes);
        asked.low <= own.low && end(own) <= end(asked)
    };
    let is_asked = guard(asked).is_none() || guard(asked) == guard(own);
    is_asked
        && address(own).is_some()
        && address(asked) == address(own)
        && (asked.symbol, asked.generic, asked.bounds) == (own.symbol, own.generic, own.bounds)
        && covers(asked)
        && is_aligned(asked.alignment, access)
}

/// Whether an access is aligned under the condition of a query.
fn is_aligned(asked: Alignment, access: &Unchecked) -> bool {
    let (at, needed) = access.needs;
    let agrees = |asked_at: u64, bytes: u64, at: u64| {
        bytes.is_multiple_of(needed) && asked_at.wrapping_sub(at).is_multiple_of(needed)
    };
    match (asked, access.query.alignment) {
        (_, Alignment::Known) => true,
        (
            Alignment::Address {
                at: asked_at,
                bytes,
            },
            _,
        ) => agrees(asked_at as u64, bytes, at as u64),
        (
            Alignment::Parameter {
                offset,
                residue,
                bytes,
            },
            Alignment::Parameter {
                offset: own,
                residue: own_residue,
                ..
            },
        ) => offset == own && agrees(residue, bytes, own_residue),
        (Alignment::Known | Alignment::Parameter { .. }, _) => false,
    }
}
