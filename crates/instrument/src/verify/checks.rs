//! Follows check code through its registers, and holds each access to it.

use super::Errors;
use super::statements::{Matched, Piece};
use super::windows::Windows;
use crate::bounds::{LABEL_PREFIX, Nameable, REGISTER_PREFIX, is_static, only_shared, used_bytes};
use crate::device_heap::STILL;
use crate::support::{APPEND, LOOKUP};
use analysis::{Analysis, ModuleSymbols, Origin, Referent, Role, Root, SymbolSpace};
use model::layout::{LAUNCH_PARAMETER, READ_SINK, SINK_SIZE, WRITE_SINK};
use ptx::table::{Effect, Space, Width, classify};
use ptx::{Instruction, OperandKind, Statement};
use rustc_hash::{FxHashMap, FxHashSet};

pub(super) struct Input<'x, 'm, 'a> {
    pub(super) analysis: &'x Analysis<'m, 'a>,
    /// Instruction index by where it starts in the source.
    pub(super) index: &'x FxHashMap<u32, usize>,
    pub(super) symbols: &'x ModuleSymbols<'a>,
    /// Text that `analysis` is of.
    pub(super) source: &'x str,
    /// Symbols that check code can name.
    pub(super) nameable: Nameable<'x, 'a>,
    /// Size of the launch parameter.
    pub(super) launch: Option<u64>,
}

/// A register's name, or a family's with how many it has.
type Declared = (Text, Option<u32>);

/// An operand's text.
pub(super) type Text = String;

/// `%__rf_o`: how far a pointer is from a base.
#[derive(Clone, Default)]
pub(super) struct Distance {
    pub(super) pointer: Text,
    pub(super) base: Text,
    pub(super) low: i64,
}

/// `%__rf_q`: an address is outside.
#[derive(Clone)]
pub(super) struct Verdict {
    pub(super) distance: Distance,
    /// Register or constant that bounds the distance, and what it is derived
    /// from: a size, less so many bytes.
    pub(super) size: Text,
    pub(super) less: u64,
    /// The extent is in a register: bytes are counted at run time.
    pub(super) dynamic: bool,
    /// Guards that the verdict holds under: text with `!`.
    pub(super) guards: Vec<Text>,
    pub(super) kept: bool,
}

/// `%__rf_aN`
#[derive(Clone)]
struct Redirect {
    verdict: Verdict,
    pointer: Text,
    sink: u64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) windows: Windows,
    /// `limit register -> (size register, less)`
    pub(super) limits: FxHashMap<Text, (Text, u64)>,
    /// `%__rf_aN` or a base that holds the address of this symbol.
    pub(super) symbols: FxHashMap<Text, Text>,
    negated: FxHashMap<Text, Text>,
    constants: FxHashMap<Text, Text>,
    declared: FxHashSet<Text>,
    families: Vec<(Text, u32)>,
    /// The program's inner scopes that are open, with a number and the
    /// registers that each declares.
    scopes: Vec<(u32, Vec<Declared>)>,
    scopes_seen: u32,
    pub(super) distance: Option<Distance>,
    /// By the predicate that holds them.
    pub(super) verdicts: FxHashMap<Text, Verdict>,
    /// Predicate of the last site that was kept.
    pub(super) last_site: Option<Text>,
    /// Predicate and pointer of the last address that was kept.
    pub(super) last_address: Option<(Text, Text)>,
    redirects: FxHashMap<Text, Redirect>,
}

