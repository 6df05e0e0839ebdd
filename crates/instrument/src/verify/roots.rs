//! Verifies the registers that hold bounds. The registers of a root are set
//! where the root appears. Shadow registers are set wherever their register is
//! set. Both are refreshed where blocks of the device heap may have been freed.

use super::Errors;
use super::checks::{Input, State, Text};
use super::definitions::place_text;
use super::facts::{is_found_on_device, made_by};
use super::written::{Limit, look_up_into, number, reads, root};
use crate::parameters;
use crate::protocol::family::{
    IN_SPACE, IN_SPACE_WIDE, INDEX_FROM, INDEX_SPAN, LIMIT, ROOT_BASE, SHADOW_BASE, SHADOW_SIZE,
};
use crate::protocol::register::{
    BLOCK, DYNAMIC, FIRST_UNIT, LANE, POISONED, SCRATCH, SCRATCH2, WEAK_BASE, WEAK_SIZE,
};
use crate::support::RESERVED_SHARED;
use analysis::{Referent, Register, Root, RootId, ValueId};
use model::layout::{LAUNCH_PARAMETER, LaunchBounds, LaunchHeader, LaunchRange};
use ptx::{Instruction, Mnemonic, Modifier};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The state of the registers that hold bounds.
#[derive(Default)]
pub(super) struct Roots {
    /// Roots whose bounds are used, and those that are set where they must be.
    pub(super) used: BTreeSet<u32>,
    defined: BTreeSet<u32>,
    /// Places that are used as their own space has them (in 64 bits?), and those
    /// that are set.
    pub(super) used_in_space: BTreeSet<(bool, u32)>,
    defined_in_space: BTreeSet<(bool, u32)>,
    /// Roots whose bounds were just returned with a result.
    pub(super) from_results: BTreeSet<u32>,
    /// Values whose bounds travel, and are used.
    pub(super) carried: Vec<ValueId>,
    /// Values that set them.
    pub(super) kept: FxHashSet<ValueId>,
    /// Which register the numbers of travelling bounds belong to.
    pub(super) registers: BTreeMap<u32, Register>,
    /// How many ranges of indices were loaded.
    pub(super) ranges: u32,
    /// The value of each limit register.
    pub(super) limits: BTreeMap<u32, Limit>,
    /// The program's instructions whose definitions may follow here.
    waiting: Vec<u32>,
    /// The program's next instruction.
    reached: u32,
    /// Nothing of the program was executed yet.
    pub(super) is_head: bool,
    /// Registers that are zero from the start.
    zeroed: FxHashSet<Text>,
    /// All roots and travelling bounds that the body sets anywhere.
    pub(super) all: BTreeSet<u32>,
    /// Places in the launch parameter, by offset of the program's parameter.
    launched: BTreeMap<u32, u64>,
    /// Blocks may have been freed, and bounds not been looked at since.
    is_stale: bool,
    is_refreshed: bool,
    /// Registers of one value each that were set: how many.
    singles: FxHashSet<Text>,
}

impl Roots {
    /// Whether the bounds with a number travel with a register; the first
    /// question decides.
    pub(super) fn carries(&mut self, number: u32, register: Register) -> bool {
        if let Some(&known) = self.registers.get(&number) {
            return known == register;
        }
        let is_free = !self.registers.values().any(|&other| other == register);
        if is_free {
            self.registers.insert(number, register);
        }
        is_free
    }

    /// Whether a register of the head that has one value was set.
    pub(super) fn is_set(&self, register: &str) -> bool {
        self.singles.contains(register)
    }

    /// The last of the program's instructions.
    pub(super) fn last_instruction(&self) -> Option<u32> {
        self.waiting.last().copied()
    }

    /// The next one.
    pub(super) fn next_instruction(&self) -> u32 {
        self.reached
    }

    /// The number of the bounds that travel with a register.
    pub(super) fn number_of(&self, register: Register) -> Option<u32> {
        let mut all = self.registers.iter();
        all.find(|(_, known)| **known == register).map(|(n, _)| *n)
    }
}

