//! Follows check code through its registers.

use super::Errors;
use super::again::Twice;
use super::ahead::{Loops, Previous};
use super::alignment::{self, Alignments};
use super::calls::{Callees, Calls, Order, Reliance};
use super::facts::Frame;
use super::host::HostLimits;
use super::lookups::Found;
use super::predicated_off::PredicatedOffCode;
use super::reports::Reports;
use super::residual::Unchecked;
use super::roots::{Roots, is_of_bounds};
use super::statements::{Matched, Piece};
use super::strings::Strings;
use super::through::Through;
use super::verdicts::{Count, Distance, Needs, Redirect, Verdict};
use super::windows::Windows;
use super::written::{is_own, number, root};
use crate::ahead::Counted;
use crate::indexed::Indices;
use crate::protocol::family::{LIMIT, PASSED_BASE, PASSED_SIZE};
use crate::protocol::register::{
    GIVEN_BASE, GIVEN_SIZE, OTHER, SCRATCH, SITE, WEAK_BASE, WEAK_SIZE,
};
use crate::protocol::{PROTOTYPE, REGISTER_PREFIX};
use analysis::{Analysis, Endings, ModuleSymbols, Nameable, Place, Register, Texts};
use model::layout::LAUNCH_PARAMETER;
use model::layout::shadow::Encoding;
use ptx::table::classify;
use ptx::{Instruction, Mnemonic, OperandKind, Statement, Variable};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// The facts that a body is judged by.
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
    /// The limits in it.
    pub(super) host: HostLimits<'x>,
    /// Which addresses have an index.
    pub(super) indices: Indices<'x, 'm, 'a>,
    /// What may end the kernel before a thread exits.
    pub(super) endings: &'x Endings<'a>,
    /// The functions that calls may reach.
    pub(super) callees: &'x Callees<'a>,
    /// The constant strings of the module.
    pub(super) texts: &'x Texts<'a>,
    /// For a copy that returns bounds: its result's name, and the start and end
    /// of the bounds.
    pub(super) result: Option<(&'x str, u64, u64)>,
    /// The whole body.
    pub(super) span: ptx::Span,
    /// Addresses in shared memory may be another block's.
    pub(super) has_clusters: bool,
    /// The only local memory that lives while the function runs, if known.
    pub(super) own_frame: Option<Frame>,
    /// The function's arrays that pointers which are kept in memory may point into.
    pub(super) kept: Vec<Place>,
    /// Blocks of the device heap may be freed.
    pub(super) frees: bool,
    /// Names the module in records.
    pub(super) tag: u64,
    /// The module's target has `st.release`.
    pub(super) releases: bool,
    /// The module may ask whether an address is a parameter's.
    pub(super) has_parameter_window: bool,
    /// The site before the function's first, if sites are numbered.
    pub(super) sites_before: Option<u32>,
    /// Calls of `malloc` and `free` go to the device heap.
    pub(super) has_heap: bool,
    /// Registers with bounds that travel.
    pub(super) shadows: u32,
    /// Checks are against shadow memory.
    pub(super) shadow: Option<Encoding>,
    /// It is a residual copy: accesses that are proved have no checks.
    pub(super) is_residual: bool,
    /// Labels that statements of the function name.
    pub(super) targets: &'x FxHashSet<&'a str>,
    /// Its loops that may have quick copies, if there are copies.
    pub(super) counted: Vec<Counted<'a>>,
}

impl Input<'_, '_, '_> {
    /// Whether some statement names a label.
    fn is_target(&self, label: &str) -> bool {
        self.targets.contains(label)
    }

    /// The pragmas directly before an instruction of the program.
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

