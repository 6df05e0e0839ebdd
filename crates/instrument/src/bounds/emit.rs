//! Writes the PTX of a plan.
//!
//! A check of an address `a`, with constant offsets from `low` on, over `n`
//! bytes, against `base` and `size`. The access is out of bounds exactly if
//! `a + low - base >= max(size, n - 1) - (n - 1)`, unsigned. That holds for
//! every alignment and never wraps: an address before the base gives a huge
//! offset, and a size below `n` gives a limit of zero. (`aligned` describes how
//! the same check covers alignment.)

use super::aligned::{Address, Aligned, or_misaligned};
use super::demand::About;
use super::inside::InSpace;
use super::limits::Limit;
use super::pieces::{limit, lookup_in, operand_name, outside_only, reg, sink, still};
use super::plan::{Base, Group, Plan, Source};
use super::predicated_off::goes_on;
use super::source::is_found_on_device;
use super::text::*;
use crate::patch::{Patch, line};
use crate::protocol::LABEL_PREFIX;
use crate::shadow;
use crate::support::RecordCode;
use analysis::{
    Analysis, Definition, Endings, Nameable, Register, Root, RootId, ValueId, first_store,
    open_loops,
};
use model::layout::UNBOUNDED;
use model::layout::shadow::Encoding;
use ptx::table::Extent;
use ptx::{Guard, Instruction, Mnemonic, OperandKind};
use rustc_hash::{FxHashMap, FxHashSet};

/// Pointers below this are null, with an offset.
const NULL_PAGE: u64 = 4096;

/// What happens once a check has failed.
#[derive(Clone, Copy)]
pub(super) struct Reports<'x> {
    /// The code that writes a record.
    pub(super) record: &'x RecordCode,
    /// A thread that fails a check traps there.
    pub(super) traps: bool,
    /// Loops have no quick copies.
    pub(super) in_place: bool,
    /// What may end the kernel before the thread exits.
    pub(super) endings: &'x Endings<'x>,
}

pub(super) struct Emit<'x, 'm, 'a> {
    pub(super) analysis: &'x Analysis<'m, 'a>,
    pub(super) nameable: &'x Nameable<'x, 'a>,
    pub(super) plan: &'x Plan,
    pub(super) reports: Reports<'x>,
    /// Number of each limit register.
    limits: FxHashMap<Limit, u32>,
    /// The same, in order of number.
    pub(super) limit_list: Vec<Limit>,
    pub(super) shadows: FxHashMap<Register, u32>,
    /// Roots and shadowed values, by the instruction that makes them.
    pub(super) made: FxHashMap<u32, Made>,
    pub(super) labels: u32,
    /// Code is written that only notes what is not in its buffer.
    pub(super) is_trial: bool,
    /// Some code is written twice.
    pub(super) has_trials: bool,
    /// What records need of objects in spaces of their own.
    pub(super) in_space: Option<InSpace>,
    /// The group whose verdict the last check before this one used.
    pub(super) last_owner: Option<u32>,
    /// How many registers of 32 bits, and of 64, are used before loops; none if there is
    /// no loop with a quick copy.
    pub(super) ahead: Option<(u32, u32)>,
    /// Bounds may be refreshed, so their registers need an initial value.
    pub(super) refreshed: bool,
    /// Numbers of the arguments that are looked up, by call and argument.
    pub(super) passed: FxHashMap<(u32, u32), u32>,
    /// The instructions before which a thread writes its record, although it may
    /// go on behind what they belong to.
    pub(super) may_end_in: FxHashSet<u32>,
    /// The first instructions of open loops, where threads that have failed a check
    /// count.
    pub(super) open_loops: FxHashSet<u32>,
}

#[derive(Default)]
pub(super) struct Made {
    pub(super) roots: Vec<(RootId, ValueId)>,
    pub(super) values: Vec<ValueId>,
}

