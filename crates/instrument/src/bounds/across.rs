//! Decides which functions get a checked copy, and which bounds are passed with
//! calls (cuCatch, section 4). A call passes the bounds of an argument if the
//! callee checks accesses against them or passes them on. A call returns the
//! bounds of a result if the caller checks accesses against them. Computed over
//! the whole call graph, to a fixed point.
//!
//! A function may also be entered by other means than a call that the pass
//! understands: its address is taken, or other files see it. Such a function is
//! checked in place as well; there it looks up the bounds of its pointer
//! parameters. The functions that one call through a pointer may reach need,
//! take and return the same bounds (`indirect.rs`).

use super::calls::{self, Sequence};
use super::demand::About;
use super::indirect::Classes;
use super::launch_size;
use super::plan::{Call, Plan, ResultBounds, ReturnedBounds};
use crate::device_heap::HeapCall;
use crate::parameters::ParameterSlot;
use crate::support::Dispatch;
use analysis::{Analysis, Nameable, Origin, Return, Root, RootId, Stored, ValueId};
use analysis::{mentioned, returns};
use ptx::{Function, Linkage, Module};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// A function with a body, its analysis, and its plan.
pub(super) struct FunctionSummary<'x, 'a> {
    pub(super) function: &'x Function<'a>,
    pub(super) analysis: Analysis<'x, 'a>,
    pub(super) nameable: Nameable<'x, 'a>,
    pub(super) plan: Plan,
    pub(super) heap_calls: Vec<HeapCall>,
    /// Indices of its sites.
    pub(super) sites: Range<usize>,
    pub(super) slots: Vec<ParameterSlot>,
    pub(super) parameter_bytes: u32,
    /// The function itself carries checks. (An entry never does.)
    pub(super) is_checked_in_place: bool,
    /// There is a checked copy.
    pub(super) has_copy: bool,
}

impl FunctionSummary<'_, '_> {
    /// Whether the function's text changes.
    pub(super) fn changes(&self) -> bool {
        !self.plan.is_empty() || !self.plan.calls.is_empty() || !self.heap_calls.is_empty()
    }
}

/// Connects the functions of a module. Returns the dispatch functions for calls
/// through pointers.
pub(super) fn connect<'a>(
    module: &Module<'a>,
    summaries: &mut [FunctionSummary<'_, 'a>],
) -> Vec<Dispatch<'a>> {
    let numbers: FxHashMap<&str, usize> = summaries
        .iter()
        .enumerate()
        .filter(|(_, summary)| !summary.function.is_entry)
        .map(|(number, summary)| (summary.function.name, number))
        .collect();
    if numbers.is_empty() {
        return Vec::new();
    }
    let mut net = Net::of(module, summaries, &numbers);
    net.find_useful();
    net.align_classes();
    while net.demand() {}
    net.settle()
}

struct Net<'n, 'x, 'a> {
    summaries: &'n mut [FunctionSummary<'x, 'a>],
    /// The calls of each function that the pass understands, in order.
    sequences: Vec<Vec<Sequence>>,
    /// Functions that may be entered without bounds.
    exposed: Vec<bool>,
    returns: Vec<Vec<Return>>,
    /// Offsets in the result whose bounds the function knows more precisely
    /// than a lookup of the returned pointer would.
    useful: Vec<FxHashSet<u32>>,
    /// Offsets in the result whose bounds some caller needs.
    returned_bounds: Vec<Vec<u32>>,
    /// The classes of functions that calls through pointers may reach.
    classes: Classes,
    /// The class of each function.
    class_of: Vec<Option<usize>>,
}

/// The functions that calls with bounds enter.
struct Entered {
    /// By number, directly or through a pointer.
    functions: Vec<bool>,
    /// By class, through a pointer.
    classes: Vec<bool>,
}