/// The state at the position in the text that was read last.
#[derive(Default)]
pub(super) struct State {
    pub(super) windows: Windows,
    pub(super) alignments: Alignments,
    pub(super) predicated_off: PredicatedOffCode,
    pub(super) calls: Calls,
    pub(super) through: Through,
    pub(super) strings: Strings,
    pub(super) roots: Roots,
    pub(super) reports: Reports,
    /// `limit register -> (size register, less)`
    pub(super) limits: FxHashMap<Text, (Text, u64)>,
    /// Limits that were maximised and not yet reduced.
    pub(super) half: FxHashSet<Text>,
    /// Redirected registers that hold the address of this symbol.
    pub(super) symbols: FxHashMap<Text, Text>,
    pub(super) negated: FxHashMap<Text, Text>,
    pub(super) constants: FxHashMap<Text, Text>,
    declared: FxHashSet<Text>,
    families: Vec<(Text, u32)>,
    /// The program's inner scopes that are open, with a number and the
    /// registers that each declares.
    scopes: Vec<(u32, Vec<Declared>)>,
    scopes_seen: u32,
    pub(super) distance: Option<Distance>,
    /// Bytes that were counted.
    pub(super) count: Option<Count>,
    /// By the predicate that holds them.
    pub(super) verdicts: FxHashMap<Text, Verdict>,
    pub(super) redirects: FxHashMap<Text, Redirect>,
    /// The result of the last lookup, and its guard.
    pub(super) found: Option<Found>,
    /// Bounds that were looked up for a call, by number.
    pub(super) passed: FxHashMap<u32, Found>,
    pub(super) passed_sizes: FxHashSet<u32>,
    /// The next result may point into the own frame, and is tested for that.
    pub(super) takes_back: bool,
    /// The bounds that are returned with the next result.
    pub(super) given: (Option<Text>, Option<Text>, Option<Found>),
    /// Sites of the accesses, strings and calls so far.
    pub(super) sites: u32,
    /// And those before the body.
    pub(super) sites_before: u32,
    /// The predicates whose site was compared with that of their first access, and
    /// whether that writes global memory: reads have sites of their own.
    pub(super) sited: FxHashMap<(Text, u32), bool>,
    /// Verdicts of which a read, or a write, has kept a site of its kind.
    pub(super) told: FxHashSet<(u32, bool)>,
    /// Sites that a check keeps, before an access has them.
    pub(super) unused_sites: BTreeMap<(u32, u32), ptx::Span>,
    /// Verdicts of which none was kept yet.
    pub(super) unsited: FxHashSet<Text>,
    pub(super) begun: u32,
    /// The requirements of the accesses that use a verdict, by its number: those that
    /// keep other sites, and those that are redirected in place of left out, too.
    pub(super) needs: FxHashMap<u32, Needs>,
    /// The site that a call of the device heap names.
    pub(super) heap_site: Option<u32>,
    pub(super) heap_sites: Vec<(u32, ptx::Span)>,
    /// Accesses of a residual copy that have no checks.
    pub(super) unchecked: Vec<Unchecked>,
    /// Loops with quick copies.
    pub(super) loops: Loops,
    /// Code that is written twice.
    pub(super) twice: Twice,
    /// The text up to here was read as a whole.
    read_until: u32,
}

/// Follows a body.
pub(super) fn follow(
    input: &Input<'_, '_, '_>,
    matched: &[Matched<'_, '_>],
    errors: &mut Errors<'_>,
) -> Followed {
    // Which number belongs to which register is not known before all bounds
    // were seen that travel: some are made of others further down.
    let mut registers = BTreeMap::new();
    while registers.len() < input.shadows as usize {
        let mut aside = Errors::aside(input.new);
        let read = read(input, matched, &registers, &mut aside);
        if read.roots.registers.len() == registers.len() {
            break;
        }
        registers = read.roots.registers;
    }
    let state = read(input, matched, &registers, errors);
    Followed {
        sites: state.sites,
        order: Order {
            takes: state.launch_order(),
            returned: state.calls.returned_bounds(),
        },
        relies: state.calls.relies,
        heap_sites: state.heap_sites.iter().map(|(site, _)| *site).collect(),
        unchecked: state.unchecked,
    }
}

/// Reads a body from its top to its end.
fn read(
    input: &Input<'_, '_, '_>,
    matched: &[Matched<'_, '_>],
    registers: &BTreeMap<u32, Register>,
    errors: &mut Errors<'_>,
) -> State {
    let mut state = State::before(matched, input);
    state.sites_before = input.sites_before.unwrap_or(0);
    state.roots.registers.clone_from(registers);
    state.find_endings(input);
    for piece in matched {
        match piece {
            Matched::Added(piece) => {
                let set = state.predicated_off.set_before();
                state.added(*piece, input, errors);
                if set > 0 && state.predicated_off.set_before() == set {
                    state.no_result_is_set(errors);
                }
            }
            Matched::Same(from, to) => state.same(*from, *to, input, errors),
            Matched::Redirected(old, new) => {
                state.names(new, errors);
                state.program(old, new, input, errors);
            }
            Matched::Copy(first, span) => state.copy_begins(*first, *span, input, errors),
            Matched::CopyEnds(span) => state.copy_ends(*span, input, errors),
            Matched::First(mark, span) => state.first_begins(*mark, *span, input, errors),
            Matched::Second(mark, span) => state.second_begins(*mark, *span, input, errors),
        }
    }
    state.end(input, errors);
    state
}

