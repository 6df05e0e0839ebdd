//! Bounds that are defined in the middle of a body: those of values that appear
//! on the device, and those in shadow registers.

use super::emit::Emit;
use super::pieces::{limit, lookup, outside_only, reg};
use super::source::is_of_text;
use super::text::*;
use super::window::mapped_place;
use crate::patch::line;
use analysis::{BYTES_REGISTER, Definition, Expr, Origin, Root, RootId, Term, ValueId};
use model::layout::UNBOUNDED;
use ptx::{Guard, OperandKind};

impl<'a> Emit<'_, '_, 'a> {
    /// The code after a definition: bounds of the roots that it defines, then
    /// shadows.
    pub(super) fn after(&self, instruction: u32, out: &mut String) {
        let Some(made) = self.made.get(&instruction) else {
            return;
        };
        let code = &self.analysis.code;
        let guard = code.instructions[instruction as usize].instruction.guard;
        for &(root, value) in &made.roots {
            let Some(pointer) = self.name_of(value) else {
                continue;
            };
            let (base, size) = (Op::Family(ROOT_BASE, root.0), Op::Family(ROOT_SIZE, root.0));
            match self.analysis.provenance.root(root) {
                Some(Root::Declared { .. }) => {
                    line!(out, "mov.b64 {base}, {pointer};");
                    line!(out, "mov.b64 {size}, {BYTES_REGISTER};");
                }
                Some(Root::Field { parent, .. }) => {
                    self.field(value, instruction, parent, (base, size), out);
                }
                Some(Root::Alloca { .. }) => {
                    self.allocated(instruction, pointer, base, size, out);
                }
                Some(Root::Mapped { .. }) => {
                    self.mapped(instruction, value, pointer, (base, size), out);
                }
                _ => {
                    let is_result = self.plan.result_bounds.contains_key(&value);
                    if !is_result {
                        lookup(Op::Program(pointer), guard, base, size, out);
                    }
                    self.only_own_frame(pointer, guard, (base, size), is_result, out);
                    if !is_result {
                        self.narrow(pointer, guard, (base, size), out);
                    }
                }
            }
            self.limits_of(root, out);
        }
        for &value in &made.values {
            self.shadow(value, guard, out);
        }
    }

    /// A pointer that appears in an entry and points into local memory points
    /// into the entry's own frame, or into the frame of a function that has
    /// returned. (Unless that function returned the bounds with it.)
    fn only_own_frame(
        &self,
        pointer: &str,
        guard: Option<Guard<'a>>,
        (base, size): (Op<'_>, Op<'_>),
        is_result: bool,
        out: &mut String,
    ) {
        let Some(own) = self.plan.own_frame else {
            return;
        };
        line!(out, "isspacep.local {OUTSIDE}, {pointer};");
        if is_result {
            line!(
                out,
                "setp.eq.and.s64 {OUTSIDE}, {size}, {UNBOUNDED}, {OUTSIDE};"
            );
        }
        if let Some(guard) = guard {
            outside_only(OUTSIDE, guard.register, guard.negated, out);
        }
        let Some((frame, bytes)) = own.frame else {
            line!(out, "@{OUTSIDE} mov.b64 {base}, {pointer};");
            line!(out, "@{OUTSIDE} mov.b64 {size}, 0;");
            return;
        };
        let name = self.analysis.code.symbols[frame.0 as usize].name;
        line!(out, "mov.u64 {SCRATCH}, {name};");
        line!(out, "cvta.local.u64 {SCRATCH}, {SCRATCH};");
        line!(out, "sub.s64 {SCRATCH2}, {pointer}, {SCRATCH};");
        line!(out, "setp.le.u64 {OTHER}, {SCRATCH2}, {bytes};");
        line!(out, "selp.b64 {SCRATCH}, {SCRATCH}, {pointer}, {OTHER};");
        line!(out, "selp.b64 {SCRATCH2}, {bytes}, 0, {OTHER};");
        line!(out, "@{OUTSIDE} mov.b64 {base}, {SCRATCH};");
        line!(out, "@{OUTSIDE} mov.b64 {size}, {SCRATCH2};");
    }