pub(super) fn follow(
    input: Input<'_, '_, '_>,
    matched: &[Matched<'_, '_>],
    errors: &mut Errors<'_>,
) {
    let mut state = State::default();
    // A root's limits are computed where the root appears, which may stand
    // further down in the text than what it dominates.
    for piece in matched {
        if let Matched::Added(Piece::Statement(Statement::Instruction(instruction))) = piece
            && matches!(instruction.opcode.text, "max.u64" | "sub.s64")
            && name(instruction, 0).is_some_and(is_shared_limit)
        {
            state.limit(instruction);
        }
    }
    for piece in matched {
        match piece {
            Matched::Added(Piece::Statement(Statement::Instruction(instruction))) => {
                state.names(instruction, errors);
                state.check_code(instruction, &input, errors);
            }
            Matched::Added(Piece::Statement(Statement::Variable(variable))) => {
                if variable.space == ptx::VariableSpace::Reg {
                    match variable.range {
                        Some(count) => state.families.push((variable.name.to_owned(), count)),
                        None => drop(state.declared.insert(variable.name.to_owned())),
                    }
                } else if variable.space != ptx::VariableSpace::Param {
                    errors.at(variable.span, "a variable that the source does not have");
                }
            }
            Matched::Added(Piece::Statement(Statement::Label(label)))
                if label.name.starts_with(LABEL_PREFIX) => {}
            Matched::Added(Piece::Open(_) | Piece::Close(_)) => {}
            Matched::Added(piece) => errors.at(piece.span(), "neither the source's nor check code"),
            Matched::Same(Piece::Statement(Statement::Label(_)), _) => {
                state.redirects.clear();
                state.verdicts.clear();
            }
            Matched::Same(
                Piece::Statement(Statement::Instruction(old)),
                Piece::Statement(Statement::Instruction(new)),
            ) => {
                state.access(old, new, &input, errors);
                state.forget(old);
                state.windows.skipped(old, new);
            }
            Matched::Same(Piece::Open(_), _) => {
                state.scopes_seen += 1;
                state.scopes.push((state.scopes_seen, Vec::new()));
            }
            Matched::Same(Piece::Close(_), _) => drop(state.scopes.pop()),
            Matched::Same(Piece::Statement(Statement::Variable(variable)), _) => {
                if let Some((_, names)) = state.scopes.last_mut() {
                    names.push((variable.name.to_owned(), variable.range));
                }
            }
            Matched::Same(..) => {}
            Matched::Redirected(old, new) => {
                state.names(new, errors);
                state.access(old, new, &input, errors);
                state.forget(old);
                state.windows.skipped(old, new);
            }
        }
    }
}

/// Whether a register is a limit that belongs to a root: each has one
/// definition.
fn is_shared_limit(register: &str) -> bool {
    register
        .strip_prefix("%__rf_m")
        .is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
}

pub(super) fn name<'a>(instruction: &Instruction<'a>, operand: usize) -> Option<&'a str> {
    match instruction.operands.get(operand)?.kind {
        OperandKind::Name(name) => Some(name),
        _ => None,
    }
}

pub(super) fn integer(instruction: &Instruction<'_>, operand: usize) -> Option<i64> {
    match instruction.operands.get(operand)?.kind {
        OperandKind::Integer(value) => Some(value),
        _ => None,
    }
}

impl State {
    /// A name that tells registers of inner scopes from those they hide.
    pub(super) fn resolve(&self, name: &str) -> Text {
        let declares = |(known, range): &Declared| match range {
            None => known == name,
            Some(count) => {
                let number = name
                    .strip_prefix(known.as_str())
                    .and_then(|n| n.parse::<u32>().ok());
                number.is_some_and(|number| number < *count)
            }
        };
        match self
            .scopes
            .iter()
            .rev()
            .find(|(_, names)| names.iter().any(declares))
        {
            Some((scope, _)) => format!("{name} of scope {scope}"),
            None => name.to_owned(),
        }
    }

    /// A register, or a constant's decimal text.
    pub(super) fn text(&self, instruction: &Instruction<'_>, operand: usize) -> Text {
        match &instruction.operands.get(operand).map(|o| &o.kind) {
            Some(OperandKind::Name(name)) => self.resolve(name),
            Some(OperandKind::Integer(value)) => (*value as u64).to_string(),
            Some(OperandKind::Not(name)) => format!("!{}", self.resolve(name)),
            _ => String::new(),
        }
    }

    pub(super) fn guard_of(&self, instruction: &Instruction<'_>) -> Option<Text> {
        let guard = instruction.guard.as_ref()?;
        Some(format!(
            "{}{}",
            if guard.negated { "!" } else { "" },
            self.resolve(guard.register)
        ))
    }

