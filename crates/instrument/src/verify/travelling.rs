//! Bounds that go with a register which holds one of several pointers: every
//! value of it sets them.

use super::Errors;
use super::checks::{Input, State, Text};
use super::facts::{has_bounds, is_of_text, made_by, name_of};
use super::roots::under;
use super::written::reads;
use crate::protocol::family::{SHADOW_BASE, SHADOW_SIZE};
use crate::protocol::register::{OTHER, OUTSIDE, SCRATCH, SCRATCH2};
use analysis::{Definition, Expr, Origin, RootId, Term, ValueId};
use model::layout::UNBOUNDED;
use ptx::OperandKind;
use rustc_hash::FxHashSet;
use std::fmt::Write;

impl State {
    /// Bounds that travel with a value, set here; where that ends.
    pub(super) fn travelling(
        &mut self,
        value: ValueId,
        at: u32,
        input: &Input<'_, '_, '_>,
    ) -> Option<u32> {
        let register = input.analysis.ssa.value(value)?.register;
        let numbers: Vec<u32> = match self.roots.number_of(register) {
            Some(number) => vec![number],
            None => (0..input.shadows)
                .filter(|n| !self.roots.registers.contains_key(n))
                .collect(),
        };
        numbers.into_iter().find_map(|number| {
            self.attempt(|state| {
                let expected = state.carried_text(value, number, input)?;
                let end = reads(input.new, at, &expected).filter(|&end| end > at)?;
                state.roots.carries(number, register).then_some(end)
            })
        })
    }

    /// The bounds of the value that a value takes its own from.
    pub(super) fn term(
        &mut self,
        term: Term,
        is_narrow: bool,
        input: &Input<'_, '_, '_>,
    ) -> (Text, Text) {
        let anything = || ("0".to_owned(), UNBOUNDED.to_string());
        let analysis = input.analysis;
        let bounds = match (analysis.provenance.origin_of(term), term) {
            (Origin::Pointer { root, .. }, _) if travels(input, root) => {
                self.root_bounds(root, input)
            }
            (Origin::Several { .. }, Term::Value(value)) => {
                self.roots.carried.push(value);
                let register = analysis.ssa.value(value).map(|value| value.register);
                match register.and_then(|register| self.roots.number_of(register)) {
                    Some(n) => (format!("{SHADOW_BASE}{n}"), format!("{SHADOW_SIZE}{n}")),
                    None => anything(),
                }
            }
            (Origin::Null | Origin::Undefined, _) => ("0".to_owned(), "0".to_owned()),
            _ => anything(),
        };
        // Zero is an address like others in a window.
        match bounds.1 == "0" && is_narrow {
            true => anything(),
            false => bounds,
        }
    }

    /// The code that sets the shadow bounds of a value, if they have this
    /// number.
    pub(super) fn carried_text(
        &mut self,
        value: ValueId,
        number: u32,
        input: &Input<'_, '_, '_>,
    ) -> Option<Text> {
        let analysis = input.analysis;
        let expr = analysis.provenance.expr(value)?;
        let index = made_by(analysis, value)?;
        let instruction = analysis.code.instructions[index as usize].instruction;
        let guard = under(instruction);
        let is_narrow = analysis.code.is_narrow(analysis.ssa.value(value)?.register);
        let own = (
            format!("{SHADOW_BASE}{number}"),
            format!("{SHADOW_SIZE}{number}"),
        );
        let terms = analysis.carried(expr);
        let was_bound = self.roots.registers.clone();
        // (A value may be made of another one of its own register.)
        self.roots
            .carries(number, analysis.ssa.value(value)?.register);
        let bounds: Vec<(Text, Text)> = terms
            .iter()
            .map(|&term| self.term(term, is_narrow, input))
            .collect();
        self.roots.registers = was_bound;
        let (base, size) = &own;
        Some(match (expr, &bounds[..]) {
            (_, [one]) if *one == own => Text::new(),
            (_, [(from, bytes)]) => {
                format!("{guard} mov.b64 {base}, {from}; {guard} mov.b64 {size}, {bytes}; ")
            }
            (Expr::Select(..), [first, second]) => {
                let OperandKind::Name(predicate) = instruction.operands.get(3)?.kind else {
                    return Some(Text::new());
                };
                format!(
                    "{guard} selp.b64 {base}, {}, {}, {predicate}; \
                     {guard} selp.b64 {size}, {}, {}, {predicate}; ",
                    first.0, second.0, first.1, second.1
                )
            }
            (_, [first, second]) => {
                let mut text = Text::new();
                let one = in_register(&first.1, &mut text);
                let _ = write!(text, "setp.eq.s64 {OUTSIDE}, {one}, 0; ");
                let other = in_register(&second.1, &mut text);
                let _ = write!(
                    text,
                    "setp.ne.and.s64 {OTHER}, {other}, 0, !{OUTSIDE}; \
                     selp.b64 {SCRATCH}, {}, {}, {OUTSIDE}; \
                     selp.b64 {SCRATCH2}, {}, {}, {OUTSIDE}; \
                     {guard} selp.b64 {base}, 0, {SCRATCH}, {OTHER}; \
                     {guard} selp.b64 {size}, 0, {SCRATCH2}, {OTHER}; ",
                    second.0, first.0, second.1, first.1
                );
                text
            }
            _ => Text::new(),
        })
    }

    /// Shadow bounds must be set by every value that they may be of.
    pub(super) fn follow_carried(&mut self, input: &Input<'_, '_, '_>, errors: &mut Errors<'_>) {
        let analysis = input.analysis;
        let mut seen = FxHashSet::default();
        while let Some(id) = self.roots.carried.pop() {
            let Some(value) = analysis.ssa.value(id).filter(|_| seen.insert(id)) else {
                continue;
            };
            let old = match value.definition {
                Definition::Undefined => continue,
                Definition::Phi { .. } => {
                    self.roots.carried.extend(analysis.ssa.phi_arguments(id));
                    continue;
                }
                Definition::Instruction { old, .. } => old,
            };
            self.roots.carried.extend(old);
            let Some(expr) = analysis.provenance.expr(id) else {
                continue;
            };
            for term in analysis.carried(expr) {
                match (analysis.provenance.origin_of(term), term) {
                    (Origin::Several { .. }, Term::Value(value)) => self.roots.carried.push(value),
                    (Origin::Pointer { root, .. }, _) if travels(input, root) => {
                        self.roots.used.insert(root.0);
                    }
                    _ => {}
                }
            }
            if self.roots.kept.contains(&id) {
                continue;
            }
            let waiting = self.roots.carried.clone();
            let number = self.roots.number_of(value.register);
            let is_nothing = number
                .and_then(|number| self.carried_text(id, number, input))
                .is_none_or(|text| text.trim().is_empty());
            self.roots.carried = waiting;
            if number.is_none() || !is_nothing {
                let name = name_of(analysis, id).unwrap_or("a register");
                errors.at(
                    input.span,
                    format!("the bounds of `{name}` do not go with it everywhere"),
                );
            }
        }
    }
}

/// Whether the bounds of a root go with values that may be of it.
fn travels(input: &Input<'_, '_, '_>, root: RootId) -> bool {
    match input.shadow {
        Some(_) => is_of_text(input.analysis, &input.nameable, root),
        None => has_bounds(input.analysis, &input.nameable, root),
    }
}

/// A size as a register: a constant is moved to one.
fn in_register(size: &str, text: &mut Text) -> Text {
    if size.parse::<u64>().is_err() {
        return size.to_owned();
    }
    let _ = write!(text, "mov.b64 {SCRATCH}, {size}; ");
    SCRATCH.to_owned()
}