impl<'n, 'x, 'a> Net<'n, 'x, 'a> {
    fn of(
        module: &Module<'_>,
        summaries: &'n mut [FunctionSummary<'x, 'a>],
        numbers: &FxHashMap<&str, usize>,
    ) -> Self {
        let mentioned = mentioned(module);
        let classes = Self::classes(summaries, &mentioned, numbers);
        let mut class_of = vec![None; summaries.len()];
        for (class, members) in classes.list.iter().map(|c| &c.members).enumerate() {
            members.iter().for_each(|&m| class_of[m] = Some(class));
        }
        let mut exposed: Vec<bool> = summaries
            .iter()
            .map(|summary| {
                summary.function.linkage != Linkage::Local
                    || mentioned.contains(summary.function.name)
            })
            .collect();
        let mut sequences = Vec::with_capacity(summaries.len());
        let mut unknown = classes.unknown.clone();
        for (number, summary) in summaries.iter().enumerate() {
            let mut own = Vec::new();
            let mentions = calls::mentions(&summary.analysis);
            let mut through = classes.calls[number].iter().peekable();
            for (index, inst) in summary.analysis.code.instructions.iter().enumerate() {
                let class = through.next_if(|(at, _)| *at == index).map(|&(_, c)| c);
                let callee = match class {
                    Some(class) => Some(classes.list[class as usize].members[0]),
                    None => inst
                        .instruction
                        .called_function()
                        .and_then(|(_, name)| numbers.get(name).copied()),
                };
                let Some(callee) = callee else { continue };
                let about = (callee, summaries[callee].function);
                let class = class.map(|class| (class, &classes.list[class as usize].signature));
                match calls::sequence(&summary.analysis, &mentions, index, about, class) {
                    Some(sequence) => own.push(sequence),
                    None if class.is_some() => unknown[number] += 1,
                    None => exposed[callee] = true,
                }
            }
            sequences.push(own);
        }
        for (summary, unknown) in summaries.iter_mut().zip(unknown) {
            summary.plan.coverage.calls_without_bounds = unknown;
        }
        let returns = summaries
            .iter()
            .map(|summary| match summary.function.is_entry {
                true => Vec::new(),
                false => returns(&summary.analysis),
            })
            .collect();
        Net {
            sequences,
            exposed,
            returns,
            useful: vec![FxHashSet::default(); summaries.len()],
            returned_bounds: vec![Vec::new(); summaries.len()],
            classes,
            class_of,
            summaries,
        }
    }

    /// The classes of functions whose address is taken, by their signature;
    /// none if the module has no checks.
    fn classes(
        summaries: &[FunctionSummary<'x, 'a>],
        mentioned: &FxHashSet<&str>,
        numbers: &FxHashMap<&str, usize>,
    ) -> Classes {
        let functions: Vec<_> = summaries
            .iter()
            .map(|p| (p.function, &p.analysis))
            .collect();
        let is_checked = summaries.iter().any(|summary| !summary.plan.is_empty());
        let is_candidate = |number: usize| {
            let function: &Function<'_> = functions[number].0;
            is_checked && !function.is_entry && mentioned.contains(function.name)
        };
        Classes::of(&functions, is_candidate, |name| numbers.get(name).copied())
    }

    /// All functions that calls of this function, or of its class, may reach.
    fn alike(&self, number: usize) -> Vec<usize> {
        match self.class_of[number] {
            Some(class) => self.classes.list[class].members.clone(),
            None => vec![number],
        }
    }

    /// Whether a function, and each of its class, has the bounds of the pointer
    /// that it returns at an offset.
    fn can_return(&self, number: usize, offset: u32) -> bool {
        let returns = |number: usize| self.returns[number].iter().any(|r| r.offset == offset);
        self.alike(number).into_iter().all(returns)
    }

    /// The functions of a class take the bounds of the same parameters, in the
    /// same order, and return those of the same results.
    fn align_classes(&mut self) {
        for class in &self.classes.list {
            let mut roots: Vec<u32> = Vec::new();
            let mut useful: FxHashSet<u32> = FxHashSet::default();
            for &member in &class.members {
                let own = self.summaries[member].plan.roots.iter();
                let new: Vec<u32> = own.copied().filter(|o| !roots.contains(o)).collect();
                roots.extend(new);
                useful.extend(&self.useful[member]);
            }
            for &member in &class.members {
                self.summaries[member].plan.roots.clone_from(&roots);
                self.useful[member].clone_from(&useful);
            }
        }
    }

    /// Finds the results whose bounds are worth returning.
    fn find_useful(&mut self) {
        loop {
            let mut changed = false;
            for number in 0..self.summaries.len() {
                for index in 0..self.returns[number].len() {
                    let Return { offset, stored } = self.returns[number][index];
                    if !self.useful[number].contains(&offset)
                        && self.is_useful(number, stored)
                        && self.can_return(number, offset)
                    {
                        self.useful[number].insert(offset);
                        changed = true;
                    }
                }
            }
            if !changed {
                return;
            }
        }
    }

    fn is_useful(&self, number: usize, stored: Stored) -> bool {
        let provenance = &self.summaries[number].analysis.provenance;
        let Some(value) = stored.value else {
            return false;
        };
        match provenance.origin(value) {
            Origin::Several { .. } => true,
            Origin::Pointer { root, .. } => match provenance.root(root) {
                Some(Root::Lookup { value }) => self.sequences[number].iter().any(|sequence| {
                    let mut results = sequence.results.iter();
                    results.any(|&(offset, result)| {
                        let callees = self.alike(sequence.callee);
                        let is_useful = |&callee: &usize| self.useful[callee].contains(&offset);
                        result == value && callees.iter().any(is_useful)
                    })
                }),
                Some(
                    Root::Shared | Root::Local | Root::Const | Root::ParameterWindow | Root::System,
                )
                | None => false,
                Some(_) => true,
            },
            _ => false,
        }
    }

