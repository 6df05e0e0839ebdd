//! Holds calls of checked copies to what the copies take and give: a call may
//! only go to the copy of the function that the program calls, with the
//! program's arguments and bounds in pairs behind them.

use super::Errors;
use super::accesses::paired;
use super::checks::{Input, State, Text, name};
use super::through::Class;
use crate::protocol::{PASSED, RESULT};
use analysis::{Signature, returns};
use model::layout::{CHECKED_PREFIX, LAUNCH_PARAMETER, LaunchBounds, LaunchHeader};
use ptx::{Function, Instruction, Item, Module, OperandKind, Variable};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

pub(super) const HEADER: u64 = size_of::<LaunchHeader>() as u64;
const EACH: u64 = size_of::<LaunchBounds>() as u64;

/// What a checked copy of a function that is no entry takes and gives.
struct Copy {
    /// Bytes of the bounds that it takes.
    takes: u64,
    /// Bytes of its result, if there are bounds behind it.
    gives: Option<u64>,
}

/// The functions of an instrumented module that calls may and may not go to.
#[derive(Default)]
pub(super) struct Callees<'a> {
    copies: FxHashMap<&'a str, Copy>,
    signatures: FxHashMap<&'a str, Signature>,
    /// What calls through pointers may go to, by number.
    pub(super) classes: FxHashMap<u32, Class>,
    /// Functions that have accesses without checks.
    pub(super) unchecked: FxHashSet<&'a str>,
}

impl<'a> Callees<'a> {
    pub(super) fn of(old: &Module<'a>, new: &Module<'_>) -> Self {
        let mut copies = FxHashMap::default();
        for original in old.functions().filter(|f| !f.is_entry && f.body.is_some()) {
            let copy = new.functions().find(|f| {
                f.body.is_some() && f.name.strip_prefix(CHECKED_PREFIX) == Some(original.name)
            });
            let Some(copy) = copy else { continue };
            let own = before_bounds(original);
            let takes = copy
                .parameters
                .last()
                .filter(|p| p.name == LAUNCH_PARAMETER);
            let result = copy.returns.first().and_then(Variable::size);
            copies.insert(
                original.name,
                Copy {
                    takes: takes.and_then(Variable::size).unwrap_or(0),
                    gives: result.filter(|&size| size > own),
                },
            );
        }
        let functions = old.functions().filter(|f| !f.is_entry);
        Callees {
            copies,
            signatures: functions
                .filter_map(|f| Some((f.name, Signature::of(f)?)))
                .collect(),
            classes: FxHashMap::default(),
            unchecked: FxHashSet::default(),
        }
    }

    /// Bytes that the copy of a function takes and gives.
    pub(super) fn copy(&self, name: &str) -> Option<(u64, Option<u64>)> {
        let copy = self.copies.get(name)?;
        Some((copy.takes, copy.gives))
    }

    /// What a function takes and returns.
    pub(super) fn signature(&self, name: &str) -> Option<Signature> {
        self.signatures.get(name).cloned()
    }
}

/// Bytes of a function's result up to where bounds may stand.
fn before_bounds(original: &Function<'_>) -> u64 {
    let size = original.returns.first().and_then(Variable::size);
    size.unwrap_or(0).next_multiple_of(8)
}

/// Whether a copy's result is the original's, with or without bounds behind.
pub(super) fn same_result(
    old: &Module<'_>,
    new: &Module<'_>,
    original: &Function<'_>,
    copy: &Function<'_>,
) -> bool {
    match (&original.returns[..], &copy.returns[..]) {
        ([from], [to]) if from.span.text(old.source) == to.span.text(new.source) => true,
        ([from], [to]) => {
            let bounds = to.size().unwrap_or(0).wrapping_sub(before_bounds(original));
            from.name == to.name
                && to.ty == ptx::Type::B8
                && to.alignment() == from.alignment().max(8)
                && bounds != 0
                && bounds.is_multiple_of(EACH)
                && bounds < 1 << 16
        }
        (from, to) => from.is_empty() && to.is_empty(),
    }
}

/// Of the declarations of a module, whether one is as its definition.
pub(super) fn is_declared_as_defined(new: &Module<'_>, declared: &Function<'_>) -> bool {
    let head = |f: &Function<'_>| {
        let end = f.body.as_ref().map_or(f.span.end, |body| body.span.start);
        let text = &new.source[f.span.start as usize..end as usize];
        text.trim_end_matches(|c: char| c == ';' || c.is_whitespace())
            .to_owned()
    };
    new.items.iter().any(|item| match item {
        Item::Function(f) => {
            f.body.is_some() && f.name == declared.name && head(f) == head(declared)
        }
        _ => false,
    })
}