impl<'x, 'm, 'a> Emit<'x, 'm, 'a> {
    pub(super) fn of(
        About { analysis, nameable }: About<'x, 'm, 'a>,
        plan: &'x Plan,
        reports: Reports<'x>,
    ) -> Self {
        let mut emit = Emit {
            analysis,
            nameable,
            plan,
            reports,
            limits: FxHashMap::default(),
            limit_list: Vec::new(),
            shadows: FxHashMap::default(),
            made: FxHashMap::default(),
            labels: 0,
            is_trial: false,
            has_trials: false,
            in_space: plan.in_space(analysis),
            last_owner: None,
            ahead: None,
            refreshed: false,
            passed: FxHashMap::default(),
            may_end_in: FxHashSet::default(),
            open_loops: FxHashSet::default(),
        };
        if !plan.is_empty() {
            let instructions = analysis.code.instructions.iter().enumerate();
            let ends = instructions.filter(|(_, i)| reports.endings.may_end_in(i.instruction));
            emit.may_end_in
                .extend(ends.map(|(index, _)| first_store(analysis, index) as u32));
            // (A thread that traps goes round no loop.)
            if !reports.traps {
                emit.open_loops.extend(open_loops(analysis));
            }
        }
        emit.limit_list = plan.limits_of_checks(analysis);
        let numbered = emit.limit_list.iter().zip(0..);
        emit.limits = numbered.map(|(&limit, number)| (limit, number)).collect();
        for (number, &register) in plan.shadow_registers.iter().enumerate() {
            emit.shadows.insert(register, number as u32);
        }
        let at = |value: ValueId| match analysis.ssa.value(value).map(|v| v.definition) {
            Some(Definition::Instruction { instruction, .. }) => Some(instruction),
            _ => None,
        };
        for &root in &plan.needed {
            if let Some(value) = analysis.provenance.root(root).and_then(Root::value)
                && let Some(instruction) = at(value)
            {
                emit.made
                    .entry(instruction)
                    .or_default()
                    .roots
                    .push((root, value));
            }
        }
        for &value in &plan.shadowed {
            if let Some(instruction) = at(value) {
                emit.made.entry(instruction).or_default().values.push(value);
            }
        }
        // The sets have no order of their own; the text must have one.
        for made in emit.made.values_mut() {
            made.roots.sort_unstable();
            made.values.sort_unstable();
        }
        emit
    }

    /// The size of a root, if it is fixed in the module's text.
    pub(super) fn constant_size(&self, root: RootId) -> Option<u64> {
        constant_size(self.analysis, root)
    }

    /// The roots whose bounds were looked up on the device, here or by a
    /// caller.
    pub(super) fn looked_up(&self) -> Vec<RootId> {
        let is_lookup =
            |root: &RootId| is_found_on_device(self.analysis, self.analysis.provenance.root(*root));
        let mut roots: Vec<RootId> = self.plan.needed.iter().copied().filter(is_lookup).collect();
        roots.sort_unstable();
        roots
    }

    /// Another thread, or this one, may have freed blocks of the device heap:
    /// their bounds are none any more.
    pub(super) fn refresh(&self, out: &mut String) {
        out.push_str("\n\t");
        for root in self.looked_up() {
            let (base, size) = (Op::Family(ROOT_BASE, root.0), Op::Family(ROOT_SIZE, root.0));
            still(base, size, out);
            self.limits_of(root, out);
        }
        for number in 0..self.shadows.len() as u32 {
            let (base, size) = (
                Op::Family(SHADOW_BASE, number),
                Op::Family(SHADOW_SIZE, number),
            );
            still(base, size, out);
        }
    }

    /// A body that control can fall out of ends like one with a `ret`.
    pub(super) fn end(&mut self, patch: &mut Patch) {
        let Some(body) = &self.analysis.code.function.body else {
            return;
        };
        let Some(last) = self.analysis.cfg.blocks.last() else {
            return;
        };
        let leaves =
            match self.analysis.code.instructions[last.first as usize..last.end as usize].last() {
                Some(inst) => {
                    inst.instruction.guard.is_none()
                        && matches!(
                            inst.instruction.opcode.mnemonic(),
                            Mnemonic::Ret
                                | Mnemonic::Exit
                                | Mnemonic::Trap
                                | Mnemonic::Bra
                                | Mnemonic::Brx
                        )
                }
                None => false,
            };
        if !leaves {
            patch.insert(body.span.end - 1, |out| self.report(None, out));
        }
        if !self.open_loops.is_empty() {
            patch.insert(body.span.end - 1, |out| {
                if !leaves {
                    line!(out, "ret;");
                }
                self.leave(out);
            });
        }
    }

