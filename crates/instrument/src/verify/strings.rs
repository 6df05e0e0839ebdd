//! Holds calls of `printf` to the checks of the strings that they read: each
//! string was read within bounds of one thing, as far as the call may read it,
//! and where it left them, the call gets an empty one, and the program its
//! argument back.

use super::Errors;
use super::accesses::paired;
use super::checks::{Input, State, Text, name};
use crate::protocol::{self, NAME_PREFIX, REGISTER_PREFIX};
use analysis::{Argument, Origin, Root, ValueId, printing};
use model::layout::READ_SINK;
use ptx::printf::Most;
use ptx::{Instruction, OperandKind};
use rustc_hash::{FxHashMap, FxHashSet};

/// A place in the arguments: the register with their address, and bytes.
type Place = (Text, i64);

/// What check code knows of the strings of the next call.
#[derive(Default)]
pub(super) struct Strings {
    /// Pointers that were set to zero.
    zeroed: FxHashSet<Text>,
    /// Pointers, by where they were loaded from, and under which guard.
    loaded: FxHashMap<Text, (Place, Option<Text>)>,
    /// What is passed next, by parameter.
    passed: FxHashMap<Text, Text>,
    /// What the last question was about: pointer, base, size, most.
    asked: Option<[Text; 4]>,
    /// By predicate.
    cuts: FxHashMap<Text, Cut>,
}

/// The verdict on one string.
struct Cut {
    asked: [Text; 4],
    keeps_site: bool,
    keeps_address: bool,
    /// The argument was replaced.
    is_replaced: bool,
    /// And is not back yet.
    is_away: bool,
}

impl Strings {
    /// Whether arguments are not yet what the program made them.
    fn are_away(&self) -> bool {
        self.cuts.values().any(|cut| cut.is_away)
    }
}

/// The register that holds how much of a string is read at most.
const MOST: &str = "%__rf_u";
/// The register that an answer is in.
const ANSWER: &str = "%__rf_o";

fn place(instruction: &Instruction<'_>, operand: usize) -> Option<(Text, i64)> {
    match instruction.operands.get(operand).map(|o| &o.kind) {
        Some(OperandKind::Address(address)) => Some((address.base?.to_owned(), address.offset)),
        _ => None,
    }
}