/// The result of following a body.
pub(super) struct Followed {
    /// How many sites it has.
    pub(super) sites: u32,
    pub(super) order: Order,
    pub(super) relies: Vec<Reliance>,
    /// The sites of its calls of the device heap.
    pub(super) heap_sites: Vec<u32>,
    /// Its accesses without checks, if it is a residual copy.
    pub(super) unchecked: Vec<Unchecked>,
}

/// Whether a register is a limit that belongs to a root: each has one
/// definition.
pub(super) fn is_shared_limit(register: &str) -> bool {
    number(register, LIMIT).is_some()
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
    /// Facts that are collected before a body is read: limits belong to roots,
    /// whose definitions may be further down in the text than code that they
    /// dominate.
    fn before(matched: &[Matched<'_, '_>], input: &Input<'_, '_, '_>) -> State {
        let mut state = State {
            alignments: alignment::limits(matched),
            ..State::default()
        };
        state.roots.is_head = true;
        let mut places = FxHashMap::default();
        for piece in matched {
            let Matched::Added(Piece::Statement(Statement::Instruction(instruction))) = piece
            else {
                continue;
            };
            let first = name(instruction, 0).unwrap_or("");
            if let Some(root) = number(first, crate::protocol::family::ROOT_BASE) {
                state.roots.all.insert(root);
            }
            if is_shared_limit(first) && matches!(instruction.opcode.text, "max.u64" | "sub.s64") {
                state.limit(instruction);
            }
            if let Some(loaded) = input.host.loaded(instruction, input.analysis) {
                places.insert(first.to_owned(), loaded.place);
                state.alignments.loaded(first, loaded.pointer);
                let size = (root(loaded.root).1, loaded.less);
                state.limits.insert(first.to_owned(), size);
            }
        }
        let pointers = state.alignments.pointers();
        state.roots.limits = super::roots::limits(&state.limits, &pointers, &places);
        state
    }

    /// Reads a piece that the source does not have.
    fn added(&mut self, piece: Piece<'_, '_>, input: &Input<'_, '_, '_>, errors: &mut Errors<'_>) {
        if let Piece::Statement(Statement::Instruction(instruction)) = piece {
            self.names(instruction, errors);
        }
        let span = piece.span();
        if span.start < self.read_until {
            return;
        }
        let before = std::mem::take(&mut self.loops.previous);
        if let Piece::Statement(Statement::Label(label)) = piece
            && (self.both_end(label, errors) || self.loop_label(label, before, input, errors))
        {
            return;
        }
        let unless_null = self.reports.unless_null.take();
        if let Some(end) = self.fixed_code(span.start, input) {
            self.read_until = end;
            let unless_null = self.reports.unless_null.take();
            self.forget_scratch_registers();
            self.reports.unless_null = unless_null;
            return;
        }
        self.reports.unless_null = unless_null;
        match piece {
            Piece::Statement(Statement::Instruction(instruction)) => {
                self.check_code(instruction, input, errors);
            }
            Piece::Statement(Statement::Variable(variable)) => self.declare(variable, errors),
            Piece::Open(_) | Piece::Close(_) => self.strings.scope(),
            Piece::Statement(Statement::CallPrototype(prototype))
                if prototype.label.starts_with(PROTOTYPE) =>
            {
                let text = prototype.span.text(input.new);
                self.through.prototype(prototype.label, text);
            }
            piece => errors.at(piece.span(), "neither the source's nor check code"),
        }
    }

    /// Code that has only one form.
    fn fixed_code(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        if self.twice.is_read() {
            let end = self.first_copy_code(at, input);
            let end = end.or_else(|| self.shadow_code(at, input));
            return end.or_else(|| self.unless_null_code(at, input));
        }
        if let Some(end) = self.target_code(at, input) {
            return Some(end);
        }
        if let Some(end) = self.report_code(at, input) {
            return Some(end);
        }
        if let Some(end) = self.bounds_code(at, input) {
            return Some(end);
        }
        if let Some(end) = self.heap_code(at, input) {
            return Some(end);
        }
        if let Some(end) = self.shadow_code(at, input) {
            return Some(end);
        }
        if let Some(end) = self.own_frame_code(at, input) {
            return Some(end);
        }
        if let Some(end) = self.ahead_code(at, input) {
            return Some(end);
        }
        self.lookup_code(at, input)
    }

    /// Scratch registers have other values now.
    pub(super) fn forget_scratch_registers(&mut self) {
        self.strings.goes_on();
        self.reports.unless_null = None;
        self.distance = None;
        self.count = None;
        self.constants.clear();
        self.negated.clear();
        self.windows.forget();
        self.limits.retain(|register, _| is_shared_limit(register));
        self.half.clear();
    }

    fn declare(&mut self, variable: &Variable<'_>, errors: &mut Errors<'_>) {
        match (variable.space, variable.range) {
            (ptx::VariableSpace::Reg, _) if !is_own(variable.name) => {
                errors.at(
                    variable.span,
                    "check code may only declare registers of its own",
                );
            }
            (ptx::VariableSpace::Reg, Some(count)) => {
                self.families.push((variable.name.to_owned(), count));
            }
            (ptx::VariableSpace::Reg, None) => {
                self.declared.insert(variable.name.to_owned());
            }
            (ptx::VariableSpace::Param, _) => self.calls.declare(variable),
            _ => errors.at(variable.span, "a variable that the source does not have"),
        }
    }

    /// Reads a piece that is the source's.
    fn same(
        &mut self,
        from: Piece<'_, '_>,
        to: Piece<'_, '_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        self.loops.previous = Previous::Other;
        let is_instruction_or_attached = matches!(
            from,
            Piece::Statement(Statement::Instruction(_) | Statement::Pragma(_) | Statement::Loc(_))
        );
        if !is_instruction_or_attached {
            self.no_result_is_set(errors);
        }
        match (from, to) {
            (Piece::Statement(Statement::Label(label)), _) => {
                if input.is_target(label.name) {
                    self.roots.is_head = false;
                }
                self.joins(input, errors, to.span());
            }
            (
                Piece::Statement(Statement::Instruction(old)),
                Piece::Statement(Statement::Instruction(new)),
            ) => self.program(old, new, input, errors),
            (Piece::Open(_), _) => {
                self.scopes_seen += 1;
                self.scopes.push((self.scopes_seen, Vec::new()));
            }
            (Piece::Close(_), _) => drop(self.scopes.pop()),
            (Piece::Statement(Statement::Variable(variable)), _) => {
                self.calls.declared_by_program(variable.name);
                if let Some((_, names)) = self.scopes.last_mut() {
                    names.push((variable.name.to_owned(), variable.range));
                }
            }
            _ => {}
        }
    }

    /// Control comes from elsewhere, too: what is above may not have been executed.
    pub(super) fn joins(
        &mut self,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
        span: ptx::Span,
    ) {
        self.forget_scratch_registers();
        self.must_be_set(errors, span);
        self.strings.end(span, errors);
        self.found = None;
        self.redirects.clear();
        self.verdicts.clear();
        self.through.end();
        self.block_begins();
        self.block_ends(input, errors, span);
    }

    /// Conditions on a body as a whole.
    fn end(&mut self, input: &Input<'_, '_, '_>, errors: &mut Errors<'_>) {
        self.must_be_set(errors, input.span);
        self.no_result_is_set(errors);
        self.strings.end(input.span, errors);
        self.block_ends(input, errors, input.span);
        self.all_bounds_returned(input, errors);
        self.all_needed(input, errors);
        self.all_loops_end(input, errors);
        self.all_written_twice(input, errors);
        self.all_reported(input, errors);
        self.all_defined(input, errors);
        for (index, (site, span)) in self.heap_sites.iter().enumerate() {
            let expected = self.site_now() + index as u32 + 1;
            if input.sites_before.is_some() && *site != expected {
                errors.at(*span, "the call of the device heap names another site");
            }
        }
        self.sites += self.heap_sites.len() as u32;
    }

    /// Every check must be used by an access.
    fn all_needed(&mut self, input: &Input<'_, '_, '_>, errors: &mut Errors<'_>) {
        for (_, span) in std::mem::take(&mut self.unused_sites) {
            errors.at(span, "a check keeps the site of no access");
        }
        for needs in self.needs.values() {
            let encoding = input.shadow;
            if !needs.are_met(encoding) {
                errors.at(
                    needs.span,
                    "the check covers other bytes than the accesses that go by it",
                );
            }
        }
    }

    /// A name that distinguishes registers of inner scopes from those they
    /// hide.
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
        let scopes = self.scopes.iter().rev();
        let mut hiding = scopes.filter(|(_, names)| names.iter().any(declares));
        match hiding.next() {
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
        let not = if guard.negated { "!" } else { "" };
        Some(format!("{not}{}", self.resolve(guard.register)))
    }

    /// Registers of checks must be declared.
    fn names(&self, instruction: &Instruction<'_>, errors: &mut Errors<'_>) {
        let mut one = |name: &str| {
            if !is_own(name) || self.declared.contains(name) {
                return;
            }
            let mut families = self.families.iter();
            if !families.any(|(family, count)| number(name, family).is_some_and(|n| n < *count)) {
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
        self.forget_scratch_registers();
        if !std::mem::take(&mut self.unsited).is_empty() {
            errors.at(new.span, "a check before this keeps no site");
        }
        self.must_be_set(errors, new.span);
        self.reaches_program(old, input, errors, new.span);
        self.branch_of_copy(old, new, input, errors);
        self.may_leave(old, new, input);
        self.access(old, new, input, errors);
        self.program_strings(old, new, input, errors);
        self.forget_low_bits();
        self.program_parameter(old, new, input, errors);
        self.program_call(old, new, input, errors);
        self.redirected_call(old, new, input, errors);
        self.forget(old);
        let index = input.index.get(&old.span.start);
        if let Some(&index) = index {
            self.loops.previous = Previous::Program(index);
            self.loops.next = index + 1;
        }
        let bytes = index.map_or(0, |&index| {
            input.analysis.code.instructions[index].register_bytes
        });
        self.note_predicated_off(old, new, bytes, errors);
    }

    /// Whether check code of the body has declared a register.
    pub(super) fn is_declared(&self, register: &str) -> bool {
        self.declared.contains(register)
    }

    /// Whether the body has registers for a record.
    pub(super) fn keeps_records(&self) -> bool {
        self.is_declared(SITE)
    }

    /// Notes the value of a register.
    pub(super) fn hold(&mut self, register: &str, what: Text) {
        self.constants.insert(register.to_owned(), what);
    }

    /// The constant that a register holds, or the register.
    pub(super) fn constant(&self, register: Text) -> Text {
        self.constants.get(&register).cloned().unwrap_or(register)
    }

    /// Follows `max limit, size, less; sub limit, limit, less`.
    pub(super) fn limit(&mut self, instruction: &Instruction<'_>) {
        let first = name(instruction, 0).unwrap_or("").to_owned();
        let less = integer(instruction, 2).map(|less| less as u64);
        if instruction.opcode.mnemonic() == Mnemonic::Max {
            let size = self.constant(self.text(instruction, 1));
            self.limits.insert(first.clone(), (size, less.unwrap_or(0)));
            self.half.insert(first);
            return;
        }
        let is_own = name(instruction, 1) == Some(first.as_str());
        let fits = self
            .limits
            .get(&first)
            .is_some_and(|(_, l)| Some(*l) == less);
        if !self.half.remove(&first) || !fits || !is_own {
            self.limits.remove(&first);
        }
    }

    /// Follows one instruction of check code.
    fn check_code(
        &mut self,
        instruction: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) {
        let first = name(instruction, 0).unwrap_or("");
        self.reports.unless_null.take_if(|_| first == OTHER);
        if self.predicated_off.sets(instruction, first)
            || self.predicated_off.sets_before(instruction, first)
            || self.predicated_off_code(instruction, first)
            || self.string_code(instruction, first)
        {
            return;
        }
        let is_understood = match instruction.opcode.mnemonic() {
            Mnemonic::Ld => self.own_load(instruction, input, errors),
            Mnemonic::St => {
                self.store(instruction, input, errors);
                true
            }
            _ if !first.starts_with(REGISTER_PREFIX) || is_of_bounds(first) => {
                errors.at(
                    instruction.span,
                    "check code may only write registers of its own, and those of bounds only as they must be",
                );
                return;
            }
            _ => {
                self.alignment_code(instruction, first)
                    || self.window_code(instruction, first)
                    || self.record_code_of(instruction, first)
                    || self.arithmetic(instruction, first)
                    || self.comparison(instruction, first)
                    || self.index_code(instruction, first)
                    || self.lanes_and_guards(instruction, first)
                    || self.selection(instruction, first)
                    || self.result_code(instruction, first)
            }
        };
        if !is_understood {
            self.verdicts.remove(first);
            errors.at(
                instruction.span,
                "check code that is not understood: registers of its own are written otherwise",
            );
        }
    }

    /// A load of check code: from the launch parameter, or from a call's
    /// result.
    fn own_load(
        &mut self,
        instruction: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
    ) -> bool {
        let Some(OperandKind::Address(address)) = instruction.operands.get(1).map(|o| &o.kind)
        else {
            return false;
        };
        if address.base == Some(LAUNCH_PARAMETER) {
            if input.launch.is_none() || address.offset != 0 {
                errors.at(instruction.span, "reads past the launch parameter");
            }
            let into = name(instruction, 0).unwrap_or("");
            self.hold(into, LAUNCH_PARAMETER.to_owned());
            return instruction.opcode.text == "ld.param.b64" && into == SCRATCH;
        }
        self.receive(instruction, input, errors)
    }

    /// Code for the bounds of calls and results.
    fn result_code(&mut self, instruction: &Instruction<'_>, first: &str) -> bool {
        let value = self.text(instruction, 1);
        if instruction.opcode.text == "mov.b64" && instruction.guard.is_none() {
            if let Some(n) = number(first, PASSED_BASE) {
                self.passed_sizes.remove(&n);
                self.passed.remove(&n);
                let found = self.found.clone().filter(|_| value == WEAK_BASE);
                self.passed.extend(found.map(|found| (n, found)));
                return value == WEAK_BASE;
            }
            if let Some(n) = number(first, PASSED_SIZE) {
                self.passed_sizes.insert(n);
                return value == WEAK_SIZE && self.found.as_ref() == self.passed.get(&n);
            }
            match first {
                GIVEN_BASE => {
                    let found = self.found.clone().filter(|_| value == WEAK_BASE);
                    self.given = (Some(value), None, found);
                    return true;
                }
                GIVEN_SIZE => {
                    self.given.1 = Some(value);
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    /// A redefined pointer or guard, or the end of the block, ends a check's
    /// hold.
    fn forget(&mut self, instruction: &Instruction<'_>) {
        if matches!(
            instruction.opcode.mnemonic(),
            Mnemonic::Bra
                | Mnemonic::Brx
                | Mnemonic::Ret
                | Mnemonic::Exit
                | Mnemonic::Trap
                | Mnemonic::Call
        ) {
            self.verdicts.clear();
            self.redirects.clear();
            self.found = None;
            self.through.end();
            return;
        }
        let written = self.written_by(instruction);
        self.found.take_if(|found| {
            let guard = found.guard.trim_start_matches('!');
            written.contains(&found.pointer) || written.iter().any(|name| name == guard)
        });
        self.through.written(&written);
        let stands = |pointer: &Text, verdict: &Verdict| {
            let guards = verdict.guards.iter();
            let mut guards = guards.map(|guard| guard.trim_start_matches('!'));
            !written.contains(pointer)
                && !guards.any(|guard| written.iter().any(|name| name == guard))
        };
        self.redirects
            .retain(|_, redirect| stands(&redirect.pointer, &redirect.verdict));
        self.verdicts
            .retain(|_, verdict| stands(&verdict.distance.pointer, verdict));
    }

    /// The registers that one of the program's instructions may write.
    pub(super) fn written_by(&self, instruction: &Instruction<'_>) -> Vec<Text> {
        use ptx::table::Role;
        let mut written: Vec<Text> = Vec::new();
        let mut one = |name: &str| written.push(self.resolve(name));
        let roles = classify(instruction).map(|info| info.roles);
        for (place, operand) in instruction.operands.iter().enumerate() {
            let role = roles.as_ref().and_then(|roles| roles.get(place));
            if matches!(role, Some(Role::Source | Role::Address | Role::Target)) {
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
        written
    }
}
