//! Follows check code through its registers, and holds each access to it.

use super::Errors;
use super::absences::Absences;
use super::accesses::paired;
use super::alignment::{self, Alignments, Tested};
use super::calls::{Callees, Calls};
use super::statements::{Matched, Piece};
use super::strings::Strings;
use super::through::Through;
use super::windows::Windows;
use crate::protocol::{APPEND, LABEL_PREFIX, LOOKUP, PROTOTYPE, REGISTER_PREFIX, STILL};
use analysis::{Analysis, ModuleSymbols, Nameable, Texts};
use model::layout::LAUNCH_PARAMETER;
use ptx::table::classify;
use ptx::{Instruction, OperandKind, Statement};
use rustc_hash::{FxHashMap, FxHashSet};

pub(super) struct Input<'x, 'm, 'a> {
    pub(super) analysis: &'x Analysis<'m, 'a>,
    /// Instruction index by where it starts in the source.
    pub(super) index: &'x FxHashMap<u32, usize>,
    pub(super) symbols: &'x ModuleSymbols<'a>,
    /// Text that `analysis` is of.
    pub(super) source: &'x str,
    /// Instrumented text.
    pub(super) new: &'x str,
    /// Symbols that check code can name.
    pub(super) nameable: Nameable<'x, 'a>,
    /// Size of the launch parameter.
    pub(super) launch: Option<u64>,
    /// What calls may go to.
    pub(super) callees: &'x Callees<'a>,
    /// The constant strings of the module.
    pub(super) texts: &'x Texts<'a>,
    /// Of a copy that gives bounds back: its result's name, where the bounds
    /// begin, and where they end.
    pub(super) result: Option<(&'x str, u64, u64)>,
    /// The whole body.
    pub(super) span: ptx::Span,
}

impl Input<'_, '_, '_> {
    /// The pragmas that stand directly before an instruction of the program.
    pub(super) fn attached(&self, index: usize) -> &str {
        let inst = &self.analysis.code.instructions[index];
        let (from, to) = (inst.attached_from, inst.instruction.span.start);
        self.source.get(from as usize..to as usize).unwrap_or("")
    }
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
    /// The register that bounds the distance, if a root's limit does.
    pub(super) limit: Option<Text>,
    /// The address is also tested for being aligned.
    pub(super) tested: Option<Tested>,
    /// The extent is in a register: bytes are counted at run time.
    pub(super) dynamic: bool,
    /// Guards that the verdict holds under: text with `!`.
    pub(super) guards: Vec<Text>,
    pub(super) kept: bool,
    /// Of so many lanes.
    pub(super) lanes: u32,
}

/// `%__rf_aN`
#[derive(Clone)]
pub(super) struct Redirect {
    pub(super) verdict: Verdict,
    pub(super) pointer: Text,
    pub(super) sink: u64,
}

#[derive(Default)]
pub(super) struct State {
    /// The instruction before was the call that leaves a record.
    after_record: bool,
    pub(super) windows: Windows,
    pub(super) alignments: Alignments,
    pub(super) absences: Absences,
    pub(super) calls: Calls,
    pub(super) through: Through,
    pub(super) strings: Strings,
    /// `limit register -> (size register, less)`
    pub(super) limits: FxHashMap<Text, (Text, u64)>,
    /// `%__rf_aN` or a base that holds the address of this symbol.
    pub(super) symbols: FxHashMap<Text, Text>,
    pub(super) negated: FxHashMap<Text, Text>,
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
    pub(super) redirects: FxHashMap<Text, Redirect>,
    /// `%__rf_lane` holds the lane's number.
    knows_lane: bool,
    /// A branch of check code, which passes over a lookup to this label.
    skips_to: Option<Text>,
    /// What `%__rf_wb` was set to.
    looked_at: Text,
}