    /// Registers of checks must be declared.
    fn names(&self, instruction: &Instruction<'_>, errors: &mut Errors<'_>) {
        let mut one = |name: &str| {
            if !name.starts_with(REGISTER_PREFIX) || self.declared.contains(name) {
                return;
            }
            let known = self.families.iter().any(|(prefix, count)| {
                name.strip_prefix(prefix.as_str())
                    .and_then(|n| n.parse::<u32>().ok())
                    .is_some_and(|n| n < *count)
            });
            if !known {
                errors.at(instruction.span, format!("`{name}` is not declared"));
            }
        };
        if let Some(guard) = &instruction.guard {
            one(guard.register);
        }
        for operand in &instruction.operands {
            match &operand.kind {
                OperandKind::Name(name) | OperandKind::Not(name) => one(name),
                OperandKind::Address(address) => address.base.into_iter().for_each(&mut one),
                _ => {}
            }
        }
    }

    /// Follows `max limit, size, less; sub limit, limit, less`.
    fn limit(&mut self, instruction: &Instruction<'_>) {
        let first = name(instruction, 0).unwrap_or("");
        let less = integer(instruction, 2).map(|less| less as u64);
        match instruction.opcode.text {
            "max.u64" => {
                let size = self.text(instruction, 1);
                self.limits
                    .insert(first.to_owned(), (size, less.unwrap_or(0)));
            }
            _ => {
                let fits = self
                    .limits
                    .get(first)
                    .is_some_and(|(_, l)| Some(*l) == less);
                if !fits || name(instruction, 1) != Some(first) {
                    self.limits.remove(first);
                }
            }
        }
    }

    /// Follows one instruction of check code.
    fn check_code(
        &mut self,
        instruction: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let opcode = instruction.opcode.text;
        let first = name(instruction, 0).unwrap_or("");
        // Check code writes its own registers, and nothing else of the
        // program's.
        let writes_memory = matches!(instruction.opcode.base(), "st" | "atom" | "red")
            && !instruction.opcode.has("param");
        let control = matches!(
            instruction.opcode.base(),
            "ret" | "exit" | "trap" | "bar" | "barrier" | "brx"
        );
        let takes_register = !matches!(instruction.opcode.base(), "st" | "call" | "bra");
        let zeroes = self.windows.zeroes(instruction, first);
        if zeroes {
            return;
        }
        if writes_memory || control || (takes_register && !first.starts_with(REGISTER_PREFIX)) {
            errors.at(
                instruction.span,
                "check code may only write registers of its own",
            );
            return;
        }
        match instruction.opcode.base() {
            "call" => {
                let callee = instruction.operands.iter().find_map(|o| match o.kind {
                    OperandKind::Name(name) => Some(name),
                    _ => None,
                });
                if !matches!(callee, Some(LOOKUP | APPEND | STILL)) {
                    errors.at(
                        instruction.span,
                        "check code may only call its own functions",
                    );
                }
                return;
            }
            "bra" => {
                if !first.starts_with(LABEL_PREFIX) {
                    errors.at(
                        instruction.span,
                        "check code may only branch around its own report",
                    );
                }
                return;
            }
            "ld" => {
                if let Some(OperandKind::Address(address)) =
                    instruction.operands.get(1).map(|o| &o.kind)
                    && address.base == Some(LAUNCH_PARAMETER)
                    && u64::try_from(address.offset)
                        .ok()
                        .and_then(|o| o.checked_add(8))
                        > input.launch
                {
                    errors.at(instruction.span, "reads past the launch parameter");
                }
                return;
            }
            _ => {}
        }
        if self.window_code(instruction, first) {
            return;
        }
        match (opcode, first) {
            ("mov.u64", _) => {
                if let Some(symbol) = name(instruction, 1) {
                    self.symbols.insert(first.to_owned(), symbol.to_owned());
                }
            }
            ("sub.s64", "%__rf_o") => {
                self.distance = Some(Distance {
                    pointer: self.text(instruction, 1),
                    base: self.text(instruction, 2),
                    low: 0,
                });
            }
            ("add.s64", "%__rf_o") if name(instruction, 1) == Some("%__rf_o") => {
                if let (Some(distance), Some(low)) = (&mut self.distance, integer(instruction, 2)) {
                    distance.low = distance.low.wrapping_add(low);
                }
            }
            ("mov.b64", "%__rf_t" | "%__rf_u") => {
                self.constants.remove(first);
                if integer(instruction, 1).is_some() {
                    self.constants
                        .insert(first.to_owned(), self.text(instruction, 1));
                }
            }
            ("max.u64", _) | ("sub.s64", _) if !is_shared_limit(first) => self.limit(instruction),
            ("max.u64", _) | ("sub.s64", _) => {}
            ("setp.ge.u64" | "setp.ge.and.u64", predicate)
                if name(instruction, 1) == Some("%__rf_o") =>
            {
                let bound = self.text(instruction, 2);
                let (size, less) = self.limits.get(&bound).cloned().unwrap_or((bound, 0));
                let guards = if opcode == "setp.ge.and.u64" {
                    vec![self.text(instruction, 3)]
                } else {
                    Vec::new()
                };
                self.begin(predicate, size, less, false, guards);
            }
            ("setp.gt.u64", predicate) if name(instruction, 1) == Some("%__rf_o") => {
                let size = self.text(instruction, 2);
                let size = self.constants.get(&size).cloned().unwrap_or(size);
                self.begin(predicate, size, 0, true, Vec::new());
            }
            ("setp.gt.or.u64" | "setp.ne.and.s64", predicate)
                if self
                    .verdicts
                    .get(predicate)
                    .is_some_and(|verdict| verdict.dynamic) => {}
            ("not.pred", _) => {
                self.negated
                    .insert(first.to_owned(), self.text(instruction, 1));
            }
            ("and.pred", predicate) if self.verdicts.contains_key(predicate) => {
                let other = self.text(instruction, 2);
                let guard = self
                    .negated
                    .get(&other)
                    .map_or(other, |positive| format!("!{positive}"));
                if let Some(verdict) = self.verdicts.get_mut(predicate) {
                    verdict.guards.push(guard);
                }
            }
            ("mov.u32", "%__rf_site") => {
                self.last_site = self
                    .guard_of(instruction)
                    .filter(|_| integer(instruction, 1) > Some(0));
            }
            ("mov.b64", "%__rf_address") => {
                self.last_address = self
                    .guard_of(instruction)
                    .map(|guard| (guard, self.text(instruction, 1)));
            }
            ("selp.b64", _) if integer(instruction, 1).is_some() => {
                let predicate = self.text(instruction, 3);
                let (Some(verdict), Some(sink)) =
                    (self.verdicts.get(&predicate), integer(instruction, 1))
                else {
                    return;
                };
                let site = self.last_site.as_ref() == Some(&predicate);
                let address = self.last_address.as_ref()
                    == Some(&(predicate, verdict.distance.pointer.clone()));
                let mut verdict = verdict.clone();
                verdict.kept = site && address;
                let redirect = Redirect {
                    verdict,
                    pointer: self.text(instruction, 2),
                    sink: sink as u64,
                };
                self.redirects.insert(first.to_owned(), redirect);
            }
            // A verdict that anything else touches is none.
            (_, predicate) => drop(self.verdicts.remove(predicate)),
        }
    }

