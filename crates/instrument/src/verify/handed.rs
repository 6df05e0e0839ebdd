//! Verifies the bounds that calls pass and functions return: they must be those
//! of the passed and returned values.

use super::Errors;
use super::calls::EACH;
use super::checks::{Input, State, Text};
use super::extents::Extent;
use super::facts::{Frame, frame, has_bounds};
use super::lookups::Found;
use super::written::{number, reads};
use crate::parameters;
use crate::protocol::family::{PASSED_BASE, PASSED_SIZE, SHADOW_BASE};
use crate::protocol::register::{GIVEN_BASE, GIVEN_SIZE, OTHER, SCRATCH, WEAK_BASE, WEAK_SIZE};
use analysis::{Origin, Referent, Root, Stored, SymbolSpace, ValueId, returns, stores};
use ptx::{Instruction, OperandKind};
use rustc_hash::FxHashSet;

/// Bounds that a call passes or a result returns: base, size, and the lookup
/// that found them, if any.
pub(super) type Handed = (Text, Text, Option<Found>);

/// Constants below this are null pointers, with an offset.
const NULL: i64 = 4096;

/// The stored value, as an operand.
fn operand_of<'m, 'a>(stored: Stored, input: &Input<'_, 'm, 'a>) -> Option<&'m OperandKind<'a>> {
    let inst = &input.analysis.code.instructions[stored.instruction as usize];
    match &inst.instruction.operands.get(1)?.kind {
        OperandKind::Vector(elements) => Some(&elements.get(usize::from(stored.element))?.kind),
        kind => Some(kind),
    }
}

/// The bounds that are passed with a value. With a field, those of the object
/// that contains it.
fn extent_of(value: ValueId, input: &Input<'_, '_, '_>) -> Option<Extent> {
    let analysis = input.analysis;
    match analysis.provenance.origin(value) {
        Origin::Pointer { mut root, .. } => {
            while let Some(Root::Field { parent, .. }) = analysis.provenance.root(root) {
                root = parent;
            }
            has_bounds(analysis, &input.nameable, root).then_some(Extent::Root(root))
        }
        Origin::Several { .. } => {
            let register = analysis.ssa.value(value)?.register;
            Some(Extent::Carried(register, value))
        }
        _ => None,
    }
}

/// The arguments of eight bytes that are stored before a call, by their offset
/// among the callee's parameters.
pub(super) fn arguments(
    call: &Instruction<'_>,
    functions: &[Text],
    input: &Input<'_, '_, '_>,
) -> Vec<(u32, Stored)> {
    let mut found = Vec::new();
    let (Some(&index), Some(function)) = (
        input.index.get(&call.span.start),
        functions
            .first()
            .and_then(|name| input.callees.functions.get(name.as_str())),
    ) else {
        return found;
    };
    let (slots, _) = parameters::layout(function);
    let place = match call.called_function().or_else(|| call.called_pointer()) {
        Some((place, _)) => place + 1,
        None => return found,
    };
    let code = &input.analysis.code;
    let slot_of = |symbol| {
        let references = code.references_of(index).iter();
        let mut passed = references.filter(|r| usize::from(r.operand) == place);
        let element =
            passed.find(|r| matches!(r.referent, Referent::Symbol(s, 0) if s == symbol))?;
        slots.get(usize::from(element.element))
    };
    for at in (0..index).rev() {
        let Some((symbol, pieces)) = stores(input.analysis, at, index) else {
            break;
        };
        let Some(slot) = slot_of(symbol) else { break };
        for piece in pieces {
            if let (Ok(at), Some(stored)) = (u32::try_from(piece.offset), piece.stored) {
                found.push((slot.offset + at, stored));
            }
        }
    }
    found
}

impl State {
    /// Notes a half of the bounds that go back with a result.
    pub(super) fn hand_back(&mut self, at: u64, value: &str) {
        let (base, size, found) = &self.given;
        match value {
            GIVEN_BASE => {
                let handed = (base.clone().unwrap_or_default(), Text::new(), found.clone());
                self.calls.handed.insert(at, handed);
            }
            GIVEN_SIZE => {
                let handed = at
                    .checked_sub(8)
                    .and_then(|at| self.calls.handed.get_mut(&at));
                if let (Some(handed), Some(size)) = (handed, size) {
                    handed.1.clone_from(size);
                }
            }
            _ => {}
        }
    }

    /// A pointer into the function's own frame has no bounds any more when it
    /// is returned: reads the code that finds that out.
    pub(super) fn own_frame_code(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        let Some(Frame::One(symbol, bytes)) = frame(&input.analysis.code, &input.nameable) else {
            return None;
        };
        let (Some(base), Some(_), _) = &self.given else {
            return None;
        };
        number(base, SHADOW_BASE)?;
        let name = input.analysis.code.symbols[symbol.0 as usize].name;
        let pointer = self.returned_next(input)?;
        let expected = format!(
            "mov.u64 {SCRATCH}, {name}; cvta.local.u64 {SCRATCH}, {SCRATCH}; \
             sub.s64 {SCRATCH}, {GIVEN_BASE}, {SCRATCH}; setp.ge.u64 {OTHER}, {SCRATCH}, {bytes}; \
             selp.b64 {GIVEN_BASE}, {GIVEN_BASE}, {pointer}, {OTHER}; \
             selp.b64 {GIVEN_SIZE}, {GIVEN_SIZE}, 0, {OTHER};"
        );
        let end = reads(input.new, at, &expected)?;
        self.takes_back = true;
        Some(end)
    }

