//! Writes the PTX of a plan.
//!
//! A check of an address `a` with constant offsets from `low` on, over `n`
//! bytes, against `base` and `size`: outside exactly if
//! `a + low - base >= max(size, n - 1) - (n - 1)`, unsigned. That holds for
//! every alignment and never wraps: what lies before the base becomes a huge
//! offset, and a size below `n` a limit of zero. (`aligned` says how the same
//! check sees to alignment.)

use super::absence::{guard, zero};
use super::aligned::{Address, Aligned, Limit, or_misaligned};
use super::demand::About;
use super::pieces::{limit, lookup_in, operand_name, outside_only, reg, sink, still};
use super::plan::{Base, Group, Plan, Planned, Source};
use super::source::is_found_on_device;
use super::text::*;
use super::window::Fate;
use crate::device_heap::{HeapCall, may_free, redirect};
use crate::parameters::ParameterSlot;
use crate::patch::{Patch, line};
use crate::protocol::{LABEL_PREFIX, RESULT};
use analysis::{Analysis, Definition, Nameable, Root, RootId, ValueId, WideReg};
use model::layout::{LAUNCH_PARAMETER, UNBOUNDED};
use ptx::table::Extent;
use ptx::{Guard, Mnemonic, Modifier, OperandKind, Span};
use rustc_hash::FxHashMap;
use std::fmt::Write;

/// Writes `head`, for the top of the body, and the edits of the rest.
pub(super) fn emit(
    about: About<'_, '_, '_>,
    plan: &Plan,
    traps: bool,
    heap: Heap<'_>,
    slots: &[ParameterSlot],
    head: &mut String,
    patch: &mut Patch,
) {
    let mut emit = Emit::of(about, plan, traps);
    emit.body(heap, patch);
    emit.head(slots, head);
}

/// Calls of `malloc` and `free`, which are redirected.
#[derive(Clone, Copy)]
pub(super) struct Heap<'x> {
    pub(super) calls: &'x [HeapCall],
    pub(super) tag: u64,
    /// Blocks may be freed while this function holds their bounds.
    pub(super) frees: bool,
}

pub(super) struct Emit<'x, 'm, 'a> {
    pub(super) analysis: &'x Analysis<'m, 'a>,
    pub(super) nameable: &'x Nameable<'x, 'a>,
    pub(super) plan: &'x Plan,
    /// A thread that fails a check traps there.
    pub(super) traps: bool,
    /// Number of each limit register.
    limits: FxHashMap<Limit, u32>,
    /// The same, in order of number.
    pub(super) limit_list: Vec<Limit>,
    pub(super) shadows: FxHashMap<WideReg, u32>,
    /// Roots and shadowed values, by the instruction that makes them.
    pub(super) made: FxHashMap<u32, Made>,
    pub(super) labels: u32,
    /// The group whose verdict the last check before this one used.
    last_owner: Option<u32>,
    /// Bounds are looked at again, so they must have a value from the start.
    pub(super) refreshed: bool,
    /// Numbers of the arguments that are looked up, by call and place in it.
    pub(super) passed: FxHashMap<(u32, u32), u32>,
}

#[derive(Default)]
pub(super) struct Made {
    pub(super) roots: Vec<(RootId, ValueId)>,
    pub(super) values: Vec<ValueId>,
}