    /// Propagates demands over every call once. Returns whether there were new
    /// ones.
    fn demand(&mut self) -> bool {
        let mut changed = false;
        for number in 0..self.summaries.len() {
            let mut index = 0;
            while index < self.sequences[number].len() {
                let count = self.sequences[number].len();
                changed |= self.demand_arguments(number, index);
                if self.sequences[number].len() < count {
                    // The call was removed; the next one has its index.
                    continue;
                }
                changed |= self.demand_results(number, index);
                index += 1;
            }
        }
        changed
    }

    /// If the callee needs the bounds of an argument, so does the caller.
    fn demand_arguments(&mut self, caller: usize, index: usize) -> bool {
        let mut changed = false;
        let callee = self.sequences[caller][index].callee;
        loop {
            let sequence = &mut self.sequences[caller][index];
            let wanted = &self.summaries[callee].plan.roots;
            let Some(&offset) = wanted.get(sequence.call.passed.len()) else {
                return changed;
            };
            let argument = sequence.arguments.iter().find(|(at, _)| *at == offset);
            let Some(&(_, stored)) = argument else {
                // The argument is stored in pieces.
                let through = self.sequences[caller].remove(index).call.through;
                self.summaries[caller].plan.coverage.calls_without_bounds +=
                    u32::from(through.is_some());
                self.exposed[callee] = true;
                return true;
            };
            sequence.call.passed.push(stored);
            if let Some(value) = stored.value {
                self.need(caller, value);
            }
            changed = true;
        }
    }

    /// If the caller needs the bounds of a result, the callee returns them.
    fn demand_results(&mut self, caller: usize, index: usize) -> bool {
        let sequence = &self.sequences[caller][index];
        if !sequence.is_result_followed {
            return false;
        }
        let callee = sequence.callee;
        let plan = &self.summaries[caller].plan;
        let provenance = &self.summaries[caller].analysis.provenance;
        let wanted = |value: ValueId| {
            let is_it = |root: &RootId| provenance.root(*root) == Some(Root::Lookup { value });
            plan.needed.iter().any(is_it)
        };
        let new: Vec<u32> = sequence
            .results
            .iter()
            .filter(|(offset, value)| {
                self.useful[callee].contains(offset)
                    && !self.returned_bounds[callee].contains(offset)
                    && wanted(*value)
            })
            .map(|(offset, _)| *offset)
            .collect();
        for &offset in &new {
            if self.returned_bounds[callee].contains(&offset) {
                continue;
            }
            for callee in self.alike(callee) {
                self.returned_bounds[callee].push(offset);
                for at in 0..self.returns[callee].len() {
                    let returned = self.returns[callee][at];
                    if let (true, Some(value)) = (returned.offset == offset, returned.stored.value)
                    {
                        self.need(callee, value);
                    }
                }
            }
        }
        !new.is_empty()
    }

    fn need(&mut self, number: usize, value: ValueId) {
        let FunctionSummary {
            analysis,
            nameable,
            plan,
            ..
        } = &mut self.summaries[number];
        let known = plan.roots.len();
        plan.need_value(About { analysis, nameable }, value);
        // All functions of a class take the same bounds, each once. The
        // function may already take these because another one of its class
        // needs them.
        let new = plan.roots.split_off(known);
        for offset in new {
            if !self.summaries[number].plan.roots.contains(&offset) {
                for other in self.alike(number) {
                    self.summaries[other].plan.roots.push(offset);
                }
            }
        }
    }