/// The guard before an instruction, as text.
pub(super) fn under(instruction: &Instruction<'_>) -> Text {
    match &instruction.guard {
        Some(guard) => format!(
            "@{}{}",
            if guard.negated { "!" } else { "" },
            guard.register
        ),
        None => Text::new(),
    }
}

/// Whether check code writes a register only in forms that this module accepts.
pub(super) fn is_of_bounds(register: &str) -> bool {
    let families = [
        ROOT_BASE,
        crate::protocol::family::ROOT_SIZE,
        SHADOW_BASE,
        SHADOW_SIZE,
        IN_SPACE,
        IN_SPACE_WIDE,
        LIMIT,
        INDEX_FROM,
        INDEX_SPAN,
    ];
    families
        .iter()
        .any(|family| number(register, family).is_some())
        || [DYNAMIC, BLOCK, LANE, WEAK_BASE, WEAK_SIZE].contains(&register)
}

impl State {
    /// Reads, at a place of the instrumented text, code that sets bounds.
    /// Answers where it ends.
    pub(super) fn bounds_code(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        if self.roots.is_head
            && let Some(end) = self.head_code(at, input)
        {
            return Some(end);
        }
        if self.roots.is_stale
            && let Some(end) = reads(input.new, at, self.refreshed(input))
            && end > at
        {
            (self.roots.is_stale, self.roots.is_refreshed) = (false, true);
            return Some(end);
        }
        self.definition_code(at, input)
    }

    /// The code at the top of a body.
    fn head_code(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        let text = input.new;
        let is_entry = input.analysis.code.function.is_entry;
        let window = match input.launch.filter(|_| is_entry) {
            Some(bytes) => super::blocks::window_of_launch(bytes),
            None => super::blocks::window(),
        };
        let singles = [
            (FIRST_UNIT, window),
            (LANE, format!("mov.u32 {LANE}, %laneid;")),
            (DYNAMIC, format!("mov.u32 {DYNAMIC}, %dynamic_smem_size;")),
            (
                BLOCK,
                format!(
                    "mov.u32 {BLOCK}, %total_smem_size; add.s32 {BLOCK}, {BLOCK}, {RESERVED_SHARED};"
                ),
            ),
        ];
        for (register, expected) in singles {
            if let Some(mut end) = reads(text, at, &expected) {
                self.roots.singles.insert(register.to_owned());
                let poisoned = super::blocks::poisoned(input.launch.filter(|_| is_entry));
                if register == FIRST_UNIT
                    && let Some(behind) = reads(text, end, poisoned)
                {
                    self.roots.singles.insert(POISONED.to_owned());
                    end = behind;
                }
                return Some(end);
            }
        }
        let roots = (0..input.analysis.provenance.roots.len() as u32).map(RootId);
        for id in roots {
            let (base, size) = root(id.0);
            for register in [base, size] {
                if let Some(end) = reads(text, at, format_args!("mov.b64 {register}, 0;")) {
                    self.roots.zeroed.insert(register);
                    return Some(end);
                }
            }
            if let Some(end) = self.root_at_head(id, at, input) {
                return Some(end);
            }
        }
        if let Some(end) = self.range_at_head(at, input) {
            return Some(end);
        }
        let first = super::written::word(text, at);
        if first == "mov.b64" {
            let register =
                super::written::word(text, reads(text, at, first)?).trim_end_matches(',');
            let is_shadow = [SHADOW_BASE, SHADOW_SIZE];
            let is_shadow = is_shadow.iter().any(|f| number(register, f).is_some());
            let end = reads(text, at, format_args!("mov.b64 {register}, 0;"))?;
            if is_shadow {
                self.roots.zeroed.insert(register.to_owned());
                return Some(end);
            }
        }
        None
    }