pub(super) fn follow(
    input: Input<'_, '_, '_>,
    matched: &[Matched<'_, '_>],
    errors: &mut Errors<'_>,
) {
    let mut state = State {
        alignments: alignment::limits(matched),
        ..State::default()
    };
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
                } else {
                    state.calls.declare(variable);
                }
            }
            Matched::Added(Piece::Statement(Statement::Label(label)))
                if label.name.starts_with(LABEL_PREFIX) =>
            {
                if state.skips_to.as_deref().is_some_and(|to| to != label.name) {
                    errors.at(label.span, "check code branches elsewhere");
                }
                state.skips_to = None;
            }
            Matched::Added(Piece::Open(_) | Piece::Close(_)) => {}
            Matched::Added(Piece::Statement(Statement::CallPrototype(prototype)))
                if prototype.label.starts_with(PROTOTYPE) =>
            {
                let text = prototype.span.text(input.new);
                state.through.prototype(prototype.label, text);
            }
            Matched::Added(piece) => errors.at(piece.span(), "neither the source's nor check code"),
            Matched::Same(Piece::Statement(Statement::Label(_)), _) => {
                state.redirects.clear();
                state.verdicts.clear();
                state.through.end();
            }
            Matched::Same(
                Piece::Statement(Statement::Instruction(old)),
                Piece::Statement(Statement::Instruction(new)),
            ) => {
                state.program(old, new, &input, errors);
            }
            Matched::Same(Piece::Open(_), _) => {
                state.scopes_seen += 1;
                state.scopes.push((state.scopes_seen, Vec::new()));
            }
            Matched::Same(Piece::Close(_), _) => drop(state.scopes.pop()),
            Matched::Same(Piece::Statement(Statement::Variable(variable)), _) => {
                state.calls.declared_by_program(variable.name);
                if let Some((_, names)) = state.scopes.last_mut() {
                    names.push((variable.name.to_owned(), variable.range));
                }
            }
            Matched::Same(..) => {}
            Matched::Redirected(old, new) => {
                state.names(new, errors);
                state.program(old, new, &input, errors);
            }
        }
    }
    state.all_given(&input, errors);
}

