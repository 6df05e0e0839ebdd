//! Decides which functions get a checked copy, and whose bounds go with
//! their calls: those of arguments that the callee holds accesses to, or
//! passes on, and those of results that the caller holds accesses to (cuCatch,
//! section 4). Over the whole call graph, to a fixed point.
//!
//! A function that can be entered in another way than by a call that is
//! understood (its address is taken, other files see it) is checked in place,
//! too: there it looks the pointers in its parameters up. Functions that one
//! call through a pointer may reach need, take and give the same
//! (`indirect.rs`).

use super::calls::{self, Sequence};
use super::demand::About;
use super::indirect::Classes;
use super::launch_size;
use super::plan::{Call, Gives, Plan, Received};
use crate::device_heap::HeapCall;
use crate::parameters::ParameterSlot;
use crate::support::Dispatch;
use analysis::{Analysis, Nameable, Origin, Return, Root, RootId, Stored, ValueId};
use analysis::{mentioned, returns};
use ptx::{Function, Linkage, Module};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// A function with a body, and what becomes of it.
pub(super) struct Party<'x, 'a> {
    pub(super) function: &'x Function<'a>,
    pub(super) analysis: Analysis<'x, 'a>,
    pub(super) nameable: Nameable<'x, 'a>,
    pub(super) plan: Plan,
    pub(super) heap_calls: Vec<HeapCall>,
    /// Its sites, as indices.
    pub(super) sites: Range<usize>,
    pub(super) slots: Vec<ParameterSlot>,
    pub(super) parameter_bytes: u32,
    /// The function itself carries checks. (An entry never does.)
    pub(super) is_checked_in_place: bool,
    /// There is a checked copy.
    pub(super) has_copy: bool,
}

impl Party<'_, '_> {
    /// Whether anything in its text has to change.
    pub(super) fn changes(&self) -> bool {
        !self.plan.is_empty() || !self.plan.calls.is_empty() || !self.heap_calls.is_empty()
    }
}

/// Connects the functions of a module. Answers what calls through pointers go
/// to.
pub(super) fn connect<'a>(module: &Module<'a>, parties: &mut [Party<'_, 'a>]) -> Vec<Dispatch<'a>> {
    let numbers: FxHashMap<&str, usize> = parties
        .iter()
        .enumerate()
        .filter(|(_, party)| !party.function.is_entry)
        .map(|(number, party)| (party.function.name, number))
        .collect();
    if numbers.is_empty() {
        return Vec::new();
    }
    let mut net = Net::of(module, parties, &numbers);
    net.find_useful();
    net.align_classes();
    while net.demand() {}
    net.settle()
}

struct Net<'n, 'x, 'a> {
    parties: &'n mut [Party<'x, 'a>],
    /// The calls of each that are understood, in order.
    sequences: Vec<Vec<Sequence>>,
    /// May be entered without bounds.
    exposed: Vec<bool>,
    returns: Vec<Vec<Return>>,
    /// Places in the result whose bounds the function knows better than a
    /// lookup of what it returns would.
    useful: Vec<FxHashSet<u32>>,
    /// Places in the result whose bounds some caller wants.
    gives: Vec<Vec<u32>>,
    /// What calls through pointers may reach.
    classes: Classes,
    /// The class that each is of.
    class_of: Vec<Option<usize>>,
}

impl<'n, 'x, 'a> Net<'n, 'x, 'a> {
    fn of(
        module: &Module<'_>,
        parties: &'n mut [Party<'x, 'a>],
        numbers: &FxHashMap<&str, usize>,
    ) -> Self {
        let mentioned = mentioned(module);
        let classes = Self::classes(parties, &mentioned, numbers);
        let mut class_of = vec![None; parties.len()];
        for (class, members) in classes.list.iter().map(|c| &c.members).enumerate() {
            members.iter().for_each(|&m| class_of[m] = Some(class));
        }
        let mut exposed: Vec<bool> = parties
            .iter()
            .map(|party| {
                party.function.linkage != Linkage::Local || mentioned.contains(party.function.name)
            })
            .collect();
        let mut sequences = Vec::with_capacity(parties.len());
        let mut unknown = classes.unknown.clone();
        for (number, party) in parties.iter().enumerate() {
            let mut own = Vec::new();
            let mentions = calls::mentions(&party.analysis);
            let mut through = classes.calls[number].iter().peekable();
            for (index, inst) in party.analysis.code.instructions.iter().enumerate() {
                let class = through.next_if(|(at, _)| *at == index).map(|&(_, c)| c);
                let callee = match class {
                    Some(class) => Some(classes.list[class as usize].members[0]),
                    None => inst
                        .instruction
                        .called_function()
                        .and_then(|(_, name)| numbers.get(name).copied()),
                };
                let Some(callee) = callee else { continue };
                let about = (callee, parties[callee].function);
                let class = class.map(|class| (class, &classes.list[class as usize].signature));
                match calls::sequence(&party.analysis, &mentions, index, about, class) {
                    Some(sequence) => own.push(sequence),
                    None if class.is_some() => unknown[number] += 1,
                    None => exposed[callee] = true,
                }
            }
            sequences.push(own);
        }
        for (party, unknown) in parties.iter_mut().zip(unknown) {
            party.plan.coverage.calls_without_bounds = unknown;
        }
        let returns = parties
            .iter()
            .map(|party| match party.function.is_entry {
                true => Vec::new(),
                false => returns(&party.analysis),
            })
            .collect();
        Net {
            sequences,
            exposed,
            returns,
            useful: vec![FxHashSet::default(); parties.len()],
            gives: vec![Vec::new(); parties.len()],
            classes,
            class_of,
            parties,
        }
    }