    /// A root that is there from the start.
    fn root_at_head(&mut self, id: RootId, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        let analysis = input.analysis;
        let (base, size) = root(id.0);
        let kind = analysis.provenance.root(id)?;
        let mut expected = Text::new();
        match kind {
            Root::KernelParameter { offset } if input.launch.is_some() => {
                let each = size_of::<LaunchBounds>() as u64;
                let place = self.launch_place(&base, at, input)?;
                let header = size_of::<LaunchHeader>() as u64;
                let is_place = place >= header && (place - header).is_multiple_of(each);
                let known = self.roots.launched.iter();
                let mut other = known.filter(|(other, _)| **other != offset);
                if !is_place || other.any(|(_, other)| *other == place) {
                    return None;
                }
                if *self.roots.launched.entry(offset).or_insert(place) != place {
                    return None;
                }
                let _ = write!(
                    expected,
                    "ld.param.b64 {base}, [{LAUNCH_PARAMETER}+{place}]; \
                     ld.param.b64 {size}, [{LAUNCH_PARAMETER}+{}]; ",
                    place + std::mem::offset_of!(LaunchBounds, size) as u64
                );
            }
            Root::KernelParameter { offset } => {
                let (name, within) = parameters::holding(analysis.code.function, offset)?;
                let _ = write!(expected, "ld.param.b64 {SCRATCH2}, [{name}+{within}]; ");
                expected += &look_up_into(SCRATCH2, "", (&base, &size));
            }
            Root::Variable { symbol } => {
                let symbol = &analysis.code.symbols[symbol.0 as usize];
                let _ = write!(expected, "mov.u64 {base}, {}; ", symbol.name);
                if symbol.size.is_none() {
                    expected += &look_up_into(&base, "", (&base, &size));
                }
            }
            Root::Whole { .. } | Root::Part { .. } => {
                if let Some(end) = self.place_in_space(id, at, input) {
                    return Some(end);
                }
                expected += &place_text(id, input)?;
            }
            _ => return None,
        }
        expected += &self.limits_of(id);
        let end = reads(input.new, at, &expected)?;
        self.roots.defined.insert(id.0);
        Some(end)
    }

    /// Where the launch parameter has the bounds that are loaded here.
    fn launch_place(&self, base: &str, at: u32, input: &Input<'_, '_, '_>) -> Option<u64> {
        let after = reads(input.new, at, format_args!("ld.param.b64 {base},"))?;
        let place = super::written::word(input.new, after);
        let place = place.strip_prefix('[')?.strip_suffix("];")?;
        let place: u64 = place
            .strip_prefix(LAUNCH_PARAMETER)?
            .strip_prefix('+')?
            .parse()
            .ok()?;
        let end = place.checked_add(size_of::<LaunchBounds>() as u64)?;
        (Some(end) <= input.launch).then_some(place)
    }

    /// The address of a place as its own space has it.
    fn place_in_space(&mut self, id: RootId, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        let place = input.analysis.place(id)?;
        let name = input.analysis.code.symbols[place.symbol.0 as usize].name;
        let (wide, narrow) = (
            format!("{IN_SPACE_WIDE}{}", id.0),
            format!("{IN_SPACE}{}", id.0),
        );
        let mut texts = [
            format!("mov.u64 {wide}, {name}; "),
            format!("mov.u64 {SCRATCH}, {name}; cvt.u32.u64 {narrow}, {SCRATCH}; "),
        ];
        if place.start > 0 {
            let start = place.start;
            let _ = write!(texts[0], "add.s64 {wide}, {wide}, {start}; ");
            let _ = write!(texts[1], "add.s32 {narrow}, {narrow}, {start}; ");
        }
        for (text, is_wide) in texts.iter().zip([true, false]) {
            if let Some(end) = reads(input.new, at, text) {
                self.roots.defined_in_space.insert((is_wide, id.0));
                return Some(end);
            }
        }
        None
    }

