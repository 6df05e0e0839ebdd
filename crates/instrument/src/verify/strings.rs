//! Holds calls of `printf` to the checks of the strings that they read: each
//! string was read within bounds of one thing, as far as the call may read it,
//! and where it left them, the call gets an empty one, and the program its
//! argument back.

use super::Errors;
use super::accesses::host_knows;
use super::checks::{Input, State, Text, integer, name};
use super::extents::{Extent, Owed, of_address};
use super::lookups::Found;
use super::written::number;
use crate::protocol::family::{CUT, TEXT};
use crate::protocol::register::{
    ADDRESS, OFFSET as ANSWER, RECORD_BASE, RECORD_SIZE, SITE, WEAK_BASE, WEAK_SIZE,
};
use crate::protocol::{self, NAME_PREFIX, REGISTER_PREFIX};
use analysis::{Argument, Reference, Referent, Role, printing};
use model::layout::READ_SINK;
use model::printf::Most;
use ptx::{Instruction, Mnemonic, Modifier, OperandKind, Span};
use rustc_hash::{FxHashMap, FxHashSet};

/// A place in the arguments: the register with their address, and bytes.
type Place = (Text, i64);

/// The state of check code for the strings of the next call.
#[derive(Default)]
pub(super) struct Strings {
    /// Pointers that were set to zero.
    zeroed: FxHashSet<Text>,
    /// Pointers, by where they were loaded from, and under which guard.
    loaded: FxHashMap<Text, (Place, Option<Text>)>,
    /// What is passed next, by parameter.
    passed: FxHashMap<Text, Text>,
    /// What the last question was about: pointer, base, size, most.
    asked: Option<([Text; 4], Option<Found>)>,
    /// And the answer was loaded.
    is_answered: bool,
    /// By predicate.
    cuts: FxHashMap<Text, Cut>,
    /// The predicate of the verdict that was just made: the answer and the bounds
    /// that it is about are still in their registers.
    current: Option<Text>,
}

/// The verdict on one string.
struct Cut {
    name: Text,
    asked: [Text; 4],
    /// The guard without which it is none.
    under: Option<Text>,
    /// What was looked up for it.
    found: Option<Found>,
    site: Option<u32>,
    keeps_address: bool,
    record: (Option<Text>, Option<Text>),
    /// The argument was replaced, and is not back yet.
    is_away: bool,
    /// A string of a call goes by it.
    is_used: bool,
    span: Span,
}

impl Strings {
    /// Whether arguments are not yet what the program made them.
    fn are_away(&self) -> bool {
        self.cuts.values().any(|cut| cut.is_away)
    }

    /// A register gets another pointer: what was found out is not about that.
    fn points_elsewhere(&mut self, register: &str) {
        self.loaded.remove(register);
        self.zeroed.remove(register);
        self.asked
            .take_if(|(asked, _)| asked.iter().any(|name| name == register));
        self.cuts.retain(|_, cut| cut.asked[0] != register);
    }

    /// Check code that is not about the last verdict, or the program's code.
    pub(super) fn goes_on(&mut self) {
        self.current = None;
    }

    /// Ends what is known of strings: arguments must be back, and each verdict
    /// must have been of some use.
    pub(super) fn end(&mut self, span: Span, errors: &mut Errors<'_>) {
        if self.are_away() {
            errors.at(span, "an argument of `printf` was not put back");
        }
        for cut in self.cuts.values().filter(|cut| !cut.is_used) {
            errors.at(cut.span, "a string is checked that no call reads");
        }
        *self = Strings::default();
    }

    /// A scope of check code begins or ends: what was asked there must have been
    /// answered there.
    pub(super) fn scope(&mut self) {
        if !self.is_answered {
            self.asked = None;
        }
        self.passed.clear();
    }

    /// Whether a parameter takes what the next call is asked.
    pub(super) fn takes(&self, parameter: &str) -> bool {
        self.passed.contains_key(parameter)
    }

