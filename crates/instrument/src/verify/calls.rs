//! Verifies calls of checked copies: a call may only go to the copy of the
//! function that the program calls, with the program's arguments, followed by
//! bounds in pairs.

use super::Errors;
use super::checks::{Input, State, Text, name};
use super::handed::{Handed, arguments};
use super::through::Class;
use super::written::number;
use crate::protocol::family::{ROOT_BASE, ROOT_SIZE};
use crate::protocol::{NAME_PREFIX, PASSED, RESULT};
use analysis::{Referent, Root, Signature};
use model::layout::{CHECKED_PREFIX, LAUNCH_PARAMETER, LaunchBounds, LaunchHeader};
use ptx::{Function, Instruction, Item, Mnemonic, Module, OperandKind, Variable};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

pub(super) const HEADER: u64 = size_of::<LaunchHeader>() as u64;
pub(super) const EACH: u64 = size_of::<LaunchBounds>() as u64;

/// The number of the pair of bounds at an offset of the launch parameter.
pub(super) fn pair_number(at: u64) -> Option<usize> {
    let at = at.checked_sub(HEADER)?;
    usize::try_from(at / EACH).ok()
}

/// The bounds ABI of a checked copy of a function that is no entry.
struct Copy {
    /// Bytes of the bounds that it takes.
    takes: u64,
    /// Bytes of its result, if there are bounds behind it.
    returned: Option<u64>,
}

/// The functions of an instrumented module that calls may and may not go to.
#[derive(Default)]
pub(super) struct Callees<'a> {
    copies: FxHashMap<&'a str, Copy>,
    signatures: FxHashMap<&'a str, Signature>,
    /// The program's functions.
    pub(super) functions: FxHashMap<&'a str, &'a Function<'a>>,
    /// The classes that calls through pointers may reach, by number.
    pub(super) classes: FxHashMap<u32, Class>,
    /// Functions that have accesses without checks.
    pub(super) unchecked: FxHashSet<&'a str>,
}

impl<'a> Callees<'a> {
    pub(super) fn of(old: &'a Module<'_>, new: &Module<'_>) -> Self {
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
                    returned: result.filter(|&size| size > own),
                },
            );
        }
        let functions = old.functions().filter(|f| !f.is_entry);
        Callees {
            copies,
            functions: old
                .functions()
                .filter(|f| f.body.is_some())
                .map(|f| (f.name, f))
                .collect(),
            signatures: functions
                .filter_map(|f| Some((f.name, Signature::of(f)?)))
                .collect(),
            classes: FxHashMap::default(),
            unchecked: FxHashSet::default(),
        }
    }

    /// Bytes that the copy of a function takes and returns.
    pub(super) fn copy(&self, name: &str) -> Option<(u64, Option<u64>)> {
        let copy = self.copies.get(name)?;
        Some((copy.takes, copy.returned))
    }

    /// The parameters and results of a function.
    pub(super) fn signature(&self, name: &str) -> Option<Signature> {
        self.signatures.get(name).cloned()
    }
}

/// Bytes of a function's result before its bounds.
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

/// Whether a call goes to the copy of the function that the program calls, with
/// the program's arguments and one more.
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

/// An assumption of a call: the program's values, as offsets, that a pair of
/// bounds may belong to which a function takes or returns.
#[derive(Clone, Debug)]
pub(super) struct Reliance {
    pub(super) functions: Vec<Text>,
    pub(super) is_result: bool,
    pub(super) at: u64,
    pub(super) offsets: Vec<u32>,
    pub(super) span: ptx::Span,
}

/// The bounds that a body takes and returns: offsets of the program's values,
/// by offset of the bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) takes: Vec<(u64, u32)>,
    pub(super) returned: Vec<(u64, u32)>,
}

/// The state of the parameters of calls.
#[derive(Default)]
pub(super) struct Calls {
    /// Bytes of the parameters that check code declared.
    sizes: FxHashMap<Text, u64>,
    /// The values that it stored, by offset.
    stored: FxHashMap<Text, BTreeMap<u64, Text>>,
    /// The program's names of results that are in another parameter.
    pub(super) renamed: FxHashMap<Text, Text>,
    /// The functions that such a parameter is the result of.
    results: FxHashMap<Text, Vec<Text>>,
    /// Bases that were returned with results, and from where.
    result_bounds: FxHashMap<Text, (Text, u64)>,
    /// The bounds that the body returns with its own result, by offset.
    pub(super) handed: BTreeMap<u64, Handed>,
    /// For each place of the own result, the places behind it whose bounds
    /// every store there gave so far.
    pub(super) returned_at: BTreeMap<u32, FxHashSet<u64>>,
    /// See [`Reliance`].
    pub(super) relies: Vec<Reliance>,
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