/// Whether a call goes to the copy of what the program calls, with the
/// program's arguments and one more.
pub(super) fn is_call_of_copy(old: &Instruction<'_>, new: &Instruction<'_>) -> bool {
    let (Some((from_place, from)), Some((to_place, to))) =
        (old.called_function(), new.called_function())
    else {
        return false;
    };
    let guards = match (&old.guard, &new.guard) {
        (None, None) => true,
        (Some(a), Some(b)) => a.negated == b.negated && a.register == b.register,
        _ => false,
    };
    let (from_list, to_list) = (list(old, from_place + 1), list(new, to_place + 1));
    let results = match (from_place, to_place) {
        (0, 0) => true,
        (1, 1) => {
            let (a, b) = (list(old, 0), list(new, 0));
            a.len() == 1 && b.len() == 1 && (a[0] == b[0] || b[0].starts_with(RESULT))
        }
        _ => false,
    };
    guards
        && results
        && old.opcode.text == new.opcode.text
        && to.strip_prefix(CHECKED_PREFIX) == Some(from)
        && old.operands.len() <= from_place + 2
        && new.operands.len() == to_place + 2
        && to_list.len() == from_list.len() + 1
        && to_list[..from_list.len()] == from_list[..]
        && to_list[from_list.len()].starts_with(PASSED)
}