    /// Notes what a string that leaves its bounds keeps for the record; whether
    /// a predicate is of one.
    pub(super) fn keeps(
        &mut self,
        predicate: &str,
        instruction: &Instruction<'_>,
        first: &str,
        value: &str,
    ) -> bool {
        let is_current = self.current.as_deref() == Some(predicate);
        let Some(cut) = self.cuts.get_mut(predicate).filter(|_| is_current) else {
            return false;
        };
        match (instruction.opcode.text, first) {
            ("mov.u32", SITE) => {
                let site = integer(instruction, 1).and_then(|site| u32::try_from(site).ok());
                cut.site = site.filter(|&site| site > 0);
            }
            ("mov.b64", ADDRESS) => cut.keeps_address = value == ANSWER,
            ("mov.b64", RECORD_BASE) => cut.record.0 = Some(value.to_owned()),
            ("mov.b64", RECORD_SIZE) => cut.record.1 = Some(value.to_owned()),
            _ => return false,
        }
        true
    }
}
/// The answer of a string that stays within its bounds.
const NONE_OUTSIDE: u64 = u64::MAX;

fn place(instruction: &Instruction<'_>, operand: usize) -> Option<(Text, i64)> {
    match instruction.operands.get(operand).map(|o| &o.kind) {
        Some(OperandKind::Address(address)) => Some((address.base?.to_owned(), address.offset)),
        _ => None,
    }
}

impl State {
    /// The place among the program's arguments that an operand names.
    fn argument(&self, instruction: &Instruction<'_>, operand: usize) -> Option<Place> {
        let (base, offset) = place(instruction, operand)?;
        let is_own = base.starts_with(REGISTER_PREFIX) || base.contains(NAME_PREFIX);
        (!is_own).then(|| (self.resolve(&base), offset))
    }

    /// Follows an instruction of check code that is about a string; whether it
    /// is nothing else.
    pub(super) fn string_code(&mut self, instruction: &Instruction<'_>, first: &str) -> bool {
        let guard = self.guard_of(instruction);
        let is_pointer = number(first, TEXT).is_some();
        let is_about_current = guard.is_some() && guard == self.strings.current;
        if !is_about_current {
            self.strings.goes_on();
        }
        match instruction.opcode.text {
            "mov.b64" if is_pointer => {
                let is_zero = guard.is_none()
                    && self.text(instruction, 1) == "0"
                    && self.string_changes(first);
                if is_zero {
                    self.strings.zeroed.insert(first.to_owned());
                }
                is_zero
            }
            "ld.b64" if is_pointer => {
                let Some(place) = self.argument(instruction, 1) else {
                    return false;
                };
                let is_zeroed = self.strings.zeroed.contains(first);
                if !self.string_changes(first) {
                    return false;
                }
                // Without a value where the guard does not hold, it is none.
                if guard.is_none() || is_zeroed {
                    let loaded = &mut self.strings.loaded;
                    loaded.insert(first.to_owned(), (place, guard));
                }
                true
            }
            "st.param.b64" => {
                if let Some((to, 0)) = place(instruction, 0)
                    && to.starts_with(NAME_PREFIX)
                {
                    let value = self.constant(self.text(instruction, 1));
                    self.strings.passed.remove(&to);
                    let is_passed = guard.is_none();
                    let passed = is_passed.then_some((to, value));
                    self.strings.passed.extend(passed);
                }
                false
            }
            "call" => {
                let passed = std::mem::take(&mut self.strings.passed);
                self.strings.asked = None;
                self.strings.is_answered = false;
                if name(instruction, 1) != Some(protocol::TEXT) || guard.is_some() {
                    return false;
                }
                let names = ["0", "1", "2", "3"].map(|n| format!("__ringfence_{n}"));
                let in_order = super::calls::list(instruction, 2) == names
                    && super::calls::list(instruction, 0) == ["__ringfence_4"];
                let [Some(pointer), Some(base), Some(size), Some(most)] =
                    names.each_ref().map(|name| passed.get(name).cloned())
                else {
                    return false;
                };
                if in_order {
                    let found = self.found.clone().filter(|_| base == WEAK_BASE);
                    self.strings.asked = Some(([pointer, base, size, most], found));
                }
                in_order
            }
            "ld.param.b64" if first == ANSWER => {
                self.distance = None;
                self.strings.is_answered = guard.is_none()
                    && self.strings.asked.is_some()
                    && place(instruction, 1) == Some(("__ringfence_4".to_owned(), 0));
                self.strings.is_answered
            }
            "setp.ne.s64" | "setp.ne.and.s64" if number(first, CUT).is_some() => {
                self.cut(instruction, first)
            }
            "st.b64" => self.replaced(instruction).is_some(),
            _ => false,
        }
    }

