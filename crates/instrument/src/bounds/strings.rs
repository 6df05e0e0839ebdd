//! Strings that device-side `printf` reads. Just before the call, a function
//! reads each as the call will, up to its terminator, its precision or the end
//! of its bounds. Where a string leaves its bounds, the pointer among the
//! arguments is replaced by that of an empty string for the time of the call.

use super::demand::About;
use super::emit::Emit;
use super::pieces::lookup_in;
use super::plan::{Base, Plan, Planner, Source};
use super::text::*;
use crate::error::Error;
use crate::patch::line;
use crate::protocol;
use crate::sites::{NewSite, Sites};
use analysis::{Argument, Lost, PRINTF, Reference, Referent, Role, printing};
use model::layout::READ_SINK;
use model::printf::Most;
use model::{AccessKind, Provenance, SiteId, Space};
use ptx::OperandKind;

/// A call of `printf` whose strings are checked.
#[derive(Debug)]
pub(super) struct CheckedPrint {
    pub(super) instruction: u32,
    /// See [`analysis::Print`].
    pub(super) buffer: u32,
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) strings: Vec<CheckedString>,
}

/// One string.
#[derive(Debug)]
pub(super) struct CheckedString {
    pub(super) argument: Argument,
    /// Number in the function.
    pub(super) number: u32,
    /// The source of its bounds, if they are known with the pointer.
    pub(super) source: Option<Source>,
    /// See [`super::plan::Group::in_doubt`].
    pub(super) in_doubt: bool,
    pub(super) site: SiteId,
}

impl Planner<'_, '_, '_> {
    /// Plans the strings that an instruction prints.
    pub(super) fn print(&mut self, index: usize, sites: &mut Sites<'_>) -> Result<(), Error> {
        let analysis = self.analysis;
        let printing = printing(analysis, self.symbols, self.texts, index);
        let Some(printing) = printing else {
            return Ok(());
        };
        if printing.is_cut_off {
            self.unchecked_of(PRINTF);
        }
        let Some(print) = printing.print else {
            return Ok(());
        };
        let before = self.plan.prints.iter().map(|print| print.strings.len());
        let mut number: usize = before.sum();
        let mut strings = Vec::new();
        for argument in print.strings {
            let inst = &analysis.code.instructions[index];
            let held = argument.pointer.map(|(register, value)| {
                let reference = Reference {
                    operand: 0,
                    element: 0,
                    role: Role::Read,
                    referent: Referent::Wide(register),
                    value,
                };
                (self.source(&reference, true), value)
            });
            let (source, base) = match held {
                // A parameter's own memory, for one, has no bounds here.
                Some((None, _)) => {
                    self.unchecked_of(PRINTF);
                    continue;
                }
                Some((Some((base, source)), _)) => (source, Some(base)),
                None => (Source::Weak, None),
            };
            if !self.is_asked_for(source, None) {
                continue;
            }
            if sites.are_full() {
                return Err(Error::TooManySites);
            }
            let in_doubt = base.is_some_and(|base| self.is_in_doubt(base, source));
            let provenance = match base {
                _ if in_doubt => Provenance::Several,
                Some(base) => self.provenance(source, base),
                // The device finds the pointer in memory.
                None => Provenance::Lookup,
            };
            let site = sites.add(NewSite {
                function: analysis.code.function.name,
                kind: AccessKind::Read,
                space: Space::Generic,
                width: 1,
                width_at_run_time: false,
                offset: 0,
                is_wide: false,
                alignment: 1,
                skipped: 0,
                provenance,
                object: base.and_then(|base| self.object(source, base)),
                loc: inst.loc,
                span: inst.instruction.span,
            });
            match (provenance, base) {
                (Provenance::Unknown, Some(Base::Register(value))) => {
                    self.plan.coverage.weak_sites += 1;
                    self.plan.lost.push((site, analysis.lost(value)));
                }
                (Provenance::Unknown, _) => {
                    self.plan.coverage.weak_sites += 1;
                    self.plan.lost.push((site, Lost::NoBounds));
                }
                _ => self.plan.coverage.exact_sites += 1,
            }
            self.plan.records_bounds |= !matches!(provenance, Provenance::KernelParameter { .. });
            strings.push(CheckedString {
                argument,
                number: number as u32,
                source: (source != Source::Weak).then_some(source),
                in_doubt,
                site,
            });
            number += 1;
        }
        if !strings.is_empty() {
            self.plan.prints.push(CheckedPrint {
                instruction: index as u32,
                buffer: print.buffer,
                first: print.first,
                last: print.last,
                strings,
            });
        }
        Ok(())
    }
}