    /// The register that the program's next instruction returns, and whose
    /// bounds are stored.
    fn returned_next<'a>(&self, input: &Input<'_, '_, 'a>) -> Option<&'a str> {
        let next = self.roots.next_instruction();
        let base = self.given.0.as_deref()?;
        let mut all = returns(input.analysis).into_iter();
        let returned = all.find(|returned| {
            let register = returned
                .stored
                .value
                .and_then(|value| input.analysis.ssa.value(value));
            returned.stored.instruction == next
                && register.is_some_and(|value| {
                    self.roots.number_of(value.register) == number(base, SHADOW_BASE)
                })
        })?;
        match operand_of(returned.stored, input)? {
            OperandKind::Name(name) => Some(name),
            _ => None,
        }
    }

    /// Bounds that are passed, with the lookup that found them.
    pub(super) fn handed(&self, base: &str, size: &str) -> Handed {
        let numbers = (number(base, PASSED_BASE), number(size, PASSED_SIZE));
        match numbers {
            (Some(one), Some(other)) if one == other => (
                WEAK_BASE.to_owned(),
                WEAK_SIZE.to_owned(),
                self.passed
                    .get(&one)
                    .filter(|_| self.passed_sizes.contains(&one))
                    .cloned(),
            ),
            _ => (base.to_owned(), size.to_owned(), None),
        }
    }

    /// Whether the passed bounds are those of the stored value.
    pub(super) fn is_handed(
        &mut self,
        stored: Stored,
        handed: &Handed,
        input: &Input<'_, '_, '_>,
    ) -> bool {
        let (base, size, found) = handed;
        let pair = (base.as_str(), size.as_str());
        let is_found = |found: &Found| {
            let pointer = match operand_of(stored, input) {
                Some(OperandKind::Name(name)) => self.resolve(name),
                Some(OperandKind::Integer(constant)) => (*constant as u64).to_string(),
                _ => return false,
            };
            pair == (WEAK_BASE, WEAK_SIZE)
                && found.pointer == pointer
                && found.low == 0
                && found.under.is_empty()
        };
        let found_fits = found.as_ref().is_some_and(is_found);
        let Some(value) = stored.value else {
            let is_null = matches!(operand_of(stored, input), Some(OperandKind::Integer(constant))
                if (-NULL..NULL).contains(constant));
            return match is_null {
                true => pair == ("0", "0"),
                false => found_fits && found.as_ref().is_some_and(|f| f.instead_of.is_none()),
            };
        };
        let origin = input.analysis.provenance.origin(value);
        let Some(extent) = extent_of(value, input) else {
            return match origin {
                Origin::Null | Origin::Undefined => pair == ("0", "0"),
                _ => found_fits && found.as_ref().is_some_and(|f| f.instead_of.is_none()),
            };
        };
        match (origin.is_in_doubt(), found) {
            (false, _) => self.are_whole_bounds(extent, pair, input),
            (true, Some(found)) => {
                let instead_of = found.instead_of.clone();
                found_fits
                    && instead_of
                        .is_some_and(|(base, size)| self.are_bounds(extent, (&base, &size), input))
            }
            (true, None) => false,
        }
    }

    /// Notes the bounds that are stored with a store to the own result.
    pub(super) fn stores_bounds(&mut self, old: &Instruction<'_>, input: &Input<'_, '_, '_>) {
        let handed = std::mem::take(&mut self.calls.handed);
        let takes_back = std::mem::take(&mut self.takes_back);
        self.given = Default::default();
        let instruction = input.index.get(&old.span.start).map(|&index| index as u32);
        for returned in returns(input.analysis) {
            if Some(returned.stored.instruction) != instruction {
                continue;
            }
            let places: FxHashSet<u64> = handed
                .iter()
                .filter(|(_, handed)| self.is_returned(returned.stored, handed, takes_back, input))
                .map(|(at, _)| *at)
                .collect();
            match self.calls.returned_at.get_mut(&returned.offset) {
                Some(known) => known.retain(|place| places.contains(place)),
                None => drop(self.calls.returned_at.insert(returned.offset, places)),
            }
        }
    }

    /// Whether the returned bounds are those of the returned value: a pointer
    /// into the own frame has no bounds after the return.
    fn is_returned(
        &mut self,
        stored: Stored,
        handed: &Handed,
        takes_back: bool,
        input: &Input<'_, '_, '_>,
    ) -> bool {
        let analysis = input.analysis;
        let origin = stored.value.map(|value| analysis.provenance.origin(value));
        let root = match origin {
            Some(Origin::Pointer { root, .. }) => analysis.provenance.root(root),
            _ => None,
        };
        let is_own = match root {
            Some(Root::Alloca { .. }) => true,
            Some(Root::Whole { symbol } | Root::Part { symbol, .. }) => {
                analysis.code.symbols[symbol.0 as usize].space == SymbolSpace::Local
            }
            _ => false,
        };
        if is_own {
            let pointer = match operand_of(stored, input) {
                Some(OperandKind::Name(name)) => self.resolve(name),
                _ => return false,
            };
            return handed.0 == pointer && handed.1 == "0";
        }
        let has_frame = matches!(frame(&analysis.code, &input.nameable), Some(Frame::One(..)));
        let travels = matches!(origin, Some(Origin::Several { .. }));
        (takes_back || !travels || !has_frame) && self.is_handed(stored, handed, input)
    }

    /// All bounds after the own result must be stored wherever it is.
    pub(super) fn all_bounds_returned(&self, input: &Input<'_, '_, '_>, errors: &mut Errors<'_>) {
        let Some((_, from, size)) = input.result else {
            return;
        };
        for at in (from..size).step_by(EACH as usize) {
            if !self
                .calls
                .returned_at
                .values()
                .any(|places| places.contains(&at))
            {
                errors.at(
                    input.span,
                    "not every return has the bounds of what it returns",
                );
            }
        }
    }
}