impl<'x, 'm, 'a> Emit<'x, 'm, 'a> {
    fn of(About { analysis, nameable }: About<'x, 'm, 'a>, plan: &'x Plan, traps: bool) -> Self {
        let mut emit = Emit {
            analysis,
            nameable,
            plan,
            traps,
            limits: FxHashMap::default(),
            limit_list: Vec::new(),
            shadows: FxHashMap::default(),
            made: FxHashMap::default(),
            labels: 0,
            last_owner: None,
            refreshed: false,
            passed: FxHashMap::default(),
        };
        for group in &plan.groups {
            if let (
                Source::Root(root),
                Extent::Bytes(bytes @ 1..) | Extent::BytesUnless(bytes @ 1.., _),
            ) = (group.source, group.extent)
                && group.window.is_none()
                && !group.in_doubt
                && emit.constant_size(root).is_none()
                && let Some(limit) = group.limit(root, bytes - 1)
            {
                let next = emit.limit_list.len() as u32;
                let list = &mut emit.limit_list;
                emit.limits.entry(limit).or_insert_with(|| {
                    list.push(limit);
                    next
                });
            }
        }
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

    /// The size of a root, where the module's text tells it.
    pub(super) fn constant_size(&self, root: RootId) -> Option<u64> {
        constant_size(self.analysis, root)
    }

    fn body(&mut self, heap: Heap<'_>, patch: &mut Patch) {
        let code = &self.analysis.code;
        let mut planned = self.plan.accesses.iter().peekable();
        let mut heap_calls = heap.calls.iter().peekable();
        let mut stale = false;
        let starts: FxHashMap<u32, u32> = (0..)
            .zip(&self.plan.calls)
            .map(|(number, call)| (call.first, number))
            .collect();
        let loads: FxHashMap<u32, (u32, Span)> = (0..)
            .zip(&self.plan.calls)
            .filter(|(_, call)| call.result_bytes > 0)
            .flat_map(|(number, call)| {
                let loads = call.loads.iter();
                loads.map(move |&(load, span)| (load, (number, span)))
            })
            .collect();
        let mut calls = (0..).zip(&self.plan.calls).peekable();
        let mut prints = self.plan.prints.iter().peekable();
        let gives = if self.plan.launch {
            &self.plan.gives.stores[..]
        } else {
            &[]
        };
        let mut gives = gives.iter().peekable();
        // Definitions by `ld.param` that wait for the end of their run: the
        // results of a call are to be read before the next call.
        let mut waiting: Vec<u32> = Vec::new();
        for index in 0..code.instructions.len() {
            let inst = &code.instructions[index];
            let instruction = inst.instruction;
            let mnemonic = instruction.opcode.mnemonic();
            if matches!(mnemonic, Mnemonic::Ret | Mnemonic::Exit | Mnemonic::Trap) {
                patch.insert(inst.attached_from, |out| {
                    self.report(instruction.guard, out)
                });
            }
            if let Some(call) = heap_calls.next_if(|call| call.instruction as usize == index) {
                let load = |out: &mut String| {
                    line!(out, "ld.param.b64 {SCRATCH}, [{LAUNCH_PARAMETER}];");
                    crate::protocol::register::SCRATCH
                };
                let launch: Option<&dyn Fn(&mut String) -> &'static str> =
                    if self.plan.launch { Some(&load) } else { None };
                redirect(call, heap.tag, inst.attached_from, launch, patch);
            }
            if let Some(&number) = starts.get(&(index as u32)) {
                patch.insert(inst.attached_from, |out| self.before_call(number, out));
            }
            if let Some(print) = prints.peek().filter(|print| print.first as usize == index) {
                patch.insert(inst.attached_from, |out| self.before_print(print, out));
            }
            if let Some((number, call)) =
                calls.next_if(|(_, call)| call.instruction as usize == index)
            {
                self.call(number, call, inst.attached_from, patch);
            }
            while let Some(given) =
                gives.next_if(|given| given.stored.instruction as usize == index)
            {
                patch.insert(inst.attached_from, |out| {
                    self.give(given.stored, given.offset, out)
                });
            }
            if let Some(&(number, name)) = loads.get(&(index as u32)) {
                patch.edit(name.start, name.end, |out| {
                    let _ = write!(out, "{RESULT}{number}");
                });
                patch.insert(instruction.span.end, |out| {
                    out.push_str("\n\t");
                    self.receive(index as u32, out);
                });
            }
            let mut checked = planned.clone();
            while let Some(access) = checked.next_if(|p| p.instruction as usize == index) {
                if access.leads {
                    let group = &self.plan.groups[access.group as usize];
                    patch.insert(inst.attached_from, |out| {
                        self.check(access.group, group, index, access.operand, out)
                    });
                }
            }
            let mut accesses = planned.clone();
            let of_this: Vec<&Planned> =
                std::iter::from_fn(|| accesses.next_if(|p| p.instruction as usize == index))
                    .collect();
            let absence = self.absence(&of_this, inst, patch);
            if self.traps && of_this.iter().any(|access| access.leads) {
                patch.insert(inst.attached_from, |out| self.trap(out));
            }
            if let Some(absence) = absence {
                guard(absence, instruction, patch);
            }
            while let Some(access) = planned.next_if(|p| p.instruction as usize == index) {
                if access.fate == Fate::Redirected
                    && let Some(OperandKind::Address(address)) =
                        instruction.operands.get(access.operand).map(|o| &o.kind)
                {
                    let span = address.base_span;
                    let register = Op::Family(REDIRECTED, access.group);
                    patch.edit(span.start, span.end, |out| {
                        let _ = write!(out, "{register}");
                    });
                }
            }
            if let Some(absence) = absence {
                zero(absence.verdict, inst, patch);
            }
            if self.made.contains_key(&(index as u32)) {
                waiting.push(index as u32);
            }
            let in_run = |i: usize| {
                code.instructions.get(i).is_some_and(|next| {
                    let opcode = &next.instruction.opcode;
                    opcode.mnemonic() == Mnemonic::Ld
                        && (opcode.has(Modifier::Param) || opcode.has(Modifier::ParamFunc))
                })
            };
            let run_goes_on = in_run(index)
                && in_run(index + 1)
                && self.analysis.cfg.block_of[index] == self.analysis.cfg.block_of[index + 1];
            let read_first = in_run(index + 1)
                && self.analysis.cfg.block_of.get(index)
                    == self.analysis.cfg.block_of.get(index + 1);
            stale |= heap.frees && may_free(instruction);
            if !waiting.is_empty() && !run_goes_on {
                patch.insert(instruction.span.end, |out| {
                    out.push_str("\n\t");
                    for &made in &waiting {
                        self.after(made, out);
                    }
                });
                waiting.clear();
            }
            if let Some(print) = prints.next_if(|print| print.last as usize == index) {
                patch.insert(instruction.span.end, |out| self.after_print(print, out));
            }
            if stale && !read_first {
                patch.insert(instruction.span.end, |out| self.refresh(out));
                self.refreshed = true;
                stale = false;
            }
        }
        self.end(patch);
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
    fn refresh(&self, out: &mut String) {
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
    fn end(&mut self, patch: &mut Patch) {
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
    }

    /// The limits that depend on one root's size.
    pub(super) fn limits_of(&self, root: RootId, out: &mut String) {
        for (number, known) in self.limit_list.iter().enumerate() {
            if known.root == root {
                let register = Op::Family(LIMIT, number as u32);
                limit(register, Op::Family(ROOT_SIZE, root.0), known.less, out);
                if let Some(pointer) = known.pointer {
                    self.limit_unless_aligned(register, pointer, out);
                }
            }
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
    fn check(
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
            self.check_in_window(number, group, window, (index, operand), name, out);
            return;
        }
        let pointer = match group.base {
            Base::Register(_) => Op::Program(name),
            Base::Symbol(_) => {
                line!(out, "mov.u64 {redirected}, {name};");
                redirected
            }
        };
        // The verdict of a twin still stands in the predicate that keeps it.
        let owner = group.twin.unwrap_or(number);
        let outside = match self.plan.groups[owner as usize].keeps {
            Some(kept) => Op::Family(KEPT, kept),
            None => OUTSIDE,
        };
        let low = group.low;
        let (base, size) = match group.source {
            Source::Declared(size) => (pointer, Op::Constant(size)),
            Source::Weak => {
                // A variable's own address tells its bounds; any other
                // address only tells where it points itself.
                let probe = match group.base {
                    Base::Register(_) if low != 0 => {
                        line!(out, "add.s64 {OFFSET}, {pointer}, {low};");
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
        };
        if group.twin.is_none() {
            line!(out, "sub.s64 {OFFSET}, {pointer}, {base};");
            if low != 0 {
                line!(out, "add.s64 {OFFSET}, {OFFSET}, {low};");
            }
            match group.extent {
                Extent::Bytes(bytes) | Extent::BytesUnless(bytes, _) => {
                    let less = bytes - 1;
                    let limit = match (group.source, size) {
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
                    };
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
        // The host knows the bounds that it gave to the launch itself.
        let host_knows = match group.source {
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
        };
        // Right after its twin, all but the site is in place already.
        let again = group.twin.is_some() && self.last_owner == Some(owner);
        self.last_owner = Some(owner);
        if !host_knows && !again {
            line!(out, "@{outside} mov.b64 {RECORD_BASE}, {base};");
            line!(out, "@{outside} mov.b64 {RECORD_SIZE}, {size};");
        }
        line!(out, "@{outside} mov.u32 {SITE}, {};", group.site.0);
        if !again {
            line!(out, "@{outside} mov.b64 {ADDRESS}, {pointer};");
        }
        if group.redirects {
            line!(
                out,
                "selp.b64 {redirected}, {}, {pointer}, {outside};",
                sink(group)
            );
        }
    }

    /// The bounds of the source, or those of the address if the source's are
    /// empty: then what was taken for the pointer was none. Lanes whose bounds
    /// are not empty skip the call.
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
        if let Extent::Steps { step, last, .. } = group.extent {
            line!(out, "mul.wide.u32 {SCRATCH}, {count}, {step};");
            line!(out, "add.s64 {SCRATCH}, {SCRATCH}, {last};");
        } else {
            line!(out, "cvt.u64.u32 {SCRATCH}, {count};");
        }
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

/// The size of a root, where the module's text tells it.
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
    if let Extent::BytesUnless(_, operand) = group.extent
        && let Some(ignore) = operand_name(instruction, operand)
    {
        outside_only(outside, ignore, true, out);
    }
}
