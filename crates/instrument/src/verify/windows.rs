//! Follows the checks of accesses that name a space with addresses of its own
//! (shared, local, constant, parameters), and holds these accesses to them.

use super::Errors;
use super::checks::{Distance, Input, State, Text, integer, name};
use super::facts::{is_found_on_device, is_settled, is_window, reaches};
use crate::protocol::REGISTER_PREFIX;
use analysis::{Origin, Referent, Root, RootId};
use ptx::table::{Access, Predication, Space, Width, classify, used_bytes};
use ptx::{Instruction, OperandKind};
use rustc_hash::FxHashMap;

/// The address of a place: a symbol, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    symbol: Text,
    start: u64,
}

impl Held {
    /// The bytes of the place whose address is in `register`: of the root
    /// that the register is for, if that is here; else the symbol's.
    pub(super) fn size(&self, register: &str, input: &Input<'_, '_, '_>) -> Option<u64> {
        let symbols = &input.analysis.code.symbols;
        let number = register
            .strip_prefix("%__rf_c")
            .or_else(|| register.strip_prefix("%__rf_e"))
            .or_else(|| register.strip_prefix("%__rf_b"));
        if let Some(root) = number.and_then(|number| number.parse().ok())
            && let Some(place) = input.analysis.place(RootId(root))
            && symbols[place.symbol.0 as usize].name == self.symbol
            && u64::from(place.start) == self.start
        {
            return place.size;
        }
        let symbol = symbols.iter().find(|s| s.name == self.symbol)?;
        symbol.size?.checked_sub(self.start)
    }

    fn is_in(&self, window: Space, input: &Input<'_, '_, '_>) -> bool {
        let symbols = &input.analysis.code.symbols;
        symbols
            .iter()
            .any(|s| s.name == self.symbol && reaches(window, s.space))
    }
}

/// What is known of the registers that only these checks use.
#[derive(Default)]
pub(super) struct Windows {
    /// Registers that hold the address of a place.
    places: FxHashMap<Text, Held>,
    /// `%__rf_p`, `%__rf_w`: the program's register whose value they hold.
    copies: FxHashMap<Text, Text>,
    /// How far a pointer of 32 bits is from a base.
    distance: Option<Distance>,
}

impl Windows {
    pub(super) fn place(&self, register: &str) -> Option<&Held> {
        self.places.get(register)
    }
}