/// What a limit is called that was loaded from the arguments.
fn loaded_most(buffer: &str, at: i64, guard: Option<Text>) -> Text {
    format!("[{buffer}+{at}] under {}", guard.unwrap_or_default())
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
        let is_pointer = first.starts_with("%__rf_text");
        match instruction.opcode.text {
            "mov.b64" if is_pointer => {
                let is_zero = guard.is_none() && self.text(instruction, 1) == "0";
                self.strings.loaded.remove(first);
                if is_zero {
                    self.strings.zeroed.insert(first.to_owned());
                }
                is_zero
            }
            "ld.b64" if is_pointer => {
                let Some(place) = self.argument(instruction, 1) else {
                    return false;
                };
                let is_zeroed = self.strings.zeroed.remove(first);
                self.strings.loaded.remove(first);
                // Without a value where the guard does not hold, it is none.
                if guard.is_none() || is_zeroed {
                    let loaded = &mut self.strings.loaded;
                    loaded.insert(first.to_owned(), (place, guard));
                }
                true
            }
            "ld.s32" if first == MOST => {
                let Some((base, at)) = self.argument(instruction, 1) else {
                    return false;
                };
                // Nothing is read where the guard does not hold.
                let is_set = guard.is_none() || self.constant(MOST.to_owned()) == "0";
                if is_set {
                    self.hold(MOST, loaded_most(&base, at, guard));
                }
                is_set
            }
            "st.param.b64" => {
                if let Some((to, 0)) = place(instruction, 0)
                    && to.starts_with(NAME_PREFIX)
                {
                    let value = self.constant(self.text(instruction, 1));
                    self.strings.passed.insert(to, value);
                }
                false
            }
            "call" => {
                let passed = std::mem::take(&mut self.strings.passed);
                self.strings.asked = None;
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
                    self.strings.asked = Some([pointer, base, size, most]);
                }
                in_order
            }
            "ld.param.b64" if first == ANSWER => {
                self.distance = None;
                self.strings.asked.is_some()
                    && place(instruction, 1) == Some(("__ringfence_4".to_owned(), 0))
            }
            "setp.ne.s64" if first.starts_with("%__rf_cut") => {
                let is_answer = name(instruction, 1) == Some(ANSWER)
                    && self.text(instruction, 2) == "0"
                    && guard.is_none();
                self.strings.cuts.remove(first);
                if let (true, Some(asked)) = (is_answer, self.strings.asked.take()) {
                    let cut = Cut {
                        asked,
                        keeps_site: false,
                        keeps_address: false,
                        is_replaced: false,
                        is_away: false,
                    };
                    self.strings.cuts.insert(first.to_owned(), cut);
                }
                true
            }
            "mov.u32" if first == "%__rf_site" => {
                let is_site = super::checks::integer(instruction, 1) > Some(0);
                if let Some(cut) = guard.and_then(|guard| self.strings.cuts.get_mut(&guard)) {
                    cut.keeps_site = is_site;
                }
                false
            }
            "mov.b64" if first == "%__rf_address" => {
                let is_answer = name(instruction, 1) == Some(ANSWER);
                if let Some(cut) = guard.and_then(|guard| self.strings.cuts.get_mut(&guard)) {
                    cut.keeps_address = is_answer;
                }
                false
            }
            "st.b64" => self.replaced(instruction).is_some(),
            _ => false,
        }
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
        let is_back = value == *pointer && cut.is_away;
        if *from != place || !(is_back || value == READ_SINK.to_string()) {
            return None;
        }
        cut.is_replaced |= !is_back;
        cut.is_away = !is_back;
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
        let base = old.opcode.base();
        if matches!(base, "st" | "ld") && old.opcode.has("param") {
            // They belong to the call.
            return;
        }
        let print = (base == "call")
            .then(|| input.index.get(&old.span.start))
            .flatten()
            .and_then(|&index| printing(input.analysis, input.symbols, input.texts, index))
            .and_then(|printing| printing.print);
        let Some(print) = print else {
            if self.strings.are_away() {
                errors.at(new.span, "an argument of `printf` was not put back");
            }
            self.strings = Strings::default();
            return;
        };
        let store = input.analysis.code.instructions[print.buffer as usize].instruction;
        let buffer = name(store, 1).map(|name| self.resolve(name));
        for argument in &print.strings {
            if !self.is_printed_unchecked(argument, input)
                && !self.is_checked(argument, buffer.as_ref(), old, input)
            {
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

    /// Whether a string lies where nothing has bounds.
    fn is_printed_unchecked(&self, argument: &Argument, input: &Input<'_, '_, '_>) -> bool {
        let Some((_, value)) = argument.pointer else {
            return false;
        };
        let Origin::Pointer { root, .. } = input.analysis.provenance.origin(value) else {
            return false;
        };
        match input.analysis.provenance.root(root) {
            Some(
                Root::Declared { .. }
                | Root::Alloca { .. }
                | Root::Mapped { .. }
                | Root::Field { .. },
            ) => false,
            Some(Root::Whole { symbol } | Root::Part { symbol, .. })
                if input.nameable.holds(&input.analysis.code, symbol) =>
            {
                input.analysis.place(root).is_none()
            }
            Some(root) => !root.is_global(),
            None => false,
        }
    }

    fn is_checked(
        &self,
        argument: &Argument,
        buffer: Option<&Text>,
        old: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
    ) -> bool {
        let at = i64::from(argument.at);
        let is_of = |cut: &Cut| {
            let [pointer, base, size, most] = &cut.asked;
            let place = |at: i64| buffer.map(|buffer| (buffer.clone(), at));
            let loaded = self.strings.loaded.get(pointer);
            let expected = match argument.most {
                Most::All => i64::MAX.to_string(),
                Most::Bytes(bytes) => bytes.min(i64::MAX as u64).to_string(),
                Most::Argument(at) => match buffer {
                    Some(buffer) => loaded_most(buffer, at.into(), self.guard_of(old)),
                    None => return false,
                },
            };
            let in_doubt =
                |(_, value): (_, ValueId)| input.analysis.provenance.origin(value).is_in_doubt();
            loaded.is_some_and(|(from, guard)| {
                Some(from) == place(at).as_ref() && *guard == self.guard_of(old)
            }) && *most == expected
                && paired(base, size, self.declared_size(base, input))
                && (base == "%__rf_wb" || !argument.pointer.is_some_and(in_doubt))
                && cut.keeps_site
                && cut.keeps_address
                && cut.is_replaced
        };
        self.strings.cuts.values().any(is_of)
    }
}
