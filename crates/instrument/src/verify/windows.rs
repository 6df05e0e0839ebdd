//! Follows the checks of accesses that name a state space with addresses of its
//! own (shared, local, constant, parameters), and verifies these accesses
//! against them.

use super::Errors;
use super::accesses::Subject;
use super::checks::{Input, State, Text, integer, name};
use super::extents::Extent;
use super::verdicts::{Distance, Verdict};
use super::written::{is_own, number};
use crate::protocol::register::{
    BLOCK, DYNAMIC, GENERIC, LIMIT32, OFFSET, OFFSET32, POINTER32, SCRATCH,
};
use ptx::Instruction;
use ptx::table::{Predication, Space};
use rustc_hash::FxHashMap;

/// What is known of the registers that only these checks use.
#[derive(Default)]
pub(super) struct Windows {
    /// Registers that hold the address of a symbol.
    symbols: FxHashMap<Text, Text>,
    /// The program's register whose value a pointer register holds.
    copies: FxHashMap<Text, Text>,
    /// The space whose generic address the pointer was made.
    generic: Option<Text>,
    /// How far a pointer of 32 bits is from a base.
    distance: Option<Distance>,
}

impl Windows {
    /// Scratch registers have other values now.
    pub(super) fn forget(&mut self) {
        *self = Windows::default();
    }

    /// How far a pointer of 32 bits, or an index, is from a base.
    pub(super) fn distance(&self) -> Option<&Distance> {
        self.distance.as_ref()
    }

    /// The symbol whose address a register holds.
    pub(super) fn symbol(&self, register: &str) -> Option<&Text> {
        self.symbols.get(register)
    }
}

impl State {
    /// Follows an instruction of check code if only windows have such.
    pub(super) fn window_code(&mut self, instruction: &Instruction<'_>, first: &str) -> bool {
        if instruction.guard.is_some() {
            return false;
        }
        self.pointer_code(instruction, first) || self.distance_code(instruction, first)
    }

    /// Pointers, as the checks of windows compare them.
    fn pointer_code(&mut self, instruction: &Instruction<'_>, first: &str) -> bool {
        let repeats = name(instruction, 1) == Some(first);
        match (instruction.opcode.text, first) {
            ("mov.u64", SCRATCH) => {
                let Some(symbol) = name(instruction, 1) else {
                    return false;
                };
                self.windows
                    .symbols
                    .insert(first.to_owned(), symbol.to_owned());
                true
            }
            ("cvt.u32.u64", POINTER32) => {
                let from = self.text(instruction, 1);
                self.windows.copies.remove(first);
                self.windows.symbols.remove(first);
                self.windows.distance = None;
                match self.windows.symbols.get(&from).cloned() {
                    Some(symbol) => drop(self.windows.symbols.insert(first.to_owned(), symbol)),
                    None => drop(self.windows.copies.insert(first.to_owned(), from)),
                }
                true
            }
            ("cvt.u64.u32" | "mov.b64", GENERIC) => {
                let from = self.text(instruction, 1);
                self.windows.copies.insert(first.to_owned(), from);
                self.windows.generic = None;
                true
            }
            (opcode, GENERIC) if repeats && self.windows.generic.is_none() => {
                let space = opcode
                    .strip_prefix("cvta.")
                    .and_then(|o| o.strip_suffix(".u64"));
                self.windows.generic = space.map(str::to_owned);
                space.is_some()
            }
            _ => false,
        }
    }

    /// Distances and limits of 32 bits.
    fn distance_code(&mut self, instruction: &Instruction<'_>, first: &str) -> bool {
        let repeats = name(instruction, 1) == Some(first);
        match (instruction.opcode.text, first) {
            ("sub.s32", OFFSET32) => {
                self.windows.distance = Some(Distance {
                    pointer: self.copied(self.text(instruction, 1)),
                    base: self.text(instruction, 2),
                    low: 0,
                    generic: None,
                });
                true
            }
            ("add.s32", OFFSET32) if repeats => {
                match (&mut self.windows.distance, integer(instruction, 2)) {
                    (Some(distance), Some(low)) => {
                        distance.low = distance.low.wrapping_add(low);
                        true
                    }
                    _ => false,
                }
            }
            ("cvt.u64.u32", OFFSET) if name(instruction, 1) == Some(OFFSET32) => {
                self.distance = self.windows.distance.clone();
                true
            }
            ("sub.s64", OFFSET) if name(instruction, 1) == Some(GENERIC) => {
                let pointer = self.windows.copies.get(GENERIC).cloned();
                self.distance = Some(Distance {
                    pointer: pointer.unwrap_or_default(),
                    base: self.text(instruction, 2),
                    low: 0,
                    generic: self.windows.generic.clone(),
                });
                true
            }
            ("max.u32" | "sub.s32", LIMIT32) => {
                self.limit(instruction);
                true
            }
            ("setp.ge.u32" | "setp.ge.and.u32", predicate)
                if name(instruction, 1) == Some(OFFSET32)
                    && number(predicate, crate::protocol::family::KEPT).is_some() =>
            {
                let bound = self.text(instruction, 2);
                let (size, less) = match self.limits.get(&bound) {
                    Some(limit) if !self.half.contains(&bound) => limit.clone(),
                    _ => (bound, 0),
                };
                let guarded = instruction.opcode.text == "setp.ge.and.u32";
                let guards = guarded.then(|| self.text(instruction, 3));
                self.distance = self.windows.distance.clone();
                self.begin(predicate, size, less, guards.into_iter().collect());
                true
            }
            _ => false,
        }
    }