/// The names in a list operand; empty if it is none, or holds anything else.
pub(super) fn list<'a>(instruction: &Instruction<'a>, operand: usize) -> Vec<&'a str> {
    match instruction.operands.get(operand).map(|o| &o.kind) {
        Some(OperandKind::List(list)) => list
            .iter()
            .map(|operand| match operand.kind {
                OperandKind::Name(name) => name,
                _ => "",
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// What is known of the parameters of calls.
#[derive(Default)]
pub(super) struct Calls {
    /// Bytes of what check code declared.
    sizes: FxHashMap<Text, u64>,
    /// What it stored, by place.
    stored: FxHashMap<Text, BTreeMap<u64, Text>>,
    /// The program's names of results that stand in another parameter.
    pub(super) renamed: FxHashMap<Text, Text>,
    /// Bases that came back with results, and from where.
    received: FxHashMap<Text, (Text, u64)>,
    /// For each place of the own result, the places behind it whose bounds
    /// every store there gave so far.
    given: BTreeMap<u32, FxHashSet<u64>>,
}

impl Calls {
    /// A parameter that check code declares.
    pub(super) fn declare(&mut self, variable: &Variable<'_>) {
        self.sizes
            .insert(variable.name.to_owned(), variable.size().unwrap_or(0));
    }

    /// A parameter that the program declares.
    pub(super) fn declared_by_program(&mut self, name: &str) {
        self.renamed.remove(name);
    }
}

impl State {
    /// Follows an `st.param` of check code.
    pub(super) fn store(
        &mut self,
        instruction: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let Some(OperandKind::Address(address)) = instruction.operands.first().map(|o| &o.kind)
        else {
            return errors.at(instruction.span, "a store without an address");
        };
        let base = address.base.unwrap_or("");
        let at = u64::try_from(address.offset).unwrap_or(u64::MAX);
        let end = at.saturating_add(8);
        if base.starts_with(PASSED) {
            if self.calls.sizes.get(base).is_none_or(|&size| end > size) {
                errors.at(instruction.span, "stores past what the call passes");
            }
        } else if input.result.is_some_and(|(own, ..)| own == base) {
            let (_, from, size) = input.result.unwrap_or_default();
            if at < from || end > size {
                errors.at(
                    instruction.span,
                    "check code may not change what the program returns",
                );
            }
        } else if base.starts_with("__ringfence_") {
            let value = self.text(instruction, 1);
            return self.through.store(base, &value);
        } else {
            return errors.at(
                instruction.span,
                "check code may only store to what its calls take",
            );
        }
        let value = self.constant(self.text(instruction, 1));
        let stored = self.calls.stored.entry(base.to_owned()).or_default();
        stored.insert(at, value);
    }

    /// Whether all bounds from a place on are there, in pairs.
    fn are_paired(&self, stored: &BTreeMap<u64, Text>, at: u64, input: &Input<'_, '_, '_>) -> bool {
        let (Some(base), Some(size)) = (stored.get(&at), stored.get(&(at + 8))) else {
            return false;
        };
        paired(base, size, self.declared_size(base, input))
    }

    /// Follows a load of check code from a result.
    pub(super) fn receive(&mut self, instruction: &Instruction<'_>, errors: &mut Errors<'_>) {
        let Some(OperandKind::Address(address)) = instruction.operands.get(1).map(|o| &o.kind)
        else {
            return;
        };
        let base = address.base.unwrap_or("");
        if !base.starts_with(RESULT) {
            let first = name(instruction, 0).unwrap_or("");
            return self.through.load(first, base);
        }
        let at = u64::try_from(address.offset).unwrap_or(u64::MAX);
        let size = self.calls.sizes.get(base);
        if size.is_none_or(|&size| at.saturating_add(8) > size) {
            errors.at(instruction.span, "reads past what came back");
        }
        let first = name(instruction, 0).unwrap_or("");
        if let Some(number) = first.strip_prefix("%__rf_b") {
            let size_register = format!("%__rf_s{number}");
            self.calls
                .received
                .insert(size_register, (base.to_owned(), at));
            return;
        }
        let expected = self.calls.received.remove(first);
        if expected != at.checked_sub(8).map(|at| (base.to_owned(), at)) {
            errors.at(
                instruction.span,
                format!("`{first}` is not the size that came back with its base"),
            );
        }
    }

    /// Follows a call of the program's, as it was and as it is.
    pub(super) fn program_call(
        &mut self,
        old: &Instruction<'_>,
        new: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let Some((place, function)) = old.called_function() else {
            return self.call_through(old, new, input, errors);
        };
        let result = (place == 1)
            .then(|| list(old, 0).first().copied())
            .flatten();
        if let Some(result) = result {
            self.calls.renamed.remove(result);
        }
        if !is_call_of_copy(old, new) {
            if input.callees.unchecked.contains(function) {
                errors.at(
                    new.span,
                    format!("checked code calls `{function}`, which has no checks"),
                );
            }
            return;
        }
        let Some(copy) = input.callees.copies.get(function) else {
            return errors.at(new.span, format!("`{function}` has no checked copy"));
        };
        let passed = list(new, place + 1).last().copied().unwrap_or("");
        // An odd eight bytes at the end are for calls through pointers.
        let bounds = copy.takes - copy.takes.saturating_sub(HEADER) % EACH;
        let (takes, gives) = ((copy.takes, bounds), copy.gives);
        self.passes(passed, takes, new, input, errors);
        self.results(result, (new, place), gives, errors);
    }

    /// Whether a call passes so many bytes, with bounds up to where the second
    /// number says; what stands behind them.
    pub(super) fn passes(
        &mut self,
        passed: &str,
        (takes, bounds): (u64, u64),
        new: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) -> Option<Text> {
        if self.calls.sizes.get(passed) != Some(&takes) || takes < HEADER {
            errors.at(new.span, "the bounds are not those that the copy takes");
            return None;
        }
        let stored = self.calls.stored.remove(passed).unwrap_or_default();
        let mut pairs = (HEADER..bounds).step_by(EACH as usize);
        if !stored.contains_key(&0) || !pairs.all(|at| self.are_paired(&stored, at, input)) {
            errors.at(
                new.span,
                "what is passed is not the launch, and bases and sizes of one thing each",
            );
        }
        stored.get(&bounds).cloned()
    }

    /// Notes where the result of a call of a copy stands, which may give bounds
    /// in so many bytes.
    pub(super) fn results(
        &mut self,
        result: Option<&str>,
        (new, place): (&Instruction<'_>, usize),
        gives: Option<u64>,
        errors: &mut Errors<'_>,
    ) {
        match (result, list(new, 0).first().filter(|_| place == 1)) {
            (Some(from), Some(&to)) if from != to => {
                if gives.is_none() || self.calls.sizes.get(to).copied() != gives {
                    errors.at(new.span, "the result is not what the copy gives");
                }
                self.calls.renamed.insert(from.to_owned(), to.to_owned());
            }
            _ if gives.is_some() => {
                errors.at(new.span, "the result has no place for the bounds");
            }
            _ => {}
        }
    }

    /// Holds a load of the program's to the parameter that its result stands
    /// in, and notes what is given with a store to the own result.
    pub(super) fn program_parameter(
        &mut self,
        old: &Instruction<'_>,
        new: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let base = |instruction: &Instruction<'_>, operand: usize| match instruction
            .operands
            .get(operand)
            .map(|o| &o.kind)
        {
            Some(OperandKind::Address(address)) => address.base.unwrap_or("").to_owned(),
            _ => String::new(),
        };
        match old.opcode.base() {
            "ld" => {
                let (from, to) = (base(old, 1), base(new, 1));
                let stands = match self.calls.renamed.get(&from) {
                    Some(renamed) => *renamed == to,
                    None => !to.starts_with(RESULT),
                };
                if !stands {
                    errors.at(new.span, format!("the result is not in `{to}`"));
                }
            }
            "st" => {
                let Some((own, from, size)) = input.result else {
                    return;
                };
                if base(old, 0) != own {
                    return;
                }
                let stored = self.calls.stored.remove(own).unwrap_or_default();
                let mut places: FxHashSet<u64> = FxHashSet::default();
                for at in (from..size).step_by(EACH as usize) {
                    if self.are_paired(&stored, at, input) {
                        places.insert(at);
                    }
                }
                let instruction = input.index.get(&old.span.start).map(|&index| index as u32);
                for returned in returns(input.analysis) {
                    if Some(returned.stored.instruction) != instruction {
                        continue;
                    }
                    match self.calls.given.get_mut(&returned.offset) {
                        Some(given) => given.retain(|place| places.contains(place)),
                        None => drop(self.calls.given.insert(returned.offset, places.clone())),
                    }
                }
            }
            _ => {}
        }
    }

    /// All bounds behind the own result must be given wherever it is.
    pub(super) fn all_given(&self, input: &Input<'_, '_, '_>, errors: &mut Errors<'_>) {
        let Some((_, from, size)) = input.result else {
            return;
        };
        for at in (from..size).step_by(EACH as usize) {
            if !self.calls.given.values().any(|places| places.contains(&at)) {
                errors.at(
                    input.span,
                    "not every return gives the bounds of what it returns",
                );
            }
        }
    }
}