    /// Which of the own result's values the bounds behind it are of.
    pub(super) fn returned_bounds(&self) -> Vec<(u64, u32)> {
        let pairs = self.returned_at.iter();
        let mut returned: Vec<(u64, u32)> = pairs
            .flat_map(|(&offset, places)| places.iter().map(move |&at| (at, offset)))
            .collect();
        returned.sort_unstable();
        returned
    }
}

/// The place that an instruction's address operand names.
fn address<'a>(instruction: &Instruction<'a>, operand: usize) -> (&'a str, u64) {
    match instruction.operands.get(operand).map(|o| &o.kind) {
        Some(OperandKind::Address(address)) => (
            address.base.unwrap_or(""),
            u64::try_from(address.offset).unwrap_or(u64::MAX),
        ),
        _ => ("", u64::MAX),
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
        let (base, at) = address(instruction, 0);
        let end = at.saturating_add(8);
        let value = self.text(instruction, 1);
        if instruction.opcode.text != "st.param.b64" || instruction.guard.is_some() {
            errors.at(
                instruction.span,
                "check code may only store to what its calls take",
            );
        } else if base.starts_with(PASSED) {
            if self.calls.sizes.get(base).is_none_or(|&size| end > size) {
                errors.at(instruction.span, "stores past what the call passes");
            }
        } else if let Some((_, from, size)) = input.result.filter(|(own, ..)| *own == base) {
            if at < from || end > size {
                errors.at(
                    instruction.span,
                    "check code may not change what the program returns",
                );
            }
            self.hand_back(at, &value);
        } else if base.starts_with(NAME_PREFIX) && self.strings.takes(base) {
            return;
        } else {
            errors.at(
                instruction.span,
                "check code may only store to what its calls take",
            );
        }
        let value = self.constant(value);
        let stored = self.calls.stored.entry(base.to_owned()).or_default();
        stored.insert(at, value);
    }

    /// Follows a load of check code from a result.
    pub(super) fn receive(
        &mut self,
        instruction: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) -> bool {
        let first = name(instruction, 0).unwrap_or("");
        let (base, at) = address(instruction, 1);
        if instruction.opcode.text != "ld.param.b64" || instruction.guard.is_some() {
            return false;
        }
        if !base.starts_with(RESULT) {
            return false;
        }
        let size = self.calls.sizes.get(base);
        if size.is_none_or(|&size| at.saturating_add(8) > size) {
            errors.at(instruction.span, "reads past the returned bounds");
        }
        if let Some(root) = number(first, ROOT_BASE) {
            let size_register = format!("{ROOT_SIZE}{root}");
            self.calls
                .result_bounds
                .insert(size_register, (base.to_owned(), at));
            self.relies_on_result((root, base, at), input, instruction.span);
            return true;
        }
        let expected = self.calls.result_bounds.remove(first);
        if expected != at.checked_sub(8).map(|at| (base.to_owned(), at)) {
            errors.at(
                instruction.span,
                format!("`{first}` is not the size that was returned with its base"),
            );
        }
        if let Some(root) = number(first, ROOT_SIZE) {
            self.receive_root(root, input);
        }
        true
    }

    /// Notes which value of a result a root's bounds are assumed to belong to.
    fn relies_on_result(
        &mut self,
        (root, base, at): (u32, &str, u64),
        input: &Input<'_, '_, '_>,
        span: ptx::Span,
    ) {
        let Some(index) = self.roots.last_instruction() else {
            return;
        };
        let analysis = input.analysis;
        let references = analysis.code.references_of(index as usize);
        let from = references.iter().find_map(|r| match r.referent {
            Referent::Symbol(_, offset) if r.role == analysis::Role::Address => Some(offset),
            _ => None,
        });
        let value = analysis
            .provenance
            .root(analysis::RootId(root))
            .and_then(Root::value);
        let written = references
            .iter()
            .filter(|r| r.role == analysis::Role::Write);
        let offsets = written
            .filter(|r| Some(r.value) == value)
            .filter_map(|r| u32::try_from(from? + i64::from(r.element) * 8).ok());
        self.calls.relies.push(Reliance {
            functions: self.calls.results.get(base).cloned().unwrap_or_default(),
            is_result: true,
            at,
            offsets: offsets.collect(),
            span,
        });
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
        let (takes, returned) = ((copy.takes, bounds), copy.returned);
        let functions = vec![function.to_owned()];
        let behind = self.passes((passed, takes), (old, new), &functions, input, errors);
        if takes.0 > takes.1 && behind.as_deref() != Some("0") {
            errors.at(new.span, "what is passed behind the bounds is not nothing");
        }
        self.results(result, (new, place), (returned, functions), errors);
    }

    /// Whether a call passes so many bytes, with bounds up to the second
    /// number. Returns the text of what follows the bounds.
    pub(super) fn passes(
        &mut self,
        (passed, (takes, bounds)): (&str, (u64, u64)),
        (old, new): (&Instruction<'_>, &Instruction<'_>),
        functions: &[Text],
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) -> Option<Text> {
        if self.calls.sizes.get(passed) != Some(&takes) || takes < HEADER {
            errors.at(new.span, "the bounds are not those that the copy takes");
            return None;
        }
        let stored = self.calls.stored.remove(passed).unwrap_or_default();
        let launch = if input.launch.is_some() {
            LAUNCH_PARAMETER
        } else {
            "0"
        };
        let mut is_right = stored.get(&0).map(String::as_str) == Some(launch);
        let arguments = arguments(old, functions, input);
        for at in (HEADER..bounds).step_by(EACH as usize) {
            let pair = stored.get(&at).zip(stored.get(&(at + 8)));
            let Some((base, size)) = pair else {
                is_right = false;
                continue;
            };
            let handed = self.handed(base, size);
            let fitting = arguments
                .iter()
                .filter(|(_, argument)| self.is_handed(*argument, &handed, input));
            let offsets: Vec<u32> = fitting.map(|(offset, _)| *offset).collect();
            is_right &= !offsets.is_empty();
            self.calls.relies.push(Reliance {
                functions: functions.to_vec(),
                is_result: false,
                at,
                offsets,
                span: new.span,
            });
        }
        if !is_right {
            errors.at(
                new.span,
                "what is passed is not the launch, and bases and sizes of one thing each",
            );
        }
        stored.get(&bounds).cloned()
    }

    /// Notes the parameter that holds the result of a call of a copy. The
    /// result may have so many bytes with bounds.
    pub(super) fn results(
        &mut self,
        result: Option<&str>,
        (new, place): (&Instruction<'_>, usize),
        (returned, functions): (Option<u64>, Vec<Text>),
        errors: &mut Errors<'_>,
    ) {
        match (result, list(new, 0).first().filter(|_| place == 1)) {
            (Some(from), Some(&to)) if from != to => {
                if returned.is_none() || self.calls.sizes.get(to).copied() != returned {
                    errors.at(new.span, "the result is not what the copy returns");
                }
                self.calls.renamed.insert(from.to_owned(), to.to_owned());
                self.calls.results.insert(to.to_owned(), functions);
            }
            _ if returned.is_some() => {
                errors.at(new.span, "the result has no place for the bounds");
            }
            _ => {}
        }
    }

    /// Verifies that a load of the program reads the parameter that holds its
    /// result, and notes the bounds that are stored with a store to the own
    /// result.
    pub(super) fn program_parameter(
        &mut self,
        old: &Instruction<'_>,
        new: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        match old.opcode.mnemonic() {
            Mnemonic::Ld => {
                let (from, to) = (address(old, 1).0, address(new, 1).0);
                let stands = match self.calls.renamed.get(from) {
                    Some(renamed) => *renamed == to,
                    None => !to.starts_with(RESULT),
                };
                if !stands {
                    errors.at(new.span, format!("the result is not in `{to}`"));
                }
            }
            Mnemonic::St
                if input
                    .result
                    .is_some_and(|(own, ..)| address(old, 0).0 == own) =>
            {
                self.stores_bounds(old, input);
            }
            _ => {}
        }
    }
}