    pub(super) fn begin(
        &mut self,
        predicate: &str,
        size: Text,
        less: u64,
        dynamic: bool,
        guards: Vec<Text>,
    ) {
        // What was kept under the predicate's old value says nothing now.
        self.last_site.take_if(|last| last == predicate);
        self.last_address.take_if(|(last, _)| last == predicate);
        let Some(distance) = self.distance.clone() else {
            return;
        };
        let verdict = Verdict {
            distance,
            size,
            less,
            dynamic,
            guards,
            kept: false,
        };
        self.verdicts.insert(predicate.to_owned(), verdict);
    }

    /// A redefined pointer or guard, or the end of the block, ends a check's
    /// hold.
    fn forget(&mut self, instruction: &Instruction<'_>) {
        if matches!(
            instruction.opcode.base(),
            "bra" | "brx" | "ret" | "exit" | "trap" | "call"
        ) {
            self.verdicts.clear();
            self.redirects.clear();
            return;
        }
        let mut written: Vec<Text> = Vec::new();
        let mut one = |name: &str| written.push(self.resolve(name));
        let roles = classify(instruction).map(|info| info.roles);
        for (place, operand) in instruction.operands.iter().enumerate() {
            let reads = roles.as_ref().is_some_and(|roles| {
                matches!(
                    roles.get(place),
                    Some(
                        ptx::table::Role::Source
                            | ptx::table::Role::Address
                            | ptx::table::Role::Target
                    )
                )
            });
            if reads {
                continue;
            }
            match &operand.kind {
                OperandKind::Name(name) => one(name),
                OperandKind::Pair(left, right) => {
                    one(left);
                    one(right);
                }
                OperandKind::Vector(elements) => {
                    for element in elements {
                        if let OperandKind::Name(name) = element.kind {
                            one(name);
                        }
                    }
                }
                _ => {}
            }
        }
        let stands = |pointer: &Text, verdict: &Verdict| {
            let mut guards = verdict
                .guards
                .iter()
                .map(|guard| guard.trim_start_matches('!'));
            !written.contains(pointer)
                && !guards.any(|guard| written.iter().any(|name| name == guard))
        };
        self.redirects
            .retain(|_, redirect| stands(&redirect.pointer, &redirect.verdict));
        self.verdicts
            .retain(|_, verdict| stands(&verdict.distance.pointer, verdict));
    }