    /// The functions whose address is taken, by what they take and return;
    /// none if nothing is checked.
    fn classes(
        parties: &[Party<'x, 'a>],
        mentioned: &FxHashSet<&str>,
        numbers: &FxHashMap<&str, usize>,
    ) -> Classes {
        let functions: Vec<_> = parties.iter().map(|p| (p.function, &p.analysis)).collect();
        let is_checked = parties.iter().any(|party| !party.plan.is_empty());
        let is_candidate = |number: usize| {
            let function: &Function<'_> = functions[number].0;
            is_checked && !function.is_entry && mentioned.contains(function.name)
        };
        Classes::of(&functions, is_candidate, |name| numbers.get(name).copied())
    }

    /// All that calls of this function, and of those of its class, may reach.
    fn alike(&self, number: usize) -> Vec<usize> {
        match self.class_of[number] {
            Some(class) => self.classes.list[class].members.clone(),
            None => vec![number],
        }
    }

    /// Whether a function, and each of its class, has the bounds of what it
    /// returns at a place.
    fn can_give(&self, number: usize, offset: u32) -> bool {
        let returns = |number: usize| self.returns[number].iter().any(|r| r.offset == offset);
        self.alike(number).into_iter().all(returns)
    }

    /// The functions of a class take the bounds of the same parameters, in the
    /// same order, and give those of the same results.
    fn align_classes(&mut self) {
        for class in &self.classes.list {
            let mut roots: Vec<u32> = Vec::new();
            let mut useful: FxHashSet<u32> = FxHashSet::default();
            for &member in &class.members {
                let own = self.parties[member].plan.roots.iter();
                let new: Vec<u32> = own.copied().filter(|o| !roots.contains(o)).collect();
                roots.extend(new);
                useful.extend(&self.useful[member]);
            }
            for &member in &class.members {
                self.parties[member].plan.roots.clone_from(&roots);
                self.useful[member].clone_from(&useful);
            }
        }
    }