impl Plan {
    /// Notes whose bounds the strings are checked against.
    pub(super) fn need_for_strings(&mut self, about: About<'_, '_, '_>) {
        let strings = self.prints.iter().flat_map(|print| &print.strings);
        let values: Vec<_> = strings
            .filter(|string| string.source.is_some())
            .filter_map(|string| string.argument.pointer)
            .collect();
        for (_, value) in values {
            self.need_value(about, value);
        }
    }
}

impl<'a> Emit<'_, '_, 'a> {
    /// The register with the address of the arguments.
    fn arguments_of(&self, print: &CheckedPrint) -> Option<Op<'a>> {
        let store = self.analysis.code.instructions[print.buffer as usize].instruction;
        match store.operands.get(1)?.kind {
            OperandKind::Name(name) => Some(Op::Program(name)),
            _ => None,
        }
    }

    /// Checks the strings of a call, and replaces those that fail.
    pub(super) fn before_print(&mut self, print: &CheckedPrint, out: &mut String) {
        let Some(arguments) = self.arguments_of(print) else {
            return;
        };
        let call = self.analysis.code.instructions[print.instruction as usize].instruction;
        let under = Under(call.guard);
        for string in &print.strings {
            let (text, at) = (Op::Family(TEXT, string.number), string.argument.at);
            if call.guard.is_some() {
                // Of a string that is not printed, nothing is read.
                line!(out, "mov.b64 {text}, 0;");
            }
            line!(out, "{under}ld.b64 {text}, [{arguments}+{at}];");
            let (base, size) = match string.source {
                None => {
                    lookup_in(text, None, out);
                    (WEAK_BASE, WEAK_SIZE)
                }
                Some(source) if string.in_doubt => {
                    let bounds = self.generic_bounds(source);
                    self.unless_empty((text, 0), bounds, None, out);
                    (WEAK_BASE, WEAK_SIZE)
                }
                Some(source) => self.generic_bounds(source),
            };
            match string.argument.most {
                Most::All => line!(out, "mov.b64 {SCRATCH2}, {};", i64::MAX),
                Most::Bytes(bytes) => {
                    line!(out, "mov.b64 {SCRATCH2}, {};", bytes.min(i64::MAX as u64));
                }
            }
            let cut = Op::Family(CUT, string.number);
            line!(out, "{{");
            line!(
                out,
                ".param .b64 __ringfence_0, __ringfence_1, __ringfence_2, __ringfence_3, __ringfence_4;"
            );
            line!(out, "st.param.b64 [__ringfence_0], {text};");
            line!(out, "st.param.b64 [__ringfence_1], {base};");
            line!(out, "st.param.b64 [__ringfence_2], {size};");
            line!(out, "st.param.b64 [__ringfence_3], {SCRATCH2};");
            line!(
                out,
                "call (__ringfence_4), {}, (__ringfence_0, __ringfence_1, __ringfence_2, __ringfence_3);",
                protocol::TEXT
            );
            line!(out, "ld.param.b64 {OFFSET}, [__ringfence_4];");
            line!(out, "}}");
            match call.guard {
                None => line!(out, "setp.ne.s64 {cut}, {OFFSET}, -1;"),
                Some(guard) => {
                    let not = if guard.negated { "!" } else { "" };
                    let register = guard.register;
                    line!(out, "setp.ne.and.s64 {cut}, {OFFSET}, -1, {not}{register};");
                }
            }
            line!(out, "@{cut} mov.b64 {RECORD_BASE}, {base};");
            line!(out, "@{cut} mov.b64 {RECORD_SIZE}, {size};");
            line!(out, "@{cut} mov.u32 {SITE}, {};", string.site.0);
            line!(out, "@{cut} mov.b64 {ADDRESS}, {OFFSET};");
        }
        if self.reports.traps {
            self.trap(out);
        }
        // An empty string, which lies where reads that fail go.
        for string in &print.strings {
            let (cut, at) = (Op::Family(CUT, string.number), string.argument.at);
            line!(out, "@{cut} st.b64 [{arguments}+{at}], {READ_SINK};");
        }
    }

    /// Puts the arguments back: the program may use them again.
    pub(super) fn after_print(&self, print: &CheckedPrint, out: &mut String) {
        let Some(arguments) = self.arguments_of(print) else {
            return;
        };
        out.push_str("\n\t");
        for string in &print.strings {
            let (cut, at) = (Op::Family(CUT, string.number), string.argument.at);
            let text = Op::Family(TEXT, string.number);
            line!(out, "@{cut} st.b64 [{arguments}+{at}], {text};");
        }
    }
}