    /// Follows the comparison of an answer, which makes a verdict; whether it is
    /// right.
    fn cut(&mut self, instruction: &Instruction<'_>, first: &str) -> bool {
        let is_answer = name(instruction, 1) == Some(ANSWER)
            && self.text(instruction, 2) == NONE_OUTSIDE.to_string()
            && self.strings.is_answered
            && instruction.guard.is_none();
        let under = instruction
            .operands
            .get(3)
            .map(|_| self.text(instruction, 3));
        // The arguments that it replaced must be put back by it.
        let old = self.strings.cuts.remove(first);
        let is_free = old.is_none_or(|old| !old.is_away && old.is_used);
        let is_answer = is_answer && is_free;
        if let (true, Some((asked, found))) = (is_answer, self.strings.asked.take()) {
            let cut = Cut {
                name: first.to_owned(),
                asked,
                under,
                found,
                site: None,
                keeps_address: false,
                record: (None, None),
                is_away: false,
                is_used: false,
                span: instruction.span,
            };
            self.strings.cuts.insert(first.to_owned(), cut);
            self.strings.current = Some(first.to_owned());
            return true;
        }
        false
    }

    /// A register gets another string's address. It may not while the argument
    /// that it is to be put back into is away.
    fn string_changes(&mut self, register: &str) -> bool {
        let mut cuts = self.strings.cuts.values();
        if cuts.any(|cut| cut.is_away && cut.asked[0] == register) {
            return false;
        }
        self.strings.points_elsewhere(register);
        self.found.take_if(|found| found.pointer == register);
        true
    }

    /// Follows a store of check code to the program's arguments: of the address
    /// of an empty string, or of what was there.
    fn replaced(&mut self, instruction: &Instruction<'_>) -> Option<()> {
        let place = self.argument(instruction, 0)?;
        let value = self.text(instruction, 1);
        let guard = self.guard_of(instruction)?;
        let cut = self.strings.cuts.get_mut(&guard)?;
        let pointer = &cut.asked[0];
        let (from, _) = self.strings.loaded.get(pointer)?;
        let is_back = cut.is_away && value == *pointer;
        let is_replaced = !cut.is_away && !cut.is_used && value == READ_SINK.to_string();
        if *from != place || !(is_back || is_replaced) {
            return None;
        }
        cut.is_away = is_replaced;
        Some(())
    }

    /// Holds an instruction of the program's to the checks of the strings that
    /// it prints.
    pub(super) fn program_strings(
        &mut self,
        old: &Instruction<'_>,
        new: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let mnemonic = old.opcode.mnemonic();
        if matches!(mnemonic, Mnemonic::St | Mnemonic::Ld) && old.opcode.has(Modifier::Param) {
            // They belong to the call, unless they move the arguments.
            let written = self.written_by(old);
            let places = self.strings.loaded.values().map(|((base, _), _)| base);
            if places.into_iter().any(|base| written.contains(base)) {
                self.strings.end(new.span, errors);
            }
            return;
        }
        let print = (mnemonic == Mnemonic::Call)
            .then(|| input.index.get(&old.span.start))
            .flatten()
            .and_then(|&index| printing(input.analysis, input.symbols, input.texts, index))
            .and_then(|printing| printing.print)
            // Only accesses of the kernel's own have a shadow.
            .filter(|_| input.shadow.is_none());
        let Some(print) = print else {
            self.strings.end(new.span, errors);
            return;
        };
        let store = input.analysis.code.instructions[print.buffer as usize].instruction;
        let buffer = name(store, 1).map(|name| self.resolve(name));
        for argument in &print.strings {
            let Some(owed) = owed(argument, input) else {
                continue;
            };
            self.sites += 1;
            self.reports.has_checks = true;
            self.reports.needs_bounds |= owed.in_doubt || !host_knows(owed.extent, input);
            if !self.is_checked(argument, owed, buffer.as_ref(), (old, input)) {
                errors.at(
                    new.span,
                    format!(
                        "the string at {} of the arguments of `printf` is not checked",
                        argument.at
                    ),
                );
            }
        }
    }