impl State {
    /// Follows an instruction of check code if only windows have such.
    pub(super) fn window_code(&mut self, instruction: &Instruction<'_>, first: &str) -> bool {
        let opcode = instruction.opcode.text;
        match (opcode, first) {
            ("mov.u64", _) if instruction.guard.is_none() => {
                self.windows.places.remove(first);
                if let Some(symbol) = name(instruction, 1) {
                    let held = Held {
                        symbol: symbol.to_owned(),
                        start: 0,
                    };
                    self.windows.places.insert(first.to_owned(), held);
                }
                // Others follow addresses of symbols, too.
                false
            }
            ("cvt.u32.u64", _) => {
                let from = self.text(instruction, 1);
                self.windows.copies.remove(first);
                match self.windows.places.get(&from).cloned() {
                    Some(held) => drop(self.windows.places.insert(first.to_owned(), held)),
                    None => {
                        self.windows.places.remove(first);
                        self.windows.copies.insert(first.to_owned(), from);
                    }
                }
                true
            }
            ("add.s32" | "add.s64", _) if name(instruction, 1) == Some(first) => {
                let by = integer(instruction, 2);
                if first == "%__rf_d" {
                    if let (Some(distance), Some(low)) = (&mut self.windows.distance, by) {
                        distance.low = distance.low.wrapping_add(low);
                    }
                    return true;
                }
                let Some(held) = self.windows.places.get_mut(first) else {
                    return false;
                };
                match by.and_then(|by| u64::try_from(by).ok()) {
                    Some(by) => held.start = held.start.wrapping_add(by),
                    None => drop(self.windows.places.remove(first)),
                }
                true
            }
            ("cvt.u64.u32" | "mov.b64", "%__rf_w") => {
                let from = self.text(instruction, 1);
                self.windows.copies.insert(first.to_owned(), from);
                true
            }
            ("sub.s32", "%__rf_d") => {
                let pointer = self.copied(self.text(instruction, 1));
                self.windows.distance = Some(Distance {
                    pointer,
                    base: self.text(instruction, 2),
                    low: 0,
                });
                true
            }
            ("cvt.u64.u32", "%__rf_o") => {
                self.distance = self.windows.distance.clone();
                true
            }
            ("sub.s64", "%__rf_o") if name(instruction, 1) == Some("%__rf_w") => {
                let pointer = self.windows.copies.get("%__rf_w").cloned();
                self.distance = Some(Distance {
                    pointer: pointer.unwrap_or_default(),
                    base: self.text(instruction, 2),
                    low: 0,
                });
                true
            }
            ("max.u32", "%__rf_l") => {
                let less = integer(instruction, 2).unwrap_or(0) as u64;
                let size = self.text(instruction, 1);
                self.limits.insert(first.to_owned(), (size, less));
                true
            }
            ("sub.s32", "%__rf_l") => {
                let less = integer(instruction, 2).map(|less| less as u64);
                if self.limits.get(first).map(|(_, less)| *less) != less {
                    self.limits.remove(first);
                }
                true
            }
            ("setp.ge.u32" | "setp.ge.and.u32", predicate)
                if name(instruction, 1) == Some("%__rf_d") =>
            {
                let bound = self.text(instruction, 2);
                let (size, less) = self.limits.get(&bound).cloned().unwrap_or((bound, 0));
                let guards = match opcode {
                    "setp.ge.and.u32" => vec![self.text(instruction, 3)],
                    _ => Vec::new(),
                };
                self.distance = self.windows.distance.clone();
                self.begin(predicate, size, less, false, guards);
                true
            }
            ("cvt.u64.u32" | "mov.b64", "%__rf_address") => {
                let pointer = self.copied(self.text(instruction, 1));
                self.last_address = self.guard_of(instruction).map(|guard| (guard, pointer));
                self.keep();
                true
            }
            ("mov.u32", "%__rf_site") => {
                self.last_site = self
                    .guard_of(instruction)
                    .filter(|_| integer(instruction, 1) > Some(0));
                self.keep();
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

    /// Notes of a verdict that a record will tell of it.
    fn keep(&mut self) {
        let (Some(site), Some((under, pointer))) = (&self.last_site, &self.last_address) else {
            return;
        };
        if site == under
            && let Some(verdict) = self.verdicts.get_mut(site)
            && verdict.distance.pointer == *pointer
        {
            verdict.kept = true;
        }
    }

    /// Holds an access that names a window to its check.
    pub(super) fn access_in_window(
        &self,
        old: &Instruction<'_>,
        new: &Instruction<'_>,
        access: &Access,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let window = access.space;
        if !is_window(window) {
            return;
        }
        let Some(&index) = input.index.get(&old.span.start) else {
            return;
        };
        let Some(OperandKind::Address(address)) = old.operands.get(access.operand).map(|o| &o.kind)
        else {
            return;
        };
        let skips = new
            .guard
            .as_ref()
            .is_some_and(|guard| guard.register.starts_with(REGISTER_PREFIX));
        let must = self.must_be_checked(index, access, window, input);
        // Another of its accesses may be what stops an instruction.
        if !must && (!skips || self.is_stopped(old, new)) {
            return;
        }
        let original = self.resolve(address.base.unwrap_or(""));
        let named = match skips {
            true => self
                .takes_out(old, new)
                .into_iter()
                .find(|name| self.covers(name, &original, index, access, old, input)),
            false if is_never_left_out(old) => {
                let mut live: Vec<&Text> = self.verdicts.keys().collect();
                live.sort_unstable();
                live.into_iter()
                    .find(|name| self.covers(name, &original, index, access, old, input))
                    .cloned()
            }
            false => None,
        };
        let Some(named) = named else {
            errors.at(
                new.span,
                "an access in a window without a check of it in this block",
            );
            return;
        };
        let Some(verdict) = self.verdicts.get(&named) else {
            return;
        };
        if !verdict.kept {
            errors.at(
                new.span,
                "the check does not keep its site and address for the record",
            );
        }
        let base = &verdict.distance.base;
        let elsewhere = self
            .windows
            .place(base)
            .is_some_and(|held| !held.is_in(window, input));
        if elsewhere {
            errors.at(new.span, format!("`{base}` is a place in another space"));
        }
        let reference = input.analysis.code.address_of(index, access.operand);
        if base.starts_with("%__rf_c")
            && reference.is_some_and(|reference| input.analysis.is_wide(reference.value))
        {
            errors.at(new.span, "the check compares 32 bits of an address of 64");
        }
        let paired = match (self.windows.place(base), verdict.size.as_str()) {
            (Some(held), "%__rf_dynamic") => held.size(base, input).is_none(),
            (Some(held), size) => match (size.parse::<u64>(), held.size(base, input)) {
                (Ok(limit), Some(size)) => limit <= size,
                _ => false,
            },
            (None, "%__rf_block") => base == "0",
            (None, size) => super::accesses::paired(base, size, None),
        };
        if !paired {
            errors.at(
                new.span,
                format!(
                    "`{base}` and `{}` are not base and size of one thing",
                    verdict.size
                ),
            );
        }
    }

    /// Whether a verdict is about an address and all bytes of an access.
    fn covers(
        &self,
        named: &str,
        original: &str,
        index: usize,
        access: &Access,
        old: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
    ) -> bool {
        let Some(verdict) = self.verdicts.get(named) else {
            return false;
        };
        let pointer = &verdict.distance.pointer;
        let holds_symbol = self
            .windows
            .place(pointer)
            .is_some_and(|held| held.start == 0 && held.symbol == original);
        if pointer != original && !holds_symbol {
            return false;
        }
        if verdict.lanes != access.lanes {
            return false;
        }
        let guards_agree = match self.guard_of(old) {
            Some(guard) => verdict.guards.contains(&guard),
            None => verdict.guards.is_empty() || matches!(access.width, Width::CopySource { .. }),
        };
        let Some(OperandKind::Address(address)) = old.operands.get(access.operand).map(|o| &o.kind)
        else {
            return false;
        };
        let bytes = match access.width {
            Width::Bytes(bytes) => {
                let inst = &input.analysis.code.instructions[index];
                let (from, to) =
                    used_bytes(inst.instruction, u64::from(bytes), input.attached(index));
                Some((address.offset.wrapping_add(from as i64), (to - from) as i64))
            }
            _ => None,
        };
        let in_range = match bytes {
            Some((offset, bytes)) if !verdict.dynamic => {
                let low = verdict.distance.low;
                let span = match (verdict.size.parse::<u64>(), self.size_of(named, input)) {
                    // With a constant size the limit shows what was taken off.
                    (Ok(limit), Some(size)) => size.saturating_sub(limit).saturating_add(1),
                    _ => verdict.less.saturating_add(1),
                };
                let span = span.min(i64::MAX as u64) as i64;
                offset >= low
                    && (verdict.size == "0"
                        || offset.saturating_add(bytes) <= low.saturating_add(span))
            }
            _ => true,
        };
        guards_agree && in_range && self.is_aligned(verdict, (address.offset, index), access, input)
    }

    /// Size of what a verdict holds its address to, where it is constant.
    fn size_of(&self, named: &str, input: &Input<'_, '_, '_>) -> Option<u64> {
        let verdict = self.verdicts.get(named)?;
        let base = &verdict.distance.base;
        self.windows.place(base)?.size(base, input)
    }

    /// Whether an access that names a window cannot go without a check.
    fn must_be_checked(
        &self,
        index: usize,
        access: &Access,
        window: Space,
        input: &Input<'_, '_, '_>,
    ) -> bool {
        if access.width == Width::Descriptor || is_settled(input.analysis, index, access) {
            return false;
        }
        let code = &input.analysis.code;
        let Some(reference) = code.address_of(index, access.operand) else {
            return false;
        };
        match reference.referent {
            Referent::Symbol(id, _) => {
                let symbol = &code.symbols[id.0 as usize];
                window != Space::Param
                    && reaches(window, symbol.space)
                    && (symbol.size.is_some()
                        || matches!(window, Space::Shared | Space::SharedCluster))
            }
            Referent::Wide(_) => match input.analysis.provenance.origin(reference.value) {
                Origin::Several { .. } => true,
                Origin::Pointer { root, .. } => match input.analysis.provenance.root(root) {
                    Some(Root::Whole { symbol } | Root::Part { symbol, .. }) => {
                        let place = input.analysis.place(root);
                        place.is_some_and(|place| reaches(window, place.space))
                            && input.nameable.holds(code, symbol)
                    }
                    Some(Root::Declared { .. } | Root::Alloca { .. }) => true,
                    found => is_found_on_device(input.analysis, found),
                },
                _ => false,
            },
        }
    }
}

/// Whether nobody can leave an instruction out.
fn is_never_left_out(instruction: &Instruction<'_>) -> bool {
    classify(instruction).is_some_and(|info| info.predication == Predication::Never)
}
