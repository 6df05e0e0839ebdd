//! Walks over a body once, in text order, and puts each edit of the plan at its
//! position.

use super::demand::About;
use super::emit::{Emit, Reports};
use super::plan::{Call, Plan, Planned};
use super::predicated_off::{Results, guard};
use super::strings::CheckedPrint;
use super::text::*;
use super::window::FailurePolicy;
use crate::device_heap::{HeapCall, may_free, redirect};
use crate::patch::{Patch, line};
use crate::protocol::RESULT;
use analysis::Return;
use model::layout::LAUNCH_PARAMETER;
use ptx::{Mnemonic, Modifier, OperandKind, Span};
use rustc_hash::FxHashMap;
use std::fmt::Write;
use std::iter::{Peekable, Zip};
use std::ops::{Range, RangeFrom};
use std::slice::Iter;

/// Writes the edits of a body; returns the code for its top.
pub(super) fn emit(
    about: About<'_, '_, '_>,
    plan: &Plan,
    reports: Reports<'_>,
    heap: Heap<'_>,
    source: &str,
    patch: &mut Patch,
) -> String {
    let mut emit = Emit::of(about, plan, reports);
    emit.body(heap, source, patch);
    let mut head = String::new();
    emit.head(&mut head);
    head
}

/// Calls of `malloc` and `free`, which are redirected.
#[derive(Clone, Copy)]
pub(super) struct Heap<'x> {
    pub(super) calls: &'x [HeapCall],
    pub(super) tag: u64,
    /// Blocks may be freed while this function uses their bounds.
    pub(super) frees: bool,
}

/// The position of the walk in each list that is ordered by instruction.
struct Cursors<'x> {
    heap: Heap<'x>,
    heap_calls: Peekable<Iter<'x, HeapCall>>,
    planned: Peekable<Iter<'x, Planned>>,
    calls: Peekable<Zip<RangeFrom<u32>, Iter<'x, Call>>>,
    prints: Peekable<Iter<'x, CheckedPrint>>,
    returned_bounds: Peekable<Iter<'x, Return>>,
    /// Calls, by the first instruction of their sequences.
    starts: FxHashMap<u32, u32>,
    /// Calls and the names of their results, by the loads of these.
    loads: FxHashMap<u32, (u32, Span)>,
    /// Definitions by `ld.param` whose code is delayed to the end of their run:
    /// the results of a call must be read before the next call.
    waiting: Vec<u32>,
    /// Blocks may have been freed.
    stale: bool,
}

impl<'x> Cursors<'x> {
    fn of(plan: &'x Plan, heap: Heap<'x>) -> Self {
        let calls = (0..).zip(&plan.calls);
        let has_bounds = calls.clone().filter(|(_, call)| call.result_bytes > 0);
        let returned_bounds = if plan.launch {
            &plan.returned_bounds.stores[..]
        } else {
            &[]
        };
        Cursors {
            heap,
            heap_calls: heap.calls.iter().peekable(),
            planned: plan.accesses.iter().peekable(),
            prints: plan.prints.iter().peekable(),
            returned_bounds: returned_bounds.iter().peekable(),
            starts: calls
                .clone()
                .map(|(number, call)| (call.first, number))
                .collect(),
            loads: has_bounds
                .flat_map(|(number, call)| {
                    let loads = call.loads.iter();
                    loads.map(move |&(load, span)| (load, (number, span)))
                })
                .collect(),
            calls: calls.peekable(),
            waiting: Vec::new(),
            stale: false,
        }
    }
}

impl<'x> Emit<'x, '_, '_> {
    fn body(&mut self, heap: Heap<'x>, source: &str, patch: &mut Patch) {
        let mut at = Cursors::of(self.plan, heap);
        let quick = self.quick_loops(heap.frees);
        let mut loops = quick.iter().peekable();
        // (Where a loop has a quick copy, the loop itself seldom runs.)
        let tried = self.tried(
            0..self.analysis.code.instructions.len(),
            &self.plan.accesses,
        );
        let is_rare = |code: &Range<usize>| quick.iter().any(|quick| quick.holds(code.start));
        let tried: Vec<Range<usize>> = tried.into_iter().filter(|code| !is_rare(code)).collect();
        let mut starts = tried.iter().peekable();
        let mut ends = tried.iter().peekable();
        for index in 0..self.analysis.code.instructions.len() {
            let inst = &self.analysis.code.instructions[index];
            let instruction = inst.instruction;
            if let Some(quick) = loops.peek().filter(|quick| quick.begins_at(index)) {
                self.quick_copy(quick, source, patch);
            }
            let mnemonic = instruction.opcode.mnemonic();
            if matches!(mnemonic, Mnemonic::Ret | Mnemonic::Exit | Mnemonic::Trap) {
                patch.insert(inst.attached_from, |out| {
                    self.report(instruction.guard, out)
                });
            }
            if self.open_loops.contains(&(index as u32)) {
                patch.insert(inst.attached_from, |out| self.count_rounds(out));
            }
            if self.may_end_in.contains(&(index as u32)) {
                patch.insert(inst.attached_from, |out| self.report_before_end(out));
            }
            if let Some(code) = starts.next_if(|code| code.start == index) {
                let planned = &self.plan.accesses;
                self.try_first(code, ("", source), planned, patch);
            }
            self.calls_at(index, &mut at, patch);
            self.accesses_at(index, &mut at.planned, patch);
            if let Some(code) = ends.next_if(|code| code.end == index + 1) {
                patch.insert(instruction.span.end, |out| {
                    Self::end_of_tried(code, "", out)
                });
                self.last_owner = None;
            }
            self.definitions_at(index, &mut at, patch);
            if let Some(quick) = loops.next_if(|quick| quick.ends_at(index)) {
                patch.insert(instruction.span.end, |out| quick.end(out));
            }
        }
        self.end(patch);
    }