    /// Reads code tentatively; its uses only count if it matches.
    pub(super) fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let uses = (self.roots.used.clone(), self.roots.used_in_space.clone());
        let carried = self.roots.carried.len();
        let found = read(self);
        if found.is_none() {
            (self.roots.used, self.roots.used_in_space) = uses;
            self.roots.carried.truncate(carried);
        }
        found
    }

    /// The code after the program's instructions: bounds of the roots that they
    /// define, then shadows of their results.
    fn definition_code(&mut self, at: u32, input: &Input<'_, '_, '_>) -> Option<u32> {
        let analysis = input.analysis;
        let made = |value: ValueId| made_by(analysis, value);
        let waiting = self.roots.waiting.clone();
        if waiting.is_empty() {
            return None;
        }
        for (id, kind) in analysis.provenance.roots.iter().enumerate() {
            let id = RootId(id as u32);
            let Some(value) = kind.value() else { continue };
            if self.roots.defined.contains(&id.0)
                || !made(value).is_some_and(|made| waiting.contains(&made))
            {
                continue;
            }
            let end = self.attempt(|state| {
                let expected = state.root_text(id, value, input)? + &state.limits_of(id);
                reads(input.new, at, &expected)
            });
            if let Some(end) = end {
                self.roots.defined.insert(id.0);
                return Some(end);
            }
        }
        for &index in &waiting {
            for reference in analysis.code.references_of(index as usize) {
                let value = reference.value;
                if value == ValueId::NONE
                    || !matches!(reference.referent, Referent::Wide(_))
                    || made(value) != Some(index)
                    || self.roots.kept.contains(&value)
                {
                    continue;
                }
                if let Some(end) = self.attempt(|state| state.travelling(value, at, input)) {
                    self.roots.kept.insert(value);
                    return Some(end);
                }
            }
        }
        None
    }

    /// The bounds returned with a result are in a root's registers. Often no
    /// further code follows.
    pub(super) fn receive_root(&mut self, number: u32, input: &Input<'_, '_, '_>) {
        self.roots.from_results.insert(number);
        let id = RootId(number);
        let value = input.analysis.provenance.root(id).and_then(Root::value);
        let text = value.and_then(|value| self.root_text(id, value, input));
        if text.is_some_and(|text| text.is_empty()) && self.limits_of(id).is_empty() {
            self.roots.defined.insert(number);
        }
    }

    /// One of the program's instructions is next.
    pub(super) fn reaches_program(
        &mut self,
        old: &Instruction<'_>,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
        span: ptx::Span,
    ) {
        self.roots.is_head = false;
        let Some(&index) = input.index.get(&old.span.start) else {
            return;
        };
        let loads = |index: u32| {
            let inst = input.analysis.code.instructions.get(index as usize);
            inst.is_some_and(|inst| {
                let opcode = &inst.instruction.opcode;
                opcode.mnemonic() == Mnemonic::Ld
                    && (opcode.has(Modifier::Param) || opcode.has(Modifier::ParamFunc))
            })
        };
        let index = index as u32;
        self.roots.reached = index + 1;
        let before = self.roots.waiting.last().copied();
        let block = |index: u32| input.analysis.cfg.block_of.get(index as usize);
        let goes_on = before.is_some_and(|before| {
            loads(before) && loads(index) && before + 1 == index && block(before) == block(index)
        });
        // The results of a call are read before anything else.
        let is_read_first =
            before.is_some_and(|before| loads(index) && block(before) == block(index));
        if self.roots.is_stale && !is_read_first {
            self.must_be_fresh(input, errors, span);
        }
        if !goes_on {
            self.roots.waiting.clear();
            self.roots.from_results.clear();
        }
        self.roots.waiting.push(index);
        self.roots.is_stale |= input.frees && may_free(old);
    }

    /// A block or a body ends.
    pub(super) fn block_ends(
        &mut self,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
        span: ptx::Span,
    ) {
        self.must_be_fresh(input, errors, span);
        self.roots.waiting.clear();
        self.roots.from_results.clear();
    }

    fn must_be_fresh(
        &mut self,
        input: &Input<'_, '_, '_>,
        errors: &mut Errors<'_>,
        span: ptx::Span,
    ) {
        if self.roots.is_stale && !self.refreshed(input).is_empty() {
            errors.at(
                span,
                "bounds of blocks that may have been freed are not looked at again",
            );
        }
        self.roots.is_stale = false;
    }

    /// All bounds that are used must be set where they must be.
    pub(super) fn all_defined(&mut self, input: &Input<'_, '_, '_>, errors: &mut Errors<'_>) {
        if let Some(size) = input.launch
            && input.analysis.code.function.is_entry
        {
            let taken = size_of::<LaunchBounds>() * self.roots.launched.len();
            let taken = taken + size_of::<u64>() * input.host.limits.len();
            let taken = taken + size_of::<LaunchRange>() * input.host.indices.len();
            // Those that only a proof needs are the host's.
            let is_all = input.shadow.is_none();
            if is_all && size != (size_of::<LaunchHeader>() + taken) as u64 {
                errors.at(
                    input.span,
                    "the launch parameter is not a header, bounds that are used, and limits and ranges",
                );
            }
        }
        self.follow_carried(input, errors);
        let mut missing = |what: Text| {
            errors.at(
                input.span,
                format!("the bounds in `{what}` are not set where they must be"),
            );
        };
        for &id in self.roots.used.difference(&self.roots.defined) {
            missing(root(id).0);
        }
        for &(is_wide, id) in &self.roots.used_in_space {
            let family = if is_wide { IN_SPACE_WIDE } else { IN_SPACE };
            if !self.roots.defined_in_space.contains(&(is_wide, id)) {
                missing(format!("{family}{id}"));
            }
        }
        if self.roots.is_refreshed {
            let mut all = Vec::new();
            for &id in &self.roots.all {
                if is_found_on_device(input.analysis, input.analysis.provenance.root(RootId(id))) {
                    all.extend(<[Text; 2]>::from(root(id)));
                }
            }
            for n in 0..input.shadows {
                all.extend([format!("{SHADOW_BASE}{n}"), format!("{SHADOW_SIZE}{n}")]);
            }
            for register in all {
                if !self.roots.zeroed.contains(&register) {
                    errors.at(
                        input.span,
                        format!("`{register}` may be read before it is set"),
                    );
                }
            }
        }
    }

    /// Offsets of the program's parameters whose bounds are passed, in order.
    pub(super) fn launch_order(&self) -> Vec<(u64, u32)> {
        let mut order: Vec<(u64, u32)> = self
            .roots
            .launched
            .iter()
            .map(|(offset, at)| (*at, *offset))
            .collect();
        order.sort_unstable();
        order
    }
}

/// Whether other code may have freed blocks when an instruction is done: the
/// function it calls, or other threads before a barrier.
fn may_free(instruction: &Instruction<'_>) -> bool {
    match instruction.opcode.mnemonic() {
        Mnemonic::Bar | Mnemonic::Barrier => true,
        Mnemonic::Call => {
            let harmless = ["malloc", "vprintf", "__assertfail"];
            let called = instruction.called_function();
            !called.is_some_and(|(_, name)| harmless.contains(&name))
        }
        _ => false,
    }
}

/// The values of limit registers, by number. They are read from every place
/// that computes or loads them; all must agree.
pub(super) fn limits(
    known: &FxHashMap<Text, (Text, u64)>,
    pointers: &FxHashMap<Text, (Text, i64, i64, u64)>,
    places: &FxHashMap<Text, u64>,
) -> BTreeMap<u32, Limit> {
    let limits = known.iter().filter_map(|(register, (size, less))| {
        let limit = Limit {
            root: number(size, crate::protocol::family::ROOT_SIZE)?,
            less: *less,
            pointer: pointers.get(register).cloned(),
            place: places.get(register).copied(),
        };
        Some((number(register, LIMIT)?, limit))
    });
    limits.collect()
}