    /// Bounds of the field whose element an addition makes the address of:
    /// the field's own where it lies within its parent's bounds, else those.
    fn field(
        &self,
        value: ValueId,
        instruction: u32,
        parent: RootId,
        (base, size): (Op<'_>, Op<'_>),
        out: &mut String,
    ) {
        let whole = self.root_bounds(parent);
        let operands = &self.analysis.code.instructions[instruction as usize]
            .instruction
            .operands;
        let field = self.analysis.provenance.field(value);
        let address =
            field.and_then(
                |field| match operands.get(usize::from(field.operand))?.kind {
                    OperandKind::Name(name) => Some((name, field.bytes)),
                    _ => None,
                },
            );
        let Some((address, bytes)) = address else {
            line!(out, "mov.b64 {base}, {};", whole.0);
            line!(out, "mov.b64 {size}, {};", whole.1);
            return;
        };
        line!(out, "sub.s64 {OFFSET}, {address}, {};", whole.0);
        let less = bytes - 1;
        let room = match whole.1 {
            Op::Constant(size) => Op::Constant(size.max(less) - less),
            size => {
                limit(SCRATCH, size, less, out);
                SCRATCH
            }
        };
        line!(out, "setp.ge.u64 {OUTSIDE}, {OFFSET}, {room};");
        line!(out, "selp.b64 {base}, {}, {address}, {OUTSIDE};", whole.0);
        line!(out, "selp.b64 {size}, {}, {bytes}, {OUTSIDE};", whole.1);
    }

    /// Bounds of the memory that `alloca` returned.
    fn allocated(
        &self,
        instruction: u32,
        pointer: &str,
        base: Op<'_>,
        size: Op<'_>,
        out: &mut String,
    ) {
        let operands = &self.analysis.code.instructions[instruction as usize]
            .instruction
            .operands;
        line!(out, "cvta.local.u64 {base}, {pointer};");
        match operands.get(1).map(|o| &o.kind) {
            Some(OperandKind::Name(bytes)) => line!(out, "mov.b64 {size}, {bytes};"),
            Some(OperandKind::Integer(bytes)) => line!(out, "mov.b64 {size}, {bytes};"),
            _ => line!(out, "mov.b64 {size}, {UNBOUNDED};"),
        }
    }

    /// Bounds, in another block, of the variable whose address `mapa` maps
    /// there: the result, minus the operand's offset from the own variable.
    fn mapped(
        &self,
        instruction: u32,
        value: ValueId,
        pointer: &str,
        (base, size): (Op<'_>, Op<'_>),
        out: &mut String,
    ) {
        let code = &self.analysis.code;
        let operands = &code.instructions[instruction as usize].instruction.operands;
        let (Some((place, in_space)), Some(OperandKind::Name(own))) = (
            mapped_place(self.analysis, value),
            operands.get(1).map(|o| &o.kind),
        ) else {
            return;
        };
        let is_narrow = self
            .analysis
            .ssa
            .value(value)
            .is_some_and(|value| code.is_narrow(value.register));
        if in_space {
            if is_narrow {
                line!(out, "cvt.u64.u32 {base}, {pointer};");
                line!(out, "mov.b32 {POINTER32}, {own};");
            } else {
                line!(out, "mov.b64 {base}, {pointer};");
                line!(out, "cvt.u32.u64 {POINTER32}, {own};");
            }
            line!(out, "cvta.shared::cluster.u64 {base}, {base};");
            line!(
                out,
                "sub.s32 {OFFSET32}, {POINTER32}, {};",
                Op::Family(IN_SPACE, place.0)
            );
            line!(out, "cvt.s64.s32 {SCRATCH}, {OFFSET32};");
            line!(out, "sub.s64 {base}, {base}, {SCRATCH};");
        } else {
            line!(
                out,
                "sub.s64 {SCRATCH}, {own}, {};",
                Op::Family(ROOT_BASE, place.0)
            );
            line!(out, "sub.s64 {base}, {pointer}, {SCRATCH};");
        }
        match self.constant_size(place) {
            Some(bytes) => line!(out, "mov.b64 {size}, {bytes};"),
            None => line!(out, "cvt.u64.u32 {size}, {DYNAMIC};"),
        }
    }

    /// Base and size of a root, as operands.
    pub(super) fn root_bounds(&self, root: RootId) -> (Op<'a>, Op<'a>) {
        let base = Op::Family(ROOT_BASE, root.0);
        match self.constant_size(root) {
            Some(size) => (base, Op::Constant(size)),
            None => (base, Op::Family(ROOT_SIZE, root.0)),
        }
    }

