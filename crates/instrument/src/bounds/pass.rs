//! Writes the bounds that are passed to checked copies, and those that they
//! return.
//!
//! A copy takes bounds as a launch does: after its own parameters, preceded by
//! the launch's number (`model::layout::LAUNCH_PARAMETER`). It returns bounds
//! after its own result, whose offset does not change.

use super::emit::Emit;
use super::indirect::Through;
use super::pieces::lookup_in;
use super::plan::Call;
use super::text::*;
use super::window::{OwnFrame, frame};
use crate::patch::{Patch, line, put};
use crate::protocol::{CALLED, PASSED, PROTOTYPE, RESULT, TARGET};
use crate::support::prototype;
use analysis::{Origin, Root, Stored};
use model::layout::{CHECKED_PREFIX, LAUNCH_PARAMETER, LaunchBounds, LaunchHeader};
use ptx::OperandKind;

/// Constants below this are treated as null pointers with an offset.
const NULL: i64 = 4096;

impl<'a> Emit<'_, '_, 'a> {
    /// The bounds of a value where it is stored, unless they are empty and the
    /// value is in doubt; `None` if they must be looked up.
    fn bounds_of(&self, stored: Stored) -> Option<(Op<'a>, Op<'a>)> {
        let Some(value) = stored.value else {
            let constant = match self.operand_of(stored) {
                Some(OperandKind::Integer(constant)) => *constant,
                _ => 0,
            };
            let is_null = (-NULL..NULL).contains(&constant);
            return is_null.then_some((Op::Constant(0), Op::Constant(0)));
        };
        match self.analysis.provenance.origin(value) {
            Origin::Pointer { mut root, .. } => {
                // Bounds of the whole object: the callee could not tell that
                // the pointer was to a field.
                while let Some(Root::Field { parent, .. }) = self.analysis.provenance.root(root) {
                    root = parent;
                }
                self.plan
                    .needed
                    .contains(&root)
                    .then(|| self.root_bounds(root))
            }
            Origin::Several { .. } => {
                let register = self.analysis.ssa.value(value)?.register;
                let number = *self.shadows.get(&register)?;
                Some((
                    Op::Family(SHADOW_BASE, number),
                    Op::Family(SHADOW_SIZE, number),
                ))
            }
            Origin::Null | Origin::Undefined => Some((Op::Constant(0), Op::Constant(0))),
            _ => None,
        }
    }

    /// Whether empty bounds may belong to a value that is no pointer.
    fn is_in_doubt(&self, stored: Stored) -> bool {
        let provenance = &self.analysis.provenance;
        let origin = stored.value.map(|value| provenance.origin(value));
        origin.is_some_and(Origin::is_in_doubt)
    }