    /// Writes the results into the plans.
    fn settle(mut self) -> Vec<Dispatch<'a>> {
        self.drop_what_is_not_followed();
        let entered = self.entered();
        let copies = self.copies(&entered);
        for class in self.entered_classes(&entered) {
            for &member in &self.classes.list[class].members {
                self.summaries[member].plan.takes_called = copies[member];
            }
        }
        self.plan_calls(&entered, &copies);
        self.dispatches(&entered)
    }

    /// Drops calls whose results are not followed: bounds would change the
    /// result's type.
    fn drop_what_is_not_followed(&mut self) {
        for (number, own) in self.sequences.iter_mut().enumerate() {
            let (returned_bounds, exposed) = (&self.returned_bounds, &mut self.exposed);
            let without = &mut self.summaries[number].plan.coverage.calls_without_bounds;
            own.retain(|sequence| {
                let stays =
                    returned_bounds[sequence.callee].is_empty() || sequence.is_result_followed;
                exposed[sequence.callee] |= !stays;
                *without += u32::from(!stays && sequence.call.through.is_some());
                stays
            });
        }
    }

    /// The functions that calls with bounds enter.
    fn entered(&self) -> Entered {
        let mut entered = Entered {
            functions: vec![false; self.summaries.len()],
            classes: vec![false; self.classes.list.len()],
        };
        for sequence in self.sequences.iter().flatten() {
            entered.functions[sequence.callee] = true;
            if let Some(through) = &sequence.call.through {
                entered.classes[through.class as usize] = true;
            }
        }
        for class in self.entered_classes(&entered) {
            let members = self.classes.list[class].members.iter();
            members.for_each(|&m| entered.functions[m] = true);
        }
        entered
    }

    fn entered_classes(&self, entered: &Entered) -> Vec<usize> {
        let classes = 0..self.classes.list.len();
        classes.filter(|&class| entered.classes[class]).collect()
    }

    /// Which functions get a checked copy: those with checks, and those that
    /// call such functions.
    fn copies(&self, entered: &Entered) -> Vec<bool> {
        let called = &entered.functions;
        let mut copies: Vec<bool> = (0..self.summaries.len())
            .map(|number| {
                let summary = &self.summaries[number];
                called[number] && (summary.changes() || !self.returned_bounds[number].is_empty())
            })
            .collect();
        loop {
            let more: Vec<usize> = (0..copies.len())
                .filter(|&number| called[number] && !copies[number])
                .filter(|&number| {
                    let mut own = self.sequences[number].iter();
                    own.any(|sequence| copies[sequence.callee])
                })
                .collect();
            let before = copies.iter().filter(|&&has| has).count();
            more.into_iter().for_each(|number| copies[number] = true);
            for class in self.entered_classes(entered) {
                let members = &self.classes.list[class].members;
                let has_copies = members.iter().any(|&m| copies[m]);
                members.iter().for_each(|&m| copies[m] |= has_copies);
            }
            if copies.iter().filter(|&&has| has).count() == before {
                return copies;
            }
        }
    }

    /// Writes into each plan which calls go to copies, and which bounds the
    /// copies return.
    fn plan_calls(&mut self, entered: &Entered, copies: &[bool]) {
        let takes_called: Vec<bool> = self.summaries.iter().map(|p| p.plan.takes_called).collect();
        let returned_bounds: Vec<ReturnedBounds> = (0..self.summaries.len())
            .map(|number| self.returned_bounds(number))
            .collect();
        let sequences = std::mem::take(&mut self.sequences);
        for (number, own) in sequences.into_iter().enumerate() {
            let summary = &mut self.summaries[number];
            summary.has_copy = copies[number];
            summary.is_checked_in_place =
                !summary.function.is_entry && (self.exposed[number] || !entered.functions[number]);
            for sequence in own {
                if !copies[sequence.callee] {
                    continue;
                }
                let returned = &returned_bounds[sequence.callee];
                let call = summary.plan.calls.len() as u32;
                for &(offset, value) in &sequence.results {
                    if let Some(at) = returned.place(offset) {
                        summary
                            .plan
                            .result_bounds
                            .insert(value, ResultBounds { call, at });
                    }
                }
                summary.plan.calls.push(Call {
                    result_bytes: returned.bytes(),
                    takes_called: takes_called[sequence.callee],
                    ..sequence.call
                });
            }
        }
        for (summary, returned_bounds) in self.summaries.iter_mut().zip(returned_bounds) {
            summary.plan.returned_bounds = returned_bounds;
        }
    }

    /// The dispatch functions for calls through pointers.
    fn dispatches(self, entered: &Entered) -> Vec<Dispatch<'a>> {
        let summaries = &*self.summaries;
        let reached = (0..).zip(self.classes.list).zip(&entered.classes);
        reached
            .filter(|((_, class), reached)| **reached && summaries[class.members[0]].has_copy)
            .map(|((number, class), _)| {
                let Plan {
                    returned_bounds, ..
                } = &summaries[class.members[0]].plan;
                let places = returned_bounds.offsets.iter();
                Dispatch {
                    number,
                    signature: class.signature,
                    names: class
                        .members
                        .iter()
                        .map(|&m| summaries[m].function.name)
                        .collect(),
                    takes: launch_size(&summaries[class.members[0]].plan),
                    returned: (
                        places
                            .filter_map(|&o| Some((o, returned_bounds.place(o)?)))
                            .collect(),
                        returned_bounds.bytes(),
                    ),
                }
            })
            .collect()
    }

    fn returned_bounds(&self, number: usize) -> ReturnedBounds {
        let offsets = self.returned_bounds[number].clone();
        let stores = self.returns[number]
            .iter()
            .filter(|returned| offsets.contains(&returned.offset))
            .copied()
            .collect();
        let returned = self.summaries[number].function.returns.first();
        let bytes = returned.and_then(ptx::Variable::size).unwrap_or(0);
        ReturnedBounds {
            offsets,
            from: u32::try_from(bytes.next_multiple_of(8)).unwrap_or(u32::MAX),
            stores,
        }
    }
}