    /// Base and size that a definition copies its bounds from.
    fn term_bounds(&self, term: Term) -> (Op<'a>, Op<'a>) {
        let anything = (Op::Constant(0), Op::Constant(UNBOUNDED));
        match (self.analysis.provenance.origin_of(term), term) {
            (Origin::Pointer { root, .. }, _)
                if self.plan.needed.contains(&root)
                    // (Under shadow memory, bounds of parameters are for proofs and shortcuts.)
                    && (self.plan.shadow.is_none()
                        || is_of_text(self.analysis, self.nameable, root)) =>
            {
                self.root_bounds(root)
            }
            (Origin::Several { .. }, Term::Value(value)) => {
                let register = self.analysis.ssa.value(value).map(|v| v.register);
                match register.and_then(|register| self.shadows.get(&register)) {
                    Some(&number) => (
                        Op::Family(SHADOW_BASE, number),
                        Op::Family(SHADOW_SIZE, number),
                    ),
                    None => anything,
                }
            }
            (Origin::Null | Origin::Undefined, _) => (Op::Constant(0), Op::Constant(0)),
            // Another space, or nothing that is followed.
            _ => anything,
        }
    }

    /// Sets the shadow of a register where the register is set.
    fn shadow(&self, value: ValueId, guard: Option<Guard<'a>>, out: &mut String) {
        let Some(register) = self.analysis.ssa.value(value).map(|v| v.register) else {
            return;
        };
        let (Some(&number), Some(expr)) = (
            self.shadows.get(&register),
            self.analysis.provenance.expr(value),
        ) else {
            return;
        };
        let own = (
            Op::Family(SHADOW_BASE, number),
            Op::Family(SHADOW_SIZE, number),
        );
        let under = Under(guard);
        let terms = self.analysis.carried(expr);
        // Zero is an address like others in a window.
        let is_narrow = self.analysis.code.is_narrow(register);
        let bounds: Vec<_> = terms
            .iter()
            .map(|&term| match self.term_bounds(term) {
                (_, Op::Constant(0)) if is_narrow => (Op::Constant(0), Op::Constant(UNBOUNDED)),
                bounds => bounds,
            })
            .collect();
        match (expr, bounds.as_slice()) {
            (_, [one]) if *one == own => {}
            (_, [(base, size)]) => {
                line!(out, "{under}mov.b64 {}, {base};", own.0);
                line!(out, "{under}mov.b64 {}, {size};", own.1);
            }
            (Expr::Select(..), [first, second]) => {
                let Some(predicate) = self.predicate_of(value) else {
                    return;
                };
                line!(
                    out,
                    "{under}selp.b64 {}, {}, {}, {predicate};",
                    own.0,
                    first.0,
                    second.0
                );
                line!(
                    out,
                    "{under}selp.b64 {}, {}, {}, {predicate};",
                    own.1,
                    first.1,
                    second.1
                );
            }
            (_, [first, second]) => {
                // Of two candidates, the one that points into an allocation. If
                // both do, neither: the address itself is looked up.
                let size = reg(first.1, SCRATCH, out);
                line!(out, "setp.eq.s64 {OUTSIDE}, {size}, 0;");
                let size = reg(second.1, SCRATCH, out);
                line!(out, "setp.ne.and.s64 {OTHER}, {size}, 0, !{OUTSIDE};");
                line!(
                    out,
                    "selp.b64 {SCRATCH}, {}, {}, {OUTSIDE};",
                    second.0,
                    first.0
                );
                line!(
                    out,
                    "selp.b64 {SCRATCH2}, {}, {}, {OUTSIDE};",
                    second.1,
                    first.1
                );
                line!(out, "{under}selp.b64 {}, 0, {SCRATCH}, {OTHER};", own.0);
                line!(out, "{under}selp.b64 {}, 0, {SCRATCH2}, {OTHER};", own.1);
            }
            _ => {}
        }
    }

    /// The predicate operand of the `selp` that makes a value.
    fn predicate_of(&self, value: ValueId) -> Option<&'a str> {
        let Definition::Instruction { instruction, .. } =
            self.analysis.ssa.value(value)?.definition
        else {
            return None;
        };
        match self.analysis.code.instructions[instruction as usize]
            .instruction
            .operands
            .get(3)?
            .kind
        {
            OperandKind::Name(name) => Some(name),
            _ => None,
        }
    }
}