/// Whether a register is a limit that belongs to a root: each has one
/// definition.
pub(super) fn is_shared_limit(register: &str) -> bool {
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

    /// Follows one of the program's instructions.
    fn program(
        &mut self,
        old: &Instruction<'_>,
        new: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        self.access(old, new, input, errors);
        self.program_strings(old, new, input, errors);
        self.forget_low_bits();
        self.program_parameter(old, new, input, errors);
        self.program_call(old, new, input, errors);
        self.forget(old);
        self.taken_out(old, new, errors);
    }

    /// Notes what a register holds.
    pub(super) fn hold(&mut self, register: &str, what: Text) {
        self.constants.insert(register.to_owned(), what);
    }

    /// The constant that a register holds, or the register.
    pub(super) fn constant(&self, register: Text) -> Text {
        self.constants.get(&register).cloned().unwrap_or(register)
    }

    /// Follows `max limit, size, less; sub limit, limit, less`.
    fn limit(&mut self, instruction: &Instruction<'_>) {
        let first = name(instruction, 0).unwrap_or("");
        let less = integer(instruction, 2).map(|less| less as u64);
        match instruction.opcode.text {
            "max.u64" => {
                let size = self.constant(self.text(instruction, 1));
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
        if self.absences.sets(instruction, first) || self.absence_code(instruction, first) {
            return;
        }
        if self.skips_to.is_none() && self.string_code(instruction, first) {
            return;
        }
        // A thread may be stopped where it has just left its record, which it
        // does only after a check that failed.
        let after_record = std::mem::take(&mut self.after_record);
        let is_ours = |guard: ptx::Guard<'_>| guard.negated && guard.register == "%__rf_unharmed";
        if opcode == "trap" && after_record && instruction.guard.is_some_and(is_ours) {
            return;
        }
        if writes_memory || control || (takes_register && !first.starts_with(REGISTER_PREFIX)) {
            errors.at(
                instruction.span,
                "check code may only write registers of its own",
            );
            return;
        }
        // What a branch passes over may do nothing but look an address up.
        let is_looked_up = matches!(instruction.opcode.base(), "ld" | "st" | "call")
            || (matches!(opcode, "selp.b64" | "mov.b64") && first == "%__rf_t");
        if self.skips_to.is_some() && !is_looked_up {
            errors.at(
                instruction.span,
                "check code branches around more than a lookup or a report",
            );
            return;
        }
        match instruction.opcode.base() {
            "call" => {
                let callee = instruction.operands.iter().find_map(|o| match o.kind {
                    OperandKind::Name(name) => Some(name),
                    _ => None,
                });
                self.after_record = callee == Some(APPEND);
                let is_own = matches!(callee, Some(LOOKUP | APPEND | STILL));
                let through = &mut self.through;
                if !callee.is_some_and(|name| through.calls(name, input.callees) || is_own) {
                    errors.at(
                        instruction.span,
                        "check code may only call its own functions",
                    );
                }
                return;
            }
            "bra" => {
                if !first.starts_with(LABEL_PREFIX) || self.skips_to.is_some() {
                    errors.at(
                        instruction.span,
                        "check code may only branch around its own calls",
                    );
                }
                self.skips_to = Some(first.to_owned());
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
                self.receive(instruction, errors);
                return;
            }
            "st" => return self.store(instruction, input, errors),
            _ => {}
        }
        if self.alignment_code(instruction, first) || self.window_code(instruction, first) {
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
            ("mov.b64", "%__rf_wb") => self.looked_at = self.text(instruction, 1),
            // What a lookup may replace are bounds of one thing.
            ("mov.b64", "%__rf_ws") => {
                let size = self.text(instruction, 1);
                if !paired(&self.looked_at, &size, None) {
                    let base = &self.looked_at;
                    errors.at(
                        instruction.span,
                        format!("`{base}` and `{size}` are not base and size of one thing"),
                    );
                }
            }
            ("cvt.u64.u32", "%__rf_u") => {
                let size = self.text(instruction, 1);
                self.constants.insert(first.to_owned(), size);
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
                let (size, less) = match self.limits.get(&bound) {
                    Some(limit) => limit.clone(),
                    None => (self.constant(bound.clone()), 0),
                };
                let guards = if opcode == "setp.ge.and.u64" {
                    vec![self.text(instruction, 3)]
                } else {
                    Vec::new()
                };
                self.begin(predicate, size, less, false, guards);
                if let Some(verdict) = self.verdicts.get_mut(predicate)
                    && is_shared_limit(&bound)
                {
                    verdict.limit = Some(bound);
                }
            }
            ("setp.gt.u64", predicate) if name(instruction, 1) == Some("%__rf_o") => {
                let size = self.text(instruction, 2);
                let size = self.constants.get(&size).cloned().unwrap_or(size);
                self.begin(predicate, size, 0, true, Vec::new());
            }
            ("mov.u32", "%__rf_lane") => {
                self.knows_lane = name(instruction, 1) == Some("%laneid");
            }
            ("setp.lt.and.u32", predicate)
                if self.knows_lane && name(instruction, 1) == Some("%__rf_lane") =>
            {
                let lanes = integer(instruction, 2).and_then(|lanes| u32::try_from(lanes).ok());
                let same = self.text(instruction, 3) == predicate;
                match (self.verdicts.get_mut(predicate), lanes) {
                    (Some(verdict), Some(lanes)) if same => verdict.lanes = lanes,
                    _ => drop(self.verdicts.remove(predicate)),
                }
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
            limit: None,
            tested: None,
            dynamic,
            guards,
            kept: false,
            lanes: 32,
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
            self.through.end();
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
        self.through.written(&written);
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
}