    /// Finds the results whose bounds are worth giving.
    fn find_useful(&mut self) {
        loop {
            let mut changed = false;
            for number in 0..self.parties.len() {
                for index in 0..self.returns[number].len() {
                    let Return { offset, stored } = self.returns[number][index];
                    if !self.useful[number].contains(&offset)
                        && self.is_useful(number, stored)
                        && self.can_give(number, offset)
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
        let provenance = &self.parties[number].analysis.provenance;
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

    /// Passes demands over every call once. Whether there were new ones.
    fn demand(&mut self) -> bool {
        let mut changed = false;
        for number in 0..self.parties.len() {
            let mut index = 0;
            while index < self.sequences[number].len() {
                let count = self.sequences[number].len();
                changed |= self.demand_arguments(number, index);
                if self.sequences[number].len() < count {
                    // It is none any more; the next one stands in its place.
                    continue;
                }
                changed |= self.demand_results(number, index);
                index += 1;
            }
        }
        changed
    }

    /// What the callee needs the bounds of, the caller needs them of.
    fn demand_arguments(&mut self, caller: usize, index: usize) -> bool {
        let mut changed = false;
        let callee = self.sequences[caller][index].callee;
        loop {
            let sequence = &mut self.sequences[caller][index];
            let wanted = &self.parties[callee].plan.roots;
            let Some(&offset) = wanted.get(sequence.call.passed.len()) else {
                return changed;
            };
            let argument = sequence.arguments.iter().find(|(at, _)| *at == offset);
            let Some(&(_, stored)) = argument else {
                // It goes in pieces.
                let through = self.sequences[caller].remove(index).call.through;
                self.parties[caller].plan.coverage.calls_without_bounds +=
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

    /// What the caller needs the bounds of, the callee gives them of.
    fn demand_results(&mut self, caller: usize, index: usize) -> bool {
        let sequence = &self.sequences[caller][index];
        if !sequence.is_result_followed {
            return false;
        }
        let callee = sequence.callee;
        let plan = &self.parties[caller].plan;
        let provenance = &self.parties[caller].analysis.provenance;
        let wanted = |value: ValueId| {
            let is_it = |root: &RootId| provenance.root(*root) == Some(Root::Lookup { value });
            plan.needed.iter().any(is_it)
        };
        let new: Vec<u32> = sequence
            .results
            .iter()
            .filter(|(offset, value)| {
                self.useful[callee].contains(offset)
                    && !self.gives[callee].contains(offset)
                    && wanted(*value)
            })
            .map(|(offset, _)| *offset)
            .collect();
        for &offset in &new {
            if self.gives[callee].contains(&offset) {
                continue;
            }
            for callee in self.alike(callee) {
                self.gives[callee].push(offset);
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
        let Party {
            analysis,
            nameable,
            plan,
            ..
        } = &mut self.parties[number];
        let known = plan.roots.len();
        plan.need_value(About { analysis, nameable }, value);
        // All of its class take the same, and each once: it may have taken
        // what another one needs before it needed that itself.
        let new = plan.roots.split_off(known);
        for offset in new {
            if !self.parties[number].plan.roots.contains(&offset) {
                for other in self.alike(number) {
                    self.parties[other].plan.roots.push(offset);
                }
            }
        }
    }

    /// Writes down what was found.
    fn settle(mut self) -> Vec<Dispatch<'a>> {
        // A result that is not followed cannot come back in another form.
        for (number, own) in self.sequences.iter_mut().enumerate() {
            let (gives, exposed) = (&self.gives, &mut self.exposed);
            let without = &mut self.parties[number].plan.coverage.calls_without_bounds;
            own.retain(|sequence| {
                let stays = gives[sequence.callee].is_empty() || sequence.is_result_followed;
                exposed[sequence.callee] |= !stays;
                *without += u32::from(!stays && sequence.call.through.is_some());
                stays
            });
        }
        let mut called = vec![false; self.parties.len()];
        let mut reached = vec![false; self.classes.list.len()];
        for sequence in self.sequences.iter().flatten() {
            called[sequence.callee] = true;
            if let Some(through) = &sequence.call.through {
                reached[through.class as usize] = true;
            }
        }
        for (class, _) in self.classes.list.iter().zip(&reached).filter(|(_, r)| **r) {
            class.members.iter().for_each(|&m| called[m] = true);
        }
        // Copies: of all that carry checks themselves, or call such.
        let mut copies: Vec<bool> = (0..self.parties.len())
            .map(|number| {
                let party = &self.parties[number];
                called[number] && (party.changes() || !self.gives[number].is_empty())
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
            for (class, _) in self.classes.list.iter().zip(&reached).filter(|(_, r)| **r) {
                let has_copies = class.members.iter().any(|&m| copies[m]);
                class.members.iter().for_each(|&m| copies[m] |= has_copies);
            }
            if copies.iter().filter(|&&has| has).count() == before {
                break;
            }
        }
        for (class, _) in self.classes.list.iter().zip(&reached).filter(|(_, r)| **r) {
            for &member in &class.members {
                self.parties[member].plan.takes_called = copies[member];
            }
        }
        let takes_called: Vec<bool> = self.parties.iter().map(|p| p.plan.takes_called).collect();
        let gives: Vec<Gives> = (0..self.parties.len())
            .map(|number| self.given(number))
            .collect();
        for (number, own) in self.sequences.into_iter().enumerate() {
            let party = &mut self.parties[number];
            party.has_copy = copies[number];
            party.is_checked_in_place =
                !party.function.is_entry && (self.exposed[number] || !called[number]);
            for sequence in own {
                if !copies[sequence.callee] {
                    continue;
                }
                let given = &gives[sequence.callee];
                let call = party.plan.calls.len() as u32;
                for &(offset, value) in &sequence.results {
                    if let Some(at) = given.place(offset) {
                        party.plan.received.insert(value, Received { call, at });
                    }
                }
                party.plan.calls.push(Call {
                    result_bytes: given.bytes(),
                    takes_called: takes_called[sequence.callee],
                    ..sequence.call
                });
            }
        }
        for (party, gives) in self.parties.iter_mut().zip(gives) {
            party.plan.gives = gives;
        }
        let parties = &*self.parties;
        let reached = (0..).zip(self.classes.list).zip(reached);
        reached
            .filter(|((_, class), reached)| *reached && parties[class.members[0]].has_copy)
            .map(|((number, class), _)| {
                let Plan { gives, .. } = &parties[class.members[0]].plan;
                let places = gives.offsets.iter();
                Dispatch {
                    number,
                    signature: class.signature,
                    names: class
                        .members
                        .iter()
                        .map(|&m| parties[m].function.name)
                        .collect(),
                    takes: launch_size(&parties[class.members[0]].plan),
                    gives: (
                        places.filter_map(|&o| Some((o, gives.place(o)?))).collect(),
                        gives.bytes(),
                    ),
                }
            })
            .collect()
    }

    fn given(&self, number: usize) -> Gives {
        let offsets = self.gives[number].clone();
        let stores = self.returns[number]
            .iter()
            .filter(|returned| offsets.contains(&returned.offset))
            .copied()
            .collect();
        let returned = self.parties[number].function.returns.first();
        let bytes = returned.and_then(ptx::Variable::size).unwrap_or(0);
        Gives {
            offsets,
            from: u32::try_from(bytes.next_multiple_of(8)).unwrap_or(u32::MAX),
            stores,
        }
    }
}