    /// Holds the accesses of one of the program's instructions to checks.
    fn access(
        &self,
        old: &Instruction<'_>,
        new: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let Some(info) = classify(old) else { return };
        for access in &info.accesses {
            let generic = match access.space {
                Space::Global => false,
                Space::Generic => true,
                Space::Tensor => continue,
                _ => {
                    self.access_in_window(old, new, access, input, errors);
                    continue;
                }
            };
            let (Some(OperandKind::Address(from)), Some(OperandKind::Address(to))) = (
                old.operands.get(access.operand).map(|o| &o.kind),
                new.operands.get(access.operand).map(|o| &o.kind),
            ) else {
                continue;
            };
            let redirected = to
                .base
                .is_some_and(|base| base.starts_with(REGISTER_PREFIX));
            if !redirected {
                if !self.may_go_unchecked(old, access, generic, input) {
                    errors.at(new.span, "a global or generic access without a check");
                }
                continue;
            }
            let base = to.base.unwrap_or("");
            let Some(redirect) = self.redirects.get(base) else {
                errors.at(
                    new.span,
                    format!("`{base}` is not selected by a check in this block"),
                );
                continue;
            };
            let original = from.base.unwrap_or("");
            let holds_symbol =
                self.symbols.get(&redirect.pointer).map(String::as_str) == Some(original);
            if redirect.pointer != self.resolve(original) && !holds_symbol {
                errors.at(
                    new.span,
                    format!(
                        "the check is of `{}`, not of `{original}`",
                        redirect.pointer
                    ),
                );
            }
            self.judge(redirect, from.offset, access, old, new, input, errors);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn judge(
        &self,
        redirect: &Redirect,
        offset: i64,
        access: &ptx::table::Access,
        old: &Instruction<'_>,
        new: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let verdict = &redirect.verdict;
        if verdict.distance.pointer != redirect.pointer {
            errors.at(
                new.span,
                "the address that is selected is not the one that is checked",
            );
        }
        if !verdict.kept {
            errors.at(
                new.span,
                "the check does not keep its site and address for the record",
            );
        }
        match self.guard_of(old) {
            Some(guard) if !verdict.guards.contains(&guard) => {
                errors.at(new.span, "the check is not under the access's guard");
            }
            _ => {}
        }
        let spare = verdict
            .guards
            .iter()
            .filter(|guard| Some((*guard).clone()) != self.guard_of(old))
            .count();
        if spare > usize::from(matches!(access.width, Width::CopySource { .. })) {
            errors.at(
                new.span,
                "the check is under a guard that the access does not have",
            );
        }
        let whole = offset;
        let (offset, bytes) = match (access.width, input.index.get(&old.span.start)) {
            (Width::Bytes(bytes), Some(&index)) => {
                let inst = &input.analysis.code.instructions[index];
                let (from, to) = used_bytes(inst, u64::from(bytes), input.source);
                (offset.wrapping_add(from as i64), Some((to - from) as i64))
            }
            _ => (offset, None),
        };
        let span = verdict.less.saturating_add(1).min(i64::MAX as u64) as i64;
        let constant_size = verdict.size.parse::<u64>().ok();
        if let (Some(bytes), false) = (bytes, verdict.dynamic) {
            let low = verdict.distance.low;
            // With a constant size the limit is a constant too: the bytes
            // that it leaves room for show what was subtracted.
            let span = match (
                constant_size,
                self.declared_size(&verdict.distance.base, input),
            ) {
                (Some(limit), Some(size)) => (size.saturating_sub(limit))
                    .saturating_add(1)
                    .min(i64::MAX as u64) as i64,
                _ => span,
            };
            let zero_limit = constant_size == Some(0);
            if offset < low
                || (!zero_limit && offset.saturating_add(bytes) > low.saturating_add(span))
            {
                errors.at(new.span, "the check covers other bytes than the access");
            }
        }
        if !paired(
            &verdict.distance.base,
            &verdict.size,
            self.declared_size(&verdict.distance.base, input),
        ) {
            let (base, size) = (&verdict.distance.base, &verdict.size);
            errors.at(
                new.span,
                format!("`{base}` and `{size}` are not base and size of one thing"),
            );
        }
        let (start, width) = (
            if access.effect == Effect::Read {
                READ_SINK
            } else {
                WRITE_SINK
            },
            bytes.unwrap_or(1) as u64,
        );
        let lands = redirect.sink.wrapping_add(offset as u64);
        if lands < start || lands.wrapping_add(width) > start + SINK_SIZE {
            errors.at(new.span, "the sink is not where this access must go");
        }
        // What the hardware aligns is the access as it stands, used or not.
        if let Width::Bytes(bytes) = access.width
            && !redirect
                .sink
                .wrapping_add(whole as u64)
                .is_multiple_of(u64::from(bytes).next_power_of_two().min(32))
        {
            errors.at(new.span, "the sink address is not aligned for the access");
        }
    }

    /// Size of the variable whose address a register holds.
    fn declared_size(&self, base: &str, input: &Input<'_, '_, '_>) -> Option<u64> {
        if let Some(place) = self.windows.place(base) {
            return place.size(base, input);
        }
        let name = self.symbols.get(base)?;
        input
            .analysis
            .code
            .symbols
            .iter()
            .find(|s| s.name == name)
            .or_else(|| input.symbols.get(name))?
            .size
    }

    fn may_go_unchecked(
        &self,
        old: &Instruction<'_>,
        access: &ptx::table::Access,
        generic: bool,
        input: &Input<'_, '_, '_>,
    ) -> bool {
        if access.width == Width::Descriptor
            || old.opcode.base() == "multimem"
            || (generic && only_shared(&old.opcode))
        {
            return true;
        }
        let Some(&index) = input.index.get(&old.span.start) else {
            return false;
        };
        let code = &input.analysis.code;
        let reference = code
            .references_of(index)
            .iter()
            .find(|r| r.role == Role::Address && usize::from(r.operand) == access.operand);
        let Some(reference) = reference else {
            return true;
        };
        match reference.referent {
            Referent::Symbol(id, _) => {
                let symbol = &code.symbols[id.0 as usize];
                symbol.space != SymbolSpace::Global || is_static(input.analysis, index, access)
            }
            Referent::Wide(_) => match input.analysis.provenance.origin(reference.value) {
                Origin::Pointer { root, .. } => match input.analysis.provenance.root(root) {
                    Some(Root::ParameterWindow) => true,
                    Some(
                        Root::Declared { .. }
                        | Root::Alloca { .. }
                        | Root::Mapped { .. }
                        | Root::Field { .. },
                    ) => false,
                    Some(Root::Whole { symbol } | Root::Part { symbol, .. })
                        if input.nameable.holds(code, symbol)
                            && input.analysis.place(root).is_some() =>
                    {
                        is_static(input.analysis, index, access)
                    }
                    Some(root) if !root.is_global() => generic,
                    _ => is_static(input.analysis, index, access),
                },
                _ => false,
            },
        }
    }
}

/// Whether two operands are the base and the size of the same thing.
pub(super) fn paired(base: &str, size: &str, declared: Option<u64>) -> bool {
    if let Ok(limit) = size.parse::<u64>() {
        // A variable of declared size, or bounds that hold nothing off.
        return declared.is_some_and(|size| limit <= size) || base.parse::<u64>().is_ok();
    }
    let number = |text: &str, family: &str| {
        text.strip_prefix(REGISTER_PREFIX)?
            .strip_prefix(family)?
            .parse::<u32>()
            .ok()
    };
    if (base, size) == ("%__rf_wb", "%__rf_ws") {
        return true;
    }
    [("b", "s"), ("hb", "hs")].iter().any(|(b, s)| {
        let (base, size) = (number(base, b), number(size, s));
        base.is_some() && base == size
    })
}