    /// The program's register whose value another holds.
    pub(super) fn copied(&self, register: Text) -> Text {
        match self.windows.copies.get(&register) {
            Some(original) => original.clone(),
            None => register,
        }
    }

    /// The verdicts on the address of an access that names a window.
    pub(super) fn window_verdicts<'s>(
        &'s self,
        subject: &'s Subject<'_, '_>,
    ) -> impl Iterator<Item = Text> + 's {
        let is_left_out = subject
            .new
            .guard
            .is_some_and(|guard| is_own(guard.register));
        let names: Vec<Text> = match is_left_out {
            true => self.skipping_verdicts(subject.old, subject.new),
            false if subject.info.predication == Predication::Never => {
                self.verdicts.keys().cloned().collect()
            }
            false => Vec::new(),
        };
        let is_about = |name: &Text| {
            let verdict = self.verdicts.get(name);
            verdict.is_some_and(|verdict| self.is_about(verdict, subject))
        };
        names.into_iter().filter(is_about)
    }

    /// Holds an access that names a window to its check.
    pub(super) fn access_in_window(
        &mut self,
        subject: &Subject<'_, '_>,
        extent: Extent,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let span = subject.new.span;
        let mut names: Vec<Text> = self.window_verdicts(subject).collect();
        names.sort_unstable();
        // The best first: under the access's guard, and with its site.
        let rank = |name: &Text| match self.verdicts.get(name) {
            Some(verdict) => (
                self.is_under(verdict, subject, input).is_err(),
                verdict.site != Some(self.site_now()),
            ),
            None => (true, true),
        };
        names.sort_by_key(rank);
        let found = names.into_iter().find_map(|name| {
            let verdict = self.verdicts.get(&name)?.clone();
            let declared = self.size_of(&verdict, extent, input);
            let fits = self.covers_bytes(&verdict, subject, declared, input);
            fits.then_some((name, verdict, declared))
        });
        let Some((name, verdict, declared)) = found else {
            return errors.at(
                span,
                "an access in a window without a check of it in this block",
            );
        };
        let completion = super::facts::completion(subject.old);
        if completion.is_some_and(|completion| completion.operand == subject.access.operand) {
            self.predicated_off.of_barrier(&name);
        }
        let (_, offset) = subject.address().unwrap_or(("", 0));
        if !self.is_aligned(&verdict, (offset, subject.index), subject.access, input) {
            errors.at(span, "the check lets misaligned addresses pass");
        }
        let reference = input
            .analysis
            .code
            .address_of(subject.index, subject.access.operand);
        let is_wide = matches!(extent, Extent::Root(root) if input.analysis.place(root).is_some())
            && reference.is_some_and(|reference| input.analysis.is_wide(reference.value));
        let narrow = crate::protocol::family::IN_SPACE;
        if is_wide && number(&verdict.distance.base, narrow).is_some() {
            errors.at(span, "the check compares 32 bits of an address of 64");
        } else if !self.is_held_in_window(&verdict, extent, is_wide, input) {
            errors.at(
                span,
                format!(
                    "`{}` and `{}` are not base and size of one thing, which the address is derived from",
                    verdict.distance.base, verdict.size
                ),
            );
        }
        for register in [DYNAMIC, BLOCK] {
            if verdict.size == register && !self.roots.is_set(register) {
                errors.at(span, format!("`{register}` is not set"));
            }
        }
        self.judge_lanes(&verdict, subject, input, errors);
        self.judge_record((&name, &verdict), subject, (false, declared), input, errors);
    }

    /// Whether a verdict is about the address of an access.
    fn is_about(&self, verdict: &Verdict, subject: &Subject<'_, '_>) -> bool {
        let pointer = &verdict.distance.pointer;
        let original = subject.address().map_or("", |(base, _)| base);
        let holds_symbol = verdict.symbol.as_deref() == Some(original);
        (*pointer == self.resolve(original) || holds_symbol)
            && self.is_generic_of(verdict, subject.access.space)
    }

    /// Whether a generic address was made of the space that an access names, if
    /// one was compared.
    fn is_generic_of(&self, verdict: &Verdict, space: Space) -> bool {
        let families = [
            crate::protocol::family::ROOT_BASE,
            crate::protocol::family::SHADOW_BASE,
        ];
        let base = verdict.distance.base.as_str();
        let is_generic = families.iter().any(|family| number(base, family).is_some())
            || verdict.size.parse() == Ok(model::layout::UNBOUNDED);
        let named = match space {
            Space::Shared => "shared",
            Space::SharedCluster => "shared::cluster",
            Space::Local => "local",
            Space::Const => "const",
            Space::Param => "param",
            _ => return false,
        };
        !is_generic || verdict.distance.generic.as_deref() == Some(named)
    }
}