    /// The code around calls: the bounds of arguments and results.
    fn calls_at(&mut self, index: usize, at: &mut Cursors<'x>, patch: &mut Patch) {
        let inst = &self.analysis.code.instructions[index];
        let instruction = inst.instruction;
        if let Some(call) = at
            .heap_calls
            .next_if(|call| call.instruction as usize == index)
        {
            let load = |out: &mut String| {
                line!(out, "ld.param.b64 {SCRATCH}, [{LAUNCH_PARAMETER}];");
                crate::protocol::register::SCRATCH
            };
            let launch: Option<&dyn Fn(&mut String) -> &'static str> =
                if self.plan.launch { Some(&load) } else { None };
            redirect(call, at.heap.tag, inst.attached_from, launch, patch);
        }
        if let Some(&number) = at.starts.get(&(index as u32)) {
            patch.insert(inst.attached_from, |out| self.before_call(number, out));
        }
        if let Some(print) = at
            .prints
            .peek()
            .filter(|print| print.first as usize == index)
        {
            patch.insert(inst.attached_from, |out| self.before_print(print, out));
        }
        if let Some((number, call)) = at
            .calls
            .next_if(|(_, call)| call.instruction as usize == index)
        {
            self.call(number, call, inst.attached_from, patch);
        }
        while let Some(returned) = at
            .returned_bounds
            .next_if(|returned| returned.stored.instruction as usize == index)
        {
            patch.insert(inst.attached_from, |out| {
                self.store_bounds(returned.stored, returned.offset, out)
            });
        }
        if let Some(&(number, name)) = at.loads.get(&(index as u32)) {
            patch.edit(name.start, name.end, |out| {
                let _ = write!(out, "{RESULT}{number}");
            });
            patch.insert(instruction.span.end, |out| {
                out.push_str("\n\t");
                self.receive(index as u32, out);
            });
        }
    }

    /// Checks of accesses, and the code for accesses that fail.
    pub(super) fn accesses_at(
        &mut self,
        index: usize,
        planned: &mut Peekable<Iter<'_, Planned>>,
        patch: &mut Patch,
    ) {
        let inst = &self.analysis.code.instructions[index];
        let instruction = inst.instruction;
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
            std::iter::from_fn(|| accesses.next_if(|p| p.instruction as usize == index)).collect();
        let predicated_off = self.predicated_off(&of_this, inst, patch);
        if self.reports.traps && of_this.iter().any(|access| access.leads) {
            patch.insert(inst.attached_from, |out| self.trap(out));
        }
        let results = predicated_off.and_then(|_| Results::of(&self.analysis.code, index));
        if let Some(predicated_off) = predicated_off {
            if let Some(results) = &results {
                patch.insert(inst.attached_from, |out| {
                    results.before(predicated_off.verdict, out);
                });
            }
            guard(predicated_off, instruction, patch);
        }
        while let Some(access) = planned.next_if(|p| p.instruction as usize == index) {
            if access.policy == FailurePolicy::Redirected
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
        if let (Some(predicated_off), Some(results)) = (predicated_off, results) {
            patch.insert(instruction.span.end, |out| {
                results.after(predicated_off.verdict, out);
            });
        }
    }

    /// Bounds of the values that an instruction defines.
    fn definitions_at(&mut self, index: usize, at: &mut Cursors<'x>, patch: &mut Patch) {
        let code = &self.analysis.code;
        let instruction = code.instructions[index].instruction;
        if self.made.contains_key(&(index as u32)) {
            at.waiting.push(index as u32);
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
            && self.analysis.cfg.block_of.get(index) == self.analysis.cfg.block_of.get(index + 1);
        at.stale |= at.heap.frees && may_free(instruction);
        if !at.waiting.is_empty() && !run_goes_on {
            patch.insert(instruction.span.end, |out| {
                out.push_str("\n\t");
                for &made in &at.waiting {
                    self.after(made, out);
                }
            });
            at.waiting.clear();
        }
        if let Some(print) = at.prints.next_if(|print| print.last as usize == index) {
            patch.insert(instruction.span.end, |out| self.after_print(print, out));
        }
        if at.stale && !read_first {
            patch.insert(instruction.span.end, |out| self.refresh(out));
            self.refreshed = true;
            at.stale = false;
        }
    }
}