    fn operand_of(&self, stored: Stored) -> Option<&OperandKind<'a>> {
        let inst = &self.analysis.code.instructions[stored.instruction as usize];
        match &inst.instruction.operands.get(1)?.kind {
            OperandKind::Vector(elements) => Some(&elements.get(usize::from(stored.element))?.kind),
            kind => Some(kind),
        }
    }

    /// The stored value, as an operand.
    fn text_of(&self, stored: Stored) -> Op<'a> {
        match self.operand_of(stored) {
            Some(OperandKind::Name(name)) => Op::Program(name),
            Some(OperandKind::Integer(constant)) => Op::Constant(*constant as u64),
            _ => Op::Constant(0),
        }
    }

    /// Looks up the bounds of arguments that are unknown, or empty and in
    /// doubt. Does so before the first argument is stored: another call must
    /// not stand between the stores and their call.
    pub(super) fn before_call(&mut self, number: u32, out: &mut String) {
        let plan = self.plan;
        let call = &plan.calls[number as usize];
        if let Some(through) = &call.through {
            line!(out, "{{");
            line!(out, ".param .b64 __ringfence_0, __ringfence_1;");
            line!(out, "st.param.b64 [__ringfence_0], {};", self.called(call));
            line!(
                out,
                "call (__ringfence_1), {TARGET}{}, (__ringfence_0);",
                through.class
            );
            line!(
                out,
                "ld.param.b64 {}, [__ringfence_1];",
                Op::Family(CALLEE, number)
            );
            line!(out, "}}");
        }
        for (index, &stored) in call.passed.iter().enumerate() {
            let known = self.bounds_of(stored);
            if known.is_some() && !self.is_in_doubt(stored) {
                continue;
            }
            let place = self.passed.len() as u32;
            self.passed.insert((number, index as u32), place);
            let pointer = match self.text_of(stored) {
                constant @ Op::Constant(_) => {
                    line!(out, "mov.b64 {SCRATCH}, {constant};");
                    SCRATCH
                }
                register => register,
            };
            match known {
                Some(bounds) => self.unless_empty((pointer, 0), bounds, None, out),
                None => lookup_in(pointer, None, out),
            }
            line!(
                out,
                "mov.b64 {}, {WEAK_BASE};",
                Op::Family(PASSED_BASE, place)
            );
            line!(
                out,
                "mov.b64 {}, {WEAK_SIZE};",
                Op::Family(PASSED_SIZE, place)
            );
        }
    }

    /// The address that the program calls.
    fn called(&self, call: &Call) -> Op<'a> {
        let inst = &self.analysis.code.instructions[call.instruction as usize];
        let mut operands = inst.instruction.operands.iter();
        let name = operands.find_map(|operand| match operand.kind {
            OperandKind::Name(name) => Some(name),
            _ => None,
        });
        name.map_or(Op::Constant(0), Op::Program)
    }

    /// Redirects a call to the checked copy.
    pub(super) fn call(&self, number: u32, call: &Call, attached_from: u32, patch: &mut Patch) {
        let (header, each) = (size_of::<LaunchHeader>(), size_of::<LaunchBounds>());
        let size_at = std::mem::offset_of!(LaunchBounds, size);
        let bounds = header + each * call.passed.len();
        let bytes = bounds
            + if call.takes_called {
                CALLED as usize
            } else {
                0
            };
        patch.insert(attached_from, |out| {
            line!(out, ".param .align 8 .b8 {PASSED}{number}[{bytes}];");
            if call.result_bytes > 0 {
                line!(
                    out,
                    ".param .align {} .b8 {RESULT}{number}[{}];",
                    call.result_alignment,
                    call.result_bytes
                );
            }
            if self.plan.launch {
                line!(out, "ld.param.b64 {SCRATCH}, [{LAUNCH_PARAMETER}];");
                line!(out, "st.param.b64 [{PASSED}{number}], {SCRATCH};");
            } else {
                line!(out, "st.param.b64 [{PASSED}{number}], 0;");
            }
            for (index, &stored) in call.passed.iter().enumerate() {
                let looked_up = self.passed.get(&(number, index as u32));
                let (base, size) = match (looked_up, self.bounds_of(stored)) {
                    (Some(&place), _) => (
                        Op::Family(PASSED_BASE, place),
                        Op::Family(PASSED_SIZE, place),
                    ),
                    (None, Some(bounds)) => bounds,
                    (None, None) => (Op::Constant(0), Op::Constant(0)),
                };
                let at = header + each * index;
                line!(out, "st.param.b64 [{PASSED}{number}+{at}], {base};");
                line!(
                    out,
                    "st.param.b64 [{PASSED}{number}+{}], {size};",
                    at + size_at
                );
            }
            if call.takes_called {
                let called = match call.through {
                    Some(_) => self.called(call),
                    None => Op::Constant(0),
                };
                line!(out, "st.param.b64 [{PASSED}{number}+{bounds}], {called};");
            }
            if let Some(Through { signature, .. }) = &call.through {
                prototype(signature, bytes as u32, call.result_bytes, number, out);
            }
        });
        if let (Some(result), true) = (call.result, call.result_bytes > 0) {
            patch.edit(result.start, result.end, |out| {
                put(out, format_args!("{RESULT}{number}"));
            });
        }
        match &call.through {
            None => patch.insert(call.name_at, |out| out.push_str(CHECKED_PREFIX)),
            Some(through) => patch.edit(through.register.start, through.register.end, |out| {
                put(out, format_args!("{}", Op::Family(CALLEE, number)));
            }),
        }
        let (at, before, behind) = call.argument_at;
        patch.insert(at, |out| {
            put(out, format_args!("{before}{PASSED}{number}{behind}"));
        });
        if let Some(Through { prototype, .. }) = &call.through {
            patch.edit(prototype.start, prototype.end, |out| {
                put(out, format_args!("{PROTOTYPE}{number}"));
            });
        }
    }

    /// Reads the returned bounds of the value that an instruction loads.
    pub(super) fn receive(&self, instruction: u32, out: &mut String) {
        let Some(made) = self.made.get(&instruction) else {
            return;
        };
        let size_at = std::mem::offset_of!(LaunchBounds, size) as u32;
        for &(root, value) in &made.roots {
            let Some(result_bounds) = self.plan.result_bounds.get(&value) else {
                continue;
            };
            let (call, at) = (result_bounds.call, result_bounds.at);
            line!(
                out,
                "ld.param.b64 {}, [{RESULT}{call}+{at}];",
                Op::Family(ROOT_BASE, root.0)
            );
            line!(
                out,
                "ld.param.b64 {}, [{RESULT}{call}+{}];",
                Op::Family(ROOT_SIZE, root.0),
                at + size_at
            );
        }
    }

    /// Stores the bounds of a returned value. A pointer into the function's own
    /// frame has no bounds after the return.
    pub(super) fn store_bounds(&mut self, stored: Stored, offset: u32, out: &mut String) {
        let analysis = self.analysis;
        let (Some(place), Some(result)) = (
            self.plan.returned_bounds.place(offset),
            analysis.code.function.returns.first(),
        ) else {
            return;
        };
        let pointer = self.text_of(stored);
        match (self.is_own(stored), self.bounds_of(stored)) {
            (true, _) => {
                line!(out, "mov.b64 {GIVEN_BASE}, {pointer};");
                line!(out, "mov.b64 {GIVEN_SIZE}, 0;");
            }
            (false, Some((base, size))) => {
                let (returned, size) = if self.is_in_doubt(stored) {
                    self.unless_empty((pointer, 0), (base, size), None, out);
                    (WEAK_BASE, WEAK_SIZE)
                } else {
                    (base, size)
                };
                line!(out, "mov.b64 {GIVEN_BASE}, {returned};");
                line!(out, "mov.b64 {GIVEN_SIZE}, {size};");
                if let Op::Family(SHADOW_BASE, _) = base {
                    self.take_back_own(pointer, out);
                }
            }
            (false, None) => {
                line!(out, "mov.b64 {SCRATCH2}, {pointer};");
                lookup_in(SCRATCH2, None, out);
                line!(out, "mov.b64 {GIVEN_BASE}, {WEAK_BASE};");
                line!(out, "mov.b64 {GIVEN_SIZE}, {WEAK_SIZE};");
            }
        }
        let name = result.name;
        let size_at = std::mem::offset_of!(LaunchBounds, size) as u32;
        line!(out, "st.param.b64 [{name}+{place}], {GIVEN_BASE};");
        line!(
            out,
            "st.param.b64 [{name}+{}], {GIVEN_SIZE};",
            place + size_at
        );
    }

    /// Whether the stored value points into the function's own frame.
    fn is_own(&self, stored: Stored) -> bool {
        let provenance = &self.analysis.provenance;
        let Some(Origin::Pointer { root, .. }) = stored.value.map(|value| provenance.origin(value))
        else {
            return false;
        };
        match provenance.root(root) {
            Some(Root::Alloca { .. }) => true,
            Some(Root::Whole { symbol } | Root::Part { symbol, .. }) => {
                let space = self.analysis.code.symbols[symbol.0 as usize].space;
                space == analysis::SymbolSpace::Local
            }
            _ => false,
        }
    }

    /// The same test, at run time.
    fn take_back_own(&self, pointer: Op<'_>, out: &mut String) {
        let code = &self.analysis.code;
        let Some(OwnFrame {
            frame: Some((symbol, bytes)),
        }) = frame(code, self.nameable)
        else {
            return;
        };
        let name = code.symbols[symbol.0 as usize].name;
        line!(out, "mov.u64 {SCRATCH}, {name};");
        line!(out, "cvta.local.u64 {SCRATCH}, {SCRATCH};");
        line!(out, "sub.s64 {SCRATCH}, {GIVEN_BASE}, {SCRATCH};");
        line!(out, "setp.ge.u64 {OTHER}, {SCRATCH}, {bytes};");
        line!(
            out,
            "selp.b64 {GIVEN_BASE}, {GIVEN_BASE}, {pointer}, {OTHER};"
        );
        line!(out, "selp.b64 {GIVEN_SIZE}, {GIVEN_SIZE}, 0, {OTHER};");
    }
}