    fn is_checked(
        &mut self,
        argument: &Argument,
        owed: Owed,
        buffer: Option<&Text>,
        (old, input): (&Instruction<'_>, &Input<'_, '_, '_>),
    ) -> bool {
        let cuts: Vec<Text> = self.strings.cuts.keys().cloned().collect();
        let mut cuts = cuts.into_iter();
        cuts.any(|cut| {
            let Some(cut) = self.strings.cuts.remove(&cut) else {
                return false;
            };
            let fits = self.is_cut_of(&cut, argument, buffer, old)
                && cut.site == Some(self.site_now())
                && self.is_cut_checked(&cut, owed, input);
            let is_used = cut.is_used || fits;
            let cut = Cut { is_used, ..cut };
            self.strings.cuts.insert(cut.name.clone(), cut);
            fits
        })
    }

    /// Whether a verdict is about a string, and about all of it.
    fn is_cut_of(
        &self,
        cut: &Cut,
        argument: &Argument,
        buffer: Option<&Text>,
        old: &Instruction<'_>,
    ) -> bool {
        let [pointer, base, size, most] = &cut.asked;
        let Some(buffer) = buffer else { return false };
        let expected = match argument.most {
            Most::All => i64::MAX.to_string(),
            Most::Bytes(bytes) => bytes.min(i64::MAX as u64).to_string(),
        };
        let place = (buffer.clone(), i64::from(argument.at));
        let loaded = self.strings.loaded.get(pointer);
        loaded.is_some_and(|(from, guard)| *from == place && *guard == self.guard_of(old))
            && *most == expected
            && cut.under == self.guard_of(old)
            && cut.keeps_address
            && cut.record.0.as_ref() == Some(base)
            && cut.record.1.as_ref() == Some(size)
            && cut.is_away
            && !cut.is_used
    }

    /// Whether a verdict is about the bounds of what the string is derived from.
    fn is_cut_checked(&mut self, cut: &Cut, owed: Owed, input: &Input<'_, '_, '_>) -> bool {
        let [pointer, base, size, _] = &cut.asked;
        let is_found = (base.as_str(), size.as_str()) == (WEAK_BASE, WEAK_SIZE);
        let found = cut
            .found
            .as_ref()
            .filter(|f| f.pointer == *pointer && f.low == 0);
        match (owed.extent, found) {
            (Extent::Found, found) => is_found && found.is_some_and(|f| f.instead_of.is_none()),
            (extent, Some(found)) if owed.in_doubt => {
                let instead_of = found.instead_of.clone();
                is_found
                    && instead_of
                        .is_some_and(|(base, size)| self.are_bounds(extent, (&base, &size), input))
            }
            (extent, _) => !owed.in_doubt && self.are_whole_bounds(extent, (base, size), input),
        }
    }
}

/// The bounds of a string; `None` if it lies where nothing is protected.
fn owed(argument: &Argument, input: &Input<'_, '_, '_>) -> Option<Owed> {
    let Some((register, value)) = argument.pointer else {
        return Some(Owed {
            extent: Extent::Found,
            in_doubt: false,
        });
    };
    let reference = Reference {
        operand: 0,
        element: 0,
        role: Role::Read,
        referent: Referent::Wide(register),
        value,
    };
    of_address(input, &reference, true)
}