    /// The text of the register that an instruction writes.
    pub(super) fn name_of(&self, value: ValueId) -> Option<&'a str> {
        let Definition::Instruction {
            instruction,
            reference,
            ..
        } = self.analysis.ssa.value(value)?.definition
        else {
            return None;
        };
        let reference = self.analysis.code.references[reference as usize];
        let operands = &self.analysis.code.instructions[instruction as usize]
            .instruction
            .operands;
        match &operands.get(usize::from(reference.operand))?.kind {
            OperandKind::Name(name) => Some(name),
            OperandKind::Vector(elements) | OperandKind::List(elements) => {
                match elements.get(usize::from(reference.element))?.kind {
                    OperandKind::Name(name) => Some(name),
                    _ => None,
                }
            }
            OperandKind::Pair(left, right) => {
                Some(if reference.element == 0 { left } else { right })
            }
            _ => None,
        }
    }

    /// The check that a group's first member carries.
    pub(super) fn check(
        &mut self,
        number: u32,
        group: &Group,
        index: usize,
        operand: usize,
        out: &mut String,
    ) {
        let instruction = self.analysis.code.instructions[index].instruction;
        let guard = instruction.guard;
        let redirected = Op::Family(REDIRECTED, number);
        let Some(OperandKind::Address(address)) =
            instruction.operands.get(operand).map(|o| &o.kind)
        else {
            return;
        };
        let Some(name) = address.base else { return };
        if let Some(window) = group.window {
            self.check_in_window((number, group), window, (index, operand), name, out);
            return;
        }
        let pointer = match group.base {
            Base::Register(_) => Op::Program(name),
            Base::Symbol(_) => {
                line!(out, "mov.u64 {redirected}, {name};");
                redirected
            }
        };
        // The predicate that keeps the twin's verdict is still valid.
        let owner = group.twin.unwrap_or(number);
        let outside = match self.plan.groups[owner as usize].keeps {
            Some(kept) => Op::Family(KEPT, kept),
            None => OUTSIDE,
        };
        let by_shadow = self.plan.shadow.filter(|_| group.source == Source::Byte);
        let (base, size) = match by_shadow {
            Some(_) => (Op::Constant(0), Op::Constant(0)),
            None => self.bounds_for(group, pointer, guard, out),
        };
        let tried = match self.is_trial && group.twin.is_none() {
            true => self.plan.near(self.analysis, group),
            false => None,
        };
        match by_shadow {
            _ if group.twin.is_some() => {}
            Some(encoding) => match tried {
                Some(root) => {
                    self.near_verdict((root, group), (pointer, guard), outside, out);
                    line!(out, "or.pred {FAR}, {FAR}, {outside};");
                    also_unless(group, instruction, outside, out);
                }
                None => {
                    self.compare_shadow(encoding, (group, instruction), pointer, outside, out);
                }
            },
            None if self.compare_index(number, guard, outside, out) => {}
            None => self.compare(group, instruction, (pointer, base, size), outside, out),
        }
        if tried.is_some() {
            // Nothing is wrong yet.
            self.last_owner = None;
            self.redirect((number, group), (pointer, guard), outside, out);
            return;
        }
        let host_knows = group.source == Source::Byte || self.host_knows_bounds(group);
        // Right after its twin, all but the site is in place already.
        let again = group.twin.is_some() && self.last_owner == Some(owner);
        self.last_owner = Some(owner);
        let keeps = match self.may_be_read(group) {
            true => {
                keeps_unless_null(pointer, outside, group.twin.is_some(), out);
                OTHER
            }
            false => outside,
        };
        if !host_knows && !again {
            line!(out, "@{keeps} mov.b64 {RECORD_BASE}, {base};");
            line!(out, "@{keeps} mov.b64 {RECORD_SIZE}, {size};");
        }
        line!(out, "@{keeps} mov.u32 {SITE}, {};", group.site.0);
        if !again {
            line!(out, "@{keeps} mov.b64 {ADDRESS}, {pointer};");
        }
        self.redirect((number, group), (pointer, guard), outside, out);
    }

    /// Leaves out accesses whose check has failed.
    fn redirect(
        &self,
        (number, group): (u32, &Group),
        (pointer, guard): (Op<'a>, Option<Guard<'a>>),
        outside: Op<'a>,
        out: &mut String,
    ) {
        if group.redirects {
            let redirected = Op::Family(REDIRECTED, number);
            line!(
                out,
                "selp.b64 {redirected}, {}, {pointer}, {outside};",
                sink(group)
            );
        }
        if let (true, Some(guard)) = (group.skips, guard) {
            goes_on(Op::Family(GO, number), guard, outside, out);
        }
    }

    /// Whether a pointer may be what an earlier access read, which then may have
    /// failed its check.
    fn may_be_read(&self, group: &Group) -> bool {
        let source = match group.source {
            Source::Byte => group.proves,
            source => source,
        };
        let of = |root| self.analysis.provenance.root(root);
        match (source, group.base) {
            _ if group.in_doubt => true,
            (Source::Root(root), _) => is_found_on_device(self.analysis, of(root)),
            (Source::Shadow(_) | Source::Weak, Base::Register(_)) => true,
            _ => false,
        }
    }

    /// Base and size that a group's addresses are checked against.
    fn bounds_for(
        &mut self,
        group: &Group,
        pointer: Op<'a>,
        guard: Option<Guard<'a>>,
        out: &mut String,
    ) -> (Op<'a>, Op<'a>) {
        match group.source {
            Source::Declared(size) => (pointer, Op::Constant(size)),
            Source::Weak => {
                // The address of a variable has the variable's bounds; any
                // other address only shows what it points to itself.
                let probe = match group.base {
                    Base::Register(_) if group.low != 0 => {
                        line!(out, "add.s64 {OFFSET}, {pointer}, {};", group.low);
                        OFFSET
                    }
                    _ => pointer,
                };
                lookup_in(probe, guard, out);
                (WEAK_BASE, WEAK_SIZE)
            }
            source if group.in_doubt => {
                let bounds = self.generic_bounds(source);
                self.unless_empty((pointer, group.low), bounds, guard, out);
                (WEAK_BASE, WEAK_SIZE)
            }
            source => self.generic_bounds(source),
        }
    }

    /// Sets `outside` where an address is not within its bounds.
    fn compare(
        &mut self,
        group: &Group,
        instruction: &Instruction<'a>,
        (pointer, base, size): (Op<'a>, Op<'a>, Op<'a>),
        outside: Op<'a>,
        out: &mut String,
    ) {
        let guard = instruction.guard;
        line!(out, "sub.s64 {OFFSET}, {pointer}, {base};");
        if group.low != 0 {
            line!(out, "add.s64 {OFFSET}, {OFFSET}, {};", group.low);
        }
        match group.extent {
            Extent::Bytes(bytes) | Extent::BytesUnless(bytes, _) => {
                let limit = self.limit_of(group, bytes - 1, size, out);
                match guard {
                    _ if group.aligned == Aligned::Tested => {
                        line!(out, "setp.ge.u64 {outside}, {OFFSET}, {limit};");
                        or_misaligned(group, Address::Wide(pointer), outside, out);
                        if let Some(guard) = guard {
                            outside_only(outside, guard.register, guard.negated, out);
                        }
                    }
                    None => line!(out, "setp.ge.u64 {outside}, {OFFSET}, {limit};"),
                    Some(Guard {
                        negated, register, ..
                    }) => {
                        let not = if negated { "!" } else { "" };
                        line!(
                            out,
                            "setp.ge.and.u64 {outside}, {OFFSET}, {limit}, {not}{register};"
                        );
                    }
                }
            }
            Extent::Operand(_) | Extent::Steps { .. } => {
                let address = Address::Wide(pointer);
                self.counted(group, instruction, (address, size), outside, out);
            }
        }
        also_unless(group, instruction, outside, out);
    }

    /// Sets `outside` where a byte is not addressable.
    fn compare_shadow(
        &mut self,
        encoding: Encoding,
        (group, instruction): (&Group, &Instruction<'a>),
        pointer: Op<'a>,
        outside: Op<'a>,
        out: &mut String,
    ) {
        let guard = instruction.guard;
        let under = |out: &mut String| {
            if let Some(guard) = guard {
                outside_only(outside, guard.register, guard.negated, out);
            }
        };
        let near = self.plan.near(self.analysis, group).map(|root| {
            self.labels += 1;
            (root, self.labels - 1)
        });
        if let Some((root, label)) = near {
            self.near_verdict((root, group), (pointer, guard), outside, out);
            line!(out, "@!{outside} bra {LABEL_PREFIX}near{label};");
        }
        match group.extent {
            Extent::Bytes(bytes) | Extent::BytesUnless(bytes, _) => {
                let checked = shadow::Checked {
                    encoding,
                    low: group.low,
                    bytes,
                    alignment: group.needs,
                    asks_heap: self.plan.asks_heap,
                };
                if checked.form() == shadow::Form::Many {
                    shadow::call(&pointer, group.low, &bytes, &outside, out);
                    under(out);
                } else {
                    let label = self.labels;
                    self.labels += 1;
                    shadow::check(&checked, &pointer, guard, &outside, label, out);
                }
            }
            Extent::Operand(operand) | Extent::Steps { operand, .. } => {
                let Some(count) = operand_name(instruction, operand) else {
                    return;
                };
                counted_bytes(group, count, out);
                // The function would read as many blocks as there are where the
                // access is not made, too.
                if let Some(guard) = guard {
                    let (yes, no) = match guard.negated {
                        true => (Op::Constant(0), SCRATCH),
                        false => (SCRATCH, Op::Constant(0)),
                    };
                    line!(out, "selp.b64 {SCRATCH}, {yes}, {no}, {};", guard.register);
                }
                shadow::call(&pointer, group.low, &SCRATCH, &outside, out);
                under(out);
            }
        }
        if let Some((_, label)) = near {
            line!(out, "{LABEL_PREFIX}near{label}:");
        }
        also_unless(group, instruction, outside, out);
    }

    /// Base of a parameter's buffer, and the limit of offsets there.
    pub(super) fn near_bounds(&self, root: RootId, group: &Group, less: u64) -> (Op<'a>, Op<'a>) {
        let known = group.limit(root, less);
        let limit = match known.and_then(|limit| self.limits.get(&limit)) {
            Some(&number) => Op::Family(LIMIT, number),
            None => Op::Family(ROOT_SIZE, root.0),
        };
        (Op::Family(ROOT_BASE, root.0), limit)
    }

    /// The limit for offsets so that the following `less` bytes are in bounds,
    /// too.
    pub(super) fn limit_of(
        &self,
        group: &Group,
        less: u64,
        size: Op<'a>,
        out: &mut String,
    ) -> Op<'a> {
        match (group.source, size) {
            (_, Op::Constant(size)) => Op::Constant(size.max(less) - less),
            (Source::Root(root), size) if !group.in_doubt => {
                let known = group.limit(root, less);
                match known.and_then(|limit| self.limits.get(&limit)) {
                    Some(&number) => Op::Family(LIMIT, number),
                    None => size,
                }
            }
            (_, size) if less == 0 => size,
            (_, size) => {
                limit(SCRATCH, size, less, out);
                SCRATCH
            }
        }
    }

    /// Whether the host knows the bounds of a group: it passed them to the
    /// launch.
    fn host_knows_bounds(&self, group: &Group) -> bool {
        match group.source {
            Source::Root(root) => {
                self.plan.launch
                    && !group.in_doubt
                    && self.analysis.code.function.is_entry
                    && matches!(
                        self.analysis.provenance.root(root),
                        Some(Root::KernelParameter { .. })
                    )
            }
            _ => false,
        }
    }

    /// The bounds of the source, or those of the address if the source's are
    /// empty: then the source was no pointer. Lanes whose bounds are not empty
    /// skip the call.
    pub(super) fn unless_empty(
        &mut self,
        (pointer, low): (Op<'a>, i64),
        (base, size): (Op<'a>, Op<'a>),
        guard: Option<Guard<'a>>,
        out: &mut String,
    ) {
        let number = self.labels;
        self.labels += 1;
        line!(out, "mov.b64 {WEAK_BASE}, {base};");
        line!(out, "mov.b64 {WEAK_SIZE}, {size};");
        let probe = match low {
            0 => pointer,
            low => {
                line!(out, "add.s64 {OFFSET}, {pointer}, {low};");
                OFFSET
            }
        };
        line!(out, "setp.ne.s64 {OTHER}, {WEAK_SIZE}, 0;");
        line!(out, "@{OTHER} bra {LABEL_PREFIX}known{number};");
        lookup_in(probe, guard, out);
        line!(out, "{LABEL_PREFIX}known{number}:");
    }

    /// Base and size that generic addresses are checked against, where they are in
    /// registers or constants.
    pub(super) fn generic_bounds(&self, source: Source) -> (Op<'a>, Op<'a>) {
        let shadow = match source {
            Source::Root(root) => return self.root_bounds(root),
            Source::Shadow(register) => self.shadows.get(&register),
            _ => None,
        };
        match shadow {
            Some(&number) => (
                Op::Family(SHADOW_BASE, number),
                Op::Family(SHADOW_SIZE, number),
            ),
            None => (Op::Constant(0), Op::Constant(UNBOUNDED)),
        }
    }

    /// Where the bytes are counted at run time: `OFFSET` is how far the first
    /// is from the base.
    pub(super) fn counted(
        &self,
        group: &Group,
        instruction: &ptx::Instruction<'a>,
        (address, size): (Address<'_>, Op<'_>),
        outside: Op<'_>,
        out: &mut String,
    ) {
        let (Extent::Operand(operand) | Extent::Steps { operand, .. }) = group.extent else {
            return;
        };
        let Some(count) = operand_name(instruction, operand) else {
            return;
        };
        let size = reg(size, SCRATCH2, out);
        counted_bytes(group, count, out);
        // Outside if any byte is: offset > size, or more bytes than are left;
        // no bytes are never outside.
        line!(out, "setp.gt.u64 {outside}, {OFFSET}, {size};");
        line!(out, "sub.s64 {OFFSET}, {size}, {OFFSET};");
        line!(
            out,
            "setp.gt.or.u64 {outside}, {SCRATCH}, {OFFSET}, {outside};"
        );
        or_misaligned(group, address, outside, out);
        line!(out, "setp.ne.and.s64 {outside}, {SCRATCH}, 0, {outside};");
        if let Some(Guard {
            negated, register, ..
        }) = instruction.guard
        {
            outside_only(outside, register, negated, out);
        }
    }
}

/// Sets `OTHER` where a failed check is kept for the record. A null pointer is
/// what a read gives that failed its check: it does not displace what failed
/// before. What does a second access by the same verdict is kept, too.
fn keeps_unless_null(pointer: Op<'_>, outside: Op<'_>, again: bool, out: &mut String) {
    line!(out, "setp.ge.u64 {OTHER}, {pointer}, {NULL_PAGE};");
    line!(out, "setp.eq.or.s32 {OTHER}, {SITE}, 0, {OTHER};");
    if again {
        line!(
            out,
            "setp.eq.or.s64 {OTHER}, {ADDRESS}, {pointer}, {OTHER};"
        );
    }
    line!(out, "and.pred {OTHER}, {OTHER}, {outside};");
}

/// `SCRATCH` is how many bytes an access uses, where that is counted at run time.
fn counted_bytes(group: &Group, count: &str, out: &mut String) {
    if let Extent::Steps {
        step, shift, last, ..
    } = group.extent
    {
        line!(out, "mul.wide.u32 {SCRATCH}, {count}, {step};");
        if shift != 0 {
            line!(out, "shr.u64 {SCRATCH}, {SCRATCH}, {shift};");
        }
        line!(out, "add.s64 {SCRATCH}, {SCRATCH}, {last};");
    } else {
        line!(out, "cvt.u64.u32 {SCRATCH}, {count};");
    }
}

/// The size of a root, if it is fixed in the module's text.
pub(super) fn constant_size(analysis: &Analysis<'_, '_>, root: RootId) -> Option<u64> {
    match analysis.provenance.root(root)? {
        Root::Variable { symbol } => analysis.code.symbols[symbol.0 as usize].size,
        _ => analysis.place(root)?.size,
    }
}

/// An access that reads nothing under some predicate is not outside then, and
/// a lane whose address is not used never is.
pub(super) fn also_unless(
    group: &Group,
    instruction: &ptx::Instruction<'_>,
    outside: Op<'_>,
    out: &mut String,
) {
    if group.lanes < 32 {
        let lanes = group.lanes;
        line!(
            out,
            "setp.lt.and.u32 {outside}, {LANE}, {lanes}, {outside};"
        );
    }
    if let Extent::BytesUnless(_, operand) = group.extent {
        match instruction.operands.get(operand).map(|o| &o.kind) {
            Some(OperandKind::Name(ignore)) => outside_only(outside, ignore, true, out),
            Some(OperandKind::Not(reads)) => outside_only(outside, reads, false, out),
            _ => {}
        }
    }
}
